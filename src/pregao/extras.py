"""Which package comes with which extra, and the sentence where one is not installed."""

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
"""By the name that is imported; a test compares them with the package's own metadata."""


def installed(package: str) -> bool:
    """Is a package there? It is not imported."""
    return find_spec(package) is not None


def remedy(package: str, extra: str | None = None) -> str:
    """How to get a package: by the extra that it is in, or by a larger one."""
    return f"`pip install 'pregao[{extra or EXTRAS[package]}]'`"


def missing(package: str, extra: str | None = None) -> MissingExtraError:
    """The error that says how to get a package."""
    return MissingExtraError(
        f"This needs {package}, which is not installed: run {remedy(package, extra)}."
    )


@cache
def kernels_compiled() -> bool:
    """Does numba compile the kernels? Where it does not, the interpreter runs them.

    numba's own setting, for who looks for a fault in a kernel, says no as well.
    """
    return installed("numba") and os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")


@cache
def tell_of_slowness() -> None:
    """Say, once, that the interpreter does work of which there is much."""
    logging.getLogger(__name__).warning(
        "kernels are not compiled, so that the interpreter does the work: %s makes it many times "
        "faster",
        remedy("numba"),
    )


def told(error: ImportError) -> MissingExtraError | None:
    """The sentence for an import that failed; None if the package is of no extra."""
    package = (error.name or "").partition(".")[0]
    if package not in EXTRAS or installed(package):
        return None
    return missing(package, _LAKE_EXTRA if _is_for_lake(error) else None)


_LAKE, _LAKE_EXTRA = "pregao.lake.", "lake"
"""Who lacks one package of a lake has not asked for lakes: he should get all of them at once."""


def _is_for_lake(error: ImportError) -> bool:
    trace = error.__traceback__
    while trace is not None:
        if str(trace.tb_frame.f_globals.get("__name__")).startswith(_LAKE):
            return EXTRAS[(error.name or "").partition(".")[0]] in ("fast", "tables")
        trace = trace.tb_next
    return False


@contextmanager
def imported() -> Iterator[None]:
    """What is imported within tells which extra is missing, if that is why it fails."""
    try:
        yield
    except ImportError as error:
        sentence = told(error)
        if sentence is None:
            raise
        raise sentence from error


def require(*packages: str) -> None:
    """Raise the sentence for the first package that is not there."""
    for package in packages:
        if not installed(package):
            raise missing(package)
