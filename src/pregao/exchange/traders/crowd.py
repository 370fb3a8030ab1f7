"""Crowd of simulated traders: a realistic flow of orders, drawn from one seed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate

from pregao.errors import UsageError
from pregao.exchange.engine.book.listing import Listing
from pregao.exchange.engine.book.market import Market
from pregao.exchange.engine.model.enums import RATIO_SCALE, OrderSide, TradingStatus
from pregao.exchange.traders.actions import (
    AUCTION,
    OPEN,
    CrowdAction,
    CrowdCommand,
    CrowdSpread,
    TradingContext,
    quote,
)
from pregao.exchange.traders.arrivals import SeededRandom
from pregao.exchange.traders.crowd_instrument import CrowdInstrument
from pregao.exchange.traders.excitation import REPRICE, ReactionQueue
from pregao.exchange.traders.market_makers import MarketMakers
from pregao.exchange.traders.profiles import Profile

_OPEN = TradingStatus.OPEN
_AUCTIONS = (TradingStatus.RESERVED, TradingStatus.FINAL_CLOSING_CALL)
_HOT_SHARE = 0.6
"""Share of a burst that goes to one instrument."""
_BOOK_BUDGET = 0.2
"""Maximum share of the day's orders that is spent on filling the books."""
_TIDY_EVERY = 256


def activity_weights(symbols: Sequence[str], profile: Profile) -> list[float]:
    """Return each instrument's weight of the orders: a power law over ranks, and extra weights."""
    for symbol in profile.weights:
        if symbol not in symbols:
            raise UsageError(
                f"profile {profile.name}: weights.{symbol} is not an instrument of the simulation"
            )
    weights = [
        profile.weights.get(symbol, 1.0) / rank**profile.activity.exponent
        for rank, symbol in enumerate(symbols, 1)
    ]
    if not sum(weights):
        raise UsageError(
            f"profile {profile.name}: the weights of the instruments must not sum to 0"
        )
    return weights


