"""Coverage of a channel's day by ingests, and its missing packets."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from pregao.arrays import Int64Array
from pregao.feed.packet_gaps import MANY, PacketGap, PacketGapColumns
from pregao.lake.books.catalog import FileCatalog, files_of, latest_build, read_small
from pregao.lake.books.columns import codes, integers
from pregao.lake.books.legacy_versions import SequenceRestart, TimeSlots, find_restarts
from pregao.lake.books.reader import BINARY
from pregao.lake.ingest.protocol import IngestProtocol
from pregao.lake.ingest.registry import PROTOCOLS
from pregao.lake.ingest.sequence_ranges import SequenceSpan, in_order, joined_runs, numberings_of
from pregao.lake.storage.lake_store import LakeStore
from pregao.umdf.sequencing import PacketKey, serial_of
from pregao.umdf.streams import Stream
from pregao.umdf.templates import implied_mask
from pregao.units import day_number, day_of

MAX_CAPTURE_DAYS = 8
MAX_PAUSE_DAYS = 5
"""Maximum number of days without trading, after which the sequence continues."""

Runs = list[tuple[int, int]]
_HEARTBEATS = "umdf_sequence_2"


@dataclass(slots=True)
class DayCoverage:
    """Coverage of a channel's day by ingests."""

    day: int
    channel: int
    protocol: IngestProtocol
    """Protocol of the feed that delivered it."""
    runs: dict[int, Runs] = field(default_factory=dict)
    """Runs of packets by sequence version."""
    following: dict[int, int] = field(default_factory=dict)
    """First number of the next day that has any, by sequence version."""
    schema_versions: set[int] = field(default_factory=set)
    units: set[str] = field(default_factory=set)
    """Ingests that received anything of the day, of any stream."""
    restarts: tuple[SequenceRestart, ...] = ()
    """Restarts of sequence numbers on a feed without sequence versions."""

    @property
    def versions(self) -> list[int]:
        """Sequence versions in order."""
        return in_order(self.runs)

    @property
    def numberings(self) -> list[SequenceSpan]:
        """Stretches over which the numbers increase."""
        day_runs = {
            (self.day, self.channel, version): {(0, ""): joined_runs(runs)}
            for version, runs in self.runs.items()
        }
        return list(numberings_of(day_runs, timed_versions=self.protocol.timed_versions))

    @property
    def slots(self) -> TimeSlots:
        """Stand-in for sequence versions on a feed without them."""
        return TimeSlots.from_restarts(self.restarts, self.numberings)

    @property
    def base(self) -> int:
        """First sequence version."""
        return self.versions[0] if self.runs else 1

    @property
    def from_the_start(self) -> bool:
        """Whether the day begins with the first packet of its first version."""
        return any(first == 1 for first, _ in self.runs.get(self.base, ()))

    @property
    def schema_version(self) -> int | None:
        """Schema version of rows that do not state theirs; None if it could be several.

        Versions that flag implied orders in the same way count as one.
        """
        masks = {implied_mask(version) for version in self.schema_versions}
        return min(self.schema_versions) if len(masks) == 1 else None

    def identity(self) -> str:
        """Return a text that changes with the coverage, but not with how it is stored."""
        runs = {version: joined_runs(own) for version, own in self.runs.items()}
        inputs: tuple[Any, ...] = (
            sorted(self.units), sorted(runs.items()), sorted(self.following.items()),
        )  # fmt: skip
        if self.protocol.name != BINARY:
            inputs = (self.protocol.name, *inputs)
        return hashlib.sha256(repr(inputs).encode()).hexdigest()[:16]


