"""Exactly once: a unit's files become visible in all their tables, or nothing of it ever does.

A unit is first intended (see `intents`): from that moment its captures are taken and its files will
be visible, whoever finishes the work. Then every table gets one transaction with the unit's id, and
``ingests`` the last one. A process that dies in between leaves an intent which the next command
rolls forward; files of units that were never intended stay invisible.
"""

from __future__ import annotations

import datetime
import io
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pregao.clock import Clock, system_clock
from pregao.errors import UsageError
from pregao.lake.ingest.schemas import DATE, INGESTS
from pregao.lake.store import intents
from pregao.lake.store.delta_tables import add_action, append_once, load
from pregao.lake.store.file_statistics import stats_json
from pregao.lake.store.location import Location, unique_name
from pregao.lake.store.replacing import replace_once
from pregao.lake.store.unit import NewFile, Outcome, TableSpec, Unit

INGESTS_SPEC = TableSpec("ingests", INGESTS, (DATE,), "A capture taken in.")

Watch = Callable[[str], None]
"""Is told each step once it is done: ``written``, ``intended``, then every table's name."""


def unwatched(step: str, /) -> None:
    """Nobody is told of the steps."""


def commit(
    lake: Location, unit: Unit, *, clock: Clock = system_clock, watch: Watch = unwatched
) -> Outcome:
    """Make a unit visible, unless one of its captures was taken by another unit before.

    The tables must be there (`Lake.ensure_tables`). Committing a unit again adds nothing.
    """
    _check(lake, unit)
    if not intents.is_declared(lake, unit):
        if others := intents.taken_captures(lake, unit.captures):
            return Outcome(unit.unit_id, False, others)
        whole = replace(unit, files=(*unit.files, *_write_ingests(lake, unit, clock())))
        watch("written")
        declared = intents.declare(lake, whole, clock)
        if declared.taken:
            for file in whole.files[len(unit.files) :]:
                lake.join(file.table, file.path).delete()
            return Outcome(unit.unit_id, False, declared.taken)
        watch("intended")
        if declared.fresh:
            finish(lake, whole, watch)
            return Outcome(unit.unit_id, True)
    # What counts is what was intended first, which may have been another attempt's files.
    for intended in intents.read(lake, [unit.unit_id]):
        finish(lake, intended, watch)
    return Outcome(unit.unit_id, True)


def finish(lake: Location, unit: Unit, watch: Watch = unwatched) -> None:
    """Bring every table up to a valid intent; what is there already is left alone."""
    tables: dict[str, list[NewFile]] = {gone.table: [] for gone in unit.replaces}
    for file in unit.files:
        tables.setdefault(file.table, []).append(file)
    last = tables.pop(INGESTS_SPEC.name, [])
    keys = [intents.unit_key(unit.unit_id)]

    def append(table: str, files: list[NewFile]) -> str:
        adds = [add_action(file) for file in files]
        gone = [part for part in unit.replaces if part.table == table]
        if gone:
            replace_once(lake.join(table), keys, gone, adds)
        else:
            append_once(lake.join(table), keys, adds)
        return table

    # On a local disk a commit takes milliseconds; elsewhere the time goes into waiting.
    with ThreadPoolExecutor(1 if lake.is_local else 8) as pool:
        for done in [pool.submit(append, *item) for item in sorted(tables.items())]:
            watch(done.result())
    watch(append(INGESTS_SPEC.name, last))


def roll_forward(lake: Location) -> list[str]:
    """Finish all units that are intended and not complete; gives their ids."""
    units = intents.read(lake, pending) if (pending := pending_units(lake)) else []
    for unit in units:
        finish(lake, unit)
    return [unit.unit_id for unit in units]


def pending_units(lake: Location) -> list[str]:
    """The units that are intended but not complete."""
    return unfinished(lake, intents.declared_units(lake))


def unfinished(lake: Location, units: set[str]) -> list[str]:
    """Which of these units are not complete."""
    if not units:
        return []
    table = load(lake.join(INGESTS_SPEC.name))
    if table is None:
        return sorted(units)
    # The log of `ingests` tells most of them at once; ask for each of the others.
    rest = units - intents.single_units(pa.table(table.get_add_actions(flatten=True)))
    return sorted(
        unit for unit in rest if table.transaction_version(intents.unit_key(unit)) is None
    )


def _check(lake: Location, unit: Unit) -> None:
    if len(set(unit.captures)) != len(unit.captures):
        raise UsageError(f"The unit {unit.unit_id} names a capture twice.")
    tables = {file.table for file in unit.files} | {INGESTS_SPEC.name, intents.NAME}
    missing = sorted(name for name in tables if not lake.join(name, "_delta_log").exists())
    if missing:
        raise UsageError(f"{lake} has no table {', '.join(missing)}; create it before a commit.")


def _write_ingests(lake: Location, unit: Unit, now_ns: int) -> list[NewFile]:
    """Write the unit's rows of ``ingests``, one file for each date."""
    by_date: dict[str, list[Mapping[str, Any]]] = {}
    for row in unit.ingests:
        by_date.setdefault(_day(row), []).append(row)
    schema = pa.schema([field for field in INGESTS if field.name != DATE]).remove_metadata()
    files = []
    for day, rows in sorted(by_date.items()):
        given = {"unit_id": unit.unit_id, "committed_at_ns": now_ns}
        table = pa.Table.from_pylist(
            [{name: {**given, **row}.get(name) for name in schema.names} for row in rows], schema
        )
        content = io.BytesIO()
        pq.write_table(table, content, compression="zstd", store_schema=False)
        path = f"{DATE}={day}/{unique_name('ingest', '.parquet')}"
        lake.join(INGESTS_SPEC.name, path).write_bytes(content.getvalue())
        content.seek(0)
        stats = stats_json(pq.read_metadata(content), schema)
        files.append(
            NewFile(
                INGESTS_SPEC.name,
                path,
                content.getbuffer().nbytes,
                len(rows),
                ((DATE, day),),
                stats,
            )
        )
    return files


def _day(row: Mapping[str, Any]) -> str:
    day = row.get(DATE)
    if isinstance(day, datetime.date):
        return day.isoformat()
    if isinstance(day, str):
        return datetime.date.fromisoformat(day).isoformat()
    raise UsageError("A row of `ingests` needs its date.")
