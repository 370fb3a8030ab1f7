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
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn

from pregao.errors import PregaoError, UsageError
from pregao.name_matching import did_you_mean

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


# --- Settings ---


def read_tables(path: Path, *, decimals: bool = False) -> dict[str, Any]:
    """Return the tables of a file of settings: JSON if its name ends in ``.json``, else TOML."""
    kind, parse = ("JSON", parse_json) if path.suffix == ".json" else ("TOML", parse_toml)
    try:
        document = parse(read_document(path), decimals=decimals)
    except FileNotFoundError:
        raise UsageError(f"{path}: there is no such file.") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}.") from None
    except DocumentError as error:
        raise UsageError(f"{path}: is not valid {kind}: {error}.") from None
    if not isinstance(document, dict):
        raise UsageError(f"{path}: must contain a table of settings.")
    return document


class SettingsTable:
    """A table of settings, with typed access and errors that name file, entry, value and bounds."""

    def __init__(self, source: str, entries: Mapping[str, Any], at: str = "") -> None:
        """Wrap a table; ``at`` is its own name in the file ``source``."""
        self.source = source
        self.entries = entries
        self._at = at

    def __contains__(self, entry: str) -> bool:
        return entry in self.entries

    def fail(self, entry: str, why: str) -> NoReturn:
        """Raise a `UsageError` that names the entry."""
        where = ".".join(part for part in (self._at, entry) if part)
        end = "" if why.endswith("?") else "."
        raise UsageError(f"{self.source}: {where} {why}{end}") from None

    def only(self, known: Iterable[str]) -> None:
        """Reject entries with other names."""
        known = list(known)
        for entry in self.entries:
            if entry not in known:
                entries = f" Entries are {', '.join(known)}"
                self.fail(
                    entry,
                    f"is not a known entry.{did_you_mean(entry, known, 1, otherwise=entries)}",
                )

    def nested(self, entry: str, entries: Any) -> SettingsTable:
        """Return a table of this one, from its content."""
        if not isinstance(entries, Mapping):
            self.fail(entry, f"must be a table, was {entries!r:.80}")
        return SettingsTable(self.source, entries, f"{self._at}.{entry}" if self._at else entry)

    def inside(self, entry: str, known: Iterable[str] | None = None) -> SettingsTable:
        """Return a table of this one, empty if it is missing, that has only ``known`` entries."""
        found = self.nested(entry, self.entries.get(entry, {}))
        if known is not None:
            found.only(known)
        return found

    def optional_text(self, entry: str) -> str | None:
        """Return a string, None if it is missing."""
        return self.text(entry) if entry in self.entries else None

    def text(self, entry: str) -> str:
        """Return a string that is not empty."""
        value = self.entries.get(entry)
        if not isinstance(value, str) or not value:
            self.fail(entry, f"must be a non-empty string, was {value!r:.80}")
        return value

    def flag(self, entry: str) -> bool:
        """Return whether an entry is true; a missing one is not."""
        value = self.entries.get(entry, False)
        if not isinstance(value, bool):
            self.fail(entry, f"must be true or false, was {value!r:.80}")
        return value

    def whole(self, entry: str, minimum: int, maximum: int = 2**62) -> int:
        """Return an integer within bounds."""
        value = self.entries.get(entry)
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
            self.fail(entry, f"must be an integer from {minimum} to {maximum}, was {value!r:.80}")
        return value

    def several(self, entry: str, kind: type) -> frozenset[Any] | None:
        """Return the values of a list; None if it is missing."""
        if entry not in self.entries:
            return None
        found = self.entries[entry]
        valid = isinstance(found, list) and all(type(each) is kind for each in found)
        if not valid or not found:
            example = '["BVMF"]' if kind is str else "[1234]"
            self.fail(entry, f"must be a list such as {example}, was {found!r:.80}")
        return frozenset(found)
