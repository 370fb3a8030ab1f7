"""Execution reports: encodes the engine's reports and sends them to the sessions they concern.

Each kind of report has the list of its wire fields and a function that returns their values in the
same order; fields that a version does not have are omitted. Codes of one character are passed as
their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from operator import itemgetter
from typing import Any, Final, NamedTuple

from pregao.entrypoint.framing import framed
from pregao.entrypoint.gateway_sessions import GatewaySession
from pregao.entrypoint.messages import VERSIONS, session_schema
from pregao.exchange.engine.book.market import Market
from pregao.exchange.engine.model.enums import OrdStatus, TradingSession, TradingStatus
from pregao.exchange.engine.model.reports import (
    AllocationReported,
    EngineReport,
    FillBusted,
    ForwardOffered,
    ForwardReported,
    ForwardTraded,
    MassCancelled,
    OrderAccepted,
    OrderCancelled,
    OrderFilled,
    OrderModified,
    OrderRejected,
    OrderRestated,
    PositionReported,
    SpreadDefined,
)
from pregao.exchange.host.gateway.order_requests import OrderCancelRequest, OrderRequest, changed
from pregao.exchange.host.gateway.positions import PositionReports
from pregao.exchange.host.gateway.quotes import OffBookReporter
from pregao.sbe.codec import SchemaCodec
from pregao.sbe.value_specs import readings


class InstrumentContext(NamedTuple):
    """Data of the instrument and the day that reports contain."""

    trade_day: int
    segment: int
    multi_leg: int
    session: TradingSession | None
    phase: TradingStatus
    status: TradingStatus


_NEW: Final = ord(OrdStatus.NEW)
_REPLACED: Final = ord(OrdStatus.REPLACED)
_RESTATED: Final = ord(OrdStatus.RESTATED)
_REJECTED: Final = ord(OrdStatus.REJECTED)
_SIDE: Final = ord("0")
"""The code of a side is a digit."""
_TRADE, _TRADE_CANCEL = ord("F"), ord("H")
SINGLE_SECURITY, LEG, MULTI_LEG = ord("1"), ord("2"), ord("3")


# --- Fields and values of each kind of report ---


NEW_FIELDS: Final = (
    "side", "ordStatus", "clOrdID", "secondaryOrderID", "securityID", "orderID", "account",
    "execID", "transactTime", "marketSegmentReceivedTime", "protectionPrice", "tradeDate",
    "workingIndicator", "multiLegReportingType", "ordType", "timeInForce", "expireDate",
    "orderQty", "price", "stopPx", "minQty", "maxFloor", "crossID", "deskID", "memo",
    "receivedTime", "ordTagID", "investorID.prefix", "investorID.document", "crossType",
    "crossPrioritization", "mmProtectionReset", "strategyID", "tradingSubAccount",
)  # fmt: skip


def new_values(
    r: OrderAccepted, q: OrderRequest, p: InstrumentContext, received_ns: int | None
) -> tuple[Any, ...]:
    """Return the values for an accepted order or a triggered stop order."""
    return (
        _SIDE + r.side, _NEW, r.cl_ord_id, r.secondary_order_id, r.security_id, r.order_id,
        q.account, r.exec_id, r.transact_time_ns, received_ns, r.protection_price, p.trade_day,
        r.working, p.multi_leg, ord(r.ord_type), ord(r.time_in_force), q.expire_date,
        r.quantity, r.price, r.stop_px, r.min_qty, r.max_floor, r.cross_id, q.desk, q.memo,
        received_ns, q.tag, q.investor_prefix, q.investor_document, q.cross_type,
        q.cross_priority, q.mm_reset, q.strategy, q.sub_account,
    )  # fmt: skip


def restated_values(
    r: OrderRestated, q: OrderRequest, p: InstrumentContext, _received_ns: int
) -> tuple[Any, ...]:
    """Return the values for a new displayed part of an order, or an order that became active."""
    return (
        _SIDE + r.side, _RESTATED, r.cl_ord_id, r.secondary_order_id, r.security_id, r.order_id,
        q.account, r.exec_id, r.transact_time_ns, None, None, p.trade_day,
        1, p.multi_leg, ord(r.ord_type), ord(r.time_in_force), q.expire_date,
        r.quantity, r.price, None, q.min_qty, r.max_floor, None, q.desk, q.memo,
        None, q.tag, q.investor_prefix, q.investor_document, None,
        None, None, q.strategy, q.sub_account,
    )  # fmt: skip


MODIFY_FIELDS: Final = (
    "side", "ordStatus", "clOrdID", "secondaryOrderID", "securityID", "leavesQty", "account",
    "execID", "transactTime", "cumQty", "marketSegmentReceivedTime", "orderID", "origClOrdID",
    "protectionPrice", "tradeDate", "workingIndicator", "multiLegReportingType", "ordType",
    "timeInForce", "expireDate", "orderQty", "price", "stopPx", "minQty", "maxFloor", "deskID",
    "memo", "receivedTime", "ordTagID", "investorID.prefix", "investorID.document",
    "mmProtectionReset", "strategyID", "tradingSubAccount", "execRestatementReason",
)  # fmt: skip


def modify_values(
    r: OrderModified, q: OrderRequest, p: InstrumentContext, received_ns: int | None
) -> tuple[Any, ...]:
    """Return the values for a modified order, or an unsolicited restatement."""
    status = _REPLACED if r.reason is None else _RESTATED
    return (
        _SIDE + r.side, status, r.cl_ord_id, r.secondary_order_id, r.security_id, r.leaves_qty,
        q.account, r.exec_id, r.transact_time_ns, r.cum_qty, received_ns, r.order_id,
        r.orig_cl_ord_id, r.protection_price, p.trade_day, r.working, p.multi_leg,
        ord(r.ord_type), ord(r.time_in_force), q.expire_date, r.quantity, r.price, r.stop_px,
        r.min_qty, r.max_floor, q.desk, q.memo, received_ns, q.tag, q.investor_prefix,
        q.investor_document, q.mm_reset, q.strategy, q.sub_account, r.reason,
    )  # fmt: skip


CANCEL_FIELDS: Final = (
    "side", "ordStatus", "clOrdID", "secondaryOrderID", "securityID", "cumQty", "account",
    "execID", "transactTime", "marketSegmentReceivedTime", "orderID", "origClOrdID", "tradeDate",
    "workingIndicator", "execRestatementReason", "massActionReportID", "ordType", "timeInForce",
    "expireDate", "orderQty", "price", "stopPx", "minQty", "maxFloor", "deskID", "memo",
    "receivedTime", "ordTagID", "investorID.prefix", "investorID.document", "strategyID",
    "actionRequestedFromSessionID",
)  # fmt: skip


def cancel_values(
    r: OrderCancelled,
    q: OrderRequest,
    p: InstrumentContext,
    received_ns: int | None,
    request: OrderCancelRequest | OrderRequest | None,
) -> tuple[Any, ...]:
    """Return the values for a canceled order; ``request`` is its owner's, if any."""
    echoed: OrderCancelRequest | OrderRequest = q if request is None else request
    return (
        _SIDE + r.side, ord(r.status), r.cl_ord_id, r.secondary_order_id, r.security_id, r.cum_qty,
        q.account, r.exec_id, r.transact_time_ns, received_ns, r.order_id, r.orig_cl_ord_id,
        p.trade_day, r.working, r.reason, r.mass_action_id, ord(r.ord_type), ord(r.time_in_force),
        q.expire_date, r.quantity, r.price, r.stop_px, q.min_qty, q.max_floor,
        echoed.desk or q.desk, echoed.memo, received_ns, q.tag, q.investor_prefix,
        q.investor_document, q.strategy,
        r.requested_by if request is None else r.session,
    )  # fmt: skip


