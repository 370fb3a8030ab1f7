"""Catalog of the files of a lake's tables by day and channel, read from the tables' logs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pregao.lake.books.columns import integers, take
from pregao.lake.books.reader import (
    BINARY,
    ENTRIES,
    INSTRUMENTS,
    LEGACY,
    SNAPSHOTS,
    SOURCES,
    InputFile,
    InputFiles,
    InputReader,
    InputTable,
    SecurityRange,
)
from pregao.lake.ingest.protocol import IngestProtocol
from pregao.lake.ingest.registry import PROTOCOLS
from pregao.lake.storage.commit_unit import DATE
from pregao.lake.storage.delta import arrow_schema
from pregao.lake.storage.lake_store import LakeStore
from pregao.umdf.templates import (
    CHANNEL_RESET,
    EMPTY_BOOK,
    NEWS,
    ORDER,
    SECURITY_DEFINITIONS,
    SECURITY_GROUP_PHASE,
    SEQUENCE,
    SEQUENCE_RESET,
    SNAPSHOT_HEADER,
    SNAPSHOT_ORDERS,
)
from pregao.units import day_number

_OTHER_TABLES = frozenset(
    {
        INSTRUMENTS,
        EMPTY_BOOK,
        CHANNEL_RESET,
        SECURITY_GROUP_PHASE,
        SNAPSHOT_HEADER,
        SNAPSHOT_ORDERS,
    }
)
"""Templates read in addition to the messages counted by ``rptSeq``."""
_NEVER_READ = SECURITY_DEFINITIONS | {SEQUENCE_RESET, SEQUENCE, NEWS}
"""Stream resets, heartbeats, news and definitions do not affect books."""
_STATISTIC_TABLES = (ORDER, SNAPSHOT_HEADER, EMPTY_BOOK, CHANNEL_RESET)
"""Tables that show whether a day has a book."""
_LEGACY_STATISTIC_TABLES = (ENTRIES, SNAPSHOTS)
_MESSAGE_TABLE = re.compile(r"umdf_\w+_(\d+)")


def template_of(table: str) -> int | None:
    """Return the template of a message table; None for other tables."""
    if table == "instruments":
        return INSTRUMENTS
    matched = _MESSAGE_TABLE.fullmatch(table)
    return None if matched is None else int(matched.group(1))


class FileLog:
    """Files of a table according to its log, converted only for the requested days (a year is
    long).
    """

    def __init__(self, table: Any) -> None:
        # Not pa.table(…): it imports pandas, a quarter of a second.
        actions = table.get_add_actions(flatten=True)
        self._actions = pa.RecordBatchReader.from_stream(actions).read_all()
        name = f"partition.{DATE}"
        there = name in self._actions.column_names
        self._days = self._actions.column(name).to_pylist() if there else None
        self._known: dict[date, list[dict[str, Any]]] = {}

    def days(self) -> set[date]:
        """Return the days that have files."""
        return set(self._days or ())

    def of(self, days: Collection[date] | None = None) -> list[dict[str, Any]]:
        """Return the files of some days, or of all."""
        if days is None or self._days is None:
            rows: list[dict[str, Any]] = self._actions.to_pylist()
            return rows
        for day in days:
            if day not in self._known:
                own = [at for at, its in enumerate(self._days) if its == day]
                self._known[day] = take(self._actions, np.array(own, np.int64)).to_pylist()
        return [row for day in days for row in self._known[day]]


def files_of(
    lake: LakeStore, table: str, days: Collection[date] | None = None
) -> list[dict[str, Any]]:
    """Return the files of a table, of some days or of all."""
    return FileLog(lake.delta(table)).of(days)


def read_small(
    lake: LakeStore, table: str, columns: Sequence[str], days: Collection[date] | None = None
) -> list[dict[str, Any]]:
    """Return the rows of a small table, of some days or of all."""
    found: list[dict[str, Any]] = []
    for row in files_of(lake, table, days):
        location = lake.table_location(table).join(row["path"])
        with pq.ParquetFile(location.path, filesystem=location.filesystem) as file:
            present = [name for name in columns if name in file.schema_arrow.names]
            found += file.read(columns=present, use_threads=False).to_pylist()
    return found


class FileCatalog:
    """Files of all message tables that books are built from; each table's log is read once."""

    def __init__(self, lake: LakeStore) -> None:
        self.lake = lake
        self._tables: dict[int, InputTable] = {}
        self._logs: dict[int, FileLog] = {}
        self._legacy: dict[tuple[date, int], InputFiles] = {}
        for name in lake.table_names():
            if name in SOURCES:
                self._logs[SOURCES[name]] = FileLog(lake.delta(name))
            template = template_of(name)
            if template is None or template in _NEVER_READ:
                continue
            delta = lake.delta(name)
            schema = arrow_schema(delta)
            table = InputTable(name, tuple(schema.names), frozenset(_texts(schema)))
            if not table.counted and template not in _OTHER_TABLES:
                continue
            self._tables[template] = table
            self._logs[template] = FileLog(delta)

    def dates(self) -> list[date]:
        """Return the days that have orders or snapshots."""
        found: set[date] = set()
        for template in (*_STATISTIC_TABLES, *_LEGACY_STATISTIC_TABLES):
            if template in self._logs:
                found |= self._logs[template].days()
        return sorted(found)

    def channels(self, day: date) -> list[int]:
        """Return the channels that have orders or snapshots on a day, by either feed."""
        return sorted(
            {
                *self._channels(day, _STATISTIC_TABLES),
                *self._channels(day, _LEGACY_STATISTIC_TABLES),
            }
        )

    def protocol(self, day: date, channel: int) -> IngestProtocol:
        """Return the feed to read a channel's day from: the binary one if it has any of it.

        Reading a channel from both feeds would count it twice.
        """
        legacy = channel not in self.binary_channels(day)
        return PROTOCOLS[
            LEGACY if legacy and self._rows_of(_LEGACY_STATISTIC_TABLES, day) else BINARY
        ]

    def _channels(self, day: date, templates: Sequence[int]) -> list[int]:
        found: set[int] = set()
        for template in templates:
            for row in self._rows(template, day):
                low, high = row.get("min.channel"), row.get("max.channel")
                if low is not None and low == high:
                    found.add(int(low))
                    continue
                location = self.lake.table_location(self._table(template).name)
                path = location.join(row["path"])
                with pq.ParquetFile(path.path, filesystem=path.filesystem) as file:
                    column = file.read(columns=["channel"]).column(0)
                found.update(int(value) for value in np.unique(integers(column)))
        return sorted(found)

    def inputs(self, day: date, channel: int) -> InputFiles:
        """Return the files with rows of a channel's day."""
        if self.protocol(day, channel).name == LEGACY:
            return self._legacy_inputs(day, channel)
        tables = {one: log for one, log in self._logs.items() if one in self._tables}
        return InputFiles(day_number(day), channel, self._tables, self._files(tables, day, channel))

    def _legacy_inputs(self, day: date, channel: int) -> InputFiles:
        """Return those of the legacy feed, without instruments that the binary feed has."""
        from pregao.lake.books.legacy_reader import LegacyReader, translated_tables

        if (day, channel) not in self._legacy:
            files = self._files(SOURCES.values(), day, channel)
            number, tables = day_number(day), translated_tables()
            inputs = InputFiles(
                number, channel, tables, files, LEGACY, self.binary_instruments(day)
            )
            reader = LegacyReader(self.lake.location, inputs)
            depths, usual = reader.depths()
            self._legacy[day, channel] = replace(
                inputs, depths=depths, usual_depth=usual, seconds=reader.has_seconds()
            )
        return self._legacy[day, channel]

    def binary_channels(self, day: date) -> list[int]:
        """Return the channels for which the binary feed has orders or snapshots."""
        return self._channels(day, _STATISTIC_TABLES)

    def binary_instruments(self, day: date) -> frozenset[int]:
        """Return the instruments that the binary feed has on a day."""
        found: set[int] = set()
        for row in self._rows(INSTRUMENTS, day):
            location = self.lake.table_location(self._tables[INSTRUMENTS].name).join(row["path"])
            with pq.ParquetFile(location.path, filesystem=location.filesystem) as file:
                column = file.read(columns=["security_id"]).column(0)
            found.update(np.unique(integers(column)).tolist())
        return frozenset(found)

    def _table(self, template: int) -> InputTable:
        if template in self._tables:
            return self._tables[template]
        from pregao.lake.books.legacy_reader import translated_tables

        return translated_tables()[template]

    def _files(
        self, templates: Iterable[int], day: date, channel: int
    ) -> dict[int, tuple[InputFile, ...]]:
        files: dict[int, tuple[InputFile, ...]] = {}
        for template in templates:
            found = []
            for row in self._rows(template, day):
                low, high = row.get("min.channel"), row.get("max.channel")
                if low is not None and high is not None and not low <= channel <= high:
                    continue
                ends = row.get("min.security_id"), row.get("max.security_id")
                known = None if None in ends else tuple(int(end or 0) for end in ends)
                found.append(InputFile(row["path"], row["size_bytes"], row["num_records"], known))
            if found:
                files[template] = tuple(found)
        return files

    def has_positions(self, day: date, channel: int) -> bool:
        """Whether the feed states positions of orders, as it does below schema version 15."""
        inputs = self.inputs(day, channel)
        if inputs.protocol == LEGACY:
            return True
        files = {file.path for file in inputs.files.get(ORDER, ())}
        unknown = False
        for row in self._rows(ORDER, day):
            if row["path"] in files and row["num_records"]:
                nulls = row.get("null_count.md_entry_position_no")
                if nulls == 0:
                    return True
                unknown |= nulls != row["num_records"]
        if not unknown:
            return False
        # A file may contain orders of several channels, with and without positions.
        reader = InputReader(self.lake.location, inputs)
        tables = reader.read(ORDER, ["md_entry_position_no"], SecurityRange())
        return bool(tables) and all(
            rows.column("md_entry_position_no").null_count == 0 for rows in tables
        )

    def _rows_of(self, templates: Sequence[int], day: date) -> bool:
        return any(self._rows(template, day) for template in templates)

    def _rows(self, template: int, day: date) -> list[dict[str, Any]]:
        return self._logs[template].of([day]) if template in self._logs else []


