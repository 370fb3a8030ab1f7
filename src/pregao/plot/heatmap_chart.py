"""Heat map of a book over time: quantity at each price, best prices, and trades."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.colors import LinearSegmentedColormap, LogNorm

from pregao.api.arguments import UTC, Time
from pregao.book.views import AuctionLevels, auction_levels
from pregao.clock import DAY
from pregao.errors import NothingFoundError, UsageError
from pregao.lake.books.book_at import open_books
from pregao.lake.books.catalog import FileCatalog
from pregao.lake.sql.duckdb_engine import LEVELS_OF_TICKS
from pregao.lake.storage.lake_store import LakeStore
from pregao.plot.queries import ChartRange, LakeLike, answer, opened, span_of
from pregao.plot.style import (
    MUTED,
    Chart,
    counts,
    legend,
    moments,
    picture,
    span_text,
    time_axis,
)
from pregao.units import Side, date_of

_COLUMNS = 900
"""Number of time columns drawn."""
_MAX_PRICES = 400
_MAX_LEVELS = 10
_TICKS = (
    LEVELS_OF_TICKS
    + """
WHERE (upper(symbol) = $symbol OR security_id = CAST($security_id AS BIGINT))
  AND (CAST($day AS DATE) IS NULL OR date = CAST($day AS DATE))
  AND (CAST($since_ns AS BIGINT) IS NULL OR sending_time_ns >= CAST($since_ns AS BIGINT))
  AND (CAST($until_ns AS BIGINT) IS NULL OR sending_time_ns < CAST($until_ns AS BIGINT))
ORDER BY sending_time_ns, sequence_version, sequence_number, index_in_packet
"""
)
_TRADES = """
SELECT time_ns, price, "size", aggressor_side
FROM trades WHERE NOT busted AND sets_last_price
  AND (upper(symbol) = $symbol OR security_id = CAST($security_id AS BIGINT))
  AND (CAST($day AS DATE) IS NULL OR date = CAST($day AS DATE))
  AND (CAST($since_ns AS BIGINT) IS NULL OR time_ns >= CAST($since_ns AS BIGINT))
  AND (CAST($until_ns AS BIGINT) IS NULL OR time_ns < CAST($until_ns AS BIGINT))
"""
_NIGHT = "#0d1420"
_HEAT = LinearSegmentedColormap.from_list(
    "book", [_NIGHT, "#14304f", "#1b5e8a", "#2ba3a0", "#b8d65a", "#fff3b0"]
)
_BOUGHT, _SOLD, _BEST_BID, _BEST_ASK = "#22d3a0", "#ff5a5f", "#4aa8ff", "#ff9f43"
_BALANCE = "#e060e0"
_SCALE = 10_000
_AUCTION_LEVELS = 40
"""Levels per side that are drawn of a crossed book."""
_MAX_REPLAYS = 12
"""Replays of a day's books in auctions."""


