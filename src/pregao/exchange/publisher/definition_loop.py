"""Instrument definition stream: every instrument of the channel that has not expired."""

from __future__ import annotations

from collections.abc import Iterator

from pregao.clock import SECOND
from pregao.exchange.engine.instruments import Instrument
from pregao.exchange.engine.terms import SecurityUpdateAction
from pregao.exchange.publisher.encoding.encoder import FeedEncoder
from pregao.exchange.publisher.state import PublishedChannel


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
