"""Gap chart: packets that feeds lost, by channel and time, and whether the gaps were closed."""

from __future__ import annotations

from datetime import date

import numpy as np

from pregao.api.arguments import UTC, Time
from pregao.errors import NothingFoundError
from pregao.plot.queries import LakeLike, answer, span_of
from pregao.plot.style import (
    BUY,
    SELL,
    Chart,
    legend,
    moments,
    nothing,
    picture,
    plain,
    span_text,
    time_axis,
)

_PACKETS = """
SELECT min(capture_time_ns) AS first_ns, max(capture_time_ns) AS last_ns
FROM packets WHERE (CAST($day AS DATE) IS NULL OR date = CAST($day AS DATE))
  AND (CAST($since_ns AS BIGINT) IS NULL OR capture_time_ns >= CAST($since_ns AS BIGINT))
  AND (CAST($until_ns AS BIGINT) IS NULL OR capture_time_ns < CAST($until_ns AS BIGINT))
HAVING count(*) > 0
"""
_GAPS = """
SELECT channel, coalesce(feed, 'both') AS feed, capture_time_ns,
  last_missing - first_missing + 1 AS packets, closed_by IS NOT NULL AS closed
FROM gaps WHERE security_id IS NULL
  AND (CAST($day AS DATE) IS NULL OR date = CAST($day AS DATE))
  AND (CAST($since_ns AS BIGINT) IS NULL OR capture_time_ns >= CAST($since_ns AS BIGINT))
  AND (CAST($until_ns AS BIGINT) IS NULL OR capture_time_ns < CAST($until_ns AS BIGINT))
ORDER BY channel, feed
"""


def gaps(
    lake: LakeLike,
    since: Time | None = None,
    until: Time | None = None,
    *,
    tz: str = UTC,
    day: date | str | None = None,
) -> Chart:
    """Plot the gaps in the packet sequences of all channels, by feed.

    Args:
        lake: Lake with the tables ``packets`` and ``gaps``, or its path.
        since: Start of the time range; None for the beginning.
        until: End of the time range (exclusive); None for the end.
        tz: Time zone of the axis, and of times without an offset.
        day: Trading day; None for all days of the lake.

    Returns:
        A matplotlib figure, which a notebook displays.

    Raises:
        NothingFoundError: There are no packets in the time range.

    Example:
        >>> chart = pregao.plot.gaps(lake)
        >>> chart.savefig("gaps.png")
    """
    span = span_of(None, day, since, until, tz)
    packets = answer(lake, "packets", _PACKETS, span.values, "no packets in this time range")
    first, last = int(packets["first_ns"][0]), int(packets["last_ns"][0])
    try:
        rows = answer(lake, "gaps", _GAPS, span.values, "no gaps")
    except NothingFoundError:
        figure, (axes,) = picture("No gaps", span_text(first, last, tz), size=(10, 2.6))
        nothing(axes, "All sequence numbers were captured.")
        return figure
    lines = sorted(set(zip(rows["channel"].tolist(), rows["feed"].tolist(), strict=True)))
    at = {line: number for number, line in enumerate(lines)}
    row = np.array(
        [at[line] for line in zip(rows["channel"].tolist(), rows["feed"].tolist(), strict=True)]
    )
    missing, closed = rows["packets"].astype(float), rows["closed"].astype(bool)
    figure, (axes,) = picture(
        f"{int(missing.sum()):,} packets missing in {len(row):,} gaps",
        span_text(first, last, tz),
        size=(10, 2.4 + 0.45 * len(lines)),
    )
    for mask, colour, state in ((closed, BUY, "closed"), (~closed, SELL, "open")):
        if mask.any():
            axes.scatter(
                moments(rows["capture_time_ns"][mask]), row[mask],
                s=20 + 14 * np.sqrt(missing[mask]), color=colour, alpha=0.6, linewidths=0,
                label=f"{state}: {int(missing[mask].sum()):,} packets",
            )  # fmt: skip
    names = [f"channel {channel}, {_feed(feed)}" for channel, feed in lines]
    axes.set_yticks(range(len(lines)), names, parse_math=False)
    axes.set_ylim(len(lines) - 0.5, -0.5)
    axes.set_xlim(*moments(np.array([first, last])))
    legend(axes)
    time_axis(axes, tz)
    return figure


def _feed(name: str) -> str:
    return "both feeds" if name == "both" else f"feed {plain(name)}"
