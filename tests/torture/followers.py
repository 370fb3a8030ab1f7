"""Live handlers of the torture, and the truth that every book they call valid is compared with."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import Counter
from dataclasses import replace
from typing import Any

from pregao.book.state import State
from pregao.book.updates import Side
from pregao.clock import MILLISECOND
from pregao.feed.channel.channel import Channel
from pregao.feed.channel.settings import ChannelSettings, Join, LegacyFeed
from pregao.feed.legacy.channel import LegacyFeedChannel
from pregao.legacy.incremental_line import LineMessage
from pregao.umdf import templates
from pregao.umdf.layout import FRAMING_SIZE
from pregao.umdf.packets import PacketDecoder, decode_header, encode_packet, frames
from pregao.umdf.sequencing import PacketKey
from pregao.umdf.streams import Stream
from tests.feed.channel_days import comparable_state
from tests.feed.test_feed_fastpath import Both, comparable_book

CHANNEL = 51
OTHER_SITE = 1_000
"""Distance of the other site's sequence versions."""
CLAIMS = (State.VALID, State.EMPTY)
Book = tuple[tuple[Any, ...], tuple[Any, ...]]


class Truth:
    """Books of the exchange at each point of the feeds, and when they changed."""

    def __init__(self, security_ids: list[int]) -> None:
        self.at = -1
        self._index: dict[Any, int] = {}
        self.restarted_ms: set[int] = set()
        """When the publisher restarted: if a clock that was set back stands still, messages before
        and after have the same numbers and time."""
        self._books: dict[int, list[tuple[int, Book]]] = {each: [] for each in security_ids}
        self.changed_ns: dict[int, list[tuple[int, Book]]] = {each: [] for each in security_ids}

    def record(self, engine: Any, points: list[Any], now_ns: int) -> None:
        """Record the books as the state after some points of the feeds."""
        self.at += 1
        for point in points:
            self._index[point] = self.at
        for security_id, known in self._books.items():
            view = engine.book(security_id)
            book = _side(view.bids), _side(view.offers)
            if not known or known[-1][1] != book:
                known.append((self.at, book))
                self.changed_ns[security_id].append((now_ns, book))

    def book(self, security_id: int, point: Any) -> Book | None:
        """Return the book at a point; None if the point is within a packet or a turn."""
        at = self._index.get(point)
        if at is None or (point[0] == "legacy" and point[2] in self.restarted_ms):
            return None
        known = self._books[security_id]
        found = bisect_right(known, at, key=lambda each: each[0]) - 1
        return known[found][1] if found >= 0 else ((), ())

    def last(self, security_id: int) -> Book:
        """Return the book now."""
        known = self._books[security_id]
        return known[-1][1] if known else ((), ())

    def at_time(self, security_id: int, time_ns: int) -> Book:
        """Return the book after all packets sent up to a time."""
        known = self.changed_ns[security_id]
        found = bisect_right(known, time_ns, key=lambda each: each[0]) - 1
        return known[found][1] if found >= 0 else ((), ())

    @property
    def security_ids(self) -> list[int]:
        """All instruments."""
        return list(self._books)


def _side(entries: Any) -> tuple[Any, ...]:
    return tuple((each.price, each.size, each.secondary_order_id) for each in entries)


def content(book: Any) -> Book:
    """The orders of a followed book, as the truth has them."""
    bids, asks = (
        tuple((each.price, each.size, each.order_id) for each in book.orders(side)) for side in Side
    )
    return bids, asks


class BinaryFollower(Both):
    """The plain handler and the fast path on the same lines."""

    def __init__(self, settings: ChannelSettings, truth: Truth, seed: str) -> None:
        draw = random.Random(seed)
        super().__init__(settings, draw)
        self.often, self.deaf = draw.choice((1.0, 0.2, 0.05)), 0.0
        self.truth = truth
        self.compared: Counter[str] = Counter()
        self._known: dict[int, Book] = {}
        emitter = self.plain._emitter
        updated = emitter.on_update

        def noted(security_id: int, event: int, update: Any) -> None:
            self._known.pop(security_id, None)
            updated(security_id, event, update)

        emitter.on_update = noted
        emitter.on_packet = lambda _packet_key: self.check()

    def check(self) -> None:
        """Compare every book that is called valid or empty with the truth."""
        point = self.plain.last_packet
        for security_id in self.truth.security_ids:
            book = self.plain.book(security_id)
            if book.state not in CLAIMS:
                self.compared["untrusted"] += 1
                continue
            if security_id not in self._known:
                self._known[security_id] = content(book.content)
            truth = self.truth.book(security_id, point)
            if truth is not None:
                assert self._known[security_id] == truth, (security_id, point, book.state)
                self.compared["compared"] += 1

    def receive(self, when: int, stream: Stream, feed: str, payload: bytes) -> None:
        """Receive a packet; both handlers get it if they have joined its stream."""
        super().receive(when, stream, feed, payload)
        self.check()

    def advance(self, now_ns: int) -> None:
        """Advance the clock of both handlers."""
        while (deadline := self.plain.deadline()) is not None and deadline <= now_ns:
            self.flush()
            self.plain.tick(deadline)
            self.pumped.tick(deadline)
            self._act()
            self.compare()
            self.check()

    def converged(self, reference: Channel) -> bool:
        """Whether every book of the exchange is trusted, as of the last packet."""
        last = reference.last_packet
        assert last is not None
        if self.plain.last_packet not in (last, other_key(last)):
            return False
        return all(self.plain.book(each).trusted for each in self.truth.security_ids)

    def check_end(self, reference: Channel) -> None:
        """Both handlers have the exchange's books, and the state of one that lost nothing."""
        self.end()
        for security_id in self.truth.security_ids:
            for channel in (self.plain, self.pumped):
                book = channel.book(security_id)
                assert book.state in CLAIMS, (security_id, book.state, book.reason)
                assert content(book.content) == self.truth.last(security_id), security_id
            assert comparable_book(self.plain.book(security_id)) == comparable_book(
                self.pumped.book(security_id)
            )
        assert comparable_state(self.plain) == comparable_state(reference)
        assert self.plain.counters.failures == self.pumped.counters.failures == 0


