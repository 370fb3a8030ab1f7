"""Table ``orders``: the history of every order of the public book.

The feed does not state which orders traded. An order that shrinks or disappears in an event after
its trades, on the side that did not aggress, was filled: in message order, until the traded
quantity is used up. An order that shrinks or disappears otherwise was reduced or canceled.

Orders that existed before the capture, or entered while packets were missing, are known from the
snapshot that starts or heals their book.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from pregao.lake.analytics.engine import Column, DataFrame, F, Window, all_of
from pregao.lake.analytics.order_flow import ENTRIES, REQUESTS, TIMES, answers
from pregao.lake.analytics.order_positions import (
    ACTIONS,
    DELETE_FROM,
    DELETE_THRU,
    removal_rows,
    with_chains,
)
from pregao.lake.analytics.order_snapshots import LOST, SNAPSHOT, snapshot_orders
from pregao.lake.analytics.reading import (
    INSTRUMENT,
    INSTRUMENTS,
    LakeDay,
    incremental_templates,
    is_recovery,
    one_name,
)
from pregao.lake.analytics.tables import PRICE, AnalyticsOptions, AnalyticsTable, column, conform
from pregao.lake.analytics.trades import TICKS, event_time, with_level_orders
from pregao.umdf.keys import MESSAGE_KEY, key_field
from pregao.umdf.streams import ONLY_SNAPSHOT
from pregao.umdf.templates import (
    BID,
    CHANNEL_RESET,
    DELETE_ORDER,
    EMPTY_BOOK,
    EXECUTION_SUMMARY,
    FORWARD_TRADE,
    MASS_DELETE_ORDERS,
    OFFER,
    ORDER,
    TRADE,
    value_names,
)

_BIDS = value_names("MDEntryType", BID)
_OFFERS = value_names("MDEntryType", OFFER)

COLUMNS = (
    key_field("channel"),
    column("security_id", pa.int64(), "Instrument."),
    column("symbol", pa.string(), "Symbol of the instrument, if its definition was received."),
    column("secondary_order_id", pa.int64(), "Number of the order on the public feed."),
    column("side", pa.string(), "BUY or SELL."),
    column("firm", pa.int64(), "Firm that entered it."),
    column("implied", pa.bool_(), "Whether it is an implied order; null below schema version 10."),
    column("price", PRICE, "Price at entry; null for an order without one."),
    column("size", pa.int64(), "Quantity shown when it was first seen, or before that change."),
    column("origin", pa.string(), "Where it appeared first: message, or snapshot."),
    column("entered_ns", pa.int64(), "Time when it got its queue position; null if unknown."),
    column("entry_seen", pa.bool_(), "Whether its entry was seen, not only later messages."),
    column("queue_position", pa.int32(), "Orders at its price then, itself included; from ticks."),
    column("changes", pa.int64(), "Messages that changed it."),
    column("reductions", pa.int64(), "Number of reductions, except by trades."),
    column("reduced_quantity", pa.int64(), "Total quantity of these reductions."),
    column("fills", pa.int64(), "Number of trades that reduced or removed it."),
    column("filled_quantity", pa.int64(), "Total quantity traded; null if a size is unknown."),
    column("unobserved_quantity", pa.int64(), "Reduction while messages were missing."),
    column("last_change_ns", pa.int64(), "Time of its last change, except its end."),
    column("last_size", pa.int64(), "Quantity shown before its end, or at the end of the data."),
    column(
        "ended_ns", pa.int64(), "Time when it left the book; null if it stays or is UNOBSERVED."
    ),
    column(
        "end_reason",
        pa.string(),
        "FILLED, CANCELLED, SIDE_CANCELLED, BOOK_EMPTIED; UNOBSERVED where messages were missing; "
        "or null.",
    ),
    column("lifetime_ns", pa.int64(), "From its entry to its end."),
    column("replenishes", pa.int64(), "Filled order that it likely replenishes."),
    column("chain", pa.int64(), "First order of the likely iceberg."),
    column("chain_position", pa.int32(), "Position in that chain, from 1."),
    column("event", pa.int64(), "Event of its first message; null from a snapshot."),
    key_field(
        "sequence_version",
        "Sequence version of that packet; for a snapshot, of the last packet it includes.",
    ),
    key_field("sequence_number", "Number of that packet."),
    key_field("index_in_packet", "Index of the message in that packet; null from a snapshot."),
    column("end_event", pa.int64(), "Event in which it left the book."),
    column(
        "session_id", pa.int64(), "Session that entered it; this and the following from EntryPoint."
    ),
    column("cl_ord_id", pa.int64(), "Client's number of the request that entered it."),
    column("order_id", pa.int64(), "Number of the order on the private flow."),
    column("t1_ns", pa.int64(), "T1: the client sent that request."),
    column("t2_ns", pa.int64(), "T2: the gateway received it."),
    column("t4_ns", pa.int64(), "T4: the matching engine received it."),
    column("t6_ns", pa.int64(), "T6: the gateway answered."),
)

_ORDER = [*INSTRUMENT, "secondary_order_id"]
_FIRST = [
    "place", "event", "moment", *MESSAGE_KEY, "action", "recovery", "side", "size", "before",
    "implied",
]  # fmt: skip
_DISTINGUISHED = ("action", "recovery", "size", "before")
_EVENT = [*INSTRUMENT, "event"]
_MOMENT = [*INSTRUMENT, "moment"]
_REQUEST = ("session_id", "cl_ord_id", "order_id", *TIMES)


def orders(day: LakeDay) -> DataFrame:
    """Return the histories of the day's orders."""
    # Read from the files once, regardless of the number of uses.
    found = day.keep(snapshot_orders(day))
    lives = _lives(_with_fills(day, _with_sizes(_acts(day, found))))
    # Chains read all orders three times.
    ended = day.keep(_with_clearings(day, lives, found.where(F.col("action") == LOST)))
    chained = with_chains(ended)
    if day.has(TICKS):
        queued = _with_queue_positions(day, chained)
    else:
        queued = chained.withColumn("queue_position", F.lit(None).cast("int"))
    completed = queued.withColumn("lifetime_ns", F.col("ended_ns") - F.col("entered_ns"))
    return conform(day.with_symbols(_with_requests(day, completed)), COLUMNS)


