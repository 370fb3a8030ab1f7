"""§4.5.4.3, §4.5.6: messages sent again."""

import pytest

from pregao.entrypoint import GatewaySettings, SessionAccount, ThrottleLimit
from tests.entrypoint.gateway_desk import Desk
from tests.entrypoint.raw_peer import FIRM, KEY, MS, SESSION, START


def busy_desk(count, **changes):
    desk = Desk(**changes)
    line = desk.established()
    for number in range(count):
        desk.now += MS
        desk.report(refSeqNum=number)
    return desk, line


def test_003_4_5_6_the_same_bytes_between_retransmission_and_sequence():
    desk, line = busy_desk(5)
    sent = line.gateway.take_output()
    desk.now += 100 * MS
    line.send_data(line.peer.retransmit(2, 3, now=desk.now))
    output = line.gateway.take_output()
    first, *again, last = line.peer.read(output)
    assert first[0] == "Retransmission"
    assert (first[1]["nextSeqNo"], first[1]["count"]) == (2, 3)
    assert [values["businessHeader"]["msgSeqNum"] for _, values in again] == [2, 3, 4]
    assert last == ("Sequence", {"nextSeqNo": 6})
    one = len(sent) // 5
    assert sent[one : 4 * one] in output


def test_messages_sent_while_the_client_was_away_are_there_for_it():
    desk, line = busy_desk(0)
    line.lose()
    desk.report()
    desk.report()
    again = desk.connect()
    again.send_data(again.peer.establish() + again.peer.retransmit(1, 2))
    (_, ack), *rest = again.read_messages()
    assert ack["nextSeqNo"] == 3
    expected = ["Retransmission", "BusinessMessageReject", "BusinessMessageReject", "Sequence"]
    assert [name for name, _ in rest] == expected


@pytest.mark.parametrize(
    ("first", "count", "changes", "code"),
    [
        (4, 1, {}, "OUT_OF_RANGE"),
        (2, 3, {}, "OUT_OF_RANGE"),
        (0, 1, {}, "INVALID_FROMSEQNO"),
        (1, 0, {}, "INVALID_COUNT"),
        (1, 1, {"session_id": 5}, "INVALID_SESSION"),
        (1, 1, {"now": START - 61_000 * MS}, "INVALID_TIMESTAMP"),
    ],
)
def test_what_cannot_be_retransmitted_is_refused_and_the_session_continues(
    first, count, changes, code
):
    desk, line = busy_desk(3)
    line.read_messages()
    line.send_data(line.peer.retransmit(first, count, **changes))
    ((name, values),) = line.read_messages()
    assert (name, values["retransmitRejectCode"]) == ("RetransmitReject", code)
    assert not line.gateway.closing
    desk.report()
    assert line.names() == ["BusinessMessageReject"]


def test_003_4_5_6_more_than_1000_ends_the_connection():
    _, line = busy_desk(1)
    line.read_messages()
    line.send_data(line.peer.retransmit(1, 1001))
    (reject, values), (end, _) = line.read_messages()
    assert (reject, end) == ("RetransmitReject", "Terminate")
    assert values["retransmitRejectCode"] == "REQUEST_LIMIT_EXCEEDED"
    assert line.gateway.closing


def test_003_4_5_6_1000_are_sent_in_parts_and_nothing_goes_between_them():
    desk, line = busy_desk(1000)
    line.read_messages()
    line.send_data(line.peer.retransmit(1, 1000, now=desk.now))
    received = line.read_messages()
    assert len(received) == 101
    assert line.gateway.unfinished
    desk.report()  # live, meanwhile
    line.wait(1500)
    line.send_data(line.peer.sequence(1))
    while line.gateway.unfinished:
        line.gateway.continue_retransmission(desk.now)
        received += line.read_messages()
    desk.report()
    received += line.read_messages()
    numbers = [
        v["businessHeader"]["msgSeqNum"] for n, v in received if n == "BusinessMessageReject"
    ]
    assert numbers == [*range(1, 1001), 1001, 1002]
    names = [name for name, _ in received]
    assert names.index("Sequence") == 1001
    assert received[1001][1] == {"nextSeqNo": 1001}
    assert names.count("Sequence") == 1


def test_003_4_5_6_a_second_request_while_one_is_answered_ends_the_connection():
    desk, line = busy_desk(300)
    line.read_messages()
    line.send_data(
        line.peer.retransmit(1, 200, now=desk.now) + line.peer.retransmit(1, 1, now=desk.now)
    )
    assert [name for name, _ in line.read_messages()][-2:] == ["RetransmitReject", "Terminate"]
    assert line.gateway.closing
    line.gateway.continue_retransmission(desk.now)
    assert line.read_messages() == []


def test_one_request_after_the_other_is_fine():
    desk, line = busy_desk(3)
    line.read_messages()
    for first in (1, 2, 3):
        line.send_data(line.peer.retransmit(first, 1, now=desk.now))
        assert line.names() == ["Retransmission", "BusinessMessageReject", "Sequence"]


def test_requests_count_for_the_throttle():
    account = SessionAccount(SESSION, FIRM, KEY, throttle=ThrottleLimit(2, 1000))
    desk, line = busy_desk(1, account=account)
    line.read_messages()
    for _ in range(2):
        line.send_data(line.peer.retransmit(1, 1, now=desk.now))
    line.read_messages()
    line.send_data(line.peer.retransmit(1, 1, now=desk.now))
    assert line.read_messages()[0][1]["retransmitRejectCode"] == "THROTTLE_REJECT"
    assert not line.gateway.closing


def test_a_lost_connection_forgets_its_retransmission():
    desk, line = busy_desk(300, rules=GatewaySettings(retransmission_part=10))
    line.send_data(line.peer.retransmit(1, 200, now=desk.now))
    line.lose()
    again = desk.connect()
    again.send_data(again.peer.establish(now=desk.now) + again.peer.retransmit(1, 5, now=desk.now))
    assert again.names()[-1] == "Sequence"


def test_messages_withdrawn_during_a_retransmission_are_not_counted_as_waiting():
    desk, line = busy_desk(300)
    line.read_messages()
    line.send_data(line.peer.retransmit(1, 300, now=desk.now))
    line.read_messages()
    assert line.gateway.unfinished
    desk.report()
    one = line.gateway.waiting_bytes
    desk.report()
    assert one > 0
    assert line.gateway.waiting_bytes == 2 * one
    line.gateway.withdraw(302)
    assert line.gateway.waiting_bytes == one
    line.gateway.withdraw(301)
    assert line.gateway.waiting_bytes == 0