class LegacyFollower:
    """The handler of the legacy feed."""

    def __init__(self, truth: Truth, settings: ChannelSettings) -> None:
        self.truth = truth
        self.channel = LegacyFeedChannel(settings)
        self.listening: set[tuple[Stream, str]] = set()
        self.compared: Counter[str] = Counter()
        self.events: Counter[str] = Counter()
        self.log: list[str] = []
        self._point: Any = None
        inner = self.channel._channel
        taken = inner.take

        def take(events: Any) -> None:
            taken(events)
            for event in events:
                if isinstance(event, LineMessage):
                    sent_ns = event.message.sending_time_ns or 0
                    self._point = legacy_point(event.message.number, sent_ns)
                    self.check()

        inner.take = take

    def start(self, now_ns: int) -> None:
        """Join the streams."""
        self.channel.start(now_ns)
        self._act()

    def _act(self) -> None:
        for action in self.channel.take_actions():
            key = (action.stream, action.feed)
            (self.listening.add if isinstance(action, Join) else self.listening.discard)(key)
        for event in self.channel.take_events():
            self.events[type(event).__name__] += 1
            self.log.append(repr(event))

    def check(self) -> None:
        """Compare every book that is called valid or empty with the truth."""
        for security_id in self.truth.security_ids:
            book = self.channel.book(security_id)
            if book.state not in CLAIMS:
                self.compared["untrusted"] += 1
                continue
            truth = self.truth.book(security_id, self._point)
            if truth is not None:
                assert content(book.content) == truth, (security_id, self._point, book.state)
                self.compared["compared"] += 1

    def receive(self, when: int, stream: Stream, feed: str, payload: bytes) -> None:
        """Receive a datagram, if its stream was joined."""
        self.advance(when)
        if (stream, feed) in self.listening:
            self.channel.receive(stream, feed, payload, when)
            self.check()
            self._act()

    def advance(self, now_ns: int) -> None:
        """Advance the clock of the handler."""
        while (deadline := self.channel.deadline()) is not None and deadline <= now_ns:
            self.channel.tick(deadline)
            self.check()
            self._act()
            if self.channel.deadline() == deadline:
                break

    def converged(self, last_ns: int) -> bool:
        """Whether every book of the exchange is trusted, as of the last message."""
        if self._point is None or self._point[2] != last_ns // MILLISECOND:
            return False
        return all(self.channel.book(each).trusted for each in self.truth.security_ids)

    def check_end(self, reference: Channel) -> None:
        """The handler has the exchange's books, and the states of the binary feed."""
        for security_id in self.truth.security_ids:
            book = self.channel.book(security_id)
            assert book.state in CLAIMS, (security_id, book.state, book.reason)
            assert content(book.content) == self.truth.last(security_id), security_id
            status, own = reference.phases.status(security_id), self.channel.phases
            assert own.status(security_id) is status, security_id
        assert self.channel.counters.failures == 0


def legacy_point(number: int, time_ns: int) -> tuple[str, int, int]:
    """A point of the legacy feed: its numbers restart, so the sending time belongs to it."""
    return "legacy", number, time_ns // MILLISECOND


class OtherSite:
    """Writes the packets of the backup site, which numbers its sequence versions separately."""

    def __init__(self) -> None:
        self._decoder = PacketDecoder()

    def packet(self, stream: Stream, payload: bytes) -> bytes:
        """Return a packet as the other site sends it."""
        header = decode_header(payload)
        if stream is Stream.INCREMENTAL:
            header = header._replace(sequence_version=header.sequence_version + OTHER_SITE)
        elif stream is not Stream.SNAPSHOT:
            return payload
        messages = []
        for frame in frames(payload):
            message = payload[frame.position + FRAMING_SIZE : frame.end]
            if frame.template_id == templates.SNAPSHOT_HEADER:
                values = self._decoder.outcome(payload, frame).decoded.values
                if "lastSequenceVersion" in values:
                    version = values["lastSequenceVersion"] + OTHER_SITE
                    values = values | {"lastSequenceVersion": version}
                codec = self._decoder.codec(frame.schema_id, frame.version)
                message = codec.codec(frame.template_id).encode(values)
            messages.append(message)
        return encode_packet(header, messages)


def other_key(packet_key: PacketKey) -> PacketKey:
    """The key of the same packet on the other site."""
    return PacketKey(packet_key.sequence_version + OTHER_SITE, packet_key.sequence_number)


def binary_settings(**changes: Any) -> ChannelSettings:
    """Settings of the binary channel."""
    return ChannelSettings(CHANNEL, **changes)


def legacy_settings(*, sites: bool) -> ChannelSettings:
    """Settings of the legacy channel: both loops are on feed A, or on those of two sites."""
    feeds = ("A", "B") if sites else ("A",)
    legacy = LegacyFeed(snapshot_feeds=feeds, definition_feeds=feeds)
    return replace(ChannelSettings(CHANNEL), legacy=legacy)
