"""TCP reassembly in bulk: blocks of segments into the bytes of each stream, in order.

A kernel processes segments that are next in their stream; everything else (a start, an end, a gap,
a repetition) goes to `tcp.TcpReassembler`. Both together produce the result of that class alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pregao.capture import _layer_kernels
from pregao.capture.blocks import PADDING, SegmentBlock
from pregao.capture.layers import Flow, Segment
from pregao.capture.tcp import (
    StreamData,
    StreamEnd,
    StreamEvent,
    StreamGap,
    TcpLimits,
    TcpReassembler,
)

BYTES: Final = 0
"""The piece is bytes of its stream."""
BEGUN: Final = 1
"""The stream starts with its SYN."""
JOINED: Final = 2
"""The stream starts in the middle."""
GAP: Final = 3
"""Bytes of the stream were never captured."""
ENDED: Final = 4
"""The stream has ended."""

_LIMITS = TcpLimits(flows=65_536)


@dataclass(frozen=True, slots=True)
class StreamEventColumns:
    """Stream events in the order in which they became known, as flat arrays.

    A piece of kind ``BYTES`` is ``buffer[offset : offset + length]``, the next bytes of the stream
    ``flow``; its time, number and position are those of the packet that made them available. The
    length of a gap is the number of missing bytes, -1 if unknown.
    """

    buffer: NDArray[np.uint8]
    kind: NDArray[np.int8]
    flow: NDArray[np.int32]
    time_ns: NDArray[np.int64]
    number: NDArray[np.int64]
    position: NDArray[np.int64]
    offset: NDArray[np.int64]
    length: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.kind)


class StreamColumns:
    """Converts blocks of segments in capture order to the pieces of all streams."""

    def __init__(self, flows: Sequence[Flow], limits: TcpLimits | None = None) -> None:
        """Create a converter; ``flows`` is the list of the segments' reader, which grows as it
        reads.
        """
        self._flows = flows
        self._numbers: dict[Flow, int] = {}
        self._reassembler = TcpReassembler(limits or _LIMITS)
        self._next = np.empty(0, np.int64)
        self._segment_at = (0, 0)

    def take(self, block: SegmentBlock) -> StreamEventColumns:
        """Process the segments of a block; return the pieces that became available."""
        self._learn_flows()
        count, flows = len(block), len(self._next)
        taken = np.zeros(count, np.bool_)
        taken_bytes = np.zeros(flows, np.int64)
        last = np.full(flows, -1, np.int64)
        events_found = _EventRows()
        row = 0
        while True:
            row = _layer_kernels.take_in_order(
                block.flow, block.sequence, block.flags, block.length, row, self._next,
                taken_bytes, last, taken,
            )  # fmt: skip
            if row == count:
                break
            number = int(block.flow[row])
            self._advance(block, number, taken_bytes, last)
            self._segment_at = (int(block.number[row]), int(block.position[row]))
            events = self._reassembler.segment(_segment(block, row, self._flows[number]))
            self._emit(events, row, events_found)
            known = self._reassembler.next_sequence(self._flows[number])
            self._next[number] = -1 if known is None else known
            row += 1
        touched = np.flatnonzero(taken_bytes)
        for number in touched[np.argsort(last[touched])].tolist():
            self._advance(block, number, taken_bytes, last)
        return _together(block, np.flatnonzero(taken), events_found)

    def finish(self) -> StreamEventColumns:
        """End the capture: return the bytes still held after gaps, and end every stream."""
        events_found = _EventRows()
        self._emit(self._reassembler.finish(), 0, events_found)
        self._next[:] = -1
        empty = np.empty(0, np.int64)
        nothing = SegmentBlock(
            np.zeros(PADDING, np.uint8), empty, empty, empty.astype(np.int32), empty, empty,
            empty.astype(np.int32), empty, empty.astype(np.uint8),
        )  # fmt: skip
        return _together(nothing, empty, events_found)

    def _learn_flows(self) -> None:
        known = len(self._numbers)
        for number, flow in enumerate(self._flows[known:], known):
            self._numbers[flow] = number
        if len(self._next) < len(self._numbers):
            more = np.full(max(len(self._numbers), 2 * len(self._next)), -1, np.int64)
            more[: len(self._next)] = self._next
            self._next = more

    def _advance(
        self,
        block: SegmentBlock,
        number: int,
        taken_bytes: NDArray[np.int64],
        last: NDArray[np.int64],
    ) -> None:
        """Inform the reassembler of the bytes of a flow that the kernel processed."""
        count = int(taken_bytes[number])
        if count:
            time_ns = int(block.time_ns[last[number]])
            self._reassembler.advance(self._flows[number], count, time_ns)
            taken_bytes[number] = 0

    def _emit(self, events: list[StreamEvent], at: int, columns: _EventRows) -> None:
        for event in events:
            data, length = b"", 0
            match event:
                case StreamData():
                    kind, data = BYTES, event.data
                    length = len(data)
                case StreamGap():
                    kind, length = GAP, -1 if event.missing is None else event.missing
                case StreamEnd():
                    kind = ENDED
                    # The next segment on these ports belongs to another stream.
                    self._next[self._numbers[event.flow]] = -1
                case _:
                    kind = BEGUN if event.from_syn else JOINED
            columns.rows.append(
                (at, kind, self._numbers[event.flow], event.time_ns, *self._segment_at, length)
            )
            columns.data.append(data)


class _EventRows:
    """Events of the reassembler as rows: the segment that caused each, and the other columns."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, ...]] = []
        self.data: list[bytes] = []


def _segment(block: SegmentBlock, at: int, flow: Flow) -> Segment:
    start = int(block.offset[at])
    payload = block.buffer[start : start + int(block.length[at])].tobytes()
    return Segment(
        int(block.time_ns[at]), *flow, int(block.sequence[at]), 0, int(block.flags[at]), payload,
        int(block.number[at]), int(block.position[at]),
    )  # fmt: skip


def _together(
    block: SegmentBlock, simple: NDArray[np.int64], parts: _EventRows
) -> StreamEventColumns:
    """Merge the pieces of the kernel and of the reassembler, in order."""
    columns: list[NDArray[Any]] = [
        np.zeros(len(simple), np.int64),
        block.flow[simple].astype(np.int64),
        block.time_ns[simple],
        block.number[simple],
        block.position[simple],
        block.offset[simple],
        block.length[simple].astype(np.int64),
    ]
    buffer = block.buffer
    if parts.rows:
        rows = np.array(parts.rows, np.int64)
        end = len(buffer) - PADDING
        sizes = np.array([len(data) for data in parts.data], np.int64)
        offset = end + np.cumsum(sizes) - sizes
        if sizes.any():
            longer = np.zeros(len(buffer) + int(sizes.sum()), np.uint8)
            longer[:end] = buffer[:end]
            joined = np.frombuffer(b"".join(parts.data), np.uint8)
            longer[end : end + len(joined)] = joined
            buffer = longer
        at, kind, flow, time_ns, number, position, length = rows.T
        order = np.argsort(np.concatenate((simple, at)), kind="stable")
        more = (kind, flow, time_ns, number, position, offset, length)
        columns = [np.concatenate(pair)[order] for pair in zip(columns, more, strict=True)]
    kind, flow, time_ns, number, position, offset, length = columns
    return StreamEventColumns(
        buffer, kind.astype(np.int8), flow.astype(np.int32), time_ns, number, position, offset,
        length,
    )  # fmt: skip
