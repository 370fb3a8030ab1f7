"""Reader of the legacy feed's tables with the templates, columns and meanings of the binary feed.

Code that uses it need not know which feed delivered a channel's day.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pregao.book.update_rows import NULL
from pregao.lake.books.columns import integers, nulled, take
from pregao.lake.books.inputs import (
    INSTRUMENTS,
    InputFiles,
    InputReader,
    InputTable,
    SecurityRange,
    Serials,
    in_serials,
)
from pregao.lake.books.legacy_entries import (
    ENTRY_COLUMNS,
    INCREMENTAL,
    NUMBERS_AS_TEXTS,
    SNAPSHOT_COLUMNS,
    STATISTICS,
    EntryColumns,
)
from pregao.lake.books.legacy_messages import messages_of
from pregao.lake.books.legacy_snapshots import SnapshotEntries
from pregao.lake.books.legacy_status import STATUS_COLUMNS, group_text, statuses_of
from pregao.lake.ingest.protocols import PROTOCOLS
from pregao.lake.ingest.umdf.tables import bundled_message_tables, message_table_name
from pregao.lake.store.location import Location
from pregao.umdf.templates import (
    CHANNEL_RESET,
    ORDER,
    SECURITY_GROUP_PHASE,
    SECURITY_STATUS,
    SNAPSHOT_HEADER,
    SNAPSHOT_ORDERS,
)

LEGACY: Final = "legacy"
"""Name of the legacy protocol."""
ENTRIES, SNAPSHOTS, LISTED, STATUSES = -1, -2, -3, -4
SOURCES: Final = {
    "legacy_incremental_refresh": ENTRIES,
    "legacy_snapshot_full_refresh": SNAPSHOTS,
    "legacy_security_list": LISTED,
    "legacy_security_status": STATUSES,
}
"""Its tables, with numbers that no template has."""
_LIST_COLUMNS = (
    "security_id", "symbol", "security_group", "sending_time_ns", "index_in_packet", "stream",
    "security_update_action",
)  # fmt: skip
_ROWS_PER_SNAPSHOT_MESSAGE = 5
"""Planning estimate of snapshot entries per message of the snapshot stream."""
_MAX_LEVELS = (1 << 16) - 1


@cache
def translated_tables() -> dict[int, InputTable]:
    """Return the equivalent legacy tables of the binary feed's templates."""
    known = bundled_message_tables().templates
    names = {template: message_table_name(table.name) for template, table in known.items()}
    specs = {spec.name: spec.schema for spec in PROTOCOLS[LEGACY].tables()}
    nothing = {
        source: specs[name].remove_metadata().empty_table() for name, source in SOURCES.items()
    }
    entries = EntryColumns(nothing[ENTRIES])
    found = {
        source: InputTable(name, (), _texts(specs[name]), specs[name])
        for name, source in SOURCES.items()
    }
    for template in INCREMENTAL:
        columns = messages_of(entries, template).column_names
        if template == CHANNEL_RESET:  # it concerns every instrument
            columns = [name for name in columns if name not in ("security_id", "rpt_seq")]
        name = names.get(template, "legacy_other_entries")
        found[template] = InputTable(name, tuple(columns), frozenset())
    for template in (SECURITY_STATUS, SECURITY_GROUP_PHASE):
        columns = statuses_of(nothing[STATUSES], template).column_names
        found[template] = InputTable(names[template], tuple(columns), frozenset())
    for template in (SNAPSHOT_HEADER, SNAPSHOT_ORDERS):
        found[template] = InputTable(names[template], ("security_id",), frozenset())
    found[INSTRUMENTS] = InputTable("instruments", ("security_id", "symbol"), frozenset())
    return found


def _texts(schema: Any) -> frozenset[str]:
    """Return the text columns whose values repeat."""
    texts = {field.name for field in schema if pa.types.is_string(field.type)}
    return frozenset(texts - NUMBERS_AS_TEXTS)


def open_reader(lake: Location, inputs: InputFiles) -> InputReader:
    """Return the reader for the feed that delivered a channel's day."""
    return LegacyReader(lake, inputs) if inputs.protocol == LEGACY else InputReader(lake, inputs)


