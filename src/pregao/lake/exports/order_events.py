"""Order flow of an instrument's day: the acts on its orders, and its trades, in time order.

Third-party formats are written from it. Messages, clearings and snapshots become four acts: an
order is added, changed or deleted, or a trade is published. The flow is read from the tables of a
lake, in this process, and joined with column operations only. The rule of the table ``orders``
decides whether a trade reduced an order.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pregao.arrays import BoolArray, Int64Array, Uint8Array
from pregao.book.update_rows import NULL
from pregao.errors import UsageError
from pregao.feed.packet_keys import AFTER_PACKET, INDEX_BITS, packet_of
from pregao.lake.analytics.local import functions as F  # noqa: N812 - the conventional name
from pregao.lake.analytics.local.session import LocalSession
from pregao.lake.analytics.order_histories import NO_SIDE, OrderAction, OrderActs, order_acts
from pregao.lake.analytics.reading import LakeDay, LakeFiles
from pregao.lake.analytics.run import analyse
from pregao.lake.books.columns import codes, integers
from pregao.lake.books.reader import SecurityRange
from pregao.lake.books.replay_span import BookInstrument
from pregao.lake.storage.lake_store import LakeStore
from pregao.umdf.events import EVENT_NUMBER, EVENT_VERSION
from pregao.umdf.sequencing import serial_of

OFF_BOOK = ("crossed", "block", "forward", "multi_asset", "leg", "out_of_sequence", "on_behalf")
"""Kinds of trades that did not result from orders matched in the book."""

_SIDE_CODES = {"BUY": 0, "SELL": 1}

# --- Flow ---


class FlowAction(IntEnum):
    """Kind of a row of the flow."""

    ADD = 0
    CHANGE = 1
    DELETE = 2
    TRADE = 3
    """A trade was published; it changes no order."""


class ChangeCause(IntEnum):
    """Why an order changed or was deleted."""

    REQUEST = 0
    """A request; also for an order that is added."""
    FILL = 1
    """It traded against an incoming order."""
    AUCTION = 2
    """It traded in an event without an aggressor."""
    CLEARING = 3
    """Its side or book was emptied, or messages were missing after which it does not reappear."""
    SNAPSHOT = 4
    """It was not entered now: a snapshot or the exchange's recovery published it."""


@dataclass(frozen=True, slots=True)
class OrderFlow:
    """Acts of an instrument's day as columns, in order of publication."""

    event_key: Int64Array
    """Event key of the message; increases."""
    sequence: Int64Array
    """Number of its packet."""
    event_time: Int64Array
    """Event time (T5); never decreases."""
    sending_time: Int64Array
    capture_time: Int64Array
    last_of_event: BoolArray
    act: Uint8Array
    cause: Uint8Array
    side: Uint8Array
    """0 buy, 1 sell, 2 none. Of a trade, the aggressor's."""
    order_id: Int64Array
    """Public order number; of a trade, its trade number."""
    price: Int64Array
    """In ten-thousandths, after the act; NULL for an order without one. Of a deletion, the last
    price.
    """
    size: Int64Array
    """After the act, 0 for a deletion; of a trade, its quantity."""
    old_price: Int64Array
    """Before the act; NULL for an order that did not exist."""
    old_size: Int64Array
    off_book: BoolArray
    """Whether a trade involved no order of the book: crosses, blocks, forwards, late reports."""

    def __len__(self) -> int:
        return len(self.event_key)

    def take(self, chosen: npt.NDArray[Any]) -> OrderFlow:
        """Return some rows, in the given order."""
        return OrderFlow(*(getattr(self, each.name)[chosen] for each in fields(self)))

    def priced(self) -> OrderFlow:
        """Return the flow without orders that have no price, which most formats do not support."""
        orders = self.act != FlowAction.TRADE
        now, before = self.price != NULL, self.old_price != NULL
        act = self.act.copy()
        act[orders & now & (self.act == FlowAction.CHANGE) & ~before] = FlowAction.ADD
        leaves = orders & ~now & before
        act[leaves] = FlowAction.DELETE
        flow = replace(
            self,
            act=act,
            price=np.where(leaves, self.old_price, self.price),
            size=np.where(leaves, 0, self.size),
        )
        return flow.take(np.flatnonzero(~orders | now | before))


_ACTIONS = {
    OrderAction.NEW: FlowAction.ADD,
    OrderAction.CHANGE: FlowAction.CHANGE,
    OrderAction.DELETE: FlowAction.DELETE,
    OrderAction.SNAPSHOT: FlowAction.ADD,
}


# --- Joining ---


@dataclass(slots=True)
class _Rows:
    """Intermediate rows of a flow."""

    event_key: Int64Array
    position: Int64Array
    event: Int64Array
    sequence: Int64Array
    time: Int64Array
    sending: Int64Array
    capture: Int64Array
    act: Uint8Array
    cause: Uint8Array
    side: Uint8Array
    order_id: Int64Array
    price: Int64Array
    size: Int64Array
    off_book: BoolArray

    def __len__(self) -> int:
        return len(self.event_key)

    def take(self, chosen: Any) -> _Rows:
        return _Rows(*(getattr(self, name)[chosen] for name in self.__slots__))


