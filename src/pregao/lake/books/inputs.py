"""Which files of the message tables a channel's day is made of, and how their rows are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from pregao.feed.meaning import BOOK_TEMPLATES
from pregao.lake.books.columns import integers, taken
from pregao.lake.books.slots import Slots
from pregao.lake.store import Location
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


class Reader:
    """Reads rows of the input files; metadata of files is kept between reads."""

    def __init__(self, lake: Location, inputs: Inputs) -> None:
        self._lake = lake
        self.inputs = inputs
        self._metadata: dict[str, Any] = {}

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
        found = []
        for file in self.inputs.files.get(template, ()):
            if part is None or file.touches(part.first, part.last):
                rows = self._read_file(template, file, columns, part, serials)
                if rows is not None:
                    found.append(rows)
        return found

    def knows(self, security: int) -> bool:
        """Are there orders or snapshots of an instrument?"""
        part = Part(security, security)
        return any(
            self.read(template, ["security_id"], part) for template in (ORDER, SNAPSHOT_HEADER)
        )

    def rows_by_security(self, template: int) -> Counter[int]:
        """How many rows each instrument has, from statistics as far as they tell."""
        counts: Counter[int] = Counter()
        for file in self.inputs.files.get(template, ()):
            with self._open(template, file, ()) as opened:
                metadata = opened.metadata
                channel_at = _place_of(metadata, "channel")
                security_at = _place_of(metadata, "security_id")
                mixed = []
                for number in range(metadata.num_row_groups):
                    group = metadata.row_group(number)
                    channels = _bounds(group, channel_at, 0, 255)
                    low, high = _bounds(group, security_at, FIRST_SECURITY, LAST_SECURITY)
                    if not channels[0] <= self.inputs.channel <= channels[1]:
                        continue
                    if low == high and channels[0] == channels[1]:
                        counts[low] += group.num_rows
                    else:
                        mixed.append(number)
                if mixed:
                    names = ["channel", "security_id"]
                    rows = opened.read_row_groups(mixed, columns=names, use_threads=False)
                    own = integers(rows.column(0)) == self.inputs.channel
                    found, tally = np.unique(integers(rows.column(1))[own], return_counts=True)
                    counts.update(dict(zip(found.tolist(), tally.tolist(), strict=True)))
        return counts

    def group_ends(self, template: int, security: int, base: int) -> Iterator[tuple[int, int]]:
        """The last serials of the row groups with an instrument's rows, and how many these are."""
        for file in self.inputs.files.get(template, ()):
            if not file.touches(security, security):
                continue
            with self._open(template, file, ()) as opened:
                metadata = opened.metadata
                for number in range(metadata.num_row_groups):
                    group = metadata.row_group(number)
                    at = _place_of(metadata, "security_id")
                    low, high = _bounds(group, at, FIRST_SECURITY, LAST_SECURITY)
                    if low <= security <= high:
                        version = _bounds(group, _place_of(metadata, "sequence_version"), 0, 0)[1]
                        last = _bounds(group, _place_of(metadata, "sequence_number"), 0, 0)[1]
                        serial = serial_of(np.array([version]), np.array([last]), base)
                        yield int(serial[0]), group.num_rows

    def _open(self, template: int, file: InputFile, columns: Iterable[str]) -> Any:
        table = self.inputs.tables[template]
        place = self._lake.join(table.name, file.path)
        metadata = self._metadata.get(file.path)
        if metadata is None:
            metadata = pq.read_metadata(place.path, filesystem=place.filesystem)
            self._metadata[file.path] = metadata
        there = set(metadata.schema.names)
        named = [name for name in columns if name in table.texts and name in there]
        return pq.ParquetFile(
            place.path,
            filesystem=place.filesystem,
            read_dictionary=named,
            metadata=metadata,
            # Other threads that fetch ahead are for distant stores: here they only cost time.
            pre_buffer=not place.is_local,
        )

    def _read_file(
        self,
        template: int,
        file: InputFile,
        columns: Sequence[str],
        part: Part | None,
        serials: Serials | None,
    ) -> Any | None:
        filters = ["channel"] if part is None else ["channel", "security_id"]
        if serials is not None:
            filters += ["sequence_version", "sequence_number"]
        with self._open(template, file, columns) as opened:
            groups, whole = _chosen(opened.metadata, self.inputs.channel, part, serials)
            if not groups:
                return None
            wanted = list(dict.fromkeys([*columns, *([] if whole else filters)]))
            there = [name for name in wanted if name in opened.schema_arrow.names]
            rows = opened.read_row_groups(groups, columns=there, use_threads=False)
        if not whole:
            rows = _filtered(rows, self.inputs.channel, part, serials)
            # All tables have the same columns, whether rows had to be chosen or not.
            rows = rows.select([name for name in there if name in columns])
        for name in columns:
            if name not in there:
                missing = self.inputs.tables[template].missing(name, rows.num_rows)
                rows = rows.append_column(name, missing)
        return rows if rows.num_rows else None


