"""Rows of a channel's day taken out of a table and others put in, in one transaction."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.transaction import AddAction, RemoveAction

from pregao.lake.ingest.schemas import DATE
from pregao.lake.store.delta_tables import Change, LakeTable, add_action, arrow_schema, change_once
from pregao.lake.store.file_statistics import stats_json
from pregao.lake.store.location import Location
from pregao.lake.store.parquet import write_table
from pregao.lake.store.unit import NewFile, Replaced

_EPOCH = date(1970, 1, 1).toordinal()


def replace_once(
    location: Location, ids: Sequence[str], gone: Sequence[Replaced], adds: Sequence[AddAction]
) -> list[str]:
    """Put files in and take the rows out that they replace, unless one of the ids is there.

    Files that hold other rows too, as compaction makes them, are written again without.
    """

    def changes(table: LakeTable) -> list[Change]:
        made: list[Change] = list(adds)
        for action in pa.table(table.get_add_actions(flatten=True)).to_pylist():
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
                    rest = _written(location, table, kept, day)
            made.append(_removal(action, day))
            if rest is not None:
                made.append(add_action(rest))
        return made

    return change_once(location, ids, changes)


_NOTHING, _SOME, _ALL = 0, 1, 2


def _verdict(action: dict[str, Any], part: Replaced) -> int:
    """How much of a file is replaced, as far as its statistics tell."""
    low, high = action.get("min.channel"), action.get("max.channel")
    if low is None or high is None:
        return _SOME
    if not low <= part.channel <= high:
        return _NOTHING
    without = action.get("null_count.security_id")
    if without == action["num_records"]:
        return _NOTHING
    if part.securities:
        first, last = action.get("min.security_id"), action.get("max.security_id")
        if first is None or last is None:
            return _SOME
        return _SOME if any(first <= own <= last for own in part.securities) else _NOTHING
    return _ALL if low == high and without == 0 else _SOME


def _without(
    location: Location, table: LakeTable, path: str, parts: Sequence[Replaced]
) -> tuple[Any, int]:
    """The rows of a file that stay, and how many there were."""
    # Imported here: it brings pandas along, which commands that only read need not pay for.
    import pyarrow.dataset as ds

    declared = arrow_schema(table)
    schema = pa.schema([field for field in declared if field.name != DATE]).remove_metadata()
    rows = ds.dataset(
        [location.join(path).path], schema=schema, filesystem=location.filesystem, format="parquet"
    ).to_table()
    kept = rows
    for part in parts:
        out = pc.and_(pc.equal(kept["channel"], part.channel), pc.is_valid(kept["security_id"]))
        if part.securities:
            wanted = pa.array(part.securities, pa.int64())
            out = pc.and_(out, pc.is_in(kept["security_id"], wanted))
        kept = kept.filter(pc.invert(pc.fill_null(out, False)))
    return kept, rows.num_rows


def _written(location: Location, table: LakeTable, rows: Any, day: date) -> NewFile:
    declared = arrow_schema(table)
    rows = rows.cast(pa.schema([field.with_type(_stored(field.type)) for field in rows.schema]))
    name = location.name
    written = write_table(
        location.filesystem, location.parent.path, name, rows, day.toordinal() - _EPOCH
    )
    return NewFile(
        name,
        written.path,
        written.size,
        written.rows,
        ((DATE, day.isoformat()),),
        stats_json(written.metadata, declared),
    )


def _stored(kind: Any) -> Any:
    """What files hold for a declared type: decimals as 64-bit integers."""
    if pa.types.is_decimal(kind):
        return pa.decimal64(kind.precision, kind.scale)
    if pa.types.is_struct(kind):
        return pa.struct([member.with_type(_stored(member.type)) for member in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_stored(kind.value_type)))
    return kind


def _removal(action: dict[str, Any], day: date) -> RemoveAction:
    now = time.time_ns() // 1_000_000
    partition: dict[str, str | None] = {DATE: day.isoformat()}
    return RemoveAction(action["path"], True, now, action["size_bytes"], partition)
