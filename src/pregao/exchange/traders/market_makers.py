"""Market makers: quotes at or inside the touch that live for milliseconds."""

from __future__ import annotations

from pregao.exchange.engine.model.enums import OrderSide, TimeInForce, TradingStatus
from pregao.exchange.traders.actions import CrowdCommand, TradingContext, modify, new, withdrawal
from pregao.exchange.traders.crowd_instrument import CrowdInstrument
from pregao.exchange.traders.profiles import Makers

_BUY, _SELL = OrderSide.BUY, OrderSide.SELL
_OPEN = TradingStatus.OPEN
_IOC = TimeInForce.IMMEDIATE_OR_CANCEL
_SNIPED, _MOVED = 0.04, 0.4
"""Shares of stale quotes that are taken, and taken or moved; the others are canceled."""


class MarketMakers:
    """Market makers' quotes, and their cancellation or replacement at their end."""

    def __init__(self, floor: TradingContext, makers: Makers) -> None:
        self._floor = floor
        self._improve = makers.improve
        self._replace = makers.replace
        self._deep = makers.deep

    def quote(
        self, instrument: CrowdInstrument, now_ns: int
    ) -> tuple[CrowdCommand | None, int, bool]:
        """Return a quote, its ClOrdID, and whether it is far from the touch.

        Others are one tick better than the touch or near it.
        """
        floor = self._floor
        random = floor.random
        buy = random() < 0.5
        deep = random() < self._deep
        if deep:
            price = instrument.passive(buy, floor.pick(floor.tables.far))
        else:
            price = self._price(instrument, buy)
        if price is None:
            return None, 0, deep
        quantity = instrument.quantity(floor.pick(floor.tables.lots))
        order = new(floor, instrument, now_ns, _BUY if buy else _SELL, quantity, price, rests=False)
        return order, order.cl_ord_id, deep

    def reprice(self, instrument: CrowdInstrument, now_ns: int) -> CrowdCommand | None:
        """Return the next request by which quotes follow the fair value; None if they do.

        Stale quotes are canceled or moved, or taken by someone faster; then the best price of each
        side is quoted where it fits the fair value.
        """
        if instrument.listing.status != _OPEN:
            instrument.quoted = None
            return None
        fair = instrument.fair
        bid, offer = instrument.best_bid(), instrument.best_offer()
        bid_gap, offer_gap = instrument.bid_gap, instrument.offer_gap
        if bid is not None and bid > fair - (bid_gap + 1) // 2:
            return self._withdraw(instrument, now_ns, bid, buy=True)
        if offer is not None and offer < fair + (offer_gap + 1) // 2:
            return self._withdraw(instrument, now_ns, offer, buy=False)
        if bid is None or bid < fair - bid_gap:
            request = self._quote_at(instrument, now_ns, buy=True)
            if request is not None:
                return request
        if offer is None or offer > fair + offer_gap:
            request = self._quote_at(instrument, now_ns, buy=False)
            if request is not None:
                return request
        instrument.quoted = fair
        return None

    def _withdraw(
        self, instrument: CrowdInstrument, now_ns: int, ticks: int, *, buy: bool
    ) -> CrowdCommand | None:
        """Return the end of a stale quote: canceled, moved behind the fair value, or taken."""
        floor = self._floor
        random = floor.random
        listing = instrument.listing
        level = (
            listing.bids.levels[ticks * instrument.tick]
            if buy
            else listing.offers.levels[-ticks * instrument.tick]
        )
        order = level.head
        assert order is not None
        draw = random()
        if draw < _SNIPED or not floor.sessions.sent(order):
            quantity = instrument.quantity(floor.pick(floor.tables.lots))
            return new(
                floor,
                instrument,
                now_ns,
                _SELL if buy else _BUY,
                quantity,
                ticks * instrument.tick,
                time_in_force=_IOC,
                rests=False,
            )
        if draw < _MOVED:
            price = instrument.passive(buy, floor.pick(floor.tables.near))
            if price is not None and price != order.price:
                return modify(floor, instrument, order, order.quantity, price, now_ns)
        return withdrawal(floor, instrument, order)

    def _quote_at(
        self, instrument: CrowdInstrument, now_ns: int, *, buy: bool
    ) -> CrowdCommand | None:
        """Return a quote at the fair value's best price of a side, if it is valid."""
        floor = self._floor
        price = instrument.passive(buy, 0)
        if price is None:
            return None
        side = instrument.listing.bids if buy else instrument.listing.offers
        if (price if buy else -price) in side.levels:
            return None
        quantity = instrument.quantity(floor.pick(floor.tables.lots))
        return new(floor, instrument, now_ns, _BUY if buy else _SELL, quantity, price)

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
        return instrument.passive(buy, floor.pick(floor.tables.touch))
