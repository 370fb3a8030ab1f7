"""History of a lake's ingests: roles of flows, coverage of sequences, ranges of growing files.

A cache saves reading the reports of all earlier ingests. Its table ``_ingest_state`` has the
contents of `IngestState` for a set of files of ``ingests``, and the names of these files. It only
repeats ``ingests``: if one of the files no longer exists (merged, or its rows dropped) or the table
is missing, everything is read again.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pregao.lake.ingest.feed_assignment import StoredFlowRole
from pregao.lake.ingest.fingerprint import identities
from pregao.lake.ingest.registry import PROTOCOLS, first_protocol
from pregao.lake.ingest.sequence_ranges import Coverage, joined_runs
from pregao.lake.storage.commit_unit import NewFile, TableSpec
from pregao.lake.storage.delta import (
    LakeTable,
    add_action,
    change_table,
    commit_changes,
    remove_action,
    visible_files,
)
from pregao.lake.storage.filesystem import Location, unique_name
from pregao.lake.storage.lake_store import LakeStore

RANGE = "range:"
"""Prefix of the identity of a range of a growing file."""

REST = "rest:"
"""Prefix of the identity of a capture that was dropped in part, so that no capture matches it."""
_GENERATION_MARK = " again "

STATE_CACHE = TableSpec(
    "_ingest_state",
    pa.schema(
        [
            pa.field("files", pa.string(), metadata={"comment": "Files of ingests, as JSON."}),
            pa.field("facts", pa.string(), metadata={"comment": "Their history, as JSON."}),
        ]
    ),
    partition_by=(),
    description="Cache of the history of earlier ingests, for a set of files of ingests.",
    passing=True,
)
MIN_UNCACHED_FILES = 32
"""Minimum number of uncached files of ``ingests`` at which the cache is rewritten."""
_COLUMNS = (
    "content_hash",
    "fingerprint",
    "size",
    "report",
    "plain_fingerprint",
    "range_hash",
    "committed_at_ns",
)


# --- State ---


def range_identity(file: str, begin: int) -> str:
    """Return the identity of a range, its file and start; no two units can claim the same."""
    return f"{RANGE}{file}@{begin}"


def _range_of(identity: str) -> tuple[str, int]:
    file, _, begin = identity[len(RANGE) :].rpartition("@")
    return file, int(begin)


@dataclass(slots=True)
class IngestState:
    """History of a lake's ingests, read from the table `ingests`."""

    roles: dict[str, StoredFlowRole] = field(default_factory=dict)
    """By flow."""
    coverage: dict[str, Coverage] = field(default_factory=dict)
    """By protocol."""
    feeds: dict[str, dict[str, Coverage]] = field(default_factory=dict)
    """By protocol and feed."""
    generations: dict[str, int] = field(default_factory=dict)
    """Number of changes by `channel_day_key`."""
    fingerprints: dict[str, str] = field(default_factory=dict)
    """Content hashes by fingerprint: captures of equal size, head and tail may differ.

    Several hashes are one string, separated by spaces: thousands of sets would be slow.
    """
    claimed: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """Ingested ranges of growing files, as first and last byte."""
    dropped: dict[str, int] = field(default_factory=dict)
    """Number of drops by content hash or range identity."""
    _hashed: dict[str, list[tuple[int, int, str]]] = field(default_factory=dict)

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add rows of ``ingests``."""
        for row in rows:
            if row["content_hash"].startswith(RANGE):
                file, begin = _range_of(row["content_hash"])
                own = [(begin, begin + row["size"] - 1)]
                self.claimed[file] = joined_runs(self.claimed.get(file, []), own)
            elif not row["content_hash"].startswith(REST):
                self._add_fingerprint(row["fingerprint"], row["content_hash"])
            self._add_capture(row)
            if row["report"]:
                self._add_report(json.loads(row["report"]))

    def identity_of(self, fingerprint: str, location: Location, size: int) -> str | None:
        """Return the identity under which a capture was ingested; None if it was not."""
        for identity in identities(location, size) if fingerprint in self.fingerprints else ():
            if identity in self.fingerprints[fingerprint].split():
                return identity
        return None

    def claim_key(self, identity: str) -> str:
        """Return the key under which a capture is claimed; no two units can claim the same.

        Each drop changes the key, so that a dropped capture can be ingested again.
        """
        times = self.dropped.get(identity, 0)
        return f"{identity}{_GENERATION_MARK}{times}" if times else identity

    def hashed_ranges(self, file: str) -> list[tuple[int, int, str]]:
        """Return begin, end and hash of the hashed ranges of a growing file."""
        return self._hashed.get(file, [])

    def to_json(self) -> dict[str, Any]:
        """Return the history as JSON types, for `restore`."""
        return {
            "roles": [
                (role.destination, role.stream, role.feed, role.channels, role.protocol)
                for role in self.roles.values()
            ],
            "coverage": {name: own.numbers() for name, own in self.coverage.items()},
            "feeds": {
                name: {feed: own.numbers() for feed, own in feeds.items()}
                for name, feeds in self.feeds.items()
            },
            "generations": self.generations,
            "fingerprints": self.fingerprints,
            "taken": self.claimed,
            "dropped": self.dropped,
            "hashed": self._hashed,
        }

    def restore(self, facts: Mapping[str, Any]) -> None:
        """Restore the history from the result of `to_json`; must precede any `add`."""
        for destination, stream, feed, channels, protocol in facts["roles"]:
            role = StoredFlowRole(destination, stream, feed, tuple(channels), protocol)
            self.roles[destination] = role
        self.coverage = {name: Coverage(numbers) for name, numbers in facts["coverage"].items()}
        self.feeds = {
            name: {feed: Coverage(numbers) for feed, numbers in feeds.items()}
            for name, feeds in facts["feeds"].items()
        }
        self.generations = facts["generations"]
        self.fingerprints = facts["fingerprints"]
        self.claimed = {file: _pairs(runs) for file, runs in facts["taken"].items()}
        self.dropped = dict(facts["dropped"])
        self._hashed = {
            file: [(begin, end, digest) for begin, end, digest in ranges]
            for file, ranges in facts["hashed"].items()
        }

    def _add_fingerprint(self, fingerprint: str, content_hash: str) -> None:
        hashes = self.fingerprints.get(fingerprint, "").split()
        self.fingerprints[fingerprint] = " ".join(sorted({*hashes, content_hash}))

    def _add_capture(self, stored: Mapping[str, Any]) -> None:
        """Add a capture from a row of ``ingests`` or, in older lakes, from a report."""
        if plain := stored.get("plain_fingerprint"):
            self._add_fingerprint(plain, stored["content_hash"])
        if found := stored.get("range_hash"):
            file, begin = _range_of(stored["content_hash"])
            own = (begin, begin + stored["size"], found)
            ranges = self._hashed.setdefault(file, [])
            if own not in ranges:
                ranges.append(own)

    def _add_report(self, stored: Mapping[str, Any]) -> None:
        for capture in stored["captures"]:
            self._add_capture(capture)
        for role in stored["roles"]:
            name = role["destination"]
            earlier = self.roles.get(name)
            channels = {*role["channels"], *(earlier.channels if earlier else ())}
            protocol = role.get("protocol", first_protocol().name)
            own = PROTOCOLS.get(protocol)
            if own is not None and own.transport == "tcp":
                continue  # clients use a different port for each connection
            self.roles[name] = StoredFlowRole(
                name, role["stream"], role["feed"], tuple(sorted(channels)), protocol
            )
        drops = stored.get("dropped", {})
        for identity in drops.get("captures", ()):
            self.dropped[identity] = self.dropped.get(identity, 0) + 1
        for channel_day, times in drops.get("places", {}).items():
            self.generations[channel_day] = self.generations.get(channel_day, 0) + times
        touched = set()
        for protocol, account in coverage_by_protocol(stored).items():
            for channel_day, runs in account["coverage"].items():
                day, channel, version = (int(part) for part in channel_day.split("/"))
                coverage = self.coverage.setdefault(protocol, Coverage())
                coverage.add((day, channel, version), _pairs(runs))
                touched.add(channel_day_key(protocol, channel_day))
            for channel_day, runs in account.get("feeds", {}).items():
                name, _, feed = channel_day.rpartition("/")
                day, channel, version = (int(part) for part in name.split("/"))
                by_feed = self.feeds.setdefault(protocol, {}).setdefault(feed, Coverage())
                by_feed.add((day, channel, version), _pairs(runs))
        for channel_day in touched:
            self.generations[channel_day] = self.generations.get(channel_day, 0) + 1


def guard_key(channel_day: str, generation: int) -> str:
    """Return the key that a unit claims, like a capture, to change a channel day exclusively."""
    return f"incremental {channel_day} {generation}"


def channel_day_key(protocol: str, channel_day_version: str) -> str:
    """Return the name of a channel day, to guard it against concurrent changes by two units."""
    own = channel_day_version.rpartition("/")[0]
    return own if protocol == first_protocol().name else f"{protocol}/{own}"


def coverage_by_protocol(stored: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the parts of a report that have coverage; the first protocol's is the report."""
    others = {
        name: account
        for name, account in stored.get("protocols", {}).items()
        if "coverage" in account
    }
    return {first_protocol().name: stored, **others}


