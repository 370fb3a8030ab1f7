"""Token of the control port, in a file that only its owner can read.

The exchange writes a new token at each start; every process that can read the file may operate the
exchange.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from pregao.errors import UsageError
from pregao.safe_io.private_files import SecretFileError, read_secret

TOKEN_VARIABLE: Final = "PREGAO_CONTROL_TOKEN"  # noqa: S105
_TOKEN_BYTES: Final = 32
_MAX_FILE_BYTES: Final = 256


def token_path(port: int) -> Path:
    """Return the default path of the token of the exchange at a control port."""
    if named := os.environ.get(TOKEN_VARIABLE):
        return Path(named)
    state = os.environ.get("XDG_STATE_HOME")
    base = Path(state) if state else Path.home() / ".local" / "state"
    return base / "pregao" / f"control-{port}.token"


def write_token(path: Path) -> str:
    """Write a new token to a new file of mode 0600, replacing the file of an earlier start."""
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(path.lstat().st_mode):
                raise UsageError(
                    f"{path}: the control token cannot be written: not a regular file."
                )
            path.unlink()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, 0o600), "w") as file:
            file.write(token)
    except OSError as error:
        raise UsageError(
            f"{path}: the control token cannot be written: {error.strerror}; set {TOKEN_VARIABLE} "
            "to a file in a folder that you can write to."
        ) from error
    return token


def remove_token(path: Path, token: str) -> None:
    """Remove the file, unless another exchange has written its own token there."""
    with suppress(OSError, UsageError):
        if read_token(path) == token:
            path.unlink()


def read_token(path: Path) -> str:
    """Return the token of a file that no other user can access."""
    try:
        content = read_secret(path, _MAX_FILE_BYTES)
    except SecretFileError as error:
        advice = "restart the exchange, which writes a new token"
        if not error.opened:
            advice = (
                "check that an exchange is running and that you are the user who started it, or "
                f"set {TOKEN_VARIABLE} to another file"
            )
        raise UsageError(f"{path}: the control token {error}; {advice}.") from error
    return content.decode("ascii", "replace").strip()
