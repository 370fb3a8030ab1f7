"""Rare requests: crosses, mass actions, quotes, positions, and unsupported messages.

They are fully decoded; unsupported messages are rejected as B3's documents specify.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, Final

from pregao.entrypoint.events import MessageReceived
from pregao.entrypoint.gateway_sessions import GatewaySession
from pregao.exchange.engine.book.market import Market
from pregao.exchange.engine.matching.self_trade_prevention import investor_number
from pregao.exchange.engine.model import reject_codes
from pregao.exchange.engine.model.commands import Command, CrossSide, MassCancel, NewCross
from pregao.exchange.engine.model.enums import (
    CrossPrioritization,
    CrossType,
    ExecRestatementReason,
    MassActionType,
    OrderSide,
)
from pregao.exchange.engine.model.reject_codes import Reject
from pregao.exchange.engine.model.reports import MassCancelled
from pregao.exchange.host.gateway.execution_reports import RequestContext
from pregao.exchange.host.gateway.order_requests import (
    MAX_PRICE,
    MAX_QUANTITY,
    OrderRequest,
    text_fault,
)
from pregao.exchange.host.gateway.positions import POSITION_REQUESTS, position_command
from pregao.exchange.host.gateway.pre_trade import NOT_AUTHORIZED
from pregao.exchange.host.gateway.quotes import command_of
from pregao.units import PRICE_SCALE

UNSUPPORTED: Final = 3
"""FIX reject reason of an unsupported message type."""
OTHER: Final = 0
_PURPOSES: Final = {"STRUCTURED_TRANSACTION": 1001, "OPERATIONAL_ERROR": 1002, "TWAP_VWAP": 1003}
_NEGOTIATED: Final = frozenset(
    {"QuoteRequest", "Quote", "QuoteRequestReject", "QuoteCancel", "SecurityDefinitionRequest"}
)
_FIRST_ON_BEHALF: Final = 3
_MAX_PREFIX, _MAX_DOCUMENT = 999, 999_999_999
_LIMIT, _DAY = ord("2"), ord("0")

Apply = Callable[[Command, RequestContext], None]
Refuse = Callable[[OrderRequest, Reject], None]


def answer(
    event: MessageReceived,
    session: GatewaySession,
    market: Market,
    segments: frozenset[int],
    apply: Apply,
    refuse: Refuse,
    now_ns: int,
) -> None:
    """Apply a request, or reject it."""
    values = event.message.values
    segment = values["businessHeader"]["marketSegmentID"]
    fault_in_text = _odd_text(values)
    if fault_in_text is not None:
        session.reject(event.name, event.message, event.data, OTHER, fault_in_text, now_ns)
        return
    if event.name == "OrderMassActionRequest":
        _mass_action(session, values, segment, segments, apply, now_ns)
        return
    if segment not in segments:
        text = f"marketSegmentID {segment} is not a segment of this market"
        session.reject(event.name, event.message, event.data, OTHER, text, now_ns)
    elif event.name == "NewOrderCross":
        fault = _cross_fault(values)
        firms = {each["enteringFirm"] or session.account.firm for each in values["noSides"]}
        other = firms - {session.account.firm}
        if other:
            text = f"enteringFirm {min(other)} is not the firm of this session"
            session.reject(event.name, event.message, event.data, NOT_AUTHORIZED, text, now_ns)
        elif fault is None:
            _cross(session, values, segment, apply, refuse)
        else:
            session.reject(event.name, event.message, event.data, OTHER, fault, now_ns)
    elif event.name in _NEGOTIATED:
        command = command_of(event.name, values, session, market)
        if isinstance(command, str):
            session.reject(event.name, event.message, event.data, OTHER, command, now_ns)
        else:
            apply(command, RequestContext(values=values))
    elif event.name in POSITION_REQUESTS:
        found = position_command(event.name, values, session)
        if isinstance(found, str):
            session.reject(event.name, event.message, event.data, OTHER, found, now_ns)
        else:
            apply(found, RequestContext(values=values))
    else:
        text = f"{event.name} is not supported by this market"
        session.reject(event.name, event.message, event.data, UNSUPPORTED, text, now_ns)


def _odd_text(values: Mapping[str, Any]) -> str | None:
    """Return what is wrong with a text among the values, or None."""
    for name, value in values.items():
        fault = None
        if isinstance(value, str):
            fault = text_fault(name, value)
        elif isinstance(value, list):
            faults = (_odd_text(entry) for entry in value)
            fault = next((each for each in faults if each is not None), None)
        if fault is not None:
            return fault
    return None


# Crosses (§16.1.5)


def _cross_fault(values: dict[str, Any]) -> str | None:
    sides = [each["side"] for each in values["noSides"]]
    if sorted(sides) != ["BUY", "SELL"]:
        return "noSides must have one BUY side and one SELL side"
    if not all(each["clOrdID"] for each in values["noSides"]):
        return "clOrdID needs a value"
    return None


def _cross(
    session: GatewaySession, values: dict[str, Any], segment: int, apply: Apply, refuse: Refuse
) -> None:
    """Enter a cross; an unsupported cross is rejected on both sides."""
    sides = {each["side"]: each for each in values["noSides"]}
    price = values["price"]
    mantissa = None if price is None else int(price * PRICE_SCALE)
    buyer, seller = (
        _cross_request(session, values, sides[side.name], side, segment, mantissa)
        for side in OrderSide
    )
    context = RequestContext(sides=(buyer, seller))
    kind = CrossType[values.get("crossType") or "ALL_OR_NONE_CROSS"]
    refused = None
    if mantissa is None:
        refused = reject_codes.PRICE_REQUIRED
        if kind in (CrossType.VWAP_CROSS, CrossType.CLOSING_PRICE_CROSS):
            refused = reject_codes.CROSS_TYPE_NOT_ACCEPTED
    elif values.get("ordType") not in (None, "LIMIT"):
        refused = reject_codes.CROSS_TYPE_NOT_ACCEPTED
    elif not -MAX_PRICE <= mantissa <= MAX_PRICE:
        refused = reject_codes.PRICE_OUTSIDE_LIMITS
    elif not 0 < values["orderQty"] <= MAX_QUANTITY:
        refused = reject_codes.QUANTITY_OUTSIDE_RANGE
    if refused is not None or mantissa is None:
        for each in (buyer, seller):
            refuse(each, refused or reject_codes.PRICE_REQUIRED)
        return
    firm = session.account.firm
    command = NewCross(
        session.session_id,
        values["crossID"],
        values["securityID"],
        values["orderQty"],
        mantissa,
        _party(sides["BUY"], firm),
        _party(sides["SELL"], firm),
        None,
        kind,
        CrossPrioritization[values.get("crossPrioritization") or "NONE"],
        values.get("maxSweepQty"),
    )
    apply(command, context)


def _party(side: dict[str, Any], firm: int) -> CrossSide:
    return CrossSide(side["enteringFirm"] or firm, side["clOrdID"], side["account"] or 0)


def _cross_request(
    session: GatewaySession,
    values: dict[str, Any],
    own: dict[str, Any],
    side: OrderSide,
    segment: int,
    price: int | None,
) -> OrderRequest:
    """Return one side of a cross in the form of an order request."""
    return OrderRequest(
        session.session_id,
        values["businessHeader"]["msgSeqNum"],
        segment,
        values["securityID"],
        own["clOrdID"],
        ord("0") + side,
        _LIMIT,
        values["orderQty"],
        price,
        _DAY,
        own["account"],
        _bytes(values["senderLocation"]),
        _bytes(values["enteringTrader"]),
        0,
        0,
        executing_trader=_bytes(values["executingTrader"]),
        desk=_bytes(values["deskID"]),
        memo=_bytes(values["memo"]),
        sub_account=own.get("tradingSubAccount"),
        cross_type=_code(CrossType, values.get("crossType")),
        cross_priority=_code(CrossPrioritization, values.get("crossPrioritization")),
        crossed=_PURPOSES.get(values["crossedIndicator"] or ""),
        cross_id=values["crossID"],
    )


def _code(kind: type[IntEnum], name: str | None) -> int | None:
    return None if name is None else kind[name].value


def _bytes(text: str | None) -> bytes | None:
    return None if not text else text.encode("ascii", "replace")


# Mass actions (§4.8, §16.1.4)


def _mass_action(
    session: GatewaySession,
    values: dict[str, Any],
    segment: int,
    segments: frozenset[int],
    apply: Apply,
    now_ns: int,
) -> None:
    def report(number: int, **changes: Any) -> None:
        echoed = (
            "massActionType", "massActionScope", "clOrdID", "ordTagID", "side", "asset",
            "securityID", "investorID",
        )  # fmt: skip
        fields = {name: values[name] for name in echoed}
        fields |= {"massActionReportID": number, "transactTime": now_ns, "text": None}
        fields |= {"massActionRejectReason": None, "execRestatementReason": None}
        session.send("OrderMassActionReport", fields | changes, now_ns)

    def answered(done: MassCancelled) -> None:
        if done.reject_reason is None:
            report(done.exec_id, massActionResponse="ACCEPTED", execRestatementReason=why)
            return
        report(
            done.exec_id,
            massActionResponse="REJECTED",
            massActionRejectReason=done.reject_reason.name,
            text=done.text,
        )

    why = values["execRestatementReason"] or "ORDER_MASS_ACTION_FROM_CLIENT_REQUEST"
    named = values["investorID"] or {"prefix": None, "document": None}
    prefix, document = named["prefix"] or 0, named["document"] or 0
    investor = investor_number(prefix, document) if prefix or document else 0
    if segment not in segments or prefix > _MAX_PREFIX or document > _MAX_DOCUMENT:
        known = segment in segments
        report(
            session.state.next_outgoing,
            massActionResponse="REJECTED",
            massActionRejectReason="OTHER" if known else "INVALID_OR_UNKNOWN_MARKET_SEGMENT",
            text=(
                "investorID is out of range"
                if known
                else f"marketSegmentID {segment} is not a segment of this market"
            ),
            investorID=None,
        )
        return
    apply(
        MassCancel(
            session.session_id,
            values["clOrdID"],
            values["securityID"],
            None if values["side"] is None else OrderSide[values["side"]],
            values["ordTagID"] or 0,
            _REASONS[why],
            values["asset"] or "",
            investor,
            MassActionType[values["massActionType"]],
            # From that version on, an investor's orders are canceled in all sessions of the firm.
            on_behalf=bool(investor) and session.state.version >= _FIRST_ON_BEHALF,
            firm=session.account.firm,
            segment=segment,
        ),
        RequestContext(mass_action=answered),
    )


_REASONS: Final = {
    reason.name: reason
    for reason in (
        ExecRestatementReason.ORDER_MASS_ACTION_FROM_CLIENT_REQUEST,
        ExecRestatementReason.MASS_CANCEL_ORDER_DUE_TO_OPERATIONAL_ERROR_REQUEST,
    )
}
