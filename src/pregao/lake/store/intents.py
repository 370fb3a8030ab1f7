"""Intents: what a unit is about to make visible, valid from one atomic commit on.

The table ``_intents`` has one small file per unit: a row for each capture, and the list of all the
unit's files in the first row. The commit that adds the file carries one application transaction per
capture and one for the unit, so that a capture belongs to one unit for ever, on every filesystem.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from pregao.clock import Clock, system_clock
from pregao.errors import UsageError
from pregao.lake.store.delta_tables import (
    add_action,
    append_once,
    create,
    load,
    load_existing,
    remove_action,
    replace_files,
    visible_files,
)
from pregao.lake.store.location import Location, unique_name
from pregao.lake.store.unit import NewFile, Replaced, TableSpec, Unit

NAME = "_intents"

SPEC = TableSpec(
    NAME,
    pa.schema(
        [
            pa.field("unit_id", pa.string(), metadata={"comment": "The unit of commit."}),
            pa.field("capture_id", pa.string(), metadata={"comment": "A capture it takes."}),
            pa.field("intended_at_ns", pa.int64(), metadata={"comment": "When it was intended."}),
            pa.field("payload", pa.string(), metadata={"comment": "Its files, as JSON."}),
        ]
    ),
    partition_by=(),
    description="What units of ingest are about to make visible or have made visible.",
)


def unit_key(unit_id: str) -> str:
    """The application id of a unit in the tables' transactions."""
    return f"unit:{unit_id}"


def capture_key(capture_id: str) -> str:
    """The application id of a capture in the transactions of the intents."""
    return f"capture:{capture_id}"


def ensure(lake: Location) -> None:
    """Create the table of intents; harmless if several do it at once, since it never changes."""
    place = lake.join(NAME)
    if load(place) is None:
        create(place, SPEC)


def is_declared(lake: Location, unit: Unit) -> bool:
    """Is this unit's intent valid already? One with other captures is another unit: an error."""
    table = load_existing(lake.join(NAME))
    if table.transaction_version(unit_key(unit.unit_id)) is None:
        return False
    owners = _owners(table)
    if {name for name, owner in owners.items() if owner == unit.unit_id} != set(unit.captures):
        raise UsageError(
            f"The unit {unit.unit_id} was committed before with other captures; "
            "give every unit an id of its own."
        )
    return True


@dataclass(frozen=True, slots=True)
class Declared:
    """What came of declaring an intent: valid by this very call, or before it, or not at all."""

    fresh: bool
    taken: dict[str, str] = field(default_factory=dict)


def declare(lake: Location, unit: Unit, clock: Clock = system_clock) -> Declared:
    """Write a unit's intent and make it valid; or tell which captures are taken, and by whom."""
    file = _write(lake, unit, clock())
    keys = [unit_key(unit.unit_id), *map(capture_key, unit.captures)]
    if not append_once(lake.join(NAME), keys, [add_action(file)]):
        return Declared(True)
    if is_declared(lake, unit):
        # By another attempt, or by this one if the store's answer was lost on the way; then the
        # file is in use.
        return Declared(False)
    lake.join(NAME, file.path).delete()
    return Declared(False, taken_captures(lake, unit.captures))


def taken_captures(lake: Location, captures: Iterable[str]) -> dict[str, str]:
    """Which of these captures are taken, and by which unit; cheap when none is."""
    table = load(lake.join(NAME))
    if table is None:
        return {}
    there = [name for name in captures if table.transaction_version(capture_key(name)) is not None]
    if not there:
        return {}
    owners = _owners(table)
    return {name: owners[name] for name in there}


def all_captures(lake: Location) -> dict[str, str]:
    """Every capture that was taken, and by which unit."""
    table = load(lake.join(NAME))
    return {} if table is None else _owners(table)


def declared_units(lake: Location) -> set[str]:
    """The units with an intent that still tells its files, read from the table's log alone."""
    table = load(lake.join(NAME))
    if table is None:
        return set()
    # Files that compaction has made of several units hold only complete ones.
    return single_units(visible_files(table))


def single_units(actions: Any) -> set[str]:
    """The units whose rows are alone in a file: there, smallest and largest id are the same."""
    if not actions.num_rows:
        return set()
    single = actions.filter(pc.equal(actions["min.unit_id"], actions["max.unit_id"]))
    return set(single["min.unit_id"].to_pylist())


