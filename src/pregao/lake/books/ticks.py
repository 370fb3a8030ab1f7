"""Rows of the tables of books: ticks, states, gaps and audits of a replay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pregao.arrays import BoolArray, Int64Array, Uint8Array
from pregao.book.replay import BookKind, TickColumns
from pregao.book.state import State
from pregao.feed.packet_keys import AFTER_PACKET, packet_of
from pregao.feed.replay.audit import RESULTS, Audit
from pregao.feed.replay.day import ChannelDay
from pregao.feed.replay.outcomes import BookOrigins, StaleSpan
from pregao.feed.replay.snapshots import Snapshots
from pregao.lake.books import _kernels
from pregao.lake.books.columns import named, nulled, prices
from pregao.lake.books.schemas import BOOKS, GAPS_SPEC, SIDE_NAMES
from pregao.lake.storage.parquet import stored_schema

_KINDS = {
    BookKind.PRIORITY: "priority", BookKind.POSITION: "position", BookKind.DEPTH: "price",
}  # fmt: skip

STATES: list[str | None] = [state.name.lower() for state in State]


class BookCounts:
    """Number of ticks and checkpoints of the instruments of a task, and their last states."""

    def __init__(self, count: int) -> None:
        self.ticks = np.zeros(count, np.int64)
        self.checkpoints = np.zeros(count, np.int64)
        self.state = np.full(count, int(State.EMPTY), np.int64)

    def total(self, origins: BookOrigins) -> Counter[str]:
        """Return the totals of all instruments."""
        return Counter(
            instruments=len(origins.securities),
            messages=int(origins.messages.sum()),
            updates=int(origins.updates.sum()),
            ticks=int(self.ticks.sum()),
            checkpoints=int(self.checkpoints.sum()),
            stale=int((self.state == State.STALE).sum()),
        )


def book_rows(
    origins: BookOrigins,
    counts: BookCounts,
    channel: int,
    symbols: list[str | None],
    day: ChannelDay,
    unit_id: str,
    snapshots: Counter[int],
    different: Counter[int],
    gaps: Counter[int],
    reasons: dict[int, str],
) -> Any:
    """Return the rows of `books`; the counters are by instrument."""
    version, number = packet_of(origins.message_serial, day.base)
    rows = []
    for rank, security in enumerate(origins.securities.tolist()):
        state = State(int(counts.state[rank]))
        known = origins.origin[rank] is not None
        rows.append(
            {
                "channel": channel,
                "security_id": security,
                "symbol": symbols[rank],
                "kind": _KINDS[day.kind],
                "market_depth": day.market_depth,
                "origin": origins.origin[rank],
                "origin_version": int(version[rank]) if known else None,
                "origin_number": int(number[rank]) if known else None,
                "messages": int(origins.messages[rank]),
                "updates": int(origins.updates[rank]),
                "ticks": int(counts.ticks[rank]),
                "checkpoints": int(counts.checkpoints[rank]),
                "snapshots": snapshots[security],
                "differences": different[security],
                "gaps": gaps[security],
                "state": state.name.lower(),
                "reason": reasons.get(security) if state is State.STALE else None,
                "unit_id": unit_id,
            }
        )
    return pa.Table.from_pylist(rows, schema=stored_schema(BOOKS.schema))


def gap_rows(spans: Sequence[StaleSpan], channel: int, base: int, unit_id: str) -> Any:
    """Return stale spans as rows of `gaps`."""

    def packet(serial: int | None) -> tuple[int | None, int | None]:
        if serial is None:
            return None, None
        version, number = packet_of(np.array([serial], np.int64), base)
        return int(version[0]), int(number[0])

    rows = []
    for span in spans:
        version, number = packet(span.message_serial)
        closed_version, closed_number = packet(span.healed_at)
        rows.append(
            {
                "channel": channel,
                "security_id": span.security_id,
                "sequence_version": version,
                "feed": None,
                "first_missing": span.first_missing,
                "last_missing": span.last_missing,
                "closed_by": span.healed_by,
                "capture_time_ns": span.capture_time_ns,
                "unit_id": unit_id,
                "sequence_number": number,
                "closed_sequence_version": closed_version,
                "closed_sequence_number": closed_number,
                "reason": span.reason,
            }
        )
    return pa.Table.from_pylist(rows, schema=stored_schema(GAPS_SPEC.schema))


def audit_columns(
    snapshots: Snapshots,
    audit: Audit,
    chosen: Int64Array,
    channel: int,
    rank: Int64Array,
    symbols: list[str | None],
) -> dict[str, Any]:
    """Return the columns of `book_audit` for the chosen snapshots."""
    loop = snapshots.loop
    result = np.array(audit.result, np.int64)[chosen]
    return {
        "channel": pa.array(np.full(len(chosen), channel, np.int16)),
        "security_id": pa.array(snapshots.security[chosen]),
        "symbol": named(rank, symbols),
        "sequence_version": pa.array(snapshots.version[chosen].astype(np.int32)),
        "sequence_number": pa.array(snapshots.number[chosen]),
        "rpt_seq": nulled(snapshots.count[chosen], snapshots.count[chosen] == 0),
        "loop_version": pa.array(loop.version[chosen].astype(np.int32)),
        "loop_number": pa.array(loop.number[chosen]),
        "sending_time_ns": pa.array(loop.sending[chosen]),
        "capture_time_ns": nulled(snapshots.capture[chosen]),
        "bids": pa.array(snapshots.bids[chosen]),
        "asks": pa.array(snapshots.asks[chosen]),
        "statistics": pa.array(snapshots.statistics[chosen]),
        "result": named(result, RESULTS),
        "differences": pa.array(np.array(audit.differences, np.int64)[chosen]),
        "detail": pa.array([audit.detail[at] for at in chosen.tolist()], pa.string()),
    }


def as_table(schema: Any, columns: dict[str, Any], rows: int) -> Any:
    """Return columns in the order of a schema, null where absent; texts stay dictionaries."""
    arrays = []
    fields = []
    for entry in schema:
        array = columns.get(entry.name)
        if array is None:
            array = pa.nulls(rows, entry.type)
        arrays.append(array)
        fields.append(pa.field(entry.name, array.type))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def index_of(message_serial: Int64Array) -> Any:
    """Return the index in the packet of messages; null after a packet."""
    index = (message_serial & AFTER_PACKET).astype(np.int32)
    return nulled(index, index == AFTER_PACKET)


def message_columns(
    message_serial: Int64Array,
    time: Int64Array,
    sending: Int64Array,
    capture: Int64Array,
    base: int,
) -> dict[str, Any]:
    """Return the columns that identify the message after which a row applies."""
    version, number = packet_of(message_serial, base)
    return {
        "sequence_version": pa.array(version),
        "sequence_number": pa.array(number),
        "index_in_packet": index_of(message_serial),
        "event_time_ns": nulled(time),
        "sending_time_ns": nulled(sending),
        "capture_time_ns": nulled(capture),
    }


class TickBuffer:
    """Buffer for the ticks of a row group, filled in smaller pieces; levels as columns."""

    def __init__(self, capacity: int, depth: int) -> None:
        self.depth = depth
        self.capacity = capacity
        self._count = 0
        self._row, self._event, self._instrument = (np.empty(capacity, np.int64) for _ in range(3))
        self._state = np.empty(capacity, np.uint8)
        self._price, self._size = (np.empty((2, depth, capacity), np.int64) for _ in range(2))
        self._orders = np.empty((2, depth, capacity), np.int32)

    def __len__(self) -> int:
        """Number of buffered ticks."""
        return self._count

    @property
    def full(self) -> bool:
        """Whether the buffer is full."""
        return self._count == self.capacity

    @property
    def row(self) -> Int64Array:
        """Row of the replay after which each tick was emitted."""
        return self._row[: self._count]

    @property
    def event(self) -> Int64Array:
        """Event of each tick."""
        return self._event[: self._count]

    @property
    def instrument(self) -> Int64Array:
        """Instrument of each tick."""
        return self._instrument[: self._count]

    @property
    def state(self) -> Uint8Array:
        """State of the book at each tick."""
        return self._state[: self._count]

    def fill(self, ticks: TickColumns, begin: int) -> int:
        """Copy ticks from `begin` on up to the capacity. Returns their number."""
        count = min(len(ticks) - begin, self.capacity - self._count)
        into, of = slice(self._count, self._count + count), slice(begin, begin + count)
        self._row[into] = ticks.row[of]
        self._event[into] = ticks.event[of]
        self._instrument[into] = ticks.instrument[of]
        self._state[into] = ticks.state[of]
        _kernels.spread_levels(ticks.price, begin, count, self._price, self._count)
        _kernels.spread_levels(ticks.size, begin, count, self._size, self._count)
        _kernels.spread_levels(ticks.orders, begin, count, self._orders, self._count)
        self._count += count
        return count

    def clear(self) -> None:
        """Empty the buffer."""
        self._count = 0

    def levels(self) -> Iterator[tuple[str, Any]]:
        """Yield the columns of the levels; an absent level is null."""
        for side, name in enumerate(SIDE_NAMES):
            for level in range(self.depth):
                orders = self._orders[side, level, : self._count]
                price = self._price[side, level, : self._count]
                size = self._size[side, level, : self._count]
                gone: BoolArray = orders == 0
                yield f"{name}_price_{level + 1}", prices(price)
                yield f"{name}_size_{level + 1}", nulled(size, gone)
                yield f"{name}_orders_{level + 1}", nulled(orders, gone)


def tick_table(
    schema: Any,
    ticks: TickBuffer,
    base: int,
    channel: int,
    symbols: list[str | None],
    rank: Int64Array,
    message_serial: Int64Array,
    time: Int64Array,
    sending: Int64Array,
    capture: Int64Array,
    price: Int64Array,
    volume: Int64Array,
) -> Any:
    """Return ticks as a table; the columns from `rank` on describe each tick's last message."""
    columns: dict[str, Any] = {
        "channel": pa.array(np.full(len(ticks), channel, np.int16)),
        "security_id": pa.array(ticks.instrument),
        "symbol": named(rank, symbols),
        "event": nulled(ticks.event, ticks.event < 0),
        **message_columns(message_serial, time, sending, capture, base),
        "state": named(ticks.state, STATES),
        "last_price": prices(price),
        "trade_volume": nulled(volume),
        **dict(ticks.levels()),
    }
    return as_table(schema, columns, len(ticks))
