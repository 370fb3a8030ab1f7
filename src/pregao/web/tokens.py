"""The token of a page: random at each start, or from a file that only its owner can read."""

from __future__ import annotations

import re
import secrets
from pathlib import Path

from pregao.errors import UsageError
from pregao.private_files import SecretFileError, read_secret

MIN_LENGTH, MAX_LENGTH = 22, 256
"""Characters of a token; 22 of them hold 128 bits."""
MAX_FILE_BYTES = 4096
_TOKEN = re.compile(rf"[A-Za-z0-9_-]{{{MIN_LENGTH},{MAX_LENGTH}}}")
_RANDOM_BYTES = 32


def new_token() -> str:
    """Return a token of 256 random bits."""
    return secrets.token_urlsafe(_RANDOM_BYTES)


def read_token(path: Path) -> str:
    """Return the token in a file; the file must be regular, ours, and closed to others."""
    try:
        content = read_secret(path, MAX_FILE_BYTES)
    except SecretFileError as error:
        raise UsageError(f"--token-file {path} {error}.") from error
    text = content.decode("ascii", "replace").strip()
    if not _TOKEN.fullmatch(text):
        raise UsageError(
            f"--token-file {path} must hold one token of {MIN_LENGTH} to {MAX_LENGTH} letters, "
            "digits, - and _; `python -c 'import secrets; print(secrets.token_urlsafe(32))'` "
            "makes one."
        )
    return text
