"""Receives from many sockets in one thread, with compiled code where the system supports it.

`CompiledReceiver` receives up to a thousand datagrams with a few system calls, without the GIL;
`PlainReceiver` does the same one by one, on any system.
"""

from __future__ import annotations

import contextlib
import math
import os
import selectors
import socket
import struct
import sys
import time
from dataclasses import dataclass, field
from ipaddress import IPv4Address

import numpy as np
from numpy.typing import NDArray

from pregao.clock import SECOND
from pregao.errors import NetworkError
from pregao.extras import kernels_compiled, require
from pregao.net.datagram_batch import PADDING, DatagramBatch, LineCounts, LineReceiver
from pregao.net.sockets import SO_TIMESTAMPNS, dropped

SLOT_BYTES = 2048
"""Capacity for one datagram: more than an Ethernet frame."""
MAX_BATCH = 1024
_RINGS = 4
_SPINS = 20_000
_TIME = struct.Struct("=qq")
_CONTROL_BYTES = 64


def open_receiver(*, compiled: bool | None = None, spin: bool = False) -> LineReceiver:
    """Return a receiver; with ``compiled`` None, the fastest that the system supports.

    A receiver with ``spin`` polls continuously instead of waiting: it uses a full core, and saves
    the time that a waiting thread needs to wake up.
    """
    supported = (
        sys.platform.startswith("linux") and sys.maxsize > 1 << 32 and sys.byteorder == "little"
    )
    if compiled and not supported:
        raise NetworkError("The compiled receiver requires 64-bit little-endian Linux.")
    if compiled:
        require("numba")
    if supported and kernels_compiled() and compiled is not False:
        return CompiledReceiver(spin=spin)
    return PlainReceiver(spin=spin)


class _Waker:
    """A socket pair: one end is polled with the other sockets; writing to the other wakes."""

    def __init__(self) -> None:
        self.end, self._begin = socket.socketpair()
        self.end.setblocking(False)
        self._begin.setblocking(False)

    def wake(self) -> None:
        """Wake the waiting receiver; if the pipe is full, it is awake already."""
        with contextlib.suppress(OSError):
            self._begin.send(b"\0")

    def clear(self) -> None:
        """Discard pending wake-ups."""
        with contextlib.suppress(BlockingIOError):
            while self.end.recv(1024):
                pass

    def close(self) -> None:
        """Close both ends."""
        self.end.close()
        self._begin.close()


