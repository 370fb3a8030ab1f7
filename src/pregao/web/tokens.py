"""Token of a page: random at each start, or read from a file that only its owner can read."""

from __future__ import annotations

import re
import secrets
from pathlib import Path

from pregao.errors import UsageError
from pregao.private_files import SecretFileError, read_secret

MIN_LENGTH, MAX_LENGTH = 22, 256
"""Length of a token in characters; 22 characters encode 128 bits."""
MAX_FILE_BYTES = 4096
_TOKEN = re.compile(rf"[A-Za-z0-9_-]{{{MIN_LENGTH},{MAX_LENGTH}}}")
_RANDOM_BYTES = 32


def new_token() -> str:
    """Return a token of 256 random bits."""
    return secrets.token_urlsafe(_RANDOM_BYTES)


def read_token(path: Path) -> str:
    """Return the token in a file, which must be regular, owned by us and private."""
    try:
        content = read_secret(path, MAX_FILE_BYTES)
    except SecretFileError as error:
        raise UsageError(f"--token-file {path} {error}.") from error
    text = content.decode("ascii", "replace").strip()
    if not _TOKEN.fullmatch(text):
        raise UsageError(
            f"--token-file {path} must contain one token of {MIN_LENGTH} to {MAX_LENGTH} letters, "
            "digits, - and _; `python -c 'import secrets; print(secrets.token_urlsafe(32))'` "
            "generates one."
        )
    return text
