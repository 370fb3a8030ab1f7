"""The best prices just before something happened, from the table ``ticks``."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody knows

from pregao.lake.analytics.reading import INSTRUMENT, Day
from pregao.lake.analytics.tables import PRICE, column

TICKS = "ticks"

QUOTE = (
    column("bid_price", PRICE, "Best bid before the event; null without ticks."),
    column("bid_size", pa.int64(), "Quantity at the best bid before the event."),
    column("bid_orders", pa.int64(), "Orders at the best bid before the event."),
    column("ask_price", PRICE, "Best offer before the event; null without ticks."),
    column("ask_size", pa.int64(), "Quantity at the best offer before the event."),
    column("ask_orders", pa.int64(), "Orders at the best offer before the event."),
    column("spread", PRICE, "Best offer less best bid before the event."),
)
"""What is known of the book before an event."""

_SIDES = ("bid", "ask")
_PARTS = {"price": "prices", "size": "sizes", "orders": "orders"}


def with_quotes(day: Day, frame: DataFrame) -> DataFrame:
    """The same rows, which have an event, with the best prices after the event before."""
    traded = F.broadcast(frame.select(*INSTRUMENT).distinct())
    ticks = day.table(TICKS).join(traded, list(INSTRUMENT), "left_semi")
    best = [
        F.get(f"{side}_{many}", F.lit(0)).alias(f"{side}_{one}")
        for side in _SIDES
        for one, many in _PARTS.items()
    ]
    known = ticks.select(*INSTRUMENT, "event", F.struct(*best).alias("quote"))
    both = frame.withColumn("is_tick", F.lit(0)).unionByName(
        known.withColumn("is_tick", F.lit(1)), allowMissingColumns=True
    )
    # A tick tells how the book stood after its event.
    before = Window.partitionBy(*INSTRUMENT).orderBy("event", "is_tick")
    found = both.withColumn("before", F.last("quote", ignorenulls=True).over(before)).where(
        F.col("is_tick") == 0
    )
    return found.select(
        *frame.columns,
        *[F.col(f"before.{side}_{one}") for side in _SIDES for one in _PARTS],
        (F.col("before.ask_price") - F.col("before.bid_price")).alias("spread"),
    )
