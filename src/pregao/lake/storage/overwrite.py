"""Replace rows of a table in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake.transaction import AddAction

from pregao.lake.storage.commit_unit import DATE, NewFile, ReplacedRows
from pregao.lake.storage.delta import (
    FileChange,
    LakeTable,
    add_action,
    arrow_schema,
    change_once,
    remove_action,
    visible_files,
)
from pregao.lake.storage.filesystem import Location
from pregao.lake.storage.parquet import file_coding, rewrite, rows_of


def replace_once(
    location: Location,
    ids: Sequence[str],
    replaced: Sequence[ReplacedRows],
    adds: Sequence[AddAction],
    is_open: Callable[[], bool] | None = None,
) -> list[str]:
    """Add files and remove the rows that they replace, unless the table has one of the IDs.

    Files that also have other rows, as after compaction, are rewritten with only these. For
    ``is_open`` see `change_once`.
    """

    def changes(table: LakeTable) -> list[FileChange]:
        result: list[FileChange] = list(adds)
        for action in visible_files(table).to_pylist():
            day = action[f"partition.{DATE}"]
            parts = [part for part in replaced if part.date == day.isoformat()]
            verdicts = [_verdict(action, part) for part in parts]
            if not any(verdicts):
                continue
            rest: NewFile | None = None
            if _ALL not in verdicts:
                kept, total = _without(location, table, action["path"], parts)
                if kept.num_rows == total:
                    continue
                if kept.num_rows:
                    coding = file_coding(location.join(action["path"]))
                    rest = rewrite(location, coding, kept, day, arrow_schema(table))
            result.append(remove_action(action["path"], action["size_bytes"], day))
            if rest is not None:
                result.append(add_action(rest))
        return result

    return change_once(location, ids, changes, None, is_open)


_NOTHING, _SOME, _ALL = 0, 1, 2


def _verdict(action: dict[str, Any], part: ReplacedRows) -> int:
    """Return how much of a file is replaced, according to its statistics."""
    verdicts = [_describe(action, name, values) for name, values in part.where]
    return min(verdicts, default=_ALL)


def _describe(action: dict[str, Any], name: str, values: Sequence[Any]) -> int:
    """Return how much of a file has one of the values in a column; no values: any non-null."""
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
    location: Location, table: LakeTable, path: str, parts: Sequence[ReplacedRows]
) -> tuple[Any, int]:
    """Return the rows of a file that remain, and the total number of rows."""
    file = rows_of(location, [path], arrow_schema(table))
    # The condition needs few columns; most files have no matching row and are not read further.
    columns = sorted({name for part in parts for name, _ in part.where})
    rows = file.to_table(columns=columns)
    remaining = pa.array(np.ones(rows.num_rows, np.bool_))
    for part in parts:
        remaining = pc.and_(remaining, pc.invert(_meant(rows, part)))
    count = pc.sum(remaining).as_py() or 0
    if count == rows.num_rows or not count:
        return rows.slice(0, count), rows.num_rows
    return file.to_table().filter(remaining), rows.num_rows


def _meant(rows: Any, part: ReplacedRows) -> Any:
    """Return a mask of the rows that a part selects."""
    found = pa.scalar(True)
    for name, values in part.where:
        column = rows[name]
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        selected = pa.array(values, column.type)
        found = pc.and_(found, pc.is_in(column, selected) if values else pc.is_valid(column))
    return found if part.where else pa.array(np.ones(rows.num_rows, np.bool_))


def count_replaced(location: Location, table: LakeTable, part: ReplacedRows) -> int:
    """Return the number of rows of a table that a part removes."""
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
