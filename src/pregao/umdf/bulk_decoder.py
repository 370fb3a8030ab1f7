"""Bulk decoding: walk many packets, group their messages by template, decode them to columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pregao.arrays import Int64Array, Uint8Array
from pregao.errors import DecodeError
from pregao.extras import installed
from pregao.sbe.model import MessageTemplate, Schema
from pregao.sbe.row_decoder import RowDecoder
from pregao.sbe.value_specs import beyond_columns
from pregao.schemas.bundle import UMDF_SCHEMA_ID
from pregao.schemas.registry import Registry
from pregao.umdf import _kernels
from pregao.umdf.layout import MIN_MESSAGE_SIZE, PACKET_HEADER_SIZE
from pregao.umdf.packets import PacketDecoder, PacketFrame, check_schema_id

if TYPE_CHECKING:
    from pregao.sbe.columns import ColumnDecoder

    Decoder = ColumnDecoder | RowDecoder


_MAX_KINDS = 2048
_NO_ROWS: Int64Array = np.empty(0, np.int64)


@dataclass(slots=True)
class MessageKind:
    """Messages of one schema id, template and version, as rows of the walked messages."""

    schema_id: int
    template_id: int
    version: int
    rows: Int64Array


def kind_of(number: int, rows: Int64Array = _NO_ROWS) -> MessageKind:
    """Return the kind with its schema id, template id and version packed in one number."""
    return MessageKind(number >> 32, number >> 16 & 0xFFFF, number & 0xFFFF, rows)


class PacketHeaders(NamedTuple):
    """Packet headers as columns; the channel is -1 for a packet without a valid header."""

    channel: npt.NDArray[np.int16]
    sequence_version: npt.NDArray[np.int32]
    sequence_number: Int64Array
    sending_time_ns: Int64Array


def read_headers(
    buffer: Uint8Array, offset: Int64Array, length: npt.NDArray[np.int32]
) -> PacketHeaders:
    """Read the headers of the packets at the given offsets of a buffer."""
    count = len(offset)
    headers = PacketHeaders(
        np.empty(count, np.int16),
        np.empty(count, np.int32),
        np.empty(count, np.int64),
        np.empty(count, np.int64),
    )
    _kernels.read_headers(buffer, offset, length, *headers)
    return headers


@dataclass(slots=True)
class WalkedPackets:
    """The packets of a buffer and their messages, as flat arrays."""

    buffer: Uint8Array
    offset: Int64Array
    length: npt.NDArray[np.int32]
    channel: npt.NDArray[np.integer]
    sequence_version: npt.NDArray[np.integer]
    sequence_number: npt.NDArray[np.integer]
    sending_time_ns: Int64Array
    message_count: npt.NDArray[np.int32]
    fault: npt.NDArray[np.uint8]
    """Why the walk of a packet failed; 0 if it did not."""
    fault_position: Int64Array
    packet: npt.NDArray[np.int32]
    """Index of the message's packet; this and the following arrays have one row per message."""
    index_in_packet: npt.NDArray[np.int32]
    body: Int64Array
    end: Int64Array
    block_length: Int64Array
    kind: Int64Array
    """Schema id, template id and version as one number."""
    label: npt.NDArray[np.int32]
    """Index of the message's kind in ``known``, from 1."""
    known: Int64Array
    tally: Int64Array
    found: int
    """Number of kinds; -1 if there were too many to distinguish."""

    def __len__(self) -> int:
        """Return the number of messages."""
        return len(self.packet)

    def kinds(self) -> list[MessageKind]:
        """Group the messages by schema id, template and version."""
        labels, known, tallies = self.label, self.known, self.tally
        if self.found < 0:  # noise: slower, but correct
            known, inverse, tallies = np.unique(self.kind, return_inverse=True, return_counts=True)
            labels = inverse.astype(np.int32).reshape(-1)
        else:
            known, tallies = known[: self.found + 1], tallies[: self.found + 1]
        ends = np.cumsum(tallies)
        starts = ends - tallies
        order = np.empty(len(self), np.int64)
        _kernels.sort_by_label(labels, starts, order)
        return [
            kind_of(int(known[k]), order[starts[k] : ends[k]])
            for k in range(len(known))
            if tallies[k]
        ]


