"""Orders and the two sides of a book: by price, then by priority within a price.

A side ranks its price levels by a *key* that is greater for better prices (the price for bids, its
negative for offers, the maximum for orders without a price), so that the same code handles both
sides. The best level is at the end of the sorted keys: work near the top is cheap in books of any
depth.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from datetime import date
from typing import Any

from pregao.exchange.engine.model.enums import OrderSide, OrdType, TimeInForce

UNPRICED_KEY = 1 << 62
"""Key of orders without a price (MOA, MOC): before every priced level, on both sides."""
WORST_KEY = -(1 << 62)
"""A limit that every level passes."""
UNWATCHED = 1 << 63
"""A key that no level reaches."""

BUY = OrderSide.BUY


def key_of(side: OrderSide, price: int | None) -> int:
    """Return the rank of a price on a side: greater is better."""
    if price is None:
        return UNPRICED_KEY
    return price if side == BUY else -price


class EngineOrder:
    """An order, with its links in the queue of its price level while it rests."""

    leg_of: int = 0
    """Spread of which this order trades a leg, or 0."""

    @property
    def position_account(self) -> int:
        """Account whose position a trade changes."""
        return self.account

    __slots__ = (
        "account",
        "cl_ord_id",
        "cum",
        "expire_date",
        "firm",
        "implied",
        "insert_time_ns",
        "investor_id",
        "key",
        "leaves",
        "level",
        "max_floor",
        "min_qty",
        "next",
        "ord_tag_id",
        "ord_type",
        "order_id",
        "prevention",
        "previous",
        "price",
        "protection_price",
        "quantity",
        "routing",
        "secondary_order_id",
        "security_id",
        "segment",
        "session",
        "side",
        "stop_px",
        "time_in_force",
        "visible",
        "waits",
    )

    def __init__(
        self,
        order_id: int,
        secondary_order_id: int,
        session: int,
        firm: int,
        cl_ord_id: int,
        security_id: int,
        side: OrderSide,
        price: int | None,
        quantity: int,
        ord_type: OrdType,
        time_in_force: TimeInForce,
        max_floor: int,
        min_qty: int,
        insert_time_ns: int,
    ) -> None:
        self.order_id = order_id
        self.secondary_order_id = secondary_order_id
        self.session = session
        self.firm = firm
        self.cl_ord_id = cl_ord_id
        self.security_id = security_id
        self.side = side
        self.price = price
        self.quantity = quantity
        self.leaves = quantity
        self.cum = 0
        self.ord_type = ord_type
        self.time_in_force = time_in_force
        self.max_floor = max_floor
        self.visible = max_floor if 0 < max_floor < quantity else quantity
        self.min_qty = min_qty
        self.insert_time_ns = insert_time_ns
        self.protection_price: int | None = None
        self.stop_px: int | None = None
        """Price that triggers it, until it is triggered."""
        self.expire_date: date | None = None
        self.account = 0
        self.investor_id = 0
        self.prevention = 0
        """Self-trade prevention instruction."""
        self.routing = 0
        """Routing instruction, or 0."""
        self.ord_tag_id = 0
        self.segment = 0
        """Market segment: with session and ClOrdID it identifies the order to its owner."""
        self.implied = False
        self.waits = False
        """Whether it waits to be triggered or for the closing call, and is not yet active."""
        self.key = 0
        self.level: PriceLevel | None = None
        self.previous: EngineOrder | None = None
        self.next: EngineOrder | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the queue links, which the level restores."""
        links = ("level", "next", "previous")
        return {name: getattr(self, name) for name in EngineOrder.__slots__ if name not in links}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the state of a copy."""
        for name, value in state.items():
            setattr(self, name, value)
        self.level = self.next = self.previous = None

    def show(self) -> None:
        """Set the visible quantity from the disclosed quantity and what is left."""
        floor = self.max_floor
        self.visible = floor if 0 < floor < self.leaves else self.leaves


class LegOrder(EngineOrder):
    """The order of a spread in one of its legs: it exists only for the trade."""

    __slots__ = ("leg_of", "owner_account")

    owner_account: int
    """Account of the spread's order."""

    @property
    def position_account(self) -> int:
        """Account whose position a trade changes: the spread's."""
        return self.owner_account


class PriceLevel:
    """Queue of orders at one price; ``quantity`` is their total left, including hidden quantity."""

    __slots__ = ("count", "head", "key", "price", "quantity", "tail")

    def __init__(self, key: int, price: int | None, order: EngineOrder) -> None:
        self.key = key
        self.price = price
        self.head: EngineOrder | None = order
        self.tail: EngineOrder | None = order
        self.quantity = order.leaves
        self.count = 1

    def __getstate__(self) -> tuple[int, int | None, int, list[EngineOrder]]:
        """Return the orders as a list: as links, a long queue would be too deep to pickle."""
        return self.key, self.price, self.quantity, list(self)

    def __setstate__(self, state: tuple[int, int | None, int, list[EngineOrder]]) -> None:
        """Restore the state of a copy."""
        self.key, self.price, self.quantity, orders = state
        self.count = len(orders)
        self.head, self.tail = orders[0], orders[-1]
        for before, order in zip([None, *orders], orders, strict=False):
            order.level = self
            order.previous = before
            if before is not None:
                before.next = order

    def __iter__(self) -> Iterator[EngineOrder]:
        order = self.head
        while order is not None:
            yield order
            order = order.next


