"""Find byte positions of times in an uncompressed pcap with few reads."""

from __future__ import annotations

import bisect
import itertools

from pregao.capture.pcap import HEADER_BYTES, parse_header
from pregao.capture.source import open_source
from pregao.capture.split import BoundaryFinder
from pregao.lake.ingest.growing_file import sensible_time
from pregao.lake.storage.filesystem import Location

CONTEXT_BYTES = 64 * 1024 * 1024
"""Maximum bytes read on each side of a range, however late the other feed's duplicates are."""
_CONTEXT_STEP = 256 * 1024
_WALK_BYTES = 4 * 1024 * 1024
"""Maximum size of a range that is walked packet by packet."""
_BACK_BYTES = 512 * 1024
"""First step of a backward search."""


_AFTER = 4
"""Number of following packets with which a packet's time is compared to detect an outlier."""


class PcapSeeker:
    """An open uncompressed pcap, searchable by time."""

    def __init__(self, location: Location) -> None:
        self._source = open_source(location.source)
        try:
            head = self._source.read_at(0, HEADER_BYTES)
            self._header = parse_header(head, self._source.name)
            self.finder = BoundaryFinder(self._source, self._header)
        except BaseException:
            self._source.close()
            raise
        self._knots: list[tuple[int, int]] = []

    def __enter__(self) -> PcapSeeker:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    def add_known_times(self, *knots: tuple[int, int]) -> None:
        """Add times, each with the position of the first packet that is not before it."""
        self._knots = sorted({*self._knots, *knots})

    def at_time(self, time_ns: int) -> int:
        """Return the position of the first packet not before a time, between known positions.

        Uses interpolation search, so that a few reads suffice. Packets should be ordered by time;
        where they are not, the result is still the position of a packet near that time.
        """
        after = bisect.bisect_left(self._knots, (time_ns, 0))
        if after == 0:
            return self._knots[0][1]
        if after == len(self._knots):
            return self._knots[-1][1]
        if self._knots[after][0] == time_ns:
            return self._knots[after][1]
        position = self._search(time_ns, self._knots[after - 1], self._knots[after])
        self.add_known_times((time_ns, position))
        return position

    def time_at(self, position: int) -> int | None:
        """Return the time of the packet at a position, corrected if it is an outlier."""
        time = self.finder.time_at(position)
        if time is None:
            return None
        following: list[int] = []
        while len(following) < _AFTER:
            position = self.finder.following(position)
            if (next_time := self.finder.time_at(position)) is None:
                break
            following.append(next_time)
        return sensible_time(time, following)

    def _first_not_before(self, time_ns: int, begin: int, end: int) -> int | None:
        """Return the first packet in a range that is not before a time, ignoring outliers."""
        while (found := self.finder.first_not_before(time_ns, begin, end)) is not None:
            time = self.time_at(found)
            if time is None or time >= time_ns:
                return found
            begin = self.finder.following(found)
        return None

    def forward(self, time_ns: int, position: int) -> int:
        """Return the first packet not before a time, searching forward from a position near it."""
        found = self._first_not_before(time_ns, position, self.finder.size)
        return self.finder.size if found is None else found

    def back(self, time_ns: int, position: int) -> int:
        """Return the first packet not before a time, searching back from a position near it."""
        reach = _BACK_BYTES
        while True:
            begin = self.finder.first_boundary(max(HEADER_BYTES, position - reach))
            time = self.time_at(begin)
            if begin <= HEADER_BYTES or (time is not None and time < time_ns):
                found = self._first_not_before(time_ns, begin, position)
                return position if found is None else found
            reach *= 4

    def _search(self, time_ns: int, low: tuple[int, int], high: tuple[int, int]) -> int:
        low_time, position = low
        high_time, result = high
        stop = result
        for step in itertools.count():
            if stop - position <= _WALK_BYTES:
                break
            share = (time_ns - low_time) / max(1, high_time - low_time)
            # Bursts mislead the interpolation, so every third step bisects.
            margin = 1 / 2 if step % 3 == 2 else 1 / 32
            ahead = int((stop - position) * min(max(share, margin), 1 - margin))
            guess = position + max(1, ahead)  # always make progress
            found = self.finder.first_boundary(guess, position)
            time = self.time_at(found) if found < stop else None
            if time is None:
                stop = guess  # no packet begins between the guess and the stop
            elif time >= time_ns:
                stop = result = found
                high_time = time
            else:
                position, low_time = found, time
        exact = self._first_not_before(time_ns, position, stop)
        return result if exact is None else exact

    def around(
        self, begin: int, end: int, first_ns: int, last_ns: int, stop: int
    ) -> tuple[int, int]:
        """Return the range to read around another one to have all packets between two times.

        It may be larger, but by at most `CONTEXT_BYTES` on each side, and not beyond ``stop``.
        """
        low, reach = begin, _CONTEXT_STEP
        while low > HEADER_BYTES and reach <= CONTEXT_BYTES:
            low = self.finder.first_boundary(max(HEADER_BYTES, begin - reach))
            time = self.time_at(low)
            if time is not None and time < first_ns:
                break
            reach *= 4
        high, reach = end, _CONTEXT_STEP
        while high < stop and reach <= CONTEXT_BYTES:
            high = min(stop, self.finder.first_boundary(end + reach, end))
            time = self.time_at(high)
            if time is None or time > last_ns:
                break
            reach *= 4
        return min(low, begin), max(high, end)