def read(lake: Location, units: Sequence[str]) -> list[Unit]:
    """The units with these ids, without the rows for ``ingests``, which are in a file by now."""
    table = load_existing(lake.join(NAME))
    rows = table.to_pyarrow_table(
        columns=["unit_id", "capture_id", "payload"], filters=[("unit_id", "in", list(units))]
    ).to_pylist()
    found = []
    for unit_id in units:
        own = [row for row in rows if row["unit_id"] == unit_id]
        payload = next((row["payload"] for row in own if row["payload"] is not None), None)
        if payload is not None:
            captures = tuple(row["capture_id"] for row in own if row["capture_id"] is not None)
            files, replaces = _content(payload)
            found.append(Unit(unit_id, captures, files, replaces=replaces))
    return found


def _owners(table: DeltaTable) -> dict[str, str]:
    rows = table.to_pyarrow_table(columns=["capture_id", "unit_id"])
    pairs = zip(rows["capture_id"].to_pylist(), rows["unit_id"].to_pylist(), strict=True)
    return {capture: unit for capture, unit in pairs if capture is not None}


def compact(lake: Location, unfinished: Callable[[set[str]], list[str]]) -> bool:
    """Merge the intents of complete units into one file, without the lists of their files.

    ``unfinished`` tells which of some units are not complete. It is asked about what the table
    holds now: a unit that is intended while this runs must keep its list.
    """
    place = lake.join(NAME)
    table = load(place)
    if table is None:
        return False
    actions = visible_files(table)
    pending = unfinished(single_units(actions))
    old = [
        action
        for action in actions.to_pylist()
        if action["min.unit_id"] != action["max.unit_id"] or action["min.unit_id"] not in pending
    ]
    if len(old) < 2:
        return False
    parts = [pq.read_table(io.BytesIO(place.join(one["path"]).read_bytes())) for one in old]
    rows = pa.concat_tables(parts).drop(["payload"])
    rows = rows.append_column("payload", pa.nulls(rows.num_rows, pa.string()))
    units = rows["unit_id"].to_pylist()
    file = _stored(lake, rows, "intents", min(units), max(units))
    removals = [remove_action(one["path"], one["size_bytes"], data_change=False) for one in old]
    if replace_files(place, removals, [add_action(file, data_change=False)]):
        return True
    place.join(file.path).delete()
    return False


def _write(lake: Location, unit: Unit, now_ns: int) -> NewFile:
    captures: list[str | None] = [*unit.captures] or [None]
    payload = json.dumps(
        {
            "files": [
                [file.table, file.path, file.size, file.rows, list(file.partition), file.stats]
                for file in unit.files
            ],
            "replaces": [
                [gone.table, gone.date, [[name, list(values)] for name, values in gone.where]]
                for gone in unit.replaces
            ],
        }
    )
    columns = [
        pa.array([unit.unit_id] * len(captures), pa.string()),
        pa.array(captures, pa.string()),
        pa.array([now_ns] * len(captures), pa.int64()),
        pa.array([payload, *[None] * (len(captures) - 1)], pa.string()),
    ]
    rows = pa.Table.from_arrays(columns, schema=SPEC.schema.remove_metadata())
    return _stored(lake, rows, "intent", unit.unit_id, unit.unit_id)


def _stored(lake: Location, rows: Any, stem: str, first: str, last: str) -> NewFile:
    content = io.BytesIO()
    pq.write_table(rows, content, compression="zstd", store_schema=False)
    name = unique_name(stem, ".parquet")
    lake.join(NAME, name).write_bytes(content.getvalue())
    # Ids of units are not cut short here: they are how pending units are found.
    stats = (
        f'{{"numRecords":{rows.num_rows},"minValues":{{"unit_id":{json.dumps(first)}}},'
        f'"maxValues":{{"unit_id":{json.dumps(last)}}},"nullCount":{{"unit_id":0}}}}'
    )
    return NewFile(NAME, name, content.tell(), rows.num_rows, (), stats)


def _content(payload: str) -> tuple[tuple[NewFile, ...], tuple[Replaced, ...]]:
    told = json.loads(payload)
    files = tuple(
        NewFile(table, path, size, rows, tuple((key, value) for key, value in partition), stats)
        for table, path, size, rows, partition, stats in told["files"]
    )
    return files, tuple(_replaced(*part) for part in told["replaces"])


def _replaced(table: str, date: str, *where: Any) -> Replaced:
    if len(where) == len(_UNNAMED):
        where = (zip(_UNNAMED, ([where[0]], where[1]), strict=True),)
    return Replaced(table, date, tuple((name, tuple(values)) for name, values in where[0]))


_UNNAMED = ("channel", "security_id")
"""The columns that an intent of version 0.1 means without naming them."""
