"""Streaming ingest: ingests the growth of rolling captures into a lake, batch by batch.

Names are imported on first use: following files in this process needs no Spark.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pregao.lake.streaming.query import StreamPace as StreamPace
    from pregao.lake.streaming.query import follow_here as follow_here
    from pregao.lake.streaming.query import follow_on_spark as follow_on_spark
    from pregao.lake.streaming.stream_ingest import StreamIngest as StreamIngest

_HOMES = {
    "query": ["StreamPace", "follow_here", "follow_on_spark"],
    "stream_ingest": ["StreamIngest"],
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"{__name__} has no {name}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
