"""Detection of the stream of a UDP flow, from its messages.

A stream belongs to a UDP flow (destination address and port). The streams of a channel share
templates, so one packet is not sufficient; all templates seen on a flow are.
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
    """Only heartbeats and resets so far."""


class StreamEvidence:
    """Counts the templates seen on a flow, and derives its stream."""

    __slots__ = ("templates",)

    def __init__(self) -> None:
        self.templates: Counter[int] = Counter()

    def add(self, template_id: int, count: int = 1) -> None:
        """Add messages of a template."""
        self.templates[template_id] += count

    def decide(self) -> Stream:
        """Return the stream that matches the templates seen."""
        snapshot = self._total(ONLY_SNAPSHOT)
        incremental = self._total(ONLY_INCREMENTAL)
        if snapshot or incremental:
            # An intact flow has only one of the two; the larger part decides a mixed one.
            return Stream.SNAPSHOT if snapshot > incremental else Stream.INCREMENTAL
        others = set(self.templates) - _EVERYWHERE
        if not others:
            return Stream.UNKNOWN
        return Stream.DEFINITION if others <= SECURITY_DEFINITIONS else Stream.INCREMENTAL

    def _total(self, templates: Iterable[int]) -> int:
        return sum(self.templates.get(template, 0) for template in templates)
