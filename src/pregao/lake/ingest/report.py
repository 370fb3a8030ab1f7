"""The report of an ingest: every packet and message accounted for, or the ingest fails."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from pregao.capture import CaptureStatistics
from pregao.errors import PregaoError
from pregao.lake.ingest.decoding import Sums
from pregao.lake.ingest.tasks import Manifest


class AccountingError(PregaoError):
    """The sums of an ingest do not match; nothing was committed."""


@dataclass(slots=True)
class CaptureReport:
    """What became of one capture."""

    name: str
    size: int
    capture_id: str
    content_hash: str = ""
    fingerprint: str = ""
    first_time_ns: int | None = None
    last_time_ns: int | None = None
    statistics: CaptureStatistics = field(default_factory=CaptureStatistics)
    truncated_tail: tuple[int, int] | None = None
    """Position and length of a last record that is not whole."""


@dataclass(slots=True)
class Report:
    """What an ingest did."""

    unit_id: str = ""
    captures: list[CaptureReport] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    """Captures that were there already, by name, with the unit that brought them."""
    sums: Sums = field(default_factory=Sums)
    gaps: list[dict[str, Any]] = field(default_factory=list)
    roles: list[dict[str, Any]] = field(default_factory=list)
    coverage: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """Numbers by ``day/channel/version``, from whichever feed."""
    feeds: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """Numbers by ``day/channel/version/feed``."""
    notes: list[str] = field(default_factory=list)
    tasks: int = 0
    files: int = 0
    bytes_written: int = 0
    worker_memory: int = 0
    """The most bytes that a process that did tasks ever had in memory."""
    seconds: float = 0.0
    committed: bool = False

    @property
    def bytes_read(self) -> int:
        """The size of the captures."""
        return sum(capture.size for capture in self.captures)

    @property
    def messages(self) -> int:
        """The messages decoded."""
        return self.sums.messages.total()

    def json(self) -> dict[str, Any]:
        """Everything in plain types."""
        sums = self.sums
        return {
            "unit_id": self.unit_id,
            "committed": self.committed,
            "seconds": round(self.seconds, 3),
            "messages_per_second": round(self.messages / self.seconds) if self.seconds else None,
            "bytes_read": self.bytes_read,
            "tasks": self.tasks,
            "files": self.files,
            "bytes_written": self.bytes_written,
            "worker_memory": self.worker_memory,
            "packets": {
                "captured": sum(c.statistics.packets for c in self.captures),
                "udp": sum(c.statistics.udp for c in self.captures),
                **{name: sums.packets.get(name, 0) for name in PACKET_OUTCOMES},
            },
            "messages": {
                "decoded": self.messages,
                "unknown_template": sums.unknown.total(),
                "rejected": sums.rejected_messages,
                "by_template": dict(sorted(sums.messages.items())),
                "unknown_by_template": dict(sorted(sums.unknown.items())),
            },
            "rejects_by_reason": dict(sums.reasons.most_common()),
            "conflicting_copies": sums.conflicts,
            "schema_versions": sorted(sums.versions),
            "captures": [_capture_json(capture) for capture in self.captures],
            "skipped": self.skipped,
            "gaps": [
                {key: value for key, value in gap.items() if key != "date"} for gap in self.gaps
            ],
            "roles": self.roles,
            "coverage": self.coverage,
            "feeds": self.feeds,
            "notes": self.notes,
        }


PACKET_OUTCOMES = ("decoded", "duplicate", "rejected", "filtered")


def _capture_json(capture: CaptureReport) -> dict[str, Any]:
    statistics = capture.statistics
    return {
        "name": capture.name,
        "size": capture.size,
        "capture_id": capture.capture_id,
        "content_hash": capture.content_hash,
        "first_time_ns": capture.first_time_ns,
        "last_time_ns": capture.last_time_ns,
        "packets": statistics.packets,
        "udp": statistics.udp,
        "tcp": statistics.tcp,
        "cut": statistics.cut,
        "malformed": dict(statistics.malformed),
        "other": dict(statistics.other),
        "fragments": statistics.fragments,
        "truncated_tail": capture.truncated_tail,
    }


def gather(report: Report, manifests: list[Manifest]) -> None:
    """Add up what the tasks counted."""
    for manifest in manifests:
        report.sums.add(manifest.sums)
        report.worker_memory = max(report.worker_memory, manifest.memory)
        for capture, statistics in manifest.statistics.items():
            report.captures[capture].statistics.add(statistics)
        for capture, (first, last) in manifest.spans.items():
            own = report.captures[capture]
            own.first_time_ns = min(first, own.first_time_ns or first)
            own.last_time_ns = max(last, own.last_time_ns or last)
        for capture, tail in manifest.tails.items():
            report.captures[capture].truncated_tail = tail


def check(report: Report) -> None:
    """Raise AccountingError unless every packet and message stands exactly once."""
    udp = 0
    for capture in report.captures:
        statistics = capture.statistics
        udp += statistics.udp
        if statistics.accounted != statistics.packets:
            raise AccountingError(
                f"{capture.name}: {statistics.packets} packets were read but "
                f"{statistics.accounted} accounted for; nothing was committed."
            )
    sums = report.sums
    if sums.packets.total() != udp:
        raise AccountingError(
            f"{udp} UDP packets were read but {sums.packets.total()} accounted for "
            f"({_listed(sums.packets)}); nothing was committed."
        )
    if sums.keyed_first != sums.keyed_mine:
        raise AccountingError(
            f"{sums.keyed_first} sequence numbers were seen but {sums.keyed_mine} decoded: the "
            "feeds arrive further apart than the skew that was allowed for. Nothing was "
            "committed; raise it with --skew."
        )
    told = sums.messages.total() + sums.unknown.total() + sums.rejected_messages
    if told != sums.walked_messages:
        raise AccountingError(
            f"{sums.walked_messages} messages were found but {told} accounted for; nothing was "
            "committed."
        )


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())
