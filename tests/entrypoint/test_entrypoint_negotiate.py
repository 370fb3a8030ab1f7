"""§4.2, §4.3, §4.5.2: negotiating a session, and every way to be refused."""

import dataclasses

import pytest

from pregao.entrypoint import (
    VERSIONS,
    GatewaySessions,
    GatewaySettings,
    SessionAccount,
    SessionStore,
)
from pregao.errors import UsageError
from tests.entrypoint.gateway_desk import Desk
from tests.entrypoint.raw_peer import FIRM, KEY, MS, SESSION, START, RawPeer, secret


def refused(line, code):
    """Was Negotiate rejected, then Terminate sent, then closed (§4.5.2)?"""
    (reject, values), (end, _) = line.read_messages()
    assert (reject, end) == ("NegotiateReject", "Terminate")
    assert values["requestTimestamp"] == START
    assert line.gateway.closing
    assert line.kinds() == ["SessionRefused", "ConnectionEnded"]
    assert values["negotiationRejectCode"] == code
    return values


@pytest.mark.parametrize("version", VERSIONS)
def test_003_4_5_2_a_session_is_negotiated_in_the_version_of_its_negotiate(version):
    desk = Desk(version=version)
    line = desk.connect()
    line.send_data(line.peer.negotiate(7))
    ((name, values),) = line.read_messages()
    assert name == "NegotiateResponse"
    assert (values["sessionID"], values["sessionVerID"]) == (SESSION, 7)
    assert (values["enteringFirm"], values["requestTimestamp"]) == (FIRM, START)
    assert desk.session.state.version == version
    assert line.kinds() == ["SessionNegotiated"]


@pytest.mark.parametrize("version", [0, 1, 7, 65535])
def test_003_4_2_another_version_is_not_supported(version):
    line = Desk().connect()
    message = bytearray(line.peer.negotiate())
    message[10:12] = version.to_bytes(2, "little")
    line.send_data(bytes(message))
    refused(line, "PROTOCOL_VERSION_NOT_SUPPORTED")


def test_a_gateway_can_support_fewer_versions():
    line = Desk(rules=GatewaySettings(versions=(2, 3)), version=6).connect()
    line.send_data(line.peer.negotiate())
    refused(line, "PROTOCOL_VERSION_NOT_SUPPORTED")


@pytest.mark.parametrize(
    "credentials",
    [
        None,
        "",
        "{",
        "[1]",
        '"text"',
        secret(key="wrong"),
        secret(session_id=5),
        secret(auth_type="token"),
        secret(key=KEY + "A"),
        secret(key=None),
        '{"auth_type": "basic", "username": "100000001"}',
        "[" * 120,
    ],
)
def test_003_4_3_wrong_credentials_are_refused(credentials):
    line = Desk().connect()
    line.send_data(line.peer.negotiate(credentials=(credentials or None)))
    refused(line, "CREDENTIALS")


def test_003_5_2_a_refused_client_can_negotiate_on_a_new_connection():
    desk = Desk()
    line = desk.connect()
    line.send_data(line.peer.negotiate(key="wrong"))
    refused(line, "CREDENTIALS")
    desk.established()


def test_credentials_longer_than_128_bytes_are_refused_though_right():
    line = Desk().connect()
    long = secret() + " " * 60
    message = bytearray(line.peer.negotiate())
    offset = 12 + 28
    rest = message[offset + 1 + message[offset] :]
    message = message[:offset] + bytes([len(long)]) + long.encode() + rest
    message[0:2] = len(message).to_bytes(2, "little")
    line.send_data(bytes(message))
    refused(line, "CREDENTIALS")


def test_an_unknown_session_is_refused():
    line = Desk().connect(session_id=5)
    line.send_data(line.peer.negotiate())
    refused(line, "CREDENTIALS")


def test_a_blocked_session_is_refused_once_its_credentials_are_right():
    account = SessionAccount(SESSION, FIRM, KEY, blocked=True)
    line = Desk(account=account).connect()
    line.send_data(line.peer.negotiate())
    values = refused(line, "SESSION_BLOCKED")
    assert values["currentSessionVerID"] is None
    line = Desk(account=account).connect()
    line.send_data(line.peer.negotiate(key="wrong"))
    refused(line, "CREDENTIALS")


def test_the_firm_must_own_the_session():
    line = Desk().connect()
    line.send_data(line.peer.negotiate(firm=86))
    refused(line, "INVALID_FIRM")


@pytest.mark.parametrize(("off", "taken"), [(60_000, True), (60_001, False)])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_time_too_far_from_the_gateways_is_refused(off, taken, sign):
    desk = Desk()
    desk.now += sign * off * MS
    line = desk.connect()
    line.send_data(line.peer.negotiate(now=START))
    if taken:
        assert line.names() == ["NegotiateResponse"]
    else:
        refused(line, "INVALID_TIMESTAMP")


def test_003_4_2_session_versions_rise_through_the_week():
    desk = Desk()
    desk.established(5).lose()
    desk.sessions.reset_day(desk.now)
    for ver in (0, 4, 5):
        line = desk.connect()
        line.send_data(line.peer.negotiate(ver))
        refused(line, "INVALID_SESSIONVERID")
    desk.established(6).lose()
    desk.store.reset_week()
    desk.established(1)


