"""The store of a lake: tables, claimed captures and commits."""

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
from pregao.lake.storage import intent_log, transaction
from pregao.lake.storage.append import AppendTarget, open_target
from pregao.lake.storage.commit_unit import DATE, CommitResult, CommitUnit, NewFile, TableSpec
from pregao.lake.storage.delta import (
    LakeTable,
    arrow_schema,
    bounded_columns,
    change_table,
    commit_changes,
    create_once,
    load,
    settings_of,
    upgrade_schema,
    visible_files,
)
from pregao.lake.storage.filesystem import Location
from pregao.lake.storage.local_log import read_paths
from pregao.lake.storage.parquet import WrittenFile, new_file
from pregao.lake.storage.transaction import LEDGER, LEDGER_SPEC, Watch, unwatched

_AT_ONCE = 4
STAGING = "_staging"
"""Folder for files of tasks that are not yet files of a table."""


class LakeStore:
    """The tables at one location."""

    def __init__(self, location: str | os.PathLike[str] | Location, clock: Clock = system_clock):
        self.location = Location.parse(location)
        if re.search(r"%[0-9A-Fa-f]{2}", self.location.uri):
            # The table library would decode it and use another path.
            raise UsageError(
                f"{self.location}: the path of a lake must not have % followed by two hex digits."
            )
        self._clock = clock
        self._ensured: dict[str, TableSpec] = {}
        self._opened: dict[str, AppendTarget] = {}

    def exists(self) -> bool:
        """Whether the location has a lake."""
        return self.location.join(intent_log.NAME, "_delta_log").exists()

    def begin(self) -> None:
        """Create the lake's folder; raise UsageError if that fails."""
        intent_log.ensure(self.location)

    def require(self) -> None:
        """Raise UsageError if the location has no lake."""
        if not self.exists():
            raise UsageError(
                f"{self.location} is not a lake: create one with "
                f"`pregao ingest CAPTURE… --lake {self.location}`."
            )

    def table_location(self, name: str) -> Location:
        """Return the folder of a table."""
        return self.location.join(name)

    def ensure_table(self, spec: TableSpec) -> None:
        """Create a table, or add its missing columns."""
        self.ensure_tables([spec])

    def ensure_tables(self, specs: Iterable[TableSpec]) -> None:
        """Create missing tables and add missing columns; always includes ``ingests``.

        Safe to call from several processes concurrently.
        """
        requested = list(specs)
        if LEDGER not in {*self._ensured, *(spec.name for spec in requested)}:
            requested.append(LEDGER_SPEC)
        due = [spec for spec in requested if self._ensured.get(spec.name) != spec]
        if not due:
            return
        if not self._are_ensured(due):
            intent_log.ensure(self.location)
            register = self.location.join(intent_log.NAME)
            locations = [(self.location.join(spec.name), spec) for spec in due]
            create_once(register, locations)
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                all_locations = [(register, intent_log.SPEC), *locations]
                for done in [pool.submit(upgrade_schema, *item) for item in all_locations]:
                    done.result()
            state = {_state_of(due): 1}
            change_table(register, lambda table: commit_changes(table, [], state))
        self._ensured |= {spec.name: spec for spec in due}

    def _are_ensured(self, specs: Sequence[TableSpec]) -> bool:
        """Whether the register records that these tables exist with these columns and properties.

        Loading every table would take longer than the rest of a small ingest.
        """
        if not self.exists() or open_target(self.location.join(intent_log.NAME)).lacking(
            [_state_of(specs)]
        ):
            return False
        existing = {entry.name for entry in self.location.entries() if entry.is_folder}
        return existing.issuperset(spec.name for spec in specs)

    def table_names(self) -> list[str]:
        """Return the names of the lake's tables."""
        return [name for name in self._folders() if not name.startswith(("_", "."))]

    def own_tables(self) -> list[str]:
        """Return the names of internal tables: intents and caches."""
        return [name for name in self._folders() if name.startswith("_")]

    def _folders(self) -> list[str]:
        return [
            entry.name
            for entry in self.location.entries()
            if entry.is_folder and entry.location.join("_delta_log").exists()
        ]

    def delta(self, name: str) -> LakeTable:
        """Load the current version of a table; raise UsageError if it does not exist."""
        location = self.location.join(name)
        table = load(location)
        if table is None:
            available = ", ".join(self.table_names()) or "no tables"
            raise UsageError(f"{self.location} has no table {name}; it has {available}.")
        return table

    def paths(self, name: str) -> set[str]:
        """Return the current files of a table, relative to its folder."""
        found = read_paths(self.location.join(name))
        return set(visible_files(self.delta(name))["path"].to_pylist()) if found is None else found

    def schema(self, name: str) -> Any:
        """Return a table's declared Arrow schema, with comments in the fields' metadata."""
        return arrow_schema(self.delta(name))

    def files(self, name: str, date: str | None = None) -> list[Location]:
        """Return the visible files of a table, of one date or all."""
        actions = visible_files(self.delta(name))
        if date is not None and actions.num_rows:
            dates = actions[f"partition.{DATE}"].cast(pa.string())
            actions = actions.filter(pc.equal(dates, date))
        return [self.location.join(name, path) for path in actions["path"].to_pylist()]

    def file_uris(self, name: str, date: str | None = None) -> list[str]:
        """Return the URIs of the visible files of a table, of one date or all."""
        return [file.uri for file in self.files(name, date)]

    def new_files(self, written: Iterable[WrittenFile]) -> tuple[NewFile, ...]:
        """Convert written files to the form that a unit needs."""
        files = list(written)
        names = sorted({file.table for file in files})
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            tables = dict(zip(names, pool.map(self._target, names), strict=True))
        self._opened |= tables  # the next commit probably needs them
        schemas = {name: _bounded_schema(table) for name, table in tables.items()}
        return tuple(new_file(file, schemas[file.table]) for file in files)

    def _target(self, name: str) -> AppendTarget:
        """Open a table for appending, and add missing columns whatever the register records."""
        location = self.location.join(name)
        found = open_target(location)
        spec = self._ensured.get(name)
        if spec is not None and not set(spec.schema.names) <= set(found.schema.names):
            # The table was replaced by an older one.
            upgrade_schema(location, spec)
            found = open_target(location)
        return found

    def captures(self) -> dict[str, str]:
        """Return all claimed captures, of complete and incomplete units: content ID → unit ID.

        Reads all intents; `claimed` and `claimed_with_prefix` read only what they need.
        """
        register = intent_log.open_register(self.location)
        return {} if register is None else register.all()

    def claimed(self, captures: Collection[str]) -> dict[str, str]:
        """Return those of the given captures that are claimed, with their units."""
        register = intent_log.open_register(self.location)
        return {} if register is None else register.claimed(captures)

    def claimed_with_prefix(self, prefix: str) -> dict[str, str]:
        """Return the captures and guards whose names start with a prefix, with their units."""
        register = intent_log.open_register(self.location)
        return {} if register is None else register.beginning_with(prefix)

    def commit(self, unit: CommitUnit, watch: Watch = unwatched) -> CommitResult:
        """Make a unit visible in all its tables, exactly once."""
        opened, self._opened = self._opened, {}
        return transaction.commit(
            self.location, unit, clock=self._clock, watch=watch, opened=opened
        )

    def pending(self) -> list[str]:
        """Return the IDs of incomplete units."""
        return transaction.pending_units(self.location)

    def roll_forward(self) -> list[str]:
        """Finish incomplete units of processes that died; return their IDs."""
        return transaction.roll_forward(self.location)

    def prepare(self) -> None:
        """Finish incomplete units of processes that died, and retire complete ones if many."""
        transaction.prepare(self.location)


def _state_of(specs: Sequence[TableSpec]) -> str:
    """Return the mark in ``_intents`` that records that tables exist with these specs."""
    digest = hashlib.sha256()
    for spec in sorted(specs, key=lambda spec: spec.name):
        digest.update(repr((spec.name, settings_of(spec))).encode())
        digest.update(spec.schema.serialize())
    return f"tables:{digest.hexdigest()[:32]}"


def _bounded_schema(table: AppendTarget) -> Any:
    """Return the columns of a table that have bounds in its log."""
    declared = table.schema
    names = bounded_columns(table.settings)
    return declared if names is None else pa.schema([declared.field(name) for name in names])
