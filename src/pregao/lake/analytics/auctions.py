"""Table ``auctions``: each auction of an instrument, and its uncrossing price.

An instrument is in an auction while it is reserved or in the final closing call. The trades that
end an auction precede the message of its end, in an earlier event or the same one, and have no
execution summary. With them or earlier, the exchange may withdraw the theoretical price and the
imbalance: the result of an auction is the last value published before that.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pregao.lake.analytics.engine import Column, DataFrame, F, Window, spark_type
from pregao.lake.analytics.reading import INSTRUMENT, LakeDay, bit, withdrawn
from pregao.lake.analytics.status import STATUS, lines
from pregao.lake.analytics.tables import PRICE, AnalyticsOptions, AnalyticsTable, column, conform
from pregao.lake.analytics.trades import CONDITIONS, TRADES, stored_trades
from pregao.umdf.phases import Status
from pregao.umdf.templates import AUCTION_IMBALANCE, THEORETICAL_OPENING_PRICE, flag

KINDS = (Status.RESERVED.name, Status.FINAL_CLOSING_CALL.name)


def _path(*members: tuple[str, Any]) -> Any:
    return pa.list_(pa.field("element", pa.struct([pa.field(*member) for member in members])))


COLUMNS = (
    column("channel", pa.int16(), "Channel."),
    column("security_id", pa.int64(), "Instrument."),
    column("symbol", pa.string(), "Symbol of the instrument, if its definition was received."),
    column("security_group", pa.string(), "Group of the instrument."),
    column("auction", pa.int32(), "Number of the instrument's auction on that day, from 1."),
    column("kind", pa.string(), "RESERVED, or FINAL_CLOSING_CALL."),
    column("own_status", pa.bool_(), "Whether it was called for this instrument alone."),
    column("start_ns", pa.int64(), "Start time."),
    column("end_ns", pa.int64(), "End time; null if it was running at the end of the data."),
    column("scheduled_end_ns", pa.int64(), "Last published estimated end."),
    column("extensions", pa.int32(), "Number of different estimated ends after the first."),
    column("uncross_price", PRICE, "Price of the trades that ended it; null if none did."),
    column("uncross_volume", pa.int64(), "Quantity of these trades."),
    column("uncross_trades", pa.int64(), "Number of these trades."),
    column("theoretical_price", PRICE, "Last theoretical price before the uncrossing."),
    column("theoretical_size", pa.int64(), "Last theoretical quantity before it."),
    column("imbalance_side", pa.string(), "Side with more quantity then; or BALANCED."),
    column("imbalance_size", pa.int64(), "Unmatched quantity then."),
    column(
        "theoretical",
        _path(("time_ns", pa.int64()), ("price", PRICE), ("size", pa.int64())),
        "Theoretical prices in order; a null price withdraws the previous one.",
    ),
    column(
        "imbalances",
        _path(("time_ns", pa.int64()), ("side", pa.string()), ("size", pa.int64())),
        "Imbalances in order; a null side withdraws the previous one.",
    ),
    column("start_event", pa.int64(), "Event of the channel that started it."),
    column("end_event", pa.int64(), "Event of the channel that ended it."),
)

_MORE_BUYERS = flag("ImbalanceCondition", "ImbalanceMoreBuyers")
_MORE_SELLERS = flag("ImbalanceCondition", "ImbalanceMoreSellers")
# Order within an event: messages that end an auction (withdrawals, trades), then the change of
# state, then messages that follow from it.
_BEFORE, _CHANGE, _AFTER = 0, 1, 2


def auctions(day: LakeDay, trades: DataFrame) -> DataFrame:
    """Return the day's auctions."""
    states = _states(day)
    rows = (
        states.unionByName(_uncrossing(trades), allowMissingColumns=True)
        .unionByName(_theoretical(day), allowMissingColumns=True)
        .unionByName(_imbalances(day), allowMissingColumns=True)
    )
    so_far = Window.partitionBy(*INSTRUMENT).orderBy("event", "order", "at", "line")
    running = F.last(F.when(F.col("order") == _CHANGE, F.struct("number")), ignorenulls=True)
    placed = rows.withColumn("auction", running.over(so_far)["number"])
    found = (
        placed.where(F.col("auction").isNotNull())
        .groupBy(*INSTRUMENT, "auction")
        .agg(*_published_together())
    )
    uncrossed = F.col("uncross_trades") > 0
    # An imbalance that was withdrawn while prices continued did not exist at the end.
    price_at = F.coalesce("standing_price.place", F.lit(0))
    completed = found.select(
        "*",
        *_before_the_end("price", ("price", "size"), "theoretical", uncrossed),
        *_before_the_end(
            "imbalance",
            ("side", "size"),
            "imbalance",
            uncrossed & (F.col("last_imbalance.place") > price_at),
        ),
    )
    return conform(day.with_symbols(completed), COLUMNS)


def _before_the_end(
    published: str, members: tuple[str, ...], name: str, uncrossed: Column
) -> list[Column]:
    """Return the last value; if it was withdrawn only for the uncrossing, the one before."""
    last, standing = F.col(f"last_{published}"), F.col(f"standing_{published}")
    for_the_end = uncrossed | last["event"].eqNullSafe(F.col("end_event"))
    chosen = F.when(for_the_end, standing).otherwise(last)
    return [chosen[member].alias(f"{name}_{member}") for member in members]


