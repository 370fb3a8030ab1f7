"""Book before and after an event, from the table ``ticks``."""

from __future__ import annotations

import pyarrow as pa

from pregao.lake.analytics.engine import Column, DataFrame, F, Window
from pregao.lake.analytics.reading import INSTRUMENT, LakeDay
from pregao.lake.analytics.tables import PRICE, column
from pregao.umdf.events import EVENT_NUMBER, EVENT_VERSION

TICKS = "ticks"

QUOTE = (
    column("bid_price", PRICE, "Best bid before the event; null without ticks."),
    column("bid_size", pa.int64(), "Quantity at the best bid before the event."),
    column("bid_orders", pa.int32(), "Orders at the best bid before the event."),
    column("ask_price", PRICE, "Best offer before the event; null without ticks."),
    column("ask_size", pa.int64(), "Quantity at the best offer before the event."),
    column("ask_orders", pa.int32(), "Orders at the best offer before the event."),
    column("spread", PRICE, "Best offer minus best bid before the event."),
)
"""Columns of the book before an event."""

_BEST = [field.name for field in QUOTE if field.name != "spread"]
_SIDES = {"BUY": "bid", "SELL": "ask"}
_STALE = "stale"


def with_quotes(day: LakeDay, frame: DataFrame) -> DataFrame:
    """Add to rows with an event the best prices before it."""
    concerned = F.broadcast(frame.select(*INSTRUMENT).distinct())
    ticks = day.table(TICKS).join(concerned, list(INSTRUMENT), "left_semi")
    trusted = F.col("state") != _STALE
    best = [F.when(trusted, F.col(f"{name}_1")).alias(name) for name in _BEST]
    known = ticks.select(*INSTRUMENT, _after().alias("event"), F.struct(*best).alias("quote"))
    both = frame.withColumn("is_tick", F.lit(0)).unionByName(
        known.withColumn("is_tick", F.lit(1)), allowMissingColumns=True
    )
    # A tick is the book after its event.
    so_far = Window.partitionBy(*INSTRUMENT).orderBy("event", "is_tick")
    found = both.withColumn("before", F.last("quote", ignorenulls=True).over(so_far)).where(
        F.col("is_tick") == 0
    )
    return found.select(
        *frame.columns,
        *[F.col(f"before.{name}") for name in _BEST],
        (F.col("before.ask_price") - F.col("before.bid_price")).alias("spread"),
    )


def with_level_orders(day: LakeDay, frame: DataFrame) -> DataFrame:
    """Add the number of orders at each row's side and price after its event.

    Null where ticks do not show it: the level did not change, is too deep, or the book is stale.
    """
    ticks = day.table(TICKS)
    depth = sum(name.startswith("bid_price_") for name in ticks.columns)
    trusted = ticks.where(F.col("event").isNotNull() & (F.col("state") != _STALE))
    levels = trusted.select(
        *INSTRUMENT,
        "event",
        *[_levels(side, depth).alias(f"{side}_levels") for side in _SIDES.values()],
    )
    own = F.when(F.col("side") == "BUY", F.col("bid_levels")).otherwise(F.col("ask_levels"))
    at_price = F.filter(
        own, lambda level: level["price"].eqNullSafe(F.col("price")) & level["orders"].isNotNull()
    )
    joined = frame.join(levels, [*INSTRUMENT, "event"], "left")
    return joined.select(*frame.columns, F.get(at_price, F.lit(0))["orders"].alias("level_orders"))


def _levels(side: str, depth: int) -> Column:
    return F.array(
        *[
            F.struct(
                F.col(f"{side}_price_{level}").alias("price"),
                F.col(f"{side}_orders_{level}").alias("orders"),
            )
            for level in range(1, depth + 1)
        ]
    )


def _after() -> Column:
    """Return the event of a tick; for a loaded snapshot, the key after its last packet."""
    packet = F.col("sequence_version").cast("bigint") * EVENT_VERSION
    packet = packet + (F.col("sequence_number") + 1) * EVENT_NUMBER - 1
    return F.coalesce(F.col("event"), packet)
