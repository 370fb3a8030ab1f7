"""Table ``bars``: open, high, low, close, volume and average price per interval.

A bar counts the trades made in its time and not busted, whatever their kind: in volume, average,
number, high and low. The average therefore lies between low and high. Open and close are the first
and the last price of those that set the last price. Intervals start at midnight in São Paulo; users
write their lengths like ``15m``.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable

import pyarrow as pa

from pregao.clock import DAY, HOUR, MILLISECOND, MINUTE, SECOND
from pregao.errors import UsageError
from pregao.lake.analytics.engine import Column, DataFrame, F, spark_type
from pregao.lake.analytics.reading import INSTRUMENT, LakeDay, LakeFiles
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
from pregao.umdf.phases import day_begins_ns

_UNITS = {"ms": MILLISECOND, "s": SECOND, "m": MINUTE, "h": HOUR, "d": DAY}
_SPAN = re.compile(r"([0-9]{1,12})(ms|s|m|h|d)")

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
    matched = _SPAN.fullmatch(text.strip().lower())
    length = int(matched.group(1)) * _UNITS[matched.group(2)] if matched else 0
    if not 0 < length <= DAY:
        raise UsageError(
            "--interval must be a length such as 500ms, 1s, 15m, 1h or 1d, at most one day, "
            f"was {text!r}."
        )
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


def bars(trades: DataFrame, date: datetime.date, intervals: tuple[str, ...]) -> DataFrame:
    """Return the bars of a day's trades for these intervals, without empty ones."""
    spans = F.array(
        *[
            F.struct(F.lit(name).alias("name"), F.lit(interval_ns(name)).alias("length"))
            for name in known_intervals(intervals)
        ]
    )
    counted = trades.where(~F.col("busted"))
    since = F.col("time_ns") - midnight_ns(date)
    length = F.col("span.length")
    placed = counted.withColumn("span", F.explode(spans)).select(
        "*",
        F.col("span.name").alias("interval"),
        # A remainder that is never negative: late reports may be of the previous day.
        (F.col("time_ns") - F.pmod(since, length)).alias("start_ns"),
        length.alias("length"),
    )
    grouped = placed.groupBy(*INSTRUMENT, "symbol", "interval", "start_ns", "length").agg(
        *prices(), *sums(F.col("price"), F.col("size")), *sides()
    )
    ended = grouped.withColumn("end_ns", F.col("start_ns") + F.col("length"))
    return conform(with_average(ended), COLUMNS)


def prices() -> list[Column]:
    """Return open and close of the trades that set the last price, high and low of all."""
    price = F.when(F.col("sets_last_price"), F.col("price"))
    at = F.when(F.col("sets_last_price"), F.col("place"))
    return [
        F.min_by(price, at).alias("open"),
        F.max("price").alias("high"),
        F.min("price").alias("low"),
        F.max_by(price, at).alias("close"),
    ]


def sums(price: Column, size: Column) -> list[Column]:
    """Return volume, notional and number of trades."""
    amount = price * size.cast("decimal(19,0)")
    return [
        F.sum(size).alias("volume"),
        F.sum(amount).cast(spark_type(NOTIONAL)).alias("notional"),
        F.count(size).alias("trades"),
    ]


def sides() -> list[Column]:
    """Return the volume by side of the aggressor."""
    return [
        F.coalesce(F.sum(F.when(F.col("aggressor_side") == side, F.col("size"))), F.lit(0)).alias(
            name
        )
        for side, name in (("BUY", "buy_volume"), ("SELL", "sell_volume"))
    ]


def with_average(frame: DataFrame) -> DataFrame:
    """Add the average price to sums, rounded once (half away from zero)."""
    # With these types Spark divides to exactly eight decimals.
    average = F.col("notional") / F.col("volume").cast("decimal(19,0)")
    return frame.withColumn("vwap", F.when(F.col("volume") != 0, average).cast(spark_type(AVERAGE)))


def midnight_ns(date: datetime.date) -> int:
    """Return the start of a day in São Paulo."""
    return day_begins_ns((date - datetime.date(1970, 1, 1)).days)


def kept_intervals(files: LakeFiles, date: datetime.date) -> list[str]:
    """Return the intervals of existing bars, which every later build updates too."""
    if date not in files.paths(NAME):
        return []
    found = files.lake.delta(NAME).to_pyarrow_table(
        columns=["interval"], filters=[(DATE, "=", date)]
    )
    return sorted(found["interval"].unique().to_pylist())


def _build(day: LakeDay, wanted: AnalyticsOptions) -> DataFrame:
    return bars(stored_trades(day), day.date, wanted.intervals)


BARS = AnalyticsTable(
    NAME,
    "Open, high, low, close, volume and average price per instrument and interval.",
    COLUMNS,
    _build,
    needs=(TRADES.name,),
    sort_by=("channel", "security_id", "interval", "start_ns"),
)
