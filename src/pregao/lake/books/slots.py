"""What a feed without sequence versions has in their place: spans of time over which its numbers go
on, and how often they have begun anew by then.

The version of a message is its span of time and, added to it, how often numbers had begun anew on
its day: so a place is never met twice, and versions rise with the stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from pregao.clock import SECOND
from pregao.feed.columns import Flags, Numbers
from pregao.lake.ingest import Numbering, slot_of
from pregao.umdf.sequencing import LAST_SEQUENCE_VERSION, version_distance


@dataclass(frozen=True, slots=True)
class Anew:
    """Numbers begin anew."""

    time_ns: int
    """When that was sent; the feed's times have milliseconds."""
    before: int
    """The last number before that time: one that is not above it is a new one."""
    grown: tuple[tuple[int, int], ...] = ()
    """Times within the next second, and the last number by then."""

    def holds_before(self, sending_ns: Numbers, numbers: Numbers) -> Flags:
        """Which snapshots, sent then, hold as of numbers of before?

        Within a second: those whose numbers are nearer to the last one of before.
        """
        soon: Flags = (sending_ns >= self.time_ns) & (sending_ns <= self.time_ns + SECOND)
        times = np.array([time for time, _ in self.grown], np.int64)
        lasts = np.array([0, *(last for _, last in self.grown)], np.int64)
        last = lasts[np.searchsorted(times, sending_ns, side="right")]
        nearer: Flags = np.abs(numbers - self.before) < np.abs(numbers - last)
        return soon & nearer


def find_anew(sending_ns: Numbers, numbers: Numbers, told_ns: Iterable[int]) -> tuple[Anew, ...]:
    """Where numbers begin anew: where a reset tells it, and where they fall though none does.

    A reset says so of what comes behind it, if any number does.
    """
    order = np.lexsort((numbers, sending_ns))
    times, values = sending_ns[order], numbers[order]
    found: list[Anew] = []
    start = 0
    told = sorted(set(told_ns))
    while start < len(values):
        reached = np.maximum.accumulate(values[start:])
        falls = np.flatnonzero(values[start + 1 :] < reached[:-1])
        moments = [int(times[start + 1 + falls[0]])] if len(falls) else []
        since = found[-1].time_ns if found else -1
        moments += [time for time in told if time > since and time > times[start]][:1]
        if not moments:
            break
        moment = min(moments)
        end = int(np.searchsorted(times, moment))
        before = int(values[start:end].max(initial=0))
        found.append(Anew(moment, before, _grown(times, values, end, moment, before)))
        start = max(end, start + 1)
    return tuple(found)


def _grown(
    times: Numbers, values: Numbers, start: int, moment: int, before: int
) -> tuple[tuple[int, int], ...]:
    """How numbers that began anew at a moment grow in the second behind it."""
    stop = int(np.searchsorted(times, moment + SECOND, side="right"))
    soon, own = times[start:stop], values[start:stop]
    new = (soon > moment) | (own <= before)
    soon, own = soon[new], np.maximum.accumulate(own[new])
    last = np.append(soon[1:] != soon[:-1], True)[: len(soon)]
    return tuple(zip(soon[last].tolist(), own[last].tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class Slots:
    """The spans of time in which a channel's day was sent, in order, and its numbers in them."""

    anew: tuple[Anew, ...] = ()
    versions: tuple[int, ...] = ()
    firsts: tuple[int, ...] = ()
    """The first number in each."""
    numberings: tuple[int, ...] = ()
    """How often the numbers had begun anew by then."""

    @staticmethod
    def of(anew: tuple[Anew, ...], numberings: Iterable[Numbering]) -> Slots:
        """Those of a channel's day."""
        found = [
            (version, first, at)
            for at, numbering in enumerate(numberings)
            for version, first in zip(numbering.versions, numbering.firsts, strict=True)
        ]
        return Slots(anew, *zip(*found, strict=True)) if found else Slots(anew)

    def version_at(self, sending_ns: Numbers, numbers: Numbers) -> Numbers:
        """The versions of messages, by when they were sent and their numbers."""
        return self._version(
            sending_ns,
            [
                (sending_ns > each.time_ns)
                | ((sending_ns == each.time_ns) & (numbers <= each.before))
                for each in self.anew
            ],
        )

    def _version(self, sending_ns: Numbers, begun: Sequence[Flags]) -> Numbers:
        """The versions of what was sent then, told behind which beginnings each is."""
        version = slot_of(sending_ns)
        for behind in begun:
            version += behind
        version[version > LAST_SEQUENCE_VERSION] -= LAST_SEQUENCE_VERSION
        return version

    def held_as_of(self, sending_ns: Numbers, numbers: Numbers) -> Numbers:
        """The versions of the messages that snapshots hold as of, by when these were sent."""
        sent = self._version(
            sending_ns,
            [
                (sending_ns >= each.time_ns) & ~each.holds_before(sending_ns, numbers)
                for each in self.anew
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
