"""Sessions of the raw client over TCP, by the sections of 003: conversations with one exchange.

What the client sends is packed, and what it reads is taken apart, by the client's own tables.
"""

import json
import math
import re
import struct
import time
from decimal import Decimal

import pytest

from tests.entrypoint.raw_layouts import frame, layouts
from tests.entrypoint.raw_peer import secret
from tests.exchange.host import test_raw_order_scenarios as orders
from tests.exchange.raw_floor import FIRM, LAST, Desk, closed, raw_market, rejected, report


@pytest.fixture(scope="module")
def market():
    with raw_market() as running:
        yield running


@pytest.fixture
def desk(market):
    return Desk(market)


# 4.4 Frames


@pytest.mark.parametrize("length", [0, 1, 3, 11, 2049, 16_384, 65_535])
def test_003_4_4_a_length_that_no_message_has_ends_the_connection(desk, length):
    client = desk.line()
    client.send_data(struct.pack("<HH", length, 0xEB50))
    closed(client, "INVALID_SOFH")


@pytest.mark.parametrize("encoding", [0, 0x50EB, 0xEB51, 0xFFFF])
def test_003_4_4_an_encoding_that_is_not_little_endian_sbe_ends_the_connection(desk, encoding):
    client = desk.line()
    client.send_data(struct.pack("<HH", 20, encoding))
    closed(client, "INVALID_SOFH")


@pytest.mark.parametrize("schema", [0, 2, 65_535])
def test_003_4_4_a_message_of_another_schema_ends_the_connection(desk, schema):
    client = desk.trader()
    client.send_data(frame(9, 4, struct.pack("<I", 1), schema=schema))
    closed(client, "UNRECOGNIZED_MESSAGE")


@pytest.mark.parametrize("template", [0, 2, 3, 5, 8, 13, 200, 206, 702, 65_535])
def test_003_4_6_1_a_message_that_clients_do_not_send_ends_the_connection(desk, template):
    client = desk.trader()
    client.send_data(frame(template, 4, bytes(200)))
    closed(client, "UNRECOGNIZED_MESSAGE")


@pytest.mark.parametrize("cut", [1, 4, 11, 12, 50, 90])
def test_003_4_4_a_message_may_come_in_two_segments(desk, cut):
    client = desk.trader()
    data = layouts(2).frame("NewOrderSingle", {
        "businessHeader": client.header(), "clOrdID": 1, "side": "BUY", "orderQty": 100,
        "price": 12, "securityID": desk.security, "ordType": "LIMIT", "timeInForce": "DAY",
        "senderLocation": "BVMF", "enteringTrader": "ABC", "mmProtectionReset": "FALSE_VALUE",
        "selfTradePreventionInstruction": "NONE",
    })  # fmt: skip
    client.send_data(data[:cut])
    client.send_data(data[cut:])
    report(client, "New", clOrdID=1, ordStatus="NEW")


def test_003_4_4_two_messages_may_come_in_one_segment(desk):
    client = desk.line()
    now = time.time_ns()
    client.send_data(client.peer.negotiate(now=now, firm=FIRM) + client.peer.establish(now=now))
    assert [name for name, _ in client.read_messages(2)] == ["NegotiateResponse", "EstablishAck"]


# 4.5.2, 4.5.3 Handshakes


def test_003_4_5_2_the_response_repeats_the_request(desk):
    client = desk.line()
    now = time.time_ns()
    client.send_data(client.peer.negotiate(77, now=now, firm=FIRM))
    assert client.one("NegotiateResponse") == {
        "sessionID": client.peer.session_id, "sessionVerID": 77, "requestTimestamp": now,
        "enteringFirm": FIRM,
    }  # fmt: skip


def test_003_4_5_2_credentials_may_be_written_with_any_blanks(desk):
    client = desk.line()
    words = json.dumps(json.loads(secret(client.peer.session_id)), indent=1)
    client.send_data(client.peer.negotiate(now=time.time_ns(), firm=FIRM, credentials=words))
    client.one("NegotiateResponse")