class Crowd:
    """Simulated traders, which read the books and return their next request at a time.

    ``expected_orders`` bounds the share of a short run that is spent on filling large books.
    """

    def __init__(
        self,
        market: Market,
        listings: Sequence[Listing],
        profile: Profile,
        seed: int,
        expected_orders: float,
    ) -> None:
        listings = [listing for listing in listings if listing.takes_orders]
        if not listings:
            raise UsageError("none of the selected instruments is traded in an order book")
        self.expected_orders = expected_orders
        rng = SeededRandom(seed, "traders")
        weights = activity_weights([x.instrument.symbol for x in listings], profile)
        targets = _targets(weights, profile, expected_orders)
        self._floor = TradingContext(market, rng, profile)
        self._random = rng.random
        self.instruments = [
            # Less active instruments have a wider spread.
            CrowdInstrument(listing, target, profile.prices.half_spread + min(rank // 8, 5))
            for rank, (listing, target) in enumerate(zip(listings, targets, strict=True))
        ]
        self.firms = sorted(set(self._floor.sessions.firms))
        self._weights = list(accumulate(weights))
        self._total = self._weights[-1]
        self._count = len(listings)
        makers = profile.makers
        self.agenda = ReactionQueue(
            SeededRandom(seed, "agenda"),
            profile.excitation,
            makers,
            _quotes(profile) * makers.share * (1 - makers.deep),
        )
        self._makers = MarketMakers(self._floor, makers)
        _follow(self.instruments)
        self._maker_share = makers.share
        self._open = _Mix(profile.open, OPEN)
        self._auction = _Mix(profile.auction, AUCTION)
        self._burst = 0
        self._hot = self.instruments[0]
        self._news: CrowdInstrument | None = None
        self._since_tidy = 0
        self._chooser = self._choose

    def next(self, now_ns: int, burst: int) -> CrowdCommand | None:
        """Return the next request at this time, or None; ``burst`` is the burst's number or 0."""
        random = self._random
        agenda = self.agenda
        if burst != self._burst:
            self._burst = burst
            if burst:
                self._hot = self._news or self._pick()
                self._news = None
        due = agenda.due_ns
        if due is not None and due <= now_ns:
            instrument, order = agenda.pop()
            if order == REPRICE:
                return self._reprice(instrument, now_ns)
            if order:
                return self._end_quote(instrument, order, now_ns)
        else:
            instrument = self._choose()
        floor = self._floor
        instrument.move(floor.tables, random, floor.keep)
        status = instrument.listing.status
        if status == _OPEN:
            mix = self._open
        elif status in _AUCTIONS:
            mix = self._auction
        else:
            return None
        self._since_tidy += 1
        if self._since_tidy == _TIDY_EVERY:
            self._since_tidy = 0
            floor.tidy(instrument)
        action = mix.actions[bisect_right(mix.bounds, random() * mix.total)]
        request: CrowdCommand | None
        share = self._maker_share
        if action is quote and share and random() < share:
            request, cl_ord_id, deep = self._makers.quote(instrument, now_ns)
            if cl_ord_id:
                agenda.end_quote(now_ns, instrument, cl_ord_id, deep)
        else:
            request = action(floor, instrument, now_ns)
        # A decision to do nothing triggers reactions too: others saw the same cause.
        agenda.react(now_ns, instrument, self._chooser)
        if instrument.fair != instrument.quoted and not instrument.repricing and status == _OPEN:
            instrument.repricing = True
            agenda.reprice(now_ns, instrument)
        return request

    def _reprice(self, instrument: CrowdInstrument, now_ns: int) -> CrowdCommand | None:
        """Reprice one quote of the makers after the fair value, and schedule the next one."""
        request = self._makers.reprice(instrument, now_ns)
        if request is None:
            instrument.repricing = False
        else:
            self.agenda.reprice(now_ns, instrument)
        return request

    def _end_quote(
        self, instrument: CrowdInstrument, order: int, now_ns: int
    ) -> CrowdCommand | None:
        """End a market maker's quote: cancel it, or replace it and schedule its next end."""
        deep = order < 0
        request, cl_ord_id = self._makers.end(instrument, abs(order), now_ns)
        if cl_ord_id:
            self.agenda.end_quote(now_ns, instrument, cl_ord_id, deep)
        if request is not None and not deep:
            self.agenda.react(now_ns, instrument, self._chooser)
        return request

    def add_spread(self, listing: Listing, bought: CrowdInstrument, sold: CrowdInstrument) -> None:
        """Trade a user-defined spread from now on."""
        self._floor.spreads.append(CrowdSpread(listing, bought, sold))

    def heat(self, instrument: CrowdInstrument) -> None:
        """Direct the next burst to an instrument that has news."""
        self._news = instrument

    def _choose(self) -> CrowdInstrument:
        """Return an instrument to act on: mostly the same one within a burst."""
        if self._burst and self._random() < _HOT_SHARE:
            return self._hot
        return self._pick()

    def _pick(self) -> CrowdInstrument:
        """Return a random instrument, weighted by activity."""
        index = bisect_right(self._weights, self._random() * self._total)
        return self.instruments[index if index < self._count else -1]


def _follow(instruments: Sequence[CrowdInstrument]) -> None:
    """Move spreads with their legs, and odd lots with the round lots of the same share."""
    by_id = {instrument.security_id: instrument for instrument in instruments}
    by_symbol = {instrument.listing.instrument.symbol: instrument for instrument in instruments}
    for instrument in instruments:
        definition = instrument.listing.instrument
        followed = [
            (by_id.get(leg.security_id), leg.ratio_qty / RATIO_SCALE, leg.side)
            for leg in definition.legs
        ]
        round_lot = by_symbol.get(definition.symbol.removesuffix("F"))
        if round_lot is not instrument and definition.symbol.endswith("F"):
            followed.append((round_lot, 1.0, OrderSide.BUY))
        instrument.follows = tuple(
            (
                other,
                other.fair,
                (ratio if side == OrderSide.BUY else -ratio) * other.tick / instrument.tick,
            )
            for other, ratio, side in followed
            if other is not None
        )


class _Mix:
    """Actions by weight, prepared for bisection."""

    def __init__(self, weights: Mapping[str, float], actions: Mapping[str, CrowdAction]) -> None:
        chosen = [(weight, actions[name]) for name, weight in weights.items() if weight]
        self.bounds = list(accumulate(weight for weight, _ in chosen))
        self.total = self.bounds.pop()
        self.actions = [action for _, action in chosen]


def _quotes(profile: Profile) -> float:
    """Return the share of plain quotes among the actions of continuous trading."""
    return profile.open["quote"] / sum(profile.open.values())


def _targets(weights: Sequence[float], profile: Profile, expected_orders: float) -> list[int]:
    """Return the target number of resting orders per side of each book."""
    book = profile.book
    by_activity = sorted(range(len(weights)), key=lambda index: (-weights[index], index))
    targets = [0] * len(weights)
    ordinary = by_activity[min(book.large, len(by_activity) - 1)]
    for rank, index in enumerate(by_activity):
        share = weights[index] / weights[ordinary] if weights[ordinary] else 0.0
        orders = book.large_orders if rank < book.large else book.orders * share
        targets[index] = max(book.least, round(orders))
    total = 2 * sum(targets)
    scale = min(1.0, _BOOK_BUDGET * expected_orders / total)
    return [max(3, round(target * scale)) for target in targets]