def joined(acts: OrderActs, packets: PacketTimes, trades: Any) -> OrderFlow:
    """Return one flow of the acts on orders, clearings of sides, and trades."""
    orders = _by_order(_of_acts(acts, packets))
    orders = _by_order(_stacked([orders, *_cleared(orders, acts)]))
    orders, old_price, old_size = _with_the_past(orders)
    trade_rows = _of_trades(trades)
    nothing = np.full(len(trade_rows), NULL)
    rows = _stacked([orders, trade_rows])
    # A trade precedes its updates of orders, as on the feed.
    order = np.lexsort((rows.position, rows.event_key))
    return _flow(
        rows.take(order),
        np.concatenate([old_price, nothing])[order],
        np.concatenate([old_size, nothing])[order],
    )


def _of_acts(acts: OrderActs, packets: PacketTimes) -> _Rows:
    count = len(acts.serial)
    kind = np.array([_ACTIONS[action] for action in sorted(_ACTIONS)], np.uint8)[acts.action]
    filled = acts.filled == 1
    cause = np.full(count, ChangeCause.REQUEST, np.uint8)
    aggressed = acts.aggressor[filled] != NO_SIDE
    cause[filled] = np.where(aggressed, ChangeCause.FILL, ChangeCause.AUCTION)
    again = (acts.recovery == 1) | (acts.action == OrderAction.SNAPSHOT)
    cause[again] = ChangeCause.SNAPSHOT
    sending, capture = packets.of(acts.serial >> INDEX_BITS)
    return _Rows(
        event_key=_event_keys(acts.serial, acts.base),
        position=np.where(acts.position == NULL, 0, acts.position),
        event=acts.event,
        sequence=packet_of(acts.serial, acts.base)[1],
        time=acts.time,
        sending=sending,
        capture=capture,
        act=kind,
        cause=cause,
        side=acts.side.astype(np.uint8),
        order_id=acts.order_id,
        price=acts.price,
        size=np.where(kind == FlowAction.DELETE, 0, acts.size),
        off_book=np.zeros(count, np.bool_),
    )


def _event_keys(serials: Int64Array, base: int) -> Int64Array:
    version, number = packet_of(serials, base)
    packets: Int64Array = version.astype(np.int64) * EVENT_VERSION + number * EVENT_NUMBER
    return packets + (serials & AFTER_PACKET)


def _of_trades(table: Any) -> _Rows:
    count = table.num_rows
    number, version = integers(table["sequence_number"]), integers(table["sequence_version"])
    off_book = np.zeros(count, np.bool_)
    for name in OFF_BOOK:
        off_book |= codes(table[name].cast("string"), {"true": 1}, 0) == 1
    return _Rows(
        event_key=version * EVENT_VERSION
        + number * EVENT_NUMBER
        + integers(table["index_in_packet"]),
        position=np.full(count, -1),
        event=integers(table["event"]),
        sequence=number,
        time=integers(table["time_ns"]),
        sending=integers(table["sending_time_ns"]),
        capture=integers(table["capture_time_ns"]),
        act=np.full(count, FlowAction.TRADE, np.uint8),
        cause=np.full(count, ChangeCause.REQUEST, np.uint8),
        side=codes(table["aggressor_side"], _SIDE_CODES, NO_SIDE),
        order_id=integers(table["trade_id"]),
        price=integers(table["price"]),
        size=integers(table["size"]),
        off_book=off_book,
    )


def _by_order(rows: _Rows) -> _Rows:
    return rows.take(np.lexsort((rows.position, rows.event_key, rows.order_id)))


def _stacked(parts: list[_Rows]) -> _Rows:
    return _Rows(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in _Rows.__slots__)
    )