def order_acts(day: LakeDay) -> DataFrame:
    """Return the binary feed's updates of single orders, each with whether a trade caused it."""
    found = day.keep(snapshot_orders(day, legacy=False))
    return _with_fills(day, _with_sizes(_acts(day, found)))


def book_clearings(day: LakeDay) -> DataFrame:
    """Return where a side (both, if null) was cleared, or its orders became unknown."""
    found = snapshot_orders(day, legacy=False)
    return _whole_clearings(day, found.where(F.col("action") == LOST))


def _with_requests(day: LakeDay, lives: DataFrame) -> DataFrame:
    """Add the requests that entered the orders, where EntryPoint was captured."""
    reports = answers(day, ENTRIES)
    if reports is None:
        return lives.select("*", *[F.lit(None).cast("bigint").alias(name) for name in _REQUEST])
    # The first report of a number is about its entry; one that was resent is equal.
    first = reports.groupBy("security_id", "secondary_order_id").agg(
        F.min_by(F.struct(*_REQUEST), "t6_ns").alias("request")
    )
    known = first.select("security_id", "secondary_order_id", "request.*")
    return lives.join(known, ["security_id", "secondary_order_id"], "left")


def _side() -> Column:
    entry = F.col("md_entry_type")
    return F.when(entry.isin(*sorted(_BIDS)), F.lit("BUY")).when(
        entry.isin(*sorted(_OFFERS)), F.lit("SELL")
    )


