"""The client's side, against a gateway of the tests' own: §4.5, §4.6 and the flows of §5."""

import struct

import pytest

from pregao.entrypoint import ClientSettings, ConnectionStage, SessionFile
from pregao.errors import UsageError
from tests.entrypoint.raw_peer import FIRM, KEY, MS, SESSION, START, RawPeer, secret
from tests.entrypoint.scripted_gateway import ORDER, Exchange, kinds, numbers


def test_003_5_1_negotiate_establish_trade_and_leave():
    exchange = Exchange()
    ((name, values),) = exchange.connect()
    assert (name, values["sessionVerID"], values["enteringFirm"]) == (
        "Negotiate",
        exchange.ver,
        FIRM,
    )
    assert values["credentials"] == secret()
    events = exchange.send_data(exchange.response())
    ((name, values),) = exchange.read_messages()
    assert (name, values["nextSeqNo"], values["keepAliveInterval"]) == ("Establish", 1, 1000)
    assert values["credentials"] == secret()
    events += exchange.send_data(exchange.ack())
    assert exchange.client.stage is ConnectionStage.ESTABLISHED
    assert exchange.client.send("SimpleNewOrder", ORDER, exchange.now) == 1
    ((name, values),) = exchange.read_messages()
    header = {"sessionID": SESSION, "msgSeqNum": 1, "sendingTime": START, "marketSegmentID": 80}
    assert (name, values["businessHeader"], values["clOrdID"]) == (
        "SimpleNewOrder", header, 2**63 + 5,
    )  # fmt: skip
    events += exchange.send_data(exchange.report(1))
    exchange.client.leave(exchange.now)
    assert [name for name, _ in exchange.read_messages()] == ["Terminate"]
    events += exchange.send_data(exchange.peer.terminate())
    assert exchange.client.closing
    expected = ["SessionNegotiated", "SessionEstablished", "MessageReceived", "ConnectionEnded"]
    assert kinds(events) == expected
    assert events[-1].graceful
    assert exchange.client.lost() == []


def test_003_5_3_after_a_loss_it_establishes_with_its_numbers():
    exchange = Exchange().established()
    exchange.client.send("SimpleNewOrder", ORDER, exchange.now)
    exchange.send_data(exchange.report(1))
    assert kinds(exchange.client.lost()) == ["ConnectionEnded"]
    ((name, values),) = exchange.connect()
    assert (name, values["nextSeqNo"], values["sessionVerID"]) == ("Establish", 2, exchange.ver)


def test_003_5_4_a_client_that_lost_everything_learns_it_from_the_rejects():
    exchange = Exchange()
    exchange.connect()
    reject = exchange.peer.frame(
        "NegotiateReject", **exchange.common(), enteringFirm=FIRM,
        negotiationRejectCode="ALREADY_NEGOTIATED", currentSessionVerID=44,
    )  # fmt: skip
    events = exchange.send_data(reject, exchange.peer.terminate("UNSPECIFIED"))
    assert kinds(events) == ["SessionRefused", "ConnectionEnded"]
    ((name, values),) = exchange.connect()
    assert (name, values["sessionVerID"], values["nextSeqNo"]) == ("Establish", 44, 1)
    reject = exchange.peer.frame(
        "EstablishReject", **exchange.common(44), establishmentRejectCode="INVALID_NEXTSEQNO",
        lastIncomingSeqNo=17,
    )  # fmt: skip
    first, *_ = exchange.send_data(reject, exchange.peer.terminate("INVALID_NEXTSEQNO"))
    assert first.text == "nextSeqNo 18 is expected; lastIncomingSeqNo is the number before it, 17"
    ((name, values),) = exchange.connect()
    assert (name, values["sessionVerID"], values["nextSeqNo"]) == ("Establish", 44, 18)
    exchange.send_data(exchange.ack(next_number=4, last=17))
    ((name, values),) = exchange.read_messages()
    assert (name, values["fromSeqNo"], values["count"]) == ("RetransmitRequest", 1, 3)
    assert exchange.client.send("SimpleNewOrder", ORDER, exchange.now) == 18


