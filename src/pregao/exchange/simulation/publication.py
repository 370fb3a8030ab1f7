"""Publication of a simulated day: packets in captures, and the truth next to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from pregao.exchange.engine.events import MarketEvent, SecurityDefinition
from pregao.exchange.engine.instruments import Instrument
from pregao.exchange.publisher.channels import OutgoingPacket
from pregao.exchange.publisher.publisher import ChannelPublisher, Publisher
from pregao.exchange.simulation.captures import ChannelCaptures
from pregao.exchange.simulation.settings import SimulationSettings
from pregao.exchange.simulation.truth import TruthBook, TruthWriter

OnProgress = Callable[[float, int], None]
"""Progress callback: completed share of the run (0 to 1), and messages so far."""


class DayPublisher:
    """Audience of a day's trading that publishes the events and writes captures and truth.

    Packets sent before ``from_ns`` are not captured. The truth goes to ``folder``.
    """

    def __init__(
        self,
        settings: SimulationSettings,
        publisher: Publisher,
        instruments: Iterable[Instrument],
        from_ns: int,
        folder: Path,
        progress: OnProgress | None = None,
    ) -> None:
        self._publisher = publisher
        self._progress = progress
        self.captures: dict[int, ChannelCaptures] = {}
        with ExitStack() as opened:
            for number, channel in publisher.channels.items():
                self.captures[number] = opened.enter_context(
                    ChannelCaptures(
                        settings.out,
                        channel.channel,
                        settings.compression.ending,
                        settings.faults,
                        settings.seed,
                        from_ns,
                        legacy=settings.legacy is not None,
                    )
                )
            self.truth = TruthWriter(folder)
            opened.callback(self.truth.close)
            self._opened = opened.pop_all()
        self._routes: dict[int, tuple[ChannelPublisher, ChannelCaptures]] = {}
        for instrument in instruments:
            self.truth.know(instrument)
            number = instrument.channel
            self._routes[instrument.security_id] = (
                publisher.channels[number],
                self.captures[number],
            )

    def begin(self, now_ns: int) -> None:
        """Publish the start of the system."""
        self._send(self._publisher.initialize(now_ns))

    def publish(
        self, units: Sequence[MarketEvent], now_ns: int, security_id: int | None = None
    ) -> None:
        """Publish events on any channel, or only on that of an instrument."""
        if security_id is None:
            self._publish_anywhere(units, now_ns)
            return
        channel, captures = self._routes[security_id]
        packets = channel.packets(units, now_ns)
        if packets is None:
            captures.send(channel.publish(units, now_ns))
        else:
            captures.send_incremental(now_ns, packets)
        # A single message is a new, changed or removed order: a trade always has more.
        if len(units) > 1 or len(units[0].items) > 1:
            self.truth.publish(units)

    def _publish_anywhere(self, units: Sequence[MarketEvent], now_ns: int) -> None:
        for unit in units:
            for item in unit.items:
                if isinstance(item, SecurityDefinition):
                    self.truth.know(item.instrument)
        self._send(self._publisher.publish(units, now_ns))
        self.truth.publish(units)

    def _send(self, datagrams: Iterable[OutgoingPacket]) -> None:
        for datagram in datagrams:
            self.captures[datagram.channel].send((datagram,))

    def book(self, book: TruthBook) -> None:
        """Write the state of a book after the packets so far."""
        channel = self._publisher.channels[book.channel]
        self.truth.book(
            book,
            sequence_version=channel.incremental.sequence_version,
            sequence_number=channel.incremental.last_number,
            rpt_seq=channel.state.instruments[book.security_id].rpt_seq,
        )

    def progress(self, done: float) -> None:
        """Report the completed share of the run."""
        if self._progress is not None:
            self._progress(done, self.messages())

    def messages(self) -> int:
        """Return the number of messages on the incremental streams."""
        return self._publisher.messages

    def end(self, now_ns: int) -> None:
        """Send the packets that are due up to the end."""
        self._send(self._publisher.advance(now_ns))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Write the queued packets, and close all files."""
        self._opened.close()
