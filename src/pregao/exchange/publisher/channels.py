"""A market data channel: its number and where its streams go on the network."""

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
_LARGEST_NUMBER = 0xFF
_LARGEST_PORT = 0xFFFF


class Feed(StrEnum):
    """The two feeds of an incremental stream; the other streams are on feed A alone."""

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
                f"{self.address!r} is not an IPv4 multicast address (224.0.0.0 to 239.255.255.255)"
            )
        if not 0 < self.port <= _LARGEST_PORT:
            raise UsageError(f"{self.port} is not a UDP port: choose one from 1 to {_LARGEST_PORT}")

    def __str__(self) -> str:
        return f"{self.address}:{self.port}"


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel: the same incremental packets on feeds A and B, both loops on feed A."""

    number: int
    incremental_a: Endpoint
    incremental_b: Endpoint
    snapshot: Endpoint
    definition: Endpoint

    def __post_init__(self) -> None:
        if not 0 <= self.number <= _LARGEST_NUMBER:
            raise UsageError(f"channel {self.number} is not from 0 to {_LARGEST_NUMBER}")
        taken = [self.incremental_a, self.incremental_b, self.snapshot, self.definition]
        if len(set(taken)) < len(taken):
            raise UsageError(
                f"two streams of channel {self.number} go to the same address and port: "
                f"{', '.join(map(str, taken))}"
            )

    @classmethod
    def numbered(cls, number: int, *, legacy: bool = False) -> Channel:
        """A channel at the addresses and ports that are ours by default; of the legacy feed too."""
        port = _FIRST_DEFAULT_PORT + number * _PORTS_PER_CHANNEL
        lasts = range(5, 9) if legacy else range(1, 5)
        return cls(number, *(Endpoint(f"{_DEFAULT_NETWORK}.{last}", port + last) for last in lasts))

    def endpoints(self, stream: Stream) -> tuple[tuple[Feed, Endpoint], ...]:
        """Where the packets of a stream go, feed by feed."""
        match stream:
            case Stream.INCREMENTAL:
                return (Feed.A, self.incremental_a), (Feed.B, self.incremental_b)
            case Stream.SNAPSHOT:
                return ((Feed.A, self.snapshot),)
            case Stream.DEFINITION:
                return ((Feed.A, self.definition),)
            case Stream.UNKNOWN:
                return ()


class Datagram(NamedTuple):
    """A packet on its way: to every endpoint of this stream of this channel, at this time."""

    channel: int
    stream: Stream
    time_ns: int
    payload: bytes
    legacy: bool = False
    """Is it of the legacy feed of the channel, which has endpoints of its own?"""
