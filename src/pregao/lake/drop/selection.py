"""Selection of a drop: whole ingests, or channels and days of all ingests."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from pregao.errors import UsageError
from pregao.lake.ingest.history import coverage_by_protocol
from pregao.lake.storage.lake_store import LakeStore
from pregao.units import iso_day

_MIN_PREFIX = 4
"""Minimum length of an abbreviated ingest name."""


@dataclass(frozen=True, slots=True)
class DropSelection:
    """Data to drop: ingests by name; or days, channels, or the combination of both."""

    dates: tuple[date, ...] = ()
    channels: tuple[int, ...] = ()
    ingests: tuple[str, ...] = ()

    def check(self) -> None:
        """Reject a selection that is empty or combines ingests with days or channels."""
        if not (self.dates or self.channels or self.ingests):
            raise UsageError("Select what to drop with --date, --channel or --ingest.")
        if self.ingests and (self.dates or self.channels):
            raise UsageError(
                "--ingest drops a whole ingest and cannot be combined with --date or --channel."
            )

    def words(self) -> str:
        """Describe the selection for messages."""
        if self.ingests:
            return f"ingest {', '.join(self.ingests)}"
        parts = [f"{day.isoformat()}" for day in self.dates]
        parts += [f"channel {channel}" for channel in self.channels]
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class IngestRecord:
    """An ingest, read from the table `ingests`."""

    unit_id: str
    rows: tuple[Mapping[str, Any], ...]
    report: Mapping[str, Any]

    @property
    def captures(self) -> set[str]:
        """Capture IDs of the ingest."""
        return {row["capture_id"] for row in self.rows}

    @property
    def committed_at_ns(self) -> int:
        """Commit time."""
        return max(row["committed_at_ns"] or 0 for row in self.rows)


def read_ingests(lake: LakeStore) -> dict[str, IngestRecord]:
    """Return the ingests of a lake by unit ID, without the records of earlier drops."""
    by_unit: dict[str, list[Mapping[str, Any]]] = {}
    for row in lake.delta("ingests").to_pyarrow_table().to_pylist():
        by_unit.setdefault(row["unit_id"], []).append(row)
    found = {}
    for unit, rows in by_unit.items():
        text = next((row["report"] for row in rows if row["report"]), None)
        report = json.loads(text) if text else {}
        if "dropped" not in report:
            found[unit] = IngestRecord(unit, tuple(rows), report)
    return found


def named_ingests(known: Mapping[str, IngestRecord], names: Iterable[str]) -> list[IngestRecord]:
    """Return the ingests with the given names, which may be abbreviated."""
    found = {}
    for name in names:
        own = [unit for unit in known if unit.startswith(name)]
        if len(name) < _MIN_PREFIX or len(own) != 1:
            listed = ", ".join(sorted(own or known)) or "no ingests"
            why = "matches several ingests" if len(own) > 1 else "matches no ingest"
            if len(name) < _MIN_PREFIX:
                why = f"is too short: give at least {_MIN_PREFIX} characters"
            raise UsageError(f"--ingest {name!r} {why}. Available: {listed}.")
        found[own[0]] = known[own[0]]
    return list(found.values())


def refuse_needed(known: Mapping[str, IngestRecord], chosen: Sequence[IngestRecord]) -> None:
    """Reject a drop of ingests that later ones depend on.

    A packet that the lake already has is not decoded again: a later ingest that received it too has
    only its row in the packets table, not its messages.
    """
    dropped = {ingest.unit_id for ingest in chosen}
    for ingest in chosen:
        for other in known.values():
            if other.unit_id in dropped or other.committed_at_ns < ingest.committed_at_ns:
                continue
            if shared := _shared(ingest.report, other.report):
                raise UsageError(
                    f"Ingest {ingest.unit_id} cannot be dropped alone: the later ingest "
                    f"{other.unit_id} received the same packets of {shared}, whose messages are "
                    f"stored once, with {ingest.unit_id}. Drop both "
                    f"(--ingest {ingest.unit_id} --ingest {other.unit_id}), or the day (--date)."
                )


def _shared(one: Mapping[str, Any], other: Mapping[str, Any]) -> str | None:
    """Return a channel and day of which both ingests received the same packets, or None."""
    if not one or not other:
        return None
    theirs = coverage_by_protocol(other)
    for protocol, report in coverage_by_protocol(one).items():
        for channel_day, runs in report["coverage"].items():
            for first, last in theirs.get(protocol, {}).get("coverage", {}).get(channel_day, ()):
                if any(first <= end and start <= last for start, end in runs):
                    day, channel, _ = channel_day.split("/")
                    return f"channel {channel} on {iso_day(int(day))}"
    return None
