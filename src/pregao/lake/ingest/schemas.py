"""Schemas of the ingest's tables: those common to every protocol, and those of SBE messages.

The tables of ingests, packets, rejects and gaps, and the key columns of message tables, are the
same for every protocol. The other columns of message tables are derived from the schemas of a
protocol: a table is created with the columns of every bundled schema version. Files store decimals
as 64-bit integers; tables declare them as decimals of 18 digits, enumerations as strings.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import pyarrow as pa

from pregao.lake.storage.commit_unit import DATE, TableSpec
from pregao.sbe.arrow import widened
from pregao.sbe.model import MessageTemplate, Schema
from pregao.schemas.bundle import PROTOCOLS
from pregao.schemas.registry import Registry
from pregao.umdf.keys import MESSAGE_KEY, STREAM_KEY, key_field, key_fields
from pregao.umdf.tables import TableColumn, TemplateTable

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

Versions = dict[int, list[tuple[Schema, MessageTemplate]]]
"""Definitions of a template in every version, by template ID."""


def column_of(name: str, kind: Any, comment: str) -> Any:
    """Return a declared column with its comment."""
    return pa.field(name, kind, metadata={"comment": comment})


def bounded_spec(name: str, schema: Any, description: str, also: Collection[str] = ()) -> TableSpec:
    """Return the spec of a table partitioned by day, with minima and maxima of `_BOUNDED` columns.

    More columns would slow down every load of a table, except those that it needs, ``also``; row
    groups have bounds of all columns.
    """
    bounded = {*_BOUNDED, *also}
    statistics = tuple(column for column in schema.names if column in bounded)
    return TableSpec(name, schema, description=description, statistics=statistics)


DATE_FIELD = column_of(DATE, pa.date32(), "Day of the sending time in São Paulo.")

KEY = [
    *key_fields((*STREAM_KEY, *MESSAGE_KEY)),
    column_of("event", pa.int64(), "Event number of the channel; increases with the sequence."),
    key_field("sending_time_ns"),
    key_field("capture_time_ns", "Capture time of the packet, on the feed that received it first."),
    column_of("feed", pa.string(), "Feed that received the packet first."),
    column_of("feed_difference_ns", pa.int64(), "Delay of the packet on the other feed."),
    column_of("capture_id", pa.string(), "Capture that received the packet first."),
    key_field("schema_version"),
]
"""Columns before a message's own in every message table: its key, and what the ingest adds."""

PACKETS = pa.schema(
    [
        column_of("capture_id", pa.string(), "Capture that contains the packet."),
        column_of("position", pa.int64(), "Byte offset of its record in the capture."),
        key_field("capture_time_ns", "Capture time."),
        column_of("destination", pa.string(), "Destination address and port."),
        key_field("channel", "Channel; null if it has no packet header."),
        key_field("stream", "Stream of its flow."),
        column_of("feed", pa.string(), "Feed of its flow."),
        key_field("sequence_version", "Sequence version."),
        key_field("sequence_number", "Sequence number; null for a heartbeat."),
        key_field("sending_time_ns", "Sending time (T11); null without the start of a message."),
        column_of("size", pa.int32(), "Size of the UDP payload in bytes."),
        column_of("message_count", pa.int32(), "Number of messages in it."),
        column_of(
            "outcome",
            pa.string(),
            "decoded, duplicate, rejected (fully or in part) or filtered.",
        ),
        DATE_FIELD,
    ]
)

REJECTS = pa.schema(
    [
        column_of("capture_id", pa.string(), "Capture that contains the packet."),
        column_of("position", pa.int64(), "Byte offset of the packet's record in the capture."),
        key_field("capture_time_ns", "Capture time."),
        column_of("destination", pa.string(), "Destination address and port."),
        key_field("channel", "Channel; null if it has no packet header."),
        key_field("stream", "Stream of its flow."),
        key_field("sequence_version", "Sequence version."),
        key_field("sequence_number", "Sequence number."),
        key_field("index_in_packet", "Index of the message; null for a framing error."),
        column_of("offset", pa.int32(), "Offset of the bytes in the payload."),
        column_of("reason", pa.string(), "Why the bytes could not be decoded."),
        column_of("bytes", pa.binary(), "The bytes."),
        DATE_FIELD,
    ]
)

