"""Parquet files of tables of numbers and repeated texts, written by kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pregao.lake.store.flat_parquet.kinds import is_flat

if TYPE_CHECKING:
    from pregao.lake.store.flat_parquet.writer import FlatWriter

__all__ = ["FlatWriter", "is_flat"]


def __getattr__(name: str) -> Any:
    # Who writes no such table need not wait for the kernels.
    if name != "FlatWriter":
        raise AttributeError(f"{__name__} has no {name}")
    from pregao.lake.store.flat_parquet.writer import FlatWriter

    return FlatWriter
