"""Off-book negotiation: forwards (§15.3) and user-defined spreads (§15.1).

Quotes and proposals become engine commands; the engine's reports about them become messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

from pregao.entrypoint.gateway_sessions import GatewaySession
from pregao.exchange.engine.book.market import Market
from pregao.exchange.engine.model.commands import (
    AcceptForward,
    CancelForward,
    Command,
    DeclareForward,
    DefineSpread,
    ProposedLeg,
    RefuseForward,
)
from pregao.exchange.engine.model.enums import RATIO_SCALE, OrderSide, SettlType
from pregao.exchange.engine.model.reports import (
    ForwardOffered,
    ForwardReported,
    ForwardTraded,
    SpreadDefined,
)
from pregao.exchange.host.gateway.order_requests import (
    MAX_PRICE,
    MAX_QUANTITY,
    is_direct_access,
)
from pregao.units import PRICE_SCALE, price_of

Values = Mapping[str, Any]
_WITH_CASH: Final = "UNDERLYING_OPPOSING_TRADE"
MAX_SETTLEMENT_DAYS: Final = 65_534
"""The next higher value is null in the reports about a forward."""
_TEXT_IDS: Final = 2
"""Last version whose quoteReqID is a text, and whose spread answers need a securityID (or 0)."""


def command_of(name: str, values: Values, session: GatewaySession, market: Market) -> Command | str:
    """Return the command of a message, or what is wrong with it."""
    number, firm = session.session_id, session.account.firm
    match name:
        case "QuoteRequest":
            return _declaration(values, number, firm)
        case "Quote":
            dma = is_direct_access((values["senderLocation"] or "").encode())
            return AcceptForward(number, firm, values["quoteID"], values["account"] or 0, dma)
        case "QuoteRequestReject":
            return RefuseForward(number, firm, values["quoteID"] or 0)
        case "QuoteCancel":
            return CancelForward(
                number, firm, values["quoteID"] or _by_own_id(values, number, market)
            )
        case _:
            return _proposal(values, number)


def _declaration(values: Values, session: int, firm: int) -> DeclareForward | str:
    sides = values["noSides"]
    if not sides or sides[0]["side"] is None:
        return "noSides needs the side of the declaring firm"
    price = _scaled(values["price"], PRICE_SCALE)
    rate = _scaled(values["fixedRate"], PRICE_SCALE)
    if price is None or rate is None:
        return "price and fixedRate need values with at most four decimals"
    if abs(price) > MAX_PRICE or abs(rate) > MAX_PRICE or values["orderQty"] > MAX_QUANTITY:
        return "price, fixedRate or orderQty is too large"
    days = values["daysToSettlement"]
    if days is None or not 0 <= days <= MAX_SETTLEMENT_DAYS:
        return f"daysToSettlement must be from 0 to {MAX_SETTLEMENT_DAYS}, was {days}"
    trade = values["tradeID"]
    return DeclareForward(
        session,
        firm,
        str(values["quoteReqID"] or ""),
        values["securityID"],
        values["contraBroker"],
        OrderSide[sides[0]["side"]],
        values["orderQty"],
        price,
        rate,
        values["daysToSettlement"],
        SettlType[values["settlType"]],
        sides[0]["account"] or 0,
        trade is None and values["executeUnderlyingTrade"] == _WITH_CASH,
        trade,
    )


def _scaled(value: Decimal | None, scale: int) -> int | None:
    """Return a decimal as a mantissa; None if it is missing or has more digits than the scale."""
    if value is None:
        return None
    scaled = value * scale
    return int(scaled) if scaled == int(scaled) else None


def _by_own_id(values: Values, session: int, market: Market) -> int:
    """Return the quote ID of the declaration with a client's quoteReqID; 0 if there is none."""
    quote_req_id = str(values["quoteReqID"] or "")
    for number, declared in market.declarations.items():
        if declared.terms.session == session and declared.terms.quote_req_id == quote_req_id:
            return number
    return 0


def _proposal(values: Values, session: int) -> DefineSpread | str:
    legs = []
    for each in values["noLegs"]:
        side, ratio = each["legSide"], each["legRatioQty"]
        if side is None or ratio is None or each["legSymbol"] is None:
            return "noLegs needs symbol, side and ratio of each leg"
        legs.append(ProposedLeg(each["legSymbol"], OrderSide[side], int(ratio * RATIO_SCALE)))
    if any(abs(leg.ratio_qty) > MAX_QUANTITY for leg in legs):
        return "legRatioQty is too large"
    return DefineSpread(session, values["securityReqID"], tuple(legs))


