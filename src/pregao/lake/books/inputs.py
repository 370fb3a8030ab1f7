"""Input files of a channel's day, and the reader of their rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pregao.arrays import Int64Array
from pregao.feed.book_updates import BOOK_TEMPLATES
from pregao.lake.books.opened import FileRows, RowGroupFile, open_file
from pregao.lake.books.slots import TimeSlots
from pregao.lake.store.flat_parquet.rows import FlatRows
from pregao.lake.store.location import Location
from pregao.umdf.sequencing import serial_of
from pregao.umdf.streams import ONLY_INCREMENTAL
from pregao.umdf.templates import ORDER, SNAPSHOT_HEADER

EPOCH = date(1970, 1, 1)
BINARY = "umdf"
"""Protocol of the binary feed."""

INSTRUMENTS = 0
"""Key of the instruments table among the templates."""
FIRST_SECURITY = 0
LAST_SECURITY = (1 << 63) - 1

Serials = tuple[int, int, int]
"""Sequence version that serials count from, and the first and last serial to read."""


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


ROWS_PER_PIECE = 10_000
"""Number of rows read at a time by `pieces`; each may have tens of orders."""


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
        max_serial: int | None = None,
    ) -> Iterator[tuple[FileRows, list[str]]]:
        """Yield the rows of each file that has some, about `most` at a time, and which of the
        columns it has.
        """
        for file in self.inputs.files.get(template, ()):
            if part is None or file.touches(part.first, part.last):
                opened = self._open(template, file)
                there = [name for name in columns if name in opened.names]
                for rows in self._read_file(opened, there, part, serials, max_serial):
                    if rows.count:
                        yield rows, there

    def knows(self, security: int) -> bool:
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
        max_serial: int | None,
    ) -> Iterator[FileRows]:
        filters = ["channel"] if part is None else ["channel", "security_id"]
        if serials is not None:
            filters += ["sequence_version", "sequence_number"]
        groups, whole = _chosen(opened, self.inputs.channel, part, serials)
        names = columns if whole else list(dict.fromkeys([*columns, *filters]))
        for own in _together(groups, opened.group_rows, max_serial):
            rows = opened.read(own, names)
            yield rows if whole else _filtered(rows, self.inputs.channel, part, serials)


def _together(groups: list[int], rows: Int64Array, max_serial: int | None) -> Iterator[list[int]]:
    """Yield row groups in runs of about `most` rows; None for all in one run."""
    if max_serial is None:
        if groups:
            yield groups
        return
    which = (np.cumsum(rows[groups]) - 1) // max_serial
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
