"""Replayer: sends captures again, each line to a target, at the pace of the capture.

Packets captured at the same time are sent together, even from different files.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from pregao.capture.source import Source
from pregao.clock import SECOND
from pregao.errors import UsageError
from pregao.legacy.messages import MessageReader
from pregao.legacy.streams import is_legacy
from pregao.live.capture_merge import MergedDatagrams, merged
from pregao.net.addresses import Address, NetworkInterface
from pregao.net.sender import Sender
from pregao.umdf.layout import PACKET_HEADER_SIZE, SENDING_TIME_AT
from pregao.umdf.survey.lines import Destination, LineTable

MAX_BATCH = 1024
"""Maximum number of datagrams sent before `stop` is checked."""
_MAX_SLEEP_S = 0.2
_SPEED = re.compile(r"(\d+(?:\.\d+)?)x?")


@dataclass(frozen=True, slots=True)
class ReplaySpeed:
    """Replay speed as a factor of the captured pace; None is as fast as possible."""

    factor: float | None = 1.0

    def __str__(self) -> str:
        return "max" if self.factor is None else f"{self.factor:g}x"


def parse_speed(text: str) -> ReplaySpeed:
    """Read ``1x``, ``10x``, ``0.5x`` or ``max``."""
    plain = text.strip().lower()
    if plain == "max":
        return ReplaySpeed(None)
    matched = _SPEED.fullmatch(plain)
    if matched is None or not 0 < float(matched.group(1)) <= 1e6:
        raise UsageError(
            f'--speed must be a factor such as 1x, 10x or 0.5x, or "max", was {text!r}.'
        )
    return ReplaySpeed(float(matched.group(1)))


def targets_from(first: Address, destinations: Iterable[Destination]) -> dict[Destination, Address]:
    """Return a target for each destination, in order: the first, then the next groups and ports.

    If the first target is not a multicast group, all destinations go to that host, each to a
    separate port.
    """
    return {each: first.moved(index) for index, each in enumerate(sorted(set(destinations)))}


def destinations_of(captures: Sequence[Source]) -> list[Destination]:
    """Return all destinations of datagrams in the captures."""
    lines = LineTable()
    for _ in merged(captures, lines):
        pass
    return lines.destinations


@dataclass(slots=True)
class ReplayCounts:
    """Counts of a replay."""

    packets: int = 0
    bytes: int = 0
    unsent: int = 0
    """Datagrams to destinations without a target: IPv6, not selected, or on another host."""
    capture_ns: int = 0
    """Capture time of the last packet sent."""
    late_ns: int = 0
    """Maximum time by which a packet was sent after it was due."""


OnProgress = Callable[[ReplayCounts], None]


class Replayer:
    """Sends captures; `stop` may be called from another thread."""

    def __init__(
        self,
        captures: Sequence[Source],
        targets: Mapping[Destination, Address] | None = None,
        *,
        speed: ReplaySpeed = ReplaySpeed(),  # noqa: B008 - it is frozen
        interface: NetworkInterface | None = None,
        ttl: int = 0,
        rewrite_times: bool = False,
        allow_remote: bool = False,
    ) -> None:
        """Prepare a replay; without ``targets`` packets go to their captured destinations.

        Unless ``allow_remote``, a target that is neither a multicast group nor loopback is refused,
        and packets captured to such a destination are not sent. With ``rewrite_times`` the packets'
        sending times are moved to the time of the replay; those of the legacy feed, which are in
        its messages, are unchanged.
        """
        for target in () if targets is None or allow_remote else targets.values():
            if not target.is_loopback:
                raise UsageError(
                    f"{target} is neither a multicast group nor loopback: packets would leave this "
                    "machine. Choose another target, or allow it with --allow-remote."
                )
        self._allow_remote = allow_remote
        self.counts = ReplayCounts()
        self._captures = captures
        self._targets = targets
        self._speed = speed
        self._interface = interface
        self._ttl = ttl
        self._current = rewrite_times
        self._stopped = threading.Event()
        self._timed: dict[int, bool] = {}
        """By line: whether its packets have a header with their sending time."""

    def stop(self) -> None:
        """Stop the replay soon."""
        self._stopped.set()

    def run(self, on_progress: OnProgress | None = None) -> ReplayCounts:
        """Send everything; ``on_progress`` is called regularly with the counts so far."""
        lines = LineTable()
        known: dict[Address, int] = {}
        sender: Sender | None = None
        of_line: NDArray[np.int32] = np.empty(0, np.int32)
        pace: _Pace | None = None
        try:
            for stretch in merged(self._captures, lines):
                if len(of_line) < len(lines.destinations):
                    of_line = self._numbers(lines.destinations, known)
                    if sender is not None:
                        sender.close()
                    sender = Sender(list(known), interface=self._interface, ttl=self._ttl)
                assert sender is not None
                pace = pace or _Pace(self._speed, int(stretch.time_ns[0]))
                self._send(sender, stretch, of_line[stretch.line], pace, on_progress)
                if self._stopped.is_set():
                    break
        finally:
            if sender is not None:
                sender.close()
        return self.counts

    def _numbers(
        self, destinations: Sequence[Destination], known: dict[Address, int]
    ) -> NDArray[np.int32]:
        """Return the number of each line's target, or -1 if it has none."""
        numbers = []
        for each in destinations:
            if self._targets is not None:
                target = self._targets.get(each)
            else:
                target = None if ":" in each.address else Address(*each)
                if target is not None and not (self._allow_remote or target.is_loopback):
                    target = None
            numbers.append(-1 if target is None else known.setdefault(target, len(known)))
        return np.array(numbers, np.int32)

    def _send(
        self,
        sender: Sender,
        stretch: MergedDatagrams,
        target: NDArray[np.int32],
        pace: _Pace,
        on_progress: OnProgress | None,
    ) -> None:
        wanted = np.flatnonzero(target >= 0)
        self.counts.unsent += len(target) - len(wanted)
        offset, length = stretch.offset[wanted], stretch.length[wanted]
        time_ns, target = stretch.time_ns[wanted], target[wanted]
        buffer = stretch.buffer
        if self._current:
            buffer = buffer.copy()
            timed = self._have_times(stretch)[wanted]
            _set_times(buffer, offset[timed], length[timed], pace)
        due = pace.due(time_ns)
        begin = 0
        while begin < len(offset) and not self._stopped.is_set():
            now = time.time_ns()
            end = int(np.searchsorted(due[begin : begin + MAX_BATCH], now, side="right")) + begin
            if end == begin:
                left = (int(due[begin]) - now) / SECOND
                self._stopped.wait(min(left, _MAX_SLEEP_S))
                continue
            sender.send_all(buffer, offset[begin:end], length[begin:end], target[begin:end])
            self._count(length[begin:end], int(time_ns[end - 1]), now - int(due[begin]))
            begin = end
            if on_progress is not None:
                on_progress(self.counts)

    def _have_times(self, stretch: MergedDatagrams) -> NDArray[np.bool_]:
        """Return which datagrams have a header with a sending time; the first of a line decides."""
        lines, firsts = np.unique(stretch.line, return_index=True)
        for line, row in zip(lines.tolist(), firsts.tolist(), strict=True):
            if line not in self._timed:
                begin = int(stretch.offset[row])
                payload = stretch.buffer[begin : begin + int(stretch.length[row])].tobytes()
                self._timed[line] = not is_legacy(payload, _legacy_reader())
        timed = np.array([self._timed[line] for line in lines.tolist()], np.bool_)
        has_time: NDArray[np.bool_] = timed[np.searchsorted(lines, stretch.line)]
        return has_time

    def _count(self, length: NDArray[np.int32], capture_ns: int, late_ns: int) -> None:
        counts = self.counts
        counts.packets += len(length)
        counts.bytes += int(length.sum())
        counts.capture_ns = capture_ns
        if self._speed.factor is not None:
            counts.late_ns = max(counts.late_ns, late_ns)


