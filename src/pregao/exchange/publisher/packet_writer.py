"""Packs messages into numbered packets of at most 1,400 bytes, and writes heartbeat packets."""

from __future__ import annotations

from pregao.clock import SECOND
from pregao.errors import EncodeError, UsageError
from pregao.umdf.layout import FRAMING_SIZE, MAX_PACKET, PACKET_HEADER_SIZE
from pregao.umdf.packets import write_packet
from pregao.umdf.sequencing import LAST_SEQUENCE_VERSION, next_version

HEARTBEAT_NS = SECOND
"""Silence after which a stream sends a heartbeat."""
MAX_MESSAGE = MAX_PACKET - PACKET_HEADER_SIZE - FRAMING_SIZE
"""Maximum size of a message (header and body) in a packet."""
_MAX_PAYLOAD = MAX_MESSAGE + FRAMING_SIZE


class PacketWriter:
    """Fills and numbers the packets of one stream.

    Messages accumulate until `flush`; a packet is closed when the next message does not fit.
    """

    __slots__ = (
        "_closed",
        "_free",
        "_open",
        "channel",
        "messages",
        "next_number",
        "sequence_version",
    )

    def __init__(self, channel: int, sequence_version: int = 1, next_number: int = 1) -> None:
        if not 1 <= sequence_version <= LAST_SEQUENCE_VERSION:
            raise UsageError(
                f"sequence version must be from 1 to {LAST_SEQUENCE_VERSION}, "
                f"was {sequence_version}"
            )
        if next_number < 1:
            raise UsageError(f"packet number must be at least 1, was {next_number}")
        self.channel = channel
        self.sequence_version = sequence_version
        self.next_number = next_number
        self.messages = 0
        """Number of messages in closed packets, without heartbeats."""
        self._closed: list[tuple[int, int, list[bytes]]] = []
        self._open: list[bytes] = []
        self._free = _MAX_PAYLOAD

    @property
    def last_number(self) -> int:
        """Number of the last packet of this sequence version; 0 before the first."""
        return self.next_number - 1

    def fits(self, message: bytes) -> bool:
        """Whether the message fits in the open packet."""
        return len(message) + FRAMING_SIZE <= self._free

    def add(self, message: bytes) -> None:
        """Append a message (header and body) to the open packet, or to a new one if it is full."""
        remaining = self._free - len(message) - FRAMING_SIZE
        if remaining < 0:
            if len(message) > MAX_MESSAGE:
                raise EncodeError(
                    f"message of {len(message)} bytes does not fit in a packet: "
                    f"at most {MAX_MESSAGE} bytes"
                )
            self.close()
            remaining = self._free - len(message) - FRAMING_SIZE
        self._free = remaining
        self._open.append(message)

    def add_alone(self, message: bytes) -> None:
        """Write a message as the only one of its packet."""
        self.close()
        self.add(message)
        self.close()

    def close(self) -> None:
        """Close the open packet unless it is empty."""
        if self._open:
            self._closed.append((self.sequence_version, self.next_number, self._open))
            self.next_number += 1
            self.messages += len(self._open)
            self._open = []
            self._free = _MAX_PAYLOAD

    def restart(self) -> None:
        """Start a new sequence version; its first packet has number 1."""
        self.close()
        version = self.sequence_version
        self.sequence_version = next_version(version)
        self.next_number = 1

    def flush(self, now_ns: int) -> list[bytes]:
        """Return everything added so far as packets sent now."""
        messages = self._open
        if messages and not self._closed:
            # By far the most frequent case: a single packet.
            number = self.next_number
            self.next_number = number + 1
            self.messages += len(messages)
            self._open = []
            self._free = _MAX_PAYLOAD
            return [write_packet(self.channel, self.sequence_version, number, now_ns, messages)]
        self.close()
        closed, self._closed = self._closed, []
        return [
            write_packet(self.channel, version, number, now_ns, messages)
            for version, number, messages in closed
        ]

    def heartbeat(self, message: bytes, now_ns: int) -> bytes:
        """Return an unnumbered packet with one message."""
        return write_packet(self.channel, self.sequence_version, 0, now_ns, [message])
