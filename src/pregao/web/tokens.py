"""The token of a page: random at each start, or from a file that only its owner can read."""

from __future__ import annotations

import os
import re
import secrets
import stat
from pathlib import Path

from pregao.errors import UsageError

MIN_LENGTH, MAX_LENGTH = 22, 256
"""Characters of a token; 22 of them hold 128 bits."""
_TOKEN = re.compile(rf"[A-Za-z0-9_-]{{{MIN_LENGTH},{MAX_LENGTH}}}")
_RANDOM_BYTES = 32


def new_token() -> str:
    """Return a token of 256 random bits."""
    return secrets.token_urlsafe(_RANDOM_BYTES)


def read_token(path: Path) -> str:
    """Return the token in a file; the file must be regular, ours, and closed to others."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError as error:
        raise UsageError(
            f"--token-file {path} cannot be read: {error.strerror or error}."
        ) from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise UsageError(f"--token-file {path} must be a regular file.")
        if found.st_uid != os.geteuid():
            raise UsageError(f"--token-file {path} must belong to you, not to user {found.st_uid}.")
        if found.st_mode & 0o077:
            mode = stat.S_IMODE(found.st_mode)
            raise UsageError(
                f"--token-file {path} is open to others (mode {mode:04o}); run chmod 600 on it."
            )
        text = os.read(descriptor, MAX_LENGTH + 3).decode("ascii", "replace").strip()
    finally:
        os.close(descriptor)
    if not _TOKEN.fullmatch(text):
        raise UsageError(
            f"--token-file {path} must hold one token of {MIN_LENGTH} to {MAX_LENGTH} letters, "
            "digits, - and _; `python -c 'import secrets; print(secrets.token_urlsafe(32))'` "
            "makes one."
        )
    return text
