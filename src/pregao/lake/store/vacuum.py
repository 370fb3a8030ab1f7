"""Takes away what no table shows and no intent names: files of failed or outdated attempts."""

from __future__ import annotations

import json
from collections.abc import Iterable

from pregao.clock import DAY, Clock, system_clock
from pregao.lake.store import intents
from pregao.lake.store.delta_tables import load_existing, visible_files
from pregao.lake.store.lake import STAGING, Lake
from pregao.lake.store.location import FileEntry, Location

LOG = "_delta_log"


def vacuum(
    lake: Lake,
    *,
    older_than_ns: int = DAY,
    dry_run: bool = False,
    clock: Clock = system_clock,
) -> list[FileEntry]:
    """Remove orphans older than a limit, and tell which they were.

    Kept are: what a table shows now or has shown within the limit, what a pending intent names,
    and all that is younger than the limit, since an ingest that runs may be about to name it. The
    limit must therefore be longer than any ingest takes.
    """
    lake.roll_forward()
    cutoff = clock() - older_than_ns
    tables = [*lake.table_names(), *lake.own_tables()]
    # Files first, then what is in use: what is committed in between is found in use.
    found = {name: _old_files(lake.table_location(name), cutoff) for name in tables}
    staged = [
        entry
        for entry in lake.location.join(STAGING).entries(recursive=True)
        if not entry.is_folder and entry.modified_ns < cutoff
    ]
    used = _intended(lake)
    orphans = staged
    for name in tables:
        if found[name]:
            place = lake.table_location(name)
            used |= _shown(place) | _shown_since(place, cutoff)
            orphans += [entry for entry in found[name] if entry.location.uri not in used]
    if not dry_run:
        for entry in orphans:
            entry.location.delete()
        for name in tables:
            # Commits that a checkpoint sums up are kept for 30 days.
            load_existing(lake.table_location(name)).cleanup_metadata()
    return orphans


def _old_files(place: Location, cutoff: int) -> list[FileEntry]:
    """The Parquet files below a table's folder that are older than the cutoff."""
    return [
        entry
        for entry in place.entries(recursive=True)
        if not entry.is_folder
        and entry.modified_ns < cutoff
        and entry.name.endswith(".parquet")
        and not entry.location.relative_to(place).startswith(LOG)
    ]


def _intended(lake: Lake) -> set[str]:
    units = intents.read(lake.location, pending) if (pending := lake.pending()) else []
    return {
        lake.table_location(file.table).join(file.path).uri for unit in units for file in unit.files
    }


def _shown(place: Location) -> set[str]:
    actions = visible_files(load_existing(place))
    return _places(place, actions["path"].to_pylist())


def _shown_since(place: Location, cutoff: int) -> set[str]:
    """The files that were taken out of a table after the cutoff: earlier versions show them."""
    removed: set[str] = set()
    for entry in place.join(LOG).entries():
        if entry.modified_ns >= cutoff and entry.name.endswith(".json"):
            for line in entry.location.read_bytes().splitlines():
                action = json.loads(line)
                if "remove" in action:
                    removed.add(action["remove"]["path"])
    return _places(place, removed)


def _places(place: Location, paths: Iterable[str]) -> set[str]:
    return {place.join(path).uri for path in paths}
