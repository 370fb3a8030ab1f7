"""Market makers: quotes at or ahead of the best price that live for milliseconds."""

from __future__ import annotations

from pregao.exchange.engine.terms import Side, TradingStatus
from pregao.exchange.traders.actions import Floor, Request, modify, new, withdrawal
from pregao.exchange.traders.desk import Desk

_BUY, _SELL = Side.BUY, Side.SELL
_OPEN = TradingStatus.OPEN


class QuotingDesks:
    """How makers quote, and what they do when a quote's time has come."""

    def __init__(self, floor: Floor, improve: float, replace: float) -> None:
        self._floor = floor
        self._improve = improve
        self._replace = replace

    def quote(self, desk: Desk, now_ns: int) -> tuple[Request | None, int]:
        """Put in a quote, one step better than the best or near it; and the order's number."""
        floor = self._floor
        random = floor.random
        buy = random() < 0.5
        price = self._price(desk, buy)
        if price is None:
            return None, 0
        quantity = desk.quantity(floor.pick(floor.tables.lots))
        order = new(floor, desk, now_ns, _BUY if buy else _SELL, quantity, price, rests=False)
        return order, order.cl_ord_id

    def end(self, desk: Desk, number: int, now_ns: int) -> tuple[Request | None, int]:
        """Cancel a quote whose time has come, or replace it; and the number it then has.

        None if it is gone already.
        """
        floor = self._floor
        order = floor.by_client.get((floor.sessions.session_of(number), desk.security_id, number))
        if order is None:
            return None, 0
        if floor.random() < self._replace and desk.listing.status == _OPEN:
            price = self._price(desk, order.side == _BUY)
            if price is not None and price != order.price:
                request = modify(floor, desk, order, order.quantity, price, now_ns)
                return request, request.cl_ord_id
        return withdrawal(floor, desk, order), 0

    def _price(self, desk: Desk, buy: bool) -> int | None:
        """A step ahead of the best price, if there is room for it; else near the touch."""
        floor = self._floor
        if floor.random() < self._improve:
            steps = desk.ahead(buy)
            if steps is not None:
                return steps
        return desk.passive(buy, floor.pick(floor.tables.near))
