"""Reader of the legacy feed's tables with the templates, columns and meanings of the binary feed.

Code that uses it need not know which feed delivered a channel's day. A legacy snapshot, one message
whose rows are its entries, becomes a header, orders and statistics; legacy phases and states become
rows of the binary feed's messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pregao.arrays import BoolArray, Int64Array
from pregao.book.update_rows import NULL
from pregao.feed.book_updates import NUMBER_OF_ORDERS
from pregao.feed.legacy.book_updates import SIDES, number_of
from pregao.lake.books.columns import integers, nulled, prices, take
from pregao.lake.books.legacy_messages import (
    ENTRY_COLUMNS,
    INCREMENTAL,
    NUMBERS_AS_TEXTS,
    SNAPSHOT_COLUMNS,
    STATISTICS,
    EntryColumns,
    as_numbers,
    key_columns,
    messages_of,
    named,
    names_of,
    or_null,
    side_column,
)
from pregao.lake.books.legacy_versions import TimeSlots
from pregao.lake.books.reader import (
    ENTRIES,
    INSTRUMENTS,
    LEGACY,
    LISTED,
    SNAPSHOTS,
    SOURCES,
    STATUSES,
    InputFiles,
    InputReader,
    InputTable,
    SecurityRange,
    Serials,
    in_serials,
)
from pregao.lake.ingest.protocols.umdf import bundled_message_tables, message_table_name
from pregao.lake.ingest.registry import PROTOCOLS
from pregao.lake.storage.filesystem import Location
from pregao.legacy.bulk import times_of
from pregao.legacy.times import FIRST_WITH_MILLISECONDS
from pregao.umdf.streams import Stream
from pregao.umdf.templates import (
    CHANNEL_RESET,
    ORDER,
    SECURITY_GROUP_PHASE,
    SECURITY_STATUS,
    SNAPSHOT_HEADER,
    SNAPSHOT_ORDERS,
)

LOOP_VERSION = 1
"""Loops have no versions; their numbers restart where one ends."""

STATUS_COLUMNS: Final = (
    "channel", "stream", "sequence_version", "index_in_packet", "sending_time_ns",
    "capture_time_ns", "feed", "feed_difference_ns", "capture_id", "msg_seq_num", "security_id",
    "security_group", "security_exchange", "trading_session_id", "trading_session_sub_id",
    "security_trading_status", "security_trading_event", "transact_time", "trad_ses_open_time",
)  # fmt: skip
"""Columns read of ``legacy_security_status``."""
HOME: Final = "BVMF"
"""Exchange whose groups are named by code alone: codes repeat between exchanges."""

_LIST_COLUMNS = (
    "security_id", "symbol", "security_group", "sending_time_ns", "index_in_packet", "stream",
    "security_update_action",
)  # fmt: skip
_ROWS_PER_SNAPSHOT_MESSAGE = 5
"""Planning estimate of snapshot entries per message of the snapshot stream."""
_MAX_LEVELS = (1 << 16) - 1


# --- Snapshots ---


class SnapshotEntries:
    """Snapshots of some instruments, assembled from their rows."""

    def __init__(
        self,
        rows: Any,
        slots: TimeSlots,
        market_depth: int = 0,
        *,
        seconds: Collection[int] = (),
    ) -> None:
        """``market_depth`` is the number of levels in the snapshots; 0 if they have orders. For
        ``seconds`` see `EntryColumns`.
        """
        entries = EntryColumns(rows)
        captures = set(rows.column("capture_id").unique().to_pylist()) - {None}
        rank = {text: at for at, text in enumerate(sorted(captures))}
        order = np.lexsort(
            (
                entries.entry,
                entries.value("capture_id", lambda text: rank.get(text, -1), np.int64),
                entries.numbers("capture_time_ns"),
                entries.number,
                entries.numbers("sending_time_ns"),
                entries.numbers("security_id", 0),
            )
        )
        self.entries = EntryColumns(take(rows, order), levels=market_depth > 0, seconds=seconds)
        self.slots = slots
        begins: BoolArray = self.entries.entry == 0
        if len(begins):
            begins[0] = True
        self._begins = np.flatnonzero(begins)
        self._message = np.cumsum(begins) - 1
        # An entry that no book can have makes its snapshot incomplete, as does one of another
        # depth.
        self._of_book = np.isin(self.entries.type, list(SIDES))
        own: BoolArray = self.entries.numbers("market_depth", 0) == market_depth
        self._whole = self._of_book & own & ~self.entries.unreadable
        self._stat = np.isin(self.entries.template, STATISTICS)

    def table(self, template: int) -> Any:
        """Return the rows of a template of the snapshot stream."""
        if template == SNAPSHOT_HEADER:
            return self._headers()
        if template == SNAPSHOT_ORDERS:
            return self._orders()
        kept = np.flatnonzero(self._stat & (self.entries.template == template))
        found = messages_of(self.entries, template, kept)
        return _looped(found, self.entries.entry[kept] + 2)

    def _count(self, which: BoolArray) -> Int64Array:
        return np.bincount(self._message[which], minlength=len(self._begins))

    def _headers(self) -> Any:
        entries, kept = self.entries, self._begins
        last = entries.numbers("last_msg_seq_num_processed", 0)[kept]
        # PUMA counts the message, MEGABOLSA each entry (002 §15.2).
        counts = np.zeros(len(kept), np.int64)
        np.maximum.at(counts, self._message, entries.numbers("rpt_seq", 0))
        sides = [self._of_book & (entries.type == letter) for letter in SIDES]
        sent = entries.numbers("sending_time_ns")[kept]
        values = {
            "last_msg_seq_num_processed": pa.array(last),
            "tot_num_reports": nulled(entries.numbers("tot_num_reports")[kept]),
            "tot_num_bids": pa.array(self._count(sides[0])),
            "tot_num_offers": pa.array(self._count(sides[1])),
            "tot_num_stats": pa.array(self._count(self._stat)),
            "last_rpt_seq": pa.array(counts),
            "last_sequence_version": pa.array(self.slots.held_as_of(sent, last)),
        }
        keys = key_columns(entries, kept)
        return _looped(pa.table({**keys, **values}), np.zeros(len(kept), np.int64))

    def _orders(self) -> Any:
        entries = self.entries
        kept = np.flatnonzero(self._whole)
        sizes = self._count(self._whole)
        with_orders = np.flatnonzero(sizes)
        keys = key_columns(entries, self._begins[with_orders])
        offsets = np.concatenate([[0], np.cumsum(sizes[with_orders])]).astype(np.int32)
        order_id = integers(as_numbers(take(entries.rows.column("order_id"), kept)))
        members = {
            "md_entry_px": prices(entries.price[kept]),
            "md_entry_size": nulled(entries.numbers("md_entry_size")[kept]),
            "entering_firm": nulled(entries.firm[kept]),
            "md_insert_timestamp_ns": nulled(entries.inserted_ns[kept]),
            "secondary_order_id": nulled(order_id),
            "md_entry_type": side_column(entries, kept),
            "match_event_indicator": pa.array(entries.indicator[kept]),
            "md_entry_position_no": nulled(entries.position[kept]),
            NUMBER_OF_ORDERS: nulled(entries.numbers("number_of_orders")[kept]),
        }
        struct = pa.StructArray.from_arrays(list(members.values()), list(members))
        lists = pa.ListArray.from_arrays(pa.array(offsets), struct)
        table = pa.table({**keys, "no_md_entries": lists})
        return _looped(table, np.ones(len(with_orders), np.int64))


def _looped(table: Any, index: Int64Array) -> Any:
    """Return rows as those of the snapshot stream: without a version, after their header."""
    count = table.num_rows
    changed = {
        "stream": pa.DictionaryArray.from_arrays(
            pa.array(np.zeros(count, np.int32)), pa.array([Stream.SNAPSHOT.value])
        ),
        "sequence_version": pa.array(np.full(count, LOOP_VERSION, np.int32)),
        "index_in_packet": pa.array(index),
        "event": pa.nulls(count, pa.int64()),
    }
    columns = {name: changed.get(name, table.column(name)) for name in table.column_names}
    return pa.table(columns)


# --- Phases and states ---


def group_text(rows: Any) -> Any:
    """Return the groups of rows: their codes, with the exchange if it is not `HOME`."""
    codes = rows.column("security_group").cast(pa.string()).to_pylist()
    exchanges = [None] * len(codes)
    if "security_exchange" in rows.column_names:
        exchanges = rows.column("security_exchange").cast(pa.string()).to_pylist()
    return pa.array(
        [
            code if code is None or exchange in (None, HOME) else f"{code} {exchange}"
            for code, exchange in zip(codes, exchanges, strict=True)
        ],
        pa.string(),
    )


def statuses_of(rows: Any, template: int, slots: Mapping[int, TimeSlots] | None = None) -> Any:
    """Return the states of instruments, or the phases of groups."""
    entries = EntryColumns(rows, slots)
    group = group_text(entries.rows)
    of_group = np.array([bool(each) for each in group.to_pylist()], np.bool_)
    kept = np.flatnonzero(~of_group if template == SECURITY_STATUS else of_group)
    phases = entries.value(
        "trading_session_sub_id", lambda text: or_null(number_of(text)), np.int64
    )
    states = entries.numbers("security_trading_status")
    columns = {
        "match_event_indicator": pa.array(np.zeros(len(kept), np.int64)),
        "trading_session_id": named(
            entries.numbers("trading_session_id"), names_of("TradingSessionID"), kept
        ),
        "security_trading_event": named(
            entries.numbers("security_trading_event"), names_of("SecurityTradingEvent"), kept
        ),
        "transact_time_ns": _times(entries, "transact_time", kept),
        "trad_ses_open_time_ns": _times(entries, "trad_ses_open_time", kept),
    }
    keys = key_columns(entries, kept)
    if template == SECURITY_STATUS:
        columns["security_trading_status"] = named(states, names_of("SecurityTradingStatus"), kept)
        return pa.table({**keys, **columns})
    codes = np.where(phases == NULL, states, phases)
    columns["trading_session_sub_id"] = named(codes, names_of("TradingSessionSubID"), kept)
    columns["security_group"] = take(group, kept)
    without = {name: own for name, own in keys.items() if name not in ("security_id", "rpt_seq")}
    return pa.table({**without, **columns})


def _times(entries: EntryColumns, name: str, kept: np.ndarray[Any, Any]) -> Any:
    found = times_of(entries.numbers(name, 0)[kept])
    return nulled(np.where(found > 0, found, NULL))


# --- Reader ---


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

    def has_seconds(self) -> bool:
        """Whether the channel's times of day have no milliseconds: none of them is so large.

        PUMA's have them, MEGABOLSA's do not (002 §15.11), and the feed does not name the platform.
        """
        timed = False
        for source in (ENTRIES, SNAPSHOTS):
            for rows in super().pieces(source, ["md_entry_time"], SecurityRange()):
                column = rows.column(0)
                texts = not pa.types.is_integer(column.type)
                times = integers(as_numbers(column.cast(pa.string())) if texts else column, -1)
                if (times >= FIRST_WITH_MILLISECONDS).any():
                    return False
                timed |= bool((times >= 0).any())
        return timed

    @property
    def _seconds(self) -> tuple[int, ...]:
        return (self.inputs.channel,) if self.inputs.seconds else ()

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
            self._entries[part] = (
                None
                if rows is None
                else EntryColumns(rows, slots, levels=levels, seconds=self._seconds)
            )
        return self._entries[part]

    def _read_snapshots(self, part: SecurityRange) -> SnapshotEntries | None:
        if part not in self._snapshots:
            rows = self._joined(SNAPSHOTS, SNAPSHOT_COLUMNS, part)
            slots, depth = self.inputs.slots, self.inputs.market_depth
            self._snapshots[part] = (
                None if rows is None else SnapshotEntries(rows, slots, depth, seconds=self._seconds)
            )
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