GAPS = pa.schema(
    [
        key_field("channel"),
        column_of("security_id", pa.int64(), "Instrument; null for the channel's own sequence."),
        key_field("sequence_version", "Sequence version."),
        column_of("feed", pa.string(), "Feed with the gap; null for both."),
        column_of("first_missing", pa.int64(), "First missing number."),
        column_of("last_missing", pa.int64(), "Last missing number."),
        column_of("closed_by", pa.string(), "What closed it: a feed, a snapshot; null if open."),
        key_field("capture_time_ns", "Capture time of the packet after the gap."),
        column_of("unit_id", pa.string(), "Ingest, or build of books, that found it."),
        key_field("sequence_number", "Packet that revealed an instrument's gap."),
        column_of("closed_sequence_version", pa.int32(), "Sequence version as of which it healed."),
        column_of("closed_sequence_number", pa.int64(), "Sequence number as of which it healed."),
        column_of("reason", pa.string(), "Why an instrument's book was stale."),
        DATE_FIELD,
    ]
)

INGESTS = pa.schema(
    [
        column_of("capture_id", pa.string(), "Capture ID, used in the other tables."),
        column_of("unit_id", pa.string(), "Ingest that committed it."),
        column_of("content_hash", pa.string(), "Hash of the capture's content."),
        column_of("name", pa.string(), "File name."),
        column_of("size", pa.int64(), "File size in bytes."),
        column_of("fingerprint", pa.string(), "Hash of size, head and tail of the file."),
        column_of("first_time_ns", pa.int64(), "First capture time."),
        column_of("last_time_ns", pa.int64(), "Last capture time."),
        column_of("packets", pa.int64(), "Number of UDP packets."),
        column_of("messages", pa.int64(), "Number of decoded messages."),
        column_of("rejected", pa.int64(), "Number of packets rejected fully or in part."),
        column_of("schema_versions", pa.list_(pa.int32()), "Schema versions of its messages."),
        column_of(
            "report", pa.string(), "The ingest's report as JSON, without what other tables have."
        ),
        column_of("committed_at_ns", pa.int64(), "Commit time."),
        column_of("pregao_version", pa.string(), "Version of Pregão that ingested it."),
        column_of("plain_fingerprint", pa.string(), "Fingerprint of the decompressed content."),
        column_of("range_hash", pa.string(), "Hash of the bytes of a range of a growing file."),
        DATE_FIELD,
    ]
)


def template_versions(registry: Registry, schema_id: int) -> Versions:
    """Return the templates of a protocol in every version of a registry.

    User schemas whose ID is not that of another protocol are included.
    """
    versions: Versions = {}
    schemas = [registry.get(schema_id, number) for number in registry.versions(schema_id)]
    others = set(PROTOCOLS.values()) - {schema_id}
    schemas += [each for each in registry.named() if each not in schemas and each.id not in others]
    for schema in schemas:
        for message in schema.messages:
            if message.id:
                versions.setdefault(message.id, []).append((schema, message))
    return versions


def declared(kind: Any) -> Any:
    """Return the declared type of a column that files store in the given type."""
    if pa.types.is_dictionary(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(declared(field.type)) for field in kind])
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(declared(kind.value_type))
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", declared(kind.value_type)))
    return widened(kind)


def message_fields(columns: Iterable[TableColumn]) -> list[Any]:
    """Return the declared fields of a template's own columns, with comments."""
    fields = []
    for column in columns:
        meaning = column.reading.description if column.reading is not None else ""
        fields.append(column_of(column.column, declared(column.type), meaning or column.name))
    return fields


def message_schema(table: TemplateTable, added: Sequence[Any] = ()) -> Any:
    """Return the declared schema of a message table; ``added`` follows the key columns."""
    own = message_fields(table.columns)
    names = {field.name for field in (*KEY, *added)} | {DATE}
    clash = next((field.name for field in own if field.name in names), None)
    assert clash is None, f"the column {clash} of {table.name} is a key column"
    return pa.schema([*KEY, *added, *own, DATE_FIELD])
