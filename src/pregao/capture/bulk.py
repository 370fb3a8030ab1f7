"""The bulk path: whole blocks of a capture walked by a kernel into flat arrays of datagrams."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pregao.capture import _kernels, pcap, pcapng
from pregao.capture.flows import FlowTable
from pregao.capture.fragments import FragmentLimits
from pregao.capture.layers import (
    ETHERNET,
    LINUX_COOKED,
    LINUX_COOKED_2,
    RAW_IP,
    RAW_IPV4,
    Datagram,
    Flow,
    Layers,
)
from pregao.capture.reader import Packet, TruncatedTail, check_range, open_format
from pregao.capture.source import ByteSource, Source, open_source
from pregao.capture.statistics import CaptureStatistics
from pregao.errors import CaptureError

BLOCK_BYTES = 4 * 1024 * 1024
"""The usual size of a block: it stays in the processor's cache while it is decoded."""

PADDING = 64
"""Readable bytes behind the last payload byte of a block's buffer."""

_LINK_KINDS = {
    ETHERNET: _kernels.LINK_ETHERNET,
    LINUX_COOKED: _kernels.LINK_COOKED,
    LINUX_COOKED_2: _kernels.LINK_COOKED_2,
    RAW_IPV4: _kernels.LINK_RAW,
    **dict.fromkeys(RAW_IP, _kernels.LINK_RAW),
}
_INT64_MAX = (1 << 63) - 1
# Of time, offset, length, number, position and flow, in the order the kernels fill them.
_COLUMN_TYPES: tuple[Any, ...] = (np.int64, np.int64, np.int32, np.int64, np.int64, np.int32)
_NUMBER = 3


