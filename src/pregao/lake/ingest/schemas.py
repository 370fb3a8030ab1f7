"""The tables of the lake: their columns, derived from the schema files where messages are.

A table is created with the columns of every bundled schema version. Files hold decimals as
64-bit integers; tables declare them as decimals of 18 digits, enumerations as strings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa

from pregao.lake.store import DATE, TableSpec
from pregao.sbe.arrow import widened
from pregao.sbe.names import snake_case
from pregao.schemas import UMDF_SCHEMA_ID, Registry
from pregao.umdf.keys import MESSAGE_KEY, STREAM_KEY, key_field, key_fields
from pregao.umdf.tables import Column, TemplateTable
from pregao.umdf.templates import SECURITY_DEFINITIONS

SAO_PAULO_NS = -3 * 3600 * 1_000_000_000
"""What Brasília time is ahead of UTC; there has been no summer time since 2019."""


def _column(name: str, kind: Any, comment: str) -> Any:
    return pa.field(name, kind, metadata={"comment": comment})


DATE_FIELD = _column(DATE, pa.date32(), "Day of the sending time in São Paulo.")

KEY = [
    *key_fields((*STREAM_KEY, *MESSAGE_KEY)),
    _column("event", pa.int64(), "Event of the channel; rises with the sequence."),
    key_field("sending_time_ns"),
    key_field("capture_time_ns", "When the packet was captured first."),
    _column("feed", pa.string(), "Feed that brought the packet first."),
    _column("feed_difference_ns", pa.int64(), "How much later the other feed brought it."),
    _column("capture_id", pa.string(), "Capture that brought the packet first."),
    key_field("schema_version"),
]
"""The columns before a message's own in every message table: its key, and what the ingest adds."""

PACKETS = pa.schema(
    [
        _column("capture_id", pa.string(), "Capture in which the packet was seen."),
        _column("position", pa.int64(), "Where its record stands in the capture."),
        key_field("capture_time_ns", "When it was captured."),
        _column("destination", pa.string(), "Address and port it was sent to."),
        key_field("channel", "Channel; null if it has no packet header."),
        key_field("stream", "Stream of its flow."),
        _column("feed", pa.string(), "Feed of its flow."),
        key_field("sequence_version", "Sequence version."),
        key_field("sequence_number", "Sequence number; null for a heartbeat."),
        key_field("sending_time_ns", "Sending time (T11)."),
        _column("size", pa.int32(), "Bytes of the UDP payload."),
        _column("message_count", pa.int32(), "Messages found in it."),
        _column(
            "outcome",
            pa.string(),
            "decoded, duplicate, rejected (in part or whole) or filtered.",
        ),
        DATE_FIELD,
    ]
)

REJECTS = pa.schema(
    [
        _column("capture_id", pa.string(), "Capture in which it was seen."),
        _column("position", pa.int64(), "Where the packet's record stands in the capture."),
        key_field("capture_time_ns", "When it was captured."),
        _column("destination", pa.string(), "Address and port it was sent to."),
        key_field("channel", "Channel; null if it has no packet header."),
        key_field("stream", "Stream of its flow."),
        key_field("sequence_version", "Sequence version."),
        key_field("sequence_number", "Sequence number."),
        key_field("index_in_packet", "Message; null where the walk broke."),
        _column("offset", pa.int32(), "Where in the payload the bytes begin."),
        _column("reason", pa.string(), "Why they could not be decoded."),
        _column("bytes", pa.binary(), "The bytes."),
        DATE_FIELD,
    ]
)

GAPS = pa.schema(
    [
        key_field("channel"),
        _column("security_id", pa.int64(), "Instrument; null for the channel's own sequence."),
        key_field("sequence_version", "Sequence version."),
        _column("feed", pa.string(), "Feed in which it was missing; null for both."),
        _column("first_missing", pa.int64(), "First number that was missing."),
        _column("last_missing", pa.int64(), "Last number that was missing."),
        _column("closed_by", pa.string(), "What closed it: a feed, a snapshot; null if open."),
        key_field("capture_time_ns", "When the packet behind it was captured."),
        _column("unit_id", pa.string(), "Ingest, or build of books, that found it."),
        key_field("sequence_number", "Packet that showed an instrument's gap."),
        _column("closed_sequence_version", pa.int32(), "Sequence version of what healed it."),
        _column("closed_sequence_number", pa.int64(), "Packet as of which it was healed."),
        _column("reason", pa.string(), "Why an instrument's book was not to be trusted."),
        DATE_FIELD,
    ]
)

