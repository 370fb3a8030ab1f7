"""Durable state: session versions, numbers and sent messages survive a crash of the process."""

import os
import signal
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.entrypoint import SessionFile, SessionStore
from pregao.entrypoint.session_state import (
    CancelScheduled,
    DayReset,
    DeliveryResolved,
    IncomingAccepted,
    IncomingExpected,
    IncomingKept,
    OutgoingNotApplied,
    OutgoingSent,
    OutgoingSkipped,
    SessionBound,
    SessionUnbound,
    VersionNegotiated,
    WeekReset,
)
from pregao.errors import UsageError
from tests.entrypoint.gateway_desk import Desk

RECORDS = st.one_of(
    st.builds(VersionNegotiated, st.integers(1, 2**64 - 1), st.integers(2, 6), st.integers(1, 2)),
    st.builds(SessionBound, st.just("CANCEL_ON_TERMINATE_ONLY"), st.integers(0, 60_000)),
    st.builds(IncomingExpected, st.integers(1, 2**32)),
    st.builds(OutgoingSent, st.integers(1, 2**32 - 1), st.binary(max_size=40)),
    st.builds(IncomingAccepted, st.integers(1, 2**32)),
    st.builds(DeliveryResolved, st.integers(1, 2**32)),
    st.builds(OutgoingSkipped, st.integers(1, 2**32)),
    st.builds(CancelScheduled, st.none() | st.integers(0, 2**63)),
    st.builds(IncomingKept, st.integers(1, 2**32 - 1), st.binary(max_size=40)),
    st.builds(OutgoingNotApplied, st.integers(1, 2**32), st.integers(1, 1000)),
    st.just(SessionUnbound()),
    st.just(DayReset()),
    st.just(WeekReset()),
)
HISTORY = st.lists(st.tuples(st.integers(1, 3), RECORDS), max_size=25)


def fold(history):
    store = SessionStore()
    for session_id, record in history:
        store.record(session_id, record)
    return states(store)


def states(store):
    return {session_id: store.state(session_id) for session_id in store.sessions()}


def reopened(path):
    store = SessionFile(path)
    found = states(store)
    store.close()
    return found


@settings(max_examples=50, deadline=None)
@given(HISTORY)
def test_a_file_keeps_what_memory_would(tmp_path_factory, history):
    path = tmp_path_factory.mktemp("store") / "sessions"
    store = SessionFile(path)
    for session_id, record in history:
        store.record(session_id, record)
    store.sync()
    assert states(store) == fold(history)
    store.close()
    assert reopened(path) == fold(history)


@settings(max_examples=50, deadline=None)
@given(HISTORY, st.data())
def test_a_file_cut_anywhere_holds_the_records_before_the_cut(tmp_path_factory, history, data):
    path = tmp_path_factory.mktemp("store") / "sessions"
    sizes = []
    store = SessionFile(path)
    for session_id, record in history:
        sizes.append(path.stat().st_size)
        store.record(session_id, record)
        store.flush()
    store.close()
    whole = path.read_bytes()
    cut = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:cut])
    kept = history[: sum(size <= cut for size in [*sizes[1:], len(whole)] if history)]
    assert reopened(path) == fold(kept)
    store = SessionFile(path)
    store.record(9, OutgoingSent(1, b"after"))
    store.close()
    assert reopened(path)[9].sent == {1: b"after"}


@settings(max_examples=40, deadline=None)
@given(HISTORY)
def test_a_reset_makes_the_file_small_and_keeps_the_session_version(tmp_path_factory, history):
    path = tmp_path_factory.mktemp("store") / "sessions"
    store = SessionFile(path)
    for session_id, record in history:
        store.record(session_id, record)
    before = {session_id: state.session_ver_id for session_id, state in states(store).items()}
    store.reset_day()
    after = states(store)
    store.close()
    assert reopened(path) == after
    assert {session_id: state.session_ver_id for session_id, state in after.items()} == before
    assert all(state.next_outgoing == 1 and not state.sent for state in after.values())
    assert path.stat().st_size < 250 * (len(after) + 1)


def test_a_killed_reset_leaves_the_file_unchanged(tmp_path):
    path = tmp_path / "sessions"
    store = SessionFile(path)
    store.record(1, OutgoingSent(1, b"message"))
    store.close()
    (tmp_path / "sessions.new").write_bytes(b"half a fi")
    assert reopened(path)[1].sent == {1: b"message"}
    store = SessionFile(path)
    store.reset_day()
    store.close()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["sessions"]


