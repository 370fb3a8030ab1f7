"""Input files of a channel's day, and the reader of their rows.

Files of our own writer on local disks are read as flat integers, all others by pyarrow; both have
the same interface, with statistics of their row groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from pregao.arrays import Int64Array, Uint8Array
from pregao.book.update_rows import NULL
from pregao.extras import kernels_compiled
from pregao.feed.book_updates import BOOK_TEMPLATES
from pregao.lake.books.columns import integers, take
from pregao.lake.books.legacy_versions import TimeSlots
from pregao.lake.storage.fast_parquet.columns import FlatRows
from pregao.lake.storage.fast_parquet.reader import open_flat
from pregao.lake.storage.filesystem import Location
from pregao.umdf.sequencing import serial_of
from pregao.umdf.streams import ONLY_INCREMENTAL
from pregao.umdf.templates import ORDER, SNAPSHOT_HEADER

BINARY = "umdf"
"""Protocol of the binary feed."""

LEGACY: Final = "legacy"
"""Name of the legacy protocol."""
ENTRIES, SNAPSHOTS, LISTED, STATUSES = -1, -2, -3, -4
SOURCES: Final = {
    "legacy_incremental_refresh": ENTRIES,
    "legacy_snapshot_full_refresh": SNAPSHOTS,
    "legacy_security_list": LISTED,
    "legacy_security_status": STATUSES,
}
"""Its tables, with numbers that no template has."""

INSTRUMENTS = 0
"""Key of the instruments table among the templates."""
FIRST_SECURITY = 0
LAST_SECURITY = (1 << 63) - 1

Serials = tuple[int, int, int]
"""Sequence version that serials count from, and the first and last serial to read."""

ROWS_PER_PIECE = 10_000
"""Number of rows read at a time by `pieces`; each may have tens of orders."""


# --- Open files ---


class FileRows(Protocol):
    """Rows of a file."""

    @property
    def count(self) -> int:
        """Number of rows."""

    def numbers(self, name: str) -> Int64Array:
        """Return a column as integers, NULL where there is no value."""

    def take(self, chosen: slice | Int64Array) -> FileRows:
        """Return some of the rows."""

    def table(self, names: Sequence[str], dictionaries: Collection[str]) -> Any:
        """Return columns as an Arrow table, with dictionaries for the texts of ``dictionaries``."""


class RowGroupFile(Protocol):
    """Interface of an open file."""

    @property
    def names(self) -> Sequence[str]:
        """Names of its columns."""

    @property
    def group_rows(self) -> Int64Array:
        """Number of rows of each row group."""

    def bounds(
        self, name: str, default_min: int, default_max: int
    ) -> tuple[Int64Array, Int64Array]:
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

    def numbers(self, name: str) -> Int64Array:
        """Return a column as integers."""
        return integers(self.rows.column(name))

    def take(self, chosen: slice | Int64Array) -> ArrowRows:
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
        self._location = location
        self._metadata = pq.read_metadata(location.path, filesystem=location.filesystem)
        self._leaves: list[str] = self._metadata.schema.names
        self.names: Sequence[str] = self._metadata.schema.to_arrow_schema().names
        schema = self._metadata.schema
        paths = (schema.column(at).path for at in range(len(self._leaves)))
        self._texts = [path for path in paths if path in texts]
        groups = (self._metadata.row_group(at) for at in range(self._metadata.num_row_groups))
        self.group_rows = np.array([group.num_rows for group in groups], np.int64)
        self._bounds: dict[str, list[tuple[int, int] | None]] = {}

    def bounds(
        self, name: str, default_min: int, default_max: int
    ) -> tuple[Int64Array, Int64Array]:
        """Return minimum and maximum of a column in each row group, or the given bounds."""
        if name not in self._bounds:
            self._bounds[name] = [self._bound(at, name) for at in range(len(self.group_rows))]
        found = [bound or (default_min, default_max) for bound in self._bounds[name]]
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
        if len(flat) < len(texts) and self._location.is_local:
            try:
                # pyarrow reads dictionaries in lists only from one row group at a time.
                return ArrowRows(self._read([[group] for group in groups], names, texts))
            except pa.ArrowNotImplementedError:
                pass  # too many texts for a dictionary
        return ArrowRows(self._read([list(groups)], names, flat))

    def _read(self, batches: list[list[int]], names: Sequence[str], texts: list[str]) -> Any:
        location, columns = self._location, list(names)
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
        self._location = location
        self._texts = texts
        self._flat = flat
        self.names: Sequence[str] = flat.names
        self.group_rows: Int64Array = flat.group_rows

    def bounds(
        self, name: str, default_min: int, default_max: int
    ) -> tuple[Int64Array, Int64Array]:
        """Return minimum and maximum of a column in each row group, or the given bounds."""
        found: tuple[Int64Array, Int64Array] = self._flat.bounds(name, default_min, default_max)
        return found

    def read(self, groups: Sequence[int], names: Sequence[str]) -> FileRows:
        """Return columns of some row groups."""
        rows: FlatRows | None = self._flat.read(groups, names, NULL)
        if rows is None:
            # It is damaged or has another format: pyarrow reads it or raises.
            return _ArrowFile(self._location, self._texts).read(groups, names)
        return rows


class FlatColumns:
    """Flat rows with the column interface of a follower; an absent column is null."""

    __slots__ = ("_rows", "names")

    def __init__(self, rows: FlatRows, names: Sequence[str]) -> None:
        self._rows = rows
        self.names = names

    def __len__(self) -> int:
        return self._rows.count

    def numbers(self, name: str, null: int = NULL) -> Int64Array:
        """Return a column of integers, dates or decimals as integers."""
        column = self._rows.columns.get(name)
        if column is None:
            return np.full(len(self), null, np.int64)
        if null == NULL or column.there is None:
            return column.values
        return np.where(column.there, column.values, null)

    def codes(self, name: str, known: Mapping[str, int], other: int) -> Uint8Array:
        """Return the code of each name in a column."""
        column = self._rows.columns.get(name)
        if column is None or column.texts is None:
            return np.full(len(self), other, np.uint8)
        of_text = [known.get(text, other) for text in column.texts]
        # Null has the index after all texts.
        codes: Uint8Array = np.array([*of_text, other], np.uint8)[column.values]
        return codes

    def texts(self, name: str) -> Sequence[str | None]:
        """Return a column of texts."""
        column = self._rows.columns.get(name)
        if column is None or column.texts is None:
            return [None] * len(self)
        of_text: list[str | None] = [*column.texts, None]
        return [of_text[at] for at in column.values.tolist()]

    def take(self, chosen: Int64Array) -> FlatColumns:
        """Return some of the rows, in the given order."""
        return FlatColumns(self._rows.take(chosen), self.names)


# --- Input of a channel's day ---


@dataclass(frozen=True, slots=True)
class InputTable:
    """Input table: its name, its columns, and which of them are texts."""

    name: str
    columns: tuple[str, ...]
    texts: frozenset[str]
    declared: Any = None
    """Schema of its rows, for columns that a file lacks; None if those are numeric."""

    def missing(self, name: str, count: int) -> Any:
        """Return a null column for a file without it: newer than the file, or without any value."""
        if name in self.texts:
            return pa.nulls(count, pa.dictionary(pa.int32(), pa.string()))
        kind = pa.int64() if self.declared is None else self.declared.field(name).type
        return pa.nulls(count, kind)

    @property
    def counted(self) -> bool:
        """Whether each message is about one instrument and counted by ``rptSeq``."""
        return "security_id" in self.columns and "rpt_seq" in self.columns


@dataclass(frozen=True, slots=True)
class InputFile:
    """File of a message table: its path and statistics."""

    path: str
    size: int
    rows: int
    securities: tuple[int, ...] | None
    """Lowest and highest security ID; None if unknown."""

    def touches(self, first: int, last: int) -> bool:
        """Whether it may have rows of these instruments."""
        return self.securities is None or (
            self.securities[0] <= last and self.securities[1] >= first
        )


@dataclass(frozen=True, slots=True)
class InputFiles:
    """Input files of a channel's day, by template."""

    day: int
    """Days since 1970."""
    channel: int
    tables: dict[int, InputTable]
    files: dict[int, tuple[InputFile, ...]] = field(default_factory=dict)
    protocol: str = BINARY
    """Protocol of the feed that delivered the channel's day."""
    excluded: frozenset[int] = frozenset()
    """Instruments to skip: another feed has them, or they have another kind of book."""
    only: frozenset[int] | None = None
    """Only instruments to read; None for all that are not excluded."""
    depths: Mapping[int, int] = field(default_factory=dict)
    """Number of price levels in the feed, by instrument; 0 where it publishes orders."""
    usual_depth: int | None = 0
    """Number for all others; None if they have price levels but their number is unknown."""
    market_depth: int = 0
    """Number for the instruments that are read, which have one kind of book."""
    slots: TimeSlots = field(default_factory=TimeSlots)
    """Stand-in for sequence versions on a feed without them."""
    seconds: bool = False
    """Whether times of day have no milliseconds, on a feed that has both kinds."""

    def depth_of(self, security: int) -> int | None:
        """Return the number of price levels in the feed for an instrument."""
        return self.depths.get(security, self.usual_depth)

    def kinds(self) -> tuple[InputFiles, ...]:
        """Return inputs for each kind of book, with the instruments that have it."""
        found = {*self.depths.values()}
        if self.usual_depth is not None:
            found.add(self.usual_depth)
        return tuple(self._of_depth(depth) for depth in sorted(found))

    def _of_depth(self, depth: int) -> InputFiles:
        own = frozenset(each for each, shown in self.depths.items() if shown == depth)
        if depth != self.usual_depth:
            return replace(self, only=own - self.excluded, market_depth=depth)
        others = frozenset(self.depths) - own
        return replace(self, excluded=self.excluded | others, market_depth=depth)

    @property
    def counted(self) -> tuple[int, ...]:
        """Templates whose messages are counted, except those that change books."""
        return tuple(
            template
            for template, table in sorted(self.tables.items())
            if table.counted and template not in BOOK_TEMPLATES
        )

    @property
    def statistics(self) -> tuple[int, ...]:
        """Counted templates that also appear in snapshots: statistics, bands and states."""
        return tuple(one for one in self.counted if one not in ONLY_INCREMENTAL)


