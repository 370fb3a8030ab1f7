"""Terminal view of the live feed: channels, busiest instruments, one ladder and tape.

Single key presses change the view, without waiting for the end of a line.
"""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console, Group, JustifyMethod, RenderableType
from rich.live import Live as Screen
from rich.measure import Measurement
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from pregao.book.state import State
from pregao.clock import SECOND, format_ns
from pregao.events import TradeBusted
from pregao.feed.channel.settings import ChannelState
from pregao.live.health import ChannelReport, FeedReport, report
from pregao.live.market_watch import InstrumentPage, InstrumentRow, MarketWatch
from pregao.notebook import price_text

if TYPE_CHECKING:
    from pregao.live.handler import FeedHandler

_KEY_NAMES = {
    b"\x1b[A": "up",
    b"\x1b[B": "down",
    b"\x1b[C": "right",
    b"\x1b[D": "left",
    b"\x1bOA": "up",
    b"\x1bOB": "down",
    b"\x1bOC": "right",
    b"\x1bOD": "left",
    b"\x1b[5~": "page up",
    b"\x1b[6~": "page down",
    b"\x1b": "escape",
    b"\r": "enter",
    b"\n": "enter",
    b"\t": "tab",
    b"\x7f": "backspace",
    b"\x08": "backspace",
}

_REFRESH_S = 0.25
_CHANNEL_STYLES = {
    ChannelState.LIVE: "green",
    ChannelState.DOWN: "bold red",
    ChannelState.HEALING: "yellow",
    ChannelState.SILENT: "bold red",
    ChannelState.WAITING: "yellow",
    ChannelState.SYNCHRONIZING: "cyan",
    ChannelState.STARTING: "dim",
}
_BOOK_STYLES = {
    State.VALID: "green",
    State.EMPTY: "dim",
    State.BUILDING: "cyan",
    State.STALE: "bold red",
    State.UNCONFIRMED: "yellow",
}
_TRUSTED = (State.VALID, State.EMPTY)

_FIXED_LINES = 11
"""Lines of the screen other than the channels and the list below them."""

_Cell = Text | str


# --- View ---


@dataclass(slots=True)
class ViewSelection:
    """Selection of the user, moved by keys."""

    at: int = 0
    opened: bool = False
    paused: bool = False
    ended: bool = False
    rows: list[tuple[int, int]] = field(default_factory=list)
    """Instruments of the list, as channel and security ID."""
    held: tuple[int, int] | None = None
    """Selected instrument, which stays selected when the list is sorted again."""

    def press(self, key: str, page: int = 10) -> None:
        """Handle a key press."""
        match key:
            case "q":
                self.ended = True
            case "up" | "k":
                self._move(-1)
            case "down" | "j":
                self._move(1)
            case "page up":
                self._move(-page)
            case "page down":
                self._move(page)
            case "enter" | "right" | "l":
                self.opened = bool(self.rows)
            case "escape" | "left" | "h" | "backspace":
                self.opened = False
            case " " | "p":
                self.paused = not self.paused

    def _move(self, by: int) -> None:
        if self.rows:
            self.at = max(0, min(self.at + by, len(self.rows) - 1))
            self.held = self.rows[self.at]

    def show(self, rows: list[tuple[int, int]]) -> None:
        """Replace the list, keeping the selected instrument."""
        self.rows = rows
        if self.held in rows:
            self.at = rows.index(self.held)
        elif rows:
            self.at = min(self.at, len(rows) - 1)
            self.held = rows[self.at]


def watch(handler: FeedHandler, console: Console, note: str = "", end: float | None = None) -> None:
    """Show the feed until the user quits, or until a time of the monotonic clock."""
    watcher = MarketWatch()
    handler.call(lambda running: running.add_listener(watcher, singly=False))
    selection = ViewSelection()
    before: FeedReport | None = None
    with keys() as pressed, Screen(console=console, screen=True, auto_refresh=False) as screen:
        while not selection.ended and (end is None or time.monotonic() < end):
            if not selection.paused:
                now = handler.call(report)
                lines = max(3, console.height)
                rows = handler.call(partial(watcher.busiest, limit=lines))
                selection.show([(row.channel, row.security_id) for row in rows])
                page = None
                if selection.held is not None:
                    channel, security_id = selection.held
                    request = partial(
                        watcher.page, channel=channel, security_id=security_id, depth=lines
                    )
                    page = handler.call(request)
                size = (console.width, console.height)
                drawn = draw(now, before, rows, page, selection, size, note)
                if before is None or now.at_ns - before.at_ns >= SECOND:
                    before = now
            screen.update(drawn, refresh=True)
            for key in pressed.wait(_REFRESH_S):
                selection.press(key, lines)


