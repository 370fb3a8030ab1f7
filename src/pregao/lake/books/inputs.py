"""Which files of the message tables a channel's day is made of, and how their rows are read."""

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

from pregao.feed.meaning import BOOK_TEMPLATES
from pregao.lake.books.columns import Numbers
from pregao.lake.books.opened import FileRows, OpenedFile, open_file
from pregao.lake.books.slots import Slots
from pregao.lake.store import FlatRows, Location
from pregao.umdf.sequencing import serial_of
from pregao.umdf.streams import ONLY_INCREMENTAL
from pregao.umdf.templates import ORDER, SNAPSHOT_HEADER

EPOCH = date(1970, 1, 1)
BINARY = "umdf"
"""The protocol of the binary feed."""

INSTRUMENTS = 0
"""Stands among the templates for the table of the instruments."""
FIRST_SECURITY = 0
LAST_SECURITY = (1 << 63) - 1

Serials = tuple[int, int, int]
"""The sequence version from which serials count, and the first and last that are wanted."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table that is read: its name, its columns, and which of them hold text."""

    name: str
    columns: tuple[str, ...]
    texts: frozenset[str]
    declared: Any = None
    """The schema of its rows, for columns that a file leaves out; None if they are numbers."""

    def missing(self, name: str, count: int) -> Any:
        """A column that a file has not: younger than the file, or without any value in it."""
        if name in self.texts:
            return pa.nulls(count, pa.dictionary(pa.int32(), pa.string()))
        kind = pa.int64() if self.declared is None else self.declared.field(name).type
        return pa.nulls(count, kind)

    @property
    def counted(self) -> bool:
        """Are its messages about one instrument, and counted?"""
        return "security_id" in self.columns and "rpt_seq" in self.columns


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file of a message table: where it is, and what its statistics say."""

    path: str
    size: int
    rows: int
    securities: tuple[int, ...] | None
    """Smallest and largest instrument; None if it is not known."""

    def touches(self, first: int, last: int) -> bool:
        """May it hold rows of these instruments?"""
        return self.securities is None or (
            self.securities[0] <= last and self.securities[1] >= first
        )


@dataclass(frozen=True, slots=True)
class Inputs:
    """The files of a channel's day, by template."""

    day: int
    """Days since 1970."""
    channel: int
    tables: dict[int, Table]
    files: dict[int, tuple[InputFile, ...]] = field(default_factory=dict)
    protocol: str = BINARY
    """The feed that the channel's day came by."""
    excluded: frozenset[int] = frozenset()
    """Instruments that are left out: another feed has them, or they have another kind of book."""
    only: frozenset[int] | None = None
    """The only instruments that are read; None for all but those that are left out."""
    depths: Mapping[int, int] = field(default_factory=dict)
    """How many price levels the feed shows of instruments; 0 where it tells their orders."""
    usual_depth: int | None = 0
    """The same of all others; None if they have price levels, and nothing tells how many."""
    market_depth: int = 0
    """The same of those that are read, of which one kind of book is made."""
    slots: Slots = field(default_factory=Slots)
    """Of a feed without sequence versions: what is there in their place."""

    def depth_of(self, security: int) -> int | None:
        """How many price levels the feed shows of an instrument."""
        return self.depths.get(security, self.usual_depth)

    def kinds(self) -> tuple[Inputs, ...]:
        """These inputs for each kind of book that there is, with the instruments that have it."""
        found = {*self.depths.values()}
        if self.usual_depth is not None:
            found.add(self.usual_depth)
        return tuple(self._of_depth(depth) for depth in sorted(found))

    def _of_depth(self, depth: int) -> Inputs:
        own = frozenset(each for each, shown in self.depths.items() if shown == depth)
        if depth != self.usual_depth:
            return replace(self, only=own - self.excluded, market_depth=depth)
        others = frozenset(self.depths) - own
        return replace(self, excluded=self.excluded | others, market_depth=depth)

    @property
    def counted(self) -> tuple[int, ...]:
        """The templates whose messages are counted, but for those that change books."""
        return tuple(
            template
            for template, table in sorted(self.tables.items())
            if table.counted and template not in BOOK_TEMPLATES
        )

    @property
    def statistics(self) -> tuple[int, ...]:
        """Those of them that come in snapshots too: statistics, bands and states."""
        return tuple(one for one in self.counted if one not in ONLY_INCREMENTAL)


@dataclass(frozen=True, slots=True)
class Part:
    """The instruments from the first to the last."""

    first: int = FIRST_SECURITY
    last: int = LAST_SECURITY


ROWS_PER_PIECE = 10_000
"""Rows that are read at once where they are read in pieces; each may have tens of orders."""


