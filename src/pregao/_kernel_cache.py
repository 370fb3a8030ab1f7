"""Where compiled kernels are kept: a folder for each state of the files that they are made of.

numba compiles a kernel anew when the kernel's own file changes. It does not see what a kernel
takes from other files: kernels that it calls, constants, offsets that come from a schema file. So
compiled code is kept in a folder whose name is a digest of all of these. Folders that nobody used
for a month are removed when a new one is made.
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

from pregao._private_folder import UnsafeFolderError, private_folder

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
    """The files that kernels are made of: their own, all that these import of ours, and schemas.

    They are named by their place in the package. There are none where the package is not made of
    files, as in a zip archive.
    """
    here = set(_files(str(package)))
    waiting = ["_njit.py", *filter(_KERNELS.search, here)]
    found: dict[str, bytes] = {}
    while waiting:
        name = waiting.pop()
        if name in here and name not in found:
            found[name] = (package / name).read_bytes()
            waiting += _imported(found[name], here)
    if found:
        schemas = (name for name in here if name.endswith(".xml"))
        found |= {name: (package / name).read_bytes() for name in schemas}
    return dict(sorted(found.items()))


def _files(package: str) -> Iterator[str]:
    for folder, _folders, names in os.walk(package):
        start = folder[len(package) + 1 :].replace(os.sep, "/")
        for name in names:
            if name.endswith((".py", ".xml")):
                yield f"{start}/{name}" if start else name


def _imported(source: bytes, here: Container[str]) -> Iterator[str]:
    """The files of the package that a source takes something from."""
    for taken, names, plain in _IMPORT.findall(source):
        module = (taken or plain).decode().strip(".").replace(".", "/")
        for name in re.findall(rb"\w+", _NOT_IMPORTED.sub(b"", names)) or [b""]:
            inner = f"{module}/{name.decode()}".strip("/")
            places = (
                f"{inner}.py",
                f"{inner}/__init__.py",
                f"{module}.py",
                f"{module}/__init__.py",
            )
            yield next((place for place in places if place in here), "__init__.py")


def module_names(sources: Iterable[str]) -> frozenset[str]:
    """What Python calls these files."""
    names = (name.removesuffix(".py").removesuffix("/__init__") for name in sources)
    return frozenset(f"pregao.{name.replace('/', '.')}" for name in names)


def digest_of(sources: Mapping[str, bytes], versions: Iterable[str]) -> str:
    """A name for what compiled code depends on: the names and bytes of files, and versions."""
    digest = hashlib.blake2b("\n".join(versions).encode(), digest_size=16)
    for name, content in sources.items():
        digest.update(f"\n{name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def cache_folder(digest: str, kind: str = "kernels") -> Path | None:
    """A writable folder of that name that only we can change; None if there is none anywhere.

    ``kind`` is what is kept there: our compiled kernels, or Java's ``classes``. Tried are the place
    that the user named, the user's cache and the temporary folder.
    """
    for base, parts in _places():
        with contextlib.suppress(OSError):
            return _usable(base, *parts, f"{kind}-{digest}")
    return None


def refused_places() -> list[str]:
    """Reasons why a place for compiled code is not used, of those that others could write to."""
    reasons = []
    for base, parts in _places():
        try:
            private_folder(base, *parts, create=False)
        except UnsafeFolderError as error:
            reasons.append(str(error))
        except OSError:
            continue
    return reasons


def _places() -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Bases, and the folders below them that are ours alone."""
    if named := os.environ.get("PREGAO_CACHE_DIR"):
        yield Path(named), ("numba",)
    if named := os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(named), ()
    with contextlib.suppress(RuntimeError):  # no home directory at all
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        yield home, ("pregao", "numba")
    yield Path(tempfile.gettempdir()), (f"pregao-{os.getuid()}", "numba")


def _usable(base: Path, *parts: str) -> Path:
    """Return a checked folder in which files can be made; it is created if need be."""
    new = not base.joinpath(*parts).exists()
    folder = private_folder(base, *parts)
    with tempfile.TemporaryFile(dir=folder):
        pass
    with contextlib.suppress(OSError):
        os.utime(folder)  # says when it was last used
    if new:
        _remove_unused(folder)
    return folder


def _remove_unused(kept: Path) -> None:
    """Remove the folders beside one that nobody used for long; whoever is first removes them."""
    oldest = time.time() - UNUSED_DAYS * 86_400
    with contextlib.suppress(OSError):
        for folder in list(kept.parent.iterdir()):
            with contextlib.suppress(OSError):
                if _FOLDER.fullmatch(folder.name) and folder.stat().st_mtime < oldest:
                    # Renamed first: nobody finds a folder of which half is gone.
                    name = folder.name.lstrip(".")[: len(kept.name)]
                    going = folder.rename(folder.with_name(f".{name}.{os.getpid()}.unused"))
                    shutil.rmtree(going, ignore_errors=True)
