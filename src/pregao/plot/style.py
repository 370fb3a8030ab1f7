"""Style of the plots: colors, headings, axes of time, price and quantity."""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any
from zoneinfo import ZoneInfo

import matplotlib.dates as dates
import numpy as np
import numpy.typing as npt
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

INK, MUTED, GRID, PAPER = "#1b2733", "#6b7885", "#e6eaee", "#ffffff"
BUY, SELL, NEITHER = "#0b8f7a", "#d6473f", "#8795a1"
ACCENT = "#2f6fde"
_SECOND = 1_000_000_000
_RC: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.5,
    "axes.edgecolor": GRID,
    "axes.labelcolor": MUTED,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "axes.axisbelow": True,
    "grid.color": GRID,
}


class Chart(Figure):
    """A figure that notebooks display; pyplot does not know it and keeps no reference to it."""

    def _repr_png_(self) -> bytes:
        content = io.BytesIO()
        self.savefig(content, format="png", dpi=150)
        return content.getvalue()


def picture(
    title: str,
    subtitle: str,
    *,
    rows: Sequence[float] = (1,),
    size: tuple[float, float] = (10, 5.6),
    share_x: bool = True,
) -> tuple[Chart, list[Any]]:
    """Return a figure with headings, and one axes per row; ``rows`` are relative heights."""
    with rc_context(_RC):
        figure: Any = Chart(figsize=size, facecolor=PAPER, layout="constrained")
        FigureCanvasAgg(figure)
        figure.get_layout_engine().set(rect=(0.005, 0.01, 0.985, 1 - 0.82 / size[1]), h_pad=0.06)
        axes = figure.subplots(
            len(rows), 1, sharex=share_x, squeeze=False, gridspec_kw={"height_ratios": rows}
        )[:, 0]
        for each in axes:
            each.grid(axis="y")
    figure.text(
        0.012, 1 - 0.16 / size[1], plain(title, 80), fontsize=15, fontweight="bold", color=INK,
        va="top", parse_math=False,
    )  # fmt: skip
    figure.text(
        0.012, 1 - 0.5 / size[1], plain(subtitle, 160), fontsize=9.5, color=MUTED, va="top",
        parse_math=False,
    )  # fmt: skip
    return figure, list(axes)


def plain(text: str, length: int = 24) -> str:
    """Return a text of a lake on one line of limited length; draw with ``parse_math=False``."""
    shown = "".join(each if each.isprintable() else "\ufffd" for each in text[: length + 1])
    return shown if len(shown) <= length else f"{shown[: length - 1]}…"


def moments(nanoseconds: npt.NDArray[np.int64]) -> npt.NDArray[np.datetime64]:
    """Convert times to matplotlib's type."""
    return np.asarray(nanoseconds).astype("datetime64[ns]")


def time_axis(axes: Any, zone: str) -> None:
    """Show times of day in a time zone on the x axis."""
    tz = ZoneInfo(zone)
    library: Any = dates  # it has no type annotations
    locator = library.AutoDateLocator(tz=tz, minticks=4, maxticks=9)
    formatter = library.ConciseDateFormatter(locator, tz=tz, show_offset=False)
    formatter.formats[3:] = ["%H:%M", "%H:%M", "%H:%M:%S"]
    formatter.zero_formats[3:] = ["%H:%M", "%H:%M", "%H:%M"]
    axes.set_xlabel(f"time ({zone})", color=MUTED)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(formatter)


def counts(axis: Any) -> None:
    """Show quantities on an axis: 1,500, 20k, 3M."""
    axis.set_major_formatter(FuncFormatter(lambda value, _at: quantity(value)))


def quantity(value: float) -> str:
    """Format a quantity in few characters."""
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= unit:
            small = value / (1e3 if name == "k" else unit)
            return f"{small:,.1f}".rstrip("0").rstrip(".") + name
    return f"{value:,.0f}"


def span_text(first: int, last: int, zone: str) -> str:
    """Format a time range: day, times of day and time zone."""
    begin, end = (datetime.fromtimestamp(each / _SECOND, UTC) for each in (first, last))
    tz = ZoneInfo(zone)
    day: date = begin.astimezone(tz).date()
    times = f"{begin.astimezone(tz):%H:%M:%S} to {end.astimezone(tz):%H:%M:%S}"
    return f"{day.isoformat()}, {times} ({zone})"


def moment_text(when_ns: int, zone: str) -> str:
    """Format a time: day, time of day to the nanosecond if it has one, and time zone."""
    seconds, rest = divmod(when_ns, _SECOND)
    part = f".{rest:09d}".rstrip("0").rstrip(".")
    return f"{datetime.fromtimestamp(seconds, ZoneInfo(zone)):%Y-%m-%d %H:%M:%S}{part} ({zone})"


def legend(axes: Any, columns: int = 4) -> None:
    """Add a legend above the axes, with markers of one size."""
    box = axes.legend(
        loc="lower left", bbox_to_anchor=(0, 1.0), ncols=columns, borderaxespad=0.2, frameon=False,
        labelcolor=INK, handletextpad=0.5, columnspacing=1.6, borderpad=0.2,
    )  # fmt: skip
    for handle in box.legend_handles:
        if hasattr(handle, "set_sizes"):
            handle.set_sizes([36])


def nothing(axes: Any, words: str) -> None:
    """Show a text instead of a plot."""
    axes.grid(visible=False)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.text(0.5, 0.5, words, ha="center", va="center", color=MUTED, transform=axes.transAxes)
