"""The book of one instrument, kept by a program from messages as they come."""

from __future__ import annotations

from pregao.api.ladders import Level, Order, ladder_text, levels, orders
from pregao.api.messages import Message, Protocol
from pregao.book.faults import State
from pregao.book.updates import Side
from pregao.errors import UsageError
from pregao.feed.follower import Follower
from pregao.sbe import Decoded
from pregao.umdf import templates
from pregao.umdf.packets import DecodedMessage, DecodedPacket, Frame, PacketHeader
from pregao.umdf.sequencing import Place
from pregao.umdf.streams import Stream


class _Selected(Follower):
    """Follows messages that were selected from a channel: what is between them is not missing.

    The counter of the instrument (``rptSeq``) alone tells what is.
    """

    def lose(self, last: Place) -> None:
        """Go on at a packet; those before it may well have been about others."""
        self.position = last


class Book:
    """The book of one instrument of Binary UMDF, from messages as `Capture.messages` gives them.

    Messages of the incremental and of the snapshot stream may come. A repeat is passed over, a
    missing message makes the book stale, a snapshot heals it. Without a number the instrument is
    that of the first message that is about one. Feeds A and B are made one by `follow`.
    """

    def __init__(self, security_id: int | None = None) -> None:
        self._security_id = security_id
        self._chosen = security_id is not None
        self._follower = _Selected(from_the_start=True)
        self._done: dict[str | None, tuple[int, int, int]] = {}
        """The last message of each stream."""
        self._snapshot_packets = (0, 0)
        """The running loop of snapshots, and how many of its messages have come."""
        if security_id is not None:
            self._follower.know(security_id)

    @property
    def security_id(self) -> int | None:
        """The number of the instrument; None before the first message."""
        return self._security_id

    def apply(self, message: Message) -> bool:
        """Take a message in; False if it is of no concern: of another instrument, or a repeat."""
        if message.protocol is not Protocol.UMDF or message.layout is None:
            raise UsageError(
                f"A book is kept from messages of Binary UMDF, not of {message.protocol}."
            )
        if message.sequence_number is None or not self._concerns(message):
            return False
        stream, version = message.stream, message.sequence_version or 0
        key = (version, message.sequence_number, message.index_in_packet or 0)
        if key <= self._done.get(stream, (-1, 0, 0)):
            return False
        self._done[stream] = key
        if stream == Stream.SNAPSHOT.value:
            self._snapshot(message, version)
        else:
            self._follower.deliver(self._packet(message, version, message.sequence_number))
        return True

    def _concerns(self, message: Message) -> bool:
        if message.stream == Stream.DEFINITION.value:
            return False
        if message.template_id in (templates.CHANNEL_RESET, templates.SEQUENCE_RESET):
            return message.stream != Stream.SNAPSHOT.value
        number = message.values.get("securityID")
        if number is None or message.values.get("symbol") is not None:
            return False  # of a group, or a definition
        if self._security_id is None:
            self._security_id = number
            self._follower.know(number)
        if number != self._security_id and not self._chosen:
            raise UsageError(
                f"This book is of instrument {self._security_id}, and a message is of {number}: "
                "read messages of one instrument, or name it with Book(security_id=…)."
            )
        return bool(number == self._security_id)

    def _snapshot(self, message: Message, version: int) -> None:
        """Take a part of a snapshot in; parts are counted as if each were a packet."""
        loop, count = self._snapshot_packets
        count = count + 1 if loop == version else 1
        self._snapshot_packets = version, count
        if message.template_id == templates.SNAPSHOT_HEADER:
            values = message.values
            at = Place(
                values.get("lastSequenceVersion") or 1, values["lastMsgSeqNumProcessed"] or 0
            )
            if Stream.INCREMENTAL.value not in self._done:
                # Nothing but snapshots has come: each is the newest that is known.
                self._follower.begin(Place(at.sequence_version, at.sequence_number + 1))
                self._follower.lose(at)
        self._follower.snapshot(self._packet(message, version, count))

    def _packet(self, message: Message, version: int, number: int) -> DecodedPacket:
        """A packet with nothing but the message."""
        assert message.layout is not None
        header = PacketHeader(message.channel or 0, version, number, message.sending_time_ns or 0)
        index, sent_in = message.index_in_packet or 0, message.schema_version or 0
        frame = Frame(index, 0, 0, 0, message.template_id, 0, sent_in)
        decoded = Decoded(message.layout, sent_in, dict(message.values), 0)
        return DecodedPacket(header, [DecodedMessage(frame, 0, 0, decoded)])

    @property
    def state(self) -> State:
        """How far the book can be trusted."""
        return State.EMPTY if self._security_id is None else self._follower.state(self._security_id)

    @property
    def reason(self) -> str:
        """A sentence about the state."""
        book = self._follower.books.get(self._security_id or 0)
        return "no message has come" if book is None else book.reason

    @property
    def bids(self) -> tuple[Level, ...]:
        """The levels to sell to, best first."""
        return self._levels(Side.BID)

    @property
    def asks(self) -> tuple[Level, ...]:
        """The levels to buy from, best first."""
        return self._levels(Side.ASK)

    @property
    def orders(self) -> tuple[Order, ...]:
        """Every order in the order in which they would trade: bids, then asks."""
        book = self._follower.books.get(self._security_id or 0)
        if book is None:
            return ()
        return orders([*book.walk_orders(Side.BID), *book.walk_orders(Side.ASK)])

    def _levels(self, side: Side) -> tuple[Level, ...]:
        book = self._follower.books.get(self._security_id or 0)
        return () if book is None else levels(book.walk_levels(side))

    def __str__(self) -> str:
        state = self.state.name.lower()
        return f"{self._security_id}: {state}\n{ladder_text(self.bids, self.asks)}"
