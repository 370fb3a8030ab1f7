"""Sampled survey of a capture: size, fingerprint, and the protocols and streams of its flows.

Only a few samples of a capture are read, never all of it. B3 protocols that the ingest does not
decode are detected by the form of their datagrams.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pregao.capture.blocks import PacketBlock
from pregao.capture.split import BoundaryFinder, boundary_finder
from pregao.capture.statistics import CaptureStatistics
from pregao.errors import CaptureError
from pregao.lake.ingest.fingerprint import fingerprint
from pregao.lake.ingest.growing_file import FAR_AT_ENDS_NS, sensible_time, sensible_times
from pregao.lake.ingest.protocol import IngestProtocol, ProtocolEvidence
from pregao.lake.ingest.registry import PROTOCOLS
from pregao.lake.storage.filesystem import Location

if TYPE_CHECKING:
    from pregao.lake.ingest.protocol import PayloadReader

_TECHNICAL_HEADER = struct.Struct(">IHHH")
"""UMDF FIX/FAST: sequence number, number of chunks, current chunk, length of the payload."""
_MAX_SHOWN = 1000

SAMPLE_BYTES = 4 * 1024 * 1024
SAMPLES = 5


def count_like_fast(block: PacketBlock) -> int:
    """Count the datagrams that look like UMDF FIX/FAST among the first `_MAX_SHOWN` of a block."""
    return sum(_like_fast(block.payload(row)) for row in range(min(len(block), _MAX_SHOWN)))


def _like_fast(payload: bytes) -> bool:
    if len(payload) <= _TECHNICAL_HEADER.size:
        return False
    number, chunks, chunk, length = _TECHNICAL_HEADER.unpack_from(payload)
    fits = length == len(payload) - _TECHNICAL_HEADER.size
    return bool(number and 1 <= chunk <= chunks and fits)


@dataclass(slots=True)
class CaptureSurvey:
    """Result of surveying a capture."""

    location: Location
    size: int
    cuttable: bool
    fingerprint: str
    evidence: dict[str, dict[str, ProtocolEvidence]] = field(default_factory=dict)
    """Evidence by protocol and flow."""
    statistics: CaptureStatistics = field(default_factory=CaptureStatistics)
    """Counters of the sampled packets."""
    tcp_scanned: bool = False
    """Whether the complete capture was scanned for protocols over TCP."""
    like_fast: int = 0
    """Datagrams that look like UMDF FIX/FAST but that no protocol detected."""

    @property
    def sound(self) -> int:
        """Number of payloads that a protocol detected."""
        return sum(each.sound for by_flow in self.evidence.values() for each in by_flow.values())

    first_time_ns: int | None = None
    last_time_ns: int | None = None
    """Time of its last packet; None if that requires reading the complete capture."""
    start: int = 0
    """First byte of a range of a growing file; the range ends at ``size``."""
    context: tuple[int, int] | None = None
    """Bytes to read around such a range, as begin and end."""
    identity: str = ""
    """Identity of a range; a complete capture is identified by its content."""

    def sighting(self, protocol: str, flow: str) -> ProtocolEvidence:
        """Return the evidence of a protocol on a flow; adds the flow if missing."""
        return self.evidence.setdefault(protocol, {}).setdefault(flow, ProtocolEvidence())

    def flows(self) -> set[str]:
        """Return all flows found."""
        return {flow for by_flow in self.evidence.values() for flow in by_flow}


def survey(location: Location) -> CaptureSurvey:
    """Survey a capture from a few samples."""
    entry = location.info()
    if entry is None:
        raise CaptureError(f"{location}: no such file.")
    with boundary_finder(location.source) as finder:
        found = CaptureSurvey(
            location, entry.size, finder is not None, fingerprint(location, entry.size)
        )
        if finder is None:
            _sample(found, None, None)
        else:
            step = max(1, entry.size // SAMPLES)
            starts = sorted({finder.first_boundary(step * k) for k in range(SAMPLES)})
            for start in starts:
                _sample(found, start, finder)
            found.first_time_ns = _first_time(finder)
            found.last_time_ns = _last_time(finder)
    return found


def survey_range(
    location: Location, start: int, end: int, context: tuple[int, int]
) -> CaptureSurvey:
    """Survey a range of a file that may continue after it; if it is empty, survey its context."""
    low, high = (start, end) if start < end else context
    with boundary_finder(location.source) as finder:
        if finder is None or finder.size < high:
            raise CaptureError(f"{location}: the growing file was replaced or truncated.")
        found = CaptureSurvey(location, end, True, "", start=start, context=context)
        step = max(1, (high - low) // SAMPLES)
        positions = {finder.first_boundary(low + step * k, low) for k in range(SAMPLES)}
        length = min(SAMPLE_BYTES, max(SAMPLE_BYTES // 16, step // 8))
        for position in sorted(positions):
            if position < high:
                _read(found, position, min(high, position + length))
        found.first_time_ns = finder.time_at(low)
        found.last_time_ns = finder.time_at(high) or _last_time(finder)
    return found


def _last_time(finder: BoundaryFinder) -> int | None:
    """Return the time of the last packet, searching from the end."""
    reach = 4096
    while True:
        position = finder.first_boundary(max(0, finder.size - reach))
        time = finder.time_at(position)
        times: list[int] = []
        while time is not None:
            times = [*times[-4:], time]
            position = finder.following(position)
            time = finder.time_at(position)
        if len(times) > 2 or reach >= finder.size:
            return sensible_time(times[-1], times[:-1], FAR_AT_ENDS_NS) if times else None
        reach *= 16


def _first_time(finder: BoundaryFinder) -> int | None:
    """Return the time of the first packet, corrected if it is an outlier among the next ones."""
    position = finder.first_boundary(0)
    times: list[int] = []
    while len(times) < 5 and (time := finder.time_at(position)) is not None:
        times.append(time)
        position = finder.following(position)
    return sensible_time(times[0], times[1:], FAR_AT_ENDS_NS) if times else None


def _sample(found: CaptureSurvey, start: int | None, finder: BoundaryFinder | None) -> None:
    end = None
    if start is not None and finder is not None:
        end = finder.first_boundary(min(found.size, start + SAMPLE_BYTES), start)
        if end <= start:
            return
    _read(found, start, end)


def scan_tcp(found: CaptureSurvey) -> bool:
    """Scan a complete capture for protocols over TCP, after its samples showed none."""
    before = found.sound
    for protocol in PROTOCOLS.values():
        if protocol.transport == "tcp":
            with protocol.read(found.location.source, None, None, SAMPLE_BYTES) as reader:
                for block in reader:
                    _see(found, protocol, reader, block)
                    if found.sound > before:
                        return True
    return False


def _read(found: CaptureSurvey, start: int | None, end: int | None) -> None:
    """Add the evidence of every protocol in a range."""
    readers: dict[Callable[..., PayloadReader], list[IngestProtocol]] = {}
    tcp = 0
    for protocol in PROTOCOLS.values():
        if protocol.transport == "udp":
            readers.setdefault(protocol.read, []).append(protocol)
    for read, protocols in readers.items():
        seen = _look(found, protocols, read(found.location.source, start, end, SAMPLE_BYTES))
        tcp = max(tcp, seen)
    # A growing file is ingested range by range, which only datagrams allow.
    for protocol in PROTOCOLS.values() if tcp and found.context is None else ():
        if protocol.transport == "tcp":
            _look(found, [protocol], protocol.read(found.location.source, start, end, SAMPLE_BYTES))


def _look(found: CaptureSurvey, protocols: list[IngestProtocol], opened: PayloadReader) -> int:
    """Add the evidence of protocols; return the number of TCP segments."""
    with opened as reader:
        for block in reader:
            if found.first_time_ns is None and len(block):
                found.first_time_ns = int(sensible_times(block.time_ns)[0].min())
            for protocol in protocols:
                _see(found, protocol, reader, block)
            if not found.sound:
                found.like_fast += count_like_fast(block)
            if reader.statistics.bytes >= SAMPLES * SAMPLE_BYTES:
                break
        if protocols[0].transport == "udp":
            found.statistics.add(reader.statistics)
        return reader.statistics.tcp


def _see(
    found: CaptureSurvey, protocol: IngestProtocol, reader: PayloadReader, block: PacketBlock
) -> None:
    names = [protocol.flow_name(flow) for flow in reader.flows]
    for flow, seen in protocol.look(block, names).items():
        found.sighting(protocol.name, flow).add(seen)
