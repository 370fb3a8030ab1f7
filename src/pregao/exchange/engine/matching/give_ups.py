"""Give-ups: trades of a source account that another firm carries (003 §14.2.2).

The order has the source account; each of its trades waits for the take-up firm. If that firm
accepts, the position becomes its own; otherwise the executing firm keeps it.
"""

from __future__ import annotations

from typing import NamedTuple

from pregao.errors import UsageError
from pregao.exchange.engine.book.market import Market
from pregao.exchange.engine.book.order_book import EngineOrder
from pregao.exchange.engine.model.enums import OrderSide
from pregao.exchange.engine.model.operations_commands import AnswerGiveUp, LinkAccounts


class GiveUp(NamedTuple):
    """One side of a trade that waits for the take-up firm."""

    security_id: int
    trade_id: int
    side: int
    quantity: int
    firm: int
    account: int
    to_firm: int
    to_account: int


def link_accounts(market: Market, command: LinkAccounts, _now_ns: int) -> None:
    """Give up the trades of a source account from now on; without a target firm, stop it."""
    key = (command.firm, command.account)
    if not command.account:
        raise UsageError("a give-up requires the source account")
    if command.to_firm == command.firm:
        raise UsageError(
            f"a trade can be given up only to another firm, not to {command.firm} itself"
        )
    if command.to_firm:
        market.give_up_links[key] = (command.to_firm, command.to_account)
    elif market.give_up_links.pop(key, None) is None:
        raise UsageError(f"account {command.account} of firm {command.firm} has no give-up link")


def note_give_up(market: Market, order: EngineOrder, trade_id: int, quantity: int) -> None:
    """Record a give-up if an order that traded has an account with a give-up link."""
    account = order.position_account
    target = market.give_up_links.get((order.firm, account))
    if target is not None:
        market.give_up_id += 1
        market.give_ups[market.give_up_id] = GiveUp(
            order.security_id, trade_id, order.side, quantity, order.firm, account, *target
        )


def answer_give_up(market: Market, command: AnswerGiveUp, _now_ns: int) -> None:
    """Process the take-up firm's answer: accept or refuse a trade."""
    found = market.give_ups.pop(command.give_up_id, None)
    if found is None:
        raise UsageError(f"no give-up with ID {command.give_up_id} is pending")
    if not command.accepted:
        return
    fill = market.positions.fills.get((found.security_id, found.trade_id, OrderSide(found.side)))
    if fill is not None:
        market.positions.move(
            found.firm,
            found.account,
            (found.to_firm, found.to_account),
            fill,
            (found.security_id, found.trade_id, found.side),
        )


def drop_give_ups(market: Market, security_id: int, trade_id: int) -> None:
    """Drop the pending give-ups of a busted trade."""
    market.give_ups = {
        give_up_id: each
        for give_up_id, each in market.give_ups.items()
        if (each.security_id, each.trade_id) != (security_id, trade_id)
    }
