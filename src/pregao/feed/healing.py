"""One instrument followed: what its messages and snapshots make of its book, and what heals it.

A gap makes the instrument stale. Its messages are queued until a snapshot holds what was missed;
then the snapshot is loaded and the queue goes through again, behind it. While packets of the
channel are missing that nothing has made up for, the book is unconfirmed: messages are applied and
kept, so that a snapshot that comes late can be loaded before them. A snapshot counts as of the
place that it holds, however late it comes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
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
MOST_QUEUED_IN_ALL = 10_000_000
"""How many messages of all instruments of a channel."""
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
class Agreed:
    """The book equals a snapshot as of a place, behind which nothing has come: it is filled."""

    place: Place


@dataclass(frozen=True, slots=True)
class Healed:
    """A stale book is sound again, as of a place."""

    gap: Gap
    by: Item
    place: Place


@dataclass(frozen=True, slots=True)
class Emptied:
    """The book is empty as of a place: a whole loop of snapshots is without the instrument."""

    place: Place


Change = Apply[T] | Restart[T] | Stale[T] | Load[T] | Agreed | Emptied | Healed
"""What happens to a book, in order."""


def key_of(message: Incremental[T]) -> MessageKey:
    """The key of a message."""
    return MessageKey(*message.place, message.index_in_packet)


def is_void(header: SnapshotHeader) -> bool:
    """Does a snapshot only say that there is nothing: of a deleted or just emptied instrument?"""
    return not (
        header.tot_num_bids or header.tot_num_offers or header.tot_num_stats or header.last_rpt_seq
    )


@dataclass(slots=True)
class Room:
    """How many messages the instruments of a channel may keep, one of them and all together."""

    most: int = MOST_QUEUED
    most_in_all: int = MOST_QUEUED_IN_ALL
    taken: int = 0
    """By all of them."""
    overflows: int = 0
    """Messages for which there was no room."""


class FollowedInstrument(Generic[T]):
    """Follows the counter of one instrument, queues while it is stale, and heals."""

    __slots__ = (
        "_before", "_first", "_forgotten", "_kept", "_last_item", "_room", "_sound", "count",
        "gap", "security_id",
    )  # fmt: skip

    def __init__(self, security_id: int, count: InstrumentCount, room: Room | None = None) -> None:
        self.security_id = security_id
        self.count = count
        self.gap: Gap | None = None
        """Why it is stale; None if it is not."""
        self._kept: deque[_Kept[T]] = deque()
        """What came since the gap, or since the book is unconfirmed."""
        self._room = Room() if room is None else room
        self._forgotten: Place | None = None
        """The newest place that there was no room for."""
        self._before = count.copy()
        """The counter before the gap."""
        self._sound: Place | None = None
        """The last place at which the book was known to be right."""
        self._last_item: Place | None = None
        """The place of the last message that was counted, or that emptied the book."""
        self._first: Incremental[T] | None = None
        """The first counted message behind a count that was not known."""

    @property
    def queued(self) -> int:
        """How many messages are kept."""
        return len(self._kept)

    def unconfirmed(self, missing: int) -> bool:
        """Are packets missing, of so many in all, that nothing has made up for?"""
        return missing > self.count.proven

    def goes_on(self, place: Place, count: int, missing: int) -> bool:
        """Is a message simply the next one of a trusted book? Then it applies, and is counted."""
        if self._kept or not self.count.goes_on(count, missing):
            return False
        self._last_item = self._sound = place
        return True

    def is_steady(self, missing: int) -> bool:
        """Would `goes_on` take the next message, if its count is the next one?"""
        return not self._kept and self.count.is_steady(missing)

    def go_on(self, place: Place, count: int) -> None:
        """Messages up to one were counted elsewhere, as `goes_on` would have."""
        self.count.last = count
        self._last_item = self._sound = place

    def message(
        self, message: Incremental[T], missing: int = 0, *, sound: bool = True
    ) -> list[Change[T]]:
        """Take the next message about the instrument in.

        ``missing`` packets of the channel are missing up to it; ``sound`` says that all of its
        packet could be read.
        """
        emptied = message.template_id == EMPTY_BOOK
        item = Item.EMPTIED if emptied else Item.MESSAGE
        count = message.rpt_seq or 0
        if emptied or count:
            self._last_item = message.place
        own = self.count
        last, was_stale, proven = own.last, own.stale, own.proven
        step = own.follow(item, count, missing, sound=sound)
        changes: list[Change[T]] = []
        if was_stale and not own.stale:
            changes += self._known_again(item, message.place)
        match step:
            case Step.GAP:
                self._before = InstrumentCount(last, was_stale, proven, own.most_in_packet)
                self.gap = self._gap_of(message, self._before)
                self._keep(_Kept(message, missing, sound))
                return [*changes, Stale(self.gap, message)]
            case Step.QUEUED:
                self._keep(_Kept(message, missing, sound))
                return changes
            case Step.RESTART:
                changes.append(Restart(message))
        if missing > own.proven:
            self._keep(_Kept(message, missing, sound))
        elif self._kept:
            self._forget()
        if emptied or count:
            self._sound = message.place
            if emptied:
                self._first = None
            elif last == NOTHING:
                self._first = message
        changes.append(Apply(message))
        return changes

    def reset(self, place: Place, missing: int = 0, *, sound: bool = True) -> list[Change[T]]:
        """A ChannelReset: the book is known to be empty; the counter goes on."""
        was_stale = self.count.stale
        self.count.follow(Item.RESET, 0, missing, sound=sound)
        self._last_item = self._sound = place
        changes = self._known_again(Item.RESET, place) if was_stale else []
        self._forget()
        return changes

    def misfit(self, message: Incremental[T], reason: str) -> list[Change[T]]:
        """The book did not fit a message that was to be applied: it needs a snapshot too."""
        gap = self.distrust(key_of(message), reason)
        if gap is None:
            return []
        self._keep(_Kept(message, self.count.proven, sound=True))
        return [Stale(gap, message)]

    def distrust(self, key: MessageKey, reason: str) -> Gap | None:
        """The book is not what it is taken for: only a snapshot helps. None if it is stale."""
        if self.gap is not None:
            return None
        self._before = self.count.copy()
        self.count.stale = True
        self.gap = Gap(self.security_id, key, None, None, reason)
        return self.gap

    def snapshot(
        self, found: InstrumentSnapshot[T], place: Place, missing: int = 0, covered: int = 0
    ) -> list[Change[T]]:
        """Take a whole snapshot in, as of a place that the stream is at or has passed.

        ``missing`` and ``covered`` are how many packets are missing there: with all of a hole
        that the place is in, and up to the place.
        """
        assert found.header is not None
        count = found.header.last_rpt_seq or 0
        if self._forgotten is not None and not covers(place, self._forgotten):
            return []  # messages behind it are not kept any more
        if self.gap is None:
            return self._held_against(found, place, count, missing, covered)
        if self._sound is not None and not covers(place, self._sound):
            return []  # it is older than what was known
        gap = self.gap
        shown_later = not covers(place, Place(*gap.found_at[:2]))
        stale = self.count
        if shown_later:
            # The snapshot is of before the message that showed the gap.
            self.count = self._before.copy()
        step = self.count.follow(Item.SNAPSHOT, count, missing, covered)
        if shown_later and step is Step.AGREES:
            stale.proven = max(stale.proven, self.count.proven)
            self.count = stale
            return []  # what is missing came behind it
        self._sound = self._last_item = place
        changes: list[Change[T]] = [Load(found, place), Healed(gap, Item.SNAPSHOT, place)]
        return changes + self._again(place)

    def absent(self, place: Place, missing: int = 0, covered: int = 0) -> list[Change[T]]:
        """A whole loop of snapshots as of a place is without it: its book was empty then."""
        if self._forgotten is not None and not covers(place, self._forgotten):
            return []
        gap = self.gap
        if gap is not None and self._sound is not None and not covers(place, self._sound):
            return []
        if gap is None and not self._is_quiet_since(place) and not self._kept:
            return []
        before = self.count
        if gap is not None and not covers(place, Place(*gap.found_at[:2])):
            self.count = self._before.copy()
        if self.count.follow(Item.ABSENT, 0, missing, covered) is Step.NOTED:
            self.count = before
            return []
        self._sound = self._last_item = place
        changes: list[Change[T]] = [Emptied(place)]
        if gap is not None:
            changes.append(Healed(gap, Item.ABSENT, place))
        return changes + self._again(place)

    def _is_quiet_since(self, place: Place) -> bool:
        """Has nothing that counts come behind a place?"""
        return self._last_item is None or covers(place, self._last_item)

    def _again(self, place: Place) -> list[Change[T]]:
        """Let what was kept go through again, behind a place."""
        kept = list(self._kept)
        self.gap = None
        self._forget()
        changes: list[Change[T]] = []
        for each in kept:
            if not covers(place, each.message.place):
                changes += self.message(each.message, each.missing, sound=each.sound)
        return changes

    def _held_against(
        self, found: InstrumentSnapshot[T], place: Place, count: int, missing: int, covered: int
    ) -> list[Change[T]]:
        """A snapshot of a book that is not stale."""
        quiet = self._is_quiet_since(place)
        if quiet or self._kept:
            if not quiet:
                # It is loaded before the messages that have come since, as far as it tells more.
                if covered <= self.count.proven:
                    return []
                self.count.last = count
            step = self.count.follow(Item.SNAPSHOT, count, missing, covered)
            self._sound = place
            if step is Step.AGREES:
                return [Agreed(place)] if quiet else []
            self._last_item = place
            return [Load(found, place), *self._again(place)]
        first = self._first
        if first is not None and not covers(place, first.place):
            self._first = None
            if first.rpt_seq != count + 1:
                # The first count that came did not follow on what the snapshot counts.
                self._before = replace(self.count, last=count, stale=False)
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

    def _keep(self, kept: _Kept[T]) -> None:
        room = self._room
        self._kept.append(kept)
        room.taken += 1
        if len(self._kept) > room.most or room.taken > room.most_in_all:
            # What heals it now is a snapshot of behind what there was no room for.
            self._forgotten = self._kept.popleft().message.place
            room.taken -= 1
            room.overflows += 1

    def _forget(self) -> None:
        self._room.taken -= len(self._kept)
        self._kept.clear()
        self._forgotten = self._first = None

    def _known_again(self, by: Item, place: Place) -> list[Change[T]]:
        gap, self.gap = self.gap, None
        self._forget()
        return [] if gap is None else [Healed(gap, by, place)]


@dataclass(frozen=True, slots=True)
class _Kept(Generic[T]):
    """A message that may have to go through again."""

    message: Incremental[T]
    missing: int
    sound: bool
