"""Intents: the files that a unit will make visible, valid from one atomic commit on.

The table ``_intents`` has one small file per unit: a row for each capture, and the list of all the
unit's files in the first row. The commit that adds the file has one application transaction per
capture and one for the unit, so that a capture belongs to one unit forever, on every filesystem.

The table's log would grow with every unit. So the intents of complete units are retired: their rows
are merged into one file without the lists, and the log drops their IDs in the same commit. An ID is
claimed if the log or a row of a merged file has it, both looked up on one handle.
"""

from __future__ import annotations

import io
import json
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pregao.clock import Clock, system_clock
from pregao.errors import UsageError
from pregao.lake.storage.append import open_target
from pregao.lake.storage.commit_unit import CommitUnit, NewFile, ReplacedRows, TableSpec
from pregao.lake.storage.delta import (
    LakeTable,
    add_action,
    change_table,
    commit_changes,
    create,
    load,
    load_existing,
    remove_action,
    replace_files,
    visible_files,
)
from pregao.lake.storage.filesystem import Location, unique_name

NAME = "_intents"

SPEC = TableSpec(
    NAME,
    pa.schema(
        [
            pa.field("unit_id", pa.string(), metadata={"comment": "Unit of commit."}),
            pa.field("capture_id", pa.string(), metadata={"comment": "Capture that it claims."}),
            pa.field("intended_at_ns", pa.int64(), metadata={"comment": "Time of the intent."}),
            pa.field("payload", pa.string(), metadata={"comment": "Files of the unit, as JSON."}),
        ]
    ),
    partition_by=(),
    description="Units of commit, with the captures they claim and the files they make visible.",
    statistics=("unit_id",),
    passing=True,
)
_OWNERS = ("capture_id", "unit_id")
_RETIRED = "retired"
"""Prefix of merged files, whose IDs the log no longer has."""
_LARGE = 65_536
"""Merged files with at least this many rows are not merged again."""
_GROUP = 4_096


def unit_key(unit_id: str) -> str:
    """Return the application ID of a unit in the tables' transactions."""
    return f"unit:{unit_id}"


def capture_key(capture_id: str) -> str:
    """Return the application ID of a capture in the transactions of ``_intents``."""
    return f"capture:{capture_id}"


def ensure(lake: Location) -> None:
    """Create the table ``_intents``; safe concurrently, since its schema never changes."""
    location = lake.join(NAME)
    if load(location) is None:
        create(location, SPEC)


def single_units(actions: Any) -> set[str]:
    """Return the units that have a file of their own, where minimum and maximum ID are equal."""
    if not actions.num_rows:
        return set()
    single = actions.filter(pc.equal(actions["min.unit_id"], actions["max.unit_id"]))
    return set(single["min.unit_id"].to_pylist())


