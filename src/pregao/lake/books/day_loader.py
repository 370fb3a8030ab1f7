"""Loader of a channel's day: reads message tables into the columns that `feed` needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pregao.arrays import BoolArray, Int64Array, Uint8Array
from pregao.book.update_rows import NULL
from pregao.feed.book_updates import (
    BOOK_TEMPLATES,
    LEVEL_FIELDS,
    ORDER_FIELDS,
    snapshot_columns,
    update_columns,
)
from pregao.feed.columns import ComparedColumns, MessageColumns
from pregao.feed.messages import (
    KEY,
    TIMES,
    BookColumns,
    BookMessages,
    IncrementalColumns,
    ResetColumns,
    key_columns,
    times_of,
)
from pregao.feed.replay.day import ChannelDay
from pregao.feed.replay.snapshots import (
    HEADER_COLUMNS,
    LOOP_KEY,
    LoopRows,
    SnapshotOrders,
    Snapshots,
    snapshot_orders,
)
from pregao.feed.replay.statistics import TRADE_COLUMNS, OtherMessages, PhaseChanges
from pregao.lake.books.columns import checksums, codes, integers, take
from pregao.lake.books.reader import INSTRUMENTS, FlatColumns, InputReader, SecurityRange, Serials
from pregao.lake.storage.commit_unit import DATE
from pregao.lake.storage.fast_parquet.columns import FlatRows
from pregao.umdf.gaps import GapItem
from pregao.umdf.streams import Stream
from pregao.umdf.templates import (
    CHANNEL_RESET,
    EMPTY_BOOK,
    FORWARD_TRADE,
    SECURITY_GROUP_PHASE,
    SECURITY_STATUS,
    SNAPSHOT_HEADER,
    SNAPSHOT_ORDERS,
    TRADE,
    implied_mask,
    implied_masks,
)

VERSION = "schema_version"
ENTRIES = "no_md_entries"
"""List of orders in a message of a snapshot."""
_NOT_READ = frozenset({DATE, "channel", "feed", "feed_difference_ns", "capture_id", VERSION})


class ArrowColumns:
    """Rows of an Arrow table with the column interface of a follower."""

    __slots__ = ("rows",)

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __len__(self) -> int:
        count: int = self.rows.num_rows
        return count

    @property
    def names(self) -> Sequence[str]:
        """Names of the columns."""
        names: Sequence[str] = self.rows.column_names
        return names

    def numbers(self, name: str, null: int = NULL) -> Int64Array:
        """Return a column of integers, dates or decimals as integers."""
        return integers(self.rows.column(name), null)

    def codes(self, name: str, known: Mapping[str, int], other: int) -> Uint8Array:
        """Return the code of each name in a column."""
        return codes(self.rows.column(name), known, other)

    def texts(self, name: str) -> Sequence[str | None]:
        """Return a column of texts."""
        texts: list[str | None] = self.rows.column(name).to_pylist()
        return texts

    def take(self, chosen: Int64Array) -> ArrowColumns:
        """Return some of the rows, in the given order."""
        return ArrowColumns(take(self.rows, chosen))

    def followed_by(self, more: ComparedColumns) -> ArrowColumns:
        """Return these rows followed by others with the same columns."""
        assert isinstance(more, ArrowColumns)
        return ArrowColumns(pa.concat_tables([self.rows, more.rows], promote_options="default"))

    def labels(self, name: str) -> Int64Array:
        """Return a checksum for each text of a column; 0 for null."""
        return checksums(self.rows.column(name))

    def nulls(self, name: str) -> BoolArray:
        """Return where a column is null."""
        flags: BoolArray = self.rows.column(name).is_null().to_numpy()
        return flags

    def unlike(self, name: str, other: ComparedColumns) -> BoolArray:
        """Return where a column differs from that column of as many other rows."""
        assert isinstance(other, ArrowColumns)
        one, two = _plain(self.rows.column(name)), _plain(other.rows.column(name))
        same = pc.fill_null(pc.equal(one, two), False)
        same = pc.or_(same, pc.and_(one.is_null(), two.is_null()))
        unlike: BoolArray = ~same.to_numpy(zero_copy_only=False)
        return unlike

    def value(self, name: str, at: int) -> object:
        """Return one value as a Python object."""
        value: object = self.rows.column(name)[at].as_py()
        return value

    def of_stream(self, stream: Stream) -> ArrowColumns:
        """Return the rows of one stream."""
        wanted = self.codes("stream", {stream.value: 1}, 0) == 1
        return self if wanted.all() else self.take(np.flatnonzero(wanted))

    def about(self, securities: tuple[int, ...] | None) -> ArrowColumns:
        """Return the rows about some instruments; None for all."""
        if securities is None:
            return self
        return self.take(np.flatnonzero(np.isin(self.numbers("security_id"), securities)))


def _plain(column: Any) -> Any:
    """Return a column that can be compared: names as texts, in one chunk."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(pa.string())
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


