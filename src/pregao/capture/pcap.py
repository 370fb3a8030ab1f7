"""The pcap file format: its header, its records and the limits they must keep."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from pregao.capture.source import capture_error
from pregao.errors import CaptureError

HEADER_BYTES = 24
RECORD_HEADER_BYTES = 16

USUAL_CAPTURED = 256 * 1024
"""A record up to this length is accepted whatever the file states as its snap length."""

MOST_CAPTURED = 1024 * 1024
"""A longer record is refused even if the snap length allows it: no IP packet comes near."""

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


def longest_record(snap_length: int) -> int:
    """The longest captured length that a record may state, given the stated snap length."""
    return min(max(snap_length, USUAL_CAPTURED), MOST_CAPTURED)


@dataclass(frozen=True, slots=True)
class PcapHeader:
    """What the first 24 bytes of a pcap file say."""

    big_endian: bool
    time_unit_ns: int
    snap_length: int
    link_type: int

    @property
    def most_captured(self) -> int:
        """The longest captured length that a record may state."""
        return longest_record(self.snap_length)

    @property
    def record(self) -> struct.Struct:
        """The layout of a record's header: seconds, fraction, captured length, true length."""
        return struct.Struct(">IIII" if self.big_endian else "<IIII")

    def check_captured(self, captured: int, name: str, position: int) -> None:
        """Refuse a record whose length cannot be: what follows it cannot be found any more."""
        if captured > self.most_captured:
            raise capture_error(
                name,
                position,
                f"the record claims {captured} captured bytes, above the limit of "
                f"{self.most_captured}; the file is damaged here or is not a capture",
            )


def is_pcap(head: bytes) -> bool:
    """Does a file that starts so look like a pcap, also of a kind that is not read?"""
    little, big = int.from_bytes(head[:4], "little"), int.from_bytes(head[:4], "big")
    known = {_MICROSECONDS, _NANOSECONDS, _MODIFIED}
    return len(head) >= 4 and (little in known or big in known)


def parse_header(head: bytes, name: str) -> PcapHeader:
    """Read the file header; what is not the header of a readable pcap is a CaptureError."""
    big_endian = head[:2] == b"\xa1\xb2"
    order = ">" if big_endian else "<"
    magic = struct.unpack_from(f"{order}I", head)[0]
    if magic == _MODIFIED:
        raise capture_error(
            name,
            0,
            "this is the modified pcap format of Kuznetzov's old libpcap patch, whose records "
            "cannot be told from its header; convert it with tcpdump or Wireshark first",
        )
    if len(head) < HEADER_BYTES:
        raise capture_error(
            name, len(head), "the file ends inside the pcap header; nothing was captured"
        )
    major, minor, _, _, snap_length, network = struct.unpack_from(f"{order}HHiIII", head, 4)
    if (major, minor) != (2, 4):
        raise capture_error(
            name, 4, f"pcap version {major}.{minor} is not known; 2.4 is the one in use"
        )
    # The bits above the link type say how long a frame check sequence is; IP's own length cuts it.
    return PcapHeader(
        big_endian, 1000 if magic == _MICROSECONDS else 1, snap_length, network & 0xFFFF
    )


def not_a_capture(head: bytes, name: str) -> CaptureError:
    """The error for a file that is neither pcap nor pcapng."""
    if not head:
        return capture_error(name, 0, "the file is empty")
    for start, hint in _HINTS:
        if head.startswith(start):
            return capture_error(name, 0, f"this is {hint}")
    shown = head[:8].hex(" ")
    return capture_error(
        name,
        0,
        f"not a capture: it starts with {shown}, and a pcap or pcapng file was expected "
        "(plain, gzip or zstd)",
    )
