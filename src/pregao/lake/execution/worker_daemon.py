"""Entry point of Spark's local Python workers: uses the installed PySpark, not its archive.

Spark puts the archives of PySpark and Py4J first on Python's search path. Every process compiles
modules from an archive again, which takes half a second each, several times in one command. The
same modules are installed next to the archives, already compiled.
"""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from pathlib import Path

MODULE = __name__


def without_archives(path: list[str]) -> list[str]:
    """Return a search path without PySpark's archives, if PySpark is installed next to them."""
    others = [entry for entry in path if not entry.endswith(".zip")]
    found = PathFinder.find_spec("pyspark", others)
    if found is None or found.origin is None:
        return path
    archives = Path(found.origin).parent / "python" / "lib"
    return [entry for entry in path if entry in others or Path(entry).parent != archives]


def main() -> None:
    """Start workers until Spark ends."""
    sys.path[:] = without_archives(sys.path)
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
