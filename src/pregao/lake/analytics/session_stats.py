"""The table ``session_stats``: our figures of each session beside those that the exchange told.

The documents do not say whether a leg's or a late trade makes a high or low. Ours are given both
ways, of all trades and of those that set the last price; the exchange's may equal either.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody knows

from pregao.lake.analytics.bars import sums, with_average
from pregao.lake.analytics.reading import INSTRUMENT, INSTRUMENTS, Day
from pregao.lake.analytics.sessions import with_sessions
from pregao.lake.analytics.tables import (
    AVERAGE,
    NOTIONAL,
    PRICE,
    AnalyticsTable,
    Wanted,
    column,
    conform,
    missing,
)
from pregao.lake.analytics.trades import TRADES, made_trades
from pregao.umdf.templates import (
    EXECUTION_STATISTICS,
    HIGH_PRICE,
    LOW_PRICE,
    OPENING_PRICE,
    SECURITY_GROUP_PHASE,
    SECURITY_STATUS,
)

COLUMNS = (
    column("channel", pa.int16(), "Channel."),
    column("security_id", pa.int64(), "Instrument."),
    column("symbol", pa.string(), "Symbol of the instrument, if its definition was seen."),
    column("session", pa.int32(), "Session of the day; 0 began before the capture did."),
    column("session_start_ns", pa.int64(), "When the session began, if that was captured."),
    column("trading_session_id", pa.string(), "Regular or after-market, as told last."),
    column("open", PRICE, "Our opening price."),
    column("high", PRICE, "Highest price of all trades."),
    column("low", PRICE, "Lowest price of all trades."),
    column("last_price_high", PRICE, "Highest price of trades that set the last price."),
    column("last_price_low", PRICE, "Lowest price of trades that set the last price."),
    column("last", PRICE, "Our last price."),
    column("volume", pa.int64(), "Our quantity traded."),
    column("notional", NOTIONAL, "Our sum of price times quantity."),
    column("vwap", AVERAGE, "Our average price."),
    column("trades", pa.int64(), "Our number of trades."),
    column("busts", pa.int64(), "Trades of the session that were busted."),
    column("published_open", PRICE, "Opening price that the exchange told last."),
    column("published_high", PRICE, "High that the exchange told last."),
    column("published_low", PRICE, "Low that the exchange told last."),
    column("published_volume", pa.int64(), "Volume that the exchange told last."),
    column("published_vwap", PRICE, "Average price that the exchange told last."),
    column("published_trades", pa.int64(), "Number of trades that the exchange told last."),
    column("equal", pa.bool_(), "Do all figures agree?"),
    column("differences", pa.list_(pa.field("element", pa.string())), "Figures that do not."),
)

_PUBLISHED = (
    column("told_price", PRICE, ""),
    column("told_volume", pa.int64(), ""),
    column("told_vwap", PRICE, ""),
    column("told_trades", pa.int64(), ""),
)
_SINGLE_PRICES = {"open": OPENING_PRICE, "high": HIGH_PRICE, "low": LOW_PRICE}
_OPENINGS = ("DAILY", "SESSION")
_VWAP_STEP = "0.0001"


def session_stats(day: Day, trades: DataFrame) -> DataFrame:
    """The day's sessions of every instrument that traded or had figures published."""
    made = trades.select(
        *INSTRUMENT, "place", "price", "size", "sets_last_price", "opening", "busted",
        "trading_session_id",
    )  # fmt: skip
    rows = made.withColumn("told", F.lit(None).cast("int")).unionByName(
        _published(day), allowMissingColumns=True
    )
    grouped = with_sessions(day, rows).groupBy(*INSTRUMENT, "session", "session_start_ns")
    figures = with_average(grouped.agg(*_ours(), *_theirs()))
    compared = figures.withColumn("differences", _differences()).withColumn(
        "equal", F.size("differences") == 0
    )
    return conform(day.with_symbols(compared), COLUMNS)


