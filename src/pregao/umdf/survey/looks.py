"""Detection of the streams of destinations from samples of captures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pregao.capture.bulk import read_blocks
from pregao.capture.split import boundary_finder
from pregao.errors import CaptureError
from pregao.schemas.registry import Registry
from pregao.umdf.bulk import walk
from pregao.umdf.survey.lines import LineNumbers, LineTable

if TYPE_CHECKING:
    from pregao.capture.source import Source

SAMPLE_BYTES = 1024 * 1024
SAMPLES = 3
MAX_SAMPLED = 200
"""Maximum number of sampled captures: rolling files carry the same flows."""


def streams_of(captures: Iterable[Source], registry: Registry) -> dict[str, str]:
    """Return the stream of each destination, from samples of the captures."""
    chosen: Sequence[Source] = list(captures)
    if len(chosen) > MAX_SAMPLED:
        step = len(chosen) / MAX_SAMPLED
        chosen = [chosen[int(step * number)] for number in range(MAX_SAMPLED)]
    lines = LineTable()
    for capture in chosen:
        _look(capture, lines)
    found = lines.streams(registry)
    return {
        str(destination): stream.value
        for destination, stream in zip(lines.destinations, found, strict=True)
    }


def _look(capture: Source, lines: LineTable) -> None:
    """Count the messages in a few samples of a capture."""
    with boundary_finder(capture) as finder:
        if finder is None:
            _sample(capture, lines, None, None)
            return
        starts = {
            finder.first_boundary(finder.size * number // SAMPLES) for number in range(SAMPLES)
        }
        for start in sorted(starts):
            end = finder.first_boundary(min(finder.size, start + SAMPLE_BYTES), start)
            if end > start:
                _sample(capture, lines, start, end)


def _sample(capture: Source, lines: LineTable, start: int | None, end: int | None) -> None:
    read = 0
    try:
        with read_blocks(capture, start, end, SAMPLE_BYTES) as reader:
            numbers = LineNumbers(lines, reader.flows)
            for block in reader:
                lines.add(numbers.of(block.flow), walk(block.buffer, block.offset, block.length))
                read += len(block.buffer)
                if read >= SAMPLES * SAMPLE_BYTES:
                    return
    except CaptureError:
        # A reader of the damaged range will report it; other ranges may never be read.
        return
