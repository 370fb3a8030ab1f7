"""Some rows of a day taken out of a table and others put in, in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake.transaction import AddAction

from pregao.lake.store.delta_tables import (
    Change,
    LakeTable,
    add_action,
    arrow_schema,
    change_once,
    load_existing,
    remove_action,
    visible_files,
)
from pregao.lake.store.location import Location
from pregao.lake.store.parquet import rewrite
from pregao.lake.store.unit import DATE, NewFile, Replaced


def replace_once(
    location: Location,
    ids: Sequence[str],
    gone: Sequence[Replaced],
    adds: Sequence[AddAction],
    is_open: Callable[[], bool] | None = None,
) -> list[str]:
    """Put files in and take the rows out that they replace, unless one of the ids is there.

    Files that hold other rows too, as compaction makes them, are written again without. For
    ``is_open`` see `change_once`.
    """

    def changes(table: LakeTable) -> list[Change]:
        made: list[Change] = list(adds)
        for action in visible_files(table).to_pylist():
            day = action[f"partition.{DATE}"]
            parts = [part for part in gone if part.date == day.isoformat()]
            verdicts = [_verdict(action, part) for part in parts]
            if not any(verdicts):
                continue
            rest: NewFile | None = None
            if _ALL not in verdicts:
                kept, total = _without(location, table, action["path"], parts)
                if kept.num_rows == total:
                    continue
                if kept.num_rows:
                    rest = rewrite(location, [action["path"]], kept, day, arrow_schema(table))
            made.append(remove_action(action["path"], action["size_bytes"], day))
            if rest is not None:
                made.append(add_action(rest))
        return made

    return change_once(location, ids, changes, None, is_open)


_NOTHING, _SOME, _ALL = 0, 1, 2


def _verdict(action: dict[str, Any], part: Replaced) -> int:
    """How much of a file is replaced, as far as its statistics tell."""
    verdicts = [_told(action, name, values) for name, values in part.where]
    return min(verdicts, default=_ALL)


def _told(action: dict[str, Any], name: str, values: Sequence[Any]) -> int:
    """How many of a file's rows have one of the values in a column, or any value at all."""
    nulls = action.get(f"null_count.{name}")
    if nulls == action["num_records"]:
        return _NOTHING
    if not values:
        return _ALL if nulls == 0 else _SOME
    low, high = action.get(f"min.{name}"), action.get(f"max.{name}")
    if low is None or high is None:
        return _SOME
    if not any(low <= value <= high for value in values):
        return _NOTHING
    return _ALL if low == high and nulls == 0 else _SOME


def _without(
    location: Location, table: LakeTable, path: str, parts: Sequence[Replaced]
) -> tuple[Any, int]:
    """The rows of a file that stay, and how many there were."""
    # Imported here: it brings pandas along, which commands that only read need not pay for.
    import pyarrow.dataset as ds

    declared = arrow_schema(table)
    schema = pa.schema([field for field in declared if field.name != DATE]).remove_metadata()
    file = ds.dataset(
        [location.join(path).path], schema=schema, filesystem=location.filesystem, format="parquet"
    )
    # Few columns tell whether any row is meant; most files have none.
    asked = sorted({name for part in parts for name, _ in part.where})
    told = file.to_table(columns=asked)
    stays = pa.array(np.ones(told.num_rows, np.bool_))
    for part in parts:
        stays = pc.and_(stays, pc.invert(_meant(told, part)))
    count = pc.sum(stays).as_py() or 0
    if count == told.num_rows or not count:
        return told.slice(0, count), told.num_rows
    return file.to_table().filter(stays), told.num_rows


def _meant(rows: Any, part: Replaced) -> Any:
    """Which rows a part names."""
    found = pa.scalar(True)
    for name, values in part.where:
        column = rows[name]
        wanted = pa.array(values, column.type)
        found = pc.and_(found, pc.is_in(column, wanted) if values else pc.is_valid(column))
    return found if part.where else pa.array(np.ones(rows.num_rows, np.bool_))


def count_replaced(location: Location, part: Replaced) -> int:
    """How many rows of a table vanish with a part."""
    table = load_existing(location)
    total = 0
    for action in visible_files(table).to_pylist():
        if action[f"partition.{DATE}"].isoformat() == part.date:
            verdict = _verdict(action, part)
            if verdict == _ALL:
                total += action["num_records"]
            elif verdict == _SOME:
                kept, rows = _without(location, table, action["path"], [part])
                total += rows - kept.num_rows
    return total