def heatmap(
    lake: LakeLike,
    symbol: str,
    since: Time | None = None,
    until: Time | None = None,
    *,
    levels: int = 10,
    tz: str = UTC,
    day: date | str | None = None,
) -> Chart:
    """Plot the levels of the table ``ticks`` over time, with the trades.

    Times at which the book is stale, unconfirmed or building are blank. In auctions, the best
    levels are those farthest from the price at which the book will trade: then the levels around
    the price at which bids and asks balance are drawn.

    Args:
        lake: Lake with the tables ``ticks`` and ``trades``, or its path.
        symbol: Symbol or security id.
        since: Start of the time range; None for the beginning.
        until: End of the time range (exclusive); None for the end.
        levels: Levels per side, at most 10.
        tz: Time zone of the axis, and of times without an offset.
        day: Trading day; None for all days of the lake.

    Returns:
        A matplotlib figure, which a notebook displays.

    Raises:
        NothingFoundError: There are no ticks or no best prices in the time range.
        UsageError: ``levels`` is out of range.

    Example:
        >>> chart = pregao.plot.heatmap(lake, "PETR4", tz="America/Sao_Paulo")
        >>> chart.savefig("heatmap.png")
    """
    if not 1 <= levels <= _MAX_LEVELS:
        raise UsageError(f"levels must be 1 to {_MAX_LEVELS}, the depth of ticks, was {levels}.")
    span = span_of(symbol, day, since, until, tz)
    rows = answer(lake, "ticks", _TICKS, span.values, f"no ticks of {symbol} in this time range")
    time = rows["sending_time_ns"]
    _leave_out_doubtful(rows)
    # Integers: a float of nanoseconds since 1970 is off by some hundreds.
    length = max(int(time[-1] - time[0]), _COLUMNS)
    edges = time[0] + length * np.arange(_COLUMNS + 1) // _COLUMNS
    at = np.searchsorted(time, edges[1:], side="right") - 1  # the last tick of each column
    bid, ask = (np.where(_there(rows, side), rows[f"{side}_price_1"], np.nan)[at] for side in
                ("bid", "ask"))  # fmt: skip
    auctions = _auctions(lake, span, np.where(_crossed(rows)[at], time[at], 0))
    balance = np.full(_COLUMNS, np.nan)
    for column, near in auctions.items():
        balance[column] = near.balance / _SCALE
        bid[column] = ask[column] = np.nan
    prices, heat = _heat(rows, at, levels, (bid, ask, balance), auctions)
    figure, (axes,) = picture(
        f"{symbol.upper()}: the book over time", span_text(int(time[0]), int(time[-1]), tz),
        size=(10, 6),
    )  # fmt: skip
    axes.set_facecolor(_NIGHT)
    axes.grid(visible=False)
    step = prices[1] - prices[0] if len(prices) > 1 else 0.01
    borders = np.append(prices - step / 2, prices[-1] + step / 2)
    sizes = heat[heat > 0]
    norm = LogNorm(*np.maximum(np.quantile(sizes, (0.02, 0.995)), 1)) if len(sizes) else None
    shown: Any = axes.pcolormesh(
        moments(edges), borders, np.ma.masked_less_equal(heat, 0), cmap=_HEAT, norm=norm,
        rasterized=True,
    )  # fmt: skip
    lines = [(bid, _BEST_BID, "best bid"), (ask, _BEST_ASK, "best ask")]
    if auctions:
        lines.append((balance, _BALANCE, "balance of bids and asks in auctions"))
    for line, colour, name in lines:
        axes.step(moments(edges[1:]), line, where="pre", color=colour, lw=0.9, label=name)
    _trades(axes, lake, span, borders)
    axes.set_ylim(borders[0], borders[-1])
    axes.set_xlim(*moments(edges[[0, -1]]))
    axes.set_ylabel("price", color=MUTED)
    bar = figure.colorbar(shown, ax=axes, pad=0.01, aspect=40)
    bar.outline.set_visible(False)
    bar.set_label("quantity at a price", color=MUTED)
    bar.ax.tick_params(which="both", length=0, colors=MUTED)
    counts(bar.ax.yaxis)
    legend(axes)
    time_axis(axes, tz)
    return figure


def _leave_out_doubtful(rows: dict[str, npt.NDArray[Any]]) -> None:
    """Remove the prices of books that may differ from the exchange's: their time stays blank."""
    doubtful = ~np.isin(rows["state"], ("valid", "empty"))
    for name in rows:
        if "_price_" in name:
            rows[name] = np.where(doubtful, np.nan, rows[name].astype(float))


def _auctions(
    lake: LakeLike, span: ChartRange, times: npt.NDArray[np.int64]
) -> dict[int, AuctionLevels]:
    """Return the levels around the balance of crossed books, by column; 0 is no time."""
    found: dict[int, AuctionLevels] = {}
    if not times.any():
        return found
    catalog = FileCatalog(LakeStore(opened(lake).location))
    days = times // DAY
    for number in np.unique(days[times > 0]).tolist():
        day = date_of(number)
        try:
            books = open_books(catalog, span.symbol or "", day)
        except UsageError:
            continue  # the day's books were dropped, or the symbol is on several channels
        wanted = np.unique(times[days == number]).tolist()
        for moment in books.series(wanted, max_replays=_MAX_REPLAYS):
            bids, asks = (moment.book.levels(side) for side in Side)
            near = auction_levels(bids, asks, _AUCTION_LEVELS)
            if near is not None:
                found |= dict.fromkeys(np.flatnonzero(times == moment.at_ns).tolist(), near)
    return found


