"""Compaction: merge the files of a table and date, with rows sorted for cheap reads.

The files of a day to rewrite are selected so that each value is in few files. Files that overlap in
a column are split again, so that no two share values. Adjacent files are merged while they are
small.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from pregao.arrays import Int64Array
from pregao.lake.storage.commit_unit import DATE, NewFile
from pregao.lake.storage.delta import (
    LakeTable,
    add_action,
    arrow_schema,
    remove_action,
    replace_files,
    visible_files,
)
from pregao.lake.storage.lake_store import LakeStore
from pregao.lake.storage.parquet import file_coding, rewrite, rows_of
from pregao.lake.storage.transaction import retire

TARGET_BYTES = 64 << 20
"""Target size of new files; files above half of it stay unchanged unless they must be split."""
TARGET_ROWS = 4_000_000
"""Maximum rows per file: as many of any table can be sorted in the memory of a small machine."""


# --- Selection of files ---


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
    """Yield groups of consecutive pieces with at most ``max_rows`` rows, to be read in one pass."""
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
    def from_columns(cls, columns: Iterable[Any]) -> ValueCounts:
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


# --- Rewriting ---


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """Result of compacting files of a table and date."""

    table: str
    date: str
    files: int
    into: int
    rows: int
    bytes_before: int
    bytes_after: int


@dataclass(frozen=True, slots=True)
class TableLayout:
    """Layout of a table's rows: sort columns, and the column by which files are split.

    ``part_by`` is the column whose values are in as few files as possible; ``then_by`` splits the
    rows of a value that do not fit into one file.
    """

    order: tuple[str, ...] = ()
    part_by: str | None = None
    then_by: str | None = None


def compact_table(
    lake: LakeStore, name: str, layout: TableLayout, target_bytes: int = TARGET_BYTES
) -> list[CompactionResult]:
    """Merge and sort the files of a table; no row changes.

    Replaced files stay on disk until `vacuum` removes them, so that running queries can finish.
    """
    table = lake.delta(name)
    if table.metadata().partition_columns != [DATE]:
        return []
    limits = FileSizeLimits(target_bytes, TARGET_ROWS)
    files = list(_files(table, layout.part_by))
    if layout.part_by is None:
        groups = groups_by_size(files, limits)
    else:
        groups = groups_by_value(files, limits)
    done = (_Group(lake, table, name, group, layout).compact(limits) for group in groups)
    return [each for each in done if each is not None]


def compact_intents(lake: LakeStore) -> None:
    """Retire the intents of all complete units."""
    retire(lake.location, min_units=1)


def _files(table: DeltaTable, part_by: str | None) -> Iterator[SmallFile]:
    """Yield the files of a table, with the bounds of a column."""
    actions = visible_files(table)
    for row in actions.to_pylist() if actions.num_rows else ():
        if row["num_records"] is not None:
            bounds = (row.get(f"min.{part_by}"), row.get(f"max.{part_by}"))
            yield SmallFile(
                row["path"],
                row["size_bytes"],
                row["num_records"],
                row[f"partition.{DATE}"],
                *bounds,
            )


class _Group:
    """Files of a day to compact together."""

    def __init__(
        self,
        lake: LakeStore,
        table: LakeTable,
        name: str,
        files: list[SmallFile],
        layout: TableLayout,
    ) -> None:
        self._name = name
        self._location = lake.table_location(name)
        self._declared = arrow_schema(table)
        self._files = files
        self._layout = layout

    def compact(self, limits: FileSizeLimits) -> CompactionResult | None:
        """Write the new files and replace the old ones; return None if another process did."""
        day, size = self._files[0].day, sum(file.size for file in self._files)
        written: list[NewFile] = []
        old = [file.path for file in self._files]
        coding = file_coding(self._location.join(old[0]))
        for rows in self._parted(size, limits):
            by = self._layout.part_by
            written.append(rewrite(self._location, coding, rows, day, self._declared, by))
        removals = [
            remove_action(old.path, old.size, day, data_change=False) for old in self._files
        ]
        adds = [add_action(file, data_change=False) for file in written]
        if not replace_files(self._location, removals, adds):
            # Another process has compacted these files first.
            for file in written:
                self._location.join(file.path).delete()
            return None
        return CompactionResult(
            self._name,
            day.isoformat(),
            len(self._files),
            len(written),
            sum(file.rows for file in written),
            size,
            sum(file.size for file in written),
        )

    def _parted(self, size: int, limits: FileSizeLimits) -> Iterator[Any]:
        """Yield the sorted rows of each new file."""
        by = self._layout.part_by
        if by is None or any(file.low is None for file in self._files):
            yield self._sorted(self._read(None))
            return
        if sum(file.rows for file in self._files) <= limits.rows:
            rows = self._sorted(self._read(None))
            yield from _pieces(rows, by, cut(ValueCounts.from_columns([rows[by]]), size, limits))
            return
        counts = ValueCounts.from_columns(self._column(file, by) for file in self._files)
        inside = None if self._layout.then_by is None else self._inside
        for span in spans(cut(counts, size, limits, inside), limits.rows):
            first, last = span[0], span[-1]
            range_of_span = replace(first, high=last.high, nulls=last.nulls)
            yield from _pieces(self._sorted(self._read(range_of_span)), by, span)

    def _sorted(self, rows: Any) -> Any:
        """Sort rows column by column, so that few columns are in memory twice."""
        columns = dict(zip(rows.column_names, rows.columns, strict=True))
        del rows
        keys = [_combined(columns[name]) for name in self._layout.order]
        order = sort_order(keys)
        del keys
        for name in columns:
            column = _combined(columns[name])
            columns[name] = column if order is None else column.take(order)
        return pa.table(columns)

    def _column(self, file: SmallFile, name: str) -> Any:
        location = self._location.join(file.path)
        with pq.ParquetFile(location.path, filesystem=location.filesystem) as opened:
            return opened.read(columns=[name], use_threads=False)[name]

    def _inside(self, value: int) -> Int64Array:
        """Return the second column of the rows of one value, with 0 for null."""
        rows = self._read(FileSlice(value, value), [str(self._layout.then_by)])
        return np.asarray(rows.column(0).fill_null(0).to_numpy().astype(np.int64))

    def _read(self, piece: FileSlice | None, columns: Sequence[str] | None = None) -> Any:
        """Read the rows of a piece from the row groups that may have some."""
        # Imported lazily: it imports pandas, which commands that only read do not need.
        import pyarrow.dataset as ds

        paths = [file.path for file in self._files if _touches(file, piece)]
        dataset = rows_of(self._location, paths, self._declared)
        if piece is None:
            return dataset.to_table(columns=columns)
        by = ds.field(self._layout.part_by)
        condition = (by >= piece.low) & (by <= piece.high)
        if piece.part is not None:
            then = ds.field(self._layout.then_by)
            low, high = piece.part
            inside = (then >= low) & (then <= high)
            condition &= inside | then.is_null() if low <= 0 <= high else inside
        if piece.nulls:
            condition |= by.is_null()
        return dataset.to_table(columns=columns, filter=condition)


def _pieces(rows: Any, by: str, pieces: Sequence[FileSlice]) -> Iterator[Any]:
    """Yield the rows of each piece, from sorted rows of all of them."""
    values = rows[by].drop_null().to_numpy()
    begin = 0
    for piece in pieces:
        end = int(np.searchsorted(values, piece.high, side="right"))
        end = rows.num_rows if piece is pieces[-1] else end
        yield rows.slice(begin, end - begin)
        begin = end


def _combined(column: Any) -> Any:
    """Return a column as one array: of many chunks, it is several times slower to reorder."""
    if pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def sort_order(columns: Sequence[Any]) -> Any:
    """Return the indexes that sort rows stably by columns, nulls last; None if they are sorted."""
    keys: list[Any] = []  # the first key of `lexsort` is the least significant
    for column in reversed(columns):
        numbers = column
        if pa.types.is_dictionary(column.type):
            ranks = pc.rank(column.dictionary, tiebreaker="dense")
            numbers = ranks.take(column.indices)
        keys.append(numbers.fill_null(0).to_numpy(zero_copy_only=False))
        if column.null_count:
            keys.append(column.is_null().to_numpy(zero_copy_only=False))
    keys = [key for key in keys if len(key) and key.min() != key.max()]
    if not keys:
        return None
    order = np.lexsort(keys)
    return None if (np.diff(order) == 1).all() else pa.array(order)


def _touches(file: SmallFile, piece: FileSlice | None) -> bool:
    """Whether a file may have rows of a piece."""
    if piece is None or piece.nulls or file.low is None or file.high is None:
        return True
    return file.low <= piece.high and file.high >= piece.low