def test_session_version_0_is_refused():
    line = Desk().connect()
    line.send_data(line.peer.negotiate(0))
    refused(line, "INVALID_SESSIONVERID")


@pytest.mark.parametrize("ver", [3, 4, 9])
def test_003_4_5_3_1_negotiating_again_returns_the_current_session_version(ver):
    desk = Desk()
    desk.established(4).lose()
    line = desk.connect()
    line.send_data(line.peer.negotiate(ver))
    assert refused(line, "ALREADY_NEGOTIATED")["currentSessionVerID"] == 4


def test_negotiating_twice_on_one_connection_ends_it():
    line = Desk().connect()
    line.send_data(line.peer.negotiate(4))
    assert line.names() == ["NegotiateResponse"]
    line.kinds()
    line.send_data(line.peer.negotiate(5))
    assert refused(line, "ALREADY_NEGOTIATED")["currentSessionVerID"] == 4


def test_negotiating_on_an_established_connection_ends_it():
    line = Desk().established(4)
    line.kinds()
    line.send_data(line.peer.negotiate(5))
    refused(line, "ALREADY_NEGOTIATED")


def test_one_connection_per_session():
    desk = Desk()
    first = desk.connect()
    first.send_data(first.peer.negotiate(1))
    second = desk.connect()
    second.send_data(second.peer.negotiate(2))
    refused(second, "AUTHENTICATION_IN_PROGRESS")
    first.send_data(first.peer.establish(1))
    assert first.names() == ["NegotiateResponse", "EstablishAck"]
    third = desk.connect()
    third.send_data(third.peer.negotiate(2))
    refused(third, "DUPLICATE_SESSION_CONNECTION")
    first.send_data(first.peer.order())
    assert first.kinds()[-1] == "MessageReceived"


def test_a_stranger_without_credentials_does_not_learn_that_a_session_is_in_use():
    desk = Desk()
    desk.established()
    line = desk.connect()
    line.send_data(line.peer.negotiate(2, key="wrong"))
    refused(line, "CREDENTIALS")


def test_a_gateway_that_accepts_no_sessions_reports_it_until_it_does():
    desk = Desk(rules=GatewaySettings(accepting=False))
    line = desk.connect()
    line.send_data(line.peer.negotiate())
    refused(line, "NEGOTIATE_NOT_ALLOWED")
    desk.sessions.accept()
    desk.established()


@pytest.mark.parametrize(
    ("version", "in_response", "in_ack"),
    [(3, False, False), (4, "8.2.1", False), (6, "8.4.2", "8.4.2")],
)
def test_the_gateway_sends_the_semantic_version_where_the_schema_allows_it(
    version, in_response, in_ack
):
    line = Desk(version=version).connect()
    line.send_data(line.peer.negotiate() + line.peer.establish())
    for (_, values), expected in zip(line.read_messages(), (in_response, in_ack), strict=True):
        version_values = values.get("semanticVersion")
        numbers = version_values and [
            version_values[f"{part}Number"] for part in ("major", "minor", "patch")
        ]
        assert (".".join(map(str, numbers)) if version_values else False) == expected


def test_a_connection_that_does_not_negotiate_in_time_is_ended():
    line = Desk().connect()
    line.wait(9_999)
    assert not line.gateway.closing
    line.wait(1)
    assert line.ends_with("UNSPECIFIED")


@pytest.mark.parametrize(
    "message",
    [RawPeer().order(1), RawPeer().sequence(1), RawPeer().retransmit(1, 1)],
)
def test_messages_before_negotiation_end_the_connection(message):
    line = Desk().connect()
    line.send_data(message)
    assert line.ends_with("UNNEGOTIATED")
    line = Desk().connect()
    line.send_data(line.peer.negotiate() + message)
    assert line.ends_with("NOT_ESTABLISHED")


def test_003_5_5_a_backup_accepts_the_session_version_once_and_resumes_both_numbers():
    store = SessionStore()
    primary = Desk(store=store)
    line = primary.established(4)
    line.send_data(line.peer.order() + line.peer.order())
    primary.report()
    line.lose()
    backup = Desk(store=store, rules=GatewaySettings(gateway=2))
    other = backup.connect()
    other.send_data(other.peer.negotiate(5))
    assert refused(other, "ALREADY_NEGOTIATED")["currentSessionVerID"] == 4
    early = backup.connect()
    early.send_data(early.peer.establish(4, 3))
    assert early.read_messages()[0][1]["establishmentRejectCode"] == "UNNEGOTIATED"
    taken = backup.connect()
    taken.send_data(taken.peer.negotiate(4) + taken.peer.establish(4, 3))
    (_, _), (_, ack) = taken.read_messages()
    assert (ack["nextSeqNo"], ack["lastIncomingSeqNo"]) == (2, 2)
    taken.lose()
    again = backup.connect()  # the second failure: Establish alone
    again.send_data(again.peer.establish(4, 3))
    assert again.names() == ["EstablishAck"]


def test_a_session_has_one_account_and_its_key_is_not_shown():
    account = SessionAccount(SESSION, FIRM, KEY)
    assert KEY not in repr(account)
    assert dataclasses.asdict(account)["access_key"] == KEY
    with pytest.raises(UsageError, match="Session 100000001 has two accounts"):
        GatewaySessions([account, account], SessionStore())
