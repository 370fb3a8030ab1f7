"""Stand-in for sequence versions on feeds without them: time slots, and restarts of numbers.

The version of a message is its time slot plus the number of restarts on its day until then: so a
packet key never repeats, and versions increase with the stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from pregao.arrays import BoolArray, Int64Array
from pregao.clock import SECOND
from pregao.lake.ingest.sequence_ranges import SequenceSpan, slot_of
from pregao.umdf.sequencing import LAST_SEQUENCE_VERSION, version_distance


@dataclass(frozen=True, slots=True)
class SequenceRestart:
    """Restart of sequence numbers on a feed without sequence versions."""

    time_ns: int
    """Sending time; the feed's times have milliseconds."""
    before: int
    """Last number before that time; a number not above it, sent at that time, is a new one."""
    grown: tuple[tuple[int, int], ...] = ()
    """Times within the next second, and the last number by then."""

    def holds_before(self, sending_ns: Int64Array, numbers: Int64Array) -> BoolArray:
        """Return which snapshots, by sending time, are as of a number before the restart.

        These are sent within a second, with a number nearer to the last one before the restart.
        """
        soon: BoolArray = (sending_ns >= self.time_ns) & (sending_ns <= self.time_ns + SECOND)
        times = np.array([time for time, _ in self.grown], np.int64)
        lasts = np.array([0, *(last for _, last in self.grown)], np.int64)
        last = lasts[np.searchsorted(times, sending_ns, side="right")]
        nearer: BoolArray = np.abs(numbers - self.before) < np.abs(numbers - last)
        return soon & nearer


def find_restarts(
    sending_ns: Int64Array, numbers: Int64Array, resets_ns: Iterable[int]
) -> tuple[SequenceRestart, ...]:
    """Return the restarts of numbers: at resets, and where numbers decrease without a reset.

    A reset counts only if a number follows it.
    """
    order = np.lexsort((numbers, sending_ns))
    times, values = sending_ns[order], numbers[order]
    found: list[SequenceRestart] = []
    start = 0
    resets = sorted(set(resets_ns))
    while start < len(values):
        reached = np.maximum.accumulate(values[start:])
        falls = np.flatnonzero(values[start + 1 :] < reached[:-1])
        moments = [int(times[start + 1 + falls[0]])] if len(falls) else []
        since = found[-1].time_ns if found else -1
        moments += [time for time in resets if time > since and time > times[start]][:1]
        if not moments:
            break
        moment = min(moments)
        end = int(np.searchsorted(times, moment))
        before = int(values[start:end].max(initial=0))
        found.append(SequenceRestart(moment, before, _grown(times, values, end, moment, before)))
        start = max(end, start + 1)
    return tuple(found)


def _grown(
    times: Int64Array, values: Int64Array, start: int, moment: int, before: int
) -> tuple[tuple[int, int], ...]:
    """Return the growth of the numbers in the second after a restart."""
    stop = int(np.searchsorted(times, moment + SECOND, side="right"))
    soon, own = times[start:stop], values[start:stop]
    new = (soon > moment) | (own <= before)
    soon, own = soon[new], np.maximum.accumulate(own[new])
    last = np.append(soon[1:] != soon[:-1], True)[: len(soon)]
    return tuple(zip(soon[last].tolist(), own[last].tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class TimeSlots:
    """Time slots in which a channel's day was sent, in order, and its numbers in them."""

    restarts: tuple[SequenceRestart, ...] = ()
    versions: tuple[int, ...] = ()
    firsts: tuple[int, ...] = ()
    """First number in each slot."""
    numberings: tuple[int, ...] = ()
    """Number of restarts before each slot."""

    @staticmethod
    def from_restarts(
        restarts: tuple[SequenceRestart, ...], numberings: Iterable[SequenceSpan]
    ) -> TimeSlots:
        """Return the slots of a channel's day."""
        found = [
            (version, first, at)
            for at, numbering in enumerate(numberings)
            for version, first in zip(numbering.versions, numbering.firsts, strict=True)
        ]
        return TimeSlots(restarts, *zip(*found, strict=True)) if found else TimeSlots(restarts)

    def version_at(self, sending_ns: Int64Array, numbers: Int64Array) -> Int64Array:
        """Return the versions of messages, by sending times and numbers."""
        return self._version(
            sending_ns,
            [
                (sending_ns > each.time_ns)
                | ((sending_ns == each.time_ns) & (numbers <= each.before))
                for each in self.restarts
            ],
        )

    def _version(self, sending_ns: Int64Array, begun: Sequence[BoolArray]) -> Int64Array:
        """Return the versions by sending times; each array of ``begun`` flags those after a
        restart.
        """
        version = slot_of(sending_ns)
        for restarted in begun:
            version += restarted
        version[version > LAST_SEQUENCE_VERSION] -= LAST_SEQUENCE_VERSION
        return version

    def held_as_of(self, sending_ns: Int64Array, numbers: Int64Array) -> Int64Array:
        """Return the version of the last message in each snapshot, by its sending time."""
        sent = self._version(
            sending_ns,
            [
                (sending_ns >= each.time_ns) & ~each.holds_before(sending_ns, numbers)
                for each in self.restarts
            ],
        )
        if not self.versions:
            return sent
        base = self.versions[0]
        order = np.array([version_distance(base, each) for each in self.versions], np.int64)
        versions, firsts = np.array(self.versions, np.int64), np.array(self.firsts, np.int64)
        group = np.array(self.numberings, np.int64)
        known, inverse = np.unique(sent, return_inverse=True)
        ahead = np.array([version_distance(base, int(each)) for each in known], np.int64)
        latest = np.maximum(np.searchsorted(order, ahead, side="right") - 1, 0)[inverse]
        found = np.empty(len(numbers), np.int64)
        for numbering in np.unique(group[latest]).tolist():
            own = np.flatnonzero(group[latest] == numbering)
            slots = np.flatnonzero(group == numbering)
            at = np.searchsorted(firsts[slots], numbers[own], side="right") - 1
            found[own] = versions[np.minimum(slots[np.maximum(at, 0)], latest[own])]
        return found
