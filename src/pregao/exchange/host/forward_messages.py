"""Forwards over EntryPoint (§15.3): quote messages as commands, and what comes of them as messages.

A declaration goes to every session of the firm that it names; whichever answers first decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

from pregao.entrypoint import VERSIONS, GatewaySession
from pregao.exchange.engine.commands import (
    AcceptForward,
    CancelForward,
    Command,
    DeclareForward,
    RefuseForward,
)
from pregao.exchange.engine.reports import ForwardOffered, ForwardReported, ForwardTraded
from pregao.exchange.engine.terms import PRICE_SCALE, OrdStatus, SettlType, Side
from pregao.exchange.host.intake import MOST_PRICE, MOST_QUANTITY

MESSAGES: Final = ("QuoteRequest", "Quote", "QuoteCancel", "QuoteRequestReject")
_DESK: Final = "BVMF"
"""Where desk traders are; all other places are direct market access (§11)."""
_WITH_CASH: Final = "UNDERLYING_OPPOSING_TRADE"
_MOST_DIGITS: Final = 18
_MOST_RATE: Final = 10_000
_LAST_WITH_TEXT: Final = 2
"""Up to this version a request is named by a text, then by a number."""

Sessions = Callable[[int, int], Iterable[GatewaySession]]
"""The sessions of a report: the one of a number, or, where that is 0, all of a firm."""


def command_of(name: str, values: Mapping[str, Any], session: GatewaySession) -> Command | str:
    """What a quote message asks of the engine, or the sentence that says what is wrong with it."""
    number, firm = session.session_id, session.account.firm
    quote_id = values["quoteID"] or 0
    if name == "Quote":
        account = values["account"] or 0
        dma = values["senderLocation"] != _DESK
        return AcceptForward(number, firm, quote_id, account, dma)
    if name == "QuoteRequestReject":
        return RefuseForward(number, firm, quote_id)
    if name == "QuoteCancel":
        return CancelForward(number, firm, quote_id)
    if len(values["noSides"]) != 1:
        return "noSides needs the one side of who declares the forward"
    if not 0 < values["orderQty"] <= MOST_QUANTITY:
        return "orderQty is not a quantity that this market takes"
    if not -MOST_PRICE <= values["price"] * PRICE_SCALE <= MOST_PRICE:
        return "price is not one that this market takes"
    if not 0 <= values["fixedRate"] <= _MOST_RATE:
        return "fixedRate is not a rate that this market takes"
    side = values["noSides"][0]
    return DeclareForward(
        number,
        firm,
        str(values["quoteReqID"] or ""),
        values["securityID"],
        values["contraBroker"],
        Side[side["side"]],
        values["orderQty"],
        int(values["price"] * PRICE_SCALE),
        int(values["fixedRate"] * PRICE_SCALE),
        values["daysToSettlement"],
        SettlType[values["settlType"]],
        side["account"] or 0,
        values["executeUnderlyingTrade"] == _WITH_CASH,
        values["tradeID"],
    )


def _request_id(terms: DeclareForward | None, session: GatewaySession) -> Any:
    """The initiator's name of a request, as the session's version writes it."""
    text = "" if terms is None else terms.quote_req_id
    if (session.state.version or VERSIONS[-1]) <= _LAST_WITH_TEXT:
        return text
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else 0


def _details(terms: DeclareForward | None) -> dict[str, Any]:
    """The terms of a deal as quote messages carry them."""
    parties = {"senderLocation": _DESK, "enteringTrader": "", "executingTrader": ""}
    nothing = {"deskID": None, "memo": None}
    if terms is None:
        return (
            parties
            | nothing
            | dict.fromkeys(
                ("tradeID", "settlType", "price", "fixedRate", "executeUnderlyingTrade"),
            )
            | {"orderQty": 0, "daysToSettlement": None}
        )
    return (
        parties
        | nothing
        | {
            "tradeID": terms.cash_trade_id,
            "settlType": terms.settl_type.name,
            "price": _decimal(terms.price),
            "orderQty": terms.quantity,
            "fixedRate": _decimal(terms.fixed_rate),
            "executeUnderlyingTrade": _WITH_CASH if terms.with_cash else "NO_UNDERLYING_TRADE",
            "daysToSettlement": terms.days_to_settlement,
        }
    )


def _decimal(number: int) -> Decimal:
    return Decimal(number) / PRICE_SCALE


def tell_offered(report: ForwardOffered, sessions: Sessions, now_ns: int) -> None:
    """Pass a declaration on to the firm that is to accept it."""
    terms = report.terms
    other = Side(3 - terms.side)
    for session in sessions(report.session, report.firm):
        values = _details(terms) | {
            "securityID": terms.security_id,
            "quoteReqID": _request_id(terms, session),
            "quoteID": report.quote_id,
            "contraBroker": terms.firm,
            "transactTime": report.transact_time_ns,
            "noSides": [{"side": other.name, "account": None}],
        }
        session.send("QuoteRequest", values, now_ns)


def tell_reported(report: ForwardReported, sessions: Sessions, now_ns: int) -> None:
    """Tell what became of a declaration."""
    terms = report.terms
    for session in sessions(report.session, report.firm):
        initiator = terms is not None and report.session == terms.session
        side = contra = None
        if terms is not None:
            side = (terms.side if initiator else Side(3 - terms.side)).name
            contra = terms.contra_firm if initiator else terms.firm
        values = _details(terms) | {
            "securityID": 0 if terms is None else terms.security_id,
            "quoteReqID": _request_id(terms, session),
            "quoteID": report.quote_id,
            "quoteRejectReason": report.code or None,
            "contraBroker": contra or 0,
            "transactTime": report.transact_time_ns,
            "quoteStatus": report.status.name,
            "quoteStatusResponseTo": report.response_to.name,
            "account": terms.account or None if terms is not None and initiator else None,
            "side": side,
            "text": report.text or None,
        }
        session.send("QuoteStatusReport", values, now_ns)


def tell_traded(report: ForwardTraded, sessions: Sessions, trade_day: Any, now_ns: int) -> None:
    """Tell a trade of an accepted forward."""
    for session in sessions(report.session, report.firm):
        values = {
            "side": report.side.name,
            "ordStatus": OrdStatus.FILLED.name,
            "clOrdID": None,
            "secondaryOrderID": report.quote_id,
            "securityID": report.security_id,
            "account": None,
            "lastQty": report.last_qty,
            "lastPx": _decimal(report.last_px),
            "execID": report.exec_id,
            "transactTime": report.transact_time_ns,
            "leavesQty": 0,
            "cumQty": report.last_qty,
            "tradeID": report.trade_id,
            "contraBroker": report.contra_firm,
            "orderID": report.quote_id,
            "aggressorIndicator": "FALSE_VALUE",
            "settlType": None,
            "tradeDate": trade_day,
            "daysToSettlement": None,
            "secondaryExecID": None,
            "execRefID": None,
            "fixedRate": None,
            "orderQty": report.last_qty,
            "deskID": None,
            "memo": None,
        }
        session.send("ExecutionReport_Forward", values, now_ns)
