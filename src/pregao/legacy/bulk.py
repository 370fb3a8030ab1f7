"""Chunks and message headers of many datagrams of the legacy feed, as columns.

The column form of `reassembly`, and of the first fields that `messages` reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from pregao.arrays import Int64Array, Uint8Array
from pregao.fast.model import FastField, FieldType, Operator, Template, Templates
from pregao.legacy import _kernels
from pregao.legacy.messages import MsgType, message_type
from pregao.legacy.times import DAY_DIGITS, FIRST_WITH_MILLISECONDS

FAULTS: Final = {
    _kernels.SHORT: "too short for a technical header",
    _kernels.NOT_A_CHUNK: "chunk index out of range",
    _kernels.EMPTY_CHUNK: "chunk without bytes",
    _kernels.LONG_CHUNK: "a chunk extends past the end of its datagram",
    _kernels.EMPTY: "empty datagram",
}
"""Reasons why datagrams are rejected, in the words of `read_chunks`."""
_NUMBER, _SENDING_TIME = 34, 52
_DAY_AFTER_ALL: Final = 100_000_000


@dataclass(slots=True)
class ChunkColumns:
    """The chunks of datagrams, in order."""

    datagram: Int64Array
    """Index of the datagram of each chunk."""
    ordinal: Int64Array
    """Index of the chunk in its datagram, from 0."""
    number: Int64Array
    count: Int64Array
    index: Int64Array
    start: Int64Array
    size: Int64Array
    fault: npt.NDArray[np.int8]
    """Fault code of each datagram after its last intact chunk; 0 if there is none."""
    chunks: Int64Array
    """Number of chunks of each datagram."""

    @property
    def firsts(self) -> Int64Array:
        """Indices of the first chunk of each datagram that has one."""
        return np.flatnonzero(self.ordinal == 0)


def chunk_columns(
    buffer: Uint8Array, offset: Int64Array, length: npt.NDArray[np.int32]
) -> ChunkColumns:
    """Return the chunks of datagrams as columns."""
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
    """Complete messages: their ranges in a buffer, and one chunk that identifies each."""

    buffer: Uint8Array
    start: Int64Array
    end: Int64Array
    chunk: Int64Array


def whole_messages(
    buffer: Uint8Array, chunks: ChunkColumns, joined: Sequence[tuple[int, bytes]]
) -> WholeMessages:
    """Return single-chunk messages in place, followed by the assembled ones in ``joined``."""
    single = np.flatnonzero(chunks.count == 1)
    start, end = chunks.start[single], (chunks.start + chunks.size)[single]
    if not joined:
        return WholeMessages(buffer, start, end, single)
    sizes = np.array([len(data) for _, data in joined], np.int64)
    ends = len(buffer) + np.cumsum(sizes)
    tail = np.frombuffer(b"".join(data for _, data in joined) + bytes(8), np.uint8)
    return WholeMessages(
        np.concatenate([buffer, tail]),
        np.concatenate([start, ends - sizes]),
        np.concatenate([end, ends]),
        np.concatenate([single, np.array([chunk for chunk, _ in joined], np.int64)]),
    )


@dataclass(slots=True)
class MessageHeads:
    """First fields of messages."""

    template: Int64Array
    """-1 where it is unknown."""
    number: Int64Array
    """Tag 34; -1 where the template does not have it first."""
    sending_time_ns: Int64Array
    """0 where there is none."""


@dataclass(slots=True)
class DatagramKeys:
    """Keys of datagrams, from their first message."""

    sound: npt.NDArray[np.bool_]
    """Whether the datagram begins with a chunk."""
    number: Int64Array
    """0 if the datagram begins in the middle of a message or with an unnumbered one."""
    sending_time_ns: Int64Array
    """0 where there is none."""
    last: Int64Array
    """Last sequence number that the datagram consumes; 0 if it consumes none."""


UNNUMBERED: Final = (MsgType.HEARTBEAT, MsgType.SEQUENCE_RESET)
"""Messages that may have the number of another message, which does not make them duplicates."""


class HeadReader:
    """Reads the first fields of messages with the templates of a file."""

    def __init__(self, templates: Templates) -> None:
        size = max(templates.by_id, default=0) + 1
        self._kinds = np.full(size, -1, np.int8)
        self._numbered, self._using = np.zeros((2, size), np.bool_)
        for number, template in templates.by_id.items():
            kind = message_type(template)
            self._kinds[number] = _time_kind(template)
            self._numbered[number] = kind not in UNNUMBERED
            self._using[number] = kind is not MsgType.SEQUENCE_RESET

    def keys(
        self, buffer: Uint8Array, offset: Int64Array, length: npt.NDArray[np.int32]
    ) -> DatagramKeys:
        """Read the keys of datagrams."""
        sound = np.empty(len(offset), np.bool_)
        number, sending, last = np.empty((3, len(offset)), np.int64)
        _kernels.read_keys(
            buffer, offset, length, self._kinds, self._numbered, self._using, sound, number,
            sending, last,
        )  # fmt: skip
        return DatagramKeys(sound, number, sending, last)

    def read(self, buffer: Uint8Array, start: Int64Array, size: Int64Array) -> MessageHeads:
        """Read the first fields of messages, or of the first chunks of messages."""
        template, number, digits = np.empty((3, len(start)), np.int64)
        _kernels.read_heads(buffer, start, size, self._kinds, template, number, digits)
        return MessageHeads(template, number, times_of(digits))


def _time_kind(template: Template) -> int:
    """Return how a template encodes the sending time; NO_TIME unless tags 34 and 52 are first."""
    parts = [
        part
        for part in template.parts
        if not (isinstance(part, FastField) and part.operation.operator is Operator.CONSTANT)
    ]
    first = parts[:2]
    if not all(isinstance(part, FastField) and part.operation.operator is Operator.NONE
               and not part.optional for part in first):  # fmt: skip
        return _kernels.NO_TIME
    if [part.id for part in first if isinstance(part, FastField)] != [_NUMBER, _SENDING_TIME]:
        return _kernels.NO_TIME
    time = first[1]
    assert isinstance(time, FastField)
    return _kernels.TIME_AS_TEXT if time.kind is FieldType.ASCII else _kernels.TIME_AS_NUMBER


def moments_of(
    days: Int64Array,
    times: Int64Array,
    null: int,
    milliseconds: npt.NDArray[np.bool_] | None = None,
) -> Int64Array:
    """Convert dates and times of day to nanoseconds: `times.moment_ns` for columns.

    ``null`` marks missing values in the input and in the result. ``milliseconds`` states which
    times include them; None decides by their size.
    """
    untimed = times == null
    if milliseconds is None:
        milliseconds = times >= FIRST_WITH_MILLISECONDS
    digits = np.where(milliseconds, times, times * 1000)
    valid = (
        (days > 0) & (days < _DAY_AFTER_ALL) & (untimed | ((digits >= 0) & (digits < DAY_DIGITS)))
    )
    result = times_of(np.where(valid, days, 0) * DAY_DIGITS + np.where(untimed | ~valid, 0, digits))
    return np.where(result > 0, result, null)


def times_of(digits: Int64Array) -> Int64Array:
    """Convert wire timestamps (YYYYMMDDhhmmssmmm) to nanoseconds; 0 where they are invalid."""
    result = np.empty(len(digits), np.int64)
    _kernels.read_times(digits, result)
    return result
