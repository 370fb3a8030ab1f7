"""What can be asked of the market: orders from members, phases, and acts of market operations.

A command is given to the engine together with the time at which it is functionally processed.
Prices are integers of 1e-4, those named ``…8`` integers of 1e-8, quantities plain integers.
"""

from __future__ import annotations

from datetime import date

from pregao.exchange.engine.instruments import Instrument
from pregao.exchange.engine.records import record
from pregao.exchange.engine.terms import (
    CrossPrioritization,
    CrossType,
    ExecRestatementReason,
    MassActionType,
    NewsSource,
    OpenCloseSettlFlag,
    OrdType,
    PriceBandMidpoint,
    PriceBandType,
    PriceLimitType,
    PriceType,
    ProtectionScope,
    RoutingInstruction,
    SelfTradePreventionInstruction,
    SettlPriceType,
    SettlType,
    Side,
    TimeInForce,
    TradingSession,
    TradingStatus,
    TrdSubType,
)

MARKET_OPERATIONS = 0
"""The session number of the exchange itself."""


@record
class NewOrder:
    """Enter an order.

    ``session`` is the order entry session that owns it; ``cl_ord_id`` must be unique among
    the session's resting orders of the instrument. ``received_ns`` is when the order entered
    the exchange's queue, if that is not the time of processing. ``investor_id`` is made of prefix
    and document by `self_trade.investor_number`; 0 is none.
    """

    session: int
    firm: int
    cl_ord_id: int
    security_id: int
    side: Side
    quantity: int
    price: int | None = None
    ord_type: OrdType = OrdType.LIMIT
    time_in_force: TimeInForce = TimeInForce.DAY
    max_floor: int = 0
    min_qty: int = 0
    stop_px: int | None = None
    expire_date: date | None = None
    account: int = 0
    investor_id: int = 0
    ord_tag_id: int = 0
    received_ns: int | None = None
    self_trade_prevention: SelfTradePreventionInstruction = SelfTradePreventionInstruction.NONE
    routing_instruction: RoutingInstruction = RoutingInstruction.NONE
    mm_protection_reset: bool = False


@record
class ModifyOrder:
    """Change an order, named by ``order_id`` or else by ``orig_cl_ord_id``.

    ``quantity`` is the total, what has been executed included. None keeps what the order has;
    a ``max_floor`` of 0 shows the whole order.
    """

    session: int
    cl_ord_id: int
    security_id: int
    quantity: int
    price: int | None = None
    order_id: int = 0
    orig_cl_ord_id: int = 0
    ord_type: OrdType | None = None
    time_in_force: TimeInForce | None = None
    expire_date: date | None = None
    max_floor: int | None = None
    min_qty: int | None = None
    account: int | None = None
    received_ns: int | None = None
    stop_px: int | None = None
    investor_id: int | None = None
    self_trade_prevention: SelfTradePreventionInstruction | None = None
    routing_instruction: RoutingInstruction | None = None
    mm_protection_reset: bool = False


@record
class CancelOrder:
    """Cancel an order, named by ``order_id`` or else by ``orig_cl_ord_id``.

    ``reason`` is None or CANCEL_ORDER_DUE_TO_OPERATIONAL_ERROR.
    """

    session: int
    cl_ord_id: int
    security_id: int
    order_id: int = 0
    orig_cl_ord_id: int = 0
    reason: ExecRestatementReason | None = None


@record
class MassCancel:
    """Cancel the session's orders that pass every filter given; it is one event of the feed.

    With ``on_behalf`` orders of other sessions of the same firm are cancelled as well; it needs
    an investor.
    """

    session: int
    cl_ord_id: int
    security_id: int | None = None
    side: Side | None = None
    ord_tag_id: int = 0
    reason: ExecRestatementReason = ExecRestatementReason.ORDER_MASS_ACTION_FROM_CLIENT_REQUEST
    asset: str = ""
    investor_id: int = 0
    action: MassActionType = MassActionType.CANCEL_ORDERS
    on_behalf: bool = False
    firm: int = 0
    segment: int | None = None
    """Only orders of instruments of this market segment: a client speaks to one engine."""


@record
class CrossSide:
    """One of the two sides of a cross order."""

    firm: int
    cl_ord_id: int
    account: int = 0


