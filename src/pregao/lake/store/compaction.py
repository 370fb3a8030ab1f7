"""Compaction: merge the files of a table and date, with rows sorted for cheap reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from pregao.arrays import Int64Array
from pregao.lake.store.clustering import (
    FileSizeLimits,
    FileSlice,
    SmallFile,
    ValueCounts,
    cut,
    groups_by_size,
    groups_by_value,
    spans,
)
from pregao.lake.store.commits import retire
from pregao.lake.store.delta_tables import (
    LakeTable,
    add_action,
    arrow_schema,
    remove_action,
    replace_files,
    visible_files,
)
from pregao.lake.store.lake import LakeStore
from pregao.lake.store.location import Location
from pregao.lake.store.parquet import rewrite
from pregao.lake.store.unit import DATE, NewFile

TARGET_BYTES = 64 << 20
"""Target size of new files; files above half of it stay unchanged unless they must be split."""
TARGET_ROWS = 4_000_000
"""Maximum rows per file: as many of any table can be sorted in the memory of a small machine."""


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
    retire(lake.location, least=1)


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
        self._place = lake.table_location(name)
        self._declared = arrow_schema(table)
        self._files = files
        self._layout = layout

    def compact(self, limits: FileSizeLimits) -> CompactionResult | None:
        """Write the new files and replace the old ones; return None if another process did."""
        day, size = self._files[0].day, sum(file.size for file in self._files)
        written: list[NewFile] = []
        old = [file.path for file in self._files]
        for rows in self._parted(size, limits):
            written.append(rewrite(self._place, old, rows, day, self._declared))
        removals = [
            remove_action(old.path, old.size, day, data_change=False) for old in self._files
        ]
        adds = [add_action(file, data_change=False) for file in written]
        if not replace_files(self._place, removals, adds):
            # Another process has compacted these files first.
            for file in written:
                self._place.join(file.path).delete()
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
        counts = ValueCounts.of(self._column(file, by) for file in self._files)
        inside = None if self._layout.then_by is None else self._inside
        for span in spans(cut(counts, size, limits, inside), limits.rows):
            first, last = span[0], span[-1]
            range_of_span = replace(first, high=last.high, nulls=last.nulls)
            rows = self._sorted(self._read(range_of_span))
            values = rows[by].drop_null().to_numpy()
            begin = 0
            for piece in span:
                end = int(np.searchsorted(values, piece.high, side="right"))
                end = rows.num_rows if piece is last else end
                yield rows.slice(begin, end - begin)
                begin = end

    def _sorted(self, rows: Any) -> Any:
        if not self._layout.order:
            return rows
        return rows.sort_by([(name, "ascending") for name in self._layout.order])

    def _column(self, file: SmallFile, name: str) -> Any:
        location = self._place.join(file.path)
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

        location: Location = self._place
        fields = [field for field in self._declared if field.name != DATE]
        dataset = ds.dataset(
            [location.join(file.path).path for file in self._files if _touches(file, piece)],
            schema=pa.schema(fields).remove_metadata(),
            filesystem=location.filesystem,
            format="parquet",
        )
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


def _touches(file: SmallFile, piece: FileSlice | None) -> bool:
    """Whether a file may have rows of a piece."""
    if piece is None or piece.nulls or file.low is None or file.high is None:
        return True
    return file.low <= piece.high and file.high >= piece.low
