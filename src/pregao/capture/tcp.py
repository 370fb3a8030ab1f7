"""TCP reassembly: segments of a capture into the bytes that each side sent, in order."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from pregao.capture.layers import Flow, Segment

_FIN, _SYN, _RST = 1, 2, 4
_WRAP = 1 << 32
# Overhead of holding a segment.
_COST_OF_SEGMENT = 100
# A retransmitted segment is within the receiver's window; one further back is unrelated.
_FURTHEST_BACK = 1 << 26
_STRAYS_TO_RESTART = 3


@dataclass(frozen=True, slots=True)
class TcpLimits:
    """Limits of what is held while a segment is missing, and of the number of flows.

    ``bytes`` and ``segments`` apply per direction, ``total_bytes`` to all of them.
    """

    flows: int = 4096
    bytes: int = 1024 * 1024
    segments: int = 1024
    total_bytes: int = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class StreamData:
    """The next bytes of a stream; the time is that of the segment that made them available."""

    kind: ClassVar[str] = "chunk"

    flow: Flow
    time_ns: int
    data: bytes


@dataclass(frozen=True, slots=True)
class StreamGap:
    """Bytes of a stream that were never captured, with their number if known."""

    kind: ClassVar[str] = "gap"

    flow: Flow
    time_ns: int
    missing: int | None


@dataclass(frozen=True, slots=True)
class StreamStart:
    """A stream starts: with its SYN, or in the middle."""

    kind: ClassVar[str] = "start"

    flow: Flow
    time_ns: int
    from_syn: bool


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """A stream ends: ``fin``, ``reset``, ``restart``, ``evicted`` or ``capture end``."""

    kind: ClassVar[str] = "end"

    flow: Flow
    time_ns: int
    reason: str


StreamEvent = StreamData | StreamGap | StreamStart | StreamEnd


@dataclass(slots=True)
class _Direction:
    """One direction of a connection; positions count the stream's bytes without wrapping."""

    flow: Flow
    first: int
    next: int
    time_ns: int = 0
    starts: list[int] = field(default_factory=list)
    parts: list[bytes] = field(default_factory=list)
    held: int = 0
    end: int | None = None
    over: bool = False
    strays: int = 0


