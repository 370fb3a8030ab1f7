"""The pcapng file format: sections, interfaces with their clocks, and packet blocks."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from pregao.capture.pcap import max_record_size
from pregao.capture.source import capture_error

SECTION = 0x0A0D0D0A
INTERFACE = 1
OBSOLETE_PACKET = 2
SIMPLE_PACKET = 3
ENHANCED_PACKET = 6

BLOCK_HEAD_BYTES = 12
"""Type, length and, in a section header, the byte-order magic; also the minimum block length."""

MAX_BLOCK = 64 * 1024 * 1024
"""A longer block is rejected: an absurdly large packet, or a damaged length."""

MAX_INTERFACES = 65536
"""More interfaces per section are rejected: obsolete packet blocks could not refer to them."""

_ORDER_MAGIC = 0x1A2B3C4D
_OPTION_TIME_RESOLUTION = 9
_OPTION_TIME_OFFSET = 14
_INT64 = 1 << 63
_SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class CaptureInterface:
    """A capture interface, with its clock resolution.

    A tick is ``10**-exponent`` seconds, or ``2**-exponent`` if ``binary``.
    """

    link_type: int
    snap_length: int
    exponent: int = 6
    binary: bool = False
    offset_s: int = 0

    def time_ns(self, ticks: int) -> int:
        """Return the time in nanoseconds since 1970, exact; finer ticks are rounded down."""
        if self.binary:
            fine = ticks * _SECOND >> self.exponent
        elif self.exponent <= 9:
            fine = ticks * 10 ** (9 - self.exponent)
        else:
            fine = ticks // 10 ** (self.exponent - 9)
        return fine + self.offset_s * _SECOND


@dataclass(frozen=True, slots=True)
class PacketLocation:
    """A packet inside a block: its time, the position of its bytes, and its interface.

    The interface number counts over all sections of the file.
    """

    time_ns: int
    at: int
    captured: int
    original: int
    link_type: int
    interface: int


class BlockParser:
    """Parses blocks in sequence, with the state of the section and its interfaces.

    ``interfaces`` lists those of the current section; ``interfaces_before`` counts those of earlier
    sections. Blocks are passed as bytes that contain them completely.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.big_endian = False
        self.interfaces: list[CaptureInterface] = []
        self.interfaces_before = 0
        self._order = "<"

    def block_length(self, data: bytes | memoryview, at: int, position: int) -> int:
        """Return the length of the block that starts at ``at``, from its first twelve bytes."""
        if data[at : at + 4] == b"\n\r\r\n":
            magic = bytes(data[at + 8 : at + 12])
            if magic == _ORDER_MAGIC.to_bytes(4, "little"):
                order = "<"
            elif magic == _ORDER_MAGIC.to_bytes(4, "big"):
                order = ">"
            else:
                raise capture_error(
                    self.name, position, f"the section header has no byte-order magic: {magic!r}"
                )
        else:
            order = self._order
        length: int = struct.unpack_from(f"{order}I", data, at + 4)[0]
        if length < BLOCK_HEAD_BYTES or length % 4 or length > MAX_BLOCK:
            raise capture_error(
                self.name,
                position,
                f"a block claims {length} bytes, which is not a multiple of 4 from 12 to "
                f"{MAX_BLOCK}; the file is damaged here",
            )
        return length

    def block(
        self, data: bytes | memoryview, at: int, length: int, position: int
    ) -> PacketLocation | None:
        """Process a complete block; return its packet, if it is a packet block."""
        section = data[at : at + 4] == b"\n\r\r\n"
        if section:
            big_endian = bytes(data[at + 8 : at + 12]) == _ORDER_MAGIC.to_bytes(4, "big")
            order = ">" if big_endian else "<"
        else:
            order = self._order
        kind, _ = struct.unpack_from(f"{order}II", data, at)
        closing: int = struct.unpack_from(f"{order}I", data, at + length - 4)[0]
        if closing != length:
            raise capture_error(
                self.name,
                position,
                f"the block's length is {length} at its start and {closing} at its end; "
                "the file is damaged here",
            )
        if section:
            self._section(data, at, length, position, order)
        elif kind == INTERFACE:
            self._interface(data, at, length, position)
        elif kind == ENHANCED_PACKET:
            self._require_length(length, 32, position, "an enhanced packet block")
            interface, high, low, captured, original = struct.unpack_from(
                f"{order}IIIII", data, at + 8
            )
            ticks = high << 32 | low
            return self._packet(interface, ticks, at + 28, captured, original, length, position)
        elif kind == OBSOLETE_PACKET:
            self._require_length(length, 32, position, "an obsolete packet block")
            interface, _, high, low, captured, original = struct.unpack_from(
                f"{order}HHIIII", data, at + 8
            )
            ticks = high << 32 | low
            return self._packet(interface, ticks, at + 28, captured, original, length, position)
        elif kind == SIMPLE_PACKET:
            self._require_length(length, 16, position, "a simple packet block")
            (original,) = struct.unpack_from(f"{order}I", data, at + 8)
            return self._simple(at + 12, original, length, position)
        return None

    def _section(
        self, data: bytes | memoryview, at: int, length: int, position: int, order: str
    ) -> None:
        self._require_length(length, 28, position, "a section header")
        major, minor = struct.unpack_from(f"{order}HH", data, at + 12)
        if major != 1:
            raise capture_error(
                self.name, position, f"pcapng version {major}.{minor} is not supported; only 1.x is"
            )
        self._order = order
        self.big_endian = order == ">"
        self.interfaces_before += len(self.interfaces)
        self.interfaces = []

    def _interface(self, data: bytes | memoryview, at: int, length: int, position: int) -> None:
        self._require_length(length, 20, position, "an interface block")
        link_type, _, snap_length = struct.unpack_from(f"{self._order}HHI", data, at + 8)
        exponent, binary, offset_s = 6, False, 0
        offset, end = at + 16, at + length - 4
        while offset + 4 <= end:
            code, size = struct.unpack_from(f"{self._order}HH", data, offset)
            offset += 4
            if code == 0:
                break
            if offset + size > end:
                raise capture_error(self.name, position, "an option runs past its interface block")
            if code == _OPTION_TIME_RESOLUTION:
                if size != 1:
                    raise capture_error(
                        self.name, position, f"if_tsresol has {size} bytes instead of 1"
                    )
                exponent, binary = data[offset] & 0x7F, data[offset] >= 0x80
            elif code == _OPTION_TIME_OFFSET:
                if size != 8:
                    raise capture_error(
                        self.name, position, f"if_tsoffset has {size} bytes instead of 8"
                    )
                (offset_s,) = struct.unpack_from(f"{self._order}q", data, offset)
            offset += size + -size % 4
        if len(self.interfaces) == MAX_INTERFACES:
            raise capture_error(
                self.name, position, f"more than {MAX_INTERFACES} interfaces in a section"
            )
        self.interfaces.append(CaptureInterface(link_type, snap_length, exponent, binary, offset_s))

    def _packet(
        self,
        interface: int,
        ticks: int,
        at: int,
        captured: int,
        original: int,
        length: int,
        position: int,
    ) -> PacketLocation:
        known = self._known(interface, position)
        if captured > length - 32:
            raise capture_error(
                self.name,
                position,
                f"the packet claims {captured} captured bytes in a block of {length}",
            )
        self._check_captured(captured, known, position)
        time_ns = known.time_ns(ticks)
        if not -_INT64 <= time_ns < _INT64:
            raise capture_error(
                self.name,
                position,
                f"the packet's time, {time_ns} ns, does not fit 64 bits; "
                "the packet or its interface's clock is damaged",
            )
        number = self.interfaces_before + interface
        return PacketLocation(time_ns, at, captured, original, known.link_type, number)

    def _simple(self, at: int, original: int, length: int, position: int) -> PacketLocation:
        """Return the packet of a simple packet block, which has no time (0) or captured length."""
        known = self._known(0, position)
        captured = min(original, known.snap_length or original)
        if captured > length - 16:
            raise capture_error(
                self.name, position, f"the packet needs {captured} bytes in a block of {length}"
            )
        self._check_captured(captured, known, position)
        return PacketLocation(0, at, captured, original, known.link_type, self.interfaces_before)

    def _known(self, interface: int, position: int) -> CaptureInterface:
        if interface >= len(self.interfaces):
            raise capture_error(
                self.name,
                position,
                f"the packet refers to interface {interface}, which was not described before",
            )
        return self.interfaces[interface]

    def _check_captured(self, captured: int, interface: CaptureInterface, position: int) -> None:
        limit = max_record_size(interface.snap_length)
        if captured > limit:
            raise capture_error(
                self.name,
                position,
                f"the packet claims {captured} captured bytes, above the limit of {limit}",
            )

    def _require_length(self, length: int, needed: int, position: int, what: str) -> None:
        if length < needed:
            raise capture_error(
                self.name, position, f"{what} of {length} bytes is shorter than its {needed} bytes"
            )
