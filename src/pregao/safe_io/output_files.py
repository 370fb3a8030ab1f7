"""Output files for users: opened without following a symbolic link at their path.

A link planted at the path of an output would let us overwrite its target. Devices and pipes
(``/dev/stdout``) are written to directly. The files of a run are written under temporary names and
renamed on success; the path of a report is checked before the work starts.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import stat
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from pregao.errors import UsageError

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_MODE = 0o666
_DISK_ERRORS = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EROFS, errno.EIO)


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


class NewFiles:
    """Output files of one run, which appear together at its end or not at all.

    Existing files are replaced only with `force`.
    """

    def __init__(self, *, force: bool) -> None:
        self.force = force
        self._parts: dict[Path, Path] = {}
        self._open: list[BinaryIO] = []

    def check(self, path: Path) -> None:
        """Raise `UsageError` if the path cannot be written or exists without `force`."""
        if path.is_dir():
            raise UsageError(f"{path} is a folder; give the path of a file.")
        if os.path.lexists(path) and not self.force:
            raise UsageError(f"{path} already exists; use --force to replace it.")
        if not path.parent.is_dir():
            raise UsageError(f"{path}: no folder {path.parent}; create it first.")

    def create(self, path: Path) -> BinaryIO:
        """Open a new file under a temporary name, which it keeps until the run succeeds."""
        self.check(path)
        part = temporary_name(path)
        try:
            stream = open_new(part)
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}.") from None
        self._parts[path] = part
        self._open.append(stream)
        return stream

    @property
    def paths(self) -> list[Path]:
        """Final paths of the files created."""
        return list(self._parts)

    def __enter__(self) -> NewFiles:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            for stream in self._open:
                stream.close()
            if isinstance(error, OSError) and error.errno in _DISK_ERRORS:
                raise error
            if kind is None:
                for path, part in self._parts.items():
                    self.check(path)
                    self._appear(part, path)
        except OSError as failed:
            raise self._unwritten(failed) from None
        finally:
            for part in self._parts.values():
                with contextlib.suppress(OSError):
                    part.unlink(missing_ok=True)

    def _appear(self, part: Path, path: Path) -> None:
        """Rename a file to its final path; without `force`, fail if that appeared meanwhile."""
        if not self.force:
            try:
                os.link(part, path)
            except FileExistsError:
                raise UsageError(f"{path} already exists; use --force to replace it.") from None
            except OSError:
                pass  # a file system without hard links
            else:
                return
        # Replaces a symbolic link itself, not its target.
        part.replace(path)

    def _unwritten(self, error: OSError) -> UsageError:
        names = ", ".join(str(path) for path in list(self._parts)[:3])
        return UsageError(f"{names or 'The output'} cannot be written: {error.strerror or error}.")


def check_report(path: Path | None) -> None:
    """Raise `UsageError` if the report could not be written at the end of the work."""
    if path is None:
        return
    if path.is_dir():
        raise UsageError(f"--report: {path} is a folder; give the path of a file.")
    try:
        # Appending nothing leaves an existing file unchanged.
        existed = os.path.lexists(path)
        if not path.is_symlink():
            open_output(path, append=True).close()
        if not existed:
            path.unlink()
    except OSError as error:
        raise UsageError(f"--report: {path} cannot be written: {error.strerror}.") from None


def write_report(path: Path | None, data: Any) -> None:
    """Write a report as JSON, if a path was given."""
    if path is None:
        return
    try:
        replace_file(path, (json.dumps(data, indent=1) + "\n").encode())
    except OSError as error:
        raise UsageError(
            f"The work is done, but --report {path} cannot be written: {error.strerror}."
        ) from None
