"""Actions of traders: each function reads one instrument and returns a command, or None."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from pregao.exchange.engine.book.listing import Listing
from pregao.exchange.engine.book.market import Market
from pregao.exchange.engine.book.order_book import EngineOrder
from pregao.exchange.engine.matching.self_trade_prevention import investor_number
from pregao.exchange.engine.model.commands import (
    CancelOrder,
    CrossSide,
    MassCancel,
    ModifyOrder,
    NewCross,
    NewOrder,
)
from pregao.exchange.engine.model.enums import (
    OrderSide,
    OrdType,
    RoutingInstruction,
    SelfTradePreventionInstruction,
    TimeInForce,
    TradingStatus,
)
from pregao.exchange.traders.crowd_instrument import TABLE, CrowdInstrument, RandomTables
from pregao.exchange.traders.fitting import exponent_for
from pregao.exchange.traders.profiles import Profile

_BUY = OrderSide.BUY
_SELL = OrderSide.SELL
_OPEN = TradingStatus.OPEN
_LIMIT = OrdType.LIMIT
_MARKET = OrdType.MARKET
_MARKET_TO_LIMIT = OrdType.MARKET_WITH_LEFTOVER_AS_LIMIT
_DAY = TimeInForce.DAY
_IOC = TimeInForce.IMMEDIATE_OR_CANCEL
_FOK = TimeInForce.FILL_OR_KILL
_GTC = TimeInForce.GOOD_TILL_CANCEL
_MOA = TimeInForce.GOOD_FOR_AUCTION
_MOC = TimeInForce.AT_THE_CLOSE
_RETAIL = RoutingInstruction.RETAIL_LIQUIDITY_TAKER
_UNROUTED = RoutingInstruction.NONE
_UNPREVENTED = SelfTradePreventionInstruction.NONE
_PREVENTIONS = tuple(SelfTradePreventionInstruction)

CrowdCommand = NewOrder | ModifyOrder | CancelOrder | MassCancel | NewCross
"""Any request of a member."""

_EMPTY, _THIN, _FULL = 0.5, 0.85, 1.15
"""Fill levels of a book, as shares of its target.

Below ``_EMPTY`` traders also quote far from the touch, below ``_THIN`` they do not cancel, above
``_FULL`` they do not quote.
"""
_TRIES = 6
"""Maximum number of order IDs tried to find an order that still rests."""
_QUEUE_NS = 60_000
"""Maximum time between the receipt of an order and its processing."""
_SPREAD_ORDERS = 6
"""Target number of resting orders per side of a user-defined spread."""
_MAX_WAITING = 12
"""Maximum number of stop and hidden orders of an instrument; the oldest is canceled then."""
_FIRST_NUMBER = 10_000_000_000_000
"""Start of the ClOrdIDs, so that they differ from those of other members."""
_SLIPS = tuple(ticks for ticks, weight in enumerate((3, 2, 1)) for _ in range(weight))
"""Ticks by which the limits of children that take one price are worse, as often as they occur."""
_SWEPT_LEVELS = 3
_FIRST_ONLY = 0.45
"""Share of the children above which they take no more than the first order in the queue."""
_INVESTORS = tuple(investor_number(200 + number, 1_000 + number) for number in range(16))
"""Investors that some of the orders name."""


class CrowdSpread:
    """Traders of a user-defined spread of two instruments: one is bought, the other sold."""

    __slots__ = ("bought", "instrument", "sold")

    def __init__(self, listing: Listing, bought: CrowdInstrument, sold: CrowdInstrument) -> None:
        self.instrument = CrowdInstrument(listing, _SPREAD_ORDERS, 1.0)
        self.bought, self.sold = bought, sold

    def follow_legs(self) -> CrowdInstrument:
        """Set the fair value from those of the legs, and return the instrument."""
        instrument = self.instrument
        instrument.fair = instrument.anchor = self.bought.fair - self.sold.fair
        return instrument


class CrowdSessions:
    """Sessions that send orders; the session of an order follows from its ClOrdID."""

    def __init__(self, rng: Random, profile: Profile) -> None:
        per_firm = profile.members.sessions
        firms = sorted(rng.sample(range(1, 10_000), profile.members.firms))
        self.firms = [firm for firm in firms for _ in range(per_firm)]
        self.count = len(self.firms)
        self._number = _FIRST_NUMBER
        exponent = exponent_for(profile.members.top_five, len(firms), 5)
        ranks = rng.sample(range(1, len(firms) + 1), len(firms))
        weights = [rank**-exponent for rank in ranks for _ in range(per_firm)]
        self.active = rng.choices(range(self.count), weights=weights, k=TABLE)
        """Indexes of sessions, each as often as it is active."""

    def new_id(self, index: int) -> int:
        """Return the next ClOrdID of a session."""
        self._number += 1
        return self._number * self.count + index

    def session_of(self, cl_ord_id: int) -> int:
        """Return the session that sent an order; 0 is the exchange's own."""
        return cl_ord_id % self.count + 1

    def sent(self, order: EngineOrder) -> bool:
        """Whether one of these sessions sent an order, rather than another member."""
        number, index = divmod(order.cl_ord_id, self.count)
        return order.session == index + 1 and _FIRST_NUMBER < number <= self._number