@dataclass(frozen=True, slots=True)
class DayReader:
    """Reads some instruments of a channel's day."""

    reader: InputReader
    part: SecurityRange
    day: ChannelDay
    schema_version: int | None
    """Schema version of messages that do not state theirs; None if unknown."""
    securities: tuple[int, ...] | None = None
    """Only instruments to read; None for all."""

    def _implied(self, rows: MessageColumns) -> Int64Array:
        """Return the masks of implied orders, by each message's schema version."""
        versions = rows.numbers(VERSION)
        unversioned = versions == NULL
        if not unversioned.any():
            return implied_masks(versions)
        # Rows from before the column existed; without a version no order counts as implied.
        known = 0 if self.schema_version is None else implied_mask(self.schema_version)
        return np.where(unversioned, np.int64(known), implied_masks(versions))

    def messages(self, others: OtherMessages, serials: Serials | None = None) -> IncrementalColumns:
        """Return the incremental messages, not yet in order; ``others`` are of other templates."""
        base, levels = self.day.base, self.day.of_levels
        fields = LEVEL_FIELDS if levels else ORDER_FIELDS
        changing = []
        for template in BOOK_TEMPLATES:
            columns = [*KEY, *TIMES, "rpt_seq", VERSION, *fields[template]]
            if template == EMPTY_BOOK:
                columns = [*KEY, TIMES[-1], "rpt_seq", VERSION]  # legacy ones may be counted
            for found in self.reader.read_columns(template, columns, self.part, serials):
                flat = isinstance(found, FlatRows)
                rows = FlatColumns(found, columns) if flat else ArrowColumns(found)
                books = update_columns(template, rows, self._implied(rows), levels=levels)
                item = GapItem.EMPTIED if template == EMPTY_BOOK else GapItem.MESSAGE
                changing.append(BookMessages(key_columns(rows, base), times_of(rows), books, item))
        keys = others.keys(base)
        if serials is not None:
            keys = [each.within(*serials[1:]) for each in keys]
        messages = IncrementalColumns.from_messages(changing, keys)
        return messages if self.securities is None else messages.about(self.securities)

    def resets(self, serials: Serials | None = None) -> ResetColumns:
        """Return the ChannelResets of the incremental stream, in order."""
        columns = [*KEY[1:], "md_entry_timestamp_ns", "stream"]
        found = self.reader.read(CHANNEL_RESET, columns, None, serials)
        parts = [ArrowColumns(rows).of_stream(Stream.INCREMENTAL) for rows in found]
        return ResetColumns.from_messages(parts, self.day.base)

    def others(self, serials: Serials | None = None, *, values: bool = True) -> OtherMessages:
        """Return the messages that change no book.

        With ``serials``, reads only incremental messages in that range. Without ``values``, reads
        only their keys and counts.
        """
        known = self.reader.inputs.tables
        names = {template: table.name.removeprefix("umdf_") for template, table in known.items()}
        incremental: dict[int, ComparedColumns] = {}
        snapshot: dict[int, ComparedColumns] = {}
        both = self.reader.inputs.statistics
        for template in self.reader.inputs.counted:
            columns = [*KEY, "rpt_seq"]
            if not values:
                columns += ["stream"] * (template in both)
            elif template in both:
                columns += [name for name in known[template].columns if name not in _NOT_READ]
            elif template in (TRADE, FORWARD_TRADE):
                columns += TRADE_COLUMNS
            tables = self.reader.read(template, list(dict.fromkeys(columns)), self.part, serials)
            if not tables:
                continue
            rows = ArrowColumns(
                pa.concat_tables(tables, promote_options="default").unify_dictionaries()
            )
            rows = rows.about(self.securities)
            if template not in both:
                incremental[template] = rows
                continue
            own = rows.of_stream(Stream.INCREMENTAL)
            if len(own):
                incremental[template] = own
            looped = rows.of_stream(Stream.SNAPSHOT)
            if len(looped) and serials is None:
                snapshot[template] = looped.take(LoopRows.from_messages(looped).order())
        return OtherMessages(incremental, snapshot, names)

    def snapshots(self, others: OtherMessages) -> Snapshots | None:
        """Return the snapshots; ``others`` has their statistics."""
        headers = read_headers(self.reader, self.part)
        if headers is None:
            return None
        headers = headers.about(self.securities)
        if not len(headers):
            return None
        orders = self._orders(LoopRows.from_messages(headers))
        day = self.day
        return Snapshots.from_messages(
            headers, orders, others.loop_rows(), day.base, day.spans, of_levels=day.of_levels
        )

    def _orders(self, headers: LoopRows) -> SnapshotOrders:
        columns = [*LOOP_KEY, VERSION, ENTRIES]
        keys, counts, entries = [], [], []
        for rows in self.reader.pieces(SNAPSHOT_ORDERS, columns, self.part):
            keys.append(LoopRows.from_messages(ArrowColumns(rows)))
            counts.append(_counts_of(rows))
            entries.append(self._entries(rows, counts[-1]))
        if not keys:
            return SnapshotOrders.none()
        each = np.concatenate(counts)
        return snapshot_orders(
            headers, LoopRows.concat(keys), np.cumsum(each) - each, each,
            BookColumns.given_away(entries), by_position=self.day.by_position,
        )  # fmt: skip

    def _entries(self, rows: Any, counts: Int64Array) -> BookColumns:
        """Return the orders in the lists of some rows; ``counts`` is the length of each list."""
        # Flatten each chunk of lists: joining them first would copy every order twice.
        structs = [each.flatten() for each in rows.column(ENTRIES).chunks]
        entries = ArrowColumns(
            pa.table(
                {
                    field.name: pa.chunked_array([each.field(field.name) for each in structs])
                    for field in structs[0].type
                }
            )
        )
        masks = self._implied(ArrowColumns(rows))
        # Most days have one version; expand to a mask per order only where it matters.
        one = len(masks) > 0 and bool((masks == masks[0]).all())
        implied = np.broadcast_to(masks[0], len(entries)) if one else np.repeat(masks, counts)
        return snapshot_columns(entries, implied, levels=self.day.of_levels)

    def changes(
        self, others: OtherMessages, securities: Int64Array, groups: Sequence[str | None]
    ) -> PhaseChanges:
        """Return the phases of the instruments' groups and their own states."""
        columns = [*KEY[1:], "stream", "security_group", "security_trading_event"]
        found = self.reader.read(SECURITY_GROUP_PHASE, columns, None)
        phases = [ArrowColumns(rows).of_stream(Stream.INCREMENTAL) for rows in found]
        statuses = others.incremental.get(SECURITY_STATUS)
        return PhaseChanges.from_messages(statuses, phases, securities, groups, self.day.base)

    def instruments(self, securities: Int64Array) -> InstrumentNames:
        """Return symbols and groups of the securities from the day's definitions."""
        symbols: list[str | None] = [None] * len(securities)
        groups: list[str | None] = [None] * len(securities)
        names = ["security_id", "symbol", "security_group"]
        for found in self.reader.read(INSTRUMENTS, names, self.part):
            rows = ArrowColumns(found)
            ids = rows.numbers("security_id")
            ranks = np.searchsorted(securities, ids)
            own_symbols, own_groups = rows.texts("symbol"), rows.texts("security_group")
            for at, rank in enumerate(ranks.tolist()):
                if rank < len(securities) and securities[rank] == ids[at]:
                    symbols[rank], groups[rank] = own_symbols[at], own_groups[at]
        return InstrumentNames(symbols, groups)


@dataclass(slots=True)
class InstrumentNames:
    """Symbols and groups of instruments, by their index among the securities of a task."""

    symbols: list[str | None]
    groups: list[str | None]


def _counts_of(rows: Any) -> Int64Array:
    """Return the number of orders in the list of each row."""
    chunks = rows.column(ENTRIES).chunks
    return np.concatenate([np.diff(integers(each.offsets)) for each in chunks])


def read_headers(reader: InputReader, part: SecurityRange) -> ArrowColumns | None:
    """Return the rows of the snapshots' headers, deduplicated and in order; None without any."""
    tables = reader.read(SNAPSHOT_HEADER, HEADER_COLUMNS, part)
    if not tables:
        return None
    rows = ArrowColumns(pa.concat_tables(tables, promote_options="default"))
    return rows.take(LoopRows.from_messages(rows).order())
