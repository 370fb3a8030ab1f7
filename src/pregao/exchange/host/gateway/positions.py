"""Exercise and blocking over EntryPoint: position and allocation requests, and their reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date
from decimal import Decimal
from typing import Any, Final

from pregao.entrypoint.gateway_sessions import GatewaySession
from pregao.exchange.engine.book.market import Market
from pregao.exchange.engine.model.commands import (
    AllocateTrade,
    CancelMaintenance,
    Command,
    MaintainPosition,
)
from pregao.exchange.engine.model.enums import PosTransType
from pregao.exchange.engine.model.reports import AllocationReported, PositionReported
from pregao.exchange.host.gateway.order_requests import MAX_PRICE, MAX_QUANTITY
from pregao.units import PRICE_SCALE, day_number, price_of

Values = Mapping[str, Any]
POSITION_REQUESTS: Final = frozenset(
    {
        "PositionMaintenanceRequest",
        "PositionMaintenanceCancelRequest",
        "AllocationInstruction",
    }
)


def position_command(name: str, values: Values, session: GatewaySession) -> Command | str:
    """Return the command of a message, or what is wrong with it."""
    for field in ("senderLocation", "enteringTrader"):
        if not values[field]:
            return f"{field} needs a value"
    number, firm = session.session_id, session.account.firm
    match name:
        case "PositionMaintenanceRequest":
            return _maintenance(values, number, firm)
        case "PositionMaintenanceCancelRequest":
            original, report = values["origPosReqRefID"] or 0, values["posMaintRptRefID"] or 0
            if not (original or report):
                return "origPosReqRefID or posMaintRptRefID must name the request to cancel"
            return CancelMaintenance(
                number, firm, values["posReqID"], values["securityID"], original, report
            )
        case _:
            if not values["allocID"]:
                return "allocID needs a value"
            return AllocateTrade(
                number,
                firm,
                values["allocID"],
                values["securityID"],
                values["tradeID"],
                values["quantity"],
                values["allocAccount"],
                values["allocQty"],
                _days(values["tradeDate"]),
                values["allocTransType"] == "CANCEL",
            )


def _maintenance(values: Values, session: int, firm: int) -> MaintainPosition | str:
    if not values["posReqID"]:
        return "posReqID needs a value"
    threshold = (values["thresholdAmount"] or Decimal(0)) * PRICE_SCALE
    if not 0 <= threshold <= MAX_PRICE:
        return "thresholdAmount is negative or too large"
    if values["longQty"] > MAX_QUANTITY:
        return "longQty is too large"
    return MaintainPosition(
        session,
        firm,
        values["posReqID"],
        values["securityID"],
        values["account"] or 0,
        PosTransType[values["posTransType"]],
        values["longQty"],
        _days(values["clearingBusinessDate"]) or 0,
        int(threshold),
        values["contraryInstructionIndicator"] == "TRUE_VALUE",
    )


def _days(day: date | None) -> int | None:
    return None if day is None else day_number(day)


class PositionReports:
    """Sends reports about positions and allocations to members."""

    def __init__(
        self,
        market: Market,
        session: Callable[[int], GatewaySession | None],
        of_firm: Callable[[int], Iterable[GatewaySession]],
    ) -> None:
        self._market = market
        self._session = session
        self._of_firm = of_firm

    def position(self, report: PositionReported, values: Values, now_ns: int) -> None:
        """Report the answer to a position request, or the exercise or assignment of a position."""
        # Reports to members other than the requester must not contain the request's texts.
        echoed = values if report.request_id == values.get("posReqID") and report.session else {}
        fields = {
            "posReqID": report.request_id or None,
            "securityID": report.security_id,
            "posMaintRptID": report.exec_id,
            "posTransType": report.kind.name,
            "posMaintAction": report.action.name,
            "posMaintStatus": report.status.name,
            "tradeID": report.trade_id or None,
            "origPosReqRefID": report.orig_request_id or None,
            "accountType": None,
            "clearingBusinessDate": self._market.trade_date,
            "thresholdAmount": price_of(report.threshold),
            "transactTime": report.transact_time_ns,
            "account": report.account or None,
            "senderLocation": echoed.get("senderLocation") or "",
            "posMaintResult": report.code or None,
            "contraryInstructionIndicator": "TRUE_VALUE" if report.contrary else "FALSE_VALUE",
            "noPositions": [
                {"posType": kind.name, "longQty": long or None, "shortQty": short or None}
                for kind, long, short in report.quantities
            ],
            "deskID": echoed.get("deskID"),
            "memo": echoed.get("memo"),
            "text": report.text or None,
        }
        for session in self._recipients(report.session, report.firm):
            session.send("PositionMaintenanceReport", fields, now_ns)

    def allocation(self, report: AllocationReported, values: Values, now_ns: int) -> None:
        """Report the answer to an allocation."""
        fields = {
            "allocID": report.allocation_id,
            "securityID": report.security_id,
            "allocReportID": report.exec_id,
            "allocTransType": "CANCEL" if report.cancels else "NEW",
            "allocReportType": "REQUEST_TO_INTERMEDIARY",
            "allocNoOrdersType": "NOT_SPECIFIED",
            "allocRejCode": report.code or None,
            "quantity": report.quantity,
            "allocStatus": "REJECTED_BY_INTERMEDIARY" if report.code else "ACCEPTED",
            "tradeDate": self._market.trade_date,
            "transactTime": report.transact_time_ns,
            "side": "BUY",
            "senderLocation": values.get("senderLocation") or "",
            "enteringTrader": values.get("enteringTrader") or "",
        }
        for session in self._recipients(report.session, report.firm):
            session.send("AllocationReport", fields, now_ns)

    def _recipients(self, session_id: int, firm: int) -> list[GatewaySession]:
        """Return the recipients: a session, or all sessions of a firm."""
        if session_id:
            found = self._session(session_id)
            return [] if found is None else [found]
        return list(self._of_firm(firm))