def in_serials(rows: Any, serials: Serials) -> npt.NDArray[np.bool_]:
    """Which rows are of packets from one serial to another."""
    base, first, last = serials
    versions = integers(rows.column("sequence_version"))
    places = serial_of(versions, integers(rows.column("sequence_number"), 0), base)
    inside: npt.NDArray[np.bool_] = (places >= first) & (places <= last)
    return inside


def _place_of(metadata: Any, name: str) -> int | None:
    names = metadata.schema.names
    return names.index(name) if name in names else None


def _bounds(group: Any, at: int | None, low: int, high: int) -> tuple[int, int]:
    """The statistics of a column in a row group, or what may be."""
    if at is None:
        return low, high
    statistics = group.column(at).statistics
    if statistics is None or not statistics.has_min_max:
        return low, high
    return int(statistics.min), int(statistics.max)


def _chosen(
    metadata: Any, channel: int, part: Part | None, serials: Serials | None
) -> tuple[list[int], bool]:
    """The row groups that may hold what is wanted, and whether they hold nothing else."""
    channel_at = _place_of(metadata, "channel")
    security_at = _place_of(metadata, "security_id")
    version_at = _place_of(metadata, "sequence_version")
    number_at = _place_of(metadata, "sequence_number")
    groups = []
    whole = True
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        low, high = _bounds(group, channel_at, 0, 255)
        if not low <= channel <= high:
            continue
        inside = low == high
        if part is not None:
            low, high = _bounds(group, security_at, FIRST_SECURITY, LAST_SECURITY)
            if low > part.last or high < part.first:
                continue
            inside &= part.first <= low and high <= part.last
        if serials is not None:
            base, first, last = serials
            versions = _bounds(group, version_at, 0, 1 << 16)
            numbers = _bounds(group, number_at, 0, 1 << 32)
            if versions[0] == versions[1]:
                low, high = (
                    int(serial_of(np.array([versions[0]]), np.array([number]), base)[0])
                    for number in numbers
                )
                if low > last or high < first:
                    continue
                inside &= first <= low and high <= last
            else:
                inside = False
        groups.append(number)
        whole &= inside
    return groups, whole


def _filtered(rows: Any, channel: int, part: Part | None, serials: Serials | None) -> Any:
    wanted = integers(rows.column("channel")) == channel
    if part is not None:
        securities = integers(rows.column("security_id"))
        wanted &= (securities >= part.first) & (securities <= part.last)
    if serials is not None:
        wanted &= in_serials(rows, serials)
    chosen = np.flatnonzero(wanted)
    if not len(chosen):
        return rows.slice(0, 0)
    if chosen[-1] - chosen[0] + 1 == len(chosen):  # files are sorted: mostly it is one run
        return rows.slice(int(chosen[0]), len(chosen))
    return taken(rows, chosen)
