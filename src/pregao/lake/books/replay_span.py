"""Replay span: messages of one instrument between a checkpoint and a time, in order."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np

from pregao.arrays import Int64Array
from pregao.book.replay import FullBook
from pregao.book.update_rows import NULL
from pregao.feed.packet_keys import AFTER_PACKET, INDEX_BITS, message_serial, packet_of
from pregao.feed.replay.day import LAST_SERIAL, ChannelDay
from pregao.feed.replay.sequence import InstrumentSequence, in_sequence
from pregao.feed.replay.snapshots import AbsentInstruments, Snapshots
from pregao.feed.replay.statistics import (
    PriceLimits,
    StatisticColumns,
    StatisticReader,
    snapshot_statistics,
    statistics_of,
)
from pregao.lake.books.day_loader import DayReader
from pregao.lake.books.reader import Serials
from pregao.umdf.gaps import UNPROVEN
from pregao.umdf.sequencing import PacketKey

LATEST = (1 << 63) - 1
"""Time after all others."""

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
class BookInstrument:
    """Instrument of a day."""

    date: date
    channel: int
    security_id: int
    symbol: str | None


@dataclass(frozen=True, slots=True)
class HistoricalBook:
    """Book at a given time, and the last message applied to it."""

    instrument: BookInstrument
    at_ns: int | None
    """Requested time; None for the end of the day's data."""
    book: FullBook
    sequence_version: int | None
    """Of the last message in the book; None if there was none."""
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
    """Number of updates applied to the checkpoint."""
    current: bool
    """Whether the checkpoints were built from all that the lake has of the day."""
    data_ends_ns: int | None = None
    """Sending time of the channel's last packet, where that is before the requested time."""
    reason: str | None = None
    """The first gap that makes the book unconfirmed; None in other states."""
    market_depth: int | None = None
    """Number of price levels per side in the feed; None if it publishes orders."""


@dataclass(slots=True)
class BookCheckpoint:
    """Checkpoint without its orders, and their location."""

    message_serial: int
    values: dict[str, Any]
    path: str
    group: int
    row: int