@dataclass(frozen=True, slots=True)
class SecurityRange:
    """Instruments from the first to the last."""

    first: int = FIRST_SECURITY
    last: int = LAST_SECURITY


class InputReader:
    """Reads rows of the input files, and caches the files' metadata between reads."""

    def __init__(self, lake: Location, inputs: InputFiles) -> None:
        self._lake = lake
        self.inputs = inputs
        self._files: dict[str, RowGroupFile] = {}

    def read(
        self,
        template: int,
        columns: Sequence[str],
        part: SecurityRange | None,
        serials: Serials | None = None,
    ) -> list[Any]:
        """Return the rows of a template as tables, one for each file that has some.

        ``part`` None is for templates without an instrument.
        """
        return [
            self._table(template, rows, columns, there)
            for rows, there in self._rows(template, columns, part, serials)
        ]

    def read_columns(
        self,
        template: int,
        columns: Sequence[str],
        part: SecurityRange | None,
        serials: Serials | None = None,
    ) -> list[Any]:
        """Return the rows in their cheapest form: `FlatRows` of existing columns, or tables."""
        return [
            rows if isinstance(rows, FlatRows) else self._table(template, rows, columns, there)
            for rows, there in self._rows(template, columns, part, serials)
        ]

    def pieces(self, template: int, columns: Sequence[str], part: SecurityRange) -> Iterator[Any]:
        """Yield the tables of `read` in pieces: rows with long lists would use too much memory."""
        for rows, there in self._rows(template, columns, part, None, ROWS_PER_PIECE):
            yield self._table(template, rows, columns, there)

    def _table(
        self, template: int, rows: FileRows, columns: Sequence[str], there: list[str]
    ) -> Any:
        """Return rows as a table with all requested columns."""
        missing = [name for name in columns if name not in there]
        nulls = [self.inputs.tables[template].missing(name, rows.count) for name in missing]
        if not there:
            return pa.Table.from_arrays(nulls, names=missing)
        table = rows.table(there, self.inputs.tables[template].texts)
        for name, column in zip(missing, nulls, strict=True):
            table = table.append_column(name, column)
        return table

    def _rows(
        self,
        template: int,
        columns: Sequence[str],
        part: SecurityRange | None,
        serials: Serials | None,
        max_rows: int | None = None,
    ) -> Iterator[tuple[FileRows, list[str]]]:
        """Yield the rows of each file that has some, about `max_rows` at a time, and which of
        the columns it has.
        """
        for file in self.inputs.files.get(template, ()):
            if part is None or file.touches(part.first, part.last):
                opened = self._open(template, file)
                there = [name for name in columns if name in opened.names]
                for rows in self._read_file(opened, there, part, serials, max_rows):
                    if rows.count:
                        yield rows, there

    def has_instrument(self, security: int) -> bool:
        """Whether there are orders or snapshots of an instrument."""
        part = SecurityRange(security, security)
        return any(
            self.read(template, ["security_id"], part) for template in (ORDER, SNAPSHOT_HEADER)
        )

    def rows_by_security(self, template: int) -> Counter[int]:
        """Return the number of rows of each instrument, from statistics where available."""
        counts: Counter[int] = Counter()
        channel = self.inputs.channel
        for file in self.inputs.files.get(template, ()):
            opened = self._open(template, file)
            lowest, highest = opened.bounds("channel", 0, 255)
            low, high = opened.bounds("security_id", FIRST_SECURITY, LAST_SECURITY)
            own = (lowest <= channel) & (channel <= highest)
            alone = own & (low == high) & (lowest == highest)
            for at in np.flatnonzero(alone).tolist():
                counts[int(low[at])] += int(opened.group_rows[at])
            mixed = np.flatnonzero(own & ~alone).tolist()
            if mixed:
                rows = opened.read(mixed, ["channel", "security_id"])
                securities = rows.numbers("security_id")[rows.numbers("channel") == channel]
                counts.update(_tally(securities))
        return counts

    def group_ends(self, template: int, security: int, base: int) -> Iterator[tuple[int, int]]:
        """Yield last serial and number of rows of each row group with an instrument's rows."""
        for file in self.inputs.files.get(template, ()):
            if not file.touches(security, security):
                continue
            opened = self._open(template, file)
            low, high = opened.bounds("security_id", FIRST_SECURITY, LAST_SECURITY)
            _, version = opened.bounds("sequence_version", 0, 0)
            _, last = opened.bounds("sequence_number", 0, 0)
            serial = serial_of(version, last, base)
            for at in np.flatnonzero((low <= security) & (security <= high)).tolist():
                yield int(serial[at]), int(opened.group_rows[at])

    def _open(self, template: int, file: InputFile) -> RowGroupFile:
        if file.path not in self._files:
            table = self.inputs.tables[template]
            location = self._lake.join(table.name, file.path)
            self._files[file.path] = open_file(location, table.texts)
        return self._files[file.path]

    def _read_file(
        self,
        opened: RowGroupFile,
        columns: Sequence[str],
        part: SecurityRange | None,
        serials: Serials | None,
        max_rows: int | None,
    ) -> Iterator[FileRows]:
        filters = ["channel"] if part is None else ["channel", "security_id"]
        if serials is not None:
            filters += ["sequence_version", "sequence_number"]
        groups, whole = _chosen(opened, self.inputs.channel, part, serials)
        names = columns if whole else list(dict.fromkeys([*columns, *filters]))
        for own in _together(groups, opened.group_rows, max_rows):
            rows = opened.read(own, names)
            yield rows if whole else _filtered(rows, self.inputs.channel, part, serials)


