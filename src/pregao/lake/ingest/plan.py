"""The plan of an ingest: which task reads which bytes, for which protocol.

Captures that carry the same channels of an arbitrated stream are cut at the same moments,
so that one task has both feeds' copies of the keys it owns.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import numpy as np

from pregao.lake.ingest.coverage import Coverage
from pregao.lake.ingest.options import Options
from pregao.lake.ingest.places import OpenPcap
from pregao.lake.ingest.protocol import Protocol
from pregao.lake.ingest.protocols import PROTOCOLS
from pregao.lake.ingest.roles import arbitrated_channels, counting_protocol, readers_of
from pregao.lake.ingest.surveys import CaptureSurvey
from pregao.lake.ingest.tasks import Piece, Task
from pregao.lake.ingest.window import Bounds, Role, comes_before
from pregao.lake.store import Location
from pregao.umdf.sequencing import Place

SEARCH_BYTES = 64 * 1024 * 1024
"""How far behind a cut the next packet of every channel is looked for."""


@dataclass(slots=True)
class Plan:
    """What is to be done."""

    surveys: list[CaptureSurvey]
    roles: list[Role]
    capture_ids: list[str]
    tasks: list[Task]
    notes: list[str] = field(default_factory=list)


def make_plan(
    surveys: list[CaptureSurvey],
    roles: list[Role],
    lake: Location,
    capture_ids: list[str],
    staging: str,
    covered: dict[str, Coverage],
    options: Options,
) -> Plan:
    """Cut the captures into tasks, for each protocol that they hold."""
    plan = Plan(surveys, roles, capture_ids, [])
    readers = tuple(readers_of(found, roles) for found in surveys)
    counting = [counting_protocol(found, roles) for found in surveys]
    parts = [
        (protocol, part)
        for protocol in PROTOCOLS.values()
        for part in _parts(
            plan,
            protocol,
            [i for i, names in enumerate(readers) if protocol.name in names],
            options,
        )
    ]
    for number, (protocol, part) in enumerate(parts):
        transports = {name: each.transport for name, each in PROTOCOLS.items()}
        plan.tasks.append(
            Task(
                number=number,
                captures=tuple(found.location for found in surveys),
                capture_ids=tuple(capture_ids),
                sizes=tuple(found.size for found in surveys),
                pieces=part.pieces,
                roles=tuple(r for r in roles if transports[r.protocol] == protocol.transport),
                bounds=tuple(sorted(part.bounds.items())),
                covered=covered.get(protocol.name, Coverage()),
                lake=lake,
                staging=staging if len(parts) > 1 else None,
                skew_ns=options.skew_ns,
                protocol=protocol.name,
                counted=frozenset(i for i, name in enumerate(counting) if name == protocol.name),
                readers=readers,
                channels=options.channels,
                schema_files=options.schema_files,
                skip_damaged=options.skip_damaged,
                starts=tuple(found.start for found in surveys) if surveys[0].context else None,
            )
        )
    return plan


def _parts(plan: Plan, protocol: Protocol, members: list[int], options: Options) -> list[_Part]:
    """What the tasks of a protocol do with the captures that it reads."""
    surveys = plan.surveys
    parts: list[_Part] = []
    for group in _groups(surveys, members, plan.roles, protocol, options.skew_ns):
        in_pieces = protocol.transport == "udp"
        if in_pieces and all(surveys[index].cuttable for index in group.members):
            parts += _cut(surveys, group, plan.roles, protocol, options)
        else:
            names = ", ".join(surveys[index].location.name for index in group.members)
            large = any(surveys[i].size > options.target_bytes // 4 for i in group.members)
            if large and in_pieces:
                plan.notes.append(f"{names}: compressed or pcapng, read by one task.")
            pieces = tuple(Piece(index) for index in group.members)
            parts.append(_Part(pieces, {}, group.channels, cut=False))
    return _joined(parts, surveys, options.target_bytes)


@dataclass(slots=True)
class _Group:
    """Captures whose packets must be looked at together, for they may be copies."""

    members: list[int]
    channels: frozenset[int]
    first_time_ns: int
    last_time_ns: int


@dataclass(slots=True)
class _Part:
    """What one task is to do."""

    pieces: tuple[Piece, ...]
    bounds: dict[int, Bounds]
    channels: frozenset[int]
    cut: bool
    """Are other parts of its captures done by other tasks?"""


_EVER = 1 << 62


def _groups(
    surveys: list[CaptureSurvey],
    members: list[int],
    roles: list[Role],
    protocol: Protocol,
    skew_ns: int,
) -> list[_Group]:
    """Captures of the same arbitrated channels and the same time, together."""
    groups: list[_Group] = []
    for index in members:
        found = surveys[index]
        new = _Group(
            [index],
            arbitrated_channels(found, roles, protocol),
            (0 if found.first_time_ns is None else found.first_time_ns) - skew_ns,
            (_EVER if found.last_time_ns is None else found.last_time_ns) + skew_ns,
        )
        rest = []
        for group in groups:
            meets = (
                group.first_time_ns <= new.last_time_ns and new.first_time_ns <= group.last_time_ns
            )
            if meets and group.channels & new.channels:
                new = _Group(
                    group.members + new.members,
                    group.channels | new.channels,
                    min(group.first_time_ns, new.first_time_ns),
                    max(group.last_time_ns, new.last_time_ns),
                )
            else:
                rest.append(group)
        groups = [*rest, new]
    return sorted(groups, key=lambda group: min(group.members))


def _joined(parts: list[_Part], surveys: list[CaptureSurvey], target: int) -> list[_Part]:
    """Small whole captures that have no channel in common share a task."""
    result: list[_Part] = []
    basket: _Part | None = None
    held = 0
    for part in parts:
        cuttable = all(piece.start is not None for piece in part.pieces)
        size = sum(surveys[p.capture].size - surveys[p.capture].start for p in part.pieces)
        if not cuttable or part.cut or size > target // 4:
            result.append(part)
        elif basket is None or held + size > target or basket.channels & part.channels:
            if basket is not None:
                result.append(basket)
            basket, held = part, size
        else:
            channels = basket.channels | part.channels
            basket = _Part(basket.pieces + part.pieces, {}, channels, cut=False)
            held += size
    return result if basket is None else [*result, basket]


@dataclass(slots=True)
class _Cut:
    """Where captures are cut at one moment, and the keys that begin there."""

    time_ns: int
    places: dict[int, int] = field(default_factory=dict)
    before: dict[int, int] = field(default_factory=dict)
    behind: dict[int, int] = field(default_factory=dict)
    keys: dict[int, Place] = field(default_factory=dict)


def _cut(
    surveys: list[CaptureSurvey],
    group: _Group,
    roles: list[Role],
    protocol: Protocol,
    options: Options,
) -> list[_Part]:
    """Cut a group of captures at the same moments."""
    cuts: list[_Cut] = []
    with _opened(surveys, group.members) as opened:
        last = {index: surveys[index].start for index in group.members}
        for time in _moments(surveys, group, opened, options.target_bytes):
            found = _cut_at(surveys, roles, protocol, opened, time, options)
            if found is None:
                continue  # a silent channel: nothing tells where its sequence is here
            sizes = [found.places[index] - last[index] for index in group.members]
            if max(sizes) >= options.target_bytes * 3 // 4:
                if cuts:
                    timed = protocol.timed_versions
                    _not_before(found.keys, cuts[-1].keys, timed_versions=timed)
                cuts.append(found)
                last = found.places
    result = []
    for low, high in itertools.pairwise([None, *cuts, None]):
        pieces = tuple(_piece(surveys[index], index, low, high) for index in group.members)
        bounds = {
            channel: Bounds(
                low.keys.get(channel) if low else None, high.keys.get(channel) if high else None
            )
            for channel in {*(low.keys if low else ()), *(high.keys if high else ())}
        }
        result.append(_Part(pieces, bounds, group.channels, cut=bool(cuts)))
    return result


def _piece(found: CaptureSurvey, index: int, low: _Cut | None, high: _Cut | None) -> Piece:
    """What stands between two cuts; without a cut, to the end of the capture or range."""
    before, behind = found.context or (None, None)
    end = None if found.context is None else found.size
    return Piece(
        index,
        low.places[index] if low else found.start,
        high.places[index] if high else end,
        low.before[index] if low else before,
        high.behind[index] if high else behind,
    )


def _not_before(keys: dict[int, Place], earlier: dict[int, Place], *, timed_versions: bool) -> None:
    """Let no channel go back: where one feed has ended, the other tells keys of the past."""
    for channel, key in earlier.items():
        if channel in keys and comes_before(keys[channel], key, timed_versions=timed_versions):
            keys[channel] = key


def _moments(
    surveys: list[CaptureSurvey], group: _Group, opened: dict[int, OpenPcap], target: int
) -> list[int]:
    """The times at which a group might be cut: in large captures, and where others begin."""
    times = set()
    for index in group.members:
        start, size = surveys[index].start, surveys[index].size - surveys[index].start
        count = -(-size // target)
        for number in range(count):
            pcap = opened[index]
            place = pcap.finder.first_boundary(start + size * number // count)
            time = pcap.time_at(place)
            if time is not None:
                times.add(time)
                pcap.know((time, pcap.back(time, place)))
    return sorted(times)[1:]


@contextmanager
def _opened(surveys: list[CaptureSurvey], members: list[int]) -> Iterator[dict[int, OpenPcap]]:
    """Some captures, open together, with the times at their ends."""
    with ExitStack() as stack:
        opened = {}
        for index in members:
            found = surveys[index]
            pcap = opened[index] = stack.enter_context(OpenPcap(found.location))
            low, high = found.context or (pcap.finder.first_boundary(0), found.size)
            first, last = pcap.time_at(low), found.last_time_ns
            pcap.know((first or 0, low), (max(first or 0, last or 0) + 1, high))
        yield opened


def _cut_at(
    surveys: list[CaptureSurvey],
    roles: list[Role],
    protocol: Protocol,
    opened: dict[int, OpenPcap],
    time: int,
    options: Options,
) -> _Cut | None:
    """The cut at a moment; None where the keys that begin there cannot be told."""
    cut = _Cut(time)
    for index, pcap in opened.items():
        found = surveys[index]
        if found.last_time_ns is not None and found.last_time_ns < time - options.skew_ns:
            cut.places[index] = cut.before[index] = cut.behind[index] = found.size
        elif found.first_time_ns is not None and found.first_time_ns > time + options.skew_ns:
            cut.places[index] = cut.before[index] = cut.behind[index] = found.start
        else:
            own = min(max(pcap.at_time(time), found.start), found.size)
            cut.places[index] = own
            cut.before[index] = min(pcap.back(time - options.skew_ns, own), own)
            cut.behind[index] = min(max(pcap.forward(time + options.skew_ns, own), own), found.size)
    of_feeds = {
        role.destination
        for role in roles
        if role.protocol == protocol.name and role.stream in protocol.arbitrated
    }
    wanted = {c for index in opened for c in arbitrated_channels(surveys[index], roles, protocol)}
    nearest = sorted(opened, key=lambda index: surveys[index].first_time_ns or 0)
    for index in nearest:
        missing = wanted - set(cut.keys)
        if missing and cut.places[index] < surveys[index].size:
            place = cut.places[index]
            cut.keys.update(
                _keys_behind(surveys[index].location, place, missing, protocol, of_feeds)
            )
    return cut if wanted <= set(cut.keys) else None


def _keys_behind(
    location: Location, place: int, wanted: set[int], protocol: Protocol, of_feeds: set[str]
) -> dict[int, Place]:
    """The first key of each wanted channel behind a place; a heartbeat tells it too."""
    found: dict[int, Place] = {}
    read = 0
    with protocol.read(location.source, place, None, 256 * 1024) as reader:
        for block in reader:
            names = [protocol.flow_name(flow) for flow in reader.flows]
            rows = np.flatnonzero(np.array([name in of_feeds for name in names])[block.flow])
            for row in rows.tolist():
                key = protocol.place_of(block.payload(row), names[block.flow[row]])
                if key is not None and key[0] in wanted and key[0] not in found:
                    found[key[0]] = key[1]
                    if wanted <= set(found):
                        return found
            read += len(block.buffer)
            if read > SEARCH_BYTES:
                break
    return found
