"""The report of an ingest: every packet and message accounted for, or the ingest fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pregao.capture import CaptureStatistics
from pregao.clock import format_ns
from pregao.errors import PregaoError
from pregao.lake.ingest.accounts import PACKET_OUTCOMES, Sums
from pregao.lake.ingest.manifests import Manifest
from pregao.lake.ingest.protocols import PROTOCOLS, first_protocol


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
    plain_fingerprint: str = ""
    """Of a compressed one: the fingerprint of its decompressed bytes."""
    range_hash: str = ""
    """Of a range of a growing file: the hash of its bytes."""
    first_time_ns: int | None = None
    last_time_ns: int | None = None
    statistics: CaptureStatistics = field(default_factory=CaptureStatistics)
    truncated_tail: tuple[int, int] | None = None
    """Position and length of a last record that is not whole."""


@dataclass(slots=True)
class ProtocolAccount:
    """What an ingest took in of one protocol."""

    sums: Sums = field(default_factory=Sums)
    coverage: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """Numbers by ``day/channel/version``, from whichever feed."""
    feeds: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """Numbers by ``day/channel/version/feed``."""


@dataclass(slots=True)
class Report:
    """What an ingest did."""

    unit_id: str = ""
    captures: list[CaptureReport] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    """Captures that were there already, by name, with the unit that brought them."""
    damaged: dict[str, str] = field(default_factory=dict)
    """Captures that were left out because they cannot be read, by name, with the reason."""
    accounts: dict[str, ProtocolAccount] = field(default_factory=dict)
    """By protocol."""
    gaps: list[dict[str, Any]] = field(default_factory=list)
    roles: list[dict[str, Any]] = field(default_factory=list)
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

    def account(self, protocol: str) -> ProtocolAccount:
        """What was taken in of a protocol."""
        return self.accounts.setdefault(protocol, ProtocolAccount())

    @property
    def sums(self) -> Sums:
        """The account over all protocols."""
        total = Sums()
        for account in self.accounts.values():
            total.add(account.sums)
        return total

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
                **_packets_json(sums),
            },
            "messages": _messages_json(sums),
            "protocols": {
                name: _account_json(name, account) for name, account in self.accounts.items()
            },
            "rejects_by_reason": dict(sums.reasons.most_common()),
            "conflicting_copies": sums.conflicts,
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
        """The report as the lake keeps it, in plain types: however many captures there were, small.

        What is left out is in the tables: the captures in ``ingests``, the holes in ``gaps``. Of
        captures in which something was odd, the first few are told.
        """
        told = self.json()
        odd = [one for one in map(_odd, told["captures"]) if one]
        told["captures"] = odd[:_FEW]
        told["capture_count"] = len(self.captures)
        told["odd_captures"] = len(odd)
        told["skipped"] = len(self.skipped)
        told["damaged"] = dict(list(self.damaged.items())[:_FEW])
        told["damaged_captures"] = len(self.damaged)
        told["gaps"] = len(self.gaps)
        told["notes"] = self.notes[:_FEW]
        return told


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
"""What the rows of ``ingests`` tell of a capture."""


def _odd(capture: Mapping[str, Any]) -> dict[str, Any]:
    """What a capture held besides whole UDP packets; nothing if there was nothing else."""
    own = {name: value for name, value in capture.items() if name not in _IN_ROWS and value}
    if own.get("packets") == capture["udp"]:
        own.pop("packets", None)
    return own if own.keys() - {"name", "capture_id"} else {}


def _packets_json(sums: Sums) -> dict[str, int]:
    return {name: sums.packets.get(name, 0) for name in PACKET_OUTCOMES}


def _messages_json(sums: Sums) -> dict[str, Any]:
    return {
        "decoded": sums.messages.total(),
        "unknown_template": sums.unknown.total(),
        "rejected": sums.rejected_messages,
        "by_template": dict(sorted(sums.messages.items())),
        "unknown_by_template": dict(sorted(sums.unknown.items())),
        **({"withheld": dict(sorted(sums.withheld.items()))} if sums.withheld else {}),
    }


def _account_json(name: str, account: ProtocolAccount) -> dict[str, Any]:
    told: dict[str, Any] = {
        "packets": _packets_json(account.sums),
        "messages": _messages_json(account.sums),
    }
    if name != first_protocol().name:  # whose sequences are where lakes have always had them
        told |= {"coverage": account.coverage, "feeds": account.feeds}
    return told


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


def gather(report: Report, manifests: list[Manifest]) -> None:
    """Add up what the tasks counted."""
    for manifest in manifests:
        report.account(manifest.protocol).sums.add(manifest.sums)
        report.worker_memory = max(report.worker_memory, manifest.memory)
        for capture, statistics in manifest.statistics.items():
            report.captures[capture].statistics.add(statistics)
        for capture, (first, last) in manifest.spans.items():
            own = report.captures[capture]
            own.first_time_ns = min(first, own.first_time_ns or first)
            own.last_time_ns = max(last, own.last_time_ns or last)
        for capture, (count, position, time) in manifest.strange.items():
            packets = (
                "1 packet has a time that makes"
                if count == 1
                else (f"{count:,} packets have times that make")
            )
            report.notes.append(
                f"{report.captures[capture].name}: {packets} no sense beside the packets around "
                f"it: {format_ns(time)}, at byte {position}. Nothing was left out for that."
            )
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
    for name, account in report.accounts.items():
        _check_sums(name, account.sums)
    datagrams = [PROTOCOLS[name].transport == "udp" for name in report.accounts]
    read = [account.sums.read for account in report.accounts.values()]
    taken = sum(count for count, counts in zip(read, datagrams, strict=True) if counts)
    if taken != udp:
        raise AccountingError(
            f"{udp} UDP packets were read but {taken} taken by a protocol; nothing was committed."
        )


def _check_sums(name: str, sums: Sums) -> None:
    if sums.packets.total() != sums.read:
        raise AccountingError(
            f"{sums.read} packets of {name} were read but {sums.packets.total()} accounted for "
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
            f"{sums.walked_messages} messages of {name} were found but {told} accounted for; "
            "nothing was committed."
        )


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())
