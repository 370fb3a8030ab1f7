"""Market operations of a simulated day: bands, news, halts, busts, settlement and others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from heapq import heapify, heappop, heappush
from itertools import count

from pregao.clock import SECOND
from pregao.exchange.engine.book.listing import Listing
from pregao.exchange.engine.book.market import Market
from pregao.exchange.engine.matching.statistics import regular_close
from pregao.exchange.engine.model.commands import Command, DefineSpread, ProposedLeg
from pregao.exchange.engine.model.enums import (
    PRICE8_PER_PRICE,
    RATIO_SCALE,
    NewsSource,
    OpenCloseSettlFlag,
    OrderSide,
    PriceBandMidpoint,
    PriceBandType,
    PriceLimitType,
    SettlPriceType,
    TradingStatus,
    TrdSubType,
)
from pregao.exchange.engine.model.operations_commands import (
    AddInstrument,
    AdjustLastTrade,
    AmendTrade,
    BustTrade,
    ChangeInstrument,
    DeleteSide,
    EnterTrade,
    ExpelOrder,
    PublishNews,
    RejoinGroup,
    RemoveInstrument,
    ResetBook,
    SetClosingPrice,
    SetOpenInterest,
    SetPriceBand,
    SetQuantityBand,
    SetSecurityStatus,
    SetSettlementPrice,
)
from pregao.exchange.traders.arrivals import ArrivalProcess, SeededRandom
from pregao.exchange.traders.crowd import Crowd
from pregao.exchange.traders.crowd_instrument import CrowdInstrument
from pregao.exchange.traders.profiles import Profile
from pregao.units import PRICE_SCALE

_PERCENT = PRICE_SCALE
_AUCTION_BAND = 4 * _PERCENT
_REJECTION_BAND = 12 * _PERCENT
_FLOATING_BANDS = (
    (PriceBandType.REJECTION_BAND, _REJECTION_BAND),
    (PriceBandType.AUCTION_LIMITS, _AUCTION_BAND),
)
"""Bands that follow the last price."""
_STATIC_LIMITS = 20
_HARD_LIMIT = 30
_MIN_STEPS_IN_BAND = 20
"""Minimum width of a band: a narrower one would call an auction at every other trade."""
_SPREAD_LIMIT_STEPS = 2000
_HALT_SHARE = 0.01
"""Maximum length of a halt, as a share of the day."""
_LOTS_A_DAY = 5_000_000
_SHARE_OF_AVERAGE = 20
_SHARE_OF_ISSUED = 5
"""Maximum quantity of an order, in percent of the average and of the shares issued."""
_SHUT = (TradingStatus.CLOSE, TradingStatus.FORBIDDEN)
_BLOCK = (TrdSubType.MIDPOINT_TRADE, TrdSubType.BLOCK_BOOK_TRADE)
_HEADLINES = (
    "Fato relevante: resultado acima do previsto",
    "Comunicado ao mercado: revisão de projeções",
    "Suspensão temporária de produção",
    "Aquisição anunciada antes da abertura",
    "Decisão de política monetária",
)
_SENTENCE = (
    "A companhia informa aos acionistas e ao mercado em geral que os números serão "
    "detalhados em teleconferência. "
)

_Act = Callable[["MarketOperations", int], "Iterator[Command]"]


class MarketOperations:
    """Commands of market operations, planned over a span of the day from a seed."""

    def __init__(
        self,
        market: Market,
        crowd: Crowd,
        pace: ArrivalProcess,
        profile: Profile,
        seed: int,
        start_ns: int,
        end_ns: int,
    ) -> None:
        self.market = market
        self.crowd = crowd
        self.pace = pace
        self.draws = SeededRandom(seed, "operations")
        self._number = count()
        self._length_ns = end_ns - start_ns
        self._percent = profile.shocks.percent
        self._plan: list[tuple[int, int, _Act]] = []
        acts = [*profile.operations.items(), ("shock", profile.shocks.count)]
        messages = profile.messages_per_order * crowd.expected_orders
        acts.append(("bands", round(profile.bands_share * messages / len(_FLOATING_BANDS))))
        for name, times in acts:
            for _ in range(times):
                when = start_ns + int(self.draws.random() * self._length_ns)
                self._plan.append((when, next(self._number), _ACTS[name]))
        # Settlement prices as §13.11.3 prints them: the previous day's, then a preview.
        for share, act in ((0.2, _update_settlement), (0.6, _preview_settlement)):
            when = start_ns + int(share * self._length_ns)
            self._plan.append((when, next(self._number), act))
        heapify(self._plan)
        self._next_security_id = max(market.listings, default=0) + 1_000_000
        self._news = count(1)

    @property
    def next_ns(self) -> int | None:
        """Time of the next planned operation."""
        return self._plan[0][0] if self._plan else None

    def due(self, now_ns: int) -> Iterator[Command]:
        """Yield the commands that are due; each must be applied before the next is requested."""
        while self._plan and self._plan[0][0] <= now_ns:
            _, _, act = heappop(self._plan)
            yield from act(self, now_ns)

    def later(self, when_ns: int, act: _Act) -> None:
        """Schedule a follow-up of a current operation."""
        heappush(self._plan, (when_ns, next(self._number), act))

    def opening(self) -> Iterator[Command]:
        """Yield the commands before the day starts: bands, reference prices, open interest."""
        for listing in list(self.market.listings.values()):
            yield from _bands(listing)
            if listing.derivative and listing.previous_close8 is not None:
                yield SetSettlementPrice(
                    listing.security_id,
                    listing.previous_close8 // PRICE8_PER_PRICE,
                    OpenCloseSettlFlag.ENTRY_FROM_PREVIOUS_BUSINESS_DAY,
                )
                yield SetOpenInterest(listing.security_id, int(self.draws.random() * 500_000))

    def closing(self) -> Iterator[Command]:
        """Yield the commands after the close: settlement and closing prices."""
        for listing in list(self.market.listings.values()):
            last = regular_close(listing)
            if last is None:
                continue
            if listing.derivative:
                yield SetSettlementPrice(
                    listing.security_id, last, settl_price_type=SettlPriceType.FINAL
                )
                yield SetOpenInterest(listing.security_id, int(self.draws.random() * 500_000))
            else:
                yield SetClosingPrice(
                    listing.security_id,
                    last * PRICE8_PER_PRICE,
                    last_trade_date=self.market.trade_date,
                )

    def instruments(self) -> list[CrowdInstrument]:
        """Return the instruments that are neither closed nor forbidden."""
        return [
            instrument
            for instrument in self.crowd.instruments
            if instrument.listing.status not in _SHUT
        ]

    def instrument(self) -> CrowdInstrument | None:
        """Return a random instrument that is traded now, or None."""
        instruments = self.instruments()
        return self.draws.choice(instruments) if instruments else None

    def quiet_instrument(self) -> CrowdInstrument | None:
        """Return a random instrument with a small book that is traded now, or None."""
        instruments = sorted(self.instruments(), key=lambda instrument: instrument.target)
        return (
            self.draws.choice(instruments[: max(1, len(instruments) * 3 // 4)])
            if instruments
            else None
        )

    def firm(self) -> int:
        """Return a random member firm."""
        return self.draws.choice(self.crowd.firms)


def _bands(listing: Listing) -> Iterator[Command]:
    """Yield the limits of the day for one instrument."""
    security_id = listing.security_id
    close8 = listing.previous_close8
    if not listing.takes_orders or close8 is None:
        return
    tick = listing.tick
    middle = close8 // PRICE8_PER_PRICE
    yield SetPriceBand(security_id, reference8=close8)
    yield _quantity_band(listing)
    if listing.instrument.allows_any_sign:
        reach = _SPREAD_LIMIT_STEPS * tick
        yield SetPriceBand(
            security_id, PriceBandType.HARD_LIMIT, low=middle - reach, high=middle + reach
        )
        return
    hard = max(middle * _HARD_LIMIT // 100 // tick, 50) * tick
    yield SetPriceBand(
        security_id, PriceBandType.HARD_LIMIT, low=max(tick, middle - hard), high=middle + hard
    )
    if middle * _AUCTION_BAND // (100 * _PERCENT) < _MIN_STEPS_IN_BAND * tick:
        return
    static = middle * _STATIC_LIMITS // 100 // tick * tick
    yield SetPriceBand(
        security_id, PriceBandType.STATIC_LIMITS, low=middle - static, high=middle + static
    )
    for kind, width in _FLOATING_BANDS:
        yield SetPriceBand(
            security_id,
            kind,
            PriceLimitType.PERCENTAGE,
            PriceBandMidpoint.LAST_TRADED_PRICE,
            -width,
            width,
        )


def _resend_bands(operations: MarketOperations, now_ns: int) -> Iterator[Command]:
    """Publish the auction and rejection bands of an instrument again, as current prices."""
    del now_ns
    instruments = [
        instrument
        for instrument in operations.instruments()
        if PriceBandType.AUCTION_LIMITS in instrument.listing.bands
        and instrument.listing.reference_price() is not None
    ]
    if not instruments:
        return
    listing = operations.draws.choice(instruments).listing
    middle, tick = listing.reference_price(), listing.tick
    assert middle is not None
    for kind, width in _FLOATING_BANDS:
        reach = middle * width // (100 * _PERCENT) // tick * tick
        yield SetPriceBand(
            listing.security_id,
            kind,
            PriceLimitType.PRICE_UNIT,
            low=max(tick, middle - reach),
            high=middle + reach,
        )


def _quantity_band(listing: Listing) -> SetQuantityBand:
    """Return the smaller of a share of those issued and one of the average; 0 for derivatives."""
    if listing.derivative:
        return SetQuantityBand(listing.security_id, 0, 0)
    average = listing.lot * _LOTS_A_DAY
    maximum = average * _SHARE_OF_AVERAGE // 100
    issued = listing.instrument.no_shares_issued
    if issued is not None:
        maximum = min(maximum, issued * _SHARE_OF_ISSUED // 100)
    return SetQuantityBand(
        listing.security_id, max(maximum // listing.lot * listing.lot, listing.min_qty), average
    )


def _shock(operations: MarketOperations, now_ns: int) -> Iterator[Command]:
    """Publish news that moves a price, and start a burst of orders."""
    draws = operations.draws
    instrument = operations.instrument()
    if instrument is None:
        return
    percent = draws.uniform(*operations._percent)
    instrument.shock(percent if draws.random() < 0.5 else -percent)
    operations.pace.begin_burst(now_ns)
    operations.crowd.heat(instrument)
    yield PublishNews(
        draws.choice(_HEADLINES),
        _SENTENCE * draws.randint(1, 30),
        "https://example.invalid/noticias" if draws.random() < 0.5 else "",
        draws.choice((NewsSource.MARKET_SURVEILLANCE, NewsSource.BOVESPA_COMPANIES_AGENCY)),
        instrument.security_id if draws.random() < 0.8 else None,
        "pt",
        next(operations._news),
    )


def _update_settlement(operations: MarketOperations, now_ns: int) -> Iterator[Command]:
    """Publish the settlement prices of the previous day again, as updated."""
    del now_ns
    for listing in list(operations.market.listings.values()):
        if listing.derivative and listing.previous_close8 is not None:
            yield SetSettlementPrice(
                listing.security_id,
                listing.previous_close8 // PRICE8_PER_PRICE,
                OpenCloseSettlFlag.ENTRY_FROM_PREVIOUS_BUSINESS_DAY,
                SettlPriceType.UPDATED,
            )


def _preview_settlement(operations: MarketOperations, now_ns: int) -> Iterator[Command]:
    """Publish a preview of the day's settlement prices."""
    del now_ns
    for listing in list(operations.market.listings.values()):
        if listing.derivative and listing.statistics.last is not None:
            yield SetSettlementPrice(
                listing.security_id,
                listing.statistics.last,
                settl_price_type=SettlPriceType.UPDATED,
            )