class CompiledReceiver:
    """Receives datagrams with ``recvmmsg`` into a ring of slots, with kernel timestamps."""

    def __init__(
        self,
        *,
        max_batch: int = MAX_BATCH,
        slot_bytes: int = SLOT_BYTES,
        spin: bool = False,
    ) -> None:
        from pregao.net import _kernels

        self._kernels = _kernels
        self._spin = spin
        self._max_batch = max_batch
        slots = _RINGS * max_batch
        self._slot_bytes = slot_bytes
        self._buffer = np.zeros(slots * slot_bytes + PADDING, np.uint8)
        self._vectors = np.empty((slots, 2), np.int64)
        self._vectors[:, 0] = self._buffer.ctypes.data + np.arange(slots) * slot_bytes
        self._vectors[:, 1] = slot_bytes
        self._control = np.zeros(slots * _kernels.CONTROL_BYTES, np.uint8)
        headers = np.zeros((slots, _kernels.HEADER_WORDS), np.int64)
        headers[:, _kernels.VECTOR] = self._vectors.ctypes.data + np.arange(slots) * 16
        headers[:, _kernels.VECTORS] = 1
        headers[:, _kernels.CONTROL] = (
            self._control.ctypes.data + np.arange(slots) * _kernels.CONTROL_BYTES
        )
        headers[:, _kernels.CONTROL_LENGTH] = _kernels.CONTROL_BYTES
        self._names = np.zeros(slots * _kernels.SOCKADDR_BYTES, np.uint8)
        headers[:, _kernels.NAME] = (
            self._names.ctypes.data + np.arange(slots) * _kernels.SOCKADDR_BYTES
        )
        headers[:, _kernels.NAME_LENGTH] = _kernels.SOCKADDR_BYTES
        self._headers = headers.reshape(-1)
        self._headers_at = self._headers.ctypes.data  # computing it takes a microsecond
        self._slot_length = np.zeros(slots, np.int32)
        self._slot_time = np.zeros(slots, np.int64)
        self._result = np.zeros(_kernels.RESULTS, np.int64)
        self._lines: dict[int, _Line] = {}
        self._numbers: NDArray[np.int32] = np.empty(0, np.int32)
        self._tallies: NDArray[np.int64] = np.empty((0, _kernels.TALLIES), np.int64)
        self._added = 0
        self._first = 0
        self._waker = _Waker()
        self._arrange()
        self.receive(0)  # compile the kernel now, not while packets wait

    def add(self, listening: socket.socket) -> int:
        """Add a socket; return the number of its line, which is never reused."""
        line, self._added = self._added, self._added + 1
        self._lines[line] = _Line(listening)
        self._arrange()
        return line

    def remove(self, line: int) -> None:
        """Close the socket of a line."""
        self._lines.pop(line).socket.close()
        self._arrange()

    def _arrange(self) -> None:
        """Store the counters so far and rebuild the arrays of polled sockets."""
        for number, tally in zip(self._numbers.tolist(), self._tallies.tolist(), strict=True):
            if number in self._lines:
                self._lines[number].add(*tally)
        sockets = [line.socket.fileno() for line in self._lines.values()]
        self._polled = np.array([*sockets, self._waker.end.fileno()], np.int64)
        self._polled_at = self._polled.ctypes.data
        self._numbers = np.array(list(self._lines), np.int32)
        self._tallies = np.zeros((len(self._lines), self._kernels.TALLIES), np.int64)

    def receive(self, timeout_s: float) -> DatagramBatch:
        """Wait up to ``timeout_s`` for datagrams; the batch is empty on timeout or wake-up."""
        limit = self._max_batch
        offset, length = np.empty(limit, np.int64), np.empty(limit, np.int32)
        time_ns, line = np.empty(limit, np.int64), np.empty(limit, np.int32)
        source = np.empty(limit, np.int64)
        wait_ms = max(0, math.ceil(timeout_s * 1000))
        rounds, wait_ms = (_SPINS, 0) if self._spin and self._lines else (1, wait_ms)
        self._kernels.receive(
            self._polled,
            self._polled_at,
            self._numbers,
            self._headers,
            self._headers_at,
            self._control,
            self._slot_bytes,
            self._slot_length,
            self._slot_time,
            self._names,
            limit,
            self._first,
            rounds,
            wait_ms,
            offset,
            length,
            time_ns,
            line,
            source,
            self._tallies,
            self._result,
        )
        count = int(self._result[self._kernels.COUNT])
        self._first = (self._first + 1) % max(1, len(self._lines))
        if not count:
            self._waker.clear()
        if code := int(self._result[self._kernels.TROUBLE]):
            line_number = int(self._numbers[self._result[self._kernels.TROUBLED]])
            error = OSError(code, os.strerror(code))
            raise NetworkError(_broken(self._lines[line_number].socket, error)) from error
        columns = (offset[:count], length[:count], time_ns[:count], line[:count], source[:count])
        return DatagramBatch(self._buffer, *columns, bool(self._result[self._kernels.MORE]))

    def wake(self) -> None:
        """Make a receiver that waits in another thread return immediately."""
        self._waker.wake()

    def counts(self, line: int) -> LineCounts:
        """Return the counters of a line."""
        self._arrange()
        return self._lines[line].counts()

    def close(self) -> None:
        """Close all sockets."""
        for line in list(self._lines):
            self.remove(line)
        self._waker.close()


@dataclass(slots=True)
class _Line:
    """A socket and its counters."""

    socket: socket.socket
    packets: int = 0
    bytes: int = 0
    truncated: int = 0

    def add(self, packets: int, size: int, truncated: int) -> None:
        """Add to the counters."""
        self.packets += packets
        self.bytes += size
        self.truncated += truncated

    def counts(self) -> LineCounts:
        """Return the counters so far."""
        return LineCounts(self.packets, self.bytes, self.truncated, dropped(self.socket))


