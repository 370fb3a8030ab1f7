"""Loops of the snapshot and definition streams, and whether a loop was received completely.

Each loop has its own sequence version, starts with packet 1 and ends with a SequenceReset. Lost
packets break it, but an instrument whose header and parts all arrived is complete on its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pregao.umdf.sequencing import StreamSequence, Verdict

T = TypeVar("T")

MAX_MESSAGES = 4_000_000
MAX_OLDER_PACKETS = 64
"""After this many consecutive packets of an older version the stream has restarted: its sender was
restarted, or a stray packet had a later version.
"""
MAX_OLDER_LOOPS = 2
"""Likewise if this many loops of older versions start in a row: loops may be short."""


@dataclass(frozen=True, slots=True)
class SnapshotHeader:
    """Header of the snapshot of an instrument (SnapshotFullRefresh_Header)."""

    security_id: int
    last_msg_seq_num_processed: int
    tot_num_reports: int
    tot_num_bids: int
    tot_num_offers: int
    tot_num_stats: int
    last_rpt_seq: int | None
    """None for an instrument that only has a status derived from its group."""
    last_sequence_version: int | None
    """None below schema version 15."""

    @staticmethod
    def from_values(values: Mapping[str, Any]) -> SnapshotHeader:
        """Create a header from the values of a decoded message."""
        return SnapshotHeader(
            values["securityID"],
            values["lastMsgSeqNumProcessed"],
            values["totNumReports"],
            values["totNumBids"],
            values["totNumOffers"],
            values["totNumStats"],
            values["lastRptSeq"] or None,
            values.get("lastSequenceVersion") or None,
        )


@dataclass(slots=True)
class InstrumentSnapshot(Generic[T]):
    """The part of a loop received for one instrument."""

    security_id: int
    header: SnapshotHeader | None = None
    bids: int = 0
    offers: int = 0
    statistics: int = 0
    items: list[T] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether everything that the header counts was received."""
        return self.header is not None and (
            self.header.tot_num_bids,
            self.header.tot_num_offers,
            self.header.tot_num_stats,
        ) == (self.bids, self.offers, self.statistics)


class _Loop(ABC):
    """Tracks the packets of a stream that loops."""

    def __init__(self, max_messages: int) -> None:
        self._sequence = StreamSequence()
        self._max_messages = max_messages
        self._older = self._older_loops = 0
        self.messages = 0

    @property
    def sequence_version(self) -> int | None:
        """Version of the current loop, or of the last one."""
        return self._sequence.version

    def packet(self, version: int, number: int, *, resets: bool = False) -> bool:
        """Record a packet before its messages. Returns whether its messages are to be used."""
        arrival = self._sequence.accept(version, number, resets=resets)
        if arrival.verdict is Verdict.OLD_VERSION:
            self._older += 1
            self._older_loops += number == 1
        else:
            self._older = self._older_loops = 0
        if self._older > MAX_OLDER_PACKETS or self._older_loops >= MAX_OLDER_LOOPS:
            self._older = self._older_loops = self.messages = 0
            self._sequence = StreamSequence()
            self._begin()
            arrival = self._sequence.accept(version, number, resets=resets)
        if arrival.new_version:
            self.messages = 0
            self._begin()
        return arrival.verdict in (Verdict.EXPECTED, Verdict.AHEAD, Verdict.LATE)

    def end(self) -> None:
        """End the loop on a message outside its sequence (the legacy feed)."""
        self._sequence.ended = True

    @abstractmethod
    def _begin(self) -> None:
        """Clear the data of the previous loop."""

    def _has_capacity(self) -> bool:
        self.messages += 1
        return self.messages <= self._max_messages

    def _packet_reason(self) -> str | None:
        """Return why the packets so far are no complete loop; None if they are."""
        sequence = self._sequence
        if sequence.version is None:
            return "no packet was received"
        if sequence.first != 1:
            return f"the loop was joined at packet {sequence.first}"
        missing = sum(len(gap) for gap in sequence.missing)
        if missing:
            return f"{missing} packets are missing"
        if not sequence.ended:
            return "the SequenceReset that ends the loop was not received"
        if self.messages > self._max_messages:
            return f"the loop has more than {self._max_messages} messages"
        return None


class SnapshotLoop(_Loop, Generic[T]):
    """Collects the loops of the snapshot stream, one at a time."""

    def __init__(self, max_messages: int = MAX_MESSAGES) -> None:
        super().__init__(max_messages)
        self._begin()

    def _begin(self) -> None:
        self.instruments: dict[int, InstrumentSnapshot[T]] = {}
        self.phases: list[T] = []
        self.headers = 0
        self.tot_num_reports = 0

    def header(self, header: SnapshotHeader) -> InstrumentSnapshot[T]:
        """Process the header of an instrument's snapshot."""
        found = self._instrument(header.security_id)
        if found.header is None:
            self.headers += 1
        found.header = header
        self.tot_num_reports = header.tot_num_reports
        return found

    def orders(self, security_id: int, bids: int, offers: int, item: T) -> InstrumentSnapshot[T]:
        """Process a message with the given number of orders on each side."""
        found = self._instrument(security_id)
        found.bids += bids
        found.offers += offers
        if self._has_capacity():
            found.items.append(item)
        return found

    def statistic(self, security_id: int, item: T) -> InstrumentSnapshot[T]:
        """Process a statistic, a band or the state of an instrument."""
        found = self._instrument(security_id)
        found.statistics += 1
        if self._has_capacity():
            found.items.append(item)
        return found

    def phase(self, item: T) -> None:
        """Process the phase of a group."""
        if self._has_capacity():
            self.phases.append(item)

    def _instrument(self, security_id: int) -> InstrumentSnapshot[T]:
        found = self.instruments.get(security_id)
        if found is None:
            found = InstrumentSnapshot(security_id)
            if self._has_capacity():
                self.instruments[security_id] = found
        return found

    @property
    def reason(self) -> str | None:
        """Why the loop is incomplete; None if it is complete."""
        reason = self._packet_reason()
        if reason is not None:
            return reason
        if self.headers != self.tot_num_reports:
            return f"{self.headers} of {self.tot_num_reports} instruments were received"
        partial = sum(not found.complete for found in self.instruments.values())
        if partial:
            return f"{partial} instruments lack orders or statistics that their headers count"
        return None

    @property
    def complete(self) -> bool:
        """Whether the complete loop was received, from packet 1 to the SequenceReset."""
        return self.reason is None


class DefinitionLoop(_Loop, Generic[T]):
    """Collects the loops of the instrument definition stream, one at a time."""

    def __init__(self, max_messages: int = MAX_MESSAGES) -> None:
        super().__init__(max_messages)
        self._begin()

    def _begin(self) -> None:
        self.definitions: dict[int, T] = {}
        self.tot_no_related_sym = 0

    def definition(self, security_id: int, tot_no_related_sym: int, item: T) -> None:
        """Process the definition of an instrument; each one states the total number."""
        self.tot_no_related_sym = tot_no_related_sym
        if self._has_capacity():
            self.definitions[security_id] = item

    @property
    def reason(self) -> str | None:
        """Why the loop is incomplete; None if it is complete."""
        reason = self._packet_reason()
        if reason is None and len(self.definitions) != self.tot_no_related_sym:
            reason = (
                f"{len(self.definitions)} of {self.tot_no_related_sym} definitions were received"
            )
        return reason

    @property
    def complete(self) -> bool:
        """Whether every instrument was received, from packet 1 to the SequenceReset."""
        return self.reason is None