def _pairs(runs: Iterable[Iterable[int]]) -> list[tuple[int, int]]:
    return [(first, last) for first, last in runs]


# --- Cache ---


def load_ingest_state(lake: LakeStore) -> IngestState:
    """Read the history of the lake's ingests; update the cache if many files are not in it."""
    # The cache first: a file that is added in between then counts as not cached.
    state, cached = _read_cache(lake)
    files = lake.paths("ingests")
    if not cached <= files:
        state, cached = IngestState(), set()
    table = lake.table_location("ingests")
    rows = [row for path in files - cached for row in _rows(table.join(path))]
    rows.sort(key=lambda row: row["committed_at_ns"] or 0)
    state.add(rows)
    if len(files) - len(cached) >= MIN_UNCACHED_FILES and _cache_location(lake).exists():
        _write_cache(lake, state, files)
    return state


def refresh_state_cache(lake: LakeStore) -> None:
    """Rebuild the cache if files that it covers no longer exist."""
    if _cache_location(lake).exists():
        load_ingest_state(lake)


def _cache_location(lake: LakeStore) -> Location:
    return lake.table_location(STATE_CACHE.name)


def _read_cache(lake: LakeStore) -> tuple[IngestState, set[str]]:
    """Return the cached history and the files that it covers."""
    state = IngestState()
    table = _cache_location(lake)
    if not table.exists():
        return state, set()
    cached: set[str] = set()
    for path in lake.paths(STATE_CACHE.name):
        (row,) = _table(table.join(path), STATE_CACHE.schema.names).to_pylist()
        state.restore(json.loads(row["facts"]))
        cached = set(json.loads(row["files"]))
    return state, cached


