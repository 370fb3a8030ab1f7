"""The sequence of one stream, packet by packet: expected, missing, duplicate, late or restarted.

A packet key is a sequence version and a number. Versions rise weekly, at a failover, or with every
loop, and wrap from 65534 to 1; numbers start at 1 in each. Heartbeats have no number. A *serial* is
a packet key as one number, relative to a nearby version: serials sort in stream order, even where
versions wrap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pregao.arrays import Int64Array

LAST_SEQUENCE_VERSION = 65_534
"""The last sequence version; 1 follows it."""
MAX_GAPS = 4_096

_HALF_ROUND = LAST_SEQUENCE_VERSION // 2
_NUMBER_BITS = 32
_NUMBERS = 1 << _NUMBER_BITS
"""Number of sequence numbers in a version."""


def version_distance(old: int, new: int) -> int:
    """Return how many versions ``new`` is after ``old``, the short way round; negative if before.

    Half-way round counts as before: a version is newer only if it is closer ahead than back.
    Kernels compile this same function, and columns are passed through it.
    """
    return (new - old + _HALF_ROUND) % LAST_SEQUENCE_VERSION - _HALF_ROUND


def is_sequence_version(version: int) -> bool:
    """Whether a number is a sequence version: not 65535, the field's null, and not 0."""
    return 0 < version <= LAST_SEQUENCE_VERSION


def next_version(version: int) -> int:
    """Return the next sequence version."""
    return version % LAST_SEQUENCE_VERSION + 1


class PacketKey(NamedTuple):
    """Key of a packet in its stream: sequence version and number."""

    sequence_version: int
    sequence_number: int

    def serial(self, base: int) -> int:
        """Return the key as one number, relative to the sequence version ``base``."""
        return version_distance(base, self.sequence_version) * _NUMBERS + self.sequence_number

    @staticmethod
    def from_serial(serial: int, base: int) -> PacketKey:
        """Return the key with this serial."""
        version = (base - 1 + (serial >> _NUMBER_BITS)) % LAST_SEQUENCE_VERSION + 1
        return PacketKey(version, serial & (_NUMBERS - 1))


_distances: Callable[[int, Int64Array], Int64Array] = version_distance  # type: ignore[assignment]
"""`version_distance` for a column of versions."""


def serial_of(
    versions: npt.NDArray[np.integer], numbers: npt.NDArray[np.integer], base: int
) -> Int64Array:
    """Return the serials of columns of sequence versions and numbers, relative to a version."""
    serials: Int64Array
    if len(versions) and versions.min() == versions.max():  # nearly always
        first = version_distance(base, int(versions[0])) * _NUMBERS
        serials = np.add(numbers, first, dtype=np.int64)
        return serials
    serials = _distances(base, versions.astype(np.int64)) * _NUMBERS + numbers
    return serials


def keys_of_serials(serials: Int64Array, base: int) -> tuple[npt.NDArray[np.int32], Int64Array]:
    """Return the columns of sequence versions and numbers with these serials."""
    versions = (base - 1 + (serials >> _NUMBER_BITS)) % LAST_SEQUENCE_VERSION + 1
    return versions.astype(np.int32), serials & (_NUMBERS - 1)


def covers(snapshot: PacketKey, packet_key: PacketKey) -> bool:
    """Whether a snapshot as of the first key includes the packet with the second."""
    if snapshot.sequence_version == packet_key.sequence_version:
        return packet_key.sequence_number <= snapshot.sequence_number
    return version_distance(snapshot.sequence_version, packet_key.sequence_version) < 0


def precedes(one: PacketKey, other: PacketKey) -> bool:
    """Whether a packet key is before another in their stream."""
    return one != other and covers(other, one)


class Verdict(Enum):
    """Classification of a packet within its stream."""

    EXPECTED = "the expected packet"
    AHEAD = "packets before it are missing"
    LATE = "the packet was missing"
    DUPLICATE = "the packet was received before"
    HEARTBEAT = "the packet has no number"
    OLD_VERSION = "the sequence version has ended"


@dataclass(frozen=True, slots=True)
class Arrival:
    """Effect of a packet on its stream."""

    verdict: Verdict
    missing: range | None = None
    """Numbers found missing by this packet, in its version."""
    new_version: bool = False
    """It is the first packet of its version, and not the first of all."""
    tail_unknown: bool = False
    """The previous version did not end with a SequenceReset: its last packets may be missing."""


class StreamSequence:
    """Tracks the packets of one stream on one line."""

    __slots__ = ("_gaps", "ended", "first", "next_number", "version")

    def __init__(self) -> None:
        self.version: int | None = None
        self.first = 0
        """First number of the version: where the stream was joined, or 1 for later versions."""
        self.next_number = 1
        self.ended = False
        """Whether the SequenceReset that ends the version was received."""
        self._gaps: list[range] = []

    @property
    def missing(self) -> list[range]:
        """The missing numbers of this version, lowest first."""
        return list(self._gaps)

    def accept(self, version: int, number: int, *, resets: bool = False) -> Arrival:
        """Record a packet; ``resets`` states that it contains a SequenceReset."""
        if number == 0:
            return Arrival(Verdict.HEARTBEAT)
        arrival = self._arrival(version, number)
        if resets and arrival.verdict is not Verdict.OLD_VERSION:
            self.ended = True
        return arrival

    def heartbeat(self, version: int, next_number: int) -> Arrival:
        """Record a heartbeat, which states the number of the next packet."""
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
        self._gaps = []

    def _open(self, until: int) -> range:
        gap = range(self.next_number, until)
        self._gaps.append(gap)
        self.next_number = until
        del self._gaps[:-MAX_GAPS]  # numbers come from the wire: bound the memory
        return gap

    def _close(self, number: int) -> bool:
        for index, gap in enumerate(self._gaps):
            if number in gap:
                parts = (range(gap.start, number), range(number + 1, gap.stop))
                self._gaps[index : index + 1] = [part for part in parts if part]
                return True
        return False
