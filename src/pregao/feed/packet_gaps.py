"""Packet gaps of a channel: packets that are missing, or that could not be read completely.

A gap makes every book of the channel unconfirmed, from after the last packet before the gap until
the book's next proof (see `pregao.umdf.gaps`). By time, it begins when that last packet was sent:
no later time is known to be before the first missing packet.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np

from pregao.arrays import Int64Array, Uint8Array
from pregao.clock import format_ns
from pregao.feed.packet_keys import AFTER_PACKET, INDEX_BITS, message_serial
from pregao.umdf.sequencing import PacketKey

MANY = 1 << 32
"""Number of missing packets assumed where the real number is unknown."""
MAX_GAPS = 65_536
"""Maximum number of gaps that a channel keeps; of older ones, only the total is kept."""


@dataclass(frozen=True, slots=True)
class PacketGap:
    """Missing packets, by their serials."""

    first: int
    packets: int
    """Number of packets; MANY if unknown."""
    unread: bool = False
    """Whether this is a received packet that could not be read completely."""
    since_ns: int = 0
    """Sending time of the last packet before the gap, or of the packet that could not be read; 0 if
    the data begins with the gap."""
    since_capture_ns: int = 0
    """Capture time of that packet."""
    until_ns: int = 0
    """Sending time of what reveals the gap: the packet after it, or a heartbeat; 0 if unknown."""
    until_capture_ns: int = 0


@dataclass(slots=True)
class PacketGapColumns:
    """The gaps of a day as columns, in order."""

    first: Int64Array
    packets: Int64Array
    unread: Uint8Array
    since: Int64Array
    since_capture: Int64Array
    until: Int64Array
    until_capture: Int64Array

    def __len__(self) -> int:
        return len(self.first)

    @staticmethod
    def from_gaps(gaps: Iterable[PacketGap]) -> PacketGapColumns:
        """Return gaps as columns."""
        ordered = sorted(gaps, key=lambda gap: gap.first)
        return PacketGapColumns(
            np.array([gap.first for gap in ordered], np.int64),
            np.array([gap.packets for gap in ordered], np.int64),
            np.array([gap.unread for gap in ordered], np.uint8),
            np.array([gap.since_ns for gap in ordered], np.int64),
            np.array([gap.since_capture_ns for gap in ordered], np.int64),
            np.array([gap.until_ns for gap in ordered], np.int64),
            np.array([gap.until_capture_ns for gap in ordered], np.int64),
        )

    def take(self, chosen: Int64Array) -> PacketGapColumns:
        """Return the gaps at these indices."""
        return PacketGapColumns(*(getattr(self, column.name)[chosen] for column in fields(self)))

    @property
    def sending(self) -> Int64Array:
        """Sending times that rows of tables give the gaps: of the last packet before, or after."""
        return np.where(self.since > 0, self.since, self.until)

    @property
    def capture(self) -> Int64Array:
        """Capture times that rows of tables give the gaps."""
        return np.where(self.since > 0, self.since_capture, self.until_capture)

    def describe(self, at: int, base: int) -> str:
        """Return what is missing in a gap and when it was sent, in words."""
        first, packets = int(self.first[at]), int(self.packets[at])
        since, until = int(self.since[at]), int(self.until[at])
        key = PacketKey.from_serial(first, base)
        number, version = key.sequence_number, key.sequence_version
        if packets >= MANY:
            what = f"packets from {number} on"
        elif packets == 1:
            what = f"packet {number}"
        else:
            what = f"packets {number} to {number + packets - 1}"
        if since and until:
            when = f"between {format_ns(since)} and {format_ns(until)}"
        else:
            when = f"after {format_ns(since)}" if since else f"before {format_ns(until)}"
        state = "is missing" if packets == 1 else "are missing"
        if self.unread[at]:
            when = f"at {format_ns(since)}" if since == until else when
            state = "could not be read completely"
        return f"{what} of sequence version {version}, sent {when}, {state}"

    @property
    def serials(self) -> Int64Array:
        """Message serials at which the gaps begin: after the last packet before each."""
        return message_serial(self.first - 1, AFTER_PACKET)

    def _total(self) -> Int64Array:
        return np.concatenate([[0], np.cumsum(self.packets)])

    def missing(self, message_serial: Int64Array) -> Int64Array:
        """Return the number of packets missing up to serials, with all of a gap around one."""
        missing: Int64Array = self._total()[
            np.searchsorted(self.serials, message_serial, side="right")
        ]
        return missing

    def covered(self, message_serial: Int64Array) -> Int64Array:
        """Return the number of missing packets up to and including those of message serials."""
        serial = message_serial >> INDEX_BITS
        at = np.searchsorted(self.first, serial, side="right")
        # In a gap of unknown size, nothing is known to follow a serial inside it.
        extent = np.where(self.packets < MANY, self.packets, 1)
        last = np.concatenate([[-1], self.first + extent - 1])
        covered: Int64Array = self._total()[at] - np.maximum(last[at] - serial, 0)
        return covered

    def sound(self, message_serial: Int64Array) -> Uint8Array:
        """Return which message serials are in packets that could be read completely."""
        unread = self.first[self.unread != 0]
        return (~np.isin(message_serial >> INDEX_BITS, unread)).astype(np.uint8)

    def between(
        self, rank: Int64Array, message_serial: Int64Array, instruments: int
    ) -> tuple[Int64Array, Int64Array]:
        """Return the gaps that affect instruments: the rank of each, and the index of the gap.

        Of several gaps between two items of an instrument only the first changes anything; the
        first gap of all affects every instrument.
        """
        if not len(self):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        index = np.searchsorted(self.serials, message_serial, side="right")
        width = len(self) + 1
        label = np.concatenate([rank * width + index, np.arange(instruments) * width])
        ranks, gaps = np.divmod(np.unique(label), width)
        exists = gaps < len(self)
        return ranks[exists], gaps[exists]


def no_gaps() -> PacketGapColumns:
    """Return the gaps of a day without missing packets."""
    return PacketGapColumns.from_gaps(())


class PacketGapLog:
    """The gaps of a channel, recorded packet by packet: the plain twin of `PacketGapColumns`."""

    __slots__ = ("_base", "_first", "_packets", "_total")

    def __init__(self) -> None:
        self._base: int | None = None
        self._first: list[int] = []
        self._packets: list[int] = []
        self._total = [0]

    @property
    def missing(self) -> int:
        """Number of packets missing so far."""
        return self._total[-1]

    def add(self, first: PacketKey, packets: int) -> None:
        """Record packets missing from a packet key on; gaps must be added in order."""
        if self._base is None:
            self._base = first.sequence_version
        self._first.append(first.serial(self._base))
        self._packets.append(packets)
        self._total.append(self._total[-1] + packets)
        if len(self._first) > MAX_GAPS:
            # A snapshot from before the kept gaps then proves less than it could.
            forgotten = MAX_GAPS // 2
            del self._first[:forgotten], self._packets[:forgotten], self._total[:forgotten]

    def begins(self, proven: int) -> PacketKey | None:
        """Return the packet before the first gap after a proof; None if there is none."""
        at = max(bisect_right(self._total, max(proven, 0)) - 1, 0)
        if self._base is None or at >= len(self._first):
            return None
        return PacketKey.from_serial(self._first[at] - 1, self._base)

    def missing_at(self, packet_key: PacketKey) -> int:
        """Return the number missing up to the end of a packet, with all of a gap around it."""
        if self._base is None:
            return 0
        return self._total[bisect_right(self._first, packet_key.serial(self._base) + 1)]

    def covered_at(self, packet_key: PacketKey) -> int:
        """Return the number of missing packets up to and including a packet."""
        if self._base is None:
            return 0
        serial = packet_key.serial(self._base)
        at = bisect_right(self._first, serial)
        if at == 0:
            return 0
        extent = self._packets[at - 1] if self._packets[at - 1] < MANY else 1
        return self._total[at] - max(self._first[at - 1] + extent - 1 - serial, 0)
