"""Book of one instrument for users: built from messages, with exact decimal prices.

Its levels and orders are views with `Decimal` prices over the integer books of `pregao.book`.
"""

from __future__ import annotations

from pregao.api.message import Message, Protocol
from pregao.book.levels import Level, Order, ladder_text, levels, orders
from pregao.book.state import State
from pregao.errors import UsageError
from pregao.feed.channel.follower import Follower
from pregao.notebook import book_text, ladder_html
from pregao.sbe.codec import SbeMessage
from pregao.umdf import templates
from pregao.umdf.packets import DecodedMessage, DecodedPacket, PacketFrame, PacketHeader
from pregao.umdf.sequencing import PacketKey, version_distance
from pregao.umdf.streams import Stream
from pregao.units import Side


class _Selected(Follower):
    """Follows messages that were selected from a channel: sequence gaps between them are no loss.

    Only the counter of the instrument (``rptSeq``) shows missing messages.
    """

    def lose(self, last: PacketKey) -> None:
        """Continue at a packet; those before it may have been about other instruments."""
        self.position = last


class Book:
    """The book of one Binary UMDF instrument, built from the messages of `Capture.message`.

    It accepts messages of the incremental and of the snapshot stream. Duplicates are skipped, a
    missing message makes the book stale, and a snapshot heals it. To merge feeds A and B, use
    `follow`.

    Args:
        security_id: The instrument; by default that of the first message about one.

    Example:
        >>> book = pregao.Book()
        >>> for message in pregao.read("day/051_Incremental_A.pcap", symbol="PETR4").messages():
        ...     used = book.apply(message)
        >>> book.state.name, book.bids[0].price < book.asks[0].price
        ('VALID', True)
    """

    def __init__(self, security_id: int | None = None) -> None:
        self._security_id = security_id
        self._chosen = security_id is not None
        self._follower = _Selected(from_the_start=True)
        self._done: dict[str | None, tuple[int, int, int]] = {}
        """Key of the last message of each stream."""
        self._snapshot_packets = (0, 0)
        """The version of the current snapshot loop, and the number of its messages so far."""
        if security_id is not None:
            self._follower.add_instrument(security_id)

    @property
    def security_id(self) -> int | None:
        """The instrument's security id; None before the first message."""
        return self._security_id

    def apply(self, message: Message) -> bool:
        """Apply a message to the book.

        Args:
            message: A message of Binary UMDF.

        Returns:
            Whether the message was used; False for other instruments and for duplicates.

        Raises:
            UsageError: The message is of another protocol, or of another instrument although no
                ``security_id`` was given.

        Example:
            >>> capture = pregao.read("day/051_Incremental_A.pcap", symbol="PETR4")
            >>> book = pregao.Book()
            >>> sum(book.apply(message) for message in capture.messages()) > 0
            True
        """
        if message.protocol is not Protocol.UMDF or message.layout is None:
            raise UsageError(
                f"A book needs messages of Binary UMDF; this one is of {message.protocol}."
            )
        if message.sequence_number is None or not self._concerns(message):
            return False
        stream, version = message.stream, message.sequence_version or 0
        key = (version, message.sequence_number, message.index_in_packet or 0)
        done = self._done.get(stream)
        if done is not None:
            # Versions go from 65534 back to 1 (000 §6.5.5.1).
            newer = version_distance(done[0], version)
            if newer < 0 or (newer == 0 and key <= done):
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
            self._follower.add_instrument(number)
        if number != self._security_id and not self._chosen:
            raise UsageError(
                f"The book of instrument {self._security_id} got a message of {number}: read "
                "messages of one instrument, or select it with Book(security_id=…)."
            )
        return bool(number == self._security_id)

    def _snapshot(self, message: Message, version: int) -> None:
        """Apply a part of a snapshot; each part counts as one packet."""
        loop, count = self._snapshot_packets
        count = count + 1 if loop == version else 1
        self._snapshot_packets = version, count
        if message.template_id == templates.SNAPSHOT_HEADER:
            values = message.values
            as_of = PacketKey(
                values.get("lastSequenceVersion") or 1, values["lastMsgSeqNumProcessed"] or 0
            )
            if Stream.INCREMENTAL.value not in self._done:
                # Only snapshots so far: each is the newest known state.
                self._follower.begin(PacketKey(as_of.sequence_version, as_of.sequence_number + 1))
                self._follower.lose(as_of)
        self._follower.snapshot(self._packet(message, version, count))

    def _packet(self, message: Message, version: int, number: int) -> DecodedPacket:
        """Return a packet that contains only the message."""
        assert message.layout is not None
        header = PacketHeader(message.channel or 0, version, number, message.sending_time_ns or 0)
        index, sent_in = message.index_in_packet or 0, message.schema_version or 0
        frame = PacketFrame(index, 0, 0, 0, message.template_id, 0, sent_in)
        decoded = SbeMessage(message.layout, sent_in, dict(message.values), 0)
        return DecodedPacket(header, [DecodedMessage(frame, 0, 0, decoded)])

    @property
    def state(self) -> State:
        """How far the book can be trusted."""
        return State.EMPTY if self._security_id is None else self._follower.state(self._security_id)

    @property
    def reason(self) -> str:
        """Explanation of the state."""
        book = self._follower.books.get(self._security_id or 0)
        return "no message was applied" if book is None else book.reason

    @property
    def bids(self) -> tuple[Level, ...]:
        """Bid levels, best first."""
        return self._levels(Side.BID)

    @property
    def asks(self) -> tuple[Level, ...]:
        """Ask levels, best first."""
        return self._levels(Side.ASK)

    @property
    def orders(self) -> tuple[Order, ...]:
        """All orders in priority order: bids, then asks."""
        book = self._follower.books.get(self._security_id or 0)
        if book is None:
            return ()
        return orders([*book.walk_orders(Side.BID), *book.walk_orders(Side.ASK)])

    def _levels(self, side: Side) -> tuple[Level, ...]:
        book = self._follower.books.get(self._security_id or 0)
        return () if book is None else levels(book.walk_levels(side))

    @property
    def _title(self) -> str:
        return f"{self._security_id}: {self.state.name.lower()}"

    def __str__(self) -> str:
        return f"{self._title}\n{ladder_text(self.bids, self.asks)}"

    def __repr__(self) -> str:
        return book_text(f"Book {self._title}", self.bids, self.asks)

    def _repr_html_(self) -> str:
        return ladder_html(self._title, self.bids, self.asks)
