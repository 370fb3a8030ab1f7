"""Shapes of the capture source's rows: their columns and comments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import pyarrow as pa

from pregao.errors import UsageError
from pregao.lake.ingest.template_tables import message_fields
from pregao.lake.source.request import MESSAGES, PACKETS, RANGES, ReadRequest, templates_of
from pregao.sbe.model import MessageTemplate
from pregao.umdf.keys import PACKET_KEY, key_field, key_fields
from pregao.umdf.tables import TemplateTable


def _column(name: str, kind: Any, comment: str) -> Any:
    return pa.field(name, kind, metadata={"comment": comment})


PACKET_COLUMNS = [
    key_field("channel", "Channel; null if the packet has no header."),
    key_field("stream", "Stream of the packet's destination."),
    *key_fields(PACKET_KEY),
    key_field("sending_time_ns"),
    key_field("capture_time_ns", "Capture time of this copy of the packet."),
    _column("destination", pa.string(), "Address and port it was sent to."),
]
"""Columns of every row about its packet."""

POSITION = [
    _column("capture", pa.string(), "Name of the capture file."),
    _column("position", pa.int64(), "Byte offset of the packet's record in the capture."),
]

MESSAGE_COLUMNS = [*PACKET_COLUMNS, key_field("index_in_packet")]

GENERIC = [
    *MESSAGE_COLUMNS,
    *POSITION,
    _column("template_id", pa.int32(), "Template; null where the walk of a packet failed."),
    _column("template", pa.string(), "Name of the template; null if unknown."),
    _column("version", pa.int32(), "Schema version on the wire."),
    _column("body", pa.string(), "Fields as JSON, by the names of a template's columns."),
    _column("bytes", pa.binary(), "Message as captured, with its header."),
    _column("error", pa.string(), "Why it could not be decoded; null if it could."),
]

PACKET_ROW = [
    *PACKET_COLUMNS,
    *POSITION,
    _column("size", pa.int32(), "Bytes of the UDP payload."),
    _column("message_count", pa.int32(), "Messages found in it."),
    _column("error", pa.string(), "Why its walk failed; null if it did not."),
]

RANGE_ROW = [
    _column("uri", pa.string(), "URI of the file."),
    _column("name", pa.string(), "Its path relative to the folder."),
    _column("head", pa.string(), "Hash of its head: detects a new file under an old name."),
    _column("begin", pa.int64(), "First byte of the range."),
    _column("end", pa.int64(), "First byte after the range."),
    _column("whole", pa.bool_(), "Whether the file can only be read completely."),
]


@dataclass(frozen=True, slots=True)
class RowShape:
    """Columns of rows, and their template, if they have one."""

    name: str
    schema: Any
    table: TemplateTable | None = None
    messages: tuple[MessageTemplate, ...] = ()
    """The template in all its versions."""
    more: tuple[Any, ...] = ()
    """Additional columns, only present if requested by name."""

    @property
    def templates(self) -> frozenset[int]:
        """Numbers of the template."""
        return frozenset(message.id for message in self.messages)

    def chosen(self, columns: tuple[str, ...]) -> RowShape:
        """Return the shape with some of the columns, in that order."""
        known = {field.name: field for field in (*self.schema, *self.more)}
        for name in columns:
            if name not in known:
                raise UsageError(
                    f"Rows of {self.name} have no column {name!r}; choose from {', '.join(known)}."
                )
        return replace(self, schema=pa.schema([known[name] for name in columns]))


@lru_cache(maxsize=16)
def shape_of(request: ReadRequest) -> RowShape:
    """Return the requested shape."""
    fixed = {MESSAGES: GENERIC, PACKETS: PACKET_ROW, RANGES: RANGE_ROW}
    if (fields := fixed.get(request.shape.lower())) is not None:
        shape = RowShape(request.shape.lower(), pa.schema(fields))
    else:
        pairs = templates_of(request.shape, request.registry())
        table = TemplateTable(pairs)
        shape = RowShape(
            table.name,
            pa.schema(
                [*MESSAGE_COLUMNS, key_field("schema_version"), *message_fields(table.columns)]
            ),
            table,
            tuple(message for _, message in pairs),
            # Every column has a cost, texts most, and the location of a message is rarely needed.
            tuple(POSITION),
        )
    return shape if request.columns is None else shape.chosen(request.columns)
