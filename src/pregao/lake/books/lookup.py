"""One instrument's book at any moment: the last checkpoint before it, and a short replay.

No Spark: the tables' files are read directly, and of those only what is about the instrument.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from pregao.book.faults import State
from pregao.book.replay import BookKind, FullBook, Replay
from pregao.book.rows import NULL, UpdateKind, UpdateRows
from pregao.errors import UsageError
from pregao.feed.audit import no_book
from pregao.feed.columns import Numbers
from pregao.feed.day import LAST_SERIAL
from pregao.feed.places import BEHIND_PACKET, INDEX_BITS, packet_of, place_of
from pregao.feed.sequence import (
    Sequence,
    follow_sequence,
    in_sequence,
    loaded_snapshots,
    rows_of,
)
from pregao.feed.snapshots import Absences, Snapshots
from pregao.feed.statistics import (
    PriceLimits,
    StatisticReader,
    Statistics,
    statistics_of,
    told_by_snapshots,
)
from pregao.lake.books.brought import is_current
from pregao.lake.books.catalogue import Catalogue, files_of, latest_build
from pregao.lake.books.checkpoints import book_of
from pregao.lake.books.columns import integers
from pregao.lake.books.inputs import EPOCH, INSTRUMENTS, Part, Serials
from pregao.lake.books.legacy_reader import open_reader
from pregao.lake.books.names import security_number
from pregao.lake.books.plan import plan_day
from pregao.lake.books.tables import CHECKPOINTS, side_columns
from pregao.lake.books.tasks import DayInputs
from pregao.lake.store import Lake
from pregao.lake.views import meant
from pregao.names import folded
from pregao.umdf.gap_columns import DOUBTED
from pregao.umdf.gaps import UNPROVEN, Step
from pregao.umdf.sequencing import Place, serial_of
from pregao.umdf.trading_day import day_of

UNCONFIRMED = State.UNCONFIRMED.name.lower()
_SCALARS = (
    "channel",
    "security_id",
    "sequence_version",
    "sequence_number",
    "index_in_packet",
    "event_time_ns",
    "sending_time_ns",
    "state",
    "rpt_seq",
    "last_price",
    "trade_volume",
    "low_limit_price",
    "high_limit_price",
)


@dataclass(frozen=True, slots=True)
class Instrument:
    """An instrument of a day."""

    date: date
    channel: int
    security_id: int
    symbol: str | None


@dataclass(frozen=True, slots=True)
class Moment:
    """A book as it stood at a moment, and after which message."""

    instrument: Instrument
    at_ns: int | None
    """What was asked for; None for the end of the day's data."""
    book: FullBook
    sequence_version: int | None
    """Of the last message that is in it; None if there was none."""
    sequence_number: int | None
    index_in_packet: int | None
    event_time_ns: int | None
    sending_time_ns: int | None
    rpt_seq: int
    last_price: int | None
    trade_volume: int | None
    low_limit_price: int | None
    high_limit_price: int | None
    replayed: int
    """How many updates were applied to the checkpoint."""
    current: bool
    """Was everything that the lake holds of the day in it when the checkpoints were made?"""
    data_ends_ns: int | None = None
    """When the channel's last packet was sent, where that is before what was asked for."""


@dataclass(slots=True)
class _Checkpoint:
    place: int
    values: dict[str, Any]
    path: str
    group: int
    row: int


def find_instrument(
    catalogue: Catalogue, name: str, day: date | None, channel: int | None
) -> Instrument:
    """The instrument of a symbol or number, on the given or the last day that has it."""
    days = [day] if day is not None else list(reversed(catalogue.dates()))
    for candidate in days:
        found = []
        for number in catalogue.channels(candidate):
            if channel is None or number == channel:
                found += _named(catalogue, name, candidate, number)
        if len(found) > 1:
            channels = ", ".join(str(one.channel) for one in found)
            raise UsageError(f"{name} is on the channels {channels}: name one with --channel.")
        if found:
            return found[0]
    where = f" on {day.isoformat()}" if day is not None else ""
    where += f" on channel {channel}" if channel is not None else ""
    raise UsageError(
        f"{catalogue.lake.location} knows no instrument {name}{where}."
        f"{meant(catalogue.lake, name, day)}"
    )


