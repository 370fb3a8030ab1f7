"""Spark data source ``b3``: captures as rows, complete or still growing.

Names are imported on first use: not all of them need PySpark.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pregao.lake.source.data_source import B3DataSource as B3DataSource
    from pregao.lake.source.data_source import register as register
    from pregao.lake.source.request import RANGES as RANGES
    from pregao.lake.source.request import parse_size as parse_size
    from pregao.lake.source.rolling_files import Offset as Offset
    from pregao.lake.source.rolling_files import Range as Range
    from pregao.lake.source.rolling_files import RollingFiles as RollingFiles
    from pregao.lake.source.rolling_files import next_offset as next_offset
    from pregao.lake.source.rolling_files import ranges_between as ranges_between

_HOMES = {
    "data_source": ["B3DataSource", "register"],
    "request": ["RANGES", "parse_size"],
    "rolling_files": ["Offset", "Range", "RollingFiles", "next_offset", "ranges_between"],
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"{__name__} has no {name}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
