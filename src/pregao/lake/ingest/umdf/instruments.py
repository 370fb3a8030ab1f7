"""The instruments of a day: one row each, with the latest definition."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pregao.lake.store.lake import LakeStore
from pregao.lake.store.unit import DATE

INSTRUMENTS = "instruments"
_ORDER = ("index_in_packet", "sequence_number", "capture_time_ns", "security_id", "channel")


def latest(rows: Any) -> Any:
    """Return the row captured last of each channel and instrument, sorted by these."""
    if not rows.num_rows:
        return rows
    columns = [rows.column(name).fill_null(0).to_numpy() for name in _ORDER]
    order = np.lexsort(tuple(columns))
    channel, security = columns[4][order], columns[3][order]
    last = np.append((channel[1:] != channel[:-1]) | (security[1:] != security[:-1]), True)
    return rows.take(pa.array(order[last]))


def instruments_without(
    lake: LakeStore,
    definitions: Iterable[str],
    day: date,
    channels: Collection[int],
    captures: Collection[str],
) -> Any:
    """Return the instruments of channels of a day, from all captures except the given ones.

    ``definitions`` are the tables of the messages that define instruments.
    """
    declared = lake.schema(INSTRUMENTS).remove_metadata()
    schema = pa.schema([field for field in declared if field.name != DATE])
    found = schema.empty_table()
    condition = (pc.field(DATE) == day) & pc.field("channel").isin(sorted(channels))
    condition &= ~pc.field("capture_id").isin(sorted(captures))
    existing = set(lake.table_names())
    for table in (name for name in definitions if name in existing):
        rows = lake.delta(table).to_pyarrow_dataset()
        for batch in rows.to_batches(filter=condition):
            if batch.num_rows:
                own = _as_instruments(pa.Table.from_batches([batch]), schema)
                found = latest(
                    pa.concat_tables([found, own], promote_options="default").combine_chunks()
                )
    return found


_OLD = re.compile(r"(.+)_v(\d+)")


def _as_instruments(rows: Any, schema: Any) -> Any:
    """Convert rows of a definition table to the columns of ``instruments``."""
    columns = []
    for field in schema:
        old = _OLD.fullmatch(field.name)
        values = None
        if field.name in rows.column_names:
            values = _fitted(rows[field.name].combine_chunks(), field.type)
        elif old and old.group(1) in rows.column_names:
            # A field that had another type in this version has a separate column.
            values = _fitted(rows[old.group(1)].combine_chunks(), field.type)
            if values is not None:
                own = pc.equal(rows["schema_version"].combine_chunks(), int(old.group(2)))
                values = pc.if_else(own, values, pa.scalar(None, field.type))
        columns.append(pa.nulls(rows.num_rows, field.type) if values is None else values)
    return pa.Table.from_arrays(columns, schema=schema)


def _fitted(values: Any, kind: Any) -> Any:
    """Convert values to a type that only adds struct members; return None if it does not fit."""
    if values.type == kind:
        return values
    if pa.types.is_list(kind) and pa.types.is_list(values.type):
        inner = _fitted(values.values, kind.value_type)
        mask = values.is_null() if values.null_count else None
        if inner is None:
            return None
        return pa.ListArray.from_arrays(values.offsets, inner, type=kind, mask=mask)
    if pa.types.is_struct(kind) and pa.types.is_struct(values.type):
        indexes = [values.type.get_field_index(member.name) for member in kind]
        members = [
            pa.nulls(len(values), member.type)
            if index < 0
            else _fitted(values.field(index), member.type)
            for index, member in zip(indexes, kind, strict=True)
        ]
        if any(member is None for member in members):
            return None
        mask = values.is_null() if values.null_count else None
        return pa.StructArray.from_arrays(members, fields=list(kind), mask=mask)
    return None