def _acts(day: LakeDay, found: DataFrame) -> DataFrame:
    """Return the updates of single orders: NEW, CHANGE or DELETE; or SNAPSHOT.

    ``found`` has the orders of snapshots and of the legacy feed. ``moment`` groups what belongs
    together: the event, or the time on the legacy feed, which has no events.
    """
    common = [*_ORDER, "place", "event", *MESSAGE_KEY]
    moment = F.col("event").alias("moment")
    order_messages = day.messages(ORDER)
    changed = order_messages.select(
        *common,
        moment,
        _side().alias("side"),
        event_time().alias("time_ns"),
        one_name("md_update_action", ACTIONS).alias("action"),
        F.col("md_entry_position_no").alias("position"),
        F.col("md_entry_px").alias("price"),
        F.col("md_entry_size").alias("size"),
        F.col("md_entry_prev_size").alias("stated_before"),
        F.col("entering_firm").alias("firm"),
        F.col("md_insert_timestamp_ns").alias("insert_ns"),
        day.is_implied(order_messages).alias("implied"),
        is_recovery().alias("recovery"),
    )
    deleted = day.messages(DELETE_ORDER).select(
        *common,
        moment,
        _side().alias("side"),
        event_time().alias("time_ns"),
        F.lit("DELETE").alias("action"),
        F.col("md_entry_position_no").alias("position"),
        F.col("md_entry_px").alias("price"),
        F.col("md_entry_size").alias("stated_before"),
    )
    single = changed.unionByName(deleted, allowMissingColumns=True).unionByName(
        found.where(F.col("action") != LOST), allowMissingColumns=True
    )
    from_top_clearings = _clearings(day).where(F.col("action") == DELETE_FROM)
    if from_top_clearings.isEmpty():
        return single
    lost = found.where(F.col("action") == LOST)
    from_top = removal_rows(
        single.unionByName(_clearings(day), allowMissingColumns=True).unionByName(
            lost, allowMissingColumns=True
        )
    )
    deleted_too = from_top.select("*", F.lit("DELETE").alias("action"), moment)
    return single.unionByName(deleted_too, allowMissingColumns=True)


def _with_sizes(acts: DataFrame) -> DataFrame:
    """Add the size before: as published, or as the previous message left it."""
    so_far = Window.partitionBy(*_ORDER).orderBy("place")
    left = F.lag("size").over(so_far)
    stated = F.coalesce("stated_before", F.when(F.col("action") == SNAPSHOT, F.col("size")))
    sized = acts.withColumn("before", F.coalesce("stated_before", left)).withColumn(
        "unseen", F.coalesce(left - stated, F.lit(0))
    )
    return sized.withColumn(
        "less",
        F.when(F.col("action") == "CHANGE", F.greatest(F.col("before") - F.col("size"), F.lit(0)))
        .when(F.col("action") == "DELETE", F.col("before"))
        .otherwise(F.lit(0)),
    )


def _with_fills(day: LakeDay, acts: DataFrame) -> DataFrame:
    """Add whether a trade caused each update."""
    day_trades = all_of(_traded(day))
    volumes = day_trades.groupBy(*_MOMENT).agg(
        F.sum("md_entry_size").alias("volume"), F.min("place").alias("traded_at")
    )
    aggressors = (
        day.messages(EXECUTION_SUMMARY)
        .groupBy(*INSTRUMENT, F.col("event").alias("moment"))
        .agg(F.min_by("aggressor_side", "place").alias("aggressor_side"))
    )
    traded = volumes.join(aggressors, _MOMENT, "left")
    joined = acts.join(traded, _MOMENT, "left")
    passive = ~F.col("side").eqNullSafe(F.col("aggressor_side"))
    after_trade = (
        (F.col("place") > F.col("traded_at")) & passive & F.col("action").isin("CHANGE", "DELETE")
    )
    so_far = Window.partitionBy(*_MOMENT, "side").orderBy("place")
    used = F.sum(F.when(after_trade, F.col("less")).otherwise(0)).over(so_far)
    # Where the size of a deletion is optional, it is absent exactly after a trade.
    unsized = (F.col("action") == "DELETE") & F.col("stated_before").isNull()
    less = F.col("less")
    filled = after_trade & (
        ((less > 0) & ((used <= F.col("volume")) | unsized)) | (less.isNull() & unsized)
    )
    return joined.withColumn("filled", F.coalesce(filled, F.lit(False)))


def _traded(day: LakeDay) -> Iterator[DataFrame]:
    """Yield the trades of each moment."""
    for template in (TRADE, FORWARD_TRADE):
        for found, moment in (
            (day.binary_messages(template), "event"),
            (day.legacy_messages(template), "md_entry_timestamp_ns"),
        ):
            if found is not None:
                own = F.col(moment).alias("moment")
                yield found.select(*INSTRUMENT, own, "place", "md_entry_size")