class IntentRegister:
    """A version of the table ``_intents``: captures with the units that claim them, and intents."""

    def __init__(self, lake: Location, table: LakeTable) -> None:
        self.table = table
        self._location = lake.join(NAME)
        actions = visible_files(table)
        self.files: list[dict[str, Any]] = actions.to_pylist() if actions.num_rows else []
        self._single = {
            one["min.unit_id"]: one
            for one in self.files
            if one["min.unit_id"] == one["max.unit_id"]
        }
        self._merged = [one for one in self.files if one["min.unit_id"] != one["max.unit_id"]]

    @property
    def units(self) -> set[str]:
        """Units that are not retired: those whose intent still lists its files."""
        return set(self._single)

    def claimed(self, captures: Collection[str]) -> dict[str, str]:
        """Return those of the given captures that are claimed, with their units."""
        requested = sorted(set(captures))
        if len(requested) <= len(self._single):
            marked = [
                name
                for name in requested
                if self.table.transaction_version(capture_key(name)) is not None
            ]
            files = self.files if marked else self._merged
        else:  # reading all files is cheaper
            files = self.files
        found: dict[str, str] = {}

        def may_hold(first: str, last: str) -> bool:
            index = bisect_left(requested, first)
            return index < len(requested) and requested[index] <= last

        for part in self._read(files, may_hold):
            own = part.filter(pc.is_in(part["capture_id"], pa.array(requested, pa.string())))
            found |= _pairs(own)
        return found

    def beginning_with(self, prefix: str) -> dict[str, str]:
        """Return the captures whose names start with a prefix, with their units."""
        found: dict[str, str] = {}

        def may_hold(first: str, last: str) -> bool:
            return first[: len(prefix)] <= prefix <= last[: len(prefix)]

        for part in self._read(self.files, may_hold):
            found |= _pairs(part.filter(pc.starts_with(part["capture_id"], prefix)))
        return found

    def all(self) -> dict[str, str]:
        """Return all claimed captures, with their units."""
        found: dict[str, str] = {}
        for part in self._read(self.files):
            found |= _pairs(part)
        return found

    def declares(self, unit: CommitUnit) -> bool:
        """Whether the unit's intent is already valid; raise UsageError if its captures differ."""
        own = self._single.get(unit.unit_id)
        files = [own] if own is not None else [one for one in self._merged if self._has(one, unit)]
        if not files:
            return False
        owned = {
            capture
            for part in self._read(files)
            for capture in _pairs(part.filter(pc.equal(part["unit_id"], unit.unit_id)))
        }
        if owned != set(unit.captures):
            raise UsageError(
                f"The unit {unit.unit_id} was committed before with other captures; "
                "use a unique ID for every unit."
            )
        return True

    def _has(self, one: dict[str, Any], unit: CommitUnit) -> bool:
        """Whether a merged file has rows of a unit."""
        if not one["min.unit_id"] <= unit.unit_id <= one["max.unit_id"]:
            return False
        with self._location.join(one["path"]).open_input() as opened:
            file = pq.ParquetFile(opened, read_dictionary=["unit_id"])
            names = file.read(columns=["unit_id"], use_threads=False)["unit_id"]
        return any(unit.unit_id in chunk.dictionary.to_pylist() for chunk in names.chunks)

    def _read(
        self,
        files: Iterable[dict[str, Any]],
        may_hold: Callable[[str, str], bool] = lambda _first, _last: True,
    ) -> Iterator[Any]:
        """Read captures and units of files, from row groups that may have matching captures."""
        for one in files:
            with self._location.join(one["path"]).open_input() as opened:
                file = pq.ParquetFile(opened)
                column = file.metadata.schema.names.index("capture_id")
                groups = []
                for number in range(file.num_row_groups):
                    bounds = file.metadata.row_group(number).column(column).statistics
                    has_bounds = bounds is not None and bounds.has_min_max
                    if not has_bounds or may_hold(bounds.min, bounds.max):
                        groups.append(number)
                if groups:
                    yield file.read_row_groups(groups, columns=list(_OWNERS), use_threads=False)


def _pairs(rows: Any) -> dict[str, str]:
    pairs = zip(rows["capture_id"].to_pylist(), rows["unit_id"].to_pylist(), strict=True)
    return {capture: unit for capture, unit in pairs if capture is not None}


def open_register(lake: Location) -> IntentRegister | None:
    """Load the current intents; return None if there is no lake."""
    table = load(lake.join(NAME))
    return None if table is None else IntentRegister(lake, table)


def is_retired(lake: Location, unit_id: str) -> bool:
    """Whether a declared unit is retired, and therefore complete."""
    target = open_target(lake.join(NAME))
    if target.table is not None:
        return unit_id not in IntentRegister(lake, target.table).units
    # The commit that retires a unit removes its ID from the log.
    return bool(target.lacking([unit_key(unit_id)]))


@dataclass(frozen=True, slots=True)
class IntentResult:
    """Result of declaring an intent: ``fresh`` if by this call.

    If it was rejected, ``claimed`` has the captures that other units have claimed, with the units.
    """

    fresh: bool
    claimed: dict[str, str] = field(default_factory=dict)


def declare(
    lake: Location,
    unit: CommitUnit,
    clock: Clock = system_clock,
    register: IntentRegister | None = None,
) -> IntentResult:
    """Write and commit a unit's intent; or return the captures that other units have claimed.

    A caller that passes a ``register`` must have checked that neither the unit nor any of its
    captures is in it.
    """
    file = _write(lake, unit, clock())
    keys = [unit_key(unit.unit_id), *map(capture_key, unit.captures)]
    handle = None if register is None else register.table

    def attempt(table: LakeTable) -> IntentResult:
        if table is not handle:
            now = IntentRegister(lake, table)
            if now.declares(unit):
                # By another attempt, or by this one if the store's response was lost; then the
                # file is in use.
                return IntentResult(False)
            if claimed := now.claimed(unit.captures):
                return IntentResult(False, claimed)
        commit_changes(table, [add_action(file)], dict.fromkeys(keys, 1))
        return IntentResult(True)

    declared = change_table(lake.join(NAME), attempt, handle)
    if declared.claimed:
        lake.join(NAME, file.path).delete()
    return declared


def read(lake: Location, units: Sequence[str]) -> list[CommitUnit]:
    """Read units by ID, without their rows of ``ingests``, which are already written to a file."""
    register = IntentRegister(lake, load_existing(lake.join(NAME)))
    return [
        unit
        for unit_id in units
        if unit_id in register.units
        for unit in [_describe(lake, register._single[unit_id])]
        if unit is not None
    ]


