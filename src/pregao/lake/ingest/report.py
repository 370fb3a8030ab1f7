"""The report of an ingest; if a packet or message is not accounted for, the ingest fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pregao.capture.statistics import CaptureStatistics
from pregao.clock import format_ns
from pregao.errors import PregaoError
from pregao.lake.ingest.accounting import PACKET_OUTCOMES, IngestCounts
from pregao.lake.ingest.merging import TaskManifest
from pregao.lake.ingest.registry import PROTOCOLS, first_protocol


class AccountingError(PregaoError):
    """The counts of an ingest do not match; nothing was committed."""


@dataclass(slots=True)
class CaptureReport:
    """Result of one capture."""

    name: str
    size: int
    capture_id: str
    content_hash: str = ""
    fingerprint: str = ""
    plain_fingerprint: str = ""
    """Fingerprint of the decompressed bytes of a compressed capture."""
    range_hash: str = ""
    """Hash of the bytes of a range of a growing file."""
    first_time_ns: int | None = None
    last_time_ns: int | None = None
    statistics: CaptureStatistics = field(default_factory=CaptureStatistics)
    truncated_tail: tuple[int, int] | None = None
    """Position and length of an incomplete last record."""


@dataclass(slots=True)
class ProtocolAccount:
    """Counts and coverage of one protocol in an ingest."""

    sums: IngestCounts = field(default_factory=IngestCounts)
    coverage: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """Runs of sequence numbers of all feeds, by ``day/channel/version``."""
    feeds: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """Runs of sequence numbers by ``day/channel/version/feed``."""


@dataclass(slots=True)
class IngestReport:
    """Result of an ingest."""

    unit_id: str = ""
    captures: list[CaptureReport] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    """Captures that the lake already has, by name, with the unit that ingested them."""
    damaged: dict[str, str] = field(default_factory=dict)
    """Captures skipped because they cannot be read, by name, with the reason."""
    accounts: dict[str, ProtocolAccount] = field(default_factory=dict)
    """By protocol."""
    gaps: list[dict[str, Any]] = field(default_factory=list)
    roles: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    tasks: int = 0
    files: int = 0
    bytes_written: int = 0
    worker_memory: int = 0
    """Peak memory of any process that ran tasks, in bytes."""
    seconds: float = 0.0
    committed: bool = False

    @property
    def bytes_read(self) -> int:
        """Total size of the captures."""
        return sum(capture.size for capture in self.captures)

    def account(self, protocol: str) -> ProtocolAccount:
        """Return the account of a protocol; creates it if missing."""
        return self.accounts.setdefault(protocol, ProtocolAccount())

    @property
    def sums(self) -> IngestCounts:
        """Counts over all protocols."""
        total = IngestCounts()
        for account in self.accounts.values():
            total.add(account.sums)
        return total

    @property
    def messages(self) -> int:
        """Number of decoded messages."""
        return self.sums.messages.total()

    def json(self) -> dict[str, Any]:
        """Return the report as JSON types."""
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
            "peak_worker_bytes": self.worker_memory,
            "packets": {
                "captured": sum(c.statistics.packets for c in self.captures),
                "udp": sum(c.statistics.udp for c in self.captures),
                **_packets_json(sums),
            },
            "messages": _messages_json(sums),
            "protocols": {
                name: _account_json(name, account) for name, account in self.accounts.items()
            },
            "rejects_by_reason": dict(sums.reasons.most_common()),
            "conflicting_duplicates": sums.conflicts,
            "schema_versions": sorted(sums.versions),
            "captures": [_capture_json(capture) for capture in self.captures],
            "skipped": self.skipped,
            "damaged": self.damaged,
            "gaps": [
                {key: value for key, value in gap.items() if key != "date"} for gap in self.gaps
            ],
            "roles": self.roles,
            "coverage": self.account(first_protocol().name).coverage,
            "feeds": self.account(first_protocol().name).feeds,
            "notes": self.notes,
        }

    def kept(self) -> dict[str, Any]:
        """Return the report to store in the lake as JSON types, small for any number of captures.

        The omitted parts are in tables: captures in ``ingests``, gaps in ``gaps``. Only the first
        few captures with issues are included.
        """
        report = self.json()
        with_issues = [one for one in map(_odd, report["captures"]) if one]
        report["captures"] = with_issues[:_FEW]
        report["capture_count"] = len(self.captures)
        report["captures_with_issues"] = len(with_issues)
        report["skipped"] = len(self.skipped)
        report["damaged"] = dict(list(self.damaged.items())[:_FEW])
        report["damaged_captures"] = len(self.damaged)
        report["gaps"] = len(self.gaps)
        report["notes"] = self.notes[:_FEW]
        return report


_FEW = 20
_IN_ROWS = (
    "size",
    "content_hash",
    "plain_fingerprint",
    "range_hash",
    "first_time_ns",
    "last_time_ns",
    "udp",
)
"""Keys of a capture that the rows of ``ingests`` have."""


def _odd(capture: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a capture has other than complete UDP packets; an empty dict if nothing."""
    own = {name: value for name, value in capture.items() if name not in _IN_ROWS and value}
    if own.get("packets") == capture["udp"]:
        own.pop("packets", None)
    return own if own.keys() - {"name", "capture_id"} else {}


