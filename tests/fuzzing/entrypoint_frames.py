"""Streams of EntryPoint with damage: messages, stretches and headers as plain code finds them."""

from __future__ import annotations

import random
import struct
import tempfile
from pathlib import Path

from pregao.entrypoint import blanked
from pregao.entrypoint.captured.frame_columns import UNSUPPORTED_BYTES
from pregao.entrypoint.captured.messages import (
    FrameBlocks,
    _offsets,
    business_headers,
    captured_messages,
)
from pregao.entrypoint.framing import frame_of
from tests.entrypoint.captured_talk import (
    CLIENT,
    GATEWAY,
    Conversation,
    SentData,
    conversation,
    in_order,
    segments_of,
    write_capture,
)
from tests.entrypoint.test_entrypoint_stream_walk import BulkWalk, PlainWalk, sound
from tests.fuzzing.damage import damaged

HEADERS = 12


def prepare() -> tuple[Path, list[tuple[bool, bytes]]]:
    """Hold a session; keep the messages of both sides."""
    return Path(tempfile.mkdtemp()), conversation(8).frames


def run(rng: random.Random, prepared: tuple[Path, list[tuple[bool, bytes]]]) -> bool:
    """Damage the bytes of both sides; return whether every message of a capture was decoded."""
    folder, frames = prepared
    share = rng.choice((0.0, 0.1, 0.4))
    talk = Conversation()
    for from_client, frame in frames:
        data = frame
        if rng.random() < share:
            data = harmed(rng, frame)
        talk.sent.append(SentData(len(talk.sent), from_client, data))
    synced = rng.random() < 0.7
    walks = {}
    for side in (True, False):
        walks[side] = walked(rng, talk.side(side), synced=synced)
    segments = segments_of(talk, size=rng.choice((None, 7, 100)), syn=synced)
    path = write_capture(folder / "damaged.pcap", in_order(segments))
    found: dict[tuple[str, int], list[tuple[str, bytes]]] = {}
    with FrameBlocks(path, None, None, rng.choice((200, 4_096, 1 << 20))) as blocks:
        for block in blocks:
            headers = business_headers(block)
            for row in range(len(block)):
                data = block.payload(row)
                kind = "message" if headers.sound[row] else "stretch"
                assert kind == "stretch" or blanked(frame_of(data)) == data
                flow = blocks.flows[block.flow[row]]
                found.setdefault((flow.src, flow.src_port), []).append((kind, data))
    for side, source in ((True, CLIENT), (False, GATEWAY)):
        own = walks[side]
        recognised = any(kind == "message" for kind, _ in own)
        compare(found.get(source, []), own if recognised else [])
    messages = list(captured_messages(path))
    compare_headers(path, messages)
    return bool(messages) and all(each.message is not None for each in messages)


def harmed(rng: random.Random, frame: bytes) -> bytes:
    """Return a message with damage anywhere, after its headers, or cut with headers that fit."""
    kind = rng.randrange(4)
    if kind == 0:
        return damaged(rng, frame)
    if kind == 1:
        data = frame[: rng.randrange(HEADERS, len(frame) + 1)]
        block = min(len(data) - HEADERS, struct.unpack_from("<H", data, 4)[0])
        return struct.pack("<HHH", len(data), 0xEB50, block) + data[6:]
    data = frame[:HEADERS] + damaged(rng, frame[HEADERS:])
    return data if kind == 2 else len(data).to_bytes(2, "little") + data[2:]


def walked(rng: random.Random, data: bytes, *, synced: bool) -> list[tuple[str, bytes]]:
    """Walk a stream in parts by the kernel and by plain code; return the messages and stretches."""
    assert len(data) < UNSUPPORTED_BYTES
    plain, bulk = PlainWalk(synced), BulkWalk(synced)
    at = 0
    while at < len(data):
        size = rng.choice((1, 5, 90, 1_000))
        for walk in (plain, bulk):
            walk.take(data[at : at + size])
        assert bulk.rest == plain.rest
        at += size
    for walk in (plain, bulk):
        walk.take(b"", final=True)
    assert b"".join(each for _, each in bulk.found) == data
    compare(bulk.found, plain.found)
    return plain.found


def compare(found: list[tuple[str, bytes]], expected: list[tuple[str, bytes]]) -> None:
    """Compare what was found in a stream with the messages that plain code found."""
    messages, own = placed(found), placed(expected)
    assert {at: messages[at] for at in own} == own
    for at in messages.keys() - own.keys():
        # Columns detect a stretch by its bytes: one of a message's size stays a message, even if
        # its headers promise more bytes than there are.
        assert not sound(messages[at], 0)
    assert sum(len(data) for _, data in found) == sum(len(data) for _, data in expected)


def placed(found: list[tuple[str, bytes]]) -> dict[int, bytes]:
    """Return the messages by their offsets in the stream, without their credentials."""
    at, messages = 0, {}
    for kind, data in found:
        if kind == "message":
            messages[at] = blanked(frame_of(data))
        at += len(data)
    return messages


def compare_headers(path: str, messages: list) -> None:
    """Compare the business headers of columns with those of decoded messages."""
    with FrameBlocks(path) as blocks:
        rows = [
            each
            for block in blocks
            for each in zip(*(column.tolist() for column in business_headers(block)), strict=True)
        ]
    assert len(rows) == len(messages)
    for (template, *numbers), each in zip(rows, messages, strict=True):
        if template >= 0:
            assert template == struct.unpack_from("<H", each.data, 6)[0]
        assert numbers == plain_header(template, each.data)
        header = None if each.message is None else each.message.values.get("businessHeader")
        if header is not None:
            assert numbers[:2] == [header["sessionID"], header["msgSeqNum"]]


def plain_header(template: int, data: bytes) -> list[int]:
    """Return session, number and time of a message's business header; zeros if it has none."""
    offsets = _offsets()
    if not 0 <= template < len(offsets.header_at) or offsets.header_at[template] < 0:
        return [0, 0, 0]
    header = data[HEADERS + int(offsets.header_at[template]) :]
    if len(header) < offsets.time_at + 8:
        return [0, 0, 0]
    (session,) = struct.unpack_from("<I", header, offsets.session_at)
    (number,) = struct.unpack_from("<I", header, offsets.number_at)
    (time,) = struct.unpack_from("<Q", header, offsets.time_at)
    return [session, number, time if time < 2**63 else 0]
