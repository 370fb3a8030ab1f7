"""The plan of a build: what holds for a channel's day, and how its instruments are shared out."""

from __future__ import annotations

import json
from collections import Counter
from datetime import date, timedelta
from typing import Any

import numpy as np

from pregao.lake.books.catalogue import Catalogue, read_small
from pregao.lake.books.columns import integers
from pregao.lake.books.inputs import (
    BOOK_TEMPLATES,
    DELETE,
    EMPTY_BOOK,
    EPOCH,
    ORDER,
    SNAPSHOT_HEADER,
    SNAPSHOT_ORDERS,
    Part,
    Reader,
    serial_of,
)
from pregao.lake.books.snapshots import LoopRows, read_headers, version_of
from pregao.lake.books.tasks import LAST_SERIAL, BookDay, BookTask
from pregao.lake.ingest import joined_runs
from pregao.lake.store import Lake
from pregao.umdf.sequencing import version_distance

ROWS_PER_TASK = 2_000_000
"""So many messages are held in memory at once, at a few hundred bytes each."""
ROWS_PER_WINDOW = 1_000_000
"""The same where one instrument alone has more, and is replayed window by window."""
SMALLEST_TASK = 50_000
ORDERS_PER_MESSAGE = 5
"""About so many orders are in a message of a snapshot."""

LONGEST_CAPTURE_DAYS = 8

Coverage = dict[int, list[tuple[int, int]]]


def coverage(lake: Lake, day: date, channel: int) -> Coverage:
    """By sequence version: the runs of packets that ingests have brought of a channel's day."""
    found: Coverage = {}
    number = (day - EPOCH).days
    # An ingest is filed under the day on which its first capture begins.
    days = [day + timedelta(days=since) for since in range(-LONGEST_CAPTURE_DAYS, 2)]
    for row in read_small(lake, "ingests", ["report"], days):
        text = row["report"]
        for name, runs in json.loads(text)["coverage"].items() if text else ():
            its_day, its_channel, version = (int(part) for part in name.split("/"))
            if (its_day, its_channel) == (number, channel):
                found.setdefault(version, []).extend((first, last) for first, last in runs)
    return found


def first_version(versions: list[int]) -> int:
    """The version that all others come after; they go round from 65534 to 1."""
    for candidate in versions:
        if all(version_distance(candidate, other) >= 0 for other in versions):
            return candidate
    return min(versions)


def marks_implied(lake: Lake, day: date) -> bool:
    """Are all captures of a day of schema versions in which a bit marks implied orders?"""
    rows = read_small(lake, "ingests", ["schema_versions"], [day])
    versions = [version for row in rows for version in row["schema_versions"] or ()]
    return not versions or min(versions) >= 10


def plan_day(
    catalogue: Catalogue,
    day: date,
    channel: int,
    unit_id: str,
    depth: int,
    interval_ns: int,
    securities: tuple[int, ...] | None,
) -> BookDay:
    """What all tasks of a channel's day have to know."""
    lake = catalogue.lake
    inputs = catalogue.inputs(day, channel)
    runs = coverage(lake, day, channel)
    reader = Reader(lake.location, inputs)
    base = first_version(sorted(runs)) if runs else 1
    from_the_start = any(first == 1 for first, _ in runs.get(base, ()))
    spans: tuple[tuple[int, int], ...] = ((base, 0),)
    if len(runs) > 1:
        spans = _spans(reader, base)
    loop = None
    if not from_the_start and (headers := read_headers(reader, Part())) is not None:
        loop = first_loop(headers, list(spans), base)
    return BookDay(
        lake.location,
        inputs,
        base,
        from_the_start,
        len(runs) == 1 and len(joined_runs(*runs.values())) == 1,
        marks_implied(lake, day),
        catalogue.has_positions(day, channel),
        spans,
        loop,
        unit_id,
        depth,
        interval_ns,
        securities,
    )


def _spans(reader: Reader, base: int) -> tuple[tuple[int, int], ...]:
    """The sequence versions of the incremental stream, and when each was first sent."""
    first: dict[int, int] = {}
    for template in (ORDER, DELETE, EMPTY_BOOK):
        for rows in reader.read(template, ["sequence_version", "sending_time_ns"], Part()):
            versions = integers(rows.column("sequence_version"))
            times = integers(rows.column("sending_time_ns"))
            for version in np.unique(versions).tolist():
                earliest = int(times[versions == version].min())
                first[version] = min(first.get(version, earliest), earliest)
    ordered = sorted(first.items(), key=lambda item: version_distance(base, item[0]))
    return tuple(ordered) or ((base, 0),)


def first_loop(
    headers: Any, spans: list[tuple[int, int]], base: int
) -> tuple[int, int, int, int] | None:
    """The first loop of snapshots that has all its headers, as a task wants to know it."""
    loop = LoopRows.of(headers)
    reports = integers(headers.column("tot_num_reports"), 0)
    serial = serial_of(
        version_of(headers, spans), integers(headers.column("last_msg_seq_num_processed")), base
    )
    order = np.lexsort((loop.number, loop.sending))
    breaks = np.flatnonzero(np.diff(loop.version[order]) != 0) + 1
    for own in np.split(order, breaks):
        if len(np.unique(loop.security[own])) == int(reports[own].max(initial=0)) > 0:
            sending = loop.sending[own]
            found = (loop.version[own[0]], sending.min(), sending.max(), serial[own].min())
            return tuple(int(value) for value in found)  # type: ignore[return-value]
    return None


def plan_tasks(day: BookDay, parallelism: int) -> list[BookTask]:
    """Share the instruments out in ranges of about equal work.

    How much there is to do is told by the statistics of row groups, which are sorted by
    instrument; only of those with several instruments are the instruments' numbers read.
    """
    reader = Reader(day.lake, day.inputs)
    rows: Counter[int] = Counter()
    for template in (*BOOK_TEMPLATES, *day.inputs.counted, SNAPSHOT_HEADER):
        rows.update(reader.rows_by_security(template))
    for security, messages in reader.rows_by_security(SNAPSHOT_ORDERS).items():
        rows[security] += ORDERS_PER_MESSAGE * messages
    if day.securities is not None:
        rows = Counter({own: rows[own] for own in day.securities if own in rows})
    total = rows.total()
    share = max(total / max(parallelism * 2, -(-total // ROWS_PER_TASK)), SMALLEST_TASK)
    tasks: list[BookTask] = []
    held: list[int] = []

    def close() -> None:
        if held:
            part = Part(held[0], held[-1])
            windows: tuple[tuple[int, int], ...] = ()
            if len(held) == 1 and rows[held[0]] > ROWS_PER_TASK:
                windows = windows_of(reader, day.base, held[0])
            tasks.append(BookTask(len(tasks), day, part, windows))
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
        for template in (ORDER, DELETE)
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