TRADE_FIELDS: Final = (
    "side", "ordStatus", "clOrdID", "secondaryOrderID", "securityID", "account", "lastQty",
    "lastPx", "execID", "transactTime", "leavesQty", "cumQty", "aggressorIndicator", "execType",
    "multiLegReportingType", "tradeID", "contraBroker", "orderID", "tradeDate", "execRefID",
    "crossID", "crossedIndicator", "orderQty", "deskID", "memo", "tradingSessionID",
    "tradingSessionSubID", "securityTradingStatus", "crossType", "crossPrioritization",
    "strategyID", "tradingSubAccount",
)  # fmt: skip


def trade_values(r: OrderFilled, q: OrderRequest, p: InstrumentContext) -> tuple[Any, ...]:
    """Return the values for a trade of an order."""
    return (
        _SIDE + r.side, ord(r.status), r.cl_ord_id, r.secondary_order_id, r.security_id, q.account,
        r.last_qty, r.last_px, r.exec_id, r.transact_time_ns, r.leaves_qty, r.cum_qty,
        r.aggressor, _TRADE, LEG if r.leg_of else p.multi_leg, r.trade_id, r.contra_firm,
        r.order_id, p.trade_day,
        None, r.cross_id, q.crossed, r.quantity, q.desk, q.memo, p.session, p.phase, p.status,
        q.cross_type, q.cross_priority, q.strategy, q.sub_account,
    )  # fmt: skip