def _lives(acts: DataFrame) -> DataFrame:
    """Return one row per order: the aggregates of its messages."""
    change = F.col("action") == "CHANGE"
    gone = F.col("action") == "DELETE"
    reduced = change & ~F.col("filled") & (F.col("less") > 0)
    at = F.col("place")
    grouped = acts.groupBy(*_ORDER).agg(
        F.min_by(F.struct(*_FIRST), at).alias("first"),
        F.max_by(
            F.struct("place", "event", "moment", "time_ns", "action", "filled", "size", "before"),
            at,
        ).alias("final"),
        F.min_by("firm", F.when(~gone, at)).alias("firm"),
        F.min_by("price", at).alias("price"),
        F.min_by("insert_ns", F.when(~gone, at)).alias("entered_ns"),
        F.min_by(F.col("volume").isNotNull(), at).alias("in_trading"),
        F.count_if(change).alias("changes"),
        F.count_if(reduced).alias("reductions"),
        F.coalesce(F.sum(F.when(reduced, F.col("less"))), F.lit(0)).alias("reduced_quantity"),
        F.count_if("filled").alias("fills"),
        F.when(
            F.count_if(F.col("filled") & F.col("less").isNull()) == 0,
            F.coalesce(F.sum(F.when(F.col("filled"), F.col("less"))), F.lit(0)),
        ).alias("filled_quantity"),
        F.sum("unseen").alias("unobserved_quantity"),
        F.max_by("time_ns", F.when(change, at)).alias("last_change_ns"),
    )
    deleted = F.col("final.action") == "DELETE"
    reason = F.when(F.col("final.filled"), F.lit("FILLED")).otherwise(F.lit("CANCELLED"))
    seen = (F.col("first.action") == "NEW") & ~F.col("first.recovery")
    # A change or end as the first message of an order has its size before.
    earlier = F.when(F.col("first.action").isin("CHANGE", "DELETE"), F.col("first.before"))
    origin = F.when(F.col("first.action") == SNAPSHOT, "snapshot").otherwise("message")
    return grouped.select(
        *_ORDER,
        *[f"first.{name}" for name in _FIRST if name not in _DISTINGUISHED],
        F.coalesce(earlier, F.col("first.size")).alias("size"),
        origin.alias("origin"),
        *["firm", "price", "entered_ns", "changes", "reductions", "reduced_quantity"],
        *["fills", "filled_quantity", "unobserved_quantity", "last_change_ns"],
        seen.alias("entry_seen"),
        (seen & F.col("in_trading")).alias("entered_in_trading"),
        F.when(deleted, F.col("final.before")).otherwise(F.col("final.size")).alias("last_size"),
        F.when(deleted, F.col("final.time_ns")).alias("ended_ns"),
        F.when(deleted, reason).alias("end_reason"),
        F.when(deleted, F.col("final.event")).alias("end_event"),
        F.when(deleted, F.col("final.place")).alias("end_place"),
        F.when(deleted, F.col("final.moment")).alias("last_moment"),
        F.col("final.place").alias("last_place"),
    )


def _clearings(day: LakeDay) -> DataFrame:
    """Return the messages that clear a side, or (without side or instrument) books."""
    cleared = day.binary_messages(MASS_DELETE_ORDERS)
    older = day.legacy_messages(MASS_DELETE_ORDERS)
    if older is not None:
        # The legacy feed's deletions from the top are already resolved to orders.
        sides = older.where(one_name("md_update_action", ACTIONS) == DELETE_THRU)
        cleared = cleared.unionByName(sides, allowMissingColumns=True)
    mass = cleared.select(
        *INSTRUMENT, "place", "event", event_time().alias("time_ns"), _side().alias("side"),
        one_name("md_update_action", ACTIONS).alias("action"),
        F.col("md_entry_position_no").alias("position"),
    )  # fmt: skip
    emptied = day.messages(EMPTY_BOOK).select(
        *INSTRUMENT, "place", "event", F.col("md_entry_timestamp_ns").alias("time_ns"),
        F.lit("EMPTY").alias("action"),
    )  # fmt: skip
    reset = day.messages(CHANNEL_RESET).select(
        "channel", "place", "event", F.col("md_entry_timestamp_ns").alias("time_ns"),
        F.lit("EMPTY").alias("action"),
    )  # fmt: skip
    listed = day.instruments().select(*INSTRUMENT)
    of_each = reset.join(F.broadcast(listed), "channel")
    return mass.unionByName(emptied, allowMissingColumns=True).unionByName(
        of_each, allowMissingColumns=True
    )


