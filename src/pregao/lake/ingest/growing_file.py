"""A capture file that may still grow: its identity, how far it can be read, and sensible times.

A file is identified by its name and its head (the first packet), and only ever grows. A plain pcap
is read up to its last complete packet and continued later; a compressed file or a pcapng is read
once, as a whole. Outliers among capture times are detected, so that captures are not split by them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pregao.arrays import Int64Array
from pregao.capture.pcap import (
    HEADER_BYTES,
    MAX_CAPTURED_LENGTH,
    RECORD_HEADER_BYTES,
    PcapHeader,
    is_pcap,
    parse_header,
)
from pregao.capture.source import ByteSource, open_source
from pregao.capture.split import BoundaryFinder
from pregao.clock import DAY, SECOND
from pregao.lake.storage.filesystem import FileEntry, Location

HEAD_BYTES = 256
"""Bytes that distinguish a file that is read as a whole from another of the same name."""
_PIECE_BYTES = MAX_CAPTURED_LENGTH + 64 * 1024
"""More than the longest record, so that every piece except the last has a complete record."""

FAR_NS = 3600 * SECOND
"""Maximum distance of a packet's time from the median of its neighbors'."""
FAR_AT_ENDS_NS = 30 * DAY
"""Maximum distance at the ends of a block, next to which the capture may have paused."""
_NEIGHBORS = 2
FAR_FROM_CAPTURE_NS = DAY
"""Maximum distance between sending and capture time: a packet beyond it is rejected, because it
would be filed under a day on which nothing was captured."""
FAR_REASON = "sending time more than a day from the capture time"

_LATEST_NS = (1 << 63) - 1 - FAR_FROM_CAPTURE_NS


@dataclass(frozen=True, slots=True)
class GrowingFile:
    """State of a growing file when it was inspected."""

    name: str
    location: Location
    head: str
    end: int
    """Byte position after its last complete packet."""
    whole: bool = False
    """Whether it can only be read as a whole."""
    last_time_ns: int = 0
    modified_ns: int = 0

    @property
    def begin(self) -> int:
        """Byte position of its first packet."""
        return 0 if self.whole else HEADER_BYTES

    @property
    def file(self) -> str:
        """Identity of the file."""
        return file_identity(self.name, self.head)


def file_identity(name: str, head: str) -> str:
    """Return the identity of a file: its name below the followed folder, and its head."""
    return f"{name}#{head}"


def inspect_file(
    name: str, entry: FileEntry, *, quiet: bool = True, before: GrowingFile | None = None
) -> GrowingFile | None:
    """Inspect a file; return None if it has nothing to read yet.

    ``quiet`` means that the file has not changed for a while: only then is a file that is read as a
    whole considered complete. ``before`` is the result of the previous inspection.
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
        boundary, last = HEADER_BYTES, 0
        if before is not None and before.head == head and before.end <= source.size():
            boundary, last = before.end, before.last_time_ns
        end, time = last_whole(source, header, boundary)
        last = time or last
    return GrowingFile(name, entry.location, head, end, False, last, entry.modified_ns)


def _whole(name: str, entry: FileEntry) -> GrowingFile:
    with entry.location.open_input() as file:
        head = hashlib.sha256(file.read(HEAD_BYTES)).hexdigest()[:16]
    return GrowingFile(name, entry.location, head, entry.size, True, 0, entry.modified_ns)


def _head(source: ByteSource, header: PcapHeader) -> str | None:
    """Return the hash of a pcap's header and first packet; None if that packet is incomplete."""
    record = source.read_at(HEADER_BYTES, RECORD_HEADER_BYTES)
    if len(record) < RECORD_HEADER_BYTES:
        return None
    captured = header.record.unpack(record)[2]
    header.check_captured(captured, source.name, HEADER_BYTES)
    length = HEADER_BYTES + RECORD_HEADER_BYTES + captured
    content = source.read_at(0, length)
    return hashlib.sha256(content).hexdigest()[:16] if len(content) == length else None


def last_whole(source: ByteSource, header: PcapHeader, known: int) -> tuple[int, int]:
    """Return end and time of the last complete packet; ``known`` is a boundary before it."""
    position, time = known, 0
    # Closer to the end, an incomplete record makes the record boundaries ambiguous.
    tail = 3 * (RECORD_HEADER_BYTES + header.max_captured_length)
    if source.size() - known > tail:
        boundary = BoundaryFinder(source, header).first_boundary(source.size() - tail, known)
        if boundary < source.size():
            position = boundary
    while True:
        data = source.read_at(position, _PIECE_BYTES)
        offset = 0
        while offset + RECORD_HEADER_BYTES <= len(data):
            seconds, fraction, captured, _ = header.record.unpack_from(data, offset)
            header.check_captured(captured, source.name, position + offset)
            if offset + RECORD_HEADER_BYTES + captured > len(data):
                break
            offset += RECORD_HEADER_BYTES + captured
            time = seconds * SECOND + fraction * header.time_unit_ns
        if not offset:
            return position, time
        position += offset


def sent_far_from_capture(sending_time_ns: Int64Array, times: Int64Array) -> npt.NDArray[np.bool_]:
    """Return a mask of packets whose sending time is more than a day from their capture time.

    Packets without a sending time (0) and captures without times (1970) are not compared.
    """
    compared = (sending_time_ns > 0) & (times >= DAY)
    early = sending_time_ns < times - FAR_FROM_CAPTURE_NS
    # No difference is computed: with extreme times it would overflow int64.
    late = sending_time_ns > np.minimum(times, _LATEST_NS) + FAR_FROM_CAPTURE_NS
    far: npt.NDArray[np.bool_] = compared & (early | late)
    return far


def sensible_times(times: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return the times of consecutive packets without outliers, and the indexes of the outliers.

    An outlier is replaced by the median of itself and its four neighbors.
    """
    if len(times) <= 2 * _NEIGHBORS or np.abs(np.diff(times)).max() <= FAR_NS:
        return times, np.empty(0, np.int64)
    padded = np.pad(times, _NEIGHBORS, mode="reflect")
    median = np.median(np.lib.stride_tricks.sliding_window_view(padded, 2 * _NEIGHBORS + 1), axis=1)
    limits = np.full(len(times), FAR_NS)
    limits[:_NEIGHBORS] = limits[-_NEIGHBORS:] = FAR_AT_ENDS_NS
    outliers = np.flatnonzero(np.abs(times - median) > limits)
    if not len(outliers):
        return times, outliers
    corrected = times.copy()
    corrected[outliers] = median[outliers].astype(np.int64)
    return corrected, outliers


def sensible_time(time: int, others: Sequence[int], limit: int = FAR_NS) -> int:
    """Return a packet's time, or the median of its neighbors' if it is an outlier among them."""
    if len(others) < _NEIGHBORS:
        return time
    median = sorted(others)[len(others) // 2]
    return median if abs(time - median) > limit else time
