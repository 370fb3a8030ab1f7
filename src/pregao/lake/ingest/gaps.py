"""Gaps in the sequences of feeds, and what closed them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from pregao.lake.ingest.accounting import FeedCoverage, RunStarts, merge_first_times
from pregao.lake.ingest.history import IngestState
from pregao.lake.ingest.merging import TaskManifest
from pregao.lake.ingest.protocol import IngestProtocol
from pregao.lake.ingest.registry import PROTOCOLS
from pregao.lake.ingest.report import IngestReport
from pregao.lake.ingest.schemas import GAPS
from pregao.lake.ingest.sequence_ranges import (
    ChannelDayVersion,
    Coverage,
    Runs,
    RunsByFeed,
    SequenceSpan,
    joined_runs,
    numberings_of,
)
from pregao.lake.ingest.writer import write_rows
from pregao.lake.storage.commit_unit import DATE
from pregao.lake.storage.filesystem import Location
from pregao.lake.storage.parquet import WrittenFile

ByFeed = dict[str, Runs]
OWN, RECEIVED, EARLIER, BEFORE = range(4)
"""Origins of runs: this unit; everything read with it; earlier units of a stream; earlier ingests,
of any feed."""


def write_gaps(
    lake: Location,
    report: IngestReport,
    manifests: list[TaskManifest],
    known: IngestState,
    *,
    continued: bool,
) -> list[WrittenFile]:
    """Write the gaps of the feeds' sequences, and add the feeds' coverage to the report.

    ``continued`` means a stream, in which a gap may have begun in an earlier unit: it is written
    when the packet after it arrives.
    """
    files = []
    for name, protocol in PROTOCOLS.items():
        own = [manifest for manifest in manifests if manifest.protocol == name]
        if own:
            files += _write_gaps(lake, report, protocol, own, known, continued=continued)
    return files


def _write_gaps(
    lake: Location,
    report: IngestReport,
    protocol: IngestProtocol,
    manifests: list[TaskManifest],
    known: IngestState,
    *,
    continued: bool,
) -> list[WrittenFile]:
    account = report.account(protocol.name)
    known_coverage = known.coverage.get(protocol.name, Coverage())
    known_feeds = known.feeds.get(protocol.name, {})
    own = _by_key(manifest.coverage for manifest in manifests)
    around = _by_key(manifest.around for manifest in manifests)
    starts: RunStarts = {}
    for manifest in manifests:
        for key, times in manifest.starts.items():
            merge_first_times(starts, key, times.items())
    runs_by_key: dict[ChannelDayVersion, RunsByFeed] = {}
    for version_key, by_feed in sorted(own.items()):
        key_text = "/".join(map(str, version_key))
        account.coverage[key_text] = joined_runs(*by_feed.values())
        account.feeds |= {f"{key_text}/{feed}": runs for feed, runs in by_feed.items()}
    for version_key in _published_runs(
        own, around, known_feeds if continued else {}, protocol.timed_versions
    ):
        earlier = {}
        if continued:
            earlier = {
                feed: runs for feed, its in known_feeds.items() if (runs := its.runs(version_key))
            }
        by_feed = own.get(version_key, {})
        all_runs = _joined(by_feed, around.get(version_key, {}), earlier)
        runs_by_key[version_key] = {
            (BEFORE, ""): known_coverage.runs(version_key),
            **{(OWN, feed): runs for feed, runs in by_feed.items()},
            **{(RECEIVED, feed): runs for feed, runs in all_runs.items()},
            **{(EARLIER, feed): runs for feed, runs in earlier.items()},
        }
    rows = [
        {**row, "unit_id": report.unit_id}
        for numbering in numberings_of(runs_by_key, timed_versions=protocol.timed_versions)
        for row in _gap_rows(numbering, starts)
    ]
    report.gaps += rows
    schema = pa.schema([entry for entry in GAPS if entry.name != DATE])
    files = []
    for day in sorted({row["date"] for row in rows}):
        of_day = [row for row in rows if row["date"] == day]
        plain = [{key: value for key, value in row.items() if key != "date"} for row in of_day]
        data = pa.Table.from_pylist(plain, schema)
        files.append(write_rows(lake, protocol.account_table("gaps"), data, day))
    return files


def _published_runs(
    own: Mapping[ChannelDayVersion, ByFeed],
    around: Mapping[ChannelDayVersion, ByFeed],
    known_feeds: Mapping[str, Coverage],
    timed_versions: bool,
) -> list[ChannelDayVersion]:
    """Return the days, channels and versions to search for gaps: those with new numbers and, where
    numbers continue from version to version, all versions of the same channel and day."""
    if not timed_versions:
        return sorted(own)
    channels = {version_key[:2] for version_key in own}
    candidates = {*own, *around}
    for coverage in known_feeds.values():
        candidates.update(coverage.keys())
    return sorted(version_key for version_key in candidates if version_key[:2] in channels)


def _gap_rows(numbering: SequenceSpan, starts: RunStarts) -> Iterator[dict[str, Any]]:
    """Yield the gaps of the feeds from which a unit has numbers."""
    runs_of = numbering.runs
    seen = {feed: runs for (kind, feed), runs in runs_of.items() if kind == RECEIVED}
    before = runs_of.get((BEFORE, ""), [])
    for feed in sorted(feed for kind, feed in runs_of if kind == OWN):
        runs = runs_of[OWN, feed]
        newest = max((last for _, last in runs_of.get((EARLIER, feed), [])), default=-1)
        for first, last in _gaps(seen[feed]):
            # Other units report gaps after this one's last number, and those already passed.
            if last > runs[-1][1] or first <= newest:
                continue
            version = numbering.version_of(last + 1)
            version_key = (numbering.day, numbering.channel, version)
            for low, high, closed in _closings(first, last, seen, feed, before):
                yield {
                    "channel": numbering.channel,
                    "security_id": None,
                    "sequence_version": version,
                    "feed": feed,
                    "first_missing": low,
                    "last_missing": high,
                    "closed_by": closed,
                    "capture_time_ns": starts.get((*version_key, feed), {}).get(last + 1),
                    "date": numbering.day,
                }


def _by_key(coverages: Iterable[FeedCoverage]) -> dict[tuple[int, int, int], ByFeed]:
    """Merge coverages by day, channel and version, then by feed."""
    found: dict[tuple[int, int, int], ByFeed] = {}
    for coverage in coverages:
        for (day, channel, version, feed), runs in coverage.items():
            own = found.setdefault((day, channel, version), {})
            own[feed] = joined_runs(own.get(feed, []), runs)
    return found


def _joined(*several: ByFeed) -> ByFeed:
    feeds = {feed for by_feed in several for feed in by_feed}
    return {feed: joined_runs(*(by_feed.get(feed, []) for by_feed in several)) for feed in feeds}


def _gaps(runs: Runs) -> Runs:
    return [(a[1] + 1, b[0] - 1) for a, b in itertools.pairwise(runs)]


def _closings(
    first: int, last: int, by_feed: ByFeed, feed: str, before: Runs
) -> list[tuple[int, int, str | None]]:
    """Split a gap into parts by what closed them."""
    result: list[tuple[int, int, str | None]] = []
    for name, runs in [*sorted(by_feed.items()), ("earlier ingest", before)]:
        if name == feed:
            continue
        label = name if name == "earlier ingest" else f"feed {name}"
        result += [
            (max(a, first), min(b, last), label) for a, b in runs if a <= last and b >= first
        ]
        if result:
            break
    closed = joined_runs([(a, b) for a, b, _ in result])
    position = first
    open_parts: list[tuple[int, int, str | None]] = []
    for a, b in closed:
        if a > position:
            open_parts.append((position, a - 1, None))
        position = b + 1
    if position <= last:
        open_parts.append((position, last, None))
    return sorted([*result, *open_parts])
