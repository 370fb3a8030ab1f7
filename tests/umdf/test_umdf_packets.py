"""Packets: the walk over valid and malformed ones, one at a time and in bulk, which agree."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.errors import DecodeError
from pregao.sbe.codec import SchemaCodec
from pregao.sbe.value_specs import beyond_columns
from pregao.schemas.bundle import bundled, bundled_versions
from pregao.schemas.registry import Registry
from pregao.umdf.bulk_decoder import BulkDecoder, DecodeReject, MessageBatch, UnknownMessages, walk
from pregao.umdf.packets import PacketDecoder, PacketHeader, decode_header, encode_packet, frames
from tests.sbe.support import plausible_body, shown

HEADER = PacketHeader(84, 3, 1234, 1_700_000_000_123_456_000)
SEQUENCE = SchemaCodec(bundled("umdf", 16)).encode("Sequence_2", {"nextSeqNo": 7})


def packet(*messages, header=HEADER):
    return encode_packet(header, messages or (SEQUENCE,))


def some_message(rng, version, wild=0.0):
    schema = bundled("umdf", version)
    message = rng.choice([m for m in schema.messages if m.id != 0])
    codec = SchemaCodec(schema).codec(message.id)
    assert codec is not None
    return codec.header + plausible_body(rng, message, wild=wild)


def test_a_packet_round_trip():
    encoded = packet(SEQUENCE, SEQUENCE)
    assert len(encoded) == 16 + 2 * 16
    decoded = PacketDecoder().decode(encoded)
    assert decoded.header == HEADER
    assert [message["nextSeqNo"] for message in decoded.messages] == [7, 7]
    assert [outcome.frame.index_in_packet for outcome in decoded.outcomes] == [0, 1]


def test_a_heartbeat_has_no_packet_key_in_the_stream():
    assert HEADER.sequenced
    assert not HEADER._replace(sequence_number=0).sequenced


@pytest.mark.parametrize("length", range(16))
def test_a_short_packet(length):
    with pytest.raises(DecodeError, match="too short") as caught:
        decode_header(packet()[:length])
    assert caught.value.position == 0


MALFORMED = [
    ("a packet without messages", 0, lambda p: p[:16]),
    ("1 bytes after the last message", 32, lambda p: p + b"\0"),
    ("11 bytes after the last message", 32, lambda p: p + bytes(11)),
    ("a message length of 0 bytes is too small", 16, lambda p: p[:16] + bytes(2) + p[18:]),
    ("a message length of 11 bytes is too small", 16, lambda p: p[:16] + b"\x0b\0" + p[18:]),
    ("a message of 17 bytes runs past the packet", 16, lambda p: p[:16] + b"\x11\0" + p[18:]),
    ("a message of 65535 bytes runs past", 16, lambda p: p[:16] + b"\xff\xff" + p[18:]),
    ("encoding type 0x50eb is not 0xeb50", 16, lambda p: p[:18] + b"\xeb\x50" + p[20:]),
    ("a message of 16 bytes runs past the packet", 16, lambda p: p[:-1]),
]


@pytest.mark.parametrize(("reason", "position", "spoil"), MALFORMED)
def test_every_malformed_shape_gives_its_reason_and_position(reason, position, spoil):
    spoilt = spoil(packet())
    with pytest.raises(DecodeError, match=reason) as caught:
        list(frames(spoilt))
    assert caught.value.position == position
    outcome = PacketDecoder().decode(spoilt).outcomes[-1]
    assert reason in outcome.reason
    assert (outcome.frame, outcome.position, outcome.end) == (None, position, len(spoilt))


def test_messages_before_a_malformed_one_are_kept():
    spoilt = packet(SEQUENCE, SEQUENCE)[:-3]
    decoded = PacketDecoder().decode(spoilt)
    assert len(decoded.messages) == 1
    assert decoded.outcomes[1].reason


def test_a_wrong_schema_id_rejects_that_message_only():
    other = bytearray(SEQUENCE)
    other[4:6] = (1).to_bytes(2, "little")
    decoded = PacketDecoder().decode(packet(bytes(other), SEQUENCE))
    assert [outcome.reason for outcome in decoded.outcomes] == ["schema id 1 is not 2", ""]


def test_a_version_below_the_oldest_known_is_rejected_unless_a_schema_is_named():
    old = bytearray(SEQUENCE)
    old[6:8] = (3).to_bytes(2, "little")
    outcome = PacketDecoder().decode(packet(bytes(old))).outcomes[0]
    assert "version 3" in outcome.reason
    named = PacketDecoder(Registry(named=[bundled("umdf", 7)])).decode(packet(bytes(old)))
    assert named.messages[0]["nextSeqNo"] == 7


def test_an_unknown_template_is_skipped_by_its_length():
    strange = bytearray(SEQUENCE)
    strange[2:4] = (49).to_bytes(2, "little")
    decoded = PacketDecoder().decode(packet(bytes(strange), SEQUENCE))
    assert [outcome.reason for outcome in decoded.outcomes] == ["", ""]
    assert [outcome.decoded is None for outcome in decoded.outcomes] == [True, False]


def bulk_outcomes(packets, registry=None):
    """Everything that bulk decoding says, by packet and index, as the slow way says it."""
    buffer = np.frombuffer(b"".join(packets) + bytes(8), np.uint8)
    lengths = np.array([len(p) for p in packets], np.int32)
    offsets = np.cumsum(lengths, dtype=np.int64) - lengths
    walked = walk(buffer, offsets, lengths)
    outcomes = {}
    for item in BulkDecoder(registry).decode(walked):
        match item:
            case DecodeReject():
                key = (item.packet, item.index_in_packet)
                start = int(offsets[item.packet])
                outcomes[key] = ("reject", item.start - start, item.end - start, item.reason)
            case UnknownMessages():
                for row in item.rows.tolist():
                    key = (int(walked.packet[row]), int(walked.index_in_packet[row]))
                    outcomes[key] = ("unknown", item.template_id)
            case MessageBatch():
                rows = item.columns.to_pylist() or [{}] * len(item.rows)
                for row, values in zip(item.rows.tolist(), rows, strict=True):
                    key = (int(walked.packet[row]), int(walked.index_in_packet[row]))
                    outcomes[key] = ("message", item.message.name, values)
    return walked, outcomes


def slow_outcomes(packets, registry=None):
    decoder = PacketDecoder(registry)
    outcomes, headers = {}, []
    for number, payload in enumerate(packets):
        try:
            decoded = decoder.decode(payload)
        except DecodeError as error:
            outcomes[number, None] = ("reject", 0, len(payload), error.reason)
            headers.append(None)
            continue
        headers.append(decoded.header)
        for outcome in decoded.outcomes:
            index = None if outcome.frame is None else outcome.frame.index_in_packet
            reason = outcome.reason
            if outcome.decoded is not None:  # what messages carry and columns cannot hold
                reason = beyond_columns(outcome.decoded.message, outcome.decoded.values)
            if reason:
                outcomes[number, index] = ("reject", outcome.position, outcome.end, reason)
            elif outcome.decoded is None:
                outcomes[number, index] = ("unknown", outcome.frame.template_id)
            else:
                message = outcome.decoded.message
                row = shown(message, outcome.decoded.values)
                outcomes[number, index] = ("message", message.name, row)
    return headers, outcomes


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 12))
def test_bulk_and_single_decoding_agree(seed, count):
    rng = random.Random(seed)
    versions = [known.number for known in bundled_versions("umdf")]
    packets = []
    for number in range(count):
        version = rng.choice([*versions, 12, 17])
        known = max(v for v in versions if v <= version)
        messages = [
            some_message(rng, known, rng.choice([0, 0, 0.1])) for _ in range(rng.randrange(5))
        ]
        if version != known:
            messages = [m[:6] + version.to_bytes(2, "little") + m[8:] for m in messages]
        payload = bytearray(packet(*messages, header=HEADER._replace(sequence_number=number)))
        for _ in range(rng.choice([0, 0, 0, 1, 3])):
            payload[rng.randrange(len(payload))] = rng.randrange(256)
        if rng.random() < 0.2:
            payload = payload[: rng.randrange(len(payload) + 1)]
        packets.append(bytes(payload))
    walked, bulk = bulk_outcomes(packets)
    headers, slow = slow_outcomes(packets)
    assert bulk == slow
    for number, header in enumerate(headers):
        if header is not None:
            assert header == (
                walked.channel[number],
                walked.sequence_version[number],
                walked.sequence_number[number],
                walked.sending_time_ns[number],
            )


def test_more_kinds_than_the_kernel_distinguishes():
    """Headers full of noise are sorted the slow way, and nothing is lost."""
    messages = []
    for version in range(3000):
        messages.append(SEQUENCE[:6] + (version + 16).to_bytes(2, "little") + SEQUENCE[8:])
    packets = [packet(*messages[start : start + 50]) for start in range(0, 3000, 50)]
    _, outcomes = bulk_outcomes(packets)
    assert len(outcomes) == 3000
    assert {outcome[0] for outcome in outcomes.values()} == {"message"}


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_any_payload_is_safe(noise):
    for payload in (noise, HEADER_BYTES + noise):
        _, bulk = bulk_outcomes([payload])
        _, slow = slow_outcomes([payload])
        assert bulk == slow


HEADER_BYTES = packet()[:16]


def test_a_number_that_columns_cannot_hold_is_read_one_by_one_and_rejected_in_bulk():
    codec = SchemaCodec(bundled("umdf", 16)).codec(51)
    pack = codec.packer("securityID", "secondaryOrderID", "mDEntryType", "mDEntrySize")
    payload = packet(pack(5, 2**63, ord("0"), 100), pack(5, 2**63 - 1, ord("0"), 100))
    first, second = PacketDecoder().decode(payload).messages
    assert (first["secondaryOrderID"], second["secondaryOrderID"]) == (2**63, 2**63 - 1)
    _, outcomes = bulk_outcomes([payload])
    limit = "a number above 9223372036854775807, the maximum of a column"
    assert outcomes[0, 0][0] == "reject"
    assert outcomes[0, 0][3] == f"secondaryOrderID: {limit}"
    assert outcomes[0, 1][2]["secondary_order_id"] == 2**63 - 1
