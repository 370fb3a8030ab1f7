"""Latency chart: distribution, and percentiles over time."""

from __future__ import annotations

from datetime import date
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.ticker import FuncFormatter

from pregao.api.arguments import UTC, Time
from pregao.errors import UsageError
from pregao.lake.analytics.latency import MEASURES
from pregao.plot.queries import LakeLike, answer, span_of
from pregao.plot.style import (
    ACCENT,
    BUY,
    INK,
    MUTED,
    SELL,
    Chart,
    legend,
    moments,
    picture,
    span_text,
    time_axis,
)

_MEANINGS = {
    "network": "from sending to capture, above the fastest packet",
    "network_raw": "from sending (T11) to capture, clocks uncorrected",
    "engine": "from the engine's event (T5) to sending (T11)",
    "feeds": "delay of the other feed",
}
_LATENCY = """
SELECT t11_ns AS time_ns, {measure} AS value
FROM latency WHERE ({measure}) IS NOT NULL
  AND (CAST($day AS DATE) IS NULL OR date = CAST($day AS DATE))
  AND (CAST($since_ns AS BIGINT) IS NULL OR t11_ns >= CAST($since_ns AS BIGINT))
  AND (CAST($until_ns AS BIGINT) IS NULL OR t11_ns < CAST($until_ns AS BIGINT))
ORDER BY t11_ns
"""
_PERCENTILES = ((50, BUY), (90, ACCENT), (99, "#e09a2b"), (99.9, SELL))


def latency(
    lake: LakeLike,
    measure: str = "network",
    since: Time | None = None,
    until: Time | None = None,
    *,
    tz: str = UTC,
    day: date | str | None = None,
) -> Chart:
    """Plot a measure of the table ``latency``: its distribution, and its percentiles over time.

    Args:
        lake: Lake with the table ``latency``, or its path.
        measure: ``network``, ``network_raw``, ``engine`` or ``feeds``.
        since: Start of the time range; None for the beginning.
        until: End of the time range (exclusive); None for the end.
        tz: Time zone of the axis, and of times without an offset.
        day: Trading day; None for all days of the lake.

    Returns:
        A matplotlib figure, which a notebook displays.

    Raises:
        NothingFoundError: There are no latencies in the time range.
        UsageError: There is no such measure.

    Example:
        >>> chart = pregao.plot.latency(lake, "engine")
        >>> chart.savefig("latency.png")
    """
    if measure not in _MEANINGS:
        raise UsageError(f"measure must be one of {', '.join(_MEANINGS)}, was {measure!r}.")
    span = span_of(None, day, since, until, tz)
    sql, meaning = _LATENCY.replace("{measure}", MEASURES[measure]), _MEANINGS[measure]
    rows = answer(lake, "latency", sql, span.values, f"no {measure} latency in this time range")
    time, value = rows["time_ns"], np.maximum(rows["value"].astype(float), 1)
    figure, (axes, below) = picture(
        f"Latency ({measure}): {len(value):,} events",
        f"{meaning}; {span_text(int(time[0]), int(time[-1]), tz)}",
        rows=(1.1, 1), size=(10, 6.4), share_x=False,
    )  # fmt: skip
    low, high = np.quantile(value, (0.0005, 0.9999))
    bins = np.geomspace(low * 0.9, max(high * 1.1, low * 1.5), 140)
    axes.hist(value, bins, color=ACCENT, alpha=0.85, linewidth=0)
    axes.set_xscale("log")
    axes.set_ylim(top=axes.get_ylim()[1] * 1.45)
    for number, (share, colour) in enumerate(_PERCENTILES):
        at = float(np.percentile(value, share))
        axes.axvline(at, color=colour, lw=1.2)
        axes.annotate(
            f"p{share:g} {_span(at)}", (at, 0.96 - 0.11 * number), (4, 0), color=INK,
            xycoords=("data", "axes fraction"), textcoords="offset points", va="top", fontsize=8.5,
        )  # fmt: skip
    axes.set_ylabel("events", color=MUTED)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _at: _span(x)))
    axes.xaxis.set_minor_formatter(FuncFormatter(lambda _x, _at: ""))
    edges = np.linspace(time[0], time[-1] + 1, 61)
    part = np.searchsorted(time, edges)
    middle = moments(((edges[1:] + edges[:-1]) / 2).astype(np.int64))
    for share, colour in _PERCENTILES:
        line = [np.percentile(value[a:b], share) if b > a else np.nan for a, b in pairwise(part)]
        below.plot(middle, line, color=colour, lw=1.4, label=f"p{share:g}")
    below.set_yscale("log")
    below.yaxis.set_major_formatter(FuncFormatter(lambda y, _at: _span(y)))
    below.yaxis.set_minor_formatter(FuncFormatter(lambda _y, _at: ""))
    below.margins(x=0.01)
    legend(below)
    time_axis(below, tz)
    return figure


def _span(nanoseconds: Any) -> str:
    """Format a duration in few characters."""
    for unit, name in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if nanoseconds >= unit:
            return f"{nanoseconds / unit:.3g} {name}"
    return f"{nanoseconds:.0f} ns"
