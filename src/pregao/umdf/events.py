"""Events: messages of the incremental stream that belong together, and the event's number.

An event is one atomic change of the market; its last message has EndOfEvent set. Its number is
derived from the key of its first message, so that it rises with the sequence, and is the same
whichever part of a day is read.
"""

from __future__ import annotations

from pregao.sbe.model import MessageTemplate
from pregao.sbe.value_specs import readings
from pregao.umdf.sequencing import PacketKey
from pregao.umdf.templates import END_OF_EVENT, EXECUTION_SUMMARY

EVENT_VERSION = 10**14
EVENT_NUMBER = 10**4
"""An event's number is version · 10¹⁴ + number · 10⁴ + index of its first message."""


def event_number(sequence_version: int, sequence_number: int, index_in_packet: int) -> int:
    """Return the number of the event that starts with a message. Kernels compile this function."""
    return sequence_version * EVENT_VERSION + sequence_number * EVENT_NUMBER + index_in_packet


def flags_at(message: MessageTemplate) -> int | None:
    """Return the offset of the event flags in the block of a template, or None if it has none."""
    found = (each.offset for each in readings(message) if each.name == "matchEventIndicator")
    return next(found, None)


def ends_event(template_id: int, flags: int | None) -> bool:
    """Whether a message is the last of its event; ``flags`` is None for a message without flags.

    A message without flags is a separate event, or ends the current one; except that an
    ExecutionSummary is followed by the trades that it summarizes.
    """
    if flags is None:
        return template_id != EXECUTION_SUMMARY
    return flags & END_OF_EVENT != 0


class EventNumbers:
    """Numbers the events of one channel, message by message, in sequence.

    An event starts after every gap: whether the previous one had ended is unknown.
    """

    __slots__ = ("_begins", "_event", "_last_key")

    def __init__(self) -> None:
        self._last_key: PacketKey | None = None
        self._event = 0
        self._begins = True

    @property
    def running(self) -> tuple[PacketKey | None, int, bool]:
        """The last packet key, the number of the last event, and whether that event has ended."""
        return self._last_key, self._event, self._begins

    def resume_at(self, packet_key: PacketKey, event: int, *, over: bool) -> None:
        """Continue after messages up to a packet that another component numbered."""
        self._last_key, self._event, self._begins = packet_key, event, over

    def number(
        self, packet_key: PacketKey, index_in_packet: int, template_id: int, flags: int | None
    ) -> int:
        """Return the number of a message's event."""
        last = self._last_key
        if packet_key is not last:
            if last is not None and (
                packet_key[0] != last[0] or packet_key[1] - last[1] not in (0, 1)
            ):
                self._begins = True
            self._last_key = packet_key
        if self._begins:
            self._event = event_number(*packet_key, index_in_packet)
        self._begins = ends_event(template_id, flags)
        return self._event
