"""What earlier ingests left in a lake: roles of flows, sequences that are there, bytes of files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pregao.lake.ingest.protocols import first_protocol
from pregao.lake.ingest.roles import KnownRole
from pregao.lake.ingest.window import Coverage, joined_runs
from pregao.lake.store import Lake

RANGE = "range:"
"""What the identity of a range of a growing file begins with."""

_COLUMNS = ["unit_id", "content_hash", "fingerprint", "size", "report"]


def range_identity(file: str, begin: int) -> str:
    """The identity of a range: its file, and where it begins; no two units can take the same."""
    return f"{RANGE}{file}@{begin}"


@dataclass(slots=True)
class Known:
    """What the table of ingests tells to those that come later."""

    roles: dict[str, KnownRole] = field(default_factory=dict)
    """By flow."""
    coverage: dict[str, Coverage] = field(default_factory=dict)
    """By protocol."""
    feeds: dict[str, dict[tuple[int, int, int], dict[str, list[tuple[int, int]]]]] = field(
        default_factory=dict
    )
    """By protocol, of a day, channel and sequence version: what each feed brought."""
    generations: dict[str, int] = field(default_factory=dict)
    """By `guarded_place`, how often something was taken in."""
    fingerprints: dict[str, str] = field(default_factory=dict)
    """Content hash by fingerprint."""
    taken: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """Of growing files: the ranges that were taken in, each from its first to its last byte."""

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Take note of rows of ``ingests``."""
        for row in rows:
            if row["content_hash"].startswith(RANGE):
                file, _, begin = row["content_hash"][len(RANGE) :].rpartition("@")
                own = [(int(begin), int(begin) + row["size"] - 1)]
                self.taken[file] = joined_runs(self.taken.get(file, []), own)
            else:
                self.fingerprints[row["fingerprint"]] = row["content_hash"]
            if row["report"]:
                self._add_report(json.loads(row["report"]))

    def _add_report(self, told: Mapping[str, Any]) -> None:
        for role in told["roles"]:
            name = role["destination"]
            earlier = self.roles.get(name)
            channels = {*role["channels"], *(earlier.channels if earlier else ())}
            protocol = role.get("protocol", first_protocol().name)
            self.roles[name] = KnownRole(
                name, role["stream"], role["feed"], tuple(sorted(channels)), protocol
            )
        touched = set()
        for protocol, places in _by_protocol(told).items():
            coverage = self.coverage.setdefault(protocol, {})
            for place, runs in places["coverage"].items():
                day, channel, version = (int(part) for part in place.split("/"))
                key = (day, channel, version)
                coverage[key] = joined_runs(coverage.get(key, []), _pairs(runs))
                touched.add(guarded_place(protocol, place))
            by_place = self.feeds.setdefault(protocol, {})
            for place, runs in places.get("feeds", {}).items():
                name, _, feed = place.rpartition("/")
                day, channel, version = (int(part) for part in name.split("/"))
                feeds = by_place.setdefault((day, channel, version), {})
                feeds[feed] = joined_runs(feeds.get(feed, []), _pairs(runs))
        for place in touched:
            self.generations[place] = self.generations.get(place, 0) + 1


def guarded_place(protocol: str, place: str) -> str:
    """The name of a channel's day, of which no two units may complete the numbers at once."""
    own = place.rpartition("/")[0]
    return own if protocol == first_protocol().name else f"{protocol}/{own}"


def _by_protocol(told: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """What a report tells of sequences: the first protocol's, and that of others by their name."""
    others = {
        name: account
        for name, account in told.get("protocols", {}).items()
        if "coverage" in account
    }
    return {first_protocol().name: told, **others}


def _pairs(runs: Iterable[Iterable[int]]) -> list[tuple[int, int]]:
    return [(first, last) for first, last in runs]


def read_known(lake: Lake) -> Known:
    """What the lake's ingests tell."""
    known = Known()
    known.add(lake.delta("ingests").to_pyarrow_table(columns=_COLUMNS).to_pylist())
    return known
