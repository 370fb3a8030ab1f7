"""Depth chart: cumulative quantity of a book's sides by price."""

from __future__ import annotations

from datetime import date

import numpy as np

from pregao.api.arguments import UTC, Time
from pregao.api.lake import LakeBook
from pregao.errors import NothingFoundError
from pregao.plot.queries import LakeLike, opened
from pregao.plot.style import (
    BUY,
    INK,
    MUTED,
    SELL,
    Chart,
    counts,
    legend,
    moment_text,
    picture,
)


def depth(
    source: LakeBook | LakeLike,
    symbol: str | None = None,
    at: Time | None = None,
    *,
    levels: int = 60,
    tz: str = UTC,
    day: date | str | None = None,
) -> Chart:
    """Plot the cumulative quantity of a book's sides by price.

    Args:
        source: Book from `Lake.book`, or a lake or its path.
        symbol: Symbol or security id; only with a lake.
        at: Time of the book (default: end of the day); only with a lake.
        levels: Maximum number of levels per side.
        tz: Time zone of the heading, and of ``at`` without an offset.
        day: Trading day; only with a lake.

    Returns:
        A matplotlib figure, which a notebook displays.

    Raises:
        NothingFoundError: The book is empty.

    Example:
        >>> chart = pregao.plot.depth(lake.book("PETR4"))
        >>> chart.savefig("depth.png")
    """
    if isinstance(source, LakeBook):
        book = source
    else:
        book = opened(source).book(symbol or "", at, tz=tz, day=day)
    name = book.symbol or str(book.security_id)
    sides = [
        [(float(level.price), level.size) for level in side if level.price is not None][:levels]
        for side in (book.bids, book.asks)
    ]
    if not any(sides):
        raise NothingFoundError(f"There is nothing to draw: the book of {name} is empty.")
    when = book.sending_time_ns if book.at_ns is None else book.at_ns
    time_text = "" if when is None else f"{moment_text(when, tz)}, "
    figure, (axes,) = picture(f"{name}: depth of the book", f"{time_text}{book.state.name.lower()}")
    for side, colour, label in zip(sides, (BUY, SELL), ("bids", "asks"), strict=True):
        if not side:
            continue
        price, size = (np.array(values) for values in zip(*side, strict=True))
        total = np.cumsum(size)
        axes.fill_between(price, total, step="post" if colour == BUY else "pre", color=colour,
                          alpha=0.14, linewidth=0)  # fmt: skip
        axes.step(price, total, where="post" if colour == BUY else "pre", color=colour, lw=1.8,
                  label=f"{label}: {total[-1]:,} in {len(side)} levels")  # fmt: skip
    bids, asks = sides
    if bids and asks:
        middle, spread = (bids[0][0] + asks[0][0]) / 2, asks[0][0] - bids[0][0]
        axes.axvline(middle, color=INK, lw=0.8, ls=(0, (4, 3)))
        axes.annotate(
            f"{bids[0][0]:,.2f} / {asks[0][0]:,.2f}, spread {spread:,.2f}", (middle, 1),
            (6, -4), xycoords=("data", "axes fraction"), textcoords="offset points", va="top",
            color=INK,
        )  # fmt: skip
    axes.set_ylim(bottom=0)
    axes.margins(x=0)
    axes.set_xlabel("price", color=MUTED)
    axes.set_ylabel("cumulative quantity", color=MUTED)
    counts(axes.yaxis)
    legend(axes)
    return figure
