"""Ticks of a replay as rows of the table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from pregao.book.state import State
from pregao.book.replay import TickColumns
from pregao.feed.columns import Codes, Flags, Numbers
from pregao.feed.packet_keys import AFTER_PACKET, packet_of
from pregao.lake.books import _kernels
from pregao.lake.books.columns import named, nulled, prices
from pregao.lake.books.rows import as_table
from pregao.lake.books.tables import SIDE_NAMES

STATES: list[str | None] = [state.name.lower() for state in State]


def index_of(message_serial: Numbers) -> Any:
    """Return the index in the packet of messages; null after a packet."""
    index = (message_serial & AFTER_PACKET).astype(np.int32)
    return nulled(index, index == AFTER_PACKET)


def message_columns(
    message_serial: Numbers, time: Numbers, sending: Numbers, capture: Numbers, base: int
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

    def __init__(self, room: int, depth: int) -> None:
        self.depth = depth
        self.room = room
        self._count = 0
        self._row, self._event, self._instrument = (np.empty(room, np.int64) for _ in range(3))
        self._state = np.empty(room, np.uint8)
        self._price, self._size = (np.empty((2, depth, room), np.int64) for _ in range(2))
        self._orders = np.empty((2, depth, room), np.int32)

    def __len__(self) -> int:
        """Number of buffered ticks."""
        return self._count

    @property
    def full(self) -> bool:
        """Whether the buffer is full."""
        return self._count == self.room

    @property
    def row(self) -> Numbers:
        """Row of the replay after which each tick was emitted."""
        return self._row[: self._count]

    @property
    def event(self) -> Numbers:
        """Event of each tick."""
        return self._event[: self._count]

    @property
    def instrument(self) -> Numbers:
        """Instrument of each tick."""
        return self._instrument[: self._count]

    @property
    def state(self) -> Codes:
        """State of the book at each tick."""
        return self._state[: self._count]

    def fill(self, ticks: TickColumns, begin: int) -> int:
        """Copy ticks from `begin` on up to the capacity. Returns their number."""
        count = min(len(ticks) - begin, self.room - self._count)
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
                gone: Flags = orders == 0
                yield f"{name}_price_{level + 1}", prices(price)
                yield f"{name}_size_{level + 1}", nulled(size, gone)
                yield f"{name}_orders_{level + 1}", nulled(orders, gone)


def tick_table(
    schema: Any,
    ticks: TickBuffer,
    base: int,
    channel: int,
    symbols: list[str | None],
    rank: Numbers,
    message_serial: Numbers,
    time: Numbers,
    sending: Numbers,
    capture: Numbers,
    price: Numbers,
    volume: Numbers,
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
