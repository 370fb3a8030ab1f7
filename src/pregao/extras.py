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


def remedy(package: str) -> str:
    """How to get a package."""
    return f"`pip install 'pregao[{EXTRAS[package]}]'`"


def missing(package: str) -> MissingExtraError:
    """The error that says how to get a package."""
    return MissingExtraError(
        f"This needs {package}, which is not installed: run {remedy(package)}."
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
        "numba is not installed, so this takes long: %s makes it many times faster", remedy("numba")
    )


def told(error: ImportError) -> MissingExtraError | None:
    """The sentence for an import that failed; None if the package is of no extra."""
    package = (error.name or "").partition(".")[0]
    return missing(package) if package in EXTRAS and not installed(package) else None


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
