"""State of a listed instrument, and of a group of instruments."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from pregao.exchange.engine.book.order_book import BookSide, EngineOrder
from pregao.exchange.engine.book.pending_orders import PendingOrders
from pregao.exchange.engine.model.auction_rules import AuctionRules
from pregao.exchange.engine.model.enums import (
    PRICE8_PER_PRICE,
    OrderSide,
    PriceBandType,
    TradingSession,
    TradingStatus,
)
from pregao.exchange.engine.model.events import Statistic, TradeItem
from pregao.exchange.engine.model.instruments import (
    InstrAttribValue,
    Instrument,
    Product,
    SecurityType,
)

if TYPE_CHECKING:
    from pregao.exchange.engine.products.implied_spreads import Spread

NO_LIMIT = 1 << 62
"""A price that no order reaches."""

_DERIVATIVES = frozenset(
    {
        SecurityType.FUT,
        SecurityType.FOPT,
        SecurityType.SOPT,
        SecurityType.DTERM,
        SecurityType.SPOT,
        SecurityType.MLEG,
    }
)

_WITHOUT_A_BOOK = frozenset({SecurityType.INDEX, SecurityType.OPTEXER, SecurityType.SECLOAN})


class TradeParty(NamedTuple):
    """An order that took part in a trade, as a later bust reports it to its owner."""

    session: int
    firm: int
    cl_ord_id: int
    order_id: int
    secondary_order_id: int
    quantity: int
    exec_id: int
    aggressor: bool
    leg_of: int = 0
    """Spread whose order this is, if the trade is one of its legs; else 0."""


class TradeRecord(NamedTuple):
    """A trade that can still be busted or amended."""

    item: TradeItem
    buyer: TradeParty | None
    seller: TradeParty | None


class TheoreticalUncrossing(NamedTuple):
    """Theoretical result of an auction; ``imbalance`` is positive if buyers are left over."""

    price: int
    quantity: int
    imbalance: int


class InstrumentGroup:
    """A group of instruments that share a phase."""

    __slots__ = ("auction", "members", "name", "open_time_ns", "phase", "session", "since_ns")

    def __init__(self, name: str) -> None:
        self.name = name
        self.phase = TradingStatus.CLOSE
        self.session = TradingSession.REGULAR
        self.open_time_ns: int | None = None
        self.since_ns = 0
        self.auction: AuctionRules | None = None
        """Auction rules of the current phase."""
        self.members: list[Listing] = []


class SessionStatistics:
    """Statistics of a session, all exact integers."""

    __slots__ = (
        "after_id",
        "count",
        "crossed_notional",
        "crossed_volume",
        "high",
        "last",
        "low",
        "notional",
        "opening",
        "opening_id",
        "prices",
        "provided",
        "volume",
    )

    def __init__(self, after_id: int = 0) -> None:
        self.after_id = after_id
        """Last trade of the previous session: it and earlier ones do not count."""
        self.opening: int | None = None
        self.opening_id = 0
        """Trade that set the opening price."""
        self.high: int | None = None
        self.low: int | None = None
        self.last: int | None = None
        self.volume = 0
        self.notional = 0
        self.count = 0
        self.crossed_volume = 0
        self.crossed_notional = 0
        self.provided = 0
        """Quantity traded with retail liquidity providers."""
        self.prices: Counter[int] = Counter()
        """Quantity by price of all trades, busted ones too: the range after an amendment."""

    def vwap(self) -> int | None:
        """Return the volume-weighted average price, rounded to 1e-4 (half away from zero)."""
        return _average(self.notional, self.volume)

    def vwap_without_crosses(self) -> int | None:
        """Return the average price of all trades but crosses, as the legacy feed has it."""
        if not self.crossed_volume:
            return self.vwap()
        return _average(self.notional - self.crossed_notional, self.volume - self.crossed_volume)


def _average(notional: int, volume: int) -> int | None:
    if not volume:
        return None
    doubled, sign = (2 * notional, 1) if notional >= 0 else (-2 * notional, -1)
    return sign * ((doubled + volume) // (2 * volume))


class Listing:
    """A listed instrument with its book, state, statistics, bands and trades of the day."""

    __slots__ = (
        "active_auction",
        "auction",
        "auction_high",
        "auction_low",
        "bands",
        "bands_float",
        "bids",
        "closes_ns",
        "derivative",
        "extended",
        "fixed_income",
        "frozen_by",
        "group",
        "instrument",
        "keeps_positions",
        "last_trade",
        "lot",
        "max_qty",
        "min_qty",
        "offers",
        "open_time_ns",
        "own_status",
        "pair",
        "pending",
        "previous_close8",
        "reference8",
        "reject_high",
        "reject_low",
        "security_id",
        "segment",
        "shown",
        "since_ns",
        "statistics",
        "status",
        "strategy",
        "takes_crosses",
        "takes_orders",
        "theoretical",
        "tick",
        "trade_id",
        "trades",
        "volume_limit",
        "waiting",
        "watch_ns",
        "window_ns",
    )

    def __init__(self, instrument: Instrument, group: InstrumentGroup) -> None:
        self.security_id = instrument.security_id
        self.group = group
        self.bids = BookSide(OrderSide.BUY)
        self.offers = BookSide(OrderSide.SELL)
        self.waiting = PendingOrders()
        self.own_status: TradingStatus | None = None
        """State of the instrument independent of its group, or None."""
        self.status = group.phase
        """State in effect: the more restrictive of its own state and its group's phase."""
        self.open_time_ns: int | None = None
        self.since_ns: int | None = None
        self.active_auction = False
        self.auction: AuctionRules | None = None
        """Rules of the running auction."""
        self.frozen_by: EngineOrder | None = None
        """Order whose trade would have left the auction band."""
        self.extended = 0
        """Number of times that the auction was extended."""
        self.watch_ns: int | None = None
        """Time from which a change of the theoretical price or quantity extends the auction."""
        self.closes_ns: int | None = None
        """Time of its random end, which is not published."""
        self.pair: Listing | None = None
        """Instrument whose auctions start and end with this one's."""
        self.pending = False
        """Whether its auction is ready to end and waits for its pair's."""
        self.window_ns: int | None = None
        """Time until which it accepts no requests, because its pair was asked to end."""
        self.strategy: Spread | None = None
        """Its legs, if it is a user-defined spread: it trades only if they can."""
        self.theoretical: TheoreticalUncrossing | None = None
        self.statistics = SessionStatistics()
        self.last_trade: TradeItem | None = None
        self.trade_id = 0
        self.trades: dict[int, TradeRecord] = {}
        self.shown: dict[object, Statistic] = {}
        """Statistics and bands last published, for snapshots."""
        self.bands: dict[PriceBandType, Band] = {}
        self.bands_float = False
        self.reject_low = self.auction_low = -NO_LIMIT
        self.reject_high = self.auction_high = NO_LIMIT
        self.volume_limit: int | None = None
        self.reference8: int | None = None
        self.previous_close8 = instrument.previous_close
        self.define(instrument)

    def define(self, instrument: Instrument) -> None:
        """Set the definition, and precompute the values that every order is checked against."""
        self.instrument = instrument
        self.segment = instrument.market_segment_id or 0
        self.tick = instrument.tick
        self.lot = instrument.lot
        self.min_qty = instrument.min_order_qty or 1
        self.max_qty = instrument.max_order_qty or NO_LIMIT
        self.derivative = instrument.security_type in _DERIVATIVES
        self.fixed_income = not self.derivative and (
            instrument.product in (Product.CORPORATE, Product.GOVERNMENT)
        )
        self.takes_orders = not (
            instrument.is_forward or instrument.security_type in _WITHOUT_A_BOOK
        )
        self.keeps_positions = instrument.put_or_call is not None
        self.takes_crosses = instrument.allows(InstrAttribValue.ORDER_CROSS_ELIGIBLE)

    def side(self, side: OrderSide) -> BookSide:
        """Return one side of the book."""
        return self.bids if side == OrderSide.BUY else self.offers

    def opposite(self, side: OrderSide) -> BookSide:
        """Return the side that an order of this side trades with."""
        return self.offers if side == OrderSide.BUY else self.bids

    def reference_price(self) -> int | None:
        """Return the last trade's price, or else the reference price or previous close (1e-4)."""
        if self.statistics.last is not None:
            return self.statistics.last
        price8 = self.reference8 if self.reference8 is not None else self.previous_close8
        return None if price8 is None else price8 // PRICE8_PER_PRICE

    def net_change8(self) -> int | None:
        """Return last trade minus previous close, as an integer of 1e-8."""
        last = self.statistics.last
        if last is None or self.previous_close8 is None:
            return None
        return last * PRICE8_PER_PRICE - self.previous_close8


class Band(NamedTuple):
    """A price band of an instrument as it was set."""

    limit_type: int
    midpoint: int | None
    low: int
    high: int