def draw(
    now: FeedReport,
    before: FeedReport | None,
    rows: list[InstrumentRow],
    page: InstrumentPage | None,
    selection: ViewSelection,
    size: tuple[int, int],
    note: str = "",
) -> RenderableType:
    """Return the complete screen; `size` is columns and lines of the terminal."""
    width, height = size
    head = Text.assemble(
        ("pregao live", "bold"),
        f"  {format_ns(now.at_ns)[:19]}  running {(now.at_ns - now.since_ns) // SECOND} s  ",
        ("ready" if now.ready else "not ready", "green" if now.ready else "yellow"),
        "  paused" if selection.paused else "",
        f"  {note}" if note else "",
    )
    if now.recorded is not None:
        head.append(f"  {now.recorded:,} packets recorded")
    if now.unrecorded:
        head.append(f"  {now.unrecorded:,} not recorded", "bold red")
    keys_line = Text("↑↓ select  ⏎ open  ← back  space pause  q quit", "dim")
    lines = height - len(now.channels) - _FIXED_LINES
    parts: list[RenderableType] = [head, channels_table(now, before, width)]
    if selection.opened and page is not None:
        parts.append(instrument_page(page, width, lines))
    else:
        shown = rows[: max(1, lines)]
        parts.append(instruments_table(shown, selection.held, width))
        if page is not None:
            ladder = ladder_table(page.row, max(1, lines))
            columns = Table.grid(padding=(0, 2))
            listed = instruments_table(shown, selection.held, width - _width(ladder) - 2)
            columns.add_row(listed, ladder)
            if _width(columns) <= width:
                parts[-1] = columns
    return Group(*parts, keys_line)


# --- Tables ---


def _width(shown: RenderableType) -> int:
    """Return the width of a renderable without a limit."""
    wide = Console(width=1000)
    return Measurement.get(wide, wide.options, shown).maximum


def table_of(
    columns: Sequence[str],
    rows: Sequence[Sequence[_Cell]],
    width: int,
    *,
    texts: int = 1,
    optional: Sequence[str] = (),
    styles: Sequence[str] = (),
    title: str = "",
) -> Table:
    """Return a table that truncates no cell; optional columns are omitted, the last one first.

    The first ``texts`` columns are text, the others numbers.
    """
    dropped = list(optional)
    kept = list(range(len(columns)))
    while True:
        table = Table(box=box.SIMPLE_HEAD, title=Text(title, "bold") if title else None)
        for index in kept:
            justify: JustifyMethod = "left" if index < texts else "right"
            table.add_column(columns[index].strip(), justify=justify, no_wrap=True)
        for number, row in enumerate(rows):
            style = styles[number] if styles else ""
            table.add_row(*(row[index] for index in kept), style=style)
        if not dropped or _width(table) <= width:
            return table
        kept.remove(columns.index(dropped.pop()))


def channels_table(now: FeedReport, before: FeedReport | None, width: int) -> Table:
    """Return a table with a row for each channel."""
    earlier = {} if before is None else {each.number: each for each in before.channels}
    seconds = 1.0 if before is None else max(1e-9, (now.at_ns - before.at_ns) / SECOND)
    columns = (
        "channel", "state", "packets/s", "messages/s", "gaps", "lost", "stale", "unconfirmed",
        "heals", "bad", "dropped", "p50", "p99", "max",
    )  # fmt: skip
    optional = ("p50", "gaps", "p99", "dropped", "messages/s", "lost", "heals", "bad", "max")
    rows = [_channel_cells(each, earlier.get(each.number), seconds) for each in now.channels]
    return table_of(columns, rows, width, texts=2, optional=optional)


def _channel_cells(
    each: ChannelReport, before: ChannelReport | None, seconds: float
) -> list[_Cell]:
    counters = each.counters

    def rate(name: str) -> str:
        if before is None:
            return "–"
        return f"{(counters[name] - before.counters[name]) / seconds:,.0f}"

    stale, unconfirmed = each.books[State.STALE], each.books[State.UNCONFIRMED]
    return [
        str(each.number),
        Text(each.state.name.lower(), _CHANNEL_STYLES[each.state]),
        rate("packets"),
        rate("messages"),
        f"{counters['gaps']:,}",
        f"{counters['lost_packets']:,}",
        Text(f"{stale:,}", "bold red" if stale else ""),
        Text(f"{unconfirmed:,}", "yellow" if unconfirmed else ""),
        f"{counters['healed'] + counters['confirmed']:,}",
        f"{counters['bad_packets']:,}",
        Text(f"{each.dropped:,}", "bold red" if each.dropped else ""),
        *(span(delay) for delay in each.delays_ns),
    ]


def span(delay_ns: int | None) -> str:
    """Format a delay with a unit and three significant digits."""
    if delay_ns is None:
        return "–"
    for unit, size in (("ns", 1), ("µs", 10**3), ("ms", 10**6)):
        if delay_ns < 1000 * size:
            return f"{delay_ns / size:.3g} {unit}"
    return f"{delay_ns / 10**9:,.1f} s"


