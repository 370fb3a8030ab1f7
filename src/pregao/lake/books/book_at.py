"""Book of an instrument at a given time: the last checkpoint before it, and a short replay.

Does not use Spark: reads the tables' files directly, and only rows about the instrument. Users name
instruments by symbol or security ID.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from pregao.arrays import Int64Array
from pregao.book.replay import FullBook
from pregao.book.state import State
from pregao.book.update_rows import UpdateKind, UpdateRows
from pregao.errors import UsageError
from pregao.feed.packet_keys import AFTER_PACKET, message_serial
from pregao.feed.replay.audit import no_book
from pregao.feed.replay.day import ChannelDay
from pregao.feed.replay.sequence import counts_after, follow_sequence, loaded_snapshots, rows_of
from pregao.lake.books.catalog import FileCatalog, files_of, latest_build
from pregao.lake.books.checkpoints import book_of, levels_book_of
from pregao.lake.books.columns import integers
from pregao.lake.books.coverage import is_current
from pregao.lake.books.planner import plan_day
from pregao.lake.books.reader import INSTRUMENTS, SecurityRange, open_reader
from pregao.lake.books.replay_span import LATEST, SCALARS, BookCheckpoint, ReplaySpan
from pregao.lake.books.replay_span import BookInstrument as BookInstrument
from pregao.lake.books.replay_span import HistoricalBook as HistoricalBook
from pregao.lake.books.schemas import CHECKPOINTS, SIDE_LEVELS, side_columns
from pregao.lake.storage.lake_store import LakeStore
from pregao.lake.views.symbols import meant
from pregao.name_matching import folded
from pregao.umdf.gap_columns import DOUBTED
from pregao.umdf.gaps import GapStep
from pregao.umdf.sequencing import serial_of
from pregao.units import date_of, day_of

_MAX_ID = (1 << 63) - 1

UNCONFIRMED = State.UNCONFIRMED.name.lower()
_MAX_CACHED_STRETCHES = 4
"""Number of stretches between checkpoints whose data is cached."""


def security_number(name: str) -> int | None:
    """Return the security ID that a name is; None if it can only be a symbol."""
    if not (name.isascii() and name.isdigit() and len(name) <= len(str(_MAX_ID))):
        return None
    number = int(name)
    return number if number <= _MAX_ID else None


def find_instrument(
    catalog: FileCatalog, name: str, day: date | None, channel: int | None
) -> BookInstrument:
    """Return the instrument of a symbol or ID, on the given or the last day that has it."""
    days = [day] if day is not None else list(reversed(catalog.dates()))
    for candidate in days:
        found = []
        for number in catalog.channels(candidate):
            if channel is None or number == channel:
                found += _named(catalog, name, candidate, number)
        if len(found) > 1:
            channels = ", ".join(str(one.channel) for one in found)
            raise UsageError(f"{name} is on channels {channels}: choose one with --channel.")
        if found:
            return found[0]
    where = f" on {day.isoformat()}" if day is not None else ""
    where += f" on channel {channel}" if channel is not None else ""
    raise UsageError(
        f"{catalog.lake.location} has no instrument {name}{where}.{meant(catalog.lake, name, day)}"
    )


def _named(catalog: FileCatalog, name: str, day: date, channel: int) -> list[BookInstrument]:
    reader = open_reader(catalog.lake.location, catalog.inputs(day, channel))
    own = security_number(name)
    part = SecurityRange() if own is None else SecurityRange(own, own)
    found: dict[int, BookInstrument] = {}
    for rows in reader.read(INSTRUMENTS, ["security_id", "symbol"], part):
        ids = integers(rows.column("security_id")).tolist()
        symbols = rows.column("symbol").to_pylist()
        for security, symbol in zip(ids, symbols, strict=True):
            if security == own or (symbol is not None and folded(symbol) == folded(name)):
                found[security] = BookInstrument(day, channel, security, symbol)
    if not found and own is not None and reader.has_instrument(own):
        found[own] = BookInstrument(day, channel, own, None)
    return list(found.values())


def book_at(
    lake: LakeStore,
    name: str,
    at_ns: int | None = None,
    day: date | None = None,
    channel: int | None = None,
) -> HistoricalBook:
    """Return the book of an instrument after all packets sent up to a time."""
    lake.require()
    if day is None and at_ns is not None:
        day = date_of(day_of(at_ns))
    return open_books(FileCatalog(lake), name, day, channel).exactly([at_ns])[0]


def open_books(
    catalog: FileCatalog, name: str, day: date | None = None, channel: int | None = None
) -> InstrumentBooks:
    """Open the books of an instrument's day for repeated lookups."""
    instrument = find_instrument(catalog, name, day, channel)
    checkpoints = _checkpoints(catalog.lake, instrument)
    inputs = catalog.inputs(instrument.date, instrument.channel)
    if not checkpoints or inputs.depth_of(instrument.security_id) is None:
        raise _without_book(catalog, instrument, name)
    return InstrumentBooks(catalog, instrument, checkpoints)