@record
class NewCross:
    """Register a deal between two investors of the same session at one price.

    A sweep and cross brings the prioritized side to the book first, for at most ``max_sweep_qty``
    (None: as much as it finds).
    """

    session: int
    cross_id: int
    security_id: int
    quantity: int
    price: int
    buyer: CrossSide
    seller: CrossSide
    received_ns: int | None = None
    cross_type: CrossType = CrossType.ALL_OR_NONE_CROSS
    prioritization: CrossPrioritization = CrossPrioritization.NONE
    max_sweep_qty: int | None = None


@record
class ProposedLeg:
    """A leg of a spread that a member wants; the ratio is an integer of 1e-7."""

    symbol: str
    side: Side
    ratio_qty: int


@record
class DefineSpread:
    """Ask for a spread of listed instruments, from the buyer's point of view."""

    session: int
    request_id: int
    legs: tuple[ProposedLeg, ...]


@record
class DeclareForward:
    """Declare a forward deal; ``contra_firm`` is to accept it.

    ``fixed_rate`` is an integer of 1e-4. With cash, a trade of the underlying goes with it, buyer
    and seller exchanged; ``cash_trade_id`` names the cash trade that was registered before.
    """

    session: int
    firm: int
    quote_req_id: str
    security_id: int
    contra_firm: int
    side: Side
    quantity: int
    price: int
    fixed_rate: int
    days_to_settlement: int
    settl_type: SettlType = SettlType.BUYERS_DISCRETION
    account: int = 0
    with_cash: bool = False
    cash_trade_id: int | None = None
    private: bool = True


@record
class AcceptForward:
    """Accept a declaration; ``dma`` tells that the request came by direct market access."""

    session: int
    firm: int
    quote_id: int
    account: int = 0
    dma: bool = False


@record
class RefuseForward:
    """Refuse a declaration."""

    session: int
    firm: int
    quote_id: int


@record
class CancelForward:
    """Cancel a declaration of one's own."""

    session: int
    firm: int
    quote_id: int


@record
class ProtectionReference:
    """What a market protection watches: an instrument with its options, or an asset."""

    security_id: int = 0
    asset: str = ""
    counts: ProtectionScope = ProtectionScope.BOTH
    cancels: ProtectionScope = ProtectionScope.BOTH


@record
class SetProtection:
    """Protect an account of a firm; a configuration of the same number is replaced.

    A limit of None is off. ``net_quantity`` is the buy/sell protection; ``delta`` is an integer of
    1e-4. Of other orders than limit orders only those are cancelled that are chosen here.
    """

    protection_id: int
    firm: int
    account: int
    references: tuple[ProtectionReference, ...]
    interval_ns: int
    new_order_fills: int | None = None
    executions: int | None = None
    traded_quantity: int | None = None
    net_quantity: int | None = None
    delta: int | None = None
    cancels_good_till: bool = False
    cancels_stops: bool = False
    cancels_at_close: bool = False


@record
class RemoveProtection:
    """Take a market protection away."""

    protection_id: int


@record
class SetDelta:
    """Set the delta of an instrument (1e-4, negative for puts); without one it is 1.0."""

    security_id: int
    delta: int


@record
class SetGroupPhase:
    """Move a group to a phase; its instruments follow unless they have a state of their own.

    ``open_time_ns`` is the estimated end of the auction that begins. ``new_session`` marks a
    change of trading session: the statistics of the group's instruments start afresh.
    """

    group: str
    phase: TradingStatus
    session: TradingSession | None = None
    new_session: bool = False
    open_time_ns: int | None = None


@record
class SetSecurityStatus:
    """Give an instrument a state of its own, apart from its group."""

    security_id: int
    status: TradingStatus
    open_time_ns: int | None = None
    new_session: bool = False


@record
class RejoinGroup:
    """Let an instrument follow its group again."""

    security_id: int


@record
class PairAuctions:
    """Let the auctions of two instruments begin and end together."""

    first: int
    second: int


@record
class AdvanceTime:
    """Nothing but the passing of time: auctions whose end has come are closed."""


@record
class EndDay:
    """End the trading day: orders valid for the day, or for a date reached, expire."""


@record
class StartDay:
    """Begin a trading day, ending the one before: trade numbers and statistics start afresh."""

    trade_date: date


@record
class AddInstrument:
    """List an instrument during the day."""

    instrument: Instrument


@record
class ChangeInstrument:
    """Replace the definition of a listed instrument."""

    instrument: Instrument


@record
class RemoveInstrument:
    """Take an instrument off the list; its orders are cancelled."""

    security_id: int