class LegacyReader(InputReader):
    """Reads the legacy feed's tables, and caches the rows of each range of instruments."""

    def __init__(self, lake: Location, inputs: InputFiles) -> None:
        super().__init__(lake, inputs)
        self._entries: dict[SecurityRange, EntryColumns | None] = {}
        self._snapshots: dict[SecurityRange, SnapshotEntries | None] = {}

    def read(
        self,
        template: int,
        columns: Sequence[str],
        part: SecurityRange | None,
        serials: Serials | None = None,
    ) -> list[Any]:
        """Return the rows of a template as tables."""
        found = []
        for rows in self._translated(template, part or SecurityRange()):
            selected = rows
            if serials is not None:
                versions = integers(rows.column("sequence_version"))
                numbers = integers(rows.column("sequence_number"), 0)
                selected = take(rows, np.flatnonzero(in_serials(versions, numbers, serials)))
            for name in columns:
                if name not in selected.column_names:
                    selected = selected.append_column(name, pa.nulls(selected.num_rows, pa.int64()))
            if selected.num_rows:
                found.append(selected.select(list(columns)))
        return found

    def read_columns(
        self,
        template: int,
        columns: Sequence[str],
        part: SecurityRange | None,
        serials: Serials | None = None,
    ) -> list[Any]:
        """Return the rows of a template as tables."""
        return self.read(template, columns, part, serials)

    def pieces(self, template: int, columns: Sequence[str], part: SecurityRange) -> Iterator[Any]:
        """Yield the tables of `read` one by one."""
        yield from self.read(template, columns, part)

    def rows_by_security(self, template: int) -> Counter[int]:
        """Return the number of rows of each instrument; all its entries count as orders."""
        counts: Counter[int] = Counter()
        if template == ORDER:
            counts = super().rows_by_security(ENTRIES)
        elif template == SNAPSHOT_ORDERS:
            rows = super().rows_by_security(SNAPSHOTS)
            counts.update({own: -(-n // _ROWS_PER_SNAPSHOT_MESSAGE) for own, n in rows.items()})
        excluded = {0, NULL, *self.inputs.excluded}
        only = self.inputs.only
        return Counter(
            {
                own: n
                for own, n in counts.items()
                if own not in excluded and (only is None or own in only)
            }
        )

    def depths(self) -> tuple[dict[int, int], int | None]:
        """Return the number of levels in snapshots by instrument (002 §9); 0 where they have
        orders.

        The second value is the number for instruments without a snapshot: a channel has one kind of
        book, which is that of most of its snapshots. Without snapshots, an entry with the number of
        orders of a level shows that there are levels, but not how many: None.
        """
        found: dict[int, int] = {}
        for rows in super().read(SNAPSHOTS, ["security_id", "market_depth"], SecurityRange()):
            depth = np.clip(integers(rows.column("market_depth"), 0), 0, _MAX_LEVELS)
            pairs = np.unique(integers(rows.column("security_id")) * (_MAX_LEVELS + 1) + depth)
            for security, shown in zip(*np.divmod(pairs, _MAX_LEVELS + 1), strict=True):
                found[int(security)] = max(found.get(int(security), 0), int(shown))
        if found:
            return found, Counter(found.values()).most_common(1)[0][0]
        counted = super().read(ENTRIES, ["number_of_orders"], SecurityRange())
        levels = any(rows.column(0).null_count < rows.num_rows for rows in counted)
        return found, None if levels else 0

    def _translated(self, template: int, part: SecurityRange) -> Iterator[Any]:
        if template == INSTRUMENTS:
            yield from self._listed(part)
        elif template in (SECURITY_STATUS, SECURITY_GROUP_PHASE):
            for rows in super().read(STATUSES, STATUS_COLUMNS, None):
                slots = {self.inputs.channel: self.inputs.slots}
                yield self._own(statuses_of(rows, template, slots), part)
        elif template == CHANNEL_RESET:
            entries = self._read_entries(SecurityRange(0, 0))
            if entries is not None:
                yield messages_of(entries, template)
        else:
            if template in INCREMENTAL:
                entries = self._read_entries(part)
                if entries is not None:
                    yield messages_of(entries, template)
            if template in (*STATISTICS, SNAPSHOT_HEADER, SNAPSHOT_ORDERS):
                snapshots = self._read_snapshots(part)
                if snapshots is not None:
                    yield snapshots.table(template)

    def _read_entries(self, part: SecurityRange) -> EntryColumns | None:
        if part not in self._entries:
            rows = self._joined(ENTRIES, ENTRY_COLUMNS, part)
            slots = {self.inputs.channel: self.inputs.slots}
            levels = self.inputs.market_depth > 0
            self._entries[part] = None if rows is None else EntryColumns(rows, slots, levels=levels)
        return self._entries[part]

    def _read_snapshots(self, part: SecurityRange) -> SnapshotEntries | None:
        if part not in self._snapshots:
            rows = self._joined(SNAPSHOTS, SNAPSHOT_COLUMNS, part)
            slots, depth = self.inputs.slots, self.inputs.market_depth
            self._snapshots[part] = None if rows is None else SnapshotEntries(rows, slots, depth)
        return self._snapshots[part]

    def _joined(self, source: int, columns: Sequence[str], part: SecurityRange) -> Any | None:
        tables = [self._own(rows, part) for rows in super().read(source, columns, part)]
        tables = [rows.select(list(columns)) for rows in tables if rows.num_rows]
        return (
            pa.concat_tables(tables, promote_options="default").unify_dictionaries()
            if tables
            else None
        )

    def _own(self, rows: Any, part: SecurityRange) -> Any:
        """Return the rows about instruments of a part that are not excluded."""
        if "security_id" not in rows.column_names:
            return rows
        securities = integers(rows.column("security_id"), 0)
        wanted = (securities >= part.first) & (securities <= part.last)
        if self.inputs.excluded:
            wanted &= ~np.isin(securities, list(self.inputs.excluded))
        if self.inputs.only is not None:
            wanted &= np.isin(securities, list(self.inputs.only))
        return rows if wanted.all() else take(rows, np.flatnonzero(wanted))

    def _listed(self, part: SecurityRange) -> Iterator[Any]:
        """Yield the instruments by their last definitions."""
        rows = self._joined(LISTED, _LIST_COLUMNS, part)
        if rows is None:
            return
        rows = rows.combine_chunks()
        securities = integers(rows.column("security_id"))
        order = np.lexsort(
            (
                integers(rows.column("index_in_packet")),
                integers(rows.column("sending_time_ns")),
                securities,
            )
        )
        last = order[np.append(np.diff(securities[order]) != 0, True)]
        yield pa.table(
            {
                "security_id": nulled(securities[last]),
                "symbol": take(rows.column("symbol"), last),
                "security_group": group_text(take(rows, last)),
            }
        )
