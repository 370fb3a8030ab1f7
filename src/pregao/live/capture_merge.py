"""Captures merged into one sequence of datagrams, ordered by time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pregao.capture.block_reader import BlockReader, read_blocks
from pregao.capture.blocks import PacketBlock
from pregao.capture.source import Source
from pregao.umdf.survey.lines import LineNumbers, LineTable


@dataclass(frozen=True, slots=True)
class MergedDatagrams:
    """Datagrams of all captures, in order; ``line`` is the number of their destination."""

    buffer: NDArray[np.uint8]
    offset: NDArray[np.int64]
    length: NDArray[np.int32]
    time_ns: NDArray[np.int64]
    """When each is due: its capture time, or that of one before it in its file if that is later."""
    line: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.offset)


class _Track:
    """One capture and the position up to which it was read."""

    def __init__(self, reader: BlockReader, lines: LineTable) -> None:
        self._reader = reader
        self._numbers = LineNumbers(lines, reader.flows)
        self._block: PacketBlock | None = None
        self._due: NDArray[np.int64] = np.empty(0, np.int64)
        self._line: NDArray[np.int32] = np.empty(0, np.int32)
        self._at = 0
        self._latest = 0

    def filled(self) -> bool:
        """Whether datagrams are pending; reads further blocks if needed."""
        while self._at == len(self._due):
            block = next(self._reader, None)
            if block is None:
                return False
            # Where capture times go back within a file, the order of the file counts.
            due = np.maximum.accumulate(np.maximum(block.time_ns, self._latest))
            self._latest = int(due[-1])
            self._block, self._due, self._at = block, due, 0
            self._line = self._numbers.of(block.flow)
        return True

    @property
    def last_ns(self) -> int:
        """When the last datagram read so far is due."""
        return int(self._due[-1])

    def take(self, until_ns: int) -> MergedDatagrams:
        """Return the datagrams read so far that are due up to a time."""
        assert self._block is not None
        begin, block = self._at, self._block
        end = self._at = int(np.searchsorted(self._due, until_ns, side="right"))
        offset, length = block.offset[begin:end], block.length[begin:end]
        first = int(offset.min(initial=len(block.buffer)))
        last = int((offset + length).max(initial=first))
        return MergedDatagrams(
            block.buffer[first:last],
            offset - first,
            length,
            self._due[begin:end],
            self._line[begin:end],
        )


def merged(captures: Sequence[Source], lines: LineTable) -> Iterator[MergedDatagrams]:
    """Yield the datagrams of all captures by time; their destinations are added to ``lines``."""
    with ExitStack() as opened:
        tracks = [_Track(opened.enter_context(read_blocks(each)), lines) for each in captures]
        while tracks := [track for track in tracks if track.filled()]:
            until = min(track.last_ns for track in tracks)
            yield _joined([track.take(until) for track in tracks])


def _joined(parts: list[MergedDatagrams]) -> MergedDatagrams:
    if len(parts) == 1:
        return parts[0]
    starts = np.cumsum([0, *(len(part.buffer) for part in parts)])
    offset = np.concatenate(
        [part.offset + start for part, start in zip(parts, starts[:-1], strict=True)]
    )
    due = np.concatenate([part.time_ns for part in parts])
    order = np.argsort(due, kind="stable")
    return MergedDatagrams(
        np.concatenate([part.buffer for part in parts]),
        offset[order],
        np.concatenate([part.length for part in parts])[order],
        due[order],
        np.concatenate([part.line for part in parts])[order],
    )