def test_003_5_5_with_a_backup_it_negotiates_the_same_session_version():
    exchange = Exchange().established()
    exchange.client.send("SimpleNewOrder", ORDER, exchange.now)
    exchange.client.lost()
    ((name, values),) = exchange.connect(gateway=2)
    assert (name, values["sessionVerID"]) == ("Negotiate", exchange.ver)
    exchange.send_data(exchange.response())
    assert exchange.read_messages()[0][1]["nextSeqNo"] == 2
    exchange.client.lost()
    assert exchange.connect(gateway=2)[0][0] == "Establish"


def test_003_4_2_the_next_day_it_negotiates_a_higher_session_version():
    exchange = Exchange().established()
    exchange.client.send("SimpleNewOrder", ORDER, exchange.now)
    exchange.client.lost()
    exchange.client.reset_day()
    ((name, values),) = exchange.connect()
    assert (name, values["sessionVerID"]) == ("Negotiate", exchange.ver + 1)
    exchange.send_data(exchange.response(exchange.ver + 1))
    assert exchange.read_messages()[0][1]["nextSeqNo"] == 1


def refuse(exchange, name, **values):
    """The gateway rejects what was asked, ends the connection, and a new one is there."""
    reject = exchange.peer.frame(name, **exchange.common(), **values)
    assert kinds(exchange.send_data(reject, exchange.peer.terminate())) == [
        "SessionRefused",
        "ConnectionEnded",
    ]
    exchange.client.lost()
    return exchange.connect()


def test_a_session_that_the_gateway_does_not_know_is_negotiated_in_its_version_then_in_a_new_one():
    exchange = Exchange().established()
    exchange.client.send("SimpleNewOrder", ORDER, exchange.now)
    exchange.client.lost()
    exchange.connect()
    ((name, values),) = refuse(exchange, "EstablishReject", establishmentRejectCode="UNNEGOTIATED")
    assert (name, values["sessionVerID"]) == ("Negotiate", exchange.ver)
    code = "INVALID_SESSIONVERID"
    ((name, values),) = refuse(exchange, "NegotiateReject", negotiationRejectCode=code)
    assert (name, values["sessionVerID"]) == ("Negotiate", exchange.ver + 1)
    exchange.send_data(exchange.response(exchange.ver + 1))
    ((name, values),) = exchange.read_messages()
    assert (name, values["sessionVerID"], values["nextSeqNo"]) == (
        "Establish", exchange.ver + 1, 1,
    )  # fmt: skip


def test_a_gateway_that_holds_the_session_in_another_version_is_believed():
    exchange = Exchange().established()
    exchange.client.lost()
    exchange.connect()
    code = "INVALID_SESSIONVERID"
    ((name, _),) = refuse(exchange, "EstablishReject", establishmentRejectCode=code)
    assert name == "Negotiate"
    ((name, values),) = refuse(
        exchange,
        "NegotiateReject",
        negotiationRejectCode="ALREADY_NEGOTIATED",
        currentSessionVerID=99,
    )
    assert (name, values["sessionVerID"]) == ("Establish", 99)


def test_003_4_6_2_missed_messages_are_requested_and_come_in_order():
    exchange = Exchange().established()
    assert numbers(
        exchange.send_data(exchange.report(1), exchange.report(4), exchange.report(5))
    ) == [1]
    ((name, values),) = exchange.read_messages()
    assert (name, values["fromSeqNo"], values["count"]) == ("RetransmitRequest", 2, 2)
    events = exchange.send_data(
        exchange.report(6), exchange.retransmission(2, 2), exchange.report(2), exchange.report(3),
        exchange.peer.sequence(7), exchange.report(7),
    )  # fmt: skip
    assert numbers(events) == [2, 3, 4, 5, 6, 7]
    assert [event.again for event in events] == [True, True, False, False, False, False]
    assert exchange.read_messages() == []