@pytest.mark.parametrize("again", [1, 2, 99])
def test_003_4_5_3_1_a_second_negotiation_of_the_day_names_the_version(desk, again):
    client = desk.trader()
    client.send_data(client.peer.terminate())
    client.ended()
    other = desk.again(client)
    other.send_data(other.peer.negotiate(again, now=time.time_ns(), firm=FIRM))
    values = rejected(other, "NegotiateReject", "negotiationRejectCode", "ALREADY_NEGOTIATED")
    assert values["currentSessionVerID"] == 1
    third = desk.again(client)
    assert third.establish(1, client.number)["lastIncomingSeqNo"] == 0


def test_003_4_5_3_the_ack_repeats_the_request_and_begins_with_one(desk):
    client = desk.line()
    client.send_data(client.peer.negotiate(now=time.time_ns(), firm=FIRM))
    client.one("NegotiateResponse")
    now = time.time_ns()
    client.send_data(client.peer.establish(now=now, keep_alive=30_000))
    assert client.one("EstablishAck") | {"semanticVersion": None} == {
        "sessionID": client.peer.session_id, "sessionVerID": 1, "requestTimestamp": now,
        "keepAliveInterval": 30_000, "nextSeqNo": 1, "lastIncomingSeqNo": 0,
        "semanticVersion": None,
    }  # fmt: skip


def test_003_4_5_3_a_second_establishment_on_the_connection_is_refused(desk):
    client = desk.trader()
    client.send_data(client.peer.establish(now=time.time_ns()))
    rejected(client, "EstablishReject", "establishmentRejectCode", "ALREADY_ESTABLISHED")


def test_003_4_5_3_a_session_in_use_is_refused_elsewhere(desk):
    client = desk.trader()
    other = desk.again(client)
    other.send_data(other.peer.establish(now=time.time_ns()))
    rejected(other, "EstablishReject", "establishmentRejectCode", "DUPLICATE_SESSION_CONNECTION")
    desk.order(client, 1)
    report(client, "New", clOrdID=1)


def test_003_4_5_2_a_session_that_is_negotiating_elsewhere_is_refused(desk):
    client = desk.line()
    client.send_data(client.peer.negotiate(now=time.time_ns(), firm=FIRM))
    client.one("NegotiateResponse")
    other = desk.again(client)
    other.send_data(other.peer.negotiate(2, now=time.time_ns(), firm=FIRM))
    rejected(other, "NegotiateReject", "negotiationRejectCode", "AUTHENTICATION_IN_PROGRESS")


# 4.5.4, 4.5.5 Sequences


@pytest.mark.parametrize("jump", [2, 10, 1000, 2**31])
def test_003_4_5_4_2_a_higher_sequence_is_followed(desk, jump):
    client = desk.trader()
    client.send_data(client.peer.sequence(jump))
    assert client.one("NotApplied") == {"fromSeqNo": 1, "count": jump - 1}
    client.number = jump
    desk.order(client, 1)
    report(client, "New", clOrdID=1)


def test_003_4_5_4_2_a_lower_sequence_ends_the_connection(desk):
    client = desk.trader()
    desk.order(client, 1)
    report(client, "New")
    client.send_data(client.peer.sequence(1))
    closed(client, "INVALID_NEXTSEQNO")


def test_003_4_5_4_1_a_sequence_that_is_right_is_a_heartbeat(desk):
    client = desk.trader()
    client.send_data(client.peer.sequence(1) * 3)
    desk.order(client, 1)
    report(client, "New", clOrdID=1)


@pytest.mark.parametrize("gap", [1, 7, 500])
def test_003_4_5_5_a_message_after_a_gap_is_accepted(desk, gap):
    client = desk.trader()
    client.number += gap
    desk.order(client, 5)
    assert client.one("NotApplied") == {"fromSeqNo": 1, "count": gap}
    report(client, "New", clOrdID=5)


def test_003_4_5_5_not_applied_takes_no_number_of_the_exchange(desk):
    client = desk.trader()
    client.number += 3
    desk.order(client, 5)
    client.one("NotApplied")
    assert report(client, "New")["businessHeader"]["msgSeqNum"] == 1


def test_003_4_6_2_a_repeated_number_is_not_executed(desk):
    client = desk.trader()
    desk.order(client, 1)
    report(client, "New", clOrdID=1)
    client.number = 1
    desk.order(client, 2)
    client.number = 2
    desk.order(client, 3)
    report(client, "New", clOrdID=3)


# 4.5.6 Retransmission


def five_reports(desk):
    client = desk.trader()
    for number in range(1, 6):
        desk.order(client, number)
        report(client, "New", clOrdID=number)
    return client