def _packets_json(sums: IngestCounts) -> dict[str, int]:
    return {name: sums.packets.get(name, 0) for name in PACKET_OUTCOMES}


def _messages_json(sums: IngestCounts) -> dict[str, Any]:
    return {
        "decoded": sums.messages.total(),
        "unknown_template": sums.unknown.total(),
        "rejected": sums.rejected_messages,
        "by_template": dict(sorted(sums.messages.items())),
        "unknown_by_template": dict(sorted(sums.unknown.items())),
        **({"nulled_values": dict(sorted(sums.withheld.items()))} if sums.withheld else {}),
    }


def _account_json(name: str, account: ProtocolAccount) -> dict[str, Any]:
    result: dict[str, Any] = {
        "packets": _packets_json(account.sums),
        "messages": _messages_json(account.sums),
    }
    if name != first_protocol().name:  # the first protocol's are at the top level, for old lakes
        result |= {"coverage": account.coverage, "feeds": account.feeds}
    return result


def _capture_json(capture: CaptureReport) -> dict[str, Any]:
    statistics = capture.statistics
    return {
        "name": capture.name,
        "size": capture.size,
        "capture_id": capture.capture_id,
        "content_hash": capture.content_hash,
        **{
            name: value
            for name, value in (
                ("plain_fingerprint", capture.plain_fingerprint),
                ("range_hash", capture.range_hash),
            )
            if value
        },
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


def gather(report: IngestReport, manifests: list[TaskManifest]) -> None:
    """Add the counts of the tasks to the report."""
    for manifest in manifests:
        report.account(manifest.protocol).sums.add(manifest.sums)
        report.worker_memory = max(report.worker_memory, manifest.memory)
        for capture, statistics in manifest.statistics.items():
            report.captures[capture].statistics.add(statistics)
        for capture, (first, last) in manifest.spans.items():
            own = report.captures[capture]
            own.first_time_ns = min(first, own.first_time_ns or first)
            own.last_time_ns = max(last, own.last_time_ns or last)
        for capture, (count, position, time) in manifest.time_outliers.items():
            packets = (
                "1 packet has a capture time"
                if count == 1
                else (f"{count:,} packets have capture times")
            )
            report.notes.append(
                f"{report.captures[capture].name}: {packets} far from those of the neighboring "
                f"packets, first {format_ns(time)} at byte {position}. All packets were ingested."
            )
        for capture, tail in manifest.tails.items():
            report.captures[capture].truncated_tail = tail


def check(report: IngestReport) -> None:
    """Raise AccountingError unless every packet and message is counted exactly once."""
    udp = 0
    for capture in report.captures:
        statistics = capture.statistics
        udp += statistics.udp
        if statistics.accounted != statistics.packets:
            raise AccountingError(
                f"{capture.name}: {statistics.packets} packets were read but "
                f"{statistics.accounted} accounted for; nothing was committed."
            )
    for name, account in report.accounts.items():
        _check_sums(name, account.sums)
    datagrams = [PROTOCOLS[name].transport == "udp" for name in report.accounts]
    read = [account.sums.read for account in report.accounts.values()]
    claimed = sum(count for count, counts in zip(read, datagrams, strict=True) if counts)
    if claimed != udp:
        raise AccountingError(
            f"{udp} UDP packets were read but {claimed} assigned to a protocol; "
            "nothing was committed."
        )


def _check_sums(name: str, sums: IngestCounts) -> None:
    if sums.packets.total() != sums.read:
        raise AccountingError(
            f"{sums.read} packets of {name} were read but {sums.packets.total()} accounted for "
            f"({_listed(sums.packets)}); nothing was committed."
        )
    if sums.keyed_first != sums.keyed_mine:
        raise AccountingError(
            f"{sums.keyed_first} sequence numbers were received but {sums.keyed_mine} decoded: the "
            "delay between the feeds exceeds the allowed skew. Nothing was committed; "
            "raise the limit with --max-feed-skew."
        )
    accounted = sums.messages.total() + sums.unknown.total() + sums.rejected_messages
    if accounted != sums.walked_messages:
        raise AccountingError(
            f"{sums.walked_messages} messages of {name} were found but {accounted} accounted for; "
            "nothing was committed."
        )


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())
