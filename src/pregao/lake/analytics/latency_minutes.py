"""Table ``latency_minutes``: distribution of latencies, minute by minute."""

from __future__ import annotations

import pyarrow as pa

from pregao.clock import MINUTE
from pregao.lake.analytics.engine import DataFrame, F
from pregao.lake.analytics.latency import LATENCY
from pregao.lake.analytics.reading import LakeDay
from pregao.lake.analytics.tables import AnalyticsOptions, AnalyticsTable, column, conform

PERCENTILES = {"p50_ns": 0.5, "p90_ns": 0.9, "p99_ns": 0.99, "p999_ns": 0.999}
MEASURES = {
    "engine": "t11_ns - t5_ns",
    "network": "network_ns",
    "network_raw": "network_raw_ns",
    "feeds": "feed_difference_ns",
}
"""From T5 to T11; from T11 to the capture, minus the clock offset and uncorrected; and from one
feed to the other.
"""

COLUMNS = (
    column("channel", pa.int16(), "Channel."),
    column("minute_ns", pa.int64(), "Start of the minute, by T11."),
    column(
        "measure",
        pa.string(),
        "engine: T5 to T11; network: T11 to capture, in excess of the fastest packet; "
        "network_raw: T11 to capture, not corrected for clock offset; feeds: A to B.",
    ),
    column("events", pa.int64(), "Events that have this measure."),
    *[
        column(name, pa.float64(), f"Nanoseconds not exceeded by {100 * share:g} % of them.")
        for name, share in PERCENTILES.items()
    ],
    column("max_ns", pa.int64(), "Maximum nanoseconds."),
)


def latency_minutes(events: DataFrame) -> DataFrame:
    """Return the percentiles of events, interpolated between values."""
    measures = [
        F.struct(F.lit(name).alias("measure"), F.expr(span).alias("span"))
        for name, span in MEASURES.items()
    ]
    spans = events.select(
        "channel",
        (F.col("t11_ns") - F.pmod("t11_ns", F.lit(MINUTE))).alias("minute_ns"),
        F.inline(F.array(*measures)),
    ).where(F.col("span").isNotNull())
    grouped = spans.groupBy("channel", "minute_ns", "measure").agg(
        F.count("span").alias("events"),
        F.percentile("span", list(PERCENTILES.values())).alias("percentiles"),
        F.max("span").alias("max_ns"),
    )
    named = [F.get("percentiles", F.lit(n)).alias(name) for n, name in enumerate(PERCENTILES)]
    return conform(grouped.select("*", *named), COLUMNS)


def _build(day: LakeDay, _wanted: AnalyticsOptions) -> DataFrame:
    return latency_minutes(day.table(LATENCY.name))


LATENCY_MINUTES = AnalyticsTable(
    "latency_minutes",
    "Percentiles of latencies, minute by minute.",
    COLUMNS,
    _build,
    needs=(LATENCY.name,),
    spread_by=("channel",),
    sort_by=("channel", "minute_ns", "measure"),
)