class InstrumentBooks:
    """Books of one instrument's day, at any time.

    Data of the day is read once, so the second lookup is much faster. Later ingests and builds are
    not visible.
    """

    def __init__(
        self,
        catalog: FileCatalog,
        instrument: BookInstrument,
        checkpoints: list[BookCheckpoint],
    ) -> None:
        security = instrument.security_id
        planned = plan_day(catalog, instrument.date, instrument.channel).for_security(security)
        self.instrument = instrument
        self.data_ends_ns = data_ends(catalog, instrument)
        """Sending time of the channel's last packet, if known."""
        self._lake = catalog.lake
        self._day = planned.day
        self._source = planned.source(SecurityRange(security, security))
        self._current = is_current(catalog, instrument.date, instrument.channel)
        self._checkpoints = checkpoints
        self._sent: list[int] = [one.values["sending_time_ns"] for one in checkpoints]
        self._kept: OrderedDict[int, _Run] = OrderedDict()

    def at(self, at_ns: int | None) -> HistoricalBook:
        """Return the book after all packets sent up to a time; None for the end."""
        return self._between([at_ns])[-1]

    def series(
        self, times: Sequence[int], *, max_replays: int | None = None
    ) -> list[HistoricalBook]:
        """Return the books at ascending times, as ``at`` does, with one replay for many of them.

        Data received later must not change an earlier book, so a replay yields only the times after
        the last gap or snapshot that mattered. ``max_replays`` limits the replays and drops the
        first times, which would need more.
        """
        found: list[HistoricalBook] = []
        left = list(times)
        replays = 0
        while left and (max_replays is None or replays < max_replays):
            # Times before the last checkpoint need a replay from an earlier one.
            begin = bisect_left(left, self._sent[at - 1]) if (at := self._before(left[-1])) else 0
            moments = self._between(left[begin:])
            found = moments + found
            del left[len(left) - len(moments) :]
            replays += 1
        return found

    def _before(self, at_ns: int | None) -> int:
        """Return the number of checkpoints up to a time."""
        return len(self._sent) if at_ns is None else bisect_right(self._sent, at_ns)

    def _between(self, times: Sequence[int | None]) -> list[HistoricalBook]:
        """Return the books at the last of some times without a checkpoint between them.

        Data up to the next checkpoint is cached: callers that step through a day return to it.
        """
        if times[-1] is not None:
            before = self._before(times[-1])
            run = self._kept.get(before)
            if run is None:
                until = self._sent[before] if before < len(self._sent) else LATEST
                run = self._kept[before] = self._run(before, until)
                while len(self._kept) > _MAX_CACHED_STRETCHES:
                    self._kept.popitem(last=False)
            else:
                self._kept.move_to_end(before)
            known = [time for time in times if time is not None and time >= run.since]
            if known:
                return [self._ended(moment) for moment in run.moments(known, self._current)]
        return self.exactly(times)

    def exactly(self, times: Sequence[int | None]) -> list[HistoricalBook]:
        """Return the books at the times, reading no data after the last one."""
        run = self._run(self._before(times[-1]), times[-1])
        before = [time for time in times[:-1] if time is not None and time >= run.since]
        moments = run.moments([*before, times[-1]], self._current)
        return [self._ended(moment) for moment in moments]

    def _run(self, before: int, until: int | None) -> _Run:
        """Replay up to a time, from the last usable one of the first ``before`` checkpoints."""
        # An unconfirmed state at a checkpoint depends on packets before it.
        known = [one for one in self._checkpoints[:before] if one.values["state"] != UNCONFIRMED]
        start = known[-1] if known else None
        following = self._checkpoints[before] if before < len(self._checkpoints) else None
        span = ReplaySpan(self._day, self._source, self.instrument, until, start, following)
        levels = self._day.of_levels
        book = no_book(of_levels=levels)
        if start is not None:
            book = _loaded(self._lake, start, of_levels=levels)
        return _Run(span, book)

    def _ended(self, moment: HistoricalBook) -> HistoricalBook:
        at, ends = moment.at_ns, self.data_ends_ns
        late = at is not None and ends is not None and at > ends
        return replace(moment, data_ends_ns=ends) if late else moment


