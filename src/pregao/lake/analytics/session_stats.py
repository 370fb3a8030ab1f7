"""Table ``session_stats``: our statistics of each session, compared with the exchange's.

A session starts where a SecurityStatus of the instrument, or a SecurityGroupPhase of its group, has
the event TRADING_SESSION_CHANGE. A day's statistics restart with each.

The documents do not state whether a leg's or a late trade sets a high or low. Ours are given both
ways, of all trades and of those that set the last price; the exchange's may equal either.

For a session that began before the captures, the earlier trades are missing. The first statistics
that the exchange published, in a snapshot or in a message, are the baseline: later trades are
compared. Where an earlier trade is busted or corrected later, nothing can be compared.

A bust changes opening, high and low only if no trade is left (000 §19): ours are of the trades that
were not busted, and the exchange's are compared with those that include busted ones.

The binary feed states volume, average price and number of trades in one message, the legacy feed
each by itself, and crosses do not count in its average price (002 §7): there the average is
compared with ours without crosses, in whole sessions only.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from pregao.lake.analytics.bars import sums, with_average
from pregao.lake.analytics.engine import Column, DataFrame, F, Window
from pregao.lake.analytics.legacy import STATED
from pregao.lake.analytics.reading import INSTRUMENT, INSTRUMENTS, LakeDay, withdrawn
from pregao.lake.analytics.tables import (
    AVERAGE,
    NOTIONAL,
    PRICE,
    AnalyticsOptions,
    AnalyticsTable,
    column,
    conform,
    missing,
)
from pregao.lake.analytics.trades import TRADES, stored_trades
from pregao.umdf.phases import SESSION_CHANGE
from pregao.umdf.templates import (
    EXECUTION_STATISTICS,
    HIGH_PRICE,
    LAST_TRADE_PRICE,
    LOW_PRICE,
    OPENING_PRICE,
    SECURITY_GROUP_PHASE,
    SECURITY_STATUS,
    SNAPSHOT_HEADER,
    TRADE_BUST,
    value_names,
)

COLUMNS = (
    column("channel", pa.int16(), "Channel."),
    column("security_id", pa.int64(), "Instrument."),
    column("symbol", pa.string(), "Symbol of the instrument, if its definition was received."),
    column("session", pa.int32(), "Session of the day; 0 began before the capture did."),
    column("session_start_ns", pa.int64(), "Start of the session, if captured."),
    column("trading_session_id", pa.string(), "Regular or after-market, as last published."),
    column("open", PRICE, "Our opening price, without busted trades."),
    column("high", PRICE, "Highest price of all trades, without busted ones."),
    column("low", PRICE, "Lowest price of all trades, without busted ones."),
    column("last_price_high", PRICE, "Highest price of trades that set the last price."),
    column("last_price_low", PRICE, "Lowest price of trades that set the last price."),
    column("last", PRICE, "Our last price."),
    column("volume", pa.int64(), "Our quantity traded; for session 0, only what was captured."),
    column(
        "notional",
        NOTIONAL,
        "Our sum of price times quantity, without price divisor and contract multiplier.",
    ),
    column("vwap", AVERAGE, "Our average price."),
    column("trades", pa.int64(), "Our number of trades."),
    column("busts", pa.int64(), "Trades of the session that were busted."),
    column("published_open", PRICE, "Last opening price that the exchange published."),
    column("published_high", PRICE, "Last high that the exchange published."),
    column("published_low", PRICE, "Last low that the exchange published."),
    column("published_volume", pa.int64(), "Last volume that the exchange published."),
    column("published_vwap", PRICE, "Last average price that the exchange published."),
    column("published_trades", pa.int64(), "Last number of trades that the exchange published."),
    column("initial_high", PRICE, "Session 0: first published high."),
    column("initial_low", PRICE, "Session 0: first published low."),
    column("initial_volume", pa.int64(), "Session 0: first published volume."),
    column("initial_vwap", PRICE, "Session 0: first published average price."),
    column("initial_trades", pa.int64(), "Session 0: first published number of trades."),
    column(
        "compared", pa.list_(pa.field("element", pa.string())), "Statistics that could be compared."
    ),
    column("equal", pa.bool_(), "Whether all of these are equal; null if none was compared."),
    column("differences", pa.list_(pa.field("element", pa.string())), "Statistics that differ."),
)

_PUBLISHED = (
    column("stated_price", PRICE, ""),
    column("stated_volume", pa.int64(), ""),
    column("stated_vwap", PRICE, ""),
    column("stated_trades", pa.int64(), ""),
)
_SINGLE_PRICES = {"open": OPENING_PRICE, "high": HIGH_PRICE, "low": LOW_PRICE}
_EXTREMES = ("high", "low")
_OPENINGS = value_names("OpenCloseSettlFlag", 0, 1)
"""The opening price of the day or of the session."""
_VWAP_STEP = "0.0001"


def session_starts(day: LakeDay) -> DataFrame:
    """Return the session starts: instrument, event key and time of the message."""
    begins = F.col("security_trading_event").isin(*sorted(SESSION_CHANGE))
    started = F.col("transact_time_ns").alias("session_start_ns")
    own = day.messages(SECURITY_STATUS).where(begins).select(*INSTRUMENT, "place", started)
    groups = (
        day.messages(SECURITY_GROUP_PHASE)
        .where(begins)
        .select("channel", "security_group", "place", started)
    )
    members = day.instruments().drop("symbol")
    of_groups = groups.join(F.broadcast(members), ["channel", "security_group"])
    return own.unionByName(of_groups.drop("security_group"))


def with_sessions(day: LakeDay, frame: DataFrame) -> DataFrame:
    """Add the number and the start of each row's session, by its event key.

    Number 0 is a session that started before the data.
    """
    starts = session_starts(day).withColumn("begins", F.lit(1))
    both = frame.withColumn("begins", F.lit(0)).unionByName(starts, allowMissingColumns=True)
    so_far = Window.partitionBy(*INSTRUMENT).orderBy("place", F.desc("begins"))
    return (
        both.withColumn("session", F.sum("begins").over(so_far).cast("int"))
        .withColumn("session_start_ns", F.last("session_start_ns", ignorenulls=True).over(so_far))
        .where(F.col("begins") == 0)
        .drop("begins")
    )


def session_stats(day: LakeDay, trades: DataFrame) -> DataFrame:
    """Return the day's sessions of every instrument with trades or published statistics."""
    session_trades = trades.select(
        *INSTRUMENT, "place", "price", "size", "sets_last_price", "opening", "crossed", "busted",
        "trading_session_id", "trade_id", (F.col("publications") > 1).alias("corrected"),
    )  # fmt: skip
    rows = (
        session_trades.withColumn("statistic", F.lit(None).cast("int"))
        .unionByName(_published(day.messages), allowMissingColumns=True)
        .withColumn("snapshot", F.lit(False))
        .unionByName(_first_shown(day), allowMissingColumns=True)
        .unionByName(_busts(day, trades), allowMissingColumns=True)
    )
    placed = with_sessions(day, rows).where((F.col("session") == 0) | ~F.col("snapshot"))
    grouped = _since_known(placed).groupBy(*INSTRUMENT, "session", "session_start_ns")
    statistics = with_average(grouped.agg(*_ours(), *_theirs(), *_known(), *_increments()))
    legacy = F.col("channel").isin(*day.legacy_channels) if day.legacy_channels else F.lit(False)
    pairs = _agreements(legacy)
    compared = statistics.where("traded_or_published").select(
        "*",
        _names({name: compares for name, (compares, _) in pairs.items()}).alias("compared"),
        _names({name: compares & ~same for name, (compares, same) in pairs.items()}).alias(
            "differences"
        ),
    )
    equal = F.when(F.size("compared") > 0, F.size("differences") == 0)
    return conform(day.with_symbols(compared.withColumn("equal", equal)), COLUMNS)


