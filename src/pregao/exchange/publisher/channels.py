"""Market data channels: their numbers and network endpoints."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from ipaddress import AddressValueError, IPv4Address
from typing import NamedTuple

from pregao.errors import UsageError
from pregao.umdf.streams import Stream

_DEFAULT_NETWORK = "233.252.14"
_FIRST_DEFAULT_PORT = 30_000
_PORTS_PER_CHANNEL = 10
_MAX_CHANNEL = 0xFF
_MAX_PORT = 0xFFFF


class FeedName(StrEnum):
    """The two feeds of an incremental stream; the other streams are only on feed A."""

    A = "A"
    B = "B"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A multicast group and a UDP port."""

    address: str
    port: int

    def __post_init__(self) -> None:
        try:
            multicast = IPv4Address(self.address).is_multicast
        except AddressValueError:
            multicast = False
        if not multicast:
            raise UsageError(
                f"address must be an IPv4 multicast address (224.0.0.0 to 239.255.255.255), "
                f"was {self.address!r}"
            )
        if not 0 < self.port <= _MAX_PORT:
            raise UsageError(f"UDP port must be from 1 to {_MAX_PORT}, was {self.port}")

    def __str__(self) -> str:
        return f"{self.address}:{self.port}"


@dataclass(frozen=True, slots=True)
class ChannelEndpoints:
    """Endpoints of a channel: incremental packets on feeds A and B, both loops on feed A."""

    number: int
    incremental_a: Endpoint
    incremental_b: Endpoint
    snapshot: Endpoint
    definition: Endpoint

    def __post_init__(self) -> None:
        if not 0 <= self.number <= _MAX_CHANNEL:
            raise UsageError(f"channel must be from 0 to {_MAX_CHANNEL}, was {self.number}")
        endpoints = [self.incremental_a, self.incremental_b, self.snapshot, self.definition]
        if len(set(endpoints)) < len(endpoints):
            raise UsageError(
                f"channel {self.number}: two streams have the same address and port: "
                f"{', '.join(map(str, endpoints))}"
            )

    @classmethod
    def numbered(cls, number: int, *, legacy: bool = False) -> ChannelEndpoints:
        """Return a channel with our default addresses and ports; ``legacy``: of its legacy feed."""
        port = _FIRST_DEFAULT_PORT + number * _PORTS_PER_CHANNEL
        lasts = range(5, 9) if legacy else range(1, 5)
        return cls(number, *(Endpoint(f"{_DEFAULT_NETWORK}.{last}", port + last) for last in lasts))

    def endpoints(self, stream: Stream) -> tuple[tuple[FeedName, Endpoint], ...]:
        """Return the destinations of a stream's packets by feed."""
        match stream:
            case Stream.INCREMENTAL:
                return (FeedName.A, self.incremental_a), (FeedName.B, self.incremental_b)
            case Stream.SNAPSHOT:
                return ((FeedName.A, self.snapshot),)
            case Stream.DEFINITION:
                return ((FeedName.A, self.definition),)
            case Stream.UNKNOWN:
                return ()


class OutgoingPacket(NamedTuple):
    """An outgoing packet, sent to every endpoint of a channel's stream at a time."""

    channel: int
    stream: Stream
    time_ns: int
    payload: bytes
    legacy: bool = False
    """Whether the packet is of the channel's legacy feed, which has separate endpoints."""
