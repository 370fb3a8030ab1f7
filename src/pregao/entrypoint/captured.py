"""EntryPoint in captures: the messages of both directions, of any connection, on any port."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import TracebackType
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pregao.capture import (
    BLOCK_BYTES,
    CaptureStatistics,
    Flow,
    PacketBlock,
    Source,
    TruncatedTail,
    read_blocks,
)
from pregao.entrypoint import _kernels
from pregao.entrypoint.frame_columns import FrameColumns, StreamAccount, templates_of
from pregao.entrypoint.framing import HEADERS_SIZE, frame_of
from pregao.entrypoint.senders import SENDERS, Senders, other_direction
from pregao.errors import DecodeError
from pregao.sbe import Decoded, SchemaCodec, readings
from pregao.schemas import ENTRYPOINT_SCHEMA_ID, Registry, bundled, bundled_versions
from pregao.umdf.survey import Destination

NO_MESSAGE: Final = "bytes that are no message; the next one was found behind them"
"""Why a stretch of a stream was not decoded."""


def flow_text(flow: Flow) -> str:
    """Who sends to whom, as a text: ``10.1.0.7:40001>10.2.0.9:9000``."""
    return f"{Destination(flow.src, flow.src_port)}>{Destination(flow.dst, flow.dst_port)}"


def other_direction_text(text: str) -> str:
    """The text of the flow of the answers."""
    src, _, dst = text.partition(">")
    return f"{dst}>{src}"


class FrameBlocks:
    """The messages of a capture's TCP streams in blocks, to be iterated over once.

    Each payload of a block is a message with its framing header, or a stretch of bytes that are
    none. ``statistics`` are those of the capture's packets.
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
        """The account of the packets walked so far."""
        return self._reader.statistics

    @property
    def flows(self) -> list[Flow]:
        """The flows of TCP seen so far; the index of one never changes."""
        return self._reader.tcp_flows

    @property
    def accounts(self) -> dict[Flow, StreamAccount]:
        """What became of the bytes of each stream on which messages were found."""
        return {self.flows[number]: each for number, each in self._frames.accounts.items()}

    def __iter__(self) -> Iterator[PacketBlock]:
        for _ in self._reader:
            # Blocks without a message too: who only wants a look need not wait for one.
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
    """What the business headers of messages say, a column each; zeros where there is none."""

    template_id: NDArray[np.int32]
    """-1 of a stretch that is no message."""
    session_id: NDArray[np.int64]
    number: NDArray[np.int64]
    sending_time_ns: NDArray[np.int64]

    @property
    def sound(self) -> NDArray[np.bool_]:
        """Which of them are messages."""
        return ~np.signbit(self.template_id)

    def channels(self) -> NDArray[np.int16]:
        """What a packet header would have for a channel: 0, and -1 where there is no message."""
        return np.where(self.sound, 0, -1).astype(np.int16)


class _Places(NamedTuple):
    """Where messages have their business header, by template id, and what is where in it."""

    header_at: NDArray[np.int32]
    session_at: int
    number_at: int
    time_at: int


@cache
def _places() -> _Places:
    at: dict[int, int] = {}
    inner: set[tuple[int, int, int]] = set()
    for version in bundled_versions("entrypoint"):
        for message in bundled("entrypoint", version.number).messages:
            for reading in readings(message):
                if reading.name == "businessHeader":
                    assert at.setdefault(message.id, reading.offset) == reading.offset
                    members = {member.name: member.offset for member in reading.members}
                    names = ("sessionID", "msgSeqNum", "sendingTime")
                    session, number, time = (members[name] for name in names)
                    inner.add((session, number, time))
    (found,) = inner  # the same in all versions
    header_at = np.full(max(at) + 1, -1, np.int32)
    for template, offset in at.items():
        header_at[template] = offset
    return _Places(header_at, *found)


def business_headers(block: PacketBlock) -> BusinessHeaders:
    """The business headers of a block's messages."""
    templates = templates_of(block.buffer, block.offset, block.length)
    sessions, numbers, times = np.empty((3, len(block)), np.int64)
    places = _places()
    _kernels.read_business_headers(
        block.buffer, block.offset, block.length, templates, places.header_at, places.session_at,
        places.number_at, places.time_at, sessions, numbers, times,
    )  # fmt: skip
    return BusinessHeaders(templates, sessions, numbers, times)


@dataclass(frozen=True, slots=True)
class CapturedMessage:
    """A message of a capture, or bytes that are none."""

    time_ns: int
    """When the packet was captured that completed it."""
    flow: Flow
    sender: str | None
    """``client``, ``exchange``, or None if nothing on the connection has told so far."""
    name: str
    """Empty where it is no message, or of a template that the schema does not have."""
    message: Decoded | None
    data: bytes
    """The bytes with the framing header, credentials blanked."""
    reason: str = ""
    """Why it could not be decoded."""


def captured_messages(
    source: Source, registry: Registry | None = None
) -> Iterator[CapturedMessage]:
    """Every message of EntryPoint in a capture, in the order in which they were whole.

    Schemas go by the version of each message, or are those that a registry names.
    """
    known = Registry.bundled() if registry is None else registry
    codecs: dict[int, SchemaCodec] = {}
    with FrameBlocks(source) as blocks:
        senders = Senders(blocks.flows, other_direction)
        for block in blocks:
            who = senders.of(block).tolist()
            sound = (templates_of(block.buffer, block.offset, block.length) >= 0).tolist()
            for row, sender in enumerate(who):
                data = block.payload(row)
                found = _decoded(data, known, codecs) if sound[row] else ("", None, NO_MESSAGE)
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
) -> tuple[str, Decoded | None, str]:
    header = frame_of(data).header
    try:
        if header.schema_id != ENTRYPOINT_SCHEMA_ID:
            raise DecodeError(f"schema id {header.schema_id} is not {ENTRYPOINT_SCHEMA_ID}")
        schema = registry.find(header.schema_id, header.version)
        codec = codecs.setdefault(id(schema), SchemaCodec(schema)).codec(header.template_id)
        if codec is None or not header.template_id:
            return "", None, ""
        message = codec.decode_body(
            data, HEADERS_SIZE, header.block_length, header.version, len(data)
        )
    except DecodeError as error:
        return "", None, error.reason
    return codec.message.name, message, ""
