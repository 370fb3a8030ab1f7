"""Tables ``latency`` and ``latency_minutes``: times of each event, and their distribution.

The time points are those of the PUMA model: T1 the client sends, T2 the gateway receives, T4 the
matching engine receives, T5 the event happens, T6 the gateway answers, T10 the message is written,
T11 the packet is sent. The public feed has T5, T10, T11 and, for an aggressor, T4; the others are
from EntryPoint captures, joined by secondaryOrderID and T5.

Times close to T11 are stored as durations from or to it, which take a fraction of the size; the
view ``v_latency`` has them as times too.

Capture times are by another clock than all others. The time from T11 to the capture is given
unchanged (``network_raw_ns``), and minus the clock offset that ``clock_offsets`` estimates
(``network_ns``): the excess over the fastest packet of that capture and feed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from pregao.arrays import Int64Array
from pregao.book.update_rows import NULL
from pregao.clock import MINUTE
from pregao.lake.analytics import _latency_kernels
from pregao.lake.analytics.clock_offsets import CLOCK_OFFSETS
from pregao.lake.analytics.event_messages import (
    EVENT,
    KINDS,
    EventMessages,
    Part,
    message_bounds,
    read_messages,
)
from pregao.lake.analytics.local import functions as F  # noqa: N812 - the conventional name
from pregao.lake.analytics.local.frames import DataFrame
from pregao.lake.analytics.order_flow import FILLS, REPORTS, REQUESTS, TIMES, aggressors, answers
from pregao.lake.analytics.reading import DayTables, LakeDay, incremental_templates
from pregao.lake.analytics.row_groups import (
    Labels,
    ValueRange,
    group_bounds,
    numbers_of,
    ranges_of,
    read_rows,
)
from pregao.lake.analytics.tables import AnalyticsOptions, AnalyticsTable, Scope, column
from pregao.lake.books.columns import integers, nulled
from pregao.umdf.streams import Stream

MAX_MESSAGES = 1 << 20
"""Maximum number of messages of the events of a task, each at some hundred bytes."""
MIN_MESSAGES = 50_000
MAX_EVENTS = 1 << 21
"""Maximum number of events of the minutes of a task."""

COLUMNS = (
    column("channel", pa.int16(), "Channel."),
    column("event", pa.int64(), "Event of the channel."),
    column("security_id", pa.int64(), "Instrument of its first message; null for a group's."),
    column("messages", pa.int32(), "Number of its messages."),
    column("t1_ns", pa.int64(), "T1: the client sent the request; from EntryPoint."),
    column("t2_ns", pa.int64(), "T2: the gateway received it; from EntryPoint."),
    column("t4_ns", pa.int64(), "T4: the matching engine received it; from EntryPoint."),
    column("t6_ns", pa.int64(), "T6: the gateway answered; from EntryPoint."),
    column("t11_ns", pa.int64(), "T11: its first packet was sent."),
    column("aggressor_ns", pa.int64(), "From the aggressor's T4, in the event's summary, to T11."),
    column("engine_ns", pa.int64(), "From T5 to T11; null where no message states T5 reliably."),
    column(
        "publish_ns",
        pa.int64(),
        "From T10, when its first message was written, to T11; null without such a time.",
    ),
    column("send_span_ns", pa.int64(), "From T11 to the sending of its last packet."),
    column(
        "network_raw_ns",
        pa.int64(),
        "From T11 to the capture of its first packet, not corrected for clock offset.",
    ),
    column("capture_span_ns", pa.int64(), "From that capture to the one of its last packet."),
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

_SPANS = {
    "aggressor_ns": ("aggressor_time_ns", "t11_ns"),
    "engine_ns": ("t5_ns", "t11_ns"),
    "publish_ns": ("t10_ns", "t11_ns"),
    "send_span_ns": ("t11_ns", "last_t11_ns"),
    "network_raw_ns": ("t11_ns", "capture_time_ns"),
    "capture_span_ns": ("capture_time_ns", "last_capture_time_ns"),
}
"""Durations, with the times from which and to which they are."""
_BY = "t11_ns"
"""Column that minutes are cut by."""


def event_ranges(tables: DayTables, channel: int, parallelism: int) -> list[tuple[ValueRange, int]]:
    """Cut the events of a channel's day into ranges, and return each with its messages."""
    bounds = message_bounds(tables, channel)
    return ranges_of(bounds, MAX_MESSAGES, parallelism, MIN_MESSAGES)


