"""EntryPoint messages in captures: both directions of every connection, on any port."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import TracebackType
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pregao.capture.block_reader import BLOCK_BYTES, read_blocks
from pregao.capture.blocks import PacketBlock
from pregao.capture.layers import Flow
from pregao.capture.reader import TruncatedTail
from pregao.capture.source import Source
from pregao.capture.statistics import CaptureStatistics
from pregao.entrypoint.captured import _kernels
from pregao.entrypoint.captured.frame_columns import FrameColumns, StreamAccount, templates_of
from pregao.entrypoint.captured.sender_detection import SENDERS, SenderDetector, other_direction
from pregao.entrypoint.framing import HEADERS_SIZE, frame_of
from pregao.errors import DecodeError
from pregao.sbe.codec import SbeMessage, SchemaCodec
from pregao.sbe.value_specs import readings
from pregao.schemas.bundle import ENTRYPOINT_SCHEMA_ID, bundled, bundled_versions
from pregao.schemas.registry import Registry
from pregao.umdf.survey.lines import Destination

NO_MESSAGE: Final = "bytes that are not a message; decoding resumed at the next message"
"""Reason for a range of a stream that was not decoded."""


def flow_text(flow: Flow) -> str:
    """Return source and destination as text: ``10.1.0.7:40001>10.2.0.9:9000``."""
    return f"{Destination(flow.src, flow.src_port)}>{Destination(flow.dst, flow.dst_port)}"


def other_direction_text(text: str) -> str:
    """Return the text of the opposite direction of a flow."""
    src, _, dst = text.partition(">")
    return f"{dst}>{src}"


class FrameBlocks:
    """Blocks of the messages in a capture's TCP streams; can be iterated over once.

    Each payload of a block is a message with its framing header, or a range of bytes that are not a
    message. ``statistics`` are those of the capture's packets.
    """

    def __init__(
        self,
        source: Source,
        start: int | None = None,
        end: int | None = None,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        self._reader = read_blocks(source, start, end, block_bytes, segments=True)
        self._frames = FrameColumns(self._reader.tcp_flows)
        self.truncated_tail: TruncatedTail | None = None

    @property
    def statistics(self) -> CaptureStatistics:
        """Statistics of the packets read so far."""
        return self._reader.statistics

    @property
    def flows(self) -> list[Flow]:
        """The TCP flows seen so far; the index of a flow never changes."""
        return self._reader.tcp_flows

    @property
    def accounts(self) -> dict[Flow, StreamAccount]:
        """Byte accounting of each stream that contained messages."""
        return {self.flows[number]: each for number, each in self._frames.accounts.items()}

    def __iter__(self) -> Iterator[PacketBlock]:
        for _ in self._reader:
            # Blocks without messages too, so that callers that only sample a capture are not
            # blocked.
            if self._reader.segments:
                yield self._frames.take(self._reader.segments)
        self.truncated_tail = self._reader.truncated_tail
        last = self._frames.finish()
        if len(last):
            yield last

    def __enter__(self) -> FrameBlocks:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._reader.close()


class BusinessHeaders(NamedTuple):
    """Fields of the business headers of messages, as columns; zero for messages without one."""

    template_id: NDArray[np.int32]
    """-1 for bytes that are not a message."""
    session_id: NDArray[np.int64]
    number: NDArray[np.int64]
    sending_time_ns: NDArray[np.int64]

    @property
    def sound(self) -> NDArray[np.bool_]:
        """Mask of the rows that are messages."""
        return ~np.signbit(self.template_id)

    def channels(self) -> NDArray[np.int16]:
        """Return channel numbers as a packet header would have: 0, or -1 for rows without a
        message.
        """
        return np.where(self.sound, 0, -1).astype(np.int16)


class _HeaderOffsets(NamedTuple):
    """Offsets of the business header by template id, and of its fields within it."""

    header_at: NDArray[np.int32]
    session_at: int
    number_at: int
    time_at: int


@cache
def _offsets() -> _HeaderOffsets:
    offsets: dict[int, int] = {}
    inner: set[tuple[int, int, int]] = set()
    for version in bundled_versions("entrypoint"):
        for message in bundled("entrypoint", version.number).messages:
            for reading in readings(message):
                if reading.name == "businessHeader":
                    assert offsets.setdefault(message.id, reading.offset) == reading.offset
                    members = {member.name: member.offset for member in reading.members}
                    names = ("sessionID", "msgSeqNum", "sendingTime")
                    session, number, time = (members[name] for name in names)
                    inner.add((session, number, time))
    (found,) = inner  # the same in all versions
    header_at = np.full(max(offsets) + 1, -1, np.int32)
    for template, offset in offsets.items():
        header_at[template] = offset
    return _HeaderOffsets(header_at, *found)


def business_headers(block: PacketBlock) -> BusinessHeaders:
    """Read the business headers of a block's messages."""
    templates = templates_of(block.buffer, block.offset, block.length)
    sessions, numbers, times = np.empty((3, len(block)), np.int64)
    layout = _offsets()
    _kernels.read_business_headers(
        block.buffer, block.offset, block.length, templates, layout.header_at, layout.session_at,
        layout.number_at, layout.time_at, sessions, numbers, times,
    )  # fmt: skip
    return BusinessHeaders(templates, sessions, numbers, times)


