"""§4.5.1, §4.5.3, §5: establishing a session, again and again, and every way to be refused."""

import pytest

from pregao.entrypoint import ConnectionEnded, GatewaySettings, SessionAccount, SessionRefused
from tests.entrypoint.gateway_desk import Desk
from tests.entrypoint.raw_peer import FIRM, KEY, MS, SESSION, START, secret


def negotiated(desk, ver=1):
    line = desk.connect()
    line.send_data(line.peer.negotiate(ver, now=desk.now))
    assert line.names() == ["NegotiateResponse"]
    line.kinds()
    return line


def refused(line, code):
    (reject, values), (end, _) = line.read_messages()
    assert (reject, end) == ("EstablishReject", "Terminate")
    assert line.gateway.closing
    assert line.kinds() == ["SessionRefused", "ConnectionEnded"]
    assert values["establishmentRejectCode"] == code
    return values


def test_003_4_5_1_numbers_begin_at_1():
    line = negotiated(Desk())
    line.send_data(line.peer.establish())
    ((name, values),) = line.read_messages()
    assert name == "EstablishAck"
    assert (values["nextSeqNo"], values["lastIncomingSeqNo"]) == (1, 0)
    assert (values["keepAliveInterval"], values["requestTimestamp"]) == (1000, START)


def test_003_5_1_normal_connectivity():
    desk = Desk()
    line = desk.established()
    line.send_data(line.peer.order())
    desk.report()
    line.send_data(line.peer.terminate())
    assert line.names() == ["BusinessMessageReject", "Terminate"]
    assert line.gateway.closing
    expected = ["SessionNegotiated", "SessionEstablished", "MessageReceived", "ConnectionEnded"]
    assert line.kinds() == expected


def test_003_5_3_after_a_loss_establish_alone_resumes_both_numbers():
    desk = Desk()
    line = desk.established()
    line.send_data(line.peer.order() + line.peer.order())
    desk.report()
    line.lose()
    desk.report()  # while the client is away
    again = desk.connect()
    again.send_data(again.peer.establish(1, 3))
    ((name, values),) = again.read_messages()
    assert name == "EstablishAck"
    assert (values["nextSeqNo"], values["lastIncomingSeqNo"]) == (3, 2)


def test_003_5_4_a_client_that_lost_everything_recovers_by_the_rejects():
    desk = Desk()
    line = desk.established(4)
    line.send_data(line.peer.order() + line.peer.order())
    desk.report()
    line.lose()
    first = desk.connect()
    first.send_data(first.peer.negotiate(1))
    current = first.read_messages()[0][1]["currentSessionVerID"]
    second = desk.connect()
    second.send_data(second.peer.establish(current, 1))
    last = second.read_messages()[0][1]["lastIncomingSeqNo"]
    assert (current, last) == (4, 2)
    third = desk.connect()
    third.send_data(third.peer.establish(current, last + 1) + third.peer.retransmit(1, 1))
    assert third.names() == ["EstablishAck", "Retransmission", "BusinessMessageReject", "Sequence"]


def test_an_establish_that_was_not_negotiated_is_refused():
    line = Desk().connect()
    line.send_data(line.peer.establish())
    refused(line, "UNNEGOTIATED")


def test_yesterdays_session_version_must_be_renegotiated():
    desk = Desk()
    desk.established(4).lose()
    desk.sessions.reset_day(desk.now)
    line = desk.connect()
    line.send_data(line.peer.establish(4))
    refused(line, "UNNEGOTIATED")


def test_establishing_twice_ends_the_connection():
    line = Desk().established()
    line.kinds()
    line.send_data(line.peer.establish())
    refused(line, "ALREADY_ESTABLISHED")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"credentials": secret(key="wrong")}, "CREDENTIALS"),
        ({"credentials": None}, "CREDENTIALS"),
        ({"ver": 2}, "INVALID_SESSIONVERID"),
        ({"now": START - 61_000 * MS}, "INVALID_TIMESTAMP"),
        ({"keep_alive": 0}, "INVALID_KEEPALIVE_INTERVAL"),
        ({"keep_alive": 60_001}, "INVALID_KEEPALIVE_INTERVAL"),
        ({"codTimeoutWindow": 60_001}, "UNSPECIFIED"),
        ({"cancelOnDisconnectType": 4}, "UNSPECIFIED"),
        ({"sessionID": 5}, "INVALID_SESSIONID"),
    ],
)
def test_what_an_establish_must_be(change, code):
    line = negotiated(Desk())
    line.send_data(line.peer.establish(**change))
    values = refused(line, code)
    assert values["lastIncomingSeqNo"] is None


@pytest.mark.parametrize("keep_alive", [1, 999, 60_000])
def test_003_4_5_3_keep_alive_from_1_to_60000(keep_alive):
    line = negotiated(Desk())
    line.send_data(line.peer.establish(keep_alive=keep_alive))
    assert line.read_messages()[0][1]["keepAliveInterval"] == keep_alive