def _together(groups: list[int], rows: Int64Array, max_rows: int | None) -> Iterator[list[int]]:
    """Yield row groups in runs of about `max_rows` rows; None for all in one run."""
    if max_rows is None:
        if groups:
            yield groups
        return
    which = (np.cumsum(rows[groups]) - 1) // max_rows
    for _, own in groupby(zip(which.tolist(), groups, strict=True), key=itemgetter(0)):
        yield [group for _, group in own]


def _tally(securities: Int64Array) -> dict[int, int]:
    """Count the rows of each instrument; files are sorted, so there are few runs."""
    if not len(securities):
        return {}
    begins = np.flatnonzero(np.append(True, securities[1:] != securities[:-1]))
    found, which = np.unique(securities[begins], return_inverse=True)
    tally = np.bincount(which, np.diff(begins, append=len(securities)), len(found))
    return dict(zip(found.tolist(), tally.astype(np.int64).tolist(), strict=True))


def in_serials(
    versions: Int64Array, numbers: Int64Array, serials: Serials
) -> npt.NDArray[np.bool_]:
    """Return which packets, by versions and numbers, are within a range of serials."""
    base, first, last = serials
    packet_serials = serial_of(versions, numbers, base)
    inside: npt.NDArray[np.bool_] = (packet_serials >= first) & (packet_serials <= last)
    return inside


