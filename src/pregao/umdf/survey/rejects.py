"""The account of what could not be decoded: how much, why, and where the first of it stands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from pregao.capture import PacketBlock
from pregao.errors import DecodeError
from pregao.umdf import _kernels
from pregao.umdf.bulk import Batch, BulkDecoder, MessageKind, Reject, Unknown, Walked

FAULTS = {
    _kernels.SHORT_PACKET: "a packet too short for its header",
    _kernels.LATE_TIME: "a sending time beyond the year 2262",
    _kernels.NO_MESSAGES: "a packet without messages",
    _kernels.TRAILING_BYTES: "bytes after the last message",
    _kernels.WRONG_ENCODING: "another encoding type than that of SBE 1.0",
    _kernels.SMALL_LENGTH: "a message length that is too small",
    _kernels.LONG_LENGTH: "a message that runs past the packet",
}
"""What can break the walk of a packet, in words that do not depend on the packet."""

_MOST_REASONS = 256
_OTHER = "other reasons"


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands in a capture: which packet, where its record and the bytes begin."""

    name: str
    number: int
    position: int
    byte: int
    reason: str

    def __str__(self) -> str:
        where = f"packet {self.number} at byte {self.position}"
        return f"{self.name}: {where}, byte {self.byte} of its payload: {self.reason}"


@dataclass(slots=True)
class Rejects:
    """Counts of messages, and of packets that could not be walked to their end, by reason."""

    messages: int = 0
    packets: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    first: list[Place] = field(default_factory=list)
    most: int = 10
    """How many places are kept: the first ones, in the order of the captures."""
    _settled: int = 0

    @property
    def total(self) -> int:
        """Messages and packets together."""
        return self.messages + self.packets

    def begin_block(self) -> None:
        """Know that what comes stands behind everything before."""
        self._settled = len(self.first)

    def keep(self, place: Place) -> None:
        """Keep a place if it is among the first; those of a block come in any order."""
        room = self.most - self._settled
        block = [*self.first[self._settled :], place]
        block.sort(key=lambda each: (each.number, each.byte))
        self.first[self._settled :] = block[:room]

    def count(self, reason: str, number: int = 1) -> None:
        """Add to a reason; of very many different ones, the later are counted together."""
        if reason not in self.reasons and len(self.reasons) >= _MOST_REASONS:
            reason = _OTHER
        self.reasons[reason] += number


def walk_faults(
    decoder: BulkDecoder, walked: Walked, name: str, block: PacketBlock, rejects: Rejects
) -> None:
    """Begin with a block: count the packets whose walk broke."""
    rejects.begin_block()
    counts = np.bincount(walked.fault, minlength=1)
    broken = int(counts[1:].sum())
    if not broken:
        return
    rejects.packets += broken
    for fault in np.flatnonzero(counts[1:]).tolist():
        rejects.count(FAULTS[fault + 1], int(counts[fault + 1]))
    for reject in islice(decoder.faults(walked), max(0, rejects.most - len(rejects.first))):
        rejects.keep(_place(walked, name, block, reject))


def decode_kinds(
    decoder: BulkDecoder,
    walked: Walked,
    kinds: Iterable[MessageKind],
    name: str,
    block: PacketBlock,
    rejects: Rejects,
) -> Iterator[Batch | Unknown]:
    """Decode messages kind by kind; those that cannot be decoded are counted."""
    for kind in kinds:
        try:
            decoder.schema(kind.schema_id, kind.version)
        except DecodeError as error:
            # All of a kind are refused alike: a few of them show where.
            rejects.messages += len(kind.rows)
            rejects.count(error.reason, len(kind.rows))
            few = MessageKind(
                kind.schema_id, kind.template_id, kind.version, kind.rows[: rejects.most]
            )
            _keep(decoder, walked, few, name, block, rejects)
            continue
        for outcome in decoder.decode_kind(walked, kind):
            if isinstance(outcome, Reject):
                rejects.messages += 1
                rejects.count(outcome.reason)
                rejects.keep(_place(walked, name, block, outcome))
            else:
                yield outcome


def _keep(
    decoder: BulkDecoder,
    walked: Walked,
    kind: MessageKind,
    name: str,
    block: PacketBlock,
    rejects: Rejects,
) -> None:
    for outcome in decoder.decode_kind(walked, kind):
        if isinstance(outcome, Reject):
            rejects.keep(_place(walked, name, block, outcome))


def _place(walked: Walked, name: str, block: PacketBlock, reject: Reject) -> Place:
    """Where a reject stands in its capture; ``walked`` has the packets of ``block``."""
    packet = reject.packet
    return Place(
        name,
        int(block.number[packet]),
        int(block.position[packet]),
        reject.start - int(walked.offset[packet]),
        reject.reason,
    )
