"""Table ``clock_offsets``: offset of a capture's clock from the exchange's.

Capture time minus sending time is the network time plus the difference of two clocks. The smallest
such difference among all packets of a capture and feed is taken as the offset: the excess over it
is network time. The shortest network time is part of the offset: the two cannot be separated.

Single packets with a wrong time must not set the offset. So differences far below the usual are
excluded: below the median by more than ten times the distance from the median to the lowest tenth,
plus a millisecond.
"""

from __future__ import annotations

import pyarrow as pa

from pregao.clock import MILLISECOND
from pregao.lake.analytics.engine import DataFrame, F, Window, all_of
from pregao.lake.analytics.legacy import LEGACY_PACKETS
from pregao.lake.analytics.reading import LakeDay
from pregao.lake.analytics.tables import AnalyticsOptions, AnalyticsTable, Scope, column, conform

PACKETS = "packets"
FLOW = ("channel", "stream", "feed", "capture_id")
"""Key of an offset: a channel's stream, as one capture has it from one feed."""

COLUMNS = (
    column("channel", pa.int16(), "Channel."),
    column("stream", pa.string(), "Stream."),
    column("feed", pa.string(), "Feed."),
    column("capture_id", pa.string(), "Capture; see ingests."),
    column("name", pa.string(), "Name of the capture."),
    column("packets", pa.int64(), "Number of compared packets."),
    column(
        "offset_ns",
        pa.int64(),
        "Lead of the capture's clock over the exchange's, including the shortest network time; "
        "negative if it lags.",
    ),
    column("min_ns", pa.int64(), "Smallest capture time minus sending time of all packets."),
    column("median_ns", pa.int64(), "Median of capture time minus sending time."),
    column("outliers", pa.int64(), "Packets excluded for an implausibly small difference."),
)


def clock_offsets(day: LakeDay) -> DataFrame:
    """Return the offset of each flow of the day."""
    difference = F.col("capture_time_ns") - F.col("sending_time_ns")
    sources = [PACKETS, *([LEGACY_PACKETS] if day.has(LEGACY_PACKETS) else [])]
    # Legacy packets without the start of a message have no sending time: it is 0.
    packets = all_of(
        day.table(source)
        .where(F.col("sending_time_ns") > 0)
        .select(*FLOW, difference.alias("difference"))
        for source in sources
    ).dropna()
    # Many packets have the same difference, so that few rows remain.
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
    plausible = F.col("difference") >= usually - 10 * (usually - F.col("low")) - MILLISECOND
    found = (
        counted.join(F.broadcast(usual), list(FLOW))
        .groupBy(*FLOW, "median_ns")
        .agg(
            F.sum("count").alias("packets"),
            F.min(F.when(plausible, F.col("difference"))).alias("offset_ns"),
            F.min("difference").alias("min_ns"),
            F.sum(F.when(~plausible, F.col("count")).otherwise(0)).alias("outliers"),
        )
    )
    captures = [(own, capture.name) for own, capture in day.tables.captures.items()]
    names = day.session.createDataFrame(captures, "capture_id string, name string")
    return conform(found.join(F.broadcast(names), "capture_id", "left"), COLUMNS)


def _build(day: LakeDay, _wanted: AnalyticsOptions) -> DataFrame:
    return clock_offsets(day)


CLOCK_OFFSETS = AnalyticsTable(
    "clock_offsets",
    "Offset of a capture's clock from the exchange's.",
    COLUMNS,
    _build,
    others=(PACKETS, LEGACY_PACKETS),
    scope=Scope.CHANNEL,
    sort_by=("channel", "stream", "feed", "capture_id"),
)
