"""Peers without the right key: one answer for all of them, later each time, and nothing kept."""

import pytest

from pregao.entrypoint import GatewaySettings
from pregao.entrypoint.admission import (
    FIRST_DELAY_NS,
    FORGET_NS,
    FREE_ATTEMPTS,
    MAX_DELAY_NS,
    MAX_HELD,
    MAX_PEERS,
    Refusals,
)
from pregao.entrypoint.session_settings import MAX_GAP
from pregao.exchange.host.host import PRIMARY
from tests.entrypoint.gateway_desk import Desk
from tests.entrypoint.raw_peer import MS, SESSION, secret
from tests.exchange.host_floor import HostFloor

UNKNOWN = 5
KINDS = pytest.mark.parametrize(
    ("ask", "reject", "field"),
    [
        ("negotiate", "NegotiateReject", "negotiationRejectCode"),
        ("establish", "EstablishReject", "establishmentRejectCode"),
    ],
)


def answer(ask, session_id, **wrong):
    """The answer to a request of a session, as bytes, with the session's number blanked."""
    line = Desk().connect(session_id=session_id)
    line.send_data(getattr(line.peer, ask)(**wrong))
    return line.gateway.take_output().replace(session_id.to_bytes(4, "little"), b"****")


@KINDS
@pytest.mark.parametrize(
    "wrong",
    [
        {"key": "wrong"},
        {"key": ""},
        {"credentials": ""},
        {"credentials": "[" * 120},
        {"credentials": secret(key="é")},
        {"credentials": secret(SESSION + 1)},
    ],
)
def test_an_unknown_session_is_answered_as_a_wrong_key_is(ask, reject, field, wrong):
    known, unknown = answer(ask, SESSION, **wrong), answer(ask, UNKNOWN, **wrong)
    assert known == unknown
    desk = Desk()
    line = desk.connect(session_id=UNKNOWN)
    line.send_data(getattr(line.peer, ask)(**wrong))
    found = line.read_messages()
    assert [name for name, _ in found] == [reject, "Terminate"]
    assert found[0][1][field] == "CREDENTIALS"


def test_the_key_of_nothing_opens_no_session():
    """A session that does not exist has no key: the empty one is none."""
    line = Desk().connect(session_id=UNKNOWN)
    line.send_data(line.peer.negotiate(key=""))
    assert line.read_messages()[0][1]["negotiationRejectCode"] == "CREDENTIALS"


@pytest.mark.parametrize("changes", [{"key": "wrong"}, {"timestamp": 1}, {"enteringFirm": 0}])
def test_terminate_after_a_refusal_repeats_the_session_and_version_of_the_request(changes):
    line = Desk().connect()
    line.send_data(line.peer.negotiate(7, **changes))
    (_, refusal), (name, ending) = line.read_messages()
    assert name == "Terminate"
    assert (ending["sessionID"], ending["sessionVerID"]) == (SESSION, 7)
    assert refusal["sessionVerID"] == 7


def test_terminate_after_a_refused_establish_repeats_them_too():
    line = Desk().connect()
    line.send_data(line.peer.establish(9))
    (name, _), (_, ending) = line.read_messages()
    assert name == "EstablishReject"
    assert (ending["sessionID"], ending["sessionVerID"]) == (SESSION, 9)


def test_a_firm_of_zero_is_refused():
    line = Desk().connect()
    line.send_data(line.peer.negotiate(firm=0))
    refusal = line.read_messages()[0][1]
    assert (refusal["negotiationRejectCode"], refusal["enteringFirm"]) == ("INVALID_FIRM", None)


def fail(desk, peer="10.0.0.1", session_id=SESSION):
    line = desk.connect(session_id=session_id, peer=peer)
    line.send_data(line.peer.negotiate(now=desk.now, key="wrong"))
    return line


