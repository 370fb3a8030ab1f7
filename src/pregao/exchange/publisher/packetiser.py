"""Messages into numbered packets of at most 1,400 bytes, and the heartbeats between them."""

from __future__ import annotations

from pregao.clock import SECOND
from pregao.errors import EncodeError, UsageError
from pregao.umdf.packets import (
    FRAMING_SIZE,
    MAX_PACKET,
    PACKET_HEADER_SIZE,
    write_packet,
)
from pregao.umdf.sequencing import LAST_SEQUENCE_VERSION, next_version

HEARTBEAT_NS = SECOND
"""A stream that has been silent for so long says that it is alive."""
ROOM = MAX_PACKET - PACKET_HEADER_SIZE - FRAMING_SIZE
"""The longest message (header and body) that fits a packet."""
_ROOM_OF_ALL = ROOM + FRAMING_SIZE


class PacketWriter:
    """Fills the packets of one stream in order and numbers them.

    Messages are added until the time comes at which they are sent; a packet is closed when the
    next message does not fit it.
    """

    __slots__ = (
        "_closed",
        "_open",
        "_room",
        "channel",
        "messages",
        "next_number",
        "sequence_version",
    )

    def __init__(self, channel: int, sequence_version: int = 1, next_number: int = 1) -> None:
        if not 1 <= sequence_version <= LAST_SEQUENCE_VERSION:
            raise UsageError(
                f"a sequence version of {sequence_version} is not from 1 to {LAST_SEQUENCE_VERSION}"
            )
        if next_number < 1:
            raise UsageError(f"packets are numbered from 1; {next_number} was given")
        self.channel = channel
        self.sequence_version = sequence_version
        self.next_number = next_number
        self.messages = 0
        """How many messages are in the packets that were closed; heartbeats are not counted."""
        self._closed: list[tuple[int, int, list[bytes]]] = []
        self._open: list[bytes] = []
        self._room = _ROOM_OF_ALL

    @property
    def last_number(self) -> int:
        """The number of the last packet of this sequence version; 0 before the first."""
        return self.next_number - 1

    def fits(self, message: bytes) -> bool:
        """Is there room for this message in the packet that is being filled?"""
        return len(message) + FRAMING_SIZE <= self._room

    def add(self, message: bytes) -> None:
        """Put a message (header and body) into the packet, or into a new one."""
        room = self._room - len(message) - FRAMING_SIZE
        if room < 0:
            if len(message) > ROOM:
                raise EncodeError(
                    f"a message of {len(message)} bytes does not fit a packet: "
                    f"{ROOM} bytes is the most"
                )
            self.close()
            room = self._room - len(message) - FRAMING_SIZE
        self._room = room
        self._open.append(message)

    def add_alone(self, message: bytes) -> None:
        """Put a message into a packet of its own."""
        self.close()
        self.add(message)
        self.close()

    def close(self) -> None:
        """End the packet that is being filled, if there is anything in it."""
        if self._open:
            self._closed.append((self.sequence_version, self.next_number, self._open))
            self.next_number += 1
            self.messages += len(self._open)
            self._open = []
            self._room = _ROOM_OF_ALL

    def restart(self) -> None:
        """Begin a new sequence version; its first packet has number 1."""
        self.close()
        version = self.sequence_version
        self.sequence_version = next_version(version)
        self.next_number = 1

    def flush(self, now_ns: int) -> list[bytes]:
        """Everything added so far, as packets sent now."""
        messages = self._open
        if messages and not self._closed:
            # By far the most frequent case: all of it in one packet.
            number = self.next_number
            self.next_number = number + 1
            self.messages += len(messages)
            self._open = []
            self._room = _ROOM_OF_ALL
            return [write_packet(self.channel, self.sequence_version, number, now_ns, messages)]
        self.close()
        closed, self._closed = self._closed, []
        return [
            write_packet(self.channel, version, number, now_ns, messages)
            for version, number, messages in closed
        ]

    def heartbeat(self, message: bytes, now_ns: int) -> bytes:
        """A packet without a number of its own."""
        return write_packet(self.channel, self.sequence_version, 0, now_ns, [message])
