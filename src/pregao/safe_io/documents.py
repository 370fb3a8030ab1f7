"""Bounded reading of JSON and TOML documents that users and peers supply.

The parsers of the standard library raise ``RecursionError`` for deep documents and accept integers
of thousands of digits. Whatever the document, these functions return plain values or raise
``DocumentError``, a ``ValueError`` with an error message for users.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

from pregao.errors import PregaoError

MAX_DEPTH = 64
"""Maximum nesting of lists and tables in a document."""

MAX_INTEGER_BITS = 128
MAX_FILE_BYTES = 16 << 20

_QUOTED = re.compile(r"\"[^\"\n]*\"|'[^'\n]*'")
_DOTTED = re.compile(r"[\w. \t-]+")


class DocumentError(PregaoError, ValueError):
    """A document cannot be read: it is malformed, too deep, too large or not a regular file."""


def parse_json(text: str | bytes, *, decimals: bool = False) -> Any:
    """Return the value of a JSON document; ``decimals`` keeps fractions exact."""
    parse_float: Callable[[str], Any] | None = Decimal if decimals else None
    return _bounded(lambda: json.loads(text, parse_float=parse_float))


def parse_toml(text: str, *, decimals: bool = False) -> dict[str, Any]:
    """Return the tables of a TOML document; ``decimals`` keeps fractions exact."""
    # The parser's memory grows with the square of a dotted key's parts: 100,000 parts take 24 GB.
    if any(run.count(".") > MAX_DEPTH for run in _DOTTED.findall(_QUOTED.sub("a", text))):
        raise DocumentError(f"a key has more than {MAX_DEPTH} parts")
    parse_float: Callable[[str], Any] = Decimal if decimals else float
    document: dict[str, Any] = _bounded(lambda: tomllib.loads(text, parse_float=parse_float))
    return document


def read_file(path: Path, *, max_bytes: int = MAX_FILE_BYTES) -> bytes:
    """Return the content of a regular file of at most ``max_bytes``.

    A pipe, device or folder is rejected without reading it, so that a settings file cannot block
    the process or supply endless data.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        # Checked before a file object is created: for a folder that fails, with the descriptor
        # open.
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise DocumentError("it is not a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(max_bytes + 1)
    finally:
        os.close(descriptor)
    if len(content) > max_bytes:
        raise DocumentError(f"it is larger than {max_bytes:,} bytes")
    return content


def read_document(path: Path, *, max_bytes: int = MAX_FILE_BYTES) -> str:
    """Return the UTF-8 text of a file that `read_file` reads."""
    content = read_file(path, max_bytes=max_bytes)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DocumentError(f"it is not UTF-8 text: {error.reason} at {error.start}") from None


def _bounded(parse: Callable[[], Any]) -> Any:
    try:
        document = parse()
    except RecursionError:
        raise DocumentError(f"it is nested more than {MAX_DEPTH} levels deep") from None
    except ValueError as error:
        raise DocumentError(str(error)) from None
    _check_bounds(document)
    return document


def _check_bounds(document: Any) -> None:
    level, depth = [document], 0
    while level:
        deeper: list[Any] = []
        for value in level:
            if isinstance(value, dict | list):
                if depth == MAX_DEPTH:
                    raise DocumentError(f"it is nested more than {MAX_DEPTH} levels deep")
                deeper.extend(value.values() if isinstance(value, dict) else value)
            elif isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:
                raise DocumentError(f"an integer has more than {MAX_INTEGER_BITS} bits")
        level, depth = deeper, depth + 1
