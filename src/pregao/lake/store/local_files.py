"""List and remove files below a local folder without following symbolic links.

Paths are opened component by component, each relative to its parent: a link, even one created
between listing and removing, cannot lead to another folder.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
MAX_DEPTH = 16
"""Maximum nesting of folders; a lake has three levels."""


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
