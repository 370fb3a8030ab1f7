"""The events of a followed channel, collected until they are taken: which books change, and how far
they can be trusted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pregao.book.updates import Confirmed as BookConfirmed
from pregao.book.updates import DepthUpdate, Doubted, Update
from pregao.feed import channel_events as told
from pregao.feed.channel_settings import ChannelCounters
from pregao.feed.healing import Gap, Healed
from pregao.feed.listener import Listener
from pregao.umdf.sequencing import Place


class EventLog(Listener):
    """Collects what a follower tells, and counts it."""

    def __init__(self, most_events: int, counters: ChannelCounters) -> None:
        self.place: Place | None = None
        """Where what is told now happens, when it was sent, and when it was received."""
        self.sending_ns = self.received_ns = 0
        self.wanted = True
        """Is anybody to be told?"""
        self._counters = counters
        self._most = most_events
        self._events: list[told.Event] = []
        self._missed = 0
        self._touched: dict[int, int] = {}
        """The books that changed in the event that is not over yet, and its number."""

    def tell(self, kind: Callable[..., told.Event], *values: Any) -> None:
        """Tell an event of here and now."""
        if self.wanted:
            self.add(kind(self.place, self.sending_ns, self.received_ns, *values))

    def add(self, event: told.Event) -> None:
        """Tell an event; whether anybody is to be told, the caller has asked."""
        if len(self._events) >= self._most:
            # A slow reader never stops the feed: it is told that it has missed something.
            self._missed += len(self._events)
            self._counters.events_missed += len(self._events)
            self._events.clear()
        self._events.append(event)

    def take(self) -> list[told.Event]:
        """The events since they were last taken, in order."""
        events, self._events = self._events, []
        if self._missed:
            first = told.EventsMissed(self.place, self.sending_ns, self.received_ns, self._missed)
            events.insert(0, first)
            self._missed = 0
        return events

    def at(self, place: Place | None, sending_ns: int, received_ns: int) -> None:
        """What is told from here on happens there and then."""
        self.place, self.sending_ns, self.received_ns = place, sending_ns, received_ns

    def end_event(self) -> None:
        """Tell of the books that changed: the event is over, or its end was lost."""
        touched, self._touched = self._touched, {}
        for security_id, event in touched.items():
            self.tell(told.BookChanged, security_id, event)

    # Books

    def updated(self, security_id: int, event: int, update: Update | DepthUpdate) -> None:
        """A book took an update in."""
        kind = type(update)
        if kind is Doubted:
            self._counters.unconfirmed += 1
            self.tell(told.Unconfirmed, security_id)
        elif kind is BookConfirmed:
            self._counters.confirmed += 1
            self.tell(told.Confirmed, security_id)
        else:
            self._touched[security_id] = event

    def dropped(self, template_id: int, values: Mapping[str, Any]) -> None:  # noqa: ARG002
        """A message of an instrument beyond the limit was dropped."""
        self._counters.instruments_dropped += 1

    def stale(self, gap: Gap) -> None:
        """A book is not to be trusted any more."""
        self._counters.stale += 1
        self.tell(told.Stale, gap.security_id, gap.reason)

    def healed(self, healed: Healed) -> None:
        """A stale book is sound again."""
        self._counters.healed += 1
        self.tell(told.Healed, healed.gap.security_id, healed.by.name.lower())
