"""Gaps of single instruments, by ``rptSeq``: who is touched, and how a snapshot heals them.

``rptSeq`` counts the messages of an instrument over all templates. A gap makes that instrument
stale and no other: its messages are queued until a snapshot holds what was missed and the queue
follows on it. The counter begins anew with 1 after an EmptyBook, which itself carries none: one
case stays unseen, an EmptyBook lost together with exactly as many messages as were counted before.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, TypeVar

from pregao.umdf.loops import SnapshotHeader
from pregao.umdf.recovery import NEVER_DISCARDED, Incremental, is_usable, snapshot_place
from pregao.umdf.sequencing import Place, covers

T = TypeVar("T")

MOST_QUEUED = 100_000
"""How many messages of one stale instrument are kept."""


class Step(Enum):
    """What a message is to its instrument."""

    FIRST = "the first one seen"
    NEXT = "the next one"
    UNCOUNTED = "it carries no counter"
    RESTART = "the counter begins anew"
    COVERED = "the instrument's snapshot holds it already"
    GAP = "messages before it are missing"
    QUEUED = "it waits for a snapshot"

    @property
    def applies(self) -> bool:
        """Is the message to be applied now?"""
        return self in (Step.FIRST, Step.NEXT, Step.UNCOUNTED, Step.RESTART)


@dataclass(frozen=True, slots=True)
class Gap:
    """Messages of an instrument that are missing."""

    security_id: int
    found_at: Place
    """The packet that showed it."""
    first: int | None
    """The first missing count; None where the counter went back, or the book did not fit."""
    last: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class Healed(Generic[T]):
    """A stale instrument is sound again: load its snapshot, then apply these messages."""

    gap: Gap
    snapshot: Place | None
    """None where an EmptyBook or a ChannelReset healed it: there is no snapshot to load."""
    messages: list[Incremental[T]]


@dataclass(slots=True)
class _Instrument(Generic[T]):
    last: int | None = None
    """The last count; 0 after an EmptyBook, None if it is not known."""
    covered: Place | None = None
    seen: Place | None = None
    """Where the last message stood that was sound."""
    gap: Gap | None = None
    queue: deque[Incremental[T]] = field(default_factory=deque)


def _sound_step(last: int | None, count: int) -> Step | None:
    """What a count is behind the last one, if nothing is missing between."""
    if last is None:
        return Step.FIRST
    if count == last + 1:
        return Step.NEXT
    return Step.RESTART if count == 1 else None


class InstrumentGaps(Generic[T]):
    """Follows the counters of all instruments of a channel."""

    def __init__(self, most_queued: int = MOST_QUEUED) -> None:
        self._most = most_queued
        self._instruments: dict[int, _Instrument[T]] = {}

    @property
    def stale(self) -> dict[int, Gap]:
        """The instruments that wait for a snapshot, and why."""
        return {
            security_id: found.gap
            for security_id, found in self._instruments.items()
            if found.gap is not None
        }

    def queued(self, security_id: int) -> int:
        """How many messages of an instrument wait."""
        found = self._instruments.get(security_id)
        return 0 if found is None else len(found.queue)

    def begin(self, security_id: int, last_rpt_seq: int | None, place: Place) -> None:
        """Begin with a snapshot that holds as of a place.

        One without a counter is of an instrument that had no message yet, or none since its
        book was emptied. Instruments that have no snapshot are not to be begun: a book without
        orders and figures is in no snapshot, whatever its counter.
        """
        self._instruments[security_id] = _Instrument(last_rpt_seq or 0, place)

    def observe(self, message: Incremental[T]) -> tuple[Step, Gap | None]:
        """What a message of an instrument is, and the gap if it shows one.

        After RESTART the book is empty before the message: where no EmptyBook came, it was lost.
        """
        if message.security_id is None or message.template_id in NEVER_DISCARDED:
            return Step.UNCOUNTED, None
        found = self._instruments.setdefault(message.security_id, _Instrument())
        if found.covered is not None:
            if covers(found.covered, message.place):
                return Step.COVERED, None
            found.covered = None
        count = message.rpt_seq
        if found.gap is not None:
            return self._observe_stale(found, message), None
        if not count:
            return Step.UNCOUNTED, None
        last, found.last = found.last, count
        step = _sound_step(last, count)
        if step is not None:
            found.seen = message.place
            return step, None
        assert last is not None
        if count > last:
            missing = count - last - 1
            reason = f"{missing} messages of the instrument are missing before this one"
            gap = Gap(message.security_id, message.place, last + 1, count - 1, reason)
        else:
            reason = f"the counter of the instrument went from {last} back to {count}"
            gap = Gap(message.security_id, message.place, None, None, reason)
        found.gap = gap
        found.queue.append(message)
        return Step.GAP, gap

    def _observe_stale(self, found: _Instrument[T], message: Incremental[T]) -> Step:
        count = message.rpt_seq
        if count == 1:
            found.gap = None
            found.queue.clear()
            found.last = 1
            found.seen = message.place
            return Step.RESTART
        if count:
            if found.last is not None and count != found.last + 1:
                found.queue.clear()  # missed again: what was queued follows on nothing
            found.last = count
        found.queue.append(message)
        if len(found.queue) > self._most:
            found.queue.popleft()
        return Step.QUEUED

    def mark_stale(self, message: Incremental[T], reason: str) -> Gap | None:
        """The book of the instrument did not fit this message: it needs a snapshot too."""
        assert message.security_id is not None
        found = self._instruments.setdefault(message.security_id, _Instrument())
        if found.gap is not None:
            return None
        found.gap = Gap(message.security_id, message.place, None, None, reason)
        found.queue.append(message)
        if message.rpt_seq:
            found.last = message.rpt_seq
        return found.gap

    def emptied(self, security_id: int, place: Place) -> Healed[T] | None:
        """An EmptyBook: the counter begins with 1 again, and a stale book is known again."""
        found = self._instruments.setdefault(security_id, _Instrument())
        if found.covered is not None and covers(found.covered, place):
            return None
        found.last = 0
        found.covered = None
        found.seen = place
        return self._known_again(found)

    def channel_reset(self, place: Place) -> list[Healed[T]]:
        """A ChannelReset: all books are known to be empty; counters go on."""
        healed = []
        for found in self._instruments.values():
            if found.covered is None or not covers(found.covered, place):
                sound = self._known_again(found)
                if sound is not None:
                    healed.append(sound)
        return healed

    def _known_again(self, found: _Instrument[T]) -> Healed[T] | None:
        if found.gap is None:
            return None
        healed: Healed[T] = Healed(found.gap, None, [])
        found.gap = None
        found.queue.clear()
        return healed

    def snapshot(self, header: SnapshotHeader, incremental_version: int) -> Healed[T] | None:
        """Heal a stale instrument with a snapshot, if the snapshot and the queue connect.

        What the snapshot covers leaves the queue; the first message behind it must carry the
        next count. Of instruments that are not stale, and of old snapshots, nothing comes.
        """
        found = self._instruments.get(header.security_id)
        if found is None or found.gap is None or not is_usable(header, incremental_version):
            return None
        place = snapshot_place(header, incremental_version)
        if found.seen is not None and not covers(place, found.seen):
            return None  # it is older than what was known
        rest = [message for message in found.queue if not covers(place, message.place)]
        counts = [message.rpt_seq for message in rest if message.rpt_seq]
        if counts:
            if counts[0] != (header.last_rpt_seq or 0) + 1:
                return None
        elif not covers(place, found.gap.found_at):
            return None
        healed = Healed(found.gap, place, rest)
        found.gap = None
        found.queue.clear()
        found.covered = found.seen = place
        found.last = counts[-1] if counts else header.last_rpt_seq or 0
        return healed