INGESTS = pa.schema(
    [
        _column("capture_id", pa.string(), "Name of the capture in the other tables."),
        _column("unit_id", pa.string(), "Ingest that took it in."),
        _column("content_hash", pa.string(), "Hash of the capture's content."),
        _column("name", pa.string(), "Name it had."),
        _column("size", pa.int64(), "Bytes of the file."),
        _column("fingerprint", pa.string(), "Hash of its size, head and tail."),
        _column("first_time_ns", pa.int64(), "First capture time."),
        _column("last_time_ns", pa.int64(), "Last capture time."),
        _column("packets", pa.int64(), "UDP packets."),
        _column("messages", pa.int64(), "Messages decoded."),
        _column("rejected", pa.int64(), "Packets rejected in part or whole."),
        _column("schema_versions", pa.list_(pa.int32()), "Schema versions seen."),
        _column("report", pa.string(), "The ingest's report, as JSON."),
        _column("committed_at_ns", pa.int64(), "When it was committed."),
        _column("pregao_version", pa.string(), "Version of Pregão that took it in."),
        DATE_FIELD,
    ]
)


def message_table_name(message_name: str) -> str:
    """The table of a template: ``Order_MBO_50`` → ``umdf_order_mbo_50``."""
    return f"umdf_{snake_case(message_name)}"


@dataclass(frozen=True, slots=True)
class MessageTables:
    """The tables of a registry's UMDF templates, and that of the instruments."""

    templates: Mapping[int, TemplateTable]
    instruments: TemplateTable
    """The definitions of both templates that they came in."""


def message_tables(registry: Registry) -> MessageTables:
    """The tables of all UMDF templates, over every version that the registry knows."""
    versions: dict[int, list[Any]] = {}
    known = [registry.get(UMDF_SCHEMA_ID, n) for n in registry.versions(UMDF_SCHEMA_ID)]
    known += [schema for schema in registry.named() if schema not in known]
    for schema in known:
        for message in schema.messages:
            if message.id:
                versions.setdefault(message.id, []).append((schema, message))
    definitions = [
        pair for template in sorted(SECURITY_DEFINITIONS) for pair in versions.get(template, ())
    ]
    return MessageTables(
        {template: TemplateTable(pairs) for template, pairs in versions.items()},
        TemplateTable(definitions),
    )


@cache
def bundled_message_tables() -> MessageTables:
    """The tables of the bundled schemas."""
    return message_tables(Registry.bundled())


def declared(kind: Any) -> Any:
    """What a table declares for a column that files hold in that type."""
    if pa.types.is_dictionary(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(declared(field.type)) for field in kind])
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(declared(kind.value_type))
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", declared(kind.value_type)))
    return widened(kind)


def message_fields(columns: Iterable[Column]) -> list[Any]:
    """The declared fields of a template's own columns, with what they mean."""
    fields = []
    for column in columns:
        meaning = column.reading.description if column.reading is not None else ""
        fields.append(_column(column.column, declared(column.type), meaning or column.name))
    return fields


def message_schema(table: TemplateTable) -> Any:
    """The declared schema of a message table."""
    own = message_fields(table.columns)
    names = {field.name for field in KEY} | {DATE}
    clash = next((field.name for field in own if field.name in names), None)
    assert clash is None, f"the column {clash} of {table.name} is taken by the key"
    return pa.schema([*KEY, *own, DATE_FIELD])


def table_specs() -> list[TableSpec]:
    """The tables of every lake, with the columns of every bundled version."""
    specs = [
        TableSpec("ingests", INGESTS, description="A capture taken in."),
        TableSpec("packets", PACKETS, description="A UDP payload seen."),
        TableSpec("rejects", REJECTS, description="Bytes that could not be decoded."),
        TableSpec("gaps", GAPS, description="A hole in a sequence."),
    ]
    tables = bundled_message_tables()
    specs.append(
        TableSpec(
            "instruments",
            message_schema(tables.instruments),
            description="An instrument of a day: its latest definition.",
        )
    )
    for table in tables.templates.values():
        meaning = f"Messages of the template {table.name}."
        specs.append(
            TableSpec(message_table_name(table.name), message_schema(table), (DATE,), meaning)
        )
    return specs