class BookSide:
    """One side of a book.

    During an auction the side is watched down to the last level that would trade: ``watched`` is
    the quantity at ``watch_key`` or better.
    """

    __slots__ = ("count", "keys", "levels", "side", "watch_key", "watched")

    def __init__(self, side: OrderSide) -> None:
        self.side = side
        self.keys: list[int] = []
        self.levels: dict[int, PriceLevel] = {}
        self.count = 0
        self.watch_key = UNWATCHED
        self.watched = 0

    def __iter__(self) -> Iterator[EngineOrder]:
        """Iterate over the orders from best to worst."""
        return iter(self.orders())

    def orders(self) -> list[EngineOrder]:
        """Return the orders from best to worst."""
        found: list[EngineOrder] = []
        levels = self.levels
        for key in reversed(self.keys):
            order = levels[key].head
            while order is not None:
                found.append(order)
                order = order.next
        return found

    def add(self, order: EngineOrder) -> None:
        """Queue an order at its price, after all others except implied ones."""
        price = order.price
        if price is None:
            key = UNPRICED_KEY
        else:
            key = price if self.side == BUY else -price
        order.key = key
        self.count += 1
        if key >= self.watch_key:
            self.watched += order.leaves
        level = self.levels.get(key)
        if level is None:
            order.level = self.levels[key] = PriceLevel(key, price, order)
            order.previous = order.next = None
            keys = self.keys
            if not keys or key > keys[-1]:
                keys.append(key)
            else:
                insort(keys, key)
            return
        order.level = level
        level.count += 1
        level.quantity += order.leaves
        ahead = level.tail
        if not order.implied:
            while ahead is not None and ahead.implied:
                ahead = ahead.previous
        following = level.head if ahead is None else ahead.next
        order.previous = ahead
        order.next = following
        if ahead is None:
            level.head = order
        else:
            ahead.next = order
        if following is None:
            level.tail = order
        else:
            following.previous = order

    def remove(self, order: EngineOrder) -> None:
        """Remove an order; the level's quantity must still include what it has left."""
        level = order.level
        assert level is not None
        self.count -= 1
        order.level = None
        if level.key >= self.watch_key:
            self.watched -= order.leaves
        if level.count == 1:
            key = level.key
            del self.levels[key]
            keys = self.keys
            if keys[-1] == key:
                keys.pop()
            else:
                del keys[bisect_left(keys, key)]
            return
        level.count -= 1
        level.quantity -= order.leaves
        ahead = order.previous
        following = order.next
        if ahead is None:
            level.head = following
        else:
            ahead.next = following
        if following is None:
            level.tail = ahead
        else:
            following.previous = ahead

    def clear(self) -> list[EngineOrder]:
        """Remove all orders and return them."""
        orders = self.orders()
        for order in orders:
            order.level = order.previous = order.next = None
        self.keys.clear()
        self.levels.clear()
        self.count = 0
        self.unwatch()
        return orders

    def resize(self, order: EngineOrder, leaves: int) -> None:
        """Change the quantity that an order has left; it keeps its position."""
        level = order.level
        assert level is not None
        level.quantity += leaves - order.leaves
        if level.key >= self.watch_key:
            self.watched += leaves - order.leaves
        order.leaves = leaves

    def unwatch(self) -> None:
        """Stop tracking the watched quantity: no auction is running."""
        self.watch_key = UNWATCHED
        self.watched = 0

    def position(self, order: EngineOrder) -> int:
        """Return the 1-based position of an order on its side, by a walk over the levels."""
        level = order.level
        assert level is not None
        keys = self.keys
        rank = 1
        for index in range(len(keys) - 1, -1, -1):
            key = keys[index]
            if key == level.key:
                break
            rank += self.levels[key].count
        ahead = order.previous
        while ahead is not None:
            rank += 1
            ahead = ahead.previous
        return rank

    def ranks(self) -> list[tuple[int, int]]:
        """Return each order's rank, best first: the negated key, then the secondary order ID."""
        return [(-order.key, order.secondary_order_id) for order in self.orders()]

    def best_price(self) -> int | None:
        """Return the best price of the side, ignoring orders without a price."""
        keys = self.keys
        if not keys:
            return None
        key = keys[-1]
        if key == UNPRICED_KEY:
            if len(keys) == 1:
                return None
            key = keys[-2]
        return key if self.side == BUY else -key

    def within(self, limit_key: int, enough: int) -> int:
        """Return the quantity at keys no worse than a limit; stops counting at ``enough``."""
        total = 0
        keys = self.keys
        for index in range(len(keys) - 1, -1, -1):
            key = keys[index]
            if key < limit_key:
                break
            total += self.levels[key].quantity
            if total >= enough:
                break
        return total