class TradingContext:
    """Context of every action: the market's orders, random numbers, sessions."""

    def __init__(self, market: Market, rng: Random, profile: Profile) -> None:
        self.by_client = market.by_client
        self.random = rng.random
        self.tables = RandomTables(rng, profile)
        self.sessions = CrowdSessions(rng, profile)
        self.far_share = profile.prices.far_share
        self.takers = profile.takers
        self.impact = profile.fair_value.impact
        self.permanent = profile.fair_value.permanent
        self.keep = 1.0 - 1.0 / profile.fair_value.relaxation
        self.take = _Choice(profile.take)
        self.anonymous = 1 - profile.members.shown
        """Share of the orders without a published firm."""
        self.spreads: list[CrowdSpread] = []
        """User-defined spreads listed so far."""

    def pick(self, table: list[int]) -> int:
        """Return a random entry of a table."""
        return table[int(self.random() * TABLE)]

    def someone(self) -> int:
        """Return the index of a random session."""
        return self.sessions.active[int(self.random() * TABLE)]

    def find(self, instrument: CrowdInstrument, keep: bool) -> tuple[EngineOrder | None, int]:
        """Return an order that still rests, preferring younger ones, and its index in the list.

        Drops the ClOrdIDs of ended orders that it meets; without ``keep`` also that of the order
        found.
        """
        live = instrument.live
        random = self.random
        count = self.sessions.count
        segment = instrument.listing.segment
        by_client = self.by_client
        size = len(live)
        for _ in range(_TRIES):
            if not size:
                break
            draw = random()
            index = size - 1 - int(size * draw * draw)
            cl_ord_id = live[index]
            # Inlined ``session_of``.
            order = by_client.get((cl_ord_id % count + 1, segment, cl_ord_id))
            if order is not None:
                if not keep:
                    del live[index]
                return order, index
            del live[index]
            size -= 1
        return None, -1

    def tidy(self, instrument: CrowdInstrument) -> None:
        """Drop the ClOrdIDs of ended orders once they are many."""
        if len(instrument.live) > 64 + 3 * instrument.resting():
            session_of = self.sessions.session_of
            segment = instrument.listing.segment
            instrument.live = [
                cl_ord_id
                for cl_ord_id in instrument.live
                if (session_of(cl_ord_id), segment, cl_ord_id) in self.by_client
            ]


