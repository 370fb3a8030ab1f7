"""Batches of received datagrams as flat arrays."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

PADDING = 64
"""Readable bytes after the last payload byte of a buffer, so that kernels may load words."""


@dataclass(frozen=True, slots=True)
class DatagramBatch:
    """Datagrams in order of their receive times.

    Payload ``i`` is ``buffer[offset[i] : offset[i] + length[i]]``; ``line`` is the number
    assigned to its socket, ``time_ns`` the kernel's receive time. The buffer is reused: copy what
    you keep before the second-next call of the receiver.
    """

    buffer: NDArray[np.uint8]
    offset: NDArray[np.int64]
    length: NDArray[np.int32]
    time_ns: NDArray[np.int64]
    line: NDArray[np.int32]
    source: NDArray[np.int64]
    """Sender of each datagram: its address shifted left by 16 bits, plus the port."""
    more: bool = False
    """Whether more datagrams can be received without waiting."""

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def columns(self) -> tuple[NDArray[Any], ...]:
        """The buffer, and the offset, length, receive time and line of each payload."""
        return self.buffer, self.offset, self.length, self.time_ns, self.line

    def payload(self, index: int) -> bytes:
        """Return a copy of one payload."""
        start = int(self.offset[index])
        return self.buffer[start : start + int(self.length[index])].tobytes()

    def payloads(self) -> list[bytes]:
        """Return copies of all payloads."""
        view = self.buffer.data
        ends = (self.offset + self.length).tolist()
        return [bytes(view[a:b]) for a, b in zip(self.offset.tolist(), ends, strict=True)]


@dataclass(frozen=True, slots=True)
class LineCounts:
    """Counters of the datagrams of a socket."""

    packets: int = 0
    bytes: int = 0
    truncated: int = 0
    """Datagrams longer than a slot, which were truncated."""
    dropped: int = 0
    """Datagrams dropped by the kernel because the socket's buffer was full."""


class LineReceiver(Protocol):
    """Receiver of several sockets; `open_receiver` returns one.

    Only ``wake`` may be called from another thread.
    """

    def add(self, listening: socket.socket) -> int:
        """Add a socket; return the number of its line, which is never reused."""

    def remove(self, line: int) -> None:
        """Close the socket of a line."""

    def receive(self, timeout_s: float) -> DatagramBatch:
        """Wait up to ``timeout_s`` for datagrams; the batch is empty on timeout or wake-up."""

    def wake(self) -> None:
        """Make a receiver that waits in another thread return immediately."""

    def counts(self, line: int) -> LineCounts:
        """Return the counters of a line."""

    def close(self) -> None:
        """Close all sockets."""
