"""The shapes of the capture source's rows: their columns, with what they mean."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import pyarrow as pa

from pregao.errors import UsageError
from pregao.lake.ingest import message_fields
from pregao.lake.source.request import MESSAGES, PACKETS, RANGES, ReadRequest, templates_of
from pregao.sbe.model import Message
from pregao.umdf.keys import PACKET_KEY, key_field, key_fields
from pregao.umdf.tables import TemplateTable


def _column(name: str, kind: Any, comment: str) -> Any:
    return pa.field(name, kind, metadata={"comment": comment})


PACKET_COLUMNS = [
    key_field("channel", "Channel; null if the packet has no header."),
    key_field("stream", "Stream of the packet's destination."),
    *key_fields(PACKET_KEY),
    key_field("sending_time_ns"),
    key_field("capture_time_ns", "When this copy of the packet was captured."),
    _column("destination", pa.string(), "Address and port it was sent to."),
]
"""What every row tells of its packet."""

PLACE = [
    _column("capture", pa.string(), "Name of the capture file."),
    _column("position", pa.int64(), "Where the packet's record stands in the capture."),
]

MESSAGE_COLUMNS = [*PACKET_COLUMNS, key_field("index_in_packet")]

GENERIC = [
    *MESSAGE_COLUMNS,
    *PLACE,
    _column("template_id", pa.int32(), "Template; null where the walk of a packet broke."),
    _column("template", pa.string(), "Name of the template; null if it is not known."),
    _column("version", pa.int32(), "Schema version on the wire."),
    _column("body", pa.string(), "The fields as JSON, by the names of a template's columns."),
    _column("bytes", pa.binary(), "The message as captured, with its header."),
    _column("error", pa.string(), "Why it could not be decoded; null if it could."),
]

PACKET_ROW = [
    *PACKET_COLUMNS,
    *PLACE,
    _column("size", pa.int32(), "Bytes of the UDP payload."),
    _column("message_count", pa.int32(), "Messages found in it."),
    _column("error", pa.string(), "Why its walk broke; null if it did not."),
]

RANGE_ROW = [
    _column("uri", pa.string(), "Where the file is."),
    _column("name", pa.string(), "Its name below the folder."),
    _column("head", pa.string(), "Hash of its head: tells a new file of an old name."),
    _column("begin", pa.int64(), "First byte of the range."),
    _column("end", pa.int64(), "First byte behind the range."),
    _column("whole", pa.bool_(), "Is it a file that can only be read as a whole?"),
]


@dataclass(frozen=True, slots=True)
class Shape:
    """The columns that rows have, and the template they are of, if of one."""

    name: str
    schema: Any
    table: TemplateTable | None = None
    messages: tuple[Message, ...] = ()
    """The template in all its versions."""
    more: tuple[Any, ...] = ()
    """Columns that rows have only if they are asked for by name."""

    @property
    def templates(self) -> frozenset[int]:
        """The numbers of the template."""
        return frozenset(message.id for message in self.messages)

    def chosen(self, columns: tuple[str, ...]) -> Shape:
        """The same rows with some of the columns, in that order."""
        known = {field.name: field for field in (*self.schema, *self.more)}
        for name in columns:
            if name not in known:
                raise UsageError(
                    f"There is no column {name!r} in rows of {self.name}; there are "
                    f"{', '.join(known)}."
                )
        return replace(self, schema=pa.schema([known[name] for name in columns]))


@lru_cache(maxsize=16)
def shape_of(request: ReadRequest) -> Shape:
    """The shape that a user asks for."""
    fixed = {MESSAGES: GENERIC, PACKETS: PACKET_ROW, RANGES: RANGE_ROW}
    if (fields := fixed.get(request.shape.lower())) is not None:
        shape = Shape(request.shape.lower(), pa.schema(fields))
    else:
        pairs = templates_of(request.shape, request.registry())
        table = TemplateTable(pairs)
        shape = Shape(
            table.name,
            pa.schema(
                [*MESSAGE_COLUMNS, key_field("schema_version"), *message_fields(table.columns)]
            ),
            table,
            tuple(message for _, message in pairs),
            # Every column costs, and texts most: where a message stood is rarely asked for.
            tuple(PLACE),
        )
    return shape if request.columns is None else shape.chosen(request.columns)
