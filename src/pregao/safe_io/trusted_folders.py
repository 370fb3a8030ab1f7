"""Folders whose content is trusted as code: only this user and root can write there.

Compiled kernels are pickles, and Java maps its archive into memory as classes: reading a file that
another user placed runs that user's code. A folder for them is therefore used only if every part of
its path belongs to this user or root and cannot be changed by others. A folder in which all users
may create files, such as ``/tmp``, is accepted only if it is sticky, and only above the private
parts.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_MAX_LINKS = 40
"""Maximum number of symbolic links on the way to a base; the limit of Linux."""


class UnsafeFolderError(OSError):
    """A folder that others could have written to; the text names the part of the path and why."""


def private_folder(base: Path, *parts: str, create: bool = True) -> Path:
    """Return the folder ``parts`` below ``base``, checked, with a mode of 0700.

    Missing folders are created with that mode. The path to the base may have symbolic links that
    belong to us or to root; the parts may not have any.

    Raises:
        UnsafeFolderError: Someone else owns or can change a part of the path, or a file inside.
        OSError: A folder cannot be created or read.
    """
    folder = _checked_base(base.absolute(), create=create)
    open_ones = []
    for part in parts:
        folder = folder / part
        found = _created(folder, create=create)
        _check(folder, found, sticky_accepted=False)
        if found.st_mode & _OTHERS:
            open_ones.append((folder, found.st_uid))
    if parts:
        _check_content(folder, open_to_others=folder in dict(open_ones))
    for path, owner in open_ones:
        if create and owner == os.getuid():
            path.chmod(stat.S_IRWXU)
    return folder


def _checked_base(base: Path, *, create: bool) -> Path:
    """Resolve a base, following only links that belong to this user or root."""
    folder, *waiting = Path(base.anchor), *reversed(base.parts[1:])
    links = 0
    _check(folder, folder.lstat(), sticky_accepted=True)
    while waiting:
        name = waiting.pop()
        if name == os.pardir:
            folder = folder.parent
            continue
        below = folder / name
        found = _created(below, create=create)
        if not stat.S_ISLNK(found.st_mode):
            _check(below, found, sticky_accepted=True)
            folder = below
            continue
        links += 1
        if links > _MAX_LINKS:
            raise UnsafeFolderError(f"{base} has more than {_MAX_LINKS} symbolic links")
        _check_owner(below, found)
        target = below.readlink()
        if target.is_absolute():
            folder = Path(target.anchor)
        waiting += reversed(target.parts[1:] if target.is_absolute() else target.parts)
    return folder


def _created(folder: Path, *, create: bool) -> os.stat_result:
    """Return the status of a folder itself, not of a link's target; creates a missing one."""
    with contextlib.suppress(FileNotFoundError):
        return folder.lstat()
    if create:
        with contextlib.suppress(FileExistsError):  # another process created it first
            folder.mkdir(stat.S_IRWXU)
    return folder.lstat()


def _check(folder: Path, found: os.stat_result, *, sticky_accepted: bool) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise UnsafeFolderError(f"{folder} is a symbolic link")
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(f"{folder} is not a folder")
    _check_owner(folder, found)
    sticky = sticky_accepted and found.st_mode & stat.S_ISVTX
    if found.st_mode & _OTHERS_WRITE and not sticky:
        raise UnsafeFolderError(f"{folder} can be written by other users")


def _check_owner(path: Path, found: os.stat_result) -> None:
    if found.st_uid not in (0, os.getuid()):
        raise UnsafeFolderError(f"{path} belongs to user {found.st_uid}")


def _check_content(folder: Path, *, open_to_others: bool) -> None:
    """Check every file below a folder: ours or root's, and no links.

    Where others could reach the folder until now, they must not have been able to write its files.
    """
    waiting = [folder]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                path, found = Path(entry.path), entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(found.st_mode):
                    waiting.append(path)
                elif not stat.S_ISREG(found.st_mode):
                    raise UnsafeFolderError(f"{path} is not a regular file")
                _check_owner(path, found)
                if open_to_others and found.st_mode & _OTHERS_WRITE:
                    raise UnsafeFolderError(f"{path} can be written by other users")
