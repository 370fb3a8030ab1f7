"""§4.5.7: the end of a connection, from either side."""

import pytest

from tests.entrypoint.gateway_desk import Desk


def test_003_4_5_7_a_client_that_goes_is_answered_and_may_come_back():
    desk = Desk()
    line = desk.established()
    line.send_data(line.peer.order() + line.peer.terminate())
    ((name, values),) = line.read_messages()
    assert (name, values["terminationCode"]) == ("Terminate", "FINISHED")
    assert line.gateway.closing
    ended = line.events[-1]
    assert (ended.graceful, ended.code) == (True, "FINISHED")
    again = desk.connect()
    again.send_data(again.peer.establish(1, 2))
    assert again.names() == ["EstablishAck"]


def test_messages_after_a_terminate_are_not_executed():
    line = Desk().established()
    line.send_data(line.peer.terminate() + line.peer.order())
    assert "MessageReceived" not in line.kinds()


@pytest.mark.parametrize("negotiated", [False, True])
def test_a_client_may_go_before_it_is_established(negotiated):
    desk = Desk()
    line = desk.connect()
    if negotiated:
        line.send_data(line.peer.negotiate())
    line.send_data(line.peer.terminate())
    assert line.gateway.closing
    assert line.events[-1].graceful
    assert desk.session.connection is None


def test_an_unknown_code_still_releases_the_session():
    line = Desk().established()
    line.send_data(line.peer.terminate(code=99))
    assert line.ends_with("FINISHED")
    assert line.events[-1].code == "99"


def test_a_connection_ends_once():
    line = Desk().established()
    line.send_data(line.peer.terminate())
    line.lose()
    line.lose()
    assert line.kinds().count("ConnectionEnded") == 1


def test_a_lost_connection_is_not_graceful_and_gives_the_session_free():
    desk = Desk()
    line = desk.established()
    line.lose()
    assert not line.events[-1].graceful
    assert desk.session.connection is None
    assert line.gateway.next_due_ns is None


def test_the_gateway_can_end_a_connection():
    desk = Desk()
    line = desk.established()
    line.gateway.terminate("SESSION_BLOCKED", desk.now, "by surveillance")
    assert line.ends_with("SESSION_BLOCKED")
    line.lose()
    ended = [event for event in line.events if hasattr(event, "graceful")]
    assert [(event.code, event.graceful, event.reason) for event in ended] == [
        ("SESSION_BLOCKED", False, "by surveillance")
    ]


def test_nothing_is_sent_to_a_connection_that_ends():
    desk = Desk()
    line = desk.established()
    line.send_data(line.peer.terminate())
    line.read_messages()
    desk.report()
    line.wait(100_000)
    assert line.read_messages() == []
