"""Plan of a read of captures: byte ranges of partitions, and streams of flows."""

from __future__ import annotations

from collections.abc import Iterable

from pregao.capture.split import split_points
from pregao.lake.datasource.options import ReadRequest
from pregao.lake.datasource.range_reader import CaptureRange
from pregao.lake.datasource.row_shapes import shape_of
from pregao.lake.ingest.discovery import find_captures
from pregao.lake.storage.filesystem import Location
from pregao.schemas.registry import Registry
from pregao.umdf.survey.lines import streams_of as survey_streams


def ranges_of(request: ReadRequest) -> list[CaptureRange]:
    """Return the named captures, split into ranges where possible."""
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
    """Return the stream of each destination; empty if no column or option needs it."""
    if "stream" not in shape_of(request).schema.names and request.streams is None:
        return {}
    return streams_of(locations, request.registry())


def streams_of(locations: Iterable[Location], registry: Registry) -> dict[str, str]:
    """Return the stream of each destination, from samples of the captures."""
    chosen = dict.fromkeys(locations)
    return survey_streams([location.source for location in chosen], registry)
