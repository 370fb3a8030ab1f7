"""Follower of the legacy feed: messages in sequence in, books out.

An instrument's snapshots state the kind of its book (MarketDepth, 002 §9); before the first one,
the channel's usual depth applies. Counters, gaps, healing and the states of books are those of the
binary feed.
"""

from __future__ import annotations

from collections.abc import Iterator

from pregao.book.order_book import OrderBook
from pregao.book.position_book import PositionBook
from pregao.book.price_depth_book import PriceDepthBook
from pregao.book.state import BookFault, State
from pregao.book.updates import DepthUpdate, MessageKey, Update
from pregao.feed.base_follower import BaseFollower, FollowedMessage, FollowedSnapshot
from pregao.feed.legacy.book_updates import (
    EMPTY_BOOK,
    SIDES,
    Entry,
    snapshot_levels,
    snapshot_orders,
    update_of,
)
from pregao.feed.legacy.state import LegacyState
from pregao.feed.listener import EventMessage, FollowerListener
from pregao.feed.recovery import MAX_INSTRUMENTS, QueueLimits, key_of
from pregao.legacy.loop_line import LoopEnded, LoopMessage
from pregao.legacy.messages import LegacyMessage, MsgType
from pregao.umdf import templates
from pregao.umdf.gaps import IncrementalMessage
from pregao.umdf.loops import SnapshotHeader
from pregao.umdf.sequencing import PacketKey

MAX_ENTRIES = 4096
"""Maximum number of entries in an incremental message, which has a few hundred bytes."""
OTHER_BOOK = "its snapshot has a book of another depth"

LegacyBook = OrderBook | PriceDepthBook
_NO_MESSAGE = 0
"""Template ID of entries in the common recovery code, which only distinguishes EmptyBook."""


