"""DuckDB sessions with Pregão's settings and a private spill folder.

Their configuration is locked before they get a user's SQL.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import duckdb

from pregao.lake.execution.spark_session import machine_memory
from pregao.lake.storage.filesystem import unique_name
from pregao.lake.views.sql import DUCKDB

# Functions of Spark that DuckDB names differently.
MACROS = ("percentile(x, p) AS quantile_cont(x, p)",)
MAX_SPILL_BYTES = 64 << 30
"""A query that spills more than this to disk fails."""
_MEMORY_SHARE = 2
_SETTINGS = (
    # As in Spark, so that both engines return rows in the same order.
    "default_null_order = 'nulls_first_on_asc_last_on_desc'",
    "TimeZone = 'UTC'",
    # Names in a query never resolve to Python variables.
    "python_enable_replacements = false",
    "autoinstall_known_extensions = false",
    "autoload_known_extensions = false",
    # Read Parquet footers once, not each time that a view is bound.
    "parquet_metadata_cache = true",
)
_spill_roots: dict[int, Path] = {}


def set_up(connection: Any) -> Path:
    """Apply the settings common to all DuckDB sessions; return the session's spill folder."""
    # DuckDB creates the folder when it needs it, removes it, and lets queries read files in it.
    spill = _spill_root() / unique_name("spill", "")
    connection.execute(f"SET temp_directory = {quoted_text(str(spill))}")
    connection.execute(f"SET max_temp_directory_size = '{_max_spill_bytes() >> 20}MiB'")
    connection.execute(f"SET memory_limit = '{machine_memory() // _MEMORY_SHARE >> 20}MiB'")
    for setting in _SETTINGS:
        connection.execute(f"SET {setting}")
    # In a notebook without ipywidgets DuckDB rejects any setting of the progress bar, even "off".
    with contextlib.suppress(duckdb.InvalidInputException):
        connection.execute("SET enable_progress_bar = false")
    return spill


def open_session(files: Iterable[str] = (), *, unsafe: bool = False) -> Any:
    """Open a session that can read only these files and whose settings are locked.

    An ``unsafe`` session can read all files; its settings are locked too.
    """
    connection = duckdb.connect(":memory:")
    set_up(connection)
    for macro in MACROS:
        connection.execute(f"CREATE TEMP MACRO {macro}")
    if not unsafe:
        allowed = ", ".join(map(quoted_text, files))
        connection.execute(f"SET allowed_paths = [{allowed}]")
        connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def _spill_root() -> Path:
    """Return this process's spill folder, accessible only to its user."""
    found = _spill_roots.get(os.getpid())
    if found is None or not found.is_dir() or found.parent != Path(tempfile.gettempdir()):
        found = Path(tempfile.mkdtemp(prefix="pregao-query-"))  # mode 0700
        _spill_roots[os.getpid()] = found
        atexit.register(_remove_spill_root, os.getpid(), found)
    return found


def _remove_spill_root(owner: int, folder: Path) -> None:
    if os.getpid() == owner:  # a forked child inherits its parent's atexit handlers
        shutil.rmtree(folder, ignore_errors=True)


def _max_spill_bytes() -> int:
    """Return the spill limit: at most half of the free disk space."""
    return max(1 << 20, min(MAX_SPILL_BYTES, shutil.disk_usage(tempfile.gettempdir()).free // 2))


def quoted_text(value: str) -> str:
    """Quote a text as an SQL string literal."""
    escaped = value.replace("'", "''")
    return f"'{escaped}'"


def quoted_name(value: str) -> str:
    """Quote a name as an SQL identifier."""
    return DUCKDB.name(value)
