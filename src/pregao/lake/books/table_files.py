"""Files of rows written batch by batch: CSV, Parquet or Arrow, by their names."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from typing import Any, BinaryIO, Protocol

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from pregao.safe_io.csv_cells import safe_table
from pregao.errors import UsageError

ENDINGS = (".csv", ".csv.gz", ".csv.zst", ".parquet", ".arrow", ".feather")


def ending_of(name: str) -> str:
    """Return the supported extension of a file name; raise `UsageError` for others."""
    small = name.lower()
    found = next((ending for ending in ENDINGS if small.endswith(ending)), None)
    if found is None:
        raise UsageError(f"{name}: the name must end in {', '.join(ENDINGS)}.")
    return found


class RowFile(Protocol):
    """File that accepts rows."""

    rows: int

    def write(self, columns: Sequence[Any]) -> None:
        """Write some rows."""

    def close(self) -> None:
        """Finish the file; the underlying stream stays open."""


def row_file(
    sink: BinaryIO, schema: Any, ending: str = ".csv", *, safe_csv: bool = False
) -> RowFile:
    """Return a file with these columns, in the format of the extension."""
    if ending == ".parquet":
        return _Tables(sink, schema, pq.ParquetWriter(sink, schema, compression="zstd"))
    if ending in (".arrow", ".feather"):
        return _Tables(sink, schema, pa.ipc.new_file(sink, schema))
    if ending == ".csv.gz":
        # Without a time, so that equal rows yield equal bytes.
        return _Csv(sink, schema, gzip.GzipFile(fileobj=sink, mode="wb", mtime=0), safe_csv)
    if ending == ".csv.zst":
        packed = pa.CompressedOutputStream(pa.PythonFile(sink, "w"), "zstd")
        return _Csv(sink, schema, packed, safe_csv)
    return _Csv(sink, schema, None, safe_csv)


class _Tables:
    """Parquet or Arrow file: columns keep their types."""

    def __init__(self, sink: BinaryIO, schema: Any, writer: Any) -> None:
        self._sink = sink
        self._schema = schema
        self._writer = writer
        self.rows = 0

    def write(self, columns: Sequence[Any]) -> None:
        """Write some rows."""
        table = _table(columns, self._schema)
        self._writer.write_table(table)
        self.rows += table.num_rows

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()


class _Csv:
    """CSV file with one header; decimals keep all their digits."""

    def __init__(self, sink: BinaryIO, schema: Any, packed: Any, safe: bool) -> None:
        self._safe = safe
        self._schema = schema
        self._packed = packed
        self._sink = sink if packed is None else packed
        self.rows = 0
        self._sink.write((",".join(schema.names) + "\n").encode())

    def write(self, columns: Sequence[Any]) -> None:
        """Write some rows."""
        table = _table(columns, self._schema)
        if self._safe:
            table = safe_table(table)
        texts = [
            column.cast(pa.string()) if pa.types.is_decimal(column.type) else column
            for column in table.columns
        ]
        options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none")
        plain = pa.Table.from_arrays(texts, names=self._schema.names)
        pyarrow.csv.write_csv(plain, self._sink, options)
        self.rows += table.num_rows

    def close(self) -> None:
        """Finish the file."""
        if self._packed is not None:
            self._packed.close()


def _table(columns: Sequence[Any], schema: Any) -> Any:
    """Return columns in their declared types; those that a table lacks are null."""
    arrays = [column.cast(field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
