"""§4.9: the throttle."""

from hypothesis import given
from hypothesis import strategies as st

from pregao.entrypoint import SessionAccount, Throttle, ThrottleLimit
from tests.entrypoint.gateway_desk import Desk
from tests.entrypoint.raw_peer import FIRM, KEY, MS, SESSION, START

TEN_IN_5 = ThrottleLimit(10, 5)


def test_003_4_9_1_the_printed_scenarios():
    """10 messages in 5 ms: 5 are in the window at 8 ms; at 9 ms it is full, at 10 ms free again."""
    throttle = Throttle(TEN_IN_5)
    for time in (5, 5, 6, 7, 7):
        assert throttle.admits(START + time * MS)
    assert throttle.admits(START + 8 * MS)
    for _ in range(4):
        assert throttle.admits(START + 8 * MS)
    assert not throttle.admits(START + 9 * MS)
    assert throttle.admits(START + 10 * MS)
    assert throttle.admits(START + 10 * MS)
    assert not throttle.admits(START + 10 * MS)


@given(st.lists(st.integers(0, 3), max_size=60))
def test_no_window_ever_holds_more_than_the_limit_and_none_is_refused_below_it(steps):
    throttle, now, taken = Throttle(ThrottleLimit(4, 5)), START, []
    for step in steps:
        now += step * MS
        inside = [time for time in taken if time > now - 5 * MS]
        assert throttle.admits(now) == (len(inside) < 4)
        if len(inside) < 4:
            taken.append(now)


def test_003_4_9_excess_requests_are_rejected_and_not_executed():
    account = SessionAccount(SESSION, FIRM, KEY, throttle=TEN_IN_5)
    desk = Desk(account=account)
    line = desk.established()
    line.send_data(b"".join(line.peer.order() for _ in range(12)))
    rejects = line.read_messages()
    assert [values["refSeqNum"] for _, values in rejects] == [11, 12]
    assert {values["businessRejectReason"] for _, values in rejects} == {8}
    assert {values["text"] for _, values in rejects} == {"Throttle limit exceeded"}
    assert line.kinds()[2:] == ["MessageReceived"] * 10 + ["MessageRejected"] * 2
    desk.now += 5 * MS
    line.send_data(line.peer.order())
    assert line.kinds() == ["MessageReceived"]
    assert desk.session.state.next_incoming == 14


def test_a_session_without_a_limit_is_not_throttled():
    line = Desk().established()
    line.send_data(b"".join(line.peer.order() for _ in range(500)))
    assert line.kinds()[2:] == ["MessageReceived"] * 500
