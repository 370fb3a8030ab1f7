"""Holes in the sequences of feeds, and what closed them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from pregao.lake.ingest.accounts import FeedCoverage, RunStarts, first_seen
from pregao.lake.ingest.coverage import Coverage, Place, Runs, joined_runs
from pregao.lake.ingest.files import write_rows
from pregao.lake.ingest.known import Known
from pregao.lake.ingest.manifests import Manifest
from pregao.lake.ingest.numberings import Numbering, Told, numberings_of
from pregao.lake.ingest.protocol import Protocol
from pregao.lake.ingest.protocols import PROTOCOLS
from pregao.lake.ingest.report import Report
from pregao.lake.ingest.schemas import GAPS
from pregao.lake.store import DATE, Location, Written

ByFeed = dict[str, Runs]
OWN, SEEN, EARLIER, BEFORE = range(4)
"""Runs by what they are: of this unit; of all that was seen with it; of earlier units of a stream;
of earlier ingests, from whichever feed."""


def write_gaps(
    lake: Location, report: Report, manifests: list[Manifest], known: Known, *, continued: bool
) -> list[Written]:
    """The holes of the feeds' sequences as rows; the coverage of the feeds goes to the report.

    What is continued is a stream, where a hole may have begun before: it is told when the packet
    behind it has come.
    """
    files = []
    for name, protocol in PROTOCOLS.items():
        own = [manifest for manifest in manifests if manifest.protocol == name]
        if own:
            files += _write_gaps(lake, report, protocol, own, known, continued=continued)
    return files


def _write_gaps(
    lake: Location,
    report: Report,
    protocol: Protocol,
    manifests: list[Manifest],
    known: Known,
    *,
    continued: bool,
) -> list[Written]:
    account = report.account(protocol.name)
    known_coverage = known.coverage.get(protocol.name, Coverage())
    known_feeds = known.feeds.get(protocol.name, {})
    own = _by_place(manifest.coverage for manifest in manifests)
    around = _by_place(manifest.around for manifest in manifests)
    starts: RunStarts = {}
    for manifest in manifests:
        for key, times in manifest.starts.items():
            first_seen(starts, key, times.items())
    seen: dict[Place, Told] = {}
    for place, by_feed in sorted(own.items()):
        name = "/".join(map(str, place))
        account.coverage[name] = joined_runs(*by_feed.values())
        account.feeds |= {f"{name}/{feed}": runs for feed, runs in by_feed.items()}
    for place in _told_of(own, around, known_feeds if continued else {}, protocol.timed_versions):
        earlier = {}
        if continued:
            earlier = {feed: runs for feed, its in known_feeds.items() if (runs := its.of(place))}
        by_feed = own.get(place, {})
        whole = _joined(by_feed, around.get(place, {}), earlier)
        seen[place] = {
            (BEFORE, ""): known_coverage.of(place),
            **{(OWN, feed): runs for feed, runs in by_feed.items()},
            **{(SEEN, feed): runs for feed, runs in whole.items()},
            **{(EARLIER, feed): runs for feed, runs in earlier.items()},
        }
    rows = [
        {**row, "unit_id": report.unit_id}
        for numbering in numberings_of(seen, timed_versions=protocol.timed_versions)
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


def _told_of(
    own: Mapping[Place, ByFeed],
    around: Mapping[Place, ByFeed],
    known_feeds: Mapping[str, Coverage],
    timed_versions: bool,
) -> list[Place]:
    """The places that tell of holes: those that numbers were brought of and, where numbers go on
    from version to version, the others of the same channel and day."""
    if not timed_versions:
        return sorted(own)
    channels = {place[:2] for place in own}
    there = {*own, *around}
    for coverage in known_feeds.values():
        there.update(coverage.places())
    return sorted(place for place in there if place[:2] in channels)


def _gap_rows(numbering: Numbering, starts: RunStarts) -> Iterator[dict[str, Any]]:
    """The holes of the feeds that a unit brought numbers of."""
    told = numbering.told
    seen = {feed: runs for (kind, feed), runs in told.items() if kind == SEEN}
    before = told.get((BEFORE, ""), [])
    for feed in sorted(feed for kind, feed in told if kind == OWN):
        runs = told[OWN, feed]
        newest = max((last for _, last in told.get((EARLIER, feed), [])), default=-1)
        for first, last in _holes(seen[feed]):
            # A hole behind what is taken now, or before what was taken, is another unit's.
            if last > runs[-1][1] or first <= newest:
                continue
            version = numbering.version_of(last + 1)
            place = (numbering.day, numbering.channel, version)
            for low, high, closed in _closings(first, last, seen, feed, before):
                yield {
                    "channel": numbering.channel,
                    "security_id": None,
                    "sequence_version": version,
                    "feed": feed,
                    "first_missing": low,
                    "last_missing": high,
                    "closed_by": closed,
                    "capture_time_ns": starts.get((*place, feed), {}).get(last + 1),
                    "date": numbering.day,
                }


def _by_place(coverages: Iterable[FeedCoverage]) -> dict[tuple[int, int, int], ByFeed]:
    """By day, channel and version: what each feed brought."""
    found: dict[tuple[int, int, int], ByFeed] = {}
    for coverage in coverages:
        for (day, channel, version, feed), runs in coverage.items():
            own = found.setdefault((day, channel, version), {})
            own[feed] = joined_runs(own.get(feed, []), runs)
    return found


def _joined(*several: ByFeed) -> ByFeed:
    feeds = {feed for by_feed in several for feed in by_feed}
    return {feed: joined_runs(*(by_feed.get(feed, []) for by_feed in several)) for feed in feeds}


def _holes(runs: Runs) -> Runs:
    return [(a[1] + 1, b[0] - 1) for a, b in itertools.pairwise(runs)]


def _closings(
    first: int, last: int, by_feed: ByFeed, feed: str, before: Runs
) -> list[tuple[int, int, str | None]]:
    """The parts of a hole, by what closed them."""
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
