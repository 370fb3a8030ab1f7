"""One instrument followed: what its messages and snapshots make of its book, and what heals it.

A gap makes the instrument stale. Its messages are queued until a snapshot holds what was missed;
then the snapshot is loaded and the queue goes through again, behind it. A snapshot counts as of
the place that it holds, however late it comes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

from pregao.book.updates import MessageKey
from pregao.umdf.gaps import NOTHING, UNSEEN, InstrumentCount, Item, Step
from pregao.umdf.loops import InstrumentSnapshot, SnapshotHeader
from pregao.umdf.recovery import Incremental
from pregao.umdf.sequencing import Place, covers
from pregao.umdf.templates import EMPTY_BOOK

T = TypeVar("T")

MOST_QUEUED = 100_000
"""How many messages of one stale instrument are kept."""
NO_PAST = "the past of the instrument is not known, and no snapshot has come yet"


@dataclass(frozen=True, slots=True)
class Gap:
    """Why an instrument is stale."""

    security_id: int
    found_at: MessageKey
    """The message that showed it."""
    first: int | None
    """The first missing count; None where nobody knows."""
    last: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class Apply(Generic[T]):
    """The message applies to the book."""

    message: Incremental[T]


@dataclass(frozen=True, slots=True)
class Restart(Generic[T]):
    """The book is empty before the message: its EmptyBook was lost."""

    message: Incremental[T]


@dataclass(frozen=True, slots=True)
class Stale(Generic[T]):
    """The book is not to be trusted from the message on that showed it."""

    gap: Gap
    message: Incremental[T]


@dataclass(frozen=True, slots=True)
class Load(Generic[T]):
    """The book is what the snapshot says, as of its place."""

    snapshot: InstrumentSnapshot[T]
    place: Place


@dataclass(frozen=True, slots=True)
class Healed:
    """A stale book is sound again, as of a place."""

    gap: Gap
    by: Item
    place: Place


Change = Apply[T] | Restart[T] | Stale[T] | Load[T] | Healed
"""What happens to a book, in order."""


def key_of(message: Incremental[T]) -> MessageKey:
    """The key of a message."""
    return MessageKey(*message.place, message.index_in_packet)


def is_void(header: SnapshotHeader) -> bool:
    """Does a snapshot only say that there is nothing: of a deleted or just emptied instrument?"""
    return not (
        header.tot_num_bids or header.tot_num_offers or header.tot_num_stats or header.last_rpt_seq
    )


class FollowedInstrument(Generic[T]):
    """Follows the counter of one instrument, queues while it is stale, and heals."""

    __slots__ = (
        "_before", "_first", "_forgotten", "_last_item", "_most", "_queue", "_sound", "count",
        "gap", "security_id",
    )  # fmt: skip

    def __init__(self, security_id: int, last: int, most_queued: int = MOST_QUEUED) -> None:
        """``last`` is `umdf.gaps.first_count`, or NOTHING where the book is known to be empty."""
        self.security_id = security_id
        self.count = InstrumentCount(last)
        self.gap: Gap | None = None
        """Why it is stale; None if it is not."""
        self._queue: deque[Incremental[T]] = deque()
        self._most = most_queued
        self._forgotten: Place | None = None
        """The newest place that the queue had no room for."""
        self._before = InstrumentCount(last)
        """The counter before the gap."""
        self._sound: Place | None = None
        """The last place at which the book was known to be right."""
        self._last_item: Place | None = None
        """The place of the last message that was counted, or that emptied the book."""
        self._first: Incremental[T] | None = None
        """The first counted message behind a count that was not known."""

    @property
    def queued(self) -> int:
        """How many messages wait."""
        return len(self._queue)

    def message(self, message: Incremental[T]) -> list[Change[T]]:
        """Take the next message about the instrument in."""
        emptied = message.template_id == EMPTY_BOOK
        count = message.rpt_seq or 0
        if emptied or count:
            self._last_item = message.place
        before = InstrumentCount(self.count.last, self.count.stale)
        step = self.count.follow(Item.EMPTIED if emptied else Item.MESSAGE, count)
        changes: list[Change[T]] = []
        if before.stale and not self.count.stale:
            changes += self._known_again(Item.EMPTIED if emptied else Item.MESSAGE, message.place)
        match step:
            case Step.GAP:
                self.gap = self._gap_of(message, before)
                self._before = before
                self._queue.append(message)
                return [*changes, Stale(self.gap, message)]
            case Step.QUEUED:
                self._enqueue(message)
                return changes
            case Step.RESTART:
                changes.append(Restart(message))
        if emptied or count:
            self._sound = message.place
            if emptied:
                self._first = None
            elif before.last == NOTHING:
                self._first = message
        return [*changes, Apply(message)]

    def reset(self, place: Place) -> list[Change[T]]:
        """A ChannelReset: the book is known to be empty; the counter goes on."""
        was_stale = self.count.stale
        self.count.follow(Item.RESET, 0)
        self._last_item = self._sound = place
        return self._known_again(Item.RESET, place) if was_stale else []

    def misfit(self, message: Incremental[T], reason: str) -> list[Change[T]]:
        """The book did not fit a message that was to be applied: it needs a snapshot too."""
        if self.gap is not None:
            return []
        self._before = InstrumentCount(self.count.last)
        self.count.stale = True
        self.gap = Gap(self.security_id, key_of(message), None, None, reason)
        self._queue.append(message)
        return [Stale(self.gap, message)]

    def snapshot(self, found: InstrumentSnapshot[T], place: Place) -> list[Change[T]]:
        """Take a whole snapshot in, as of a place that the stream is at or has passed."""
        assert found.header is not None
        count = found.header.last_rpt_seq or 0
        if self.gap is None:
            return self._held_against(found, place, count)
        if self._sound is not None and not covers(place, self._sound):
            return []  # it is older than what was known
        if self._forgotten is not None and not covers(place, self._forgotten):
            return []  # messages behind it are not in the queue any more
        gap, queue = self.gap, list(self._queue)
        shown_later = not covers(place, Place(*gap.found_at[:2]))
        if shown_later:
            # The snapshot is of before the message that showed the gap.
            self.count = InstrumentCount(self._before.last)
        step = self.count.follow(Item.SNAPSHOT, count)
        if shown_later and step is Step.AGREES:
            self.count = InstrumentCount(queue[-1].rpt_seq or self._before.last, stale=True)
            return []  # what is missing came behind it
        self.gap = None
        self._queue.clear()
        self._forgotten = self._first = None
        self._sound = self._last_item = place
        changes: list[Change[T]] = [Load(found, place), Healed(gap, Item.SNAPSHOT, place)]
        for message in queue:
            if not covers(place, message.place):
                changes += self.message(message)
        return changes

    def absent(self, place: Place) -> list[Change[T]]:
        """A whole loop of snapshots as of a place is without it: its book was empty then."""
        if self.gap is None:
            self.count.follow(Item.ABSENT, 0)
            return []
        if self._before.last != UNSEEN or covers(place, Place(*self.gap.found_at[:2])):
            return []
        gap, queue = self.gap, list(self._queue)
        self.gap = None
        self._queue.clear()
        self.count = InstrumentCount(self._before.last)
        self.count.follow(Item.ABSENT, 0)
        changes: list[Change[T]] = [Healed(gap, Item.ABSENT, place)]
        for message in queue:
            changes += self.message(message)
        return changes

    def _held_against(
        self, found: InstrumentSnapshot[T], place: Place, count: int
    ) -> list[Change[T]]:
        """A snapshot of a book that is not stale."""
        if self._last_item is None or covers(place, self._last_item):
            step = self.count.follow(Item.SNAPSHOT, count)
            self._sound = place
            return [] if step is Step.AGREES else [Load(found, place)]
        first = self._first
        if first is not None and not covers(place, first.place):
            self._first = None
            if first.rpt_seq != count + 1:
                # The first count that came did not follow on what the snapshot counts.
                self._before = InstrumentCount(count)
                self.gap = self._gap_of(first, self._before)
                self.count.stale = True
                self._sound = place
                self._forgotten = self._last_item
                return [Stale(self.gap, first)]
        return []

    def _gap_of(self, message: Incremental[T], before: InstrumentCount) -> Gap:
        count, last = message.rpt_seq or 0, max(before.last, 0)
        key = key_of(message)
        if before.last == UNSEEN:
            return Gap(self.security_id, key, None, None, NO_PAST)
        if count > last:
            missing = count - last - 1
            reason = f"{missing} messages of the instrument are missing before this one"
            return Gap(self.security_id, key, last + 1, count - 1, reason)
        reason = f"the counter of the instrument went from {last} back to {count}"
        return Gap(self.security_id, key, None, None, reason)

    def _enqueue(self, message: Incremental[T]) -> None:
        self._queue.append(message)
        if len(self._queue) > self._most:
            self._forgotten = self._queue.popleft().place

    def _known_again(self, by: Item, place: Place) -> list[Change[T]]:
        gap, self.gap = self.gap, None
        self._queue.clear()
        self._forgotten = self._first = None
        return [] if gap is None else [Healed(gap, by, place)]