def _names(chosen: dict[str, Column]) -> Column:
    """Return the names whose condition is true."""
    return F.array_compact(F.array(*[F.when(holds, F.lit(name)) for name, holds in chosen.items()]))


def _first_shown(day: LakeDay) -> DataFrame:
    """Return the values of each instrument's first snapshot, at its event key."""
    shown = _published(day.in_first_snapshots)
    last_trades = day.in_first_snapshots(LAST_TRADE_PRICE).select(
        *INSTRUMENT, "place", F.lit(LAST_TRADE_PRICE).alias("statistic"), "trade_id"
    )
    rows = shown.unionByName(last_trades, allowMissingColumns=True)
    kinds = [name for name in rows.columns if name not in (*INSTRUMENT, "statistic")]
    return (
        rows.groupBy(*INSTRUMENT, "statistic")
        .agg(F.min_by(F.struct(*kinds), "place").alias("first"))
        .select(*INSTRUMENT, "statistic", "first.*", F.lit(True).alias("snapshot"))
    )


def _busts(day: LakeDay, trades: DataFrame) -> DataFrame:
    """Return the busts, each with the key of its trade; -1 if that was not received."""
    identity = [*INSTRUMENT, "trade_date", "trade_id"]
    made = trades.select(*identity, F.col("place").alias("traded_at"))
    busts = day.messages(TRADE_BUST).select(*identity, "place").join(made, identity, "left")
    return busts.select(
        *INSTRUMENT,
        "place",
        F.coalesce("traded_at", F.lit(-1)).alias("busted_place"),
        F.lit(TRADE_BUST).alias("statistic"),
        F.lit(False).alias("snapshot"),
    )


