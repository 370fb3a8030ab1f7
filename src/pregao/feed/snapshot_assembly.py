"""Assembles snapshots from packets, and keeps them until the incremental stream reaches them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from pregao.feed.book_updates import SIDES
from pregao.feed.listener import EventMessage
from pregao.umdf import templates
from pregao.umdf.loops import InstrumentSnapshot, SnapshotHeader, SnapshotLoop
from pregao.umdf.packets import DecodedPacket
from pregao.umdf.sequencing import PacketKey, covers, is_sequence_version
from pregao.units import Side

T = TypeVar("T")

MAX_PER_INSTRUMENT = 4
"""Maximum number of pending snapshots of one instrument: the oldest, which are reached first, and
the newest."""


def ends_version(packet: DecodedPacket) -> bool:
    """Whether a packet ends its sequence version, and so a loop."""
    return any(decoded.message.id == templates.SEQUENCE_RESET for decoded in packet.messages)


def whole_snapshots(
    loop: SnapshotLoop[EventMessage], packet: DecodedPacket
) -> Iterator[InstrumentSnapshot[EventMessage]]:
    """Add the messages of a packet to their loop; yield the snapshots that they complete."""
    for outcome in packet.outcomes:
        if outcome.decoded is None or outcome.frame is None:
            continue
        values, template = outcome.decoded.values, outcome.frame.template_id
        part = EventMessage(outcome.frame.version, values, template)
        if template == templates.SNAPSHOT_HEADER:
            header = SnapshotHeader.from_values(values)
            version = header.last_sequence_version
            if version is not None and not is_sequence_version(version):
                continue  # it refers to no packet
            snapshot = loop.header(header)
        elif template == templates.SNAPSHOT_ORDERS:
            sides = [SIDES.get(entry["mDEntryType"]) for entry in values["noMDEntries"]]
            bids, offers = sides.count(Side.BID), sides.count(Side.ASK)
            snapshot = loop.orders(values["securityID"], bids, offers, part)
        elif template == templates.SECURITY_GROUP_PHASE:
            loop.phase(part)
            continue
        elif "securityID" in values:
            snapshot = loop.statistic(values["securityID"], part)
        else:
            continue
        if snapshot.complete and snapshot.header is not None:
            yield snapshot


class PendingSnapshots(Generic[T]):
    """Keeps snapshots until the incremental stream reaches them; a few per instrument."""

    def __init__(self) -> None:
        self._ahead: list[tuple[PacketKey, InstrumentSnapshot[T]]] = []
        self._count: dict[int, int] = {}
        self._early: dict[int, InstrumentSnapshot[T]] = {}

    def __len__(self) -> int:
        """Return the number of pending snapshots."""
        return len(self._ahead) + len(self._early)

    def clear(self) -> None:
        """Remove the snapshots ahead of the stream: their packet keys are no longer valid."""
        self._ahead.clear()
        self._count.clear()

    def came_early(self, snapshot: InstrumentSnapshot[T]) -> None:
        """Keep a snapshot received before the first packet: the newest of each instrument."""
        self._early[snapshot.security_id] = snapshot

    def early(self) -> list[InstrumentSnapshot[T]]:
        """Return and clear the snapshots received before the first packet."""
        early, self._early = self._early, {}
        return list(early.values())

    def add(self, packet_key: PacketKey, snapshot: InstrumentSnapshot[T]) -> None:
        """Keep a snapshot that is ahead of the incremental stream."""
        security_id = snapshot.security_id
        count = self._count.get(security_id, 0)
        if count == MAX_PER_INSTRUMENT:
            indices = [
                index
                for index, each in enumerate(self._ahead)
                if each[1].security_id == security_id
            ]
            del self._ahead[indices[-1]]
        else:
            self._count[security_id] = count + 1
        self._ahead.append((packet_key, snapshot))

    def reached(
        self, packet_key: PacketKey, *, after_packet: bool
    ) -> list[tuple[PacketKey, InstrumentSnapshot[T]]]:
        """Remove and return the snapshots as of packets before this one, or also of this one."""
        if not self._ahead:
            return []
        due, rest = [], []
        for each in self._ahead:
            if covers(packet_key, each[0]) and (after_packet or each[0] != packet_key):
                due.append(each)
                self._count[each[1].security_id] -= 1
            else:
                rest.append(each)
        self._ahead = rest
        return due