class ReplaySpan:
    """Messages of one instrument between a checkpoint and a time."""

    def __init__(
        self,
        day: ChannelDay,
        source: DayReader,
        instrument: BookInstrument,
        at_ns: int | None,
        start: BookCheckpoint | None,
        checkpoint: BookCheckpoint | None,
    ) -> None:
        self.day = day
        self.instrument = instrument
        self.at_ns = at_ns
        self.start = start
        self.source = source
        self.after = -1 if start is None else self._message_serial(start)
        last = LAST_SERIAL if checkpoint is None else self._message_serial(checkpoint) >> INDEX_BITS
        self.serials: Serials = (self.day.base, max(self.after, 0) >> INDEX_BITS, last)
        # The data is complete, so a gap is known as soon as the last packet before it was sent.
        self.gaps = self.day.gaps.take(np.flatnonzero(self.day.gaps.since <= self.until))
        self.loops = [
            loop
            for loop in self.day.loops
            if loop.last_sending_ns <= self.until and loop.message_serial > self.after
        ]
        # The checkpoint has the statistics up to its time.
        self.others = self.source.others(None if start is None else self.serials)

    def _message_serial(self, checkpoint: BookCheckpoint) -> int:
        values = checkpoint.values
        packet = PacketKey(values["sequence_version"], values["sequence_number"])
        index = values["index_in_packet"]
        serial = np.array([packet.serial(self.day.base)])
        return int(message_serial(serial, AFTER_PACKET if index is None else index)[0])

    def proven(self, *, stale: bool) -> int:
        """Return the number of packets missing up to the proof of the checkpoint's book."""
        return UNPROVEN if stale else int(self.gaps.missing(np.array([self.after]))[0])

    @property
    def until(self) -> int:
        """Time up to which data is used."""
        return LATEST if self.at_ns is None else self.at_ns

    def sequence(self, snapshots: Snapshots | None) -> InstrumentSequence:
        """Return the instrument's items, with snapshots if given."""
        messages = self.source.messages(self.others, self.serials)
        keys = messages.keys
        messages = messages.take(
            np.flatnonzero((keys.message_serial > self.after) & (keys.sending <= self.until))
        )
        resets = self.source.resets(self.serials)
        resets = resets.take(
            np.flatnonzero((resets.message_serial > self.after) & (resets.sending <= self.until))
        )
        own = np.array([self.instrument.security_id], np.int64)
        usable, absent = _none(), AbsentInstruments.none()
        if snapshots is not None:
            counts = snapshots.usable() & (snapshots.message_serial > self.after)
            usable = np.flatnonzero(counts & (snapshots.loop.sending <= self.until))
        if snapshots is not None or self.start is None:
            absent = AbsentInstruments.from_loops(self.loops, snapshots, own).sent_by(self.until)
            absent = absent.after_gaps(self.gaps).after(self.after)
        gaps = self.gaps.take(np.flatnonzero(self.gaps.serials > self.after))
        return in_sequence(messages, resets, snapshots, usable, absent, own, gaps)

    def snapshots(self) -> Snapshots | None:
        """Return the instrument's snapshots of the day."""
        if self.start is not None:
            self.others = self.source.others()
        return self.source.snapshots(self.others)

    def moment(
        self,
        at_ns: int | None,
        sequence: InstrumentSequence,
        items: Int64Array,
        count: int,
        book: FullBook,
        statistics: tuple[int | None, ...],
        current: bool,
        gap: int | None,
    ) -> HistoricalBook:
        """Return the book at a time, with all that is known of it; ``gap`` precedes its proof."""
        initial: dict[str, Any] = (
            dict.fromkeys(SCALARS) if self.start is None else self.start.values
        )
        values = {name: initial[name] for name in SCALARS[2:7]}
        if len(items):
            last = int(items[-1])
            message_serial = sequence.message_serial[last : last + 1]
            version, number = packet_of(message_serial, self.day.base)
        if len(items) and number[0] > 0:  # not the gap before the first packet
            index = int(message_serial[0]) & AFTER_PACKET
            row = int(sequence.book_row[last])
            time = NULL if row < 0 else int(sequence.time[row])
            values = {
                "sequence_version": int(version[0]),
                "sequence_number": int(number[0]),
                "index_in_packet": None if index == AFTER_PACKET else index,
                "event_time_ns": _known(time),
                "sending_time_ns": int(sequence.sending[last]),
            }
        price, volume, low, high = statistics
        return HistoricalBook(
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
            reason=None if gap is None else self.gaps.describe(gap, self.day.base),
        )

    def statistics(
        self,
        sequence: InstrumentSequence,
        snapshots: Snapshots | None,
        loaded: Int64Array,
        items: Int64Array,
    ) -> list[tuple[int | None, ...]]:
        """Return last price, volume and limits after the first `items` items, for ascending
        numbers.

        Some snapshots have these statistics too.
        """
        initial = {} if self.start is None else self.start.values
        names = ("last_price", "trade_volume", "low_limit_price", "high_limit_price")
        known = [initial.get(name) for name in names]
        before = int((items == 0).sum())
        found: list[tuple[int | None, ...]] = [tuple(known)] * before
        if before == len(items):
            return found
        securities, base = sequence.securities, self.day.base
        last = items[before:] - 1
        ends = sequence.message_serial[last]
        rank = np.zeros(len(ends), np.int64)
        reader = StatisticReader()
        reader.set_initial(0, known[0], known[1])
        own = statistics_of(self.others.incremental, securities, base)
        own += snapshot_statistics(self.others, snapshots, loaded, securities, base)
        reader.load(StatisticColumns.concat(own).within(self.after + 1, int(ends[-1])))
        price, volume = reader.at(rank, ends)
        low, high = PriceLimits(self.others, snapshots, loaded, securities, base).at(rank, ends)
        for values in zip(price, volume, low, high, strict=True):
            one, two, *limits = (_known(int(value)) for value in values)
            both = zip(limits, known[2:], strict=True)
            found.append((one, two, *(a if a is not None else b for a, b in both)))
        return found


def _known(value: int) -> int | None:
    return None if value == NULL else value


def _none() -> Int64Array:
    return np.empty(0, np.int64)
