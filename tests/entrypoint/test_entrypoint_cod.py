"""§4.7: cancel on disconnect."""

import pytest

from pregao.entrypoint import SessionFile
from tests.entrypoint.gateway_desk import Desk
from tests.entrypoint.raw_peer import MS

TYPES = [
    "DO_NOT_CANCEL_ON_DISCONNECT_OR_TERMINATE",
    "CANCEL_ON_DISCONNECT_ONLY",
    "CANCEL_ON_TERMINATE_ONLY",
    "CANCEL_ON_DISCONNECT_OR_TERMINATE",
]
REASONS = {
    TYPES[1]: "CANCEL_ON_HARD_DISCONNECTION",
    TYPES[2]: "CANCEL_ON_TERMINATE",
    TYPES[3]: "CANCEL_ON_DISCONNECT_AND_TERMINATE",
}


def leave(line, how):
    if how == "terminate":
        line.send_data(line.peer.terminate())
    elif how == "loss":
        line.lose()
    elif how == "silence":
        line.wait(2000)
    else:
        line.send_data(b"\0\0\0\0")
    assert line.gateway.closing


@pytest.mark.parametrize("how", ["terminate", "loss", "silence", "fault"])
@pytest.mark.parametrize("kind", [None, *TYPES])
def test_003_4_7_1_which_end_cancels_orders(kind, how):
    desk = Desk()
    line = desk.established(cancelOnDisconnectType=kind)
    leave(line, how)
    graceful = how == "terminate"
    expected = {TYPES[1]: not graceful, TYPES[2]: graceful, TYPES[3]: True}.get(kind, False)
    cancelled = desk.sessions.advance(desk.now)
    assert [event.reason for event in cancelled] == ([REASONS[kind]] if expected else [])
    assert desk.sessions.advance(desk.now + 100_000 * MS) == []


def test_003_4_7_2_the_window_delays_it():
    desk = Desk()
    line = desk.established(cancelOnDisconnectType=TYPES[3], codTimeoutWindow=60_000)
    line.lose()
    assert desk.sessions.next_due_ns == desk.now + 60_000 * MS
    assert desk.sessions.advance(desk.now + 60_000 * MS - 1) == []
    assert len(desk.sessions.advance(desk.now + 60_000 * MS)) == 1
    assert desk.sessions.next_due_ns is None


def test_003_4_7_2_a_client_that_comes_back_within_the_window_keeps_its_orders():
    desk = Desk()
    desk.established(cancelOnDisconnectType=TYPES[3], codTimeoutWindow=500).lose()
    desk.now += 499 * MS
    line = desk.connect()
    line.send_data(line.peer.establish(now=desk.now, cancelOnDisconnectType=TYPES[1]))
    assert desk.sessions.advance(desk.now + 10_000 * MS) == []
    line.send_data(line.peer.terminate())
    assert desk.sessions.advance(desk.now) == []


def test_a_refused_establish_does_not_stop_it():
    desk = Desk()
    desk.established(cancelOnDisconnectType=TYPES[3], codTimeoutWindow=500).lose()
    line = desk.connect()
    line.send_data(line.peer.establish(key="wrong"))
    assert len(desk.sessions.advance(desk.now + 500 * MS)) == 1


def test_a_connection_that_never_established_cancels_nothing():
    desk = Desk()
    desk.established(cancelOnDisconnectType=TYPES[3], codTimeoutWindow=0).lose()
    assert len(desk.sessions.advance(desk.now)) == 1
    line = desk.connect()
    line.send_data(line.peer.terminate())
    assert desk.sessions.advance(desk.now) == []


def test_the_window_survives_a_restart_of_the_gateway(tmp_path):
    store = SessionFile(tmp_path / "sessions")
    desk = Desk(store=store)
    desk.established(cancelOnDisconnectType=TYPES[1], codTimeoutWindow=500).lose()
    due = desk.sessions.next_due_ns
    store.close()
    restarted = Desk(store=SessionFile(tmp_path / "sessions"))
    assert restarted.sessions.next_due_ns == due
    (event,) = restarted.sessions.advance(due)
    assert event.reason == REASONS[TYPES[1]]
    restarted.store.close()


@pytest.mark.parametrize("kind", [None, *TYPES])
def test_a_gateway_that_was_killed_begins_the_windows_when_it_is_started_again(tmp_path, kind):
    store = SessionFile(tmp_path / "sessions")
    desk = Desk(store=store)
    desk.established(cancelOnDisconnectType=kind, codTimeoutWindow=500)
    store.close()  # the session does not know that its connection is gone
    again = Desk(store=SessionFile(tmp_path / "sessions"))
    again.now = desk.now + 10_000 * MS
    again.sessions.recover(again.now)
    cancels = kind in (TYPES[1], TYPES[3])
    assert again.sessions.next_due_ns == (again.now + 500 * MS if cancels else None)
    again.sessions.recover(again.now + MS)  # once
    line = again.connect()
    line.send_data(line.peer.establish(now=again.now))
    assert line.names() == ["EstablishAck"]
    assert again.sessions.advance(again.now + 10_000 * MS) == []
    again.store.close()


def test_a_client_that_had_left_before_the_gateway_was_killed_is_not_there_to_be_lost(tmp_path):
    store = SessionFile(tmp_path / "sessions")
    line = Desk(store=store).established(cancelOnDisconnectType=TYPES[1])
    line.send_data(line.peer.terminate())
    store.close()
    again = Desk(store=SessionFile(tmp_path / "sessions"))
    again.sessions.recover(again.now)
    assert again.sessions.next_due_ns is None
    again.store.close()


def test_003_4_7_reports_of_cancelled_orders_wait_for_the_client():
    desk = Desk()
    desk.established(cancelOnDisconnectType=TYPES[3]).lose()
    assert len(desk.sessions.advance(desk.now)) == 1
    desk.report()
    line = desk.connect()
    line.send_data(line.peer.establish() + line.peer.retransmit(1, 1))
    assert line.names() == ["EstablishAck", "Retransmission", "BusinessMessageReject", "Sequence"]
