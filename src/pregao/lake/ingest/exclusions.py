"""Captures to exclude from an ingest: those without supported content, and duplicates.

Captures without supported content are rejected before a lake of empty tables is created. Duplicates
are detected by content, in the lake and within one ingest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from pregao.errors import NothingFoundError
from pregao.lake.ingest.fingerprint import content_hash, hash_of_blocks, range_hash
from pregao.lake.ingest.growing_file import inspect_file
from pregao.lake.ingest.history import IngestState
from pregao.lake.ingest.merging import TaskManifest
from pregao.lake.ingest.options import IngestOptions
from pregao.lake.ingest.report import CaptureReport, IngestReport
from pregao.lake.ingest.sequence_ranges import joined_runs
from pregao.lake.ingest.survey import CaptureSurvey
from pregao.lake.storage.filesystem import Location


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


def was_streamed(location: Location, known: IngestState) -> bool:
    """Whether streams have ingested all packets of a capture."""
    entry = location.info()
    found = None if entry is None else inspect_file(location.name, entry)
    if found is None:
        return False
    # A stream identifies a file by its name below the followed folder.
    names = [
        name for name in known.claimed if name == found.file or name.endswith(f"/{found.file}")
    ]
    runs = joined_runs(*(known.claimed[name] for name in names))
    if not any(first <= found.begin and last >= found.end - 1 for first, last in runs):
        return False
    # Another file may have the same name and first packet. Lakes of 0.1 have no range hashes.
    return all(
        range_hash(location, begin, end) == digest
        for name in names
        for begin, end, digest in known.hashed_ranges(name)
    )


def deduplicate(surveys: list[CaptureSurvey], report: IngestReport) -> None:
    """Remove surveys of captures with the same content as an earlier one, whatever their names."""
    alike = Counter(found.fingerprint for found in surveys)
    seen: dict[tuple[str, str], str] = {}
    kept: list[CaptureSurvey] = []
    for found in surveys:
        if alike[found.fingerprint] > 1:
            identity = (found.fingerprint, content_hash(found.location, found.size))
            if identity in seen:
                report.skipped[found.location.name] = f"the same as {seen[identity]}"
                continue
            seen[identity] = found.location.name
        kept.append(found)
    surveys[:] = kept


def identify(capture: CaptureReport, manifests: list[TaskManifest], index: int) -> None:
    """Set the identity of a capture from the hashes that tasks computed."""
    digests: dict[int, bytes] = {}
    for manifest in manifests:
        if index in manifest.plain:
            capture.content_hash, capture.plain_fingerprint = manifest.plain[index]
            return
        digests.update(manifest.hashes.get(index, {}))
    capture.content_hash = hash_of_blocks(digests, capture.size)


def find_duplicates(report: IngestReport, taken: Mapping[str, str]) -> set[int]:
    """Return the indexes of captures whose content is in the lake or equals that of another."""
    seen: dict[str, str] = {}
    duplicates = set()
    for index, capture in enumerate(report.captures):
        if capture.content_hash in taken:
            report.skipped[capture.name] = taken[capture.content_hash]
            duplicates.add(index)
        elif capture.content_hash in seen:
            report.skipped[capture.name] = f"the same as {seen[capture.content_hash]}"
            duplicates.add(index)
        seen.setdefault(capture.content_hash, capture.name)
    return duplicates