def _published(day: Day) -> DataFrame:
    """What the exchange told: one row per message, ``told`` is its template."""
    executions = day.messages(EXECUTION_STATISTICS).select(
        *INSTRUMENT, "place", "trading_session_id",
        F.lit(EXECUTION_STATISTICS).alias("told"),
        F.lit(None).cast("decimal(18,4)").alias("told_price"),
        F.col("trade_volume").alias("told_volume"),
        F.col("vwap_px").alias("told_vwap"),
        F.col("number_of_trades").alias("told_trades"),
    )  # fmt: skip
    for template in _SINGLE_PRICES.values():
        messages = day.messages(template)
        if template == OPENING_PRICE:
            messages = messages.where(F.col("open_close_settl_flag").isin(*_OPENINGS))
        stands = F.col("md_update_action") != "DELETE"
        single = messages.select(
            *INSTRUMENT,
            "place",
            F.lit(template).alias("told"),
            F.when(stands, F.col("md_entry_px")).alias("told_price"),
            *missing(_PUBLISHED[1:]),
        )
        executions = executions.unionByName(single, allowMissingColumns=True)
    return executions


def _ours() -> list[Column]:
    """Our figures, of the trades among the rows that were not busted."""
    counts = F.col("told").isNull() & ~F.col("busted")
    counted = {name: F.when(counts, F.col(name)) for name in ("price", "size", "place")}
    lasting = counts & F.col("sets_last_price")
    opening = counts & F.col("opening")
    price, at = F.col("price"), F.col("place")
    volume, notional, _ = sums(counted["price"], counted["size"])
    return [
        F.coalesce(
            F.min_by(F.when(opening, price), F.when(opening, at)),
            F.min_by(F.when(lasting, price), F.when(lasting, at)),
        ).alias("open"),
        F.max(counted["price"]).alias("high"),
        F.min(counted["price"]).alias("low"),
        F.max(F.when(lasting, price)).alias("last_price_high"),
        F.min(F.when(lasting, price)).alias("last_price_low"),
        F.max_by(F.when(lasting, price), F.when(lasting, at)).alias("last"),
        F.coalesce(volume, F.lit(0)).alias("volume"),
        F.coalesce(notional, F.lit(0)).alias("notional"),
        F.count_if(counts).alias("trades"),
        F.count_if(F.col("told").isNull() & F.col("busted")).alias("busts"),
        F.max_by("trading_session_id", F.when(F.col("trading_session_id").isNotNull(), at)).alias(
            "trading_session_id"
        ),
    ]


def _theirs() -> list[Column]:
    """The exchange's figures as they stood last."""

    def last(name: str, template: int) -> Column:
        # Wrapped, so that a figure that was withdrawn counts as told.
        return F.max_by(F.struct(name), F.when(F.col("told") == template, F.col("place")))[name]

    return [
        *[
            last("told_price", template).alias(f"published_{name}")
            for name, template in _SINGLE_PRICES.items()
        ],
        *[
            last(f"told_{name}", EXECUTION_STATISTICS).alias(f"published_{name}")
            for name in ("volume", "vwap", "trades")
        ],
    ]


def _differences() -> Column:
    """The names of the figures that do not agree."""
    volume = F.col("volume").cast("decimal(19,0)")
    off = F.abs(F.col("published_vwap") * volume - F.col("notional"))
    step = F.lit(_VWAP_STEP).cast("decimal(5,4)")
    agrees = {
        "open": F.col("published_open").eqNullSafe(F.col("open")),
        "high": _either("high"),
        "low": _either("low"),
        "volume": F.coalesce("published_volume", F.lit(0)) == F.col("volume"),
        # The exchange rounds to four decimals; the documents do not say how.
        "vwap": F.when(F.col("volume") == 0, F.col("published_vwap").isNull()).otherwise(
            F.coalesce(off < step * volume, F.lit(False))
        ),
        "trades": F.coalesce("published_trades", F.lit(0)) == F.col("trades"),
    }
    return F.array_compact(F.array(*[F.when(~same, F.lit(name)) for name, same in agrees.items()]))


def _either(name: str) -> Column:
    told = F.col(f"published_{name}")
    return told.eqNullSafe(F.col(name)) | told.eqNullSafe(F.col(f"last_price_{name}"))


def _build(day: Day, _wanted: Wanted) -> DataFrame:
    return session_stats(day, made_trades(day))


SESSION_STATS = AnalyticsTable(
    "session_stats",
    "Our figures of a session beside those of the exchange.",
    COLUMNS,
    _build,
    (
        SECURITY_STATUS,
        SECURITY_GROUP_PHASE,
        EXECUTION_STATISTICS,
        *_SINGLE_PRICES.values(),
    ),
    (INSTRUMENTS,),
    (TRADES.name,),
    sort_by=("channel", "security_id", "session"),
)
