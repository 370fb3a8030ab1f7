"""Cache of compiled kernels: one folder for each state of the files that they depend on.

numba recompiles a kernel when the kernel's own file changes. It does not detect changes of other
files that a kernel uses: kernels that it calls, constants, offsets from a schema file. Compiled
code is therefore kept in a folder named by a digest of all of these. Folders that were unused for a
month are removed when a new one is created.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path

from pregao.safe_io.trusted_folders import UnsafeFolderError, private_folder

PACKAGE = Path(__file__).parent
UNUSED_DAYS = 30

_KERNELS = re.compile(r"(^|/)_(\w+_)?kernels\.py$")
_FOLDER = re.compile(
    r"(kernels|classes)-[0-9a-f]{32}|\.(kernels|classes)-[0-9a-f]{32}\.\d+\.unused"
)
_IMPORT = re.compile(
    rb"^[ \t]*(?:from +pregao([\w.]*) +import +(\([^)]*\)|.*)|import +pregao([\w.]*))",
    re.MULTILINE,
)
_NOT_IMPORTED = re.compile(rb"#.*|\bas[ \t]+\w+")


def kernel_sources(package: Path = PACKAGE) -> dict[str, bytes]:
    """Return the files that kernels depend on: their own, those that these import, and schemas.

    They are named by their path in the package. There are none if the package is not in files, e.g.
    in a zip archive.
    """
    files = set(_files(str(package)))
    waiting = ["_njit.py", *filter(_KERNELS.search, files)]
    found: dict[str, bytes] = {}
    while waiting:
        name = waiting.pop()
        if name in files and name not in found:
            found[name] = (package / name).read_bytes()
            waiting += _imported(found[name], files)
    if found:
        schemas = (name for name in files if name.endswith(".xml"))
        found |= {name: (package / name).read_bytes() for name in schemas}
    return dict(sorted(found.items()))


def _files(package: str) -> Iterator[str]:
    for folder, _folders, names in os.walk(package):
        start = folder[len(package) + 1 :].replace(os.sep, "/")
        for name in names:
            if name.endswith((".py", ".xml")):
                yield f"{start}/{name}" if start else name


def _imported(source: bytes, modules: Container[str]) -> Iterator[str]:
    """Yield the files of the package that a source imports."""
    for imported, names, plain in _IMPORT.findall(source):
        module = (imported or plain).decode().strip(".").replace(".", "/")
        for name in re.findall(rb"\w+", _NOT_IMPORTED.sub(b"", names)) or [b""]:
            inner = f"{module}/{name.decode()}".strip("/")
            candidates = (
                f"{inner}.py",
                f"{inner}/__init__.py",
                f"{module}.py",
                f"{module}/__init__.py",
            )
            yield next(
                (candidate for candidate in candidates if candidate in modules), "__init__.py"
            )


def module_names(sources: Iterable[str]) -> frozenset[str]:
    """Return the module names of these files."""
    names = (name.removesuffix(".py").removesuffix("/__init__") for name in sources)
    return frozenset(f"pregao.{name.replace('/', '.')}" for name in names)


def digest_of(sources: Mapping[str, bytes], versions: Iterable[str]) -> str:
    """Return a digest of what compiled code depends on: files by name and content, and versions."""
    digest = hashlib.blake2b("\n".join(versions).encode(), digest_size=16)
    for name, content in sources.items():
        digest.update(f"\n{name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def cache_folder(digest: str, kind: str = "kernels") -> Path | None:
    """Return a writable folder with this name that only this user can change, or None.

    ``kind`` is its content: compiled kernels, or Java's ``classes``. Candidates are the folder set
    by the user, the user's cache and the temporary folder.
    """
    for base, parts in _cache_folders():
        with contextlib.suppress(OSError):
            return _usable(base, *parts, f"{kind}-{digest}")
    return None


def refused_folders() -> list[str]:
    """Return why folders for compiled code are not used because others could write to them."""
    reasons = []
    for base, parts in _cache_folders():
        try:
            private_folder(base, *parts, create=False)
        except UnsafeFolderError as error:
            reasons.append(str(error))
        except OSError:
            continue
    return reasons


def _cache_folders() -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Yield base folders, and the private folders below them."""
    if named := os.environ.get("PREGAO_CACHE_DIR"):
        yield Path(named), ("numba",)
    if named := os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(named), ()
    with contextlib.suppress(RuntimeError):  # no home directory at all
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        yield home, ("pregao", "numba")
    yield Path(tempfile.gettempdir()), (f"pregao-{os.getuid()}", "numba")


def _usable(base: Path, *parts: str) -> Path:
    """Return a checked folder in which files can be created; creates it if necessary."""
    new = not base.joinpath(*parts).exists()
    folder = private_folder(base, *parts)
    with tempfile.TemporaryFile(dir=folder):
        pass
    with contextlib.suppress(OSError):
        os.utime(folder)  # records the last use
    if new:
        _remove_unused(folder)
    return folder


def _remove_unused(kept: Path) -> None:
    """Remove sibling folders that were unused for long; concurrent processes may do the same."""
    oldest = time.time() - UNUSED_DAYS * 86_400
    with contextlib.suppress(OSError):
        for folder in list(kept.parent.iterdir()):
            with contextlib.suppress(OSError):
                if _FOLDER.fullmatch(folder.name) and folder.stat().st_mtime < oldest:
                    # Renamed first, so that no process finds a partly removed folder.
                    name = folder.name.lstrip(".")[: len(kept.name)]
                    removed = folder.rename(folder.with_name(f".{name}.{os.getpid()}.unused"))
                    shutil.rmtree(removed, ignore_errors=True)
