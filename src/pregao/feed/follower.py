"""The follower: packets of a channel in, books out, message by message.

It is the plain machine whose bulk twin is `pregao.feed.day`: packets go through the arbiter,
snapshots through their loop, messages through the counter of their instrument, and what remains
changes the books of `pregao.book`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from pregao.book.faults import State
from pregao.book.orders import OrderBook
from pregao.book.position import PositionBook
from pregao.book.priority import PriorityBook
from pregao.book.updates import BookEmptied, ChannelReset, Interrupted, MessageKey, Update
from pregao.feed.healing import (
    Apply,
    Change,
    FollowedInstrument,
    Gap,
    Healed,
    Load,
    Restart,
    Stale,
    is_void,
    key_of,
)
from pregao.feed.meaning import snapshot_updates, update_of
from pregao.umdf import templates
from pregao.umdf.arbitration import Arbiter, Delivered, Lost, Outcome
from pregao.umdf.events import EventNumbers
from pregao.umdf.gaps import NOTHING, UNSEEN, first_count
from pregao.umdf.loops import InstrumentSnapshot, SnapshotHeader, SnapshotLoop
from pregao.umdf.packets import DecodedPacket
from pregao.umdf.packets import Outcome as DecodedMessage
from pregao.umdf.recovery import NEVER_DISCARDED, Incremental, snapshot_place
from pregao.umdf.sequencing import Place, covers

T = TypeVar("T")
_Message = Incremental[DecodedMessage]
_Snapshot = InstrumentSnapshot[DecodedMessage]

NO_EVENT = -1
"""The event of what is no event of the market: a snapshot that is loaded, a gap."""


class Listener:
    """Is told what the follower does; whoever wants to know overrides what he wants to know."""

    def updated(self, security_id: int, event: int, update: Update) -> None:
        """A book took an update in."""

    def stale(self, gap: Gap) -> None:
        """A book is not to be trusted any more."""

    def healed(self, healed: Healed) -> None:
        """A stale book is sound again, as of a place that may be in the past."""

    def lost(self, lost: Lost) -> None:
        """Packets are missing that no feed brought."""

    def delivered(self, place: Place) -> None:
        """All messages of a packet were taken in."""


class Follower:
    """Follows one channel: its incremental stream on any feeds, and its snapshot stream."""

    def __init__(
        self,
        *,
        from_the_start: bool,
        listener: Listener | None = None,
        arbiter: Arbiter[DecodedPacket] | None = None,
        most_queued: int = 100_000,
    ) -> None:
        """``from_the_start`` says that the first packet is the first of its sequence version."""
        self.books: dict[int, OrderBook] = {}
        self.position: Place | None = None
        """The last packet that was delivered in order."""
        self._arbiter = Arbiter[DecodedPacket]() if arbiter is None else arbiter
        self._listener = listener or Listener()
        self._most = most_queued
        self._instruments: dict[int, FollowedInstrument[DecodedMessage]] = {}
        self._first = first_count(from_the_start=from_the_start)
        """The counter of an instrument of which nothing has come."""
        self._members: frozenset[int] | None = None
        """The instruments of the first whole loop of snapshots, once one has come."""
        self._loop: SnapshotLoop[DecodedMessage] = SnapshotLoop()
        self._ahead: list[tuple[Place, _Snapshot]] = []
        """Snapshots that hold more than has been delivered."""
        self._events = EventNumbers()
        self._by_position = False

    @property
    def stale(self) -> dict[int, Gap]:
        """The instruments that wait for a snapshot, and why."""
        found = self._instruments.values()
        return {each.security_id: each.gap for each in found if each.gap is not None}

    # The incremental stream

    def incremental(self, feed: str, packet: DecodedPacket, time_ns: int) -> None:
        """Take a packet of the incremental stream in, of any feed."""
        header = packet.header
        if not header.sequenced:
            for decoded in packet.messages:
                if decoded.message.id == templates.SEQUENCE:
                    number = decoded.values["nextSeqNo"]
                    version = header.sequence_version
                    self._arbitrated(self._arbiter.heartbeat(version, number, time_ns))
            return
        place = Place(header.sequence_version, header.sequence_number)
        resets = _resets(packet)
        self._arbitrated(self._arbiter.accept(feed, place, time_ns, packet, resets=resets))

    def expire(self, now_ns: int) -> None:
        """Give up what has been waited for long enough."""
        self._arbitrated(self._arbiter.expire(now_ns))

    def _arbitrated(self, outcomes: Iterable[Outcome[DecodedPacket]]) -> None:
        for outcome in outcomes:
            if isinstance(outcome, Lost):
                self._listener.lost(outcome)
            elif isinstance(outcome, Delivered):
                self.deliver(outcome.item)

    def deliver(self, packet: DecodedPacket) -> None:
        """Take the next packet of the sequence in; packets before it may be missing."""
        place = Place(packet.header.sequence_version, packet.header.sequence_number)
        self._reached(place, behind=False)
        for found in packet.outcomes:
            if found.decoded is not None and found.frame is not None:
                self._message(place, found)
        self.position = place
        self._reached(place, behind=True)
        self._listener.delivered(place)

    def _message(self, place: Place, found: DecodedMessage) -> None:
        assert found.decoded is not None
        assert found.frame is not None
        values, template = found.decoded.values, found.frame.template_id
        index = found.frame.index_in_packet
        event = self._events.number(place, index, template, values.get("matchEventIndicator"))
        security_id = values.get("securityID")
        if template == templates.CHANNEL_RESET:
            self._channel_reset(place, index, event)
        elif security_id is not None and template not in NEVER_DISCARDED:
            self._by_position = gives_position(values, self._by_position)
            rpt_seq = values.get("rptSeq") or None
            message = Incremental(place, index, template, security_id, rpt_seq, found)
            instrument = self._instrument(security_id)
            self._do(instrument, instrument.message(message), event)

    def _channel_reset(self, place: Place, index: int, event: int) -> None:
        if self._first == UNSEEN:
            self._first = NOTHING
        for instrument in self._instruments.values():
            self._do(instrument, instrument.reset(place), event)
            key = MessageKey(*place, index)
            self._apply(instrument.security_id, event, ChannelReset(key))

    def _instrument(self, security_id: int) -> FollowedInstrument[DecodedMessage]:
        found = self._instruments.get(security_id)
        if found is None:
            absent = self._members is not None and security_id not in self._members
            last = NOTHING if absent and self._first == UNSEEN else self._first
            found = FollowedInstrument(security_id, last, self._most)
            self._instruments[security_id] = found
        return found

    # The snapshot stream

    def snapshot(self, packet: DecodedPacket) -> None:
        """Take a packet of the snapshot stream in."""
        header = packet.header
        resets = _resets(packet)
        if not header.sequenced or not self._loop.packet(
            header.sequence_version, header.sequence_number, resets=resets
        ):
            return
        for found in packet.outcomes:
            if found.decoded is not None and found.frame is not None:
                self._snapshot_message(found)
        if resets and self._members is None and self._loop.complete:
            self._whole_loop()

    def _snapshot_message(self, found: DecodedMessage) -> None:
        assert found.decoded is not None
        assert found.frame is not None
        values, template = found.decoded.values, found.frame.template_id
        if template == templates.SNAPSHOT_HEADER:
            snapshot = self._loop.header(SnapshotHeader.of(values))
        elif template == templates.SNAPSHOT_ORDERS:
            entries = values["noMDEntries"]
            sides = [entry["mDEntryType"] for entry in entries]
            security_id = values["securityID"]
            snapshot = self._loop.orders(
                security_id, sides.count("BID"), sides.count("OFFER"), found
            )
        elif template == templates.SECURITY_GROUP_PHASE:
            self._loop.phase(found)
            return
        elif "securityID" in values:
            snapshot = self._loop.statistic(values["securityID"], found)
        else:
            return
        if snapshot.complete and self.position is not None:
            self._whole_snapshot(snapshot)

    def _whole_snapshot(self, snapshot: _Snapshot) -> None:
        assert snapshot.header is not None
        assert self.position is not None
        if is_void(snapshot.header):
            return
        place = snapshot_place(snapshot.header, self.position.sequence_version)
        if covers(self.position, place):
            self._take(snapshot, place)
        else:
            self._ahead.append((place, snapshot))

    def _take(self, snapshot: _Snapshot, place: Place) -> None:
        instrument = self._instrument(snapshot.security_id)
        self._do(instrument, instrument.snapshot(snapshot, place), NO_EVENT)

    def _reached(self, place: Place, *, behind: bool) -> None:
        """Take the snapshots in that hold as of a place before this one, or of this one."""
        if not self._ahead:
            return
        rest = []
        for at, snapshot in self._ahead:
            if covers(place, at) and (behind or at != place):
                self._take(snapshot, at)
            else:
                rest.append((at, snapshot))
        self._ahead = rest

    def _whole_loop(self) -> None:
        """The first whole loop: instruments that are not in it had an empty book."""
        if self.position is None:
            return
        version = self.position.sequence_version
        places = [
            snapshot_place(found.header, version)
            for found in self._loop.instruments.values()
            if found.header is not None
        ]
        self._members = frozenset(self._loop.instruments)
        if self._first != UNSEEN or not places:
            return
        earliest = places[0]
        for place in places[1:]:
            if not covers(place, earliest):
                earliest = place
        for instrument in self._instruments.values():
            if instrument.security_id not in self._members:
                self._do(instrument, instrument.absent(earliest), NO_EVENT)

    # Books

    def _do(
        self,
        instrument: FollowedInstrument[DecodedMessage],
        changes: list[Change[DecodedMessage]],
        event: int,
    ) -> None:
        """Let changes happen to a book; a message that does not fit makes it stale."""
        security_id = instrument.security_id
        for change in changes:
            match change:
                case Apply(message):
                    self._apply_message(instrument, message, event)
                case Restart(key):
                    self._apply(security_id, event, BookEmptied(key))
                case Stale(gap):
                    self._apply(security_id, event, Interrupted(gap.found_at, gap.reason))
                    self._listener.stale(gap)
                case Load(snapshot, place):
                    self._load(snapshot, place)
                case Healed():
                    self._listener.healed(change)

    def _apply_message(
        self, instrument: FollowedInstrument[DecodedMessage], message: _Message, event: int
    ) -> None:
        found = message.item
        assert found.decoded is not None
        assert found.frame is not None
        if instrument.gap is not None and self.books[instrument.security_id].fault is not None:
            return  # a message before it in the queue did not fit
        key = key_of(message)
        update = update_of(key, message.template_id, found.frame.version, found.decoded.values)
        if update is None:
            return
        fault = self._apply(instrument.security_id, event, update)
        if fault is not None:
            for change in instrument.misfit(message, str(fault)):
                if isinstance(change, Stale):
                    self._listener.stale(change.gap)

    def _load(self, snapshot: _Snapshot, place: Place) -> None:
        assert snapshot.header is not None
        entries: list[tuple[int, dict[str, Any]]] = []
        for found in snapshot.items:
            assert found.decoded is not None
            assert found.frame is not None
            if found.frame.template_id == templates.SNAPSHOT_ORDERS:
                orders = found.decoded.values["noMDEntries"]
                entries += [(found.frame.version, entry) for entry in orders]
                for entry in orders:
                    self._by_position = gives_position(entry, self._by_position)
        if self._by_position:
            entries.sort(key=lambda entry: entry[1].get("mDEntryPositionNo") or 0)
        key = MessageKey(*place)
        for update in snapshot_updates(key, snapshot.header, entries):
            self._apply(snapshot.security_id, NO_EVENT, update)

    def _apply(self, security_id: int, event: int, update: Update) -> Any:
        book = self.books.get(security_id)
        if book is None or (book.state is State.EMPTY and self._is_other(book)):
            book = self.books[security_id] = PositionBook() if self._by_position else PriorityBook()
        fault = book.apply(update)
        self._listener.updated(security_id, event, update)
        return fault

    def _is_other(self, book: OrderBook) -> bool:
        return isinstance(book, PositionBook) != self._by_position


def gives_position(values: dict[str, Any], before: bool) -> bool:
    """Do messages name the place of an order? Those about no order tell nothing."""
    return values["mDEntryPositionNo"] is not None if "mDEntryPositionNo" in values else (
        False if "secondaryOrderID" in values else before
    )


def _resets(packet: DecodedPacket) -> bool:
    return any(decoded.message.id == templates.SEQUENCE_RESET for decoded in packet.messages)
