"""The instrument definition stream: every instrument of the channel that can still be traded."""

from __future__ import annotations

from collections.abc import Iterator

from pregao.clock import SECOND
from pregao.exchange.engine.instruments import Instrument
from pregao.exchange.engine.terms import SecurityUpdateAction
from pregao.exchange.publisher.encoding.encoder import FeedEncoder
from pregao.exchange.publisher.state import ChannelState


class DefinitionWriter:
    """Makes the messages of definition loops; what was deleted or has expired is left out."""

    def __init__(self, encoder: FeedEncoder, state: ChannelState) -> None:
        self._encoder = encoder
        self._state = state
        self._written: dict[int, tuple[Instrument, int, bool, bytes]] = {}

    def begin(self, now_ns: int) -> Iterator[bytes] | None:
        """The messages of a loop, or None while there is no instrument."""
        instruments = [
            instrument
            for instrument in self._state.definitions.values()
            if instrument.security_validity_s * SECOND >= now_ns
        ]
        if not instruments:
            return None
        return self._messages(instruments)

    def _messages(self, instruments: list[Instrument]) -> Iterator[bytes]:
        """The list as it was when the loop began, so that its count holds."""
        total = len(instruments)
        for number, instrument in enumerate(instruments, 1):
            yield self._message(instrument, total, last=number == total)
        listed = {instrument.security_id for instrument in instruments}
        for security_id in self._written.keys() - listed:
            del self._written[security_id]

    def _message(self, instrument: Instrument, total: int, last: bool) -> bytes:
        """A definition's message; it is the same in every loop until the list changes."""
        security_id = instrument.security_id
        kept = self._written.get(security_id)
        if kept is not None and kept[:3] == (instrument, total, last):
            return kept[3]
        message = self._encoder.definitions.message(
            instrument, SecurityUpdateAction.ADD, total, last_fragment=last
        )
        self._written[security_id] = (instrument, total, last, message)
        return message
