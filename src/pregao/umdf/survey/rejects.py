"""Accounting of decoding failures: counts, reasons, and the positions of the first ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from pregao.capture.blocks import PacketBlock
from pregao.errors import DecodeError
from pregao.umdf import _kernels
from pregao.umdf.bulk import (
    BulkDecoder,
    DecodeReject,
    MessageBatch,
    MessageKind,
    UnknownMessages,
    WalkedPackets,
)

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
