"""Spans over which a channel's sequence numbers increase, assembled from sequence versions.

In most protocols such a span is a sequence version. Where versions are periods of time, numbers
continue from one version to the next until they restart: until a first number is not greater than
the last one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pregao.lake.ingest.coverage import ChannelDayVersion, Runs, joined_runs
from pregao.umdf.sequencing import version_distance

RunsByFeed = dict[tuple[int, str], Runs]
"""Runs of sequence numbers by origin (see `gaps`) and feed."""


@dataclass(slots=True)
class SequenceSpan:
    """Sequence numbers of a channel day that increase without a restart."""

    day: int
    channel: int
    runs: RunsByFeed = field(default_factory=dict)
    versions: list[int] = field(default_factory=list)
    firsts: list[int] = field(default_factory=list)
    """First number of each version."""
    last: int = 0

    def add(self, version: int, new_runs: Mapping[tuple[int, str], Runs]) -> None:
        """Append the runs of a version."""
        all_runs = joined_runs(*new_runs.values())
        if not all_runs:
            return
        for key, runs in new_runs.items():
            if runs:
                self.runs[key] = joined_runs(self.runs.get(key, []), runs)
        self.versions.append(version)
        self.firsts.append(all_runs[0][0])
        self.last = max(self.last, all_runs[-1][1])

    def version_of(self, number: int) -> int:
        """Return the version of a number: the last one that does not start after it."""
        return self.versions[max(bisect_right(self.firsts, number) - 1, 0)]


def numberings_of(
    runs_by_key: Mapping[ChannelDayVersion, RunsByFeed], *, timed_versions: bool
) -> Iterator[SequenceSpan]:
    """Yield the spans of all channels and days, in order."""
    for day, channel in sorted({version_key[:2] for version_key in runs_by_key}):
        own = {
            version_key[2]: runs_by_origin
            for version_key, runs_by_origin in runs_by_key.items()
            if version_key[:2] == (day, channel)
        }
        current = SequenceSpan(day, channel)
        for version in in_order(own):
            continuing: RunsByFeed = {}
            restarting = own[version]
            if timed_versions:  # a version may have both
                last = current.last
                continuing = {
                    key: [run for run in runs if run[0] > last] for key, runs in restarting.items()
                }
                restarting = {
                    key: [run for run in runs if run[0] <= last] for key, runs in restarting.items()
                }
            current.add(version, continuing)
            if any(restarting.values()):
                if current.versions:
                    yield current
                current = SequenceSpan(day, channel)
                current.add(version, restarting)
        if current.versions:
            yield current


def in_order(versions: Iterable[int]) -> list[int]:
    """Sort versions chronologically; they wrap from 65534 to 1."""
    ordered = sorted(versions)
    base = first_version(ordered)
    return sorted(ordered, key=lambda version: version_distance(base, version))


def first_version(versions: list[int]) -> int:
    """Return the version that precedes all others; versions wrap from 65534 to 1."""
    for candidate in versions:
        if all(version_distance(candidate, other) >= 0 for other in versions):
            return candidate
    return min(versions, default=1)
