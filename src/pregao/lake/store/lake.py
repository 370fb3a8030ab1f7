"""The lake as one thing: its tables, what was taken in, and how new files become visible."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pregao.clock import Clock, system_clock
from pregao.errors import UsageError
from pregao.lake.store import commits, intents
from pregao.lake.store.appending import Target, open_target
from pregao.lake.store.commits import LEDGER, LEDGER_SPEC, Watch, unwatched
from pregao.lake.store.delta_tables import (
    LakeTable,
    arrow_schema,
    bring_up_to_date,
    change_table,
    commit_changes,
    create_once,
    load,
    visible_files,
)
from pregao.lake.store.local_log import read_paths
from pregao.lake.store.location import Location
from pregao.lake.store.parquet import Written, new_file
from pregao.lake.store.table_settings import bounded_columns, settings_of
from pregao.lake.store.unit import DATE, CommitResult, NewFile, TableSpec, Unit

_AT_ONCE = 4
STAGING = "_staging"
"""Where tasks may leave what is not yet a file of a table."""


class Lake:
    """The tables at one location."""

    def __init__(self, location: str | os.PathLike[str] | Location, clock: Clock = system_clock):
        self.location = Location.parse(location)
        if re.search(r"%[0-9A-Fa-f]{2}", self.location.uri):
            # The table library would read it as one character and look elsewhere.
            raise UsageError(f"{self.location}: give the lake a path without % and digits.")
        self._clock = clock
        self._ensured: dict[str, TableSpec] = {}
        self._opened: dict[str, Target] = {}

    def exists(self) -> bool:
        """Was anything ever taken in here?"""
        return self.location.join(intents.NAME, "_delta_log").exists()

    def begin(self) -> None:
        """Make the place of the lake, or say why that cannot be."""
        intents.ensure(self.location)

    def require(self) -> None:
        """Raise an error that a user understands, if there is no lake here."""
        if not self.exists():
            raise UsageError(
                f"{self.location} is not a lake: make one with "
                f"`pregao ingest CAPTURE… --lake {self.location}`."
            )

    def table_location(self, name: str) -> Location:
        """The folder of a table."""
        return self.location.join(name)

    def ensure_table(self, spec: TableSpec) -> None:
        """Create a table, or add the columns that it lacks."""
        self.ensure_tables([spec])

    def ensure_tables(self, specs: Iterable[TableSpec]) -> None:
        """Create the tables that are not there, and add the columns that tables lack.

        Several processes may do this at once. The table ``ingests`` is always among them.
        """
        wanted = list(specs)
        if LEDGER not in {*self._ensured, *(spec.name for spec in wanted)}:
            wanted.append(LEDGER_SPEC)
        due = [spec for spec in wanted if self._ensured.get(spec.name) != spec]
        if not due:
            return
        if not self._are_ensured(due):
            intents.ensure(self.location)
            place = self.location.join(intents.NAME)
            places = [(self.location.join(spec.name), spec) for spec in due]
            create_once(place, places)
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                all_places = [(place, intents.SPEC), *places]
                for done in [pool.submit(bring_up_to_date, *item) for item in all_places]:
                    done.result()
            told = {_state_of(due): 1}
            change_table(place, lambda table: commit_changes(table, [], told))
        self._ensured |= {spec.name: spec for spec in due}

    def _are_ensured(self, specs: Sequence[TableSpec]) -> bool:
        """Was it noted that these tables are there, with these columns and settings?

        To load every table would take longer than the rest of a small ingest.
        """
        if not self.exists() or open_target(self.location.join(intents.NAME)).lacking(
            [_state_of(specs)]
        ):
            return False
        there = {entry.name for entry in self.location.entries() if entry.is_folder}
        return there.issuperset(spec.name for spec in specs)

    def table_names(self) -> list[str]:
        """The tables of the lake, by name."""
        return [name for name in self._folders() if not name.startswith(("_", "."))]

    def own_tables(self) -> list[str]:
        """The tables that the lake keeps for itself: intents, and what it remembers."""
        return [name for name in self._folders() if name.startswith("_")]

    def _folders(self) -> list[str]:
        return [
            entry.name
            for entry in self.location.entries()
            if entry.is_folder and entry.location.join("_delta_log").exists()
        ]

    def delta(self, name: str) -> LakeTable:
        """The Delta table of a name, as it is now."""
        place = self.location.join(name)
        table = load(place)
        if table is None:
            known = ", ".join(self.table_names()) or "none at all"
            raise UsageError(f"{self.location} has no table {name}; it has {known}.")
        return table

    def paths(self, name: str) -> set[str]:
        """The files that a table has now, below its folder."""
        found = read_paths(self.location.join(name))
        return set(visible_files(self.delta(name))["path"].to_pylist()) if found is None else found

    def schema(self, name: str) -> Any:
        """A table's declared Arrow schema, with comments in the fields' metadata."""
        return arrow_schema(self.delta(name))

    def files(self, name: str, date: str | None = None) -> list[Location]:
        """The visible files of a table, those of one date or all."""
        actions = visible_files(self.delta(name))
        if date is not None and actions.num_rows:
            dates = actions[f"partition.{DATE}"].cast(pa.string())
            actions = actions.filter(pc.equal(dates, date))
        return [self.location.join(name, path) for path in actions["path"].to_pylist()]

    def file_uris(self, name: str, date: str | None = None) -> list[str]:
        """The names of the visible files of a table, those of one date or all."""
        return [file.uri for file in self.files(name, date)]

    def new_files(self, written: Iterable[Written]) -> tuple[NewFile, ...]:
        """Files that were written, as a unit takes them."""
        files = list(written)
        names = sorted({file.table for file in files})
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            tables = dict(zip(names, pool.map(self._target, names), strict=True))
        self._opened |= tables  # they are likely to be committed to next
        schemas = {name: _bounded_schema(table) for name, table in tables.items()}
        return tuple(new_file(file, schemas[file.table]) for file in files)

    def _target(self, name: str) -> Target:
        """A table that files are to be appended to; with its columns, whatever was noted of it."""
        place = self.location.join(name)
        found = open_target(place)
        spec = self._ensured.get(name)
        if spec is not None and not set(spec.schema.names) <= set(found.schema.names):
            # Somebody has put an older table in its place.
            bring_up_to_date(place, spec)
            found = open_target(place)
        return found

    def known_captures(self) -> dict[str, str]:
        """The captures that were taken in, complete or on their way: content id → unit id.

        This reads all of them; `taken` and `taken_beginning_with` read what they need.
        """
        register = intents.open_register(self.location)
        return {} if register is None else register.all()

    def taken(self, captures: Collection[str]) -> dict[str, str]:
        """Which of these captures were taken in, and by which unit."""
        register = intents.open_register(self.location)
        return {} if register is None else register.taken(captures)

    def taken_beginning_with(self, prefix: str) -> dict[str, str]:
        """The captures, and all else that units took, whose names begin so, and their units."""
        register = intents.open_register(self.location)
        return {} if register is None else register.beginning_with(prefix)

    def commit(self, unit: Unit, watch: Watch = unwatched) -> CommitResult:
        """Make a unit visible in all its tables, exactly once."""
        opened, self._opened = self._opened, {}
        return commits.commit(self.location, unit, clock=self._clock, watch=watch, opened=opened)

    def pending(self) -> list[str]:
        """The units that are intended but not complete."""
        return commits.pending_units(self.location)

    def roll_forward(self) -> list[str]:
        """Finish what a process that died has left; gives the ids of the units finished."""
        return commits.roll_forward(self.location)

    def prepare(self) -> None:
        """Finish what a process that died has left, and retire units when there are many."""
        commits.prepare(self.location)


def _state_of(specs: Sequence[TableSpec]) -> str:
    """The mark in the intents that tells that tables are there as these say."""
    digest = hashlib.sha256()
    for spec in sorted(specs, key=lambda spec: spec.name):
        digest.update(repr((spec.name, settings_of(spec))).encode())
        digest.update(spec.schema.serialize())
    return f"tables:{digest.hexdigest()[:32]}"


def _bounded_schema(table: Target) -> Any:
    """The columns of a table whose bounds its log keeps."""
    declared = table.schema
    names = bounded_columns(table.settings)
    return declared if names is None else pa.schema([declared.field(name) for name in names])
