"""§4.4: messages in a stream of bytes, and what is none."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.entrypoint import BadFrame, FrameReader, GatewaySettings, StreamFrame, blanked, framed
from pregao.errors import EncodeError, UsageError
from tests.entrypoint.gateway_desk import Desk
from tests.entrypoint.raw_peer import KEY, START, RawPeer
from tests.entrypoint.scripted_gateway import Exchange, kinds

PEER = RawPeer()
STREAM = PEER.negotiate() + PEER.establish() + PEER.order(1) + PEER.sequence(2) + PEER.terminate()


def whole(data):
    return [frame.data for frame in FrameReader().receive(data)]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_003_4_4_messages_cut_anywhere_are_reassembled(cuts):
    reader, found, last = FrameReader(), [], 0
    for cut in [*sorted(cuts), len(STREAM)]:
        found += reader.receive(STREAM[last:cut])
        last = cut
    assert [frame.data for frame in found] == whole(STREAM)
    assert [frame.header.template_id for frame in found] == [1, 4, 100, 9, 7]


def test_003_4_4_several_messages_in_one_segment_are_all_answered():
    line = Desk().connect()
    line.send_data(line.peer.negotiate() + line.peer.establish() + line.peer.order())
    assert line.names() == ["NegotiateResponse", "EstablishAck"]
    assert line.kinds() == ["SessionNegotiated", "SessionEstablished", "MessageReceived"]


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (struct.pack("<HH", 20, 0x50EB), "encoding type 0x50eb is not 0xeb50"),
        (struct.pack("<HH", 11, 0xEB50), "a message length of 11 bytes is not from 12 to 2048"),
        (struct.pack("<HH", 2049, 0xEB50), "a message length of 2049 bytes is not from 12 to 2048"),
    ],
)
def test_003_4_4_an_invalid_frame_ends_the_connection(frame, reason):
    reader = FrameReader()
    assert reader.receive(PEER.sequence(1) + frame)[1:] == [BadFrame(reason)]
    assert reader.receive(PEER.sequence(1)) == []
    line = Desk().connect()
    line.send_data(frame)
    assert line.ends_with("INVALID_SOFH")
    assert line.events[0].reason == reason


def test_the_longest_message_is_accepted_and_a_longer_one_not_encoded():
    assert len(framed(bytes(2044))) == 2048
    assert isinstance(FrameReader().receive(framed(bytes(2044)))[0], StreamFrame)
    with pytest.raises(EncodeError, match="2049 bytes is longer than 2048"):
        framed(bytes(2045))


def test_an_unknown_template_ends_the_connection():
    line = Desk().connect()
    message = bytearray(line.peer.sequence(1))
    message[6:8] = (999).to_bytes(2, "little")
    line.send_data(bytes(message))
    assert line.ends_with("UNRECOGNIZED_MESSAGE")


def test_a_message_of_another_schema_ends_the_connection():
    line = Desk().established()
    message = bytearray(line.peer.sequence(1))
    message[8:10] = (2).to_bytes(2, "little")
    line.send_data(bytes(message))
    assert line.ends_with("UNRECOGNIZED_MESSAGE")


@pytest.mark.parametrize("name", ["ExecutionReport_New", "NegotiateResponse", "NotApplied"])
def test_003_4_6_1_a_message_for_clients_ends_the_connection(name):
    line = Desk().established()
    message = bytearray(line.peer.sequence(1))
    template = line.peer.layouts.by_name[name].template
    message[6:8] = template.to_bytes(2, "little")
    line.send_data(bytes(message))
    assert line.ends_with("UNRECOGNIZED_MESSAGE")


@pytest.mark.parametrize("kept", [12, 13, 60, 95])
def test_a_body_that_cannot_be_decoded_ends_the_connection(kept):
    line = Desk().established()
    message = bytearray(line.peer.order()[:kept])
    message[0:2] = kept.to_bytes(2, "little")
    line.send_data(bytes(message))
    assert line.ends_with("DECODING_ERROR")


def test_a_block_shorter_than_the_versions_own_cannot_be_decoded():
    line = Desk().established()
    message = bytearray(line.peer.order())
    message[4:6] = (80).to_bytes(2, "little")
    line.send_data(bytes(message))
    assert line.ends_with("DECODING_ERROR")


def test_an_unknown_value_of_a_field_is_rejected_and_the_session_continues():
    line = Desk().established()
    line.send_data(line.peer.order(side=ord("9")))
    ((name, values),) = line.read_messages()
    assert name == "BusinessMessageReject"
    assert (values["refMsgType"], values["refSeqNum"]) == ("SimpleNewOrder", 1)
    assert values["businessRejectRefID"] == 1001
    assert values["text"] == "side has no value 57"
    line.send_data(line.peer.order())
    assert line.kinds()[-2:] == ["MessageRejected", "MessageReceived"]
    assert not line.gateway.closing


def test_a_required_enumeration_without_a_value_is_rejected():
    line = Desk().established()
    message = bytearray(line.peer.order())
    side = line.peer.layouts.by_template[100].field("side").offset
    message[12 + side] = 0
    line.send_data(bytes(message))
    assert line.read_messages()[0][1]["text"] == "side needs a value"


@settings(max_examples=150, deadline=None)
@given(st.integers(0, len(STREAM) - 1), st.integers(0, 255), st.binary(max_size=40))
def test_any_bytes_are_answered_or_end_the_connection(offset, value, noise):
    line = Desk().connect()
    stream = bytearray(STREAM)
    stream[offset] = value
    line.send_data(bytes(stream) + noise)
    line.read_messages()
    line.wait(100_000)
    assert line.gateway.closing
    assert [event for event in line.kinds() if event == "ConnectionEnded"] == ["ConnectionEnded"]


@pytest.mark.parametrize("data", [PEER.negotiate(now=START), PEER.establish(now=START)])
def test_credentials_are_blanked_before_a_message_is_kept(data):
    (frame,) = FrameReader().receive(data)
    kept = blanked(frame)
    assert len(kept) == len(data)
    assert KEY.encode() in data
    assert KEY.encode() not in kept
    assert set(PEER.read(kept)[0][1]["credentials"]) == {"*"}
    (order,) = FrameReader().receive(PEER.order(1))
    assert blanked(order) == order.data


@given(st.sampled_from([4, 5, 54]), st.integers(0, 255), st.integers(12, len(PEER.establish())))
def test_credentials_are_blanked_in_broken_messages_too(offset, value, size):
    data = bytearray(PEER.establish())
    data[offset] = value
    (frame,) = FrameReader().receive(struct.pack("<H", size) + bytes(data[2:size]))
    kept = blanked(frame)
    assert len(kept) == size
    if offset != 54:  # a length that is too small leaves what it does not count
        assert KEY[:6].encode() not in kept


def long_order(length):
    """An order that says more than is known: what is left over is skipped (§4.4)."""
    order = PEER.order(1)
    return struct.pack("<H", length) + order[2:] + b"\x00" * (length - len(order))


@pytest.mark.parametrize(("limit", "length"), [(2048, 2048), (16_384, 2049), (16_384, 16_384)])
def test_003_4_4_longer_frames_are_a_setting(limit, length):
    line = Desk(rules=GatewaySettings(max_message=limit)).established()
    line.send_data(long_order(length)[:1000])
    line.send_data(long_order(length)[1000:])
    assert line.kinds()[-1] == "MessageReceived"
    assert not line.gateway.closing


@pytest.mark.parametrize(("limit", "length"), [(2048, 2049), (16_384, 16_385), (2049, 2050)])
def test_003_4_4_frames_beyond_the_setting_end_the_connection(limit, length):
    line = Desk(rules=GatewaySettings(max_message=limit)).established()
    line.send_data(long_order(length)[:12])
    assert line.ends_with("INVALID_SOFH")


def test_003_4_4_a_client_reads_frames_as_long_as_its_setting():
    for limit, kind in ((16_384, "MessageReceived"), (2048, "ConnectionEnded")):
        exchange = Exchange(max_message=limit).established()
        report = exchange.report(1)
        padded = struct.pack("<H", 16_384) + report[2:] + b"\x00" * (16_384 - len(report))
        assert kinds(exchange.send_data(padded)) == [kind]


@pytest.mark.parametrize("limit", [11, 16_385])
def test_a_limit_of_frames_that_the_documents_do_not_have_is_refused(limit):
    with pytest.raises(UsageError, match="from 12 to 16384 bytes"):
        FrameReader(limit)
