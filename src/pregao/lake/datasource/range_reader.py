"""Reader of a range of a capture as Arrow batches, and the plan of ranges; independent of Spark.

A read of captures is planned as byte ranges of partitions, and as streams of flows. Every packet
appears as captured: copies of both feeds, repeated loops, heartbeats. Options are applied to
packets before their messages are walked, and to messages before they are decoded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pregao.arrays import Int64Array
from pregao.capture.block_reader import read_blocks
from pregao.capture.blocks import PacketBlock
from pregao.capture.layers import Flow
from pregao.capture.split import split_points
from pregao.lake.datasource.options import PACKETS, ReadRequest
from pregao.lake.datasource.row_shapes import SourceSelection, shape_of
from pregao.lake.ingest.discovery import find_captures
from pregao.lake.storage.filesystem import Location
from pregao.schemas.registry import Registry
from pregao.umdf.bulk_decoder import (
    BulkDecoder,
    DecodeReject,
    MessageBatch,
    PacketHeaders,
    UnknownMessages,
    WalkedPackets,
    Walker,
    read_headers,
)
from pregao.umdf.keys import key_type
from pregao.umdf.layout import MIN_MESSAGE_SIZE
from pregao.umdf.streams import Stream
from pregao.umdf.survey.lines import Destination, message_of
from pregao.umdf.survey.lines import streams_of as survey_streams

BLOCK_BYTES = 4 * 1024 * 1024


# --- Reading ---


@dataclass(frozen=True, slots=True)
class CaptureRange:
    """Bytes of a capture; without a start, all of one that cannot be split."""

    location: Location
    start: int | None = None
    end: int | None = None


@dataclass(slots=True)
class _Packets:
    """Selected packets of a block, with the values of their headers."""

    buffer: npt.NDArray[np.uint8]
    offset: Int64Array
    length: npt.NDArray[np.int32]
    flow: npt.NDArray[np.int32]
    time_ns: Int64Array
    position: Int64Array
    channel: npt.NDArray[np.int16]
    version: npt.NDArray[np.int32]
    number: Int64Array
    sending_time_ns: Int64Array

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def headers(self) -> PacketHeaders:
        """Values of their headers, which the walk need not read again."""
        return PacketHeaders(self.channel, self.version, self.number, self.sending_time_ns)

    def only(self, rows: npt.NDArray[np.bool_]) -> _Packets:
        """Return some of the packets."""
        return _Packets(
            self.buffer, self.offset[rows], self.length[rows], self.flow[rows],
            self.time_ns[rows], self.position[rows], self.channel[rows], self.version[rows],
            self.number[rows], self.sending_time_ns[rows],
        )  # fmt: skip


def _packets_of(block: PacketBlock) -> _Packets:
    headers = read_headers(block.buffer, block.offset, block.length)
    return _Packets(
        block.buffer, block.offset, block.length, block.flow, block.time_ns, block.position,
        *headers,
    )  # fmt: skip


class RangeReader:
    """Reads ranges into batches of a shape; can be sent to other processes."""

    def __init__(self, request: ReadRequest, streams: dict[str, str]) -> None:
        self.request = request
        self.streams = streams

    def read(self, part: CaptureRange) -> Iterator[Any]:
        """Yield the rows of a range."""
        yield from _Reading(self, part).batches()


class _Reading:
    """State of one range being read."""

    def __init__(self, reader: RangeReader, part: CaptureRange) -> None:
        self.part = part
        self.shape = shape_of(reader.request)
        self.names = set(self.shape.schema.names)
        self.registry: Registry = reader.request.registry()
        self.streams = reader.streams
        self.decoder = BulkDecoder(self.registry)
        self.walker = Walker()
        self.selection = SourceSelection(reader.request)
        self.flow_wanted: npt.NDArray[np.bool_] = np.empty(0, np.bool_)
        self.stream_names: Any = pa.array([], pa.string())
        self.destinations: Any = pa.array([], pa.string())

    def batches(self) -> Iterator[Any]:
        part = self.part
        with read_blocks(part.location.source, part.start, part.end, BLOCK_BYTES) as reader:
            for block in reader:
                if len(self.flow_wanted) < len(reader.flows):
                    self._learn_flows(reader.flows)
                packets = self._chosen(_packets_of(block))
                if not len(packets):
                    continue
                walked = self.walker.walk(
                    packets.buffer, packets.offset, packets.length, packets.headers
                )
                if self.shape.table is not None:
                    yield from self._template_rows(packets, walked)
                elif self.shape.name == PACKETS:
                    yield from self._packet_rows(packets, walked)
                else:
                    yield from self._message_rows(packets, walked)

    def _learn_flows(self, flows: list[Flow]) -> None:
        destinations = [str(Destination(flow.dst, flow.dst_port)) for flow in flows]
        streams = [
            self.streams.get(destination, Stream.UNKNOWN.value) for destination in destinations
        ]
        self.flow_wanted = self.selection.flows(streams)
        self.stream_names = pa.array(streams, pa.string())
        self.destinations = pa.array(destinations, pa.string())

    def _chosen(self, packets: _Packets) -> _Packets:
        """Return the packets that the options select."""
        wanted = self.selection.packets(packets.channel, packets.time_ns)
        if not self.flow_wanted.all():
            of_flow = self.flow_wanted[packets.flow]
            wanted = of_flow if wanted is None else wanted & of_flow
        return packets if wanted is None or wanted.all() else packets.only(wanted)

    # Messages of one template

    def _template_rows(self, packets: _Packets, walked: WalkedPackets) -> Iterator[Any]:
        table = self.shape.table
        assert table is not None
        for kind in walked.kinds():
            if kind.template_id not in self.shape.templates:
                continue
            kind.rows = self.selection.messages(walked, kind)
            if not len(kind.rows):
                continue
            for item in self.decoder.decode_kind(walked, kind):
                if not isinstance(item, MessageBatch):
                    continue
                version = pa.scalar(item.version, key_type("schema_version"))
                own: dict[str, Callable[[], Any]] = {
                    "schema_version": partial(pa.repeat, version, len(item.rows))
                }
                fitted = table.fit(item.message, item.columns, len(item.rows))
                for column, array in zip(table.columns, fitted, strict=True):
                    own[column.column] = partial(_given, array)
                yield self._batch(packets, walked, item.rows, own)

    # Messages of all templates

    def _message_rows(self, packets: _Packets, walked: WalkedPackets) -> Iterator[Any]:
        """Yield all messages in the order of the capture, with those that cannot be decoded."""
        found: list[tuple[Any, ...]] = []
        for kind in walked.kinds():
            kind.rows = self.selection.messages(walked, kind)
            if not len(kind.rows):
                continue
            message = message_of(self.registry, kind.schema_id, kind.template_id, kind.version)
            name = None if message is None else message.name
            for item in self.decoder.decode_kind(walked, kind):
                about = (kind.template_id, name, kind.version)
                match item:
                    case MessageBatch():
                        bodies = self._bodies(item)
                        found += [
                            (row, *about, body, None)
                            for row, body in zip(item.rows.tolist(), bodies, strict=True)
                        ]
                    case UnknownMessages():
                        found += [(row, *about, None, None) for row in item.rows.tolist()]
                    case DecodeReject():
                        row = self._row_of(walked, item)
                        found.append((row, *about, None, item.reason))
        found.sort(key=lambda each: each[0])
        if found:
            yield self._generic(packets, walked, found)
        if not self.selection.of_messages:
            yield from self._broken(packets, walked)

    def _bodies(self, batch: MessageBatch) -> list[str | None]:
        if "body" not in self.names:
            return [None] * len(batch.rows)
        if not batch.columns.num_columns:
            return ["{}"] * len(batch.rows)
        return [
            json.dumps(row, default=_plain, separators=(",", ":"), ensure_ascii=False)
            for row in batch.columns.to_pylist()
        ]

    @staticmethod
    def _row_of(walked: WalkedPackets, reject: DecodeReject) -> int:
        first = int(np.searchsorted(walked.packet, reject.packet))
        return first + (reject.index_in_packet or 0)

    def _generic(
        self, packets: _Packets, walked: WalkedPackets, found: list[tuple[Any, ...]]
    ) -> Any:
        rows, templates, names, versions, bodies, errors = (
            list(column) for column in zip(*found, strict=True)
        )
        numbers = np.array(rows, np.int64)
        own: dict[str, Callable[[], Any]] = {
            "template_id": lambda: pa.array(templates, pa.int32()),
            "template": lambda: pa.array(names, pa.string()),
            "version": lambda: pa.array(versions, pa.int32()),
            "body": lambda: pa.array(bodies, pa.string()),
            "bytes": lambda: pa.array([_bytes_of(walked, row) for row in rows], pa.binary()),
            "error": lambda: pa.array(errors, pa.string()),
        }
        return self._batch(packets, walked, numbers, own)

    def _broken(self, packets: _Packets, walked: WalkedPackets) -> Iterator[Any]:
        """Yield the rest of packets whose walk failed."""
        rejects = list(self.decoder.faults(walked))
        if not rejects:
            return
        rows = np.array([reject.packet for reject in rejects], np.int64)
        nothing = pa.nulls(len(rows))
        own: dict[str, Callable[[], Any]] = {
            "index_in_packet": lambda: nothing,
            "template_id": lambda: nothing,
            "template": lambda: nothing,
            "version": lambda: nothing,
            "body": lambda: nothing,
            "bytes": lambda: pa.array(
                [walked.buffer[reject.start : reject.end].tobytes() for reject in rejects],
                pa.binary(),
            ),
            "error": lambda: pa.array([reject.reason for reject in rejects], pa.string()),
        }
        yield self._rows(packets, rows, own)

    # Packets

    def _packet_rows(self, packets: _Packets, walked: WalkedPackets) -> Iterator[Any]:
        rows = np.arange(len(packets), dtype=np.int64)
        reasons: dict[int, str] = {}
        if "error" in self.names:
            reasons = {reject.packet: reject.reason for reject in self.decoder.faults(walked)}
        own: dict[str, Callable[[], Any]] = {
            "size": lambda: pa.array(packets.length[rows]),
            "message_count": lambda: pa.array(walked.message_count[rows]),
            "error": lambda: (
                pa.array([reasons.get(row) for row in rows.tolist()], pa.string())
                if reasons
                else pa.nulls(len(rows), pa.string())
            ),
        }
        yield self._rows(packets, rows, own)

    # Columns

    def _batch(
        self,
        packets: _Packets,
        walked: WalkedPackets,
        rows: Int64Array,
        own: dict[str, Callable[[], Any]],
    ) -> Any:
        own["index_in_packet"] = lambda: pa.array(walked.index_in_packet[rows])
        return self._rows(packets, walked.packet[rows], own)

    def _rows(
        self, packets: _Packets, at: npt.NDArray[Any], own: dict[str, Callable[[], Any]]
    ) -> Any:
        """Return a batch with the columns of the shape; ``at`` is the packet of each row."""
        headless = packets.channel[at] < 0
        absent = headless if headless.any() else None
        flows = packets.flow[at]
        every: dict[str, Callable[[], Any]] = {
            "channel": lambda: pa.array(packets.channel[at], mask=absent),
            "stream": lambda: _named(self.stream_names, flows),
            "sequence_version": lambda: pa.array(packets.version[at], mask=absent),
            "sequence_number": lambda: _zero_is_null(packets.number[at]),
            "sending_time_ns": lambda: pa.array(packets.sending_time_ns[at], mask=absent),
            "capture_time_ns": lambda: _zero_is_null(packets.time_ns[at]),
            "destination": lambda: _named(self.destinations, flows),
            "capture": lambda: pa.repeat(pa.scalar(self.part.location.name), len(at)),
            "position": lambda: pa.array(packets.position[at]),
            **own,
        }
        return pa.RecordBatch.from_arrays(
            [as_declared(every[field.name](), field.type) for field in self.shape.schema],
            schema=self.shape.schema.remove_metadata(),
        )


# --- Columns ---


def as_declared(array: Any, kind: Any) -> Any:
    """Return an array in the declared type: plain names for dictionaries, 128-bit decimals."""
    if array.type == kind:
        return array
    if pa.types.is_decimal64(array.type) and pa.types.is_decimal128(kind):
        return _wide_decimals(array, kind)
    if pa.types.is_dictionary(array.type) and array.dictionary.type == kind:
        return pc.take(array.dictionary, array.indices)
    return array.cast(kind)


def _wide_decimals(array: Any, kind: Any) -> Any:
    """Return decimals in 128 bits, by sign extension."""
    validity, values = array.buffers()
    narrow = np.frombuffer(values, np.int64, len(array), 8 * array.offset)
    wide = np.empty((len(array), 2), np.int64)
    wide[:, 0] = narrow
    np.right_shift(narrow, 63, out=wide[:, 1])
    if validity is not None and array.offset:
        validity = array.is_valid().buffers()[1]
    return pa.Array.from_buffers(kind, len(array), [validity, pa.py_buffer(wide)])


def _given(array: Any) -> Any:
    return array


def _named(names: Any, flows: npt.NDArray[np.int32]) -> Any:
    """Return the names of flows; usually all rows are of one."""
    if (flows == flows[0]).all():
        return pa.repeat(names[int(flows[0])], len(flows))
    return names.take(pa.array(flows))


def _zero_is_null(numbers: Int64Array) -> Any:
    zero = numbers == 0
    return pa.array(numbers, mask=zero if zero.any() else None)


def _bytes_of(walked: WalkedPackets, row: int) -> bytes:
    start = int(walked.body[row]) - MIN_MESSAGE_SIZE
    return walked.buffer[start : int(walked.end[row])].tobytes()


def _plain(value: Any) -> Any:
    """Return a value in a type of JSON: decimals and dates as text, bytes in hexadecimal."""
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, date):
        return value.isoformat()
    return value.hex()


# --- Plan ---


def ranges_of(request: ReadRequest) -> list[CaptureRange]:
    """Return the named captures, split into ranges where possible."""
    ranges: list[CaptureRange] = []
    for entry in find_captures(request.captures):
        points = split_points(entry.location.source, request.range_bytes)
        if points == [0]:
            ranges.append(CaptureRange(entry.location))
            continue
        ends: list[int | None] = [*points[1:], None]
        ranges += [
            CaptureRange(entry.location, start, end)
            for start, end in zip(points, ends, strict=True)
        ]
    return ranges


def planned_streams(request: ReadRequest, locations: Iterable[Location]) -> dict[str, str]:
    """Return the stream of each destination; empty if no column or option needs it."""
    if "stream" not in shape_of(request).schema.names and request.streams is None:
        return {}
    return streams_of(locations, request.registry())


def streams_of(locations: Iterable[Location], registry: Registry) -> dict[str, str]:
    """Return the stream of each destination, from samples of the captures."""
    chosen = dict.fromkeys(locations)
    return survey_streams([location.source for location in chosen], registry)
