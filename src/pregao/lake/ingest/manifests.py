"""Result of a task, returned to the process that planned it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from pregao.capture.statistics import CaptureStatistics
from pregao.lake.ingest.accounts import FeedCoverage, IngestCounts, RunStarts
from pregao.lake.ingest.merging import StagedTable
from pregao.lake.store.parquet import WrittenFile


@dataclass(slots=True)
class TaskManifest:
    """Files, counts and findings of a task."""

    task: int
    protocol: str
    files: list[WrittenFile] = field(default_factory=list)
    staged: list[StagedTable] = field(default_factory=list)
    sums: IngestCounts = field(default_factory=IngestCounts)
    coverage: FeedCoverage = field(default_factory=dict)
    around: FeedCoverage = field(default_factory=dict)
    """Coverage of packets of other units, before and after the task's own."""
    starts: RunStarts = field(default_factory=dict)
    statistics: dict[int, CaptureStatistics] = field(default_factory=dict)
    spans: dict[int, tuple[int, int]] = field(default_factory=dict)
    """First and last capture time, by capture."""
    hashes: dict[int, dict[int, bytes]] = field(default_factory=dict)
    """Block hashes by capture and block number."""
    plain: dict[int, tuple[str, str]] = field(default_factory=dict)
    """Hash and fingerprint of the decompressed bytes, by compressed capture."""
    tails: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Position and length of an incomplete last record, by capture."""
    evidence: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Messages by flow and kind."""
    damaged: dict[int, str] = field(default_factory=dict)
    """Errors by unreadable capture; if there are any, the rest of the manifest is invalid."""
    strange: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    """Number of packets with outlier times, position and time of the first, by capture."""
    missed: set[tuple[int, str]] = field(default_factory=set)
    """Captures and flows of protocols whose tasks do not read the capture."""
    memory: int = 0
    """Peak memory of the task's process, in bytes."""
