"""A channel of the legacy feed, followed over its feeds: datagrams and a time in, books out.

The same parts as the binary channel's, behind the streams of `pregao.legacy`: without sockets and
without a clock of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pregao.book.faults import State
from pregao.feed.channel_settings import MAX_INSTRUMENTS
from pregao.feed.legacy_follower import LegacyBook, LegacyFollower
from pregao.feed.legacy_state import LegacyState
from pregao.feed.listener import Listener
from pregao.legacy import (
    PUMA,
    Began,
    IncrementalLine,
    InLoop,
    LegacyMessage,
    LineEvent,
    LoopLine,
    MessageReader,
    Missing,
    MsgType,
    Platform,
    Stream,
    Told,
)
from pregao.umdf.arbitration import MOST_WAIT_NS
from pregao.umdf.sequencing import Place


@dataclass(frozen=True, slots=True)
class LegacyChannelSettings:
    """How a channel is followed."""

    platform: Platform = PUMA
    feeds: Sequence[str] = ("A", "B")
    market_depth: int | None = None
    """Of books without a snapshot; None is a book of all orders."""
    from_the_start: bool = False
    """Is the first message the first of its week or day?"""
    most_wait_ns: int = MOST_WAIT_NS
    """So long a missing message is waited for, from the other feed or from TCP recovery."""
    asked_for: bool = False
    """Is it asked for over TCP? Then it may come when every feed is past it."""
    max_instruments: int = MAX_INSTRUMENTS
    """So many instruments are followed that nothing has defined, and so many that are defined."""


class LegacyChannel:
    """Follows a channel."""

    def __init__(
        self,
        settings: LegacyChannelSettings | None = None,
        *,
        reader: MessageReader | None = None,
        listener: Listener | None = None,
    ) -> None:
        own = LegacyChannelSettings() if settings is None else settings
        reader = MessageReader() if reader is None else reader
        self.incremental = IncrementalLine(
            own.feeds,
            platform=own.platform,
            reader=reader,
            most_wait_ns=own.most_wait_ns,
            asked_for=own.asked_for,
        )
        self.recovery = LoopLine(own.feeds, reader=reader)
        self.definition = LoopLine(own.feeds, reader=reader)
        self.follower = LegacyFollower(
            from_the_start=own.from_the_start,
            market_depth=own.market_depth,
            listener=listener,
            max_instruments=own.max_instruments,
        )
        self.state = LegacyState(own.max_instruments)

    @property
    def synchronized(self) -> bool:
        """Is every book sound? If not, the market recovery stream is needed (002 §5.3.5)."""
        return self.follower.position is not None and self.follower.trusted

    @property
    def deadline_ns(self) -> int | None:
        """When `tick` is to be called, if something is waited for."""
        return self.incremental.deadline_ns

    def book(self, security_id: int) -> LegacyBook | None:
        """The book of an instrument; None if nothing of it has come."""
        return self.follower.books.get(security_id)

    def book_state(self, security_id: int, now_ns: int | None = None) -> State:
        """How far a book can be trusted; of a stream that is dead, no book can (002 §5.1.1)."""
        state = self.follower.state(security_id)
        if now_ns is None or not self.incremental.is_dead(now_ns) or state is State.STALE:
            return state
        return State.UNCONFIRMED

    def receive(self, stream: Stream, feed: str, datagram: bytes, now_ns: int) -> None:
        """Take a datagram in."""
        match stream:
            case Stream.INCREMENTAL:
                self.take(self.incremental.receive(feed, datagram, now_ns))
            case Stream.MARKET_RECOVERY:
                for found in self.recovery.receive(feed, datagram, now_ns):
                    self.follower.snapshot(found)
                    if isinstance(found, InLoop) and found.message.type is MsgType.SNAPSHOT:
                        self._shown(found)
            case Stream.INSTRUMENT_DEFINITION:
                for found in self.definition.receive(feed, datagram, now_ns):
                    self.state.definition(found)
                    if isinstance(found, InLoop):
                        self._know(found.message)

    def tick(self, now_ns: int) -> None:
        """Let time pass."""
        self.take(self.incremental.tick(now_ns))

    def take(self, events: Sequence[LineEvent]) -> None:
        """Take in what the incremental stream gives, in order."""
        for event in events:
            match event:
                case Told(place, message):
                    self.follower.deliver(place, message)
                    self.state.message(message, self.follower.admits)
                    if message.type is MsgType.SECURITY_LIST:
                        self._know(message)
                case Missing(version, _, last):
                    if last is not None:
                        self.follower.lose(Place(version, last))
                case Began(place):
                    self.follower.lose(Place(place.sequence_version, place.sequence_number - 1))

    def _know(self, message: LegacyMessage) -> None:
        """Instruments were defined: what snapshots do not tell of them is known too (002 §8)."""
        for row in message.values.get("RelatedSym", ()):
            security_id = row["SecurityID"]
            if security_id in self.state.instruments:
                self.follower.know(security_id)
            else:
                self.follower.books.pop(security_id, None)

    def _shown(self, found: InLoop) -> None:
        """A snapshot counts for statistics if nothing newer of the instrument was told."""
        message, position = found.message, self.follower.position
        if not self.follower.admits(message.values["SecurityID"]):
            return
        known = position is not None and (
            message.values["LastMsgSeqNumProcessed"] < position.sequence_number
        )
        if not known or message.values["SecurityID"] not in self.state.statistics:
            self.state.snapshot(message)