@dataclass(frozen=True, slots=True)
class PacketBlock:
    """The UDP datagrams of one stretch of a capture, in file order, as flat arrays.

    Payload ``i`` is ``buffer[offset[i] : offset[i] + length[i]]``. At least 8 bytes (in fact
    ``PADDING``) can be read behind any payload byte, so that kernels may load whole words. The
    buffer belongs to the block alone and stays valid as long as the block is kept.

    ``number`` counts the packets of the file or range from 1; ``position`` is the byte position of
    the packet's record in the (uncompressed) file; ``flow`` is an index into the reader's
    ``flows``. A datagram joined from fragments has the time, number and position of the one that
    completed it.
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
        """The payload of one datagram, copied out."""
        start = int(self.offset[index])
        return self.buffer[start : start + int(self.length[index])].tobytes()


@dataclass(slots=True)
class _Scratch:
    """Arrays the kernel writes to, used again for every block."""

    columns: list[NDArray[Any]]
    odd_at: NDArray[np.int64]
    odd_number: NDArray[np.int64]
    result: NDArray[np.int64]

    @classmethod
    def of(cls, records: int) -> _Scratch:
        columns = [np.empty(records, dtype) for dtype in _COLUMN_TYPES]
        odd_at, odd_number = np.empty(records, np.int64), np.empty(records, np.int64)
        return cls(columns, odd_at, odd_number, np.zeros(_kernels.RESULTS, np.int64))


class BlockReader:
    """The blocks of a capture, to be iterated over once.

    ``flows`` grows while blocks are read; ``statistics`` and ``truncated_tail`` are complete when
    the iteration is over. Datagrams and statistics are exactly those of the packet-by-packet
    path. A damaged record raises CaptureError after the block with everything before it.
    """

    def __init__(
        self,
        source: ByteSource,
        *,
        start: int | None = None,
        end: int | None = None,
        block_bytes: int = BLOCK_BYTES,
        limits: FragmentLimits | None = None,
        most_flows: int = 1_000_000,
    ) -> None:
        self.name = source.name
        self.source = source
        self.truncated_tail: TruncatedTail | None = None
        self._layers = Layers(limits=limits)
        self._header, self._parser, head = open_format(source)
        self._start, self._end = check_range(self._header, source, start, end)
        if self._start > len(head):
            source.seek(self._start)
        self._carry = np.frombuffer(b"" if self._header else head, np.uint8)
        self._block_bytes = max(block_bytes, 64)
        self._table = FlowTable(source.name, most_flows)
        self._scratch = _Scratch.of(min(self._block_bytes // 32, 1 << 17) + 1)
        self._clocks = _Clocks()
        self._error: CaptureError | None = None
        self._blocks = self._walk()

    @property
    def statistics(self) -> CaptureStatistics:
        """The account of the packets walked so far."""
        return self._layers.statistics

    @property
    def flows(self) -> list[Flow]:
        """The flows seen so far; the index of one never changes."""
        return self._table.flows

    @property
    def format(self) -> str:
        """``pcap`` or ``pcapng``."""
        return "pcap" if self._header else "pcapng"

    @property
    def link_types(self) -> list[int]:
        """The link types of the file; of a pcapng, those of the section that was read last."""
        if self._header:
            return [self._header.link_type]
        return sorted({interface.link_type for interface in self._parser.interfaces})

    def __iter__(self) -> Iterator[PacketBlock]:
        return self._blocks

    def __next__(self) -> PacketBlock:
        return next(self._blocks)

    def _walk(self) -> Iterator[PacketBlock]:
        base, needed = self._start, 0
        try:
            while True:
                wanted = self._block_bytes
                if self._end is not None:
                    wanted = min(wanted, max(0, self._end - base))
                wanted = max(wanted, needed, len(self._carry))
                buffer = np.empty(wanted + PADDING, np.uint8)
                filled = len(self._carry)
                buffer[:filled] = self._carry
                filled += self.source.readinto(buffer.data[filled:wanted])
                buffer = buffer[: filled + PADDING]
                buffer[filled:] = 0
                stop = filled if self._end is None else min(filled, max(0, self._end - base))
                block, consumed = self._block(buffer, filled, stop, base)
                if len(block):
                    yield block
                if self._error is not None:
                    raise self._error
                if self._end is not None and base + consumed >= self._end:
                    return
                if filled < wanted:
                    left = filled - consumed
                    if left or self.source.cut:
                        self.truncated_tail = TruncatedTail(base + consumed, left, self.source.cut)
                    return
                needed = self._record_length(buffer, consumed, filled, base)
                self._carry = buffer[consumed:filled]
                base += consumed
        finally:
            self.close()

    def _record_length(self, buffer: NDArray[np.uint8], at: int, filled: int, base: int) -> int:
        """How many bytes the record at ``at`` has, as far as can be told, so that it is read."""
        if self._header:
            if filled - at < 16:
                return 16
            return 16 + int(self._header.record.unpack_from(buffer.data, at)[2])
        if filled - at < pcapng.BLOCK_HEAD_BYTES:
            return pcapng.BLOCK_HEAD_BYTES
        return self._parser.block_length(buffer.data, at, base + at)

    def _block(
        self, buffer: NDArray[np.uint8], filled: int, stop: int, base: int
    ) -> tuple[PacketBlock, int]:
        """Walk one buffer; give its datagrams and how many of its bytes are done with."""
        pieces: list[list[NDArray[Any]]] = []
        odd: list[Datagram] = []
        scratch, table, statistics = self._scratch, self._table, self.statistics
        result, view, at = scratch.result, buffer.data, 0
        while True:
            result[_kernels.FLOW_COUNT] = table.count
            self._run_kernel(buffer, at, filled, stop, base)
            count = int(result[_kernels.DATAGRAMS])
            at = int(result[_kernels.AT])
            table.take_new(int(result[_kernels.FLOW_COUNT]))
            statistics.packets += count
            statistics.udp += count
            statistics.bytes += int(result[_kernels.CAPTURED])
            statistics.udp_bytes += int(result[_kernels.PAYLOAD])
            if count:
                pieces.append([column[:count].copy() for column in scratch.columns])
            stopped = int(result[_kernels.STOPPED])
            try:
                for index in range(int(result[_kernels.ODD])):
                    place, number = int(scratch.odd_at[index]), int(scratch.odd_number[index])
                    self._odd(view, place, number, base, odd)
                if stopped == _kernels.RECORD:
                    length = self._plain_record(view, at, filled, base, odd)
                    if not length:
                        break
                    at += length
                elif stopped == _kernels.FLOWS:
                    table.grow()
                elif stopped == _kernels.ENDED:
                    break
            except CaptureError as error:
                self._error = error
                break
        return self._assemble(buffer, filled, pieces, odd), at

    def _run_kernel(
        self, buffer: NDArray[np.uint8], at: int, filled: int, stop: int, base: int
    ) -> None:
        scratch, table, header = self._scratch, self._table, self._header
        if header:
            _kernels.walk_pcap(
                buffer,
                at,
                filled,
                stop,
                base,
                header.big_endian,
                header.time_unit_ns,
                header.most_captured,
                _LINK_KINDS.get(header.link_type, _kernels.LINK_ODD),
                table.slots,
                table.addresses,
                table.ports,
                *scratch.columns,
                scratch.odd_at,
                scratch.odd_number,
                scratch.result,
            )
        else:
            _kernels.walk_pcapng(
                buffer,
                at,
                filled,
                base,
                self._parser.big_endian,
                pcapng.MOST_BLOCK,
                self._clocks.rows(self._parser),
                table.slots,
                table.addresses,
                table.ports,
                *scratch.columns,
                scratch.odd_at,
                scratch.odd_number,
                scratch.result,
            )

    def _odd(self, view: memoryview, at: int, number: int, base: int, odd: list[Datagram]) -> None:
        """Let the plain layers look at a packet that the kernel set aside."""
        position = base + at
        if self._header:
            header = self._header
            seconds, fraction, captured, original = header.record.unpack_from(view, at)
            time_ns = seconds * 1_000_000_000 + fraction * header.time_unit_ns
            data = bytes(view[at + 16 : at + 16 + captured])
            packet = Packet(time_ns, data, original, header.link_type, position, number, 0)
        else:
            length = self._parser.block_length(view, at, position)
            place = self._parser.block(view, at, length, position)
            if place is None:
                return
            packet = Packet(
                place.time_ns,
                bytes(view[place.at : place.at + place.captured]),
                place.original,
                place.link_type,
                position,
                number,
                place.interface,
            )
        item = self._layers.item(packet)
        if isinstance(item, Datagram):
            odd.append(item)

    def _plain_record(
        self, view: memoryview, at: int, filled: int, base: int, odd: list[Datagram]
    ) -> int:
        """Read one record with the plain code; give its length, 0 if it is not whole here."""
        position = base + at
        if self._header:
            captured = self._header.record.unpack_from(view, at)[2]
            self._header.check_captured(captured, self.name, position)
            return 16 + int(captured)
        length = self._parser.block_length(view, at, position)
        if at + length > filled:
            return 0
        number = int(self._scratch.result[_kernels.NUMBER]) + 1
        before = self.statistics.packets
        self._odd(view, at, number, base, odd)
        self._scratch.result[_kernels.NUMBER] += self.statistics.packets - before
        return length

    def _assemble(
        self,
        buffer: NDArray[np.uint8],
        filled: int,
        pieces: list[list[NDArray[Any]]],
        odd: list[Datagram],
    ) -> PacketBlock:
        """Put the kernel's datagrams and those of the plain code together, in file order."""
        if odd:
            buffer, extra = self._append(buffer, filled, odd)
            pieces.append(extra)
        if not pieces:
            pieces.append([np.empty(0, dtype) for dtype in _COLUMN_TYPES])
        columns = pieces[0]
        if len(pieces) > 1:
            columns = [np.concatenate(parts) for parts in zip(*pieces, strict=True)]
        if odd and len(pieces) > 1:
            order = np.argsort(columns[_NUMBER], kind="stable")
            columns = [column[order] for column in columns]
        return PacketBlock(buffer, *columns)

    def _append(
        self, buffer: NDArray[np.uint8], filled: int, odd: list[Datagram]
    ) -> tuple[NDArray[np.uint8], list[NDArray[Any]]]:
        """A longer buffer with the plain code's payloads at its end, and their columns."""
        total = sum(len(item.payload) for item in odd)
        longer = np.zeros(filled + total + PADDING, np.uint8)
        longer[:filled] = buffer[:filled]
        joined = b"".join(item.payload for item in odd)
        longer[filled : filled + total] = np.frombuffer(joined, np.uint8)
        lengths = np.array([len(item.payload) for item in odd], np.int32)
        offsets = filled + np.concatenate(([0], np.cumsum(lengths[:-1], dtype=np.int64)))
        flows = [self._table.index(item.flow) for item in odd]
        return longer, [
            np.array([item.time_ns for item in odd], np.int64),
            offsets.astype(np.int64),
            lengths,
            np.array([item.number for item in odd], np.int64),
            np.array([item.position for item in odd], np.int64),
            np.array(flows, np.int32),
        ]

    def close(self) -> None:
        """Close the file, if it was opened here."""
        self.source.close()

    def __enter__(self) -> BlockReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _Clocks:
    """The table that the pcapng kernel converts ticks with, grown as interfaces appear."""

    def __init__(self) -> None:
        self._rows = np.zeros((4, 7), np.int64)
        self._known: list[pcapng.Interface] | None = None
        self._count = 0

    def rows(self, parser: pcapng.BlockParser) -> NDArray[np.int64]:
        """A row for each interface of the current section."""
        interfaces = parser.interfaces
        if interfaces is not self._known:
            self._known, self._count = interfaces, 0
        while self._count < len(interfaces):
            if self._count == len(self._rows):
                self._rows = np.concatenate((self._rows, np.zeros_like(self._rows)))
            self._rows[self._count] = _clock(interfaces[self._count])
            self._count += 1
        return self._rows[: self._count]


