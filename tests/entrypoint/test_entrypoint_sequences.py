"""§4.5.4, §4.5.5, §4.6.2: numbers, gaps, heartbeats and silence."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.entrypoint import VERSIONS, GatewaySettings
from tests.entrypoint.gateway_desk import Desk
from tests.entrypoint.raw_peer import MS, START


def test_003_4_6_2_only_business_messages_count():
    desk = Desk()
    line = desk.established()
    line.send_data(line.peer.sequence(1) + line.peer.order() + line.peer.sequence(2))
    line.send_data(line.peer.retransmit(1, 1) + line.peer.order())
    assert desk.session.state.next_incoming == 3
    numbers = [event.number for event in line.events if hasattr(event, "message")]
    assert numbers == [1, 2]


def test_003_4_5_5_a_gap_is_reported_and_the_message_after_it_accepted():
    line = Desk().established()
    line.send_data(line.peer.order(1) + line.peer.order(5))
    assert line.read_messages() == [("NotApplied", {"fromSeqNo": 2, "count": 3})]
    assert line.kinds()[2:] == ["MessageReceived", "NotAppliedGap", "MessageReceived"]
    line.send_data(line.peer.order(6))
    assert line.read_messages() == []


def test_numbers_below_the_expected_are_never_executed():
    line = Desk().established()
    line.send_data(
        line.peer.order(1) + line.peer.order(2) + line.peer.order(1) + line.peer.order(2)
    )
    assert line.kinds()[2:] == [
        "MessageReceived",
        "MessageReceived",
        "DuplicateIgnored",
        "DuplicateIgnored",
    ]
    line.send_data(line.peer.order(5) + line.peer.order(3))
    assert line.kinds() == ["NotAppliedGap", "MessageReceived", "DuplicateIgnored"]
    assert not line.gateway.closing


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 12), max_size=20))
def test_every_number_is_executed_at_most_once_and_each_gap_reported_once(numbers):
    line = Desk().established()
    for number in numbers:
        line.send_data(line.peer.order(number))
    executed = [event.number for event in line.events if hasattr(event, "message")]
    assert executed == sorted(set(executed))
    missed = [
        number
        for _, values in line.read_messages()
        for number in range(values["fromSeqNo"], values["fromSeqNo"] + values["count"])
    ]
    assert sorted(executed + missed) == list(range(1, max(numbers, default=0) + 1))


def test_003_4_5_4_2_sequence_moves_the_expected_number_up():
    desk = Desk()
    line = desk.established()
    line.send_data(line.peer.order(1) + line.peer.sequence(9))
    assert line.read_messages() == [("NotApplied", {"fromSeqNo": 2, "count": 7})]
    assert desk.session.state.next_incoming == 9
    line.send_data(line.peer.order(9))
    assert line.kinds()[-1] == "MessageReceived"


def test_the_expected_number_does_not_go_down():
    line = Desk().established()
    line.send_data(line.peer.order(1) + line.peer.order(2) + line.peer.sequence(2))
    assert line.ends_with("INVALID_NEXTSEQNO")


def test_a_message_of_another_session_ends_the_connection():
    line = Desk().established()
    header = {"sessionID": 5, "msgSeqNum": 1, "sendingTime": START, "marketSegmentID": 80}
    line.send_data(line.peer.order(businessHeader=header))
    assert line.ends_with("INVALID_SESSIONID")
    assert "MessageReceived" not in line.kinds()


def test_003_4_5_4_1_an_idle_gateway_sends_sequence():
    desk = Desk(rules=GatewaySettings(own_keep_alive_ms=300))
    line = desk.established(keep_alive=60_000)
    line.wait(299)
    assert line.read_messages() == []
    line.wait(1)
    assert line.read_messages() == [("Sequence", {"nextSeqNo": 1})]
    desk.report()
    line.wait(299)
    assert line.names() == ["BusinessMessageReject"]
    line.wait(1)
    assert line.read_messages() == [("Sequence", {"nextSeqNo": 2})]


def test_003_4_5_4_1_a_silent_client_is_ended():
    line = Desk().established(keep_alive=500)
    line.wait(999)
    assert not line.gateway.closing
    line.wait(1)
    assert line.ends_with("KEEPALIVE_INTERVAL_LAPSED")
    assert line.kinds()[-1] == "ConnectionEnded"


@pytest.mark.parametrize("what", ["sequence", "order"])
def test_003_4_5_4_1_any_message_of_the_client_is_a_sign_of_life(what):
    line = Desk().established(keep_alive=500)
    for _ in range(5):
        line.wait(900)
        line.send_data(line.peer.order() if what == "order" else line.peer.sequence(1))
    assert not line.gateway.closing


@pytest.mark.parametrize("version", VERSIONS)
def test_003_4_6_3_2_the_header_of_the_exchanges_messages(version):
    desk = Desk(version=version)
    line = desk.established()
    desk.now += 7 * MS
    assert desk.report() == 1
    session = desk.session
    session.send("BusinessMessageReject", {"refMsgType": "Quote", "refSeqNum": 1,
                 "businessRejectReason": 0}, desk.now, resend=True)  # fmt: skip
    (_, first), (_, second) = line.read_messages()
    header = first["businessHeader"]
    assert (header["msgSeqNum"], header["sendingTime"]) == (1, START + 7 * MS)
    mark = "possResend" if version < 5 else "eventIndicator"
    plain, marked = ("FALSE_VALUE", "TRUE_VALUE") if version < 5 else (0, 1)
    assert (header[mark], second["businessHeader"][mark]) == (plain, marked)
