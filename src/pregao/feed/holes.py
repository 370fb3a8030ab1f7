"""Holes of a channel: packets that are missing, or of which a part could not be read.

A hole makes every book of the channel unconfirmed, from behind the last packet before it until
the book's next proof (see `pregao.umdf.gaps`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np

from pregao.feed.columns import Codes, Numbers
from pregao.feed.places import BEHIND_PACKET, INDEX_BITS, place_of
from pregao.umdf.sequencing import Place

MANY = 1 << 32
"""How many packets are taken to be missing where nobody knows how many are."""
MOST_HOLES = 65_536
"""So many holes a channel remembers; of those before, only how much was missing in all."""


@dataclass(frozen=True, slots=True)
class Hole:
    """Packets that are missing, by their serials."""

    first: int
    packets: int
    """How many; MANY if nobody knows."""
    unread: bool = False
    """Is it a packet that came, of which a part could not be read?"""
    sending_ns: int = 0
    """When what shows it was sent: the packet behind it, or a heartbeat."""
    capture_ns: int = 0


@dataclass(slots=True)
class Holes:
    """The holes of a day as columns, in order."""

    first: Numbers
    packets: Numbers
    unread: Codes
    sending: Numbers
    capture: Numbers

    def __len__(self) -> int:
        return len(self.first)

    @staticmethod
    def of(holes: Iterable[Hole]) -> Holes:
        """Columns of holes."""
        ordered = sorted(holes, key=lambda hole: hole.first)
        return Holes(
            np.array([hole.first for hole in ordered], np.int64),
            np.array([hole.packets for hole in ordered], np.int64),
            np.array([hole.unread for hole in ordered], np.uint8),
            np.array([hole.sending_ns for hole in ordered], np.int64),
            np.array([hole.capture_ns for hole in ordered], np.int64),
        )

    def taken(self, chosen: Numbers) -> Holes:
        """Some of them."""
        return Holes(*(getattr(self, column.name)[chosen] for column in fields(self)))

    @property
    def place(self) -> Numbers:
        """Where each begins: behind the last packet before it."""
        return place_of(self.first - 1, BEHIND_PACKET)

    def _total(self) -> Numbers:
        return np.concatenate([[0], np.cumsum(self.packets)])

    def missing(self, place: Numbers) -> Numbers:
        """How many packets are missing up to places, with all of a hole that one is in."""
        missing: Numbers = self._total()[np.searchsorted(self.place, place, side="right")]
        return missing

    def covered(self, place: Numbers) -> Numbers:
        """How many of the missing packets come before places, or are the packet of one."""
        serial = place >> INDEX_BITS
        at = np.searchsorted(self.first, serial, side="right")
        # Of a hole of unknown size nothing is known to be behind a place in it.
        extent = np.where(self.packets < MANY, self.packets, 1)
        last = np.concatenate([[-1], self.first + extent - 1])
        covered: Numbers = self._total()[at] - np.maximum(last[at] - serial, 0)
        return covered

    def sound(self, place: Numbers) -> Codes:
        """Which places are in packets that could be read as a whole."""
        unread = self.first[self.unread != 0]
        return (~np.isin(place >> INDEX_BITS, unread)).astype(np.uint8)

    def between(self, rank: Numbers, place: Numbers, instruments: int) -> tuple[Numbers, Numbers]:
        """The holes that matter to instruments: their ranks, and which hole it is.

        Of several holes between two items of an instrument only the first changes anything, and
        the first of all matters to everyone.
        """
        if not len(self):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        behind = np.searchsorted(self.place, place, side="right")
        each = len(self) + 1
        label = np.concatenate([rank * each + behind, np.arange(instruments) * each])
        ranks, holes = np.divmod(np.unique(label), each)
        there = holes < len(self)
        return ranks[there], holes[there]


def no_holes() -> Holes:
    """A day of which nothing is missing."""
    return Holes.of(())


class HoleLog:
    """The holes of a channel as they are found, packet by packet: the plain twin of `Holes`."""

    __slots__ = ("_base", "_first", "_packets", "_total")

    def __init__(self) -> None:
        self._base: int | None = None
        self._first: list[int] = []
        self._packets: list[int] = []
        self._total = [0]

    @property
    def missing(self) -> int:
        """How many packets are missing by now."""
        return self._total[-1]

    def add(self, first: Place, packets: int) -> None:
        """Packets are missing from a place on; holes come in order."""
        if self._base is None:
            self._base = first.sequence_version
        self._first.append(first.serial(self._base))
        self._packets.append(packets)
        self._total.append(self._total[-1] + packets)
        if len(self._first) > MOST_HOLES:
            # A snapshot from before what is remembered then proves less than it could.
            forgotten = MOST_HOLES // 2
            del self._first[:forgotten], self._packets[:forgotten], self._total[:forgotten]

    def begins(self, proven: int) -> Place | None:
        """The packet before the first hole behind what was missing at a proof; None without."""
        at = max(bisect_right(self._total, max(proven, 0)) - 1, 0)
        if self._base is None or at >= len(self._first):
            return None
        return Place.of_serial(self._first[at] - 1, self._base)

    def missing_at(self, place: Place) -> int:
        """How many are missing up to behind a packet, with all of a hole that it is in."""
        if self._base is None:
            return 0
        return self._total[bisect_right(self._first, place.serial(self._base) + 1)]

    def covered_at(self, place: Place) -> int:
        """How many of the missing packets come before a packet, or are that packet."""
        if self._base is None:
            return 0
        serial = place.serial(self._base)
        at = bisect_right(self._first, serial)
        if at == 0:
            return 0
        extent = self._packets[at - 1] if self._packets[at - 1] < MANY else 1
        return self._total[at] - max(self._first[at - 1] + extent - 1 - serial, 0)