def _describe(lake: Location, action: dict[str, Any]) -> CommitUnit | None:
    """Read a unit from its file."""
    rows = _rows_of(lake, action).to_pylist()
    payload = next((row["payload"] for row in rows if row["payload"] is not None), None)
    if payload is None:
        return None
    captures = tuple(row["capture_id"] for row in rows if row["capture_id"] is not None)
    files, replaces = _content(payload)
    return CommitUnit(rows[0]["unit_id"], captures, files, replaces=replaces)


def _rows_of(lake: Location, action: dict[str, Any]) -> Any:
    content = lake.join(NAME, action["path"]).read_bytes()
    return pq.ParquetFile(io.BytesIO(content)).read(use_threads=False)


def retire(
    lake: Location, unfinished: Callable[[set[str]], list[str]], min_units: int
) -> list[CommitUnit] | None:
    """Merge the intents of complete units if there are at least ``min_units``; return these units.

    ``unfinished`` returns those of the given units that are not complete. It is called with the
    units of the current table: a unit whose intent is committed meanwhile must keep its list.
    """
    location = lake.join(NAME)
    register = open_register(lake)
    if register is None or len(register.units) < min_units:
        return None
    complete = register.units.difference(unfinished(register.units))
    if len(complete) < min_units:
        return None
    merged = [one for one in register._merged if one["num_records"] < _LARGE]
    old = [*(register._single[unit] for unit in sorted(complete)), *merged]
    if len(old) < 2:
        return None
    units = [unit for one in old[: len(complete)] if (unit := _describe(lake, one)) is not None]
    parts = [_rows_of(lake, one) for one in old]
    rows = pa.concat_tables(parts).drop(["payload"])
    rows = rows.append_column("payload", pa.nulls(rows.num_rows, pa.string()))
    rows = rows.sort_by([("capture_id", "ascending"), ("unit_id", "ascending")])
    names = rows["unit_id"].to_pylist()
    file = _stored(lake, rows, _RETIRED, min(names), max(names))
    # The IDs of files merged earlier are no longer in the log.
    fresh = [part for part, one in zip(parts, old, strict=True) if not _is_retired(one)]
    keys = {unit_key(name) for part in fresh for name in part["unit_id"].to_pylist()}
    keys |= {capture_key(name) for part in fresh for name in _pairs(part)}
    removals = [remove_action(one["path"], one["size_bytes"], data_change=False) for one in old]
    if replace_files(location, removals, [add_action(file, data_change=False)], sorted(keys)):
        return units
    location.join(file.path).delete()
    return None


def _is_retired(action: dict[str, Any]) -> bool:
    return str(action["path"]).startswith(f"{_RETIRED}-")


def _write(lake: Location, unit: CommitUnit, now_ns: int) -> NewFile:
    captures: list[str | None] = [*unit.captures] or [None]
    payload = json.dumps(
        {
            "files": [
                [file.table, file.path, file.size, file.rows, list(file.partition), file.stats]
                for file in unit.files
            ],
            "replaces": [
                [
                    replaced.table,
                    replaced.date,
                    [[name, list(values)] for name, values in replaced.where],
                ]
                for replaced in unit.replaces
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
    pq.write_table(rows, content, compression="zstd", store_schema=False, row_group_size=_GROUP)
    name = unique_name(stem, ".parquet")
    lake.join(NAME, name).write_bytes(content.getvalue())
    # Unit IDs are not truncated here: pending units are found by them.
    stats = (
        f'{{"numRecords":{rows.num_rows},"minValues":{{"unit_id":{json.dumps(first)}}},'
        f'"maxValues":{{"unit_id":{json.dumps(last)}}},"nullCount":{{"unit_id":0}}}}'
    )
    return NewFile(NAME, name, content.tell(), rows.num_rows, (), stats)


def _content(payload: str) -> tuple[tuple[NewFile, ...], tuple[ReplacedRows, ...]]:
    data = json.loads(payload)
    files = tuple(
        NewFile(table, path, size, rows, tuple((key, value) for key, value in partition), stats)
        for table, path, size, rows, partition, stats in data["files"]
    )
    return files, tuple(_replaced(*part) for part in data["replaces"])


def _replaced(table: str, date: str, *where: Any) -> ReplacedRows:
    if len(where) == len(_UNNAMED):
        where = (zip(_UNNAMED, ([where[0]], where[1]), strict=True),)
    return ReplacedRows(table, date, tuple((name, tuple(values)) for name, values in where[0]))


_UNNAMED = ("channel", "security_id")
"""Implied columns of intents of version 0.1, which do not name them."""