def _chosen(
    opened: RowGroupFile, channel: int, part: SecurityRange | None, serials: Serials | None
) -> tuple[list[int], bool]:
    """Return the row groups that may have matching rows, and whether all their rows match."""
    low, high = opened.bounds("channel", 0, 255)
    some = (low <= channel) & (channel <= high)
    inside = low == high
    if part is not None:
        low, high = opened.bounds("security_id", FIRST_SECURITY, LAST_SECURITY)
        some &= (low <= part.last) & (high >= part.first)
        inside &= (part.first <= low) & (high <= part.last)
    if serials is not None:
        base, first, last = serials
        lowest, highest = opened.bounds("sequence_version", 0, 1 << 16)
        one = lowest == highest
        low, high = (
            serial_of(lowest, numbers, base)
            for numbers in opened.bounds("sequence_number", 0, 1 << 32)
        )
        some &= ~one | ((low <= last) & (high >= first))
        inside &= one & (first <= low) & (high <= last)
    return np.flatnonzero(some).tolist(), bool(inside[some].all())


def _filtered(
    rows: FileRows, channel: int, part: SecurityRange | None, serials: Serials | None
) -> FileRows:
    wanted = rows.numbers("channel") == channel
    if part is not None:
        securities = rows.numbers("security_id")
        wanted &= (securities >= part.first) & (securities <= part.last)
    if serials is not None:
        versions, numbers = rows.numbers("sequence_version"), rows.numbers("sequence_number")
        wanted &= in_serials(versions, numbers, serials)
    chosen = np.flatnonzero(wanted)
    if not len(chosen):
        return rows.take(slice(0, 0))
    first, last = int(chosen[0]), int(chosen[-1])
    if last - first + 1 == len(chosen):  # files are sorted: usually one run
        return rows.take(slice(first, last + 1))
    return rows.take(chosen)


def open_reader(lake: Location, inputs: InputFiles) -> InputReader:
    """Return the reader for the feed that delivered a channel's day."""
    if inputs.protocol != LEGACY:
        return InputReader(lake, inputs)
    # Most lakes have no legacy feed: its modules are imported when it is read.
    from pregao.lake.books.legacy_reader import LegacyReader

    return LegacyReader(lake, inputs)
