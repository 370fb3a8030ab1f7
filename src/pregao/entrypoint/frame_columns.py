"""Messages in captured TCP streams, in bulk: segments in, whole messages as flat arrays out.

A capture may begin in the middle of a connection, miss bytes, or hold bytes that are no message:
then the next message is found by its headers and those behind it, and what lies before it is given
as a stretch of its own, so that every byte of a stream is in one message or one stretch. Streams on
which no message is found are something else, and nothing is given of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pregao.capture import PADDING, Flow, PacketBlock, SegmentBlock, StreamColumns, StreamPieces
from pregao.capture.stream_columns import BEGUN, BYTES, GAP, JOINED
from pregao.entrypoint import _kernels
from pregao.entrypoint.credentials import WITH_CREDENTIALS, blanked
from pregao.entrypoint.framing import HEADERS_SIZE, frame_of

FOREIGN_BYTES: Final = 8_192
"""A stream that shows no message in so many bytes is something else: that is room for four."""

_NOTHING: NDArray[np.uint8] = np.empty(0, np.uint8)
_READABLE = re.compile(rb"[ -~]{4,}")


@dataclass(slots=True)
class StreamAccount:
    """What became of the bytes of one direction of a connection."""

    messages: int = 0
    message_bytes: int = 0
    skipped_bytes: int = 0
    """Bytes that are no message."""
    skips: int = 0
    missing_bytes: int = 0
    """Bytes that were never captured, as far as that can be known."""
    holes: int = 0


@dataclass(slots=True)
class _Stream:
    """One direction of a connection, between blocks."""

    rest: NDArray[np.uint8] = field(default_factory=lambda: _NOTHING)
    """The bytes that wait for more."""
    synced: bool = False
    recognised: bool = False
    foreign: bool = False
    last: tuple[int, int, int] = (0, 0, 0)
    """Time, number and position of the packet that brought bytes last."""


class FrameColumns:
    """Takes blocks of segments in capture order and gives the messages of all streams.

    What it gives is a `PacketBlock`: each payload is one message with its framing header, or a
    stretch of bytes that are none; its time, number and position are those of the packet that
    completed it. Credentials are blanked.
    """

    def __init__(self, flows: Sequence[Flow]) -> None:
        """``flows`` is the list of the segments' reader, which grows as it is read."""
        self._columns = StreamColumns(flows)
        self._streams: dict[int, _Stream] = {}
        self.accounts: dict[int, StreamAccount] = {}
        """By flow number: streams on which messages were found."""

    def take(self, block: SegmentBlock) -> PacketBlock:
        """The messages that are whole with the segments of a block."""
        return self._walk(self._columns.take(block))

    def finish(self) -> PacketBlock:
        """The capture is over: the messages that had to wait, and what is left of others."""
        return self._walk(self._columns.finish())

    def _walk(self, pieces: StreamPieces) -> PacketBlock:
        held = sum(len(stream.rest) for stream in self._streams.values())
        size = int(pieces.length[pieces.kind == BYTES].sum()) + held
        found = _Found(np.zeros(size + PADDING, np.uint8))
        order = np.argsort(pieces.flow, kind="stable")
        flows = pieces.flow[order]
        bounds = np.flatnonzero(np.diff(flows)) + 1
        for rows in np.split(order, bounds) if len(order) else ():
            self._stream(int(pieces.flow[rows[0]]), pieces, rows, found)
        return found.block()

    def _stream(
        self, number: int, pieces: StreamPieces, rows: NDArray[np.int64], found: _Found
    ) -> None:
        """What happened to one stream in a block."""
        stream = self._streams.get(number) or _Stream()
        marks = np.flatnonzero(pieces.kind[rows] != BYTES)
        begin = 0
        for mark in [*marks.tolist(), len(rows)]:
            final = mark < len(rows) and int(pieces.kind[rows[mark]]) not in (BEGUN, JOINED)
            if mark > begin or final:
                self._bytes(number, stream, pieces, rows[begin:mark], found, final=final)
            if mark == len(rows):
                break
            kind = int(pieces.kind[rows[mark]])
            if kind in (BEGUN, JOINED):
                stream = self._streams[number] = _Stream(synced=kind == BEGUN)
            elif kind == GAP:
                stream.synced = False
                account = self.accounts.get(number)
                if account is not None and stream.recognised:
                    account.holes += 1
                    account.missing_bytes += max(0, int(pieces.length[rows[mark]]))
            else:
                self._streams.pop(number, None)
            begin = mark + 1

    def _bytes(
        self,
        number: int,
        stream: _Stream,
        pieces: StreamPieces,
        rows: NDArray[np.int64],
        found: _Found,
        *,
        final: bool,
    ) -> None:
        """Walk the next bytes of a stream."""
        if len(rows):
            last = rows[-1]
            stream.last = (
                int(pieces.time_ns[last]), int(pieces.number[last]), int(pieces.position[last])
            )  # fmt: skip
        if stream.foreign:
            return
        begin = found.end
        ends = np.cumsum(pieces.length[rows]) + begin + len(stream.rest)
        found.buffer[begin : begin + len(stream.rest)] = stream.rest
        end = _kernels.gather_pieces(
            pieces.buffer, pieces.offset, pieces.length, rows, found.buffer,
            begin + len(stream.rest),
        )  # fmt: skip
        room = 2 * ((end - begin) // HEADERS_SIZE) + (end - begin) // _kernels.LONGEST_STRETCH + 4
        offset, length = np.empty(room, np.int64), np.empty(room, np.int32)
        count, at, stream.synced, stream.recognised = _kernels.walk_stream(
            found.buffer, begin, end, stream.synced, stream.recognised, final, offset, length
        )
        if not stream.recognised:
            # Whatever was passed over may be the end of a message that began before the capture.
            stream.foreign = end - begin > FOREIGN_BYTES
            stream.rest = _NOTHING if stream.foreign else found.buffer[begin:end].copy()
            return
        stream.rest = found.buffer[at:end].copy()
        found.end = int(end)
        offset, length = offset[:count], length[:count]
        # The packet that brought the last byte; what waited all the time came with the last one.
        by = np.searchsorted(ends, offset + length)
        when: list[NDArray[np.int64]] = []
        for column, last in zip(
            (pieces.time_ns, pieces.number, pieces.position), stream.last, strict=True
        ):
            values = np.append(column[rows], last)
            when.append(values[by])
        self._account(number, found, offset, length)
        found.add(number, when, offset, length)

    def _account(
        self, number: int, found: _Found, offset: NDArray[np.int64], length: NDArray[np.int32]
    ) -> None:
        account = self.accounts.setdefault(number, StreamAccount())
        templates = templates_of(found.buffer, offset, length)
        sound = templates >= 0
        account.messages += int(sound.sum())
        account.message_bytes += int(length[sound].sum())
        account.skips += int((~sound).sum())
        account.skipped_bytes += int(length[~sound].sum())
        for row in np.flatnonzero(np.isin(templates, _SECRET)).tolist():
            start, end = int(offset[row]), int(offset[row] + length[row])
            kept = blanked(frame_of(found.buffer[start:end].tobytes()))
            found.buffer[start:end] = np.frombuffer(kept, np.uint8)
        for row in np.flatnonzero(~sound).tolist():
            start, end = int(offset[row]), int(offset[row] + length[row])
            kept = _unreadable(found.buffer[start:end].tobytes())
            found.buffer[start:end] = np.frombuffer(kept, np.uint8)


_SECRET = np.array(sorted(WITH_CREDENTIALS), np.int32)


def _unreadable(data: bytes) -> bytes:
    """Bytes of which nothing is known as they may be kept: they may hold a part of credentials."""
    return _READABLE.sub(lambda match: b"*" * len(match[0]), data)


def templates_of(
    buffer: NDArray[np.uint8], offset: NDArray[np.int64], length: NDArray[np.int32]
) -> NDArray[np.int32]:
    """The template ids of payloads; -1 of stretches that are no message."""
    templates = np.empty(len(offset), np.int32)
    _kernels.read_templates(buffer, offset, length, templates)
    return templates


class _Found:
    """The messages that were found in a block, stream by stream."""

    def __init__(self, buffer: NDArray[np.uint8]) -> None:
        self.buffer = buffer
        self.end = 0
        self._parts: list[tuple[NDArray[Any], ...]] = []

    def add(
        self,
        flow: int,
        when: Sequence[NDArray[np.int64]],
        offset: NDArray[np.int64],
        length: NDArray[np.int32],
    ) -> None:
        """Add those of one stream."""
        time_ns, number, position = when
        flows = np.full(len(offset), flow, np.int32)
        self._parts.append((time_ns, offset, length, number, position, flows))

    def block(self) -> PacketBlock:
        """All of them, in the order of the capture."""
        if not self._parts:
            empty = np.empty(0, np.int64)
            small = empty.astype(np.int32)
            return PacketBlock(self.buffer, empty, empty, small, empty, empty, small)
        columns = [np.concatenate(parts) for parts in zip(*self._parts, strict=True)]
        order = np.argsort(columns[3], kind="stable")
        return PacketBlock(self.buffer, *(column[order] for column in columns))
