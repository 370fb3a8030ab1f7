"""Packets of one range of a capture as flat arrays (UDP datagrams, TCP segments), and its flows."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pregao.capture import _layer_kernels as _kernels
from pregao.capture.layers import Datagram, Flow, Segment, address_text
from pregao.errors import CaptureError

_FIRST_CAPACITY = 256


class FlowTable:
    """Numbers flows; those over IPv4 are in ``slots``, ``addresses`` and ``ports`` too.

    The arrays are indexed by flow number, so flows over IPv6 leave unused entries in them.
    """

    def __init__(self, name: str, max_flows: int, transport: str = "UDP") -> None:
        self.flows: list[Flow] = []
        self.addresses: NDArray[np.uint64] = np.zeros(_FIRST_CAPACITY, np.uint64)
        self.ports: NDArray[np.uint64] = np.zeros(_FIRST_CAPACITY, np.uint64)
        self.slots: NDArray[np.int32] = np.full(2 * _FIRST_CAPACITY, -1, np.int32)
        self._name = name
        self._max_flows = max_flows
        self._transport = transport
        self._numbers: dict[Flow, int] = {}

    @property
    def count(self) -> int:
        """Number of flows."""
        return len(self.flows)

    def take_new(self, count: int) -> None:
        """Add the flows that a kernel put into the table, which now has this many."""
        for index in range(len(self.flows), count):
            # As in the packet: two addresses of four bytes, two ports of two bytes.
            addresses = int(self.addresses[index]).to_bytes(8, "little")
            src_port, dst_port = struct.unpack(">HH", int(self.ports[index]).to_bytes(4, "little"))
            src, dst = address_text(addresses[:4]), address_text(addresses[4:])
            self._add(Flow(src, src_port, dst, dst_port))

    def index(self, flow: Flow) -> int:
        """Return the number of a flow; adds a new one."""
        known = self._numbers.get(flow)
        if known is not None:
            return known
        index = len(self.flows)
        while index >= self.addresses.size:
            self.grow()
        if ":" not in flow.src:
            addresses = socket.inet_aton(flow.src) + socket.inet_aton(flow.dst)
            ports = struct.pack(">HH", flow.src_port, flow.dst_port)
            _kernels.find_flow(
                np.uint64(int.from_bytes(addresses, "little")),
                np.uint64(int.from_bytes(ports, "little")),
                self.slots,
                self.addresses,
                self.ports,
                index,
            )
        self._add(flow)
        return index

    def grow(self) -> None:
        """Double the capacity; the indices do not change."""
        capacity = 2 * self.addresses.size
        self.addresses = np.concatenate((self.addresses, np.zeros_like(self.addresses)))
        self.ports = np.concatenate((self.ports, np.zeros_like(self.ports)))
        self.slots = np.full(2 * capacity, -1, np.int32)
        over_ipv4 = np.array([":" not in flow.src for flow in self.flows], np.bool_)
        _kernels.fill_slots(self.slots, self.addresses, self.ports, over_ipv4)

    def _add(self, flow: Flow) -> None:
        if len(self.flows) >= self._max_flows:
            raise CaptureError(
                f"{self._name}: more than {self._max_flows} {self._transport} flows; this is not a "
                "market data capture. Filter it by address first, or raise the limit (max_flows)."
            )
        self._numbers[flow] = len(self.flows)
        self.flows.append(flow)


PADDING = 64
"""Readable bytes after the last payload byte of a block's buffer."""


