"""Commands of members: orders, crosses, mass cancels, spreads, forwards and positions.

Prices are integers of 1e-4, quantities plain integers. The engine receives each command together
with the time at which it is functionally processed. `Command` includes those of market operations.
"""

from __future__ import annotations

from datetime import date

from pregao.exchange.engine.model.enums import (
    CrossPrioritization,
    CrossType,
    ExecRestatementReason,
    MassActionType,
    OrderSide,
    OrdType,
    PosTransType,
    RoutingInstruction,
    SelfTradePreventionInstruction,
    SettlType,
    TimeInForce,
)
from pregao.exchange.engine.model.operations_commands import (
    AddInstrument,
    AdjustLastTrade,
    AdvanceTime,
    AmendTrade,
    AnswerGiveUp,
    BustTrade,
    ChangeInstrument,
    DeleteSide,
    EndDay,
    EnterImplied,
    EnterTrade,
    ExpelOrder,
    LinkAccounts,
    PairAuctions,
    PublishNews,
    RejoinGroup,
    RemoveInstrument,
    RemoveProtection,
    ResetBook,
    ResetChannel,
    ResetStream,
    SetBlacklisted,
    SetClosingPrice,
    SetDelta,
    SetGroupPhase,
    SetOpenInterest,
    SetPosition,
    SetPriceBand,
    SetProtection,
    SetQuantityBand,
    SetSecurityStatus,
    SetSettlementPrice,
    StartDay,
)
from pregao.records import record


@record
class NewOrder:
    """Enter an order.

    ``session`` is the order entry session that owns it; ``cl_ord_id`` must be unique among the
    session's active orders of the market segment. ``received_ns`` is when the order entered the
    exchange's queue, if that is not the time of processing. ``investor_id`` is built from prefix
    and document by `self_trade_prevention.investor_number`; 0 means none.
    """

    session: int
    firm: int
    cl_ord_id: int
    security_id: int
    side: OrderSide
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
    """Modify an order, identified by ``order_id`` or else by ``orig_cl_ord_id``.

    ``quantity`` is the total, including what was executed. None keeps the order's value. A
    ``max_floor`` of 0 discloses the full quantity. A ``min_qty`` can be added to an order that has
    none, and must then be met as on entry.
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
    ord_tag_id: int | None = None


@record
class CancelOrder:
    """Cancel an order, identified by ``order_id`` or else by ``orig_cl_ord_id``.

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
    """Cancel the session's orders that match every given filter, as one event of the feed.

    With ``on_behalf`` it also cancels orders of other sessions of the same firm; this requires an
    investor.
    """

    session: int
    cl_ord_id: int
    security_id: int | None = None
    side: OrderSide | None = None
    ord_tag_id: int = 0
    reason: ExecRestatementReason = ExecRestatementReason.ORDER_MASS_ACTION_FROM_CLIENT_REQUEST
    asset: str = ""
    investor_id: int = 0
    action: MassActionType = MassActionType.CANCEL_ORDERS
    on_behalf: bool = False
    firm: int = 0
    segment: int | None = None
    """Only orders of instruments in this market segment: a client is connected to one engine."""


@record
class RestateOrders:
    """Restate to a session, once a day, its orders of earlier days."""

    session: int


@record
class MaintainPosition:
    """Exercise an option, or set the instruction for its last day.

    ``trade_day`` is in days since 1970. ``threshold`` (1e-4) is the minimum gain for automatic
    exercise; ``contrary`` requests an exercise even without a gain.
    """

    session: int
    firm: int
    request_id: int
    security_id: int
    account: int
    kind: PosTransType
    quantity: int
    trade_day: int
    threshold: int = 0
    contrary: bool = False


@record
class CancelMaintenance:
    """Cancel a position request, identified by its report's ID or its own."""

    session: int
    firm: int
    request_id: int
    security_id: int
    orig_request_id: int = 0
    report_id: int = 0


@record
class AllocateTrade:
    """Allocate part of a purchase to an account, to block options that the account has written."""

    session: int
    firm: int
    allocation_id: int
    security_id: int
    trade_id: int
    quantity: int
    """Quantity of the trade."""
    account: int
    account_quantity: int
    trade_day: int | None = None
    cancels: bool = False


@record
class CrossSide:
    """One of the two sides of a cross order."""

    firm: int
    cl_ord_id: int
    account: int = 0


@record
class NewCross:
    """Register a deal between two investors of the same session at one price.

    A sweep and cross first sends the prioritized side to the book, for at most ``max_sweep_qty``
    (None: no limit).
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
    """A leg of a proposed spread; the ratio is an integer of 1e-7."""

    symbol: str
    side: OrderSide
    ratio_qty: int


@record
class DefineSpread:
    """Request a spread of listed instruments, from the buyer's point of view."""

    session: int
    request_id: int
    legs: tuple[ProposedLeg, ...]


@record
class DeclareForward:
    """Declare a forward deal, which ``contra_firm`` must accept.

    ``fixed_rate`` is an integer of 1e-4. With ``with_cash`` a trade of the underlying accompanies
    it, with buyer and seller swapped; ``cash_trade_id`` identifies a cash trade registered before.
    """

    session: int
    firm: int
    quote_req_id: str
    security_id: int
    contra_firm: int
    side: OrderSide
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
    """Accept a declaration; ``dma`` marks requests by direct market access."""

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
    """Cancel a declaration that the same session made."""

    session: int
    firm: int
    quote_id: int


Command = (
    NewOrder
    | ModifyOrder
    | CancelOrder
    | MassCancel
    | RestateOrders
    | NewCross
    | DefineSpread
    | DeclareForward
    | AcceptForward
    | RefuseForward
    | CancelForward
    | MaintainPosition
    | CancelMaintenance
    | AllocateTrade
    | SetPosition
    | LinkAccounts
    | AnswerGiveUp
    | SetProtection
    | RemoveProtection
    | SetDelta
    | SetBlacklisted
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
"""Any command of the engine."""