def latency(day: LakeDay) -> Any:
    """Return the events of the day's range with their times, in order."""
    with_requests = any(day.has(name) for name in REPORTS)
    messages = read_messages(day, day.span, with_numbers=with_requests)
    rows = _events(messages)
    rows |= _spans(rows)
    columns = {
        **rows,
        **_network_times(rows, _offsets(day, messages.labels)),
        **_requests(day, messages, rows[EVENT]),
    }
    count = len(rows[EVENT])
    columns["channel"] = np.full(count, day.channel, np.int64)
    texts = {name: _text_column(columns.pop(name), own) for name, own in messages.labels.items()}
    arrays = [
        texts[field.name] if field.name in texts else nulled(columns[field.name]).cast(field.type)
        for field in COLUMNS
    ]
    return pa.Table.from_arrays(arrays, names=[field.name for field in COLUMNS])


def _events(messages: EventMessages) -> dict[str, Int64Array]:
    """Return the events of messages in order, with what the messages alone state."""
    event, place = messages.column(EVENT), messages.column("place")
    times = np.stack([messages.column(name) for name in KINDS])
    first, last, counts = (np.empty(len(event), np.int64) for _ in range(3))
    least = np.empty((len(KINDS), len(event)), np.int64)
    count = _latency_kernels.gather_events(
        np.argsort(event), event, place, times, first, last, counts, least
    )
    first, last = first[:count], last[:count]
    sent, captured = messages.column("sending_time_ns"), messages.column("capture_time_ns")
    return {
        EVENT: event[first],
        "messages": counts[:count],
        **{name: own[:count] for name, own in zip(KINDS, least, strict=True)},
        "t11_ns": sent[first],
        "last_t11_ns": sent[last],
        "capture_time_ns": captured[first],
        "last_capture_time_ns": captured[last],
        **{
            name: messages.column(name)[first]
            for name in ("security_id", "feed_difference_ns", *messages.labels)
        },
    }


def _offsets(day: LakeDay, labels: Mapping[str, Labels]) -> Int64Array:
    """Return the offset of each feed and capture by their labels; null is the last."""
    texts = {name: own.texts for name, own in labels.items()}
    found = np.full([len(own) + 1 for own in texts.values()], NULL, np.int64)
    known = day.table(CLOCK_OFFSETS.name)
    for row in known.where(F.col("stream") == Stream.INCREMENTAL.value).collect():
        if all(row[name] in own for name, own in texts.items()) and row["offset_ns"] is not None:
            found[tuple(own.index(row[name]) for name, own in texts.items())] = row["offset_ns"]
    return found


def _network_times(rows: Mapping[str, Int64Array], offsets: Int64Array) -> dict[str, Int64Array]:
    """Return the time from T11 to the capture minus the clock offset, and that offset."""
    offset = offsets[rows["feed"], rows["capture_id"]]
    raw = rows["network_raw_ns"]
    above = raw - offset
    plausible = (raw != NULL) & (offset != NULL) & (above >= 0)
    return {
        "clock_offset_ns": offset,
        "network_ns": np.where(plausible, above, NULL),
    }


def _spans(rows: Mapping[str, Int64Array]) -> dict[str, Int64Array]:
    """Return the durations between times of an event; null where one is unknown."""
    found = {}
    for name, (start, end) in _SPANS.items():
        known = (rows[start] != NULL) & (rows[end] != NULL)
        found[name] = np.where(known, rows[end] - rows[start], NULL)
    return found


def _text_column(labels: Int64Array, known: Labels) -> Any:
    indices = pa.array(labels.astype(np.int32), mask=labels < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.array(known.texts, pa.string()))


# --- EntryPoint ---

_CAUSES = """
WITH answered AS (
    SELECT session_id, cl_ord_id, secondary_order_id, t5_ns, t1_ns, t2_ns, t4_ns, t6_ns
    FROM ({reports}) WHERE t6_ns IS NOT NULL
), caused AS (
    SELECT event, place, t1_ns, t2_ns, t4_ns, t6_ns
    FROM ({orders}) JOIN answered USING (secondary_order_id, t5_ns)
    UNION ALL
    SELECT event, place, t1_ns, t2_ns, t4_ns, t6_ns
    FROM ({trades}) JOIN ({aggressors}) USING (security_id, trade_id, t5_ns)
    JOIN answered USING (session_id, cl_ord_id, t5_ns)
)
SELECT DISTINCT ON (event) event, t1_ns, t2_ns, t4_ns, t6_ns
FROM caused ORDER BY event, place, t6_ns
"""
"""The request that caused each event: it entered, changed or canceled an order, whose public number
and T5 are in the answer; or it was the aggressor of a trade, whose number is in a report to it. An
answer that was resent is equal, but later.
"""


def _requests(day: LakeDay, messages: EventMessages, events: Int64Array) -> dict[str, Int64Array]:
    """Return the times of the requests that caused the events, where these were captured."""
    columns = {name: np.full(len(events), NULL, np.int64) for name in TIMES}
    times = [part["t5_ns"] for part in (*messages.orders, *messages.trades) if len(part["t5_ns"])]
    if not times:
        return columns
    within = min(int(own.min()) for own in times), max(int(own.max()) for own in times)
    frames = {
        "orders": _numbers(day, messages.orders, "secondary_order_id"),
        "trades": _numbers(day, messages.trades, "trade_id"),
        "reports": answers(day, REPORTS, within),
        "aggressors": aggressors(day, within) or _no_aggressors(day),
    }
    sources = {name: frame.sql() for name, frame in frames.items() if frame is not None}
    found = day.session.rows(_CAUSES.format(**sources))
    at = np.searchsorted(events, integers(found.column(EVENT)))
    for name, own in columns.items():
        own[at] = integers(found.column(name))
    return columns


