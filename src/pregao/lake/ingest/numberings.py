"""Stretches over which a channel's numbers count up, put together from its sequence versions.

With most protocols that is what a sequence version is. Where versions are spans of time, numbers
go on from one to the next until they begin anew, which shows in a first number that is not above
the last one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pregao.lake.ingest.coverage import Place, Runs, joined_runs
from pregao.umdf.sequencing import version_distance

Told = dict[tuple[int, str], Runs]
"""Runs of numbers, by what they are and by feed."""


@dataclass(slots=True)
class Numbering:
    """Numbers of a channel's day that count up without beginning anew."""

    day: int
    channel: int
    told: Told = field(default_factory=dict)
    versions: list[int] = field(default_factory=list)
    firsts: list[int] = field(default_factory=list)
    """Of each version: its first number."""
    last: int = 0

    def add(self, version: int, told: Mapping[tuple[int, str], Runs]) -> None:
        """Go on with the runs of a version."""
        every = joined_runs(*told.values())
        if not every:
            return
        for key, runs in told.items():
            if runs:
                self.told[key] = joined_runs(self.told.get(key, []), runs)
        self.versions.append(version)
        self.firsts.append(every[0][0])
        self.last = max(self.last, every[-1][1])

    def version_of(self, number: int) -> int:
        """The version that a number is in: the last one that does not begin behind it."""
        return self.versions[max(bisect_right(self.firsts, number) - 1, 0)]


def numberings_of(places: Mapping[Place, Told], *, timed_versions: bool) -> Iterator[Numbering]:
    """The numberings of all channels and days, in order."""
    for day, channel in sorted({place[:2] for place in places}):
        own = {place[2]: told for place, told in places.items() if place[:2] == (day, channel)}
        current = Numbering(day, channel)
        for version in in_order(own):
            going_on: Told = {}
            anew = own[version]
            if timed_versions:  # both may be in the same span of time
                last = current.last
                going_on = {
                    key: [run for run in runs if run[0] > last] for key, runs in anew.items()
                }
                anew = {key: [run for run in runs if run[0] <= last] for key, runs in anew.items()}
            current.add(version, going_on)
            if any(anew.values()):
                if current.versions:
                    yield current
                current = Numbering(day, channel)
                current.add(version, anew)
        if current.versions:
            yield current


def in_order(versions: Iterable[int]) -> list[int]:
    """Versions in the order in which they came; they go round from 65534 to 1."""
    known = sorted(versions)
    base = first_version(known)
    return sorted(known, key=lambda version: version_distance(base, version))


def first_version(versions: list[int]) -> int:
    """The version that all others come after; they go round from 65534 to 1."""
    for candidate in versions:
        if all(version_distance(candidate, other) >= 0 for other in versions):
            return candidate
    return min(versions, default=1)
