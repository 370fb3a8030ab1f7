"""Bar chart: open, high, low, close and VWAP, with the volume below."""

from __future__ import annotations

from datetime import date

import numpy as np

from pregao.api.arguments import UTC, Time
from pregao.lake.analytics.bars import known_intervals
from pregao.plot.queries import LakeLike, answer, span_of
from pregao.plot.style import (
    ACCENT,
    BUY,
    MUTED,
    SELL,
    Chart,
    counts,
    legend,
    moments,
    picture,
    span_text,
    time_axis,
)

_BARS = """
SELECT start_ns, end_ns, "open", high, low, "close", volume, CAST(vwap AS DOUBLE) AS vwap
FROM bars WHERE "interval" = $interval AND "open" IS NOT NULL
  AND (upper(symbol) = $symbol OR security_id = CAST($security_id AS BIGINT))
  AND (CAST($day AS DATE) IS NULL OR date = CAST($day AS DATE))
  AND (CAST($since_ns AS BIGINT) IS NULL OR start_ns >= CAST($since_ns AS BIGINT))
  AND (CAST($until_ns AS BIGINT) IS NULL OR start_ns < CAST($until_ns AS BIGINT))
ORDER BY start_ns
"""


def bars(
    lake: LakeLike,
    symbol: str,
    interval: str = "1m",
    since: Time | None = None,
    until: Time | None = None,
    *,
    tz: str = UTC,
    day: date | str | None = None,
) -> Chart:
    """Plot the bars of an instrument, with their VWAP and volume.

    Args:
        lake: Lake with the table ``bars``, or its path.
        symbol: Symbol or security id.
        interval: Bar length that the table has (1s, 1m, …).
        since: Start of the time range; None for the beginning.
        until: End of the time range (exclusive); None for the end.
        tz: Time zone of the axis, and of times without an offset.
        day: Trading day; None for all days of the lake.

    Returns:
        A matplotlib figure, which a notebook displays.

    Raises:
        NothingFoundError: There are no such bars.

    Example:
        >>> chart = pregao.plot.bars(lake, "PETR4", "1s")
        >>> chart.savefig("bars.png")
    """
    span = span_of(symbol, day, since, until, tz)
    (length,) = known_intervals([interval])
    rows = answer(
        lake,
        "bars",
        _BARS,
        span.values | {"interval": length},
        f"no bars of {symbol} with the interval {length} in this time range",
    )
    start, end = rows["start_ns"], rows["end_ns"]
    rises = rows["close"] >= rows["open"]
    figure, (axes, below) = picture(
        f"{symbol.upper()}: bars of {length}",
        span_text(int(start[0]), int(end[-1]), tz),
        rows=(3, 1),
    )
    middle = moments((start + end) // 2)
    width = np.timedelta64(int(np.median(end - start) * 0.7), "ns")
    step = max(float(np.ptp([rows["low"], rows["high"]])) / 400, 1e-9)
    for mask, colour in ((rises, BUY), (~rises, SELL)):
        if not mask.any():
            continue
        low, high = rows["low"][mask], rows["high"][mask]
        bottom = np.minimum(rows["open"], rows["close"])[mask]
        height = np.maximum(np.abs(rows["open"] - rows["close"])[mask], step)
        axes.vlines(middle[mask], low, high, color=colour, lw=1.1)
        axes.bar(middle[mask], height, width, bottom, color=colour, linewidth=0)
        below.bar(middle[mask], rows["volume"][mask], width, color=colour, alpha=0.8, linewidth=0)
    axes.plot(middle, rows["vwap"], color=ACCENT, lw=1.3, label="average price (VWAP) of the bar")
    axes.set_ylabel("price", color=MUTED)
    below.set_ylabel("quantity", color=MUTED)
    counts(below.yaxis)
    time_axis(below, tz)
    legend(axes)
    return figure
