"""Extras of the package, and the error message for a package that is not installed."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec

from pregao.errors import MissingExtraError

EXTRAS = {
    "numba": "fast",
    "pyarrow": "tables",
    "deltalake": "lake",
    "duckdb": "lake",
    "xxhash": "lake",
    "pyspark": "spark",
    "starlette": "ui",
    "uvicorn": "ui",
    "websockets": "ui",
    "matplotlib": "plot",
    "pandas": "frames",
    "polars": "frames",
}
"""Extra by import name; a test compares them with the package's metadata."""


def installed(package: str) -> bool:
    """Whether a package is installed, without importing it."""
    return find_spec(package) is not None


def remedy(package: str, extra: str | None = None) -> str:
    """Return the command that installs a package: its extra, or a larger one."""
    return f"`pip install 'pregao[{extra or EXTRAS[package]}]'`"


def missing(package: str, extra: str | None = None) -> MissingExtraError:
    """Return the error that states how to install a package."""
    return MissingExtraError(
        f"This needs {package}, which is not installed: run {remedy(package, extra)}."
    )


@cache
def kernels_compiled() -> bool:
    """Whether numba compiles the kernels; otherwise the interpreter runs them.

    numba's own setting for debugging kernels disables compilation as well.
    """
    return installed("numba") and os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")


@cache
def warn_about_slowness() -> None:
    """Log once that the interpreter runs bulk work."""
    logging.getLogger(__name__).warning(
        "kernels are not compiled and run in the interpreter; %s makes this many times faster",
        remedy("numba"),
    )


def missing_extra_message(error: ImportError) -> MissingExtraError | None:
    """Return the error for a failed import; None if the package belongs to no extra."""
    package = (error.name or "").partition(".")[0]
    if package not in EXTRAS or installed(package):
        return None
    return missing(package, _LAKE_EXTRA if _is_for_lake(error) else None)


_LAKE, _LAKE_EXTRA = "pregao.lake.", "lake"
"""Lake code that lacks any of its packages suggests the complete lake extra."""


def _is_for_lake(error: ImportError) -> bool:
    trace = error.__traceback__
    while trace is not None:
        if str(trace.tb_frame.f_globals.get("__name__")).startswith(_LAKE):
            return EXTRAS[(error.name or "").partition(".")[0]] in ("fast", "tables")
        trace = trace.tb_next
    return False


@contextmanager
def imported() -> Iterator[None]:
    """Convert a failed import within the context to the error that names the missing extra."""
    try:
        yield
    except ImportError as error:
        missing_extra = missing_extra_message(error)
        if missing_extra is None:
            raise
        raise missing_extra from error


def require(*packages: str) -> None:
    """Raise the error for the first package that is not installed."""
    for package in packages:
        if not installed(package):
            raise missing(package)
