"""Splitting a pcap into ranges: packet boundaries near any byte, without walking the file.

A pcap has no markers between its records, and a payload may contain bytes that look like records,
so nothing is guessed. Every position within some distance before the target is tried as a boundary,
and the chains of records that start there are followed. The true chain is among them, because the
length of a record is bounded; the false ones reach an impossible length or merge with the true one.
If all remaining chains pass the target at the same boundary, it is the true one. If not, more bytes
before it are read; and if that does not help (payloads crafted to look like records, or endless
zeros), the records are walked from the last known boundary.

One false chain always exists: four bytes after the true one, where each packet's original length is
read as its captured length, and is the same. The two are distinguished by their times, which on the
true chain are near that of the file's first packet.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from pregao.capture import _file_kernels as _kernels
from pregao.capture import pcap
from pregao.capture.reader import open_format
from pregao.capture.source import ByteSource, Source, open_source
from pregao.errors import UsageError

_WALK_BYTES = 8 * 1024 * 1024
_FOLLOWED_BYTES = 512 * 1024
# Successive reads are of adjacent records: on S3 each would be a request.
_AHEAD_BYTES = 16 * 1024
# Distance before the target to start from, in maximum record lengths: first try, second try.
_REACHES = (4, 24)
_RECORD = pcap.RECORD_HEADER_BYTES
# Offset at which a record's original length is read as the captured length.
_SHADOW = 4
_RECORDS_TO_COMPARE = 64
_NEAR_SECONDS = 366 * 86_400


class BoundaryFinder:
    """Finds packet boundaries of one uncompressed pcap that is open for random access.

    ``walked`` counts the searches without a definite answer nearby; ``bytes_read`` all bytes read.
    ``max_captured_length`` is the maximum captured length in the file, if it is known to be below
    the limit of its header: fewer bytes are read then.
    """

    def __init__(
        self,
        source: ByteSource,
        header: pcap.PcapHeader,
        max_captured_length: int | None = None,
    ) -> None:
        self.size = source.size()
        self.walked = 0
        self.bytes_read = 0
        self._source = source
        self._kept = np.empty(0, np.uint8)
        self._kept_at = 0
        self._header = header
        self._max_captured_length = (
            header.max_captured_length if max_captured_length is None else max_captured_length
        )
        self._longest = _RECORD + self._max_captured_length
        self._first_second = (self.time_at(pcap.HEADER_BYTES) or 0) // 1_000_000_000

    def first_boundary(self, offset: int, known: int = pcap.HEADER_BYTES) -> int:
        """Return the first boundary at or after ``offset``; the size if there is none.

        ``known`` is a boundary found before; it helps if it is near.
        """
        if offset <= pcap.HEADER_BYTES:
            return min(pcap.HEADER_BYTES, self.size)
        if offset >= self.size:
            return self.size
        if known > offset:
            known = pcap.HEADER_BYTES
        tried = False
        for records in _REACHES:
            reach = records * self._longest
            if offset - reach <= known:
                break
            tried = True
            boundary = self._nearby(offset - reach, offset)
            if boundary is not None:
                return boundary
        self.walked += tried
        return self._walk(known, offset)

    def boundary_at_time(self, time_ns: int) -> int:
        """Return the first boundary whose packet is not before a time; the size if there is none.

        It is a binary search, so packets must be in time order; if they are not, the result is
        still a boundary, near that time.
        """
        low = pcap.HEADER_BYTES  # a boundary; packets before it are earlier
        high = self.size  # packets from here on are not earlier
        while low < high:
            middle = self.first_boundary((low + high) // 2, low)
            if middle >= high:
                # No boundary in the upper half: decide the rest packet by packet.
                middle = low
            when = self.time_at(middle)
            if when is None or when >= time_ns:
                if middle == low:
                    return low
                high = middle
            else:
                low = self.following(middle)
        return low

    def following(self, boundary: int) -> int:
        """Return the boundary after the record at a boundary; the size if there is none."""
        head = self._read(boundary, _RECORD)
        if len(head) < _RECORD:
            return self.size
        captured = int(self._header.record.unpack(head.tobytes())[2])
        self._header.check_captured(captured, self._source.name, boundary)
        return min(boundary + _RECORD + captured, self.size)

    def time_at(self, boundary: int) -> int | None:
        """Return the time of the packet at a boundary; None at the end."""
        head = self._read(boundary, _RECORD)
        if len(head) < _RECORD:
            return None
        seconds, fraction, _, _ = self._header.record.unpack(head.tobytes())
        return int(seconds) * 1_000_000_000 + int(fraction) * self._header.time_unit_ns

    def first_not_before(self, time_ns: int, begin: int, end: int) -> int | None:
        """Return the first packet in a range that is not before a time, or None."""
        while begin < end:
            size = min(end - begin, _FOLLOWED_BYTES)
            buffer = self._read(begin, size + _RECORD)
            found = _kernels.first_not_before(
                buffer, size, self._header.big_endian, self._header.time_unit_ns, time_ns
            )
            if found >= 0:
                return begin + int(found)
            if found == -1:  # an incomplete record
                break
            begin += ~int(found)
        return None

    def _nearby(self, begin: int, offset: int) -> int | None:
        """Return the first boundary at or after ``offset`` if the bytes from ``begin`` prove it."""
        finish = min(self.size, offset + 2 * self._longest + _RECORD)
        buffer = self._read(begin, finish - begin)
        end = len(buffer)
        found = np.empty(3, np.int64)
        count = _kernels.surviving_boundaries(
            buffer,
            end,
            self._longest,
            min(offset - begin, end),
            self._header.big_endian,
            self._max_captured_length,
            finish == self.size,
            np.zeros(end + 1, np.uint8),
            found,
        )
        if count == 1:
            return begin + int(found[0])
        if count == 2:
            low, high = int(found[0]), int(found[1])
            shadowed = self._shadowed(buffer, low, high)
            if shadowed is not None:
                return begin + shadowed
        return None

    def _shadowed(self, buffer: NDArray[np.uint8], low: int, high: int) -> int | None:
        """Return which of two chains is the true one, if the other is its shadow."""
        true, shadow = low, high
        if high + _RECORD > len(buffer):
            return None  # nothing left to compare
        if high != low + _SHADOW:
            # The target may be between a boundary and its shadow: then the shadow is reached first,
            # and its next step ends after the next true boundary.
            captured = int(self._header.record.unpack_from(buffer.data, low)[2])
            if low + _RECORD + captured != high + _SHADOW:
                return None
            true, shadow = high, low
        if self._in_time(buffer, true) and not self._in_time(buffer, shadow):
            return true
        return None

    def _in_time(self, buffer: NDArray[np.uint8], at: int) -> bool:
        """Whether the next records are all from about the time of the file's first packet."""
        view, end, unpack = buffer.data, len(buffer), self._header.record.unpack_from
        for _ in range(_RECORDS_TO_COMPARE):
            if at + _RECORD > end:
                break
            seconds, fraction, captured, _ = unpack(view, at)
            if (
                abs(seconds - self._first_second) > _NEAR_SECONDS
                or fraction * self._header.time_unit_ns >= 1_000_000_000
            ):
                return False
            at += _RECORD + captured
        return True

    def _walk(self, known: int, offset: int) -> int:
        """Follow the records from a known boundary."""
        boundary = known
        while boundary < offset:
            buffer = self._read(
                boundary, min(_WALK_BYTES, offset - boundary + self._longest + _RECORD)
            )
            got = int(
                _kernels.next_boundary(
                    buffer,
                    0,
                    len(buffer),
                    offset - boundary,
                    self._header.big_endian,
                    self._header.max_captured_length,
                )
            )
            if got < 0:
                position = boundary + ~got
                captured = self._header.record.unpack_from(buffer.data, ~got)[2]
                self._header.check_captured(captured, self._source.name, position)
            if got == 0:
                return self.size  # the last record is incomplete: no boundary follows it
            boundary += got
        return boundary

    def _read(self, position: int, count: int) -> NDArray[np.uint8]:
        left = max(0, self.size - position)
        count = min(count, left)
        start = position - self._kept_at
        if not 0 <= start <= len(self._kept) - count:
            data = np.empty(max(count, min(_AHEAD_BYTES, left)), np.uint8)
            self._source.seek(position)
            got = self._source.readinto(data.data)
            self.bytes_read += got
            self._kept, self._kept_at, start = data[:got], position, 0
        return self._kept[start : start + count]


