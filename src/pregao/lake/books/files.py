"""Files of the tables of books, written incrementally."""

from __future__ import annotations

from typing import Any

import pyarrow.parquet as pq

from pregao.lake.books.tables import SIDE_LEVELS, SIDE_ORDERS, level_columns
from pregao.lake.store.file_statistics import INDEXED_COLUMNS, ColumnBounds, bounds_of
from pregao.lake.store.location import Location, unique_name
from pregao.lake.store.parquet import ROW_GROUP, WrittenFile, iso, stored_schema, table_writer
from pregao.lake.store.unit import TableSpec

_DELTA_CODED = {
    "sequence_number",
    "index_in_packet",
    "event",
    "event_time_ns",
    "sending_time_ns",
    "capture_time_ns",
    "trade_volume",
    "rpt_seq",
    "loop_number",
}
_ORDER_LEAVES = ("order_id", "insert_time_ns")


class DayFile:
    """File of one day of a table, created with its first rows."""

    def __init__(self, lake: Location, spec: TableSpec, day: int, depth: int = 0) -> None:
        self.spec = spec
        self.schema = stored_schema(spec.schema)
        self.rows = 0
        self._lake = lake
        self._day = day
        self._levels = frozenset(level_columns(depth))
        self._deep = self._levels - set(level_columns(1))
        # Readers of the log expect bounds of all its leading columns.
        leading = spec.schema.names[:INDEXED_COLUMNS]
        self._bounds = {name: ColumnBounds(0) for name in leading if name in self._deep}
        self._path = f"date={iso(day)}/{unique_name('part', '.parquet')}"
        self._sink: Any = None
        self._writer: Any = None

    def write(self, rows: Any, row_group: int = ROW_GROUP) -> None:
        """Write a table as separate row groups of at most `row_group` rows."""
        if not rows.num_rows:
            return
        if self._writer is None:
            self._open(rows.schema)
        self._writer.write_table(rows, row_group_size=row_group)
        self.rows += rows.num_rows
        for name, bounds in self._bounds.items():
            self._bounds[name] = bounds.with_more(bounds_of(rows.column(name)))

    def _open(self, schema: Any) -> None:
        location = self._lake.join(self.spec.name, self._path)
        location.filesystem.create_dir(location.parent.path, recursive=True)
        self._sink = location.filesystem.open_output_stream(location.path)
        leaves = self._leaves()
        self._writer = table_writer(
            self._sink,
            schema,
            delta_coded=[
                leaf for leaf in leaves if leaf in _DELTA_CODED or leaf.endswith(_ORDER_LEAVES)
            ],
            # Queries do not filter by the fifth level: its bounds are not worth computing.
            bounded=[leaf for leaf in leaves if leaf not in self._deep],
        )

    def _leaves(self) -> list[str]:
        found = []
        for entry in self.schema:
            if entry.name in (*SIDE_ORDERS, *SIDE_LEVELS) and entry.type.num_fields:
                members = entry.type.value_type
                found += [f"{entry.name}.list.element.{member.name}" for member in members]
            else:
                found.append(entry.name)
        return found

    def close(self) -> WrittenFile | None:
        """Finish the file and return its description; None if there were no rows."""
        if self._writer is None:
            return None
        self._writer.close()
        size = self._sink.tell()
        self._sink.close()
        location = self._lake.join(self.spec.name, self._path)
        metadata = pq.read_metadata(location.path, filesystem=location.filesystem)
        return WrittenFile(
            self.spec.name, self._path, int(size), self.rows, self._day, metadata, self._bounds
        )

    def discard(self) -> None:
        """Discard the file."""
        if self._writer is not None:
            self._writer.close()
            self._sink.close()
            self._lake.join(self.spec.name, self._path).delete()
            self._writer = None