def _traded(operations: MarketOperations) -> tuple[CrowdInstrument, int] | None:
    """Return a random instrument and one of its trades that can still be changed, or None."""
    instruments = [
        instrument for instrument in operations.instruments() if instrument.listing.trades
    ]
    if not instruments:
        return None
    instrument = operations.draws.choice(instruments)
    listing = instrument.listing
    trade_id = operations.draws.choice(list(listing.trades)[-50:])
    # A trade of an earlier session no longer counts in the statistics, and is left unchanged.
    counted = trade_id > listing.statistics.after_id
    return (instrument, trade_id) if counted else None


def _bust(operations: MarketOperations, now_ns: int) -> Iterator[Command]:
    del now_ns
    if (found := _traded(operations)) is not None:
        yield BustTrade(found[0].security_id, found[1])


def _amend(operations: MarketOperations, now_ns: int) -> Iterator[Command]:
    del now_ns
    if (found := _traded(operations)) is not None:
        instrument, trade_id = found
        size = instrument.listing.trades[trade_id].item.size
        yield AmendTrade(instrument.security_id, trade_id, quantity=size + instrument.lot)


def _sub_types(market: Market, listing: Listing) -> list[TrdSubType | None]:
    """Return the sub types that a manual trade of an instrument can have."""
    kinds: list[TrdSubType | None] = [None, TrdSubType.BLOCK_BOOK_TRADE]
    if not listing.fixed_income:
        kinds.append(TrdSubType.RLP_TRADE)
    if not listing.derivative:
        kinds += [TrdSubType.MULTI_ASSET_TRADE, TrdSubType.MIDPOINT_TRADE]
    legs = (leg for other in market.listings.values() for leg in other.instrument.legs)
    if any(leg.security_id == listing.security_id for leg in legs):
        kinds.append(TrdSubType.LEG_TRADE)
    return kinds


