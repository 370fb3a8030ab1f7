"""Positions in options: what each account of a firm holds, has written, blocked and exercised.

Bought and written quantities are kept apart during the day; they are set off against each other
when the next one begins. What an account has blocked of what it wrote cannot be assigned.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from pregao.exchange.engine.orders import Order
from pregao.exchange.engine.terms import PosType, Side

if TYPE_CHECKING:
    from pregao.exchange.engine.member_commands import MaintainPosition

NO_ACCOUNT = 0

Holder = tuple[int, int, int]
"""Firm, account and instrument."""


class Position:
    """What an account has of one option."""

    __slots__ = (
        "blocked", "bought", "exercised", "long", "short", "sold", "start_long", "start_short",
    )  # fmt: skip

    def __init__(self, start_long: int = 0, start_short: int = 0) -> None:
        self.start_long = self.long = start_long
        self.start_short = self.short = start_short
        """``long`` and ``short`` are what is left of it now."""
        self.bought = self.sold = 0
        self.exercised = 0
        self.blocked = 0

    @property
    def assignable(self) -> int:
        """How much of what was written can be assigned to whoever exercises."""
        return max(self.short - self.blocked, 0)

    @property
    def empty(self) -> bool:
        """Is nothing left of it?"""
        return not (self.long or self.short)

    def quantities(self) -> tuple[tuple[PosType, int, int], ...]:
        """How a report tells it: kind, long and short quantity; kinds of nothing are left out."""
        rows = (
            (PosType.START_OF_DAY_QTY, self.start_long, self.start_short),
            (PosType.TRANSACTION_QUANTITY, self.bought, self.sold),
            (PosType.OPTION_EXERCISE_QTY, self.exercised, 0),
            (PosType.BLOCKED_QTY, 0, self.blocked),
        )
        return tuple(row for row in rows if row[1] or row[2])


class Fill:
    """One side of a trade in an option today."""

    __slots__ = ("account", "allocated", "firm", "quantity")

    def __init__(self, firm: int, account: int, quantity: int) -> None:
        self.firm = firm
        self.account = account
        self.quantity = quantity
        self.allocated = 0


class Allocation(NamedTuple):
    """A bought quantity that was allocated to an account, to block what that has written."""

    security_id: int
    trade_id: int
    account: int
    quantity: int


class Positions:
    """All positions of the market, and what was asked about them today."""

    def __init__(self) -> None:
        self.held: dict[Holder, Position] = {}
        self.fills: dict[tuple[int, int, Side], Fill] = {}
        """By instrument, trade and side."""
        self.allocations: dict[tuple[int, int], Allocation] = {}
        """By firm and the firm's number."""
        self.asked: dict[tuple[int, int], int] = {}
        """The report about each request, by session and its number."""
        self.instructions: dict[int, MaintainPosition] = {}
        """What holders want of the automatic exercise, by the number of the report."""
        self.exercises = 0

    def of(self, firm: int, account: int, security_id: int) -> Position:
        """A position, which is made if there is none."""
        return self.held.setdefault((firm, account, security_id), Position())

    def traded(self, order: Order, trade_id: int, quantity: int) -> None:
        """An order has traded a quantity of an option."""
        account = order.position_account
        self.fills[order.security_id, trade_id, order.side] = Fill(order.firm, account, quantity)
        self._add(order.firm, account, order.security_id, order.side, quantity)

    def resized(self, security_id: int, trade_id: int, quantity: int) -> None:
        """A trade was corrected to a quantity, or taken back (0)."""
        for side in Side:
            fill = self.fills.get((security_id, trade_id, side))
            if fill is None:
                continue
            more = quantity - fill.quantity
            self._add(fill.firm, fill.account, security_id, side, more)
            fill.quantity = quantity
            if not quantity:
                del self.fills[security_id, trade_id, side]

    def _add(self, firm: int, account: int, security_id: int, side: Side, quantity: int) -> None:
        position = self.of(firm, account, security_id)
        # What was exercised or assigned meanwhile stays so.
        if side == Side.BUY:
            position.bought += quantity
            position.long = max(position.long + quantity, 0)
        else:
            position.sold += quantity
            position.short = max(position.short + quantity, 0)

    def move(self, firm: int, account: int, to: tuple[int, int], fill: Fill, trade: Holder) -> None:
        """Let another account of this or another firm have one side of a trade."""
        security_id, trade_id, side = trade
        self._add(firm, account, security_id, Side(side), -fill.quantity)
        self._add(*to, security_id, Side(side), fill.quantity)
        fill.firm, fill.account = to
        self.fills[security_id, trade_id, Side(side)] = fill

    def of_instrument(self, security_id: int) -> list[tuple[Holder, Position]]:
        """The positions in an option, by firm and account."""
        return sorted(
            (each for each in self.held.items() if each[0][2] == security_id),
            key=lambda each: each[0],
        )

    def assign(self, seed: int, security_id: int, quantity: int) -> list[tuple[Holder, int]]:
        """Let writers be assigned to an exercise, in an order that is drawn for it."""
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
        """Set off what was bought against what was written, and begin with the rest."""
        rest: dict[Holder, Position] = {}
        for holder, position in self.held.items():
            both = min(position.long, position.short)
            if position.long != both or position.short != both:
                rest[holder] = Position(position.long - both, position.short - both)
        self.held = rest
        self.fills.clear()
        self.allocations.clear()
        self.asked.clear()

    def forget(self, security_id: int) -> None:
        """An option has expired: nobody has any of it."""
        self.held = {holder: each for holder, each in self.held.items() if holder[2] != security_id}
        self.instructions = {
            number: each
            for number, each in self.instructions.items()
            if each.security_id != security_id
        }
