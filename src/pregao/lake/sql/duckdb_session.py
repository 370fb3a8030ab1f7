"""Sessions of DuckDB: with our settings, a private folder for what does not fit into memory, and
locked before a user's text comes near them."""

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

from pregao.lake.spark.session import machine_memory
from pregao.lake.store import unique_name
from pregao.lake.views import DUCKDB

# Functions that Spark has under these names.
MACROS = ("percentile(x, p) AS quantile_cont(x, p)",)
MAX_SPILL_BYTES = 64 << 30
"""A query that needs more on the disk ends with an error."""
_MEMORY_SHARE = 2
_SETTINGS = (
    # As in Spark, so that both engines give their rows in the same order.
    "default_null_order = 'nulls_first_on_asc_last_on_desc'",
    "TimeZone = 'UTC'",
    # Words of a query are never variables of ours.
    "python_enable_replacements = false",
    "autoinstall_known_extensions = false",
    "autoload_known_extensions = false",
    # The ends of files are read once, not each time that a view is looked at.
    "parquet_metadata_cache = true",
)
_spill_roots: dict[int, Path] = {}


def set_up(connection: Any) -> Path:
    """Make the settings that all our work in DuckDB has; gives the folder that it may write to."""
    # DuckDB makes the folder when it needs it, removes it, and lets a query read what is in it.
    spill = _spill_root() / unique_name("spill", "")
    connection.execute(f"SET temp_directory = {quoted_text(str(spill))}")
    connection.execute(f"SET max_temp_directory_size = '{_max_spill_bytes() >> 20}MiB'")
    connection.execute(f"SET memory_limit = '{machine_memory() // _MEMORY_SHARE >> 20}MiB'")
    for setting in _SETTINGS:
        connection.execute(f"SET {setting}")
    # A notebook without ipywidgets has no bar, and DuckDB will not hear of one, not even of none.
    with contextlib.suppress(duckdb.InvalidInputException):
        connection.execute("SET enable_progress_bar = false")
    return spill


def open_session(files: Iterable[str] = (), *, unsafe: bool = False) -> Any:
    """Open a session that reads these files and no others, and whose settings cannot be changed.

    An ``unsafe`` one reads all files; its settings are locked as well.
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
    """The folder of this process for what does not fit into memory: its owner's alone."""
    found = _spill_roots.get(os.getpid())
    if found is None or not found.is_dir() or found.parent != Path(tempfile.gettempdir()):
        found = Path(tempfile.mkdtemp(prefix="pregao-query-"))  # of mode 0700
        _spill_roots[os.getpid()] = found
        atexit.register(_remove_spill_root, os.getpid(), found)
    return found


def _remove_spill_root(owner: int, folder: Path) -> None:
    if os.getpid() == owner:  # a forked child has the parent's list of what to do at its end
        shutil.rmtree(folder, ignore_errors=True)


def _max_spill_bytes() -> int:
    """At most half of what is free on the disk."""
    return max(1 << 20, min(MAX_SPILL_BYTES, shutil.disk_usage(tempfile.gettempdir()).free // 2))


def quoted_text(value: str) -> str:
    """A text as a query writes it."""
    escaped = value.replace("'", "''")
    return f"'{escaped}'"


def quoted_name(value: str) -> str:
    """A name as a query writes it."""
    return DUCKDB.name(value)
