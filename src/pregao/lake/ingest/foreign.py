"""Reject captures without supported content before a lake of empty tables is created."""

from __future__ import annotations

from collections.abc import Sequence

from pregao.errors import NothingFoundError
from pregao.lake.ingest.options import IngestOptions
from pregao.lake.ingest.report import IngestReport
from pregao.lake.ingest.surveys import CaptureSurvey


def has_supported_content(surveys: Sequence[CaptureSurvey], options: IngestOptions) -> bool:
    """Whether the surveys found messages of the selected channels."""
    selected = options.channels
    return any(
        each.sound and (selected is None or not set(each.channels).isdisjoint(selected))
        for found in surveys
        for by_flow in found.evidence.values()
        for each in by_flow.values()
    )


def reject_unsupported(surveys: Sequence[CaptureSurvey]) -> None:
    """Reject captures that all have only FIX/FAST of unknown templates, which would be rejects."""
    names = [found.location.name for found in surveys]
    if all(found.like_fast and not found.sound for found in surveys):
        raise NothingFoundError(
            f"{_listed(names)}: looks like UMDF FIX/FAST, but its templates are unknown."
        )


def reject_empty(
    report: IngestReport, surveys: Sequence[CaptureSurvey], options: IngestOptions
) -> None:
    """Reject an ingest without packets, or without packets of the selected channels."""
    sums = report.sums
    if not sums.read:
        contents = " ".join(_of_other_kinds(found, report) for found in surveys)
        raise NothingFoundError(f"There is nothing to ingest. {contents}".rstrip())
    if sums.packets.get("filtered", 0) == sums.read and options.channels is not None:
        available = sorted(
            {
                channel
                for found in surveys
                for by_flow in found.evidence.values()
                for each in by_flow.values()
                for channel in each.channels
            }
        )
        raise NothingFoundError(
            f"No packet is of {_channels(options.channels)}; "
            f"the captures have {_channels(available)}."
        )


def _of_other_kinds(found: CaptureSurvey, report: IngestReport) -> str:
    name = found.location.name
    own = next((each for each in report.captures if each.name == name), None)
    if own is None or not own.statistics.tcp:
        return f"{name} has {0 if own is None else own.statistics.packets:,} packets."
    return f"{name} has {own.statistics.tcp:,} TCP packets, none of EntryPoint."


def _channels(numbers: Sequence[int]) -> str:
    word = "channel" if len(numbers) == 1 else "channels"
    return f"{word} {', '.join(map(str, numbers))}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