def instruments_table(
    rows: Sequence[InstrumentRow], held: tuple[int, int] | None, width: int
) -> Table:
    """Return a table of the busiest instruments."""
    columns = (
        "instrument", "book", "changes", "trades", "last", "bid size", "bid", "ask", "ask size"
    )  # fmt: skip
    optional = ("bid size", "ask size", "last", "trades", "changes")
    cells: list[list[_Cell]] = []
    styles = []
    for row in rows:
        bid, ask = row.book.best_bid, row.book.best_ask
        cells.append(
            [
                row.symbol,
                Text(row.book.state.name.lower(), _BOOK_STYLES[row.book.state]),
                f"{row.changes:,}",
                f"{row.trades:,}",
                _shown(row.last_price),
                "" if bid is None else f"{bid.size:,}",
                "" if bid is None else price_text(bid),
                "" if ask is None else price_text(ask),
                "" if ask is None else f"{ask.size:,}",
            ]
        )
        styles.append("reverse" if (row.channel, row.security_id) == held else "")
    return table_of(columns, cells, width, texts=2, optional=optional, styles=styles)


def _shown(price: Decimal | None) -> str:
    return "" if price is None else f"{price:f}"


def ladder_table(row: InstrumentRow, depth: int, width: int = 1000) -> Table:
    """Return a ladder: bid and ask levels side by side."""
    bids, asks = row.book.bids[:depth], row.book.asks[:depth]
    cells: list[list[_Cell]] = []
    for index in range(max(len(bids), len(asks))):
        line: list[_Cell] = ["", "", "", "", "", ""]
        if index < len(bids):
            level = bids[index]
            line[:3] = [f"{level.orders:,}", f"{level.size:,}", price_text(level)]
        if index < len(asks):
            level = asks[index]
            line[3:] = [price_text(level), f"{level.size:,}", f"{level.orders:,}"]
        cells.append(line)
    columns = ("orders", "size", "bid", "ask", "size ", "orders ")
    style = "" if row.book.state in _TRUSTED else "dim"
    return table_of(
        columns,
        cells,
        width,
        texts=0,
        optional=("orders", "orders "),
        styles=[style] * len(cells),
        title=row.symbol,
    )


def tape_table(page: InstrumentPage, limit: int) -> Table:
    """Return a table of the last trades, the newest first."""
    cells: list[list[_Cell]] = []
    styles = []
    for trade in page.tape[:limit]:
        if busted := isinstance(trade, TradeBusted):
            mark = "busted"
        else:
            mark = "corrected" if trade.corrects else ""
        when = format_ns(trade.sending_ns)[11:23]
        price = _shown(trade.price)
        cells.append([when, price, f"{trade.size:,}", str(trade.trade_id), mark])
        styles.append("red" if busted else "")
    columns = ("time", "price", "size", "trade", "")
    return table_of(columns, cells, 1000, texts=0, styles=styles, title="tape")


def instrument_page(page: InstrumentPage, width: int, height: int) -> Panel:
    """Return the panel of an instrument: its ladder, and its tape if the width allows."""
    row = page.row
    lines = max(1, height - 5)
    shown: RenderableType = ladder_table(row, lines, width - 4)
    sides = Table.grid(padding=(0, 2))
    sides.add_row(shown, tape_table(page, lines))
    if _width(sides) <= width - 4:
        shown = sides
    title = f"{row.symbol} ({row.security_id}), channel {row.channel}, {page.status}"
    state = Text(f"{row.book.state.name.lower()}: {row.book.reason}", _BOOK_STYLES[row.book.state])
    traded = f"{row.trades:,} trades, {row.volume:,} traded, {row.changes:,} changes"
    return Panel(Group(state, traded, shown), title=title, title_align="left")


# --- Keys ---


def key_names(pressed: bytes) -> list[str]:
    """Return the names of the keys in a terminal's input; unknown keys are omitted."""
    found = []
    while pressed:
        for size in (4, 3, 1):
            name = _KEY_NAMES.get(pressed[:size])
            if name is not None:
                break
        else:
            size, name = 1, chr(pressed[0]) if 32 <= pressed[0] < 127 else ""
        if name:
            found.append(name)
        pressed = pressed[size:]
    return found


class KeyReader:
    """Reads keys from standard input, if that is a terminal."""

    def __init__(self) -> None:
        self._open = sys.stdin.isatty()

    def wait(self, seconds: float) -> list[str]:
        """Return the keys pressed, waiting up to `seconds` for the first one."""
        if not self._open:
            select.select([], [], [], seconds)
            return []
        ready, _, _ = select.select([sys.stdin], [], [], seconds)
        if not ready:
            return []
        pressed = os.read(sys.stdin.fileno(), 64)
        if not pressed:  # end of file: the terminal was closed
            self._open = False
            return ["q"]
        return key_names(pressed)


@contextmanager
def keys() -> Iterator[KeyReader]:
    """Switch the terminal to single key presses inside the `with` block."""
    if not sys.stdin.isatty():
        yield KeyReader()
        return
    settings = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield KeyReader()
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, settings)
