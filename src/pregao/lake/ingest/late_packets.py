"""Event numbers where the packets of two ingests meet: feed B after feed A, or parts of a day.

An event that was cut by a gap got a number of its own on either side. Where a later ingest fills
the gap, the rows of the later part get the number of the event that they continue: the unit of the
ingest removes them, and adds them again with that number.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pregao.arrays import BoolArray, Int64Array
from pregao.lake.ingest.merging import TaskManifest
from pregao.lake.ingest.registry import first_protocol
from pregao.lake.ingest.sequence_ranges import ChannelDayVersion, Coverage, Runs, joined_runs
from pregao.lake.ingest.writer import BY_INSTRUMENT
from pregao.lake.storage.commit_unit import DATE, NewFile, ReplacedRows
from pregao.lake.storage.delta import arrow_schema, visible_files
from pregao.lake.storage.filesystem import Location
from pregao.lake.storage.lake_store import LakeStore
from pregao.lake.storage.parquet import WrittenFile, file_coding, rewrite, rows_of
from pregao.umdf.events import ends_event, event_number
from pregao.umdf.templates import END_OF_EVENT
from pregao.units import date_of

_EVENT = "event"
_FLAGS = "match_event_indicator"
Joined = dict[int, dict[int, int]]
"""Numbers of events that continue others, with those of the others, by channel."""
_KEY = ("channel", "sequence_version", "sequence_number", "index_in_packet", _EVENT)


@dataclass(slots=True)
class RenumberedEvents:
    """Rows that get another event number: the removed ones, and the files that have them now."""

    removed: list[ReplacedRows] = field(default_factory=list)
    files: list[NewFile] = field(default_factory=list)


class _Messages(NamedTuple):
    """Messages of packets: number, index in the packet, event, and whether each ends its event."""

    number: Int64Array
    order: Int64Array
    event: Int64Array
    ends: BoolArray


def meeting_packets(own: Runs, context: Runs, before: Runs) -> list[int]:
    """Return the packets whose first event was numbered without the packet before, which is known.

    ``own`` are the runs of sequence numbers of an ingest, ``context`` those that it also read,
    ``before`` those of earlier ingests.
    """
    new = list(_missing_in(own, before))
    if not new:
        return []
    after = [last + 1 for _, last in new if _has(before, last + 1)]
    return [first for first, _ in joined_runs(own, context) if _has(before, first - 1)] + after


def _missing_in(own: Runs, before: Runs) -> Iterator[tuple[int, int]]:
    """Yield the runs of numbers that only the first has."""
    ends = [-1, *(bound for run in before for bound in run), 1 << 62]
    free = [(last + 1, first - 1) for last, first in zip(ends[::2], ends[1::2], strict=True)]
    for first, last in own:
        at = max(bisect_right(free, (first, 1 << 62)) - 1, 0)
        while at < len(free) and free[at][0] <= last:
            begin, end = max(first, free[at][0]), min(last, free[at][1])
            if begin <= end:
                yield begin, end
            at += 1


def _has(runs: Runs, number: int) -> bool:
    at = bisect_right(runs, (number, 1 << 62)) - 1
    return at >= 0 and number <= runs[at][1]


def renumber_events(
    lake: LakeStore,
    manifests: Sequence[TaskManifest],
    known: Coverage,
    files: list[WrittenFile],
) -> RenumberedEvents:
    """Connect the events of an ingest's new files with those that the lake already has.

    ``known`` are the packets of earlier ingests. New files with such rows are removed from
    ``files``, and written again.
    """
    result = RenumberedEvents()
    meeting = _meeting_packets(manifests, known, _first_events(files))
    if not meeting:
        return result
    tables = {name: lake.delta(name) for name in lake.table_names() if name.startswith(_prefix())}
    for day in sorted({key[0] for key in meeting}):
        visible = {name: _files_of(table, day) for name, table in tables.items()}
        new = {name: [f for f in files if (f.table, f.day) == (name, day)] for name in tables}
        paths = {
            name: {**own, **{file.path: (0, 1 << 62) for file in new[name]}}
            for name, own in visible.items()
        }
        joined: Joined = {}
        for key in (key for key in meeting if key[0] == day):
            found = _joined_events(lake.location, paths, key, meeting[key])
            joined.setdefault(key[1], {}).update(found)
        joined = {channel: own for channel, own in joined.items() if own}
        for name, table in tables.items() if joined else ():
            declared = arrow_schema(table)
            folder, day_ = lake.table_location(name), date_of(day)
            if (moved := _moved(folder, [*visible[name]], joined, declared, day_)) is not None:
                result.files.append(moved)
                for channel, own in joined.items():
                    where = (("channel", (channel,)), (_EVENT, tuple(sorted(own))))
                    result.removed.append(ReplacedRows(name, day_.isoformat(), where))
            for file in new[name]:
                moved = _moved(folder, [file.path], joined, declared, day_, whole=True)
                if moved is not None:
                    files.remove(file)
                    result.files.append(moved)
                    folder.join(file.path).delete()
    return result


def _first_events(files: Iterable[WrittenFile]) -> dict[int, int]:
    """Return the lowest event number in the new files of each day."""
    found: dict[int, int] = {}
    for file in files:
        names = file.metadata.schema.names
        if not file.table.startswith(_prefix()) or _EVENT not in names:
            continue
        for group in range(file.metadata.num_row_groups):
            bounds = file.metadata.row_group(group).column(names.index(_EVENT)).statistics
            if bounds is not None and bounds.has_min_max:
                found[file.day] = min(found.get(file.day, bounds.min), bounds.min)
    return found


def _meeting_packets(
    manifests: Iterable[TaskManifest], known: Coverage, first_events: Mapping[int, int]
) -> dict[ChannelDayVersion, Int64Array]:
    """Return the packets where the ingest's own and earlier ones meet, by channel day."""
    own: dict[ChannelDayVersion, Runs] = {}
    context: dict[ChannelDayVersion, Runs] = {}
    for manifest in manifests:
        if manifest.protocol == first_protocol().name:
            for runs_of, coverage in ((own, manifest.coverage), (context, manifest.around)):
                for key, runs in coverage.items():
                    runs_of[key[:3]] = joined_runs(runs_of.get(key[:3], []), runs)
    there = known.keys()
    found = {
        key: meeting_packets(runs, context.get(key, []), known.runs(key))
        for key, runs in own.items()
        if key in there
    }
    for version_key, at in found.items():
        # The context of a stream begins before the events of its new packets: nothing to read.
        lowest, version = first_events.get(version_key[0], 0), version_key[2]
        found[version_key] = [one for one in at if event_number(version, one + 1, 0) > lowest]
    return {key: np.array(sorted(set(at)), np.int64) for key, at in found.items() if at}


