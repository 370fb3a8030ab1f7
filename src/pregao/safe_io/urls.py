"""URLs without secrets: user info and query never reach an error, a report or a log.

`without_secrets` removes them where a URL enters (a command option, an API call) and keeps them for
the code that opens it; `redacted` is the second line of defense, for texts of libraries.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from pregao.errors import UsageError
from pregao.safe_io.private_files import SecretFileError, read_secret

_URL = re.compile(
    r"""(?P<scheme>\b[A-Za-z][A-Za-z0-9+.-]+:/{1,3})"""
    r"""(?P<user>[^\s'"?]*@)?(?P<rest>[^\s'"?]*)(?P<query>\?[^\s'"]*)?"""
)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
HIDDEN = "***"
CONTAINER_SCHEMES = ("abfs", "abfss", "wasb", "wasbs")
"""Azure schemes: the name before the ``@`` is the container; only a password after it is secret."""
_MIN_SECRET = 4
"""Minimum length of a value that is hidden everywhere: shorter ones are parts of words."""
_PUBLIC = ("true", "false", "http", "https", "scheme", "default", "anonymous")
MAX_CREDENTIALS_BYTES = 64 << 10

_kept: dict[str, str] = {}


def redacted(text: str, secrets: Mapping[str, str] | None = None) -> str:
    """Return a text without user info and queries of URLs, and without the values of secrets."""
    for value in sorted((secrets or {}).values(), key=len, reverse=True):
        if len(value) >= _MIN_SECRET and value.lower() not in _PUBLIC:
            text = text.replace(value, HIDDEN)
    if ":/" not in text:
        return text
    return _URL.sub(_without, text)


def _without(found: re.Match[str]) -> str:
    user = f"{HIDDEN}@" if found["user"] else ""
    query = f"?{HIDDEN}" if found["query"] else ""
    return f"{found['scheme']}{user}{found['rest']}{query}"


def without_secrets(text: str) -> str:
    """Return a URL without user info and query; `with_secrets` restores them in this process.

    Text that is not a URL, or a URL without secrets, is returned unchanged; so is a malformed one,
    whose secrets `redacted` hides in the error that follows.
    """
    matched = _SCHEME.match(text)
    if matched is None or text[: matched.end()].lower() == "file://":
        return text
    body, mark, _query = text.partition("?")
    host, slash, path = body[matched.end() :].partition("/")
    user, at, name = host.rpartition("@")
    if at and matched.group()[:-3].lower() in CONTAINER_SCHEMES:
        container, colon, _password = user.partition(":")
        name, at = f"{container}@{name}", colon
    if not (at or mark) or not name:
        return text
    clean = f"{matched.group()}{name}{slash}{path}"
    _kept[clean] = text
    return clean


def with_secrets(text: str) -> str:
    """Return the URL before `without_secrets`, or the text itself."""
    return _kept.get(text, text)


_CREDENTIALS = {
    "aws_access_key_id": "AWS_ACCESS_KEY_ID",
    "aws_secret_access_key": "AWS_SECRET_ACCESS_KEY",
    "aws_session_token": "AWS_SESSION_TOKEN",
}


def read_credentials(path: str) -> dict[str, str]:
    """Read access keys from a file that only its owner can read.

    The file has lines such as ``aws_access_key_id = …``, as in ``~/.aws/credentials``; lines that
    start with ``[`` or ``#`` are skipped.

    Raises:
        UsageError: The file is missing, not a regular file, or can be read by others.
    """
    try:
        content = read_secret(path, MAX_CREDENTIALS_BYTES)
    except SecretFileError as error:
        raise UsageError(f"The credentials file {path} {error}.") from None
    keys: dict[str, str] = {}
    for line in content.decode("utf-8", "replace").splitlines():
        name, equals, value = line.partition("=")
        known = _CREDENTIALS.get(name.strip().lower())
        if equals and known is not None and not line.lstrip().startswith(("#", "[")):
            keys.setdefault(known, value.strip())
    missing = [name for name, known in _CREDENTIALS.items() if not keys.get(known)]
    if set(missing) - {"aws_session_token"}:
        raise UsageError(f"The credentials file {path} has no {missing[0]}.")
    return keys


def credentials_path(text: str) -> str:
    """Return the absolute path of a credentials file given by a user."""
    return str(Path(text).expanduser().absolute())
