"""Columns that version 0.2 renamed: errors of queries name the other one, and what to do."""

from __future__ import annotations

import re

from pregao.lake.storage.lake_store import LakeStore

RENAMED = {
    "told_by": "source",
    "separate": "own_status",
    "known_high": "initial_high",
    "known_low": "initial_low",
    "known_volume": "initial_volume",
    "known_vwap": "initial_vwap",
    "known_trades": "initial_trades",
    "left_out": "outliers",
    "smallest_ns": "min_ns",
    "unseen_quantity": "unobserved_quantity",
}
"""Columns of analytics tables, the old name first."""
_TABLES = ("auctions", "clock_offsets", "orders", "session_stats", "status")
_NEW = {new: old for old, new in RENAMED.items()}
_QUOTED = re.compile(r"[\"`](\w+)[\"`]")
"""A name in an error of DuckDB or of Spark."""


def renamed_hint(words: str, lake: LakeStore) -> str:
    """Return a clause for the error of a query that names a missing column, or an empty string."""
    if "column" not in words.lower():
        return ""
    for name in _QUOTED.findall(words):
        if new := RENAMED.get(name):
            return f" {name} is called {new} since version 0.2."
        if (old := _NEW.get(name)) and _is_there(old, lake):
            return (
                f" Tables of version 0.1 have {old} instead of {name}: rebuild them with "
                "pregao analytics."
            )
    return ""


def _is_there(column: str, lake: LakeStore) -> bool:
    names = set(lake.table_names()).intersection(_TABLES)
    return any(column in lake.schema(name).names for name in names)
