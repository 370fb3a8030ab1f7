"""Binary UMDF as a protocol of the ingest: `UMDF` and the tables of its messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pregao.lake.ingest.umdf.value import UMDF

__all__ = ["UMDF"]


def __getattr__(name: str) -> Any:
    # Imported lazily: callers that only need the tables do not wait for the kernels.
    if name != "UMDF":
        raise AttributeError(f"{__name__} has no {name}")
    from pregao.lake.ingest.umdf.value import UMDF

    return UMDF
