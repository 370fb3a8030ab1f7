"""Gaps of single instruments, by ``rptSeq``: what each item is to its instrument.

``rptSeq`` counts the messages of an instrument over all templates. A gap makes that instrument
stale and no other. The counter begins anew with 1 after an EmptyBook, which itself carries none:
one case stays unseen, an EmptyBook lost together with exactly as many messages as were counted
before.

A book is *unconfirmed* while packets of the channel are missing since its last proof. A proof is:
the first packet of all; an EmptyBook or ChannelReset; a whole snapshot; a whole loop of snapshots
without the instrument, whose book is empty then; a message that continues its count, unless so
many packets are missing that an EmptyBook and a whole new count could be among them.

The items of an instrument are its messages, in order, and among them snapshots, each behind the
last packet that it holds, and holes of the channel. `InstrumentCount` follows one item after the
other, `gap_columns` whole columns of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from pregao.schemas import bundled
from pregao.umdf.layout import MAX_PACKET, PACKET_HEADER_SIZE, SMALLEST_MESSAGE


class Item(IntEnum):
    """What an item of an instrument is."""

    MESSAGE = 0
    """A message; its count is its ``rptSeq``, 0 where it carries none."""
    EMPTIED = 1
    """An EmptyBook."""
    RESET = 2
    """A ChannelReset."""
    SNAPSHOT = 3
    """A whole snapshot of the instrument; its count is its ``lastRptSeq``, 0 if it has none."""
    ABSENT = 4
    """A whole loop of snapshots in which the instrument is not: it has an empty book."""
    HOLE = 5
    """Packets of the channel are missing."""


class Step(IntEnum):
    """What an item is to its instrument."""

    APPLIES = 0
    RESTART = 1
    """It applies to a book that is empty before it: the EmptyBook was lost."""
    GAP = 2
    """Messages before it are missing: the instrument is stale from here on."""
    QUEUED = 3
    """The instrument is stale."""
    AGREES = 4
    """The snapshot counts as many messages as have come: the book must be equal to it."""
    LOADS = 5
    """The snapshot begins the book, or heals it."""
    DISAGREES = 6
    """The snapshot shows that messages are missing, and makes up for them at once."""
    NOTED = 7
    """It changes no book."""
    CONFIRMS = 8
    """The snapshot counts as many messages as have come, but packets are missing: it is loaded."""
    EMPTIES = 9
    """The book is empty, for a whole loop of snapshots is without the instrument."""


NOTHING = -1
"""The last count where none is known."""
UNTOUCHED = -2
"""The last count of an instrument that is seen from its beginning: the first one is 1."""
UNSEEN = -3
"""The last count of an instrument whose past is not at hand, unless its first one is 1."""


UNPROVEN = -1
"""What an instrument without any proof has in place of a number of missing packets."""


def _most_in_packet() -> int:
    """So many messages that are counted fit into a packet at the most."""
    sizes = [
        SMALLEST_MESSAGE + message.block_length
        for message in bundled("umdf").messages
        if any(field.name == "rptSeq" for field in message.fields)
    ]
    return (MAX_PACKET - PACKET_HEADER_SIZE) // min(sizes)


MOST_IN_PACKET = _most_in_packet()


@dataclass(slots=True)
class InstrumentCount:
    """The counter of one instrument, and how many packets were missing at its last proof."""

    last: int
    """The last count; below 0 what is said of an instrument without one."""
    stale: bool = False
    proven: int = 0
    """How many packets of the channel were missing up to the last proof, or UNPROVEN."""
    most_in_packet: int = MOST_IN_PACKET
    """So many counted messages a packet holds at the most."""

    @staticmethod
    def new(*, from_the_start: bool, most_in_packet: int = MOST_IN_PACKET) -> InstrumentCount:
        """The counter of an instrument of which nothing has come."""
        last = first_count(from_the_start=from_the_start)
        proven = 0 if from_the_start else UNPROVEN
        return InstrumentCount(last, proven=proven, most_in_packet=most_in_packet)

    def copy(self) -> InstrumentCount:
        """The same counter, apart."""
        return InstrumentCount(self.last, self.stale, self.proven, self.most_in_packet)

    def follow(
        self,
        item: Item,
        count: int,
        missing: int = 0,
        covered: int | None = None,
        *,
        sound: bool = True,
    ) -> Step:
        """What the next item is; where it was stale and is not any more, the item healed it.

        ``missing`` is how many packets of the channel are missing up to the item, with all of a
        hole that it is in or right before; ``covered`` how many of them come before it, which is
        the same but for snapshots. ``sound`` is not said of an item in a packet of which a part
        could not be read.
        """
        covered = missing if covered is None else covered
        match item:
            case Item.MESSAGE:
                return self._message(count, covered, sound)
            case Item.EMPTIED:
                self.last = count  # the legacy feed counts what empties a book too
            case Item.RESET:
                if self.last == UNSEEN:
                    self.last = NOTHING
            case Item.SNAPSHOT:
                return self._snapshot(count, missing, covered)
            case Item.ABSENT:
                return self._absent(covered)
            case Item.HOLE:
                return Step.NOTED
        self.stale = False
        # What could not be read of a packet may have come behind what empties the book.
        self.proven = max(self.proven, covered - (not sound))
        return Step.APPLIES

    def goes_on(self, count: int, missing: int) -> bool:
        """Is a message simply the next one, with nothing missing since the last proof?

        Then it is counted, as `follow` would: this is the short way for nearly all messages.
        """
        if not continues(self.last, count) or not self.is_steady(missing):
            return False
        self.last = count
        return True

    def is_steady(self, missing: int) -> bool:
        """Is a count known, and nothing missing since the last proof?"""
        return not self.stale and self.last > 0 and missing == self.proven

    def _message(self, count: int, covered: int, sound: bool) -> Step:
        if count == 0:
            return Step.QUEUED if self.stale else Step.APPLIES
        last, self.last = self.last, count
        if count == 1 and (self.stale or last > 0):
            self.stale = False
            self.proven = max(self.proven, covered - (not sound))
            return Step.RESTART
        if self.stale:
            return Step.QUEUED
        if last == NOTHING:
            return Step.APPLIES
        if not continues(max(last, 0), count):
            self.stale = True
            return Step.GAP
        hidden = self.most_in_packet * (covered - self.proven)
        if self.proven != UNPROVEN and sound and count > hidden:
            self.proven = max(self.proven, covered)
        return Step.APPLIES

    def _snapshot(self, count: int, missing: int, covered: int) -> Step:
        last, self.last = self.last, count
        was_stale, self.stale = self.stale, False
        doubted, self.proven = missing > self.proven, max(covered, self.proven)
        if was_stale or (last == UNSEEN and count > 0):
            return Step.LOADS
        if last != NOTHING and max(last, 0) != count:
            return Step.DISAGREES
        return Step.CONFIRMS if doubted else Step.AGREES

    def _absent(self, covered: int) -> Step:
        if not self.stale and covered <= self.proven:
            return Step.NOTED
        self.last = NOTHING
        self.stale = False
        self.proven = max(covered, self.proven)
        return Step.EMPTIES


def continues(last: int, count: int) -> bool:
    """Is a count the next one behind the last? Kernels compile this same function."""
    return count == last + 1


def first_count(*, from_the_start: bool) -> int:
    """The last count of an instrument of which nothing has come.

    From the start of a sequence on, an instrument's first count is 1. Who joins later finds other
    counts; their past is missing, unless a snapshot or a reset makes up for it.
    """
    return UNTOUCHED if from_the_start else UNSEEN
