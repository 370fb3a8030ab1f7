"""Give-ups: trades of a source account that another firm is to carry (003 §14.2.2).

The order names the source account; each trade of it waits for the take-up firm. If that accepts,
the position is its own, else the executing firm goes on carrying it.
"""

from __future__ import annotations

from typing import NamedTuple

from pregao.errors import UsageError
from pregao.exchange.engine.commands import AnswerGiveUp, LinkAccounts
from pregao.exchange.engine.market import Market
from pregao.exchange.engine.orders import Order
from pregao.exchange.engine.terms import Side


class GiveUp(NamedTuple):
    """One side of a trade that waits for the firm that is to carry it."""

    security_id: int
    trade_id: int
    side: int
    quantity: int
    firm: int
    account: int
    to_firm: int
    to_account: int


def link_accounts(market: Market, command: LinkAccounts, _now_ns: int) -> None:
    """Let trades of a source account be given up from now on; without a target, no more."""
    key = (command.firm, command.account)
    if not command.account:
        raise UsageError("a give-up needs the number of the source account")
    if command.to_firm == command.firm:
        raise UsageError("a trade is given up to another firm, not to the same one")
    if command.to_firm:
        market.give_up_links[key] = (command.to_firm, command.to_account)
    elif market.give_up_links.pop(key, None) is None:
        raise UsageError(f"account {command.account} of firm {command.firm} gives up nothing")


def note_give_up(market: Market, order: Order, trade_id: int, quantity: int) -> None:
    """An order has traded: does its account give that up?"""
    account = order.position_account
    target = market.give_up_links.get((order.firm, account))
    if target is not None:
        market.give_up_id += 1
        market.give_ups[market.give_up_id] = GiveUp(
            order.security_id, trade_id, order.side, quantity, order.firm, account, *target
        )


def answer_give_up(market: Market, command: AnswerGiveUp, _now_ns: int) -> None:
    """The take-up firm accepts or refuses a trade."""
    found = market.give_ups.pop(command.give_up_id, None)
    if found is None:
        raise UsageError(f"no give-up of number {command.give_up_id} waits for an answer")
    if not command.accepted:
        return
    fill = market.positions.fills.get((found.security_id, found.trade_id, Side(found.side)))
    if fill is not None:
        market.positions.move(
            found.firm,
            found.account,
            (found.to_firm, found.to_account),
            fill,
            (found.security_id, found.trade_id, found.side),
        )


def drop_give_ups(market: Market, security_id: int, trade_id: int) -> None:
    """A trade was taken back: nobody has to carry it."""
    market.give_ups = {
        number: each
        for number, each in market.give_ups.items()
        if (each.security_id, each.trade_id) != (security_id, trade_id)
    }
