"""User configuration in ``pregao.toml``: the default lake and time zone of all commands.

::

    lake = "lakes/b3"
    tz = "America/Sao_Paulo"

The file is searched in the working folder, its parents and the user's configuration folder; the
first one found is used. Options override environment variables, which override the file. Errors
name the file and the line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from pregao.errors import UsageError
from pregao.name_matching import did_you_mean
from pregao.safe_io.documents import DocumentError, parse_toml, read_file
from pregao.units import parse_zone

FILE = "pregao.toml"
LAKE_VARIABLE = "PREGAO_LAKE"
ZONE_VARIABLE = "PREGAO_TZ"
_ENTRIES = ("lake", "tz")
_AT_LINE = re.compile(r" \(at line (\d+), column \d+\)$")
_AT_END = " (at end of document)"


@dataclass(frozen=True, slots=True)
class Configuration:
    """Settings of a configuration file; all None if there is no file."""

    path: Path | None = None
    lake: str | None = None
    """Absolute path of a folder; other URIs unchanged."""
    tz: str | None = None


def search_paths(folder: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    """Yield the candidate paths of the file, in search order."""
    for each in (folder, *folder.parents):
        yield each / FILE
    home = environment.get("HOME")
    named = environment.get("XDG_CONFIG_HOME") or (f"{home}/.config" if home else None)
    if named:
        yield Path(named) / "pregao" / FILE


def configuration() -> Configuration:
    """Return the configuration that applies in the working folder."""
    for path in search_paths(Path.cwd(), os.environ):
        if path.is_file():
            return read_configuration(path)
    return Configuration()


def read_configuration(path: Path) -> Configuration:
    """Read and validate a configuration file."""
    try:
        data = read_file(path)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}.") from None
    except DocumentError as error:
        raise UsageError(f"{path}: cannot be read: {error}.") from None
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        _fail(path, data[: error.start].count(b"\n") + 1, "is not UTF-8")
    try:
        entries = parse_toml(text)
    except DocumentError as error:
        message = str(error)
        found = _AT_LINE.search(message)
        line = int(found[1]) if found else max(1, len(text.splitlines()))
        _fail(path, line, f"is not TOML: {_AT_LINE.sub('', message).removesuffix(_AT_END)}")
    for name, value in entries.items():
        line = _line_of(name, text)
        if name not in _ENTRIES:
            allowed = f" Allowed are {' and '.join(_ENTRIES)}."
            hint = did_you_mean(name, _ENTRIES, 1, otherwise=allowed)
            _fail(path, line, f"unknown setting {name}.{hint}".rstrip("."))
        if not isinstance(value, str) or not value.strip():
            _fail(path, line, f"{name} must be a non-empty string, was {value!r}")
    lake, tz = entries.get("lake"), entries.get("tz")
    if tz is not None:
        try:
            parse_zone(tz, "tz")
        except UsageError as error:
            _fail(path, _line_of("tz", text), str(error).rstrip("."))
    return Configuration(path, None if lake is None else _from(path.parent, lake), tz)


def _from(folder: Path, lake: str) -> str:
    """Resolve a lake path relative to the folder of the file; URIs are unchanged."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", lake):
        return lake
    return os.path.normpath(folder / Path(lake).expanduser())


def _line_of(name: str, text: str) -> int:
    """Return the number of the line that sets an entry, or starts a table of that name."""
    begins = re.compile(rf"""\s*\[*\s*["']?{re.escape(name)}["']?\s*[]=.]""")
    lines = enumerate(text.splitlines(), 1)
    return next((number for number, line in lines if begins.match(line)), 1)


def _fail(path: Path, line: int, why: str) -> NoReturn:
    end = "" if why.endswith("?") else "."
    raise UsageError(f"{path}, line {line}: {why}{end}") from None


def default_lake() -> str:
    """Return the lake to use if `--lake` is not given."""
    lake = os.environ.get(LAKE_VARIABLE) or configuration().lake
    if lake is None:
        raise UsageError(
            f'No lake given: use --lake DIR, set {LAKE_VARIABLE}, or put lake = "DIR" into {FILE}.'
        )
    return lake