def bust_values(r: FillBusted, q: OrderRequest, p: InstrumentContext) -> tuple[Any, ...]:
    """Return the values for a busted trade of an order."""
    status = OrdStatus.PARTIALLY_FILLED if r.cum_qty else OrdStatus.NEW
    return (
        _SIDE + r.side, ord(status if r.leaves_qty else OrdStatus.CANCELED), r.cl_ord_id,
        r.secondary_order_id, r.security_id, q.account,
        r.last_qty, r.last_px, r.exec_id, r.transact_time_ns, r.leaves_qty, r.cum_qty,
        r.aggressor, _TRADE_CANCEL, LEG if r.leg_of else p.multi_leg, r.trade_id, r.contra_firm,
        r.order_id, p.trade_day,
        r.exec_ref_id, None, q.crossed, r.quantity, q.desk, q.memo, p.session, p.phase, p.status,
        q.cross_type, q.cross_priority, q.strategy, q.sub_account,
    )  # fmt: skip


REJECT_FIELDS: Final = (
    "side", "ordStatus", "cxlRejResponseTo", "clOrdID", "securityID", "ordRejReason",
    "transactTime", "execID", "orderID", "origClOrdID", "account", "ordType", "timeInForce",
    "expireDate", "orderQty", "price", "stopPx", "minQty", "maxFloor", "crossID",
    "crossedIndicator", "deskID", "memo", "text", "receivedTime", "ordTagID",
    "investorID.prefix", "investorID.document", "strategyID", "tradingSubAccount",
)  # fmt: skip


def reject_values(
    r: OrderRejected, q: OrderRequest | OrderCancelRequest, received_ns: int
) -> tuple[Any, ...]:
    """Return the values for a rejected request, which echo the request (§7.6.1.3)."""
    head = (
        q.side, _REJECTED, r.response_to, r.cl_ord_id, r.security_id, r.code,
        r.transact_time_ns, r.exec_id, r.order_id, r.orig_cl_ord_id,
    )  # fmt: skip
    text = r.text.encode("ascii", "replace")[:250]
    if isinstance(q, OrderCancelRequest):
        empty = (None,) * 9
        return (*head, *empty, None, None, q.desk, q.memo, text, received_ns, *empty[:5])
    return (
        *head, q.account, q.ord_type, q.time_in_force, q.expire_date, q.quantity, q.price,
        q.stop_px, q.min_qty, q.max_floor, q.cross_id, q.crossed, q.desk, q.memo, text,
        received_ns, q.tag, q.investor_prefix, q.investor_document, q.strategy, q.sub_account,
    )  # fmt: skip


