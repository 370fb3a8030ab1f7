"""Faults of a survey: decoding failures, and missing, duplicate and late packets of each line.

Decoding failures have counts, reasons, and the positions of the first ones.

Sequence numbers of every line and channel are counted separately, version by version. Heartbeats
have no number. A version after another starts at 1; the first one may have been joined midway.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pregao.capture.blocks import PacketBlock
from pregao.errors import DecodeError
from pregao.umdf import _kernels
from pregao.umdf.bulk_decoder import (
    BulkDecoder,
    DecodeReject,
    MessageBatch,
    MessageKind,
    UnknownMessages,
    WalkedPackets,
)
from pregao.umdf.survey import _kernels as survey_kernels
from pregao.umdf.templates import SEQUENCE_RESET

FAULTS = {
    _kernels.SHORT_PACKET: "a packet too short for its header",
    _kernels.LATE_TIME: "a sending time beyond the year 2262",
    _kernels.NO_MESSAGES: "a packet without messages",
    _kernels.TRAILING_BYTES: "bytes after the last message",
    _kernels.WRONG_ENCODING: "an encoding type other than SBE 1.0",
    _kernels.SMALL_LENGTH: "a message length that is too small",
    _kernels.LONG_LENGTH: "a message that runs past the packet",
}
"""Faults of the walk of a packet, as texts that do not depend on the packet."""

_MAX_REASONS = 256
_OTHER = "other reasons"

MAX_RUNS = 1 << 17
MAX_GAPS = 1 << 18

_FIRST_CAPACITY = 256


# --- Decoding failures ---


@dataclass(frozen=True, slots=True)
class CapturePosition:
    """Position of a failure in a capture: its packet, record offset and payload offset."""

    name: str
    number: int
    position: int
    byte: int
    reason: str

    def __str__(self) -> str:
        location = f"packet {self.number} at byte {self.position}"
        return f"{self.name}: {location}, byte {self.byte} of its payload: {self.reason}"


@dataclass(slots=True)
class RejectCounts:
    """Counts of rejected messages, and of packets that could not be fully walked, by reason."""

    messages: int = 0
    packets: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    first: list[CapturePosition] = field(default_factory=list)
    max_kept: int = 10
    """Maximum number of positions kept: the first ones, in the order of the captures."""
    _settled: int = 0

    @property
    def total(self) -> int:
        """Number of rejected messages and packets."""
        return self.messages + self.packets

    def begin_block(self) -> None:
        """Start a block: later failures follow all earlier ones."""
        self._settled = len(self.first)

    def keep(self, position: CapturePosition) -> None:
        """Keep a position if it is among the first; those of a block arrive in any order."""
        capacity = self.max_kept - self._settled
        block = [*self.first[self._settled :], position]
        block.sort(key=lambda each: (each.number, each.byte))
        self.first[self._settled :] = block[:capacity]

    def count(self, reason: str, number: int = 1) -> None:
        """Count a reason; beyond the maximum number of reasons, new ones are counted together."""
        if reason not in self.reasons and len(self.reasons) >= _MAX_REASONS:
            reason = _OTHER
        self.reasons[reason] += number


def walk_faults(
    decoder: BulkDecoder,
    walked: WalkedPackets,
    name: str,
    block: PacketBlock,
    rejects: RejectCounts,
) -> None:
    """Start a block, and count its packets whose walk failed."""
    rejects.begin_block()
    counts = np.bincount(walked.fault, minlength=1)
    broken = int(counts[1:].sum())
    if not broken:
        return
    rejects.packets += broken
    for fault in np.flatnonzero(counts[1:]).tolist():
        rejects.count(FAULTS[fault + 1], int(counts[fault + 1]))
    for reject in islice(decoder.faults(walked), max(0, rejects.max_kept - len(rejects.first))):
        rejects.keep(_position(walked, name, block, reject))


def decode_kinds(
    decoder: BulkDecoder,
    walked: WalkedPackets,
    kinds: Iterable[MessageKind],
    name: str,
    block: PacketBlock,
    rejects: RejectCounts,
) -> Iterator[MessageBatch | UnknownMessages]:
    """Decode messages kind by kind, and count those that cannot be decoded."""
    for kind in kinds:
        try:
            decoder.schema(kind.schema_id, kind.version)
        except DecodeError as error:
            # All messages of a kind are rejected alike: a few of them provide the positions.
            rejects.messages += len(kind.rows)
            rejects.count(error.reason, len(kind.rows))
            sample = MessageKind(
                kind.schema_id, kind.template_id, kind.version, kind.rows[: rejects.max_kept]
            )
            _keep(decoder, walked, sample, name, block, rejects)
            continue
        for outcome in decoder.decode_kind(walked, kind):
            if isinstance(outcome, DecodeReject):
                rejects.messages += 1
                rejects.count(outcome.reason)
                rejects.keep(_position(walked, name, block, outcome))
            else:
                yield outcome


def _keep(
    decoder: BulkDecoder,
    walked: WalkedPackets,
    kind: MessageKind,
    name: str,
    block: PacketBlock,
    rejects: RejectCounts,
) -> None:
    for outcome in decoder.decode_kind(walked, kind):
        if isinstance(outcome, DecodeReject):
            rejects.keep(_position(walked, name, block, outcome))


def _position(
    walked: WalkedPackets, name: str, block: PacketBlock, reject: DecodeReject
) -> CapturePosition:
    """Return the position of a reject in its capture; ``walked`` has the packets of ``block``."""
    packet = reject.packet
    return CapturePosition(
        name,
        int(block.number[packet]),
        int(block.position[packet]),
        reject.start - int(walked.offset[packet]),
        reject.reason,
    )


# --- Sequence numbers ---


class SequenceRun(NamedTuple):
    """Packets of one sequence version on one line and channel."""

    line: int
    channel: int
    sequence_version: int
    first: int
    last: int
    packets: int
    missing: int
    """Missing numbers between first and last."""
    gaps: int
    duplicates: int
    late: int
    """Packets that arrived after a higher number, and are not duplicates."""
    ended: bool
    """Whether the SequenceReset that ends it was received."""
    turns: int
    """How many times the version was used: more than once after a wrap."""
    began_ns: int

    @property
    def whole(self) -> bool:
        """Whether nothing is missing, from 1 to the SequenceReset."""
        return self.first == 1 and self.ended and not self.missing


class SequenceGap(NamedTuple):
    """Missing numbers, and the capture time of the packet after them."""

    line: int
    channel: int
    sequence_version: int
    first: int
    last: int
    time_ns: int


class SequenceAudit:
    """Audits the sequence numbers of packets in bounded memory.

    A packet later than 4,096 open gaps counts as a duplicate. Packets beyond ``max_runs`` versions
    are counted as ``untracked``; beyond ``max_gaps`` open gaps only their size is kept.
    """

    def __init__(self, max_runs: int = MAX_RUNS, max_gaps: int = MAX_GAPS) -> None:
        self._max_runs = max_runs
        self._max_gaps = max_gaps
        self._slots = np.full(4 * _FIRST_CAPACITY, -1, np.int32)
        self._runs = np.empty(
            (min(_FIRST_CAPACITY, max_runs), survey_kernels.RUN_COLUMNS), np.int64
        )
        self._gaps = np.empty((min(_FIRST_CAPACITY, max_gaps), 4), np.int64)
        self._state = np.zeros(survey_kernels.AUDIT_STATE, np.int64)
        self._state[survey_kernels.FREE_GAP] = -1

    @property
    def untracked(self) -> int:
        """Packets whose version did not fit in the table."""
        return int(self._state[survey_kernels.UNTRACKED])

    def add(
        self, lines: npt.NDArray[np.int32], times: npt.NDArray[np.int64], walked: WalkedPackets
    ) -> None:
        """Add packets, in capture order."""
        resets = np.zeros(len(lines), np.bool_)
        resets[walked.packet[(walked.kind >> 16 & 0xFFFF) == SEQUENCE_RESET]] = True
        # In steps, so that the tables grow before they can fill up.
        step = 1 << 14
        for start in range(0, len(lines), step):
            part = slice(start, start + step)
            self._reserve(min(step, len(lines) - start))
            survey_kernels.follow_sequences(
                lines[part], walked.channel[part], walked.sequence_version[part],
                walked.sequence_number[part], walked.message_count[part], resets[part],
                times[part], self._slots, self._runs, self._gaps, self._state,
            )  # fmt: skip

    def _reserve(self, packets: int) -> None:
        """Grow the tables, up to their limits, by the maximum that these packets can need."""
        used = int(self._state[survey_kernels.RUNS_USED])
        if used + 2 * packets > len(self._runs) and len(self._runs) < self._max_runs:
            capacity = min(2 * len(self._runs) + 2 * packets, self._max_runs)
            self._runs = _longer(self._runs, capacity)
            self._slots = np.full(1 << (4 * capacity).bit_length(), -1, np.int32)
            survey_kernels.fill_run_slots(self._slots, self._runs, used)
        used = int(self._state[survey_kernels.GAPS_USED])
        if used + packets > len(self._gaps) and len(self._gaps) < self._max_gaps:
            self._gaps = _longer(self._gaps, min(2 * len(self._gaps) + packets, self._max_gaps))

    def runs(self) -> list[SequenceRun]:
        """Return the runs, in the order in which they started."""
        rows = self._runs[: self._state[survey_kernels.RUNS_USED]].tolist()
        found = [row for row in rows if not row[survey_kernels.RUN_KEY] & survey_kernels.TRACK]
        return [
            SequenceRun(
                *_key(row),
                first=row[survey_kernels.RUN_FIRST],
                last=row[survey_kernels.RUN_NEXT] - 1,
                packets=row[survey_kernels.RUN_PACKETS],
                missing=row[survey_kernels.RUN_MISSING],
                gaps=row[survey_kernels.RUN_GAPS],
                duplicates=row[survey_kernels.RUN_DUPLICATES],
                late=row[survey_kernels.RUN_LATE],
                ended=row[survey_kernels.RUN_ENDED] > 0,
                turns=row[survey_kernels.RUN_TURNS],
                began_ns=row[survey_kernels.RUN_BEGAN],
            )
            for row in found
        ]

    def heartbeats(self) -> dict[tuple[int, int], int]:
        """Return the number of packets without a number, by line and channel."""
        rows = self._runs[: self._state[survey_kernels.RUNS_USED]].tolist()
        return {
            _key(row)[:2]: row[survey_kernels.TRACK_HEARTBEATS]
            for row in rows
            if row[survey_kernels.RUN_KEY] & survey_kernels.TRACK
        }

    def gaps(self, limit: int = 20) -> list[SequenceGap]:
        """Return the earliest open gaps, at most ``limit``."""
        found: list[SequenceGap] = []
        for row in self._runs[: self._state[survey_kernels.RUNS_USED]].tolist():
            if (
                row[survey_kernels.RUN_KEY] & survey_kernels.TRACK
                or not row[survey_kernels.RUN_MISSING]
            ):
                continue
            index = row[survey_kernels.RUN_HEAD]
            while index >= 0:
                start, end, after, time = self._gaps[index].tolist()
                found.append(SequenceGap(*_key(row), first=start, last=end, time_ns=time))
                index = after
        return sorted(found, key=lambda gap: (gap.time_ns, gap.line, gap.first))[:limit]


def _key(row: list[int]) -> tuple[int, int, int]:
    """Return the line, channel and version of a row."""
    key = row[survey_kernels.RUN_KEY]
    return key >> 25, key >> 17 & 0xFF, key & 0xFFFF


def _longer(table: npt.NDArray[np.int64], rows: int) -> npt.NDArray[np.int64]:
    longer = np.empty((rows, table.shape[1]), np.int64)
    longer[: len(table)] = table
    return longer
