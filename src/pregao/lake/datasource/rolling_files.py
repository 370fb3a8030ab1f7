"""Rolling capture files of a folder: those with data to read, and the extent of the next batch.

Files that can only be read completely are read after a quiet period. Batches advance in capture
time over all files, so that both feeds' copies of a packet are mostly read together.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pregao.capture.pcap import HEADER_BYTES
from pregao.clock import Clock, system_clock
from pregao.errors import CaptureError, UsageError
from pregao.lake.ingest.discovery import find_captures, is_capture_name
from pregao.lake.ingest.growing_file import GrowingFile, file_identity, inspect_file
from pregao.lake.ingest.pcap_index import PcapSeeker
from pregao.lake.storage.filesystem import FileEntry, Location

_ROUNDS = 6


@dataclass(frozen=True, slots=True)
class FileOffset:
    """Progress of a file: the hash of its head, and the first byte that was not read."""

    head: str
    end: int
    whole: bool = False


Offset = dict[str, FileOffset]
"""Progress of the files of a folder, by name."""


@dataclass(frozen=True, slots=True)
class FileRange:
    """Bytes of a file that a batch reads."""

    name: str
    location: Location
    head: str
    begin: int
    end: int
    whole: bool

    @property
    def file(self) -> str:
        """Identity of the file."""
        return file_identity(self.name, self.head)


class RollingFiles:
    """Captures of a folder (or pattern), scanned repeatedly."""

    def __init__(self, where: str | Location, quiet_ns: int, clock: Clock = system_clock) -> None:
        self.folder = Location.parse(where)
        self.quiet_ns = quiet_ns
        self._clock = clock
        self._seen: dict[str, tuple[int, int, GrowingFile]] = {}

    def location(self, name: str) -> Location:
        """Return the location of a file by name."""
        if name.startswith("/") or "://" in name:
            return Location(name, self.folder.settings)
        return self.folder.join(name)

    def look(self) -> list[GrowingFile]:
        """Scan the folder. Returns the files with data, up to the position that can be read now."""
        found = []
        for entry in self._entries():
            name = self._name(entry.location)
            seen = self._seen.get(name)
            if seen is not None and seen[:2] == (entry.size, entry.modified_ns):
                found.append(seen[2])
                continue
            quiet = self._clock() - entry.modified_ns >= self.quiet_ns
            file = inspect_file(name, entry, quiet=quiet, before=seen[2] if seen else None)
            if file is not None:
                self._seen[name] = (entry.size, entry.modified_ns, file)
                found.append(file)
        return found

    def quiet(self, files: Iterable[GrowingFile]) -> bool:
        """Whether no file changed during the quiet period."""
        now = self._clock()
        return all(now - file.modified_ns >= self.quiet_ns for file in files)

    def until(self, files: Sequence[GrowingFile], holdback_ns: int) -> int | None:
        """Return the time up to which packets are read, so that lagging files catch up.

        None means everything: no holdback is set, or no file grows. A file that lags the newest by
        more than the quiet period is not waited for.
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


def ranges_between(files: RollingFiles, start: Offset, end: Offset) -> list[FileRange]:
    """Return the bytes between two offsets, by name."""
    ranges = []
    for name, mark in sorted(end.items()):
        before = start.get(name)
        whole = mark.whole
        begin = 0 if whole else HEADER_BYTES
        if before is not None and before.head == mark.head:
            begin = before.end
        if begin < mark.end:
            ranges.append(FileRange(name, files.location(name), mark.head, begin, mark.end, whole))
    return ranges


def next_offset(
    start: Offset,
    available: list[GrowingFile],
    *,
    max_bytes: int | None = None,
    max_files: int | None = None,
    until_ns: int | None = None,
) -> Offset:
    """Return the end of the next batch: at most up to a time, a number of bytes and of files."""
    pending = [_Waiting.from_file(file, start.get(file.name)) for file in available]
    pending = [each for each in pending if each.begin < each.file.end]
    for each in pending:
        each.look()
    pending.sort(key=lambda each: (each.first_time_ns, each.file.name))
    if until_ns is not None:
        for each in pending:
            each.stop_at(until_ns)
        pending = [each for each in pending if each.begin < each.end]
    if max_files is not None:
        pending = pending[:max_files]
    if max_bytes is not None:
        _limit(pending, max_bytes)
    return start | {
        each.file.name: FileOffset(each.file.head, each.end, each.file.whole)
        for each in pending
        if each.begin < each.end
    }


