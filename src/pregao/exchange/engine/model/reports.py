"""Private reports to the owners of orders, and the outcome of a command."""

from __future__ import annotations

from typing import NamedTuple

from pregao.exchange.engine.model.commands import DeclareForward
from pregao.exchange.engine.model.enums import (
    CxlRejResponseTo,
    ExecRestatementReason,
    MassActionRejectReason,
    OrderSide,
    OrdStatus,
    OrdType,
    PosMaintAction,
    PosMaintStatus,
    PosTransType,
    PosType,
    QuoteStatus,
    QuoteStatusResponseTo,
    SecurityResponseType,
    TimeInForce,
)
from pregao.exchange.engine.model.events import MarketEvent
from pregao.records import record


@record
class OrderReport:
    """The order that a report is about."""

    exec_id: int
    session: int
    firm: int
    cl_ord_id: int
    order_id: int
    secondary_order_id: int
    security_id: int
    side: OrderSide
    ord_type: OrdType
    time_in_force: TimeInForce
    price: int | None
    quantity: int


@record
class OrderAccepted(OrderReport):
    """The order was accepted (ER_New). ``working`` is False for a waiting order (MOC, stop)."""

    leaves_qty: int
    cum_qty: int
    max_floor: int
    min_qty: int
    protection_price: int | None
    transact_time_ns: int
    working: bool = True
    cross_id: int = 0
    stop_px: int | None = None


@record
class OrderRestated(OrderReport):
    """The disclosed quantity was replenished, or a waiting order became active."""

    leaves_qty: int
    cum_qty: int
    max_floor: int
    status: OrdStatus
    transact_time_ns: int


@record
class OrderModified(OrderReport):
    """The order was modified (ER_Modify)."""

    orig_cl_ord_id: int
    leaves_qty: int
    cum_qty: int
    max_floor: int
    min_qty: int
    protection_price: int | None
    transact_time_ns: int
    working: bool = True
    stop_px: int | None = None
    reason: ExecRestatementReason | None = None
    """Reason for the report if no request modified the order."""


@record
class OrderCancelled(OrderReport):
    """The order ended (ER_Cancel): ``status`` distinguishes canceled from expired.

    ``reason`` is None if its owner requested it.
    """

    orig_cl_ord_id: int
    cum_qty: int
    status: OrdStatus
    reason: ExecRestatementReason | None
    transact_time_ns: int
    stop_px: int | None = None
    mass_action_id: int = 0
    """``exec_id`` of the mass action that canceled the order."""
    requested_by: int = 0
    """Session that requested the cancellation on behalf of this one."""
    working: bool = True
    """Whether the order was active: not a stop or MOC order that still waited."""


@record
class OrderFilled:
    """A trade of the order (ER_Trade)."""

    exec_id: int
    session: int
    firm: int
    cl_ord_id: int
    order_id: int
    secondary_order_id: int
    security_id: int
    side: OrderSide
    ord_type: OrdType
    price: int | None
    quantity: int
    last_qty: int
    last_px: int
    leaves_qty: int
    cum_qty: int
    status: OrdStatus
    aggressor: bool
    trade_id: int
    contra_firm: int | None
    transact_time_ns: int
    cross_id: int = 0
    leg_of: int = 0
    """Spread whose order traded this leg, if ``security_id`` is a leg."""


@record
class FillBusted:
    """Market operations canceled a trade of the order (ER_Trade, trade cancel)."""

    exec_id: int
    exec_ref_id: int
    session: int
    firm: int
    cl_ord_id: int
    order_id: int
    secondary_order_id: int
    security_id: int
    side: OrderSide
    quantity: int
    last_qty: int
    last_px: int
    leaves_qty: int
    cum_qty: int
    trade_id: int
    contra_firm: int | None
    transact_time_ns: int
    aggressor: bool = False
    """Whether the order was the aggressor of the trade."""
    leg_of: int = 0
    """Spread whose order it is, if the trade is one of its legs; else 0."""


@record
class OrderRejected:
    """A request was rejected (ER_Reject), with a code and a text that explains why."""

    exec_id: int
    session: int
    cl_ord_id: int
    orig_cl_ord_id: int
    order_id: int
    security_id: int
    response_to: CxlRejResponseTo
    code: int
    text: str
    transact_time_ns: int


@record
class MassCancelled:
    """A mass action was applied or rejected; the orders have their own reports."""

    exec_id: int
    session: int
    cl_ord_id: int
    count: int
    transact_time_ns: int
    reject_reason: MassActionRejectReason | None = None
    text: str = ""


@record
class SpreadDefined:
    """The answer to a proposed spread: the instrument, or the reason for the refusal."""

    exec_id: int
    session: int
    request_id: int
    response: SecurityResponseType
    security_id: int
    symbol: str
    strategy_type: str | None
    text: str
    transact_time_ns: int


@record
class ForwardOffered:
    """A declaration that a firm is asked to accept; any of its sessions may receive it.

    ``session`` is 0: the exchange does not know which session will answer.
    """

    exec_id: int
    firm: int
    quote_id: int
    terms: DeclareForward
    transact_time_ns: int
    session: int = 0


@record
class ForwardReported:
    """Status of a declaration; ``session`` is 0 if any session of the firm may receive it."""

    exec_id: int
    session: int
    firm: int
    quote_id: int
    status: QuoteStatus
    response_to: QuoteStatusResponseTo
    terms: DeclareForward | None
    code: int
    text: str
    transact_time_ns: int


@record
class ForwardTraded:
    """A trade of an accepted forward, in the forward itself or in cash (ER_Forward)."""

    exec_id: int
    session: int
    firm: int
    quote_id: int
    security_id: int
    side: OrderSide
    last_qty: int
    last_px: int
    trade_id: int
    contra_firm: int
    transact_time_ns: int


@record
class PositionReported:
    """Outcome of a position request, or a change of a position (PositionMaintenance).

    ``session`` is 0 if any session of the firm may receive it.
    """

    exec_id: int
    session: int
    firm: int
    request_id: int
    orig_request_id: int
    security_id: int
    account: int
    kind: PosTransType
    action: PosMaintAction
    status: PosMaintStatus
    quantities: tuple[tuple[PosType, int, int], ...]
    """Kind, long and short quantity of the current position."""
    trade_id: int
    threshold: int
    contrary: bool
    code: int
    text: str
    transact_time_ns: int


@record
class AllocationReported:
    """The answer to an allocation; ``code`` is the reason for a refusal."""

    exec_id: int
    session: int
    firm: int
    allocation_id: int
    security_id: int
    quantity: int
    cancels: bool
    code: int
    transact_time_ns: int


EngineReport = (
    OrderAccepted
    | OrderRestated
    | OrderModified
    | OrderCancelled
    | OrderFilled
    | FillBusted
    | OrderRejected
    | MassCancelled
    | SpreadDefined
    | ForwardOffered
    | ForwardReported
    | ForwardTraded
    | PositionReported
    | AllocationReported
)
"""Any private report; ``session`` is its recipient."""


class CommandOutcome(NamedTuple):
    """Outcome of a command: units for the feed, reports for the owners."""

    market: list[MarketEvent]
    reports: list[EngineReport]