# --- Encoding ---


WriteReport = Callable[[int, int, int, int, tuple[Any, ...]], bytes]
"""Returns a framed message from session, number, sending time, market segment and values."""

NEW, MODIFY, CANCEL, TRADE, REJECT = range(5)
"""Kinds of execution reports, as indices into the writers of a version."""
_LAYOUTS: Final = (
    ("ExecutionReport_New", NEW_FIELDS),
    ("ExecutionReport_Modify", MODIFY_FIELDS),
    ("ExecutionReport_Cancel", CANCEL_FIELDS),
    ("ExecutionReport_Trade", TRADE_FIELDS),
    ("ExecutionReport_Reject", REJECT_FIELDS),
)


@cache
def report_messages(version: int) -> tuple[WriteReport, ...]:
    """Return the writers of a version's execution reports, by kind."""
    codec = SchemaCodec(session_schema(version))
    return tuple(_writer(codec, *layout) for layout in _LAYOUTS)


def _writer(codec: SchemaCodec, name: str, fields: tuple[str, ...]) -> WriteReport:
    message = codec.schema.by_name[name]
    known = codec.codec(message.id)
    assert known is not None
    paths = {piece.name for piece in message.data}
    header: list[str] = []
    for field in readings(message):
        paths.add(field.name)
        members = [f"{field.name}.{member.name}" for member in field.members]
        paths.update(members)
        if field.name == "businessHeader":
            header = members
    present = [index for index, field in enumerate(fields) if field in paths]
    pick = itemgetter(*present)
    names = [fields[index] for index in present]
    head = ["businessHeader.sessionID", "businessHeader.msgSeqNum", "businessHeader.sendingTime"]
    segment, resend = "businessHeader.marketSegmentID", "businessHeader.possResend"
    if segment in header:  # from version 5 on, where the header flags default to 0
        pack = known.packer(*head, segment, *names)

        def write_with_segment(
            session: int, number: int, now_ns: int, where: int, values: tuple[Any, ...]
        ) -> bytes:
            return framed(pack(session, number, now_ns, where, *pick(values)))

        return write_with_segment
    pack_without = known.packer(*head, resend, *names)

    def write(
        session: int, number: int, now_ns: int, _where: int, values: tuple[Any, ...]
    ) -> bytes:
        return framed(pack_without(session, number, now_ns, 0, *pick(values)))

    return write


# --- Sending ---


_NO_REQUEST: Final = OrderRequest(0, 0, 0, 0, 0, 0, 0, 0, None, None, None, None, None, 0, 0)
"""Request of an order for which only the engine's data is known."""
_MAX_ENDED: Final = 100_000
"""Maximum number of ended orders remembered, since their trades may be busted."""

_NOTHING: Final[Mapping[str, Any]] = {}

ClientRequest = OrderRequest | OrderCancelRequest


class RequestContext:
    """The request that an outcome answers, or the two sides of a cross."""

    __slots__ = ("mass_action", "request", "sides", "simple", "values")

    def __init__(
        self,
        request: ClientRequest | None = None,
        sides: tuple[OrderRequest, ...] = (),
        mass_action: Callable[[MassCancelled], None] | None = None,
        values: Mapping[str, Any] = _NOTHING,
        *,
        simple: bool = False,
    ) -> None:
        self.request = request
        self.simple = simple
        """Whether the request is a SimpleModifyOrder."""
        self.sides = sides
        """Buyer and seller of a cross."""
        self.mass_action = mass_action
        """Callback that answers a mass action; None if no client requested it."""
        self.values = values
        """The decoded message of a negotiation."""


