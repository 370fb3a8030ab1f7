"""Files below a local folder: listed and removed without following links; paths of logs checked.

Paths are opened component by component, each relative to its parent: a link, even one created
between listing and removing, cannot lead to another folder.

A table's log is untrusted input: it may come from a third party. A path that leads out of the
table's folder would let a query, or a page, read other files through it; only names below the
table's folder are allowed.
"""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from pregao.errors import UsageError
from pregao.lake.storage.filesystem import Location

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
MAX_DEPTH = 16
"""Maximum nesting of folders; a lake has three levels."""

# Empty names, absolute paths, schemes (and drives), . and .. as components, wildcards, backslashes
# and control characters.
_REFUSED = r"^$|^/|^[A-Za-z][A-Za-z0-9+.\-]*:|(^|/)\.{0,2}(/|$)|[*?\[\]{}\\]|[\x00-\x1f\x7f]"
_DECODINGS = 3
"""Maximum URL decodings of a path: some readers decode, others do not, and encoders repeat it."""


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file, or an entry that is neither file nor folder; the path is relative to the root."""

    path: str
    size: int
    modified_ns: int
    is_regular: bool


def list_files(root: str, folder: str) -> Iterator[LocalFile]:
    """List everything below a folder of a root; links are listed, not followed.

    The root itself may be a link. A missing folder has no files.
    """
    with contextlib.ExitStack() as opened:
        try:
            descriptor = _open(opened, root, folder.split("/"))
        except FileNotFoundError:
            return
        except NotADirectoryError:  # also raised for a link, because of O_NOFOLLOW
            yield LocalFile(folder, 0, 0, False)
            return
        yield from _listed(descriptor, folder, MAX_DEPTH)


def _listed(descriptor: int, prefix: str, depth: int) -> Iterator[LocalFile]:
    for name in _names(descriptor):
        path = f"{prefix}/{name}"
        try:
            found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode) and depth:
                below = os.open(name, _FOLDER, dir_fd=descriptor)
                try:
                    yield from _listed(below, path, depth - 1)
                finally:
                    os.close(below)
                continue
        except FileNotFoundError:
            continue
        except NotADirectoryError:
            yield LocalFile(path, 0, 0, False)
            continue
        regular = stat.S_ISREG(found.st_mode)
        yield LocalFile(path, found.st_size, found.st_mtime_ns, regular)


def remove_file(root: str, path: str) -> bool:
    """Remove a regular file below a root; return False if none is reachable without links."""
    *folders, name = path.split("/")
    with contextlib.ExitStack() as opened:
        try:
            descriptor = _open(opened, root, folders)
            found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            if not stat.S_ISREG(found.st_mode):
                return False
            os.unlink(name, dir_fd=descriptor)
        except (FileNotFoundError, NotADirectoryError):
            return False
    return True


def remove_empty_folders(root: str, folder: str) -> None:
    """Remove a folder of a root and those in it, as far as they are empty and no links."""
    *above, name = folder.split("/")
    with (
        contextlib.suppress(FileNotFoundError, NotADirectoryError),
        contextlib.ExitStack() as opened,
    ):
        _remove_empty(_open(opened, root, above), name, MAX_DEPTH)


def _remove_empty(above: int, name: str, depth: int) -> None:
    with contextlib.suppress(OSError):  # it is no folder, or still holds something
        descriptor = os.open(name, _FOLDER, dir_fd=above)
        try:
            for inner in _names(descriptor) if depth else ():
                _remove_empty(descriptor, inner, depth - 1)
        finally:
            os.close(descriptor)
        os.rmdir(name, dir_fd=above)


def _names(descriptor: int) -> list[str]:
    return sorted(os.listdir(descriptor))


def _open(opened: contextlib.ExitStack, root: str, folders: list[str]) -> int:
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    opened.callback(os.close, descriptor)
    for folder in folders:
        if folder in ("", os.curdir, os.pardir):
            raise NotADirectoryError(f"{folder!r} is not the name of a folder")
        descriptor = os.open(folder, _FOLDER, dir_fd=descriptor)
        opened.callback(os.close, descriptor)
    return descriptor


def check_paths(location: Location, paths: Any) -> None:
    """Reject the paths of a table (an Arrow column) if one is not a plain name below its folder.

    A table whose folder is a link is rejected as well: its files are elsewhere.
    """
    if location.is_local and Path(location.uri).is_symlink():
        raise UsageError(
            f"{location}: this folder is a link; a table must be in its lake's own folder: move it "
            "there (the lake itself may be a link)."
        )
    column = paths if isinstance(paths, pa.ChunkedArray) else pa.chunked_array([paths])
    for _ in range(_DECODINGS):
        refused = pc.match_substring_regex(column, _REFUSED)
        if pc.any(refused).as_py():
            raise refused_path(location, column.filter(refused)[0].as_py())
        encoded = column.filter(pc.match_substring(column, "%"))
        if not len(encoded):
            return
        column = pa.chunked_array([[unquote(path) for path in encoded.to_pylist()]], pa.string())
    if pc.any(pc.match_substring(column, "%")).as_py():
        raise refused_path(location, column[0].as_py())


def check_links(location: Location, paths: Iterable[str]) -> None:
    """Reject files of a local table that are links, or are in a folder that is a link."""
    if not location.is_local:
        return
    root = Path(location.uri)
    checked: set[Path] = set()
    for path in paths:
        file = root / path
        for each in (file, *file.parents):
            if each == root or each in checked:
                break
            checked.add(each)
            try:
                mode = each.lstat().st_mode
            except OSError:
                continue  # readers report missing files
            if stat.S_ISLNK(mode):
                raise UsageError(
                    f"{location}: {each.relative_to(root)!s} is a link; a table's files must be "
                    "in its own folder: move the file there."
                )


def refused_path(location: Location, path: str) -> UsageError:
    """Return the error for a path that is not a plain name below its table."""
    return UsageError(
        f"{location}: the table's log names the file {path!r}; only paths below the table's "
        "folder are allowed, without .., a leading /, a scheme or wildcards."
    )


def own_name() -> str:
    """Return the name of this process: PID namespace, PID and start time."""
    return f"{_table_of_processes()} {os.getpid()} {_began(os.getpid())}"


def has_exited(name: str) -> bool:
    """Whether a process has exited; False if that cannot be determined from this host."""
    table, number, began = _parts(name)
    if table != _table_of_processes() or not number.isdigit():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    # The PID may have been reused.
    return _began(int(number)) != began


def shown_name(name: str) -> str:
    """Return the name for messages."""
    table, number, _ = _parts(name)
    return f"process {number} on {table.rpartition('/')[2]}"


def _parts(name: str) -> tuple[str, str, str]:
    table, number, began = [*name.split(" "), "", "", ""][:3]
    return table, number, began


@functools.cache
def _table_of_processes() -> str:
    """Return an ID of the PID namespace: containers of one host may have several."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        space = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        boot, space = "", ""
    return f"{boot}/{space}/{socket.gethostname()}".replace(" ", "")


def _began(process: int) -> str:
    """Return the start time of a process in clock ticks since boot; ``-`` if unavailable."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return "-"