class TcpReassembler:
    """Reassembles segments in capture order into the bytes of each direction in stream order.

    Repeated bytes are dropped; the first copy of a byte wins. A gap is waited for until the bytes
    held after it exceed the limits; then it is reported and the stream continues.
    """

    def __init__(self, limits: TcpLimits | None = None) -> None:
        self._limits = limits or TcpLimits()
        self._directions: OrderedDict[Flow, _Direction] = OrderedDict()
        self._held = 0

    def segment(self, segment: Segment) -> list[StreamEvent]:
        """Process a segment; return the resulting stream events."""
        events: list[StreamEvent] = []
        flow, time_ns = segment.flow, segment.time_ns
        direction = self._directions.get(flow)
        if segment.flags & _SYN:
            direction = self._begin(direction, flow, segment, events)
        elif direction is None:
            if not segment.payload:
                return events
            direction = self._open(flow, segment.sequence, time_ns, False, events)
        self._directions.move_to_end(flow)
        direction.time_ns = time_ns
        data_sequence = segment.sequence + (1 if segment.flags & _SYN else 0)
        position = _unwrapped(data_sequence, direction.next)
        if direction.over and self._is_reused(direction, position, segment):
            del self._directions[flow]
            direction = self._open(flow, data_sequence % _WRAP, time_ns, False, events)
            position = direction.next
        if segment.payload and not direction.over:
            position = self._take(direction, position, segment, events)
        finish = position + len(segment.payload)
        if segment.flags & _FIN and finish >= direction.next:
            direction.end = finish if direction.end is None else min(direction.end, finish)
        if segment.flags & _RST:
            self._close(direction, time_ns, "reset", events)
        elif direction.end is not None and direction.next >= direction.end:
            self._close(direction, time_ns, "fin", events)
        return events

    def next_sequence(self, flow: Flow) -> int | None:
        """Return the sequence number of the next byte, if a segment with it continues the stream.

        None otherwise: the stream is unknown or has ended, bytes are held after a gap, or its end
        is known.
        """
        direction = self._directions.get(flow)
        if direction is None or direction.over or direction.starts or direction.end is not None:
            return None
        return direction.next % _WRAP

    def advance(self, flow: Flow, count: int, time_ns: int) -> None:
        """Record that ``count`` bytes arrived in order and were delivered by another component."""
        direction = self._directions.get(flow)
        if direction is None:
            return  # evicted in the meantime
        direction.next += count
        direction.time_ns = time_ns
        direction.strays = 0
        self._directions.move_to_end(flow)

    def finish(self) -> list[StreamEvent]:
        """End the capture: return the bytes still held after gaps, and end every stream."""
        events: list[StreamEvent] = []
        for direction in self._directions.values():
            self._close(direction, direction.time_ns, "capture end", events)
        self._directions.clear()
        return events

    def _begin(
        self,
        direction: _Direction | None,
        flow: Flow,
        segment: Segment,
        events: list[StreamEvent],
    ) -> _Direction:
        """Handle a SYN: of a new connection, or repeated on the current one."""
        first = (segment.sequence + 1) % _WRAP
        if direction is not None:
            if not direction.over and direction.first % _WRAP == first:
                return direction
            self._close(direction, segment.time_ns, "restart", events)
            del self._directions[flow]
        return self._open(flow, first, segment.time_ns, True, events)

    def _open(
        self, flow: Flow, first: int, time_ns: int, from_syn: bool, events: list[StreamEvent]
    ) -> _Direction:
        while len(self._directions) >= self._limits.flows:
            _, oldest = self._directions.popitem(last=False)
            self._close(oldest, oldest.time_ns, "evicted", events)
        # Starting at one wrap keeps positions positive for bytes before the first.
        direction = _Direction(flow, first + _WRAP, first + _WRAP, time_ns)
        self._directions[flow] = direction
        events.append(StreamStart(flow, time_ns, from_syn))
        return direction

    @staticmethod
    def _is_reused(direction: _Direction, at: int, segment: Segment) -> bool:
        """Whether new bytes arrive on an ended stream: its ports then serve a new connection."""
        repeated = at + len(segment.payload) <= direction.next
        if not segment.payload or (repeated and at >= direction.next - _FURTHEST_BACK):
            return False
        direction.strays += 1
        return direction.strays >= _STRAYS_TO_RESTART

    def _take(
        self, direction: _Direction, at: int, segment: Segment, events: list[StreamEvent]
    ) -> int:
        """Deliver, hold or drop a segment's bytes; return their position in the stream."""
        data = segment.payload
        if at < direction.next - _FURTHEST_BACK:
            # One such segment is noise; several in a row are a new connection whose SYN was lost.
            direction.strays += 1
            if direction.strays < _STRAYS_TO_RESTART:
                return at
            self._flush(direction, segment.time_ns, events)
            events.append(StreamGap(direction.flow, segment.time_ns, None))
            direction.next = direction.first = at = segment.sequence + _WRAP
            direction.end = None
        direction.strays = 0
        start = at
        if direction.end is not None and start + len(data) > direction.end:
            data = data[: max(0, direction.end - start)]
        if start < direction.next:
            data = data[direction.next - start :]
            start = direction.next
        if not data:
            return at
        if start == direction.next and not direction.starts:
            direction.next += len(data)
            events.append(StreamData(direction.flow, segment.time_ns, data))
            return at
        self._hold(direction, start, data)
        self._deliver(direction, segment.time_ns, events)
        limits = self._limits
        while direction.starts and (
            direction.held > limits.bytes
            or len(direction.starts) > limits.segments
            or self._held > limits.total_bytes
        ):
            self._skip(direction, segment.time_ns, events)
        return at

    def _hold(self, direction: _Direction, start: int, data: bytes) -> None:
        """Hold those of the bytes that are not held already."""
        end = start + len(data)
        index = bisect_right(direction.starts, start)
        position = start
        if index:
            position = max(position, direction.starts[index - 1] + len(direction.parts[index - 1]))
        while position < end:
            free_to = end
            if index < len(direction.starts):
                free_to = min(end, direction.starts[index])
            if position < free_to:
                part = data[position - start : free_to - start]
                direction.starts.insert(index, position)
                direction.parts.insert(index, part)
                self._account(direction, len(part) + _COST_OF_SEGMENT)
                index += 1
            if index >= len(direction.starts):
                break
            position = max(free_to, direction.starts[index] + len(direction.parts[index]))
            index += 1

    def _deliver(self, direction: _Direction, time_ns: int, events: list[StreamEvent]) -> None:
        """Deliver the bytes held directly after the delivered ones, in one chunk."""
        count, position = 0, direction.next
        while count < len(direction.starts) and direction.starts[count] == position:
            position += len(direction.parts[count])
            count += 1
        if count:
            data = b"".join(direction.parts[:count])
            del direction.starts[:count], direction.parts[:count]
            self._account(direction, -len(data) - count * _COST_OF_SEGMENT)
            direction.next = position
            events.append(StreamData(direction.flow, time_ns, data))

    def _skip(self, direction: _Direction, time_ns: int, events: list[StreamEvent]) -> None:
        """Report the first gap and continue after it."""
        missing = direction.starts[0] - direction.next
        events.append(StreamGap(direction.flow, time_ns, missing))
        direction.next = direction.starts[0]
        self._deliver(direction, time_ns, events)

    def _flush(self, direction: _Direction, time_ns: int, events: list[StreamEvent]) -> None:
        while direction.starts:
            self._skip(direction, time_ns, events)

    def _close(
        self, direction: _Direction, time_ns: int, reason: str, events: list[StreamEvent]
    ) -> None:
        """End a stream once; it is remembered so that late retransmissions do not reopen it."""
        if direction.over:
            return
        self._flush(direction, time_ns, events)
        direction.over = True
        direction.strays = 0
        events.append(StreamEnd(direction.flow, time_ns, reason))

    def _account(self, direction: _Direction, cost: int) -> None:
        direction.held += cost
        self._held += cost


def _unwrapped(sequence: int, near: int) -> int:
    """Return the position of a 32-bit sequence number, the one closest to ``near``."""
    ahead = (sequence - near) % _WRAP
    return near + (ahead if ahead < _WRAP // 2 else ahead - _WRAP)


def streams(segments: Iterable[Segment], limits: TcpLimits | None = None) -> Iterator[StreamEvent]:
    """Yield the events of all streams in a capture, through to its end."""
    reassembler = TcpReassembler(limits)
    for segment in segments:
        yield from reassembler.segment(segment)
    yield from reassembler.finish()
