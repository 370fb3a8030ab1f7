"""Routing between gateways and engine: requests become commands, outcomes become reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from pregao.entrypoint.events import MessageReceived, RequestReceived
from pregao.entrypoint.gateway_sessions import GatewaySession
from pregao.entrypoint.session_settings import SessionAccount
from pregao.exchange.engine.engine import MatchingEngine, refuse
from pregao.exchange.engine.model import reject_codes
from pregao.exchange.engine.model.commands import Command
from pregao.exchange.engine.model.enums import CxlRejResponseTo
from pregao.exchange.engine.model.events import MarketEvent
from pregao.exchange.engine.model.operations_commands import AdvanceTime
from pregao.exchange.host.gateway import order_requests, other_requests
from pregao.exchange.host.gateway.execution_reports import ExecutionReporter, RequestContext
from pregao.exchange.host.gateway.order_requests import OrderCancelRequest, OrderRequest
from pregao.exchange.host.gateway.pre_trade import (
    NOT_AUTHORIZED,
    message_fault,
    order_fault,
    restricted,
)

_NO_REQUEST: Final = RequestContext()
"""Context of commands that answer no request."""
_NEW_ORDERS: Final = frozenset({"SimpleNewOrder", "NewOrderSingle"})


class RequestRouter:
    """Passes requests to the engine, and its outcomes to sessions and the feed.

    ``session`` returns an existing session by number, ``owner`` the session that receives a report
    or None, ``of_firm`` the sessions of a firm.
    """

    def __init__(
        self,
        engine: MatchingEngine,
        session: Callable[[int], GatewaySession],
        owner: Callable[[int], GatewaySession | None],
        of_firm: Callable[[int], Iterable[GatewaySession]],
    ) -> None:
        self._engine = engine
        self._session = session
        self._owner = owner
        self._reporting = ExecutionReporter(engine.market, owner, of_firm)
        self._segments: frozenset[int] = frozenset()
        self._restricted: frozenset[int] = frozenset()
        self.requests = 0
        """Number of frequent requests so far."""
        self.units: list[MarketEvent] = []
        """Events to publish."""
        self.invalidate_cache()

    def invalidate_cache(self) -> None:
        """Invalidate caches: days, phases or instruments may have changed."""
        self._reporting.clear_contexts()
        numbers = (each.market_segment_id for each in self._engine.instruments)
        self._segments = frozenset(number for number in numbers if number is not None)

    def state(self) -> tuple[Any, ...]:
        """Return the state that is not in the engine."""
        return self.requests, self._reporting.state()

    def restore(self, state: tuple[Any, ...]) -> None:
        """Restore a state returned by `state`."""
        self.requests, reporting = state
        self._reporting.restore(reporting)

    def restrict(self, accounts: Iterable[SessionAccount]) -> None:
        """Set the sessions whose requests must be checked for authorization."""
        self._restricted = frozenset(each.session_id for each in accounts if restricted(each))

    def apply(self, command: Command, now_ns: int, context: RequestContext = _NO_REQUEST) -> None:
        """Apply a command to the engine; publish its events and send its reports."""
        outcome = self._engine.apply(command, now_ns)
        if outcome.market:
            self.units += outcome.market
        if outcome.reports:
            self._reporting.send_reports(outcome.reports, context, now_ns)

    def enter(self, command: Command, now_ns: int) -> None:
        """Apply a command of a trader without a session; only owners with a session get reports."""
        outcome = self._engine.apply(command, now_ns)
        self.units += outcome.market
        reports = [each for each in outcome.reports if self._owner(each.session) is not None]
        self._reporting.send_reports(reports, _NO_REQUEST, now_ns)

    def advance(self, now_ns: int) -> None:
        """Run the timers of the market that are due."""
        self.apply(AdvanceTime(), now_ns)
        self._reporting.clear_contexts()

    def request(
        self, event: RequestReceived, request: OrderRequest | OrderCancelRequest, now_ns: int
    ) -> None:
        """Pass a frequent request to the engine, or reject it."""
        self.requests += 1
        if request.segment not in self._segments:
            session = self._session(request.session)
            text = f"marketSegmentID {request.segment} is not a segment of this market"
            _send_business_reject(session, event, other_requests.OTHER, text, now_ns)
            return
        if request.session in self._restricted:
            session = self._session(request.session)
            fault = order_fault(session.account, request)
            if fault is not None:
                _send_business_reject(session, event, NOT_AUTHORIZED, fault, now_ns)
                return
        name = event.name
        new = name in _NEW_ORDERS
        described = self._reporting.orders
        reject = order_requests.refusal(self._engine.market, request, described, new=new)
        if reject is not None:
            self._send_order_reject(request, reject, new=new, now_ns=now_ns)
            return
        command: Command
        if isinstance(request, OrderCancelRequest):
            command = order_requests.cancel_order(request)
        elif new:
            command = order_requests.new_order(request, self._session(request.session).account.firm)
        else:
            simple = name == "SimpleModifyOrder"
            command = order_requests.modify_order(request, simple=simple)
            self.apply(command, now_ns, RequestContext(request, simple=simple))
            return
        self.apply(command, now_ns, RequestContext(request))

    def rare_request(self, event: MessageReceived, session_id: int, now_ns: int) -> None:
        """Pass a rare request to the engine, or reject it."""
        session = self._session(session_id)
        self._owner(session_id)  # marks its connection to be flushed
        if session_id in self._restricted:
            fault = message_fault(session.account, event.message.values)
            if fault is not None:
                session.reject(event.name, event.message, event.data, NOT_AUTHORIZED, fault, now_ns)
                return
        other_requests.answer(
            event,
            session,
            self._engine.market,
            self._segments,
            lambda command, context: self.apply(command, now_ns, context),
            lambda request, reject: self._send_order_reject(
                request, reject, new=True, now_ns=now_ns
            ),
            now_ns,
        )

    def _send_order_reject(
        self,
        request: OrderRequest | OrderCancelRequest,
        reject: reject_codes.Reject,
        *,
        new: bool,
        now_ns: int,
    ) -> None:
        """Send the ExecutionReport_Reject of a request that does not reach the market."""
        if new:
            response = CxlRejResponseTo.NEW
        elif isinstance(request, OrderCancelRequest):
            response = CxlRejResponseTo.CANCEL
        else:
            response = CxlRejResponseTo.REPLACE
        reports = refuse(
            self._engine.market,
            request.session,
            request.cl_ord_id,
            request.security_id,
            response,
            reject,
            now_ns,
            request.order_id or 0,
            request.orig_cl_ord_id or 0,
        )
        self._reporting.send_reports(reports, RequestContext(request), now_ns)


def _send_business_reject(
    session: GatewaySession, event: RequestReceived, code: int, text: str, now_ns: int
) -> None:
    """Send a BusinessMessageReject; a frequent request is decoded as a message only for this."""
    message = session.messages.decode(event.frame)
    session.reject(event.name, message, event.frame.data, code, text, now_ns)