@dataclass(frozen=True, slots=True)
class CapturedMessage:
    """A message in a capture, or bytes that are not a message."""

    time_ns: int
    """Capture time of the packet that completed it."""
    flow: Flow
    sender: str | None
    """``client``, ``exchange``, or None if no message on the connection has identified it yet."""
    name: str
    """Empty for bytes that are not a message, and for templates that the schema lacks."""
    message: SbeMessage | None
    data: bytes
    """Bytes with the framing header; credentials are masked."""
    reason: str = ""
    """Why it could not be decoded."""


def captured_messages(
    source: Source, registry: Registry | None = None
) -> Iterator[CapturedMessage]:
    """Yield every EntryPoint message in a capture, in the order in which they were completed.

    Args:
        source: Path or open file of a capture.
        registry: Schemas to decode with; by default the bundled schema of each message's version.
    """
    known = Registry.bundled() if registry is None else registry
    codecs: dict[int, SchemaCodec] = {}
    with FrameBlocks(source) as blocks:
        senders = SenderDetector(blocks.flows, other_direction)
        for block in blocks:
            who = senders.of(block).tolist()
            valid = (templates_of(block.buffer, block.offset, block.length) >= 0).tolist()
            for row, sender in enumerate(who):
                data = block.payload(row)
                found = _decoded(data, known, codecs) if valid[row] else ("", None, NO_MESSAGE)
                name, message, reason = found
                yield CapturedMessage(
                    int(block.time_ns[row]),
                    blocks.flows[block.flow[row]],
                    SENDERS[sender] if sender >= 0 else None,
                    name,
                    message,
                    data,
                    reason,
                )


def _decoded(
    data: bytes, registry: Registry, codecs: dict[int, SchemaCodec]
) -> tuple[str, SbeMessage | None, str]:
    header = frame_of(data).header
    try:
        if header.schema_id != ENTRYPOINT_SCHEMA_ID:
            raise DecodeError(f"schema id {header.schema_id} is not {ENTRYPOINT_SCHEMA_ID}")
        schema_codec = codecs.get(header.version)
        if schema_codec is None:
            schema = registry.find(header.schema_id, header.version)
            schema_codec = codecs[header.version] = SchemaCodec(schema)
        codec = schema_codec.codec(header.template_id)
        if codec is None or not header.template_id:
            return "", None, ""
        message = codec.decode_body(
            data, HEADERS_SIZE, header.block_length, header.version, len(data)
        )
    except DecodeError as error:
        return "", None, error.reason
    return codec.message.name, message, ""
