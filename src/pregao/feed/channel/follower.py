"""Follower: packets of a channel in, books out, message by message.

The plain counterpart of `pregao.feed.replay.day`: packets arrive in the order of an arbiter,
snapshots pass through their loop, messages through the counter of their instrument, and the
remaining ones update the books of `pregao.book`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pregao.book.order_book import OrderBook
from pregao.book.position_book import PositionBook
from pregao.book.priority_book import PriorityBook
from pregao.book.state import BookFault, State
from pregao.book.updates import DepthUpdate, MessageKey, Update
from pregao.feed.base_follower import BaseFollower, FollowedMessage, FollowedSnapshot
from pregao.feed.book_updates import book_update, snapshot_updates
from pregao.feed.listener import NO_EVENT, EventMessage, FollowerListener
from pregao.feed.recovery import MAX_INSTRUMENTS, QueueLimits, key_of
from pregao.feed.snapshot_assembly import ends_version, whole_snapshots
from pregao.umdf import templates
from pregao.umdf.events import EventNumbers
from pregao.umdf.gaps import NEVER_DISCARDED, IncrementalMessage
from pregao.umdf.packets import DecodedMessage, DecodedPacket
from pregao.umdf.sequencing import PacketKey

__all__ = ["NO_EVENT", "Follower", "FollowerListener", "gives_position"]


class Follower(BaseFollower[OrderBook]):
    """Follows a channel of Binary UMDF."""

    def __init__(
        self,
        *,
        from_the_start: bool,
        listener: FollowerListener | None = None,
        limits: QueueLimits | None = None,
        only_current: bool = False,
        books: dict[int, OrderBook] | None = None,
        new_book: Callable[[], OrderBook] = PriorityBook,
        max_instruments: int = MAX_INSTRUMENTS,
    ) -> None:
        """Extend `BaseFollower`: ``new_book`` creates a book by price and priority."""
        self._events = EventNumbers()
        self._by_position = False
        self._new_book = new_book
        super().__init__(
            from_the_start=from_the_start,
            listener=listener,
            limits=limits,
            only_current=only_current,
            books=books,
            max_instruments=max_instruments,
        )

    @property
    def simple(self) -> bool:
        """Whether no snapshot waits for a packet, and books are kept by price and priority."""
        return not self._waiting and not self._by_position

    @property
    def events(self) -> EventNumbers:
        """Numbers of the market events."""
        return self._events

    def deliver(self, packet: DecodedPacket, done: int = 0) -> None:
        """Apply the next packet of the sequence; packets before it may be missing.

        ``done`` is the number of its messages that are already applied.
        """
        key = PacketKey(packet.header.sequence_version, packet.header.sequence_number)
        self._arrive(key)
        outcomes = packet.outcomes
        intact = True
        for outcome in outcomes:
            if outcome.reason:
                intact = False
        if not intact:
            self._gap(key, 1)
        ended = False
        for outcome in outcomes[done:]:
            if outcome.decoded is not None and outcome.frame is not None:
                self._message(key, outcome, intact)
                if outcome.frame.template_id == templates.SEQUENCE_RESET:
                    ended = True
        self._pass(key, ended=ended)

    def _message(self, packet_key: PacketKey, found: DecodedMessage, sound: bool) -> None:
        assert found.decoded is not None
        assert found.frame is not None
        values, template = found.decoded.values, found.frame.template_id
        index = found.frame.index_in_packet
        event = self._events.number(packet_key, index, template, values.get("matchEventIndicator"))
        security_id = values.get("securityID")
        if template == templates.CHANNEL_RESET:
            self._channel_reset(packet_key, index, event, sound)
        elif security_id is not None and template not in NEVER_DISCARDED:
            instrument = self._instruments.get(security_id)
            if instrument is None:
                if not self.admits(security_id):
                    self._listener.dropped(template, values)
                    return
                instrument = self._instrument(security_id)
            if self._by_position or "mDEntryPositionNo" in values:
                self._by_position = gives_position(values, self._by_position)
            rpt_seq = values.get("rptSeq") or None
            version, missing = found.frame.version, self._gaps.missing
            self.moved.add(security_id)
            if rpt_seq and sound and instrument.accept_next(packet_key, rpt_seq, missing):
                key = MessageKey(packet_key[0], packet_key[1], index)
                update = book_update(key, template, version, values)
                fault = None if update is None else self._apply(security_id, event, update)
                if fault is not None:
                    part = EventMessage(version, values, template, event)
                    message = IncrementalMessage(
                        packet_key, index, template, security_id, rpt_seq, part
                    )
                    self._on_inconsistent_update(instrument, message, fault)
            else:
                part = EventMessage(version, values, template, event)
                message = IncrementalMessage(
                    packet_key, index, template, security_id, rpt_seq, part
                )
                self._do(instrument, instrument.message(message, missing, sound=sound))
                self._trust(instrument, key_of(message))
        self._listener.on_message(packet_key, event, template, values)

    def snapshot(self, packet: DecodedPacket) -> None:
        """Process a packet of the snapshot stream."""
        header = packet.header
        resets = ends_version(packet)
        if not header.sequenced or not self._loop.packet(
            header.sequence_version, header.sequence_number, resets=resets
        ):
            return
        for snapshot in whole_snapshots(self._loop, packet):
            if not self.admits(snapshot.security_id):
                self._listener.dropped(templates.SNAPSHOT_HEADER, {})
            elif self.position is None:
                self._waiting.came_early(snapshot)
            else:
                self._whole_snapshot(snapshot, self.position)
        if resets and self._loop.complete:
            self._whole_loop()

    def _update(self, message: FollowedMessage) -> Update | None:
        part = message.item
        return book_update(key_of(message), part.template_id, part.version, part.values)

    def _load(self, snapshot: FollowedSnapshot, packet_key: PacketKey) -> None:
        assert snapshot.header is not None
        entries: list[tuple[int, dict[str, Any]]] = []
        for part in snapshot.items:
            if part.template_id == templates.SNAPSHOT_ORDERS:
                entries += [(part.version, entry) for entry in part.values["noMDEntries"]]
        for _, entry in entries[:1]:
            self._by_position = gives_position(entry, self._by_position)
        if self._by_position:
            entries.sort(key=lambda entry: entry[1].get("mDEntryPositionNo") or 0)
        key = MessageKey(*packet_key)
        for update in snapshot_updates(key, snapshot.header, entries):
            self._apply(snapshot.security_id, NO_EVENT, update)

    def _apply(
        self, security_id: int, event: int, update: Update | DepthUpdate
    ) -> BookFault | None:
        book = self.books.get(security_id)
        if book is None or (book.state is State.EMPTY and self._is_other(book)):
            book = PositionBook() if self._by_position else self._new_book()
            self.books[security_id] = book
        fault = book.apply(update)  # type: ignore[arg-type]  # only updates of orders reach it
        self._listener.on_update(security_id, event, update)
        return fault

    def _is_other(self, book: OrderBook) -> bool:
        return isinstance(book, PositionBook) != self._by_position


def gives_position(values: dict[str, Any], before: bool) -> bool:
    """Return whether messages carry order positions; ``before`` for one without an order."""
    if "mDEntryPositionNo" in values:
        return values["mDEntryPositionNo"] is not None
    return before and "secondaryOrderID" not in values
