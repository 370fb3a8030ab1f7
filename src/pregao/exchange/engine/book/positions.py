"""Positions in options: what each account of a firm holds, has written, blocked and exercised.

Bought and written quantities are kept separately during the day and netted at the start of the next
one. Written options that an account has blocked cannot be assigned.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from pregao.exchange.engine.book.order_book import EngineOrder
from pregao.exchange.engine.model.enums import OrderSide, PosType

if TYPE_CHECKING:
    from pregao.exchange.engine.model.commands import MaintainPosition

NO_ACCOUNT = 0

Holder = tuple[int, int, int]
"""Firm, account and instrument."""


class Position:
    """Position of an account in one option."""

    __slots__ = (
        "blocked", "bought", "exercised", "long", "short", "sold", "start_long", "start_short",
    )  # fmt: skip

    def __init__(self, start_long: int = 0, start_short: int = 0) -> None:
        self.start_long = self.long = start_long
        self.start_short = self.short = start_short
        """``long`` and ``short`` are the current quantities."""
        self.bought = self.sold = 0
        self.exercised = 0
        self.blocked = 0

    @property
    def assignable(self) -> int:
        """Written quantity that can be assigned to an exercise."""
        return max(self.short - self.blocked, 0)

    @property
    def empty(self) -> bool:
        """Whether nothing is left of it."""
        return not (self.long or self.short)

    def quantities(self) -> tuple[tuple[PosType, int, int], ...]:
        """Return the position for a report: kind, long and short quantity, without empty kinds."""
        rows = (
            (PosType.START_OF_DAY_QTY, self.start_long, self.start_short),
            (PosType.TRANSACTION_QUANTITY, self.bought, self.sold),
            (PosType.OPTION_EXERCISE_QTY, self.exercised, 0),
            (PosType.BLOCKED_QTY, 0, self.blocked),
        )
        return tuple(row for row in rows if row[1] or row[2])


class OptionFill:
    """One side of a trade in an option today."""

    __slots__ = ("account", "allocated", "firm", "quantity")

    def __init__(self, firm: int, account: int, quantity: int) -> None:
        self.firm = firm
        self.account = account
        self.quantity = quantity
        self.allocated = 0


class Allocation(NamedTuple):
    """A bought quantity allocated to an account, to block options that the account has written."""

    security_id: int
    trade_id: int
    account: int
    quantity: int


class PositionLedger:
    """All positions of the market, and today's requests about them."""

    def __init__(self) -> None:
        self.held: dict[Holder, Position] = {}
        self.fills: dict[tuple[int, int, OrderSide], OptionFill] = {}
        """By instrument, trade and side."""
        self.allocations: dict[tuple[int, int], Allocation] = {}
        """By firm and the firm's allocation ID."""
        self.requests: dict[tuple[int, int], int] = {}
        """Report ID of each request, by session and request ID."""
        self.instructions: dict[int, MaintainPosition] = {}
        """Holders' instructions for the last day, by report ID."""
        self.exercises = 0

    def of(self, firm: int, account: int, security_id: int) -> Position:
        """Return a position, creating it if needed."""
        return self.held.setdefault((firm, account, security_id), Position())

    def traded(self, order: EngineOrder, trade_id: int, quantity: int) -> None:
        """Record a trade of an order in an option."""
        account = order.position_account
        self.fills[order.security_id, trade_id, order.side] = OptionFill(
            order.firm, account, quantity
        )
        self._add(order.firm, account, order.security_id, order.side, quantity)

    def resized(self, security_id: int, trade_id: int, quantity: int) -> None:
        """Apply a corrected quantity of a trade, or its bust (0)."""
        for side in OrderSide:
            fill = self.fills.get((security_id, trade_id, side))
            if fill is None:
                continue
            change = quantity - fill.quantity
            self._add(fill.firm, fill.account, security_id, side, change)
            fill.quantity = quantity
            if not quantity:
                del self.fills[security_id, trade_id, side]

    def _add(
        self, firm: int, account: int, security_id: int, side: OrderSide, quantity: int
    ) -> None:
        position = self.of(firm, account, security_id)
        # Quantities exercised or assigned in the meantime stay so.
        if side == OrderSide.BUY:
            position.bought += quantity
            position.long = max(position.long + quantity, 0)
        else:
            position.sold += quantity
            position.short = max(position.short + quantity, 0)

    def move(
        self, firm: int, account: int, to: tuple[int, int], fill: OptionFill, trade: Holder
    ) -> None:
        """Move one side of a trade to another account of this or another firm."""
        security_id, trade_id, side = trade
        self._add(firm, account, security_id, OrderSide(side), -fill.quantity)
        self._add(*to, security_id, OrderSide(side), fill.quantity)
        fill.firm, fill.account = to
        self.fills[security_id, trade_id, OrderSide(side)] = fill

    def of_instrument(self, security_id: int) -> list[tuple[Holder, Position]]:
        """Return the positions in an option, by firm and account."""
        return sorted(
            (each for each in self.held.items() if each[0][2] == security_id),
            key=lambda each: each[0],
        )

    def assign(self, seed: int, security_id: int, quantity: int) -> list[tuple[Holder, int]]:
        """Assign writers to an exercise, in a random order, and return their quantities."""
        self.exercises += 1

        def drawn(each: tuple[Holder, Position]) -> bytes:
            text = f"{seed} {self.exercises} {each[0]}"
            return blake2b(text.encode(), digest_size=8).digest()

        assigned = []
        for holder, position in sorted(self.of_instrument(security_id), key=drawn):
            part = min(position.assignable, quantity)
            if part:
                position.short -= part
                quantity -= part
                assigned.append((holder, part))
        return assigned

    def start_day(self) -> None:
        """Net bought against written quantities, and start the day with the rest."""
        rest: dict[Holder, Position] = {}
        for holder, position in self.held.items():
            netted = min(position.long, position.short)
            if position.long != netted or position.short != netted:
                rest[holder] = Position(position.long - netted, position.short - netted)
        self.held = rest
        self.fills.clear()
        self.allocations.clear()
        self.requests.clear()

    def remove_instrument(self, security_id: int) -> None:
        """Remove all positions and instructions of an expired option."""
        self.held = {holder: each for holder, each in self.held.items() if holder[2] != security_id}
        self.instructions = {
            report_id: each
            for report_id, each in self.instructions.items()
            if each.security_id != security_id
        }