def _files_of(table: Any, day: int) -> dict[str, tuple[int, int]]:
    """Return the visible files of a day, with the bounds of their sequence numbers."""
    actions = visible_files(table)
    if not actions.num_rows:
        return {}
    found = {}
    for action in actions.to_pylist():
        if action[f"partition.{DATE}"] == date_of(day):
            low, high = (action.get(f"{end}.sequence_number") for end in ("min", "max"))
            found[action["path"]] = (0 if low is None else low, 1 << 62 if high is None else high)
    return found


def _prefix() -> str:
    """Return the beginning of the names of message tables whose messages have events."""
    return f"{first_protocol().name}_"


# --- Which events continue ---


def _joined_events(
    lake: Location,
    paths: Mapping[str, Mapping[str, tuple[int, int]]],
    key: ChannelDayVersion,
    meeting: Int64Array,
) -> dict[int, int]:
    """Return the numbers of events that continue others, with those of the others."""
    _, channel, version = key
    wanted = np.unique(np.concatenate([meeting - 1, meeting]))
    parts = [
        _messages(rows, ends_event(int(name.rpartition("_")[2]), None))
        for name, own in paths.items()
        for path, (low, high) in own.items()
        if _some_within(wanted, low, high)
        for rows in _rows_of_packets(lake.join(name, path), channel, version, wanted)
    ]
    if not parts:
        return {}
    number, index, event, ends = (np.concatenate(each) for each in zip(*parts, strict=True))
    order = np.lexsort((index, number))
    number, index, event, ends = number[order], index[order], event[order], ends[order]
    starts = np.flatnonzero(np.diff(number, prepend=-1))
    joined: dict[int, int] = {}
    of_meeting = set(meeting.tolist())
    for before, first in pairwise(starts.tolist()):
        at = int(number[first])
        own = int(event[first])
        if at not in of_meeting or int(number[before]) != at - 1:
            continue
        cut = event_number(version, at, int(index[first]))
        if own != cut:
            joined[cut] = joined.get(own, own)
        elif not ends[first - 1]:
            running = int(event[first - 1])
            joined[cut] = joined.get(running, running)
    return joined