def _states(day: LakeDay) -> DataFrame:
    """Return the changes of state; those within an auction have its number."""
    in_order = Window.partitionBy(*INSTRUMENT).orderBy("at", "line")
    instrument_states = lines(day).where(F.col("security_id").isNotNull())
    begins = F.col("status").isin(*KINDS) & ~F.col("status").eqNullSafe(
        F.lag("status").over(in_order)
    )
    numbered = instrument_states.withColumn("begins", begins.cast("int")).withColumn(
        "count", F.sum("begins").over(in_order).cast("int")
    )
    return numbered.select(
        *INSTRUMENT,
        # A state from a snapshot is in effect from the last incremental message on.
        F.coalesce("event", "at").alias("event"),
        F.lit(_CHANGE).alias("order"),
        "at",
        "line",
        F.when(F.col("status").isin(*KINDS), F.col("count")).alias("number"),
        "security_group",
        F.col("status").alias("kind"),
        "own_status",
        "from_ns",
        "until_ns",
        "auction_end_ns",
        F.col("event").alias("message_event"),
        F.lead("event").over(in_order).alias("next_event"),
    )


def _uncrossing(trades: DataFrame) -> DataFrame:
    """Return possible trades of an uncrossing, with original values and including busted ones."""
    by_hand = F.lit(0)
    for name in ("crossed", "out_of_sequence", "on_behalf"):
        by_hand = by_hand.bitwiseOR(F.lit(CONDITIONS[name]))
    uncrossing_trades = trades.where(
        F.col("aggressor_side").isNull()
        & F.col("trd_sub_type").isNull()
        & ~F.col("forward")
        & (F.col("original_trade_condition").bitwiseAND(by_hand) == 0)
    )
    return uncrossing_trades.select(
        *INSTRUMENT,
        "event",
        F.lit(_BEFORE).alias("order"),
        F.col("place").alias("at"),
        F.struct(
            F.col("original_price").alias("price"), F.col("original_size").alias("size")
        ).alias("trade"),
    )


def _order() -> Column:
    """Return the order within an event: a withdrawal belongs to the state before the change."""
    return F.when(withdrawn(), _BEFORE).otherwise(_AFTER)


def _theoretical(day: LakeDay) -> DataFrame:
    stands = ~withdrawn()
    return day.messages(THEORETICAL_OPENING_PRICE).select(
        *INSTRUMENT,
        "event",
        _order().alias("order"),
        F.col("place").alias("at"),
        F.struct(
            "place",
            "event",
            stands.alias("stands"),
            F.col("md_entry_timestamp_ns").alias("time_ns"),
            F.when(stands, F.col("md_entry_px")).alias("price"),
            F.when(stands, F.col("md_entry_size")).alias("size"),
        ).alias("price_update"),
    )


def _imbalances(day: LakeDay) -> DataFrame:
    stands = ~withdrawn()
    side = (
        F.when(bit("imbalance_condition", _MORE_BUYERS), F.lit("BUY"))
        .when(bit("imbalance_condition", _MORE_SELLERS), F.lit("SELL"))
        .otherwise(F.lit("BALANCED"))
    )
    return day.messages(AUCTION_IMBALANCE).select(
        *INSTRUMENT,
        "event",
        _order().alias("order"),
        F.col("place").alias("at"),
        F.struct(
            "place",
            "event",
            stands.alias("stands"),
            F.col("md_entry_timestamp_ns").alias("time_ns"),
            F.when(stands, side).alias("side"),
            F.when(stands, F.col("md_entry_size")).alias("size"),
        ).alias("imbalance_update"),
    )


def _published_together() -> list[Column]:
    """Return the aggregates of an auction's rows."""
    change = F.when(F.col("order") == _CHANGE, F.col("line"))
    return [
        F.min_by("security_group", change).alias("security_group"),
        F.min_by("kind", change).alias("kind"),
        F.min_by("own_status", change).alias("own_status"),
        F.min_by("from_ns", change).alias("start_ns"),
        F.max_by("until_ns", change).alias("end_ns"),
        F.max_by("auction_end_ns", F.when(F.col("auction_end_ns").isNotNull(), change)).alias(
            "scheduled_end_ns"
        ),
        F.greatest(F.count_distinct("auction_end_ns") - 1, F.lit(0)).alias("extensions"),
        F.max_by("trade.price", F.when(F.col("trade").isNotNull(), F.col("at"))).alias(
            "uncross_price"
        ),
        F.coalesce(F.sum("trade.size"), F.lit(0)).alias("uncross_volume"),
        F.count("trade").alias("uncross_trades"),
        _in_order("price_update", "theoretical"),
        _in_order("imbalance_update", "imbalances"),
        *[
            F.max_by(f"{kind}_update", F.when(counts, F.col("at"))).alias(f"{name}_{kind}")
            for kind in ("price", "imbalance")
            for name, counts in (
                ("last", F.col(f"{kind}_update").isNotNull()),
                ("standing", F.col(f"{kind}_update.stands")),
            )
        ],
        F.min_by("message_event", change).alias("start_event"),
        F.max_by("next_event", change).alias("end_event"),
    ]


def _in_order(published: str, name: str) -> Column:
    """Return a list of the values in message order, in the type of the column."""
    kind = next(field.type for field in COLUMNS if field.name == name)
    members = [member.name for member in kind.value_type]
    shaped = F.transform(
        F.sort_array(F.collect_list(published)),
        lambda one: F.struct(*[one[name] for name in members]),
    )
    return shaped.cast(spark_type(kind)).alias(name)


def _build(day: LakeDay, _wanted: AnalyticsOptions) -> DataFrame:
    return auctions(day, stored_trades(day))


AUCTIONS = AnalyticsTable(
    "auctions",
    "Auction of an instrument: its theoretical prices, imbalances and uncrossing.",
    COLUMNS,
    _build,
    (*STATUS.templates, THEORETICAL_OPENING_PRICE, AUCTION_IMBALANCE),
    STATUS.others,
    (TRADES.name,),
    sort_by=("channel", "security_id", "auction"),
)
