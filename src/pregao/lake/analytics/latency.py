"""Tables ``latency`` and ``latency_minutes``: times of each event, and their distribution.

The time points are those of the PUMA model: T1 the client sends, T2 the gateway receives, T4 the
matching engine receives, T5 the event happens, T6 the gateway answers, T10 the message is written,
T11 the packet is sent. The public feed has T5, T10, T11 and, for an aggressor, T4; the others are
from EntryPoint captures, joined by secondaryOrderID and T5.

Capture times are by another clock than all others. The time from T11 to the capture is given
unchanged (``network_raw_ns``), and minus the clock offset that ``clock_offsets`` estimates
(``network_ns``): the excess over the fastest packet of that capture and feed.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from pregao.clock import MINUTE
from pregao.lake.analytics.clock_offsets import CLOCK_OFFSETS
from pregao.lake.analytics.engine import Column, DataFrame, F, all_of
from pregao.lake.analytics.legacy import LEGACY_ENTRIES, legacy_times
from pregao.lake.analytics.order_flow import REPORTS, REQUESTS, TIMES, answers
from pregao.lake.analytics.reading import (
    LakeDay,
    bit,
    incremental_templates,
    is_recovery,
    message_table,
)
from pregao.lake.analytics.tables import AnalyticsOptions, AnalyticsTable, Scope, column, conform
from pregao.lake.analytics.trades import CONDITIONS
from pregao.umdf.streams import Stream
from pregao.umdf.templates import (
    DELETE_ORDER,
    FORWARD_TRADE,
    ORDER,
    SECURITY_DEFINITIONS,
    SECURITY_GROUP_PHASE,
    SECURITY_STATUS,
    TRADE,
    UpdateAction,
    value_names,
)

_NEW = value_names("MDUpdateAction", UpdateAction.NEW)

COLUMNS = (
    column("channel", pa.int16(), "Channel."),
    column("event", pa.int64(), "Event of the channel."),
    column("security_id", pa.int64(), "Instrument of its first message; null for a group's."),
    column("messages", pa.int32(), "Number of its messages."),
    column("t1_ns", pa.int64(), "T1: the client sent the request; from EntryPoint."),
    column("t2_ns", pa.int64(), "T2: the gateway received it; from EntryPoint."),
    column("t4_ns", pa.int64(), "T4: the matching engine received it; from EntryPoint."),
    column("aggressor_time_ns", pa.int64(), "T4 of the aggressor, from the event's summary."),
    column(
        "t5_ns", pa.int64(), "T5: the event happened; null where no message states it reliably."
    ),
    column("t6_ns", pa.int64(), "T6: the gateway answered; from EntryPoint."),
    column("t10_ns", pa.int64(), "T10: its first message with such a time was written."),
    column("t11_ns", pa.int64(), "T11: its first packet was sent."),
    column("last_t11_ns", pa.int64(), "T11 of its last packet."),
    column("capture_time_ns", pa.int64(), "First capture time of its first packet."),
    column("last_capture_time_ns", pa.int64(), "First capture time of its last packet."),
    column(
        "network_raw_ns",
        pa.int64(),
        "From T11 to the capture of its first packet, not corrected for clock offset.",
    ),
    column("clock_offset_ns", pa.int64(), "Estimated offset of these clocks; see clock_offsets."),
    column(
        "network_ns",
        pa.int64(),
        "Network time in excess of the fastest packet: raw minus offset; null if the "
        "capture time is implausible.",
    ),
    column("feed", pa.string(), "Feed that delivered its first packet first."),
    column("capture_id", pa.string(), "Capture with that packet."),
    column("feed_difference_ns", pa.int64(), "Delay of the same packet on the other feed."),
)

_PACKET = ("sending_time_ns", "capture_time_ns", "feed", "feed_difference_ns", "capture_id")


def latency(day: LakeDay, offsets: DataFrame) -> DataFrame:
    """Return the day's events with their times; ``offsets`` are those of the captures' clocks."""
    present = [one for one in incremental_templates() if day.has(message_table(one))]
    parts = [_times(day.binary_messages(template), template) for template in present or [ORDER]]
    rows = all_of([*parts, *_legacy_times(day)])
    events = rows.groupBy("channel", "event").agg(
        F.min_by("security_id", "place").alias("security_id"),
        F.count(F.lit(1)).cast("int").alias("messages"),
        F.min("aggressor_time_ns").alias("aggressor_time_ns"),
        F.min("t5_ns").alias("t5_ns"),
        F.min("t10_ns").alias("t10_ns"),
        F.min_by(F.struct(*_PACKET), "place").alias("first"),
        F.max_by(F.struct(*_PACKET), "place").alias("last"),
    )
    timed = events.select(
        "*",
        F.col("first.sending_time_ns").alias("t11_ns"),
        F.col("last.sending_time_ns").alias("last_t11_ns"),
        F.col("first.capture_time_ns").alias("capture_time_ns"),
        F.col("last.capture_time_ns").alias("last_capture_time_ns"),
        F.col("first.feed").alias("feed"),
        F.col("first.feed_difference_ns").alias("feed_difference_ns"),
        F.col("first.capture_id").alias("capture_id"),
    )
    return conform(_with_entrypoint(day, _with_network_times(timed, offsets)), COLUMNS)


def _with_network_times(events: DataFrame, offsets: DataFrame) -> DataFrame:
    """Add the time from T11 to the capture, raw and minus the clock offset."""
    known = offsets.where(F.col("stream") == Stream.INCREMENTAL.value).select(
        "channel", "feed", "capture_id", F.col("offset_ns").alias("clock_offset_ns")
    )
    joined = events.join(F.broadcast(known), ["channel", "feed", "capture_id"], "left")
    raw = F.col("capture_time_ns") - F.col("t11_ns")
    above = raw - F.col("clock_offset_ns")
    return joined.select(
        "*", raw.alias("network_raw_ns"), F.when(above >= 0, above).alias("network_ns")
    )


def _legacy_times(day: LakeDay) -> Iterator[DataFrame]:
    """Yield the times of the legacy feed's entries, statuses and definitions."""
    if day.has(LEGACY_ENTRIES):
        yield legacy_times(day.table(LEGACY_ENTRIES), day.excluded)
    for template in (SECURITY_STATUS, SECURITY_GROUP_PHASE, *SECURITY_DEFINITIONS):
        messages = day.legacy_messages(template)
        if messages is not None:
            yield _times(messages, template)


