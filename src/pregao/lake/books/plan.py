"""The plan of a build: what holds for a channel's day, and how its instruments are shared out."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import date, timedelta

import numpy as np

from pregao.feed.day import LAST_SERIAL, ChannelDay
from pregao.feed.meaning import BOOK_TEMPLATES
from pregao.feed.snapshots import first_whole_loop
from pregao.lake.books.catalogue import Catalogue, read_small
from pregao.lake.books.columns import integers
from pregao.lake.books.inputs import EPOCH, Part, Reader
from pregao.lake.books.reading import read_headers
from pregao.lake.books.tasks import BookTask, BuildSettings, DayInputs
from pregao.lake.ingest import joined_runs
from pregao.lake.store import Lake
from pregao.umdf.sequencing import version_distance
from pregao.umdf.templates import (
    DELETE_ORDER,
    EMPTY_BOOK,
    ORDER,
    SNAPSHOT_HEADER,
    SNAPSHOT_ORDERS,
    implied_mask,
)

ROWS_PER_TASK = 2_000_000
"""So many messages are held in memory at once, at a few hundred bytes each."""
ROWS_PER_WINDOW = 1_000_000
"""The same where one instrument alone has more, and is replayed window by window."""
SMALLEST_TASK = 50_000
ORDERS_PER_MESSAGE = 5
"""About so many orders are in a message of a snapshot."""

LONGEST_CAPTURE_DAYS = 8


@dataclass(slots=True)
class Brought:
    """What ingests have brought of a channel's day."""

    runs: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """By sequence version: the runs of packets."""
    schema_versions: set[int] = field(default_factory=set)

    @property
    def whole(self) -> bool:
        """Is no packet missing between the first and the last?"""
        return len(self.runs) == 1 and len(joined_runs(*self.runs.values())) == 1

    @property
    def schema_version(self) -> int | None:
        """The schema version of rows that do not tell theirs; None if it could be several.

        Versions that mark implied orders alike are as good as one.
        """
        masks = {implied_mask(version) for version in self.schema_versions}
        return min(self.schema_versions) if len(masks) == 1 else None


def brought(lake: Lake, day: date, channel: int) -> Brought:
    """What ingests have brought of a channel's day."""
    found = Brought()
    number = (day - EPOCH).days
    # An ingest is filed under the day on which its first capture begins.
    days = [day + timedelta(days=since) for since in range(-LONGEST_CAPTURE_DAYS, 2)]
    for row in read_small(lake, "ingests", ["report", "schema_versions"], days):
        text = row["report"]
        for name, runs in json.loads(text)["coverage"].items() if text else ():
            its_day, its_channel, version = (int(part) for part in name.split("/"))
            if (its_day, its_channel) == (number, channel):
                own = found.runs.setdefault(version, [])
                own.extend((first, last) for first, last in runs)
                found.schema_versions.update(row["schema_versions"] or ())
    return found


def first_version(versions: list[int]) -> int:
    """The version that all others come after; they go round from 65534 to 1."""
    for candidate in versions:
        if all(version_distance(candidate, other) >= 0 for other in versions):
            return candidate
    return min(versions)


def plan_day(catalogue: Catalogue, day: date, channel: int) -> DayInputs:
    """What holds for a channel's day, and where it is read from."""
    lake = catalogue.lake
    inputs = catalogue.inputs(day, channel)
    known = brought(lake, day, channel)
    reader = Reader(lake.location, inputs)
    base = first_version(sorted(known.runs)) if known.runs else 1
    from_the_start = any(first == 1 for first, _ in known.runs.get(base, ()))
    spans: tuple[tuple[int, int], ...] = ((base, 0),)
    if len(known.runs) > 1:
        spans = _spans(reader, base)
    loop = None
    if not from_the_start and (headers := read_headers(reader, Part())) is not None:
        loop = first_whole_loop(headers, spans, base)
    by_position = catalogue.has_positions(day, channel)
    facts = ChannelDay(base, from_the_start, known.whole, by_position, spans, loop)
    return DayInputs(lake.location, inputs, facts, known.schema_version)


def _spans(reader: Reader, base: int) -> tuple[tuple[int, int], ...]:
    """The sequence versions of the incremental stream, and when each was first sent."""
    first: dict[int, int] = {}
    for template in (ORDER, DELETE_ORDER, EMPTY_BOOK):
        for rows in reader.read(template, ["sequence_version", "sending_time_ns"], Part()):
            versions = integers(rows.column("sequence_version"))
            times = integers(rows.column("sending_time_ns"))
            for version in np.unique(versions).tolist():
                earliest = int(times[versions == version].min())
                first[version] = min(first.get(version, earliest), earliest)
    ordered = sorted(first.items(), key=lambda item: version_distance(base, item[0]))
    return tuple(ordered) or ((base, 0),)


def plan_tasks(inputs: DayInputs, settings: BuildSettings, parallelism: int) -> list[BookTask]:
    """Share the instruments out in ranges of about equal work.

    How much there is to do is told by the statistics of row groups, which are sorted by
    instrument; only of those with several instruments are the instruments' numbers read.
    """
    reader = Reader(inputs.lake, inputs.inputs)
    rows: Counter[int] = Counter()
    for template in (*BOOK_TEMPLATES, *inputs.inputs.counted, SNAPSHOT_HEADER):
        rows.update(reader.rows_by_security(template))
    for security, messages in reader.rows_by_security(SNAPSHOT_ORDERS).items():
        rows[security] += ORDERS_PER_MESSAGE * messages
    if settings.securities is not None:
        rows = Counter({own: rows[own] for own in settings.securities if own in rows})
    total = rows.total()
    share = max(total / max(parallelism * 2, -(-total // ROWS_PER_TASK)), SMALLEST_TASK)
    tasks: list[BookTask] = []
    held: list[int] = []

    def close() -> None:
        if held:
            part = Part(held[0], held[-1])
            windows: tuple[tuple[int, int], ...] = ()
            if len(held) == 1 and rows[held[0]] > ROWS_PER_TASK:
                windows = windows_of(reader, inputs.day.base, held[0])
            tasks.append(BookTask(len(tasks), inputs, settings, part, windows))
            held.clear()

    for security in sorted(rows):
        if sum(rows[own] for own in held) + rows[security] > share * 1.1:
            close()
        held.append(security)
    close()
    # The largest first: what is left at the end is small.
    return sorted(tasks, key=lambda task: -_weight(rows, task.part))


def _weight(rows: Counter[int], part: Part) -> int:
    return sum(count for own, count in rows.items() if part.first <= own <= part.last)


def windows_of(reader: Reader, base: int, security: int) -> tuple[tuple[int, int], ...]:
    """Windows of a very long sequence, cut where row groups of its orders end."""
    ends = sorted(
        (serial, rows)
        for template in (ORDER, DELETE_ORDER)
        for serial, rows in reader.group_ends(template, security, base)
    )
    cuts: list[int] = []
    held = 0
    for serial, rows in ends:
        held += rows
        if held >= ROWS_PER_WINDOW and (not cuts or serial > cuts[-1]):
            cuts.append(serial)
            held = 0
    if not cuts:
        return ()
    firsts = [0, *(cut + 1 for cut in cuts)]
    return tuple(zip(firsts, [*cuts, LAST_SERIAL], strict=True))
