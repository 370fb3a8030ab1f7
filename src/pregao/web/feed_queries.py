"""Constant SQL queries about a day's feed: packets, rates, gaps, feed leads, latencies."""

from __future__ import annotations

from pregao.lake.analytics.latency_minutes import MEASURES

Query = tuple[tuple[str, ...], str]
"""Tables and a query on them."""

SOME_OF_DAY = {
    "packets": "SELECT 1 AS one FROM packets WHERE date = $date LIMIT 1",
    "legacy_packets": "SELECT 1 AS one FROM legacy_packets WHERE date = $date LIMIT 1",
}

_OUTCOMES = """
SELECT channel, stream, feed, outcome, count(*) AS packets,
  CAST(sum(message_count) AS BIGINT) AS messages, CAST(sum("size") AS BIGINT) AS bytes
FROM packets WHERE date = $date GROUP BY ALL ORDER BY ALL
"""
# Legacy packets without a message that has a time have sending_time_ns 0.
_RATES = """
SELECT (sending_time_ns // 60000000000) * 60000000000 AS minute, count(*) AS packets,
  CAST(sum(message_count) AS BIGINT) AS messages, CAST(sum("size") AS BIGINT) AS bytes
FROM packets WHERE date = $date AND stream = 'incremental' AND sending_time_ns > 0
GROUP BY 1 ORDER BY 1
"""
_GAPS = """
SELECT channel, security_id, feed, first_missing, last_missing, closed_by, capture_time_ns, reason
FROM gaps WHERE date = $date ORDER BY capture_time_ns LIMIT 500
"""
_CLOSED = """
SELECT closed_by, count(*) AS gaps FROM gaps WHERE date = $date GROUP BY 1 ORDER BY 1
"""
_FEEDS = """
SELECT feed, count(*) AS events, quantile_cont(feed_difference_ns, 0.5) AS p50,
  quantile_cont(feed_difference_ns, 0.9) AS p90, quantile_cont(feed_difference_ns, 0.99) AS p99
FROM latency WHERE date = $date AND feed_difference_ns IS NOT NULL GROUP BY feed ORDER BY feed
"""
_BOTH_GAPS = "FROM (SELECT * FROM gaps UNION ALL BY NAME SELECT * FROM legacy_gaps) "
# Packets of the legacy feed are derived from its messages, as its events have no latency rows.
_LEGACY_PACKETS = """
FROM (SELECT DISTINCT date, channel, sequence_version, sequence_number, feed, feed_difference_ns
  FROM legacy_incremental_refresh) """

BINARY_FEED: tuple[Query, ...] = (
    (("packets",), _OUTCOMES),
    (("packets",), _RATES),
    (("gaps",), _GAPS),
    (("gaps",), _CLOSED),
    (("latency",), _FEEDS),
)
"""Outcomes of packets, rates per minute, gaps, gaps by closing reason, lead of each feed."""

LEGACY_FEED: tuple[Query, ...] = (
    (("legacy_packets",), _OUTCOMES.replace("FROM packets ", "FROM legacy_packets ")),
    (("legacy_packets",), _RATES.replace("FROM packets ", "FROM legacy_packets ")),
    (("gaps", "legacy_gaps"), _GAPS.replace("FROM gaps ", _BOTH_GAPS)),
    (("gaps", "legacy_gaps"), _CLOSED.replace("FROM gaps ", _BOTH_GAPS)),
    (("legacy_incremental_refresh",), _FEEDS.replace("FROM latency ", _LEGACY_PACKETS)),
)
"""Queries of `BINARY_FEED`, for a day that the lake has on the legacy feed only."""

_SPREAD = """
SELECT CAST(floor(log10({span}) * 10) AS INTEGER) AS bin, count(*) AS events
FROM latency WHERE date = $date AND channel = $channel AND ({span}) > 0 GROUP BY 1 ORDER BY 1
"""
SPREAD_OF_LATENCY = {measure: _SPREAD.format(span=span) for measure, span in MEASURES.items()}
"""Histogram queries of latency measures, ten bins per decade."""
