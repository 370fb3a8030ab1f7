"""Many datagrams of the legacy feed at once: their chunks and the heads of their messages.

The column form of `chunks`, and of what `messages` reads first of a message.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from pregao.fast import Field, Kind, Operator, Template, Templates
from pregao.legacy import _kernels
from pregao.legacy.messages import MsgType, message_type
from pregao.legacy.times import DAY_DIGITS, FIRST_WITH_MILLISECONDS

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]

FAULTS: Final = {
    _kernels.SHORT: "too short for a technical header",
    _kernels.NOT_A_CHUNK: "a chunk that is not among those of its message",
    _kernels.EMPTY_CHUNK: "a chunk without bytes",
    _kernels.LONG_CHUNK: "a chunk runs past the end of its datagram",
    _kernels.EMPTY: "an empty datagram",
}
"""What is wrong with datagrams, as `read_chunks` says it."""
_NUMBER, _SENDING_TIME = 34, 52
_DAY_AFTER_ALL: Final = 100_000_000


@dataclass(slots=True)
class ChunkColumns:
    """The chunks of datagrams, in order."""

    datagram: Numbers
    """Which one each is in."""
    ordinal: Numbers
    """Which chunk of its datagram it is, from 0."""
    number: Numbers
    count: Numbers
    index: Numbers
    start: Numbers
    size: Numbers
    fault: npt.NDArray[np.int8]
    """Of each datagram: what is wrong behind its last sound chunk; 0 if nothing is."""
    chunks: Numbers
    """How many each datagram has."""

    @property
    def firsts(self) -> Numbers:
        """The first chunk of each datagram that has one."""
        return np.flatnonzero(self.ordinal == 0)


def chunk_columns(buffer: Bytes, offset: Numbers, length: npt.NDArray[np.int32]) -> ChunkColumns:
    """The chunks of datagrams."""
    chunks = np.zeros(len(offset), np.int64)
    fault = np.zeros(len(offset), np.int8)
    total = int(_kernels.count_chunks(buffer, offset, length, chunks, fault))
    datagram, ordinal, number, count, index, start, size = np.empty((7, total), np.int64)
    _kernels.list_chunks(
        buffer, offset, chunks, datagram, ordinal, number, count, index, start, size
    )
    return ChunkColumns(datagram, ordinal, number, count, index, start, size, fault, chunks)


@dataclass(slots=True)
class WholeMessages:
    """Whole messages: where they are in a buffer, and the chunk that each is known by."""

    buffer: Bytes
    start: Numbers
    end: Numbers
    chunk: Numbers


def whole_messages(
    buffer: Bytes, chunks: ChunkColumns, joined: Sequence[tuple[int, bytes]]
) -> WholeMessages:
    """Messages in one chunk where they are, and behind them those that were put together."""
    single = np.flatnonzero(chunks.count == 1)
    start, end = chunks.start[single], (chunks.start + chunks.size)[single]
    if not joined:
        return WholeMessages(buffer, start, end, single)
    sizes = np.array([len(data) for _, data in joined], np.int64)
    behind = len(buffer) + np.cumsum(sizes)
    tail = np.frombuffer(b"".join(data for _, data in joined) + bytes(8), np.uint8)
    return WholeMessages(
        np.concatenate([buffer, tail]),
        np.concatenate([start, behind - sizes]),
        np.concatenate([end, behind]),
        np.concatenate([single, np.array([chunk for chunk, _ in joined], np.int64)]),
    )


@dataclass(slots=True)
class Heads:
    """What messages begin with."""

    template: Numbers
    """-1 where it is not known."""
    number: Numbers
    """Tag 34; -1 where its template does not tell it first."""
    sending_time_ns: Numbers
    """0 where there is none."""


@dataclass(slots=True)
class DatagramKeys:
    """What datagrams tell in front, of their first message."""

    sound: npt.NDArray[np.bool_]
    """Does it begin with a chunk?"""
    number: Numbers
    """0 where it begins in the middle of a message, or with one without a number of its own."""
    sending_time_ns: Numbers
    """0 where there is none."""
    last: Numbers
    """The last number that it uses up; 0 if it uses none."""


UNNUMBERED: Final = (MsgType.HEARTBEAT, MsgType.SEQUENCE_RESET)
"""Messages whose number may be that of another one: nothing is a copy because it has it."""


class HeadReader:
    """Reads the heads of messages with the templates of a file."""

    def __init__(self, templates: Templates) -> None:
        size = max(templates.by_id, default=0) + 1
        self._kinds = np.full(size, -1, np.int8)
        self._numbered, self._using = np.zeros((2, size), np.bool_)
        for number, template in templates.by_id.items():
            kind = message_type(template)
            self._kinds[number] = _time_kind(template)
            self._numbered[number] = kind not in UNNUMBERED
            self._using[number] = kind is not MsgType.SEQUENCE_RESET

    def keys(self, buffer: Bytes, offset: Numbers, length: npt.NDArray[np.int32]) -> DatagramKeys:
        """What datagrams tell in front."""
        sound = np.empty(len(offset), np.bool_)
        number, sending, last = np.empty((3, len(offset)), np.int64)
        _kernels.read_keys(
            buffer, offset, length, self._kinds, self._numbered, self._using, sound, number,
            sending, last,
        )  # fmt: skip
        return DatagramKeys(sound, number, sending, last)

    def read(self, buffer: Bytes, start: Numbers, size: Numbers) -> Heads:
        """The heads of messages, or of the first chunks of some."""
        template, number, digits = np.empty((3, len(start)), np.int64)
        _kernels.read_heads(buffer, start, size, self._kinds, template, number, digits)
        return Heads(template, number, times_of(digits))


def _time_kind(template: Template) -> int:
    """How a template's messages tell the time: only if tags 34 and 52 come first."""
    parts = [
        part
        for part in template.parts
        if not (isinstance(part, Field) and part.operation.operator is Operator.CONSTANT)
    ]
    first = parts[:2]
    if not all(isinstance(part, Field) and part.operation.operator is Operator.NONE
               and not part.optional for part in first):  # fmt: skip
        return _kernels.NO_TIME
    if [part.id for part in first if isinstance(part, Field)] != [_NUMBER, _SENDING_TIME]:
        return _kernels.NO_TIME
    time = first[1]
    assert isinstance(time, Field)
    return _kernels.TIME_AS_TEXT if time.kind is Kind.ASCII else _kernels.TIME_AS_NUMBER


def moments_of(days: Numbers, times: Numbers, null: int) -> Numbers:
    """Dates and times of day as nanoseconds: `times.moment_ns` of columns.

    ``null`` is the number where there is none, in what is given and in what comes out.
    """
    untimed = times == null
    digits = np.where(times >= FIRST_WITH_MILLISECONDS, times, times * 1000)
    sound = (
        (days > 0) & (days < _DAY_AFTER_ALL) & (untimed | ((digits >= 0) & (digits < DAY_DIGITS)))
    )
    found = times_of(np.where(sound, days, 0) * DAY_DIGITS + np.where(untimed | ~sound, 0, digits))
    return np.where(found > 0, found, null)


def times_of(digits: Numbers) -> Numbers:
    """Timestamps of the wire (YYYYMMDDhhmmssmmm) as nanoseconds; 0 where they are none."""
    found = np.empty(len(digits), np.int64)
    _kernels.read_times(digits, found)
    return found
