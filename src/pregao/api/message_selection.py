"""Selection of packets and messages by time, channel, template and instrument."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from pregao.capture.blocks import PacketBlock
from pregao.sbe.model import MessageTemplate
from pregao.sbe.value_specs import ValueKind, ValueSpec, readings
from pregao.umdf.bulk_decoder import MessageKind, WalkedPackets
from pregao.umdf.layout import CHANNEL_AT, PACKET_HEADER_SIZE
from pregao.umdf.survey.lines import words


@dataclass(slots=True)
class MessageSelection:
    """The selection; None selects everything."""

    templates: frozenset[tuple[int, int]] | None = None
    """By schema id and template id."""
    security_ids: frozenset[int] | None = None
    channels: frozenset[int] | None = None
    since_ns: int | None = None
    until_ns: int | None = None

    @property
    def by_packet(self) -> bool:
        """Whether complete packets are excluded."""
        return (self.channels, self.since_ns, self.until_ns) != (None, None, None)

    def packets(self, block: PacketBlock) -> PacketBlock:
        """Return the packets of a block within the time range and on the selected channels."""
        if not self.by_packet:
            return block
        wanted = self._in_time(block)
        if self.channels is not None:
            complete = block.length >= PACKET_HEADER_SIZE
            channels = np.where(complete, block.buffer[block.offset + CHANNEL_AT], 0)
            wanted &= complete & np.isin(channels, list(self.channels))
        return _chosen(block, wanted)

    def session_messages(self, block: PacketBlock) -> PacketBlock:
        """Return the EntryPoint messages within the time range; they have no channel."""
        if not self.by_packet:
            return block
        wanted = np.full(len(block), self.channels is None, np.bool_)
        return _chosen(block, wanted & self._in_time(block))

    def _in_time(self, block: PacketBlock) -> npt.NDArray[np.bool_]:
        wanted = np.ones(len(block), np.bool_)
        if self.since_ns is not None:
            wanted &= block.time_ns >= self.since_ns
        if self.until_ns is not None:
            wanted &= block.time_ns < self.until_ns
        return wanted

    def kinds(
        self, walked: WalkedPackets, template_of: Callable[[MessageKind], MessageTemplate | None]
    ) -> list[MessageKind]:
        """Return the selected messages, by kind."""
        kinds = walked.kinds()
        if self.templates is not None:
            kinds = [each for each in kinds if (each.schema_id, each.template_id) in self.templates]
        if self.security_ids is None:
            return kinds
        wanted = np.array(sorted(self.security_ids), np.int64)
        chosen = []
        for kind in kinds:
            message = template_of(kind)
            reading = None if message is None else security_id(message)
            if reading is not None:
                present, values = words(walked, kind.rows, reading)
                rows = kind.rows[present & np.isin(values, wanted)]
                if len(rows):
                    chosen.append(MessageKind(kind.schema_id, kind.template_id, kind.version, rows))
        return chosen


def _chosen(block: PacketBlock, wanted: npt.NDArray[np.bool_]) -> PacketBlock:
    rows = np.flatnonzero(wanted)
    columns = [getattr(block, each.name)[rows] for each in fields(block)[1:]]
    return PacketBlock(block.buffer, *columns)


def security_id(message: MessageTemplate) -> ValueSpec | None:
    """Return the field of a message with its instrument, or None."""
    for reading in readings(message):
        if reading.name == "securityID" and reading.kind is ValueKind.INTEGER and reading.size == 8:
            return reading
    return None


def limited(kinds: list[MessageKind], after: int, count: int) -> tuple[list[MessageKind], int]:
    """Return the first ``count`` messages after one, and the last of them (-1 if none)."""
    rows = (
        np.sort(np.concatenate([kind.rows for kind in kinds])) if kinds else np.empty(0, np.int64)
    )
    rows = rows[rows > after][:count]
    if not len(rows):
        return [], -1
    last = int(rows[-1])
    chosen = []
    for kind in kinds:
        part = kind.rows[(kind.rows > after) & (kind.rows <= last)]
        if len(part):
            chosen.append(MessageKind(kind.schema_id, kind.template_id, kind.version, part))
    return chosen, last
