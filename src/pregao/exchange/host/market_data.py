"""Market data of a running exchange: publication of the engine's events, and their datagrams.

After a start the full state is published. The datagrams go to the addresses of their streams.
"""

from __future__ import annotations

from collections.abc import Iterable

from pregao.exchange.engine.book.snapshots import BookEntry
from pregao.exchange.engine.engine import MatchingEngine
from pregao.exchange.engine.model.enums import OrderSide
from pregao.exchange.engine.model.events import EmptyBook, MarketEvent, MarketItem, NewOrderMbo
from pregao.exchange.host.settings import ExchangeSettings
from pregao.exchange.publisher.channels import OutgoingPacket
from pregao.exchange.publisher.publisher import Publisher
from pregao.exchange.traders.arrivals import SeededRandom
from pregao.legacy.recovery import MessageStore
from pregao.net.addresses import Address, find_interface
from pregao.net.sender import Sender
from pregao.umdf.sequencing import LAST_SEQUENCE_VERSION
from pregao.umdf.streams import Stream


class MarketData:
    """Publisher of one run of the process; each run has its own sequence version."""

    def __init__(
        self, settings: ExchangeSettings, engine: MatchingEngine, starts: int, now_ns: int
    ) -> None:
        self._engine = engine
        self._now_ns = now_ns
        self.staged = False
        """Whether encoded events are waiting to be sent."""
        self.failed = False
        """Whether the publisher failed, so that its state is inconsistent."""
        self.store = MessageStore([str(channel.number) for channel in settings.channels])
        """Messages of the legacy feed, for TCP recovery."""
        legacy = settings.legacy
        self.publisher = Publisher(
            settings.channels,
            engine.instruments,
            now_ns,
            schema_version=settings.schema_version,
            sequence_version=(starts - 1) % LAST_SEQUENCE_VERSION + 1,
            snapshot_pace=settings.pace,
            definition_pace=settings.pace,
            legacy=legacy is not None,
            legacy_depth=None if legacy is None else legacy.market_depth,
            legacy_store=self.store,
        )

    def begin(self, now_ns: int) -> list[OutgoingPacket]:
        """Publish a start: ChannelReset, definitions, then current phases, books and statistics."""
        sent = self.publisher.initialize(now_ns)
        phases: list[MarketItem] = list(self._engine.group_phases())
        units = [MarketEvent(phases, False)] if phases else []
        for instrument in self._engine.instruments:
            units += self._recovery_messages(instrument.security_id, now_ns)
        return sent + self.publisher.publish(units, now_ns)

    def _recovery_messages(self, security_id: int, now_ns: int) -> list[MarketEvent]:
        """Return the current state of an instrument as recovery messages."""
        view = self._engine.book(security_id)
        units = []
        items: list[MarketItem] = [
            _recovery(security_id, side, entry, now_ns)
            for side, entries in ((OrderSide.BUY, view.bids), (OrderSide.SELL, view.offers))
            for entry in entries
        ]
        if items:
            units.append(MarketEvent([EmptyBook(security_id, now_ns), *items], True))
        current: list[MarketItem] = list(view.statistics)
        if view.security_status.status is not None:
            current.append(view.security_status)
        if current:
            units.append(MarketEvent(current, False))
        return units

    def stage(self, units: list[MarketEvent], now_ns: int) -> None:
        """Encode events of the engine; `flush` sends them once they are in the journal."""
        if self.failed:
            return  # the feed restarts with the full state
        self.staged = True
        try:
            self.publisher.stage(units, now_ns)
        except Exception:
            self.failed = True
            raise

    def flush(self, now_ns: int) -> list[OutgoingPacket]:
        """Return the staged packets, then those that are due."""
        self.staged = False
        return self.publisher.flush(self._time(now_ns))

    def advance(self, now_ns: int) -> list[OutgoingPacket]:
        """Return the packets that are due: loops and heartbeats.

        Return nothing while events are staged: snapshots would include them before the journal.
        """
        if self.staged or self.failed:
            return []
        try:
            return self.publisher.advance(self._time(now_ns))
        except Exception:
            self.failed = True
            raise

    def _time(self, now_ns: int) -> int:
        """Return the sending time, which never goes back."""
        self._now_ns = max(now_ns, self._now_ns)
        return self._now_ns

    @property
    def next_due_ns(self) -> int:
        """Time of the next scheduled packet."""
        return self.publisher.next_due_ns


def _recovery(security_id: int, side: OrderSide, entry: BookEntry, now_ns: int) -> NewOrderMbo:
    """Return the recovery event of an order."""
    return NewOrderMbo(
        security_id,
        side,
        entry.price,
        entry.size,
        entry.secondary_order_id,
        entry.firm,
        entry.insert_time_ns,
        now_ns,
        None,
        entry.implied,
        True,
    )


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
