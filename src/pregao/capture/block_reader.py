"""The bulk path: a kernel converts blocks of a capture to flat arrays of datagrams."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from pregao.capture import _kernels, _layer_kernels, pcap, pcapng
from pregao.capture.blocks import (
    PACKET_COLUMNS,
    PADDING,
    SEGMENT_COLUMNS,
    Columns,
    FlowTable,
    PacketBlock,
    SegmentBlock,
    join_columns,
)
from pregao.capture.fragments import FragmentLimits
from pregao.capture.layers import (
    ETHERNET,
    LINUX_COOKED,
    LINUX_COOKED_2,
    RAW_IP,
    RAW_IPV4,
    Datagram,
    Flow,
    PacketDissector,
    Segment,
)
from pregao.capture.reader import Packet, TruncatedTail, check_range, open_format
from pregao.capture.source import ByteSource, Source, open_source
from pregao.capture.statistics import CaptureStatistics
from pregao.errors import CaptureError
from pregao.extras import kernels_compiled, warn_about_slowness

BLOCK_BYTES = 4 * 1024 * 1024
"""Default block size: it stays in the processor's cache while it is decoded."""

_LINK_KINDS = {
    ETHERNET: _layer_kernels.LINK_ETHERNET,
    LINUX_COOKED: _layer_kernels.LINK_COOKED,
    LINUX_COOKED_2: _layer_kernels.LINK_COOKED_2,
    RAW_IPV4: _layer_kernels.LINK_RAW,
    **dict.fromkeys(RAW_IP, _layer_kernels.LINK_RAW),
}
_INT64_MAX = (1 << 63) - 1
_SLOW_FROM_BYTES = 16 << 20
"""Bytes above which reading takes long without compiled kernels."""


@dataclass(slots=True)
class _Scratch:
    """Output arrays of the kernel, reused for every block."""

    columns: Columns
    segments: Columns
    odd_at: NDArray[np.int64]
    odd_number: NDArray[np.int64]
    result: NDArray[np.int64]

    @classmethod
    def with_capacity(cls, records: int, *, segments: bool) -> _Scratch:
        columns = [np.empty(records, dtype) for dtype in PACKET_COLUMNS]
        of_tcp = [np.empty(records if segments else 0, dtype) for dtype in SEGMENT_COLUMNS]
        odd_at, odd_number = np.empty(records, np.int64), np.empty(records, np.int64)
        return cls(columns, of_tcp, odd_at, odd_number, np.zeros(_kernels.RESULTS, np.int64))


class _SetAside:
    """Results of the plain code for packets that the kernel set aside."""

    def __init__(self, *, segments: bool) -> None:
        self.datagrams: list[Datagram] = []
        self.segments: list[Segment] = []
        self._wanted = (Datagram, Segment) if segments else Datagram

    def take(self, item: object) -> None:
        """Keep the item if it was requested; it is already in the statistics."""
        if isinstance(item, Segment) and isinstance(item, self._wanted):
            self.segments.append(item)
        elif isinstance(item, Datagram):
            self.datagrams.append(item)


