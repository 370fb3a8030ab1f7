"""Find captures from files, folders and patterns on any filesystem."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable

from pregao.errors import NothingFoundError, UsageError
from pregao.lake.storage.filesystem import FileEntry, Location

_MAGIC = re.compile(r"[*?\[]")
# tcpdump numbers the files of a rolling capture after the extension: x.pcap, x.pcap1, x.pcap2, …
_CAPTURE_NAME = re.compile(r"\.(pcap|pcapng|cap|ntar)\d*(\.(gz|zst|zstd))?$", re.IGNORECASE)
_NUMBER = re.compile(r"(\d+)")


def is_capture_name(name: str) -> bool:
    """Whether a file name is that of a capture."""
    return not name.startswith((".", "_")) and _CAPTURE_NAME.search(name) is not None


def find_captures(named: Iterable[str | Location]) -> list[FileEntry]:
    """Return the named capture files without duplicates, those of a folder or pattern by name.

    A file may have any name. A folder stands for the captures in it, recursively. A pattern (``*``,
    ``?``, ``[…]``, ``**``) stands for the files that match it and the captures in folders that
    match. A name without captures is an error, since it is probably a typo.
    """
    found: dict[str, FileEntry] = {}
    for name in named:
        entries = _expand(Location.parse(name))
        if not entries:
            location = Location.parse(name)
            sought = location.exists() or _MAGIC.search(location.uri)
            raise (NothingFoundError if sought else UsageError)(
                f"{location}: no captures found. Name capture files, folders with "
                "*.pcap, *.pcapng or *.cap files (also .gz, .zst), or a pattern."
            )
        for entry in entries:
            found.setdefault(entry.location.uri, entry)
    return list(found.values())


def _expand(location: Location) -> list[FileEntry]:
    entry = location.info()
    if entry is not None:
        return _in_folder(location) if entry.is_folder else [entry]
    if not _MAGIC.search(location.uri):
        return []
    found = []
    for match in _matching(location):
        found += _in_folder(match.location) if match.is_folder else [match]
    return found


def _in_folder(folder: Location) -> list[FileEntry]:
    captures = [
        entry
        for entry in folder.entries(recursive=True)
        if not entry.is_folder and is_capture_name(entry.name)
    ]
    return sorted(captures, key=_order)


def _order(entry: FileEntry) -> list[tuple[int, str]]:
    """Sort key that orders numbers in names by value: x.pcap2 before x.pcap10."""
    return [
        (int(part), "") if part.isdigit() else (-1, part)
        for part in _NUMBER.split(entry.location.uri)
    ]


def _matching(pattern: Location) -> list[FileEntry]:
    """Return the entries that match a pattern, listing only folders that can contain a match."""
    steps: list[str] = []
    base = pattern
    while _MAGIC.search(base.uri) and base.uri != base.parent.uri:
        steps.insert(0, base.name)
        base = base.parent
    level = [base]
    for number, step in enumerate(steps):
        last = number == len(steps) - 1
        entries: list[FileEntry] = []
        if step == "**":
            for folder in level:
                below = folder.entries(recursive=True)
                entries += [entry for entry in below if last or entry.is_folder]
            if last:
                captures = [entry for entry in entries if is_capture_name(entry.name)]
                return sorted((entry for entry in captures if not entry.is_folder), key=_order)
            level = [*level, *(entry.location for entry in entries)]
            continue
        for folder in level:
            if _MAGIC.search(step):
                entries += [
                    entry
                    for entry in folder.entries()
                    if fnmatch.fnmatchcase(entry.name, step)
                    and not (entry.name.startswith((".", "_")) and step[0] in "*?[")
                ]
            elif (entry := folder.join(step).info()) is not None:
                entries.append(entry)
        if last:
            return sorted(entries, key=_order)
        level = [entry.location for entry in entries if entry.is_folder]
    return []