def test_a_file_belongs_to_one_process_and_is_not_any_file(tmp_path):
    store = SessionFile(tmp_path / "sessions")
    with pytest.raises(UsageError, match="the session file is in use by another process"):
        SessionFile(tmp_path / "sessions")
    store.close()
    SessionFile(tmp_path / "sessions").close()
    (tmp_path / "other").write_text("something else entirely")
    with pytest.raises(UsageError, match="not a session file"):
        SessionFile(tmp_path / "other")


def test_only_the_owner_may_read_the_file(tmp_path):
    SessionFile(tmp_path / "sessions").close()
    assert (tmp_path / "sessions").stat().st_mode & 0o077 == 0


CHILD = """
import sys
from pathlib import Path
from pregao.entrypoint import SessionFile
from pregao.entrypoint.session_state import IncomingExpected, OutgoingSent, VersionNegotiated
store = SessionFile(Path(sys.argv[1]))
store.record(1, VersionNegotiated(7, 2, 1))
number = store.state(1).next_outgoing
while True:
    store.record(1, IncomingExpected(number + 1))
    store.record(1, OutgoingSent(number, b"%d" % number * 50))
    store.flush()
    print(number, flush=True)
    number += 1
"""


def test_no_acknowledged_request_is_lost_when_the_process_is_killed(tmp_path):
    path = tmp_path / "sessions"
    last = 0
    for wanted in (1, 40, 333):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(path)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        for line in child.stdout:
            last = int(line)
            if last >= wanted:
                break
        child.send_signal(signal.SIGKILL)
        last = max([last, *(int(line) for line in child.stdout if line.endswith("\n"))])
        child.wait()
        child.stdout.close()
        state = reopened(path)[1]
        assert state.session_ver_id == 7
        assert last < state.next_outgoing <= last + 2
        assert state.next_incoming in (state.next_outgoing, state.next_outgoing + 1)
        assert all(data == b"%d" % number * 50 for number, data in state.sent.items())
        assert list(state.sent) == list(range(1, state.next_outgoing))


def test_a_restarted_gateway_resumes(tmp_path):
    path = tmp_path / "sessions"
    desk = Desk(store=SessionFile(path))
    line = desk.established(4)
    line.send_data(line.peer.order() + line.peer.order())
    desk.report()
    assert line.names() == ["BusinessMessageReject"]
    sent = desk.session.state.sent[1]
    desk.report()  # not read: no client has seen it
    os.close(desk.store._file)  # the process dies without notice
    again = Desk(store=SessionFile(path))
    line = again.connect()
    line.send_data(line.peer.establish(4, 3) + line.peer.retransmit(1, 1))
    output = line.gateway.take_output()
    assert [name for name, _ in line.peer.read(output)] == [
        "EstablishAck", "Retransmission", "BusinessMessageReject", "Sequence",
    ]  # fmt: skip
    assert sent in output
    assert again.session.state.next_outgoing == 2
    again.store.close()


def mode(path):
    return path.stat().st_mode & 0o777


def test_a_file_that_others_can_read_is_closed_to_them_and_a_link_is_not_followed(tmp_path, caplog):
    path = tmp_path / "sessions"
    reopened(path)
    path.chmod(0o644)
    reopened(path)
    assert mode(path) == 0o600
    assert "other users could access it (mode 644)" in caplog.text
    # A file written by a reset is private too, whatever it replaces.
    target = tmp_path / "target"
    target.write_bytes(b"untouched")
    (tmp_path / "sessions.new").symlink_to(target)
    store = SessionFile(path)
    store.record(1, IncomingAccepted(5))
    store.reset_day()
    store.close()
    assert mode(path) == 0o600
    assert target.read_bytes() == b"untouched"
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(UsageError, match="cannot open the session file"):
        SessionFile(tmp_path / "link")


@settings(max_examples=60, deadline=None)
@given(HISTORY.filter(len), st.integers(1, 255), st.data())
def test_no_changed_byte_loses_a_record_silently(tmp_path_factory, history, mask, data):
    path = tmp_path_factory.mktemp("sessions") / "sessions"
    store = SessionFile(path)
    for session_id, record in history:
        if not isinstance(record, DayReset | WeekReset):
            store.record(session_id, record)
    store.close()
    whole = bytearray(path.read_bytes())
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= mask
    path.write_bytes(whole)
    with pytest.raises(UsageError, match=r"is damaged at byte \d+|not a session file"):
        SessionFile(path)
    assert path.read_bytes() == whole