class Reader:
    """Reads rows of the input files; what files tell of themselves is kept between reads."""

    def __init__(self, lake: Location, inputs: Inputs) -> None:
        self._lake = lake
        self.inputs = inputs
        self._files: dict[str, OpenedFile] = {}

    def read(
        self,
        template: int,
        columns: Sequence[str],
        part: Part | None,
        serials: Serials | None = None,
    ) -> list[Any]:
        """The rows of a template as tables, one for each file that has some.

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
        part: Part | None,
        serials: Serials | None = None,
    ) -> list[Any]:
        """The same rows as they are cheapest: `FlatRows` with the columns that there are, or
        tables."""
        return [
            rows if isinstance(rows, FlatRows) else self._table(template, rows, columns, there)
            for rows, there in self._rows(template, columns, part, serials)
        ]

    def pieces(self, template: int, columns: Sequence[str], part: Part) -> Iterator[Any]:
        """The same tables as `read` gives, cut small: of rows with long lists all at once would be
        very much."""
        for rows, there in self._rows(template, columns, part, None, ROWS_PER_PIECE):
            yield self._table(template, rows, columns, there)

    def _table(
        self, template: int, rows: FileRows, columns: Sequence[str], there: list[str]
    ) -> Any:
        """Rows as a table with all columns that are wanted."""
        missing = [name for name in columns if name not in there]
        nulls = [self.inputs.tables[template].missing(name, rows.count) for name in missing]
        if not there:
            return pa.Table.from_arrays(nulls, names=missing)
        made = rows.table(there, self.inputs.tables[template].texts)
        for name, column in zip(missing, nulls, strict=True):
            made = made.append_column(name, column)
        return made

    def _rows(
        self,
        template: int,
        columns: Sequence[str],
        part: Part | None,
        serials: Serials | None,
        most: int | None = None,
    ) -> Iterator[tuple[FileRows, list[str]]]:
        """The rows of each file that has some, about so many at a time, and which of the columns
        it has."""
        for file in self.inputs.files.get(template, ()):
            if part is None or file.touches(part.first, part.last):
                opened = self._open(template, file)
                there = [name for name in columns if name in opened.names]
                for rows in self._read_file(opened, there, part, serials, most):
                    if rows.count:
                        yield rows, there

    def knows(self, security: int) -> bool:
        """Are there orders or snapshots of an instrument?"""
        part = Part(security, security)
        return any(
            self.read(template, ["security_id"], part) for template in (ORDER, SNAPSHOT_HEADER)
        )

    def rows_by_security(self, template: int) -> Counter[int]:
        """How many rows each instrument has, from statistics as far as they tell."""
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
        """The last serials of the row groups with an instrument's rows, and how many these are."""
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

    def _open(self, template: int, file: InputFile) -> OpenedFile:
        if file.path not in self._files:
            table = self.inputs.tables[template]
            place = self._lake.join(table.name, file.path)
            self._files[file.path] = open_file(place, table.texts)
        return self._files[file.path]

    def _read_file(
        self,
        opened: OpenedFile,
        columns: Sequence[str],
        part: Part | None,
        serials: Serials | None,
        most: int | None,
    ) -> Iterator[FileRows]:
        filters = ["channel"] if part is None else ["channel", "security_id"]
        if serials is not None:
            filters += ["sequence_version", "sequence_number"]
        groups, whole = _chosen(opened, self.inputs.channel, part, serials)
        names = columns if whole else list(dict.fromkeys([*columns, *filters]))
        for own in _together(groups, opened.group_rows, most):
            rows = opened.read(own, names)
            yield rows if whole else _filtered(rows, self.inputs.channel, part, serials)


def _together(groups: list[int], rows: Numbers, most: int | None) -> Iterator[list[int]]:
    """Row groups in runs of about so many rows; None for all at once."""
    if most is None:
        if groups:
            yield groups
        return
    which = (np.cumsum(rows[groups]) - 1) // most
    for _, own in groupby(zip(which.tolist(), groups, strict=True), key=itemgetter(0)):
        yield [group for _, group in own]


def _tally(securities: Numbers) -> dict[int, int]:
    """How often each instrument comes; files are sorted, so that there are few runs of them."""
    if not len(securities):
        return {}
    begins = np.flatnonzero(np.append(True, securities[1:] != securities[:-1]))
    found, which = np.unique(securities[begins], return_inverse=True)
    tally = np.bincount(which, np.diff(begins, append=len(securities)), len(found))
    return dict(zip(found.tolist(), tally.astype(np.int64).tolist(), strict=True))


def in_serials(versions: Numbers, numbers: Numbers, serials: Serials) -> npt.NDArray[np.bool_]:
    """Which packets, by their versions and numbers, are from one serial to another."""
    base, first, last = serials
    places = serial_of(versions, numbers, base)
    inside: npt.NDArray[np.bool_] = (places >= first) & (places <= last)
    return inside


def _chosen(
    opened: OpenedFile, channel: int, part: Part | None, serials: Serials | None
) -> tuple[list[int], bool]:
    """The row groups that may hold what is wanted, and whether they hold nothing else."""
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


def _filtered(rows: FileRows, channel: int, part: Part | None, serials: Serials | None) -> FileRows:
    wanted = rows.numbers("channel") == channel
    if part is not None:
        securities = rows.numbers("security_id")
        wanted &= (securities >= part.first) & (securities <= part.last)
    if serials is not None:
        versions, numbers = rows.numbers("sequence_version"), rows.numbers("sequence_number")
        wanted &= in_serials(versions, numbers, serials)
    chosen = np.flatnonzero(wanted)
    if not len(chosen):
        return rows.taken(slice(0, 0))
    first, last = int(chosen[0]), int(chosen[-1])
    if last - first + 1 == len(chosen):  # files are sorted: mostly it is one run
        return rows.taken(slice(first, last + 1))
    return rows.taken(chosen)
