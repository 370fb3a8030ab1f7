"""The plan of a read of captures: which bytes each partition reads, and what flows carry."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pregao.capture import read_blocks, split_points
from pregao.capture.split import boundary_finder
from pregao.errors import CaptureError
from pregao.lake.ingest import find_captures
from pregao.lake.source.request import ReadRequest
from pregao.lake.source.rows import CaptureRange
from pregao.lake.source.shapes import shape_of
from pregao.lake.store import Location
from pregao.schemas import Registry
from pregao.umdf.bulk import walk
from pregao.umdf.survey import LineNumbers, Lines

SAMPLE_BYTES = 1024 * 1024
SAMPLES = 3
MOST_SAMPLED = 200
"""Of more captures than this, some are looked into: rolling files carry the same flows."""


def ranges_of(request: ReadRequest) -> list[CaptureRange]:
    """The captures that were named, cut where they can be."""
    ranges: list[CaptureRange] = []
    for entry in find_captures(request.captures):
        points = split_points(entry.location.source, request.range_bytes)
        if points == [0]:
            ranges.append(CaptureRange(entry.location))
            continue
        ends: list[int | None] = [*points[1:], None]
        ranges += [
            CaptureRange(entry.location, start, end)
            for start, end in zip(points, ends, strict=True)
        ]
    return ranges


def planned_streams(request: ReadRequest, locations: Iterable[Location]) -> dict[str, str]:
    """What destinations carry; nothing where neither a column nor an option asks for it."""
    if "stream" not in shape_of(request).schema.names and request.streams is None:
        return {}
    return streams_of(locations, request.registry())


def streams_of(locations: Iterable[Location], registry: Registry) -> dict[str, str]:
    """What each destination carries, from looks into the captures."""
    chosen: Sequence[Location] = list(dict.fromkeys(locations))
    if len(chosen) > MOST_SAMPLED:
        step = len(chosen) / MOST_SAMPLED
        chosen = [chosen[int(step * number)] for number in range(MOST_SAMPLED)]
    lines = Lines()
    for location in chosen:
        _look(location, lines)
    found = lines.streams(registry)
    return {
        str(destination): stream.value
        for destination, stream in zip(lines.destinations, found, strict=True)
    }


def _look(location: Location, lines: Lines) -> None:
    """Count the messages in a few places of a capture."""
    with boundary_finder(location.source) as finder:
        if finder is None:
            _sample(location, lines, None, None)
            return
        starts = {
            finder.first_boundary(finder.size * number // SAMPLES) for number in range(SAMPLES)
        }
        for start in sorted(starts):
            end = finder.first_boundary(min(finder.size, start + SAMPLE_BYTES), start)
            if end > start:
                _sample(location, lines, start, end)


def _sample(location: Location, lines: Lines, start: int | None, end: int | None) -> None:
    read = 0
    try:
        with read_blocks(location.source, start, end, SAMPLE_BYTES) as reader:
            numbers = LineNumbers(lines, reader.flows)
            for block in reader:
                lines.add(numbers.of(block.flow), walk(block.buffer, block.offset, block.length))
                read += len(block.buffer)
                if read >= SAMPLES * SAMPLE_BYTES:
                    return
    except CaptureError:
        # Whoever reads the damaged place tells of it; other places may never be read.
        return