@pytest.mark.parametrize(("first", "count"), [(1, 5), (1, 1), (5, 1), (2, 3)])
def test_003_4_5_6_messages_come_again_between_retransmission_and_sequence(desk, first, count):
    client = five_reports(desk)
    now = time.time_ns()
    client.send_data(client.peer.retransmit(first, count, now=now))
    granted, *again, over = client.read_messages(count + 2)
    assert granted == ("Retransmission", {
        "sessionID": client.peer.session_id, "requestTimestamp": now, "nextSeqNo": first,
        "count": count,
    })  # fmt: skip
    numbers = [values["businessHeader"]["msgSeqNum"] for _, values in again]
    assert numbers == list(range(first, first + count))
    assert [values["clOrdID"] for _, values in again] == numbers
    assert over == ("Sequence", {"nextSeqNo": 6})


@pytest.mark.parametrize(
    ("first", "count", "code"),
    [(6, 1, "OUT_OF_RANGE"), (1, 6, "OUT_OF_RANGE"), (LAST, 1, "OUT_OF_RANGE"),
     (0, 1, "INVALID_FROMSEQNO"), (1, 0, "INVALID_COUNT")],
)  # fmt: skip
def test_003_4_5_6_a_request_that_cannot_be_served_is_rejected(desk, first, count, code):
    client = five_reports(desk)
    now = time.time_ns()
    client.send_data(client.peer.retransmit(first, count, now=now))
    assert client.one("RetransmitReject") == {
        "sessionID": client.peer.session_id, "requestTimestamp": now, "retransmitRejectCode": code,
    }  # fmt: skip
    desk.order(client, 9)
    report(client, "New", clOrdID=9)


@pytest.mark.parametrize("count", [1001, LAST])
def test_003_4_5_6_more_than_a_thousand_end_the_connection(desk, count):
    client = five_reports(desk)
    client.send_data(client.peer.retransmit(1, count, now=time.time_ns()))
    code = "REQUEST_LIMIT_EXCEEDED"
    rejected(client, "RetransmitReject", "retransmitRejectCode", code)


def test_003_4_5_6_a_request_of_another_session_is_rejected(desk):
    client = five_reports(desk)
    client.send_data(client.peer.retransmit(1, 1, now=time.time_ns(), session_id=7))
    assert client.one("RetransmitReject")["retransmitRejectCode"] == "INVALID_SESSION"


# 4.5.7 Termination


@pytest.mark.parametrize("code", ["FINISHED", "UNSPECIFIED", "KEEPALIVE_INTERVAL_LAPSED"])
def test_003_4_5_7_terminate_is_confirmed_and_the_session_resumes_later(desk, code):
    client = five_reports(desk)
    client.send_data(client.peer.terminate(code))
    ((name, values),) = client.ended()
    assert (name, values["terminationCode"], values["sessionID"], values["sessionVerID"]) == (
        "Terminate", "FINISHED", client.peer.session_id, 1,
    )  # fmt: skip
    other = desk.again(client)
    ack = other.establish(1, 6)
    assert (ack["nextSeqNo"], ack["lastIncomingSeqNo"]) == (6, 5)
    desk.order(other, 6)
    assert report(other, "New", clOrdID=6)["businessHeader"]["msgSeqNum"] == 6


# 4.5.8, 4.6.4 The worked examples, byte by byte

ESTABLISH = bytes.fromhex(
    "8c0050eb2a0004000100020001e1f5056670f31c89010000"
)  # what is printed whole: up to sessionVerID
SIMPLE_NEW_ORDER = bytes.fromhex(
    "75 00 50 eb 54 00 64 00 01 00 02 00 01 e1 f5 05"
    "05 00 00 00 80 11 49 0a 04 6e 6e 17 50 00 01 00"
    "6b 70 f3 1c 89 01 00 00 0f 00 00 00 54 41 44 41"
    "00 00 00 00 00 00 54 41 44 41 00 00 55 4f f0 90"
    "2e 00 00 00 31 32 30 00 64 00 00 00 00 00 00 00"
    "08 43 0f 00 00 00 00 00 2c 01 00 00 40 e2 01 00"
    "14 53 49 4d 50 4c 45 4e 45 57 4f 52 44 45 52 20"
    "42 55 59 20 35"
)