def data_ends(catalog: FileCatalog, instrument: BookInstrument) -> int | None:
    """Return the sending time of the channel's last packet of that day, if known."""
    protocol = catalog.protocol(instrument.date, instrument.channel)
    packets = protocol.account_table("packets")
    ends = [
        file["max.sending_time_ns"]
        for file in files_of(catalog.lake, packets, [instrument.date])
        if file.get("max.sending_time_ns") is not None
        and (file.get("min.channel") or 0) <= instrument.channel <= (file.get("max.channel") or 255)
    ]
    return max(ends, default=None)


def _without_book(catalog: FileCatalog, instrument: BookInstrument, name: str) -> UsageError:
    """Return an error with the reason why an instrument has no book."""
    lake = catalog.lake.location
    day, channel = instrument.date, instrument.channel
    if catalog.inputs(day, channel).depth_of(instrument.security_id) is None:
        return UsageError(
            f"{name} has price levels on {day.isoformat()}, channel {channel}, and no "
            "snapshot states how many the feed publishes: ingest the channel's market recovery "
            "stream too, then build its books."
        )
    whose = f"The books of {day.isoformat()}, channel {channel}, were"
    if latest_build(catalog.lake, day, channel)[1] is None:
        return UsageError(f"{whose} not built: run `pregao books --lake {lake}` first.")
    if not is_current(catalog, day, channel):
        return UsageError(
            f"{whose} built before all of {name} was ingested: run `pregao books --lake {lake}` "
            "again."
        )
    reader = open_reader(lake, catalog.inputs(day, channel))
    if not reader.has_instrument(instrument.security_id):
        return UsageError(
            f"{name} is defined on {day.isoformat()}, channel {channel}, but has no messages: "
            "it has no book."
        )
    return UsageError(
        f"{whose} built without {name}: run `pregao books --lake {lake} --symbol {name}`."
    )


def _checkpoints(lake: LakeStore, instrument: BookInstrument) -> list[BookCheckpoint]:
    """Return an instrument's checkpoints in order, without their orders."""
    if CHECKPOINTS.name not in lake.table_names():
        return []
    security = instrument.security_id
    found: list[tuple[dict[str, Any], str, int, int]] = []
    for file in files_of(lake, CHECKPOINTS.name, [instrument.date]):
        if not file["min.security_id"] <= security <= file["max.security_id"]:
            continue
        location = lake.table_location(CHECKPOINTS.name).join(file["path"])
        with pq.ParquetFile(location.path, filesystem=location.filesystem) as opened:
            at = opened.metadata.schema.names.index("security_id")
            for group in range(opened.metadata.num_row_groups):
                statistics = opened.metadata.row_group(group).column(at).statistics
                if not statistics.min <= security <= statistics.max:
                    continue
                rows = opened.read_row_group(group, columns=list(SCALARS), use_threads=False)
                own = (integers(rows.column("security_id")) == security) & (
                    integers(rows.column("channel")) == instrument.channel
                )
                for row in np.flatnonzero(own).tolist():
                    values = {name: _scalar(rows.column(name).slice(row, 1)) for name in SCALARS}
                    found.append((values, file["path"], group, row))
    if not found:
        return []
    versions = np.array([values["sequence_version"] for values, *_ in found], np.int64)
    numbers = np.array([values["sequence_number"] for values, *_ in found], np.int64)
    index = [values["index_in_packet"] for values, *_ in found]
    serial = serial_of(versions, numbers, int(versions[0]))
    indices = np.array([AFTER_PACKET if one is None else one for one in index], np.int64)
    message_serials = message_serial(serial, indices)
    return [
        BookCheckpoint(int(message_serials[at]), *found[at])
        for at in np.argsort(message_serials, kind="stable")
    ]


def _scalar(column: Any) -> Any:
    """Return a single value: names as text, others as integers; None for null."""
    if column.null_count:
        return None
    if column.type in ("string", "large_string"):
        return column[0].as_py()
    return int(integers(column)[0])


def _loaded(lake: LakeStore, checkpoint: BookCheckpoint, *, of_levels: bool) -> FullBook:
    """Return the orders of a checkpoint, or its levels."""
    location = lake.table_location(CHECKPOINTS.name).join(checkpoint.path)
    with pq.ParquetFile(location.path, filesystem=location.filesystem) as opened:
        names = SIDE_LEVELS if of_levels else side_columns(opened.schema_arrow.names)
        rows = opened.read_row_group(checkpoint.group, columns=list(names), use_threads=False)
    sides = [rows.column(name).slice(checkpoint.row, 1) for name in names]
    bids, asks = (side.combine_chunks().flatten() for side in sides)
    state = State[checkpoint.values["state"].upper()]
    return (levels_book_of if of_levels else book_of)(bids, asks, state)


