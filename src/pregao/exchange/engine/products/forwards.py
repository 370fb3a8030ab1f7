"""Forwards ("termo"): a deal made off the book, declared by one firm and accepted by the other.

A declaration is pending until its respondent accepts or refuses it, its initiator cancels it, or
the day ends; these states are final. Accepted, it becomes a trade of the forward and, with cash,
one of the underlying with buyer and seller swapped:

    declared ──▶ PENDING ──accepted──▶ ACCEPTED
                    ├─────refused────▶ PASS
                    ├────canceled────▶ CANCELED (also if its instrument is delisted)
                    └──day's end─────▶ EXPIRED
"""

from __future__ import annotations

from pregao.exchange.engine.book.listing import Listing
from pregao.exchange.engine.book.market import Market
from pregao.exchange.engine.model import reject_codes
from pregao.exchange.engine.model.commands import (
    AcceptForward,
    CancelForward,
    DeclareForward,
    RefuseForward,
)
from pregao.exchange.engine.model.enums import (
    OrderSide,
    QuoteStatus,
    QuoteStatusResponseTo,
    TrdSubType,
)
from pregao.exchange.engine.model.operations_commands import EnterTrade
from pregao.exchange.engine.model.reject_codes import Reject
from pregao.exchange.engine.model.reports import ForwardOffered, ForwardReported, ForwardTraded
from pregao.exchange.engine.operations.trade_corrections import enter_trade
from pregao.exchange.engine.orders.validation import check_price
from pregao.exchange.engine.phases.trading_phases import OPEN
from pregao.records import record

_FLEXIBLE = "S"
"""Suffix of the symbols of flexible forwards."""


@record
class ForwardDeclaration:
    """A forward that waits for its respondent."""

    quote_id: int
    terms: DeclareForward


def declare_forward(market: Market, command: DeclareForward, now_ns: int) -> None:
    """Accept a declaration: answer its initiator and offer it to its respondent."""
    listing = market.listings.get(command.security_id)
    reject = _check(market, listing, command)
    market.quote_id += 1
    declared = ForwardDeclaration(market.quote_id, command)
    if reject is not None:
        _report(
            market,
            declared,
            QuoteStatus.REJECTED,
            QuoteStatusResponseTo.QUOTE_REQUEST,
            now_ns,
            reject,
        )
        return
    market.declarations[declared.quote_id] = declared
    _report(market, declared, QuoteStatus.PENDING, QuoteStatusResponseTo.QUOTE_REQUEST, now_ns)
    market.exec_id += 1
    market.reports.append(
        ForwardOffered(market.exec_id, command.contra_firm, declared.quote_id, command, now_ns)
    )


def _check(market: Market, listing: Listing | None, command: DeclareForward) -> Reject | None:
    """Return the reason to reject a declaration, or None."""
    if listing is None:
        return reject_codes.UNKNOWN_INSTRUMENT
    instrument = listing.instrument
    if not instrument.is_forward:
        return reject_codes.NOT_A_FORWARD
    if listing.status != OPEN:
        return reject_codes.FORWARD_NOT_OPEN
    if not command.private:
        return reject_codes.FORWARD_NOT_PRIVATE
    if command.quantity < listing.min_qty or command.quantity % listing.lot:
        return reject_codes.QUANTITY_OFF_LOT.because(f"{command.quantity}")
    if (reject := check_price(listing, command.price)) is not None:
        return reject
    first, last = (1, 90) if instrument.symbol.endswith(_FLEXIBLE) else (16, 999)
    if not first <= command.days_to_settlement <= last:
        return reject_codes.DAYS_INVALID.because(
            f"{command.days_to_settlement} is outside {first} to {last}"
        )
    if command.fixed_rate < 0:
        return reject_codes.RATE_INVALID
    if command.with_cash or command.cash_trade_id is not None:
        return _check_cash(market, listing, command)
    return None


