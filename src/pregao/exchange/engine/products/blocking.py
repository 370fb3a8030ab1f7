"""Blocking: allocate a bought option to an account, so that options it wrote are not assigned.

Only the firm's trades of today without an account can be allocated, in full or in parts; an account
blocks at most what it has written.
"""

from __future__ import annotations

from pregao.exchange.engine.book.market import Market
from pregao.exchange.engine.book.positions import NO_ACCOUNT, Allocation
from pregao.exchange.engine.model import reject_codes
from pregao.exchange.engine.model.commands import AllocateTrade
from pregao.exchange.engine.model.enums import OrderSide
from pregao.exchange.engine.model.reject_codes import Reject
from pregao.exchange.engine.model.reports import AllocationReported


def allocate_trade(market: Market, command: AllocateTrade, now_ns: int) -> None:
    """Allocate a quantity of a trade to an account, or cancel an allocation."""
    reject = _cancel(market, command) if command.cancels else _allocate(market, command)
    market.exec_id += 1
    market.reports.append(
        AllocationReported(
            market.exec_id,
            command.session,
            command.firm,
            command.allocation_id,
            command.security_id,
            command.quantity,
            command.cancels,
            0 if reject is None else reject.code,
            now_ns,
        )
    )


def _allocate(market: Market, command: AllocateTrade) -> Reject | None:
    """Allocate the quantity, or return the reject."""
    listing = market.listings.get(command.security_id)
    if listing is None:
        return reject_codes.UNKNOWN_INSTRUMENT
    if not listing.keeps_positions:
        return reject_codes.NOT_AN_OPTION
    if command.trade_day not in (None, market.trade_day):
        return reject_codes.CLEARING_DATE_INVALID
    positions = market.positions
    key = (command.firm, command.allocation_id)
    if key in positions.allocations:
        return reject_codes.DUPLICATE_ALLOCATION
    fill = positions.fills.get((command.security_id, command.trade_id, OrderSide.BUY))
    if fill is None or fill.firm != command.firm:
        return reject_codes.UNKNOWN_TRADE
    if fill.account != NO_ACCOUNT:
        return reject_codes.TRADE_HAS_ACCOUNT
    if command.quantity != fill.quantity:
        return reject_codes.ALLOCATION_INVALID
    if not 0 < command.account_quantity <= fill.quantity - fill.allocated:
        return reject_codes.ALLOCATION_INVALID
    position = positions.of(command.firm, command.account, command.security_id)
    if position.assignable < command.account_quantity:
        return reject_codes.NOTHING_TO_BLOCK
    fill.allocated += command.account_quantity
    position.blocked += command.account_quantity
    positions.allocations[key] = Allocation(
        command.security_id, command.trade_id, command.account, command.account_quantity
    )
    return None


def _cancel(market: Market, command: AllocateTrade) -> Reject | None:
    """Cancel an allocation, identified by its ID, or return the reject."""
    positions = market.positions
    found = positions.allocations.get((command.firm, command.allocation_id))
    if found is None or found.security_id != command.security_id:
        return reject_codes.UNKNOWN_ALLOCATION
    del positions.allocations[command.firm, command.allocation_id]
    fill = positions.fills.get((found.security_id, found.trade_id, OrderSide.BUY))
    if fill is not None:
        fill.allocated -= found.quantity
    position = positions.of(command.firm, found.account, found.security_id)
    position.blocked = max(position.blocked - found.quantity, 0)
    return None