def _named(catalogue: Catalogue, name: str, day: date, channel: int) -> list[Instrument]:
    reader = open_reader(catalogue.lake.location, catalogue.inputs(day, channel))
    own = security_number(name)
    part = Part() if own is None else Part(own, own)
    found: dict[int, Instrument] = {}
    for rows in reader.read(INSTRUMENTS, ["security_id", "symbol"], part):
        ids = integers(rows.column("security_id")).tolist()
        symbols = rows.column("symbol").to_pylist()
        for security, symbol in zip(ids, symbols, strict=True):
            if security == own or (symbol is not None and folded(symbol) == folded(name)):
                found[security] = Instrument(day, channel, security, symbol)
    if not found and own is not None and reader.knows(own):
        found[own] = Instrument(day, channel, own, None)
    return list(found.values())


def book_at(
    lake: Lake,
    name: str,
    at_ns: int | None = None,
    day: date | None = None,
    channel: int | None = None,
) -> Moment:
    """The book of an instrument after all packets that were sent up to a time."""
    lake.require()
    catalogue = Catalogue(lake)
    if day is None and at_ns is not None:
        day = EPOCH + timedelta(days=day_of(at_ns))
    instrument = find_instrument(catalogue, name, day, channel)
    checkpoints = _checkpoints(lake, instrument)
    if not checkpoints:
        raise _without_book(catalogue, instrument, name)
    before = [one for one in checkpoints if at_ns is None or one.values["sending_time_ns"] <= at_ns]
    # What is unconfirmed at a checkpoint depends on what came before it.
    known = [one for one in before if one.values["state"] != UNCONFIRMED]
    start = known[-1] if known else None
    behind = checkpoints[len(before)] if len(before) < len(checkpoints) else None
    moment = _replayed(catalogue, instrument, at_ns, start, behind)
    ends = data_ends(catalogue, instrument)
    late = at_ns is not None and ends is not None and at_ns > ends
    return replace(moment, data_ends_ns=ends if late else None)


def data_ends(catalogue: Catalogue, instrument: Instrument) -> int | None:
    """When the last packet of an instrument's channel was sent that day, as far as it is told."""
    protocol = catalogue.protocol(instrument.date, instrument.channel)
    packets = protocol.account_table("packets")
    ends = [
        file["max.sending_time_ns"]
        for file in files_of(catalogue.lake, packets, [instrument.date])
        if file.get("max.sending_time_ns") is not None
        and (file.get("min.channel") or 0) <= instrument.channel <= (file.get("max.channel") or 255)
    ]
    return max(ends, default=None)


def _without_book(catalogue: Catalogue, instrument: Instrument, name: str) -> UsageError:
    """Why there is no book of an instrument: its day was not built, or not with it."""
    lake = catalogue.lake.location
    day, channel = instrument.date, instrument.channel
    whose = f"The books of {day.isoformat()}, channel {channel}, were"
    if latest_build(catalogue.lake, day, channel)[1] is None:
        return UsageError(f"{whose} not built: run `pregao books --lake {lake}` first.")
    if not is_current(catalogue, day, channel):
        return UsageError(
            f"{whose} built before all of {name} was ingested: run `pregao books --lake {lake}` "
            "again."
        )
    reader = open_reader(lake, catalogue.inputs(day, channel))
    if not reader.knows(instrument.security_id):
        return UsageError(
            f"{name} is defined on {day.isoformat()}, channel {channel}, but no message is about "
            "it: it has no book."
        )
    return UsageError(
        f"{whose} built without {name}: run `pregao books --lake {lake} --symbol {name}`."
    )


def _checkpoints(lake: Lake, instrument: Instrument) -> list[_Checkpoint]:
    """An instrument's checkpoints, without their orders, in order."""
    if CHECKPOINTS.name not in lake.table_names():
        return []
    security = instrument.security_id
    found: list[tuple[dict[str, Any], str, int, int]] = []
    for file in files_of(lake, CHECKPOINTS.name, [instrument.date]):
        if not file["min.security_id"] <= security <= file["max.security_id"]:
            continue
        place = lake.table_location(CHECKPOINTS.name).join(file["path"])
        with pq.ParquetFile(place.path, filesystem=place.filesystem) as opened:
            at = opened.metadata.schema.names.index("security_id")
            for group in range(opened.metadata.num_row_groups):
                statistics = opened.metadata.row_group(group).column(at).statistics
                if not statistics.min <= security <= statistics.max:
                    continue
                rows = opened.read_row_group(group, columns=list(_SCALARS), use_threads=False)
                own = (integers(rows.column("security_id")) == security) & (
                    integers(rows.column("channel")) == instrument.channel
                )
                for row in np.flatnonzero(own).tolist():
                    values = {name: _scalar(rows.column(name).slice(row, 1)) for name in _SCALARS}
                    found.append((values, file["path"], group, row))
    if not found:
        return []
    versions = np.array([values["sequence_version"] for values, *_ in found], np.int64)
    numbers = np.array([values["sequence_number"] for values, *_ in found], np.int64)
    index = [values["index_in_packet"] for values, *_ in found]
    serial = serial_of(versions, numbers, int(versions[0]))
    behind = np.array([BEHIND_PACKET if one is None else one for one in index], np.int64)
    places = place_of(serial, behind)
    return [_Checkpoint(int(places[at]), *found[at]) for at in np.argsort(places, kind="stable")]


