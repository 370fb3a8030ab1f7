"""Messages in captured TCP streams, in bulk: blocks of segments in, message columns out.

A capture may start in the middle of a connection, miss bytes, or contain bytes that are not a
message: the next message is then found by its headers and those after it, and the bytes before it
are returned as a separate range, so that every byte of a stream is in one message or one range.
Streams without any message carry another protocol and are omitted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pregao.capture.blocks import PADDING, PacketBlock, SegmentBlock
from pregao.capture.layers import Flow
from pregao.capture.tcp_columns import BEGUN, BYTES, GAP, JOINED, StreamColumns, StreamEventColumns
from pregao.entrypoint.captured import _kernels
from pregao.entrypoint.framing import HEADERS_SIZE, WITH_CREDENTIALS, blanked, frame_of

UNSUPPORTED_BYTES: Final = 8_192
"""A stream without a message in this many bytes carries another protocol: four messages fit."""

_NOTHING: NDArray[np.uint8] = np.empty(0, np.uint8)
_READABLE = re.compile(rb"[ -~]{4,}")


@dataclass(slots=True)
class StreamAccount:
    """Byte accounting of one direction of a connection."""

    messages: int = 0
    message_bytes: int = 0
    skipped_bytes: int = 0
    """Bytes that are not a message."""
    skips: int = 0
    missing_bytes: int = 0
    """Bytes that were never captured, where their number is known."""
    gaps: int = 0


@dataclass(slots=True)
class _Stream:
    """State of one direction of a connection between blocks."""

    rest: NDArray[np.uint8] = field(default_factory=lambda: _NOTHING)
    """Bytes of an incomplete message."""
    synced: bool = False
    recognised: bool = False
    unsupported: bool = False
    last: tuple[int, int, int] = (0, 0, 0)
    """Time, number and position of the last packet that added bytes."""


class FrameColumns:
    """Extracts the messages of all streams from blocks of segments in capture order.

    Results are `PacketBlock`s: each payload is one message with its framing header, or a range of
    bytes that are not a message; its time, number and position are those of the packet that
    completed it. Credentials are masked.
    """

    def __init__(self, flows: Sequence[Flow]) -> None:
        """Create an extractor; ``flows`` is the list of the segments' reader, which grows as it
        reads.
        """
        self._columns = StreamColumns(flows)
        self._streams: dict[int, _Stream] = {}
        self.accounts: dict[int, StreamAccount] = {}
        """Accounting by flow number, for streams with messages."""

    def take(self, block: SegmentBlock) -> PacketBlock:
        """Return the messages completed by the segments of a block."""
        return self._walk(self._columns.take(block))

    def finish(self) -> PacketBlock:
        """End the capture: return the remaining messages, and the bytes of incomplete ones."""
        return self._walk(self._columns.finish())

    def _walk(self, pieces: StreamEventColumns) -> PacketBlock:
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
        self, number: int, pieces: StreamEventColumns, rows: NDArray[np.int64], found: _Found
    ) -> None:
        """Process the pieces of one stream in a block."""
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
                    account.gaps += 1
                    account.missing_bytes += max(0, int(pieces.length[rows[mark]]))
            else:
                self._streams.pop(number, None)
            begin = mark + 1

    def _bytes(
        self,
        number: int,
        stream: _Stream,
        pieces: StreamEventColumns,
        rows: NDArray[np.int64],
        found: _Found,
        *,
        final: bool,
    ) -> None:
        """Find messages in the next bytes of a stream."""
        if len(rows):
            last = rows[-1]
            stream.last = (
                int(pieces.time_ns[last]), int(pieces.number[last]), int(pieces.position[last])
            )  # fmt: skip
        if stream.unsupported:
            return
        begin = found.end
        ends = np.cumsum(pieces.length[rows]) + begin + len(stream.rest)
        found.buffer[begin : begin + len(stream.rest)] = stream.rest
        end = _kernels.gather_pieces(
            pieces.buffer, pieces.offset, pieces.length, rows, found.buffer,
            begin + len(stream.rest),
        )  # fmt: skip
        capacity = 2 * ((end - begin) // HEADERS_SIZE) + (end - begin) // _kernels.MAX_STRETCH + 4
        offset, length = np.empty(capacity, np.int64), np.empty(capacity, np.int32)
        count, rest_at, stream.synced, stream.recognised = _kernels.walk_stream(
            found.buffer, begin, end, stream.synced, stream.recognised, final, offset, length
        )
        if not stream.recognised:
            # The bytes passed over may be the end of a message that started before the capture.
            stream.unsupported = end - begin > UNSUPPORTED_BYTES
            stream.rest = _NOTHING if stream.unsupported else found.buffer[begin:end].copy()
            return
        stream.rest = found.buffer[rest_at:end].copy()
        found.end = int(end)
        offset, length = offset[:count], length[:count]
        # The packet with the last byte; bytes left over from earlier blocks belong to the last
        # packet.
        packet = np.searchsorted(ends, offset + length)
        when: list[NDArray[np.int64]] = []
        for column, last in zip(
            (pieces.time_ns, pieces.number, pieces.position), stream.last, strict=True
        ):
            values = np.append(column[rows], last)
            when.append(values[packet])
        self._account(number, found, offset, length)
        found.add(number, when, offset, length)

    def _account(
        self, number: int, found: _Found, offset: NDArray[np.int64], length: NDArray[np.int32]
    ) -> None:
        account = self.accounts.setdefault(number, StreamAccount())
        templates = templates_of(found.buffer, offset, length)
        valid = templates >= 0
        account.messages += int(valid.sum())
        account.message_bytes += int(length[valid].sum())
        account.skips += int((~valid).sum())
        account.skipped_bytes += int(length[~valid].sum())
        for row in np.flatnonzero(np.isin(templates, _SECRET)).tolist():
            start, end = int(offset[row]), int(offset[row] + length[row])
            masked = blanked(frame_of(found.buffer[start:end].tobytes()))
            found.buffer[start:end] = np.frombuffer(masked, np.uint8)
        for row in np.flatnonzero(~valid).tolist():
            start, end = int(offset[row]), int(offset[row] + length[row])
            masked = _unreadable(found.buffer[start:end].tobytes())
            found.buffer[start:end] = np.frombuffer(masked, np.uint8)


_SECRET = np.array(sorted(WITH_CREDENTIALS), np.int32)


def _unreadable(data: bytes) -> bytes:
    """Mask the readable text in bytes that are not a message: it may be part of credentials."""
    return _READABLE.sub(lambda match: b"*" * len(match[0]), data)


def templates_of(
    buffer: NDArray[np.uint8], offset: NDArray[np.int64], length: NDArray[np.int32]
) -> NDArray[np.int32]:
    """Return the template ids of payloads; -1 for bytes that are not a message."""
    templates = np.empty(len(offset), np.int32)
    _kernels.read_templates(buffer, offset, length, templates)
    return templates


class _Found:
    """Messages found in a block, stream by stream."""

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
        """Add the messages of one stream."""
        time_ns, number, position = when
        flows = np.full(len(offset), flow, np.int32)
        self._parts.append((time_ns, offset, length, number, position, flows))

    def block(self) -> PacketBlock:
        """Return all messages, in capture order."""
        if not self._parts:
            empty = np.empty(0, np.int64)
            small = empty.astype(np.int32)
            return PacketBlock(self.buffer, empty, empty, small, empty, empty, small)
        columns = [np.concatenate(parts) for parts in zip(*self._parts, strict=True)]
        order = np.argsort(columns[3], kind="stable")
        return PacketBlock(self.buffer, *(column[order] for column in columns))
