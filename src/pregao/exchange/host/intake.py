"""Conversion of requests to engine commands, and the checks that reject them before the engine.

A new field of a command needs one line here.
"""

from __future__ import annotations

from datetime import date
from typing import Final

from pregao.exchange.engine.model import reject_codes
from pregao.exchange.engine.book.market import Market
from pregao.exchange.engine.model.commands import CancelOrder, ModifyOrder, NewOrder
from pregao.exchange.engine.model.reject_codes import Reject
from pregao.exchange.engine.matching.self_trade_prevention import investor_number
from pregao.exchange.engine.model.enums import ExecRestatementReason, OrderSide, OrdType, RoutingInstruction, SelfTradePreventionInstruction, TimeInForce
from pregao.exchange.engine.orders.order_cancel import find_order
from pregao.exchange.host.requests import CancelRequest, OrderRequest

_EPOCH: Final = date(1970, 1, 1).toordinal()
_SIDES: Final = {ord(str(side.value)): side for side in OrderSide}
_TYPES: Final = {ord(kind.value): kind for kind in OrdType}
_PREVENTIONS: Final = tuple(SelfTradePreventionInstruction)
_ROUTINGS: Final = tuple(RoutingInstruction)
_VALIDITIES: Final = {ord(validity.value): validity for validity in TimeInForce}
_REMOVE_ACCOUNT: Final = 38
DIRECT_ACCESS: Final = frozenset({b"DMA1", b"DMA3", b"COLO0", b"COLO1"})
"""Access categories of direct market access (§11): their account cannot be removed (§13.1)."""
MAX_QUANTITY: Final = 10**12
MAX_PRICE: Final = 10**14
"""Above these limits the totals of a day would not fit the fields of the feed."""


def side_of(code: int) -> OrderSide:
    """Return the side of a wire code."""
    return _SIDES[code]


def refusal(market: Market, request: OrderRequest | CancelRequest, *, new: bool) -> Reject | None:
    """Return why a request is rejected before it reaches the engine, or None."""
    listing = market.listings.get(request.security_id)
    if listing is None or listing.instrument.market_segment_id != request.segment:
        return reject_codes.UNKNOWN_INSTRUMENT
    if isinstance(request, OrderRequest):
        if not 0 < request.quantity <= MAX_QUANTITY:
            return reject_codes.QUANTITY_OUTSIDE_RANGE
        for price in (request.price, request.stop_px):
            if price is not None and not -MAX_PRICE <= price <= MAX_PRICE:
                return reject_codes.PRICE_OUTSIDE_LIMITS
        if request.account_type == _REMOVE_ACCOUNT and request.location in DIRECT_ACCESS:
            return reject_codes.ACCOUNT_KEPT
    if new:
        return None
    order = find_order(
        market,
        request.session,
        request.security_id,
        request.order_id or 0,
        request.orig_cl_ord_id or 0,
    )
    if order is not None and order.side != _SIDES[request.side]:
        return reject_codes.UNKNOWN_ORDER.because("it is on the other side")
    return None


def new_order(request: OrderRequest, firm: int) -> NewOrder:
    """Return the command that enters an order."""
    validity = request.time_in_force
    assert validity is not None
    return NewOrder(
        request.session,
        firm,
        request.cl_ord_id,
        request.security_id,
        _SIDES[request.side],
        request.quantity,
        request.price,
        _TYPES[request.ord_type],
        _VALIDITIES[validity],
        request.max_floor or 0,
        request.min_qty or 0,
        request.stop_px,
        _date(request.expire_date),
        request.account or 0,
        _investor(request) or 0,
        request.tag or 0,
        None,
        _PREVENTIONS[request.self_trade],
        _ROUTINGS[request.routing or 0],
        bool(request.mm_reset),
    )


def modify_order(request: OrderRequest, *, simple: bool) -> ModifyOrder:
    """Return the command that modifies an order.

    The simple message changes only price and quantity (§7.3.2).
    """
    validity = request.time_in_force
    account = 0 if request.account_type == _REMOVE_ACCOUNT else request.account
    return ModifyOrder(
        request.session,
        request.cl_ord_id,
        request.security_id,
        request.quantity,
        request.price,
        request.order_id or 0,
        request.orig_cl_ord_id or 0,
        None if simple else _TYPES[request.ord_type],
        None if simple or validity is None else _VALIDITIES[validity],
        _date(request.expire_date),
        request.max_floor,
        request.min_qty,
        account,
        None,
        request.stop_px,
        None if simple else _investor(request),
        # Fields that a modification does not name stay unchanged (§7.4).
        None if simple else _PREVENTIONS[request.self_trade] or None,
        None if simple or request.routing is None else _ROUTINGS[request.routing],
        bool(request.mm_reset),
    )


def cancel_order(request: CancelRequest) -> CancelOrder:
    """Return the command that cancels an order."""
    return CancelOrder(
        request.session,
        request.cl_ord_id,
        request.security_id,
        request.order_id or 0,
        request.orig_cl_ord_id or 0,
        None if request.reason is None else ExecRestatementReason(request.reason),
    )


_KEPT: Final = (
    "account", "tag", "investor_prefix", "investor_document", "memo", "desk", "stop_px",
    "min_qty", "max_floor", "executing_trader", "expire_date", "strategy", "sub_account",
    "custodian", "custody_account", "custody_type",
)  # fmt: skip
"""Fields of an order that stay unchanged if a modification does not name them (§7.4)."""


def changed(before: OrderRequest, request: OrderRequest) -> OrderRequest:
    """Return the description of an order after a modification."""
    kept = {name: getattr(before, name) for name in _KEPT if getattr(request, name) is None}
    if request.account_type == _REMOVE_ACCOUNT:
        kept["account"] = None
    if before.trader is not None:
        # The entering trader never changes; an executing trader can be added, but not replaced.
        kept |= {"trader": before.trader, "location": before.location}
        kept["executing_trader"] = before.executing_trader or request.executing_trader
    return request._replace(**kept)


def _investor(request: OrderRequest) -> int | None:
    """Return the engine's number of the investor, or None if the request names none."""
    prefix, document = request.investor_prefix, request.investor_document
    if prefix is None and document is None:
        return None
    return investor_number(prefix or 0, document or 0)


def _date(days: int | None) -> date | None:
    return None if days is None else date.fromordinal(_EPOCH + days)
