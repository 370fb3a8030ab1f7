"""Datagrams as they were received: many at once, as flat arrays."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

PADDING = 64
"""Readable bytes behind the last payload byte of a buffer, so that kernels may load words."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Datagrams in the order of their times.

    Payload ``i`` is ``buffer[offset[i] : offset[i] + length[i]]``; ``line`` is the number that
    its socket was given, ``time_ns`` when the kernel received it. The buffer is used again: what is
    to be kept must be copied before the receiver is asked twice more.
    """

    buffer: NDArray[np.uint8]
    offset: NDArray[np.int64]
    length: NDArray[np.int32]
    time_ns: NDArray[np.int64]
    line: NDArray[np.int32]
    source: NDArray[np.int64]
    """Who sent each: the address shifted by 16 bits, and the port."""
    more: bool = False
    """Is there more to be had at once?"""

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def columns(self) -> tuple[NDArray[Any], ...]:
        """The buffer, and of each payload where it is, how long, when it came and on which line."""
        return self.buffer, self.offset, self.length, self.time_ns, self.line

    def payload(self, index: int) -> bytes:
        """One payload, copied out."""
        start = int(self.offset[index])
        return self.buffer[start : start + int(self.length[index])].tobytes()

    def payloads(self) -> list[bytes]:
        """All payloads, copied out."""
        view = self.buffer.data
        ends = (self.offset + self.length).tolist()
        return [bytes(view[a:b]) for a, b in zip(self.offset.tolist(), ends, strict=True)]


@dataclass(frozen=True, slots=True)
class LineCounts:
    """What became of the datagrams of a socket."""

    packets: int = 0
    bytes: int = 0
    cut: int = 0
    """Longer than a slot: their ends are lost."""
    dropped: int = 0
    """Lost in the kernel, because nobody took them out of the full buffer in time."""


class LineReceiver(Protocol):
    """What receives from several sockets; `open_receiver` makes one.

    All but ``wake`` is called by one thread.
    """

    def add(self, listening: socket.socket) -> int:
        """Listen to a socket too; gives the number of its line, which no other gets."""

    def remove(self, line: int) -> None:
        """Close the socket of a line."""

    def receive(self, timeout_s: float) -> Batch:
        """Wait for datagrams at most so long; an empty batch if none came, or if woken up."""

    def wake(self) -> None:
        """Let a receiver that waits in another thread return at once."""

    def counts(self, line: int) -> LineCounts:
        """What became of a line's datagrams."""

    def close(self) -> None:
        """Close all sockets."""
