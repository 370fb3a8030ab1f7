"""Snapshot recovery stream: phases of groups, then each instrument's book and statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pregao.exchange.engine.events import SecurityStatus, Statistic
from pregao.exchange.publisher.encoding.encoder import FeedEncoder
from pregao.exchange.publisher.state import PublishedChannel, PublishedInstrument, PublishedSide

ORDERS_PER_MESSAGE = 20


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