def _numbers(day: LakeDay, parts: Sequence[Part], name: str) -> DataFrame:
    names = (EVENT, "place", "security_id", "t5_ns", name)
    tables = [pa.table({each: nulled(part[each]) for each in names}) for part in parts]
    return day.session.from_arrow(tables, ", ".join(f"{each} bigint" for each in names))


def _no_aggressors(day: LakeDay) -> DataFrame:
    names = ("security_id", "trade_id", "t5_ns", "session_id", "cl_ord_id")
    return day.session.createDataFrame([], ", ".join(f"{name} bigint" for name in names))


def _build(day: LakeDay, _wanted: AnalyticsOptions) -> Any:
    return latency(day)


LATENCY = AnalyticsTable(
    "latency",
    "Times of an event, from the client's request to the capture of its packets.",
    COLUMNS,
    _build,
    incremental_templates(),
    (*REPORTS, FILLS, *REQUESTS),
    (CLOCK_OFFSETS.name,),
    scope=Scope.EVENTS,
    sort_by=("channel", "event"),
)


# --- Minutes ---

PERCENTILES = {"p50_ns": 0.5, "p90_ns": 0.9, "p99_ns": 0.99, "p999_ns": 0.999}
MEASURES = {
    "engine": "engine_ns",
    "feeds": "feed_difference_ns",
    "network": "network_ns",
    "network_raw": "network_raw_ns",
}
"""From T5 to T11; from one feed to the other; and from T11 to the capture, minus the clock offset
and uncorrected: columns of ``latency``.
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


def minute_ranges(
    tables: DayTables, channel: int, parallelism: int
) -> list[tuple[ValueRange, int]]:
    """Cut the minutes of a channel's events into ranges, and return each with its events."""
    files = tables.tables[LATENCY.name].within("channel", channel, channel)
    bounds = group_bounds(files, channel, _BY)
    return ranges_of(bounds, MAX_EVENTS, parallelism, MIN_MESSAGES, step=MINUTE)


def latency_minutes(columns: Mapping[str, Int64Array]) -> list[dict[str, Any]]:
    """Return the percentiles of the events of each minute, by measure."""
    sent = columns[_BY]
    minute = sent - sent % MINUTE
    order = np.argsort(minute, kind="stable")
    begins = [0, *(np.flatnonzero(np.diff(minute[order])) + 1).tolist(), len(order)]
    found = []
    for begin, end in pairwise(begins):
        rows = order[begin:end]
        for measure, name in MEASURES.items():
            spans = columns[name][rows]
            known = spans != NULL
            if known.any():
                found.append(
                    {"minute_ns": int(minute[rows[0]]), "measure": measure, **_spread(spans[known])}
                )
    return found


def _spread(spans: Int64Array) -> dict[str, Any]:
    """Return number, percentiles and maximum of some values."""
    ordered = np.sort(spans)
    shares = {name: _percentile(ordered, share) for name, share in PERCENTILES.items()}
    return {"events": len(ordered), **shares, "max_ns": int(ordered[-1])}


def _percentile(ordered: Int64Array, share: float) -> float:
    """Return the value that a share of values does not exceed, interpolated between values."""
    spot = (len(ordered) - 1) * share
    low, high = math.floor(spot), math.ceil(spot)
    below, above = int(ordered[low]), int(ordered[high])
    if below == above:
        return float(below)
    return (high - spot) * below + (spot - low) * above


def _build_minutes(day: LakeDay, _wanted: AnalyticsOptions) -> Any:
    names = [_BY, *MEASURES.values()]
    read = read_rows(day.files(LATENCY.name), day.channel, _BY, day.span, names)
    parts = [{name: numbers_of(rows, there, name) for name in names} for rows, there in read]
    columns = {
        name: np.concatenate([part[name] for part in parts] or [np.empty(0, np.int64)])
        for name in names
    }
    rows = [{"channel": day.channel, **row} for row in latency_minutes(columns)]
    return pa.Table.from_pylist(rows, pa.schema(MINUTE_COLUMNS).remove_metadata())


LATENCY_MINUTES = AnalyticsTable(
    "latency_minutes",
    "Percentiles of latencies, minute by minute.",
    MINUTE_COLUMNS,
    _build_minutes,
    needs=(LATENCY.name,),
    scope=Scope.MINUTES,
    sort_by=("channel", "minute_ns", "measure"),
)
