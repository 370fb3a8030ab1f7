"""A channel followed live on the fast path: many datagrams per call, compiled where possible.

It is a `Channel`, and emits the same events for the same datagrams. Packets that are next in
sequence go through a kernel (`pregao.feed.fastpath.driver`); all others, and everything that the
passage of time causes, go through the plain path. Each continues where the other stopped. Without
numba, the plain path does everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from pregao import events as channel_events
from pregao.book.array_book import FlatBook
from pregao.book.order_book import OrderBook
from pregao.errors import DecodeError
from pregao.extras import kernels_compiled
from pregao.feed.channel.channel import MIN_OUTDATED_PACKETS, Channel
from pregao.feed.channel.channel_base import ChannelBook
from pregao.feed.channel.event_publisher import MessageBacklog
from pregao.feed.channel.follower import Follower
from pregao.feed.channel.instruments import ChannelInstrument
from pregao.feed.channel.market_state import Key, Statistic
from pregao.feed.channel.packets import RawPacket, instruments_of
from pregao.feed.channel.settings import ChannelCounters, ChannelSettings, ChannelState
from pregao.feed.fastpath import _layout as w
from pregao.feed.fastpath.driver import (
    DatagramColumns,
    FastPathDriver,
    PendingMessages,
)
from pregao.feed.fastpath.message_reader import FastPathEventDecoder
from pregao.feed.fastpath.templates import FastPathTables
from pregao.feed.required_fields import read_message
from pregao.umdf import templates
from pregao.umdf.gaps import NEVER_DISCARDED
from pregao.umdf.layout import FRAMING_SIZE, MESSAGE_HEADER, MIN_MESSAGE_SIZE, PACKET_HEADER_SIZE
from pregao.umdf.packets import PacketDecoder, PacketHeader, decode_header
from pregao.umdf.phases import Phases
from pregao.umdf.sequencing import PacketKey
from pregao.umdf.streams import Stream

_MAX_PAUSE: Final = 64
"""Maximum number of packets without the kernel, after packets that it could not process."""


class FastChannel(Channel):
    """Follows one channel over its feeds, like `Channel`, many datagrams per call."""

    def __init__(self, settings: ChannelSettings, decoder: PacketDecoder | None = None) -> None:
        super().__init__(settings, decoder)
        self._tables = FastPathTables(self._decoder, self._emitter.templates)
        self._driver = FastPathDriver(settings.number, self._tables)
        self.current = 0
        """The index of the datagram being processed, which identifies one that fails."""
        self._handed = False
        """Whether the kernel is ahead of the plain path."""
        self._known: Follower | None = None
        """The follower whose instruments the kernel has."""
        self._lines: dict[int, tuple[Stream, str]] = {}
        self._lines_of: tuple[str, ...] = ()
        """The site whose lines the kernel has."""
        self._pause = self._pausing = 0
        self._looked_at: RawPacket | None = None
        """The packet that was decoded last, to find the instruments that it concerns."""
        self._fast_path_packets = 0
        self._backlog = MessageBacklog()
        self._event_decoder = FastPathEventDecoder(self._decoder, self._emitter)

    def _new_book(self) -> OrderBook:
        return FlatBook() if kernels_compiled() else super()._new_book()

    # Datagrams

    def set_lines(self, lines: Mapping[int, tuple[Stream, str]]) -> None:
        """Set the stream and feed of each line."""
        self._take_back()
        self._lines = dict(lines)
        self._lines_of = ()

    def receive_many(
        self,
        datagrams: DatagramColumns,
        first: int = 0,
        last: int | None = None,
        *,
        singly: bool = False,
    ) -> int:
        """Process datagrams ``first`` to ``last``. Returns the index after those processed.

        With ``singly``, stop after each packet that produced output, for callers that read the
        books at that time.
        """
        last = len(datagrams.offset) if last is None else last
        driver = self._driver
        index = first
        while index < last:
            self.current = index
            done = 0
            if self._pausing:
                self._pausing -= 1
            elif self._hand_over():
                driver.set_singly(singly=singly)
                before, index = index, driver.run(datagrams, index, last)
                self.current = min(index, last - 1)
                status = driver.status
                if index > before:
                    self._pause = 0
                if status in (w.DONE, w.EVENTS_PENDING):
                    return index
                if status == w.BOOK_FULL:
                    driver.grow_book()
                    continue
                if status == w.ROWS_FULL:
                    self._emit_pending()
                    continue
                if status == w.INCONSISTENT:
                    done = driver.detail
                elif self._read_schema(datagrams, index):
                    continue
                elif self._pass_over(datagrams, index):
                    index += 1
                    if singly:
                        return index
                    continue
                elif index == before:
                    self._pause = min(2 * self._pause + 1, _MAX_PAUSE)
                    self._pausing = self._pause
            self._plain(datagrams, index, done)
            index += 1
            if singly:
                return index
        return index

    def _plain(self, datagrams: DatagramColumns, at: int, done: int) -> None:
        line = self._lines.get(int(datagrams.line[at]))
        if line is None:
            return
        when = int(datagrams.time_ns[at])
        payload = datagrams.payload(at)
        concerned = self._concerned(*line, payload, when)
        self._take_back(concerned)
        self._applied_messages = done
        super().receive(*line, payload, when, when)
        if concerned is not None:
            self._pausing = self._pause = 0
            if not self._hand_over():
                self._sync_instruments()

    def _concerned(
        self, stream: Stream, feed: str, payload: bytes, when: int
    ) -> frozenset[int] | None:
        """Return the instruments of a packet that is next in sequence; None if it may be all."""
        if not self._handed or stream is not Stream.INCREMENTAL or feed not in self._sites.feeds:
            return None
        if when >= self._driver.silent_ns:
            return None
        try:
            header = decode_header(payload)
        except DecodeError:
            return None
        if (header.sequence_version, header.sequence_number) != self._driver.last_packet()[:2]:
            return None
        if header.channel != self.settings.number:
            return None
        self._looked_at = RawPacket.from_payload(header, payload, when)
        return instruments_of(self._looked_at.decoded(self._decoder))

    def _locate_messages(self, header: PacketHeader, payload: bytes, received_ns: int) -> RawPacket:
        looked_at, self._looked_at = self._looked_at, None
        if looked_at is not None and looked_at.payload is payload:
            return looked_at
        return super()._locate_messages(header, payload, received_ns)

    def _read_schema(self, datagrams: DatagramColumns, at: int) -> bool:
        """Switch to the schema version of a packet. Returns False if unsupported or already set."""
        if int(datagrams.length[at]) < PACKET_HEADER_SIZE + MIN_MESSAGE_SIZE:
            return False
        start = int(datagrams.offset[at]) + PACKET_HEADER_SIZE + FRAMING_SIZE
        _, _, schema_id, version = MESSAGE_HEADER.unpack_from(datagrams.buffer.data, start)
        return self._driver.set_schema(schema_id, version)

    def _pass_over(self, datagrams: DatagramColumns, at: int) -> bool:
        """Process a packet whose only message concerns no book, without leaving the kernel."""
        if int(datagrams.length[at]) < PACKET_HEADER_SIZE + MIN_MESSAGE_SIZE:
            return False
        start = int(datagrams.offset[at]) + PACKET_HEADER_SIZE + FRAMING_SIZE
        _, template_id, _, _ = MESSAGE_HEADER.unpack_from(datagrams.buffer.data, start)
        if template_id not in NEVER_DISCARDED:
            return False
        emitter = self._emitter
        if template_id != templates.NEWS and not emitter.state.definitions.complete:
            return False  # it determines which streams are needed
        payload = datagrams.payload(at)
        try:
            raw = RawPacket.from_payload(decode_header(payload), payload, 0)
        except DecodeError:
            return False
        if raw.broken or len(raw.frames) != 1:
            return False
        frame = raw.frames[0]
        decoded = read_message(self._decoder, payload, frame).decoded
        if decoded is None:
            return False
        self._emit_pending()
        driver = self._driver
        if not driver.pass_over(datagrams, at):
            return False
        version, following, *times = driver.last_packet()
        key = PacketKey(version, following - 1)
        emitter.set_packet(key, *times)
        emitter.now_ns = driver.now_ns
        emitter.on_message(key, driver.event, template_id, decoded.values)
        return True

    # Between the plain path and the kernel

    def _hand_over(self) -> bool:
        """Switch to the kernel, unless only the plain path has some of the state.

        Returns whether the kernel runs.
        """
        if self._handed:
            return True
        if not kernels_compiled():
            return False
        arbiter, follower, life = self._arbiter, self._follower, self._sites.life
        expected = arbiter.expected
        if not arbiter.calm or not follower.simple or life.down or expected is None:
            return False
        if self._recovery.idle:  # each packet may cause a failover
            return False
        if follower.position != (expected.sequence_version, expected.sequence_number - 1):
            return False
        self._know_instruments()
        touched = self._emitter.take_touched()
        if not all(map(self._driver.has_instrument, touched)):
            self._emitter.put_touched(touched)
            return False
        feeds = self._sites.feeds
        if self._lines_of != feeds:
            self._lines_of = feeds
            self._driver.set_lines(
                {
                    line: feeds.index(feed)
                    for line, (stream, feed) in self._lines.items()
                    if stream is Stream.INCREMENTAL and feed in feeds[: w.MAX_FEEDS]
                }
            )
        key, event, over = follower.events.running
        if key is not None and (key[0] != expected[0] or expected[1] - key[1] not in (0, 1)):
            over = True
        driver = self._driver
        driver.touch(touched)
        driver.set_feeds([(arbiter.reached(feed), 0) for feed in feeds[: w.MAX_FEEDS]])
        driver.set(
            version=expected.sequence_version, next=expected.sequence_number,
            whole_since=arbiter.whole_since, now=self._now_ns, since=life.since_ns,
            limit=life.limit_ns, progress=self._progress_ns, outdated=self._outdated,
            max_outdated=MIN_OUTDATED_PACKETS, event=event, event_at=0, begins=over,
            wanted=self._emitter.wanted,
        )  # fmt: skip
        self._handed = True
        return True

    def _know_instruments(self) -> None:
        follower, driver = self._follower, self._driver
        if self._known is not follower:
            self._known = follower
            driver.clear()
        for security_id in follower.moved:
            book = follower.books.get(security_id)
            flat = book if isinstance(book, FlatBook) else None
            steady = follower.is_steady(security_id) and (flat is None or flat.steady)
            last = follower.followed(security_id).count.last
            driver.set_instrument(security_id, last, flat, steady=steady)
        follower.moved.clear()

    def _take_back(self, concerned: frozenset[int] | None = None) -> None:
        """Switch to the plain path where the kernel stopped, with the given instruments or all."""
        if self._handed:
            self._emit_pending()
            self._sync(concerned)
            self._emitter.put_touched(self._driver.touched())
            self._handed = False

    def _emit_pending(self) -> None:
        """Emit the output rows as events; without listeners, queue their messages."""
        if not (self._handed and self._driver.waiting):
            return
        emitter, driver = self._emitter, self._driver
        version, following, *times = driver.last_packet()
        if emitter.backlog is not None:
            messages = driver.take_messages()
            emitter.backlog.add(partial(self._process, version, messages), len(messages))
            return
        self._event_decoder.on_rows(version, driver.take_rows(), driver.stored, driver.securities)
        emitter.set_packet(PacketKey(version, following - 1), *times)

    def _process(self, version: int, messages: PendingMessages, limit: int) -> int:
        """Emit the events of at most ``limit`` queued messages. Returns how many are left."""
        self._event_decoder.on_rows(version, messages.take(limit), messages.stored, ())
        return len(messages)

    def catch_up(self, limit: int) -> None:
        """Update statistics and phases from at most ``limit`` queued messages, in idle time."""
        if len(self._backlog):
            self._emitter.catch_up(limit)
        elif self._handed and self._emitter.backlog is not None:
            self._emit_pending()

    def _sync(self, concerned: frozenset[int] | None = None) -> None:
        """Copy the kernel's state to the plain path; the kernel may continue.

        With ``concerned``, copy only these instruments: the next packet needs no others.
        """
        if self._handed:
            self._sync_last_packet()
            self._sync_instruments(concerned)

    def _sync_last_packet(self) -> None:
        driver, follower, emitter = self._driver, self._follower, self._emitter
        words, tallies = driver.words(), driver.tallies()
        if not (tallies["packets"] or words["event_at"]):
            return
        self._fast_path_packets += tallies["packets"]
        counters = self._counters
        for name, count in tallies.items():
            setattr(counters, name, getattr(counters, name) + count)
        reached = {}
        feeds = self._sites.feeds[: w.MAX_FEEDS]
        for feed, own in zip(feeds, driver.feeds(len(feeds)), strict=True):
            reached[feed] = own.reached
            if own.packets:
                self._sites.on_packet(feed, own.last_received_ns)
                of_feed = counters.feeds[feed]
                of_feed.packets += own.packets
                of_feed.first_arrivals += own.first
                of_feed.duplicates += own.duplicates
                of_feed.heartbeats += own.heartbeats
        self._now_ns, self._progress_ns = words["now"], words["progress"]
        self._outdated = words["outdated"]
        self._arbiter.resume_at(words["next"], reached)
        version = words["version"]
        if tallies["delivered"]:
            key = PacketKey(version, words["next"] - 1)
            follower.continue_from(key)
            emitter.set_packet(key, words["sending"], words["received"])
            emitter.now_ns = self._now_ns
        if words["event_at"]:  # of the last packet, or of one applied in part
            key = PacketKey(version, words["event_at"])
            follower.events.resume_at(key, words["event"], over=bool(words["begins"]))
            driver.set(event_at=0)

    def _sync_instruments(self, concerned: frozenset[int] | None = None) -> None:
        follower = self._follower
        version = self._driver.last_packet()[0]
        for each in self._driver.changed(concerned):
            follower.followed(each.security_id).resume_at(
                PacketKey(version, each.number), each.counted
            )
            if each.key is not None:
                book = follower.books[each.security_id]
                assert isinstance(book, FlatBook)
                book.take((version, *each.key), each.book_counted)

    # State and time

    @property
    def fast_path_packets(self) -> int:
        """Number of packets that the kernel processed."""
        self._sync()
        return self._fast_path_packets

    @property
    def counters(self) -> ChannelCounters:
        """Counters since the start."""
        self._sync()
        return super().counters

    @property
    def state(self) -> ChannelState:
        """State of the channel."""
        self._sync()
        return super().state

    @property
    def last_packet(self) -> PacketKey | None:
        """The last packet applied, or the one before the next packet named by a heartbeat."""
        self._sync()
        return super().last_packet

    @property
    def instruments(self) -> Mapping[int, ChannelInstrument]:
        """Instruments by security ID."""
        self._emit_pending()
        self._emitter.catch_up()
        return super().instruments

    @property
    def phases(self) -> Phases:
        """Phases of groups and states of instruments."""
        self._emit_pending()
        self._emitter.catch_up()
        return super().phases

    def statistics(self, security_id: int) -> Mapping[Key, Statistic]:
        """Return the statistics of an instrument by name and kind."""
        self._emit_pending()
        self._emitter.catch_up()
        return super().statistics(security_id)

    def book(self, security_id: int) -> ChannelBook:
        """Return the book of an instrument and its state."""
        self._sync()
        return super().book(security_id)

    def is_alive(self, feed: str) -> bool:
        """Whether anything arrived on the feed within the last heartbeats."""
        self._sync()
        return super().is_alive(feed)

    def take_events(self) -> list[channel_events.ChannelEvent]:
        """Return the events since the last call, in order."""
        self._emit_pending()
        return super().take_events()

    def enable_events(self, *, enabled: bool) -> None:
        """Enable or disable events; while they are disabled, none are kept."""
        self._emit_pending()
        self._emitter.catch_up()
        super().enable_events(enabled=enabled)
        self._emitter.backlog = None if enabled else self._backlog
        self._driver.set(wanted=enabled)

    def restart(self, now_ns: int) -> None:
        """Rebuild everything from the recovery streams: processing a packet failed midway."""
        # The kernel may be ahead of the plain path, or in the middle of a packet.
        wanted = self._emitter.wanted
        self._driver = FastPathDriver(self.settings.number, self._tables)
        self._driver.set(wanted=wanted)
        self._handed = False
        self._known, self._looked_at, self._lines_of = None, None, ()
        self._pausing = self._pause = 0
        self._backlog = MessageBacklog()
        self._emitter.backlog = None if wanted else self._backlog
        self._event_decoder = FastPathEventDecoder(self._decoder, self._emitter)
        super().restart(now_ns)

    def start(self, now_ns: int) -> None:
        """Start: request the streams that are needed."""
        self._take_back()
        super().start(now_ns)

    def tick(self, now_ns: int) -> None:
        """Advance the clock: declare missing packets lost, detect silence."""
        self._take_back()
        super().tick(now_ns)

    def deadline(self) -> int | None:
        """Return when `tick` must be called next; None while nothing is pending."""
        if not self._handed:
            return super().deadline()
        # Only the next packet, parts of news items and the check of streams are pending.
        others = (self._emitter.news_deadline_ns, self._silence.deadline_ns)
        return min(self._driver.silent_ns, *(each for each in others if each is not None))

    def receive(
        self,
        stream: Stream,
        feed: str,
        payload: bytes,
        now_ns: int,
        received_ns: int | None = None,
    ) -> None:
        """Process a datagram received on a stream of a feed."""
        self._take_back()
        super().receive(stream, feed, payload, now_ns, received_ns)
