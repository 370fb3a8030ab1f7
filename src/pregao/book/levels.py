"""Levels and orders of a book for users: prices are exact decimals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from pregao.units import Side, price_of

if TYPE_CHECKING:
    from pregao.book.views import BookLevel, BookOrder


class Level(NamedTuple):
    """All orders of one price, summed; orders without a price (None) come before all others."""

    price: Decimal | None
    size: int
    orders: int


class Order(NamedTuple):
    """An order of a book."""

    order_id: int | None
    side: Side
    price: Decimal | None
    size: int
    firm: int | None
    insert_time_ns: int | None
    implied: bool


def levels(found: Iterable[BookLevel]) -> tuple[Level, ...]:
    """Return levels with decimal prices."""
    return tuple(Level(price_of(each.price), each.size, each.orders) for each in found)


def orders(found: Iterable[BookOrder]) -> tuple[Order, ...]:
    """Return orders with decimal prices."""
    return tuple(
        Order(
            each.order_id,
            each.side,
            price_of(each.price),
            each.size,
            each.firm,
            each.insert_time_ns,
            each.implied,
        )
        for each in found
    )


def ladder_text(bids: Sequence[Level], asks: Sequence[Level], depth: int = 10) -> str:
    """Format the best levels of both sides, side by side."""
    lines = [f"{'orders':>6} {'size':>10} {'bid':>12}   {'ask':<12} {'size':<10} {'orders':<6}"]
    for row in range(min(depth, max(len(bids), len(asks)))):
        bid = ask = ""
        if row < len(bids):
            bid = f"{bids[row].orders:>6} {bids[row].size:>10} {_text(bids[row].price):>12}"
        if row < len(asks):
            ask = f"{_text(asks[row].price):<12} {asks[row].size:<10} {asks[row].orders:<6}"
        lines.append(f"{bid:>30}   {ask}".rstrip())
    return "\n".join(lines)


def _text(value: Decimal | None) -> str:
    return "none" if value is None else f"{value:f}"
