"""Counts of packets and messages, and the result of decoding a window of packets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

PACKET_OUTCOMES = ("decoded", "duplicate", "rejected", "filtered")
DECODED, DUPLICATE, REJECTED, FILTERED = range(4)


@dataclass(slots=True)
class IngestCounts:
    """Counts of packets and their messages, to prove that every payload is accounted for."""

    read: int = 0
    """Owned payloads read; each has exactly one outcome."""
    packets: Counter[str] = field(default_factory=Counter)
    """Owned packets by outcome."""
    keyed_first: int = 0
    """Owned packets that were the first with their key."""
    keyed_mine: int = 0
    """Keys decoded by this window; the sum over all windows must equal that of ``keyed_first``."""
    messages: Counter[str] = field(default_factory=Counter)
    """Decoded messages by template."""
    unknown: Counter[str] = field(default_factory=Counter)
    """Messages of templates that are not in the schema, by template and version."""
    withheld: Counter[str] = field(default_factory=Counter)
    """Values stored as null because they are out of a column's range, by template and column."""
    rejected_messages: int = 0
    walked_messages: int = 0
    """All messages: decoded, unknown and rejected."""
    reasons: Counter[str] = field(default_factory=Counter)
    versions: set[int] = field(default_factory=set)
    conflicts: int = 0
    """Duplicate packets that differ from the first of their key in size or sending time."""

    def add(self, more: IngestCounts) -> None:
        """Add other counts to these."""
        self.packets.update(more.packets)
        self.messages.update(more.messages)
        self.unknown.update(more.unknown)
        self.withheld.update(more.withheld)
        self.reasons.update(more.reasons)
        self.versions |= more.versions
        self.read += more.read
        self.keyed_first += more.keyed_first
        self.keyed_mine += more.keyed_mine
        self.rejected_messages += more.rejected_messages
        self.walked_messages += more.walked_messages
        self.conflicts += more.conflicts


FeedCoverage = dict[tuple[int, int, int, str], list[tuple[int, int]]]
"""Runs of received sequence numbers by day, channel, sequence version and feed."""
RunStarts = dict[tuple[int, int, int, str], dict[int, int]]
"""Capture times of the runs' first packets, by the same key and by sequence number."""


@dataclass(slots=True)
class WindowRows:
    """Result of a window: rows by table and day, counts, and the coverage of each feed."""

    tables: dict[tuple[str, int], list[Any]] = field(default_factory=dict)
    rejects: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    """Rows of what could not be decoded, by day."""
    sums: IngestCounts = field(default_factory=IngestCounts)
    coverage: FeedCoverage = field(default_factory=dict)
    around: FeedCoverage = field(default_factory=dict)
    """Coverage of packets outside the unit: read, but owned by another unit."""
    starts: RunStarts = field(default_factory=dict)
    evidence: Counter[tuple[int, int]] = field(default_factory=Counter)
    """Messages by role and kind, from which a flow's stream is detected."""

    def put(self, table: str, day: int, rows: Any) -> None:
        """Add rows to a table."""
        self.tables.setdefault((table, day), []).append(rows)


def merge_first_times(
    starts: RunStarts, key: tuple[int, int, int, str], times: Iterable[tuple[int, int]]
) -> None:
    """Merge capture times into those of a feed, keeping the earliest of each number."""
    earliest = starts.setdefault(key, {})
    for number, time in times:
        earliest[number] = min(time, earliest.get(number, time))