def test_the_bounds_of_the_schemas_text_are_a_setting():
    line = negotiated(Desk(rules=GatewaySettings(keep_alive_ms=(1000, 60_000))))
    line.send_data(line.peer.establish(keep_alive=999))
    refused(line, "INVALID_KEEPALIVE_INTERVAL")


def test_003_4_2_a_next_number_below_the_expected_is_refused_with_the_last_received():
    desk = Desk()
    line = desk.established()
    line.send_data(line.peer.order() + line.peer.order())
    line.lose()
    for number in (0, 1, 2):
        again = desk.connect()
        again.send_data(again.peer.establish(1, number))
        events = list(again.events)
        assert refused(again, "INVALID_NEXTSEQNO")["lastIncomingSeqNo"] == 2
        text = "nextSeqNo 3 is expected; lastIncomingSeqNo is the number before it, 2"
        assert [each.text for each in events if isinstance(each, SessionRefused)] == [text]
        assert [each.reason for each in events if isinstance(each, ConnectionEnded)] == [text]


def test_a_next_number_above_the_expected_is_a_gap_and_accepted():
    desk = Desk()
    line = negotiated(desk)
    line.send_data(line.peer.establish(1, 4))
    (_, ack), (name, values) = line.read_messages()
    assert ack["lastIncomingSeqNo"] == 0
    assert (name, values) == ("NotApplied", {"fromSeqNo": 1, "count": 3})
    assert line.kinds() == ["SessionEstablished", "NotAppliedGap"]
    line.send_data(line.peer.order(4))
    assert line.kinds() == ["MessageReceived"]
    assert desk.session.state.next_incoming == 5


def test_another_connection_is_refused_while_one_is_established():
    desk = Desk()
    desk.established()
    line = desk.connect()
    line.send_data(line.peer.establish())
    refused(line, "DUPLICATE_SESSION_CONNECTION")


def test_another_connection_is_refused_while_one_has_negotiated():
    desk = Desk()
    negotiated(desk)
    line = desk.connect()
    line.send_data(line.peer.establish())
    refused(line, "AUTHENTICATION_IN_PROGRESS")


def test_a_connection_that_negotiated_and_left_gives_the_session_free():
    desk = Desk()
    negotiated(desk).lose()
    line = desk.connect()
    line.send_data(line.peer.establish())
    assert line.names() == ["EstablishAck"]


def test_a_session_blocked_meanwhile_is_refused():
    desk = Desk()
    negotiated(desk).lose()
    desk.session.account = SessionAccount(SESSION, FIRM, KEY, blocked=True)
    line = desk.connect()
    line.send_data(line.peer.establish())
    refused(line, "SESSION_BLOCKED")


def test_the_version_is_that_of_the_negotiate():
    desk = Desk(version=3)
    negotiated(desk).lose()
    line = desk.connect(version=4)
    line.send_data(line.peer.establish())
    refused(line, "PROTOCOL_VERSION_NOT_SUPPORTED")
    line = desk.connect()
    line.send_data(line.peer.establish())
    line.peer = type(line.peer)(4)
    line.send_data(line.peer.sequence(1))
    line.peer = type(line.peer)(3)
    assert line.ends_with("PROTOCOL_VERSION_NOT_SUPPORTED")


def test_a_gateway_that_accepts_no_sessions_reports_it():
    line = Desk(rules=GatewaySettings(accepting=False)).connect()
    line.send_data(line.peer.establish())
    refused(line, "ESTABLISH_NOT_ALLOWED")


def test_too_many_attempts_are_refused_until_one_would_have_been_right():
    desk = Desk(rules=GatewaySettings(establish_attempts=2))
    negotiated(desk).lose()
    for code in ("INVALID_SESSIONVERID", "INVALID_SESSIONVERID", "ESTABLISH_ATTEMPTS_EXCEEDED"):
        line = desk.connect()
        line.send_data(line.peer.establish(ver=9))
        refused(line, code)
    line = desk.connect()
    line.send_data(line.peer.establish())
    assert line.names() == ["EstablishAck"]


def test_003_4_5_1_a_daily_reset_ends_connections_and_begins_at_1():
    desk = Desk()
    line = desk.established(4)
    line.send_data(line.peer.order())
    desk.report()
    line.read_messages()
    desk.sessions.reset_day(desk.now)
    assert line.ends_with("FINISHED")
    line = desk.established(5)
    assert desk.session.state.next_incoming == desk.session.state.next_outgoing == 1
    line.send_data(line.peer.retransmit(1, 1))
    assert line.read_messages()[0][1]["retransmitRejectCode"] == "OUT_OF_RANGE"
