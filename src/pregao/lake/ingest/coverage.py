"""Runs of received sequence numbers by day, channel and sequence version."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from pregao.arrays import Int64Array

ChannelDayVersion = tuple[int, int, int]
"""A day, a channel and a sequence version."""
Runs = list[tuple[int, int]]


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
