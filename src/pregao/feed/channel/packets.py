"""Packets that wait for their turn: messages are located on arrival and decoded on delivery."""

from __future__ import annotations

from dataclasses import dataclass

from pregao.errors import DecodeError
from pregao.feed.required_fields import read_message
from pregao.umdf.gaps import NEVER_DISCARDED
from pregao.umdf.packets import (
    DecodedMessage,
    DecodedPacket,
    PacketDecoder,
    PacketFrame,
    PacketHeader,
    frames,
)
from pregao.umdf.templates import CHANNEL_RESET, SEQUENCE, SEQUENCE_RESET

_OF_THE_CHANNEL = NEVER_DISCARDED | {CHANNEL_RESET, SEQUENCE, SEQUENCE_RESET}
"""Messages that concern several instruments, or none that is traded."""


@dataclass(slots=True)
class RawPacket:
    """The bytes of a packet and the locations of its messages."""

    header: PacketHeader
    payload: bytes
    received_ns: int
    frames: tuple[PacketFrame, ...] = ()
    broken: DecodedMessage | None = None
    """Where and why locating its messages failed."""
    _decoded: DecodedPacket | None = None

    @staticmethod
    def from_payload(header: PacketHeader, payload: bytes, received_ns: int) -> RawPacket:
        """Locate the messages of a packet."""
        packet = RawPacket(header, payload, received_ns)
        located = []
        try:
            for part in frames(payload):
                located.append(part)
        except DecodeError as error:
            packet.broken = DecodedMessage(
                None, error.position or 0, len(payload), reason=error.reason
            )
        packet.frames = tuple(located)
        return packet

    def decoded(self, decoder: PacketDecoder) -> DecodedPacket:
        """Return the packet with its messages decoded; a channel has one decoder."""
        if self._decoded is None:
            outcomes = [read_message(decoder, self.payload, part) for part in self.frames]
            if self.broken is not None:
                outcomes.append(self.broken)
            self._decoded = DecodedPacket(self.header, outcomes)
        return self._decoded


def is_reset(packet: RawPacket) -> bool:
    """Whether a packet ends its sequence version."""
    return any(part.template_id == SEQUENCE_RESET for part in packet.frames)


def next_number(packet: RawPacket, decoder: PacketDecoder) -> int | None:
    """Return the next sequence number that a heartbeat names, or None.

    0 is not the number of a packet, and a heartbeat that cannot be decoded names none.
    """
    for part in packet.frames:
        if part.template_id == SEQUENCE:
            decoded = read_message(decoder, packet.payload, part).decoded
            if decoded is not None:
                return int(decoded.values["nextSeqNo"]) or None
    return None


def instruments_of(packet: DecodedPacket) -> frozenset[int] | None:
    """Return the instruments that a packet concerns; None if it may concern others too."""
    security_ids = set()
    for outcome in packet.outcomes:
        if outcome.decoded is None or outcome.frame is None or outcome.reason:
            return None  # a packet that cannot be decoded makes every book unconfirmed
        template_id = outcome.frame.template_id
        security_id = outcome.decoded.values.get("securityID")
        if security_id is None or template_id in _OF_THE_CHANNEL:
            return None
        security_ids.add(security_id)
    return frozenset(security_ids)
