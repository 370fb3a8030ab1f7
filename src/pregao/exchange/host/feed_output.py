"""Sends the datagrams of the feed to the addresses of their streams."""

from __future__ import annotations

from collections.abc import Iterable

from pregao.exchange.host.settings import ExchangeSettings
from pregao.exchange.publisher.channels import OutgoingPacket
from pregao.exchange.traders.arrivals import SeededRandom
from pregao.net.addresses import Address, find_interface
from pregao.net.sender import Sender
from pregao.umdf.streams import Stream


class FeedOutput:
    """Sends and counts the datagrams of all channels."""

    def __init__(self, settings: ExchangeSettings) -> None:
        addresses: list[Address] = []
        self._routes: dict[tuple[int, object, bool], list[int]] = {}
        for legacy, targets in ((False, settings.targets()), (True, settings.legacy_targets())):
            for key, feeds in targets.items():
                indices = range(len(addresses), len(addresses) + len(feeds))
                self._routes[*key, legacy] = list(indices)
                addresses += [address for _, address in feeds]
        interface = None
        if any(address.multicast for address in addresses):
            interface = find_interface(settings.interface or "127.0.0.1")
        self._sender = Sender(addresses, interface=interface, compiled=False)
        self._loss = settings.loss
        self._draw = SeededRandom(1, "loss").random
        self.lost = 0
        self.packets = 0
        self.bytes = 0

    def send(self, datagrams: Iterable[OutgoingPacket]) -> None:
        """Send datagrams in order."""
        send, routes = self._sender.send, self._routes
        for datagram in datagrams:
            payload = datagram.payload
            key = (datagram.channel, datagram.stream, datagram.legacy)
            lossy = self._loss and datagram.stream is Stream.INCREMENTAL
            for target in routes.get(key, ()):
                if lossy and self._draw() < self._loss:
                    self.lost += 1
                    continue
                send(target, payload)
                self.packets += 1
                self.bytes += len(payload)

    def close(self) -> None:
        """Close the sockets."""
        self._sender.close()
