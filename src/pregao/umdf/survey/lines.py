"""Lines: the UDP destinations of packets, their messages, and the detection of their streams.

A stream belongs to a destination address and port. The same destination is one line in all captures
of a survey, whatever the sender. Streams are detected from samples of captures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from pregao.arrays import Int64Array
from pregao.capture.block_reader import read_blocks
from pregao.capture.layers import Flow
from pregao.capture.split import boundary_finder
from pregao.errors import CaptureError, DecodeError
from pregao.sbe.model import MessageTemplate, Schema
from pregao.sbe.value_specs import ValueSpec
from pregao.schemas.registry import Registry
from pregao.umdf.bulk_decoder import WalkedPackets, walk
from pregao.umdf.packets import check_schema_id
from pregao.umdf.streams import Stream, StreamEvidence
from pregao.umdf.survey import _kernels

if TYPE_CHECKING:
    from pregao.capture.source import Source

STREAMS = tuple(Stream)
"""Streams, in the order of their numbers in columns."""

_PAIRS = 1 << 14

SAMPLE_BYTES = 1024 * 1024
SAMPLES = 3
MAX_SAMPLED = 200
"""Maximum number of sampled captures: rolling files carry the same flows."""


class Destination(NamedTuple):
    """UDP destination of packets."""

    address: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{host}:{self.port}"


class LineMessages(NamedTuple):
    """Number of messages of one kind on a line."""

    line: int
    schema_id: int
    template_id: int
    version: int
    messages: int


class LineTable:
    """The lines of a set of captures, numbered in order of appearance, with their messages."""

    def __init__(self, streams: Mapping[Destination, Stream] | None = None) -> None:
        """Create an empty set; ``streams`` overrides the detected stream of destinations."""
        self.destinations: list[Destination] = []
        self.overrides = dict(streams or {})
        self.uncounted = 0
        """Messages of more kinds than can be distinguished: their headers are noise."""
        self._numbers: dict[Destination, int] = {}
        self._used = 0
        self._slots = np.full(4 * _PAIRS, -1, np.int32)
        self._pair_line = np.empty(_PAIRS, np.int32)
        self._pair_kind = np.empty(_PAIRS, np.int64)
        self._tallies = np.empty(_PAIRS, np.int64)

    def number(self, destination: Destination) -> int:
        """Return the number of a destination; adds a new one."""
        number = self._numbers.get(destination)
        if number is None:
            number = self._numbers[destination] = len(self.destinations)
            self.destinations.append(destination)
        return number

    def add(self, lines: npt.NDArray[np.int32], walked: WalkedPackets) -> npt.NDArray[np.int32]:
        """Count the messages of packets on these lines. Returns the row of each message."""
        rows = np.empty(len(walked), np.int32)
        self._used = _kernels.count_pairs(
            lines, walked.packet, walked.kind, self._slots, self._pair_line, self._pair_kind,
            self._tallies, self._used, rows,
        )  # fmt: skip
        if self._used == _PAIRS:
            self.uncounted += int(np.count_nonzero(rows < 0))
        return rows

    @property
    def kinds(self) -> int:
        """Number of rows: kinds of messages per line."""
        return self._used

    def messages(self) -> list[LineMessages]:
        """Return the counts, row by row."""
        return [
            LineMessages(
                int(line), int(kind) >> 32, int(kind) >> 16 & 0xFFFF, int(kind) & 0xFFFF, int(n)
            )
            for line, kind, n in zip(
                self._pair_line[: self._used].tolist(),
                self._pair_kind[: self._used].tolist(),
                self._tallies[: self._used].tolist(),
                strict=True,
            )
        ]

    def streams(self, registry: Registry) -> list[Stream]:
        """Return the stream of each line: the override, or the one detected from its messages."""
        evidence = [StreamEvidence() for _ in self.destinations]
        for seen in self.messages():
            if schema_of(registry, seen.schema_id, seen.version) is not None:
                evidence[seen.line].add(seen.template_id, seen.messages)
        return [
            self.overrides.get(destination) or evidence[line].decide()
            for line, destination in enumerate(self.destinations)
        ]


class LineNumbers:
    """Maps the flow numbers of one capture to line numbers."""

    def __init__(self, lines: LineTable, flows: Sequence[Flow]) -> None:
        """Create a mapping; ``flows`` is the growing list of the capture's reader."""
        self._lines = lines
        self._flows = flows
        self._of_flow: list[int] = []
        self._table: npt.NDArray[np.int32] = np.empty(0, np.int32)

    def of(self, flow: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Return the lines of packets of these flows."""
        if len(self._flows) > len(self._of_flow):
            for each in self._flows[len(self._of_flow) :]:
                self._of_flow.append(self._lines.number(Destination(each.dst, each.dst_port)))
            self._table = np.array(self._of_flow, np.int32)
        return self._table[flow]


def schema_of(registry: Registry, schema_id: int, version: int) -> Schema | None:
    """Return the schema for a schema id and version, or None if there is none."""
    try:
        check_schema_id(registry, schema_id)
        return registry.find(schema_id, version)
    except DecodeError:
        return None


def message_of(
    registry: Registry, schema_id: int, template_id: int, version: int
) -> MessageTemplate | None:
    """Return the template for a kind of messages, or None if it is rejected or unknown."""
    schema = schema_of(registry, schema_id, version)
    return None if schema is None or not template_id else schema.by_id.get(template_id)


def words(
    walked: WalkedPackets, rows: Int64Array, reading: ValueSpec
) -> tuple[npt.NDArray[np.bool_], Int64Array]:
    """Read an eight-byte field of messages. Returns a mask of those that have it, and values."""
    bodies, lengths = walked.body[rows], walked.block_length[rows]
    present = (lengths >= reading.end) & (bodies + lengths <= walked.end[rows])
    values = np.empty(len(rows), np.int64)
    _kernels.gather_words(walked.buffer, np.where(present, bodies + reading.offset, 0), values)
    return present, values


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
