"""Acts, clearings and trades of an instrument joined to one flow, with column operations only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pregao.book.update_rows import NULL
from pregao.feed.columns import Codes, Flags, Numbers
from pregao.lake.books.columns import codes, integers
from pregao.lake.exports.acts import NO_SIDE, OFF_BOOK, ChangeCause, FlowAction, OrderFlow
from pregao.umdf.events import EVENT_NUMBER, EVENT_VERSION

_SIDE_CODES = {"BUY": 0, "SELL": 1}
_ACTIONS = {
    "NEW": FlowAction.ADD,
    "CHANGE": FlowAction.CHANGE,
    "DELETE": FlowAction.DELETE,
    "SNAPSHOT": FlowAction.ADD,
}
_OTHER = 255


@dataclass(slots=True)
class _Rows:
    """Intermediate rows of a flow."""

    event_key: Numbers
    position: Numbers
    event: Numbers
    sequence: Numbers
    time: Numbers
    sending: Numbers
    capture: Numbers
    act: Codes
    cause: Codes
    side: Codes
    order_id: Numbers
    price: Numbers
    size: Numbers
    off_book: Flags

    def __len__(self) -> int:
        return len(self.event_key)

    def take(self, chosen: Any) -> _Rows:
        return _Rows(*(getattr(self, name)[chosen] for name in self.__slots__))


def joined(acts: Any, clearings: Any, trades: Any) -> OrderFlow:
    """Return one flow of the tables' acts on orders, clearings of sides or books, and trades."""
    orders = _by_order(_of_acts(acts))
    orders = _by_order(_stacked([orders, *_cleared(orders, clearings)]))
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


def _of_acts(table: Any) -> _Rows:
    count = table.num_rows
    action = table["action"]
    kind = codes(action, {name: int(act) for name, act in _ACTIONS.items()}, _OTHER)
    filled = codes(table["filled"].cast("string"), {"true": 1}, 0) == 1
    again = codes(table["recovery"].cast("string"), {"true": 1}, 0) == 1
    again |= codes(action, {"SNAPSHOT": 1}, 0) == 1
    aggressed = codes(table["aggressor_side"], _SIDE_CODES, NO_SIDE) != NO_SIDE
    cause = np.full(count, ChangeCause.REQUEST, np.uint8)
    cause[filled] = np.where(aggressed[filled], ChangeCause.FILL, ChangeCause.AUCTION)
    cause[again] = ChangeCause.SNAPSHOT
    size = integers(table["size"])
    size[kind == FlowAction.DELETE] = 0
    rows = _Rows(
        event_key=integers(table["place"]),
        position=integers(table["position"], 0),
        event=integers(table["event"]),
        sequence=integers(table["sequence_number"], 0),
        time=integers(table["time_ns"]),
        sending=integers(table["sending_time_ns"]),
        capture=integers(table["capture_time_ns"]),
        act=kind,
        cause=cause,
        side=codes(table["side"], _SIDE_CODES, NO_SIDE),
        order_id=integers(table["secondary_order_id"]),
        price=integers(table["price"]),
        size=size,
        off_book=np.zeros(count, np.bool_),
    )
    return rows.take((kind != _OTHER) & (rows.order_id != NULL))


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


def _cleared(rows: _Rows, clearings: Any) -> list[_Rows]:
    """Return the deletions of the orders that existed when their side or book was cleared."""
    keys, times = integers(clearings["place"]), integers(clearings["time_ns"])
    sides = codes(clearings["side"], _SIDE_CODES, NO_SIDE)
    last = np.append(rows.order_id[1:] != rows.order_id[:-1], True)
    gone = rows.act == FlowAction.DELETE
    found = []
    for at in np.argsort(keys, kind="stable").tolist():
        before = rows.event_key < keys[at]
        newest = before & (last | ~np.append(before[1:], False))
        own = (rows.side == sides[at]) | (sides[at] == NO_SIDE)
        chosen = np.flatnonzero(newest & own & ~gone)
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


def _with_the_past(rows: _Rows) -> tuple[_Rows, Numbers, Numbers]:
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


def _flow(rows: _Rows, old_price: Numbers, old_size: Numbers) -> OrderFlow:
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
