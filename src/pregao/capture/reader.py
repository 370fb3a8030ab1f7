"""Reading a capture packet by packet, in memory that does not depend on its size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType

from pregao.capture import pcap, pcapng
from pregao.capture.source import ByteSource, Source, capture_error, open_source
from pregao.errors import UsageError

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Packet:
    """A captured packet.

    ``data`` is the captured bytes and ``original_length`` the length on the wire; ``position`` is
    the byte position of its record in the (uncompressed) file, ``number`` counts from 1 in the file
    or range, as Wireshark does, and ``interface`` from 0 in the file. ``time_ns`` is 0 if the file
    has no time (simple packet blocks of pcapng).
    """

    time_ns: int
    data: bytes
    original_length: int
    link_type: int
    position: int
    number: int
    interface: int


@dataclass(frozen=True, slots=True)
class TruncatedTail:
    """The end of a file that was cut off, or is still being written, inside a record.

    The record starts at ``position`` and has ``length`` bytes so far; ``compressed`` states that
    the compressed data ends early (the length can then be 0).
    """

    position: int
    length: int
    compressed: bool = False

    def __str__(self) -> str:
        what = "the compressed data ends early, " if self.compressed else "the capture ends early, "
        return f"{what}{self.length} bytes into the record at byte {self.position}"


class ReadWindow:
    """A sliding window over the bytes of a source."""

    __slots__ = ("at", "base", "data", "ended", "source")

    def __init__(self, source: ByteSource, position: int) -> None:
        self.source = source
        self.base = position
        self.data = b""
        self.at = 0
        self.ended = False

    def has(self, count: int) -> bool:
        """Read until ``data`` has this many bytes from ``at`` on; False if the file has fewer."""
        left = len(self.data) - self.at
        if left >= count:
            return True
        if not self.ended:
            size = max(_CHUNK, count - left)
            piece = self.source.read(size)
            self.ended = len(piece) < size
            self.base += self.at
            self.data = self.data[self.at :] + piece
            self.at = 0
        return len(self.data) - self.at >= count

    def tail(self) -> TruncatedTail | None:
        """Return the incomplete record at the end; None if the file ends at a record boundary."""
        left = len(self.data) - self.at
        if left or self.source.cut:
            return TruncatedTail(self.base + self.at, left, self.source.cut)
        return None


class CaptureReader:
    """The packets of a capture; can be iterated over once.

    After the iteration, ``truncated_tail`` states whether the file ended inside a record. A damaged
    record raises CaptureError when the iteration reaches it.
    """

    def __init__(
        self, source: ByteSource, *, start: int | None = None, end: int | None = None
    ) -> None:
        self.name = source.name
        self.source = source
        self.truncated_tail: TruncatedTail | None = None
        self.header, self.blocks, head = open_format(source)
        self.start, self.end = check_range(self.header, source, start, end)
        if self.start > len(head):
            source.seek(self.start)
            head = b""
        self._window = ReadWindow(source, self.start)
        if self.header is None:
            self._window.data = head
        self._packets = self._walk()

    @property
    def format(self) -> str:
        """``pcap`` or ``pcapng``."""
        return "pcap" if self.header else "pcapng"

    def __iter__(self) -> Iterator[Packet]:
        return self._packets

    def __next__(self) -> Packet:
        return next(self._packets)

    def _walk(self) -> Iterator[Packet]:
        try:
            yield from self._pcap(self.header) if self.header else self._pcapng()
        finally:
            self.close()

    def _pcap(self, header: pcap.PcapHeader) -> Iterator[Packet]:
        window, end = self._window, self.end
        unpack, unit = header.record.unpack_from, header.time_unit_ns
        max_captured, link_type, number = header.max_captured_length, header.link_type, 0
        while True:
            position = window.base + window.at
            if end is not None and position >= end:
                return
            if not window.has(16):
                self.truncated_tail = window.tail()
                return
            seconds, fraction, captured, original = unpack(window.data, window.at)
            if captured > max_captured:
                header.check_captured(captured, self.name, position)
            if not window.has(16 + captured):
                self.truncated_tail = window.tail()
                return
            data = window.data[window.at + 16 : window.at + 16 + captured]
            window.at += 16 + captured
            number += 1
            time_ns = seconds * 1_000_000_000 + fraction * unit
            yield Packet(time_ns, data, original, link_type, position, number, 0)

    def _pcapng(self) -> Iterator[Packet]:
        window, blocks, number = self._window, self.blocks, 0
        while True:
            position = window.base + window.at
            if not window.has(pcapng.BLOCK_HEAD_BYTES):
                self.truncated_tail = window.tail()
                return
            length = blocks.block_length(window.data, window.at, position)
            if not window.has(length):
                self.truncated_tail = window.tail()
                return
            packet = blocks.block(window.data, window.at, length, position)
            if packet is not None:
                number += 1
                data = window.data[packet.at : packet.at + packet.captured]
                yield Packet(
                    packet.time_ns,
                    data,
                    packet.original,
                    packet.link_type,
                    position,
                    number,
                    packet.interface,
                )
            window.at += length

    def close(self) -> None:
        """Close the file, if the reader opened it."""
        self.source.close()

    def __enter__(self) -> CaptureReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def open_format(source: ByteSource) -> tuple[pcap.PcapHeader | None, pcapng.BlockParser, bytes]:
    """Detect the format. Returns the pcap header (None for pcapng), the parser, and bytes read."""
    head = source.read(pcap.HEADER_BYTES)
    parser = pcapng.BlockParser(source.name)
    if head[:4] == b"\n\r\r\n":
        if len(head) == pcap.HEADER_BYTES:
            head += source.read(parser.block_length(head, 0, 0) - len(head))
        if len(head) < pcapng.BLOCK_HEAD_BYTES or len(head) < parser.block_length(head, 0, 0):
            reason = "the file ends inside the pcapng section header; nothing was captured"
            raise capture_error(source.name, len(head), reason)
        return None, parser, head
    if pcap.is_pcap(head):
        return pcap.parse_header(head, source.name), parser, head
    raise pcap.not_a_capture(head, source.name)


def check_range(
    header: pcap.PcapHeader | None, source: ByteSource, start: int | None, end: int | None
) -> tuple[int, int | None]:
    """Return the start and end of the range; only an uncompressed pcap can be read in ranges."""
    first = pcap.HEADER_BYTES if header else 0
    if (start is None or start <= first) and end is None:
        return first, None
    if header is None or not source.random_access:
        raise UsageError(
            f"{source.name} cannot be read in ranges: that needs an uncompressed pcap on seekable "
            "storage. Read the complete file instead."
        )
    begin = max(first, start or 0)
    return begin, end


def read_packets(
    source: Source, *, start: int | None = None, end: int | None = None
) -> CaptureReader:
    """Open a capture for reading packet by packet.

    ``start`` and ``end`` bound a range of an uncompressed pcap: it has the packets whose records
    start in it. ``start`` must be a packet boundary, as returned by ``split_points`` and
    ``first_boundary``.
    """
    opened = open_source(source)
    try:
        return CaptureReader(opened, start=start, end=end)
    except BaseException:
        opened.close()
        raise
