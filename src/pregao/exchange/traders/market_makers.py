"""Market makers: quotes at or inside the touch that live for milliseconds."""

from __future__ import annotations

from pregao.exchange.engine.model.enums import OrderSide, TradingStatus
from pregao.exchange.traders.actions import CrowdCommand, TradingContext, modify, new, withdrawal
from pregao.exchange.traders.crowd_instrument import CrowdInstrument

_BUY, _SELL = OrderSide.BUY, OrderSide.SELL
_OPEN = TradingStatus.OPEN


class MarketMakers:
    """Market makers' quotes, and their cancellation or replacement at their end."""

    def __init__(self, floor: TradingContext, improve: float, replace: float) -> None:
        self._floor = floor
        self._improve = improve
        self._replace = replace

    def quote(self, instrument: CrowdInstrument, now_ns: int) -> tuple[CrowdCommand | None, int]:
        """Return a quote, one tick better than the touch or near it, and its ClOrdID."""
        floor = self._floor
        random = floor.random
        buy = random() < 0.5
        price = self._price(instrument, buy)
        if price is None:
            return None, 0
        quantity = instrument.quantity(floor.pick(floor.tables.lots))
        order = new(floor, instrument, now_ns, _BUY if buy else _SELL, quantity, price, rests=False)
        return order, order.cl_ord_id

    def end(
        self, instrument: CrowdInstrument, number: int, now_ns: int
    ) -> tuple[CrowdCommand | None, int]:
        """Cancel or replace a quote at its end; returns the request, and the new ClOrdID or 0.

        The request is None if the quote has already ended.
        """
        floor = self._floor
        order = floor.by_client.get(
            (floor.sessions.session_of(number), instrument.listing.segment, number)
        )
        if order is None:
            return None, 0
        if floor.random() < self._replace and instrument.listing.status == _OPEN:
            price = self._price(instrument, order.side == _BUY)
            if price is not None and price != order.price:
                request = modify(floor, instrument, order, order.quantity, price, now_ns)
                return request, request.cl_ord_id
        return withdrawal(floor, instrument, order), 0

    def _price(self, instrument: CrowdInstrument, buy: bool) -> int | None:
        """Return a price one tick better than the touch, if possible, or one near the touch."""
        floor = self._floor
        if floor.random() < self._improve:
            price = instrument.ahead(buy)
            if price is not None:
                return price
        return instrument.passive(buy, floor.pick(floor.tables.near))
