"""The tables of the lake that every protocol fills alike: ingests, packets, rejects, gaps; and the
key columns of tables of messages."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pregao.lake.store import DATE, TableSpec
from pregao.umdf.keys import MESSAGE_KEY, STREAM_KEY, key_field, key_fields


def column_of(name: str, kind: Any, comment: str) -> Any:
    """A column as a table declares it, with what it means."""
    return pa.field(name, kind, metadata={"comment": comment})


_BOUNDED = (
    "channel",
    "security_id",
    "sequence_version",
    "sequence_number",
    "sending_time_ns",
    "capture_time_ns",
    "md_entry_position_no",
    "next_seq_no",
    "event_time_ns",
    "time_ns",
    "start_ns",
    "end_ns",
    "unit_id",
    "first_time_ns",
    "last_time_ns",
)


def bounded_spec(name: str, schema: Any, description: str) -> TableSpec:
    """A table by days, with the columns by whose bounds its files are chosen.

    More of them would make every load of a table longer, and row groups have bounds of all.
    """
    statistics = tuple(column for column in schema.names if column in _BOUNDED)
    return TableSpec(name, schema, description=description, statistics=statistics)


DATE_FIELD = column_of(DATE, pa.date32(), "Day of the sending time in São Paulo.")

KEY = [
    *key_fields((*STREAM_KEY, *MESSAGE_KEY)),
    column_of("event", pa.int64(), "Event of the channel; rises with the sequence."),
    key_field("sending_time_ns"),
    key_field("capture_time_ns", "When the packet was captured first."),
    column_of("feed", pa.string(), "Feed that brought the packet first."),
    column_of("feed_difference_ns", pa.int64(), "How much later the other feed brought it."),
    column_of("capture_id", pa.string(), "Capture that brought the packet first."),
    key_field("schema_version"),
]
"""The columns before a message's own in every message table: its key, and what the ingest adds."""

PACKETS = pa.schema(
    [
        column_of("capture_id", pa.string(), "Capture in which the packet was seen."),
        column_of("position", pa.int64(), "Where its record stands in the capture."),
        key_field("capture_time_ns", "When it was captured."),
        column_of("destination", pa.string(), "Address and port it was sent to."),
        key_field("channel", "Channel; null if it has no packet header."),
        key_field("stream", "Stream of its flow."),
        column_of("feed", pa.string(), "Feed of its flow."),
        key_field("sequence_version", "Sequence version."),
        key_field("sequence_number", "Sequence number; null for a heartbeat."),
        key_field("sending_time_ns", "Sending time (T11)."),
        column_of("size", pa.int32(), "Bytes of the UDP payload."),
        column_of("message_count", pa.int32(), "Messages found in it."),
        column_of(
            "outcome",
            pa.string(),
            "decoded, duplicate, rejected (in part or whole) or filtered.",
        ),
        DATE_FIELD,
    ]
)

REJECTS = pa.schema(
    [
        column_of("capture_id", pa.string(), "Capture in which it was seen."),
        column_of("position", pa.int64(), "Where the packet's record stands in the capture."),
        key_field("capture_time_ns", "When it was captured."),
        column_of("destination", pa.string(), "Address and port it was sent to."),
        key_field("channel", "Channel; null if it has no packet header."),
        key_field("stream", "Stream of its flow."),
        key_field("sequence_version", "Sequence version."),
        key_field("sequence_number", "Sequence number."),
        key_field("index_in_packet", "Message; null where the walk broke."),
        column_of("offset", pa.int32(), "Where in the payload the bytes begin."),
        column_of("reason", pa.string(), "Why they could not be decoded."),
        column_of("bytes", pa.binary(), "The bytes."),
        DATE_FIELD,
    ]
)

GAPS = pa.schema(
    [
        key_field("channel"),
        column_of("security_id", pa.int64(), "Instrument; null for the channel's own sequence."),
        key_field("sequence_version", "Sequence version."),
        column_of("feed", pa.string(), "Feed in which it was missing; null for both."),
        column_of("first_missing", pa.int64(), "First number that was missing."),
        column_of("last_missing", pa.int64(), "Last number that was missing."),
        column_of("closed_by", pa.string(), "What closed it: a feed, a snapshot; null if open."),
        key_field("capture_time_ns", "When the packet behind it was captured."),
        column_of("unit_id", pa.string(), "Ingest, or build of books, that found it."),
        key_field("sequence_number", "Packet that showed an instrument's gap."),
        column_of("closed_sequence_version", pa.int32(), "Sequence version of what healed it."),
        column_of("closed_sequence_number", pa.int64(), "Packet as of which it was healed."),
        column_of("reason", pa.string(), "Why an instrument's book was not to be trusted."),
        DATE_FIELD,
    ]
)

INGESTS = pa.schema(
    [
        column_of("capture_id", pa.string(), "Name of the capture in the other tables."),
        column_of("unit_id", pa.string(), "Ingest that took it in."),
        column_of("content_hash", pa.string(), "Hash of the capture's content."),
        column_of("name", pa.string(), "Name it had."),
        column_of("size", pa.int64(), "Bytes of the file."),
        column_of("fingerprint", pa.string(), "Hash of its size, head and tail."),
        column_of("first_time_ns", pa.int64(), "First capture time."),
        column_of("last_time_ns", pa.int64(), "Last capture time."),
        column_of("packets", pa.int64(), "UDP packets."),
        column_of("messages", pa.int64(), "Messages decoded."),
        column_of("rejected", pa.int64(), "Packets rejected in part or whole."),
        column_of("schema_versions", pa.list_(pa.int32()), "Schema versions seen."),
        column_of(
            "report", pa.string(), "The ingest's report, as JSON, without what the tables tell."
        ),
        column_of("committed_at_ns", pa.int64(), "When it was committed."),
        column_of("pregao_version", pa.string(), "Version of Pregão that took it in."),
        column_of("plain_fingerprint", pa.string(), "The same after it was decompressed."),
        column_of("range_hash", pa.string(), "Of a range of a growing file: hash of its bytes."),
        DATE_FIELD,
    ]
)
