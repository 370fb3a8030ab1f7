"""EntryPoint in captures: messages found in streams however they were cut, joined or disturbed."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.capture import Flow, PcapWriter, udp_frame
from pregao.entrypoint import blanked
from pregao.entrypoint.captured import messages as captured
from pregao.entrypoint.captured.frame_columns import UNSUPPORTED_BYTES, templates_of
from pregao.entrypoint.captured.messages import FrameBlocks, business_headers, captured_messages
from pregao.entrypoint.framing import frame_of
from pregao.sbe.codec import SchemaCodec
from tests.entrypoint.captured_talk import (
    CLIENT,
    GATEWAY,
    conversation,
    in_order,
    segments_of,
    write_capture,
)
from tests.entrypoint.raw_peer import KEY, SESSION

TALK = conversation(12)
KEPT = [(side, blanked(frame_of(data))) for side, data in TALK.frames]
TO_GATEWAY = Flow(*CLIENT, *GATEWAY)
TO_CLIENT = Flow(*GATEWAY, *CLIENT)


def found(path, block_bytes=4096):
    """The messages of both sides, and the bytes that are none, stream by stream in order."""
    sides = {TO_GATEWAY: [], TO_CLIENT: []}
    stretches = {TO_GATEWAY: b"", TO_CLIENT: b""}
    with FrameBlocks(path, None, None, block_bytes) as blocks:
        for block in blocks:
            sound = templates_of(block.buffer, block.offset, block.length) >= 0
            for row in range(len(block)):
                flow = blocks.flows[block.flow[row]]
                if sound[row]:
                    sides[flow].append(block.payload(row))
                else:
                    stretches[flow] += block.payload(row)
    return sides, stretches, blocks


def kept_of(side):
    return [data for from_client, data in KEPT if from_client == side]


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 400), st.sampled_from([200, 4096, 1 << 20]), st.integers(0, 999))
def test_every_message_however_streams_are_cut(tmp_path_factory, size, block_bytes, seed):
    """Segments of any size, in any order nearby, some of them twice."""
    chance = random.Random(seed)
    segments = segments_of(TALK, size=size, first=(2**32 - 300, 5))
    mixed = segments[:2]
    rest = segments[2:]
    while rest:
        part, rest = rest[:4], rest[4:]
        if chance.random() < 0.5:
            part.append(chance.choice(part))
        chance.shuffle(part)
        mixed += part
    path = write_capture(tmp_path_factory.mktemp("cut") / "a.pcap", in_order(mixed))
    sides, stretches, blocks = found(path, block_bytes)
    assert sides == {TO_GATEWAY: kept_of(True), TO_CLIENT: kept_of(False)}
    assert not any(stretches.values())
    assert blocks.accounts[TO_GATEWAY].message_bytes == len(TALK.side(True))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 600), st.integers(1, 300))
def test_a_capture_that_begins_in_the_middle_of_a_connection(tmp_path_factory, gone, size):
    """The next message is found by its headers, and the bytes before it are reported."""
    whole = TALK.side(True)
    data = whole[gone:]
    segments = [
        (0, CLIENT, GATEWAY, 9000 + at, 24, data[at : at + size])
        for at in range(0, len(data), size)
    ]
    path = write_capture(tmp_path_factory.mktemp("middle") / "a.pcap", in_order(segments))
    sides, stretches, blocks = found(path)
    at, expected = 0, []
    for frame in kept_of(True):
        if at >= gone:
            expected.append(frame)
        at += len(frame)
    assert sides[TO_GATEWAY] == expected
    expected_bytes = sum(map(len, expected))
    assert len(stretches[TO_GATEWAY]) == len(data) - expected_bytes
    account = blocks.accounts[TO_GATEWAY]
    assert account.message_bytes + account.skipped_bytes == len(data)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 26), st.binary(min_size=1, max_size=60), st.integers(1, 200))
def test_wrong_bytes_between_messages(tmp_path_factory, index, wrong, size):
    """Messages after them are found again; every byte is in a message or a stretch."""
    frames = [data for side, data in TALK.frames if side]
    index = min(index, len(frames))
    data = b"".join(frames[:index]) + wrong + b"".join(frames[index:])
    segments = [(0, CLIENT, GATEWAY, 999, 2, b"")] + [
        (0, CLIENT, GATEWAY, 1000 + at, 24, data[at : at + size])
        for at in range(0, len(data), size)
    ]
    path = write_capture(tmp_path_factory.mktemp("wrong") / "a.pcap", in_order(segments))
    sides, stretches, _ = found(path)
    kept = kept_of(True)
    got = sides[TO_GATEWAY]
    assert got[:index] == kept[:index]
    # The wrong bytes may look like a header that takes what follows with it, but not for long.
    assert got[-3:] == kept[-3:] or index > len(frames) - 4
    assert sum(map(len, got)) + len(stretches[TO_GATEWAY]) == len(data)


def test_bytes_that_were_never_captured(tmp_path):
    segments = segments_of(TALK, size=50)
    lost = [each for n, each in enumerate(segments) if n not in (12, 13, 30)]
    path = write_capture(tmp_path / "a.pcap", lost)
    sides, stretches, blocks = found(path)
    missing = [segments[n] for n in (12, 13, 30)]
    for flow, source in ((TO_GATEWAY, CLIENT), (TO_CLIENT, GATEWAY)):
        own = sum(len(each[5]) for each in missing if each[1] == source)
        side = source == CLIENT
        account = blocks.accounts[flow]
        assert account.missing_bytes == own
        assert account.message_bytes + account.skipped_bytes + own == len(TALK.side(side))
        assert set(sides[flow]) <= set(kept_of(side))
    assert any(stretches.values())


def test_two_connections_and_something_else(tmp_path):
    """Other traffic over TCP and UDP is passed over, however much of it there is."""
    second = conversation(7, session_id=SESSION + 1)
    other = bytes(random.Random(3).randrange(256) for _ in range(2 * UNSUPPORTED_BYTES))
    web = [
        (
            TALK.sent[0].time_ns + at,
            ("10.9.9.9", 443),
            ("10.1.0.7", 50_000),
            at,
            24,
            other[at : at + 1400],
        )
        for at in range(0, len(other), 1400)
    ]
    path = write_capture(
        tmp_path / "a.pcap",
        segments_of(TALK),
        segments_of(second, client=("10.1.0.8", 40_002)),
        web,
    )
    messages = list(captured_messages(path))
    by_sender = {}
    for each in messages:
        by_sender.setdefault((each.flow.src, each.sender), []).append(each.name)
    assert set(by_sender) == {
        ("10.1.0.7", "client"), ("10.1.0.8", "client"), ("10.2.0.9", "exchange"),
    }  # fmt: skip
    assert by_sender["10.1.0.8", "client"].count("SimpleNewOrder") == 7
    assert by_sender["10.1.0.7", "client"].count("SimpleNewOrder") == 12
    assert by_sender["10.2.0.9", "exchange"].count("ExecutionReport_New") == 19
    assert not any(each.reason for each in messages)
    with FrameBlocks(path) as blocks:
        assert sum(len(block) for block in blocks) == len(TALK.frames) + len(second.frames)
    statistics = blocks.statistics
    assert statistics.packets == statistics.tcp == statistics.accounted


@pytest.mark.parametrize("version", [2, 3, 4, 5, 6])
def test_messages_are_read_by_their_version(tmp_path, version):
    path = write_capture(tmp_path / "a.pcap", segments_of(conversation(2, version=version)))
    messages = list(captured_messages(path))
    orders = [each.message for each in messages if each.name == "SimpleNewOrder"]
    assert [order["clOrdID"] for order in orders] == [1, 2]
    assert [each.name for each in messages][:2] == ["Negotiate", "NegotiateResponse"]
    assert all(each.message is not None for each in messages)


def test_a_capture_needs_one_codec_of_each_version(tmp_path, monkeypatch):
    made = []

    def codec(schema):
        made.append(schema.version)
        return SchemaCodec(schema)

    monkeypatch.setattr(captured, "SchemaCodec", codec)
    path = write_capture(tmp_path / "a.pcap", segments_of(conversation(5, version=2)))
    assert len(list(captured_messages(path))) > 5
    assert made == [2]


def test_no_access_key_is_kept(tmp_path):
    """Neither in messages nor in what is left of one that was cut."""
    whole = segments_of(TALK)
    negotiate = next(each for each in whole if each[5])
    head = (*negotiate[:3], negotiate[3] + 50, negotiate[4], negotiate[5][50:])
    for name, segments in (("a", whole), ("b", [head, *whole[whole.index(negotiate) + 1 :]])):
        path = write_capture(tmp_path / f"{name}.pcap", segments)
        with FrameBlocks(path) as blocks:
            kept = b"".join(bytes(block.buffer) for block in blocks)
            assert b"SimpleNewOrder" not in kept
            for block in blocks:
                raise AssertionError(block)
        messages = [each.data for each in captured_messages(path)]
        assert messages
        assert all(
            KEY.encode()[:6] not in data and KEY.encode()[-6:] not in data for data in messages
        )


def test_business_headers_have_session_number_and_time(tmp_path):
    path = write_capture(tmp_path / "a.pcap", segments_of(TALK))
    with FrameBlocks(path) as blocks:
        headers = [business_headers(block) for block in blocks]
    columns = [np.concatenate(parts).tolist() for parts in zip(*headers, strict=True)]
    by_row = list(zip(*columns, strict=True))
    for each, (template, session, number, time_ns) in zip(
        captured_messages(path), by_row, strict=True
    ):
        header = each.message.values.get("businessHeader")
        assert template == each.message.message.id
        if header is None:
            assert (session, number, time_ns) == (0, 0, 0)
        else:
            assert (session, number) == (header["sessionID"], header["msgSeqNum"])
            assert time_ns == header["sendingTime"]


def test_a_capture_without_tcp(tmp_path):
    with PcapWriter(tmp_path / "a.pcap") as writer:
        writer.write(1, udp_frame("10.0.0.1", 1, "233.1.1.1", 5000, b"anything"))
    assert list(captured_messages(str(tmp_path / "a.pcap"))) == []