def _texts(schema: Any) -> Iterator[str]:
    """Yield the string columns and string members of lists, by their Parquet names."""
    for field in schema:
        if pa.types.is_string(field.type):
            yield field.name
        elif pa.types.is_list(field.type) and pa.types.is_struct(field.type.value_type):
            for member in field.type.value_type:
                if pa.types.is_string(member.type):
                    yield f"{field.name}.list.element.{member.name}"


def guard_prefix(day: date, channel: int) -> str:
    """Return the prefix of the names of a channel day's builds, before their numbers."""
    return f"books {day.isoformat()} {channel} "


def latest_build(lake: LakeStore, day: date, channel: int) -> tuple[int, str | None]:
    """Return the number of the next build of a channel's day, and the unit of the last one."""
    prefix = guard_prefix(day, channel)
    found = {
        int(name.removeprefix(prefix)): unit
        for name, unit in lake.claimed_with_prefix(prefix).items()
    }
    last = max(found, default=-1)
    return last + 1, found.get(last)


_BUILD = re.compile(r"books (\d{4}-\d\d-\d\d) (\d+) (\d+)")


def build_counts(lake: LakeStore) -> Counter[tuple[date, int]]:
    """Return the number of the next build of each channel's day."""
    found: Counter[tuple[date, int]] = Counter()
    for name in lake.claimed_with_prefix("books "):
        if matched := _BUILD.fullmatch(name):
            channel_day = date.fromisoformat(matched.group(1)), int(matched.group(2))
            found[channel_day] = max(found[channel_day], int(matched.group(3)) + 1)
    return found
