"""Recovery of one instrument: effects of its messages and snapshots on its book.

A gap makes the instrument stale. Its messages are queued until a snapshot includes the missed ones;
then the snapshot is loaded, and the queued messages after it are applied. While packets of the
channel are missing and nothing has made up for them, the book is unconfirmed: messages are applied
and also kept, so that a late snapshot can be loaded before them. A snapshot counts as of the last
packet that it includes, however late it arrives.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from pregao.book.updates import MessageKey
from pregao.umdf.gaps import NOTHING, UNSEEN, GapItem, GapStep, IncrementalMessage, InstrumentCount
from pregao.umdf.loops import InstrumentSnapshot, SnapshotHeader
from pregao.umdf.sequencing import PacketKey, covers
from pregao.umdf.templates import EMPTY_BOOK

T = TypeVar("T")

MAX_INSTRUMENTS = 100_000
"""Maximum number of undefined instruments that a channel follows.

Messages of others are counted and dropped.
"""
MAX_QUEUED = 100_000
"""Maximum number of queued messages of one stale instrument."""
MAX_QUEUED_TOTAL = 10_000_000
"""Maximum number of queued messages of all instruments of a channel."""
NO_PAST = "the instrument's history is unknown, and no snapshot was received yet"


@dataclass(frozen=True, slots=True)
class InstrumentGap:
    """Why an instrument is stale."""

    security_id: int
    found_at: MessageKey
    """The message that revealed it."""
    first: int | None
    """The first missing count; None if unknown."""
    last: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class ApplyMessage(Generic[T]):
    """Apply the message to the book."""

    message: IncrementalMessage[T]


@dataclass(frozen=True, slots=True)
class RestartBook(Generic[T]):
    """Empty the book before the message: its EmptyBook was lost."""

    message: IncrementalMessage[T]


@dataclass(frozen=True, slots=True)
class MarkStale(Generic[T]):
    """Distrust the book, from the message on that revealed the gap."""

    gap: InstrumentGap
    message: IncrementalMessage[T]


@dataclass(frozen=True, slots=True)
class LoadSnapshot(Generic[T]):
    """Load the snapshot into the book, as of its packet."""

    snapshot: InstrumentSnapshot[T]
    as_of: PacketKey


@dataclass(frozen=True, slots=True)
class MatchSnapshot:
    """Mark the book as filled: it equals a snapshot after which nothing has arrived."""

    as_of: PacketKey


@dataclass(frozen=True, slots=True)
class MarkHealed:
    """Mark a stale book as valid again, as of a packet."""

    gap: InstrumentGap
    by: GapItem
    as_of: PacketKey


@dataclass(frozen=True, slots=True)
class ClearBook:
    """Empty the book as of a packet: a complete snapshot loop does not have the instrument."""

    as_of: PacketKey


BookAction = (
    ApplyMessage[T]
    | RestartBook[T]
    | MarkStale[T]
    | LoadSnapshot[T]
    | MatchSnapshot
    | ClearBook
    | MarkHealed
)
"""An action on a book."""


def messages_missing(count: int) -> str:
    """Return the words for a number of missing messages of an instrument."""
    if count == 1:
        return "1 message of the instrument is missing"
    return f"{count} messages of the instrument are missing"


def key_of(message: IncrementalMessage[T]) -> MessageKey:
    """Return the key of a message."""
    return MessageKey(*message.packet_key, message.index_in_packet)


def is_void(header: SnapshotHeader) -> bool:
    """Whether a snapshot only states that a deleted or just emptied instrument has no data."""
    return not (
        header.tot_num_bids or header.tot_num_offers or header.tot_num_stats or header.last_rpt_seq
    )


@dataclass(slots=True)
class QueueLimits:
    """Limits of the queued messages of a channel: of one instrument, and of all."""

    max_queued: int = MAX_QUEUED
    max_queued_total: int = MAX_QUEUED_TOTAL
    used: int = 0
    """Queued messages of all instruments."""
    overflows: int = 0
    """Messages dropped because a queue was full."""


class InstrumentFollower(Generic[T]):
    """Follows the counter of one instrument, queues messages while it is stale, and heals it."""

    __slots__ = (
        "_correct_at",
        "_count_before_gap",
        "_dropped_at",
        "_first_counted",
        "_kept",
        "_last_item",
        "_limits",
        "count",
        "gap",
        "security_id",
    )

    def __init__(
        self, security_id: int, count: InstrumentCount, limits: QueueLimits | None = None
    ) -> None:
        self.security_id = security_id
        self.count = count
        self.gap: InstrumentGap | None = None
        """Why it is stale; None if it is not."""
        self._kept: deque[_Kept[T]] = deque()
        """Messages since the gap, or since the book became unconfirmed."""
        self._limits = QueueLimits() if limits is None else limits
        self._dropped_at: PacketKey | None = None
        """The packet of the newest message dropped from the queue."""
        self._count_before_gap = count.copy()
        """The counter before the gap."""
        self._correct_at: PacketKey | None = None
        """The last packet at which the book was known to be correct."""
        self._last_item: PacketKey | None = None
        """The packet of the last message that was counted, or that emptied the book."""
        self._first_counted: IncrementalMessage[T] | None = None
        """The first counted message after an unknown count."""

    @property
    def queued(self) -> int:
        """Number of kept messages."""
        return len(self._kept)

    def unconfirmed(self, missing: int) -> bool:
        """Whether some of the channel's ``missing`` packets were not made up for."""
        return missing > self.count.proven

    def accept_next(self, packet_key: PacketKey, count: int, missing: int) -> bool:
        """Count a message if it is the next one of a trusted book; return whether it was.

        This is the fast path of `message` for nearly all messages.
        """
        if self._kept or not self.count.accept_next(count, missing):
            return False
        self._last_item = self._correct_at = packet_key
        return True

    def is_steady(self, missing: int) -> bool:
        """Whether `accept_next` would accept a message with the next count."""
        return not self._kept and self.count.is_steady(missing)

    def resume_at(self, packet_key: PacketKey, count: int) -> None:
        """Continue after a message up to which the fast path has counted all."""
        self.count.last = count
        self._last_item = self._correct_at = packet_key

    def message(
        self, message: IncrementalMessage[T], missing: int = 0, *, sound: bool = True
    ) -> list[BookAction[T]]:
        """Process the next message of the instrument.

        ``missing`` packets of the channel are missing up to it; ``sound`` means that its complete
        packet could be decoded.
        """
        emptied = message.template_id == EMPTY_BOOK
        item = GapItem.EMPTIED if emptied else GapItem.MESSAGE
        count = message.rpt_seq or 0
        if emptied or count:
            self._last_item = message.packet_key
        counter = self.count
        last, was_stale, proven = counter.last, counter.stale, counter.proven
        step = counter.follow(item, count, missing, sound=sound)
        changes: list[BookAction[T]] = []
        if was_stale and not counter.stale:
            changes += self._heal(item, message.packet_key)
        match step:
            case GapStep.GAP:
                self._count_before_gap = InstrumentCount(
                    last, was_stale, proven, counter.max_messages_per_packet
                )
                self.gap = self._gap_of(message, self._count_before_gap)
                self._keep(_Kept(message, missing, sound))
                return [*changes, MarkStale(self.gap, message)]
            case GapStep.QUEUED:
                self._keep(_Kept(message, missing, sound))
                return changes
            case GapStep.RESTART:
                changes.append(RestartBook(message))
        if missing > counter.proven:
            self._keep(_Kept(message, missing, sound))
        elif self._kept:
            self._drop_kept()
        if emptied or count:
            self._correct_at = message.packet_key
            if emptied:
                self._first_counted = None
            elif last == NOTHING:
                self._first_counted = message
        changes.append(ApplyMessage(message))
        return changes

    def reset(
        self, packet_key: PacketKey, missing: int = 0, *, sound: bool = True
    ) -> list[BookAction[T]]:
        """Process a ChannelReset: the book is known to be empty; the counter continues."""
        was_stale = self.count.stale
        self.count.follow(GapItem.RESET, 0, missing, sound=sound)
        self._last_item = self._correct_at = packet_key
        changes = self._heal(GapItem.RESET, packet_key) if was_stale else []
        self._drop_kept()
        return changes

    def on_inconsistent_update(
        self, message: IncrementalMessage[T], reason: str
    ) -> list[BookAction[T]]:
        """Process an inconsistent update: the book needs a snapshot."""
        gap = self.distrust(key_of(message), reason)
        if gap is None:
            return []
        self._keep(_Kept(message, self.count.proven, sound=True))
        return [MarkStale(gap, message)]

    def distrust(self, key: MessageKey, reason: str) -> InstrumentGap | None:
        """Mark the book stale until a snapshot arrives. Returns None if it already was."""
        if self.gap is not None:
            return None
        self._count_before_gap = self.count.copy()
        self.count.stale = True
        self.gap = InstrumentGap(self.security_id, key, None, None, reason)
        return self.gap

    def snapshot(
        self,
        found: InstrumentSnapshot[T],
        packet_key: PacketKey,
        missing: int = 0,
        covered: int = 0,
    ) -> list[BookAction[T]]:
        """Process a complete snapshot, as of the stream's current packet or an earlier one.

        ``missing`` and ``covered`` are the numbers of packets missing there: including all of a gap
        that contains the packet, and only up to the packet.
        """
        assert found.header is not None
        count = found.header.last_rpt_seq or 0
        if self._dropped_at is not None and not covers(packet_key, self._dropped_at):
            return []  # messages after it are no longer kept
        if self.gap is None:
            return self._compare(found, packet_key, count, missing, covered)
        if self._correct_at is not None and not covers(packet_key, self._correct_at):
            return []  # it is older than the last correct book
        gap = self.gap
        precedes_gap = not covers(packet_key, PacketKey(*gap.found_at[:2]))
        count_after_gap = self.count
        if precedes_gap:
            # The snapshot precedes the message that revealed the gap.
            self.count = self._count_before_gap.copy()
        step = self.count.follow(GapItem.SNAPSHOT, count, missing, covered)
        if precedes_gap and step is GapStep.AGREES:
            count_after_gap.proven = max(count_after_gap.proven, self.count.proven)
            self.count = count_after_gap
            return []  # the missing messages are after it
        self._correct_at = self._last_item = packet_key
        changes: list[BookAction[T]] = [
            LoadSnapshot(found, packet_key),
            MarkHealed(gap, GapItem.SNAPSHOT, packet_key),
        ]
        return changes + self._reprocess_kept(packet_key)

    def absent(
        self, packet_key: PacketKey, missing: int = 0, covered: int = 0
    ) -> list[BookAction[T]]:
        """Process a complete snapshot loop without the instrument: its book was empty then."""
        if self._dropped_at is not None and not covers(packet_key, self._dropped_at):
            return []
        gap = self.gap
        if (
            gap is not None
            and self._correct_at is not None
            and not covers(packet_key, self._correct_at)
        ):
            return []
        if gap is None and not self._is_unchanged_since(packet_key) and not self._kept:
            return []
        before = self.count
        if gap is not None and not covers(packet_key, PacketKey(*gap.found_at[:2])):
            self.count = self._count_before_gap.copy()
        if self.count.follow(GapItem.ABSENT, 0, missing, covered) is GapStep.NOTED:
            self.count = before
            return []
        self._correct_at = self._last_item = packet_key
        changes: list[BookAction[T]] = [ClearBook(packet_key)]
        if gap is not None:
            changes.append(MarkHealed(gap, GapItem.ABSENT, packet_key))
        return changes + self._reprocess_kept(packet_key)

    def _is_unchanged_since(self, packet_key: PacketKey) -> bool:
        """Whether no message after a packet was counted or emptied the book."""
        return self._last_item is None or covers(packet_key, self._last_item)

    def _reprocess_kept(self, packet_key: PacketKey) -> list[BookAction[T]]:
        """Process the kept messages after a packet again."""
        kept = list(self._kept)
        self.gap = None
        self._drop_kept()
        changes: list[BookAction[T]] = []
        for each in kept:
            if not covers(packet_key, each.message.packet_key):
                changes += self.message(each.message, each.missing, sound=each.sound)
        return changes

    def _compare(
        self,
        found: InstrumentSnapshot[T],
        packet_key: PacketKey,
        count: int,
        missing: int,
        covered: int,
    ) -> list[BookAction[T]]:
        """Compare a snapshot with a book that is not stale."""
        unchanged = self._is_unchanged_since(packet_key)
        if unchanged or self._kept:
            if not unchanged:
                # It is loaded before the messages that arrived since, if it covers more.
                if covered <= self.count.proven:
                    return []
                self.count.last = count
            step = self.count.follow(GapItem.SNAPSHOT, count, missing, covered)
            self._correct_at = packet_key
            if step is GapStep.AGREES:
                return [MatchSnapshot(packet_key)] if unchanged else []
            self._last_item = packet_key
            return [LoadSnapshot(found, packet_key), *self._reprocess_kept(packet_key)]
        first = self._first_counted
        if first is not None and not covers(packet_key, first.packet_key):
            self._first_counted = None
            if first.rpt_seq != count + 1:
                # The first count received does not follow that of the snapshot.
                self._count_before_gap = replace(self.count, last=count, stale=False)
                self.gap = self._gap_of(first, self._count_before_gap)
                self.count.stale = True
                self._correct_at = packet_key
                self._dropped_at = self._last_item
                return [MarkStale(self.gap, first)]
        return []

    def _gap_of(self, message: IncrementalMessage[T], before: InstrumentCount) -> InstrumentGap:
        """Describe the gap that a message reveals, given the count before it."""
        count, last = message.rpt_seq or 0, max(before.last, 0)
        key = key_of(message)
        if before.last == UNSEEN:
            return InstrumentGap(self.security_id, key, None, None, NO_PAST)
        if count > last:
            missing = count - last - 1
            reason = f"{messages_missing(missing)} before this one"
            return InstrumentGap(self.security_id, key, last + 1, count - 1, reason)
        reason = f"rptSeq of the instrument went back from {last} to {count}"
        return InstrumentGap(self.security_id, key, None, None, reason)

    def _keep(self, kept: _Kept[T]) -> None:
        """Queue a message; if a queue is full, drop its oldest one."""
        limits = self._limits
        self._kept.append(kept)
        limits.used += 1
        if len(self._kept) > limits.max_queued or limits.used > limits.max_queued_total:
            # Only a snapshot after the dropped message can heal it now.
            self._dropped_at = self._kept.popleft().message.packet_key
            limits.used -= 1
            limits.overflows += 1

    def _drop_kept(self) -> None:
        """Drop all queued messages."""
        self._limits.used -= len(self._kept)
        self._kept.clear()
        self._dropped_at = self._first_counted = None

    def _heal(self, by: GapItem, packet_key: PacketKey) -> list[BookAction[T]]:
        """End the gap, if there is one; what was queued since then is not needed."""
        gap, self.gap = self.gap, None
        self._drop_kept()
        return [] if gap is None else [MarkHealed(gap, by, packet_key)]


@dataclass(frozen=True, slots=True)
class _Kept(Generic[T]):
    """A message that may have to be processed again."""

    message: IncrementalMessage[T]
    missing: int
    sound: bool
