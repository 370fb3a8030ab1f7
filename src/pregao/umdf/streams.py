"""Which of a channel's three streams a flow of packets is, decided from the messages on it.

A stream belongs to the UDP flow (destination address and port). The streams share templates, so
one packet does not tell; all the templates seen on a flow do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum

from pregao.umdf.templates import (
    CHANNEL_RESET,
    DELETE_ORDER,
    EMPTY_BOOK,
    EXECUTION_SUMMARY,
    FORWARD_TRADE,
    MASS_DELETE_ORDERS,
    NEWS,
    ORDER,
    SECURITY_DEFINITIONS,
    SEQUENCE,
    SEQUENCE_RESET,
    SNAPSHOT_HEADER,
    SNAPSHOT_ORDERS,
    TRADE,
    TRADE_BUST,
)

ONLY_SNAPSHOT = frozenset({SNAPSHOT_HEADER, SNAPSHOT_ORDERS})
ONLY_INCREMENTAL = frozenset(
    {
        NEWS,
        EMPTY_BOOK,
        CHANNEL_RESET,
        ORDER,
        DELETE_ORDER,
        MASS_DELETE_ORDERS,
        TRADE,
        FORWARD_TRADE,
        EXECUTION_SUMMARY,
        TRADE_BUST,
    }
)
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
        return Stream.DEFINITION if others <= SECURITY_DEFINITIONS else Stream.INCREMENTAL

    def _total(self, templates: Iterable[int]) -> int:
        return sum(self.templates.get(template, 0) for template in templates)
