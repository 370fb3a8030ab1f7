"""Joining a channel: which snapshots count, and which queued messages follow on them.

A snapshot holds as of a place in the incremental stream. Joining is possible when the queue
reaches back to the packet behind the oldest snapshot; per instrument, what its snapshot covers is
discarded. News and definitions are in no snapshot: they are used at once and never discarded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pregao.sbe.codec import Decoded
from pregao.umdf.loops import InstrumentSnapshot, SnapshotHeader, SnapshotLoop
from pregao.umdf.packets import PacketHeader
from pregao.umdf.sequencing import Place, covers, version_distance
from pregao.umdf.templates import NEWS, SECURITY_DEFINITIONS

T = TypeVar("T")

NEVER_DISCARDED = SECURITY_DEFINITIONS | {NEWS}
"""Templates that snapshots do not reflect."""

MOST_QUEUED = 4_000_000


@dataclass(frozen=True, slots=True)
class Incremental(Generic[T]):
    """A message of the incremental stream, as far as recovery needs to know it."""

    place: Place
    index_in_packet: int
    template_id: int
    security_id: int | None
    """None of messages that concern the whole channel or a group."""
    rpt_seq: int | None
    item: T


def incremental_of(
    header: PacketHeader, index_in_packet: int, decoded: Decoded
) -> Incremental[Decoded]:
    """A decoded message with its place."""
    values: dict[str, Any] = decoded.values
    return Incremental(
        Place(header.sequence_version, header.sequence_number),
        index_in_packet,
        decoded.message.id,
        values.get("securityID"),
        values.get("rptSeq") or None,
        decoded,
    )


def snapshot_place(header: SnapshotHeader, incremental_version: int) -> Place:
    """The place that a snapshot holds as of; older schemas do not tell the version."""
    version = header.last_sequence_version
    return Place(
        incremental_version if version is None else version, header.last_msg_seq_num_processed
    )


def is_usable(header: SnapshotHeader, incremental_version: int) -> bool:
    """Is a snapshot not of an older sequence version than the incremental stream?"""
    version = header.last_sequence_version
    return version is None or version_distance(incremental_version, version) >= 0


def reaches_back(oldest: Place, snapshots: Iterable[Place]) -> bool:
    """Does a queue that begins at a place follow on each snapshot without a hole?"""
    return all(
        oldest.sequence_number <= place.sequence_number + 1
        if oldest.sequence_version == place.sequence_version
        else version_distance(oldest.sequence_version, place.sequence_version) > 0
        for place in snapshots
    )


@dataclass(frozen=True, slots=True)
class Joined(Generic[T]):
    """How to begin: the snapshots, the phases of groups, then these messages in order.

    Instruments without a snapshot begin with an empty book.
    """

    snapshots: list[InstrumentSnapshot[T]]
    phases: list[T]
    places: dict[int, Place]
    """By instrument, the place that its snapshot holds as of."""
    messages: list[Incremental[T]]
    discarded: int
    """How many queued messages the snapshots cover."""

    def applies(self, message: Incremental[T], security_id: int) -> bool:
        """Is a message for an instrument news to its snapshot? (For those of the whole channel.)"""
        place = self.places.get(security_id)
        return place is None or not covers(place, message.place)


class Joining(Generic[T]):
    """Queues the incremental stream of a channel until a snapshot loop can be joined to it."""

    def __init__(self, most_queued: int = MOST_QUEUED) -> None:
        self._most = most_queued
        self._queue: deque[Incremental[T]] = deque()
        self.oldest: Place | None = None
        """The first place from which on nothing is missing."""
        self.newest: Place | None = None

    def __len__(self) -> int:
        """How many messages are queued."""
        return len(self._queue)

    @property
    def version(self) -> int | None:
        """The sequence version of the incremental stream now."""
        newest = self.newest or self.oldest
        return None if newest is None else newest.sequence_version

    def packet(self, place: Place, messages: Iterable[Incremental[T]]) -> list[Incremental[T]]:
        """Queue the messages of a packet; returns those that are to be used at once."""
        if self.oldest is None:
            self.oldest = place
        self.newest = place
        at_once = []
        for message in messages:
            if message.template_id in NEVER_DISCARDED:
                at_once.append(message)
            else:
                self._queue.append(message)
        while len(self._queue) > self._most:
            self._drop(self._queue[0].place)
        return at_once

    def heartbeat(self, version: int, next_number: int) -> None:
        """An idle channel: nothing is missing from the number on that comes next."""
        if self.oldest is None:
            self.oldest = Place(version, next_number)

    def lost(self) -> None:
        """Packets are missing before the next one: what was queued does not connect with it."""
        self._queue.clear()
        self.oldest = None

    def join(self, loop: SnapshotLoop[T]) -> Joined[T] | str:
        """Join a loop of snapshots, or say why it cannot be done yet."""
        if not loop.complete:
            return f"the snapshot loop is not complete: {loop.reason}"
        if self.oldest is None or self.version is None:
            return "the incremental stream has not begun"
        places: dict[int, Place] = {}
        for found in loop.instruments.values():
            header = found.header
            assert header is not None  # the loop is complete
            if not is_usable(header, self.version):
                return (
                    f"the snapshot of instrument {found.security_id} is of sequence version"
                    f" {header.last_sequence_version}, the incremental stream is at {self.version}"
                )
            places[found.security_id] = snapshot_place(header, self.version)
        if not reaches_back(self.oldest, places.values()):
            return (
                f"the queue begins at packet {self.oldest.sequence_number}, behind what the"
                " oldest snapshot holds"
            )
        joined = Joined(list(loop.instruments.values()), list(loop.phases), places, [], 0)
        messages = list(self._news(joined))
        discarded = len(self._queue) - len(messages)
        self._queue.clear()
        return Joined(joined.snapshots, joined.phases, places, messages, discarded)

    def _news(self, joined: Joined[T]) -> Iterator[Incremental[T]]:
        for message in self._queue:
            # Phases and resets concern many instruments, each with a snapshot of its own.
            if message.security_id is None or joined.applies(message, message.security_id):
                yield message

    def _drop(self, place: Place) -> None:
        """Forget the oldest packet."""
        while self._queue and self._queue[0].place == place:
            self._queue.popleft()
        self.oldest = Place(place.sequence_version, place.sequence_number + 1)
