"""Received sequence numbers: runs by day, channel and version, and spans over which they increase.

In most protocols such a span is a sequence version. Where versions are periods of time, numbers
continue from one version to the next until they restart: until a first number is not greater than
the last one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from pregao.arrays import Int64Array
from pregao.clock import MINUTE
from pregao.umdf.sequencing import LAST_SEQUENCE_VERSION, version_distance

SLOT_NS = 10 * MINUTE

ChannelDayVersion = tuple[int, int, int]
"""A day, a channel and a sequence version."""
Runs = list[tuple[int, int]]

RunsByFeed = dict[tuple[int, str], Runs]
"""Runs of sequence numbers by origin (see `gaps`) and feed."""


def slot_of(time_ns: Int64Array) -> Int64Array:
    """Return the slots of sending times, which stand in for sequence versions and wrap alike."""
    slots: Int64Array = time_ns // SLOT_NS % LAST_SEQUENCE_VERSION + 1
    return slots


def joined_runs(*several: Runs) -> Runs:
    """Return the union of runs."""
    result: Runs = []
    for first, last in sorted(run for runs in several for run in runs):
        if result and first <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(last, result[-1][1]))
        else:
            result.append((first, last))
    return result


class Coverage:
    """Coverage of all days in one array: years of it load and pickle quickly."""

    __slots__ = ("_rows",)

    def __init__(self, numbers: Iterable[int] = ()) -> None:
        self._rows: Int64Array = np.fromiter(numbers, np.int64).reshape(-1, 5)

    def __len__(self) -> int:
        return len(self._rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Coverage) and self.numbers() == other.numbers()

    __hash__ = None  # type: ignore[assignment] # it changes

    def numbers(self) -> list[int]:
        """Return day, channel, version, first and last number of every run, as a flat list."""
        order = np.lexsort(self._rows.T[::-1])
        found: list[int] = self._rows[order].ravel().tolist()
        return found

    def runs(self, key: ChannelDayVersion) -> Runs:
        """Return the runs of a day, channel and version."""
        return [(first, last) for first, last in self._rows[self._own(key), 3:].tolist()]

    def keys(self) -> set[ChannelDayVersion]:
        """Return the days, channels and versions with coverage."""
        return {(day, channel, version) for day, channel, version, _, _ in self._rows.tolist()}

    def add(self, key: ChannelDayVersion, runs: Runs) -> None:
        """Add runs and merge those that are adjacent or overlap."""
        own = self._own(key)
        joined = joined_runs(self.runs(key), runs)
        added = np.array([(*key, *run) for run in joined], np.int64).reshape(-1, 5)
        self._rows = np.concatenate([self._rows[~own], added])

    def has(
        self, channel: int, days: Int64Array, versions: npt.NDArray[Any], numbers: Int64Array
    ) -> npt.NDArray[np.bool_]:
        """Return a mask of the packets of a channel that are covered."""
        result = np.zeros(len(numbers), np.bool_)
        rows = self._rows[self._rows[:, 1] == channel]
        rows = rows[np.isin(rows[:, 0], np.unique(days))] if len(rows) else rows
        for day, version in {(day, version) for day, _, version, _, _ in rows.tolist()}:
            runs = rows[(rows[:, 0] == day) & (rows[:, 2] == version), 3:]
            ordered = runs[np.argsort(runs[:, 0])]
            same = (versions == version) & (days == day)
            index = np.searchsorted(ordered[:, 0], numbers, side="right") - 1
            inside = (index >= 0) & (numbers <= ordered[np.maximum(index, 0), 1])
            result |= same & inside
        return result

    def _own(self, key: ChannelDayVersion) -> npt.NDArray[np.bool_]:
        return np.asarray((self._rows[:, :3] == np.array(key, np.int64)).all(axis=1))


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