def test_003_4_5_6_more_than_1000_are_requested_in_sequence():
    exchange = Exchange().established(next_number=2002)
    exchange.client.lost()
    exchange.connect()
    exchange.send_data(exchange.ack(next_number=2002))
    ((_, values),) = exchange.read_messages()
    assert (values["fromSeqNo"], values["count"]) == (1, 1000)
    reports = [exchange.report(number) for number in range(1, 1001)]
    exchange.send_data(exchange.retransmission(1, 1000), *reports, exchange.peer.sequence(2002))
    ((_, values),) = exchange.read_messages()
    assert (values["fromSeqNo"], values["count"]) == (1001, 1000)


def test_a_sequence_that_shows_missing_messages_makes_it_ask():
    exchange = Exchange().established()
    exchange.send_data(exchange.peer.sequence(1))
    assert exchange.read_messages() == []
    exchange.send_data(exchange.peer.sequence(3))
    ((_, values),) = exchange.read_messages()
    assert (values["fromSeqNo"], values["count"]) == (1, 2)
    exchange.send_data(exchange.peer.sequence(3))
    assert exchange.read_messages() == []


def test_lost_messages_are_reported_and_later_ones_delivered():
    exchange = Exchange().established()
    exchange.send_data(exchange.report(3))
    exchange.read_messages()
    refused, *rest = exchange.send_data(exchange.retransmit_reject("OUT_OF_RANGE"))
    assert (refused.code, refused.first, refused.count) == ("OUT_OF_RANGE", 1, 2)
    assert numbers(rest) == [3]
    assert numbers(exchange.send_data(exchange.report(4))) == [4]


@pytest.mark.parametrize(("arrived", "lost"), [(0, 2), (1, 1), (2, 0)])
def test_a_late_refusal_abandons_only_messages_that_have_not_arrived(arrived, lost):
    exchange = Exchange().established()
    exchange.send_data(exchange.report(3))
    for number in range(1, arrived + 1):
        exchange.send_data(exchange.report(number))
    refused, *rest = exchange.send_data(exchange.retransmit_reject("OUT_OF_RANGE"))
    assert (refused.first, refused.count) == (arrived + 1 if lost else 4, lost)
    assert numbers(rest) == ([3] if lost else [])
    assert exchange.client.state.next_incoming == 4
    assert numbers(exchange.send_data(exchange.report(4))) == [4]


def test_a_throttled_request_is_repeated_with_the_next_sequence():
    exchange = Exchange().established()
    exchange.send_data(exchange.report(3))
    exchange.read_messages()
    (refused,) = exchange.send_data(exchange.retransmit_reject("THROTTLE_REJECT"))
    assert refused.count == 0
    exchange.send_data(exchange.peer.sequence(4))
    assert exchange.read_messages() == []  # too soon
    exchange.now += 100 * MS
    exchange.send_data(exchange.peer.sequence(4))
    ((_, values),) = exchange.read_messages()
    assert (values["fromSeqNo"], values["count"]) == (1, 2)


def test_earlier_messages_are_not_passed_on_again():
    exchange = Exchange().established()
    events = exchange.send_data(exchange.report(1), exchange.report(1), exchange.report(2))
    assert kinds(events) == ["MessageReceived", "DuplicateIgnored", "MessageReceived"]


@pytest.mark.parametrize("version", [2, 4, 5, 6])
def test_003_4_6_3_2_a_message_published_again_under_another_number_is_known(version):
    exchange = Exchange(version=version).established()
    events = exchange.send_data(
        exchange.report(1, exec_id=71),
        exchange.report(2, exec_id=71, resend=True),
        exchange.report(3, exec_id=72, resend=True),
        exchange.report(4, exec_id=72),
    )
    assert kinds(events) == [
        "MessageReceived",
        "DuplicateIgnored",
        "MessageReceived",
        "MessageReceived",
    ]
    assert exchange.client.state.next_incoming == 5


