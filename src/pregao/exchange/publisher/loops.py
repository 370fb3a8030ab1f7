"""Looping streams: instrument definitions and snapshots, with a new sequence version for each loop.

Loops are paced. The definition stream has every instrument of the channel that has not expired; the
snapshot recovery stream has the phases of groups, then each instrument's book and statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pregao.clock import SECOND
from pregao.errors import UsageError
from pregao.exchange.engine.model.enums import SecurityUpdateAction
from pregao.exchange.engine.model.events import SecurityStatus, Statistic
from pregao.exchange.engine.model.instruments import Instrument
from pregao.exchange.publisher.encoding.encoder import FeedEncoder
from pregao.exchange.publisher.packet_writer import HEARTBEAT_NS, PacketWriter
from pregao.exchange.publisher.published_state import (
    PublishedChannel,
    PublishedInstrument,
    PublishedSide,
)

FIRST_NUMBER = 1
"""Next packet number that heartbeats between two loops announce: each loop starts at 1."""

ORDERS_PER_MESSAGE = 20


@dataclass(frozen=True, slots=True)
class LoopPace:
    """Pace of a loop: packets per second, and the pause before the next loop."""

    packets_per_second: int = 100
    pause_ns: int = SECOND

    def __post_init__(self) -> None:
        if not 0 < self.packets_per_second <= SECOND:
            raise UsageError(
                f"packets per second of a loop must be from 1 to {SECOND}, "
                f"was {self.packets_per_second}"
            )
        if self.pause_ns < 0:
            raise UsageError(f"pause between loops must be at least 0 ns, was {self.pause_ns}")


class LoopStream:
    """Sends the messages of a loop packet by packet, at its pace.

    ``begin`` returns the messages of a new loop, or None while there is nothing to publish; each
    message is generated when its packet is due, so that it has the state of that time. The loop
    ends with a SequenceReset alone in its packet.
    """

    def __init__(
        self,
        encoder: FeedEncoder,
        packets: PacketWriter,
        begin: Callable[[int], Iterator[bytes] | None],
        pace: LoopPace,
        start_ns: int,
    ) -> None:
        self._encoder = encoder
        self._packets = packets
        self._begin = begin
        self._step_ns = SECOND // pace.packets_per_second
        self._pause_ns = pace.pause_ns
        self._loop: Iterator[bytes] | None = None
        self._held: bytes | None = None
        self._next_ns = start_ns
        self._last_sent_ns = start_ns
        self.loops = 0
        """Number of completed loops."""

    @property
    def next_due_ns(self) -> int:
        """Time at which the next packet may be due."""
        if self._loop is not None:
            return self._next_ns
        return min(self._next_ns, self._last_sent_ns + HEARTBEAT_NS)

    def advance(self, until_ns: int) -> list[tuple[int, bytes]]:
        """Return the packets due up to a time, with their times."""
        sent: list[tuple[int, bytes]] = []
        while (due := self.next_due_ns) <= until_ns:
            if due < self._next_ns:
                sent.append((due, self._heartbeat(due)))
                continue
            if self._loop is None:
                self._loop = self._begin(due)
            if self._loop is not None:
                sent.append((due, self._next_packet(due)))
                continue
            # Nothing to publish yet: try again when the next heartbeat is due.
            if due >= self._last_sent_ns + HEARTBEAT_NS:
                sent.append((due, self._heartbeat(due)))
            self._next_ns = self._last_sent_ns + HEARTBEAT_NS
        return sent

    def _heartbeat(self, now_ns: int) -> bytes:
        self._last_sent_ns = now_ns
        return self._packets.heartbeat(self._encoder.sequence(FIRST_NUMBER), now_ns)

    def _next_packet(self, now_ns: int) -> bytes:
        """Return a packet filled with the next messages of the loop."""
        packets = self._packets
        assert self._loop is not None
        empty = True
        while True:
            message = self._held if self._held is not None else next(self._loop, None)
            self._held = None
            if message is None:
                break
            if not empty and not packets.fits(message):
                self._held = message
                break
            packets.add(message)
            empty = False
        if empty:
            packets.add_alone(self._encoder.sequence_reset)
        (packet,) = packets.flush(now_ns)
        self._last_sent_ns = now_ns
        self._next_ns = now_ns + self._step_ns
        if empty:
            packets.restart()
            self._loop = None
            self._next_ns = now_ns + max(self._step_ns, self._pause_ns)
            self.loops += 1
        return packet


class DefinitionWriter:
    """Writes the messages of definition loops, without deleted and expired instruments."""

    def __init__(self, encoder: FeedEncoder, state: PublishedChannel) -> None:
        self._encoder = encoder
        self._state = state
        self._written: dict[int, tuple[Instrument, int, bool, bytes]] = {}

    def begin(self, now_ns: int) -> Iterator[bytes] | None:
        """Return the messages of a loop, or None while there is no instrument."""
        instruments = [
            instrument
            for instrument in self._state.definitions.values()
            if instrument.security_validity_s * SECOND >= now_ns
        ]
        if not instruments:
            return None
        return self._messages(instruments)

    def _messages(self, instruments: list[Instrument]) -> Iterator[bytes]:
        """Yield the instruments listed at the start of the loop, so that the total is right."""
        total = len(instruments)
        for number, instrument in enumerate(instruments, 1):
            yield self._message(instrument, total, last=number == total)
        listed = {instrument.security_id for instrument in instruments}
        for security_id in self._written.keys() - listed:
            del self._written[security_id]

    def _message(self, instrument: Instrument, total: int, last: bool) -> bytes:
        """Return the message of a definition, cached until the definition or the list changes."""
        security_id = instrument.security_id
        cached = self._written.get(security_id)
        if cached is not None and cached[:3] == (instrument, total, last):
            return cached[3]
        message = self._encoder.definitions.message(
            instrument, SecurityUpdateAction.ADD, total, last_fragment=last
        )
        self._written[security_id] = (instrument, total, last, message)
        return message


class SnapshotWriter:
    """Writes the messages of snapshot loops from the published state.

    The instruments of a loop are counted when it starts. Each snapshot is built when it is due and
    is as of the last incremental packet sent, which its header names.
    """

    def __init__(
        self,
        encoder: FeedEncoder,
        state: PublishedChannel,
        processed: Callable[[], tuple[int, int]],
    ) -> None:
        self._encoder = encoder
        self._state = state
        self._processed = processed
        """Returns the sequence version and number of the last incremental packet."""

    def begin(self, _now_ns: int) -> Iterator[bytes] | None:
        """Return the messages of a loop, or None while there is nothing to publish."""
        turns = [
            instrument.security_id
            for instrument in self._state.instruments.values()
            if self._has_snapshot(instrument)
        ]
        if not turns:
            return None
        return self._messages(turns)

    def _has_snapshot(self, instrument: PublishedInstrument) -> bool:
        return bool(
            instrument.bids.orders
            or instrument.offers.orders
            or instrument.statistics
            or instrument.last_trade is not None
            or instrument.own_status is not None
            or instrument.group in self._state.phases
        )

    def _messages(self, turns: list[int]) -> Iterator[bytes]:
        flags = self._encoder.end_of_event
        for phase in self._state.shown_phases():
            yield self._encoder.write(phase, flags)
        for security_id in turns:
            instrument = self._state.instruments.get(security_id)
            yield from self.snapshot(security_id, instrument, len(turns))

    def snapshot(
        self, security_id: int, instrument: PublishedInstrument | None, reports: int
    ) -> list[bytes]:
        """Return the messages of an instrument's snapshot, header first.

        An instrument that was deleted, or whose book was just emptied, has only a header.
        """
        version, number = self._processed()
        encoder = self._encoder
        if instrument is None or instrument.emptied:
            if instrument is not None:
                instrument.emptied = False
            return [encoder.snapshot_header(security_id, number, reports, 0, 0, 0, None, version)]
        entries = self._entries(instrument.bids) + self._entries(instrument.offers)
        shown = self._shown(instrument)
        messages = [
            encoder.snapshot_header(
                security_id,
                number,
                reports,
                len(instrument.bids.orders),
                len(instrument.offers.orders),
                len(shown),
                instrument.rpt_seq or None,
                version,
            )
        ]
        orders = encoder.snapshot_orders
        step = ORDERS_PER_MESSAGE * orders.size
        messages.extend(
            orders.message(security_id, entries[start : start + step])
            for start in range(0, len(entries), step)
        )
        messages.extend(encoder.write(item, encoder.end_of_event) for item in shown)
        return messages

    def _entries(self, side: PublishedSide) -> bytes:
        """Return the encoded orders of a side, from best to worst."""
        encoder = self._encoder.snapshot_orders
        write = encoder.entries[side.side]
        if not encoder.placed:
            return side.entries(write, encoder.size)
        side.touched.clear()
        return b"".join(
            [write(order, position) for position, order in enumerate(side.in_order(), 1)]
        )

    def _shown(self, instrument: PublishedInstrument) -> list[Statistic | SecurityStatus]:
        """Return the statistics and bands, the last price and the status."""
        shown: list[Statistic | SecurityStatus] = list(instrument.statistics.values())
        last = instrument.last_price()
        if last is not None:
            shown.append(last)
        status = self._state.shown_status(instrument)
        if status is not None:
            shown.append(status)
        return shown
