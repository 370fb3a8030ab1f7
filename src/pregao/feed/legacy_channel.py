"""Follows a channel of the legacy feed over its feeds: datagrams and times in, books out.

It has the same parts as the binary channel, fed by the streams of `pregao.legacy`, and needs no
sockets and no clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pregao.book.state import State
from pregao.feed.channel_settings import MAX_INSTRUMENTS
from pregao.feed.legacy_follower import LegacyBook, LegacyFollower
from pregao.feed.legacy_state import LegacyState
from pregao.feed.listener import FollowerListener
from pregao.legacy.incremental_line import IncrementalLine, LineEvent, LineGap, LineMessage, LineRestarted
from pregao.legacy.loop_line import LoopLine, LoopMessage
from pregao.legacy.messages import LegacyMessage, MessageReader, MsgType
from pregao.legacy.streams import PUMA, LegacyStream, Platform
from pregao.umdf.arbitration import MAX_WAIT_NS
from pregao.umdf.sequencing import PacketKey


@dataclass(frozen=True, slots=True)
class LegacyStreamSettings:
    """Settings of a followed channel."""

    platform: Platform = PUMA
    feeds: Sequence[str] = ("A", "B")
    market_depth: int | None = None
    """Depth of books without a snapshot; None is a book of all orders."""
    from_the_start: bool = False
    """Whether the first message is the first of its week or day."""
    max_wait_ns: int = MAX_WAIT_NS
    """Maximum wait for a missing message, from the other feed or TCP recovery."""
    recoverable: bool = False
    """Whether TCP recovery is used: then a message may arrive after all feeds have passed it."""
    max_instruments: int = MAX_INSTRUMENTS
    """Maximum number of undefined instruments that are followed, and of defined ones."""


class LegacyStreamFollower:
    """Follows a channel over its streams."""

    def __init__(
        self,
        settings: LegacyStreamSettings | None = None,
        *,
        reader: MessageReader | None = None,
        listener: FollowerListener | None = None,
    ) -> None:
        own = LegacyStreamSettings() if settings is None else settings
        reader = MessageReader() if reader is None else reader
        self.incremental = IncrementalLine(
            own.feeds,
            platform=own.platform,
            reader=reader,
            max_wait_ns=own.max_wait_ns,
            recoverable=own.recoverable,
        )
        self.recovery = LoopLine(own.feeds, reader=reader)
        self.definition = LoopLine(own.feeds, reader=reader)
        self.follower = LegacyFollower(
            from_the_start=own.from_the_start,
            market_depth=own.market_depth,
            listener=listener,
            max_instruments=own.max_instruments,
            milliseconds=own.platform.milliseconds,
        )
        self.state = LegacyState(own.max_instruments, milliseconds=own.platform.milliseconds)

    @property
    def synchronized(self) -> bool:
        """Whether every book is trusted; else the market recovery stream is needed (002 §5.3.5)."""
        return self.follower.position is not None and self.follower.trusted

    @property
    def deadline_ns(self) -> int | None:
        """Time of the next `tick`, if messages are awaited."""
        return self.incremental.deadline_ns

    def book(self, security_id: int) -> LegacyBook | None:
        """Return the book of an instrument; None before its first message."""
        return self.follower.books.get(security_id)

    def book_state(self, security_id: int, now_ns: int | None = None) -> State:
        """Return a book's state; on a failed stream no book is trusted (002 §5.1.1)."""
        state = self.follower.state(security_id)
        if now_ns is None or not self.incremental.is_dead(now_ns) or state is State.STALE:
            return state
        return State.UNCONFIRMED

    def receive(self, stream: LegacyStream, feed: str, datagram: bytes, now_ns: int) -> None:
        """Process a datagram."""
        match stream:
            case LegacyStream.INCREMENTAL:
                self.take(self.incremental.receive(feed, datagram, now_ns))
            case LegacyStream.MARKET_RECOVERY:
                for event in self.recovery.receive(feed, datagram, now_ns):
                    self.follower.snapshot(event)
                    if isinstance(event, LoopMessage) and event.message.type is MsgType.SNAPSHOT:
                        self._shown(event)
            case LegacyStream.INSTRUMENT_DEFINITION:
                for event in self.definition.receive(feed, datagram, now_ns):
                    self.state.definition(event)
                    if isinstance(event, LoopMessage):
                        self._know(event.message)

    def tick(self, now_ns: int) -> None:
        """Advance the clock."""
        self.take(self.incremental.tick(now_ns))

    def take(self, events: Sequence[LineEvent]) -> None:
        """Process events of the incremental stream, in order."""
        for event in events:
            match event:
                case LineMessage(key, message):
                    self.follower.deliver(key, message)
                    self.state.message(message, self.follower.admits)
                    if message.type is MsgType.SECURITY_LIST:
                        self._know(message)
                case LineGap(version, _, last):
                    if last is not None:
                        self.follower.lose(PacketKey(version, last))
                case LineRestarted(key):
                    self.follower.lose(PacketKey(key.sequence_version, key.sequence_number - 1))

    def _know(self, message: LegacyMessage) -> None:
        """Register defined instruments, even without a snapshot; remove deleted ones (002 §8)."""
        for row in message.values.get("RelatedSym", ()):
            security_id = row["SecurityID"]
            if security_id in self.state.instruments:
                self.follower.add_instrument(security_id)
            else:
                self.follower.books.pop(security_id, None)

    def _shown(self, found: LoopMessage) -> None:
        """Use a snapshot's statistics unless newer ones of the instrument were published."""
        message, position = found.message, self.follower.position
        if not self.follower.admits(message.values["SecurityID"]):
            return
        outdated = position is not None and (
            message.values["LastMsgSeqNumProcessed"] < position.sequence_number
        )
        if not outdated or message.values["SecurityID"] not in self.state.statistics:
            self.state.snapshot(message)
