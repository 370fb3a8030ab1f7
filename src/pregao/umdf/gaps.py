"""Gaps of single instruments, by ``rptSeq``, and the snapshots that recover them.

``rptSeq`` counts the messages of an instrument over all templates. A gap makes that instrument
stale and no other. The counter restarts at 1 after an EmptyBook, which itself carries none: one
case is undetectable, an EmptyBook lost together with exactly as many messages as were counted
before.

A book is *unconfirmed* while packets of the channel are missing since its last proof. A proof is:
the first packet of all; an EmptyBook or ChannelReset; a complete snapshot; a complete snapshot loop
without the instrument, whose book is then empty; a message that continues its count, unless enough
packets are missing to contain an EmptyBook and a complete new count.

The items of an instrument are its messages, in order, and among them snapshots, each after the last
packet that it includes, and gaps of the channel. `InstrumentCount` processes one item at a time,
`gap_columns` columns of items.

A snapshot is as of a packet key of the incremental stream: it includes everything up to that
packet, and later packets apply to it. News and definitions are in no snapshot and are never
discarded.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Generic, NamedTuple, TypeVar

from pregao.schemas.bundle import bundled
from pregao.umdf.layout import MAX_PACKET, MIN_MESSAGE_SIZE, PACKET_HEADER_SIZE
from pregao.umdf.loops import SnapshotHeader
from pregao.umdf.sequencing import PacketKey, version_distance
from pregao.umdf.templates import NEWS, SECURITY_DEFINITIONS

NOTHING = -1
"""Last count if none is known."""
UNTOUCHED = -2
"""Last count of an instrument observed from its start: its first count is 1."""
UNSEEN = -3
"""Last count of an instrument whose past is unavailable, unless its first count is 1."""

UNPROVEN = -1
"""Value of `proven` for an instrument without any proof."""

T = TypeVar("T")

NEVER_DISCARDED = SECURITY_DEFINITIONS | {NEWS}
"""Templates that snapshots do not include."""


class GapItem(IntEnum):
    """Kind of an item of an instrument."""

    MESSAGE = 0
    """A message; its count is its ``rptSeq``, 0 if it carries none."""
    EMPTIED = 1
    """An EmptyBook."""
    RESET = 2
    """A ChannelReset."""
    SNAPSHOT = 3
    """A complete snapshot of the instrument; its count is its ``lastRptSeq``, 0 if it has none."""
    ABSENT = 4
    """A complete snapshot loop without the instrument: its book is empty."""
    GAP = 5
    """Packets of the channel are missing."""


class GapStep(IntEnum):
    """Effect of an item on its instrument."""

    APPLIES = 0
    RESTART = 1
    """It applies to an empty book: the EmptyBook before it was lost."""
    GAP = 2
    """Messages before it are missing: the instrument is stale from here on."""
    QUEUED = 3
    """The instrument is stale."""
    AGREES = 4
    """The snapshot has the count of the book, so the book must equal it."""
    LOADS = 5
    """The snapshot initializes or heals the book."""
    DISAGREES = 6
    """The snapshot shows that messages are missing, and replaces the book immediately."""
    NOTED = 7
    """It changes no book."""
    CONFIRMS = 8
    """The snapshot has the count of the book, but packets are missing: it is loaded."""
    EMPTIES = 9
    """The book is empty: a complete snapshot loop lacks the instrument."""


def _max_messages_per_packet() -> int:
    """Return the maximum number of counted messages in a packet."""
    sizes = [
        MIN_MESSAGE_SIZE + message.block_length
        for message in bundled("umdf").messages
        if any(field.name == "rptSeq" for field in message.fields)
    ]
    return (MAX_PACKET - PACKET_HEADER_SIZE) // min(sizes)


MAX_MESSAGES_PER_PACKET = _max_messages_per_packet()


@dataclass(slots=True)
class InstrumentCount:
    """Counter of one instrument, and the number of missing packets at its last proof."""

    last: int
    """Last count; if negative, one of the constants for instruments without a count."""
    stale: bool = False
    proven: int = 0
    """Missing packets of the channel up to the last proof, or UNPROVEN."""
    max_messages_per_packet: int = MAX_MESSAGES_PER_PACKET
    """Maximum number of counted messages in a packet."""

    @staticmethod
    def new(
        *, from_the_start: bool, max_messages_per_packet: int = MAX_MESSAGES_PER_PACKET
    ) -> InstrumentCount:
        """Return the counter of an instrument without messages."""
        last = first_count(from_the_start=from_the_start)
        proven = 0 if from_the_start else UNPROVEN
        return InstrumentCount(last, proven=proven, max_messages_per_packet=max_messages_per_packet)

    def copy(self) -> InstrumentCount:
        """Return an independent copy."""
        return InstrumentCount(self.last, self.stale, self.proven, self.max_messages_per_packet)

    def follow(
        self,
        item: GapItem,
        count: int,
        missing: int = 0,
        covered: int | None = None,
        *,
        sound: bool = True,
    ) -> GapStep:
        """Process the next item and return its effect.

        A stale instrument that is no longer stale afterwards was healed by the item.

        ``missing`` is the number of missing packets of the channel up to the item, including all of
        a gap that it is in or directly before; ``covered`` is the number of those before the item,
        which differs only for snapshots. ``sound`` is False for an item in a packet that could not
        be read completely.
        """
        covered = missing if covered is None else covered
        match item:
            case GapItem.MESSAGE:
                return self._message(count, covered, sound)
            case GapItem.EMPTIED:
                self.last = count  # the legacy feed also counts the message that empties a book
            case GapItem.RESET:
                if self.last == UNSEEN:
                    self.last = NOTHING
            case GapItem.SNAPSHOT:
                return self._snapshot(count, missing, covered)
            case GapItem.ABSENT:
                return self._absent(covered)
            case GapItem.GAP:
                return GapStep.NOTED
        self.stale = False
        # The unreadable part of a packet may follow the message that empties the book.
        self.proven = max(self.proven, covered - (not sound))
        return GapStep.APPLIES

    def accept_next(self, count: int, missing: int) -> bool:
        """Whether a message is the next one, with nothing missing since the last proof; counts it.

        This is the fast path of `follow` for nearly all messages.
        """
        if not continues(self.last, count) or not self.is_steady(missing):
            return False
        self.last = count
        return True

    def is_steady(self, missing: int) -> bool:
        """Whether a count is known and nothing is missing since the last proof."""
        return not self.stale and self.last > 0 and missing == self.proven

    def _message(self, count: int, covered: int, sound: bool) -> GapStep:
        if count == 0:
            return GapStep.QUEUED if self.stale else GapStep.APPLIES
        last, self.last = self.last, count
        if count == 1 and (self.stale or last > 0):
            self.stale = False
            self.proven = max(self.proven, covered - (not sound))
            return GapStep.RESTART
        if self.stale:
            return GapStep.QUEUED
        if last == NOTHING:
            return GapStep.APPLIES
        if not continues(max(last, 0), count):
            self.stale = True
            return GapStep.GAP
        hidden = self.max_messages_per_packet * (covered - self.proven)
        if self.proven != UNPROVEN and sound and count > hidden:
            self.proven = max(self.proven, covered)
        return GapStep.APPLIES

    def _snapshot(self, count: int, missing: int, covered: int) -> GapStep:
        last, self.last = self.last, count
        was_stale, self.stale = self.stale, False
        doubted, self.proven = missing > self.proven, max(covered, self.proven)
        if was_stale or (last == UNSEEN and count > 0):
            return GapStep.LOADS
        if last != NOTHING and max(last, 0) != count:
            return GapStep.DISAGREES
        return GapStep.CONFIRMS if doubted else GapStep.AGREES

    def _absent(self, covered: int) -> GapStep:
        if not self.stale and covered <= self.proven:
            return GapStep.NOTED
        self.last = NOTHING
        self.stale = False
        self.proven = max(covered, self.proven)
        return GapStep.EMPTIES


def continues(last: int, count: int) -> bool:
    """Whether a count follows the last one. Kernels compile this same function."""
    return count == last + 1


def first_count(*, from_the_start: bool) -> int:
    """Return the initial last count of an instrument without messages.

    From the start of a sequence, an instrument's first count is 1. A receiver that joins later sees
    other counts, whose past is missing unless a snapshot or reset replaces it.
    """
    return UNTOUCHED if from_the_start else UNSEEN


class IncrementalMessage(NamedTuple, Generic[T]):
    """A message of the incremental stream, with the fields that recovery needs."""

    packet_key: PacketKey
    index_in_packet: int
    template_id: int
    security_id: int | None
    """None for messages of the channel or of a group."""
    rpt_seq: int | None
    item: T


def snapshot_key(header: SnapshotHeader, incremental_version: int) -> PacketKey:
    """Return the packet key that a snapshot is as of; older schemas do not state the version."""
    version = header.last_sequence_version
    return PacketKey(
        incremental_version if version is None else version, header.last_msg_seq_num_processed
    )


def is_usable(header: SnapshotHeader, incremental_version: int) -> bool:
    """Whether a snapshot is not of an older sequence version than the incremental stream."""
    version = header.last_sequence_version
    return version is None or version_distance(incremental_version, version) >= 0
