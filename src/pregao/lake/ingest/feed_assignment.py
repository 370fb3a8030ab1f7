"""Roles of the captures' flows: protocol, stream and feed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from pregao.lake.ingest.options import IngestOptions
from pregao.lake.ingest.protocol import IngestProtocol, ProtocolEvidence
from pregao.lake.ingest.registry import PROTOCOLS, first_protocol
from pregao.lake.ingest.survey import CaptureSurvey
from pregao.lake.ingest.window import FIRST_FEED, FlowRole
from pregao.umdf.arbitration import feed_name


@dataclass(frozen=True, slots=True)
class StoredFlowRole:
    """Role of a flow in an earlier ingest."""

    destination: str
    stream: str
    feed: str
    channels: tuple[int, ...]
    protocol: str


def decide_roles(
    surveys: Sequence[CaptureSurvey],
    known: Iterable[StoredFlowRole] = (),
    options: IngestOptions | None = None,
) -> list[FlowRole]:
    """Return the role of every flow; flows of earlier ingests keep their feed."""
    options = options or IngestOptions()
    seen: dict[str, dict[str, ProtocolEvidence]] = {}
    for found in surveys:
        for name, by_flow in found.evidence.items():
            for flow, sighting in by_flow.items():
                seen.setdefault(flow, {}).setdefault(name, ProtocolEvidence()).add(sighting)
    streams, feeds = dict(options.streams), dict(options.feeds)
    roles: list[FlowRole] = []
    fixed: dict[str, StoredFlowRole] = {}
    used: dict[tuple[str, int], set[str]] = {}
    for role in known:
        if role.protocol not in PROTOCOLS:
            continue
        fixed[role.destination] = role
        if role.stream in PROTOCOLS[role.protocol].arbitrated:
            for channel in role.channels:
                used.setdefault((role.protocol, channel), set()).add(role.feed)
    for flow in sorted(seen, key=_by_address):
        earlier = fixed.get(flow)
        protocol = _protocol_of(seen[flow], earlier)
        sighting = seen[flow].get(protocol.name, ProtocolEvidence())
        stream = streams.get(flow) or protocol.stream_of(sighting.kinds)
        feed = FIRST_FEED
        if stream in protocol.arbitrated:
            pairs = [(protocol.name, channel) for channel in sighting.channels]
            taken = {name for pair in pairs for name in used.get(pair, ())}
            feed = next(name for name in map(feed_name, count()) if name not in taken)
            if earlier is not None and earlier.stream == stream:
                feed = earlier.feed
            feed = feeds.get(flow, feed)
            for pair in pairs:
                used.setdefault(pair, set()).add(feed)
        roles.append(FlowRole(flow, stream, feed, protocol.name))
    return roles


def _protocol_of(
    evidence: Mapping[str, ProtocolEvidence], earlier: StoredFlowRole | None
) -> IngestProtocol:
    """Return the protocol with the most evidence on a flow; without any, the earlier ingest's."""
    best = max(PROTOCOLS, key=lambda name: evidence[name].sound if name in evidence else 0)
    if best in evidence and evidence[best].sound:
        return PROTOCOLS[best]
    return first_protocol() if earlier is None else PROTOCOLS[earlier.protocol]


def _by_address(flow: str) -> tuple[Any, ...]:
    """Sort key that orders addresses numerically."""
    host, _, port = flow.rpartition(":")
    parts = tuple(int(part) if part.isdigit() else 0 for part in host.split("."))
    return (parts, host, int(port))


def arbitrated_channels(
    found: CaptureSurvey, roles: Iterable[FlowRole], protocol: IngestProtocol
) -> frozenset[int]:
    """Return the channels of which a capture has an arbitrated stream."""
    stream = {role.destination: role.stream for role in roles if role.protocol == protocol.name}
    return frozenset(
        channel
        for flow, sighting in found.evidence.get(protocol.name, {}).items()
        if stream.get(flow) in protocol.arbitrated
        for channel in sighting.channels
    )


def counting_protocol(found: CaptureSurvey, roles: Iterable[FlowRole]) -> str:
    """Return the protocol whose tasks count and hash a capture: the first of its UDP flows."""
    flows = found.flows()
    present = {role.protocol for role in roles if role.destination in flows}
    candidates = (
        name for name, each in PROTOCOLS.items() if each.transport == "udp" and name in present
    )
    return next(candidates, first_protocol().name)


def readers_of(found: CaptureSurvey, roles: Iterable[FlowRole]) -> frozenset[str]:
    """Return the protocols whose tasks read a capture."""
    roles = list(roles)
    flows = found.flows()
    present = {role.protocol for role in roles if role.destination in flows}
    return frozenset({*present, counting_protocol(found, roles)})
