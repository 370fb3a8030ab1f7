"""The instruments of a day: one row each, the latest definition that was seen."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pregao.lake.store import DATE, Lake

INSTRUMENTS = "instruments"
_ORDER = ("index_in_packet", "sequence_number", "capture_time_ns", "security_id", "channel")


def latest(rows: Any) -> Any:
    """Of each channel's instruments the row that was captured last, by instrument."""
    if not rows.num_rows:
        return rows
    columns = [rows.column(name).fill_null(0).to_numpy() for name in _ORDER]
    order = np.lexsort(tuple(columns))
    channel, security = columns[4][order], columns[3][order]
    last = np.append((channel[1:] != channel[:-1]) | (security[1:] != security[:-1]), True)
    return rows.take(pa.array(order[last]))


def instruments_without(
    lake: Lake,
    definitions: Iterable[str],
    day: date,
    channels: Collection[int],
    captures: Collection[str],
) -> Any:
    """The instruments of some channels of a day as all captures but some tell them.

    ``definitions`` are the tables of the messages that define instruments.
    """
    declared = lake.schema(INSTRUMENTS).remove_metadata()
    schema = pa.schema([field for field in declared if field.name != DATE])
    found = schema.empty_table()
    wanted = (pc.field(DATE) == day) & pc.field("channel").isin(sorted(channels))
    wanted &= ~pc.field("capture_id").isin(sorted(captures))
    there = set(lake.table_names())
    for table in (name for name in definitions if name in there):
        rows = lake.delta(table).to_pyarrow_dataset()
        for batch in rows.to_batches(filter=wanted):
            if batch.num_rows:
                own = _as_instruments(pa.Table.from_batches([batch]), schema)
                found = latest(pa.concat_tables([found, own]).combine_chunks())
    return found


_OLD = re.compile(r"(.+)_v(\d+)")


def _as_instruments(rows: Any, schema: Any) -> Any:
    """Rows of a table of definitions in the columns of the instruments."""
    columns = []
    for field in schema:
        source = rows.schema.get_field_index(field.name)
        if source >= 0 and rows.schema.field(source).type == field.type:
            columns.append(rows.column(source))
            continue
        old = _OLD.fullmatch(field.name)
        source = rows.schema.get_field_index(old.group(1)) if old else -1
        if old and source >= 0 and rows.schema.field(source).type == field.type:
            # A field that this version had with another type has a column of its own.
            own = pc.equal(rows["schema_version"], int(old.group(2)))
            columns.append(pc.if_else(own, rows.column(source), pa.scalar(None, field.type)))
        else:
            columns.append(pa.nulls(rows.num_rows, field.type))
    return pa.Table.from_arrays(columns, schema=schema)