@record
class BustTrade:
    """Cancel a trade."""

    security_id: int
    trade_id: int


@record
class EnterTrade:
    """Enter a trade by market operations.

    ``interest_rate`` (1e-4, a fraction: 1 % is 100) and ``seller_days`` belong to forwards.
    """

    security_id: int
    price: int
    quantity: int
    buyer: int | None = None
    seller: int | None = None
    trd_sub_type: TrdSubType | None = None
    crossed: bool = False
    out_of_sequence: bool = False
    on_behalf: bool = True
    transact_time_ns: int | None = None
    seller_days: int | None = None
    interest_rate: int | None = None


@record
class AmendTrade:
    """Correct a trade: it is published again under its number; None keeps what it had."""

    security_id: int
    trade_id: int
    price: int | None = None
    quantity: int | None = None
    buyer: int | None = None
    seller: int | None = None
    transact_time_ns: int | None = None


@record
class ExpelOrder:
    """Cancel any order by market operations."""

    order_id: int
    reason: ExecRestatementReason = ExecRestatementReason.MARKET_OPTION


@record
class DeleteSide:
    """Cancel every order on one side of a book at once."""

    security_id: int
    side: Side


@record
class EnterImplied:
    """Put a synthetic order into the book of an implied-eligible instrument by hand."""

    security_id: int
    side: Side
    price: int
    quantity: int


@record
class PublishNews:
    """Publish a piece of news, on an instrument or on the market."""

    headline: str
    text: str
    url: str = ""
    source: NewsSource = NewsSource.MARKET_SURVEILLANCE
    security_id: int | None = None
    language: str | None = None
    news_id: int | None = None


@record
class ResetBook:
    """Send an instrument's book anew: EmptyBook, then its orders as recovery."""

    security_id: int


@record
class ResetChannel:
    """Send all books of a channel anew, after a ChannelReset."""

    channel: int


@record
class ResetStream:
    """Restart a channel's incremental stream: SequenceReset, then all its books anew."""

    channel: int


@record
class SetClosingPrice:
    """Publish a closing price."""

    security_id: int
    price8: int
    flag: OpenCloseSettlFlag = OpenCloseSettlFlag.DAILY
    last_trade_date: date | None = None


@record
class SetSettlementPrice:
    """Publish a settlement price of any kind."""

    security_id: int
    price: int
    flag: OpenCloseSettlFlag = OpenCloseSettlFlag.DAILY
    settl_price_type: SettlPriceType = SettlPriceType.FINAL
    price_type: PriceType | None = None


@record
class SetOpenInterest:
    """Publish how many contracts are open."""

    security_id: int
    quantity: int


@record
class SetPriceBand:
    """Set one of an instrument's price bands, or without a type its reference price.

    With limits in percent, ``low`` and ``high`` are percentages times 1e4 away from the
    midpoint (5 % below is -50000). None opens a side.
    """

    security_id: int
    band_type: PriceBandType | None = None
    limit_type: PriceLimitType | None = PriceLimitType.PRICE_UNIT
    midpoint: PriceBandMidpoint | None = None
    low: int | None = None
    high: int | None = None
    reference8: int | None = None


@record
class SetQuantityBand:
    """Set an instrument's quantity limit."""

    security_id: int
    max_trade_vol: int | None
    avg_daily_traded_qty: int | None = None


@record
class AdjustLastTrade:
    """Correct the last trade price after a failure."""

    security_id: int
    price: int
    quantity: int


Command = (
    NewOrder
    | ModifyOrder
    | CancelOrder
    | MassCancel
    | NewCross
    | DefineSpread
    | DeclareForward
    | AcceptForward
    | RefuseForward
    | CancelForward
    | SetProtection
    | RemoveProtection
    | SetDelta
    | SetGroupPhase
    | SetSecurityStatus
    | RejoinGroup
    | PairAuctions
    | AdvanceTime
    | EndDay
    | StartDay
    | AddInstrument
    | ChangeInstrument
    | RemoveInstrument
    | BustTrade
    | EnterTrade
    | AmendTrade
    | ExpelOrder
    | DeleteSide
    | EnterImplied
    | PublishNews
    | ResetBook
    | ResetChannel
    | ResetStream
    | SetClosingPrice
    | SetSettlementPrice
    | SetOpenInterest
    | SetPriceBand
    | SetQuantityBand
    | AdjustLastTrade
)
"""Anything that can be asked of the engine."""
