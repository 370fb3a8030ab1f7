"""Actions of traders: each function reads one instrument and returns a command, or None."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from pregao.exchange.engine.book.market import Market
from pregao.exchange.engine.book.order_book import EngineOrder
from pregao.exchange.engine.model.commands import (
    CancelOrder,
    CrossSide,
    MassCancel,
    ModifyOrder,
    NewCross,
    NewOrder,
)
from pregao.exchange.engine.model.enums import OrderSide, OrdType, TimeInForce, TradingStatus
from pregao.exchange.traders.crowd_instrument import TABLE, CrowdInstrument, RandomTables
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


class CrowdSessions:
    """Sessions that send orders; the session of an order follows from its ClOrdID."""

    def __init__(self, rng: Random, profile: Profile) -> None:
        per_firm = profile.members.sessions
        firms = sorted(rng.sample(range(1, 10_000), profile.members.firms))
        self.firms = [firm for firm in firms for _ in range(per_firm)]
        self.count = len(self.firms)
        self._number = 0

    def new_id(self, index: int) -> int:
        """Return the next ClOrdID of a session."""
        self._number += 1
        return self._number * self.count + index

    def session_of(self, cl_ord_id: int) -> int:
        """Return the session that sent an order; 0 is the exchange's own."""
        return cl_ord_id % self.count + 1