def _check_cash(market: Market, listing: Listing, command: DeclareForward) -> Reject | None:
    """Return the reason to reject the cash trade of a forward, or None."""
    cash = _underlying(market, listing)
    if cash is None or cash.derivative:
        return reject_codes.NO_UNDERLYING
    if command.cash_trade_id is None:
        return None
    found = cash.trades.get(command.cash_trade_id)
    if found is None or found.item.size < command.quantity:
        return reject_codes.CASH_TRADE_INVALID
    return None


def _underlying(market: Market, listing: Listing) -> Listing | None:
    """Return the cash instrument of a forward, if it is listed."""
    for underlying in listing.instrument.underlyings:
        if underlying.security_id in market.listings:
            return market.listings[underlying.security_id]
    return None


def accept_forward(market: Market, command: AcceptForward, now_ns: int) -> None:
    """Accept a declaration: trade the deal, and report it to both sides."""
    declared = market.declarations.get(command.quote_id)
    response = QuoteStatusResponseTo.QUOTE
    if declared is None or declared.terms.contra_firm != command.firm:
        _not_found(market, command.session, command.firm, command.quote_id, response, now_ns)
        return
    listing = market.listings[declared.terms.security_id]
    reject = None
    if command.dma:
        reject = reject_codes.DMA_CANNOT_ACCEPT
    elif listing.status != OPEN:
        reject = reject_codes.FORWARD_NOT_OPEN
    if reject is not None:
        # The declaration stays pending.
        _report_to(
            market, declared, command.session, command.firm, QuoteStatus.REJECTED, response, now_ns,
            reject,
        )  # fmt: skip
        return
    del market.declarations[declared.quote_id]
    _report(market, declared, QuoteStatus.ACCEPTED, response, now_ns)
    _report_to(
        market, declared, command.session, command.firm, QuoteStatus.ACCEPTED, response, now_ns
    )
    terms = declared.terms
    buyer, seller = terms.firm, terms.contra_firm
    if terms.side == OrderSide.SELL:
        buyer, seller = seller, buyer
    enter_trade(
        market,
        EnterTrade(
            listing.security_id,
            terms.price,
            terms.quantity,
            buyer,
            seller,
            on_behalf=False,
            seller_days=terms.days_to_settlement,
            interest_rate=terms.fixed_rate,
        ),
        now_ns,
    )
    _report_trade(market, declared, command, listing, terms.side, now_ns)
    if terms.with_cash or terms.cash_trade_id is not None:
        cash = _underlying(market, listing)
        if cash is not None:
            enter_trade(
                market,
                EnterTrade(
                    cash.security_id,
                    terms.price,
                    terms.quantity,
                    seller,
                    buyer,
                    TrdSubType.MULTI_ASSET_TRADE,
                    on_behalf=False,
                ),
                now_ns,
            )
            _report_trade(market, declared, command, cash, OrderSide(3 - terms.side), now_ns)


def refuse_forward(market: Market, command: RefuseForward, now_ns: int) -> None:
    """Refuse a declaration, which ends it."""
    declared = market.declarations.get(command.quote_id)
    response = QuoteStatusResponseTo.QUOTE_REQUEST_REJECT
    if declared is None or declared.terms.contra_firm != command.firm:
        _not_found(market, command.session, command.firm, command.quote_id, response, now_ns)
        return
    del market.declarations[declared.quote_id]
    _report(market, declared, QuoteStatus.PASS, response, now_ns)
    _report_to(market, declared, command.session, command.firm, QuoteStatus.PASS, response, now_ns)


def cancel_forward(market: Market, command: CancelForward, now_ns: int) -> None:
    """Cancel a pending declaration by its initiator."""
    declared = market.declarations.get(command.quote_id)
    response = QuoteStatusResponseTo.QUOTE_CANCEL
    if declared is None or declared.terms.session != command.session:
        _not_found(market, command.session, command.firm, command.quote_id, response, now_ns)
        return
    del market.declarations[declared.quote_id]
    _report(market, declared, QuoteStatus.CANCELED, response, now_ns)
    _report_to(
        market, declared, 0, declared.terms.contra_firm, QuoteStatus.CANCELED, response, now_ns
    )