class Walker:
    """Walks packets into reused arrays: a result is valid until the next walk.

    ``header_size`` is the size of the packet header; if it is 0, `walk` needs the headers.
    """

    def __init__(self, header_size: int = PACKET_HEADER_SIZE) -> None:
        self._header_size = header_size
        self._packets: list[npt.NDArray[Any]] = []
        self._messages: list[npt.NDArray[Any]] = []
        self._kinds = np.empty((2, _MAX_KINDS), np.int64)

    def walk(
        self,
        buffer: Uint8Array,
        offset: Int64Array,
        length: npt.NDArray[np.int32],
        headers: PacketHeaders | None = None,
    ) -> WalkedPackets:
        """Walk the packets at the given offsets of a buffer; given headers are not re-read."""
        packets = len(offset)
        if not self._packets or len(self._packets[0]) < packets:
            self._packets = [np.empty(packets, kind) for kind in _PACKET_ARRAYS]
        capacity = int(np.maximum(length - self._header_size, 0).sum()) // MIN_MESSAGE_SIZE
        if not self._messages or len(self._messages[0]) < capacity:
            self._messages = [np.empty(capacity, kind) for kind in _MESSAGE_ARRAYS]
        packet_arrays = [array[:packets] for array in self._packets]
        if headers is not None:
            packet_arrays[: len(headers)] = headers
        known, tally = self._kinds
        total, found = _kernels.walk_packets(
            self._header_size, headers is not None, buffer, offset, length, *packet_arrays,
            *self._messages, known, tally,
        )  # fmt: skip
        messages = [array[:total] for array in self._messages]
        rest: list[Any] = [*packet_arrays, *messages, known, tally, found]
        return WalkedPackets(buffer, offset, length, *rest)


_PACKET_ARRAYS = (np.uint8, np.uint16, np.uint32, np.int64, np.int32, np.uint8, np.int64)
_MESSAGE_ARRAYS = (np.int32, np.int32, np.int64, np.int64, np.int64, np.int64, np.int32)


def walk(buffer: Uint8Array, offset: Int64Array, length: npt.NDArray[np.int32]) -> WalkedPackets:
    """Walk the packets at the given offsets of a buffer, into new arrays."""
    return Walker().walk(buffer, offset, length)


@dataclass(slots=True)
class MessageBatch:
    """Decoded messages of one template and version, with their rows in the walked messages."""

    schema: Schema
    message: MessageTemplate
    version: int
    rows: Int64Array
    columns: Any
    """A ``pyarrow.RecordBatch``; it may have no columns, so count by ``rows``.

    Without Arrow it is a list of the messages' values by name."""
    withheld: Counter[str] = field(default_factory=Counter)
    """Values of optional fields that do not fit their column, by column; they are null."""


@dataclass(slots=True)
class DecodeReject:
    """Bytes that could not be decoded: their position in the buffer, and why."""

    packet: int
    index_in_packet: int | None
    """None if the walk itself could not continue."""
    start: int
    end: int
    reason: str


@dataclass(slots=True)
class UnknownMessages:
    """Messages with a template that the schema lacks: skipped by their length."""

    schema: Schema
    template_id: int
    version: int
    rows: Int64Array


def _template(schema: Schema, kind: MessageKind) -> MessageTemplate | None:
    """Return the template of some messages; None for template 0, which is the packet header."""
    return schema.by_id.get(kind.template_id) if kind.template_id else None


def _new_decoder(schema: Schema, message: MessageTemplate, version: int, rows: bool) -> Decoder:
    """Return a decoder to columns, or to values if requested or without Arrow."""
    if rows or not installed("pyarrow"):
        return RowDecoder(schema, message, version)
    from pregao.sbe.columns import ColumnDecoder

    return ColumnDecoder(schema, message, version)