class _Run:
    """Replay of a span; returns books at times from `since` on, when all its data was known."""

    def __init__(self, span: ReplaySpan, known: FullBook) -> None:
        counters = span.day.counters(1)
        if span.start is not None:
            counters.last[0] = span.start.values["rpt_seq"]
            counters.stale[0] = known.state is State.STALE
            counters.proven[0] = span.proven(stale=known.state is State.STALE)
        trial = counters.copy()
        sequence = span.sequence(None)
        followed = follow_sequence(sequence, trial, span.gaps)
        snapshots = None
        doubtful = followed.has(DOUBTED) | (followed.step == GapStep.GAP)
        if span.start is None or counters.stale[0] or doubtful.any():
            # Snapshots are needed only now: they start books, or heal them.
            snapshots = span.snapshots()
            sequence = span.sequence(snapshots)
            trial = counters
            followed = follow_sequence(sequence, trial, span.gaps)
        self._span = span
        self._known = known
        self._sequence = sequence
        self._snapshots = snapshots
        self._rows = rows_of(sequence, followed, snapshots)
        self._counts = counts_after(sequence, followed, trial)
        self._published = sequence.snapshot[loaded_snapshots(followed)]
        self._doubted = np.flatnonzero(followed.has(DOUBTED))
        """Items from which on the book is unconfirmed."""
        self.since = self._settled_since()

    def moments(self, times: Sequence[int | None], current: bool) -> list[HistoricalBook]:
        """Return the books at ascending times; the last may be the end of the span."""
        span, sequence, rows = self._span, self._sequence, self._rows
        # Items are in sequence order; those of a time are the first ones, sent by then.
        until = np.array([LATEST if time is None else time for time in times], np.int64)
        items = np.searchsorted(np.maximum.accumulate(sequence.sending), until, side="right")
        if times[-1] == span.at_ns:
            items[-1] = len(sequence)
        ends = rows.begins[items]
        security = span.instrument.security_id
        books = _played(span.day, security, self._known, rows.updates, ends)
        statistics = span.statistics(sequence, self._snapshots, self._published, items)
        first = 0 if span.start is None else span.start.values["rpt_seq"]
        return [
            span.moment(
                time,
                sequence,
                rows.item[:end],
                int(self._counts[item - 1]) if item else first,
                book,
                values,
                current,
                self._gap(item) if book.state is State.UNCONFIRMED else None,
            )
            for time, item, end, book, values in zip(
                times, items.tolist(), ends.tolist(), books, statistics, strict=True
            )
        ]

    def _gap(self, items: int) -> int | None:
        """Return the gap since which the book is unconfirmed after the first `items` items."""
        at = int(np.searchsorted(self._doubted, items)) - 1
        if at < 0:
            return None
        serial = self._sequence.message_serial[self._doubted[at]]
        gap = int(np.searchsorted(self._span.gaps.serials, serial, side="right")) - 1
        return gap if gap >= 0 else None

    def _settled_since(self) -> int:
        """Return the time from which all that the replay used was known."""
        span, sequence = self._span, self._sequence
        if len(sequence) and (np.diff(sequence.sending) < 0).any():
            return LATEST  # sequence order differs from sending order
        since = [0, *span.gaps.sending[span.gaps.serials > span.after].tolist()]
        since += [loop.last_sending_ns for loop in span.loops]
        if self._snapshots is not None:
            mattered = np.diff(self._rows.begins) > 0
            used = sequence.snapshot[mattered & (sequence.snapshot >= 0)]
            since += self._snapshots.loop.sending[used].tolist()
            since += self._snapshots.voids().after(span.after).sent_by(span.until).sending.tolist()
        return int(max(since))


def _played(
    day: ChannelDay, security: int, known: FullBook, updates: UpdateRows, ends: Int64Array
) -> list[FullBook]:
    """Return the book after the first `end` updates, for each of the ascending ends."""
    wanted = np.unique(ends[ends > 0])
    books = {0: known}
    if len(wanted):
        replay = day.replay(0)
        if len(known) or known.state is State.STALE:
            replay.run(known.rows(security, -1), finish=False)
        if known.state is State.STALE:
            broken = UpdateRows.empty(1)
            broken.instrument[:], broken.event[:] = security, -1
            broken.kind[:] = UpdateKind.INTERRUPT
            replay.run(broken, finish=False)
        dumped = replay.run(updates, dump_at=replay.done + wanted - 1).books
        books |= dict(zip(wanted.tolist(), dumped, strict=True))
    return [books[end] for end in ends.tolist()]