def _cleared(rows: _Rows, acts: OrderActs) -> list[_Rows]:
    """Return the deletions of the orders that existed when their side was cleared."""
    keys, sides, times = (
        _event_keys(acts.cleared, acts.base), acts.cleared_side, acts.cleared_time
    )  # fmt: skip
    last = np.append(rows.order_id[1:] != rows.order_id[:-1], True)
    gone = rows.act == FlowAction.DELETE
    found = []
    for at in np.argsort(keys, kind="stable").tolist():
        before = rows.event_key < keys[at]
        newest = before & (last | ~np.append(before[1:], False))
        chosen = np.flatnonzero(newest & (rows.side == sides[at]) & ~gone)
        gone[chosen] = True  # not deleted again by the next clearing
        count = len(chosen)
        ends = rows.take(chosen)
        found.append(
            replace(
                ends,
                event_key=np.full(count, keys[at]),
                position=np.zeros(count, np.int64),
                event=np.full(count, NULL),
                sequence=np.full(count, keys[at] % EVENT_VERSION // EVENT_NUMBER),
                time=np.full(count, times[at]),
                sending=np.full(count, NULL),
                capture=np.full(count, NULL),
                act=np.full(count, FlowAction.DELETE, np.uint8),
                cause=np.full(count, ChangeCause.CLEARING, np.uint8),
                size=np.zeros(count, np.int64),
            )
        )
    return found


def _with_the_past(rows: _Rows) -> tuple[_Rows, Int64Array, Int64Array]:
    """Return orders with the price and size of each before, and correct impossible acts.

    A change of an unknown order adds it, an addition of an existing one changes it, and a deletion
    of an unknown one is dropped.
    """
    same = np.append(False, rows.order_id[1:] == rows.order_id[:-1])
    exists = same & np.append(False, rows.act[:-1] != FlowAction.DELETE)
    old_price = np.where(exists, np.append(NULL, rows.price[:-1]), NULL)
    old_size = np.where(exists, np.append(NULL, rows.size[:-1]), NULL)
    deletes = rows.act == FlowAction.DELETE
    act = np.where(
        deletes, FlowAction.DELETE, np.where(exists, FlowAction.CHANGE, FlowAction.ADD)
    ).astype(np.uint8)
    price = np.where(deletes & exists, old_price, rows.price)
    cause = rows.cause.copy()
    cause[(act == FlowAction.ADD) & (rows.act != FlowAction.ADD)] = ChangeCause.SNAPSHOT
    unchanged = (act == FlowAction.CHANGE) & (price == old_price) & (rows.size == old_size)
    kept = ~(deletes & ~exists) & ~unchanged
    rows = replace(rows, act=act, price=price, cause=cause)
    return rows.take(kept), old_price[kept], old_size[kept]


def _flow(rows: _Rows, old_price: Int64Array, old_size: Int64Array) -> OrderFlow:
    event = np.where(rows.event == NULL, rows.event_key, rows.event)
    time = np.maximum.accumulate(rows.time)
    sending = np.maximum.accumulate(rows.sending)
    capture = np.maximum.accumulate(rows.capture)
    return OrderFlow(
        event_key=rows.event_key,
        sequence=rows.sequence,
        event_time=np.where(time == NULL, sending, time),
        sending_time=sending,
        capture_time=np.where(capture == NULL, sending, capture),
        last_of_event=np.append(event[1:] != event[:-1], True)[: len(event)],
        act=rows.act,
        cause=rows.cause,
        side=rows.side,
        order_id=rows.order_id,
        price=rows.price,
        size=rows.size,
        old_price=old_price,
        old_size=old_size,
        off_book=rows.off_book,
    )


# --- Reading ---


def order_flow(lake: LakeStore, instrument: BookInstrument) -> OrderFlow:
    """Return all acts of an instrument's day. Updates the table ``trades`` first."""
    analyse(lake, dates=[instrument.date], tables=["trades"])
    with _opened(lake, instrument) as day:
        acts = order_acts(day)
        if acts is None:
            raise UsageError(
                f"{instrument.symbol or instrument.security_id} has no orders of Binary UMDF on "
                f"{instrument.date}, which this format requires; `pregao export ticks` has levels."
            )
        return joined(acts, PacketTimes(day, acts.base), _trades(day))


@contextmanager
def _opened(lake: LakeStore, instrument: BookInstrument) -> Iterator[LakeDay]:
    tables = LakeFiles(lake).day(instrument.date)
    part = SecurityRange(instrument.security_id, instrument.security_id)
    with LocalSession(lake.location) as session:
        yield LakeDay(session, tables, instrument.channel, part)


class PacketTimes:
    """Sending and capture times of the packets of a channel's incremental stream."""

    def __init__(self, day: LakeDay, base: int) -> None:
        keys = ("sequence_version", "sequence_number")
        found = (
            day.table("packets")
            .where((F.col("stream") == "incremental") & (F.col("outcome") == "decoded"))
            .groupBy(*keys)
            .agg(
                F.min("sending_time_ns").alias("sending_time_ns"),
                F.min("capture_time_ns").alias("capture_time_ns"),
            )
        )
        rows = _table(found)
        versions, numbers = (integers(rows[name]) for name in keys)
        serials = serial_of(versions, numbers, base)
        order = np.argsort(serials)
        self._serials = serials[order]
        self._times = [
            integers(rows[name])[order] for name in ("sending_time_ns", "capture_time_ns")
        ]

    def of(self, serials: Int64Array) -> list[Int64Array]:
        """Return sending and capture times of packets; NULL for packets that are missing."""
        at = np.searchsorted(self._serials, serials)
        known = np.append(self._serials, -1)[at] == serials
        return [np.where(known, np.append(times, NULL)[at], NULL) for times in self._times]


def _trades(day: LakeDay) -> Any:
    """Return the trades at their first publication, without busted ones."""
    own = day.table("trades").where(F.col("busted") == F.lit(False))
    names = (
        "sequence_version", "sequence_number", "index_in_packet", "event", "trade_id",
        "aggressor_side", "price", "size", "time_ns", "sending_time_ns", "capture_time_ns",
        *OFF_BOOK,
    )  # fmt: skip
    return _table(own.select(*names))


def _table(frame: Any) -> Any:
    batches = list(frame.batches())
    if batches:
        return pa.Table.from_batches(batches)
    return pa.table({name: pa.nulls(0, pa.int64()) for name in frame.columns})
