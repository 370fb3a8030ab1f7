"""What earlier ingests left in a lake: roles of flows, sequences that are there, bytes of files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pregao.lake.ingest.coverage import Coverage, joined_runs
from pregao.lake.ingest.hashing import identities
from pregao.lake.ingest.protocols import PROTOCOLS, first_protocol
from pregao.lake.ingest.roles import KnownRole
from pregao.lake.store import Location

RANGE = "range:"
"""What the identity of a range of a growing file begins with."""

REST = "rest:"
"""What the identity of a capture begins with of which a part was dropped: it is no capture's."""
_AGAIN = " again "


def range_identity(file: str, begin: int) -> str:
    """The identity of a range: its file, and where it begins; no two units can take the same."""
    return f"{RANGE}{file}@{begin}"


def _range_of(identity: str) -> tuple[str, int]:
    file, _, begin = identity[len(RANGE) :].rpartition("@")
    return file, int(begin)


@dataclass(slots=True)
class Known:
    """What the table of ingests tells to those that come later."""

    roles: dict[str, KnownRole] = field(default_factory=dict)
    """By flow."""
    coverage: dict[str, Coverage] = field(default_factory=dict)
    """By protocol."""
    feeds: dict[str, dict[str, Coverage]] = field(default_factory=dict)
    """By protocol and feed."""
    generations: dict[str, int] = field(default_factory=dict)
    """By `guarded_place`, how often something was taken in."""
    fingerprints: dict[str, str] = field(default_factory=dict)
    """Content hashes by fingerprint: captures of equal size, head and tail may differ.

    Several are one text, with spaces between: sets by the thousand would slow everything down.
    """
    taken: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """Of growing files: the ranges that were taken in, each from its first to its last byte."""
    dropped: dict[str, int] = field(default_factory=dict)
    """By content hash or range: how often a capture was dropped."""
    _hashed: dict[str, list[tuple[int, int, str]]] = field(default_factory=dict)

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Take note of rows of ``ingests``."""
        for row in rows:
            if row["content_hash"].startswith(RANGE):
                file, begin = _range_of(row["content_hash"])
                own = [(begin, begin + row["size"] - 1)]
                self.taken[file] = joined_runs(self.taken.get(file, []), own)
            elif not row["content_hash"].startswith(REST):
                self._note(row["fingerprint"], row["content_hash"])
            self._add_capture(row)
            if row["report"]:
                self._add_report(json.loads(row["report"]))

    def identity_of(self, fingerprint: str, location: Location, size: int) -> str | None:
        """What a capture that looks like one of these was taken in as; None if it was not."""
        for identity in identities(location, size) if fingerprint in self.fingerprints else ():
            if identity in self.fingerprints[fingerprint].split():
                return identity
        return None

    def taking(self, identity: str) -> str:
        """The name under which a capture is taken in: no two units can take the same.

        One that was dropped may be taken in once more, under another name.
        """
        times = self.dropped.get(identity, 0)
        return f"{identity}{_AGAIN}{times}" if times else identity

    def hashed_ranges(self, file: str) -> list[tuple[int, int, str]]:
        """Of a growing file: where ranges begin and end whose bytes were hashed, and the hash."""
        return self._hashed.get(file, [])

    def facts(self) -> dict[str, Any]:
        """All that is known, in types that JSON has; see `recall`."""
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
            "taken": self.taken,
            "dropped": self.dropped,
            "hashed": self._hashed,
        }

    def recall(self, facts: Mapping[str, Any]) -> None:
        """Take up what was known, before anything else is added."""
        for destination, stream, feed, channels, protocol in facts["roles"]:
            role = KnownRole(destination, stream, feed, tuple(channels), protocol)
            self.roles[destination] = role
        self.coverage = {name: Coverage(numbers) for name, numbers in facts["coverage"].items()}
        self.feeds = {
            name: {feed: Coverage(numbers) for feed, numbers in feeds.items()}
            for name, feeds in facts["feeds"].items()
        }
        self.generations = facts["generations"]
        self.fingerprints = facts["fingerprints"]
        self.taken = {file: _pairs(runs) for file, runs in facts["taken"].items()}
        self.dropped = dict(facts["dropped"])
        self._hashed = {
            file: [(begin, end, digest) for begin, end, digest in ranges]
            for file, ranges in facts["hashed"].items()
        }

    def _note(self, fingerprint: str, content_hash: str) -> None:
        known = self.fingerprints.get(fingerprint, "").split()
        self.fingerprints[fingerprint] = " ".join(sorted({*known, content_hash}))

    def _add_capture(self, told: Mapping[str, Any]) -> None:
        """Take note of what a row tells of a capture, or a report of lakes that are older."""
        if plain := told.get("plain_fingerprint"):
            self._note(plain, told["content_hash"])
        if found := told.get("range_hash"):
            file, begin = _range_of(told["content_hash"])
            own = (begin, begin + told["size"], found)
            ranges = self._hashed.setdefault(file, [])
            if own not in ranges:
                ranges.append(own)

    def _add_report(self, told: Mapping[str, Any]) -> None:
        for capture in told["captures"]:
            self._add_capture(capture)
        for role in told["roles"]:
            name = role["destination"]
            earlier = self.roles.get(name)
            channels = {*role["channels"], *(earlier.channels if earlier else ())}
            protocol = role.get("protocol", first_protocol().name)
            own = PROTOCOLS.get(protocol)
            if own is not None and own.transport == "tcp":
                continue  # the ports of clients are others with each connection
            self.roles[name] = KnownRole(
                name, role["stream"], role["feed"], tuple(sorted(channels)), protocol
            )
        drops = told.get("dropped", {})
        for identity in drops.get("captures", ()):
            self.dropped[identity] = self.dropped.get(identity, 0) + 1
        for place, times in drops.get("places", {}).items():
            self.generations[place] = self.generations.get(place, 0) + times
        touched = set()
        for protocol, places in coverage_by_protocol(told).items():
            for place, runs in places["coverage"].items():
                day, channel, version = (int(part) for part in place.split("/"))
                coverage = self.coverage.setdefault(protocol, Coverage())
                coverage.add((day, channel, version), _pairs(runs))
                touched.add(guarded_place(protocol, place))
            for place, runs in places.get("feeds", {}).items():
                name, _, feed = place.rpartition("/")
                day, channel, version = (int(part) for part in name.split("/"))
                by_feed = self.feeds.setdefault(protocol, {}).setdefault(feed, Coverage())
                by_feed.add((day, channel, version), _pairs(runs))
        for place in touched:
            self.generations[place] = self.generations.get(place, 0) + 1


def guard(place: str, generation: int) -> str:
    """What a unit takes, like a capture, to be the only one that changes a channel's day then."""
    return f"incremental {place} {generation}"


def guarded_place(protocol: str, place: str) -> str:
    """The name of a channel's day, of which no two units may complete the numbers at once."""
    own = place.rpartition("/")[0]
    return own if protocol == first_protocol().name else f"{protocol}/{own}"


def coverage_by_protocol(told: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """What a report tells of sequences: the first protocol's, and that of others by their name."""
    others = {
        name: account
        for name, account in told.get("protocols", {}).items()
        if "coverage" in account
    }
    return {first_protocol().name: told, **others}


def _pairs(runs: Iterable[Iterable[int]]) -> list[tuple[int, int]]:
    return [(first, last) for first, last in runs]
