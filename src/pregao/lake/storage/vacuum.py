"""Vacuum: remove files that no table and no intent references, of failed or outdated attempts.

Only files with names that Pregão or Delta writers create are removed; symbolic links are not
followed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pregao.clock import DAY, Clock, system_clock
from pregao.lake.storage import intent_log
from pregao.lake.storage.delta import load_existing, visible_files
from pregao.lake.storage.filesystem import FileEntry, Location
from pregao.lake.storage.lake_store import STAGING, LakeStore
from pregao.lake.storage.local_files import list_files, remove_empty_folders, remove_file

LOG = "_delta_log"
RETIRED = ("_known",)
"""Tables of earlier versions that are no longer read; `_ingest_state` replaces ``_known``."""
_HEX = r"[0-9a-f]"
_UNIQUE = rf"({_HEX}{{32}}|{_HEX}{{8}}(-{_HEX}{{4}}){{3}}-{_HEX}{{12}})"
_OURS = re.compile(rf"[a-z]+-(\d+-)?{_UNIQUE}(-c\d+)?(\.[a-z0-9]+)?\.parquet")
"""Names such as ``part-UUID.parquet`` and Spark's ``part-00000-UUID-c000.snappy.parquet``."""

_ALL_NS = 1 << 63


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """Removed files, and those kept because Pregão did not write them."""

    files: tuple[FileEntry, ...]
    links: tuple[str, ...]
    """Symbolic links and other entries that are not files, by path in the lake."""
    unknown: tuple[str, ...]
    """Unreferenced Parquet files with names that no known writer creates."""


def vacuum(
    lake: LakeStore,
    *,
    older_than_ns: int = DAY,
    dry_run: bool = False,
    clock: Clock = system_clock,
) -> Vacuumed:
    """Remove orphaned files older than a limit and return them.

    Files are kept if a table references them or has done so within the limit, if a pending intent
    references them, or if they are newer than the limit, since a running ingest may be about to
    commit them. The limit must therefore be longer than any ingest. Links are neither followed nor
    removed.
    """
    lake.roll_forward()
    cutoff = clock() - older_than_ns
    tables = [*lake.table_names(), *(name for name in lake.own_tables() if name not in RETIRED)]
    # List files before references: files committed in between are then found as referenced.
    links: list[str] = []
    found = {name: _old_files(lake, name, cutoff, links) for name in tables}
    orphans = list(_old_entries(lake, STAGING, cutoff, links))
    retired = {name: _retired(lake, name, cutoff, links) for name in RETIRED}
    orphans += [entry for entries in retired.values() for entry in entries]
    used = _intended(lake)
    unknown: list[str] = []
    linked = {link.split("/")[0] for link in links if link.count("/") == 0 or link.endswith(LOG)}
    for name in tables:
        if found[name]:
            location = lake.table_location(name)
            used |= _shown(location) | _shown_since(location, cutoff)
            for entry in found[name]:
                if entry.location.uri not in used:
                    if _OURS.fullmatch(entry.name):
                        orphans.append(entry)
                    else:
                        unknown.append(entry.location.relative_to(lake.location))
    if not dry_run:
        orphans = [entry for entry in orphans if _removed(lake, entry)]
        for name in [name for name, entries in retired.items() if entries]:
            _remove_folders(lake, name)
        for name in tables:
            # Commits before a checkpoint are kept for 30 days.
            if name not in linked:
                load_existing(lake.table_location(name)).cleanup_metadata()
    return Vacuumed(tuple(orphans), tuple(links), tuple(unknown))


def _removed(lake: LakeStore, entry: FileEntry) -> bool:
    """Remove a file; on a local disk without following links in its path."""
    if not lake.location.is_local:
        entry.location.delete()
        return True
    return remove_file(lake.location.path, entry.location.relative_to(lake.location))


def _retired(lake: LakeStore, name: str, cutoff: int, links: list[str]) -> list[FileEntry]:
    """The files of a retired table, its log first; none if an earlier version still writes it."""
    entries = list(_old_entries(lake, name, _ALL_NS, links))
    if any(entry.modified_ns >= cutoff for entry in entries):
        return []
    location = lake.table_location(name)
    log = [entry for entry in entries if entry.location.relative_to(location).startswith(f"{LOG}/")]
    return log + [entry for entry in entries if _OURS.fullmatch(entry.name) and entry not in log]


def _remove_folders(lake: LakeStore, name: str) -> None:
    """Remove the empty folders of a retired table; object stores have none."""
    if lake.location.is_local:
        remove_empty_folders(lake.location.path, name)


def _old_entries(
    lake: LakeStore, folder: str, cutoff: int, links: list[str]
) -> Iterator[FileEntry]:
    """Yield the files below a folder of the lake that are older than the cutoff; collect links."""
    if not lake.location.is_local:
        for entry in lake.location.join(folder).entries(recursive=True):
            if not entry.is_folder and entry.modified_ns < cutoff:
                yield entry
        return
    for file in list_files(lake.location.path, folder):
        if not file.is_regular:
            links.append(file.path)
        elif file.modified_ns < cutoff:
            yield FileEntry(lake.location.join(file.path), False, file.size, file.modified_ns)


def _old_files(lake: LakeStore, name: str, cutoff: int, links: list[str]) -> list[FileEntry]:
    """Return the Parquet files below a table's folder that are older than the cutoff."""
    location = lake.table_location(name)
    return [
        entry
        for entry in _old_entries(lake, name, cutoff, links)
        if entry.name.endswith(".parquet")
        and not entry.location.relative_to(location).startswith(LOG)
    ]


def _intended(lake: LakeStore) -> set[str]:
    units = intent_log.read(lake.location, pending) if (pending := lake.pending()) else []
    return {
        lake.table_location(file.table).join(file.path).uri for unit in units for file in unit.files
    }


def _shown(location: Location) -> set[str]:
    actions = visible_files(load_existing(location))
    return _paths(location, actions["path"].to_pylist())


def _shown_since(location: Location, cutoff: int) -> set[str]:
    """Return the files removed from a table after the cutoff, which earlier versions reference."""
    removed: set[str] = set()
    for entry in location.join(LOG).entries():
        if entry.modified_ns >= cutoff and entry.name.endswith(".json"):
            for line in entry.location.read_bytes().splitlines():
                action = json.loads(line)
                if "remove" in action:
                    removed.add(action["remove"]["path"])
    return _paths(location, removed)


def _paths(location: Location, paths: Iterable[str]) -> set[str]:
    return {location.join(path).uri for path in paths}
