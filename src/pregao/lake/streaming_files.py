"""Rolling capture files in a folder: how far each can be read, and what the next batch takes.

A file is its name and its head (the first packet), and only ever grows. A plain pcap is read up to
its last whole packet and continued later; a compressed file or a pcapng is taken once, as a whole,
when it has been quiet for a while. Batches go forward in the time of capture over all files, so
that both feeds' copies of a packet are mostly taken together.
"""

from __future__ import annotations

import bisect
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

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
from pregao.clock import SECOND, Clock, system_clock
from pregao.errors import CaptureError, UsageError
from pregao.lake.captures import find_captures, is_capture_name
from pregao.lake.places import OpenPcap
from pregao.lake.store.location import Entry, Location

HEAD_BYTES = 256
"""Of a file that is read as a whole, these bytes tell it from another of the same name."""
_PIECE_BYTES = MOST_CAPTURED + 64 * 1024
"""More than the longest record, so that every piece but the last has a whole one."""
_ROUNDS = 6


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a file was taken: the hash of its head, and the first byte that was not."""

    head: str
    end: int
    whole: bool = False


Offset = dict[str, Mark]
"""How far the files of a folder were taken, by name."""


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes of a file that a batch takes."""

    name: str
    location: Location
    head: str
    begin: int
    end: int
    whole: bool

    @property
    def file(self) -> str:
        """What identifies the file: its name below the folder, and its head."""
        return f"{self.name}#{self.head}"


@dataclass(frozen=True, slots=True)
class RollingFile:
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


class RollingFiles:
    """The captures of a folder (or pattern), looked at again and again."""

    def __init__(self, where: str | Location, quiet_ns: int, clock: Clock = system_clock) -> None:
        self.folder = Location.parse(where)
        self.quiet_ns = quiet_ns
        self._clock = clock
        self._seen: dict[str, tuple[int, int, RollingFile]] = {}

    def place(self, name: str) -> Location:
        """Where a file of a name is."""
        if name.startswith("/") or "://" in name:
            return Location(name, self.folder.settings)
        return self.folder.join(name)

    def look(self) -> list[RollingFile]:
        """The files that have something to read, as far as they can be read now."""
        found = []
        for entry in self._entries():
            name = self._name(entry.location)
            seen = self._seen.get(name)
            if seen is not None and seen[:2] == (entry.size, entry.modified_ns):
                found.append(seen[2])
                continue
            file = self._open(name, entry, seen[2] if seen else None)
            if file is not None:
                self._seen[name] = (entry.size, entry.modified_ns, file)
                found.append(file)
        return found

    def quiet(self, files: Iterable[RollingFile]) -> bool:
        """Did no file change for a while?"""
        now = self._clock()
        return all(now - file.modified_ns >= self.quiet_ns for file in files)

    def until(self, files: Sequence[RollingFile], holdback_ns: int) -> int | None:
        """Up to which time packets are taken, so that files which lag a little catch up.

        None is everything: nothing is to be held back, or no file grows any more. A file that is
        behind the newest by more than the quiet period is not waited for.
        """
        times = [file.last_time_ns for file in files if not file.whole]
        if not holdback_ns or not times or self.quiet(files):
            return None
        newest = max(times)
        alive = [time for time in times if newest - time <= self.quiet_ns]
        return min(alive) - holdback_ns

    def _entries(self) -> list[Entry]:
        info = self.folder.info()
        if info is not None and info.is_folder:
            return [
                entry
                for entry in self.folder.entries(recursive=True)
                if not entry.is_folder and is_capture_name(entry.name)
            ]
        try:
            return find_captures([self.folder])
        except UsageError:
            return []  # nothing matches yet

    def _name(self, location: Location) -> str:
        prefix = self.folder.uri.rstrip("/") + "/"
        return location.uri.removeprefix(prefix)

    def _open(self, name: str, entry: Entry, before: RollingFile | None) -> RollingFile | None:
        """Look into a file; None if it has nothing to read yet."""
        location = entry.location
        if entry.size < HEADER_BYTES:
            return None
        with open_source(location.source) as source:
            first = source.read_at(0, HEADER_BYTES) if source.random_access else b""
            if not is_pcap(first):
                return self._whole(name, entry)
            header = parse_header(first, source.name)
            head = _head(source, header)
            if head is None:
                return None
            known, last = HEADER_BYTES, 0
            if before is not None and before.head == head and before.end <= source.size():
                known, last = before.end, before.last_time_ns
            end, time = last_whole(source, header, known)
            last = time or last
        return RollingFile(name, location, head, end, False, last, entry.modified_ns)

    def _whole(self, name: str, entry: Entry) -> RollingFile | None:
        if self._clock() - entry.modified_ns < self.quiet_ns:
            return None
        with entry.location.open_input() as file:
            head = hashlib.sha256(file.read(HEAD_BYTES)).hexdigest()[:16]
        return RollingFile(name, entry.location, head, entry.size, True, 0, entry.modified_ns)


def streamed_file(entry: Entry) -> tuple[str, int, int] | None:
    """A capture as streams know it: what identifies it, and from where to where it has packets."""
    found = RollingFiles(entry.location, 0)._open(entry.location.name, entry, None)
    if found is None:
        return None
    whole = Range(found.name, found.location, found.head, 0, 0, found.whole)
    return whole.file, found.begin, found.end


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


