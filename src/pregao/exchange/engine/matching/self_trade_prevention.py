"""Self-trade prevention: two orders of one investor do not trade with each other.

An order takes part if it has an investor. The incoming order's instruction decides which order of a
pair is canceled; without an instruction it is the incoming one. It applies in continuous trading
only, and not in an event that ends by calling an auction. In an illiquid instrument (``self_trade``
of its auction rules) the pair calls one itself.
"""

from __future__ import annotations

from enum import Enum

from pregao.exchange.engine.book.listing import Listing
from pregao.exchange.engine.book.market import Market
from pregao.exchange.engine.book.order_book import BUY, EngineOrder
from pregao.exchange.engine.model.enums import (
    ExecRestatementReason,
    SelfTradePreventionInstruction,
    TimeInForce,
)
from pregao.exchange.engine.model.events import MarketItem
from pregao.exchange.engine.model.reject_codes import INVESTOR_INVALID, Reject

CANCEL_RESTING = SelfTradePreventionInstruction.CANCEL_RESTING_ORDER
CANCEL_BOTH = SelfTradePreventionInstruction.CANCEL_BOTH_ORDERS

_DOCUMENTS = 10_000_000_000
"""An investor's number is its prefix times this, plus its document (32 bits)."""
_CLASSES = (
    # Prefixes, digits of the document: companies (CNPJ), people (CPF), non-residents (CVM).
    (range(100, 200), 8),
    (range(200, 300), 9),
    (range(300, 400), 6),
)
_NEVER_FREEZE = (TimeInForce.IMMEDIATE_OR_CANCEL, TimeInForce.FILL_OR_KILL)


class SelfTradeAction(Enum):
    """Outcome for a pair of orders that must not trade with each other."""

    NOT_IN_THIS_BOOK = 0
    """They trade: prevention does not apply in this event."""
    RESTING_REMOVED = 1
    INCOMING_ENDS = 2
    CALLS_AUCTION = 3


def investor_number(prefix: int, document: int) -> int:
    """Return an investor as one number, as used in commands and orders."""
    return prefix * _DOCUMENTS + document


def check_investor(investor: int) -> Reject | None:
    """Return the reason to reject an investor's number, or None; its prefix sets the class."""
    prefix, document = divmod(investor, _DOCUMENTS)
    for prefixes, digits in _CLASSES:
        if prefix in prefixes:
            if 0 < document < 10**digits:
                return None
            return INVESTOR_INVALID.because(
                f"with prefix {prefix} the document must have 1 to {digits} digits"
            )
    return INVESTOR_INVALID.because(f"the prefix must be 100 to 399, was {prefix}")


def prevent(
    market: Market,
    listing: Listing,
    order: EngineOrder,
    resting: EngineOrder,
    limit_key: int,
    now_ns: int,
    removed: list[MarketItem],
) -> SelfTradeAction:
    """Prevent an incoming order from trading with a resting one of its investor.

    The deletion of a canceled resting order is appended to ``removed``; the caller handles the
    incoming order.
    """
    if self_trade_calls_auction(market, listing) and order.time_in_force not in _NEVER_FREEZE:
        return SelfTradeAction.CALLS_AUCTION
    if _ends_in_auction(listing, order, limit_key):
        return SelfTradeAction.NOT_IN_THIS_BOOK
    instruction = order.prevention
    if instruction in (CANCEL_RESTING, CANCEL_BOTH):
        removed.append(market.remove_from_book(listing, resting, now_ns))
        market.remove_from_indexes(resting)
        reason = ExecRestatementReason.CANCEL_RESTING_ORDER_ON_SELF_TRADE
        market.cancelled(resting, now_ns, reason)
    if instruction == CANCEL_RESTING:
        return SelfTradeAction.RESTING_REMOVED
    return SelfTradeAction.INCOMING_ENDS


def self_trade_calls_auction(market: Market, listing: Listing) -> bool:
    """Whether a self-trade of this instrument calls an auction, because it is illiquid."""
    rules = listing.instrument.auction or market.auction_rules
    return rules is not None and rules.self_trade


def _ends_in_auction(listing: Listing, order: EngineOrder, limit_key: int) -> bool:
    """Whether the order would leave the auction band if all that it has left traded."""
    if order.time_in_force in _NEVER_FREEZE:
        return False
    opposite = listing.opposite(order.side)
    edge = -listing.auction_high if order.side == BUY else listing.auction_low
    inside = 0
    for key in reversed(opposite.keys):
        if key < limit_key:
            return False
        if key < edge:
            return True
        inside += opposite.levels[key].quantity
        if inside >= order.leaves:
            return False
    return False


def tradable_without(listing: Listing, order: EngineOrder, limit_key: int, enough: int) -> int:
    """Return how much an order could trade now without its own investor's orders.

    If the incoming order would be canceled, nothing after the first of these counts; of the orders
    before it in its level only the visible quantity does, since the rest is queued after it.
    """
    opposite = listing.opposite(order.side)
    investor = order.investor_id
    continues = order.prevention == CANCEL_RESTING
    total = 0
    for key in reversed(opposite.keys):
        if key < limit_key or total >= enough:
            break
        level = opposite.levels[key]
        price = level.price
        assert price is not None
        if not listing.auction_low <= price <= listing.auction_high:
            break
        own = [resting for resting in level if resting.investor_id == investor]
        if not own:
            total += level.quantity
        elif continues:
            total += level.quantity - sum(resting.leaves for resting in own)
        else:
            for resting in level:
                if resting is own[0]:
                    return total
                total += resting.visible
    return total
