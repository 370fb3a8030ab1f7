"""The sequence of one stream, packet by packet: what is expected, missing, double, late, anew.

A place in a stream is a sequence version and a number. Versions rise weekly, at a failover, or
with every loop, and come round from 65534 to 1; numbers begin with 1 in each. Heartbeats have no
number. A *serial* is a place as one number, counted from a version near it: serials sort as the
stream goes, also where versions come round.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

LAST_SEQUENCE_VERSION = 65_534
"""The sequence version after which they begin again with 1."""
MOST_HOLES = 4_096

_HALF_ROUND = LAST_SEQUENCE_VERSION // 2
_NUMBER_BITS = 32
_NUMBERS = 1 << _NUMBER_BITS
"""So many numbers a sequence version has."""

Numbers = npt.NDArray[np.int64]


def version_distance(old: int, new: int) -> int:
    """How many versions ``new`` comes after ``old``, the short way round; negative if before.

    Half-way round counts as before: a version must be closer ahead than behind to be newer.
    Kernels compile this same function, and columns go through it.
    """
    return (new - old + _HALF_ROUND) % LAST_SEQUENCE_VERSION - _HALF_ROUND


def is_sequence_version(version: int) -> bool:
    """Whether a number is a sequence version: 65535 is the field's null, and 0 is none either."""
    return 0 < version <= LAST_SEQUENCE_VERSION


def next_version(version: int) -> int:
    """The sequence version that follows one."""
    return version % LAST_SEQUENCE_VERSION + 1


class Place(NamedTuple):
    """Where a packet is in its stream."""

    sequence_version: int
    sequence_number: int

    def serial(self, base: int) -> int:
        """The place as one number, counted from the sequence version ``base``."""
        return version_distance(base, self.sequence_version) * _NUMBERS + self.sequence_number

    @staticmethod
    def of_serial(serial: int, base: int) -> Place:
        """The place that has this serial."""
        version = (base - 1 + (serial >> _NUMBER_BITS)) % LAST_SEQUENCE_VERSION + 1
        return Place(version, serial & (_NUMBERS - 1))


_distances: Callable[[int, Numbers], Numbers] = version_distance  # type: ignore[assignment]
"""The same of a column of versions."""


def serial_of(
    versions: npt.NDArray[np.integer], numbers: npt.NDArray[np.integer], base: int
) -> Numbers:
    """The serials of columns of sequence versions and numbers, counted from a version."""
    serials: Numbers
    if len(versions) and versions.min() == versions.max():  # nearly always
        first = version_distance(base, int(versions[0])) * _NUMBERS
        serials = np.add(numbers, first, dtype=np.int64)
        return serials
    serials = _distances(base, versions.astype(np.int64)) * _NUMBERS + numbers
    return serials


def place_of_serial(serials: Numbers, base: int) -> tuple[npt.NDArray[np.int32], Numbers]:
    """The columns of sequence versions and numbers that have these serials."""
    versions = (base - 1 + (serials >> _NUMBER_BITS)) % LAST_SEQUENCE_VERSION + 1
    return versions.astype(np.int32), serials & (_NUMBERS - 1)


def covers(snapshot: Place, place: Place) -> bool:
    """Does what holds as of the first place include what came at the second?"""
    if snapshot.sequence_version == place.sequence_version:
        return place.sequence_number <= snapshot.sequence_number
    return version_distance(snapshot.sequence_version, place.sequence_version) < 0


def precedes(one: Place, other: Place) -> bool:
    """Does a place come before another in their stream?"""
    return one != other and covers(other, one)


class Verdict(Enum):
    """What a packet is to its stream."""

    EXPECTED = "the next one"
    AHEAD = "packets before it are missing"
    LATE = "it was missing"
    DUPLICATE = "it was there already"
    HEARTBEAT = "it has no number"
    OLD_VERSION = "its sequence version is past"


@dataclass(frozen=True, slots=True)
class Arrival:
    """What a packet told about its stream."""

    verdict: Verdict
    missing: range | None = None
    """Numbers that are missing since this packet, in its version."""
    new_version: bool = False
    """It is the first of its version, and another one came before."""
    tail_unknown: bool = False
    """The version before it did not end with a SequenceReset: its last packets may be missing."""


class StreamSequence:
    """Follows the packets of one stream on one line."""

    __slots__ = ("_holes", "ended", "first", "next_number", "version")

    def __init__(self) -> None:
        self.version: int | None = None
        self.first = 0
        """The first number that counts: where it was joined, or 1 for a later version."""
        self.next_number = 1
        self.ended = False
        """Was the SequenceReset seen that ends the version?"""
        self._holes: list[range] = []

    @property
    def missing(self) -> list[range]:
        """The numbers of this version that have not come yet, lowest first."""
        return list(self._holes)

    def accept(self, version: int, number: int, *, resets: bool = False) -> Arrival:
        """Take note of a packet; ``resets`` says that it holds a SequenceReset."""
        if number == 0:
            return Arrival(Verdict.HEARTBEAT)
        arrival = self._arrival(version, number)
        if resets and arrival.verdict is not Verdict.OLD_VERSION:
            self.ended = True
        return arrival

    def heartbeat(self, version: int, next_number: int) -> Arrival:
        """Take note of a heartbeat: it tells the number of the packet that comes next."""
        if version == self.version and next_number > self.next_number and not self.ended:
            return Arrival(Verdict.HEARTBEAT, self._open(next_number))
        return Arrival(Verdict.HEARTBEAT)

    def _arrival(self, version: int, number: int) -> Arrival:
        if self.version is None:
            self._begin(version, first=number)
            self.next_number = number + 1
            return Arrival(Verdict.EXPECTED)
        if version != self.version:
            if version_distance(self.version, version) < 0:
                return Arrival(Verdict.OLD_VERSION)
            tail_unknown = not self.ended
            self._begin(version, first=1)
            missing = self._open(number) if number > 1 else None
            self.next_number = number + 1
            verdict = Verdict.EXPECTED if missing is None else Verdict.AHEAD
            return Arrival(verdict, missing, new_version=True, tail_unknown=tail_unknown)
        if number == self.next_number:
            self.next_number += 1
            return Arrival(Verdict.EXPECTED)
        if number > self.next_number:
            missing = self._open(number)
            self.next_number = number + 1
            return Arrival(Verdict.AHEAD, missing)
        return Arrival(Verdict.LATE if self._close(number) else Verdict.DUPLICATE)

    def _begin(self, version: int, first: int) -> None:
        self.version = version
        self.first = first
        self.next_number = first
        self.ended = False
        self._holes = []

    def _open(self, until: int) -> range:
        hole = range(self.next_number, until)
        self._holes.append(hole)
        self.next_number = until
        del self._holes[:-MOST_HOLES]  # numbers come from the wire: memory has a limit
        return hole

    def _close(self, number: int) -> bool:
        for at, hole in enumerate(self._holes):
            if number in hole:
                parts = (range(hole.start, number), range(number + 1, hole.stop))
                self._holes[at : at + 1] = [part for part in parts if part]
                return True
        return False
