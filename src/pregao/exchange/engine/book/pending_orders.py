"""Orders of an instrument that are accepted but not in its book: stop, MOC and hidden orders."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from operator import attrgetter

from pregao.exchange.engine.book.order_book import BUY, EngineOrder
from pregao.exchange.engine.model.enums import OrdType

RLP = OrdType.RLP
PEGGED = OrdType.PEGGED_MIDPOINT
NEVER = 1 << 62
"""A trigger price that no trade reaches."""
_priority = attrgetter("secondary_order_id")


class PendingOrders:
    """Waiting orders by order ID; stop orders also by the price that triggers them.

    Their priority is that of their secondary order IDs: an order that loses it is removed, gets a
    new one and is added again. A trade at ``buy_stop`` or above, or at ``sell_stop`` or below,
    triggers at least one of them.
    """

    __slots__ = ("_buys", "_sells", "buy_stop", "orders", "pegged", "providers", "sell_stop")

    def __init__(self) -> None:
        self.orders: dict[int, EngineOrder] = {}
        # Nearest trigger first: the stop price or its negative, priority, order ID.
        self._buys: list[tuple[int, int, int]] = []
        self._sells: list[tuple[int, int, int]] = []
        self.buy_stop = NEVER
        self.sell_stop = -NEVER
        self.providers: dict[tuple[int, int], list[EngineOrder]] = {}
        """Retail liquidity providers by side and firm, oldest first."""
        self.pegged: dict[int, list[EngineOrder]] = {}
        """Pegged midpoint orders by side, oldest first."""

    def __len__(self) -> int:
        return len(self.orders)

    def __iter__(self) -> Iterator[EngineOrder]:
        """Iterate over the orders by priority; they may be removed meanwhile."""
        return iter(sorted(self.orders.values(), key=_priority))

    def add(self, order: EngineOrder) -> None:
        """Add an order; a stop order can be triggered from now on."""
        self.orders[order.order_id] = order
        order.waits = order.ord_type not in (RLP, PEGGED)
        if order.ord_type == RLP:
            self.providers.setdefault((order.side, order.firm), []).append(order)
        elif order.ord_type == PEGGED:
            self.pegged.setdefault(order.side, []).append(order)
        if order.stop_px is None:
            return
        insort(self._buys if order.side == BUY else self._sells, _trigger(order, order.stop_px))
        self._look()

    def activate(self, order: EngineOrder) -> None:
        """Remove an order that enters the book."""
        self.remove(order)
        order.waits = False

    def remove(self, order: EngineOrder) -> None:
        """Remove an order; a triggered one is already in no list of stops."""
        del self.orders[order.order_id]
        if order.ord_type == RLP:
            owner = (order.side, order.firm)
            self.providers[owner].remove(order)
            if not self.providers[owner]:
                del self.providers[owner]
        elif order.ord_type == PEGGED:
            self.pegged[order.side].remove(order)
        if order.stop_px is None:
            return
        stops = self._buys if order.side == BUY else self._sells
        entry = _trigger(order, order.stop_px)
        index = bisect_left(stops, entry)
        if index < len(stops) and stops[index] == entry:
            del stops[index]
            self._look()

    def reached(self, price: int) -> list[EngineOrder]:
        """Return the stop orders that a trade triggers, in the order in which it reaches them.

        They cannot be triggered again, and wait until they enter the book.
        """
        found: list[EngineOrder] = []
        for stops, limit in ((self._buys, price), (self._sells, -price)):
            count = bisect_left(stops, (limit + 1, 0, 0))
            found.extend(self.orders[order_id] for _, _, order_id in stops[:count])
            del stops[:count]
        self._look()
        return found

    def _look(self) -> None:
        self.buy_stop = self._buys[0][0] if self._buys else NEVER
        self.sell_stop = -self._sells[0][0] if self._sells else -NEVER


def _trigger(order: EngineOrder, stop_px: int) -> tuple[int, int, int]:
    """Return the rank of a stop order among those of its side."""
    price = stop_px if order.side == BUY else -stop_px
    return price, order.secondary_order_id, order.order_id