def _enter_trade(operations: MarketOperations, now_ns: int) -> Iterator[Command]:
    draws = operations.draws
    instrument = operations.instrument()
    if instrument is None:
        return
    late = draws.random() < 0.3
    kind = draws.choice(_sub_types(operations.market, instrument.listing))
    yield EnterTrade(
        instrument.security_id,
        max(instrument.fair, instrument.least) * instrument.tick,
        instrument.lot * draws.randint(1, 500),
        operations.firm(),
        operations.firm(),
        kind,
        crossed=kind not in _BLOCK and draws.random() < 0.2,
        out_of_sequence=late,
        transact_time_ns=now_ns - draws.randint(1, 60) * SECOND if late else None,
    )


def _forward(operations: MarketOperations, now_ns: int) -> Iterator[Command]:
    del now_ns
    draws = operations.draws
    forwards = [
        listing
        for listing in operations.market.listings.values()
        if listing.instrument.is_forward and listing.status not in _SHUT
    ]
    if not forwards:
        return
    listing = draws.choice(forwards)
    price = listing.reference_price() or 1000 * listing.tick
    yield EnterTrade(
        listing.security_id,
        max(listing.tick, price // listing.tick * listing.tick),
        listing.lot * draws.randint(1, 200),
        operations.firm(),
        operations.firm(),
        on_behalf=False,
        seller_days=draws.choice((16, 30, 60, 90)),
        interest_rate=draws.randint(50, 1500),
    )


def _expel(operations: MarketOperations, now_ns: int) -> Iterator[Command]:
    del now_ns
    instrument = operations.instrument()
    if instrument is None:
        return
    for side in (instrument.listing.bids, instrument.listing.offers):
        if side.keys and (order := side.levels[side.keys[0]].head) is not None:
            yield ExpelOrder(order.order_id)
            return


def _delete_side(operations: MarketOperations, now_ns: int) -> Iterator[Command]:
    del now_ns
    if (instrument := operations.quiet_instrument()) is not None:
        yield DeleteSide(
            instrument.security_id, operations.draws.choice((OrderSide.BUY, OrderSide.SELL))
        )


def _pause(operations: MarketOperations, now_ns: int) -> Iterator[Command]:
    instrument = operations.quiet_instrument()
    if instrument is None:
        return
    listing = instrument.listing
    if listing.own_status is not None or listing.status != TradingStatus.OPEN:
        return
    length = int(operations.draws.uniform(0.2, 1.0) * _HALT_SHARE * operations._length_ns)

    def rejoin(operations: MarketOperations, now_ns: int) -> Iterator[Command]:
        del operations, now_ns
        # Its group may have made it rejoin meanwhile, by starting an auction.
        if listing.own_status == TradingStatus.PAUSE:
            yield RejoinGroup(listing.security_id)

    operations.later(now_ns + length + 1, rejoin)
    yield SetSecurityStatus(listing.security_id, TradingStatus.PAUSE)


def _reset_book(operations: MarketOperations, now_ns: int) -> Iterator[Command]:
    del now_ns
    if (instrument := operations.quiet_instrument()) is not None:
        yield ResetBook(instrument.security_id)


def _define(operations: MarketOperations, now_ns: int) -> Iterator[Command]:
    """List a new instrument modeled on another one, change it later, and delist it."""
    instrument = operations.quiet_instrument()
    if instrument is None:
        return
    template = instrument.listing.instrument
    security_id = 1 + max(operations._next_security_id, *operations.market.listings)
    operations._next_security_id = security_id
    new = replace(
        template,
        security_id=security_id,
        symbol=f"N{security_id}",
        isin_number=None,
        previous_close=None,
    )

    def change(operations: MarketOperations, now_ns: int) -> Iterator[Command]:
        del operations, now_ns
        yield ChangeInstrument(replace(new, security_desc="Description changed during the day"))

    def remove(operations: MarketOperations, now_ns: int) -> Iterator[Command]:
        del operations, now_ns
        yield RemoveInstrument(security_id)

    length = operations._length_ns // 20
    operations.later(now_ns + length + 1, change)
    operations.later(now_ns + 2 * length + 2, remove)
    yield AddInstrument(new)


def _adjust(operations: MarketOperations, now_ns: int) -> Iterator[Command]:
    del now_ns
    instruments = [
        instrument
        for instrument in operations.instruments()
        if instrument.listing.statistics.last is not None
    ]
    if instruments:
        listing = operations.draws.choice(instruments).listing
        assert listing.statistics.last is not None
        yield AdjustLastTrade(listing.security_id, listing.statistics.last, listing.lot)


def _define_spread(operations: MarketOperations, now_ns: int) -> Iterator[Command]:
    """Define a spread of two instruments for a member; the crowd then trades it."""
    del now_ns
    market, draws = operations.market, operations.draws
    legs = [each for each in operations.instruments() if _is_leg(each)]
    if not legs:
        return
    first = draws.choice(legs)
    if not (others := [each for each in legs if _fit(first, each)]):
        return
    second = draws.choice(others)
    known = len(market.user_spreads)
    sides = (OrderSide.BUY, OrderSide.SELL)
    yield DefineSpread(
        1 + int(draws.random() * len(operations.crowd.firms)),
        next(operations._number),
        tuple(
            ProposedLeg(leg.listing.instrument.symbol, side, RATIO_SCALE)
            for leg, side in zip((first, second), sides, strict=True)
        ),
    )
    # The same strategy may be listed already, or its opposite.
    if len(market.user_spreads) > known:
        listing = market.listings[next(reversed(market.user_spreads))]
        operations.crowd.add_spread(listing, first, second)


def _is_leg(instrument: CrowdInstrument) -> bool:
    """Whether an instrument can be a leg of a user-defined spread."""
    listing = instrument.listing
    return not listing.instrument.legs and listing.reference_price() is not None


def _fit(first: CrowdInstrument, second: CrowdInstrument) -> bool:
    """Whether two possible legs can be legs of one spread."""
    ours, theirs = first.listing.instrument, second.listing.instrument
    return (
        first is not second
        and ours.channel == theirs.channel
        and ours.min_price_increment == theirs.min_price_increment
    )


_ACTS: dict[str, _Act] = {
    "bust": _bust,
    "amend": _amend,
    "enter_trade": _enter_trade,
    "forward": _forward,
    "cancel_order": _expel,
    "delete_side": _delete_side,
    "pause": _pause,
    "reset_book": _reset_book,
    "list_instrument": _define,
    "adjust": _adjust,
    "define_spread": _define_spread,
    "bands": _resend_bands,
    "shock": _shock,
}
