"""Builders of updates and stories: readable books, and update sequences for properties."""

import random

from hypothesis import strategies as st

from pregao.book.position_book import PositionBook
from pregao.book.priority_book import PriorityBook
from pregao.book.state import State
from pregao.book.updates import (
    BookEmptied,
    BookReset,
    GapExcluded,
    GapPossible,
    MessageKey,
    MessagesMissing,
    OrderAdded,
    OrderChanged,
    OrderDeleted,
    RebuildEnded,
    SideCleared,
    SnapshotEnded,
    SnapshotOrder,
    SnapshotStarted,
    TopRemoved,
)
from pregao.units import Side

BID, ASK = Side.BID, Side.ASK


def key(number, index=0, version=1):
    return MessageKey(version, number, index)


class Feed:
    """Makes updates with rising keys."""

    def __init__(self):
        self.number = 0

    def key(self):
        self.number += 1
        return key(self.number)

    def new(self, side, order_id, price, size, **more):
        return OrderAdded(self.key(), side, order_id, price, size, **more)

    def change(self, side, order_id, price, size, **more):
        return OrderChanged(self.key(), side, order_id, price, size, **more)

    def delete(self, side, order_id, price=None, size=None, **more):
        return OrderDeleted(self.key(), side, order_id, price, size, **more)

    def thru(self, side):
        return SideCleared(self.key(), side)

    def from_(self, side, position):
        return TopRemoved(self.key(), side, position)

    def empty(self):
        return BookEmptied(self.key())

    def reset(self):
        return BookReset(self.key())

    def gap(self):
        return MessagesMissing(self.key(), "packet 7 is missing")

    def snapshot(self, *orders, bids=None, asks=None, last_rpt_seq=None):
        """Begin, orders as (side, id, price, size) or SnapshotOrder, end."""
        made = [
            order if isinstance(order, SnapshotOrder) else SnapshotOrder(self.key(), *order)
            for order in orders
        ]
        return [
            SnapshotStarted(self.key(), bids, asks, last_rpt_seq),
            *made,
            SnapshotEnded(self.key()),
        ]


def fill(book, feed, rows):
    """Enter orders given as (side, id, price, size), each at the end of its side."""
    positions = {BID: 0, ASK: 0}
    for side, order_id, price, size in rows:
        positions[side] += 1
        fault = book.apply(feed.new(side, order_id, price, size, position=positions[side]))
        assert fault is None, fault


def shown(book, side):
    """A side as (id, size, price), the way the documents print it."""
    return [(order.order_id, order.size, order.price) for order in book.orders(side)]


def position_in_side(book, order_id):
    """Position of an order on its side, from 1."""
    position = book.queue_position(order_id)
    assert position is not None
    return position.in_side


# What a step of a story does, by weight.
_STEPS = (
    ["add"] * 40
    + ["change"] * 12
    + ["delete"] * 24
    + ["move", "move", "flag", "thru", "from", "from", "empty", "reset", "snapshot", "gap"]
    + ["doubt", "doubt", "confirm", "settle"]
)
_ODDITIES = ["unknown", "duplicate", "side", "size", "price", "no id", "position", "stray", "cut"]

steps = st.tuples(
    st.sampled_from(_STEPS),
    st.integers(0, 1),
    st.integers(0, 6),
    st.integers(1, 9),
    st.integers(0, 40),
    st.sampled_from([None] * 30 + _ODDITIES),
    st.booleans(),
)
scripts = st.lists(steps, max_size=60)


def long_script(seed, length):
    """A script too long for Hypothesis to draw step by step, with few oddities."""
    rng = random.Random(seed)
    return [
        (
            rng.choice(_STEPS if rng.random() < 0.3 else _STEPS[:76]),
            rng.randrange(2),
            rng.randrange(7),
            rng.randint(1, 9),
            rng.randrange(41),
            rng.choice(_ODDITIES) if rng.random() < 0.02 else None,
            rng.random() < 0.5,
        )
        for _ in range(length)
    ]


