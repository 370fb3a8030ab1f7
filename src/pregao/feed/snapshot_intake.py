"""Snapshots on their way into books: put together from packets, and kept until their turn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from pregao.feed.listener import Part
from pregao.umdf import templates
from pregao.umdf.loops import InstrumentSnapshot, SnapshotHeader, SnapshotLoop
from pregao.umdf.packets import DecodedPacket
from pregao.umdf.sequencing import Place, covers, is_sequence_version

T = TypeVar("T")

MOST_OF_INSTRUMENT = 4
"""So many snapshots of one instrument wait: the first ones, which are reached first, and the
newest."""


def ends_version(packet: DecodedPacket) -> bool:
    """Does a packet end its sequence version, and so a loop?"""
    return any(decoded.message.id == templates.SEQUENCE_RESET for decoded in packet.messages)


def whole_snapshots(
    loop: SnapshotLoop[Part], packet: DecodedPacket
) -> Iterator[InstrumentSnapshot[Part]]:
    """Put the messages of a packet into their loop; the snapshots that are whole with it."""
    for found in packet.outcomes:
        if found.decoded is None or found.frame is None:
            continue
        values, template = found.decoded.values, found.frame.template_id
        part = Part(found.frame.version, values, template)
        if template == templates.SNAPSHOT_HEADER:
            header = SnapshotHeader.of(values)
            version = header.last_sequence_version
            if version is not None and not is_sequence_version(version):
                continue  # it holds as of no packet
            snapshot = loop.header(header)
        elif template == templates.SNAPSHOT_ORDERS:
            sides = [entry["mDEntryType"] for entry in values["noMDEntries"]]
            bids, offers = sides.count("BID"), sides.count("OFFER")
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


class WaitingSnapshots(Generic[T]):
    """Keeps snapshots until the incremental stream reaches them; at most a few of an instrument."""

    def __init__(self) -> None:
        self._ahead: list[tuple[Place, InstrumentSnapshot[T]]] = []
        self._count: dict[int, int] = {}
        self._early: dict[int, InstrumentSnapshot[T]] = {}

    def __len__(self) -> int:
        """How many there are."""
        return len(self._ahead) + len(self._early)

    def clear(self) -> None:
        """Forget those that were to be reached: their places mean nothing any more."""
        self._ahead.clear()
        self._count.clear()

    def came_early(self, snapshot: InstrumentSnapshot[T]) -> None:
        """Keep a snapshot that came before the first packet: the newest of each instrument."""
        self._early[snapshot.security_id] = snapshot

    def early(self) -> list[InstrumentSnapshot[T]]:
        """The snapshots that came before the first packet, once."""
        early, self._early = self._early, {}
        return list(early.values())

    def add(self, place: Place, snapshot: InstrumentSnapshot[T]) -> None:
        """Keep a snapshot that holds more than has been delivered."""
        security_id = snapshot.security_id
        count = self._count.get(security_id, 0)
        if count == MOST_OF_INSTRUMENT:
            own = [at for at, each in enumerate(self._ahead) if each[1].security_id == security_id]
            del self._ahead[own[-1]]
        else:
            self._count[security_id] = count + 1
        self._ahead.append((place, snapshot))

    def reached(self, place: Place, *, behind: bool) -> list[tuple[Place, InstrumentSnapshot[T]]]:
        """Those that hold as of a place before this one, or if we are behind it of this one."""
        if not self._ahead:
            return []
        found, rest = [], []
        for each in self._ahead:
            if covers(place, each[0]) and (behind or each[0] != place):
                found.append(each)
                self._count[each[1].security_id] -= 1
            else:
                rest.append(each)
        self._ahead = rest
        return found
