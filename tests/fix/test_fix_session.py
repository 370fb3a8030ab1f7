"""A FIX session: logon, numbers, heartbeats, gaps, logout; both sides in virtual time."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.clock import SECOND
from pregao.errors import UsageError
from pregao.fix.message import Parser, encode
from pregao.fix.session import (
    ApplicationMessage,
    FixSession,
    FixSessionSettings,
    FixSessionState,
    LoggedOn,
    LoggedOut,
)


class Pair:
    def __init__(self, heartbeat=10):
        self.now = 0
        interval = heartbeat * SECOND
        self.client = FixSession(FixSessionSettings("ME", "B3", interval), 0)
        self.server = FixSession(FixSessionSettings("B3", "ME", acceptor=True), 0)
        self.events = {"client": [], "server": []}
        self.lost = 0

    def exchange(self, lose=False):
        for _ in range(10):
            to_server, to_client = self.client.take_output(), self.server.take_output()
            if not to_server and not to_client:
                return
            self.events["server"] += self.server.receive(to_server, self.now)
            if lose:
                self.lost += len(list(Parser().feed(to_client)))
            else:
                self.events["client"] += self.client.receive(to_client, self.now)

    def advance(self, seconds):
        self.now += seconds * SECOND
        self.events["client"] += self.client.tick(self.now)
        self.events["server"] += self.server.tick(self.now)


def logged_on(**more):
    pair = Pair(**more)
    pair.exchange()
    assert pair.events == {"client": [LoggedOn()], "server": [LoggedOn()]}
    pair.events = {"client": [], "server": []}
    return pair


def test_logon_resets_the_numbers_and_sets_the_interval():
    pair = Pair()
    (logon,) = Parser().feed(pair.client.take_output())
    assert (logon.type, logon.number(34), logon.text(141), logon.number(108)) == ("A", 1, "Y", 10)
    pair.server.receive(encode(logon.fields), 0)
    (answer,) = Parser().feed(pair.server.take_output())
    assert (answer.type, answer.number(108)) == ("A", 10)


def test_messages_of_applications_go_both_ways():
    pair = logged_on()
    pair.client.send("BW", [(1346, "1")], pair.now)
    pair.server.send("URDR", [(95, 3), (96, b"\x01=\x01")], pair.now)
    pair.exchange()
    (received,) = pair.events["server"]
    (raw,) = pair.events["client"]
    assert isinstance(received, ApplicationMessage)
    assert received.message.text(1346) == "1"
    assert raw.message.get(96) == b"\x01=\x01"


def test_heartbeats_keep_a_silent_session_alive():
    pair = logged_on()
    for _ in range(12):
        pair.advance(5)
        pair.exchange()
    assert pair.events == {"client": [], "server": []}
    assert pair.client.state is pair.server.state is FixSessionState.ACTIVE


def test_a_silent_peer_is_tested_and_then_abandoned():
    pair = logged_on()
    pair.advance(15)
    kinds = [message.type for message in Parser().feed(pair.client.take_output())]
    assert "1" in kinds
    pair.advance(15)
    assert pair.events["client"] == [LoggedOut("the other side did not answer a test request")]
    assert pair.client.deadline_ns is None


def test_a_gap_is_requested_and_answered_by_a_gap_fill():
    pair = logged_on()
    for number in range(3):
        pair.server.send("URDR", [(58, number)], pair.now)
    pair.exchange(lose=True)
    assert pair.lost == 3
    pair.server.send("URDR", [(58, "after the gap")], pair.now)
    pair.exchange()
    assert pair.events["client"] == []
    pair.server.send("URDR", [(58, "next")], pair.now)
    pair.exchange()
    assert [event.message.text(58) for event in pair.events["client"]] == ["next"]


def test_one_resend_request_per_gap():
    pair = logged_on()

    def receive(*numbers, **more):
        for number in numbers:
            fields = [(35, "0"), (49, "B3"), (56, "ME"), (34, number), *more.get("fields", [])]
            assert pair.client.receive(encode(fields), 0) == []
        sent = Parser().feed(pair.client.take_output())
        return [(each.type, each.number(7), each.number(16)) for each in sent]

    assert receive(2, 5, 6, 7, 9) == [("2", 3, 0)]
    assert receive(3, 4, 5, 6, 7) == []
    assert receive(9, 10) == [("2", 8, 0)]


def test_a_number_that_is_past_ends_the_session():
    pair = logged_on()
    again = encode([(35, "0"), (49, "B3"), (56, "ME"), (34, 1)])
    (event,) = pair.client.receive(again, 0)
    assert event == LoggedOut("sequence number 1 received, 2 expected")


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ([(35, "0"), (49, "ME"), (56, "B3"), (34, 1)], "the first message is not a logon"),
        ([(35, "A"), (49, "ME"), (56, "B3"), (34, 2), (108, 10)], "sequence number 2, must be 1"),
        ([(35, "A"), (49, "YOU"), (56, "B3"), (34, 1), (108, 10)], "from YOU to B3"),
        ([(35, "A"), (49, "ME"), (56, "B3"), (34, 1)], "without a heartbeat interval"),
        ([(35, "A"), (49, "ME"), (56, "B3"), (34, 1), (108, 301)], "is more than 300"),
        ([(35, "A"), (49, "ME"), (56, "B3")], "without a sequence number"),
    ],
)
def test_a_wrong_logon_is_reported_and_ends_the_session(message, reason):
    server = FixSession(FixSessionSettings("B3", "ME", acceptor=True), 0)
    (event,) = server.receive(encode(message), 0)
    assert reason in event.reason
    (logout,) = Parser().feed(server.take_output())
    assert (logout.type, reason in logout.text(58)) == ("5", True)


NOT_ASCII = b"Corretora S\xe3o Jos\xe9 \xff\x80\xe2\x82\xac"


def test_a_comp_id_of_any_bytes_ends_the_session_with_the_same_bytes_in_the_reason():
    server = FixSession(FixSessionSettings("B3", "ME", acceptor=True), 0)
    logon = encode([(35, "A"), (49, NOT_ASCII), (56, "B3"), (34, 1), (108, 10)])
    (event,) = server.receive(logon, 0)
    (logout,) = Parser().feed(server.take_output())
    reason = b"message from " + NOT_ASCII + b" to B3, expected from ME to B3"
    assert (logout.type, logout.get(58)) == ("5", reason)
    assert event == LoggedOut(reason.decode("latin-1"))


@settings(max_examples=300, deadline=None)
@given(
    kind=st.sampled_from(["0", "1", "2", "3", "4", "5", "A", "BW", "j"]) | st.text(max_size=2),
    tag=st.sampled_from([7, 16, 34, 35, 36, 43, 49, 56, 58, 98, 108, 112, 123, 141, 1346]),
    value=st.binary(max_size=12).map(lambda each: each.replace(b"\x01", b"\x80")),
    first=st.booleans(),
)
def test_any_bytes_in_any_field_are_accepted_or_end_the_session(kind, tag, value, first):
    server = FixSession(FixSessionSettings("B3", "ME", acceptor=True), 0)
    number = 1
    if not first:
        server.receive(encode([(35, "A"), (49, "ME"), (56, "B3"), (34, 1), (108, 10)]), 0)
        number = 2
    server.take_output()
    kind = kind.replace("\x01", "").encode()
    fields = {35: kind, 49: b"ME", 56: b"B3", 34: b"%d" % number, 108: b"10", 36: b"2"}
    fields[tag] = value
    events = server.receive(encode(list(fields.items())), 0)
    sent = list(Parser().feed(server.take_output()))
    ends = [event.reason for event in events if isinstance(event, LoggedOut)]
    assert len(ends) == server.ended
    reasons = [each.text(58) for each in sent if each.type == "5" and each.get(58)]
    assert reasons == ([] if fields[35] == b"5" and not reasons else ends)


def test_bytes_that_are_not_fix_end_the_session():
    pair = logged_on()
    (event,) = pair.client.receive(b"HTTP/1.1 200 OK\r\n", 0)
    assert event.reason.startswith("received data is not valid FIX")
    with pytest.raises(UsageError):
        pair.client.send("BW", [], 0)


def test_logout_is_answered():
    pair = logged_on()
    pair.client.log_out(0, "done")
    pair.exchange()
    assert pair.events["server"] == [LoggedOut("done")]
    assert pair.server.state is FixSessionState.ENDED


def test_a_missing_logon_is_not_waited_for_forever():
    client = FixSession(FixSessionSettings("ME", "B3", 10 * SECOND), 0)
    assert client.tick(14 * SECOND) == []
    assert client.tick(15 * SECOND) == [LoggedOut("no logon received in time")]


@pytest.mark.parametrize("wrong", [("", "B3", SECOND), ("ME", "", SECOND), ("ME", "B3", 1)])
def test_settings_that_make_no_sense(wrong):
    with pytest.raises(UsageError):
        FixSessionSettings(*wrong)
