"""Shapes of the capture source's rows, and the selection of packets and messages by its options.

Rows are selected before any decoding. The conditions of a query are not pushed down: Spark keeps
the conditions that a source accepted on the table itself, and they would filter every later use of
the same DataFrame too. Options belong to the DataFrame, and Spark applies a query's conditions to
the remaining rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pregao.arrays import BoolArray, Int64Array
from pregao.errors import UsageError
from pregao.lake.datasource import _kernels
from pregao.lake.datasource.options import MESSAGES, PACKETS, RANGES, ReadRequest, templates_of
from pregao.lake.ingest.schemas import message_fields
from pregao.sbe.model import MessageTemplate
from pregao.sbe.value_specs import ValueSpec, readings
from pregao.schemas.registry import Registry
from pregao.umdf.bulk_decoder import MessageKind, WalkedPackets
from pregao.umdf.keys import PACKET_KEY, key_field, key_fields
from pregao.umdf.survey.lines import message_of
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


class SourceSelection:
    """Selection of packets and messages."""

    def __init__(self, request: ReadRequest) -> None:
        self._streams = request.streams
        self._channels = request.channels
        self._from_ns = request.from_ns
        self._to_ns = request.to_ns
        self._registry: Registry = request.registry()
        self._securities: Int64Array | None = None
        if request.security_ids is not None:
            self._securities = np.array(request.security_ids, np.uint64).view(np.int64)

    @property
    def of_messages(self) -> bool:
        """Whether it selects among the messages of a packet."""
        return self._securities is not None

    def flows(self, streams: list[str]) -> BoolArray:
        """Return which flows are selected, by their streams."""
        if self._streams is None:
            return np.ones(len(streams), np.bool_)
        return np.array([stream in self._streams for stream in streams], np.bool_)

    def packets(self, channel: npt.NDArray[np.int16], time_ns: Int64Array) -> BoolArray | None:
        """Return which packets are selected; None for all.

        A packet without a channel (below 0) or a time (0) does not match a filter on it.
        """
        wanted: BoolArray | None = None
        if self._channels is not None:
            wanted = np.isin(channel, np.array(self._channels, np.int16))
        for bound, holds in ((self._from_ns, np.greater_equal), (self._to_ns, np.less)):
            if bound is not None:
                inside: Any = holds(time_ns, bound) & (time_ns != 0)
                wanted = inside if wanted is None else wanted & inside
        return wanted

    def messages(self, walked: WalkedPackets, kind: MessageKind) -> Int64Array:
        """Return the messages of a kind that are about a selected instrument."""
        rows: Int64Array = kind.rows
        if self._securities is None:
            return rows
        message = message_of(self._registry, kind.schema_id, kind.template_id, kind.version)
        reading = None if message is None else security_reading(message)
        if reading is None or kind.version < reading.since_version:
            return rows[:0]
        rows = rows[walked.block_length[rows] >= reading.end]
        numbers = np.empty(len(rows), np.int64)
        _kernels.gather_i64(walked.buffer, walked.body[rows] + reading.offset, numbers)
        wanted = np.isin(numbers, self._securities)
        if reading.null is not None:
            wanted &= numbers != np.uint64(reading.null).view(np.int64)
        return rows[wanted]


def security_reading(message: MessageTemplate) -> ValueSpec | None:
    """Return the field of a message's instrument, if it is an 8-byte integer."""
    for reading in readings(message):
        if reading.column == "security_id":
            return reading if reading.size == 8 and reading.single else None
    return None


@lru_cache(maxsize=16)
def check_selection(request: ReadRequest) -> None:
    """Raise `UsageError` for a selection that rows of this shape do not support."""
    if request.security_ids is None:
        return
    shape: RowShape = shape_of(request)
    if shape.name in (PACKETS, RANGES):
        raise UsageError(f"The option securityId selects messages; rows of {shape.name} have none.")
    if shape.messages and all(security_reading(message) is None for message in shape.messages):
        raise UsageError(
            f"The option securityId is not supported: {shape.name} messages name no instrument."
        )