def _scalar(column: Any) -> Any:
    """A single value: names as text, all else as a number; None for null."""
    if column.null_count:
        return None
    if column.type in ("string", "large_string"):
        return column[0].as_py()
    return int(integers(column)[0])


def _loaded(lake: Lake, checkpoint: _Checkpoint) -> FullBook:
    """The orders of a checkpoint."""
    place = lake.table_location(CHECKPOINTS.name).join(checkpoint.path)
    with pq.ParquetFile(place.path, filesystem=place.filesystem) as opened:
        names = side_columns(opened.schema_arrow.names)
        rows = opened.read_row_group(checkpoint.group, columns=list(names), use_threads=False)
    sides = [rows.column(name).slice(checkpoint.row, 1) for name in names]
    bids, asks = (side.combine_chunks().flatten() for side in sides)
    return book_of(bids, asks, State[checkpoint.values["state"].upper()])


def _replayed(
    catalogue: Catalogue,
    instrument: Instrument,
    at_ns: int | None,
    start: _Checkpoint | None,
    behind: _Checkpoint | None,
) -> Moment:
    planned = plan_day(catalogue, instrument.date, instrument.channel)
    span = _Span(planned, instrument, at_ns, start, behind)
    counters = planned.day.counters(1)
    known = no_book()
    if start is not None:
        known = _loaded(catalogue.lake, start)
        counters.last[0] = start.values["rpt_seq"]
        counters.stale[0] = known.state is State.STALE
        counters.proven[0] = span.proven(stale=known.state is State.STALE)
    trial = counters.copy()
    sequence = span.sequence(None)
    followed = follow_sequence(sequence, trial, span.holes)
    snapshots = None
    doubtful = followed.has(DOUBTED) | (followed.step == Step.GAP)
    if start is None or counters.stale[0] or doubtful.any():
        # Only now are snapshots needed: they begin books, or heal them.
        snapshots = span.snapshots()
        sequence = span.sequence(snapshots)
        trial = counters
        followed = follow_sequence(sequence, trial, span.holes)
    rows = rows_of(sequence, followed, snapshots)
    book = _played(planned.day.kind, instrument.security_id, known, rows.updates)
    current = is_current(catalogue, instrument.date, instrument.channel)
    told = sequence.snapshot[loaded_snapshots(followed)]
    statistics = span.statistics(sequence, snapshots, told)
    return span.moment(sequence, rows.item, int(trial.last[0]), book, statistics, current)


def _played(kind: BookKind, security: int, known: FullBook, updates: UpdateRows) -> FullBook:
    """A book after some updates."""
    if not len(updates):
        return known
    replay = Replay(kind, 0)
    if len(known) or known.state is State.STALE:
        replay.run(known.rows(security, -1), finish=False)
    if known.state is State.STALE:
        broken = UpdateRows.empty(1)
        broken.instrument[:], broken.event[:] = security, -1
        broken.kind[:] = UpdateKind.INTERRUPT
        replay.run(broken, finish=False)
    last = replay.done + len(updates) - 1
    return replay.run(updates, dump_at=[last]).books[-1]