def _clock(interface: pcapng.Interface) -> tuple[int, ...]:
    """A row of the table; a clock that the kernel cannot convert exactly has -1 as last tick."""
    offset_ns = interface.offset_s * 1_000_000_000
    room = _INT64_MAX - max(offset_ns, 0)
    factor, divisor, shift, last = 1, 1, -1, -1
    if interface.binary:
        # Above 33 the fraction times a second does not fit 64 bits.
        if interface.exponent <= 33:
            shift = interface.exponent
            last = (room // 1_000_000_000 - 1) << shift
    elif interface.exponent <= 9:
        factor = 10 ** (9 - interface.exponent)
        last = room // factor
    elif interface.exponent <= 27:
        divisor = 10 ** (interface.exponent - 9)
        last = room
    if abs(offset_ns) > _INT64_MAX or last < 0:
        offset_ns, last = 0, -1
    link = _LINK_KINDS.get(interface.link_type, _kernels.LINK_ODD)
    longest = pcap.longest_record(interface.snap_length)
    return link, longest, min(last, _INT64_MAX), factor, divisor, shift, offset_ns


def read_blocks(
    source: Source,
    start: int | None = None,
    end: int | None = None,
    block_bytes: int = BLOCK_BYTES,
    *,
    limits: FragmentLimits | None = None,
    most_flows: int = 1_000_000,
) -> BlockReader:
    """Open a capture for reading in blocks; ``start`` and ``end`` as for ``read_packets``."""
    opened = open_source(source)
    try:
        return BlockReader(
            opened,
            start=start,
            end=end,
            block_bytes=block_bytes,
            limits=limits,
            most_flows=most_flows,
        )
    except BaseException:
        opened.close()
        raise