class BulkDecoder:
    """Decodes walked packets to columns, template by template."""

    def __init__(
        self,
        registry: Registry | None = None,
        schema_id: int = UMDF_SCHEMA_ID,
        *,
        rows: bool = False,
    ) -> None:
        """Create a decoder; it rejects messages with another schema id than ``schema_id``.

        ``rows`` selects values, message by message, which starts faster than columns.
        """
        self.registry = Registry.bundled() if registry is None else registry
        self._schema_id = schema_id
        self._rows = rows
        self._packets = PacketDecoder(self.registry, schema_id)
        self._decoders: dict[tuple[int, int, int], tuple[Schema, Decoder]] = {}

    def schema(self, schema_id: int, version: int) -> Schema:
        """Return the schema of a schema id and version.

        Raises:
            DecodeError: There is none.
        """
        check_schema_id(self.registry, schema_id, self._schema_id)
        return self.registry.find(schema_id, version)

    def template(self, kind: MessageKind) -> MessageTemplate | None:
        """Return the template of some messages, or None if no schema has it."""
        try:
            return _template(self.schema(kind.schema_id, kind.version), kind)
        except DecodeError:
            return None

    def decode(
        self, walked: WalkedPackets
    ) -> Iterator[MessageBatch | UnknownMessages | DecodeReject]:
        """Yield every message once, in a batch, as unknown or as a reject; and broken packets."""
        yield from self.faults(walked)
        for kind in walked.kinds():
            yield from self.decode_kind(walked, kind)

    def decode_kind(
        self, walked: WalkedPackets, kind: MessageKind
    ) -> Iterator[MessageBatch | UnknownMessages | DecodeReject]:
        """Decode the messages of one kind."""
        found = self._decoders.get((kind.schema_id, kind.template_id, kind.version))
        if found is None:
            try:
                schema = self.schema(kind.schema_id, kind.version)
            except DecodeError as error:
                for row in kind.rows.tolist():
                    yield self._reject(walked, row, error.reason)
                return
            message = _template(schema, kind)
            if message is None:
                yield UnknownMessages(schema, kind.template_id, kind.version, kind.rows)
                return
            found = self._decoder(schema, message, kind)
        schema, decoder = found
        rows = kind.rows
        body, end, length = np.empty((3, len(rows)), np.int64)
        _kernels.gather_messages(
            rows, walked.body, walked.end, walked.block_length, body, end, length
        )
        result = decoder.decode(walked.buffer, body, length, end)
        for row in rows[result.rejected].tolist():
            yield self._reject(walked, row, self._reason(walked, row))
        kept = rows if result.kept is None else rows[result.kept]
        if len(kept):
            yield MessageBatch(
                schema, decoder.message, kind.version, kept, result.batch, result.withheld
            )

    def _decoder(
        self, schema: Schema, message: MessageTemplate, kind: MessageKind
    ) -> tuple[Schema, Decoder]:
        found = schema, _new_decoder(schema, message, kind.version, self._rows)
        if len(self._decoders) < 1024:  # the version comes from the wire: bound the cache
            self._decoders[kind.schema_id, kind.template_id, kind.version] = found
        return found

    def faults(self, walked: WalkedPackets) -> Iterator[DecodeReject]:
        """Yield the packets whose walk failed, with the reason of the packet decoder."""
        for packet in np.flatnonzero(walked.fault).tolist():
            start = int(walked.offset[packet])
            end = start + int(walked.length[packet])
            position = int(walked.fault_position[packet])
            payload = walked.buffer[start:end].tobytes()
            try:
                reason = self._packets.decode(payload).outcomes[-1].reason
            except DecodeError as error:
                reason = error.reason
            yield DecodeReject(packet, None, position, end, reason)

    def _reject(self, walked: WalkedPackets, row: int, reason: str) -> DecodeReject:
        start = int(walked.body[row]) - MIN_MESSAGE_SIZE
        return DecodeReject(
            int(walked.packet[row]),
            int(walked.index_in_packet[row]),
            start,
            int(walked.end[row]),
            reason,
        )

    def _reason(self, walked: WalkedPackets, row: int) -> str:
        """Return why the kernels rejected a message: the codec's reason, or a column overflow."""
        start = int(walked.body[row]) - MIN_MESSAGE_SIZE
        end = int(walked.end[row])
        kind = int(walked.kind[row])
        part = PacketFrame(
            int(walked.index_in_packet[row]),
            0,
            end - start,
            int(walked.block_length[row]),
            kind >> 16 & 0xFFFF,
            kind >> 32,
            kind & 0xFFFF,
        )
        outcome = self._packets.outcome(walked.buffer[start:end].tobytes(), part)
        if outcome.reason or outcome.decoded is None:
            return outcome.reason
        decoded = outcome.decoded
        return beyond_columns(decoded.message, decoded.values) or "a value does not fit its column"
