"""The account of packets and messages, and what a window of packets gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

PACKET_OUTCOMES = ("decoded", "duplicate", "rejected", "filtered")
DECODED, DUPLICATE, REJECTED, FILTERED = range(4)


@dataclass(slots=True)
class Sums:
    """The account of some packets and their messages."""

    read: int = 0
    """Payloads that were read and owned; each has one outcome."""
    packets: Counter[str] = field(default_factory=Counter)
    """Owned packets by outcome."""
    keyed_first: int = 0
    """Owned packets that were the first of a key."""
    keyed_mine: int = 0
    """Keys that were decoded here; over all windows it must equal ``keyed_first``."""
    messages: Counter[str] = field(default_factory=Counter)
    """Decoded messages by template."""
    unknown: Counter[str] = field(default_factory=Counter)
    """Messages of templates that the schema does not have, by template and version."""
    withheld: Counter[str] = field(default_factory=Counter)
    """Values that columns cannot hold and are null in them, by template and column."""
    rejected_messages: int = 0
    walked_messages: int = 0
    """All messages to be accounted for: decoded, unknown and rejected ones."""
    reasons: Counter[str] = field(default_factory=Counter)
    versions: set[int] = field(default_factory=set)
    conflicts: int = 0
    """Packets of the same key that differ in size or sending time."""

    def add(self, more: Sums) -> None:
        """Add another account."""
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
"""By day, channel, sequence version and feed: the runs of numbers that were seen."""
RunStarts = dict[tuple[int, int, int, str], dict[int, int]]
"""By the same: when the first packets of runs were captured."""


@dataclass(slots=True)
class WindowRows:
    """What a window gave: rows by table and day, the account, the coverage of each feed."""

    tables: dict[tuple[str, int], list[Any]] = field(default_factory=dict)
    rejects: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    """By day, what could not be decoded."""
    sums: Sums = field(default_factory=Sums)
    coverage: FeedCoverage = field(default_factory=dict)
    around: FeedCoverage = field(default_factory=dict)
    """What was seen of other units' packets."""
    starts: RunStarts = field(default_factory=dict)
    evidence: Counter[tuple[int, int]] = field(default_factory=Counter)
    """Messages by role and kind: what shows which stream a flow carries."""

    def put(self, table: str, day: int, rows: Any) -> None:
        """Add rows to a table."""
        self.tables.setdefault((table, day), []).append(rows)


def first_seen(
    starts: RunStarts, key: tuple[int, int, int, str], times: Iterable[tuple[int, int]]
) -> None:
    """Add when packets came to what is known of a feed's; of copies, the first counts."""
    known = starts.setdefault(key, {})
    for number, time in times:
        known[number] = min(time, known.get(number, time))
