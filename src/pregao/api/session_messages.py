"""EntryPoint messages in captures, walked and keyed for ``pregao decode``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pregao.api.message_keys import session_key_values, session_keys
from pregao.arrays import Int64Array
from pregao.capture.blocks import PADDING, PacketBlock
from pregao.capture.layers import Flow
from pregao.entrypoint.captured.messages import NO_MESSAGE, business_headers, flow_text
from pregao.entrypoint.framing import blanked
from pregao.entrypoint.framing import FrameReader, StreamFrame
from pregao.entrypoint.captured.sender_detection import SENDERS, SenderDetector, other_direction
from pregao.schemas.bundle import ENTRYPOINT_SCHEMA_ID
from pregao.schemas.registry import Registry
from pregao.umdf.bulk_decoder import BulkDecoder, PacketHeaders, WalkedPackets, Walker
from pregao.umdf.survey.rejects import CapturePosition, RejectCounts


def looks_like_sessions(data: bytes) -> bool:
    """Whether pasted bytes start with an EntryPoint message."""
    first = next(iter(FrameReader().receive(data)), None)
    return isinstance(first, StreamFrame) and first.header.schema_id == ENTRYPOINT_SCHEMA_ID


def pasted_messages(data: bytes) -> PacketBlock:
    """Return pasted messages as a block; bytes after the last complete one are a separate row."""
    parts = [blanked(each) for each in FrameReader().receive(data) if isinstance(each, StreamFrame)]
    rest = data[sum(map(len, parts)) :]
    if rest:
        parts.append(rest)
    lengths = np.array([len(part) for part in parts], np.int32)
    count = len(parts)
    zeros = np.zeros(count, np.int64)
    return PacketBlock(
        np.frombuffer(b"".join(parts) + bytes(PADDING), np.uint8), zeros,
        np.cumsum(lengths, dtype=np.int64) - lengths, lengths, np.ones(count, np.int64), zeros,
        np.zeros(count, np.int32),
    )  # fmt: skip


class EntryPointBlock:
    """Messages of one block, walked; senders are known once the capture has identified them."""

    def __init__(
        self, block: PacketBlock, flows: Sequence[Flow], senders: SenderDetector[Flow]
    ) -> None:
        self.block = block
        self._flows = flows
        headers = business_headers(block)
        self._number, self._sending = headers.number, headers.sending_time_ns
        self._sender = senders.of_messages(block.flow, headers.template_id)
        known = PacketHeaders(
            headers.channels(),
            np.zeros(len(block), np.int32),
            headers.number,
            headers.sending_time_ns,
        )
        self.walked: WalkedPackets = Walker(header_size=0).walk(
            block.buffer, block.offset, block.length, known
        )

    def count_stretches(self, name: str, rejects: RejectCounts) -> None:
        """Count the ranges of bytes that are not a message."""
        rejects.begin_block()
        broken = np.flatnonzero(self.walked.fault)
        if len(broken):
            rejects.packets += len(broken)
            rejects.count(NO_MESSAGE, len(broken))
            block = self.block
            for row in broken[: rejects.max_kept].tolist():
                number, position = int(block.number[row]), int(block.position[row])
                rejects.keep(CapturePosition(name, number, position, 0, NO_MESSAGE))

    def keys(self, rows: Int64Array) -> list[Any]:
        """Return the key columns of some messages."""
        return session_keys(*self._keys(rows))

    def key_values(self, rows: Int64Array) -> list[list[Any]]:
        """Return the keys of some messages as plain values."""
        return session_key_values(*self._keys(rows))

    def _keys(
        self, rows: Int64Array
    ) -> tuple[Any, Sequence[str], Any, Sequence[str], Sequence[Any]]:
        payload = self.walked.packet[rows]
        numbers = [self._number[payload], self.block.time_ns[payload], self._sending[payload]]
        flow = self.block.flow[payload]
        flows = [flow_text(each) for each in self._flows]
        sender = self._sender[payload].astype(np.int32)
        return sender, SENDERS, flow, flows, numbers


class EntryPointReader:
    """The EntryPoint side of captures that are read one after the other."""

    def __init__(self, registry: Registry) -> None:
        self.decoder = BulkDecoder(registry, ENTRYPOINT_SCHEMA_ID)
        self._flows: Sequence[Flow] = ()
        self._senders = SenderDetector(self._flows, other_direction)

    def block(self, block: PacketBlock, flows: Sequence[Flow]) -> EntryPointBlock:
        """Return the messages of a block selected from a capture with these flows."""
        if flows is not self._flows:  # the next capture
            self._flows, self._senders = flows, SenderDetector(flows, other_direction)
        return EntryPointBlock(block, flows, self._senders)
