"""The plan of an ingest: what each destination carries, and which task reads which bytes.

Captures are looked at in a few places only, never walked. Captures that carry the same
incremental channels are cut at the same moments, so that one task has both feeds' copies of the
keys it owns.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pregao.capture import PacketBlock, read_blocks
from pregao.capture.split import BoundaryFinder, boundary_finder
from pregao.clock import SECOND
from pregao.errors import CaptureError, DecodeError, UsageError
from pregao.lake.location import Location
from pregao.lake.tasks import Piece, Task
from pregao.lake.window import Bounds, Coverage, Key, Role
from pregao.umdf.bulk import Walked, walk
from pregao.umdf.packets import PacketDecoder
from pregao.umdf.streams import SEQUENCE, Stream, StreamEvidence
from pregao.umdf.survey.lines import Destination

TARGET_BYTES = 64 * 1024 * 1024
SKEW_NS = SECOND
SAMPLE_BYTES = 4 * 1024 * 1024
SAMPLES = 5
SEARCH_BYTES = 64 * 1024 * 1024
"""How far behind a cut the next packet of every channel is looked for."""
FINGERPRINT_BYTES = 1024 * 1024


@dataclass(slots=True)
class Survey:
    """What a look into a capture showed."""

    location: Location
    size: int
    cuttable: bool
    fingerprint: str
    evidence: dict[str, StreamEvidence] = field(default_factory=dict)
    """By destination."""
    channels: dict[str, Counter[int]] = field(default_factory=dict)
    """By destination, the channels of its packets."""
    first_time_ns: int | None = None


@dataclass(slots=True)
class Plan:
    """What is to be done."""

    surveys: list[Survey]
    roles: list[Role]
    capture_ids: list[str]
    tasks: list[Task]
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Options:
    """How an ingest is to be done."""

    target_bytes: int = TARGET_BYTES
    skew_ns: int = SKEW_NS
    channels: tuple[int, ...] | None = None
    schema_files: tuple[str, ...] = ()
    streams: tuple[tuple[str, Stream], ...] = ()
    """What the user says that destinations carry."""
    feeds: tuple[tuple[str, str], ...] = ()


def survey(location: Location) -> Survey:
    """Look into a capture: its size, its identity at a glance, what its destinations carry."""
    entry = location.info()
    if entry is None:
        raise CaptureError(f"{location}: there is no such file.")
    with boundary_finder(location.source) as finder:
        found = Survey(location, entry.size, finder is not None, fingerprint(location, entry.size))
        if finder is None:
            _sample(found, None, None)
        else:
            step = max(1, entry.size // SAMPLES)
            starts = sorted({finder.first_boundary(step * k) for k in range(SAMPLES)})
            for start in starts:
                _sample(found, start, finder)
    return found


def fingerprint(location: Location, size: int) -> str:
    """A hash of the size, head and tail: different for most different captures."""
    digest = hashlib.sha256(str(size).encode())
    with location.filesystem.open_input_file(location.path) as file:
        digest.update(file.read(min(size, FINGERPRINT_BYTES)))
        file.seek(max(0, size - FINGERPRINT_BYTES))
        digest.update(file.read(FINGERPRINT_BYTES))
    return digest.hexdigest()[:32]


def _sample(found: Survey, start: int | None, finder: BoundaryFinder | None) -> None:
    end = None
    if start is not None and finder is not None:
        end = finder.first_boundary(min(found.size, start + SAMPLE_BYTES), start)
        if end <= start:
            return
    read = 0
    with read_blocks(found.location.source, start, end, SAMPLE_BYTES) as reader:
        for block in reader:
            walked = walk(block.buffer, block.offset, block.length)
            names = [str(Destination(flow.dst, flow.dst_port)) for flow in reader.flows]
            _note(found, names, block, walked)
            read += len(block.buffer)
            if read >= SAMPLES * SAMPLE_BYTES:
                break


def _note(found: Survey, names: list[str], block: PacketBlock, walked: Walked) -> None:
    if found.first_time_ns is None and len(block):
        found.first_time_ns = int(block.time_ns.min())
    for kind in walked.kinds():
        flows = block.flow[walked.packet[kind.rows]]
        for flow, count in zip(*np.unique(flows, return_counts=True), strict=True):
            evidence = found.evidence.setdefault(names[flow], StreamEvidence())
            evidence.add(kind.template_id, int(count))
    sound = walked.fault == 0
    for flow in np.unique(block.flow).tolist():
        channels = walked.channel[sound & (block.flow == flow)]
        tally = found.channels.setdefault(names[flow], Counter())
        for channel, count in zip(*np.unique(channels, return_counts=True), strict=True):
            tally[int(channel)] += int(count)


def decide_roles(
    surveys: Sequence[Survey], known: Iterable[Role] = (), options: Options | None = None
) -> list[Role]:
    """The role of every destination; those of earlier ingests keep theirs."""
    options = options or Options()
    evidence: dict[str, StreamEvidence] = {}
    channels: dict[str, Counter[int]] = {}
    for found in surveys:
        for destination, seen in found.evidence.items():
            evidence.setdefault(destination, StreamEvidence()).templates.update(seen.templates)
        for destination, tally in found.channels.items():
            channels.setdefault(destination, Counter()).update(tally)
    fixed = {role.destination: role for role in known}
    streams, feeds = dict(options.streams), dict(options.feeds)
    roles: list[Role] = []
    letters: dict[int, list[str]] = {}
    for role in fixed.values():
        if role.stream is Stream.INCREMENTAL:
            for channel in _channels_of(role.destination, channels):
                letters.setdefault(channel, []).append(role.feed)
    for destination in sorted(channels, key=_by_address):
        stream = streams.get(destination) or evidence.get(destination, StreamEvidence()).decide()
        earlier = fixed.get(destination)
        feed = "A"
        if stream is Stream.INCREMENTAL:
            own = _channels_of(destination, channels)
            taken = {letter for channel in own for letter in letters.get(channel, [])}
            feed = next(letter for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if letter not in taken)
            if earlier is not None and earlier.stream is stream:
                feed = earlier.feed
            feed = feeds.get(destination, feed)
            for channel in own:
                letters.setdefault(channel, []).append(feed)
        roles.append(Role(destination, stream, feed))
    return roles


def _channels_of(destination: str, channels: dict[str, Counter[int]]) -> list[int]:
    return list(channels.get(destination, ()))


def _by_address(destination: str) -> tuple[Any, ...]:
    """Addresses in the order of their numbers."""
    host, _, port = destination.rpartition(":")
    parts = tuple(int(part) if part.isdigit() else 0 for part in host.split("."))
    return (parts, host, int(port))


def make_plan(
    surveys: list[Survey],
    roles: list[Role],
    lake: Location,
    capture_ids: list[str],
    staging: str,
    covered: Coverage,
    options: Options,
) -> Plan:
    """Cut the captures into tasks."""
    plan = Plan(surveys, roles, capture_ids, [])
    groups = _groups(surveys, roles)
    pieces: list[tuple[tuple[Piece, ...], dict[int, Bounds]]] = []
    for members in groups:
        names = ", ".join(surveys[index].location.name for index in members)
        if all(surveys[index].cuttable for index in members):
            pieces += _cut(surveys, roles, members, options)
        else:
            if any(surveys[i].size > options.target_bytes for i in members):
                plan.notes.append(f"{names}: compressed or pcapng, read by one task.")
            pieces.append((tuple(Piece(index) for index in members), {}))
    small = _joined(pieces, surveys, options.target_bytes)
    template = Task(
        number=0,
        captures=tuple(found.location for found in surveys),
        capture_ids=tuple(capture_ids),
        sizes=tuple(found.size for found in surveys),
        pieces=(),
        roles=tuple(roles),
        bounds=(),
        covered=tuple((key, tuple(runs)) for key, runs in covered.items()),
        lake=lake,
        staging=staging if len(small) > 1 else None,
        skew_ns=options.skew_ns,
        channels=options.channels,
        schema_files=options.schema_files,
    )
    for number, (own, bounds) in enumerate(small):
        ordered = tuple(sorted(bounds.items()))
        plan.tasks.append(replace(template, number=number, pieces=own, bounds=ordered))
    return plan


def _groups(surveys: list[Survey], roles: list[Role]) -> list[list[int]]:
    """Captures that carry the same incremental channels, together."""
    stream = {role.destination: role.stream for role in roles}
    groups: list[tuple[set[int], list[int]]] = []
    for index, found in enumerate(surveys):
        own = {
            channel
            for destination, tally in found.channels.items()
            if stream.get(destination) is Stream.INCREMENTAL
            for channel in tally
        }
        members = [index]
        rest = []
        for channels, others in groups:
            if own & channels:
                own |= channels
                members = others + members
            else:
                rest.append((channels, others))
        groups = [*rest, (own, members)]
    return [members for _, members in groups]


def _joined(
    pieces: list[tuple[tuple[Piece, ...], dict[int, Bounds]]],
    surveys: list[Survey],
    target: int,
) -> list[tuple[tuple[Piece, ...], dict[int, Bounds]]]:
    """Small whole captures without keys in common share a task."""
    result: list[tuple[tuple[Piece, ...], dict[int, Bounds]]] = []
    basket: list[Piece] = []
    held = 0
    for own, bounds in pieces:
        whole = all(piece.first and piece.end is None and piece.start is not None for piece in own)
        size = sum(surveys[piece.capture].size for piece in own)
        if not whole or bounds or size > target // 4:
            result.append((own, bounds))
            continue
        if basket and held + size > target:
            result.append((tuple(basket), {}))
            basket, held = [], 0
        basket.extend(own)
        held += size
    if basket:
        result.append((tuple(basket), {}))
    return result


@dataclass(slots=True)
class _Cut:
    """Where captures are cut at one moment, and the keys that begin there."""

    time_ns: int
    places: dict[int, int]
    before: dict[int, int]
    behind: dict[int, int]
    keys: dict[int, Key]


def _cut(
    surveys: list[Survey], roles: list[Role], members: list[int], options: Options
) -> list[tuple[tuple[Piece, ...], dict[int, Bounds]]]:
    """Cut a group of captures at the same moments."""
    reference = max(members, key=lambda index: surveys[index].size)
    count = -(-surveys[reference].size // options.target_bytes)
    cuts: list[_Cut] = []
    if count > 1:
        with _finders(surveys, members) as finders:
            for number in range(1, count):
                offset = surveys[reference].size * number // count
                found = _cut_at(surveys, roles, finders, reference, offset, options)
                if found is not None and (not cuts or found.time_ns > cuts[-1].time_ns):
                    cuts.append(found)
    result = []
    for number in range(len(cuts) + 1):
        low = cuts[number - 1] if number else None
        high = cuts[number] if number < len(cuts) else None
        pieces = []
        for index in members:
            start = low.places[index] if low else 0
            end = high.places[index] if high else None
            pieces.append(
                Piece(
                    index,
                    start,
                    end,
                    low.before[index] if low else None,
                    high.behind[index] if high else None,
                )
            )
        channels = set(low.keys if low else ()) | set(high.keys if high else ())
        bounds = {
            channel: Bounds(
                low.keys.get(channel) if low else None, high.keys.get(channel) if high else None
            )
            for channel in channels
        }
        result.append((tuple(pieces), bounds))
    return result


class _finders:  # noqa: N801 - reads like the function it is used as
    """The boundary finders of some captures, open together."""

    def __init__(self, surveys: list[Survey], members: list[int]) -> None:
        self._managers = {i: boundary_finder(surveys[i].location.source) for i in members}

    def __enter__(self) -> dict[int, BoundaryFinder]:
        found = {}
        for index, manager in self._managers.items():
            finder = manager.__enter__()
            assert finder is not None
            found[index] = finder
        return found

    def __exit__(self, *_error: object) -> None:
        for manager in self._managers.values():
            manager.__exit__(None, None, None)


def _cut_at(
    surveys: list[Survey],
    roles: list[Role],
    finders: dict[int, BoundaryFinder],
    reference: int,
    offset: int,
    options: Options,
) -> _Cut | None:
    """The cut near an offset of the reference capture; None where none can be made."""
    place = finders[reference].first_boundary(offset)
    time = finders[reference].time_at(place)
    if time is None:
        return None
    cut = _Cut(time, {}, {}, {}, {})
    for index, finder in finders.items():
        own = place if index == reference else finder.boundary_at_time(time)
        cut.places[index] = own
        cut.before[index] = min(finder.boundary_at_time(time - options.skew_ns), own)
        cut.behind[index] = max(finder.boundary_at_time(time + options.skew_ns), own)
    stream = {role.destination: role.stream for role in roles}
    for index in finders:
        wanted = {
            channel
            for destination, tally in surveys[index].channels.items()
            if stream.get(destination) is Stream.INCREMENTAL
            for channel in tally
        }
        missing = wanted - set(cut.keys)
        if missing:
            keys = _keys_behind(surveys[index].location, cut.places[index], missing, stream)
            cut.keys.update(keys)
            if missing - set(keys):
                return None  # a silent channel: nothing tells where its sequence is here
    return cut


def _keys_behind(
    location: Location, place: int, wanted: set[int], stream: dict[str, Stream]
) -> dict[int, Key]:
    """The first key of each incremental channel behind a place; a heartbeat tells it too."""
    found: dict[int, Key] = {}
    read = 0
    with read_blocks(location.source, place, None, 256 * 1024) as reader:
        for block in reader:
            names = [str(Destination(flow.dst, flow.dst_port)) for flow in reader.flows]
            incremental = [stream.get(name) is Stream.INCREMENTAL for name in names]
            rows = np.flatnonzero(np.array(incremental, np.bool_)[block.flow])
            for row in rows.tolist():
                key = _key_of(block.payload(row))
                if key is not None and key[0] in wanted and key[0] not in found:
                    found[key[0]] = key[1]
                    if wanted <= set(found):
                        return found
            read += len(block.buffer)
            if read > SEARCH_BYTES:
                break
    return found


def _key_of(payload: bytes) -> tuple[int, Key] | None:
    """The channel and key of a packet; of a heartbeat, the key it announces."""
    try:
        packet = _DECODER.decode(payload)
    except DecodeError:
        return None
    header = packet.header
    if header.sequenced:
        return header.channel, Key(header.sequence_version, header.sequence_number)
    for message in packet.messages:
        if message.message.id == SEQUENCE:
            return header.channel, Key(header.sequence_version, message["nextSeqNo"])
    return None


_DECODER = PacketDecoder()


def check_options(options: Options) -> None:
    """Refuse what makes no sense."""
    if options.target_bytes < 1:
        raise UsageError("The size of a range must be at least one byte.")
    if options.skew_ns < 0:
        raise UsageError("The skew of the feeds cannot be negative.")
    if options.channels is not None and not options.channels:
        raise UsageError("Name at least one channel, or leave the filter out.")