def day_coverage(
    lake: LakeStore, day: date, channel: int, protocol: IngestProtocol | None = None
) -> DayCoverage:
    """Return the coverage of a channel's day by ingests; of the binary feed by default."""
    number = day_number(day)
    coverage = DayCoverage(number, channel, protocol or PROTOCOLS[BINARY])
    # An ingest is filed under the date on which its first capture begins.
    days = [day + timedelta(days=since) for since in range(-MAX_CAPTURE_DAYS, MAX_PAUSE_DAYS)]
    later: dict[int, dict[int, int]] = {}
    columns = ["unit_id", "report", "schema_versions", "first_time_ns", "last_time_ns"]
    spans: dict[str, list[int]] = {}
    channels: dict[str, set[int]] = {}
    for row in read_small(lake, "ingests", columns, days):
        times = [row[name] for name in columns[3:] if row[name] is not None]
        spans.setdefault(row["unit_id"], []).extend(times)
        report = json.loads(row["report"]) if row["report"] else {}
        for role in report.get("roles", ()):
            channels.setdefault(row["unit_id"], set()).update(role["channels"])
        for name, runs in _coverage(report, coverage.protocol).items():
            its_day, its_channel, version = (int(part) for part in name.split("/"))
            if its_channel != channel:
                continue
            if its_day == number:
                coverage.runs.setdefault(version, []).extend((a, b) for a, b in runs)
                coverage.schema_versions.update(row["schema_versions"] or ())
                coverage.units.add(row["unit_id"])
            elif its_day > number:
                own = later.setdefault(its_day, {})
                own[version] = min(own.get(version, MANY), *(first for first, _ in runs))
    for unit, times in spans.items():
        ends = [day_of(time) for time in (min(times), max(times))] if times else []
        if ends and ends[0] <= number <= ends[1] and channel in channels.get(unit, ()):
            coverage.units.add(unit)
    if later:
        coverage.following = later[min(later)]
    if coverage.protocol.timed_versions and coverage.runs:
        _rebuild_coverage(lake, day, coverage)
    return coverage


def _rebuild_coverage(lake: LakeStore, day: date, found: DayCoverage) -> None:
    """Find restarts of sequence numbers, and derive the coverage from the packets themselves."""
    names = ["channel", "stream", "sequence_number", "sending_time_ns", "message_count"]
    table = found.protocol.account_table("packets")
    parts = list(_rows(lake, table, names, day, found.channel))
    if not parts:
        return
    first, sending, count = (np.concatenate([part[at] for part in parts]) for at in range(3))
    numbered = first > 0
    resets = _rows(lake, "legacy_sequence_reset", [*names[:2], names[3]], day, found.channel)
    reset_times = [time for part in resets for time in part[0].tolist()]
    found.restarts = find_restarts(sending[numbered], first[numbered], reset_times)
    if not found.restarts:
        return
    beats = _rows(
        lake, "legacy_heartbeat", [*names[:2], "msg_seq_num", names[3]], day, found.channel
    )
    spans = [(first[numbered], first[numbered] + np.maximum(count[numbered], 1) - 1,
              sending[numbered]), *((number, number, time) for number, time in beats)]  # fmt: skip
    low, high, time = (np.concatenate([part[at] for part in spans]) for at in range(3))
    versions = TimeSlots(found.restarts).version_at(time, low)
    found.runs = {
        version: joined_runs(
            list(zip(low[versions == version].tolist(), high[versions == version].tolist(),
                     strict=True))
        )
        for version in np.unique(versions).tolist()
    }  # fmt: skip


def _coverage(report: dict[str, Any], protocol: IngestProtocol) -> dict[str, Runs]:
    """Return the runs of numbers that an ingest received by a feed, by day, channel and version."""
    counts: dict[str, Any] = report
    if protocol.name != BINARY:
        counts = report.get("protocols", {}).get(protocol.name, {})
    coverage: dict[str, Runs] = counts.get("coverage", {})
    return coverage


def find_gaps(lake: LakeStore, day: date, channel: int, known: DayCoverage) -> PacketGapColumns:
    """Return the packets of a channel's day that are missing or partly rejected."""
    gaps = _undated(lake, day, channel, known)
    return PacketGapColumns.from_gaps(_dated(lake, day, channel, known, gaps) if gaps else gaps)


def last_missing(
    lake: LakeStore, day: date, channel: int, known: DayCoverage
) -> Iterator[PacketKey]:
    """Yield the last packet of every gap; of a gap of unknown size, the first."""
    for gap in _undated(lake, day, channel, known) if known.runs else ():
        extent = gap.packets if gap.packets < MANY else 1
        yield PacketKey.from_serial(gap.first + extent - 1, known.base)


def _undated(lake: LakeStore, day: date, channel: int, known: DayCoverage) -> list[PacketGap]:
    """Return the gaps of a channel's day, without the times of the packets around them."""
    if known.protocol.timed_versions:
        gaps = list(_missing_in_time(known))
        tail = _tail_in_time(known)
    else:
        gaps = list(_missing(lake, day, channel, known))
        tail = _tail(lake, day, channel, known)
    gaps += _unread(lake, day, channel, known)
    if tail is not None:
        gaps.append(tail)
    return gaps


