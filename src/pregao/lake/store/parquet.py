"""Parquet files as the lake wants them: small row groups, page indexes, fitting encodings."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from pregao.lake.ingest import _kernels

ROW_GROUP = 65_536
LIST_ROW_GROUP = 2_048
"""The same for tables with lists in their rows, such as the orders of snapshots."""
Numbers = npt.NDArray[np.int64]

_DELTA_CODED = {
    "sequence_number",
    "index_in_packet",
    "event",
    "sending_time_ns",
    "capture_time_ns",
    "feed_difference_ns",
    "position",
    "rpt_seq",
    "secondary_order_id",
    "md_insert_timestamp_ns",
    "md_entry_timestamp_ns",
    "transact_time_ns",
    "aggressor_time_ns",
    "trade_id",
}


def iso(day: int) -> str:
    """The day, counted from 1970, as ``2026-05-21``."""
    return (date(1970, 1, 1) + timedelta(days=day)).isoformat()


def _dictionary_columns(schema: Any) -> list[str]:
    """The leaves that repeat few values: all but those coded as differences."""
    return [name for name in _leaves(schema) if name.partition(".")[0] not in _DELTA_CODED]


def _leaves(schema: Any) -> list[str]:
    """The columns that Parquet has for those of a table."""
    names: list[str] = []

    def visit(path: str, kind: Any) -> None:
        if pa.types.is_struct(kind):
            for inner in kind:
                visit(f"{path}.{inner.name}", inner.type)
        elif pa.types.is_list(kind):
            visit(f"{path}.list.element", kind.value_type)
        else:
            names.append(path)

    for entry in schema:
        visit(entry.name, entry.type)
    return names


def _bounded_columns(schema: Any) -> list[str]:
    """The columns whose smallest and largest values are kept: not names that repeat all over."""
    return [entry.name for entry in schema if not pa.types.is_dictionary(entry.type)]


@dataclass(slots=True)
class Written:
    """A Parquet file that was written: where, how large, what it holds."""

    table: str
    path: str
    size: int
    rows: int
    day: int
    metadata: Any = field(repr=False)


def write_table(filesystem: Any, root: str, table: str, data: Any, day: int) -> Written:
    """Write rows of one day as a file of a table, under a name that nobody else has."""
    path = f"date={iso(day)}/part-{uuid.uuid4().hex}.parquet"
    folder = f"{root}/{table}/date={iso(day)}"
    filesystem.create_dir(folder, recursive=True)
    full = f"{root}/{table}/{path}"
    schema = data.schema
    delta = {entry.name: "DELTA_BINARY_PACKED" for entry in schema if entry.name in _DELTA_CODED}
    with filesystem.open_output_stream(full) as sink:
        with pq.ParquetWriter(
            sink,
            schema,
            # What is coded as differences hardly shrinks any more.
            compression={
                name: "NONE" if name.partition(".")[0] in _DELTA_CODED else "SNAPPY"
                for name in _leaves(schema)
            },
            use_dictionary=_dictionary_columns(schema),
            column_encoding=delta or None,
            write_page_index=True,
            write_statistics=_bounded_columns(schema),
            store_schema=False,
            store_decimal_as_integer=True,
            version="2.6",
        ) as writer:
            lists = any(pa.types.is_list(entry.type) for entry in schema)
            writer.write_table(data, row_group_size=LIST_ROW_GROUP if lists else ROW_GROUP)
        size = sink.tell()
    metadata = pq.read_metadata(full, filesystem=filesystem)
    return Written(table, path, int(size), data.num_rows, day, metadata)


def order_by_value(values: Numbers) -> Numbers:
    """The indexes that sort values, equal ones kept in order; made for few distinct values."""
    capacity = 1 << 16
    slots = np.full(4 * capacity, -1, np.int32)
    known = np.empty(capacity, np.int64)
    labels = np.empty(len(values), np.int32)
    found = _kernels.label_values(values, slots, known, labels)
    if found < 0:
        return np.argsort(values, kind="stable")
    by_value = np.argsort(known[:found])
    ranks = np.empty(found, np.int64)
    ranks[by_value] = np.arange(found)
    counts = np.bincount(ranks[labels], minlength=found)
    starts = np.cumsum(counts) - counts
    order = np.empty(len(values), np.int64)
    _kernels.sort_by_rank(labels, ranks, starts, order)
    return order
