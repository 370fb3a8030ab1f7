"""A capture file that may still grow: what identifies it, and how far it can be read.

A file is its name and its head (the first packet), and only ever grows. A plain pcap is read up to
its last whole packet and continued later; a compressed file or a pcapng is taken once, as a whole.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from pregao.capture.pcap import (
    HEADER_BYTES,
    MOST_CAPTURED,
    RECORD_HEADER_BYTES,
    PcapHeader,
    is_pcap,
    parse_header,
)
from pregao.capture.source import ByteSource, open_source
from pregao.capture.split import BoundaryFinder
from pregao.clock import SECOND
from pregao.lake.store import FileEntry, Location

HEAD_BYTES = 256
"""Of a file that is read as a whole, these bytes tell it from another of the same name."""
_PIECE_BYTES = MOST_CAPTURED + 64 * 1024
"""More than the longest record, so that every piece but the last has a whole one."""


@dataclass(frozen=True, slots=True)
class GrowingFile:
    """A file as it is at a look."""

    name: str
    location: Location
    head: str
    end: int
    """Behind its last whole packet."""
    whole: bool = False
    """It can only be read as a whole."""
    last_time_ns: int = 0
    modified_ns: int = 0

    @property
    def begin(self) -> int:
        """Where its packets begin."""
        return 0 if self.whole else HEADER_BYTES

    @property
    def file(self) -> str:
        """What identifies the file."""
        return file_identity(self.name, self.head)


def file_identity(name: str, head: str) -> str:
    """What identifies a file: its name below the folder that is followed, and its head."""
    return f"{name}#{head}"


def look_into(
    name: str, entry: FileEntry, *, quiet: bool = True, before: GrowingFile | None = None
) -> GrowingFile | None:
    """Look into a file; None if it has nothing to read yet.

    ``quiet`` tells that it did not change for a while: only then is a file that is read as a whole
    taken to be complete. ``before`` is what the last look found.
    """
    if entry.size < HEADER_BYTES:
        return None
    with open_source(entry.location.source) as source:
        first = source.read_at(0, HEADER_BYTES) if source.random_access else b""
        if not is_pcap(first):
            return _whole(name, entry) if quiet else None
        header = parse_header(first, source.name)
        head = _head(source, header)
        if head is None:
            return None
        known, last = HEADER_BYTES, 0
        if before is not None and before.head == head and before.end <= source.size():
            known, last = before.end, before.last_time_ns
        end, time = last_whole(source, header, known)
        last = time or last
    return GrowingFile(name, entry.location, head, end, False, last, entry.modified_ns)


def _whole(name: str, entry: FileEntry) -> GrowingFile:
    with entry.location.open_input() as file:
        head = hashlib.sha256(file.read(HEAD_BYTES)).hexdigest()[:16]
    return GrowingFile(name, entry.location, head, entry.size, True, 0, entry.modified_ns)


def _head(source: ByteSource, header: PcapHeader) -> str | None:
    """The hash of a pcap's header and first packet; None if that is not whole yet."""
    record = source.read_at(HEADER_BYTES, RECORD_HEADER_BYTES)
    if len(record) < RECORD_HEADER_BYTES:
        return None
    captured = header.record.unpack(record)[2]
    header.check_captured(captured, source.name, HEADER_BYTES)
    length = HEADER_BYTES + RECORD_HEADER_BYTES + captured
    content = source.read_at(0, length)
    return hashlib.sha256(content).hexdigest()[:16] if len(content) == length else None


def last_whole(source: ByteSource, header: PcapHeader, known: int) -> tuple[int, int]:
    """Where the last whole packet ends, and its time; ``known`` is a boundary before it."""
    at, time = known, 0
    # Nearer to the end, a record that is not whole leaves it open where the true ones begin.
    tail = 3 * (RECORD_HEADER_BYTES + header.most_captured)
    if source.size() - known > tail:
        near = BoundaryFinder(source, header).first_boundary(source.size() - tail, known)
        if near < source.size():
            at = near
    while True:
        data = source.read_at(at, _PIECE_BYTES)
        place = 0
        while place + RECORD_HEADER_BYTES <= len(data):
            seconds, fraction, captured, _ = header.record.unpack_from(data, place)
            header.check_captured(captured, source.name, at + place)
            if place + RECORD_HEADER_BYTES + captured > len(data):
                break
            place += RECORD_HEADER_BYTES + captured
            time = seconds * SECOND + fraction * header.time_unit_ns
        if not place:
            return at, time
        at += place