def _whole_clearings(day: LakeDay, lost: DataFrame) -> DataFrame:
    """Return the clearings that remove all orders, and where messages were lost."""
    return (
        _clearings(day)
        .where(F.col("action") != DELETE_FROM)
        .unionByName(lost.select(*INSTRUMENT, "place", "action"), allowMissingColumns=True)
    )


def _with_clearings(day: LakeDay, lives: DataFrame, lost: DataFrame) -> DataFrame:
    """Add the ends of orders that were removed with their side or book.

    An order that is resent after its book was emptied continues, as does one in the snapshot after
    which messages are known again (``lost`` has where messages were missing).
    """
    clearings = _whole_clearings(day, lost)
    sides = F.when(F.col("side").isNull(), F.array(F.lit("BUY"), F.lit("SELL"))).otherwise(
        F.array("side")
    )
    reason = (
        F.when(F.col("action") == DELETE_THRU, F.lit("SIDE_CANCELLED"))
        .when(F.col("action") == LOST, F.lit("UNOBSERVED"))
        .otherwise(F.lit("BOOK_EMPTIED"))
    )
    cleared = clearings.select(
        *INSTRUMENT,
        F.explode(sides).alias("side"),
        F.col("place").alias("last_place"),
        F.struct("time_ns", "event", "place", reason.alias("reason")).alias("clearing"),
    )
    both = lives.unionByName(cleared, allowMissingColumns=True)
    # From the last message to the first: otherwise Spark would scan all following rows for each.
    backwards = Window.partitionBy(*INSTRUMENT, "side").orderBy(F.desc("last_place"))
    found = both.withColumn("next", F.last("clearing", ignorenulls=True).over(backwards)).where(
        F.col("clearing").isNull()
    )
    stands = F.col("end_place").isNull()
    return found.select(
        *[name for name in lives.columns if not name.startswith("end")],
        F.when(stands, F.col("next.time_ns")).otherwise(F.col("ended_ns")).alias("ended_ns"),
        F.when(stands, F.col("next.reason")).otherwise(F.col("end_reason")).alias("end_reason"),
        F.when(stands, F.col("next.event")).otherwise(F.col("end_event")).alias("end_event"),
        F.when(stands, F.col("next.place")).otherwise(F.col("end_place")).alias("end_place"),
    )


def _with_queue_positions(day: LakeDay, lives: DataFrame) -> DataFrame:
    """Add the position in the queue of their price at which orders entered."""
    # The level after the event no longer has the orders that left it in the same event.
    stays = F.col("entry_seen") & ~F.col("event").eqNullSafe(F.col("end_event"))
    same_level = Window.partitionBy(*_EVENT, "side", "price").orderBy(F.desc("place"))
    later = F.count_if(stays).over(same_level) - 1
    counted = with_level_orders(day, lives.withColumn("later", later))
    position = F.when(stays, F.col("level_orders") - F.col("later"))
    return counted.withColumn("queue_position", position)


def _build(day: LakeDay, _wanted: AnalyticsOptions) -> DataFrame:
    return orders(day)


ORDERS = AnalyticsTable(
    "orders",
    "History of an order of the public book; channels with price levels have none.",
    COLUMNS,
    _build,
    # Messages of all templates are counted: a missing one makes a snapshot count.
    tuple(sorted({*incremental_templates(), *ONLY_SNAPSHOT})),
    (INSTRUMENTS, TICKS, *ENTRIES, *REQUESTS),
    sort_by=("channel", "security_id", "secondary_order_id"),
)
