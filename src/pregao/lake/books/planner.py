"""Plan of a build: facts of a channel's day, and the partition of its instruments into tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import date
from typing import NamedTuple

import numpy as np

from pregao.feed.book_updates import BOOK_TEMPLATES
from pregao.feed.replay.day import LAST_SERIAL, ChannelDay
from pregao.feed.replay.snapshots import CompleteLoop, complete_loops, whole_loops
from pregao.lake.books.catalog import FileCatalog
from pregao.lake.books.columns import integers
from pregao.lake.books.coverage import day_coverage, find_gaps
from pregao.lake.books.day_loader import read_headers
from pregao.lake.books.reader import LEGACY, InputReader, SecurityRange, open_reader
from pregao.lake.books.task import BookTask, BuildSettings, DayInputs
from pregao.umdf.gaps import MAX_MESSAGES_PER_PACKET
from pregao.umdf.sequencing import version_distance
from pregao.umdf.templates import (
    DELETE_ORDER,
    EMPTY_BOOK,
    ORDER,
    SNAPSHOT_HEADER,
    SNAPSHOT_ORDERS,
)

ROWS_PER_TASK = 700_000
"""Maximum number of messages per task, in memory at a few hundred bytes each."""
ROWS_PER_WINDOW = 200_000
"""Maximum per window, where one instrument alone has more and is replayed in windows."""
MIN_TASK = 50_000
ORDERS_PER_MESSAGE = 5
"""Estimated number of orders per message of a snapshot."""


def plan_day(catalog: FileCatalog, day: date, channel: int) -> DayInputs:
    """Return the facts of a channel's day, and the inputs to read it from."""
    lake = catalog.lake
    inputs = catalog.inputs(day, channel)
    protocol = catalog.protocol(day, channel)
    coverage = day_coverage(lake, day, channel, protocol)
    if protocol.timed_versions:
        inputs = replace(inputs, slots=coverage.slots)
    reader = open_reader(lake.location, inputs)
    base = coverage.base
    spans: tuple[tuple[int, int], ...] = ((base, 0),)
    if len(coverage.runs) > 1 and not protocol.timed_versions:
        spans = _spans(reader, base)
    gaps = find_gaps(lake, day, channel, coverage)
    legacy = inputs.protocol == LEGACY
    max_messages = _max_entries() if legacy else MAX_MESSAGES_PER_PACKET
    loops: tuple[CompleteLoop, ...] = ()
    if len(gaps) and (headers := read_headers(reader, SecurityRange())) is not None:
        loops = complete_loops(whole_loops(headers, spans, base), gaps)
    by_position = catalog.has_positions(day, channel)
    facts = ChannelDay(
        base, coverage.from_the_start, by_position, spans, gaps, loops, max_messages, not legacy
    )
    return DayInputs(lake.location, inputs, facts, coverage.schema_version)


def _max_entries() -> int:
    """Return the limit of the legacy feed, whose modules are imported for its books only."""
    from pregao.feed.legacy.follower import MAX_ENTRIES

    return MAX_ENTRIES


def _spans(reader: InputReader, base: int) -> tuple[tuple[int, int], ...]:
    """Return the sequence versions of the incremental stream, with their first sending times."""
    first: dict[int, int] = {}
    for template in (ORDER, DELETE_ORDER, EMPTY_BOOK):
        for rows in reader.read(template, ["sequence_version", "sending_time_ns"], SecurityRange()):
            versions = integers(rows.column("sequence_version"))
            times = integers(rows.column("sending_time_ns"))
            for version in np.unique(versions).tolist():
                earliest = int(times[versions == version].min())
                first[version] = min(first.get(version, earliest), earliest)
    ordered = sorted(first.items(), key=lambda item: version_distance(base, item[0]))
    return tuple(ordered) or ((base, 0),)


def plan_tasks(
    inputs: DayInputs,
    settings: BuildSettings,
    parallelism: int,
    part: SecurityRange | None = None,
) -> list[BookTask]:
    """Partition the instruments into ranges of about equal work; ``part`` limits them.

    A task has one kind of book.
    """
    tasks: list[BookTask] = []
    for own in inputs.kinds():
        reader = open_reader(own.lake, own.inputs)
        for cut in instrument_ranges(reader, parallelism, settings.securities, part):
            windows: tuple[tuple[int, int], ...] = ()
            if cut.part.first == cut.part.last and cut.rows > ROWS_PER_TASK:
                windows = windows_of(reader, own.day.base, cut.part.first)
            tasks.append(BookTask(len(tasks), own, settings, cut.part, windows, cut.rows))
    return largest_first(tasks)


def largest_first(tasks: list[BookTask]) -> list[BookTask]:
    """Return tasks in order of decreasing size, so that those left at the end are small."""
    return sorted(tasks, key=lambda task: -task.rows)


class InstrumentCut(NamedTuple):
    """Range of instruments, and the estimated number of rows to process."""

    part: SecurityRange
    rows: int


def instrument_ranges(
    reader: InputReader,
    parallelism: int,
    securities: Iterable[int] | None = None,
    part: SecurityRange | None = None,
) -> list[InstrumentCut]:
    """Partition the instruments with rows into ranges of about equal work.

    The work is estimated from the statistics of row groups, which are sorted by instrument;
    security IDs are read only from groups with several instruments.
    """
    rows: Counter[int] = Counter()
    for template in (*BOOK_TEMPLATES, *reader.inputs.counted, SNAPSHOT_HEADER):
        rows.update(reader.rows_by_security(template))
    for security, messages in reader.rows_by_security(SNAPSHOT_ORDERS).items():
        rows[security] += ORDERS_PER_MESSAGE * messages
    if securities is not None:
        rows = Counter({own: rows[own] for own in securities if own in rows})
    if part is not None:
        rows = Counter({own: n for own, n in rows.items() if part.first <= own <= part.last})
    total = rows.total()
    share = max(total / max(parallelism * 2, -(-total // ROWS_PER_TASK)), MIN_TASK)
    found: list[InstrumentCut] = []
    for security in sorted(rows):
        last = found[-1] if found else None
        if last is not None and last.rows + rows[security] <= share * 1.1:
            part = SecurityRange(last.part.first, security)
            found[-1] = InstrumentCut(part, last.rows + rows[security])
        else:
            found.append(InstrumentCut(SecurityRange(security, security), rows[security]))
    return found


def windows_of(reader: InputReader, base: int, security: int) -> tuple[tuple[int, int], ...]:
    """Return windows of a very long sequence, split where row groups of its orders end."""
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