def ranges_between(files: RollingFiles, start: Offset, end: Offset) -> list[Range]:
    """The bytes between two offsets, by name."""
    ranges = []
    for name, mark in sorted(end.items()):
        before = start.get(name)
        whole = mark.whole
        begin = 0 if whole else HEADER_BYTES
        if before is not None and before.head == mark.head:
            begin = before.end
        if begin < mark.end:
            ranges.append(Range(name, files.place(name), mark.head, begin, mark.end, whole))
    return ranges


def next_offset(
    start: Offset,
    available: list[RollingFile],
    *,
    max_bytes: int | None = None,
    max_files: int | None = None,
    until_ns: int | None = None,
) -> Offset:
    """How far the next batch goes: at most to a time, so many bytes of so many files."""
    waiting = [_Waiting.of(file, start.get(file.name)) for file in available]
    waiting = [each for each in waiting if each.begin < each.file.end]
    for each in waiting:
        each.look()
    waiting.sort(key=lambda each: (each.first_time_ns, each.file.name))
    if until_ns is not None:
        for each in waiting:
            each.stop_at(until_ns)
        waiting = [each for each in waiting if each.begin < each.end]
    if max_files is not None:
        waiting = waiting[:max_files]
    if max_bytes is not None:
        _limit(waiting, max_bytes)
    return start | {
        each.file.name: Mark(each.file.head, each.end, each.file.whole)
        for each in waiting
        if each.begin < each.end
    }


@dataclass(slots=True)
class _Waiting:
    """A file with bytes that were not taken yet, and how far the next batch takes them."""

    file: RollingFile
    begin: int
    end: int
    first_time_ns: int = 0
    knots: list[tuple[int, int]] = field(default_factory=list)
    """Times, and the place of the first packet that is not before each."""

    @classmethod
    def of(cls, file: RollingFile, mark: Mark | None) -> _Waiting:
        begin = file.begin
        if mark is not None and mark.head == file.head:
            begin = mark.end
            if file.end < begin:
                raise CaptureError(
                    f"{file.location}: it has become shorter: {begin} bytes were read, and it "
                    f"has {file.end}. Captures may only grow; put a new one under a new name."
                )
            if file.whole and file.end > begin:
                raise CaptureError(
                    f"{file.location}: it grew after it was read. A compressed or pcapng file is "
                    "read once, when it has been quiet for a while: let the quiet period be "
                    "longer, or move files here when they are complete."
                )
        return cls(file, begin, file.end)

    def look(self) -> None:
        """Find the time of the first packet."""
        if not self.file.whole:
            with OpenPcap(self.file.location) as opened:
                self.first_time_ns = opened.finder.time_at(self.begin) or 0
            last = max(self.first_time_ns, self.file.last_time_ns)
            self.knots = [(self.first_time_ns, self.begin), (last + 1, self.end)]

    def stop_at(self, time_ns: int) -> None:
        """Take only packets before a time."""
        if self.file.whole or time_ns > self.file.last_time_ns:
            return
        self.end = self.begin
        if time_ns > self.first_time_ns:
            with OpenPcap(self.file.location) as opened:
                opened.know(*self.knots)
                self.end = opened.at_time(time_ns)
        self.knots = sorted({*self.knots, (time_ns, self.end)})

    def before(self, time_ns: int) -> int:
        """How many bytes stand before a time, as far as can be told without looking."""
        if self.file.whole:
            return self.file.end
        times = [knot[0] for knot in self.knots]
        after = bisect.bisect_right(times, time_ns)
        if after == 0:
            return 0
        low, place = self.knots[after - 1]
        if after == len(self.knots):
            return place - self.begin
        high, further = self.knots[after]
        return place - self.begin + (further - place) * (time_ns - low) // max(1, high - low)


def _limit(waiting: list[_Waiting], most: int) -> None:
    """Let the files end at a common time, before which they have about so many bytes."""
    if sum(each.end - each.begin for each in waiting) <= most:
        return
    wholes = [each for each in waiting if each.file.whole]
    plain = [each for each in waiting if not each.file.whole]
    left = most
    for each in wholes:
        size = each.end - each.begin
        if size > left and left < most:
            each.end = each.begin
        else:
            left -= size  # the first is taken in any case
    if not plain:
        return
    if left <= 0:
        for each in plain:
            each.end = each.begin
        return
    ends = {id(each): each.end for each in plain}
    for _ in range(_ROUNDS):
        time = _time_of(plain, left)
        for each in plain:
            each.end = ends[id(each)]
            each.stop_at(time)
            each.end = min(each.end, ends[id(each)])
        taken = sum(each.end - each.begin for each in plain)
        if left // 2 <= taken <= left + left // 4:
            return
    if not any(each.end > each.begin for each in plain):
        _step(plain[0], left)


def _time_of(plain: list[_Waiting], most: int) -> int:
    """The time before which the files have about so many bytes, by what is known of them."""
    low = min(each.knots[0][0] for each in plain)
    high = max(each.knots[-1][0] for each in plain)
    while high - low > 1:
        middle = (low + high) // 2
        if sum(each.before(middle) for each in plain) > most:
            high = middle
        else:
            low = middle
    return high


def _step(each: _Waiting, most: int) -> None:
    """Take some bytes of a file whatever their times: a batch must go forward."""
    with OpenPcap(each.file.location) as opened:
        place = opened.finder.first_boundary(each.begin + most, each.begin)
    each.end = min(place, each.file.end)
