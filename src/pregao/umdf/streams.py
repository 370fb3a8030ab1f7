"""Which of a channel's three streams a flow of packets is, decided from the messages on it.

A stream belongs to the UDP flow (destination address and port). The streams share templates, so
one packet does not tell; all the templates seen on a flow do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum

SEQUENCE_RESET = 1
SEQUENCE = 2
DEFINITIONS = frozenset({4, 12})
"""The instrument definition, as versions below and from 8 on send it."""
ONLY_SNAPSHOT = frozenset({30, 71})
ONLY_INCREMENTAL = frozenset({5, 9, 11, 50, 51, 52, 53, 54, 55, 57})
_EVERYWHERE = frozenset({SEQUENCE_RESET, SEQUENCE})


class Stream(Enum):
    """A channel's streams."""

    INCREMENTAL = "incremental"
    SNAPSHOT = "snapshot"
    DEFINITION = "definition"
    UNKNOWN = "unknown"
    """Nothing but heartbeats and resets so far."""


class StreamEvidence:
    """Counts the templates seen on a flow and says which stream it must be."""

    __slots__ = ("templates",)

    def __init__(self) -> None:
        self.templates: Counter[int] = Counter()

    def add(self, template_id: int, count: int = 1) -> None:
        """Take note of messages seen."""
        self.templates[template_id] += count

    def decide(self) -> Stream:
        """The stream that explains what was seen."""
        snapshot = self._total(ONLY_SNAPSHOT)
        incremental = self._total(ONLY_INCREMENTAL)
        if snapshot or incremental:
            # A sound flow has only one of the two; of a mixed one, the larger part names it.
            return Stream.SNAPSHOT if snapshot > incremental else Stream.INCREMENTAL
        others = set(self.templates) - _EVERYWHERE
        if not others:
            return Stream.UNKNOWN
        return Stream.DEFINITION if others <= DEFINITIONS else Stream.INCREMENTAL

    def _total(self, templates: Iterable[int]) -> int:
        return sum(self.templates.get(template, 0) for template in templates)
