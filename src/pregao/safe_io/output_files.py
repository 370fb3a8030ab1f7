"""Output files for users: opened without following a symbolic link at their path.

A link planted at the path of an output would let us overwrite its target. Devices and pipes
(``/dev/stdout``) are written to directly.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from pathlib import Path
from typing import BinaryIO

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_MODE = 0o666


def open_new(path: Path) -> BinaryIO:
    """Create a file that does not exist; FileExistsError also for a dangling link."""
    return os.fdopen(os.open(path, _NEW, _MODE), "wb")


def open_output(path: Path, *, append: bool = False) -> BinaryIO:
    """Open a file for writing from its beginning, or for appending; a link is rejected.

    Raises:
        OSError: The path is a symbolic link (ELOOP), or cannot be written.
    """
    if _is_device(path):
        return path.open("wb")
    how = os.O_APPEND if append else os.O_TRUNC
    try:
        return os.fdopen(os.open(path, _NEW | (how & os.O_APPEND), _MODE), "wb")
    except FileExistsError:
        if path.is_symlink():
            reason = "it is a symbolic link"
            raise OSError(errno.ELOOP, reason, str(path)) from None
        return os.fdopen(os.open(path, _OLD | how), "wb")


def replace_file(path: Path, content: bytes) -> None:
    """Write a file under a temporary name and rename it; a link at its path is replaced."""
    if _is_device(path):
        path.write_bytes(content)
        return
    part = temporary_name(path)
    try:
        with open_new(part) as stream:
            stream.write(content)
        part.replace(path)
    finally:
        with contextlib.suppress(OSError):
            part.unlink()


def temporary_name(path: Path) -> Path:
    """Return an unpredictable name in the folder of a path."""
    return path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(8)}.part")


def _is_device(path: Path) -> bool:
    """Whether a path is a device or a pipe; only links in ``/dev`` are followed."""
    try:
        found = path.stat() if path.parent == Path("/dev") else path.lstat()
    except OSError:
        return False
    plain = stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)
    return path.parent == Path("/dev") or not (plain or stat.S_ISDIR(found.st_mode))
