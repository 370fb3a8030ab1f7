"""The lake as one thing: its tables, what was taken in, and how new files become visible."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from pregao.clock import Clock, system_clock
from pregao.errors import UsageError
from pregao.lake.store import commits, intents
from pregao.lake.store.commits import LEDGER, LEDGER_SPEC, Watch, unwatched
from pregao.lake.store.delta_tables import (
    add_missing_columns,
    arrow_schema,
    create_once,
    load,
    visible_files,
)
from pregao.lake.store.location import Location
from pregao.lake.store.parquet import Written, new_file
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
        self._ensured: dict[str, Any] = {}

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
        due = [spec for spec in wanted if self._ensured.get(spec.name) != spec.schema]
        if not due:
            return
        intents.ensure(self.location)
        places = [(self.location.join(spec.name), spec) for spec in due]
        create_once(self.location.join(intents.NAME), places)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for done in [pool.submit(add_missing_columns, *item) for item in places]:
                done.result()
        self._ensured |= {spec.name: spec.schema for spec in due}

    def table_names(self) -> list[str]:
        """The tables of the lake, by name."""
        return [
            entry.name
            for entry in self.location.entries()
            if entry.is_folder
            and not entry.name.startswith(("_", "."))
            and entry.location.join("_delta_log").exists()
        ]

    def delta(self, name: str) -> DeltaTable:
        """The Delta table of a name, as it is now."""
        place = self.location.join(name)
        table = load(place)
        if table is None:
            known = ", ".join(self.table_names()) or "none at all"
            raise UsageError(f"{self.location} has no table {name}; it has {known}.")
        return table

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
        schemas = {name: self.schema(name) for name in {file.table for file in files}}
        return tuple(new_file(file, schemas[file.table]) for file in files)

    def known_captures(self) -> dict[str, str]:
        """The captures that were taken in, complete or on their way: content id → unit id."""
        return intents.all_captures(self.location)

    def taken(self, captures: Iterable[str]) -> dict[str, str]:
        """Which of these captures were taken in, and by which unit; cheap when none was."""
        return intents.taken_captures(self.location, captures)

    def commit(self, unit: Unit, watch: Watch = unwatched) -> CommitResult:
        """Make a unit visible in all its tables, exactly once."""
        return commits.commit(self.location, unit, clock=self._clock, watch=watch)

    def pending(self) -> list[str]:
        """The units that are intended but not complete."""
        return commits.pending_units(self.location)

    def roll_forward(self) -> list[str]:
        """Finish what a process that died has left; gives the ids of the units finished."""
        return commits.roll_forward(self.location)
