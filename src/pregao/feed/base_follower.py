"""Base of the followers of a channel, independent of the feed's message format.

It keeps the position in the stream, the gaps, the counter of each instrument and the pending
snapshots, and applies changes to books. The follower of a feed defines its packets and messages,
and the type of its books.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from pregao.book.base_book import BookLifecycle
from pregao.book.state import BookFault, State
from pregao.book.updates import (
    BookEmptied,
    BookReset,
    DepthUpdate,
    GapExcluded,
    GapPossible,
    MessageKey,
    MessagesMissing,
    Update,
)
from pregao.feed.listener import NO_EVENT, EventMessage, FollowerListener
from pregao.feed.packet_gaps import MANY, PacketGapLog
from pregao.feed.recovery import (
    MAX_INSTRUMENTS,
    ApplyMessage,
    BookAction,
    ClearBook,
    InstrumentFollower,
    InstrumentGap,
    LoadSnapshot,
    MarkHealed,
    MarkStale,
    MatchSnapshot,
    QueueLimits,
    RestartBook,
    is_void,
    key_of,
)
from pregao.feed.snapshot_assembly import PendingSnapshots
from pregao.umdf.gaps import (
    MAX_MESSAGES_PER_PACKET,
    GapItem,
    IncrementalMessage,
    InstrumentCount,
    is_usable,
    snapshot_key,
)
from pregao.umdf.loops import InstrumentSnapshot, SnapshotLoop
from pregao.umdf.sequencing import PacketKey, covers

B = TypeVar("B", bound=BookLifecycle)
"""Type of the books of a follower."""
FollowedMessage = IncrementalMessage[EventMessage]
FollowedSnapshot = InstrumentSnapshot[EventMessage]
FollowedPart = InstrumentFollower[EventMessage]


class BaseFollower(ABC, Generic[B]):
    """Follows one channel: its incremental stream, merged from its feeds, and its snapshots."""

    def __init__(
        self,
        *,
        from_the_start: bool,
        listener: FollowerListener | None = None,
        limits: QueueLimits | None = None,
        only_current: bool = False,
        books: dict[int, B] | None = None,
        max_messages_per_packet: int = MAX_MESSAGES_PER_PACKET,
        max_instruments: int = MAX_INSTRUMENTS,
    ) -> None:
        """Start before any packet; ``from_the_start`` if the first one begins its version.

        With ``only_current``, snapshots of an older sequence version are ignored (000 §7.2).
        ``books`` are those of an earlier follower: none of them is confirmed. A packet has at most
        ``max_messages_per_packet`` counted messages (see `pregao.umdf.gaps`). At most
        ``max_instruments`` undefined instruments are followed, and as many defined ones.
        """
        self._max_instruments = max_instruments
        self.books: dict[int, B] = {} if books is None else books
        self.position: PacketKey | None = None
        """The last packet that was delivered in order."""
        self._listener = listener or FollowerListener()
        self._limits = QueueLimits() if limits is None else limits
        self._only_current = only_current
        self._instruments: dict[int, FollowedPart] = {}
        self._new = InstrumentCount.new(
            from_the_start=from_the_start, max_messages_per_packet=max_messages_per_packet
        )
        """The counter of an instrument without messages."""
        self._absent: list[tuple[PacketKey, frozenset[int]]] = []
        """Complete snapshot loops that added information: their packet keys and instruments."""
        self._gaps = PacketGapLog()
        self._ended = False
        """Whether the last packet ended its sequence version."""
        self._doubted: set[int] = set()
        """Instruments whose books are unconfirmed."""
        self._loop: SnapshotLoop[EventMessage] = SnapshotLoop()
        self._waiting: PendingSnapshots[EventMessage] = PendingSnapshots()
        self._stale: set[int] = set()
        """Instruments whose books are stale."""
        self.moved: set[int] = set()
        """Instruments that changed since this was last cleared."""
        for security_id in self.books:
            self.add_instrument(security_id)

    @property
    def trusted(self) -> bool:
        """Whether no instrument is stale or unconfirmed."""
        return not self._doubted and not self._stale

    def state(self, security_id: int) -> State:
        """Return the state of an instrument's book."""
        book = self.books.get(security_id)
        if book is not None:
            return book.state
        instrument = self._instruments.get(security_id)
        count = self._new if instrument is None else instrument.count
        return State.UNCONFIRMED if self._gaps.missing > count.proven else State.EMPTY

    def add_instrument(self, security_id: int) -> None:
        """Add an instrument, which may not have any messages yet."""
        if security_id in self._instruments or len(self._instruments) < 2 * self._max_instruments:
            self._instrument(security_id)

    def admits(self, security_id: int) -> bool:
        """Whether an instrument is followed, or would be: numbers come from the wire."""
        return security_id in self._instruments or len(self._instruments) < self._max_instruments

    @property
    def unconfirmed(self) -> frozenset[int]:
        """Instruments about which packets may be missing."""
        return frozenset(self._doubted)

    @property
    def stale(self) -> dict[int, InstrumentGap]:
        """Instruments that wait for a snapshot, and why."""
        found = self._instruments.values()
        return {each.security_id: each.gap for each in found if each.gap is not None}

    # Exchange of state with the fast path

    def followed(self, security_id: int) -> FollowedPart:
        """Return the state of an instrument."""
        return self._instruments[security_id]

    def is_steady(self, security_id: int) -> bool:
        """Whether the next message of an instrument applies directly if its count is the next."""
        return self._instruments[security_id].is_steady(self._gaps.missing)

    def continue_from(self, packet_key: PacketKey) -> None:
        """Continue after a packet: the fast path delivered all up to it; none ended its version."""
        self.position = packet_key
        self._ended = False

    # The incremental stream

    def begin(self, following: PacketKey) -> None:
        """Set the position of an idle channel from a heartbeat, which names the next packet."""
        if self.position is None:
            before = PacketKey(following.sequence_version, following.sequence_number - 1)
            self.lose(before)
            self._begun(following)
            self.position = before

    def _arrive(self, packet_key: PacketKey) -> None:
        """Prepare for the next packet; those missing before it are lost."""
        before = self.position
        if before is None or (before[0], before[1] + 1) != packet_key:
            self.lose(PacketKey(packet_key.sequence_version, packet_key.sequence_number - 1))
        if self._waiting:
            self._begun(packet_key)
            self._reached(packet_key, after_packet=False)

    def _pass(self, packet_key: PacketKey, *, ended: bool = False) -> None:
        """Record that a packet was applied, and whether it ended its sequence version."""
        self.position = packet_key
        self._ended = ended
        if self._waiting:
            self._reached(packet_key, after_packet=True)
        self._listener.on_packet(packet_key)

    def lose(self, last: PacketKey) -> None:
        """Record the gap up to a packet, which is missing too if there is a gap.

        The number 0 means that a sequence version is about to begin.
        """
        position = self.position
        if position is not None and position.sequence_version != last.sequence_version:
            if not self._ended:
                first_missing = position.sequence_number + 1
                self._gap(PacketKey(position.sequence_version, first_missing), MANY)
            self.position = position = PacketKey(last.sequence_version, 0)
            self._ended = False
        delivered = 0 if position is None else position.sequence_number
        if last.sequence_number > delivered:
            first = PacketKey(last.sequence_version, delivered + 1)
            self._gap(first, last.sequence_number - delivered)
            self.position = last
            self._ended = False

    def _gap(self, first: PacketKey, packets: int) -> None:
        self._gaps.add(first, packets)
        for instrument in self._instruments.values():
            self._trust(instrument)

    def _trust(self, instrument: FollowedPart, key: MessageKey | None = None) -> None:
        """Mark a book unconfirmed, or confirmed by the message or snapshot with the given key."""
        security_id = instrument.security_id
        self.moved.add(security_id)
        doubted = instrument.unconfirmed(self._gaps.missing)
        if doubted == (security_id in self._doubted):
            return
        if doubted:
            self._doubted.add(security_id)
            begins = self._gaps.begins(instrument.count.proven) or PacketKey(0, 0)
            self._apply(security_id, NO_EVENT, GapPossible(MessageKey(*begins)))
        else:
            self._doubted.discard(security_id)
            self._apply(security_id, NO_EVENT, GapExcluded(key or MessageKey(0, 0)))

    def _channel_reset(self, packet_key: PacketKey, index: int, event: int, sound: bool) -> None:
        missing = self._gaps.missing
        self._new.follow(GapItem.RESET, 0, missing, sound=sound)
        for instrument in self._instruments.values():
            self._do(instrument, instrument.reset(packet_key, missing, sound=sound))
            key = MessageKey(*packet_key, index)
            self._apply(instrument.security_id, event, BookReset(key))
            self._trust(instrument, key)

    def _instrument(self, security_id: int) -> FollowedPart:
        instrument = self._instruments.get(security_id)
        if instrument is None:
            instrument = InstrumentFollower(security_id, self._new.copy(), self._limits)
            self._instruments[security_id] = instrument
            for key, members in self._absent:
                if security_id not in members:
                    self._miss(instrument, key)
            self._trust(instrument)
        return instrument

    def leave_snapshots(self) -> None:
        """Discard an incomplete loop: the snapshot stream is left.

        Every book is trusted without the pending snapshots, some of which may never be reached.
        """
        self._loop = SnapshotLoop()
        self._waiting.clear()

    def _whole_snapshot(self, snapshot: FollowedSnapshot, position: PacketKey) -> None:
        assert snapshot.header is not None
        if self._only_current and not is_usable(snapshot.header, position.sequence_version):
            self._listener.on_outdated_snapshot(snapshot.security_id)
            return
        as_of = snapshot_key(snapshot.header, position.sequence_version)
        if covers(position, as_of):
            self._take(snapshot, as_of)
        else:
            self._waiting.add(as_of, snapshot)

    def _begun(self, packet_key: PacketKey) -> None:
        """Apply snapshots received before the first packet: their sequence version is now known."""
        before = PacketKey(packet_key.sequence_version, packet_key.sequence_number - 1)
        for snapshot in self._waiting.early():
            self._whole_snapshot(snapshot, before)

    def _take(self, snapshot: FollowedSnapshot, packet_key: PacketKey) -> None:
        assert snapshot.header is not None
        instrument = self._instrument(snapshot.security_id)
        gaps = self._gaps
        missing, covered = gaps.missing_at(packet_key), gaps.covered_at(packet_key)
        needed = instrument.gap is not None or instrument.unconfirmed(gaps.missing)
        self._listener.on_snapshot(snapshot, packet_key, needed=needed)
        if is_void(snapshot.header):
            self._do(instrument, instrument.absent(packet_key, missing, covered))
        else:
            self._do(instrument, instrument.snapshot(snapshot, packet_key, missing, covered))
        self._trust(instrument, MessageKey(*packet_key))

    def _reached(self, packet_key: PacketKey, *, after_packet: bool) -> None:
        """Apply pending snapshots as of packets before the key, or up to it (``after_packet``)."""
        for as_of, snapshot in self._waiting.reached(packet_key, after_packet=after_packet):
            self._take(snapshot, as_of)

    def _whole_loop(self) -> None:
        """Process a complete snapshot loop: instruments that are not in it had an empty book."""
        position = self.position
        if position is None:
            return  # the sequence version of older snapshots is unknown
        members = self._loop.instruments
        keys = [
            snapshot_key(found.header, position.sequence_version)
            for found in members.values()
            if found.header is not None
        ]
        if not keys:
            return
        earliest = keys[0]
        for key in keys[1:]:
            if not covers(key, earliest):
                earliest = key
        covered = self._gaps.covered_at(earliest)
        covers_all = covered >= self._gaps.missing
        self._listener.on_complete_loop(earliest, members, self._loop.phases, covers_all=covers_all)
        covered_before = max((self._gaps.covered_at(key) for key, _ in self._absent), default=0)
        nothing_missing = not self._gaps.missing and self._new.proven >= 0
        if covered > covered_before or not (self._absent or nothing_missing):
            self._absent = [(earliest, frozenset(members))]
            concerned = [each for each in self._instruments if each not in members]
        else:
            # It adds nothing to an earlier loop, except for instruments whose queue had overflowed.
            concerned = [each for each in {*self._doubted, *self._stale} if each not in members]
        for security_id in concerned:
            instrument = self._instruments[security_id]
            self._listener.on_absent(security_id, earliest)
            self._miss(instrument, earliest)
            self._trust(instrument, MessageKey(*earliest))

    def _miss(self, instrument: FollowedPart, packet_key: PacketKey) -> None:
        missing, covered = self._gaps.missing_at(packet_key), self._gaps.covered_at(packet_key)
        self._do(instrument, instrument.absent(packet_key, missing, covered))

    def _do(self, instrument: FollowedPart, changes: list[BookAction[EventMessage]]) -> None:
        """Apply changes to a book."""
        security_id = instrument.security_id
        self.moved.add(security_id)
        for change in changes:
            match change:
                case ApplyMessage(message):
                    self._apply_message(instrument, message)
                case RestartBook(message):
                    self._apply(security_id, message.item.event, BookEmptied(key_of(message)))
                case MarkStale(gap, message):
                    interrupted = MessagesMissing(gap.found_at, gap.reason)
                    self._apply(security_id, message.item.event, interrupted)
                    self._stale.add(security_id)
                    self._listener.on_stale(gap)
                case LoadSnapshot(snapshot, as_of):
                    self._load(snapshot, as_of)
                case MatchSnapshot():
                    book = self.books.get(security_id)
                    if book is not None:
                        book.agreed()
                case ClearBook(as_of):
                    self._apply(security_id, NO_EVENT, BookEmptied(MessageKey(*as_of)))
                case MarkHealed():
                    self._stale.discard(security_id)
                    self._listener.on_healed(change)

    def _apply_message(self, instrument: FollowedPart, message: FollowedMessage) -> None:
        """Apply a message; an inconsistent update makes its book stale."""
        part = message.item
        update = self._update(message)
        if update is None:
            return
        fault = self._apply(instrument.security_id, part.event, update)
        if fault is not None:
            self._on_inconsistent_update(instrument, message, fault)

    def _on_inconsistent_update(
        self, instrument: FollowedPart, message: FollowedMessage, fault: BookFault
    ) -> None:
        for change in instrument.on_inconsistent_update(message, str(fault)):
            if isinstance(change, MarkStale):
                self._stale.add(instrument.security_id)
                self._listener.on_stale(change.gap)

    # Defined by the follower of a feed

    @abstractmethod
    def _update(self, message: FollowedMessage) -> Update | DepthUpdate | None:
        """Return the book update of a message; None if it changes no book."""

    @abstractmethod
    def _load(self, snapshot: FollowedSnapshot, packet_key: PacketKey) -> None:
        """Load a complete snapshot into the book, as of its packet."""

    @abstractmethod
    def _apply(
        self, security_id: int, event: int, update: Update | DepthUpdate
    ) -> BookFault | None:
        """Apply an update to a book, and notify the listener."""
