"""Events: which messages of the incremental stream belong together, and their event's number.

An event is what happened at once in the market; its last message says EndOfEvent. Its number is
the place of its first message, so that it rises with the sequence, and whoever reads any part of
a day gives an event the same number.
"""

from __future__ import annotations

from pregao.sbe.model import Message
from pregao.sbe.values import readings
from pregao.umdf.sequencing import Place
from pregao.umdf.templates import END_OF_EVENT, EXECUTION_SUMMARY

EVENT_VERSION = 10**14
EVENT_NUMBER = 10**4
"""An event's number is version · 10¹⁴ + number · 10⁴ + index of its first message."""


def event_number(sequence_version: int, sequence_number: int, index_in_packet: int) -> int:
    """The number of the event that begins with a message. Kernels compile this same function."""
    return sequence_version * EVENT_VERSION + sequence_number * EVENT_NUMBER + index_in_packet


def flags_at(message: Message) -> int | None:
    """Where in the block of a template's messages the event flags are; None if it has none."""
    found = (each.offset for each in readings(message) if each.name == "matchEventIndicator")
    return next(found, None)


def ends_event(template_id: int, flags: int | None) -> bool:
    """Is a message the last one of its event? ``flags`` is None of one that carries none.

    Such a message is an event of its own, or ends the one it is in; but an ExecutionSummary is
    followed by the trades that it sums up.
    """
    if flags is None:
        return template_id != EXECUTION_SUMMARY
    return flags & END_OF_EVENT != 0


class EventNumbers:
    """Numbers the events of one channel, message by message, in the order of the sequence.

    Behind a hole an event begins anew: nobody knows whether the one before it had ended.
    """

    __slots__ = ("_begins", "_event", "_place")

    def __init__(self) -> None:
        self._place: Place | None = None
        self._event = 0
        self._begins = True

    @property
    def running(self) -> tuple[Place | None, int, bool]:
        """The last packet, the number of the last event, and whether that one is over."""
        return self._place, self._event, self._begins

    def go_on(self, place: Place, event: int, *, over: bool) -> None:
        """Messages up to those of a packet were numbered elsewhere."""
        self._place, self._event, self._begins = place, event, over

    def number(
        self, place: Place, index_in_packet: int, template_id: int, flags: int | None
    ) -> int:
        """The number of a message's event."""
        last = self._place
        if place is not last:
            if last is not None and (place[0] != last[0] or place[1] - last[1] not in (0, 1)):
                self._begins = True
            self._place = place
        if self._begins:
            self._event = event_number(*place, index_in_packet)
        self._begins = ends_event(template_id, flags)
        return self._event
