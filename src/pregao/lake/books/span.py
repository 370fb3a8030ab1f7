"""What lies between a checkpoint and a moment of one instrument: its messages, in order."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np

from pregao.book.replay import FullBook
from pregao.book.rows import NULL
from pregao.feed.columns import Numbers
from pregao.feed.day import LAST_SERIAL, ChannelDay
from pregao.feed.places import BEHIND_PACKET, INDEX_BITS, packet_of, place_of
from pregao.feed.sequence import Sequence, in_sequence
from pregao.feed.snapshots import Absences, Snapshots
from pregao.feed.statistics import (
    PriceLimits,
    StatisticReader,
    Statistics,
    statistics_of,
    told_by_snapshots,
)
from pregao.lake.books.inputs import Serials
from pregao.lake.books.reading import Source
from pregao.umdf.gaps import UNPROVEN
from pregao.umdf.sequencing import Place

LATEST = (1 << 63) - 1
"""A time behind everything."""

SCALARS = (
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
    market_depth: int | None = None
    """How many price levels the feed tells of each side; None if it tells orders."""


@dataclass(slots=True)
class Checkpoint:
    """A checkpoint without its orders, and where these are."""

    place: int
    values: dict[str, Any]
    path: str
    group: int
    row: int


class Span:
    """What lies between a checkpoint and a moment, of one instrument."""

    def __init__(
        self,
        day: ChannelDay,
        source: Source,
        instrument: Instrument,
        at_ns: int | None,
        start: Checkpoint | None,
        behind: Checkpoint | None,
    ) -> None:
        self.day = day
        self.instrument = instrument
        self.at_ns = at_ns
        self.start = start
        self.source = source
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

    def _place(self, checkpoint: Checkpoint) -> int:
        values = checkpoint.values
        packet = Place(values["sequence_version"], values["sequence_number"])
        index = values["index_in_packet"]
        serial = np.array([packet.serial(self.day.base)])
        return int(place_of(serial, BEHIND_PACKET if index is None else index)[0])

    def proven(self, *, stale: bool) -> int:
        """How many packets were missing up to the proof that the checkpoint's book has."""
        return UNPROVEN if stale else int(self.holes.missing(np.array([self.after]))[0])

    def _until(self) -> int:
        return LATEST if self.at_ns is None else self.at_ns

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
        at_ns: int | None,
        sequence: Sequence,
        items: Numbers,
        count: int,
        book: FullBook,
        statistics: tuple[int | None, ...],
        current: bool,
    ) -> Moment:
        """All that is known of the book at the moment."""
        told: dict[str, Any] = dict.fromkeys(SCALARS) if self.start is None else self.start.values
        values = {name: told[name] for name in SCALARS[2:7]}
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
            at_ns=at_ns,
            book=book,
            **values,
            rpt_seq=max(count, 0),
            last_price=price,
            trade_volume=volume,
            low_limit_price=low,
            high_limit_price=high,
            replayed=len(items),
            current=current,
            market_depth=self.day.market_depth,
        )

    def statistics(
        self, sequence: Sequence, snapshots: Snapshots | None, loaded: Numbers, items: Numbers
    ) -> list[tuple[int | None, ...]]:
        """Last price, volume and limits behind the first so many items, for rising numbers.

        Some snapshots tell them too.
        """
        told = {} if self.start is None else self.start.values
        names = ("last_price", "trade_volume", "low_limit_price", "high_limit_price")
        known = [told.get(name) for name in names]
        before = int((items == 0).sum())
        found: list[tuple[int | None, ...]] = [tuple(known)] * before
        if before == len(items):
            return found
        securities, base = sequence.securities, self.day.base
        last = items[before:] - 1
        ends = sequence.place[last]
        rank = np.zeros(len(ends), np.int64)
        reader = StatisticReader()
        reader.know(0, known[0], known[1])
        own = statistics_of(self.others.incremental, securities, base)
        own += told_by_snapshots(self.others, snapshots, loaded, securities, base)
        reader.load(Statistics.joined(own).within(self.after + 1, int(ends[-1])))
        price, volume = reader.at(rank, ends)
        low, high = PriceLimits(self.others, snapshots, loaded, securities, base).at(rank, ends)
        for values in zip(price, volume, low, high, strict=True):
            one, two, *limits = (_known(int(value)) for value in values)
            both = zip(limits, known[2:], strict=True)
            found.append((one, two, *(a if a is not None else b for a, b in both)))
        return found


def _known(value: int) -> int | None:
    return None if value == NULL else value


def _none() -> Numbers:
    return np.empty(0, np.int64)