@dataclass(frozen=True, slots=True)
class PacketBlock:
    """The UDP datagrams of one range of a capture, in file order, as flat arrays.

    Payload ``i`` is ``buffer[offset[i] : offset[i] + length[i]]``. At least 8 bytes (in fact
    ``PADDING``) can be read after any payload byte, so that kernels may load complete words. The
    buffer belongs to the block alone and stays valid as long as the block is kept.

    ``number`` counts the packets of the file or range from 1; ``position`` is the byte position of
    the packet's record in the (uncompressed) file; ``flow`` is an index into the reader's
    ``flows``. A datagram reassembled from fragments has the time, number and position of the
    completing fragment.
    """

    buffer: NDArray[np.uint8]
    time_ns: NDArray[np.int64]
    offset: NDArray[np.int64]
    length: NDArray[np.int32]
    number: NDArray[np.int64]
    position: NDArray[np.int64]
    flow: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.time_ns)

    def payload(self, index: int) -> bytes:
        """Return a copy of the payload of one datagram."""
        start = int(self.offset[index])
        return self.buffer[start : start + int(self.length[index])].tobytes()


@dataclass(frozen=True, slots=True)
class SegmentBlock:
    """The TCP segments of one range of a capture, in file order; columns as in `PacketBlock`.

    ``flow`` is an index into the reader's ``tcp_flows``; ``flags`` are as on the wire.
    """

    buffer: NDArray[np.uint8]
    time_ns: NDArray[np.int64]
    offset: NDArray[np.int64]
    length: NDArray[np.int32]
    number: NDArray[np.int64]
    position: NDArray[np.int64]
    flow: NDArray[np.int32]
    sequence: NDArray[np.int64]
    flags: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.time_ns)


# Types of time, offset, length, number, position and flow, in the order of the kernels' output.
PACKET_COLUMNS: tuple[Any, ...] = (np.int64, np.int64, np.int32, np.int64, np.int64, np.int32)
SEGMENT_COLUMNS: tuple[Any, ...] = (*PACKET_COLUMNS, np.int64, np.uint8)
_NUMBER = 3

Columns = list[NDArray[Any]]


def join_columns(
    buffer: NDArray[np.uint8],
    filled: int,
    pieces: list[Columns],
    odd: Sequence[Datagram] | Sequence[Segment],
    table: FlowTable,
    types: tuple[Any, ...],
) -> list[Any]:
    """Merge packets of the kernel and of the plain code into a buffer and columns in file order."""
    if odd:
        buffer, extra = _appended(buffer, filled, odd, table)
        pieces = [*pieces, extra]
    if not pieces:
        pieces = [[np.empty(0, dtype) for dtype in types]]
    columns = pieces[0]
    if len(pieces) > 1:
        columns = [np.concatenate(parts) for parts in zip(*pieces, strict=True)]
    if odd and len(pieces) > 1:
        order = np.argsort(columns[_NUMBER], kind="stable")
        columns = [column[order] for column in columns]
    return [buffer, *columns]


def _appended(
    buffer: NDArray[np.uint8],
    filled: int,
    odd: Sequence[Datagram] | Sequence[Segment],
    table: FlowTable,
) -> tuple[NDArray[np.uint8], Columns]:
    """Return a longer buffer with the plain code's payloads at its end, and their columns."""
    total = sum(len(item.payload) for item in odd)
    longer = np.zeros(filled + total + PADDING, np.uint8)
    longer[:filled] = buffer[:filled]
    joined = b"".join(item.payload for item in odd)
    longer[filled : filled + total] = np.frombuffer(joined, np.uint8)
    lengths = np.array([len(item.payload) for item in odd], np.int32)
    offsets = filled + np.concatenate(([0], np.cumsum(lengths[:-1], dtype=np.int64)))
    flows = [table.index(item.flow) for item in odd]
    columns: Columns = [
        np.array([item.time_ns for item in odd], np.int64),
        offsets.astype(np.int64),
        lengths,
        np.array([item.number for item in odd], np.int64),
        np.array([item.position for item in odd], np.int64),
        np.array(flows, np.int32),
    ]
    segments = [item for item in odd if isinstance(item, Segment)]
    if segments:
        columns.append(np.array([item.sequence for item in segments], np.int64))
        columns.append(np.array([item.flags for item in segments], np.uint8))
    return longer, columns
