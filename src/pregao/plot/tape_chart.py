"""Tape chart: every trade by time and price, with the volume by aggressor side below."""

from __future__ import annotations

from datetime import date

import numpy as np

from pregao.api.arguments import UTC, Time
from pregao.plot.queries import LakeLike, answer, span_of
from pregao.plot.style import (
    BUY,
    MUTED,
    NEITHER,
    SELL,
    Chart,
    counts,
    legend,
    moments,
    picture,
    span_text,
    time_axis,
)

_BINS = 120
_TRADES = """
SELECT time_ns, price, "size", aggressor_side, bid_price, ask_price
FROM trades WHERE NOT busted AND sets_last_price
  AND (upper(symbol) = $symbol OR security_id = CAST($security_id AS BIGINT))
  AND (CAST($day AS DATE) IS NULL OR date = CAST($day AS DATE))
  AND (CAST($since_ns AS BIGINT) IS NULL OR time_ns >= CAST($since_ns AS BIGINT))
  AND (CAST($until_ns AS BIGINT) IS NULL OR time_ns < CAST($until_ns AS BIGINT))
ORDER BY time_ns
"""


def tape(
    lake: LakeLike,
    symbol: str,
    since: Time | None = None,
    until: Time | None = None,
    *,
    tz: str = UTC,
    day: date | str | None = None,
) -> Chart:
    """Plot the trades of an instrument, without busted ones.

    Args:
        lake: Lake with the table ``trades``, or its path.
        symbol: Symbol or security id.
        since: Start of the time range; None for the beginning.
        until: End of the time range (exclusive); None for the end.
        tz: Time zone of the axis, and of times without an offset.
        day: Trading day; None for all days of the lake.

    Returns:
        A matplotlib figure, which a notebook displays.

    Raises:
        NothingFoundError: There are no trades in the time range.

    Example:
        >>> chart = pregao.plot.tape(lake, "PETR4", until="2026-05-21 12:03")
        >>> chart.savefig("tape.png")
    """
    span = span_of(symbol, day, since, until, tz)
    rows = answer(lake, "trades", _TRADES, span.values, f"no trades of {symbol} in this time range")
    time, price, size = rows["time_ns"], rows["price"], rows["size"]
    side = rows["aggressor_side"]
    figure, (axes, below) = picture(
        f"{symbol.upper()}: {len(time):,} trades",
        span_text(int(time[0]), int(time[-1]), tz),
        rows=(3, 1),
    )
    axes.step(moments(time), price, where="post", color="#b8c2cc", lw=0.8, zorder=1)
    edges = np.linspace(time[0], time[-1] + 1, _BINS + 1)
    base = np.zeros(_BINS)
    area = 6 + 130 * size / max(float(np.quantile(size, 0.995)), 1)
    for name, colour, label in (
        ("BUY", BUY, "bought"), ("SELL", SELL, "sold"), (None, NEITHER, "in auctions"),
    ):  # fmt: skip
        mask = (side == name) if name else ~np.isin(side.astype(str), ("BUY", "SELL"))
        if not mask.any():
            continue
        axes.scatter(
            moments(time[mask]), price[mask], s=np.minimum(area[mask], 220), color=colour,
            alpha=0.55, linewidths=0, label=f"{label}: {int(size[mask].sum()):,}", zorder=2,
        )  # fmt: skip
        volume = np.histogram(time[mask], edges, weights=size[mask])[0]
        starts = moments(edges[:-1].astype(np.int64))
        width = np.timedelta64(int((edges[1] - edges[0]) * 0.9), "ns")
        below.bar(starts, volume, width, base, color=colour, alpha=0.8, align="edge", linewidth=0)
        base += volume
    axes.set_ylabel("price", color=MUTED)
    below.set_ylabel("quantity", color=MUTED)
    counts(below.yaxis)
    time_axis(below, tz)
    legend(axes)
    axes.margins(x=0.01)
    return figure
