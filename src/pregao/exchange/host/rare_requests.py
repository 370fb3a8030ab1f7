"""The requests that come now and then: crosses, mass actions, strategies, and what is refused.

They are decoded in full; what there is no function for is answered as the documents say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pregao.entrypoint import GatewaySession, Received
from pregao.exchange.engine import rejects
from pregao.exchange.engine.commands import (
    Command,
    CrossSide,
    DefineSpread,
    MassCancel,
    NewCross,
    ProposedLeg,
)
from pregao.exchange.engine.rejects import Reject
from pregao.exchange.engine.reports import MassCancelled, SpreadDefined
from pregao.exchange.engine.self_trade import investor_number
from pregao.exchange.engine.terms import (
    PRICE_SCALE,
    RATIO_SCALE,
    CrossPrioritization,
    CrossType,
    ExecRestatementReason,
    Side,
)
from pregao.exchange.host import forward_messages
from pregao.exchange.host.intake import MOST_PRICE, MOST_QUANTITY
from pregao.exchange.host.reporting import Asked
from pregao.exchange.host.requests import OrderRequest, is_plain

UNSUPPORTED: Final = 3
"""FIX's reason for a kind of message that is not served."""
OTHER: Final = 0
_CROSS_TYPES: Final = {"ALL_OR_NONE_CROSS": 1, "CROSS_EXECUTED_AGAINST_BOOK_FROM_CLIENT": 4}
_PRIORITIES: Final = {"NONE": 0, "BUY_SIDE_IS_PRIORITIZED": 1, "SELL_SIDE_IS_PRIORITIZED": 2}
_PURPOSES: Final = {"STRUCTURED_TRANSACTION": 1001, "OPERATIONAL_ERROR": 1002, "TWAP_VWAP": 1003}
_LAST_WITH_A_NUMBER: Final = 2
_FIRST_ON_BEHALF: Final = 3
_LIMIT, _DAY = ord("2"), ord("0")

Apply = Callable[[Command, Asked], None]
Refuse = Callable[[OrderRequest, Reject], None]


def answer(
    event: Received,
    session: GatewaySession,
    segments: frozenset[int],
    apply: Apply,
    refuse: Refuse,
    now_ns: int,
) -> None:
    """Do what a request asks for, or refuse it."""
    values = event.message.values
    segment = values["businessHeader"]["marketSegmentID"]
    odd = _odd_text(values)
    if odd is not None:
        text = f"{odd} has characters that cannot be printed"
        session.reject(event.name, event.message, event.data, OTHER, text, now_ns)
        return
    if event.name == "OrderMassActionRequest":
        _mass_action(session, values, segment, segments, apply, now_ns)
        return
    if segment not in segments:
        text = f"marketSegmentID {segment} is no segment of this market"
        session.reject(event.name, event.message, event.data, OTHER, text, now_ns)
    elif event.name == "NewOrderCross":
        fault = _cross_fault(values)
        if fault is None:
            _cross(session, values, segment, apply, refuse)
        else:
            session.reject(event.name, event.message, event.data, OTHER, fault, now_ns)
    elif event.name in forward_messages.MESSAGES:
        command = forward_messages.command_of(event.name, values, session)
        if isinstance(command, str):
            session.reject(event.name, event.message, event.data, OTHER, command, now_ns)
        else:
            apply(command, Asked())
    elif event.name == "SecurityDefinitionRequest":
        _strategy(session, values, apply, now_ns)
    else:
        text = f"{event.name} is not served by this market"
        session.reject(event.name, event.message, event.data, UNSUPPORTED, text, now_ns)


def _odd_text(values: Mapping[str, Any]) -> str | None:
    """The name of a text that nobody could read, if there is one."""
    for name, value in values.items():
        if isinstance(value, str):
            if not is_plain(value):
                return name
        elif isinstance(value, list):
            for entry in value:
                if (found := _odd_text(entry)) is not None:
                    return f"{name}.{found}"
    return None


# Crosses (§16.1.5).


def _cross_fault(values: dict[str, Any]) -> str | None:
    sides = [each["side"] for each in values["noSides"]]
    if sorted(sides) != ["BUY", "SELL"]:
        return "noSides needs one side that buys and one that sells"
    if not all(each["clOrdID"] for each in values["noSides"]):
        return "clOrdID needs a value"
    return None


def _cross(
    session: GatewaySession, values: dict[str, Any], segment: int, apply: Apply, refuse: Refuse
) -> None:
    """Enter a cross; what it cannot be yet is refused on both sides."""
    sides = {each["side"]: each for each in values["noSides"]}
    price = values["price"]
    mantissa = None if price is None else int(price * PRICE_SCALE)
    buyer, seller = (
        _cross_request(session, values, sides[side.name], side, segment, mantissa) for side in Side
    )
    asked = Asked(sides=(buyer, seller))
    kind = CrossType[values.get("crossType") or "ALL_OR_NONE_CROSS"]
    refused = None
    if values.get("ordType") not in (None, "LIMIT"):
        refused = rejects.CROSS_NOT_ELIGIBLE.because("only crosses at a price are taken")
    elif mantissa is None:
        refused = rejects.PRICE_REQUIRED
    elif not -MOST_PRICE <= mantissa <= MOST_PRICE:
        refused = rejects.PRICE_OUTSIDE_LIMITS
    elif not 0 < values["orderQty"] <= MOST_QUANTITY:
        refused = rejects.QUANTITY_OUTSIDE_RANGE
    if refused is not None or mantissa is None:
        for each in (buyer, seller):
            refuse(each, refused or rejects.PRICE_REQUIRED)
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
        cross_type=kind,
        prioritization=CrossPrioritization[values.get("crossPrioritization") or "NONE"],
        max_sweep_qty=values.get("maxSweepQty"),
    )
    apply(command, asked)


