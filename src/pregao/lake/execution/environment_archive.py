"""Archive of this environment for the workers of a cluster: Pregão and its dependencies.

Spark unpacks it next to every executor (``spark.archives``). The archive has the packages; the
interpreter is the worker's own, of the same version. PySpark itself is excluded: a cluster has it.

Executors find their interpreter in the unpacked archive, by a path relative to their working
directory. Reads of captures are planned in a process next to the driver, which Spark starts by the
same path: so a script of that name is written next to the archive, which starts the driver's own
Python.
"""

from __future__ import annotations

import gzip
import importlib.metadata
import io
import re
import shlex
import sys
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pregao import errors
from pregao.errors import UsageError

PROVIDED = frozenset({"pyspark", "py4j"})
"""Packages of every Spark installation."""

_EXTRAS = frozenset({"fast", "lake", "spark", "tables"})
"""Our extras that tasks on a cluster need."""
_EXTRA = re.compile(r";.*\bextra\s*==\s*['\"]([^'\"]+)")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_PACKAGES = "site-packages"


@dataclass(frozen=True, slots=True)
class ArchiveContents:
    """Content of an archive: packages with versions, files, and bytes before compression."""

    packages: tuple[tuple[str, str], ...]
    files: int
    size: int


def launcher() -> str:
    """Return the archive's ``bin/python``: the worker's interpreter with our packages."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return f"""#!/bin/sh
# Runs the local Python {version} with the packages of this archive.
python="${{PREGAO_PYTHON:-python{version}}}"
here="$(cd "$(dirname "$0")/.." && pwd)"
if ! command -v "$python" >/dev/null 2>&1; then
    echo "pregao: $python was not found; install Python {version} or set PREGAO_PYTHON." >&2
    exit 127
fi
PYTHONPATH="$here/{_PACKAGES}${{PYTHONPATH:+:$PYTHONPATH}}"
export PYTHONPATH
exec "$python" "$@"
"""


def driver_launcher() -> str:
    """Return the script ``bin/python`` for the driver: the running Python."""
    return f"""#!/bin/sh
# For the driver: Spark starts it by the path that executors find in the unpacked archive.
exec {shlex.quote(sys.executable)} "$@"
"""


def folder_name(archive: Path) -> str:
    """Return the folder into which an archive is unpacked: its name without the extension."""
    return archive.name.removesuffix(".tgz").removesuffix(".tar.gz")


def pack(stream: BinaryIO, *, root: str = "pregao", exclude: Iterable[str] = ()) -> ArchiveContents:
    """Write the archive of a package and its dependencies; the bytes are reproducible.

    ``exclude`` names packages that the workers' own Python has; dependencies only of those are
    excluded too.
    """
    packages = []
    files = size = 0
    with (
        gzip.GzipFile(fileobj=stream, mode="wb", compresslevel=1, mtime=0, filename="") as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        _add(archive, "bin/python", io.BytesIO(launcher().encode()), executable=True)
        for distribution in needed(root, exclude):
            packages.append((distribution.metadata["Name"], distribution.version))
            for name, path in sorted(_files(distribution)):
                with path.open("rb") as content:
                    size += _add(archive, f"{_PACKAGES}/{name}", content, executable=False)
                files += 1
    return ArchiveContents(tuple(packages), files, size)


def needed(root: str, exclude: Iterable[str] = ()) -> list[importlib.metadata.Distribution]:
    """Return a distribution and its installed dependencies, by name, except provided ones."""
    provided = PROVIDED | {_canonical(name) for name in exclude}
    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = [root]
    while waiting:
        name = _canonical(waiting.pop())
        if name in found or name in provided:
            continue
        try:
            found[name] = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            if name == root:
                raise UsageError(f"{name} is not installed in this environment.") from None
            continue  # required only on another platform or Python
        extras = _EXTRAS if name == root else frozenset()
        waiting += _requirements(found[name].requires or [], extras)
    return [found[name] for name in sorted(found)]


def _requirements(lines: Iterable[str], extras: frozenset[str]) -> Iterator[str]:
    """Yield the names of required packages, except those of unrequested extras."""
    for line in lines:
        matched = _NAME.match(line)
        extra = _EXTRA.search(line)
        if matched is not None and (extra is None or extra[1] in extras):
            yield matched.group(0)


def _files(distribution: importlib.metadata.Distribution) -> Iterator[tuple[str, Path]]:
    """Yield the files of a distribution in ``site-packages``, with their paths there."""
    if distribution.metadata["Name"] == "pregao":
        # The package may be installed as a reference to its sources.
        package = Path(errors.__file__).parent
        for path in package.rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                yield f"pregao/{path.relative_to(package).as_posix()}", path
    for file in distribution.files or []:
        name = file.as_posix()
        if name.startswith(("../", "/", "pregao/")) or name.endswith((".pyc", ".pth")):
            continue  # scripts, caches and references to other folders
        path = Path(str(file.locate()))
        if path.is_file():
            yield name, path


def _add(archive: tarfile.TarFile, name: str, content: BinaryIO, *, executable: bool) -> int:
    entry = tarfile.TarInfo(name)
    entry.size = content.seek(0, io.SEEK_END)
    entry.mode = 0o755 if executable else 0o644
    content.seek(0)
    archive.addfile(entry, content)
    return entry.size


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