@cache
def _legacy_reader() -> MessageReader:
    return MessageReader()


class _Pace:
    """Converts capture times to the times at which packets are due."""

    def __init__(self, speed: ReplaySpeed, first_ns: int) -> None:
        self._speed = speed
        self._first_ns = first_ns
        self._start_ns = time.time_ns()

    def due(self, captured_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the times at which to send; at maximum speed everything is due immediately."""
        factor = self._speed.factor
        if factor is None:
            return np.zeros(len(captured_ns), np.int64)
        since = captured_ns - self._first_ns
        return self._start_ns + (since if factor == 1 else (since / factor).astype(np.int64))

    def moved(self, sent_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return sending times moved to the time of this replay."""
        if self._speed.factor is None:
            return np.full(len(sent_ns), time.time_ns(), np.int64)
        return self.due(sent_ns)


def _set_times(
    buffer: NDArray[np.uint8], offset: NDArray[np.int64], length: NDArray[np.int32], pace: _Pace
) -> None:
    """Rewrite the sending times of packets; datagrams without a packet header are unchanged."""
    offsets = offset[length >= PACKET_HEADER_SIZE] + SENDING_TIME_AT
    indices = offsets[:, None] + np.arange(8)
    sent = np.ascontiguousarray(buffer[indices]).view("<i8").reshape(-1)
    buffer[indices] = pace.moved(sent).astype("<i8")[:, None].view(np.uint8).reshape(-1, 8)