class _Choice:
    """A choice among names by weight."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        total = sum(weights.values())
        cumulative = 0.0
        self._bounds: list[tuple[float, str]] = []
        for name, weight in weights.items():
            cumulative += weight / total
            if weight:
                self._bounds.append((cumulative, name))
        self._last = self._bounds[-1][1]

    def __call__(self, draw: float) -> str:
        for bound, name in self._bounds:
            if draw < bound:
                return name
        return self._last


def new(
    floor: TradingContext,
    instrument: CrowdInstrument,
    now_ns: int,
    side: OrderSide,
    quantity: int,
    price: int | None,
    ord_type: OrdType = _LIMIT,
    time_in_force: TimeInForce = _DAY,
    max_floor: int = 0,
    rests: bool = True,
) -> NewOrder:
    """Return a new order of a random member."""
    sessions = floor.sessions
    random = floor.random
    index = sessions.active[int(random() * TABLE)]
    cl_ord_id = sessions.new_id(index)
    anonymous = floor.anonymous
    firm = 0 if anonymous and random() < anonymous else sessions.firms[index]
    if rests:
        instrument.live.append(cl_ord_id)
    return NewOrder(
        index + 1,
        firm,
        cl_ord_id,
        instrument.security_id,
        side,
        quantity,
        price,
        ord_type,
        time_in_force,
        max_floor,
        0,
        None,
        None,
        0,
        0,
        0,
        now_ns - int(random() * _QUEUE_NS),
    )


def _thin_side(floor: TradingContext, instrument: CrowdInstrument) -> bool:
    """Choose whether to buy: the side with far fewer orders is filled first."""
    bids, offers = instrument.listing.bids.count, instrument.listing.offers.count
    if 4 * bids < 3 * offers:
        return True
    if 4 * offers < 3 * bids:
        return False
    return floor.random() < 0.5


def quote(
    floor: TradingContext,
    instrument: CrowdInstrument,
    now_ns: int,
    time_in_force: TimeInForce = _DAY,
) -> CrowdCommand | None:
    """Enter an order behind the touch, or cancel one if the book is full."""
    resting, target = instrument.resting(), instrument.target
    far = floor.far_share
    if resting > _FULL * target:
        return pull(floor, instrument)
    if resting < _EMPTY * target:
        far = max(far, 0.5)
    buy = _thin_side(floor, instrument)
    tables = floor.tables
    price = instrument.passive(buy, floor.pick(tables.far if floor.random() < far else tables.near))
    if price is None:
        return pull(floor, instrument)
    quantity = instrument.quantity(floor.pick(tables.lots))
    return new(
        floor,
        instrument,
        now_ns,
        _BUY if buy else _SELL,
        quantity,
        price,
        time_in_force=time_in_force,
    )


def pull(floor: TradingContext, instrument: CrowdInstrument) -> CrowdCommand | None:
    """Cancel an order, preferably one at a price that is no longer fair."""
    order = None
    listing = instrument.listing
    if listing.status == _OPEN:
        bid, offer = instrument.best_bid(), instrument.best_offer()
        if bid is not None and bid > instrument.fair:
            order = listing.bids.levels[bid * instrument.tick].head
        elif offer is not None and offer < instrument.fair:
            order = listing.offers.levels[-offer * instrument.tick].head
    if order is None or not floor.sessions.sent(order):
        order, _ = floor.find(instrument, keep=False)
    return None if order is None else withdrawal(floor, instrument, order)


def withdrawal(
    floor: TradingContext, instrument: CrowdInstrument, order: EngineOrder
) -> CancelOrder:
    """Return the cancellation of an order by its owner."""
    return CancelOrder(
        order.session,
        floor.sessions.new_id(order.session - 1),
        instrument.security_id,
        order.order_id,
        order.cl_ord_id,
    )


def cancel(floor: TradingContext, instrument: CrowdInstrument, now_ns: int) -> CrowdCommand | None:
    """Cancel an order, or enter one if the book is thin."""
    if instrument.resting() < _THIN * instrument.target:
        return quote(floor, instrument, now_ns)
    return pull(floor, instrument)


def requote(floor: TradingContext, instrument: CrowdInstrument, now_ns: int) -> CrowdCommand | None:
    """Move an order to another price near the touch, which loses its queue position."""
    order, index = floor.find(instrument, keep=True)
    if order is None or order.price is None:
        return quote(floor, instrument, now_ns)
    price = instrument.passive(order.side == _BUY, floor.pick(floor.tables.near))
    if price is None or price == order.price:
        return _resized(floor, instrument, order, index, now_ns)
    return _moved(floor, instrument, order, index, order.quantity, price, now_ns)


def reduce(floor: TradingContext, instrument: CrowdInstrument, now_ns: int) -> CrowdCommand | None:
    """Reduce an order's quantity, which keeps its queue position."""
    order, index = floor.find(instrument, keep=True)
    if order is None:
        return quote(floor, instrument, now_ns)
    return _resized(floor, instrument, order, index, now_ns)