class Story:
    """Turns drawn steps into updates that mostly fit, tracking them with its own book."""

    def __init__(self, by_position):
        self.by_position = by_position
        self.book = PositionBook() if by_position else PriorityBook()
        self.feed = Feed()
        self.next_id = 100
        self.updates = []

    def play(self, script):
        for step in script:
            for update in self._updates(*step):
                self.updates.append(update)
                self.book.apply(update)
        return self.updates

    def _position(self, side, order_id):
        orders = self.book.orders(side)
        return 1 + next(i for i, order in enumerate(orders) if order.order_id == order_id)

    def _new_position(self, side, price):
        """Position of a new order of this price, in books kept by price."""
        better = [
            order
            for order in self.book.orders(side)
            if order.price is None
            or (price is not None and (order.price >= price) == (side is BID))
            or order.price == price
        ]
        return len(better) + 1

    def _updates(self, step, side, price, size, pick, odd, complete):
        side = Side(side)
        feed = self.feed
        price = None if price == 0 else 1000 + price
        orders = self.book.orders(side)
        chosen = orders[pick % len(orders)] if orders else None
        if self.book.state is State.STALE and pick % 3 == 0:
            return [feed.empty()] if complete else self._snapshot(None, pick, complete=True)
        implied = pick % 9 == 0
        recovery = pick % 7 == 0
        if odd == "stray":
            return (
                [SnapshotOrder(feed.key(), side, 7, price, size)]
                if complete
                else [SnapshotEnded(feed.key())]
            )
        match step:
            case "thru":
                return [feed.thru(side)]
            case "from":
                return [feed.from_(side, pick if odd else min(pick, len(orders)) or 1)]
            case "empty":
                return [feed.empty()]
            case "reset":
                return [feed.reset()]
            case "gap":
                return [feed.gap()]
            case "doubt":
                return [GapPossible(feed.key())]
            case "confirm":
                return [GapExcluded(feed.key())]
            case "settle":
                return [RebuildEnded(feed.key())]
            case "snapshot":
                return self._snapshot(odd, pick, complete)
        if step == "add" or chosen is None:
            self.next_id += 1 + pick % 3
            order_id = self.next_id if not implied else self.next_id + 1_000_000
            if pick == 5:
                order_id = pick * size  # an old number that comes back first in its level
            if odd == "duplicate" and chosen is not None:
                order_id = chosen.order_id
            position = self._new_position(side, price) if odd != "position" else pick
            return [
                feed.new(
                    side, None if odd == "no id" else order_id, price, size,
                    position=None if odd == "cut" else position,
                    firm=pick or None, insert_time_ns=size if complete else None,
                    implied=implied, recovery=recovery,
                )
            ]  # fmt: skip
        position = self._position(side, chosen.order_id) if odd != "position" else pick
        name = {"unknown": 3, "no id": None}.get(odd, chosen.order_id)
        line = side.other if odd == "side" else side
        before = chosen.size + (odd == "size")
        if step == "delete":
            was = chosen.price if odd != "price" else 999
            return [
                feed.delete(
                    line, name, was if complete else None, before if complete else None,
                    position=position,
                )
            ]  # fmt: skip
        new_price = price if step == "move" else chosen.price
        return [
            feed.change(
                line, name, new_price, size, previous_size=before if complete else None,
                position=None if odd == "cut" else position, firm=pick or None,
                implied=chosen.implied != (step == "flag"), recovery=recovery,
            )
        ]  # fmt: skip

    def _snapshot(self, odd, pick, complete):
        orders = self.book.orders(BID) + self.book.orders(ASK)
        made = [
            SnapshotOrder(
                self.feed.key(), order.side, order.order_id, order.price, order.size,
                implied=order.implied, firm=order.firm,
            )
            for order in orders[pick % 3 :]
        ]  # fmt: skip
        bids = sum(order.side is BID for order in made) + (odd == "size")
        asks = sum(order.side is ASK for order in made)
        parts = self.feed.snapshot(
            *made, bids=bids if complete else None, asks=asks if complete or pick % 2 else None
        )
        if odd == "cut":
            parts.insert(len(parts) // 2, self.feed.thru(BID))
        return parts[:-1] if odd == "position" else parts