def _since_known(rows: DataFrame) -> DataFrame:
    """Add where the statistics of each row's session become known.

    A trade counts where the statistics after it were published. ``known_at`` is null where none
    were published, and -1 in sessions received from their start. ``cleared_at`` is where the last
    trade that was left was busted, which withdrew the prices, or -1.
    """
    session = Window.partitionBy(*INSTRUMENT, "session")
    at = F.col("place")
    is_statistic = F.col(STATED["volume"])
    # From the last to the first: otherwise Spark would scan all following rows for each.
    backwards = session.orderBy(F.desc("place"), F.desc("snapshot"))
    so_far = session.orderBy("place")
    counted = F.last(F.when(is_statistic & ~F.col("snapshot"), at), ignorenulls=True).over(
        backwards
    )
    first = F.min(F.when(is_statistic, at)).over(session)
    none_left = is_statistic & ~F.col("snapshot") & (F.col("stated_trades") == 0)
    return rows.select(
        "*",
        F.coalesce(counted, at).alias("counted_at"),
        F.when(F.col("session") > 0, F.lit(-1)).otherwise(first).alias("known_at"),
        F.max("trade_id").over(so_far).alias("newest_trade"),
        F.coalesce(F.max(F.when(none_left, at)).over(session), F.lit(-1)).alias("cleared_at"),
    )


def _published(read: Callable[[int], DataFrame]) -> DataFrame:
    """Return the exchange's statistics: one row per message, with its template in ``statistic``."""
    found = read(EXECUTION_STATISTICS)

    def states(name: str) -> Column:
        given = F.col(name) if name in found.columns else F.lit(None).cast("boolean")
        return F.coalesce(given, F.lit(True)).alias(name)

    executions = found.select(
        *INSTRUMENT, "place", "trading_session_id",
        F.lit(EXECUTION_STATISTICS).alias("statistic"),
        F.lit(None).cast("decimal(18,4)").alias("stated_price"),
        F.col("trade_volume").alias("stated_volume"),
        F.col("vwap_px").alias("stated_vwap"),
        F.col("number_of_trades").alias("stated_trades"),
        *[states(name) for name in STATED.values()],
    )  # fmt: skip
    for template in _SINGLE_PRICES.values():
        messages = read(template)
        if template == OPENING_PRICE:
            messages = messages.where(F.col("open_close_settl_flag").isin(*sorted(_OPENINGS)))
        stands = ~withdrawn()
        single = messages.select(
            *INSTRUMENT,
            "place",
            F.lit(template).alias("statistic"),
            F.when(stands, F.col("md_entry_px")).alias("stated_price"),
            *missing(_PUBLISHED[1:]),
        )
        executions = executions.unionByName(single, allowMissingColumns=True)
    return executions


