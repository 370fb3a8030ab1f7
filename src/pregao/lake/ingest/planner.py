"""The plan of an ingest: the byte ranges and protocol of each task.

Captures with the same channels of an arbitrated stream are split at the same times, so that one
task reads both feeds' copies of the packet keys that it owns.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import numpy as np

from pregao.lake.ingest.feed_assignment import arbitrated_channels, counting_protocol, readers_of
from pregao.lake.ingest.options import IngestOptions
from pregao.lake.ingest.pcap_index import PcapSeeker
from pregao.lake.ingest.protocol import IngestProtocol
from pregao.lake.ingest.registry import PROTOCOLS
from pregao.lake.ingest.sequence_ranges import Coverage
from pregao.lake.ingest.survey import CaptureSurvey
from pregao.lake.ingest.task import IngestTask, TaskRange
from pregao.lake.ingest.window import FlowRole, KeyBounds, comes_before
from pregao.lake.storage.filesystem import Location
from pregao.umdf.sequencing import PacketKey

SEARCH_BYTES = 64 * 1024 * 1024
"""Maximum bytes after a cut in which the next packet of every channel is searched."""


@dataclass(slots=True)
class IngestPlan:
    """The tasks of an ingest."""

    surveys: list[CaptureSurvey]
    roles: list[FlowRole]
    capture_ids: list[str]
    tasks: list[IngestTask]
    notes: list[str] = field(default_factory=list)


def make_plan(
    surveys: list[CaptureSurvey],
    roles: list[FlowRole],
    lake: Location,
    capture_ids: list[str],
    staging: str,
    covered: dict[str, Coverage],
    options: IngestOptions,
) -> IngestPlan:
    """Split the captures into tasks, for each protocol that they contain."""
    plan = IngestPlan(surveys, roles, capture_ids, [])
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
            IngestTask(
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


def _parts(
    plan: IngestPlan, protocol: IngestProtocol, members: list[int], options: IngestOptions
) -> list[_Part]:
    """Return the task ranges of a protocol over the captures that it reads."""
    surveys = plan.surveys
    parts: list[_Part] = []
    for group in _groups(surveys, members, plan.roles, protocol, options.skew_ns):
        splittable = protocol.transport == "udp"
        if splittable and all(surveys[index].cuttable for index in group.members):
            parts += _cut(surveys, group, plan.roles, protocol, options)
        else:
            names = ", ".join(surveys[index].location.name for index in group.members)
            large = any(surveys[i].size > options.target_bytes // 4 for i in group.members)
            if large and splittable:
                plan.notes.append(f"{names}: compressed or pcapng, read by one task.")
            pieces = tuple(TaskRange(index) for index in group.members)
            parts.append(_Part(pieces, {}, group.channels, cut=False))
    return _joined(parts, surveys, options.target_bytes)


@dataclass(slots=True)
class _Group:
    """Captures to arbitrate together, because they may have duplicate packets."""

    members: list[int]
    channels: frozenset[int]
    first_time_ns: int
    last_time_ns: int


@dataclass(slots=True)
class _Part:
    """The ranges and packet keys of one task."""

    pieces: tuple[TaskRange, ...]
    bounds: dict[int, KeyBounds]
    channels: frozenset[int]
    cut: bool
    """Whether other tasks read other parts of its captures."""


_EVER = 1 << 62


def _groups(
    surveys: list[CaptureSurvey],
    members: list[int],
    roles: list[FlowRole],
    protocol: IngestProtocol,
    skew_ns: int,
) -> list[_Group]:
    """Group captures with common arbitrated channels and overlapping times."""
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
            overlaps = (
                group.first_time_ns <= new.last_time_ns and new.first_time_ns <= group.last_time_ns
            )
            if overlaps and group.channels & new.channels:
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
    """Merge small uncut captures without common channels into shared tasks."""
    result: list[_Part] = []
    basket: _Part | None = None
    basket_bytes = 0
    for part in parts:
        cuttable = all(piece.start is not None for piece in part.pieces)
        size = sum(surveys[p.capture].size - surveys[p.capture].start for p in part.pieces)
        if not cuttable or part.cut or size > target // 4:
            result.append(part)
        elif basket is None or basket_bytes + size > target or basket.channels & part.channels:
            if basket is not None:
                result.append(basket)
            basket, basket_bytes = part, size
        else:
            channels = basket.channels | part.channels
            basket = _Part(basket.pieces + part.pieces, {}, channels, cut=False)
            basket_bytes += size
    return result if basket is None else [*result, basket]


@dataclass(slots=True)
class _Cut:
    """Positions of captures at one time, and the packet keys that begin there."""

    time_ns: int
    positions: dict[int, int] = field(default_factory=dict)
    before: dict[int, int] = field(default_factory=dict)
    after: dict[int, int] = field(default_factory=dict)
    keys: dict[int, PacketKey] = field(default_factory=dict)


def _cut(
    surveys: list[CaptureSurvey],
    group: _Group,
    roles: list[FlowRole],
    protocol: IngestProtocol,
    options: IngestOptions,
) -> list[_Part]:
    """Split a group of captures at the same times."""
    cuts: list[_Cut] = []
    with _opened(surveys, group.members) as opened:
        last = {index: surveys[index].start for index in group.members}
        for time in _moments(surveys, group, opened, options.target_bytes):
            found = _cut_at(surveys, roles, protocol, opened, time, options)
            if found is None:
                continue  # a silent channel: its current packet key is unknown
            sizes = [found.positions[index] - last[index] for index in group.members]
            if max(sizes) >= options.target_bytes * 3 // 4:
                if cuts:
                    timed = protocol.timed_versions
                    _not_before(found.keys, cuts[-1].keys, timed_versions=timed)
                cuts.append(found)
                last = found.positions
    result = []
    for low, high in itertools.pairwise([None, *cuts, None]):
        pieces = tuple(_piece(surveys[index], index, low, high) for index in group.members)
        bounds = {
            channel: KeyBounds(
                low.keys.get(channel) if low else None, high.keys.get(channel) if high else None
            )
            for channel in {*(low.keys if low else ()), *(high.keys if high else ())}
        }
        result.append(_Part(pieces, bounds, group.channels, cut=bool(cuts)))
    return result


def _piece(found: CaptureSurvey, index: int, low: _Cut | None, high: _Cut | None) -> TaskRange:
    """Return the range between two cuts; without a cut, up to the end of the capture or range."""
    before, after = found.context or (None, None)
    end = None if found.context is None else found.size
    return TaskRange(
        index,
        low.positions[index] if low else found.start,
        high.positions[index] if high else end,
        low.before[index] if low else before,
        high.after[index] if high else after,
    )


def _not_before(
    keys: dict[int, PacketKey], earlier: dict[int, PacketKey], *, timed_versions: bool
) -> None:
    """Raise keys to at least the earlier ones: after one feed has ended, the other may lag."""
    for channel, key in earlier.items():
        if channel in keys and comes_before(keys[channel], key, timed_versions=timed_versions):
            keys[channel] = key


def _moments(
    surveys: list[CaptureSurvey], group: _Group, opened: dict[int, PcapSeeker], target: int
) -> list[int]:
    """Return candidate times to split a group: within large captures and at starts of others."""
    times = set()
    for index in group.members:
        start, size = surveys[index].start, surveys[index].size - surveys[index].start
        count = -(-size // target)
        for number in range(count):
            pcap = opened[index]
            position = pcap.finder.first_boundary(start + size * number // count)
            time = pcap.time_at(position)
            if time is not None:
                times.add(time)
                pcap.add_known_times((time, pcap.back(time, position)))
    return sorted(times)[1:]


@contextmanager
def _opened(surveys: list[CaptureSurvey], members: list[int]) -> Iterator[dict[int, PcapSeeker]]:
    """Open captures and add the times of their ends."""
    with ExitStack() as stack:
        opened = {}
        for index in members:
            found = surveys[index]
            pcap = opened[index] = stack.enter_context(PcapSeeker(found.location))
            low, high = found.context or (pcap.finder.first_boundary(0), found.size)
            first, last = pcap.time_at(low), found.last_time_ns
            pcap.add_known_times((first or 0, low), (max(first or 0, last or 0) + 1, high))
        yield opened


def _cut_at(
    surveys: list[CaptureSurvey],
    roles: list[FlowRole],
    protocol: IngestProtocol,
    opened: dict[int, PcapSeeker],
    time: int,
    options: IngestOptions,
) -> _Cut | None:
    """Return the cut at a time; None if the keys that begin there cannot be determined."""
    cut = _Cut(time)
    for index, pcap in opened.items():
        found = surveys[index]
        if found.last_time_ns is not None and found.last_time_ns < time - options.skew_ns:
            cut.positions[index] = cut.before[index] = cut.after[index] = found.size
        elif found.first_time_ns is not None and found.first_time_ns > time + options.skew_ns:
            cut.positions[index] = cut.before[index] = cut.after[index] = found.start
        else:
            own = min(max(pcap.at_time(time), found.start), found.size)
            cut.positions[index] = own
            cut.before[index] = min(pcap.back(time - options.skew_ns, own), own)
            cut.after[index] = min(max(pcap.forward(time + options.skew_ns, own), own), found.size)
    of_feeds = {
        role.destination
        for role in roles
        if role.protocol == protocol.name and role.stream in protocol.arbitrated
    }
    channels = {c for index in opened for c in arbitrated_channels(surveys[index], roles, protocol)}
    nearest = sorted(opened, key=lambda index: surveys[index].first_time_ns or 0)
    for index in nearest:
        missing = channels - set(cut.keys)
        if missing and cut.positions[index] < surveys[index].size:
            position = cut.positions[index]
            cut.keys.update(
                _keys_after(surveys[index].location, position, missing, protocol, of_feeds)
            )
    return cut if channels <= set(cut.keys) else None


def _keys_after(
    location: Location,
    position: int,
    wanted: set[int],
    protocol: IngestProtocol,
    of_feeds: set[str],
) -> dict[int, PacketKey]:
    """Return the first key of each channel after a position; a heartbeat announces one too."""
    found: dict[int, PacketKey] = {}
    read = 0
    with protocol.read(location.source, position, None, 256 * 1024) as reader:
        for block in reader:
            names = [protocol.flow_name(flow) for flow in reader.flows]
            rows = np.flatnonzero(np.array([name in of_feeds for name in names])[block.flow])
            for row in rows.tolist():
                key = protocol.packet_key(block.payload(row), names[block.flow[row]])
                if key is not None and key[0] in wanted and key[0] not in found:
                    found[key[0]] = key[1]
                    if wanted <= set(found):
                        return found
            read += len(block.buffer)
            if read > SEARCH_BYTES:
                break
    return found
