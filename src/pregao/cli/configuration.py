"""What a user set once for all commands: the lake and the time zone, in ``pregao.toml``.

::

    lake = "lakes/b3"
    tz = "America/Sao_Paulo"

The file is looked for in the working folder, then in the folders above it, then in the user's
folder for configurations; the first one counts. An option wins over the environment, and that over
the file. A mistake is told with the file and the line.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path
from typing import NoReturn

from pregao.documents import DocumentError, parse_toml, read_file
from pregao.errors import UsageError

FILE = "pregao.toml"
LAKE_VARIABLE = "PREGAO_LAKE"
ZONE_VARIABLE = "PREGAO_TZ"
_ENTRIES = ("lake", "tz")
_AT_LINE = re.compile(r" \(at line (\d+), column \d+\)$")
_AT_END = " (at end of document)"


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a file says; nothing where there is none."""

    path: Path | None = None
    lake: str | None = None
    """A folder is told by its whole path, another place as it was written."""
    tz: str | None = None


def places(folder: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    """Where the file may be, in the order in which it is looked for."""
    for each in (folder, *folder.parents):
        yield each / FILE
    home = environment.get("HOME")
    named = environment.get("XDG_CONFIG_HOME") or (f"{home}/.config" if home else None)
    if named:
        yield Path(named) / "pregao" / FILE


def configuration() -> Configuration:
    """What is set for commands that are run here."""
    for path in places(Path.cwd(), os.environ):
        if path.is_file():
            return read_configuration(path)
    return Configuration()


def read_configuration(path: Path) -> Configuration:
    """Read a file."""
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
        told = str(error)
        at = _AT_LINE.search(told)
        line = int(at[1]) if at else max(1, len(text.splitlines()))
        _fail(path, line, f"is not TOML: {_AT_LINE.sub('', told).removesuffix(_AT_END)}")
    for name, value in entries.items():
        line = _line_of(name, text)
        if name not in _ENTRIES:
            near = difflib.get_close_matches(name.lower(), _ENTRIES, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {' and '.join(_ENTRIES)}"
            _fail(path, line, f"{name} means nothing here; {hint}")
        if not isinstance(value, str) or not value.strip():
            _fail(path, line, f"{name} takes a text, not {value!r}")
    lake, tz = entries.get("lake"), entries.get("tz")
    if tz is not None:
        try:
            zone(tz, "tz")
        except UsageError as error:
            _fail(path, _line_of("tz", text), str(error).rstrip("."))
    return Configuration(path, None if lake is None else _from(path.parent, lake), tz)


def _from(folder: Path, lake: str) -> str:
    """A place as it is meant from the folder of the file; URIs are whole as they are."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", lake):
        return lake
    return os.path.normpath(folder / Path(lake).expanduser())


def _line_of(name: str, text: str) -> int:
    """The line that sets an entry, or begins a table of that name."""
    begins = re.compile(rf"""\s*\[*\s*["']?{re.escape(name)}["']?\s*[]=.]""")
    lines = enumerate(text.splitlines(), 1)
    return next((number for number, line in lines if begins.match(line)), 1)


def _fail(path: Path, line: int, why: str) -> NoReturn:
    end = "" if why.endswith("?") else "."
    raise UsageError(f"{path}, line {line}: {why}{end}") from None


def default_lake() -> str:
    """The lake that is meant where none is named."""
    lake = os.environ.get(LAKE_VARIABLE) or configuration().lake
    if lake is None:
        raise UsageError(
            f'Name the lake with --lake DIR; or once for all with {LAKE_VARIABLE}, or lake = "DIR" '
            f"in {FILE}."
        )
    return lake


def zone(name: str, option: str) -> tzinfo:
    """A time zone by its name."""
    import zoneinfo

    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        known = sorted(zoneinfo.available_timezones())
    if not known:
        raise UsageError(
            f"{option}: this machine knows no time zones; `pip install tzdata` brings them."
        )
    short = {each.rpartition("/")[2].lower(): each for each in known}
    whole = {each.lower(): each for each in known}
    wanted = name.strip().lower().replace(" ", "_")
    near = difflib.get_close_matches(wanted, [*whole, *short], 1, 0.6)
    hint = f" Did you mean {whole.get(near[0]) or short[near[0]]}?" if near else ""
    raise UsageError(f"{option} takes a zone such as America/Sao_Paulo, not {name!r}.{hint}")