def expire_declarations(market: Market, now_ns: int) -> None:
    """Expire all pending declarations at the end of the day."""
    declared, market.declarations = market.declarations, {}
    for each in declared.values():
        _report_to_both(market, each, QuoteStatus.EXPIRED, now_ns)


def cancel_declarations(market: Market, security_id: int, now_ns: int) -> None:
    """Cancel the pending declarations that an instrument ends with: of a forward or its cash."""
    for each in list(market.declarations.values()):
        if security_id in _instruments(market, each.terms):
            del market.declarations[each.quote_id]
            _report_to_both(market, each, QuoteStatus.CANCELED, now_ns)


def _instruments(market: Market, terms: DeclareForward) -> tuple[int, ...]:
    """Return the instruments that accepting a declaration would trade."""
    if not terms.with_cash and terms.cash_trade_id is None:
        return (terms.security_id,)
    cash = _underlying(market, market.listings[terms.security_id])
    return (terms.security_id,) if cash is None else (terms.security_id, cash.security_id)


def _report_to_both(
    market: Market, declared: ForwardDeclaration, status: QuoteStatus, now_ns: int
) -> None:
    """Report to both sides a status that neither of them requested."""
    response = QuoteStatusResponseTo.QUOTE_REQUEST
    _report(market, declared, status, response, now_ns)
    _report_to(market, declared, 0, declared.terms.contra_firm, status, response, now_ns)


def _report(
    market: Market,
    declared: ForwardDeclaration,
    status: QuoteStatus,
    response: QuoteStatusResponseTo,
    now_ns: int,
    reject: Reject | None = None,
) -> None:
    """Report to the initiator."""
    terms = declared.terms
    _report_to(market, declared, terms.session, terms.firm, status, response, now_ns, reject)


def _report_to(
    market: Market,
    declared: ForwardDeclaration,
    session: int,
    firm: int,
    status: QuoteStatus,
    response: QuoteStatusResponseTo,
    now_ns: int,
    reject: Reject | None = None,
) -> None:
    market.exec_id += 1
    market.reports.append(
        ForwardReported(
            market.exec_id,
            session,
            firm,
            declared.quote_id,
            status,
            response,
            declared.terms,
            0 if reject is None else reject.code,
            "" if reject is None else reject.text,
            now_ns,
        )
    )


def _not_found(
    market: Market,
    session: int,
    firm: int,
    quote_id: int,
    response: QuoteStatusResponseTo,
    now_ns: int,
) -> None:
    market.exec_id += 1
    reject = reject_codes.UNKNOWN_QUOTE
    market.reports.append(
        ForwardReported(
            market.exec_id,
            session,
            firm,
            quote_id,
            QuoteStatus.QUOTE_NOT_FOUND,
            response,
            None,
            reject.code,
            reject.text,
            now_ns,
        )
    )


def _report_trade(
    market: Market,
    declared: ForwardDeclaration,
    command: AcceptForward,
    listing: Listing,
    side: OrderSide,
    now_ns: int,
) -> None:
    """Report a trade of the deal to both sides; ``side`` is the initiator's."""
    terms = declared.terms
    for session, firm, contra, own in (
        (terms.session, terms.firm, terms.contra_firm, side),
        (command.session, command.firm, terms.firm, OrderSide(3 - side)),
    ):
        market.exec_id += 1
        market.reports.append(
            ForwardTraded(
                market.exec_id,
                session,
                firm,
                declared.quote_id,
                listing.security_id,
                own,
                terms.quantity,
                terms.price,
                listing.trade_id,
                contra,
                now_ns,
            )
        )