class ExecutionReporter:
    """Stores the requests of open orders, and writes the reports about them."""

    def __init__(
        self,
        market: Market,
        session: Callable[[int], GatewaySession | None],
        of_firm: Callable[[int], Iterable[GatewaySession]],
    ) -> None:
        self._market = market
        self._session = session
        self.orders: dict[int, OrderRequest] = {}
        """Open orders by order ID, as their owners last described them."""
        self._ended: dict[int, OrderRequest] = {}
        self._contexts: dict[int, InstrumentContext] = {}
        self._senders: dict[type, Callable[[Any, RequestContext, int], None]] = {
            OrderAccepted: self._accepted,
            OrderRestated: self._restated,
            OrderModified: self._modified,
            OrderCancelled: self._cancelled,
            OrderFilled: self._filled,
            FillBusted: self._busted,
            OrderRejected: self._rejected,
            MassCancelled: self._mass_cancelled,
        }
        negotiation = self._negotiation = OffBookReporter(market, session, of_firm)
        positions = PositionReports(market, session, of_firm)
        for kind, handler in (
            (SpreadDefined, negotiation.spread_defined),
            (ForwardOffered, negotiation.offered),
            (ForwardReported, negotiation.reported),
            (ForwardTraded, negotiation.traded),
            (PositionReported, positions.position),
            (AllocationReported, positions.allocation),
        ):
            self._senders[kind] = _with_values(handler)

    def state(self) -> tuple[Any, ...]:
        """Return the state for a checkpoint."""
        return self.orders, self._ended, self._negotiation.terms

    def restore(self, state: tuple[Any, ...]) -> None:
        """Restore a state returned by `state`."""
        self.orders, self._ended, self._negotiation.terms = state

    def clear_contexts(self) -> None:
        """Clear the cached instrument contexts: days, phases or instruments may have changed."""
        self._contexts.clear()

    def send_reports(
        self, reports: list[EngineReport], request_context: RequestContext, now_ns: int
    ) -> None:
        """Send the reports of an outcome."""
        for report in reports:
            self._senders[type(report)](report, request_context, now_ns)

    def _post(
        self,
        kind: int,
        owner: int,
        context: InstrumentContext,
        values: tuple[Any, ...],
        now_ns: int,
    ) -> None:
        session = self._session(owner)
        if session is None:
            return
        state = session.state
        write = report_messages(state.version or VERSIONS[-1])[kind]
        session.post(write(owner, state.next_outgoing, now_ns, context.segment, values), now_ns)

    def _instrument_context(self, security_id: int) -> InstrumentContext:
        context = self._contexts.get(security_id)
        if context is None:
            context = self._contexts[security_id] = self._look(security_id)
        return context

    def _look(self, security_id: int) -> InstrumentContext:
        """Return the current context of an instrument."""
        market = self._market
        listing = market.listings.get(security_id)
        if listing is None:
            closed = TradingStatus.CLOSE
            return InstrumentContext(market.trade_day, 0, SINGLE_SECURITY, None, closed, closed)
        kind = MULTI_LEG if listing.instrument.legs else SINGLE_SECURITY
        group = listing.group
        return InstrumentContext(
            market.trade_day,
            listing.instrument.market_segment_id or 0,
            kind,
            group.session,
            group.phase,
            listing.status,
        )

    def _accepted(
        self, report: OrderAccepted, request_context: RequestContext, now_ns: int
    ) -> None:
        order_request = self.orders.get(report.order_id)
        context = self._instrument_context(report.security_id)
        if order_request is not None:  # a stop order triggered by a trade
            values = new_values(report, order_request, context, None)
            self._post(NEW, report.session, context, values, now_ns)
            return
        request = request_context.request
        if request_context.sides:
            request = request_context.sides[report.side - 1]
        if not isinstance(request, OrderRequest):
            request = _NO_REQUEST
        self.orders[report.order_id] = request
        values = new_values(report, request, context, now_ns)
        self._post(NEW, report.session, context, values, now_ns)

    def _restated(self, report: OrderRestated, _context: RequestContext, now_ns: int) -> None:
        request = self.orders.get(report.order_id, _NO_REQUEST)
        context = self._instrument_context(report.security_id)
        values = restated_values(report, request, context, now_ns)
        self._post(NEW, report.session, context, values, now_ns)

    def _modified(
        self, report: OrderModified, request_context: RequestContext, now_ns: int
    ) -> None:
        context = self._instrument_context(report.security_id)
        order_request = self.orders.get(report.order_id, _NO_REQUEST)
        if report.reason is not None:  # a restatement, without a request
            values = modify_values(report, order_request, context, None)
            self._post(MODIFY, report.session, context, values, now_ns)
            return
        request = request_context.request
        assert isinstance(request, OrderRequest)
        description = changed(order_request, request, report, simple=request_context.simple)
        self.orders[report.order_id] = description
        if request_context.simple:
            # Echoed in the answer to the request, although the order's own memo stays (§12).
            description = description._replace(
                memo=request.memo or description.memo, mm_reset=request.mm_reset
            )
        values = modify_values(report, description, context, now_ns)
        self._post(MODIFY, report.session, context, values, now_ns)

    def _cancelled(
        self, report: OrderCancelled, request_context: RequestContext, now_ns: int
    ) -> None:
        request = self.orders.pop(report.order_id, _NO_REQUEST)
        if report.cum_qty:
            self._keep_ended(report.order_id, request)
        # Only an answer to a request has the previous clOrdID of the order.
        cancel_request = request_context.request if report.orig_cl_ord_id else None
        context = self._instrument_context(report.security_id)
        received = None if cancel_request is None else now_ns
        values = cancel_values(report, request, context, received, cancel_request)
        self._post(CANCEL, report.session, context, values, now_ns)

    def _filled(self, report: OrderFilled, _context: RequestContext, now_ns: int) -> None:
        number = report.order_id
        request = self.orders.get(number) or self._ended.get(number, _NO_REQUEST)
        if not report.leaves_qty and not report.leg_of:
            self.orders.pop(number, None)
            self._keep_ended(number, request)
        context = self._look(report.security_id)
        values = trade_values(report, request, context)
        self._post(TRADE, report.session, context, values, now_ns)

    def _keep_ended(self, order_id: int, request: OrderRequest) -> None:
        """Keep the request of an order that traded: its legs follow, or a bust."""
        self._ended[order_id] = request
        if len(self._ended) > _MAX_ENDED:
            del self._ended[next(iter(self._ended))]

    def _busted(self, report: FillBusted, _context: RequestContext, now_ns: int) -> None:
        request = self.orders.get(report.order_id) or self._ended.get(report.order_id, _NO_REQUEST)
        context = self._look(report.security_id)
        values = bust_values(report, request, context)
        self._post(TRADE, report.session, context, values, now_ns)

    def _rejected(
        self, report: OrderRejected, request_context: RequestContext, now_ns: int
    ) -> None:
        request = request_context.request
        if request_context.sides:
            request, *others = request_context.sides
            request_context.sides = tuple(others)
        assert request is not None
        context = self._instrument_context(report.security_id)
        values = reject_values(report, request, now_ns)
        self._post(REJECT, report.session, context, values, now_ns)

    def _mass_cancelled(
        self, report: MassCancelled, request_context: RequestContext, _now_ns: int
    ) -> None:
        if request_context.mass_action is not None:
            request_context.mass_action(report)


def _with_values(send: Callable[[Any, Mapping[str, Any], int], None]) -> _SendReport:
    """Return a handler that passes the values of the answered message to a report writer."""

    def send_report(report: Any, request_context: RequestContext, now_ns: int) -> None:
        send(report, request_context.values, now_ns)

    return send_report


_SendReport = Callable[[Any, RequestContext, int], None]