def _party(side: dict[str, Any], firm: int) -> CrossSide:
    return CrossSide(side["enteringFirm"] or firm, side["clOrdID"], side["account"] or 0)


def _cross_request(
    session: GatewaySession,
    values: dict[str, Any],
    own: dict[str, Any],
    side: Side,
    segment: int,
    price: int | None,
) -> OrderRequest:
    """One side of a cross, as an order of its own would be described."""
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
        None,
        None,
        0,
        0,
        desk=_bytes(values["deskID"]),
        memo=_bytes(values["memo"]),
        sub_account=own.get("tradingSubAccount"),
        cross_type=_CROSS_TYPES.get(values.get("crossType") or ""),
        cross_priority=_PRIORITIES.get(values.get("crossPrioritization") or ""),
        crossed=_PURPOSES.get(values["crossedIndicator"] or ""),
        cross_id=values["crossID"],
    )


def _bytes(text: str | None) -> bytes | None:
    return None if not text else text.encode("ascii", "replace")


# Mass actions (§4.8, §16.1.4).


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
            "securityID",
        )  # fmt: skip
        told = {name: values[name] for name in echoed}
        told |= {"massActionReportID": number, "transactTime": now_ns, "text": None}
        told |= {"massActionRejectReason": None, "execRestatementReason": None}
        session.send("OrderMassActionReport", told | changes, now_ns)

    def refuse(reason: str, text: str) -> None:
        report(
            session.state.next_outgoing,
            massActionResponse="REJECTED",
            massActionRejectReason=reason,
            text=text,
        )

    def accepted(done: MassCancelled) -> None:
        report(done.exec_id, massActionResponse="ACCEPTED", execRestatementReason=why)

    why = values["execRestatementReason"] or "ORDER_MASS_ACTION_FROM_CLIENT_REQUEST"
    investor = values["investorID"]
    number = 0
    if investor and any(investor.values()):
        number = investor_number(investor["prefix"] or 0, investor["document"] or 0)
    if segment not in segments:
        refuse("INVALID_OR_UNKNOWN_MARKET_SEGMENT", f"{segment} is no segment of this market")
    elif values["massActionType"] != "CANCEL_ORDERS":
        refuse("MASS_ACTION_NOT_SUPPORTED", "orders can be cancelled, not suspended or released")
    else:
        apply(
            MassCancel(
                session.session_id,
                values["clOrdID"],
                values["securityID"],
                None if values["side"] is None else Side[values["side"]],
                values["ordTagID"] or 0,
                _REASONS[why],
                values["asset"] or "",
                number,
                # From then on an investor's orders are cancelled in all sessions of the firm.
                on_behalf=bool(number) and session.state.version >= _FIRST_ON_BEHALF,
                firm=session.account.firm,
            ),
            Asked(mass_action=accepted),
        )


_REASONS: Final = {
    "ORDER_MASS_ACTION_FROM_CLIENT_REQUEST": (
        ExecRestatementReason.ORDER_MASS_ACTION_FROM_CLIENT_REQUEST
    ),
    "MASS_CANCEL_ORDER_DUE_TO_OPERATIONAL_ERROR_REQUEST": (
        ExecRestatementReason.MASS_CANCEL_ORDER_DUE_TO_OPERATIONAL_ERROR
    ),
}


def _strategy(session: GatewaySession, values: dict[str, Any], apply: Apply, now_ns: int) -> None:
    """Propose a spread; the answer names the instrument that was made, or that there is (§15.1)."""

    def answered(made: SpreadDefined) -> None:
        # Up to version 2 there must be a number.
        nothing = 0 if session.state.version <= _LAST_WITH_A_NUMBER else None
        session.send(
            "SecurityDefinitionResponse",
            {
                "securityReqID": values["securityReqID"],
                "securityID": made.security_id or nothing,
                "securityResponseType": made.response.name,
                "securityStrategyType": made.strategy_type,
                "symbol": made.symbol,
                "securityResponseID": made.exec_id,
                "senderLocation": values["senderLocation"],
                "enteringTrader": values["enteringTrader"],
            },
            now_ns,
        )

    legs = tuple(
        ProposedLeg(
            leg["legSymbol"], Side[leg["legSide"]], int((leg["legRatioQty"] or 0) * RATIO_SCALE)
        )
        for leg in values["noLegs"]
    )
    request_id = int(values["securityReqID"])
    apply(DefineSpread(session.session_id, request_id, legs), Asked(spread=answered))