@contextmanager
def boundary_finder(
    source: Source, max_captured_length: int | None = None
) -> Iterator[BoundaryFinder | None]:
    """Open a capture for the search; None if it cannot be split (compressed, pcapng, a pipe)."""
    with open_source(source) as opened:
        header, _, _ = open_format(opened)
        if header is None or not opened.random_access:
            yield None
        else:
            yield BoundaryFinder(opened, header, max_captured_length)


def first_boundary(source: Source, offset: int) -> int:
    """Return the first packet boundary at or after a byte position; the size if there is none."""
    with boundary_finder(source) as finder:
        return _cuttable(finder).first_boundary(offset)


def split_points(source: Source, target_bytes: int) -> list[int]:
    """Return the points at which to split a capture into ranges of about ``target_bytes``.

    Each point is the start of a range that ends at the next one, the last at the end of the file:
    ``read_packets(source, start=point, end=next_point_or_None)``. A capture that cannot be split
    (compressed, pcapng, a pipe) is one range, ``[0]``.
    """
    if target_bytes < 1:
        raise UsageError(f"target_bytes must be at least 1, was {target_bytes}.")
    with boundary_finder(source) as finder:
        if finder is None:
            return [0]
        points = [pcap.HEADER_BYTES]
        offset = pcap.HEADER_BYTES + target_bytes
        while offset < finder.size:
            point = finder.first_boundary(offset, points[-1])
            if point >= finder.size:
                break
            points.append(point)
            offset = max(offset, point) + target_bytes
        return points


def boundary_at_time(source: Source, time_ns: int) -> int:
    """Return the first boundary whose packet is not before a time; see the finder's method."""
    with boundary_finder(source) as finder:
        return _cuttable(finder).boundary_at_time(time_ns)


def _cuttable(finder: BoundaryFinder | None) -> BoundaryFinder:
    if finder is None:
        raise UsageError(
            "Packet boundaries can be found only in an uncompressed pcap on seekable storage; "
            "read the complete capture instead."
        )
    return finder
