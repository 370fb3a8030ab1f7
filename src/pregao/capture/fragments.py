"""Reassembly of IP fragments into datagrams, in bounded memory."""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field

from pregao.capture.statistics import CaptureStatistics
from pregao.errors import DecodeError

_MAX_DATAGRAM_BYTES = 65535
# Overhead of holding a fragment, so that a flood of tiny ones is bounded too.
_COST_OF_FRAGMENT = 100


@dataclass(frozen=True, slots=True)
class FragmentLimits:
    """Limits of what is held while fragments are missing."""

    datagrams: int = 256
    bytes: int = 8 * 1024 * 1024
    age_ns: int = 30_000_000_000


@dataclass(slots=True)
class _Partial:
    """The fragments of one datagram so far, sorted by offset."""

    since_ns: int
    starts: list[int] = field(default_factory=list)
    parts: list[bytes] = field(default_factory=list)
    held: int = 0
    total: int | None = None
    cost: int = 0


class FragmentReassembler:
    """Holds fragments until their datagram is complete; drops the oldest beyond the limits.

    A datagram with overlapping fragments is dropped completely, since it is ambiguous which bytes
    are valid; an exact repetition of a fragment is ignored.
    """

    def __init__(self, statistics: CaptureStatistics, limits: FragmentLimits | None = None) -> None:
        self._statistics = statistics
        self._limits = limits or FragmentLimits()
        self._partials: OrderedDict[Hashable, _Partial] = OrderedDict()
        self._cost = 0
        self._newest_ns: int | None = None

    def add(
        self, key: Hashable, offset: int, more: bool, part: bytes, time_ns: int
    ) -> bytes | None:
        """Add a fragment; return the datagram's bytes if the fragment completes it."""
        if not part:
            raise DecodeError("empty IP fragment")
        if more and len(part) % 8:
            raise DecodeError("IP fragment length is not a multiple of 8")
        if offset + len(part) > _MAX_DATAGRAM_BYTES:
            raise DecodeError("IP fragment reaches beyond 65535 bytes")
        self._forget_old(time_ns)
        partial = self._partials.get(key)
        if partial is None:
            partial = self._partials[key] = _Partial(time_ns)
        index = bisect_left(partial.starts, offset)
        if self._repeats(partial, index, offset, more, part):
            self._statistics.fragments += 1
            self._statistics.fragments_dropped += 1
            return None
        if self._conflicts(partial, index, offset, more, part):
            self._drop(key)
            raise DecodeError("overlapping IP fragments")
        partial.starts.insert(index, offset)
        partial.parts.insert(index, part)
        partial.held += len(part)
        if not more:
            partial.total = offset + len(part)
        if partial.held == partial.total:
            del self._partials[key]
            self._cost -= partial.cost
            joined = len(partial.parts) - 1
            self._statistics.fragments_pending -= joined
            self._statistics.fragments_joined += joined
            self._statistics.reassembled += 1
            return b"".join(partial.parts)
        cost = len(part) + _COST_OF_FRAGMENT
        partial.cost += cost
        self._cost += cost
        self._statistics.fragments += 1
        self._statistics.fragments_pending += 1
        while len(self._partials) > self._limits.datagrams or self._cost > self._limits.bytes:
            self._drop(next(iter(self._partials)))
        return None

    def _forget_old(self, time_ns: int) -> None:
        if self._newest_ns is None or time_ns > self._newest_ns:
            self._newest_ns = time_ns
        while self._partials:
            key, oldest = next(iter(self._partials.items()))
            if self._newest_ns - oldest.since_ns <= self._limits.age_ns:
                break
            self._drop(key)

    def _drop(self, key: Hashable) -> None:
        partial = self._partials.pop(key)
        self._cost -= partial.cost
        self._statistics.fragments_pending -= len(partial.parts)
        self._statistics.fragments_dropped += len(partial.parts)

    @staticmethod
    def _repeats(partial: _Partial, position: int, offset: int, more: bool, part: bytes) -> bool:
        if position == len(partial.starts) or partial.starts[position] != offset:
            return False
        last = offset + len(part) == partial.total
        return partial.parts[position] == part and more != last

    @staticmethod
    def _conflicts(partial: _Partial, position: int, offset: int, more: bool, part: bytes) -> bool:
        end = offset + len(part)
        if position and partial.starts[position - 1] + len(partial.parts[position - 1]) > offset:
            return True
        if position < len(partial.starts) and (not more or partial.starts[position] < end):
            return True  # also if bytes follow what claims to be the last fragment
        if partial.total is None:
            return False
        return not more or end > partial.total or (end == partial.total and more)
