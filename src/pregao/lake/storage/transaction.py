"""Exactly-once commits: a unit's files become visible in all their tables, or in none.

First the unit's intent is committed (see `intent_log`): from then on its captures are claimed, and
its files will become visible, if necessary by another process. Then every table gets one
transaction with the unit's ID, ``ingests`` last. A process that dies in between leaves an intent
that the next command rolls forward; files of units without an intent stay invisible.

Some time after it is complete a unit is retired, so that logs do not grow with every unit: first
its intent, then its IDs in the tables. A process that finishes a unit, however slowly, loads a
table, then checks whether the unit is retired, then commits on the loaded version. So it finds the
ID, or that the unit is retired; if both happen after that, the library rejects the commit.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from pregao.clock import Clock, system_clock
from pregao.errors import PregaoError, UsageError
from pregao.lake.storage import intent_log
from pregao.lake.storage.append import AppendTarget, open_target
from pregao.lake.storage.commit_unit import DATE, CommitResult, CommitUnit, NewFile, TableSpec
from pregao.lake.storage.delta import add_action, change_table, commit_changes, load_existing
from pregao.lake.storage.filesystem import Location, unique_name
from pregao.lake.storage.overwrite import replace_once
from pregao.lake.storage.parquet import WrittenFile, new_file, stored_schema
from pregao.units import day_number

T = TypeVar("T")

LEDGER = "ingests"
"""The table that records complete units: the last one in which a unit becomes visible."""
LEDGER_SPEC = TableSpec(
    LEDGER,
    pa.schema(
        [
            pa.field("capture_id", pa.string(), metadata={"comment": "Capture ID."}),
            pa.field("unit_id", pa.string(), metadata={"comment": "Ingest that committed it."}),
            pa.field("committed_at_ns", pa.int64(), metadata={"comment": "Commit time."}),
            pa.field(DATE, pa.date32(), metadata={"comment": "Day of the partition."}),
        ]
    ),
    description="An ingested capture.",
)
"""The columns that the store needs; the ingest adds more."""

_LOCAL_THREADS = 4
"""Tables changed concurrently in a lake on a local disk."""
_REMOTE_THREADS = 8
"""The same in an object store, where latency dominates."""
_ATTEMPTS = 8
"""Attempts to commit while other units commit first."""
RETIRE_FROM = 32
"""Minimum number of complete units to retire them."""

Watch = Callable[[str], None]
"""Called after each step: with ``written``, ``intended``, then the name of every table."""


def unwatched(step: str, /) -> None:
    """Ignore the steps of a commit."""


def commit(
    lake: Location,
    unit: CommitUnit,
    *,
    clock: Clock = system_clock,
    watch: Watch = unwatched,
    opened: Mapping[str, AppendTarget] | None = None,
) -> CommitResult:
    """Make a unit visible, unless another unit has claimed one of its captures.

    The tables must exist (`LakeStore.ensure_tables`). Committing a unit again adds nothing.
    ``opened`` may have recently loaded tables.
    """
    _check(lake, unit)
    register = intent_log.IntentRegister(lake, load_existing(lake.join(intent_log.NAME)))
    if not register.declares(unit):
        if others := register.claimed(unit.captures):
            return CommitResult(unit.unit_id, False, others)
        ledger = open_target(lake.join(LEDGER))
        rows = _write_ledger(lake, unit, ledger, clock())
        complete = replace(unit, files=(*unit.files, *rows))
        watch("written")
        declared = intent_log.declare(lake, complete, clock, register)
        if declared.claimed:
            for file in rows:
                lake.join(file.table, file.path).delete()
            return CommitResult(unit.unit_id, False, declared.claimed)
        watch("intended")
        if declared.fresh:
            finish(lake, complete, watch, {**(opened or {}), LEDGER: ledger})
            return CommitResult(unit.unit_id, True)
    # The first intent is decisive; its files may be those of another attempt.
    for intended in intent_log.read(lake, [unit.unit_id]):
        finish(lake, intended, watch)
    return CommitResult(unit.unit_id, True)


def finish(
    lake: Location,
    unit: CommitUnit,
    watch: Watch = unwatched,
    opened: Mapping[str, AppendTarget] | None = None,
) -> None:
    """Apply a valid intent to every table that does not have it yet."""
    parts: dict[str, list[NewFile]] = {replaced.table: [] for replaced in unit.replaces}
    for file in unit.files:
        parts.setdefault(file.table, []).append(file)
    ledger_files = parts.pop(LEDGER, [])
    keys = [intent_log.unit_key(unit.unit_id)]
    targets = opened or {}

    def is_open() -> bool:
        return not intent_log.is_retired(lake, unit.unit_id)

    def open_table(name: str) -> AppendTarget:
        return targets.get(name) or open_target(lake.join(name))

    def apply(name: str, files: list[NewFile]) -> str:
        replaced = [part for part in unit.replaces if part.table == name]
        if replaced:
            adds = [add_action(file) for file in files]
            replace_once(lake.join(name), keys, replaced, adds, is_open)
        else:
            tables[name].append_once(keys, files, is_open)
        return name

    with _pool(lake) as pool:
        names = [*sorted(parts), LEDGER]
        tables = dict(zip(names, pool.map(open_table, names), strict=True))
        if not is_open():
            return
        for done in [pool.submit(apply, *item) for item in sorted(parts.items())]:
            watch(done.result())
    watch(apply(LEDGER, ledger_files))


def retire(lake: Location, min_units: int = RETIRE_FROM) -> None:
    """Retire complete units, if there are at least ``min_units``: remove their IDs from logs.

    Intents are retired first: a process that still works on such a unit must find there that it is
    retired. A process that dies in between leaves IDs in the tables' logs, which is harmless.
    """
    units = intent_log.retire(lake, partial(unfinished, lake), min_units)
    keys: dict[str, list[str]] = {}
    for unit in units or ():
        tables = {file.table for file in unit.files} | {
            replaced.table for replaced in unit.replaces
        }
        for name in tables | {LEDGER}:
            keys.setdefault(name, []).append(intent_log.unit_key(unit.unit_id))

    def remove_keys(name: str) -> None:
        change_table(lake.join(name), lambda table: commit_changes(table, [], retired=keys[name]))

    with _pool(lake) as pool:
        for done in [pool.submit(remove_keys, name) for name in sorted(keys)]:
            done.result()


def roll_forward(lake: Location) -> list[str]:
    """Finish all incomplete units and return their IDs."""
    return _finish_all(lake, pending_units(lake))


def prepare(lake: Location) -> None:
    """Finish all incomplete units, and retire complete ones if there are many."""
    register = intent_log.open_register(lake)
    if register is not None:
        _finish_all(lake, unfinished(lake, register.units))
        if len(register.units) >= RETIRE_FROM:
            retire(lake)


def _finish_all(lake: Location, pending: list[str]) -> list[str]:
    units = intent_log.read(lake, pending) if pending else []
    for unit in units:
        finish(lake, unit)
    return [unit.unit_id for unit in units]


def pending_units(lake: Location) -> list[str]:
    """Return the incomplete units: those with an intent that is not fully applied."""
    register = intent_log.open_register(lake)
    return [] if register is None else unfinished(lake, register.units)


def unfinished(lake: Location, units: set[str]) -> list[str]:
    """Return those of the given units that are not complete."""
    if not units:
        return []
    if not lake.join(LEDGER, "_delta_log").exists():
        return sorted(units)
    keys = {intent_log.unit_key(unit): unit for unit in units}
    return sorted(keys[key] for key in open_target(lake.join(LEDGER)).lacking(keys))


def _pool(lake: Location) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_LOCAL_THREADS if lake.is_local else _REMOTE_THREADS)


def _check(lake: Location, unit: CommitUnit) -> None:
    """Refuse a unit with duplicate captures, or whose tables do not exist."""
    if len(set(unit.captures)) != len(unit.captures):
        raise UsageError(f"The unit {unit.unit_id} has a duplicate capture.")
    tables = {LEDGER, intent_log.NAME}
    tables |= {file.table for file in unit.files} | {rows.table for rows in unit.replaces}
    missing = sorted(name for name in tables if not lake.join(name, "_delta_log").exists())
    if missing:
        raise UsageError(f"{lake} has no table {', '.join(missing)}; create it before a commit.")


def _write_ledger(
    lake: Location, unit: CommitUnit, ledger: AppendTarget, now_ns: int
) -> list[NewFile]:
    """Write the unit's rows of ``ingests``, one file per date."""
    if not unit.ingests:
        return []
    declared = ledger.schema
    unknown = {name for row in unit.ingests for name in row} - set(declared.names)
    if unknown:
        raise UsageError(
            f"The table {LEDGER} of {lake} has no column {', '.join(sorted(unknown))}."
        )
    by_date: dict[date, list[Mapping[str, Any]]] = {}
    for row in unit.ingests:
        by_date.setdefault(_day(row), []).append(row)
    schema = stored_schema(declared)
    files = []
    for day, rows in sorted(by_date.items()):
        given = {"unit_id": unit.unit_id, "committed_at_ns": now_ns}
        table = pa.Table.from_pylist(
            [{name: {**given, **row}.get(name) for name in schema.names} for row in rows], schema
        )
        content = io.BytesIO()
        pq.write_table(table, content, compression="zstd", store_schema=False)
        path = f"{DATE}={day.isoformat()}/{unique_name('ingest', '.parquet')}"
        lake.join(LEDGER, path).write_bytes(content.getvalue())
        content.seek(0)
        metadata, size = pq.read_metadata(content), content.getbuffer().nbytes
        written = WrittenFile(LEDGER, path, size, len(rows), day_number(day), metadata)
        files.append(new_file(written, declared))
    return files


def _day(row: Mapping[str, Any]) -> date:
    day = row.get(DATE)
    if isinstance(day, date):
        return day
    if isinstance(day, str):
        return date.fromisoformat(day)
    raise UsageError(f"A row of `ingests` needs a date, was {day!r}.")


def until_committed(lake: Location, rivals: str, attempt: Callable[[], T | None]) -> T:
    """Plan and commit; retry while other units commit first.

    ``attempt`` returns None if another unit was first. After the last attempt, PregaoError is
    raised with ``rivals``, which describes what the other processes do.
    """
    for _ in range(_ATTEMPTS):
        done = attempt()
        if done is not None:
            return done
    raise PregaoError(f"{lake}: {rivals}; try again.")