def _ours() -> list[Column]:
    """Return our statistics, from the trades that were not busted."""
    counts = F.col("statistic").isNull() & ~F.col("busted")
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
        F.count_if(F.col("statistic").isNull() & F.col("busted")).alias("busts"),
        # A value only from a snapshot yields no row.
        (F.count_if(F.col("statistic").isNull() | ~F.col("snapshot")) > 0).alias(
            "traded_or_published"
        ),
        F.max_by("trading_session_id", F.when(F.col("trading_session_id").isNotNull(), at)).alias(
            "trading_session_id"
        ),
    ]


def _theirs() -> list[Column]:
    """Return the last statistics of the exchange."""

    def last(name: str, stated: Column) -> Column:
        # Wrapped, so that a withdrawn statistic counts as published.
        return F.max_by(F.struct(name), F.when(stated, F.col("place")))[name]

    return [
        *[
            last("stated_price", F.col("statistic") == template).alias(f"published_{name}")
            for name, template in _SINGLE_PRICES.items()
        ],
        *[
            last(f"stated_{name}", F.col(states)).alias(f"published_{name}")
            for name, states in STATED.items()
        ],
    ]


def _known() -> list[Column]:
    """Return the first published statistics of a session that began before the data."""

    def first(name: str, stated: Column) -> Column:
        first_session = stated & (F.col("session") == 0)
        return F.min_by(F.struct(name), F.when(first_session, F.col("place")))[name]

    return [
        *[
            first("stated_price", F.col("statistic") == _SINGLE_PRICES[name]).alias(
                f"initial_{name}"
            )
            for name in _EXTREMES
        ],
        *[
            first(f"stated_{name}", F.col(states)).alias(f"initial_{name}")
            for name, states in STATED.items()
        ],
    ]


def _increments() -> list[Column]:
    """Return our statistics after the first known ones, and whether they can be compared."""
    is_trade = F.col("statistic").isNull()
    later = F.col("counted_at") > F.col("known_at")
    counts = is_trade & ~F.col("busted") & later
    price, size, at = F.col("price"), F.col("size"), F.col("place")
    # Busted trades keep their effect on prices, until no trade is left.
    stands = is_trade & later & (at > F.col("cleared_at"))
    lasting = stands & F.col("sets_last_price")
    opening = stands & F.col("opening")
    volume, notional, _ = sums(F.when(counts, price), F.when(counts, size))
    averaged = is_trade & ~F.col("busted") & ~F.col("crossed")
    uncrossed = sums(F.when(averaged, price), F.when(averaged, size))
    before = F.col("session") == 0
    # A trade with a number below the highest seen is a republication of one from before.
    again = is_trade & ((F.col("corrected") & ~later) | (F.col("trade_id") < F.col("newest_trade")))
    undone = (
        (F.col("statistic") == TRADE_BUST) & later & (F.col("busted_place") <= F.col("known_at"))
    )
    return [
        F.coalesce(volume, F.lit(0)).alias("later_volume"),
        F.coalesce(notional, F.lit(0)).alias("later_notional"),
        F.coalesce(uncrossed[0], F.lit(0)).alias("uncrossed_volume"),
        F.coalesce(uncrossed[1], F.lit(0)).alias("uncrossed_notional"),
        *[(F.count_if(F.col(states)) > 0).alias(states) for states in STATED.values()],
        F.count_if(counts).alias("later_trades"),
        F.coalesce(
            F.min_by(F.when(opening, price), F.when(opening, at)),
            F.min_by(F.when(lasting, price), F.when(lasting, at)),
        ).alias("later_open"),
        F.max(F.when(stands, price)).alias("later_high"),
        F.min(F.when(stands, price)).alias("later_low"),
        F.max(F.when(lasting, price)).alias("later_last_price_high"),
        F.min(F.when(lasting, price)).alias("later_last_price_low"),
        (F.any_value("known_at").isNotNull() & (F.count_if(before & (again | undone)) == 0)).alias(
            "settled"
        ),
        F.coalesce(
            F.max(F.when(F.col(STATED["volume"]), F.col("place"))) > F.any_value("known_at"),
            F.lit(False),
        ).alias("published_later"),
    ]