def _times(messages: DataFrame, template: int) -> DataFrame:
    """Return the times of a template's messages."""
    messages = messages.where(F.col("event").isNotNull())
    known = set(messages.columns)

    def optional(name: str) -> Column:
        return F.col(name) if name in known else F.lit(None).cast("bigint")

    return messages.select(
        "channel",
        "event",
        "place",
        optional("security_id").alias("security_id"),
        *_PACKET,
        _happened(template, optional("transact_time_ns")).alias("t5_ns"),
        optional("md_entry_timestamp_ns").alias("t10_ns"),
        optional("aggressor_time_ns").alias("aggressor_time_ns"),
    )


def _happened(template: int, transact_time: Column) -> Column:
    """Return T5 of a message, where it is reliable.

    Below schema version 15 only the insertion of a new order states it. An order resent to restore
    a book is an old one, and the time of a trade entered or amended by hand is set by hand.
    """
    if template == ORDER:
        new = F.col("md_update_action").isin(*sorted(_NEW))
        entered = F.when(new, F.col("md_insert_timestamp_ns"))
        return F.when(~is_recovery(), F.coalesce(transact_time, entered))
    if template in (TRADE, FORWARD_TRADE):
        by_hand = [bit("trade_condition", CONDITIONS[n]) for n in ("on_behalf", "out_of_sequence")]
        return F.when(~(by_hand[0] | by_hand[1]), transact_time)
    return transact_time


def _with_entrypoint(day: LakeDay, events: DataFrame) -> DataFrame:
    """Add the times of the requests that caused the events, where these were captured."""
    reports = answers(day)
    if reports is None:
        return events.select("*", *[F.lit(None).cast("bigint").alias(name) for name in TIMES])
    # A report that was resent is equal, but later.
    known = reports.groupBy("secondary_order_id", "t5_ns").agg(
        F.min_by(F.struct(*TIMES), "t6_ns").alias("request")
    )
    orders = all_of(_orders(day, n) for n in (ORDER, DELETE_ORDER))
    caused = (
        orders.join(known, ["secondary_order_id", "t5_ns"])
        .groupBy("channel", "event")
        .agg(F.min_by("request", "place").alias("request"))
        .select("channel", "event", "request.*")
    )
    return events.join(caused, ["channel", "event"], "left")


def _orders(day: LakeDay, template: int) -> DataFrame:
    """Return the orders in messages, with T5."""
    found = day.binary_messages(template)
    time = _happened(template, F.col("transact_time_ns"))
    return found.select("channel", "event", "place", "secondary_order_id", time.alias("t5_ns"))


def _build(day: LakeDay, _wanted: AnalyticsOptions) -> DataFrame:
    return latency(day, day.table(CLOCK_OFFSETS.name))


LATENCY = AnalyticsTable(
    "latency",
    "Times of an event, from the client's request to the capture of its packets.",
    COLUMNS,
    _build,
    incremental_templates(),
    (*REPORTS, *REQUESTS),
    (CLOCK_OFFSETS.name,),
    scope=Scope.CHANNEL,
    sort_by=("channel", "event"),
)


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

MINUTE_COLUMNS = (
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
    return conform(grouped.select("*", *named), MINUTE_COLUMNS)


def _build_minutes(day: LakeDay, _wanted: AnalyticsOptions) -> DataFrame:
    return latency_minutes(day.table(LATENCY.name))


LATENCY_MINUTES = AnalyticsTable(
    "latency_minutes",
    "Percentiles of latencies, minute by minute.",
    MINUTE_COLUMNS,
    _build_minutes,
    needs=(LATENCY.name,),
    scope=Scope.CHANNEL,
    sort_by=("channel", "minute_ns", "measure"),
)
