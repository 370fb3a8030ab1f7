"""The market data publisher: the engine's events as datagrams, on every stream of every channel.

The incremental stream tells events as they happen; the snapshot and definition loops are made of
what was published before, as a receiver would know it. ``encoding`` writes the messages.
"""

from pregao.exchange.publisher.channels import Channel, Datagram, Endpoint
from pregao.exchange.publisher.encoding.orders import tells_places
from pregao.exchange.publisher.loops import LoopPace
from pregao.exchange.publisher.publisher import ChannelPublisher, Publisher

__all__ = [
    "Channel",
    "ChannelPublisher",
    "Datagram",
    "Endpoint",
    "LoopPace",
    "Publisher",
    "tells_places",
]