def _crossed(rows: dict[str, npt.NDArray[Any]]) -> npt.NDArray[np.bool_]:
    """Return the ticks whose best bid with a price is at or above their best ask with a price."""
    bid, ask = (
        np.array([rows[f"{side}_price_{n}"].astype(float) for n in range(1, _MAX_LEVELS + 1)])
        for side in ("bid", "ask")
    )
    found: npt.NDArray[np.bool_] = np.fmax.reduce(bid) >= np.fmin.reduce(ask)
    return found


def _there(rows: dict[str, npt.NDArray[Any]], side: str) -> npt.NDArray[np.bool_]:
    """Return the ticks whose best level of a side has a price (not only market orders)."""
    there: npt.NDArray[np.bool_] = ~np.isnan(rows[f"{side}_price_1"].astype(float))
    return there


def _heat(
    rows: dict[str, npt.NDArray[Any]],
    at: npt.NDArray[np.int64],
    levels: int,
    lines: Sequence[npt.NDArray[Any]],
    auctions: Mapping[int, AuctionLevels],
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the prices in ascending order, and the quantity by price and time column."""
    best = np.concatenate(lines)
    best = best[~np.isnan(best)]
    if not len(best):
        raise NothingFoundError("There is nothing to draw: no best prices in this time range.")
    all_prices = np.concatenate([rows[f"{s}_price_{n}"][at] for s in ("bid", "ask")
                                 for n in range(1, levels + 1)]).astype(float)  # fmt: skip
    all_prices = np.round(all_prices[~np.isnan(all_prices)] * 10_000).astype(np.int64)
    low, high = (round(float(each) * 10_000) for each in np.quantile(best, (0.005, 0.995)))
    distinct = np.unique(all_prices)
    gaps = np.diff(distinct)
    step = int(gaps[gaps > 0].min()) if len(gaps) else 100
    margin = max((high - low) // 6, (levels + 2) * step)
    first, last = low - margin, high + margin
    step = max(step, -(-(last - first) // (_MAX_PRICES * step)) * step)
    first -= first % step
    count = (last - first) // step + 1
    heat = np.zeros((count, len(at)))
    columns = np.arange(len(at))
    continuous = ~np.isin(columns, list(auctions))
    for side in ("bid", "ask"):
        for level in range(1, levels + 1):
            price = rows[f"{side}_price_{level}"][at].astype(float)
            size = np.nan_to_num(rows[f"{side}_size_{level}"][at].astype(float))
            row = np.round((np.nan_to_num(price, nan=-1e9) * 10_000 - first) / step).astype(int)
            inside = (row >= 0) & (row < count) & ~np.isnan(price) & continuous
            np.add.at(heat, (row[inside], columns[inside]), size[inside])
    for column, near in auctions.items():
        for own in (*near.bids, *near.asks):
            index = round(((own.price or 0) - first) / step)
            if own.price is not None and 0 <= index < count:
                heat[index, column] += own.size
    return (first + step * np.arange(count)) / 10_000, heat


def _trades(axes: Any, lake: LakeLike, span: ChartRange, borders: npt.NDArray[Any]) -> None:
    try:
        rows = answer(lake, "trades", _TRADES, span.values, "no trades")
    except NothingFoundError:
        return
    size = rows["size"].astype(float)
    area = np.minimum(5 + 70 * size / max(float(np.quantile(size, 0.99)), 1), 120)
    inside = (rows["price"] > borders[0]) & (rows["price"] < borders[-1])
    for name, colour, words in (("BUY", _BOUGHT, "bought"), ("SELL", _SOLD, "sold")):
        own = inside & (rows["aggressor_side"] == name)
        if own.any():
            axes.scatter(
                moments(rows["time_ns"][own]), rows["price"][own], s=area[own], color=colour,
                alpha=0.75, linewidths=0.4, edgecolors=_NIGHT, label=words, zorder=3,
            )  # fmt: skip
