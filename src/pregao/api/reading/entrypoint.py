"""EntryPoint messages in captures: keyed blocks of messages, and a survey of the sessions.

The blocks are the input of ``pregao decode``; the survey reports connections, sessions, sequence
numbers, messages and skipped bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pregao.api.reading.inputs import ReadBlock, ReadStatistics
from pregao.api.reading.keys import session_key_values, session_keys
from pregao.arrays import Int64Array
from pregao.capture.blocks import PADDING, PacketBlock
from pregao.capture.layers import Flow
from pregao.clock import format_ns
from pregao.entrypoint.captured.frame_columns import StreamAccount
from pregao.entrypoint.captured.messages import NO_MESSAGE, business_headers, flow_text
from pregao.entrypoint.captured.sender_detection import (
    SENDERS,
    UNKNOWN,
    SenderDetector,
    other_direction,
)
from pregao.entrypoint.framing import FrameReader, StreamFrame, blanked
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

    def __init__(self, registry: Registry, *, rows: bool = False) -> None:
        self.decoder = BulkDecoder(registry, ENTRYPOINT_SCHEMA_ID, rows=rows)
        self._flows: Sequence[Flow] = ()
        self._senders = SenderDetector(self._flows, other_direction)

    def block(self, block: PacketBlock, flows: Sequence[Flow]) -> EntryPointBlock:
        """Return the messages of a block selected from a capture with these flows."""
        if flows is not self._flows:  # the next capture
            self._flows, self._senders = flows, SenderDetector(flows, other_direction)
        return EntryPointBlock(block, flows, self._senders)


@dataclass(slots=True)
class _Numbers:
    """The business messages of one session in one direction."""

    first: int
    last: int = 0
    messages: int = 0

    def add(self, numbers: Any) -> None:
        """Add numbers."""
        self.first = min(self.first, int(numbers.min()))
        self.last = max(self.last, int(numbers.max()))
        self.messages += len(numbers)


@dataclass(slots=True)
class _Line:
    """Statistics of one direction of a connection."""

    first_ns: int
    last_ns: int
    sender: int = UNKNOWN
    sessions: dict[int, _Numbers] = field(default_factory=dict)


class EntryPointSurvey:
    """Collects statistics of the messages of captures, block by block."""

    def __init__(self, registry: Registry) -> None:
        self._decoder = BulkDecoder(registry, ENTRYPOINT_SCHEMA_ID)
        self._lines: dict[Flow, _Line] = {}
        self._senders: SenderDetector[Flow] = SenderDetector((), other_direction)
        self._flows: Any = ()
        self._kinds: Counter[tuple[str, int]] = Counter()

    def add(self, read: ReadBlock) -> None:
        """Add the messages completed in a block."""
        block, flows = read.messages, read.reader.tcp_flows
        if block is None or not len(block):
            return
        if flows is not self._flows:
            self._flows, self._senders = flows, SenderDetector(flows, other_direction)
        headers = business_headers(block)
        senders = self._senders.of_messages(block.flow, headers.template_id)
        for number in np.unique(block.flow).tolist():
            own = np.flatnonzero(block.flow == number)
            times = block.time_ns[own]
            line = self._lines.setdefault(flows[number], _Line(int(times.min()), 0))
            line.last_ns = max(line.last_ns, int(times.max()))
            line.sender = int(senders[own[0]])
            for session in np.unique(headers.session_id[own]).tolist():
                numbers = headers.number[own][headers.session_id[own] == session]
                if session:
                    known = line.sessions.setdefault(session, _Numbers(int(numbers.min())))
                    known.add(numbers)
        known_headers = PacketHeaders(
            headers.channels(),
            np.zeros(len(block), np.int32),
            headers.number,
            headers.sending_time_ns,
        )
        walked = Walker(header_size=0).walk(block.buffer, block.offset, block.length, known_headers)
        for kind in walked.kinds():
            message = self._decoder.template(kind)
            name = f"template {kind.template_id}" if message is None else message.name
            self._kinds[name, kind.version] += len(kind.rows)

    def report(self, account: ReadStatistics) -> dict[str, Any]:
        """Return the report as JSON values."""
        streams: dict[Flow, StreamAccount] = {}
        for flows, accounts in account.streams:
            streams |= {flows[number]: own for number, own in accounts.items()}
        templates: dict[str, dict[str, Any]] = {}
        for (name, version), count in sorted(self._kinds.items()):
            own = templates.setdefault(name, {"message": name, "versions": [], "messages": 0})
            own["versions"].append(version)
            own["messages"] += count
        return {
            "connections": [
                _connection(flow, line, streams.get(flow, StreamAccount()))
                for flow, line in self._lines.items()
            ],
            "templates": sorted(templates.values(), key=lambda each: -int(each["messages"])),
            "skipped_bytes": sum(each.skipped_bytes for each in streams.values()),
            "missing_bytes": sum(each.missing_bytes for each in streams.values()),
        }


def _connection(flow: Flow, line: _Line, account: StreamAccount) -> dict[str, Any]:
    return {
        "flow": flow_text(flow),
        "sender": SENDERS[line.sender] if line.sender >= 0 else None,
        "messages": account.messages,
        "bytes": account.message_bytes,
        "skipped_bytes": account.skipped_bytes,
        "missing_bytes": account.missing_bytes,
        "first": format_ns(line.first_ns),
        "last": format_ns(line.last_ns),
        "sessions": [
            {"session": session, "first": own.first, "last": own.last, "messages": own.messages}
            for session, own in sorted(line.sessions.items())
        ],
    }
