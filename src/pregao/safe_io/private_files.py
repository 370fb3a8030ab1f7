"""Files readable only by their owner: journals, checkpoints, sessions, order entry captures.

New files have mode 0600 and new folders 0700, whatever the umask. Opening a file of ours that
others can access restricts it to its owner. Links are not followed.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from pregao.errors import PregaoError

_log = logging.getLogger(__name__)
_FILE_MODE: Final = 0o600
_FOLDER_MODE: Final = 0o700
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


class SecretFileError(PregaoError):
    """The rule that a file with a secret violates, as a phrase that follows the file's name.

    ``opened`` is whether the file could be opened at all.
    """

    def __init__(self, reason: str, *, opened: bool = True) -> None:
        self.opened = opened
        super().__init__(reason)


def make_folder(path: Path) -> None:
    """Create a folder accessible only by its owner; an existing one keeps its mode.

    Logs a warning for a folder that others can write to: they can replace the files in it.
    """
    try:
        path.mkdir(mode=_FOLDER_MODE, parents=True)
    except FileExistsError:
        mode = path.stat().st_mode
        if not stat.S_ISDIR(mode):
            raise
        if mode & _OTHERS_WRITE and not mode & stat.S_ISVTX:
            _log.warning(
                "%s: other users can write to this folder (mode %o) and replace files in it; "
                "`chmod go-w` prevents that",
                path,
                stat.S_IMODE(mode),
            )


def create(path: Path, flags: int = os.O_WRONLY) -> int:
    """Create a file that must not exist and return its descriptor; OSError as `os.open`."""
    return os.open(path, flags | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _FILE_MODE)


def open_existing(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a regular file and return its descriptor; OSError if it is another kind of file.

    If it is ours and other users can access it, its mode is restricted to its owner.
    """
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(0, "it is not a regular file")
        if found.st_mode & _OTHERS and found.st_uid == os.geteuid():
            with suppress(OSError):  # a file system without modes, or a read-only one
                os.fchmod(descriptor, _FILE_MODE)
                _log.warning(
                    "%s: other users could access it (mode %o); now only its owner can",
                    path,
                    stat.S_IMODE(found.st_mode),
                )
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def open_or_create(path: Path, flags: int) -> int:
    """Open a regular file, or create it, and return its descriptor."""
    try:
        return open_existing(path, flags)
    except FileNotFoundError:
        with suppress(FileExistsError):  # another process was faster
            return create(path, flags)
        return open_existing(path, flags)


def read(path: Path, max_bytes: int) -> bytes:
    """Return the bytes of a regular file; OSError if it is not one or is too large."""
    descriptor = open_existing(path)
    try:
        size = os.fstat(descriptor).st_size
        if size > max_bytes:
            raise OSError(0, f"it has {size:,} bytes, more than {max_bytes:,}")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


def read_secret(path: str | Path, max_bytes: int) -> bytes:
    """Return the bytes of a file with a secret, such as a token or keys.

    Unlike `read`, it rejects a file that others can access: they may have read or changed the
    secret already.

    Raises:
        SecretFileError: The file cannot be opened, is a link or not a regular file, belongs to
            another user than us and root, is accessible by its group or others, or is too large.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        reason = f"cannot be read: {error.strerror or error}"
        if error.errno == errno.ELOOP:
            reason = "cannot be read: it is a symbolic link"
        raise SecretFileError(reason, opened=False) from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise SecretFileError("is not a regular file")
        if found.st_uid not in (0, os.geteuid()):
            raise SecretFileError(f"belongs to user {found.st_uid}; it must be yours or root's")
        if found.st_mode & _OTHERS:
            mode = stat.S_IMODE(found.st_mode)
            raise SecretFileError(f"is open to others (mode {mode:04o}); `chmod 600` closes it")
        try:
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                content = file.read(max_bytes + 1)
        except OSError as error:
            raise SecretFileError(f"cannot be read: {error.strerror or error}") from None
    finally:
        os.close(descriptor)
    if len(content) > max_bytes:
        raise SecretFileError(f"has more than {max_bytes:,} bytes")
    return content


def write_new(path: Path, data: bytes) -> None:
    """Write a file that must not exist, and sync it to disk."""
    descriptor = create(path)
    try:
        write_all(descriptor, data)
        os.fsync(descriptor)
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise
    finally:
        os.close(descriptor)


def replace(path: Path, data: bytes) -> None:
    """Replace a file atomically, or create it."""
    temporary = path.with_name(path.name + ".begun")
    with suppress(FileNotFoundError):
        temporary.unlink()
    write_new(temporary, data)
    try:
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise


def unused(path: Path) -> Path:
    """Return a path with the same name, plus a number if needed, that does not exist."""
    found, number = path, 1
    while os.path.lexists(found):
        number += 1
        found = path.with_name(f"{path.name}-{number}")
    return found


def sync_folder(path: Path) -> None:
    """Sync a folder's entries to disk, if its file system supports it."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes: on a nearly full disk, a single write may be partial."""
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def sync_data(descriptor: int) -> None:
    """Sync the content of a file to disk."""
    os.fdatasync(descriptor)
