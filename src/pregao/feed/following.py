"""What every follower of a channel does, whatever its messages look like: the base of followers.

It keeps the place in the stream, the holes, the counter of each instrument and what waits for
snapshots, and lets changes happen to books. A follower of a feed says what its packets and
messages are, and which book an instrument has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from pregao.book.base import Life
from pregao.book.faults import Fault, State
from pregao.book.updates import (
    BookEmptied,
    ChannelReset,
    Confirmed,
    DepthUpdate,
    Doubted,
    Interrupted,
    MessageKey,
    Update,
)
from pregao.feed.channel_settings import MAX_INSTRUMENTS
from pregao.feed.healing import (
    Agreed,
    Apply,
    Change,
    Emptied,
    FollowedInstrument,
    Gap,
    Healed,
    Load,
    Restart,
    Room,
    Stale,
    is_void,
    key_of,
)
from pregao.feed.holes import MANY, HoleLog
from pregao.feed.listener import NO_EVENT, Listener, Part
from pregao.feed.snapshot_intake import WaitingSnapshots
from pregao.umdf.gaps import MOST_IN_PACKET, InstrumentCount, Item
from pregao.umdf.loops import InstrumentSnapshot, SnapshotLoop
from pregao.umdf.recovery import Incremental, is_usable, snapshot_place
from pregao.umdf.sequencing import Place, covers

B = TypeVar("B", bound=Life)
"""The books that a follower keeps."""
Message = Incremental[Part]
Snapshot = InstrumentSnapshot[Part]
FollowedPart = FollowedInstrument[Part]


class ChannelFollower(ABC, Generic[B]):
    """Follows one channel: its incremental stream, feeds made one, and its snapshot stream."""

    def __init__(
        self,
        *,
        from_the_start: bool,
        listener: Listener | None = None,
        room: Room | None = None,
        only_current: bool = False,
        books: dict[int, B] | None = None,
        most_in_packet: int = MOST_IN_PACKET,
        max_instruments: int = MAX_INSTRUMENTS,
    ) -> None:
        """``from_the_start`` says that the first packet is the first of its sequence version.

        With ``only_current``, snapshots of an older sequence version are passed over (000 §7.2).
        ``books`` are those of a follower before this one: none of them is confirmed.
        A packet holds at most so many counted messages (see `pregao.umdf.gaps`).
        ``max_instruments`` are followed that nothing has defined, and as many that are defined.
        """
        self._max_instruments = max_instruments
        self.books: dict[int, B] = {} if books is None else books
        self.position: Place | None = None
        """The last packet that was delivered in order."""
        self._listener = listener or Listener()
        self._room = Room() if room is None else room
        self._only_current = only_current
        self._instruments: dict[int, FollowedPart] = {}
        self._new = InstrumentCount.new(
            from_the_start=from_the_start, most_in_packet=most_in_packet
        )
        """The counter of an instrument of which nothing has come."""
        self._absent: list[tuple[Place, frozenset[int]]] = []
        """Whole loops of snapshots that told something: their places, and who was in them."""
        self._holes = HoleLog()
        self._ended = False
        """Did the last packet end its sequence version?"""
        self._doubted: set[int] = set()
        """The instruments whose books are unconfirmed."""
        self._loop: SnapshotLoop[Part] = SnapshotLoop()
        self._waiting: WaitingSnapshots[Part] = WaitingSnapshots()
        self._stale: set[int] = set()
        """The instruments whose books are stale."""
        self.moved: set[int] = set()
        """The instruments that something happened to since this was last emptied."""
        for security_id in self.books:
            self.know(security_id)

    @property
    def trusted(self) -> bool:
        """Is no instrument stale or unconfirmed?"""
        return not self._doubted and not self._stale

    def state(self, security_id: int) -> State:
        """How far the book of an instrument can be trusted."""
        book = self.books.get(security_id)
        if book is not None:
            return book.state
        instrument = self._instruments.get(security_id)
        count = self._new if instrument is None else instrument.count
        return State.UNCONFIRMED if self._holes.missing > count.proven else State.EMPTY

    def know(self, security_id: int) -> None:
        """There is an instrument, though nothing may have come of it."""
        if security_id in self._instruments or len(self._instruments) < 2 * self._max_instruments:
            self._instrument(security_id)

    def admits(self, security_id: int) -> bool:
        """Whether an instrument is followed, or would be: numbers come from the wire."""
        return security_id in self._instruments or len(self._instruments) < self._max_instruments

    @property
    def unconfirmed(self) -> frozenset[int]:
        """The instruments about which packets may be missing."""
        return frozenset(self._doubted)

    @property
    def stale(self) -> dict[int, Gap]:
        """The instruments that wait for a snapshot, and why."""
        found = self._instruments.values()
        return {each.security_id: each.gap for each in found if each.gap is not None}

    # What a kernel goes on with, and where it got to

    def followed(self, security_id: int) -> FollowedPart:
        """What is known of an instrument."""
        return self._instruments[security_id]

    def is_steady(self, security_id: int) -> bool:
        """Does the next message of an instrument simply apply, if its count is the next one?"""
        return self._instruments[security_id].is_steady(self._holes.missing)

    def go_on(self, place: Place) -> None:
        """Packets up to one were delivered elsewhere, in order, and none ended its version."""
        self.position = place
        self._ended = False

    # The incremental stream

    def begin(self, following: Place) -> None:
        """A heartbeat tells the packet that comes next, and so where an idle channel is."""
        if self.position is None:
            before = Place(following.sequence_version, following.sequence_number - 1)
            self.lose(before)
            self._begun(following)
            self.position = before

    def _arrive(self, place: Place) -> None:
        """The packet of a place is next; what is missing before it is lost."""
        before = self.position
        if before is None or (before[0], before[1] + 1) != place:
            self.lose(Place(place.sequence_version, place.sequence_number - 1))
        if self._waiting:
            self._begun(place)
            self._reached(place, behind=False)

    def _pass(self, place: Place, *, ended: bool = False) -> None:
        """The packet of a place was taken in; did it end its sequence version?"""
        self.position = place
        self._ended = ended
        if self._waiting:
            self._reached(place, behind=True)
        self._listener.delivered(place)

    def lose(self, last: Place) -> None:
        """Take note of what is missing up to a packet, which is missing too if anything is.

        The number 0 says that a sequence version is about to begin.
        """
        position = self.position
        if position is not None and position.sequence_version != last.sequence_version:
            if not self._ended:
                behind = position.sequence_number + 1
                self._hole(Place(position.sequence_version, behind), MANY)
            self.position = position = Place(last.sequence_version, 0)
            self._ended = False
        known = 0 if position is None else position.sequence_number
        if last.sequence_number > known:
            first = Place(last.sequence_version, known + 1)
            self._hole(first, last.sequence_number - known)
            self.position = last
            self._ended = False

    def _hole(self, first: Place, packets: int) -> None:
        self._holes.add(first, packets)
        for instrument in self._instruments.values():
            self._trust(instrument)

    def _trust(self, instrument: FollowedPart, key: MessageKey | None = None) -> None:
        """Let the book of an instrument be unconfirmed, or confirmed by what has that key."""
        security_id = instrument.security_id
        self.moved.add(security_id)
        doubted = instrument.unconfirmed(self._holes.missing)
        if doubted == (security_id in self._doubted):
            return
        if doubted:
            self._doubted.add(security_id)
            begins = self._holes.begins(instrument.count.proven) or Place(0, 0)
            self._apply(security_id, NO_EVENT, Doubted(MessageKey(*begins)))
        else:
            self._doubted.discard(security_id)
            self._apply(security_id, NO_EVENT, Confirmed(key or MessageKey(0, 0)))

    def _channel_reset(self, place: Place, index: int, event: int, sound: bool) -> None:
        missing = self._holes.missing
        self._new.follow(Item.RESET, 0, missing, sound=sound)
        for instrument in self._instruments.values():
            self._do(instrument, instrument.reset(place, missing, sound=sound))
            key = MessageKey(*place, index)
            self._apply(instrument.security_id, event, ChannelReset(key))
            self._trust(instrument, key)

    def _instrument(self, security_id: int) -> FollowedPart:
        found = self._instruments.get(security_id)
        if found is None:
            found = FollowedInstrument(security_id, self._new.copy(), self._room)
            self._instruments[security_id] = found
            for place, members in self._absent:
                if security_id not in members:
                    self._miss(found, place)
            self._trust(found)
        return found

    def leave_snapshots(self) -> None:
        """The snapshot stream is left: what a loop has brought of it is forgotten.

        Every book is trusted without those that wait, of which some may never be reached.
        """
        self._loop = SnapshotLoop()
        self._waiting.clear()

    def _whole_snapshot(self, snapshot: Snapshot, position: Place) -> None:
        assert snapshot.header is not None
        if self._only_current and not is_usable(snapshot.header, position.sequence_version):
            self._listener.old_snapshot(snapshot.security_id)
            return
        place = snapshot_place(snapshot.header, position.sequence_version)
        if covers(position, place):
            self._take(snapshot, place)
        else:
            self._waiting.add(place, snapshot)

    def _begun(self, place: Place) -> None:
        """The incremental stream begins here: now snapshots of before can be placed."""
        before = Place(place.sequence_version, place.sequence_number - 1)
        for snapshot in self._waiting.early():
            self._whole_snapshot(snapshot, before)

    def _take(self, snapshot: Snapshot, place: Place) -> None:
        assert snapshot.header is not None
        instrument = self._instrument(snapshot.security_id)
        holes = self._holes
        missing, covered = holes.missing_at(place), holes.covered_at(place)
        needed = instrument.gap is not None or instrument.unconfirmed(holes.missing)
        self._listener.snapshot(snapshot, place, needed=needed)
        if is_void(snapshot.header):
            self._do(instrument, instrument.absent(place, missing, covered))
        else:
            self._do(instrument, instrument.snapshot(snapshot, place, missing, covered))
        self._trust(instrument, MessageKey(*place))

    def _reached(self, place: Place, *, behind: bool) -> None:
        """Take the snapshots in that hold as of a place before this one, or of this one."""
        for at, snapshot in self._waiting.reached(place, behind=behind):
            self._take(snapshot, at)

    def _whole_loop(self) -> None:
        """A whole loop of snapshots: instruments that are not in it had an empty book."""
        position = self.position
        if position is None:
            return  # nothing tells which sequence version older snapshots are of
        members = self._loop.instruments
        places = [
            snapshot_place(found.header, position.sequence_version)
            for found in members.values()
            if found.header is not None
        ]
        if not places:
            return
        earliest = places[0]
        for place in places[1:]:
            if not covers(place, earliest):
                earliest = place
        covered = self._holes.covered_at(earliest)
        whole = covered >= self._holes.missing
        self._listener.whole_loop(earliest, members, self._loop.phases, covers_all=whole)
        known = max((self._holes.covered_at(place) for place, _ in self._absent), default=0)
        nothing_missing = not self._holes.missing and self._new.proven >= 0
        if covered > known or not (self._absent or nothing_missing):
            self._absent = [(earliest, frozenset(members))]
            concerned = [each for each in self._instruments if each not in members]
        else:
            # It tells nothing that one before it did not, but to whom there was no room for that.
            concerned = [each for each in {*self._doubted, *self._stale} if each not in members]
        for security_id in concerned:
            instrument = self._instruments[security_id]
            self._listener.absent(security_id, earliest)
            self._miss(instrument, earliest)
            self._trust(instrument, MessageKey(*earliest))

    def _miss(self, instrument: FollowedPart, place: Place) -> None:
        missing, covered = self._holes.missing_at(place), self._holes.covered_at(place)
        self._do(instrument, instrument.absent(place, missing, covered))

    def _do(self, instrument: FollowedPart, changes: list[Change[Part]]) -> None:
        """Let changes happen to a book."""
        security_id = instrument.security_id
        self.moved.add(security_id)
        for change in changes:
            match change:
                case Apply(message):
                    self._apply_message(instrument, message)
                case Restart(message):
                    self._apply(security_id, message.item.event, BookEmptied(key_of(message)))
                case Stale(gap, message):
                    interrupted = Interrupted(gap.found_at, gap.reason)
                    self._apply(security_id, message.item.event, interrupted)
                    self._stale.add(security_id)
                    self._listener.stale(gap)
                case Load(snapshot, place):
                    self._load(snapshot, place)
                case Agreed():
                    book = self.books.get(security_id)
                    if book is not None:
                        book.agreed()
                case Emptied(place):
                    self._apply(security_id, NO_EVENT, BookEmptied(MessageKey(*place)))
                case Healed():
                    self._stale.discard(security_id)
                    self._listener.healed(change)

    def _apply_message(self, instrument: FollowedPart, message: Message) -> None:
        """Apply a message; one that does not fit its book makes it stale."""
        part = message.item
        update = self._update(message)
        if update is None:
            return
        fault = self._apply(instrument.security_id, part.event, update)
        if fault is not None:
            self._misfit(instrument, message, fault)

    def _misfit(self, instrument: FollowedPart, message: Message, fault: Fault) -> None:
        for change in instrument.misfit(message, str(fault)):
            if isinstance(change, Stale):
                self._stale.add(instrument.security_id)
                self._listener.stale(change.gap)

    # What a feed says

    @abstractmethod
    def _update(self, message: Message) -> Update | DepthUpdate | None:
        """The book update of a message; None if it changes no book."""

    @abstractmethod
    def _load(self, snapshot: Snapshot, place: Place) -> None:
        """Let the book be what a whole snapshot says, as of its place."""

    @abstractmethod
    def _apply(self, security_id: int, event: int, update: Update | DepthUpdate) -> Fault | None:
        """Let a book take an update in, and tell the listener."""