@dataclass(slots=True)
class _Waiting:
    """File with unread bytes, and the extent that the next batch reads."""

    file: GrowingFile
    begin: int
    end: int
    first_time_ns: int = 0
    knots: list[tuple[int, int]] = field(default_factory=list)
    """Times, and the position of the first packet that is not before each."""

    @classmethod
    def from_file(cls, file: GrowingFile, mark: FileOffset | None) -> _Waiting:
        begin = file.begin
        if mark is not None and mark.head == file.head:
            begin = mark.end
            if file.end < begin:
                raise CaptureError(
                    f"{file.location} was truncated: {begin} bytes were read, and now it "
                    f"has {file.end}. Captures may only grow; write a new one under a new name."
                )
            if file.whole and file.end > begin:
                raise CaptureError(
                    f"{file.location} grew after it was read. A compressed or pcapng file is "
                    "read once, after the quiet period: make the quiet period "
                    "longer, or move files into the folder when they are complete."
                )
        return cls(file, begin, file.end)

    def look(self) -> None:
        """Find the time of the first packet."""
        if not self.file.whole:
            with PcapSeeker(self.file.location) as opened:
                self.first_time_ns = opened.finder.time_at(self.begin) or 0
            last = max(self.first_time_ns, self.file.last_time_ns)
            self.knots = [(self.first_time_ns, self.begin), (last + 1, self.end)]

    def stop_at(self, time_ns: int) -> None:
        """Read only packets before a time."""
        if self.file.whole or time_ns > self.file.last_time_ns:
            return
        self.end = self.begin
        if time_ns > self.first_time_ns:
            with PcapSeeker(self.file.location) as opened:
                opened.add_known_times(*self.knots)
                self.end = opened.at_time(time_ns)
        self.knots = sorted({*self.knots, (time_ns, self.end)})

    def before(self, time_ns: int) -> int:
        """Estimate the number of bytes before a time, without reading the file."""
        if self.file.whole:
            return self.file.end
        times = [knot[0] for knot in self.knots]
        after = bisect.bisect_right(times, time_ns)
        if after == 0:
            return 0
        low, position = self.knots[after - 1]
        if after == len(self.knots):
            return position - self.begin
        high, next_position = self.knots[after]
        return (
            position
            - self.begin
            + (next_position - position) * (time_ns - low) // max(1, high - low)
        )


def _limit(waiting: list[_Waiting], max_bytes: int) -> None:
    """End the files at a common time, before which they have about `max_bytes` bytes."""
    if sum(each.end - each.begin for each in waiting) <= max_bytes:
        return
    wholes = [each for each in waiting if each.file.whole]
    plain = [each for each in waiting if not each.file.whole]
    left = max_bytes
    for each in wholes:
        size = each.end - each.begin
        if size > left and left < max_bytes:
            each.end = each.begin
        else:
            left -= size  # the first is always read
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
        selected = sum(each.end - each.begin for each in plain)
        if left // 2 <= selected <= left + left // 4:
            return
    if not any(each.end > each.begin for each in plain):
        _step(plain[0], left)


def _time_of(plain: list[_Waiting], max_bytes: int) -> int:
    """Return the time before which the files have about `max_bytes` bytes, by estimates."""
    low = min(each.knots[0][0] for each in plain)
    high = max(each.knots[-1][0] for each in plain)
    while high - low > 1:
        middle = (low + high) // 2
        if sum(each.before(middle) for each in plain) > max_bytes:
            high = middle
        else:
            low = middle
    return high


def _step(each: _Waiting, max_bytes: int) -> None:
    """Read some bytes of a file regardless of their times: a batch must advance."""
    with PcapSeeker(each.file.location) as opened:
        boundary = opened.finder.first_boundary(each.begin + max_bytes, each.begin)
    each.end = min(boundary, each.file.end)
