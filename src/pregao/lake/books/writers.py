"""Output of a replay: files of ticks, and of checkpoints of full books, written incrementally."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pregao.arrays import Int64Array, Uint8Array
from pregao.book.replay import FullBook, TickColumns
from pregao.book.update_rows import NULL
from pregao.feed.replay.sequence import InstrumentSequence, SequenceRows
from pregao.feed.replay.snapshots import Snapshots
from pregao.feed.replay.statistics import (
    OtherMessages,
    PhaseChanges,
    PriceLimits,
    StatisticColumns,
    StatisticReader,
)
from pregao.lake.books.checkpoints import REASONS, checkpoint_rows, side_lists
from pregao.lake.books.columns import named, nulled, prices
from pregao.lake.books.schemas import (
    CHECKPOINTS,
    SIDE_LEVELS,
    SIDE_ORDERS,
    level_columns,
    ticks_spec,
)
from pregao.lake.books.ticks import (
    STATES,
    BookCounts,
    TickBuffer,
    as_table,
    message_columns,
    tick_table,
)
from pregao.lake.storage.commit_unit import TableSpec
from pregao.lake.storage.filesystem import Location, unique_name
from pregao.lake.storage.parquet import (
    INDEXED_COLUMNS,
    ROW_GROUP,
    ColumnBounds,
    WrittenFile,
    bounds_of,
    stored_schema,
    table_writer,
)
from pregao.units import iso_day

_DELTA_CODED = {
    "sequence_number",
    "index_in_packet",
    "event",
    "event_time_ns",
    "sending_time_ns",
    "capture_time_ns",
    "trade_volume",
    "rpt_seq",
    "loop_number",
}
_ORDER_LEAVES = ("order_id", "insert_time_ns")

ORDERS_PER_ROW_GROUP = 50_000


class DayFile:
    """File of one day of a table, created with its first rows."""

    def __init__(self, lake: Location, spec: TableSpec, day: int, depth: int = 0) -> None:
        self.spec = spec
        self.schema = stored_schema(spec.schema)
        self.rows = 0
        self._lake = lake
        self._day = day
        self._levels = frozenset(level_columns(depth))
        self._deep = self._levels - set(level_columns(1))
        # Readers of the log expect bounds of all its leading columns.
        leading = spec.schema.names[:INDEXED_COLUMNS]
        self._bounds = {name: ColumnBounds(0) for name in leading if name in self._deep}
        self._path = f"date={iso_day(day)}/{unique_name('part', '.parquet')}"
        self._sink: Any = None
        self._writer: Any = None

    def write(self, rows: Any, row_group: int = ROW_GROUP) -> None:
        """Write a table as separate row groups of at most `row_group` rows."""
        if not rows.num_rows:
            return
        if self._writer is None:
            self._open(rows.schema)
        self._writer.write_table(rows, row_group_size=row_group)
        self.rows += rows.num_rows
        for name, bounds in self._bounds.items():
            self._bounds[name] = bounds.with_more(bounds_of(rows.column(name)))

    def _open(self, schema: Any) -> None:
        location = self._lake.join(self.spec.name, self._path)
        location.filesystem.create_dir(location.parent.path, recursive=True)
        self._sink = location.filesystem.open_output_stream(location.path)
        leaves = self._leaves()
        self._writer = table_writer(
            self._sink,
            schema,
            delta_coded=[
                leaf for leaf in leaves if leaf in _DELTA_CODED or leaf.endswith(_ORDER_LEAVES)
            ],
            # Queries do not filter by the fifth level: its bounds are not worth computing.
            bounded=[leaf for leaf in leaves if leaf not in self._deep],
        )

    def _leaves(self) -> list[str]:
        found = []
        for entry in self.schema:
            if entry.name in (*SIDE_ORDERS, *SIDE_LEVELS) and entry.type.num_fields:
                members = entry.type.value_type
                found += [f"{entry.name}.list.element.{member.name}" for member in members]
            else:
                found.append(entry.name)
        return found

    def close(self) -> WrittenFile | None:
        """Finish the file and return its description; None if there were no rows."""
        if self._writer is None:
            return None
        self._writer.close()
        size = self._sink.tell()
        self._sink.close()
        location = self._lake.join(self.spec.name, self._path)
        metadata = pq.read_metadata(location.path, filesystem=location.filesystem)
        return WrittenFile(
            self.spec.name, self._path, int(size), self.rows, self._day, metadata, self._bounds
        )

    def discard(self) -> None:
        """Discard the file."""
        if self._writer is not None:
            self._writer.close()
            self._sink.close()
            self._lake.join(self.spec.name, self._path).delete()
            self._writer = None


class BookWriter:
    """Writes the ticks and checkpoints of a task, window by window."""

    def __init__(
        self,
        lake: Location,
        day: int,
        channel: int,
        base: int,
        depth: int,
        interval_ns: int,
        securities: Int64Array,
        symbols: list[str | None],
        changes: PhaseChanges,
        others: OtherMessages,
        snapshots: Snapshots | None,
    ) -> None:
        self.channel = channel
        self.base = base
        self.depth = depth
        self.interval_ns = interval_ns
        self.symbols = symbols
        self.changes = changes
        self.others = others
        self.snapshots = snapshots
        self.securities = securities
        self.counts = BookCounts(len(securities))
        self.ticks = DayFile(lake, ticks_spec(depth), day, depth)
        self.checkpoints = DayFile(lake, CHECKPOINTS, day)
        self._held = TickBuffer(ROW_GROUP, depth)
        self._tick_statistics, self._checkpoint_statistics = StatisticReader(), StatisticReader()
        self._before: tuple[Int64Array, ...] | None = None
        """Context of the last row of the previous window."""
        self._updates = 0
        self._context: tuple[Int64Array, ...] = ()
        self._base_row = 0
        self.checkpoint_rows: Int64Array = np.empty(0, np.int64)
        """Rows of the window after which the full book is stored."""
        self._reasons: Uint8Array = np.empty(0, np.uint8)

    def begin_window(
        self,
        sequence: InstrumentSequence,
        rows: SequenceRows,
        counts: Int64Array,
        statistics: StatisticColumns,
        loaded: Int64Array,
        base_row: int,
        last: bool,
    ) -> None:
        """Prepare for the rows of a window; ``counts`` are the counters after each item."""
        self._tick_statistics.load(statistics)
        self._checkpoint_statistics.load(statistics)
        self._limits = PriceLimits(
            self.others, self.snapshots, loaded, sequence.securities, self.base
        )
        item = rows.item
        rank, serial, sending = (
            sequence.rank[item],
            sequence.message_serial[item],
            sequence.sending[item],
        )
        book_row = sequence.book_row[item]
        time = np.full(len(item), NULL, np.int64)
        has_message = book_row >= 0
        time[has_message] = sequence.time[book_row[has_message]]
        own = (rank, serial, time, sending, sequence.capture[item])
        # A tick may still belong to the last row of the previous window.
        before = self._before or tuple(column[:1] for column in own)
        self._context = tuple(np.concatenate(pair) for pair in zip(before, own, strict=True))
        self._base_row = base_row
        self._counts = counts[item]
        self._events = sequence.event[item]
        self.checkpoint_rows, self._reasons = checkpoint_rows(
            rank, serial, sending, self.interval_ns, self.changes.rank, self.changes.message_serial,
            self._updates, last,
        )  # fmt: skip
        self._updates += len(item)
        if len(item):
            self._before = tuple(column[-1:] for column in own)

    def add_ticks(self, ticks: TickColumns) -> None:
        """Buffer ticks, and write them when there are enough for a row group."""
        begin = 0
        while begin < len(ticks):
            begin += self._held.fill(ticks, begin)
            if self._held.full:
                self._write_ticks()

    def end_window(self, books: dict[int, FullBook]) -> None:
        """Write the buffered ticks, and the checkpoints."""
        self._write_ticks()
        self._write_checkpoints(books)

    def _write_ticks(self) -> None:
        """Write the buffered ticks."""
        ticks = self._held
        if not len(ticks):
            return
        at = ticks.row - self._base_row + 1
        rank, serial, time, sending, capture = (column[at] for column in self._context)
        price, volume = self._tick_statistics.at(rank, serial, ticks.event)
        self.counts.ticks += np.bincount(rank, minlength=len(self.counts.ticks))
        rows = tick_table(
            self.ticks.schema, ticks, self.base, self.channel, self.symbols,
            rank, serial, time, sending, capture, price, volume,
        )  # fmt: skip
        self.ticks.write(rows)
        ticks.clear()

    def _write_checkpoints(self, books: dict[int, FullBook]) -> None:
        """Write the checkpoints of the window; ``books`` is keyed by row."""
        rows = self.checkpoint_rows
        if not len(rows):
            return
        rank, serial, time, sending, capture = (column[rows + 1] for column in self._context)
        event = self._events[rows]
        price, volume = self._checkpoint_statistics.at(rank, serial, event)
        low, high = self._limits.at(rank, serial)
        found = [books[row] for row in rows.tolist()]
        state = np.array([book.state for book in found], np.int64)
        self.counts.state[rank] = state
        self.counts.checkpoints += np.bincount(rank, minlength=len(self.counts.checkpoints))
        columns = {
            "channel": pa.array(np.full(len(rows), self.channel, np.int16)),
            "security_id": pa.array(self.securities[rank]),
            "symbol": named(rank, self.symbols),
            **message_columns(serial, time, sending, capture, self.base),
            "event": nulled(event, event < 0),
            "reason": named(self._reasons, REASONS),
            "state": named(state, STATES),
            "rpt_seq": nulled(self._counts[rows]),
            "last_price": prices(price),
            "trade_volume": nulled(volume),
            "low_limit_price": prices(low),
            "high_limit_price": prices(high),
            **side_lists(found),
        }
        orders = sum(len(book) for book in found)
        # A lookup of one book reads a row group: it must not contain thousands of deep books.
        row_group = max(1, min(ROW_GROUP, ORDERS_PER_ROW_GROUP * len(rows) // max(orders, 1)))
        table = as_table(self.checkpoints.schema, columns, len(rows))
        self.checkpoints.write(table, row_group)

    def discard(self) -> None:
        """Discard the files."""
        self.ticks.discard()
        self.checkpoints.discard()

    def close(self) -> list[WrittenFile | None]:
        """Finish the files."""
        return [self.ticks.close(), self.checkpoints.close()]