def _some_within(numbers: Int64Array, low: int, high: int) -> bool:
    """Whether some of the sorted numbers are within bounds."""
    at = int(np.searchsorted(numbers, low))
    return at < len(numbers) and int(numbers[at]) <= high


def _rows_of_packets(
    file: Location, channel: int, version: int, numbers: Int64Array
) -> Iterator[Any]:
    """Yield keys, events and flags of the messages of some packets, from a file's row groups."""
    with file.open_input() as source:
        opened = pq.ParquetFile(source)
        metadata = opened.metadata
        names = metadata.schema.names
        column = names.index("sequence_number")
        columns = [name for name in (*_KEY, _FLAGS) if name in names]
        for group in range(metadata.num_row_groups):
            bounds = metadata.row_group(group).column(column).statistics
            known = bounds is not None and bounds.has_min_max
            if known and not _some_within(numbers, bounds.min, bounds.max):
                continue
            rows = opened.read_row_group(group, columns, use_threads=False)
            chosen = pc.and_(
                pc.equal(rows["channel"], channel), pc.equal(rows["sequence_version"], version)
            )
            chosen = pc.and_(chosen, pc.is_valid(rows[_EVENT]))
            of_packets = pa.array(numbers).cast(rows["sequence_number"].type)
            found = rows.filter(pc.and_(chosen, pc.is_in(rows["sequence_number"], of_packets)))
            if found.num_rows:
                yield found


def _messages(rows: Any, without_flags: bool) -> _Messages:
    ends = np.full(rows.num_rows, without_flags, np.bool_)
    if _FLAGS in rows.column_names:
        flags = _integers(pc.fill_null(rows[_FLAGS], -1))
        # Like a message whose block is too short for them, it ends its event.
        ends = (flags < 0) | (flags & END_OF_EVENT != 0)
    number, index, event = (_integers(rows[name]) for name in _KEY[2:])
    return _Messages(number, index, event, ends)


def _integers(column: Any) -> Int64Array:
    values: Int64Array = column.combine_chunks().to_numpy(zero_copy_only=False).astype(np.int64)
    return values


# --- Their rows ---


def _moved(
    folder: Location,
    paths: Sequence[str],
    joined: Joined,
    declared: Any,
    day: date,
    *,
    whole: bool = False,
) -> NewFile | None:
    """Write the rows of files that get another event number; return None if none does.

    With ``whole`` all other rows are written too.
    """
    if not paths or _EVENT not in declared.names:
        return None
    numbers = sorted({cut for own in joined.values() for cut in own})
    cut = pc.field(_EVENT).isin(pa.array(numbers, pa.int64()))
    dataset = rows_of(folder, paths, declared)
    if not dataset.count_rows(filter=cut):
        return None
    rows = dataset.to_table(filter=None if whole else cut, use_threads=False)
    renumbered, changed = _with_events(rows, joined)
    if not whole:
        renumbered = renumbered.filter(changed)
    if not pc.any(changed).as_py():
        return None
    by = [(column, "ascending") for column in BY_INSTRUMENT if column in rows.column_names]
    coding = file_coding(folder.join(paths[0]))
    separate = BY_INSTRUMENT[0] if BY_INSTRUMENT[0] in rows.column_names else None
    return rewrite(folder, coding, renumbered.sort_by(by), day, declared, separate)


def _with_events(rows: Any, joined: Joined) -> tuple[Any, Any]:
    """Return rows with the numbers of the events that they continue, and which have changed."""
    events = rows[_EVENT]
    changed = pa.array(np.zeros(rows.num_rows, np.bool_))
    for channel, own in joined.items():
        cuts = sorted(own)
        index = pc.index_in(rows[_EVENT], pa.array(cuts, pa.int64()))
        mine = pc.and_(pc.is_valid(index), pc.equal(rows["channel"], channel))
        numbers = pa.array([own[cut] for cut in cuts], pa.int64()).take(index)
        events = pc.if_else(mine, numbers, events)
        changed = pc.or_(changed, mine)
    at = rows.column_names.index(_EVENT)
    return rows.set_column(at, rows.schema.field(_EVENT), events), changed