class _Span:
    """What lies between a checkpoint and a moment, of one instrument."""

    def __init__(
        self,
        inputs: DayInputs,
        instrument: Instrument,
        at_ns: int | None,
        start: _Checkpoint | None,
        behind: _Checkpoint | None,
    ) -> None:
        self.day = inputs.day
        self.instrument = instrument
        self.at_ns = at_ns
        self.start = start
        self.source = inputs.source(Part(instrument.security_id, instrument.security_id))
        self.after = -1 if start is None else self._place(start)
        last = LAST_SERIAL if behind is None else self._place(behind) >> INDEX_BITS
        self.serials: Serials = (self.day.base, max(self.after, 0) >> INDEX_BITS, last)
        # A hole is known when the packet behind it has come.
        shown = self.day.holes.sending
        known = (shown <= self._until()) & ((shown > 0) | (at_ns is None))
        self.holes = self.day.holes.taken(np.flatnonzero(known))
        self.loops = [
            loop
            for loop in self.day.loops
            if loop.last_sending_ns <= self._until() and loop.place > self.after
        ]
        # A checkpoint tells the statistics up to there.
        self.others = self.source.others(None if start is None else self.serials)

    def _place(self, checkpoint: _Checkpoint) -> int:
        values = checkpoint.values
        packet = Place(values["sequence_version"], values["sequence_number"])
        index = values["index_in_packet"]
        serial = np.array([packet.serial(self.day.base)])
        return int(place_of(serial, BEHIND_PACKET if index is None else index)[0])

    def proven(self, *, stale: bool) -> int:
        """How many packets were missing up to the proof that the checkpoint's book has."""
        return UNPROVEN if stale else int(self.holes.missing(np.array([self.after]))[0])

    def _until(self) -> int:
        return np.iinfo(np.int64).max if self.at_ns is None else self.at_ns

    def sequence(self, snapshots: Snapshots | None) -> Sequence:
        """The instrument's items, with snapshots if there are any."""
        messages = self.source.messages(self.others, self.serials)
        keys = messages.keys
        messages = messages.taken(
            np.flatnonzero((keys.place > self.after) & (keys.sending <= self._until()))
        )
        resets = self.source.resets(self.serials)
        resets = resets.taken(
            np.flatnonzero((resets.place > self.after) & (resets.sending <= self._until()))
        )
        own = np.array([self.instrument.security_id], np.int64)
        usable, absent = _none(), Absences.none()
        if snapshots is not None:
            counts = snapshots.usable() & (snapshots.place > self.after)
            usable = np.flatnonzero(counts & (snapshots.loop.sending <= self._until()))
        if snapshots is not None or self.start is None:
            absent = Absences.of(self.loops, snapshots, own).behind_holes(self.holes)
            absent = absent.after(self.after)
        holes = self.holes.taken(np.flatnonzero(self.holes.place > self.after))
        return in_sequence(messages, resets, snapshots, usable, absent, own, holes)

    def snapshots(self) -> Snapshots | None:
        """The instrument's snapshots of the day."""
        if self.start is not None:
            self.others = self.source.others()
        return self.source.snapshots(self.others)

    def moment(
        self,
        sequence: Sequence,
        items: Numbers,
        count: int,
        book: FullBook,
        statistics: tuple[int | None, ...],
        current: bool,
    ) -> Moment:
        """All that is known of the book at the moment."""
        told: dict[str, Any] = dict.fromkeys(_SCALARS) if self.start is None else self.start.values
        values = {name: told[name] for name in _SCALARS[2:7]}
        if len(items):
            last = int(items[-1])
            place = sequence.place[last : last + 1]
            version, number = packet_of(place, self.day.base)
            index = int(place[0]) & BEHIND_PACKET
            row = int(sequence.book_row[last])
            time = NULL if row < 0 else int(sequence.time[row])
            values = {
                "sequence_version": int(version[0]),
                "sequence_number": int(number[0]),
                "index_in_packet": None if index == BEHIND_PACKET else index,
                "event_time_ns": _known(time),
                "sending_time_ns": int(sequence.sending[last]),
            }
        price, volume, low, high = statistics
        return Moment(
            instrument=self.instrument,
            at_ns=self.at_ns,
            book=book,
            **values,
            rpt_seq=max(count, 0),
            last_price=price,
            trade_volume=volume,
            low_limit_price=low,
            high_limit_price=high,
            replayed=len(items),
            current=current,
        )

    def statistics(
        self, sequence: Sequence, snapshots: Snapshots | None, loaded: Numbers
    ) -> tuple[int | None, ...]:
        """Last price, volume and limits behind all items; some snapshots tell them too."""
        told = {} if self.start is None else self.start.values
        names = ("last_price", "trade_volume", "low_limit_price", "high_limit_price")
        known = [told.get(name) for name in names]
        if not len(sequence):
            return tuple(known)
        securities, base = sequence.securities, self.day.base
        end = sequence.place[-1:]
        rank = np.zeros(1, np.int64)
        reader = StatisticReader()
        reader.know(0, known[0], known[1])
        own = statistics_of(self.others.incremental, securities, base)
        own += told_by_snapshots(self.others, snapshots, loaded, securities, base)
        reader.load(Statistics.joined(own).within(self.after + 1, int(end[0])))
        price, volume = reader.at(rank, end, sequence.event[-1:])
        low, high = PriceLimits(self.others, snapshots, loaded, securities, base).at(rank, end)
        found = [_known(int(value[0])) for value in (price, volume, low, high)]
        limits = [a if a is not None else b for a, b in zip(found[2:], known[2:], strict=True)]
        return (found[0], found[1], *limits)


def _known(value: int) -> int | None:
    return None if value == NULL else value


def _none() -> Numbers:
    return np.empty(0, np.int64)
