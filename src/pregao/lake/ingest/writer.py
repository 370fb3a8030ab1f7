"""Files of the ingest's tables: column encodings and row order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from pregao.arrays import Int64Array
from pregao.lake.ingest import _kernels
from pregao.lake.storage.filesystem import Location
from pregao.lake.storage.parquet import WrittenFile, write_table

DELTA_CODED = frozenset(
    {
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
        "time_ns",
        "aggressor_time_ns",
        "trade_id",
        "msg_seq_num",
        "sending_time",
        "md_entry_time",
        "md_insert_time",
        "t1_ns",
        "t2_ns",
        "t4_ns",
        "t5_ns",
        "t6_ns",
        "t10_ns",
        "t11_ns",
    }
)
"""Columns that are sorted or nearly so, stored with delta encoding."""

PLAIN = frozenset({"order_id"})
"""Columns whose values rarely repeat: a dictionary would be slower and larger."""

COMPRESSED: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "auctions": (frozenset({"size"}), frozenset()),
    "latency": (frozenset(), frozenset({"feed_difference_ns"})),
}
"""Tables that are large and read seldom: their columns are compressed. Columns with and without
delta encoding that differ from other tables, because they are smaller so.
"""

BY_INSTRUMENT = (
    "security_id",
    "channel",
    "sequence_version",
    "sequence_number",
    "index_in_packet",
)
"""Sort columns of message rows, those that a table has."""


def write_rows(lake: Location, table: str, rows: Any, day: int) -> WrittenFile:
    """Write rows of one day (days since 1970) as a file of a table, invisible until committed."""
    texts = {field.name for field in rows.schema if pa.types.is_string(field.type)}
    separate_by = BY_INSTRUMENT[0] if BY_INSTRUMENT[0] in rows.column_names else None
    more, fewer = COMPRESSED.get(table, (frozenset(), frozenset()))
    delta_coded = (DELTA_CODED | more) - fewer - texts
    return write_table(
        lake.filesystem,
        lake.path,
        table,
        rows,
        day,
        delta_coded,
        PLAIN,
        separate_by,
        compress=table in COMPRESSED,
    )


def order_by_value(values: Int64Array) -> Int64Array:
    """Return the indexes that sort values stably; fast for few distinct values."""
    capacity = 1 << 16
    slots = np.full(4 * capacity, -1, np.int32)
    distinct = np.empty(capacity, np.int64)
    labels = np.empty(len(values), np.int32)
    count = _kernels.label_values(values, slots, distinct, labels)
    if count < 0:
        return np.argsort(values, kind="stable")
    by_value = np.argsort(distinct[:count])
    ranks = np.empty(count, np.int64)
    ranks[by_value] = np.arange(count)
    counts = np.bincount(ranks[labels], minlength=count)
    starts = np.cumsum(counts) - counts
    order = np.empty(len(values), np.int64)
    _kernels.sort_by_rank(labels, ranks, starts, order)
    return order