def _missing_in_time(known: DayCoverage) -> Iterator[PacketGap]:
    """Yield the numbers missing where the numbering continues from version to version.

    At a restart it is unknown how many were lost before it.
    """
    base = known.base
    before: SequenceSpan | None = None
    for numbering in known.numberings:
        runs = joined_runs(*numbering.runs.values())
        first = runs[0][0]
        if before is not None:
            ended = PacketKey(before.versions[-1], before.last + 1)
            yield PacketGap(ended.serial(base), MANY)
        elif first > 1:
            yield PacketGap(PacketKey(numbering.versions[0], 1).serial(base), first - 1)
        for (_, last), (next_first, _) in itertools.pairwise(runs):
            key = PacketKey(numbering.version_of(last), last + 1)
            yield PacketGap(key.serial(base), next_first - last - 1)
        before = numbering


def _tail_in_time(known: DayCoverage) -> PacketGap | None:
    """Return the gap proven by the next day's first number, unless the numbers restart there."""
    if not known.runs or not known.following:
        return None
    numbering = known.numberings[-1]
    next_first = known.following[in_order(known.following)[0]]
    if next_first <= numbering.last + 1:
        return None
    first = PacketKey(numbering.versions[-1], numbering.last + 1).serial(known.base)
    return PacketGap(first, next_first - numbering.last - 1)


def _missing(lake: LakeStore, day: date, channel: int, known: DayCoverage) -> Iterator[PacketGap]:
    base, versions = known.base, known.versions
    ended: set[PacketKey] | None = None
    for version in versions:
        runs = joined_runs(known.runs[version])
        first = runs[0][0]
        if first > 1:  # in the first version: packets before the capture joined
            yield PacketGap(PacketKey(version, 1).serial(base), first - 1)
        for (_, last), (next_first, _) in itertools.pairwise(runs):
            yield PacketGap(PacketKey(version, last + 1).serial(base), next_first - last - 1)
        if version != versions[-1]:
            if ended is None:
                ended = _ends(lake, day, channel)
            last = runs[-1][1]
            if PacketKey(version, last) not in ended:
                yield PacketGap(PacketKey(version, last + 1).serial(base), MANY)


def _ends(lake: LakeStore, day: date, channel: int) -> set[PacketKey]:
    """Return the packet keys at which SequenceResets end versions of the incremental stream."""
    names = ["channel", "stream", "sequence_version", "sequence_number"]
    rows = _rows(lake, "umdf_sequence_reset_1", names, day, channel)
    return {
        PacketKey(version, number)
        for part in rows
        for version, number in zip(part[0].tolist(), part[1].tolist(), strict=True)
    }


def _unread(lake: LakeStore, day: date, channel: int, known: DayCoverage) -> Iterator[PacketGap]:
    """Yield packets that were partly rejected."""
    base, table = known.base, known.protocol.account_table("rejects")
    names = ["channel", "stream", "sequence_version", "sequence_number"]
    seen: set[int] = set()
    for versions, numbers in _rows(lake, table, names, day, channel):
        seen.update(serial_of(versions[numbers > 0], numbers[numbers > 0], base).tolist())
    for serial in sorted(seen):
        yield PacketGap(serial, 1, unread=True)


def _tail(lake: LakeStore, day: date, channel: int, known: DayCoverage) -> PacketGap | None:
    """Return the gap at the end that heartbeats or the next day's first number prove."""
    if not known.runs:
        return None
    version = known.versions[-1]
    last = max(end for _, end in known.runs[version])
    expected, sending = known.following.get(version, 0), 0
    table = _HEARTBEATS
    names = ["channel", "stream", "sequence_version", "next_seq_no", "sending_time_ns"]
    if table in lake.table_names():
        for file in files_of(lake, table, [day]):
            highest = file.get("max.next_seq_no")
            if highest is not None and highest <= last + 1:
                continue
            for versions, promised, times in _file_rows(lake, table, file, names, channel):
                own = np.flatnonzero((versions == version) & (promised > max(expected, last + 1)))
                if len(own):
                    best = own[int(promised[own].argmax())]
                    expected, sending = int(promised[best]), int(times[best])
    if expected <= last + 1:
        return None
    first = PacketKey(version, last + 1).serial(known.base)
    return PacketGap(first, expected - last - 1, until_ns=sending)


