"""What the tables of a lake hold, told by their logs alone."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pregao.lake.store import Lake, arrow_schema, comment_of

# The first of these pairs that a table has is its span of time.
_SPANS = (
    ("sending_time_ns", "sending_time_ns"),
    ("capture_time_ns", "capture_time_ns"),
    ("first_time_ns", "last_time_ns"),
    ("time_ns", "time_ns"),
)


@dataclass(frozen=True, slots=True)
class TableSummary:
    """A table in numbers; times are null where its files do not tell them."""

    name: str
    description: str
    rows: int
    files: int
    size: int
    columns: int
    first_time_ns: int | None
    last_time_ns: int | None
    dates: int


def summarize(lake: Lake, names: Iterable[str] | None = None) -> list[TableSummary]:
    """The tables of a lake in numbers; no file of rows is opened."""
    wanted = list(names) if names is not None else lake.table_names()
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(lambda name: _summary(lake, name), wanted))


def table_columns(lake: Lake, name: str) -> list[tuple[str, str, str]]:
    """A table's columns: name, type, meaning."""
    return [(field.name, type_name(field.type), comment_of(field)) for field in lake.schema(name)]


def _summary(lake: Lake, name: str) -> TableSummary:
    table = lake.delta(name)
    actions = pa.table(table.get_add_actions(flatten=True))
    known = actions.column_names
    first = last = None
    for low, high in _SPANS:
        if f"min.{low}" in known and f"max.{high}" in known:
            first = pc.min(actions[f"min.{low}"]).as_py()
            last = pc.max(actions[f"max.{high}"]).as_py()
            break
    dates = pc.count_distinct(actions["partition.date"]).as_py() if "partition.date" in known else 0
    return TableSummary(
        name,
        table.metadata().description or "",
        pc.sum(actions["num_records"]).as_py() or 0 if actions.num_rows else 0,
        actions.num_rows,
        pc.sum(actions["size_bytes"]).as_py() or 0 if actions.num_rows else 0,
        len(arrow_schema(table)),
        first,
        last,
        dates,
    )


def type_name(kind: Any) -> str:
    """A type as SQL names it."""
    if pa.types.is_list(kind):
        return f"array<{type_name(kind.value_type)}>"
    if pa.types.is_struct(kind):
        members = ",".join(f"{member.name}:{type_name(member.type)}" for member in kind)
        return f"struct<{members}>"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return _SQL_NAMES.get(str(kind), str(kind))


_SQL_NAMES = {
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "date32[day]": "date",
    "bool": "boolean",
}
