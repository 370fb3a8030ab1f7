"""Places in an uncompressed pcap: where the packets of a time begin, found in a few looks."""

from __future__ import annotations

import bisect
import itertools

from pregao.capture.pcap import HEADER_BYTES, parse_header
from pregao.capture.source import open_source
from pregao.capture.split import BoundaryFinder
from pregao.lake.ingest.capture_times import sensible_time
from pregao.lake.store import Location

CONTEXT_BYTES = 64 * 1024 * 1024
"""Around a range no more than this is read, however far apart the feeds' copies are."""
_CONTEXT_STEP = 256 * 1024
_WALK_BYTES = 4 * 1024 * 1024
_BACK_BYTES = 512 * 1024
"""A stretch so short is walked packet by packet."""


_BEHIND = 4
"""So many packets tell whether the time of the one before them makes sense."""


class OpenPcap:
    """A plain pcap, open for looking at places in it."""

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

    def __enter__(self) -> OpenPcap:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    def know(self, *knots: tuple[int, int]) -> None:
        """Take note of times, each with the place of the first packet that is not before it."""
        self._knots = sorted({*self._knots, *knots})

    def at_time(self, time_ns: int) -> int:
        """The first packet that is not before a time, between the places that are known.

        It is looked for where it would stand if packets came evenly, so that a few looks do.
        Packets must be in the order of their times; where they are not, the result is still a
        packet's place, near that time.
        """
        after = bisect.bisect_left(self._knots, (time_ns, 0))
        if after == 0:
            return self._knots[0][1]
        if after == len(self._knots):
            return self._knots[-1][1]
        if self._knots[after][0] == time_ns:
            return self._knots[after][1]
        place = self._search(time_ns, self._knots[after - 1], self._knots[after])
        self.know((time_ns, place))
        return place

    def time_at(self, place: int) -> int | None:
        """The time of the packet at a place; that of those behind it, if it makes no sense."""
        time = self.finder.time_at(place)
        if time is None:
            return None
        behind: list[int] = []
        while len(behind) < _BEHIND:
            place = self.finder.following(place)
            if (next_time := self.finder.time_at(place)) is None:
                break
            behind.append(next_time)
        return sensible_time(time, behind)

    def _first_not_before(self, time_ns: int, begin: int, end: int) -> int | None:
        """The first packet between two places that is not before a time, and makes sense there."""
        while (found := self.finder.first_not_before(time_ns, begin, end)) is not None:
            time = self.time_at(found)
            if time is None or time >= time_ns:
                return found
            begin = self.finder.following(found)
        return None

    def forward(self, time_ns: int, place: int) -> int:
        """The same for a time soon after that of a packet whose place is known."""
        found = self._first_not_before(time_ns, place, self.finder.size)
        return self.finder.size if found is None else found

    def back(self, time_ns: int, place: int) -> int:
        """The same for a time soon before that of a packet whose place is known."""
        reach = _BACK_BYTES
        while True:
            begin = self.finder.first_boundary(max(HEADER_BYTES, place - reach))
            time = self.time_at(begin)
            if begin <= HEADER_BYTES or (time is not None and time < time_ns):
                found = self._first_not_before(time_ns, begin, place)
                return place if found is None else found
            reach *= 4

    def _search(self, time_ns: int, low: tuple[int, int], high: tuple[int, int]) -> int:
        low_time, place = low
        high_time, result = high
        stop = result
        for step in itertools.count():
            if stop - place <= _WALK_BYTES:
                break
            share = (time_ns - low_time) / max(1, high_time - low_time)
            # Where packets come in bursts this leads astray, and halving now and then helps.
            margin = 1 / 2 if step % 3 == 2 else 1 / 32
            ahead = int((stop - place) * min(max(share, margin), 1 - margin))
            guess = place + max(1, ahead)  # or it would stay where it is
            found = self.finder.first_boundary(guess, place)
            time = self.time_at(found) if found < stop else None
            if time is None:
                stop = guess  # no packet begins between here and there
            elif time >= time_ns:
                stop = result = found
                high_time = time
            else:
                place, low_time = found, time
        there = self._first_not_before(time_ns, place, stop)
        return result if there is None else there

    def around(
        self, begin: int, end: int, first_ns: int, last_ns: int, stop: int
    ) -> tuple[int, int]:
        """From where to where to read around a range, to have all packets between two times.

        It may be more, but never more than a limit on each side, nor behind ``stop``.
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
