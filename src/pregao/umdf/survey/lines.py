"""Lines: the UDP destinations that packets were sent to, what was seen on each, its stream.

A stream belongs to a destination address and port. The same destination is one line in all the
captures that are read together, whoever sends to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pregao.capture import Flow
from pregao.errors import DecodeError
from pregao.sbe.model import Message, Schema
from pregao.sbe.values import Reading
from pregao.schemas import Registry
from pregao.umdf.bulk import Numbers, Walked
from pregao.umdf.packets import check_schema_id
from pregao.umdf.streams import Stream, StreamEvidence
from pregao.umdf.survey import _kernels

STREAMS = tuple(Stream)
"""The streams in the order of their numbers in a column."""

_PAIRS = 1 << 14


class Destination(NamedTuple):
    """Where packets were sent to."""

    address: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{host}:{self.port}"


class Seen(NamedTuple):
    """How many messages of one kind were on a line."""

    line: int
    schema_id: int
    template_id: int
    version: int
    messages: int


class Lines:
    """The lines of some captures, numbered as they appear, with the messages seen on them."""

    def __init__(self, streams: Mapping[Destination, Stream] | None = None) -> None:
        """``streams`` tells of some destinations what they carry, whatever is seen there."""
        self.destinations: list[Destination] = []
        self.overrides = dict(streams or {})
        self.uncounted = 0
        """Messages of more kinds than can be told apart: their headers are noise."""
        self._numbers: dict[Destination, int] = {}
        self._used = 0
        self._slots = np.full(4 * _PAIRS, -1, np.int32)
        self._pair_line = np.empty(_PAIRS, np.int32)
        self._pair_kind = np.empty(_PAIRS, np.int64)
        self._tallies = np.empty(_PAIRS, np.int64)

    def number(self, destination: Destination) -> int:
        """The number of a destination, which is new or known."""
        number = self._numbers.get(destination)
        if number is None:
            number = self._numbers[destination] = len(self.destinations)
            self.destinations.append(destination)
        return number

    def add(self, lines: npt.NDArray[np.int32], walked: Walked) -> npt.NDArray[np.int32]:
        """Count the messages of packets on these lines; give each message the row it is in."""
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
        """How many rows there are: kinds of messages, line by line."""
        return self._used

    def seen(self) -> list[Seen]:
        """What was seen, row by row."""
        return [
            Seen(int(line), int(kind) >> 32, int(kind) >> 16 & 0xFFFF, int(kind) & 0xFFFF, int(n))
            for line, kind, n in zip(
                self._pair_line[: self._used].tolist(),
                self._pair_kind[: self._used].tolist(),
                self._tallies[: self._used].tolist(),
                strict=True,
            )
        ]

    def streams(self, registry: Registry) -> list[Stream]:
        """The stream of each line: the one it was said to be, or what the messages on it show."""
        evidence = [StreamEvidence() for _ in self.destinations]
        for seen in self.seen():
            if schema_of(registry, seen.schema_id, seen.version) is not None:
                evidence[seen.line].add(seen.template_id, seen.messages)
        return [
            self.overrides.get(destination) or evidence[line].decide()
            for line, destination in enumerate(self.destinations)
        ]


class LineNumbers:
    """From the flow numbers of one capture to the lines of all of them."""

    def __init__(self, lines: Lines, flows: Sequence[Flow]) -> None:
        """``flows`` is the list of the capture's reader, which grows as it is read."""
        self._lines = lines
        self._flows = flows
        self._of_flow: list[int] = []
        self._table: npt.NDArray[np.int32] = np.empty(0, np.int32)

    def of(self, flow: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """The lines of packets of these flows."""
        if len(self._flows) > len(self._of_flow):
            for each in self._flows[len(self._of_flow) :]:
                self._of_flow.append(self._lines.number(Destination(each.dst, each.dst_port)))
            self._table = np.array(self._of_flow, np.int32)
        return self._table[flow]


def schema_of(registry: Registry, schema_id: int, version: int) -> Schema | None:
    """The schema that reads messages of this id and version, or None if they are refused."""
    try:
        check_schema_id(registry, schema_id)
        return registry.find(schema_id, version)
    except DecodeError:
        return None


def message_of(
    registry: Registry, schema_id: int, template_id: int, version: int
) -> Message | None:
    """The template that reads messages of this kind, or None if they are refused or unknown."""
    schema = schema_of(registry, schema_id, version)
    return None if schema is None or not template_id else schema.by_id.get(template_id)


def words(walked: Walked, rows: Numbers, reading: Reading) -> tuple[npt.NDArray[np.bool_], Numbers]:
    """One field of eight bytes of many messages: which of them reach so far, and the numbers."""
    bodies, lengths = walked.body[rows], walked.block_length[rows]
    there = (lengths >= reading.end) & (bodies + lengths <= walked.end[rows])
    values = np.empty(len(rows), np.int64)
    _kernels.gather_words(walked.buffer, np.where(there, bodies + reading.offset, 0), values)
    return there, values