def _resized(
    floor: TradingContext, instrument: CrowdInstrument, order: EngineOrder, index: int, now_ns: int
) -> CrowdCommand | None:
    """Reduce an order, or cancel one that has only one lot left."""
    lots = order.leaves // instrument.lot
    if lots < 2:
        return pull(floor, instrument)
    less = (1 + int(floor.random() * ((lots + 1) // 3))) * instrument.lot
    quantity = order.quantity - less
    if quantity < instrument.listing.min_qty:
        return pull(floor, instrument)
    return _moved(floor, instrument, order, index, quantity, order.price, now_ns)


def enlarge(floor: TradingContext, instrument: CrowdInstrument, now_ns: int) -> CrowdCommand | None:
    """Increase an order's quantity, which loses its queue position."""
    order, index = floor.find(instrument, keep=True)
    if order is None or order.price is None:
        return quote(floor, instrument, now_ns)
    quantity = order.quantity + instrument.lot * floor.pick(floor.tables.lots)
    if quantity != instrument.quantity(quantity // instrument.lot):
        return _resized(floor, instrument, order, index, now_ns)
    return _moved(floor, instrument, order, index, quantity, order.price, now_ns)


def _moved(
    floor: TradingContext,
    instrument: CrowdInstrument,
    order: EngineOrder,
    index: int,
    quantity: int,
    price: int | None,
    now_ns: int,
) -> ModifyOrder:
    """Modify quantity or price of an order in the instrument's list."""
    request = modify(floor, instrument, order, quantity, price, now_ns)
    instrument.live[index] = request.cl_ord_id
    return request


def modify(
    floor: TradingContext,
    instrument: CrowdInstrument,
    order: EngineOrder,
    quantity: int,
    price: int | None,
    now_ns: int,
) -> ModifyOrder:
    """Return a request to modify quantity or price of an order, with a new ClOrdID."""
    return ModifyOrder(
        order.session,
        floor.sessions.new_id(order.session - 1),
        instrument.security_id,
        quantity,
        price,
        order.order_id,
        order.cl_ord_id,
        received_ns=now_ns - int(floor.random() * _QUEUE_NS),
    )


def iceberg(floor: TradingContext, instrument: CrowdInstrument, now_ns: int) -> CrowdCommand | None:
    """Enter a large order that discloses a small quantity."""
    buy = _thin_side(floor, instrument)
    price = instrument.passive(buy, floor.pick(floor.tables.near))
    lots = floor.pick(floor.tables.lots)
    shown, quantity = (
        instrument.quantity(lots),
        instrument.quantity(lots * (3 + int(floor.random() * 8))),
    )
    if price is None or shown >= quantity:
        return quote(floor, instrument, now_ns)
    return new(
        floor, instrument, now_ns, _BUY if buy else _SELL, quantity, price, _LIMIT, _DAY, shown
    )


def good_till_cancel(
    floor: TradingContext, instrument: CrowdInstrument, now_ns: int
) -> CrowdCommand | None:
    """Enter an order that outlives the day."""
    allowed = instrument.listing.instrument.allows_good_till
    return quote(floor, instrument, now_ns, _GTC if allowed else _DAY)


def take(floor: TradingContext, instrument: CrowdInstrument, now_ns: int) -> CrowdCommand | None:
    """Trade immediately with the other side."""
    bid, offer = instrument.best_bid(), instrument.best_offer()
    if bid is None or offer is None:
        return quote(floor, instrument, now_ns)
    takers, tables = floor.takers, floor.tables
    buy = instrument.parent(tables, floor.random, takers.parents)
    listing = instrument.listing
    tick = instrument.tick
    if buy:
        book, best, side = listing.offers, offer, _BUY
        level = book.levels[-offer * tick]
    else:
        book, best, side = listing.bids, bid, _SELL
        level = book.levels[bid * tick]
    head = level.head
    assert head is not None
    draw = floor.random()
    lots = floor.pick(tables.lots)
    slip = _SLIPS[int(draw * 1e6) % len(_SLIPS)]
    # Most take from the orders at the best price, a few all of them, and some several prices.
    if draw < takers.sweep:
        lots = level.quantity // instrument.lot
        for key in book.keys[-2 : -2 - _SWEPT_LEVELS : -1]:
            swept = book.levels[key]
            lots += swept.quantity // instrument.lot
            slip = abs((-key if buy else key) // tick - best)
            if floor.random() < 0.5:
                break
    elif draw < takers.sweep + takers.level:
        lots = level.quantity // instrument.lot
    else:
        most = head.visible if draw > _FIRST_ONLY else level.quantity - head.visible // 2
        lots = min(lots, most // instrument.lot)
    quantity = instrument.quantity(max(lots, 1))
    instrument.press(
        buy, quantity / instrument.lot / tables.mean_lots, floor.impact, floor.permanent
    )
    price: int | None = (best + slip if buy else max(best - slip, instrument.least)) * tick
    kind = floor.take(floor.random())
    if kind == "limit":
        return new(floor, instrument, now_ns, side, quantity, price)
    ord_type, time_in_force = _LIMIT, _IOC
    if kind == "fill_or_kill":
        time_in_force = _FOK
    elif kind == "market_to_limit":
        ord_type, time_in_force, price = _MARKET_TO_LIMIT, _DAY, None
    elif kind == "market" and instrument.unpriced:
        ord_type, price = _MARKET, None
    return new(
        floor,
        instrument,
        now_ns,
        side,
        quantity,
        price,
        ord_type,
        time_in_force,
        rests=time_in_force == _DAY,
    )


def cross(floor: TradingContext, instrument: CrowdInstrument, now_ns: int) -> CrowdCommand | None:
    """Register a deal between two clients of a session, within the touch."""
    listing = instrument.listing
    if not listing.takes_crosses:
        return quote(floor, instrument, now_ns)
    bid, offer = instrument.best_bid(), instrument.best_offer()
    ticks = instrument.fair
    if offer is not None:
        ticks = min(ticks, offer)
    if bid is not None:
        ticks = max(ticks, bid)
    minimum = listing.instrument.min_cross_qty or 0
    quantity = max(
        instrument.quantity(10 * floor.pick(floor.tables.lots)),
        -(-minimum // instrument.lot) * instrument.lot,
    )
    sessions = floor.sessions
    index = floor.someone()
    firm = sessions.firms[index]
    return NewCross(
        index + 1,
        sessions.new_id(index),
        instrument.security_id,
        quantity,
        ticks * instrument.tick,
        CrossSide(firm, sessions.new_id(index)),
        CrossSide(firm, sessions.new_id(index)),
        now_ns - int(floor.random() * _QUEUE_NS),
    )


def mass_cancel(
    floor: TradingContext,
    instrument: CrowdInstrument,
    now_ns: int,  # noqa: ARG001 - an action
) -> CrowdCommand | None:
    """Cancel a session's orders, of this instrument or, less often, of all."""
    index = floor.someone()
    everywhere = floor.random() < 0.2
    return MassCancel(
        index + 1, floor.sessions.new_id(index), None if everywhere else instrument.security_id
    )


def auction_quote(
    floor: TradingContext, instrument: CrowdInstrument, now_ns: int
) -> CrowdCommand | None:
    """Send an order to an auction: deep while the book is thin, else around the fair value."""
    if instrument.resting() < _EMPTY * instrument.target and floor.random() < 0.7:
        return quote(floor, instrument, now_ns)
    buy = _thin_side(floor, instrument)
    price = instrument.crossing(floor.pick(floor.tables.around))
    if price is None:
        return pull(floor, instrument)
    quantity = instrument.quantity(floor.pick(floor.tables.lots))
    return new(floor, instrument, now_ns, _BUY if buy else _SELL, quantity, price)


def at_the_auction(
    floor: TradingContext, instrument: CrowdInstrument, now_ns: int
) -> CrowdCommand | None:
    """Send an order without a price that is valid for the auction (MOA)."""
    return _unpriced(floor, instrument, now_ns, _MOA)


def at_the_close(
    floor: TradingContext, instrument: CrowdInstrument, now_ns: int
) -> CrowdCommand | None:
    """Send an order without a price for the closing call (MOC)."""
    return _unpriced(floor, instrument, now_ns, _MOC)


def _unpriced(
    floor: TradingContext, instrument: CrowdInstrument, now_ns: int, time_in_force: TimeInForce
) -> CrowdCommand | None:
    if not instrument.unpriced:
        return quote(floor, instrument, now_ns)
    side = _BUY if floor.random() < 0.5 else _SELL
    quantity = instrument.quantity(floor.pick(floor.tables.lots))
    return new(floor, instrument, now_ns, side, quantity, None, _MARKET, time_in_force)


# --- Orders that wait, hide or name more than a price ---


def _special(
    floor: TradingContext,
    instrument: CrowdInstrument,
    now_ns: int,
    index: int,
    side: OrderSide,
    price: int | None,
    ord_type: OrdType = _LIMIT,
    time_in_force: TimeInForce = _DAY,
    *,
    stop_px: int | None = None,
    investor_id: int = 0,
    prevention: SelfTradePreventionInstruction = _UNPREVENTED,
    routing: RoutingInstruction = _UNROUTED,
) -> NewOrder:
    """Return a new order of a session; in the book it is one of the instrument's orders."""
    sessions = floor.sessions
    cl_ord_id = sessions.new_id(index)
    in_book = stop_px is None and ord_type == _LIMIT
    (instrument.live if in_book else instrument.waiting).append(cl_ord_id)
    return NewOrder(
        index + 1,
        sessions.firms[index],
        cl_ord_id,
        instrument.security_id,
        side,
        instrument.quantity(floor.pick(floor.tables.lots)),
        price,
        ord_type,
        time_in_force,
        0,
        0,
        stop_px,
        None,
        0,
        investor_id,
        0,
        now_ns - int(floor.random() * _QUEUE_NS),
        prevention,
        routing,
    )


def _oldest_waiting(floor: TradingContext, instrument: CrowdInstrument) -> CancelOrder | None:
    """Return the cancellation of the oldest waiting order if there are many, else None."""
    waiting = instrument.waiting
    while len(waiting) >= _MAX_WAITING:
        cl_ord_id = waiting.pop(0)
        session = floor.sessions.session_of(cl_ord_id)
        order = floor.by_client.get((session, instrument.listing.segment, cl_ord_id))
        if order is not None:
            return withdrawal(floor, instrument, order)
    return None


def stop(floor: TradingContext, instrument: CrowdInstrument, now_ns: int) -> CrowdCommand | None:
    """Enter a stop order a few ticks beyond the best price of its side."""
    if (withdrawn := _oldest_waiting(floor, instrument)) is not None:
        return withdrawn
    bid, offer = instrument.best_bid(), instrument.best_offer()
    if bid is None or offer is None:
        return quote(floor, instrument, now_ns)
    buy, listing = floor.random() < 0.5, instrument.listing
    distance = 1 + floor.pick(floor.tables.near)
    ticks = offer + distance if buy else max(bid - distance, instrument.least)
    tick = instrument.tick
    limit = (ticks + 2 if buy else max(ticks - 2, instrument.least)) * tick
    ord_type = OrdType.STOP_LIMIT
    price: int | None = limit
    if instrument.unpriced and floor.random() < 0.5:
        ord_type, price = OrdType.STOP_LOSS, None
    elif not listing.reject_low <= limit <= listing.reject_high:
        return quote(floor, instrument, now_ns)
    return _special(
        floor,
        instrument,
        now_ns,
        floor.someone(),
        _BUY if buy else _SELL,
        price,
        ord_type,
        stop_px=ticks * tick,
    )


def provide(floor: TradingContext, instrument: CrowdInstrument, now_ns: int) -> CrowdCommand | None:
    """Enter an order of a retail liquidity provider."""
    if instrument.listing.fixed_income:
        return quote(floor, instrument, now_ns)
    if (withdrawn := _oldest_waiting(floor, instrument)) is not None:
        return withdrawn
    instrument.provider = index = floor.someone()
    side = _BUY if floor.random() < 0.5 else _SELL
    return _special(floor, instrument, now_ns, index, side, None, OrdType.RLP)


def retail(floor: TradingContext, instrument: CrowdInstrument, now_ns: int) -> CrowdCommand | None:
    """Take the best price as a retail customer of the firm that provided liquidity last."""
    bid, offer = instrument.best_bid(), instrument.best_offer()
    if instrument.provider < 0 or bid is None or offer is None:
        return provide(floor, instrument, now_ns)
    buy = floor.random() < 0.5
    return _special(
        floor,
        instrument,
        now_ns,
        instrument.provider,
        _BUY if buy else _SELL,
        (offer if buy else bid) * instrument.tick,
        routing=_RETAIL,
    )


def pegged(floor: TradingContext, instrument: CrowdInstrument, now_ns: int) -> CrowdCommand | None:
    """Enter an order pegged to the midpoint."""
    if not instrument.unpriced or instrument.listing.fixed_income:
        return quote(floor, instrument, now_ns)
    if (withdrawn := _oldest_waiting(floor, instrument)) is not None:
        return withdrawn
    side = _BUY if floor.random() < 0.5 else _SELL
    return _special(floor, instrument, now_ns, floor.someone(), side, None, OrdType.PEGGED_MIDPOINT)


def investor(
    floor: TradingContext, instrument: CrowdInstrument, now_ns: int
) -> CrowdCommand | None:
    """Enter an order that names its investor: at the best price, or against the investor's own."""
    bid, offer = instrument.best_bid(), instrument.best_offer()
    if bid is None or offer is None:
        return quote(floor, instrument, now_ns)
    buy = floor.random() < 0.5
    listing = instrument.listing
    ticks = offer if buy else bid
    level = (listing.offers if buy else listing.bids).levels[
        (-ticks if buy else ticks) * instrument.tick
    ]
    head = level.head
    assert head is not None
    name = head.investor_id
    if not name:
        name = _INVESTORS[int(floor.random() * len(_INVESTORS))]
        ticks = bid if buy else offer
    return _special(
        floor,
        instrument,
        now_ns,
        floor.someone(),
        _BUY if buy else _SELL,
        ticks * instrument.tick,
        investor_id=name,
        prevention=_PREVENTIONS[int(floor.random() * len(_PREVENTIONS))],
    )


def user_spread(
    floor: TradingContext, instrument: CrowdInstrument, now_ns: int
) -> CrowdCommand | None:
    """Act on a user-defined spread, if one is listed and open."""
    spreads = floor.spreads
    if not spreads:
        return quote(floor, instrument, now_ns)
    spread = spreads[int(floor.random() * len(spreads))].follow_legs()
    if spread.listing.status != _OPEN:
        return quote(floor, instrument, now_ns)
    if floor.random() < 0.3:
        return take(floor, spread, now_ns)
    return quote(floor, spread, now_ns)


CrowdAction = Callable[[TradingContext, CrowdInstrument, int], "CrowdCommand | None"]
"""An action of a trader on an instrument at a time."""

OPEN: dict[str, CrowdAction] = {
    "quote": quote,
    "cancel": cancel,
    "reduce": reduce,
    "requote": requote,
    "enlarge": enlarge,
    "iceberg": iceberg,
    "at_the_close": at_the_close,
    "good_till_cancel": good_till_cancel,
    "aggress": take,
    "cross": cross,
    "mass_cancel": mass_cancel,
    "stop": stop,
    "provide": provide,
    "retail": retail,
    "pegged": pegged,
    "investor": investor,
    "user_spread": user_spread,
}
AUCTION: dict[str, CrowdAction] = {
    "quote": auction_quote,
    "at_the_auction": at_the_auction,
    "at_the_close": at_the_close,
    "cancel": cancel,
    "reduce": reduce,
    "requote": requote,
}