@dataclass(slots=True)
class _ReceivedDatagrams:
    """Datagrams received one by one."""

    payloads: list[bytes] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    sources: list[int] = field(default_factory=list)
    more: bool = False


class PlainReceiver:
    """Receives datagrams one by one with Python's sockets."""

    def __init__(
        self,
        *,
        max_batch: int = MAX_BATCH,
        slot_bytes: int = SLOT_BYTES,
        spin: bool = False,
    ) -> None:
        self._max_batch = max_batch
        self._slot_bytes = slot_bytes
        self._spin = spin
        self._lines: dict[int, _Line] = {}
        self._added = 0
        self._waker = _Waker()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._waker.end, selectors.EVENT_READ, -1)

    def add(self, listening: socket.socket) -> int:
        """Add a socket; return the number of its line, which is never reused."""
        line, self._added = self._added, self._added + 1
        self._lines[line] = _Line(listening)
        self._selector.register(listening, selectors.EVENT_READ, line)
        return line

    def remove(self, line: int) -> None:
        """Close the socket of a line."""
        removed = self._lines.pop(line)
        self._selector.unregister(removed.socket)
        removed.socket.close()

    def receive(self, timeout_s: float) -> DatagramBatch:
        """Wait up to ``timeout_s`` for datagrams; the batch is empty on timeout or wake-up."""
        ready = self._selector.select(0 if self._spin else max(0.0, timeout_s))
        numbers = [key.data for key, _ in ready if key.data >= 0]
        if len(numbers) < len(ready):
            self._waker.clear()
        received = _ReceivedDatagrams()
        share = max(1, self._max_batch // max(1, len(numbers)))
        for number in numbers:
            self._take(number, share, received)
        return _batch(received)

    def _take(self, number: int, max_batch: int, received: _ReceivedDatagrams) -> None:
        line = self._lines[number]
        for _ in range(max_batch):
            try:
                payload, ancillary, flags, sender = line.socket.recvmsg(
                    self._slot_bytes, _CONTROL_BYTES
                )
            except BlockingIOError:
                return
            except OSError as error:
                raise NetworkError(_broken(line.socket, error)) from error
            line.add(1, len(payload), bool(flags & socket.MSG_TRUNC))
            received.payloads.append(payload)
            received.times.append(_time_of(ancillary))
            received.lines.append(number)
            received.sources.append(int(IPv4Address(sender[0])) << 16 | sender[1])
        received.more = True

    def wake(self) -> None:
        """Make a receiver that waits in another thread return immediately."""
        self._waker.wake()

    def counts(self, line: int) -> LineCounts:
        """Return the counters of a line."""
        return self._lines[line].counts()

    def close(self) -> None:
        """Close all sockets."""
        for line in list(self._lines):
            self.remove(line)
        self._selector.close()
        self._waker.close()


def _time_of(ancillary: list[tuple[int, int, bytes]]) -> int:
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS and len(data) >= _TIME.size:
            seconds, nanos = _TIME.unpack_from(data)
            return int(seconds) * SECOND + int(nanos)
    return time.time_ns()


def _batch(received: _ReceivedDatagrams) -> DatagramBatch:
    """Return the datagrams as flat arrays, ordered by time."""
    length = np.array([len(payload) for payload in received.payloads], np.int32)
    offset = np.concatenate(([0], np.cumsum(length[:-1], dtype=np.int64)))[: len(length)]
    joined = b"".join([*received.payloads, bytes(PADDING)])
    times = np.array(received.times, np.int64)
    order = np.argsort(times, kind="stable")
    lines = np.array(received.lines, np.int32)
    return DatagramBatch(
        np.frombuffer(bytearray(joined), np.uint8),  # kernels require writable arrays
        offset.astype(np.int64)[order],
        length[order],
        times[order],
        lines[order],
        np.array(received.sources, np.int64)[order],
        received.more,
    )


def _broken(listening: socket.socket, error: OSError) -> str:
    host, port = listening.getsockname()[:2]
    return f"Receiving on {host}:{port} failed: {error.strerror}."