def _write_cache(lake: LakeStore, known: IngestState, files: set[str]) -> None:
    """Replace the cached history."""
    contents = {"files": sorted(files), "facts": known.to_json()}
    row = {name: json.dumps(value, separators=(",", ":")) for name, value in contents.items()}
    content = io.BytesIO()
    rows = pa.Table.from_pylist([row], STATE_CACHE.schema.remove_metadata())
    pq.write_table(rows, content, compression="zstd")
    folder = _cache_location(lake)
    path = unique_name("known", ".parquet")
    folder.join(path).write_bytes(content.getvalue())
    file = NewFile(STATE_CACHE.name, path, content.tell(), 1, (), '{"numRecords":1}')

    def replace(table: LakeTable) -> None:
        # If two processes do this concurrently, either may win: both are correct.
        shown = visible_files(table).select(["path", "size_bytes"]).to_pylist()
        removed = [remove_action(old["path"], old["size_bytes"]) for old in shown]
        commit_changes(table, [*removed, add_action(file)])

    change_table(folder, replace)


def _rows(file: Location) -> list[dict[str, Any]]:
    """Read a file of ``ingests``; columns added after it was written are null."""
    rows: list[dict[str, Any]] = _table(file, _COLUMNS).to_pylist()
    return [{**dict.fromkeys(_COLUMNS), **row} for row in rows]


def _table(file: Location, columns: Any) -> Any:
    with file.open_input() as opened:
        parquet = pq.ParquetFile(opened)
        existing = [name for name in columns if name in parquet.schema_arrow.names]
        return parquet.read(columns=existing, use_threads=False)
