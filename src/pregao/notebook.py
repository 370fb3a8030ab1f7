"""Tables in HTML for notebooks: books, instruments and reports show themselves as these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import zip_longest
from typing import Any

MAX_ROWS = 20
"""Rows of a list, and levels of a book, that a notebook or a terminal shows."""
_MAX_NESTING = 3
_MAX_TEXT = 300


class Report(dict[str, Any]):
    """Counts of a run, as the command line writes them as JSON."""

    def __repr__(self) -> str:
        """Return the report with long lists shortened."""
        return f"{type(self).__name__}({_short(dict(self), 0)})"

    def _repr_html_(self) -> str:
        return record_html("Report", self)


def _short(value: Any, nesting: int) -> str:
    if isinstance(value, Mapping):
        if nesting == _MAX_NESTING:
            return f"{{… {len(value)} entries}}"
        shown = list(value.items())[:MAX_ROWS]
        more = [f"… {len(value) - MAX_ROWS} more"] if len(value) > MAX_ROWS else []
        parts = [f"{key!r}: {_short(each, nesting + 1)}" for key, each in shown]
        return f"{{{', '.join(parts + more)}}}"
    if isinstance(value, list | tuple):
        return f"[{len(value)} entries]" if value else "[]"
    return _cut(repr(value))


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 1]}…"


def table_html(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table; all texts are escaped."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(
        f"<tr>{''.join(f'<td>{_cell(value, 0)}</td>' for value in row)}</tr>" for row in rows
    )
    caption = f"<caption>{escape(title)}</caption>" if title else ""
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def record_html(title: str, values: Mapping[str, Any], nesting: int = 0) -> str:
    """Return a table with a row for each value that is not None; records in it are tables, too."""
    rows = "".join(
        f'<tr><th style="text-align:left">{escape(str(name))}</th>'
        f'<td style="text-align:left">{_cell(value, nesting)}</td></tr>'
        for name, value in values.items()
        if value is not None
    )
    caption = f"<caption>{escape(title)}</caption>" if title else ""
    return f"<table>{caption}<tbody>{rows}</tbody></table>"


def _cell(value: Any, nesting: int) -> str:
    if isinstance(value, Mapping):
        if nesting == _MAX_NESTING:
            return f"{len(value)} entries"
        return record_html("", value, nesting + 1)
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        shown = [_cell(each, nesting + 1) for each in value[:MAX_ROWS]]
        more = [f"… {len(value) - MAX_ROWS} more"] if len(value) > MAX_ROWS else []
        separator = "<br>" if any(isinstance(each, Mapping) for each in value) else ", "
        return separator.join(shown + more)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "" if value is None else escape(_cut(str(value)))


def ladder_html(title: str, bids: Sequence[Any], asks: Sequence[Any]) -> str:
    """Return the best levels of both sides, side by side; levels have price, size and orders."""
    rows = [
        (
            *(("", "", "") if bid is None else (bid.orders, bid.size, price_text(bid))),
            *(("", "", "") if ask is None else (price_text(ask), ask.size, ask.orders)),
        )
        for bid, ask in zip_longest(bids[:MAX_ROWS], asks[:MAX_ROWS])
    ]
    return table_html(title, ("orders", "size", "bid", "ask", "size", "orders"), rows)


def price_text(level: Any) -> str:
    """Return the price of a level; orders without a price rank before all others."""
    return "none" if level.price is None else f"{level.price:f}"


def book_text(title: str, bids: Sequence[Any], asks: Sequence[Any]) -> str:
    """Return a book in one line: its best levels, and how many levels there are."""
    best = [
        f"{price_text(side[0])} × {side[0].size:,}" if side else "none" for side in (bids, asks)
    ]
    return f"<{title}: bid {best[0]}, ask {best[1]}, {len(bids)} and {len(asks)} levels>"
