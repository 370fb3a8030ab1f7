"""What Spark starts Python with on this machine: PySpark as it is installed, not from its archive.

Spark puts the archives of PySpark and Py4J in front of everything else that Python looks into. What
is in an archive is compiled anew by every process, which takes half a second each, several times in
one command. The same modules are installed beside the archives, and compiled.
"""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from pathlib import Path

MODULE = __name__


def without_archives(path: list[str]) -> list[str]:
    """A search path without PySpark's archives, if PySpark is installed where they are from."""
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
