"""Log of a channel's events until they are taken: changes of books and of their trust."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pregao.book.updates import DepthUpdate, GapPossible, Update
from pregao.book.updates import GapExcluded as BookConfirmed
from pregao.feed import channel_events as told
from pregao.feed.channel_settings import ChannelCounters
from pregao.feed.healing import InstrumentGap, MarkHealed
from pregao.feed.listener import FollowerListener
from pregao.umdf.sequencing import PacketKey


class EventLog(FollowerListener):
    """Collects and counts the events of a follower."""

    def __init__(self, max_events: int, counters: ChannelCounters) -> None:
        self.place: PacketKey | None = None
        """Packet key, sending time and reception time of the next events."""
        self.sending_ns = self.received_ns = 0
        self.wanted = True
        """Whether events are enabled."""
        self._counters = counters
        self._max_events = max_events
        self._events: list[told.ChannelEvent] = []
        self._missed = 0
        self._touched: dict[int, int] = {}
        """Books that changed in the unfinished market event, and its number."""

    def emit(self, kind: Callable[..., told.ChannelEvent], *values: Any) -> None:
        """Emit an event of the current packet, if events are enabled."""
        if self.wanted:
            self.add(kind(self.place, self.sending_ns, self.received_ns, *values))

    def add(self, event: told.ChannelEvent) -> None:
        """Append an event; the caller has checked that events are enabled."""
        if len(self._events) >= self._max_events:
            # A slow reader never stops the feed: it receives `EventsMissed`.
            self._missed += len(self._events)
            self._counters.events_missed += len(self._events)
            self._events.clear()
        self._events.append(event)

    def take(self) -> list[told.ChannelEvent]:
        """Return the events since the last call, in order."""
        events, self._events = self._events, []
        if self._missed:
            first = told.EventsMissed(self.place, self.sending_ns, self.received_ns, self._missed)
            events.insert(0, first)
            self._missed = 0
        return events

    def set_packet(self, packet_key: PacketKey | None, sending_ns: int, received_ns: int) -> None:
        """Set the packet key and times of the next events."""
        self.place, self.sending_ns, self.received_ns = packet_key, sending_ns, received_ns

    def end_event(self) -> None:
        """Emit the changed books: the market event is complete, or its end was lost."""
        touched, self._touched = self._touched, {}
        for security_id, event in touched.items():
            self.emit(told.BookChanged, security_id, event)

    # Books

    def on_update(self, security_id: int, event: int, update: Update | DepthUpdate) -> None:
        """Record that an update was applied to a book."""
        kind = type(update)
        if kind is GapPossible:
            self._counters.unconfirmed += 1
            self.emit(told.BookUnconfirmed, security_id)
        elif kind is BookConfirmed:
            self._counters.confirmed += 1
            self.emit(told.BookConfirmed, security_id)
        else:
            self._touched[security_id] = event

    def dropped(self, template_id: int, values: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Count a dropped message of an instrument beyond the limit."""
        self._counters.instruments_dropped += 1

    def on_stale(self, gap: InstrumentGap) -> None:
        """Emit that a book is no longer trusted."""
        self._counters.stale += 1
        self.emit(told.BookStale, gap.security_id, gap.reason)

    def on_healed(self, healed: MarkHealed) -> None:
        """Emit that a stale book is valid again."""
        self._counters.healed += 1
        self.emit(told.BookHealed, healed.gap.security_id, healed.by.name.lower())