class TradingContext:
    """Context of every action: the market's orders, random numbers, sessions."""

    def __init__(self, market: Market, rng: Random, profile: Profile) -> None:
        self.by_client = market.by_client
        self.random = rng.random
        self.tables = RandomTables(rng, profile)
        self.sessions = CrowdSessions(rng, profile)
        self.far_share = profile.prices.far_share
        self.move = profile.prices.move
        self.take = _Choice(profile.take)
        self.anonymous = 1 - profile.members.shown
        """Share of the orders without a published firm."""

    def pick(self, table: list[int]) -> int:
        """Return a random entry of a table."""
        return table[int(self.random() * TABLE)]

    def someone(self) -> int:
        """Return the index of a random session."""
        return int(self.random() * self.sessions.count)

    def find(self, desk: CrowdInstrument, keep: bool) -> tuple[EngineOrder | None, int]:
        """Return an order that still rests, preferring younger ones, and its index in the list.

        Drops the ClOrdIDs of ended orders that it meets; without ``keep`` also that of the order
        found.
        """
        live = desk.live
        random = self.random
        count = self.sessions.count
        security_id = desk.security_id
        by_client = self.by_client
        size = len(live)
        for _ in range(_TRIES):
            if not size:
                break
            draw = random()
            index = size - 1 - int(size * draw * draw)
            cl_ord_id = live[index]
            # Inlined ``session_of``.
            order = by_client.get((cl_ord_id % count + 1, security_id, cl_ord_id))
            if order is not None:
                if not keep:
                    del live[index]
                return order, index
            del live[index]
            size -= 1
        return None, -1

    def tidy(self, desk: CrowdInstrument) -> None:
        """Drop the ClOrdIDs of ended orders once they are many."""
        if len(desk.live) > 64 + 3 * desk.resting():
            session_of = self.sessions.session_of
            security_id = desk.security_id
            desk.live = [
                cl_ord_id
                for cl_ord_id in desk.live
                if (session_of(cl_ord_id), security_id, cl_ord_id) in self.by_client
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
    desk: CrowdInstrument,
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
    index = int(random() * sessions.count)
    cl_ord_id = sessions.new_id(index)
    anonymous = floor.anonymous
    firm = 0 if anonymous and random() < anonymous else sessions.firms[index]
    if rests:
        desk.live.append(cl_ord_id)
    return NewOrder(
        index + 1,
        firm,
        cl_ord_id,
        desk.security_id,
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


def _thin_side(floor: TradingContext, desk: CrowdInstrument) -> bool:
    """Choose whether to buy: the side with far fewer orders is filled first."""
    bids, offers = desk.listing.bids.count, desk.listing.offers.count
    if 4 * bids < 3 * offers:
        return True
    if 4 * offers < 3 * bids:
        return False
    return floor.random() < 0.5


def quote(
    floor: TradingContext, desk: CrowdInstrument, now_ns: int, time_in_force: TimeInForce = _DAY
) -> CrowdCommand | None:
    """Enter an order behind the touch, or cancel one if the book is full."""
    resting, target = desk.resting(), desk.target
    far = floor.far_share
    if resting > _FULL * target:
        return pull(floor, desk)
    if resting < _EMPTY * target:
        far = max(far, 0.5)
    buy = _thin_side(floor, desk)
    tables = floor.tables
    price = desk.passive(buy, floor.pick(tables.far if floor.random() < far else tables.near))
    if price is None:
        return pull(floor, desk)
    quantity = desk.quantity(floor.pick(tables.lots))
    return new(
        floor, desk, now_ns, _BUY if buy else _SELL, quantity, price, time_in_force=time_in_force
    )


def pull(floor: TradingContext, desk: CrowdInstrument) -> CrowdCommand | None:
    """Cancel an order, preferably one at a price that is no longer fair."""
    order = None
    listing = desk.listing
    if listing.status == _OPEN:
        bid, offer = desk.best_bid(), desk.best_offer()
        if bid is not None and bid > desk.fair:
            order = listing.bids.levels[bid * desk.tick].head
        elif offer is not None and offer < desk.fair:
            order = listing.offers.levels[-offer * desk.tick].head
    if order is None or not order.session:
        order, _ = floor.find(desk, keep=False)
    return None if order is None else withdrawal(floor, desk, order)


def withdrawal(floor: TradingContext, desk: CrowdInstrument, order: EngineOrder) -> CancelOrder:
    """Return the cancellation of an order by its owner."""
    return CancelOrder(
        order.session,
        floor.sessions.new_id(order.session - 1),
        desk.security_id,
        order.order_id,
        order.cl_ord_id,
    )


def cancel(floor: TradingContext, desk: CrowdInstrument, now_ns: int) -> CrowdCommand | None:
    """Cancel an order, or enter one if the book is thin."""
    if desk.resting() < _THIN * desk.target:
        return quote(floor, desk, now_ns)
    return pull(floor, desk)


def requote(floor: TradingContext, desk: CrowdInstrument, now_ns: int) -> CrowdCommand | None:
    """Move an order to another price near the touch, which loses its queue position."""
    order, index = floor.find(desk, keep=True)
    if order is None or order.price is None:
        return quote(floor, desk, now_ns)
    price = desk.passive(order.side == _BUY, floor.pick(floor.tables.near))
    if price is None or price == order.price:
        return _resized(floor, desk, order, index, now_ns)
    return _moved(floor, desk, order, index, order.quantity, price, now_ns)


def reduce(floor: TradingContext, desk: CrowdInstrument, now_ns: int) -> CrowdCommand | None:
    """Reduce an order's quantity, which keeps its queue position."""
    order, index = floor.find(desk, keep=True)
    if order is None:
        return quote(floor, desk, now_ns)
    return _resized(floor, desk, order, index, now_ns)


def _resized(
    floor: TradingContext, desk: CrowdInstrument, order: EngineOrder, index: int, now_ns: int
) -> CrowdCommand | None:
    """Reduce an order, or cancel one that has only one lot left."""
    lots = order.leaves // desk.lot
    if lots < 2:
        return pull(floor, desk)
    less = (1 + int(floor.random() * ((lots + 1) // 3))) * desk.lot
    quantity = order.quantity - less
    if quantity < desk.listing.min_qty:
        return pull(floor, desk)
    return _moved(floor, desk, order, index, quantity, order.price, now_ns)


def enlarge(floor: TradingContext, desk: CrowdInstrument, now_ns: int) -> CrowdCommand | None:
    """Increase an order's quantity, which loses its queue position."""
    order, index = floor.find(desk, keep=True)
    if order is None or order.price is None:
        return quote(floor, desk, now_ns)
    quantity = order.quantity + desk.lot * floor.pick(floor.tables.lots)
    if quantity != desk.quantity(quantity // desk.lot):
        return _resized(floor, desk, order, index, now_ns)
    return _moved(floor, desk, order, index, quantity, order.price, now_ns)


def _moved(
    floor: TradingContext,
    desk: CrowdInstrument,
    order: EngineOrder,
    index: int,
    quantity: int,
    price: int | None,
    now_ns: int,
) -> ModifyOrder:
    """Modify quantity or price of an order in the desk's list."""
    request = modify(floor, desk, order, quantity, price, now_ns)
    desk.live[index] = request.cl_ord_id
    return request


def modify(
    floor: TradingContext,
    desk: CrowdInstrument,
    order: EngineOrder,
    quantity: int,
    price: int | None,
    now_ns: int,
) -> ModifyOrder:
    """Return a request to modify quantity or price of an order, with a new ClOrdID."""
    return ModifyOrder(
        order.session,
        floor.sessions.new_id(order.session - 1),
        desk.security_id,
        quantity,
        price,
        order.order_id,
        order.cl_ord_id,
        received_ns=now_ns - int(floor.random() * _QUEUE_NS),
    )


def iceberg(floor: TradingContext, desk: CrowdInstrument, now_ns: int) -> CrowdCommand | None:
    """Enter a large order that discloses a small quantity."""
    buy = _thin_side(floor, desk)
    price = desk.passive(buy, floor.pick(floor.tables.near))
    lots = floor.pick(floor.tables.lots)
    shown, quantity = desk.quantity(lots), desk.quantity(lots * (3 + int(floor.random() * 8)))
    if price is None or shown >= quantity:
        return quote(floor, desk, now_ns)
    return new(floor, desk, now_ns, _BUY if buy else _SELL, quantity, price, _LIMIT, _DAY, shown)


def good_till_cancel(
    floor: TradingContext, desk: CrowdInstrument, now_ns: int
) -> CrowdCommand | None:
    """Enter an order that outlives the day."""
    allowed = desk.listing.instrument.allows_good_till
    return quote(floor, desk, now_ns, _GTC if allowed else _DAY)


def take(floor: TradingContext, desk: CrowdInstrument, now_ns: int) -> CrowdCommand | None:
    """Trade immediately with the other side."""
    bid, offer = desk.best_bid(), desk.best_offer()
    if bid is None or offer is None:
        return quote(floor, desk, now_ns)
    if offer < desk.fair + desk.offer_gap:
        buy = True
    elif bid > desk.fair - desk.bid_gap:
        buy = False
    else:
        buy = floor.random() < 0.5
    listing = desk.listing
    if buy:
        level, best, side = listing.offers.levels[-offer * desk.tick], offer, _BUY
    else:
        level, best, side = listing.bids.levels[bid * desk.tick], bid, _SELL
    head = level.head
    assert head is not None
    draw = floor.random()
    lots = floor.pick(floor.tables.lots)
    # Most take from the first order in the queue, some from a few, and a few sweep the level.
    if draw > 0.99:
        lots += level.quantity // desk.lot
    else:
        lots = min(lots, (1 if draw < 0.8 else 3) * head.visible // desk.lot)
    quantity = desk.quantity(max(lots, 1))
    slip = int(floor.random() * 3)
    price: int | None = (best + slip if buy else max(best - slip, desk.least)) * desk.tick
    kind = floor.take(floor.random())
    if kind == "limit":
        return new(floor, desk, now_ns, side, quantity, price)
    ord_type, time_in_force = _LIMIT, _IOC
    if kind == "fill_or_kill":
        time_in_force = _FOK
    elif kind == "market_to_limit":
        ord_type, time_in_force, price = _MARKET_TO_LIMIT, _DAY, None
    elif kind == "market" and desk.unpriced:
        ord_type, price = _MARKET, None
    return new(
        floor,
        desk,
        now_ns,
        side,
        quantity,
        price,
        ord_type,
        time_in_force,
        rests=time_in_force == _DAY,
    )


def cross(floor: TradingContext, desk: CrowdInstrument, now_ns: int) -> CrowdCommand | None:
    """Register a deal between two clients of a session, within the touch."""
    listing = desk.listing
    if not listing.takes_crosses:
        return quote(floor, desk, now_ns)
    bid, offer = desk.best_bid(), desk.best_offer()
    ticks = desk.fair
    if offer is not None:
        ticks = min(ticks, offer)
    if bid is not None:
        ticks = max(ticks, bid)
    minimum = listing.instrument.min_cross_qty or 0
    quantity = max(
        desk.quantity(10 * floor.pick(floor.tables.lots)), -(-minimum // desk.lot) * desk.lot
    )
    sessions = floor.sessions
    index = floor.someone()
    firm = sessions.firms[index]
    return NewCross(
        index + 1,
        sessions.new_id(index),
        desk.security_id,
        quantity,
        ticks * desk.tick,
        CrossSide(firm, sessions.new_id(index)),
        CrossSide(firm, sessions.new_id(index)),
        now_ns - int(floor.random() * _QUEUE_NS),
    )


def mass_cancel(floor: TradingContext, desk: CrowdInstrument, now_ns: int) -> CrowdCommand | None:  # noqa: ARG001
    """Cancel a session's orders, of this instrument or, less often, of all."""
    index = floor.someone()
    everywhere = floor.random() < 0.2
    return MassCancel(
        index + 1, floor.sessions.new_id(index), None if everywhere else desk.security_id
    )


def auction_quote(floor: TradingContext, desk: CrowdInstrument, now_ns: int) -> CrowdCommand | None:
    """Send an order to an auction: deep while the book is thin, else around the fair value."""
    if desk.resting() < _EMPTY * desk.target and floor.random() < 0.7:
        return quote(floor, desk, now_ns)
    buy = _thin_side(floor, desk)
    price = desk.crossing(floor.pick(floor.tables.around))
    if price is None:
        return pull(floor, desk)
    quantity = desk.quantity(floor.pick(floor.tables.lots))
    return new(floor, desk, now_ns, _BUY if buy else _SELL, quantity, price)


def at_the_auction(
    floor: TradingContext, desk: CrowdInstrument, now_ns: int
) -> CrowdCommand | None:
    """Send an order without a price that is valid for the auction (MOA)."""
    return _unpriced(floor, desk, now_ns, _MOA)


def at_the_close(floor: TradingContext, desk: CrowdInstrument, now_ns: int) -> CrowdCommand | None:
    """Send an order without a price for the closing call (MOC)."""
    return _unpriced(floor, desk, now_ns, _MOC)


def _unpriced(
    floor: TradingContext, desk: CrowdInstrument, now_ns: int, time_in_force: TimeInForce
) -> CrowdCommand | None:
    if not desk.unpriced:
        return quote(floor, desk, now_ns)
    side = _BUY if floor.random() < 0.5 else _SELL
    quantity = desk.quantity(floor.pick(floor.tables.lots))
    return new(floor, desk, now_ns, side, quantity, None, _MARKET, time_in_force)


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
}
AUCTION: dict[str, CrowdAction] = {
    "quote": auction_quote,
    "at_the_auction": at_the_auction,
    "at_the_close": at_the_close,
    "cancel": cancel,
    "reduce": reduce,
    "requote": requote,
}