class BlockReader:
    """The blocks of a capture; can be iterated over once.

    ``flows`` grows while blocks are read; ``statistics`` and ``truncated_tail`` are complete after
    the iteration. Datagrams and statistics are exactly those of the packet-by-packet path. A
    damaged record raises CaptureError after the block with everything before it.

    With ``segments``, the reader's ``segments`` has the TCP segments of the same range as each
    block, which may then have no datagrams.
    """

    def __init__(
        self,
        source: ByteSource,
        *,
        start: int | None = None,
        end: int | None = None,
        block_bytes: int = BLOCK_BYTES,
        limits: FragmentLimits | None = None,
        max_flows: int = 1_000_000,
        segments: bool = False,
    ) -> None:
        self.name = source.name
        self.source = source
        self.truncated_tail: TruncatedTail | None = None
        self._layers = PacketDissector(limits=limits)
        self._header, self._parser, head = open_format(source)
        self._start, self._end = check_range(self._header, source, start, end)
        if self._start > len(head):
            source.seek(self._start)
        self._carry = np.frombuffer(b"" if self._header else head, np.uint8)
        self._block_bytes = max(block_bytes, 64)
        self._table = FlowTable(source.name, max_flows, "UDP")
        self._tcp_table = FlowTable(source.name, max_flows, "TCP")
        self._with_segments = segments
        self.segments: SegmentBlock | None = None
        """TCP segments of the range of the last block, if requested."""
        records = min(self._block_bytes // 32, 1 << 17) + 1
        self._scratch = _Scratch.with_capacity(records, segments=segments)
        self._clocks = _Clocks()
        self._error: CaptureError | None = None
        self._blocks = self._walk()

    @property
    def statistics(self) -> CaptureStatistics:
        """Statistics of the packets so far."""
        return self._layers.statistics

    @property
    def flows(self) -> list[Flow]:
        """The flows seen so far; the index of a flow never changes."""
        return self._table.flows

    @property
    def tcp_flows(self) -> list[Flow]:
        """The TCP flows seen so far, if segments were requested."""
        return self._tcp_table.flows

    @property
    def format(self) -> str:
        """``pcap`` or ``pcapng``."""
        return "pcap" if self._header else "pcapng"

    @property
    def link_types(self) -> list[int]:
        """The link types of the file; for pcapng, those of the last section read."""
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
                size = self._block_bytes
                if self._end is not None:
                    size = min(size, max(0, self._end - base))
                size = max(size, needed, len(self._carry))
                buffer = np.empty(size + PADDING, np.uint8)
                filled = len(self._carry)
                buffer[:filled] = self._carry
                filled += self.source.readinto(buffer.data[filled:size])
                buffer = buffer[: filled + PADDING]
                buffer[filled:] = 0
                stop = filled if self._end is None else min(filled, max(0, self._end - base))
                block, consumed = self._block(buffer, filled, stop, base)
                if len(block) or self.segments:
                    yield block
                if self._error is not None:
                    raise self._error
                if self._end is not None and base + consumed >= self._end:
                    return
                if filled < size:
                    left = filled - consumed
                    if left or self.source.cut:
                        self.truncated_tail = TruncatedTail(base + consumed, left, self.source.cut)
                    return
                needed = self._record_length(buffer, consumed, filled, base)
                self._carry = buffer[consumed:filled]
                base += consumed
                if base > _SLOW_FROM_BYTES and not kernels_compiled():
                    warn_about_slowness()
        finally:
            self.close()

    def _record_length(self, buffer: NDArray[np.uint8], at: int, filled: int, base: int) -> int:
        """Return the length of the record at ``at``, if known, so that it is read completely."""
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
        """Walk one buffer; return its datagrams and the number of bytes consumed."""
        pieces: list[Columns] = []
        of_tcp: list[Columns] = []
        odd = _SetAside(segments=self._with_segments)
        scratch, table, statistics = self._scratch, self._table, self.statistics
        result, view, at = scratch.result, buffer.data, 0
        while True:
            result[_kernels.FLOW_COUNT] = table.count
            result[_kernels.TCP_FLOW_COUNT] = self._tcp_table.count
            self._run_kernel(buffer, at, filled, stop, base)
            count = int(result[_kernels.DATAGRAMS])
            at = int(result[_kernels.AT])
            of_segments = int(result[_kernels.SEGMENTS])
            table.take_new(int(result[_kernels.FLOW_COUNT]))
            self._tcp_table.take_new(int(result[_kernels.TCP_FLOW_COUNT]))
            statistics.packets += count + of_segments
            statistics.udp += count
            statistics.tcp += of_segments
            statistics.bytes += int(result[_kernels.CAPTURED])
            statistics.udp_bytes += int(result[_kernels.PAYLOAD])
            if count:
                pieces.append([column[:count].copy() for column in scratch.columns])
            if of_segments and self._with_segments:
                of_tcp.append([column[:of_segments].copy() for column in scratch.segments])
            stopped = int(result[_kernels.STOPPED])
            try:
                for index in range(int(result[_kernels.ODD])):
                    offset, number = int(scratch.odd_at[index]), int(scratch.odd_number[index])
                    self._odd(view, offset, number, base, odd)
                if stopped == _kernels.RECORD:
                    length = self._plain_record(view, at, filled, base, odd)
                    if not length:
                        break
                    at += length
                elif stopped == _kernels.FLOWS:
                    table.grow()
                elif stopped == _kernels.TCP_FLOWS:
                    self._tcp_table.grow()
                elif stopped == _kernels.ENDED:
                    break
            except CaptureError as error:
                self._error = error
                break
        if self._with_segments:
            self.segments = SegmentBlock(
                *join_columns(
                    buffer, filled, of_tcp, odd.segments, self._tcp_table, SEGMENT_COLUMNS
                )
            )
        found = join_columns(buffer, filled, pieces, odd.datagrams, table, PACKET_COLUMNS)
        return PacketBlock(*found), at

    def _run_kernel(
        self, buffer: NDArray[np.uint8], at: int, filled: int, stop: int, base: int
    ) -> None:
        scratch, table, header = self._scratch, self._table, self._header
        tcp = self._tcp_table
        tcp_tables = (tcp.slots, tcp.addresses, tcp.ports)
        segments = tuple(scratch.segments)
        outputs = (
            table.slots, table.addresses, table.ports, *scratch.columns, scratch.odd_at,
            scratch.odd_number, tcp_tables, segments, scratch.result,
        )  # fmt: skip
        if header:
            _kernels.walk_pcap(
                buffer,
                at,
                filled,
                stop,
                base,
                header.big_endian,
                header.time_unit_ns,
                header.max_captured_length,
                _LINK_KINDS.get(header.link_type, _layer_kernels.LINK_ODD),
                *outputs,
            )
        else:
            _kernels.walk_pcapng(
                buffer,
                at,
                filled,
                base,
                self._parser.big_endian,
                pcapng.MAX_BLOCK,
                self._clocks.rows(self._parser),
                *outputs,
            )

    def _odd(self, view: memoryview, at: int, number: int, base: int, odd: _SetAside) -> None:
        """Pass a packet that the kernel set aside to the plain layers."""
        position = base + at
        if self._header:
            header = self._header
            seconds, fraction, captured, original = header.record.unpack_from(view, at)
            time_ns = seconds * 1_000_000_000 + fraction * header.time_unit_ns
            data = bytes(view[at + 16 : at + 16 + captured])
            packet = Packet(time_ns, data, original, header.link_type, position, number, 0)
        else:
            length = self._parser.block_length(view, at, position)
            location = self._parser.block(view, at, length, position)
            if location is None:
                return
            packet = Packet(
                location.time_ns,
                bytes(view[location.at : location.at + location.captured]),
                location.original,
                location.link_type,
                position,
                number,
                location.interface,
            )
        odd.take(self._layers.item(packet))

    def _plain_record(
        self, view: memoryview, at: int, filled: int, base: int, odd: _SetAside
    ) -> int:
        """Read one record with the plain code; return its length, 0 if it is incomplete."""
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

    def close(self) -> None:
        """Close the file, if the reader opened it."""
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
    """Conversion table of ticks for the pcapng kernel, grown as interfaces appear."""

    def __init__(self) -> None:
        self._rows = np.zeros((4, 7), np.int64)
        self._known: list[pcapng.CaptureInterface] | None = None
        self._count = 0

    def rows(self, parser: pcapng.BlockParser) -> NDArray[np.int64]:
        """Return one row for each interface of the current section."""
        interfaces = parser.interfaces
        if interfaces is not self._known:
            self._known, self._count = interfaces, 0
        while self._count < len(interfaces):
            if self._count == len(self._rows):
                self._rows = np.concatenate((self._rows, np.zeros_like(self._rows)))
            self._rows[self._count] = _clock(interfaces[self._count])
            self._count += 1
        return self._rows[: self._count]


def _clock(interface: pcapng.CaptureInterface) -> tuple[int, ...]:
    """Return a row of the table; its last tick is -1 if the kernel cannot convert exactly."""
    offset_ns = interface.offset_s * 1_000_000_000
    limit = _INT64_MAX - max(offset_ns, 0)
    factor, divisor, shift, last = 1, 1, -1, -1
    if interface.binary:
        # Above 33 the fraction times a second does not fit 64 bits.
        if interface.exponent <= 33:
            shift = interface.exponent
            last = (limit // 1_000_000_000 - 1) << shift
    elif interface.exponent <= 9:
        factor = 10 ** (9 - interface.exponent)
        last = limit // factor
    elif interface.exponent <= 27:
        divisor = 10 ** (interface.exponent - 9)
        last = limit
    if abs(offset_ns) > _INT64_MAX or last < 0:
        offset_ns, last = 0, -1
    link = _LINK_KINDS.get(interface.link_type, _layer_kernels.LINK_ODD)
    longest = pcap.max_record_size(interface.snap_length)
    return link, longest, min(last, _INT64_MAX), factor, divisor, shift, offset_ns


def read_blocks(
    source: Source,
    start: int | None = None,
    end: int | None = None,
    block_bytes: int = BLOCK_BYTES,
    *,
    limits: FragmentLimits | None = None,
    max_flows: int = 1_000_000,
    segments: bool = False,
) -> BlockReader:
    """Open a capture for reading in blocks; ``start`` and ``end`` as for ``read_packets``.

    With ``segments``, TCP segments are available in addition to the datagrams of each block.
    """
    opened = open_source(source)
    try:
        return BlockReader(
            opened,
            start=start,
            end=end,
            block_bytes=block_bytes,
            limits=limits,
            max_flows=max_flows,
            segments=segments,
        )
    except BaseException:
        opened.close()
        raise
