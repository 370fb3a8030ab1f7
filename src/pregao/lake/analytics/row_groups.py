"""Columns of a table's rows in a range, read from the row groups that may have some.

A range is one of event numbers, of message numbers or of times: whatever the rows of a table are
nearly sorted by. `ranges_of` cuts the rows of several tables into ranges of about equal size.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from pregao.arrays import Int64Array
from pregao.book.update_rows import NULL
from pregao.lake.books.columns import integers
from pregao.lake.books.reader import FileRows, RowGroupFile, open_file
from pregao.lake.sql.table_files import TableFiles
from pregao.lake.storage.local_files import check_links

_LAST = (1 << 63) - 1
_ROWS_TOGETHER = 1 << 20
"""About how many rows are read together."""
_CHANNELS = (-(1 << 15), (1 << 15) - 1)
_SNAP = 0.25
"""A cut moves to the start of a file if that changes a range by at most this share of its size."""


class ValueRange(NamedTuple):
    """Values of a column from the first to the last; the lowest value is null."""

    first: int = NULL
    last: int = _LAST


ALL = ValueRange()


class GroupBounds(NamedTuple):
    """Rows of a row group, and the bounds of a column in it and in its file."""

    low: int
    high: int
    rows: int
    file_low: int


def read_rows(
    files: TableFiles,
    channel: int | None,
    by: str,
    within: ValueRange,
    names: Sequence[str],
    texts: Collection[str] = (),
) -> Iterator[tuple[FileRows, list[str]]]:
    """Yield the rows of a channel whose column ``by`` is in a range, and which of the columns
    their file has.

    ``texts`` are the columns with repeating texts. Null is in a range that starts with `NULL`, if
    its row group has other values in it.
    """
    for opened in _opened(files, texts):
        if by not in opened.names:
            continue
        low, high = opened.bounds(by, NULL, _LAST)
        chosen = (low <= within.last) & (high >= within.first)
        lowest, highest = opened.bounds("channel", *_CHANNELS)
        if channel is not None:
            chosen &= (lowest <= channel) & (channel <= highest)
        groups = np.flatnonzero(chosen)
        if not len(groups):
            continue
        mixed = channel is not None and bool((lowest[groups] != highest[groups]).any())
        there = [name for name in names if name in opened.names]
        filters = [by, "channel"] if mixed else [by]
        for own in _portions(groups, opened.group_rows):
            rows = opened.read(own, list(dict.fromkeys([*there, *filters])))
            values = rows.numbers(by)
            wanted = (values >= within.first) & (values <= within.last)
            if mixed:
                wanted &= rows.numbers("channel") == channel
            if not wanted.all():
                rows = rows.take(np.flatnonzero(wanted))
            if rows.count:
                yield rows, there


def _portions(groups: Int64Array, rows: Int64Array) -> Iterator[list[int]]:
    """Yield row groups in portions that fit memory."""
    portion = (np.cumsum(rows[groups]) - 1) // _ROWS_TOGETHER
    for number in np.unique(portion):
        yield groups[portion == number].tolist()


def group_bounds(files: TableFiles, channel: int, by: str) -> Iterator[GroupBounds]:
    """Yield the bounds of a column in the row groups that may have rows of a channel."""
    for opened in _opened(files, ()):
        if by not in opened.names:
            continue
        low, high = opened.bounds(by, NULL, _LAST)
        lowest, highest = opened.bounds("channel", *_CHANNELS)
        own = (lowest <= channel) & (channel <= highest) & (low != NULL)
        if own.any():
            columns = (low[own].tolist(), high[own].tolist(), opened.group_rows[own].tolist())
            for first, last, rows in zip(*columns, strict=True):
                yield GroupBounds(first, last, rows, min(columns[0]))


def _opened(files: TableFiles, texts: Collection[str]) -> Iterator[RowGroupFile]:
    paths = files.paths()
    check_links(files.location, paths)
    for path in paths:
        yield open_file(files.location.join(path), texts)


def ranges_of(
    groups: Iterable[GroupBounds], max_rows: int, parallelism: int, min_rows: int, step: int = 1
) -> list[tuple[ValueRange, int]]:
    """Cut all values into ranges of about equally many rows, and return each with its rows.

    There are at least twice as many ranges as workers, unless they have fewer than ``min_rows``.
    Cuts are multiples of ``step``. The rows of a row group are assumed to be evenly distributed
    between its bounds; cuts prefer the starts of files, which are then read once.
    """
    found = np.array(list(groups), np.int64).reshape(-1, 4)
    if not len(found):
        return [(ALL, 0)]
    total = int(found[:, 2].sum())
    share = max(total / max(2 * parallelism, -(-total // max_rows)), min_rows)
    points, before = _distribution(found)
    starts = np.unique(found[:, 3])
    rows_before = np.interp(starts, points, before)
    cuts: list[int] = []
    for number in range(1, max(round(total / share), 1)):
        target = number * share
        nearest = int(np.abs(rows_before - target).argmin())
        if abs(rows_before[nearest] - target) <= _SNAP * share:
            cut = int(starts[nearest])
        else:
            cut = int(np.interp(target, before, points))
        cut -= cut % step
        if not cuts or cut > cuts[-1]:
            cuts.append(cut)
    ranges = map(ValueRange, [NULL, *cuts], [*(cut - 1 for cut in cuts), _LAST])
    ends = [0.0, *np.interp(cuts, points, before).tolist(), float(total)]
    sizes = [round(end - begin) for begin, end in pairwise(ends)]
    return list(zip(ranges, sizes, strict=True))


def _distribution(groups: Int64Array) -> tuple[Int64Array, Any]:
    """Return values, and the number of rows below each, which rises evenly between them."""
    low, high, rows = groups[:, 0], groups[:, 1] + 1, groups[:, 2]
    points, where = np.unique(np.concatenate([low, high]), return_inverse=True)
    density = rows / (high - low)
    slopes = np.cumsum(np.bincount(where, np.concatenate([density, -density]), len(points)))
    return points, np.append(0.0, np.cumsum(slopes[:-1] * np.diff(points)))


def numbers_of(rows: FileRows, there: Collection[str], name: str) -> Int64Array:
    """Return a column as integers; `NULL` where a value or the whole column is absent."""
    return rows.numbers(name) if name in there else np.full(rows.count, NULL, np.int64)


class Labels:
    """Numbers of texts in the order of their first use; null is -1."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    @property
    def texts(self) -> list[str]:
        """The texts by number."""
        return list(self._numbers)

    def of(self, column: Any) -> Int64Array:
        """Return the number of each text of an Arrow column."""
        parts = []
        for chunk in column.chunks:
            coded = chunk if _is_coded(chunk) else chunk.dictionary_encode()
            known = [
                -1 if text is None else self._numbers.setdefault(text, len(self._numbers))
                for text in coded.dictionary.to_pylist()
            ]
            table = np.array([*known, -1], np.int64)
            parts.append(table[integers(coded.indices, len(known))])
        return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _is_coded(chunk: Any) -> bool:
    return hasattr(chunk, "dictionary")
