"""Which files of a day are put together so that rows alike are in few files, and where they part.

Files that overlap in a column are cut anew, so that each holds values of its own. Those that follow
each other are merged while they are small.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Limits:
    """How large files become."""

    size: int
    rows: int


@dataclass(frozen=True, slots=True)
class SmallFile:
    """A file of a table as its log tells it; ``low`` and ``high`` bound the column it goes by."""

    path: str
    size: int
    rows: int
    day: date
    low: int | None = None
    high: int | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows that become a file: values from ``low`` to ``high``; null is among them if so told.

    ``part`` bounds a second column, where one value alone has more rows than fit.
    """

    low: int
    high: int
    rows: int = 0
    nulls: bool = False
    part: tuple[int, int] | None = None


def groups_by_size(files: Iterable[SmallFile], limits: Limits) -> Iterator[list[SmallFile]]:
    """The small files of each day, two or more at a time, as many as make a large one."""
    group: list[SmallFile] = []
    small = [file for file in files if file.size < limits.size // 2]
    for file in sorted(small, key=lambda file: (file.day, file.path)):
        if group and (file.day != group[0].day or not _fit([*group, file], limits)):
            if len(group) > 1:
                yield group
            group = []
        group.append(file)
    if len(group) > 1:
        yield group


def groups_by_value(files: Iterable[SmallFile], limits: Limits) -> Iterator[list[SmallFile]]:
    """The files of each day that are to be cut anew: those that overlap, small neighbours, and
    one that is more than twice as large as it should be."""
    by_day: dict[date, list[SmallFile]] = {}
    unknown = []
    for file in files:
        if file.low is None or file.high is None:
            unknown.append(file)
        else:
            by_day.setdefault(file.day, []).append(file)
    for _, own in sorted(by_day.items()):
        group: list[SmallFile] = []
        for part in _overlapping(own):
            large = len(part) == 1 and part[0].size >= limits.size // 2
            if group and (large or not _fit([*group, *part], limits)):
                if len(group) > 1:
                    yield group
                group = []
            if large and part[0].size > 2 * limits.size and part[0].low != part[0].high:
                yield part
            elif not large:
                group = [*group, *part]
        if len(group) > 1:
            yield group
    # Files that hold nothing but nulls, or tell nothing, are merged by size.
    yield from groups_by_size(unknown, limits)


def _overlapping(files: Iterable[SmallFile]) -> Iterator[list[SmallFile]]:
    """Files of a day in the order of their values, those together that overlap.

    That two files share the value at which they meet is no overlap: a value that alone fills
    several files must not have them cut for ever.
    """
    part: list[SmallFile] = []
    reach = 0
    for file in sorted(files, key=lambda file: (file.low or 0, file.high or 0, file.path)):
        if part and (file.low or 0) >= reach:
            yield part
            part = []
        reach = max(reach, file.high or 0) if part else file.high or 0
        part.append(file)
    if part:
        yield part


def _fit(files: Sequence[SmallFile], limits: Limits) -> bool:
    return (
        sum(file.size for file in files) <= limits.size
        and sum(file.rows for file in files) <= limits.rows
    )


def cut(
    counts: Counts, size: int, limits: Limits, inside: Callable[[int], Numbers] | None = None
) -> list[Piece]:
    """The pieces that rows are cut into, alike in size; no value is in two of them that fits one.

    ``size`` is what they take in all. ``inside`` gives the second column of the rows of a value,
    for one that does not fit; without it, its piece is larger.
    """
    total = counts.rows + counts.nulls
    pieces = max(math.ceil(size / limits.size), math.ceil(total / limits.rows), 1)
    most = math.ceil(total / pieces)
    found: list[Piece] = []
    first: int | None = None
    held = 0
    before = 0
    for value, rows in zip(counts.values.tolist(), counts.counts.tolist(), strict=True):
        if first is not None and held + rows > most:
            found.append(Piece(first, before, held))
            first, held = None, 0
        if rows > limits.rows and inside is not None:
            found += _parts(value, inside(value), math.ceil(rows / limits.rows))
        else:
            first = value if first is None else first
            held += rows
        before = value
    if first is not None:
        found.append(Piece(first, before, held))
    if counts.nulls and found:
        # Sorted, nulls are last.
        found[-1] = replace(found[-1], nulls=True, rows=found[-1].rows + counts.nulls)
    return found


def spans(pieces: Sequence[Piece], most: int) -> Iterator[list[Piece]]:
    """Pieces one behind the other that can be read at once, for they have so many rows at most."""
    span: list[Piece] = []
    for piece in pieces:
        alone = piece.part is not None or (span and span[-1].part is not None)
        if span and (alone or sum(each.rows for each in span) + piece.rows > most):
            yield span
            span = []
        span.append(piece)
    if span:
        yield span


def _parts(value: int, numbers: Numbers, parts: int) -> Iterator[Piece]:
    """A value in several pieces, by a second column."""
    ordered = np.sort(numbers)
    each = math.ceil(len(ordered) / parts)
    bounds = [int(ordered[len(ordered) * part // parts]) for part in range(parts)]
    lows = sorted({*bounds[1:], int(ordered[0])})
    for low, after in zip(lows, [*lows[1:], int(ordered[-1]) + 1], strict=True):
        yield Piece(value, value, each, part=(low, after - 1))


@dataclass(frozen=True, slots=True)
class Counts:
    """How many rows each value has, in the order of the values, and how many have none."""

    values: Numbers
    counts: Numbers
    nulls: int = 0

    @property
    def rows(self) -> int:
        """The rows with a value."""
        return int(self.counts.sum())

    @classmethod
    def of(cls, columns: Iterable[Any]) -> Counts:
        """Count over columns, read one after the other."""
        found: dict[int, int] = {}
        nulls = 0
        for column in columns:
            nulls += column.null_count
            values, counts = np.unique(
                column.drop_null().to_numpy().astype(np.int64), return_counts=True
            )
            for value, count in zip(values.tolist(), counts.tolist(), strict=True):
                found[value] = found.get(value, 0) + count
        values = np.array(sorted(found), np.int64)
        return cls(values, np.array([found[value] for value in values.tolist()], np.int64), nulls)
