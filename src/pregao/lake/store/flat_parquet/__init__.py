"""Parquet files of tables of numbers and repeated strings, written and read by kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pregao.lake.store.flat_parquet.kinds import is_flat

if TYPE_CHECKING:
    from pregao.lake.store.flat_parquet.reader import FlatFile
    from pregao.lake.store.flat_parquet.writer import FlatWriter

from pregao.lake.store.flat_parquet.rows import FlatColumn, FlatRows

__all__ = ["FlatColumn", "FlatRows", "FlatWriter", "is_flat", "open_flat"]


def open_flat(path: str) -> FlatFile | None:
    """Open a local file that `FlatWriter` wrote; return None if another writer did."""
    from pregao.lake.store.flat_parquet import reader

    return reader.open_flat(path)


def __getattr__(name: str) -> Any:
    # Imported lazily: callers that write no such table do not wait for the kernels.
    if name != "FlatWriter":
        raise AttributeError(f"{__name__} has no {name}")
    from pregao.lake.store.flat_parquet.writer import FlatWriter

    return FlatWriter
