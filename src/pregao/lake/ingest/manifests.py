"""What a task wrote, counted and found, as it is sent back to who planned it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from pregao.capture import CaptureStatistics
from pregao.lake.ingest.accounts import FeedCoverage, RunStarts, Sums
from pregao.lake.ingest.merging import Staged
from pregao.lake.store import Written


@dataclass(slots=True)
class Manifest:
    """What a task wrote, counted and found."""

    task: int
    protocol: str
    files: list[Written] = field(default_factory=list)
    staged: list[Staged] = field(default_factory=list)
    sums: Sums = field(default_factory=Sums)
    coverage: FeedCoverage = field(default_factory=dict)
    around: FeedCoverage = field(default_factory=dict)
    """What was seen of other units' packets, before and after."""
    starts: RunStarts = field(default_factory=dict)
    statistics: dict[int, CaptureStatistics] = field(default_factory=dict)
    spans: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By capture: the first and last capture time."""
    hashes: dict[int, dict[int, bytes]] = field(default_factory=dict)
    """By capture, by number of block."""
    plain: dict[int, tuple[str, str]] = field(default_factory=dict)
    """By capture that is compressed: the hash and the fingerprint of its decompressed bytes."""
    tails: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By capture: position and length of a record that is not whole."""
    evidence: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Messages by flow and kind."""
    damaged: dict[int, str] = field(default_factory=dict)
    """By capture that cannot be read: why. Nothing else of the manifest counts then."""
    strange: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    """By capture: how many packets' times make no sense, and position and time of the first."""
    missed: set[tuple[int, str]] = field(default_factory=set)
    """Captures and flows of protocols whose tasks do not read the capture."""
    memory: int = 0
    """The most bytes that the process of the task ever had in memory."""