def test_the_answer_to_a_wrong_key_takes_longer_each_time_up_to_a_bound():
    desk = Desk()
    waited = []
    for _ in range(FREE_ATTEMPTS + 9):
        line, began = fail(desk), desk.now
        while not (names := line.names()):
            assert not line.gateway.closing
            line.wait(50)
        assert names == ["NegotiateReject", "Terminate"]
        waited.append(desk.now - began)
    assert waited[:FREE_ATTEMPTS] == [0] * FREE_ATTEMPTS
    assert waited[FREE_ATTEMPTS] == FIRST_DELAY_NS
    assert waited[FREE_ATTEMPTS:] == sorted(waited[FREE_ATTEMPTS:])
    assert waited[-1] == MAX_DELAY_NS
    # Others, and the owner with the right key, do not wait.
    assert fail(desk, "10.0.0.2").names() == ["NegotiateReject", "Terminate"]
    assert fail(desk, session_id=UNKNOWN).names() == ["NegotiateReject", "Terminate"]
    line = desk.connect(peer="10.0.0.1")
    line.send_data(line.peer.negotiate(now=desk.now))
    assert line.names() == ["NegotiateResponse"]
    assert fail(desk).names() == ["NegotiateReject", "Terminate"]  # forgotten by the success


def test_few_refusals_wait_at_a_time_and_further_requests_are_not_read():
    desk = Desk()
    for _ in range(FREE_ATTEMPTS):
        fail(desk)
    held = [fail(desk) for _ in range(MAX_HELD)]
    assert [line.names() for line in held] == [[]] * MAX_HELD
    line = desk.connect(peer="10.0.0.1")
    line.send_data(line.peer.negotiate(now=desk.now))
    assert line.names() == []
    assert line.gateway.closing
    held[0].lose()
    line = desk.connect(peer="10.0.0.1")
    line.send_data(line.peer.negotiate(now=desk.now))
    assert line.names() == ["NegotiateResponse"]


def test_what_a_peer_sends_while_its_refusal_waits_is_not_read():
    desk = Desk()
    for _ in range(FREE_ATTEMPTS):
        fail(desk)
    line = fail(desk)
    line.send_data(line.peer.negotiate(now=desk.now))
    line.wait(FIRST_DELAY_NS // MS)
    assert line.names() == ["NegotiateReject", "Terminate"]
    assert desk.session.state.session_ver_id == 0


def test_the_table_of_failures_is_bounded_and_expires():
    refusals = Refusals()
    for number in range(MAX_PEERS + 50):
        refusals.failed("10.0.0.1", number, 1)
    assert len(refusals) == MAX_PEERS
    for _ in range(FREE_ATTEMPTS):
        assert refusals.failed("10.0.0.2", 1, 1) == 1
    assert refusals.failed("10.0.0.2", 1, 1) == 1 + FIRST_DELAY_NS
    later = 2 + FORGET_NS
    assert refusals.failed("10.0.0.2", 1, later) == later


def test_a_peer_without_the_key_does_not_use_up_the_attempts_of_a_session():
    desk = Desk(rules=GatewaySettings(establish_attempts=2))
    line = desk.established()
    line.lose()
    for number in range(6):
        line = desk.connect(peer=str(number))
        line.send_data(line.peer.establish(key="wrong"))
        assert line.read_messages()[0][1]["establishmentRejectCode"] == "CREDENTIALS"
    line = desk.connect()
    line.send_data(line.peer.establish())
    assert line.names() == ["EstablishAck"]


def test_refused_and_silent_peers_do_not_grow_the_journal(tmp_path):
    floor = HostFloor(tmp_path)
    floor.host.commit()
    peer = floor.peers[SESSION]
    for frame in (
        peer.negotiate(key="wrong"),
        peer.establish(key="wrong"),
        peer.negotiate(sessionID=UNKNOWN),
        peer.negotiate(firm=0),
        peer.sequence(1),
        b"GET / HTTP/1.0\r\n\r\n",
        b"",
    ):
        line = floor.host.connect(PRIMARY, floor.now, "10.0.0.1")
        floor.host.receive(line, frame, floor.now)
        floor.host.lost(line, floor.now)
        assert floor.journal.mark() == 0, frame
    floor.end()


@pytest.mark.parametrize("number", [2**32 - 1, MAX_GAP + 2])
@pytest.mark.parametrize("kind", ["order", "sequence"])
def test_a_number_far_beyond_ends_the_connection_and_not_the_session(kind, number):
    desk = Desk()
    line = desk.established()
    line.send_data(getattr(line.peer, kind)(number))
    assert line.ends_with("INVALID_NEXTSEQNO")
    line = desk.connect()
    line.send_data(line.peer.establish(1, number))
    assert line.read_messages()[0][1]["establishmentRejectCode"] == "INVALID_NEXTSEQNO"
    line = desk.connect()
    line.send_data(line.peer.establish(1, 1 + MAX_GAP))
    assert line.names() == ["EstablishAck", "NotApplied"]