class OffBookReporter:
    """Sends messages about forwards and spreads to members."""

    def __init__(
        self,
        market: Market,
        session: Callable[[int], GatewaySession | None],
        of_firm: Callable[[int], Iterable[GatewaySession]],
    ) -> None:
        self._market = market
        self._session = session
        self._of_firm = of_firm
        self.terms: dict[int, DeclareForward] = {}

    def spread_defined(self, report: SpreadDefined, values: Values, now_ns: int) -> None:
        """Send the answer to a proposal."""
        session = self._session(report.session)
        if session is None:
            return
        unlisted = 0 if session.messages.version <= _TEXT_IDS else None
        session.send(
            "SecurityDefinitionResponse",
            {
                "securityReqID": report.request_id,
                "securityID": report.security_id or unlisted,
                "securityResponseType": report.response.name,
                "securityStrategyType": report.strategy_type,
                "symbol": report.symbol,
                "securityResponseID": report.exec_id,
                "senderLocation": values.get("senderLocation") or "",
                "enteringTrader": values.get("enteringTrader") or "",
            },
            now_ns,
        )

    def offered(self, report: ForwardOffered, _values: Values, now_ns: int) -> None:
        """Ask a firm to accept a forward."""
        terms = self.terms[report.quote_id] = report.terms
        for session in self._of_firm(report.firm):
            fields = self._deal(terms, session) | {
                "quoteID": report.quote_id,
                "contraBroker": terms.firm,
                "tradeID": terms.cash_trade_id,
                "noSides": [{"side": terms.side.name, "account": None}],
            }
            self._send(session, "QuoteRequest", fields, now_ns)

    def reported(self, report: ForwardReported, values: Values, now_ns: int) -> None:
        """Report the status of a declaration."""
        terms = report.terms
        if terms is not None:
            self.terms[report.quote_id] = terms
        for session in self._recipients(report.session, report.firm):
            fields = self._unknown(values) if terms is None else self._deal(terms, session)
            own = terms is not None and report.firm == terms.firm
            other = 0 if terms is None else terms.contra_firm if own else terms.firm
            fields |= {
                "quoteID": report.quote_id,
                "quoteRejectReason": report.code or None,
                "quoteStatus": report.status.name,
                "quoteStatusResponseTo": report.response_to.name,
                "contraBroker": other,
                "tradeID": None if terms is None else terms.cash_trade_id,
                "account": (terms.account or None) if own and terms is not None else None,
                "side": None if terms is None else _own_side(terms, own=own).name,
                "text": report.text or None,
            }
            self._send(session, "QuoteStatusReport", fields, now_ns, values)

    def traded(self, report: ForwardTraded, _values: Values, now_ns: int) -> None:
        """Report the trade of an accepted forward, or its cash trade."""
        terms = self.terms.get(report.quote_id)
        for session in self._recipients(report.session, report.firm):
            fields = {
                "side": report.side.name,
                "ordStatus": "FILLED",
                "clOrdID": None,
                "secondaryOrderID": report.quote_id,
                "orderID": report.quote_id,
                "securityID": report.security_id,
                "account": None,
                "lastQty": report.last_qty,
                "lastPx": price_of(report.last_px),
                "execID": report.exec_id,
                "transactTime": report.transact_time_ns,
                "leavesQty": 0,
                "cumQty": report.last_qty,
                "tradeID": report.trade_id,
                "contraBroker": report.contra_firm,
                "aggressorIndicator": "FALSE_VALUE",
                "settlType": None if terms is None else terms.settl_type.name,
                "daysToSettlement": None if terms is None else terms.days_to_settlement,
                "fixedRate": None if terms is None else price_of(terms.fixed_rate),
                "tradeDate": self._market.trade_date,
                "secondaryExecID": None,
                "execRefID": None,
                "orderQty": report.last_qty,
            }
            session.send("ExecutionReport_Forward", fields, now_ns)

    def _deal(self, terms: DeclareForward, session: GatewaySession) -> dict[str, Any]:
        """Return the terms of a forward for messages."""
        quote_req_id = terms.quote_req_id
        number: Any = quote_req_id
        if session.messages.version > _TEXT_IDS:
            # A text of an older version may not be a number, or may be too large.
            number = int(quote_req_id) if quote_req_id.isascii() and quote_req_id.isdigit() else 0
            number = number if number < 1 << 64 else 0
        cash = _WITH_CASH if terms.with_cash else "NO_UNDERLYING_TRADE"
        return {
            "securityID": terms.security_id,
            "quoteReqID": number,
            "price": price_of(terms.price),
            "settlType": terms.settl_type.name,
            "executeUnderlyingTrade": cash,
            "orderQty": terms.quantity,
            "fixedRate": price_of(terms.fixed_rate),
            "daysToSettlement": terms.days_to_settlement,
        }

    def _unknown(self, values: Values) -> dict[str, Any]:
        """Return the terms of an unknown forward: those of the request."""
        names = ("price", "settlType", "executeUnderlyingTrade", "fixedRate", "daysToSettlement")
        return dict.fromkeys(names) | {
            "securityID": values.get("securityID", 0),
            "quoteReqID": values.get("quoteReqID") or 0,
            "orderQty": values.get("orderQty") or 0,
        }

    def _send(
        self,
        session: GatewaySession,
        name: str,
        values: dict[str, Any],
        now_ns: int,
        request: Values | None = None,
    ) -> None:
        request = {} if request is None else request
        if session.messages.version <= _TEXT_IDS and "quoteReqID" in values:
            values["quoteReqID"] = str(values["quoteReqID"] or "") or None
        parties = {
            each: request.get(each) or ""
            for each in ("senderLocation", "enteringTrader", "executingTrader")
        }
        texts = {"deskID": request.get("deskID"), "memo": request.get("memo")}
        session.send(name, {**parties, **texts, "transactTime": now_ns, **values}, now_ns)

    def _recipients(self, session_id: int, firm: int) -> list[GatewaySession]:
        """Return the recipients: a session, or all sessions of a firm."""
        if session_id:
            found = self._session(session_id)
            return [] if found is None else [found]
        return list(self._of_firm(firm))


def _own_side(terms: DeclareForward, *, own: bool) -> OrderSide:
    return terms.side if own else OrderSide(3 - terms.side)
