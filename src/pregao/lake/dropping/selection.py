"""What is to be dropped: whole ingests, or channels and days of all of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from pregao.errors import UsageError
from pregao.lake.ingest import coverage_by_protocol
from pregao.lake.store import Lake

_SHORTEST = 4
"""So many characters of an ingest's name are asked for."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What is to be dropped: ingests by their names; or days, channels, or both together."""

    dates: tuple[date, ...] = ()
    channels: tuple[int, ...] = ()
    ingests: tuple[str, ...] = ()

    def check(self) -> None:
        """Refuse what would be nothing, or everything by mistake."""
        if not (self.dates or self.channels or self.ingests):
            raise UsageError("Say what is to be dropped: --date, --channel or --ingest.")
        if self.ingests and (self.dates or self.channels):
            raise UsageError("An ingest is dropped as a whole: leave out --date and --channel.")

    def words(self) -> str:
        """What it is, in words."""
        if self.ingests:
            return f"ingest {', '.join(self.ingests)}"
        parts = [f"{day.isoformat()}" for day in self.dates]
        parts += [f"channel {channel}" for channel in self.channels]
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Ingest:
    """An ingest as the table of ingests tells it."""

    unit_id: str
    rows: tuple[Mapping[str, Any], ...]
    report: Mapping[str, Any]

    @property
    def captures(self) -> set[str]:
        """The names that its captures have in the tables."""
        return {row["capture_id"] for row in self.rows}

    @property
    def committed_at_ns(self) -> int:
        """When it was committed."""
        return max(row["committed_at_ns"] or 0 for row in self.rows)


def read_ingests(lake: Lake) -> dict[str, Ingest]:
    """The ingests of a lake by their names; what tells of earlier drops is not among them."""
    by_unit: dict[str, list[Mapping[str, Any]]] = {}
    for row in lake.delta("ingests").to_pyarrow_table().to_pylist():
        by_unit.setdefault(row["unit_id"], []).append(row)
    found = {}
    for unit, rows in by_unit.items():
        text = next((row["report"] for row in rows if row["report"]), None)
        report = json.loads(text) if text else {}
        if "dropped" not in report:
            found[unit] = Ingest(unit, tuple(rows), report)
    return found


def named_ingests(known: Mapping[str, Ingest], names: Iterable[str]) -> list[Ingest]:
    """The ingests of these names, which may be cut short."""
    found = {}
    for name in names:
        own = [unit for unit in known if unit.startswith(name)]
        if len(name) < _SHORTEST or len(own) != 1:
            listed = ", ".join(sorted(own or known)) or "none at all"
            why = "is the beginning of several" if len(own) > 1 else "is none of its ingests"
            if len(name) < _SHORTEST:
                why = f"is too short: give {_SHORTEST} characters or more"
            raise UsageError(f"{name!r} {why}; they are {listed}.")
        found[own[0]] = known[own[0]]
    return list(found.values())


def refuse_needed(known: Mapping[str, Ingest], chosen: Sequence[Ingest]) -> None:
    """Refuse to drop ingests that others lean on.

    A packet that is there already is not decoded again: an ingest that brought it too, later, has
    nothing of it but the packet.
    """
    gone = {ingest.unit_id for ingest in chosen}
    for ingest in chosen:
        for other in known.values():
            if other.unit_id in gone or other.committed_at_ns < ingest.committed_at_ns:
                continue
            if place := _shared(ingest.report, other.report):
                raise UsageError(
                    f"The ingest {other.unit_id} came later and brought packets of {place} that "
                    f"{ingest.unit_id} had brought before, so they are kept once, with the "
                    f"latter. Drop both (--ingest {ingest.unit_id} --ingest {other.unit_id}), or "
                    "the day (--date)."
                )


def _shared(one: Mapping[str, Any], other: Mapping[str, Any]) -> str | None:
    """A place of which both have brought the same numbers; None if there is none."""
    if not one or not other:
        return None
    theirs = coverage_by_protocol(other)
    for protocol, told in coverage_by_protocol(one).items():
        for place, runs in told["coverage"].items():
            for first, last in theirs.get(protocol, {}).get("coverage", {}).get(place, ()):
                if any(first <= end and start <= last for start, end in runs):
                    day, channel, _ = place.split("/")
                    return f"channel {channel} on {date.fromordinal(_EPOCH + int(day))}"
    return None


_EPOCH = date(1970, 1, 1).toordinal()