def test_003_4_5_5_not_applied_is_sent_once():
    exchange = Exchange().established()
    for _ in range(3):
        exchange.client.send("SimpleNewOrder", ORDER, exchange.now)
    exchange.client.lost()
    exchange.connect()
    not_applied = exchange.peer.frame("NotApplied", fromSeqNo=2, count=2)
    events = exchange.send_data(exchange.ack(last=1), not_applied)
    assert kinds(events) == ["SessionEstablished", "NotAppliedGap"]
    assert (events[1].first, events[1].count) == (2, 2)
    exchange.client.send("SimpleNewOrder", ORDER, exchange.now)
    assert kinds(exchange.send_data(exchange.peer.frame("NotApplied", fromSeqNo=4, count=1))) == [
        "NotAppliedGap"
    ]


def test_003_4_5_4_2_the_client_can_move_its_number_up():
    exchange = Exchange().established()
    exchange.client.skip_to(9, exchange.now)
    assert exchange.read_messages() == [("Sequence", {"nextSeqNo": 9})]
    assert exchange.client.send("SimpleNewOrder", ORDER, exchange.now) == 9
    with pytest.raises(UsageError, match="cannot skip to sequence number 3"):
        exchange.client.skip_to(3, exchange.now)


def test_003_4_5_4_1_heartbeats_and_silence():
    exchange = Exchange(keep_alive_ms=500).established(keep_alive=800)
    exchange.now = exchange.client.next_due_ns
    assert exchange.now == START + 500 * MS
    exchange.client.advance(exchange.now)
    assert exchange.read_messages() == [("Sequence", {"nextSeqNo": 1})]
    exchange.send_data(exchange.peer.sequence(1))
    exchange.now += 1599 * MS
    assert exchange.client.advance(exchange.now) == []
    exchange.now += 1 * MS
    (ended,) = exchange.client.advance(exchange.now)
    assert ended.code == "KEEPALIVE_INTERVAL_LAPSED"
    assert exchange.read_messages()[-1][0] == "Terminate"
    assert exchange.client.closing


def test_003_4_5_7_a_gateway_that_goes_is_answered():
    exchange = Exchange().established()
    (ended,) = exchange.send_data(exchange.peer.terminate("BACKUP_TAKEOVER_IN_PROGRESS"))
    assert (ended.code, ended.graceful) == ("BACKUP_TAKEOVER_IN_PROGRESS", False)
    assert [name for name, _ in exchange.read_messages()] == ["Terminate"]
    assert exchange.client.closing


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (struct.pack("<HH", 4, 0xEB50), "INVALID_SOFH"),
        (RawPeer().order(1), "UNRECOGNIZED_MESSAGE"),
        (struct.pack("<HHHHHH", 12, 0xEB50, 0, 999, 1, 2), "UNRECOGNIZED_MESSAGE"),
        (struct.pack("<HHHHHH", 12, 0xEB50, 4, 9, 1, 2), "DECODING_ERROR"),
    ],
)
def test_a_message_not_for_clients_ends_the_connection(frame, code):
    exchange = Exchange().established()
    (ended,) = exchange.send_data(frame)
    assert ended.code == code
    assert exchange.read_messages()[-1][1]["terminationCode"] == code


def test_business_messages_need_an_established_session():
    exchange = Exchange()
    with pytest.raises(UsageError, match="the session is not established"):
        exchange.client.send("SimpleNewOrder", ORDER, exchange.now)
    exchange.connect()
    (ended,) = exchange.send_data(exchange.report(1))
    assert ended.code == "NOT_ESTABLISHED"
    exchange = Exchange().established()
    with pytest.raises(UsageError, match="is not a message of clients"):
        exchange.client.send("ExecutionReport_New", {}, exchange.now)


def test_a_restarted_client_resumes(tmp_path):
    exchange = Exchange(store=SessionFile(tmp_path / "client")).established()
    exchange.client.send("SimpleNewOrder", ORDER, exchange.now)
    exchange.send_data(exchange.report(1))
    exchange.store.close()
    again = Exchange(store=SessionFile(tmp_path / "client"))
    ((name, values),) = again.connect()
    assert (name, values["nextSeqNo"]) == ("Establish", 2)
    assert again.client.state.next_incoming == 2
    again.store.close()


def test_the_key_is_not_shown():
    assert KEY not in repr(ClientSettings(SESSION, FIRM, KEY))
