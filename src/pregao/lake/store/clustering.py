"""Select the files of a day to rewrite so that each value is in few files, and split their rows.

Files that overlap in a column are split again, so that no two share values. Adjacent files are
merged while they are small.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import numpy as np

from pregao.arrays import Int64Array


@dataclass(frozen=True, slots=True)
class FileSizeLimits:
    """Maximum size and rows of files."""

    size: int
    rows: int


@dataclass(frozen=True, slots=True)
class SmallFile:
    """A file from a table's log; ``low`` and ``high`` bound the clustering column."""

    path: str
    size: int
    rows: int
    day: date
    low: int | None = None
    high: int | None = None


@dataclass(frozen=True, slots=True)
class FileSlice:
    """Rows of a new file: values from ``low`` to ``high``, with the nulls if ``nulls``.

    ``part`` bounds a second column, if a single value has more rows than a file may have.
    """

    low: int
    high: int
    rows: int = 0
    nulls: bool = False
    part: tuple[int, int] | None = None


def groups_by_size(files: Iterable[SmallFile], limits: FileSizeLimits) -> Iterator[list[SmallFile]]:
    """Yield groups of two or more small files of a day that together fill a large one."""
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


def groups_by_value(
    files: Iterable[SmallFile], limits: FileSizeLimits
) -> Iterator[list[SmallFile]]:
    """Yield groups of files of a day to rewrite: overlapping files, small neighbors, and single
    files of more than twice the target size."""
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
    # Files with only nulls, or without statistics, are merged by size.
    yield from groups_by_size(unknown, limits)


def _overlapping(files: Iterable[SmallFile]) -> Iterator[list[SmallFile]]:
    """Sort the files of a day by value and yield groups of overlapping ones.

    Files that share only a boundary value do not overlap: otherwise a value that fills several
    files would have them rewritten forever.
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


def _fit(files: Sequence[SmallFile], limits: FileSizeLimits) -> bool:
    return (
        sum(file.size for file in files) <= limits.size
        and sum(file.rows for file in files) <= limits.rows
    )


def cut(
    counts: ValueCounts,
    size: int,
    limits: FileSizeLimits,
    inside: Callable[[int], Int64Array] | None = None,
) -> list[FileSlice]:
    """Split rows into pieces of similar size; a value that fits into one piece is in one only.

    ``size`` is the total in bytes. ``inside`` returns the second column of the rows of a value that
    does not fit into one piece; without it, that piece is larger.
    """
    total = counts.rows + counts.nulls
    pieces = max(math.ceil(size / limits.size), math.ceil(total / limits.rows), 1)
    max_rows = math.ceil(total / pieces)
    result: list[FileSlice] = []
    first: int | None = None
    piece_rows = 0
    before = 0
    for value, rows in zip(counts.values.tolist(), counts.counts.tolist(), strict=True):
        if first is not None and piece_rows + rows > max_rows:
            result.append(FileSlice(first, before, piece_rows))
            first, piece_rows = None, 0
        if rows > limits.rows and inside is not None:
            result += _parts(value, inside(value), math.ceil(rows / limits.rows))
        else:
            first = value if first is None else first
            piece_rows += rows
        before = value
    if first is not None:
        result.append(FileSlice(first, before, piece_rows))
    if counts.nulls and result:
        # Sorted, nulls are last.
        result[-1] = replace(result[-1], nulls=True, rows=result[-1].rows + counts.nulls)
    return result


def spans(pieces: Sequence[FileSlice], max_rows: int) -> Iterator[list[FileSlice]]:
    """Yield groups of consecutive pieces with at most ``most`` rows, to be read in one pass."""
    span: list[FileSlice] = []
    for piece in pieces:
        alone = piece.part is not None or (span and span[-1].part is not None)
        if span and (alone or sum(each.rows for each in span) + piece.rows > max_rows):
            yield span
            span = []
        span.append(piece)
    if span:
        yield span


def _parts(value: int, numbers: Int64Array, parts: int) -> Iterator[FileSlice]:
    """Split the rows of a value into pieces by a second column."""
    ordered = np.sort(numbers)
    each = math.ceil(len(ordered) / parts)
    bounds = [int(ordered[len(ordered) * part // parts]) for part in range(parts)]
    lows = sorted({*bounds[1:], int(ordered[0])})
    for low, after in zip(lows, [*lows[1:], int(ordered[-1]) + 1], strict=True):
        yield FileSlice(value, value, each, part=(low, after - 1))


@dataclass(frozen=True, slots=True)
class ValueCounts:
    """Number of rows per value, sorted by value, and number of nulls."""

    values: Int64Array
    counts: Int64Array
    nulls: int = 0

    @property
    def rows(self) -> int:
        """Number of rows with a value."""
        return int(self.counts.sum())

    @classmethod
    def of(cls, columns: Iterable[Any]) -> ValueCounts:
        """Count the values of columns, one column at a time."""
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
