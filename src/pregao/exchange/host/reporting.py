"""What an outcome of the engine means for its sessions: execution reports, each to its owner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pregao.entrypoint import VERSIONS, GatewaySession
from pregao.exchange.engine.market import Market
from pregao.exchange.engine.reports import (
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
    Report,
    SpreadDefined,
)
from pregao.exchange.engine.terms import TradingStatus
from pregao.exchange.host import forward_messages
from pregao.exchange.host import report_messages as wire
from pregao.exchange.host.intake import changed
from pregao.exchange.host.report_messages import Place, report_messages
from pregao.exchange.host.requests import CancelRequest, OrderRequest

_NOBODY: Final = OrderRequest(0, 0, 0, 0, 0, 0, 0, 0, None, None, None, None, None, 0, 0)
"""For an order of which nothing more is known than the engine tells."""
_MOST_ENDED: Final = 100_000
"""So many filled orders are remembered: a trade of theirs may be busted."""

Request = OrderRequest | CancelRequest


class Asked:
    """The request whose outcome is told, or what stands for it: the two sides of a cross."""

    __slots__ = ("mass_action", "request", "sides", "spread")

    def __init__(
        self,
        request: Request | None = None,
        sides: tuple[OrderRequest, ...] = (),
        mass_action: Callable[[MassCancelled], None] | None = None,
        spread: Callable[[SpreadDefined], None] | None = None,
    ) -> None:
        self.request = request
        self.sides = sides
        """Buyer and seller of a cross."""
        self.mass_action = mass_action
        """How a mass action is answered; None if nobody asked for it."""
        self.spread = spread
        """How a proposal for a spread is answered."""


class Reporting:
    """Remembers what clients said of their orders and writes the reports about them."""

    def __init__(
        self,
        market: Market,
        session: Callable[[int], GatewaySession | None],
        of_firm: Callable[[int], list[GatewaySession]] = lambda _firm: [],
    ) -> None:
        self._market = market
        self._session = session
        self._of_firm = of_firm
        self.orders: dict[int, OrderRequest] = {}
        """The standing orders by number, as their owners described them last."""
        self._ended: dict[int, OrderRequest] = {}
        self._places: dict[int, Place] = {}
        self._tell: dict[type, Callable[[Any, Asked, int], None]] = {
            OrderAccepted: self._accepted,
            OrderRestated: self._restated,
            OrderModified: self._modified,
            OrderCancelled: self._cancelled,
            OrderFilled: self._filled,
            FillBusted: self._busted,
            OrderRejected: self._rejected,
            MassCancelled: self._mass_cancelled,
            SpreadDefined: self._spread_defined,
            ForwardOffered: self._forward_offered,
            ForwardReported: self._forward_reported,
            ForwardTraded: self._forward_traded,
        }
        self._mass_action: int | None = None

    def forget_places(self) -> None:
        """Days, phases or instruments may have changed."""
        self._places.clear()

    def tell(self, reports: list[Report], asked: Asked, now_ns: int) -> None:
        """Send the reports of an outcome."""
        if asked.mass_action is not None:
            ended = [each.exec_id for each in reports if isinstance(each, MassCancelled)]
            self._mass_action = ended[-1] if ended else None
        for report in reports:
            self._tell[type(report)](report, asked, now_ns)
        self._mass_action = None

    def _post(
        self, kind: str, owner: int, place: Place, values: tuple[Any, ...], now_ns: int
    ) -> None:
        session = self._session(owner)
        if session is None:
            return
        state = session.state
        write = getattr(report_messages(state.version or VERSIONS[-1]), kind)
        session.post(write(owner, state.next_outgoing, now_ns, place.segment, values), now_ns)

    def _place(self, security_id: int) -> Place:
        found = self._places.get(security_id)
        if found is None:
            found = self._places[security_id] = self._look(security_id)
        return found

    def _look(self, security_id: int) -> Place:
        """How an instrument is now."""
        market = self._market
        listing = market.listings.get(security_id)
        if listing is None:
            closed = TradingStatus.CLOSE
            return Place(market.trade_day, 0, wire.SINGLE_SECURITY, None, closed, closed)
        kind = wire.MULTI_LEG if listing.instrument.legs else wire.SINGLE_SECURITY
        group = listing.group
        return Place(
            market.trade_day,
            listing.instrument.market_segment_id or 0,
            kind,
            group.session,
            group.phase,
            listing.status,
        )

    def _accepted(self, report: OrderAccepted, asked: Asked, now_ns: int) -> None:
        request = asked.request
        if asked.sides:
            request = asked.sides[report.side - 1]
        if report.order_id in self.orders:
            # An order that waited has become active: nobody asked for that now.
            request = self.orders[report.order_id]
        elif not isinstance(request, OrderRequest):
            request = _NOBODY
        self.orders[report.order_id] = request
        place = self._place(report.security_id)
        values = wire.new_values(report, request, place, now_ns)
        self._post("new", report.session, place, values, now_ns)

    def _restated(self, report: OrderRestated, _asked: Asked, now_ns: int) -> None:
        request = self.orders.get(report.order_id, _NOBODY)
        place = self._place(report.security_id)
        values = wire.restated_values(report, request, place, now_ns)
        self._post("new", report.session, place, values, now_ns)

    def _modified(self, report: OrderModified, asked: Asked, now_ns: int) -> None:
        request = asked.request
        assert isinstance(request, OrderRequest)
        request = changed(self.orders.get(report.order_id, _NOBODY), request)
        self.orders[report.order_id] = request
        place = self._place(report.security_id)
        values = wire.modify_values(report, request, place, now_ns)
        self._post("modify", report.session, place, values, now_ns)

    def _cancelled(self, report: OrderCancelled, asked: Asked, now_ns: int) -> None:
        request = self.orders.pop(report.order_id, _NOBODY)
        # Only the answer to a request names the number that the order had before.
        own = asked.request if report.orig_cl_ord_id else None
        place = self._place(report.security_id)
        received = None if own is None else now_ns
        values = wire.cancel_values(report, request, place, received, own, self._mass_action)
        self._post("cancel", report.session, place, values, now_ns)

    def _filled(self, report: OrderFilled, _asked: Asked, now_ns: int) -> None:
        if report.leg_of:
            self._leg_filled(report, now_ns)
            return
        if report.leaves_qty:
            request = self.orders.get(report.order_id, _NOBODY)
        else:
            request = self.orders.pop(report.order_id, _NOBODY)
            self._ended[report.order_id] = request
            if len(self._ended) > _MOST_ENDED:
                del self._ended[next(iter(self._ended))]
        place = self._look(report.security_id)
        values = wire.trade_values(report, request, place)
        self._post("trade", report.session, place, values, now_ns)

    def _leg_filled(self, report: OrderFilled, now_ns: int) -> None:
        """Tell a trade of a leg: the order is that of the spread, and goes on by itself."""
        request = self.orders.get(report.order_id) or self._ended.get(report.order_id, _NOBODY)
        place = self._look(report.security_id)._replace(multi_leg=wire.INDIVIDUAL_LEG)
        values = wire.trade_values(report, request, place)
        self._post("trade", report.session, place, values, now_ns)

    def _busted(self, report: FillBusted, _asked: Asked, now_ns: int) -> None:
        request = self.orders.get(report.order_id) or self._ended.get(report.order_id, _NOBODY)
        place = self._look(report.security_id)
        values = wire.bust_values(report, request, place)
        self._post("trade", report.session, place, values, now_ns)

    def _rejected(self, report: OrderRejected, asked: Asked, now_ns: int) -> None:
        request = asked.request
        if asked.sides:
            request, *others = asked.sides
            asked.sides = tuple(others)
        assert request is not None
        place = self._place(report.security_id)
        values = wire.reject_values(report, request, now_ns)
        self._post("reject", report.session, place, values, now_ns)

    def _mass_cancelled(self, report: MassCancelled, asked: Asked, _now_ns: int) -> None:
        if asked.mass_action is not None:
            asked.mass_action(report)

    def _spread_defined(self, report: SpreadDefined, asked: Asked, _now_ns: int) -> None:
        self.forget_places()
        if asked.spread is not None:
            asked.spread(report)

    def _sessions(self, session_id: int, firm: int) -> list[GatewaySession]:
        """The session of a number, or all of a firm."""
        if not session_id:
            return self._of_firm(firm)
        session = self._session(session_id)
        return [] if session is None else [session]

    def _forward_offered(self, report: ForwardOffered, _asked: Asked, now_ns: int) -> None:
        forward_messages.tell_offered(report, self._sessions, now_ns)

    def _forward_reported(self, report: ForwardReported, _asked: Asked, now_ns: int) -> None:
        forward_messages.tell_reported(report, self._sessions, now_ns)

    def _forward_traded(self, report: ForwardTraded, _asked: Asked, now_ns: int) -> None:
        day = self._market.trade_date
        forward_messages.tell_traded(report, self._sessions, day, now_ns)
