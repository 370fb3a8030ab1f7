"""Execution reports: sends the reports of an engine outcome to the sessions they concern."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from pregao.entrypoint.gateway_sessions import GatewaySession
from pregao.entrypoint.messages import VERSIONS
from pregao.exchange.engine.book.market import Market
from pregao.exchange.engine.model.reports import AllocationReported, EngineReport, FillBusted, ForwardOffered, ForwardReported, ForwardTraded, MassCancelled, OrderAccepted, OrderCancelled, OrderFilled, OrderModified, OrderRejected, OrderRestated, PositionReported, SpreadDefined
from pregao.exchange.engine.model.enums import TradingStatus
from pregao.exchange.host import report_messages as wire
from pregao.exchange.host.intake import changed
from pregao.exchange.host.negotiation import OffBookReporter
from pregao.exchange.host.positions import PositionReports
from pregao.exchange.host.report_messages import InstrumentContext, report_messages
from pregao.exchange.host.requests import CancelRequest, OrderRequest

_NOBODY: Final = OrderRequest(0, 0, 0, 0, 0, 0, 0, 0, None, None, None, None, None, 0, 0)
"""Request of an order for which only the engine's data is known."""
_MAX_ENDED: Final = 100_000
"""Maximum number of filled orders remembered, since their trades may be busted."""

_NOTHING: Final[Mapping[str, Any]] = {}

ClientRequest = OrderRequest | CancelRequest


class RequestContext:
    """The request that an outcome answers, or the two sides of a cross."""

    __slots__ = ("mass_action", "request", "sides", "values")

    def __init__(
        self,
        request: ClientRequest | None = None,
        sides: tuple[OrderRequest, ...] = (),
        mass_action: Callable[[MassCancelled], None] | None = None,
        values: Mapping[str, Any] = _NOTHING,
    ) -> None:
        self.request = request
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
            return InstrumentContext(
                market.trade_day, 0, wire.SINGLE_SECURITY, None, closed, closed
            )
        kind = wire.MULTI_LEG if listing.instrument.legs else wire.SINGLE_SECURITY
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
            values = wire.new_values(report, order_request, context, None)
            self._post(wire.NEW, report.session, context, values, now_ns)
            return
        request = request_context.request
        if request_context.sides:
            request = request_context.sides[report.side - 1]
        if not isinstance(request, OrderRequest):
            request = _NOBODY
        self.orders[report.order_id] = request
        values = wire.new_values(report, request, context, now_ns)
        self._post(wire.NEW, report.session, context, values, now_ns)

    def _restated(self, report: OrderRestated, _context: RequestContext, now_ns: int) -> None:
        request = self.orders.get(report.order_id, _NOBODY)
        context = self._instrument_context(report.security_id)
        values = wire.restated_values(report, request, context, now_ns)
        self._post(wire.NEW, report.session, context, values, now_ns)

    def _modified(
        self, report: OrderModified, request_context: RequestContext, now_ns: int
    ) -> None:
        context = self._instrument_context(report.security_id)
        order_request = self.orders.get(report.order_id, _NOBODY)
        if report.reason is not None:  # a restatement, without a request
            values = wire.modify_values(report, order_request, context, None)
            self._post(wire.MODIFY, report.session, context, values, now_ns)
            return
        request = request_context.request
        assert isinstance(request, OrderRequest)
        request = changed(order_request, request)
        self.orders[report.order_id] = request
        values = wire.modify_values(report, request, context, now_ns)
        self._post(wire.MODIFY, report.session, context, values, now_ns)

    def _cancelled(
        self, report: OrderCancelled, request_context: RequestContext, now_ns: int
    ) -> None:
        request = self.orders.pop(report.order_id, _NOBODY)
        # Only an answer to a request has the previous clOrdID of the order.
        cancel_request = request_context.request if report.orig_cl_ord_id else None
        context = self._instrument_context(report.security_id)
        received = None if cancel_request is None else now_ns
        values = wire.cancel_values(report, request, context, received, cancel_request)
        self._post(wire.CANCEL, report.session, context, values, now_ns)

    def _filled(self, report: OrderFilled, _context: RequestContext, now_ns: int) -> None:
        number = report.order_id
        request = self.orders.get(number) or self._ended.get(number, _NOBODY)
        if not report.leaves_qty:
            self.orders.pop(number, None)
            self._ended[number] = request  # another leg may trade, or a trade may be busted
            if len(self._ended) > _MAX_ENDED:
                del self._ended[next(iter(self._ended))]
        context = self._look(report.security_id)
        values = wire.trade_values(report, request, context)
        self._post(wire.TRADE, report.session, context, values, now_ns)

    def _busted(self, report: FillBusted, _context: RequestContext, now_ns: int) -> None:
        request = self.orders.get(report.order_id) or self._ended.get(report.order_id, _NOBODY)
        context = self._look(report.security_id)
        values = wire.bust_values(report, request, context)
        self._post(wire.TRADE, report.session, context, values, now_ns)

    def _rejected(
        self, report: OrderRejected, request_context: RequestContext, now_ns: int
    ) -> None:
        request = request_context.request
        if request_context.sides:
            request, *others = request_context.sides
            request_context.sides = tuple(others)
        assert request is not None
        context = self._instrument_context(report.security_id)
        values = wire.reject_values(report, request, now_ns)
        self._post(wire.REJECT, report.session, context, values, now_ns)

    def _mass_cancelled(
        self, report: MassCancelled, request_context: RequestContext, _now_ns: int
    ) -> None:
        if request_context.mass_action is not None:
            request_context.mass_action(report)


def _with_values(send: Callable[[Any, Mapping[str, Any], int], None]) -> _SendReport:
    """Return a handler that passes the values of the answered message to a report writer."""

    def tell(report: Any, request_context: RequestContext, now_ns: int) -> None:
        send(report, request_context.values, now_ns)

    return tell


_SendReport = Callable[[Any, RequestContext, int], None]