def _dated(
    lake: LakeStore, day: date, channel: int, known: DayCoverage, gaps: list[PacketGap]
) -> Iterator[PacketGap]:
    """Yield each gap with the times of the packets before and after it.

    A heartbeat that announces the first missing number also counts as a packet before it.
    """
    base, table = known.base, known.protocol.account_table("packets")
    names = ["channel", "stream", "sequence_version", "sequence_number"]
    names += ["sending_time_ns", "capture_time_ns"]
    parts = list(_rows(lake, table, names, day, channel))
    if not parts:
        yield from gaps
        return
    versions, numbers, sendings, captures = (
        np.concatenate([part[at] for part in parts]) for at in range(4)
    )
    if known.restarts:
        versions = TimeSlots(known.restarts).version_at(sendings, numbers)
    serial = serial_of(versions, numbers, base)
    order = np.argsort(serial, kind="stable")
    order = order[numbers[order] > 0]
    serial = serial[order]
    quiet = _heartbeats(lake, day, channel, known)

    def times(at: int) -> tuple[int, int]:
        return int(sendings[order[at]]), int(captures[order[at]])

    for gap in gaps:
        at = int(np.searchsorted(serial, gap.first))
        if gap.unread and at < len(serial) and serial[at] == gap.first:
            since = until = times(at)
        else:
            extent = gap.packets if gap.packets < MANY else 1
            end = int(np.searchsorted(serial, gap.first + extent))
            since = times(at - 1) if at else (0, 0)
            since = max(since, quiet.get(gap.first, since)) if at else since
            until = times(end) if end < len(serial) else (0, 0)
        if gap.until_ns:
            until = gap.until_ns, gap.until_capture_ns
        yield PacketGap(gap.first, gap.packets, gap.unread, *since, *until)


def _heartbeats(
    lake: LakeStore, day: date, channel: int, known: DayCoverage
) -> dict[int, tuple[int, int]]:
    """Return the times of the last heartbeat that announces each packet, by its serial."""
    if known.protocol.name != BINARY:
        return {}  # heartbeats of the legacy feed have numbers of their own
    names = ["channel", "stream", "sequence_version", "next_seq_no"]
    names += ["sending_time_ns", "capture_time_ns"]
    last: dict[int, tuple[int, int]] = {}
    for versions, numbers, sendings, captures in _rows(lake, _HEARTBEATS, names, day, channel):
        serial = serial_of(versions, numbers, known.base)
        order = np.lexsort((sendings, serial))
        order = order[np.append(np.diff(serial[order]) != 0, True)[: len(order)]]
        for number, *times in zip(
            serial[order].tolist(), sendings[order].tolist(), captures[order].tolist(), strict=True
        ):
            last[number] = max((times[0], times[1]), last.get(number, (0, 0)))
    return last


def _rows(
    lake: LakeStore, table: str, names: list[str], day: date, channel: int
) -> Iterator[list[Int64Array]]:
    """Yield rows of a channel's incremental stream by file: the columns after the stream."""
    if table in lake.table_names():
        for file in files_of(lake, table, [day]):
            yield from _file_rows(lake, table, file, names, channel)


def _file_rows(
    lake: LakeStore, table: str, file: dict[str, Any], names: list[str], channel: int
) -> Iterator[list[Int64Array]]:
    low, high = file.get("min.channel"), file.get("max.channel")
    if low is not None and high is not None and not low <= channel <= high:
        return
    location = lake.table_location(table).join(file["path"])
    with pq.ParquetFile(location.path, filesystem=location.filesystem) as opened:
        rows = opened.read(columns=names, use_threads=False)
    own = integers(rows.column("channel"), -1) == channel
    own &= codes(rows.column("stream"), {Stream.INCREMENTAL.value: 1}, 0) == 1
    if own.any():
        yield [integers(rows.column(name), 0)[own] for name in names[2:]]


def is_current(catalog: FileCatalog, day: date, channel: int) -> bool:
    """Whether the last build of a channel's day used all that the lake has of it now."""
    _, unit = latest_build(catalog.lake, day, channel)
    coverage = day_coverage(catalog.lake, day, channel, catalog.protocol(day, channel))
    return unit is not None and coverage.identity() == unit.split("-")[-2]
