"""Market data publisher: encodes the engine's events as datagrams of every stream and channel.

The incremental stream publishes events as they happen; the snapshot and definition loops are built
only from events already published, as a receiver knows them. ``encoding`` writes the messages.
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
