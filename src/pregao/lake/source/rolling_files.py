"""Rolling capture files in a folder: which have something to read, and what the next batch takes.

What can only be read as a whole is taken when it has been quiet for a while. Batches go forward in
the time of capture over all files, so that both feeds' copies of a packet are mostly taken
together.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pregao.capture.pcap import HEADER_BYTES
from pregao.clock import Clock, system_clock
from pregao.errors import CaptureError, UsageError
from pregao.lake.ingest import (
    GrowingFile,
    OpenPcap,
    file_identity,
    find_captures,
    is_capture_name,
    look_into,
)
from pregao.lake.store import FileEntry, Location

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
        """What identifies the file."""
        return file_identity(self.name, self.head)


class RollingFiles:
    """The captures of a folder (or pattern), looked at again and again."""

    def __init__(self, where: str | Location, quiet_ns: int, clock: Clock = system_clock) -> None:
        self.folder = Location.parse(where)
        self.quiet_ns = quiet_ns
        self._clock = clock
        self._seen: dict[str, tuple[int, int, GrowingFile]] = {}

    def place(self, name: str) -> Location:
        """Where a file of a name is."""
        if name.startswith("/") or "://" in name:
            return Location(name, self.folder.settings)
        return self.folder.join(name)

    def look(self) -> list[GrowingFile]:
        """The files that have something to read, as far as they can be read now."""
        found = []
        for entry in self._entries():
            name = self._name(entry.location)
            seen = self._seen.get(name)
            if seen is not None and seen[:2] == (entry.size, entry.modified_ns):
                found.append(seen[2])
                continue
            quiet = self._clock() - entry.modified_ns >= self.quiet_ns
            file = look_into(name, entry, quiet=quiet, before=seen[2] if seen else None)
            if file is not None:
                self._seen[name] = (entry.size, entry.modified_ns, file)
                found.append(file)
        return found

    def quiet(self, files: Iterable[GrowingFile]) -> bool:
        """Did no file change for a while?"""
        now = self._clock()
        return all(now - file.modified_ns >= self.quiet_ns for file in files)

    def until(self, files: Sequence[GrowingFile], holdback_ns: int) -> int | None:
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

    def _entries(self) -> list[FileEntry]:
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
    available: list[GrowingFile],
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

    file: GrowingFile
    begin: int
    end: int
    first_time_ns: int = 0
    knots: list[tuple[int, int]] = field(default_factory=list)
    """Times, and the place of the first packet that is not before each."""

    @classmethod
    def of(cls, file: GrowingFile, mark: Mark | None) -> _Waiting:
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
