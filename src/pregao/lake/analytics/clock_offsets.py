"""The table ``clock_offsets``: how far the clock of a capture is from the exchange's.

Capture time less sending time is the network's time and the difference of two clocks. Of all
packets of a capture and feed the smallest such difference is taken for the offset: what is above
it is the network's. The shortest time on the network is in the offset: nobody can tell it apart.

Single packets with a wrong time must not set it. So differences far below the usual are left out:
below the median by more than ten times the distance from the median to the lowest tenth, and a
millisecond.
"""

from __future__ import annotations

import pyarrow as pa

from pregao.clock import MILLISECOND
from pregao.lake.analytics.engine import DataFrame, F, Window
from pregao.lake.analytics.legacy import LEGACY_PACKETS
from pregao.lake.analytics.reading import Day
from pregao.lake.analytics.tables import AnalyticsTable, Wanted, column, conform

PACKETS = "packets"
INGESTS = "ingests"
FLOW = ("channel", "stream", "feed", "capture_id")
"""What has one offset: a channel's stream as one capture has it from one feed."""

COLUMNS = (
    column("channel", pa.int16(), "Channel."),
    column("stream", pa.string(), "Stream."),
    column("feed", pa.string(), "Feed."),
    column("capture_id", pa.string(), "Capture; see ingests."),
    column("name", pa.string(), "Name of the capture."),
    column("packets", pa.int64(), "Packets that were compared."),
    column(
        "offset_ns",
        pa.int64(),
        "How far the capture's clock is ahead of the exchange's, the shortest network time "
        "included; negative: behind.",
    ),
    column("smallest_ns", pa.int64(), "Smallest capture time less sending time of all packets."),
    column("median_ns", pa.int64(), "Half of the packets have no larger difference."),
    column("left_out", pa.int64(), "Packets whose difference is too small to be true."),
)


def clock_offsets(day: Day) -> DataFrame:
    """The offset of each flow of the day."""
    difference = F.col("capture_time_ns") - F.col("sending_time_ns")
    packets = day.table(PACKETS).select(*FLOW, difference.alias("difference"))
    if day.has(LEGACY_PACKETS):
        older = day.table(LEGACY_PACKETS).select(*FLOW, difference.alias("difference"))
        packets = packets.unionByName(older)
    packets = packets.dropna()
    # Many packets have the same difference: what follows is about few rows.
    counted = packets.groupBy(*FLOW, "difference").agg(F.count("difference").alias("count"))
    flow = Window.partitionBy(*FLOW)
    ranked = counted.select(
        "*",
        F.sum("count").over(flow.orderBy("difference")).alias("so_far"),
        F.sum("count").over(flow).alias("total"),
    )
    low, median = (
        F.min(F.when(F.col("so_far") * parts >= F.col("total"), F.col("difference")))
        for parts in (10, 2)
    )
    usual = ranked.groupBy(*FLOW).agg(low.alias("low"), median.alias("median_ns"))
    usually = F.col("median_ns")
    sound = F.col("difference") >= usually - 10 * (usually - F.col("low")) - MILLISECOND
    found = (
        counted.join(F.broadcast(usual), list(FLOW))
        .groupBy(*FLOW, "median_ns")
        .agg(
            F.sum("count").alias("packets"),
            F.min(F.when(sound, F.col("difference"))).alias("offset_ns"),
            F.min("difference").alias("smallest_ns"),
            F.sum(F.when(~sound, F.col("count")).otherwise(0)).alias("left_out"),
        )
    )
    names = day.tables.frame(INGESTS).select("capture_id", "name").dropDuplicates(["capture_id"])
    return conform(found.join(F.broadcast(names), "capture_id", "left"), COLUMNS)


def _build(day: Day, _wanted: Wanted) -> DataFrame:
    return clock_offsets(day)


CLOCK_OFFSETS = AnalyticsTable(
    "clock_offsets",
    "How far the clock of a capture is from the exchange's.",
    COLUMNS,
    _build,
    others=(PACKETS, LEGACY_PACKETS),
    spread_by=("channel",),
    sort_by=("channel", "stream", "feed", "capture_id"),
)