def test_003_4_6_4_the_order_of_the_example_is_read_and_written():
    name, values = layouts(2).read(SIMPLE_NEW_ORDER)
    assert name == "SimpleNewOrder"
    assert values["businessHeader"]["sessionID"] == 100_000_001
    assert values["businessHeader"]["msgSeqNum"] == 5
    assert (values["price"], values["orderQty"]) == (Decimal("100.0200"), 100)
    assert values["investorID"] == {"prefix": 300, "document": 123_456}
    assert values["memo"] == "SIMPLENEWORDER BUY 5"
    assert layouts(2).frame(name, values) == SIMPLE_NEW_ORDER


def test_003_4_6_4_the_order_of_the_example_is_accepted(desk):
    client = desk.trader()
    data = bytearray(SIMPLE_NEW_ORDER)
    struct.pack_into("<II", data, 12, client.peer.session_id, 1)
    layout = layouts(2).by_name["SimpleNewOrder"]
    struct.pack_into("<Q", data, 12 + layout.field("securityID").offset, desk.security)
    struct.pack_into("<q", data, 12 + layout.field("price").offset, 12_0000)
    client.send_data(bytes(data))
    values = report(
        client, "New", ordStatus="NEW", side="BUY", ordType="LIMIT", timeInForce="DAY",
        orderQty=100, price=Decimal("12.0000"), securityID=desk.security,
        memo="SIMPLENEWORDER BUY 5",
    )  # fmt: skip
    assert values["clOrdID"] == struct.unpack_from("<Q", SIMPLE_NEW_ORDER, 0x20)[0]


def test_003_4_5_8_the_establishment_of_the_example_is_accepted(desk):
    client = desk.line()
    client.send_data(client.peer.negotiate(0x0189_1CF3_7066, now=time.time_ns(), firm=FIRM))
    client.one("NegotiateResponse")
    user = f'"username": "{client.peer.session_id}"'
    words = f'{{   "auth_type": "basic",   {user},   "access_key": "123456789ABC" }}'.ljust(85)
    data = client.peer.establish(
        0x0189_1CF3_7066, now=time.time_ns(), credentials=words, keep_alive=60_000
    )
    assert data[:12] == ESTABLISH[:12]  # 140 bytes, block 42, template 4, schema 1, version 2
    assert data[16:24] == ESTABLISH[16:24]
    assert (data[54], len(data)) == (0x55, 140)
    client.send_data(data)
    assert client.one("EstablishAck")["sessionVerID"] == 0x0189_1CF3_7066


# Numbers at their end: nothing of them locks a session out.


def jump(desk, client, how):
    if how == "message":
        client.number = LAST
        desk.order(client, 1)
    else:
        client.send_data(client.peer.sequence(LAST))


@pytest.mark.parametrize("how", ["message", "sequence"])
def test_003_4_6_2_a_jump_to_the_last_number_does_not_lock_the_session_out(desk, how):
    client = desk.trader()
    jump(desk, client, how)
    closed(client, "INVALID_NEXTSEQNO")
    other = desk.again(client)
    assert other.establish(1, 1)["lastIncomingSeqNo"] == 0
    desk.order(other, 2)
    report(other, "New", clOrdID=2)


def test_003_4_5_3_an_establishment_with_the_last_number_is_refused(desk):
    client = desk.line()
    client.send_data(client.peer.negotiate(now=time.time_ns(), firm=FIRM))
    client.one("NegotiateResponse")
    client.send_data(client.peer.establish(1, LAST, now=time.time_ns()))
    rejected(client, "EstablishReject", "establishmentRejectCode", "INVALID_NEXTSEQNO")
    assert desk.again(client).establish(1, 1)["nextSeqNo"] == 1


# The count.


def test_there_are_at_least_130_scenarios_by_section():
    """Counted as pytest collects them: names and their rows."""
    rows = {}
    for name, found in [*globals().items(), *vars(orders).items()]:
        if name.startswith("test_003_"):
            marks = [
                each for each in getattr(found, "pytestmark", ()) if each.name == "parametrize"
            ]
            rows[name] = math.prod(len(each.args[1]) for each in marks)
    assert sum(rows.values()) >= 130
    sections = {re.match(r"test_003((?:_\d+)+)", name)[1] for name in rows}
    assert len(sections) >= 30