def _agreements(legacy: Column) -> dict[str, tuple[Column, Column]]:
    """Return for each statistic whether it can be compared, and whether ours is equal.

    ``legacy`` tells the rows of the legacy feed, which need not state every statistic.
    """
    complete = F.col("session") > 0
    moved = F.col("published_later") | (F.col("later_trades") > 0)
    compares = complete | (F.col("settled") & moved)
    known_volume = F.coalesce("initial_volume", F.lit(0))
    volume = F.col("published_volume").cast("decimal(19,0)")
    before = known_volume.cast("decimal(19,0)")
    earlier = F.coalesce(F.col("initial_vwap") * before, F.lit(0))
    off = F.abs(F.col("published_vwap") * volume - earlier - F.col("later_notional"))
    step = F.lit(_VWAP_STEP).cast("decimal(5,4)")
    published_volume = F.coalesce("published_volume", F.lit(0))
    published_trades = F.coalesce("published_trades", F.lit(0))
    known_trades = F.coalesce("initial_trades", F.lit(0))
    return {
        "open": (complete, F.col("published_open").eqNullSafe(F.col("later_open"))),
        "high": (compares & _known_extreme("high"), _either("high", F.greatest)),
        "low": (compares & _known_extreme("low"), _either("low", F.least)),
        "volume": (
            compares & (~legacy | F.col(STATED["volume"])),
            published_volume - known_volume == F.col("later_volume"),
        ),
        # The exchange rounds to four decimals; the documents do not state how.
        "vwap": (
            F.when(legacy, complete & F.col(STATED["vwap"])).otherwise(compares),
            F.when(legacy, _same_without_crosses(step))
            .when(published_volume == 0, F.col("published_vwap").isNull())
            .otherwise(F.coalesce(off < step * (volume + before), F.lit(False))),
        ),
        "trades": (
            F.when(legacy, complete & F.col(STATED["trades"])).otherwise(compares),
            published_trades - known_trades == F.col("later_trades"),
        ),
    }


def _same_without_crosses(step: Column) -> Column:
    """Whether the published average price is ours of all trades but crosses."""
    volume = F.col("uncrossed_volume").cast("decimal(19,0)")
    off = F.abs(F.col("published_vwap") * volume - F.col("uncrossed_notional"))
    return F.when(F.col("uncrossed_volume") == 0, F.col("published_vwap").isNull()).otherwise(
        F.coalesce(off < step * volume, F.lit(False))
    )


def _known_extreme(name: str) -> Column:
    """Whether a high or low can be compared: not in session 0 without a published one."""
    return (F.col("session") > 0) | F.col(f"initial_{name}").isNotNull()


def _either(name: str, extreme: Callable[..., Column]) -> Column:
    published, known = F.col(f"published_{name}"), F.col(f"initial_{name}")
    ours = [F.col(f"later_{name}"), F.col(f"later_last_price_{name}")]
    return published.eqNullSafe(extreme(known, ours[0])) | published.eqNullSafe(
        extreme(known, ours[1])
    )


def _build(day: LakeDay, _wanted: AnalyticsOptions) -> DataFrame:
    return session_stats(day, stored_trades(day))


SESSION_STATS = AnalyticsTable(
    "session_stats",
    "Our statistics of a session, compared with the exchange's.",
    COLUMNS,
    _build,
    (
        SECURITY_STATUS,
        SECURITY_GROUP_PHASE,
        EXECUTION_STATISTICS,
        LAST_TRADE_PRICE,
        TRADE_BUST,
        SNAPSHOT_HEADER,
        *_SINGLE_PRICES.values(),
    ),
    (INSTRUMENTS, "packets"),
    (TRADES.name,),
    sort_by=("channel", "security_id", "session"),
)
