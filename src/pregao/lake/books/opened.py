"""Open file of a message table: statistics of its row groups, and their rows.

Files of our own writer on local disks are read as flat integers, all others by pyarrow; both have
the same interface.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pregao.book.update_rows import NULL
from pregao.extras import kernels_compiled
from pregao.feed.columns import Codes, Numbers
from pregao.lake.books.columns import integers, take
from pregao.lake.store.flat_parquet.reader import open_flat
from pregao.lake.store.flat_parquet.rows import FlatRows
from pregao.lake.store.location import Location


class FileRows(Protocol):
    """Rows of a file."""

    @property
    def count(self) -> int:
        """Number of rows."""

    def numbers(self, name: str) -> Numbers:
        """Return a column as integers, NULL where there is no value."""

    def take(self, chosen: slice | Numbers) -> FileRows:
        """Return some of the rows."""

    def table(self, names: Sequence[str], dictionaries: Collection[str]) -> Any:
        """Return columns as an Arrow table, with dictionaries for the texts of ``dictionaries``."""


class RowGroupFile(Protocol):
    """Interface of an open file."""

    @property
    def names(self) -> Sequence[str]:
        """Names of its columns."""

    @property
    def group_rows(self) -> Numbers:
        """Number of rows of each row group."""

    def bounds(self, name: str, least: int, max_length: int) -> tuple[Numbers, Numbers]:
        """Return minimum and maximum of a column in each row group, or the given bounds."""

    def read(self, groups: Sequence[int], names: Sequence[str]) -> FileRows:
        """Return columns of some row groups."""


def open_file(location: Location, texts: Collection[str]) -> RowGroupFile:
    """Open a file; ``texts`` are the columns and list members with repeating texts."""
    if location.is_local and kernels_compiled():
        flat = open_flat(location.path)
        if flat is not None:
            return _OwnFile(location, texts, flat)
        return _kept(location, frozenset(texts), Path(location.path).stat().st_mtime_ns)
    return _ArrowFile(location, texts)


class ArrowRows:
    """Rows of an Arrow table."""

    __slots__ = ("rows",)

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    @property
    def count(self) -> int:
        """Number of rows."""
        count: int = self.rows.num_rows
        return count

    def numbers(self, name: str) -> Numbers:
        """Return a column as integers."""
        return integers(self.rows.column(name))

    def take(self, chosen: slice | Numbers) -> ArrowRows:
        """Return some of the rows."""
        if isinstance(chosen, slice):
            return ArrowRows(self.rows.slice(chosen.start, chosen.stop - chosen.start))
        return ArrowRows(take(self.rows, chosen))

    def table(self, names: Sequence[str], dictionaries: Collection[str]) -> Any:  # noqa: ARG002
        """Return some of the columns; dictionaries were chosen when they were read."""
        return self.rows.select(list(names))


class _ArrowFile:
    """File read by pyarrow."""

    def __init__(self, location: Location, texts: Collection[str]) -> None:
        self._place = location
        self._metadata = pq.read_metadata(location.path, filesystem=location.filesystem)
        self._leaves: list[str] = self._metadata.schema.names
        self.names: Sequence[str] = self._metadata.schema.to_arrow_schema().names
        schema = self._metadata.schema
        paths = (schema.column(at).path for at in range(len(self._leaves)))
        self._texts = [path for path in paths if path in texts]
        groups = (self._metadata.row_group(at) for at in range(self._metadata.num_row_groups))
        self.group_rows = np.array([group.num_rows for group in groups], np.int64)
        self._bounds: dict[str, list[tuple[int, int] | None]] = {}

    def bounds(self, name: str, least: int, max_length: int) -> tuple[Numbers, Numbers]:
        """Return minimum and maximum of a column in each row group, or the given bounds."""
        if name not in self._bounds:
            self._bounds[name] = [self._bound(at, name) for at in range(len(self.group_rows))]
        found = [bound or (least, max_length) for bound in self._bounds[name]]
        low, high = np.array(found, np.int64).reshape(-1, 2).T
        return low, high

    def _bound(self, group: int, name: str) -> tuple[int, int] | None:
        if name not in self._leaves:
            return None
        statistics = self._metadata.row_group(group).column(self._leaves.index(name)).statistics
        if statistics is None or not statistics.has_min_max:
            return None
        return int(statistics.min), int(statistics.max)

    def read(self, groups: Sequence[int], names: Sequence[str]) -> ArrowRows:
        """Return columns of some row groups."""
        texts = [path for path in self._texts if path.partition(".")[0] in names]
        flat = [path for path in texts if "." not in path]
        if len(flat) < len(texts) and self._place.is_local:
            try:
                # pyarrow reads dictionaries in lists only from one row group at a time.
                return ArrowRows(self._read([[group] for group in groups], names, texts))
            except pa.ArrowNotImplementedError:
                pass  # too many texts for a dictionary
        return ArrowRows(self._read([list(groups)], names, flat))

    def _read(self, batches: list[list[int]], names: Sequence[str], texts: list[str]) -> Any:
        location, columns = self._place, list(names)
        with pq.ParquetFile(
            location.path,
            filesystem=location.filesystem,
            read_dictionary=texts,
            metadata=self._metadata,
            # Threads that prefetch are for remote stores: on local files they only cost time.
            pre_buffer=not location.is_local,
        ) as opened:
            return pa.concat_tables(
                [opened.read_row_groups(own, columns, use_threads=False) for own in batches]
            )


@lru_cache(100)
def _kept(location: Location, texts: frozenset[str], modified: int) -> _ArrowFile:  # noqa: ARG001
    """Return such a local file, and cache its footer for the next task."""
    return _ArrowFile(location, texts)


class _OwnFile:
    """File written by our own writer."""

    def __init__(self, location: Location, texts: Collection[str], flat: Any) -> None:
        self._place = location
        self._texts = texts
        self._flat = flat
        self.names: Sequence[str] = flat.names
        self.group_rows: Numbers = flat.group_rows

    def bounds(self, name: str, least: int, max_length: int) -> tuple[Numbers, Numbers]:
        """Return minimum and maximum of a column in each row group, or the given bounds."""
        found: tuple[Numbers, Numbers] = self._flat.bounds(name, least, max_length)
        return found

    def read(self, groups: Sequence[int], names: Sequence[str]) -> FileRows:
        """Return columns of some row groups."""
        rows: FlatRows | None = self._flat.read(groups, names, NULL)
        if rows is None:
            # It is damaged or has another format: pyarrow reads it or raises.
            return _ArrowFile(self._place, self._texts).read(groups, names)
        return rows


class FlatColumns:
    """Flat rows with the column interface of a follower; an absent column is null."""

    __slots__ = ("_rows", "names")

    def __init__(self, rows: FlatRows, names: Sequence[str]) -> None:
        self._rows = rows
        self.names = names

    def __len__(self) -> int:
        return self._rows.count

    def numbers(self, name: str, null: int = NULL) -> Numbers:
        """Return a column of integers, dates or decimals as integers."""
        column = self._rows.columns.get(name)
        if column is None:
            return np.full(len(self), null, np.int64)
        if null == NULL or column.there is None:
            return column.values
        return np.where(column.there, column.values, null)

    def codes(self, name: str, known: Mapping[str, int], other: int) -> Codes:
        """Return the code of each name in a column."""
        column = self._rows.columns.get(name)
        if column is None or column.texts is None:
            return np.full(len(self), other, np.uint8)
        of_text = [known.get(text, other) for text in column.texts]
        # Null has the index after all texts.
        codes: Codes = np.array([*of_text, other], np.uint8)[column.values]
        return codes

    def texts(self, name: str) -> Sequence[str | None]:
        """Return a column of texts."""
        column = self._rows.columns.get(name)
        if column is None or column.texts is None:
            return [None] * len(self)
        of_text: list[str | None] = [*column.texts, None]
        return [of_text[at] for at in column.values.tolist()]

    def take(self, chosen: Numbers) -> FlatColumns:
        """Return some of the rows, in the given order."""
        return FlatColumns(self._rows.take(chosen), self.names)
