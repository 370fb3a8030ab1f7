"""Detect duplicate captures by content, in the lake and within one ingest."""

from __future__ import annotations

from collections.abc import Mapping

from pregao.lake.ingest.coverage import joined_runs
from pregao.lake.ingest.growing_file import inspect_file
from pregao.lake.ingest.hashing import content_hash, hash_of_blocks, range_hash
from pregao.lake.ingest.known import IngestState
from pregao.lake.ingest.manifests import TaskManifest
from pregao.lake.ingest.report import CaptureReport, IngestReport
from pregao.lake.ingest.surveys import CaptureSurvey
from pregao.lake.store.location import Location


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
    seen: dict[tuple[str, str], str] = {}
    for found in list(surveys):
        alike = [s for s in surveys if s.fingerprint == found.fingerprint]
        if len(alike) < 2:
            continue
        identity = (found.fingerprint, content_hash(found.location, found.size))
        if identity in seen:
            surveys.remove(found)
            report.skipped[found.location.name] = f"the same as {seen[identity]}"
        else:
            seen[identity] = found.location.name


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