class LegacyFollower(BaseFollower[LegacyBook]):
    """Follows a channel of UMDF FIX/FAST."""

    def __init__(
        self,
        *,
        from_the_start: bool,
        market_depth: int | None = None,
        listener: FollowerListener | None = None,
        limits: QueueLimits | None = None,
        books: dict[int, LegacyBook] | None = None,
        max_instruments: int = MAX_INSTRUMENTS,
        milliseconds: bool | None = None,
        state: LegacyState | None = None,
    ) -> None:
        """``market_depth`` applies to books without a snapshot; None is a book of all orders.

        ``milliseconds`` states whether the platform's times of day include them; None decides by
        their size. ``state`` gets the snapshots and losses in the order in which books get them.
        """
        self._state = state
        self._usual_depth = market_depth
        self._milliseconds = milliseconds
        self._depths: dict[int, int | None] = {}
        """Depth stated by the last snapshot of each instrument."""
        self._last_processed = 0
        self._ended_loop: int | None = None
        """The last loop that may refer to numbers of an earlier sequence."""
        super().__init__(
            from_the_start=from_the_start,
            listener=listener,
            limits=limits,
            books=books,
            max_messages_per_packet=MAX_ENTRIES,
            max_instruments=max_instruments,
        )

    def market_depth(self, security_id: int) -> int | None:
        """Return the number of levels of a book by price; None for a book of all orders."""
        return self._depths.get(security_id, self._usual_depth)

    def remove_instrument(self, security_id: int) -> None:
        """Remove a deleted instrument and its book (002 §8.3)."""
        instrument = self._instruments.pop(security_id, None)
        if instrument is not None:
            self._limits.used -= instrument.queued
        self.books.pop(security_id, None)
        self._depths.pop(security_id, None)
        self._doubted.discard(security_id)
        self._stale.discard(security_id)
        self.moved.add(security_id)

    # The incremental stream

    def restart(self, last: PacketKey, loop: int) -> None:
        """Begin another sequence after a key: snapshots up to ``loop`` are of the one before."""
        self.lose(last)
        self._ended_loop = loop
        self._waiting.clear()

    def _gap(self, first: PacketKey, packets: int) -> None:
        super()._gap(first, packets)
        if self._state is not None:
            last = first.sequence_number + packets - 1
            self._state.lost(PacketKey(first.sequence_version, last))

    def deliver(self, packet_key: PacketKey, message: LegacyMessage) -> None:
        """Apply the next message of the sequence; messages before it may be missing."""
        self._arrive(packet_key)
        if message.type is MsgType.INCREMENTAL_REFRESH:
            for index, entry in enumerate(message.values.get("MDEntries", ())):
                self._entry(packet_key, index, message.template_id, entry)
        else:
            event = packet_key.sequence_number
            self._listener.on_message(packet_key, event, message.template_id, message.values)
        self._pass(packet_key)

    def _entry(self, packet_key: PacketKey, index: int, template_id: int, entry: Entry) -> None:
        event = packet_key.sequence_number
        security_id = entry.get("SecurityID") or None
        emptied = entry.get("MDEntryType") == EMPTY_BOOK
        values = dict(entry)
        if security_id is None:
            if emptied:
                self._channel_reset(packet_key, index, event, sound=True)
        else:
            if not self.admits(security_id):
                self._listener.dropped(template_id, values)
                return
            rpt_seq = entry.get("RptSeq") or None
            kind = templates.EMPTY_BOOK if emptied else _NO_MESSAGE
            part = EventMessage(0, values, template_id, event)
            message = IncrementalMessage(packet_key, index, kind, security_id, rpt_seq, part)
            instrument = self._instrument(security_id)
            missing = self._gaps.missing
            self._do(instrument, instrument.message(message, missing))
            self._trust(instrument, key_of(message))
        self._listener.on_message(packet_key, event, template_id, values)

    # The market recovery stream

    def snapshot(self, found: LoopMessage | LoopEnded) -> None:
        """Process a message or a loop end of the market recovery stream."""
        loop = self._loop
        if isinstance(found, LoopEnded):
            if loop.sequence_version == found.version != self._ended_loop:
                loop.end()
                if loop.complete:
                    self._whole_loop()
            return
        message = found.message
        if message.type is not MsgType.SNAPSHOT or found.version == self._ended_loop:
            return
        if not loop.packet(found.version, message.number):
            return
        header = _header(message)
        if header.last_msg_seq_num_processed < self._last_processed:
            # The incremental stream restarted: pending snapshots are of the previous sequence.
            self._waiting.clear()
        self._last_processed = header.last_msg_seq_num_processed
        loop.header(header)
        part = EventMessage(0, message.values, message.template_id)
        snapshot = loop.orders(header.security_id, header.tot_num_bids, header.tot_num_offers, part)
        if not self.admits(header.security_id):
            self._listener.dropped(message.template_id, {})
        elif self.position is None:
            self._waiting.came_early(snapshot)
        else:
            self._whole_snapshot(snapshot, self.position)

    def _take(self, snapshot: FollowedSnapshot, packet_key: PacketKey) -> None:
        state = self._state
        if state is not None and state.is_deleted(snapshot.security_id, packet_key):
            return
        self._learn_depth(snapshot, packet_key)
        super()._take(snapshot, packet_key)
        if state is not None and snapshot.items:
            state.snapshot(snapshot.items[-1], packet_key)

    def _whole_loop(self) -> None:
        super()._whole_loop()
        state, position = self._state, self.position
        members = self._loop.instruments
        headers = [found.header for found in members.values() if found.header is not None]
        if state is not None and position is not None and headers:
            earliest = min(header.last_msg_seq_num_processed for header in headers)
            state.loop(PacketKey(position.sequence_version, earliest), members)

    def _learn_depth(self, snapshot: FollowedSnapshot, packet_key: PacketKey) -> None:
        """Switch the instrument to the kind of book that its snapshot has."""
        security_id = snapshot.security_id
        depth = snapshot.items[-1].values.get("MarketDepth") if snapshot.items else None
        self._depths[security_id] = depth
        book = self.books.get(security_id)
        if book is None or _depth_of(book) == depth:
            return
        if book.state is State.EMPTY:
            del self.books[security_id]
            return
        instrument = self._instrument(security_id)
        gap = instrument.distrust(MessageKey(*packet_key), OTHER_BOOK)
        if gap is not None:
            book.interrupt(gap.found_at, gap.reason)
            self._stale.add(security_id)
            self._listener.on_stale(gap)

    # Books

    def _update(self, message: FollowedMessage) -> Update | DepthUpdate | None:
        security_id = message.security_id or 0
        book = self.books.get(security_id)
        depth = self.market_depth(security_id) if book is None else _depth_of(book)
        return update_of(
            key_of(message), message.item.values, depth, milliseconds=self._milliseconds
        )

    def _load(self, snapshot: FollowedSnapshot, packet_key: PacketKey) -> None:
        assert snapshot.header is not None
        security_id = snapshot.security_id
        book = self.books.get(security_id)
        depth = self.market_depth(security_id)
        if book is not None and _depth_of(book) != depth:
            doubted = security_id in self._doubted
            self.books[security_id] = replacement = _new_book(depth)
            replacement.doubt(doubted=doubted)
        entries = snapshot.items[-1].values.get("MDEntries", [])
        key, last = MessageKey(*packet_key), snapshot.header.last_rpt_seq
        updates: Iterator[Update | DepthUpdate]
        if depth is None:
            updates = snapshot_orders(key, entries, last, milliseconds=self._milliseconds)
        else:
            updates = snapshot_levels(key, entries, last)
        for update in updates:
            self._apply(security_id, -1, update)

    def _apply(
        self, security_id: int, event: int, update: Update | DepthUpdate
    ) -> BookFault | None:
        book = self.books.get(security_id)
        if book is None:
            book = self.books[security_id] = _new_book(self.market_depth(security_id))
        fault = book.apply(update)  # type: ignore[arg-type]  # `_update` and `_load` match it
        self._listener.on_update(security_id, event, update)
        return fault


def _new_book(depth: int | None) -> LegacyBook:
    return PositionBook() if depth is None else PriceDepthBook(depth)


def _depth_of(book: LegacyBook) -> int | None:
    return book.market_depth if isinstance(book, PriceDepthBook) else None


def _header(message: LegacyMessage) -> SnapshotHeader:
    """Build a snapshot header like the binary feed's from a message with a complete snapshot."""
    values = message.values
    entries = values.get("MDEntries", [])
    sides = [SIDES.get(entry.get("MDEntryType")) for entry in entries]
    # PUMA counts per message, MEGABOLSA per entry (002 §15.2).
    counts = [entry.get("RptSeq") or 0 for entry in entries]
    return SnapshotHeader(
        values["SecurityID"],
        values["LastMsgSeqNumProcessed"],
        values.get("TotNumReports") or 0,
        sides.count(SIDES["0"]),
        sides.count(SIDES["1"]),
        0,
        values.get("RptSeq") or max(counts, default=0) or None,
        None,
    )
