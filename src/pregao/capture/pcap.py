"""The pcap file format: its header, its records and their limits."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from pregao.capture.source import capture_error
from pregao.errors import CaptureError

HEADER_BYTES = 24
RECORD_HEADER_BYTES = 16

USUAL_CAPTURED = 256 * 1024
"""A record up to this length is accepted whatever the file states as its snap length."""

MAX_CAPTURED_LENGTH = 1024 * 1024
"""A longer record is rejected even if the snap length allows it: no IP packet is that long."""

_MICROSECONDS = 0xA1B2C3D4
_NANOSECONDS = 0xA1B23C4D
_MODIFIED = 0xA1B2CD34
_HINTS = (
    (b"BZh", "bzip2 data; decompress it first"),
    (b"\xfd7zXZ\0", "xz data; decompress it first"),
    (b"\x04\x22\x4d\x18", "lz4 data; decompress it first"),
    (b"PK\x03\x04", "a zip archive; extract the capture from it first"),
    (b"snoop\0\0\0", "a snoop capture; convert it to pcap first"),
)


def max_record_size(snap_length: int) -> int:
    """Return the maximum captured length of a record, given the stated snap length."""
    return min(max(snap_length, USUAL_CAPTURED), MAX_CAPTURED_LENGTH)


@dataclass(frozen=True, slots=True)
class PcapHeader:
    """The file header of a pcap, 24 bytes."""

    big_endian: bool
    time_unit_ns: int
    snap_length: int
    link_type: int

    @property
    def max_captured_length(self) -> int:
        """Maximum captured length of a record."""
        return max_record_size(self.snap_length)

    @property
    def record(self) -> struct.Struct:
        """Layout of a record header: seconds, fraction, captured length, original length."""
        return struct.Struct(">IIII" if self.big_endian else "<IIII")

    def check_captured(self, captured: int, name: str, position: int) -> None:
        """Raise CaptureError for an impossible length: the next record cannot be located."""
        if captured > self.max_captured_length:
            raise capture_error(
                name,
                position,
                f"the record claims {captured} captured bytes, above the limit of "
                f"{self.max_captured_length}; the file is damaged here or is not a capture",
            )


def is_pcap(head: bytes) -> bool:
    """Whether the first bytes are those of a pcap, including unsupported variants."""
    little, big = int.from_bytes(head[:4], "little"), int.from_bytes(head[:4], "big")
    known = {_MICROSECONDS, _NANOSECONDS, _MODIFIED}
    return len(head) >= 4 and (little in known or big in known)


def parse_header(head: bytes, name: str) -> PcapHeader:
    """Parse the file header.

    Raises:
        CaptureError: It is not the header of a readable pcap.
    """
    big_endian = head[:2] == b"\xa1\xb2"
    order = ">" if big_endian else "<"
    magic = struct.unpack_from(f"{order}I", head)[0]
    if magic == _MODIFIED:
        raise capture_error(
            name,
            0,
            "this is the modified pcap format of Kuznetzov's old libpcap patch, whose header does "
            "not determine the record layout; convert it with tcpdump or Wireshark first",
        )
    if len(head) < HEADER_BYTES:
        raise capture_error(
            name, len(head), "the file ends inside the pcap header; nothing was captured"
        )
    major, minor, _, _, snap_length, network = struct.unpack_from(f"{order}HHiIII", head, 4)
    if (major, minor) != (2, 4):
        raise capture_error(name, 4, f"pcap version {major}.{minor} is not supported; only 2.4 is")
    # The bits above the link type are the length of the frame check sequence; IP's length excludes
    # it.
    return PcapHeader(
        big_endian, 1000 if magic == _MICROSECONDS else 1, snap_length, network & 0xFFFF
    )


def not_a_capture(head: bytes, name: str) -> CaptureError:
    """Return the error for a file that is neither pcap nor pcapng."""
    if not head:
        return capture_error(name, 0, "the file is empty")
    for start, hint in _HINTS:
        if head.startswith(start):
            return capture_error(name, 0, f"this is {hint}")
    shown = head[:8].hex(" ")
    return capture_error(
        name,
        0,
        f"not a capture: it starts with {shown}; expected a pcap or pcapng file "
        "(plain, gzip or zstd)",
    )
