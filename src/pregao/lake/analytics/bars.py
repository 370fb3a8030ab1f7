"""Table ``bars``: open, high, low, close, volume and average price per interval.

A bar counts the trades made in its time and not busted, whatever their kind: in volume, average,
number, high and low. The average therefore lies between low and high. Open and close are the first
and the last price of those that set the last price. Intervals start at midnight in São Paulo; users
write their lengths like ``15m``.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable

import pyarrow as pa

from pregao.clock import DAY, HOUR, MILLISECOND, MINUTE, SECOND
from pregao.errors import UsageError
from pregao.lake.analytics.local.frames import DataFrame
from pregao.lake.analytics.reading import LakeDay, LakeFiles
from pregao.lake.analytics.tables import (
    AVERAGE,
    NOTIONAL,
    PRICE,
    AnalyticsOptions,
    AnalyticsTable,
    column,
    conform,
)
from pregao.lake.analytics.trades import TRADES, stored_trades
from pregao.lake.storage.commit_unit import DATE
from pregao.units import day_begins_ns, day_number, parse_duration

_UNITS = {"ms": MILLISECOND, "s": SECOND, "m": MINUTE, "h": HOUR, "d": DAY}

COLUMNS = (
    column("channel", pa.int16(), "Channel."),
    column("security_id", pa.int64(), "Instrument."),
    column("symbol", pa.string(), "Symbol of the instrument, if its definition was received."),
    column("interval", pa.string(), "Length of the bar, such as 1s, 1m, 5m, 1h or 1d."),
    column("start_ns", pa.int64(), "Start of the bar."),
    column("end_ns", pa.int64(), "End of the bar, exclusive."),
    column(
        "open",
        PRICE,
        "First price of the trades that set the last price (no legs, none out of sequence); null "
        "without any.",
    ),
    column("high", PRICE, "Highest price of the trades that count: all that were not busted."),
    column("low", PRICE, "Lowest price of the trades that count."),
    column("close", PRICE, "Last price of the trades that set the last price."),
    column("volume", pa.int64(), "Quantity of the trades that count."),
    column(
        "notional",
        NOTIONAL,
        "Sum of price times quantity, exact, without price divisor and contract multiplier.",
    ),
    column(
        "vwap",
        AVERAGE,
        "Notional divided by volume, to eight decimals; between low and high.",
    ),
    column("trades", pa.int64(), "Number of trades that count."),
    column("buy_volume", pa.int64(), "Quantity of trades with a buying aggressor."),
    column("sell_volume", pa.int64(), "Quantity of trades with a selling aggressor."),
)


def interval_ns(text: str) -> int:
    """Return a length such as ``15m`` in nanoseconds."""
    length = parse_duration(text, "--interval", DAY)
    if not length or length % MILLISECOND:
        raise UsageError(f"--interval must be a number of milliseconds, at least 1, was {text!r}.")
    return length


def interval_name(length_ns: int) -> str:
    """Return the shortest text of a length: ``60s`` and ``1m`` are the same bars."""
    for unit, size in sorted(_UNITS.items(), key=lambda item: -item[1]):
        if length_ns % size == 0:
            return f"{length_ns // size}{unit}"
    raise AssertionError(f"{length_ns} ns is not a multiple of a millisecond")


def known_intervals(texts: Iterable[str]) -> tuple[str, ...]:
    """Return each interval once, in its shortest form, from short to long."""
    return tuple(interval_name(length) for length in sorted({interval_ns(text) for text in texts}))


def is_interval(text: object) -> bool:
    """Whether it is a value of the column ``interval`` of bars."""
    try:
        return isinstance(text, str) and known_intervals([text]) == (text,)
    except UsageError:
        return False


NAME = "bars"


_BARS = """
WITH counted AS (
    SELECT * FROM trades WHERE NOT busted
),
intervals AS (
    SELECT unnest($names) AS interval, unnest($lengths) AS length
),
placed AS (
    -- A remainder that is never negative: late reports may be of the previous day.
    SELECT trade.*, interval, length,
        time_ns - ((time_ns - $midnight) % length + length) % length AS start_ns
    FROM counted AS trade CROSS JOIN intervals
),
bars AS (
    SELECT channel, security_id, symbol, interval, start_ns, start_ns + length AS end_ns,
        arg_min(price, place) FILTER (sets_last_price) AS open,
        max(price) AS high,
        min(price) AS low,
        arg_max(price, place) FILTER (sets_last_price) AS close,
        sum(size) AS volume,
        CAST(sum(price * CAST(size AS DECIMAL(19, 0))) AS DECIMAL(34, 4)) AS notional,
        count(size) AS trades,
        coalesce(sum(size) FILTER (aggressor_side = 'BUY'), 0) AS buy_volume,
        coalesce(sum(size) FILTER (aggressor_side = 'SELL'), 0) AS sell_volume
    FROM placed GROUP BY channel, security_id, symbol, interval, start_ns, length
)
SELECT *, average_price(notional, volume) AS vwap FROM bars
"""


def bars(day: LakeDay, trades: DataFrame, intervals: tuple[str, ...]) -> DataFrame:
    """Return the bars of a day's trades for these intervals, without empty ones."""
    names = list(known_intervals(intervals))
    values = {
        "names": names,
        "lengths": [interval_ns(name) for name in names],
        "midnight": day_begins_ns(day_number(day.date)),
    }
    return conform(day.query(_BARS, values, trades=trades), COLUMNS)


def kept_intervals(files: LakeFiles, date: datetime.date) -> list[str]:
    """Return the intervals of existing bars, which every later build updates too."""
    if date not in files.paths(NAME):
        return []
    found = files.lake.delta(NAME).to_pyarrow_table(
        columns=["interval"], filters=[(DATE, "=", date)]
    )
    return sorted(found["interval"].unique().to_pylist())


def _build(day: LakeDay, wanted: AnalyticsOptions) -> DataFrame:
    return bars(day, stored_trades(day), wanted.intervals)


BARS = AnalyticsTable(
    NAME,
    "Open, high, low, close, volume and average price per instrument and interval.",
    COLUMNS,
    _build,
    needs=(TRADES.name,),
    sort_by=("channel", "security_id", "interval", "start_ns"),
)
