"""Sessions over TCP with the running exchange: the flows of the documents, in two versions."""

import socket
import struct
import time
from dataclasses import replace

import pytest

from pregao.clock import SECOND
from pregao.entrypoint import SessionAccount, ThrottleLimit
from tests.entrypoint.raw_peer import FIRM, KEY, SESSION, secret
from tests.exchange.host_desk import Exchange, quiet_settings, row
from tests.waiting import until

NEXT = SESSION + 1


@pytest.fixture(params=[2, 6])
def version(request):
    return request.param


@pytest.fixture
def exchange():
    with Exchange() as running:
        yield running


@pytest.fixture
def line(exchange, version):
    return exchange.connect(version=version)


def now():
    return time.time_ns()


def ends_with(client, code):
    name, values = client.ended()[-1]
    assert name == "Terminate"
    assert values["terminationCode"] == code


def refused(client, name, field, code):
    """The refusal, then the end."""
    found = client.ended()
    assert [each[0] for each in found] == [name, "Terminate"]
    assert found[0][1][field] == code
    return found[0][1]


# Negotiate and Establish (§4.5.2, §4.5.3).


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"credentials": "no document"}, "CREDENTIALS"),
        ({"credentials": secret(key="wrong")}, "CREDENTIALS"),
        ({"credentials": secret(NEXT)}, "CREDENTIALS"),
        ({"sessionID": 5}, "CREDENTIALS"),
        ({"enteringFirm": FIRM + 1}, "INVALID_FIRM"),
        ({"timestamp": 1}, "INVALID_TIMESTAMP"),
        ({"sessionVerID": 0}, "INVALID_SESSIONVERID"),
    ],
)
def test_003_4_5_2_what_refuses_a_negotiation(line, changes, code):
    line.send_data(line.peer.negotiate(now=now(), **changes))
    refused(line, "NegotiateReject", "negotiationRejectCode", code)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"credentials": secret(key="wrong")}, "CREDENTIALS"),
        ({"sessionVerID": 2}, "INVALID_SESSIONVERID"),
        ({"timestamp": 1}, "INVALID_TIMESTAMP"),
        ({"keepAliveInterval": 0}, "INVALID_KEEPALIVE_INTERVAL"),
        ({"keepAliveInterval": 60_001}, "INVALID_KEEPALIVE_INTERVAL"),
        ({"nextSeqNo": 0}, "INVALID_NEXTSEQNO"),
        ({"codTimeoutWindow": 60_001}, "UNSPECIFIED"),
        ({"sessionID": 5}, "INVALID_SESSIONID"),
    ],
)
def test_003_4_5_3_what_refuses_an_establishment(line, changes, code):
    line.send_data(line.peer.negotiate(now=now()))
    line.one("NegotiateResponse")
    line.send_data(line.peer.establish(now=now(), **changes))
    refused(line, "EstablishReject", "establishmentRejectCode", code)


def test_003_4_5_3_establish_without_negotiate(line):
    line.send_data(line.peer.establish(now=now()))
    refused(line, "EstablishReject", "establishmentRejectCode", "UNNEGOTIATED")


def test_a_session_has_one_connection(exchange, version):
    first = exchange.trader(version)
    second = exchange.connect(version=version)
    second.send_data(second.peer.negotiate(now=now()))
    code = "DUPLICATE_SESSION_CONNECTION"
    refused(second, "NegotiateReject", "negotiationRejectCode", code)
    first.new(1)
    first.one("ExecutionReport_New")


def test_a_blocked_session_stays_out(version):
    account = SessionAccount(SESSION, FIRM, KEY, blocked=True)
    with Exchange(quiet_settings(sessions=(account,))) as exchange:
        line = exchange.connect(version=version)
        line.send_data(line.peer.negotiate(now=now()))
        refused(line, "NegotiateReject", "negotiationRejectCode", "SESSION_BLOCKED")


# Framing (§4.4) and what comes too early.


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\x00\x00\x00\x00", "INVALID_SOFH"),
        (struct.pack("<HH", 200, 0x5BE0) + b"\x00" * 196, "INVALID_SOFH"),
        (struct.pack("<HH", 2049, 0xEB50) + b"\x00" * 2045, "INVALID_SOFH"),
        (struct.pack("<HHHHHH", 12, 0xEB50, 0, 999, 1, 2), "UNRECOGNIZED_MESSAGE"),
        (struct.pack("<HHHHHH", 12, 0xEB50, 0, 1, 1, 2), "DECODING_ERROR"),
    ],
)
def test_003_4_4_an_invalid_message_ends_the_connection(line, data, code):
    line.send_data(data)
    ends_with(line, code)


def test_003_4_6_business_messages_need_a_session(line):
    line.new(1)
    ends_with(line, "UNNEGOTIATED")


def test_003_4_6_business_messages_need_an_established_session(line):
    line.send_data(line.peer.negotiate(now=now()))
    line.one("NegotiateResponse")
    line.new(1)
    ends_with(line, "NOT_ESTABLISHED")


def test_several_messages_in_a_segment_and_messages_cut_anywhere(exchange, version):
    client = exchange.trader(version)
    frames = b"".join(client.peer.order(number) for number in (1, 2, 3))
    for start in range(0, len(frames), 7):
        client.send_data(frames[start : start + 7])
    assert [row(each, "clOrdID") for each in client.read_messages(3)] == [
        ("Reject", 1001), ("Reject", 1002), ("Reject", 1003),
    ]  # fmt: skip


def test_a_message_of_another_session_ends_the_connection(exchange, version):
    client = exchange.trader(version)
    client.peer.session_id = NEXT
    client.new(1)
    ends_with(client, "INVALID_SESSIONID")


def test_an_undecodable_order_ends_the_connection(exchange, version):
    client = exchange.trader(version)
    frame = bytearray(client.peer.order(1))
    frame[-1] = 200  # the memo would run past the end
    client.send_data(bytes(frame))
    ends_with(client, "DECODING_ERROR")


# Sequence numbers (§4.5.4, §4.5.5, §4.6.2).


def test_003_4_5_5_a_gap_is_reported_and_the_message_accepted(exchange, version):
    client = exchange.trader(version)
    client.number = 5
    client.new(1)
    gap, new = client.read_messages(2)
    assert gap == ("NotApplied", {"fromSeqNo": 1, "count": 4})
    assert row(new, "clOrdID") == ("New", 1)


def test_003_4_5_4_2_a_sequence_moves_the_number(exchange, version):
    client = exchange.trader(version)
    client.send_data(client.peer.sequence(10))
    assert client.one("NotApplied") == {"fromSeqNo": 1, "count": 9}
    client.number = 10
    client.new(1)
    client.one("ExecutionReport_New")


def test_003_4_6_2_a_number_twice_is_executed_once(exchange, version):
    client = exchange.trader(version)
    client.new(1)
    client.number = 1
    client.new(2)
    client.new(3)
    assert [row(each, "clOrdID") for each in client.read_messages(2)] == [("New", 1), ("New", 3)]


def test_003_4_5_4_1_heartbeats_and_silence(exchange, version):
    client = exchange.trader(version, keep_alive=60)
    found = client.ended()
    assert {name for name, _ in found[:-1]} == {"Sequence"}
    assert found[-1][1]["terminationCode"] == "KEEPALIVE_INTERVAL_LAPSED"


# Retransmission (§4.5.6).


def test_003_4_5_6_messages_are_retransmitted_unchanged(exchange, version):
    client = exchange.trader(version)
    for number in range(1, 251):
        client.new(number, price=10)
    first = client.read_messages(250)
    client.send_data(client.peer.retransmit(1, 250, now=now()))
    start = client.one("Retransmission")
    assert (start["nextSeqNo"], start["count"]) == (1, 250)
    assert client.read_messages(250) == first
    assert client.one("Sequence") == {"nextSeqNo": 251}


@pytest.mark.parametrize(
    ("first", "count", "code"),
    [(1, 2, "OUT_OF_RANGE"), (0, 1, "INVALID_FROMSEQNO"), (1, 0, "INVALID_COUNT")],
)
def test_003_4_5_6_what_cannot_be_sent_again(exchange, version, first, count, code):
    client = exchange.trader(version)
    client.new(1)
    client.one("ExecutionReport_New")
    client.send_data(client.peer.retransmit(first, count, now=now()))
    assert client.one("RetransmitReject")["retransmitRejectCode"] == code
    client.new(2)
    client.one("ExecutionReport_New")


def test_003_4_5_6_more_than_1000_end_the_connection(exchange, version):
    client = exchange.trader(version)
    client.send_data(client.peer.retransmit(1, 1001, now=now()))
    found = client.ended()
    assert found[0][1]["retransmitRejectCode"] == "REQUEST_LIMIT_EXCEEDED"
    assert found[-1][0] == "Terminate"


# The flows of §5.


def test_003_5_1_normal_connectivity(exchange, version):
    client = exchange.connect(version=version)
    ack = client.log_on()
    assert (ack["nextSeqNo"], ack["lastIncomingSeqNo"]) == (1, 0)
    client.new(1)
    client.one("ExecutionReport_New")
    client.send_data(client.peer.terminate())
    ends_with(client, "FINISHED")


def test_003_5_2_invalid_credentials(exchange, version):
    client = exchange.connect(version=version)
    client.send_data(client.peer.negotiate(now=now(), key="wrong"))
    refused(client, "NegotiateReject", "negotiationRejectCode", "CREDENTIALS")
    exchange.trader(version)


def test_003_5_3_loss_of_connectivity(exchange, version):
    client = exchange.trader(version)
    client.new(1)
    client.one("ExecutionReport_New")
    client.close()
    again = exchange.connect(version=version)
    ack = _when_free(again, exchange, version, next_number=2)
    assert (ack["nextSeqNo"], ack["lastIncomingSeqNo"]) == (2, 1)


def test_003_5_4_client_side_failure(exchange, version):
    client = exchange.trader(version, ver=7)
    client.new(1)
    client.one("ExecutionReport_New")
    client.close()
    until(lambda: exchange.call(lambda host: not host.store.state(SESSION).connected))
    lost = exchange.connect(version=version)
    lost.send_data(lost.peer.negotiate(8, now=now()))
    reject = refused(lost, "NegotiateReject", "negotiationRejectCode", "ALREADY_NEGOTIATED")
    assert reject["currentSessionVerID"] == 7
    lost = exchange.connect(version=version)
    lost.send_data(lost.peer.establish(7, 1, now=now()))
    code = "INVALID_NEXTSEQNO"
    assert (
        refused(lost, "EstablishReject", "establishmentRejectCode", code)["lastIncomingSeqNo"] == 1
    )
    lost = exchange.connect(version=version)
    lost.establish(7, 2)
    lost.send_data(lost.peer.retransmit(1, 1, now=now()))
    assert [name for name, _ in lost.read_messages(3)][1] == "ExecutionReport_New"


def test_003_5_5_gateway_failures(exchange, version):
    """At the first failure the backup is negotiated with; at the second Establish is enough."""
    client = exchange.trader(version, ver=3)
    client.new(1)
    client.one("ExecutionReport_New")
    assert exchange.control(command="failover") == {"done": "failover"}
    assert client.ended() == []
    closed = exchange.connect(1, version=version)
    closed.send_data(closed.peer.negotiate(3, now=now()))
    code = "NEGOTIATE_NOT_ALLOWED"
    refused(closed, "NegotiateReject", "negotiationRejectCode", code)
    backup = exchange.connect(2, version=version)
    ack = backup.log_on(3, 2)
    assert (ack["nextSeqNo"], ack["lastIncomingSeqNo"]) == (2, 1)
    backup.cancel(2, 1)
    backup.one("ExecutionReport_Cancel")
    exchange.control(command="failover")
    assert backup.ended() == []
    again = exchange.connect(2, version=version)
    assert again.establish(3, 3)["nextSeqNo"] == 3


# Cancel on disconnect (§4.7).


@pytest.mark.parametrize(
    ("wish", "graceful", "reason"),
    [
        (None, False, None),
        ("CANCEL_ON_DISCONNECT_ONLY", False, "CANCEL_ON_HARD_DISCONNECTION"),
        ("CANCEL_ON_DISCONNECT_ONLY", True, None),
        ("CANCEL_ON_TERMINATE_ONLY", True, "CANCEL_ON_TERMINATE"),
        ("CANCEL_ON_TERMINATE_ONLY", False, None),
        ("CANCEL_ON_DISCONNECT_OR_TERMINATE", True, "CANCEL_ON_DISCONNECT_AND_TERMINATE"),
        ("CANCEL_ON_DISCONNECT_OR_TERMINATE", False, "CANCEL_ON_DISCONNECT_AND_TERMINATE"),
    ],
)
def test_003_4_7_orders_are_cancelled_and_reported_after_reconnection(
    exchange, version, wish, graceful, reason
):
    client = exchange.trader(version, cancelOnDisconnectType=wish)
    client.new(1)
    client.single(2, timeInForce="GOOD_TILL_CANCEL", price=11)
    client.read_messages(2)
    if graceful:
        client.send_data(client.peer.terminate())
        client.ended()
    client.close()
    left = 2 if reason is None else 1
    until(lambda: exchange.call(lambda host: not host.store.state(SESSION).connected))
    until(lambda: exchange.call(lambda host: len(host.engine.market.orders)) == left)
    again = exchange.connect(version=version)
    ack = again.establish(1, 3)
    assert ack["nextSeqNo"] == 3 + (reason is not None)
    if reason is not None:
        again.send_data(again.peer.retransmit(3, 1, now=now()))
        again.one("Retransmission")
        cancelled = again.one("ExecutionReport_Cancel")
        assert cancelled["execRestatementReason"] == reason
        assert cancelled["clOrdID"] == 1


def test_003_4_7_orders_entered_on_behalf_are_cancelled_too(exchange, version):
    client = exchange.trader(version, cancelOnDisconnectType="CANCEL_ON_DISCONNECT_ONLY")
    client.single(1, executingTrader="XYZ")
    client.single(2, price=11)
    client.read_messages(2)
    client.close()
    until(lambda: exchange.call(lambda host: not host.engine.market.orders))
    again = exchange.connect(version=version)
    again.establish(1, 3)
    again.send_data(again.peer.retransmit(3, 2, now=now()))
    again.one("Retransmission")
    found = [values for _, values in again.read_messages(2)]
    assert [(each["clOrdID"], each["execRestatementReason"]) for each in found] == [
        (1, "CANCEL_ON_HARD_DISCONNECTION"),
        (2, "CANCEL_ON_HARD_DISCONNECTION"),
    ]


def test_003_4_7_3_an_order_in_an_auction_outlives_its_owners_connection(exchange, version):
    other = exchange.trader(version, session_id=SESSION + 2)
    exchange.control(command="auction", symbol="PETR4")
    client = exchange.trader(version, cancelOnDisconnectType="CANCEL_ON_DISCONNECT_ONLY")
    other.new(1, "SELL", 100, 12)
    other.one("ExecutionReport_New")
    client.new(1, "BUY", 100, 12)
    client.new(2, "BUY", 100, 11)
    client.read_messages(2)
    client.close()
    until(lambda: exchange.call(lambda host: len(host.engine.market.orders)) == 2)
    exchange.control(command="resume", symbol="PETR4")
    assert other.one("ExecutionReport_Trade")["ordStatus"] == "FILLED"


def test_003_4_7_2_within_the_window_orders_stay(exchange, version):
    wish = "CANCEL_ON_DISCONNECT_OR_TERMINATE"
    client = exchange.trader(version, cancelOnDisconnectType=wish, codTimeoutWindow=60_000)
    client.new(1)
    client.one("ExecutionReport_New")
    client.close()
    until(lambda: exchange.call(lambda host: not host.store.state(SESSION).connected))
    assert exchange.call(lambda host: host.store.state(SESSION).cancel_due_ns) is not None
    again = exchange.connect(version=version)
    again.establish(1, 2)
    assert exchange.call(lambda host: host.store.state(SESSION).cancel_due_ns) is None
    assert exchange.call(lambda host: len(host.engine.market.orders)) == 1


# Throttle (§4.9).


def test_003_4_9_too_many_messages_are_rejected(version):
    account = SessionAccount(SESSION, FIRM, KEY, throttle=ThrottleLimit(3, 60_000))
    with Exchange(quiet_settings(sessions=(account,))) as exchange:
        client = exchange.trader(version)
        for number in range(1, 6):
            client.new(number)
        found = client.read_messages(5)
    assert [name for name, _ in found] == ["ExecutionReport_New"] * 3 + [
        "BusinessMessageReject"
    ] * 2
    assert found[-1][1]["text"] == "Throttle limit exceeded"


# The gateway among many.


def test_a_slow_reader_is_disconnected_and_others_continue():
    settings = quiet_settings(max_unread_bytes=64 * 1024)
    with Exchange(settings) as exchange:
        slow = exchange.connect()
        slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.log_on()
        other = exchange.trader(session_id=NEXT)
        with pytest.raises(ConnectionError):  # noqa: PT012
            for _ in range(10_000):
                slow.socket.sendall(b"".join(slow.peer.order() for _ in range(200)))
        until(lambda: exchange.server.counts.slow_readers == 1)
        other.new(1)
        other.one("ExecutionReport_New")


def test_many_concurrent_sessions():
    count = 120
    accounts = tuple(SessionAccount(SESSION + n, FIRM, KEY) for n in range(count))
    with Exchange(quiet_settings(sessions=accounts)) as exchange:
        clients = [exchange.connect(session_id=SESSION + n) for n in range(count)]
        for client in clients:
            client.send_data(client.peer.negotiate(now=now()))
            client.send_data(client.peer.establish(now=now(), keep_alive=30_000))
        for client in clients:
            client.read_messages(2)
        for number, client in enumerate(clients):
            client.new(1, "BUY" if number % 2 else "SELL", 100)
        trades = [client.read_messages(2) for client in clients]
        assert {found[1][0] for found in trades} == {"ExecutionReport_Trade"}
        assert exchange.control(command="status")["connections"] == count


def _when_free(client, exchange, version, **establish):
    """Establish once the exchange has noticed that the connection before is gone."""
    until(lambda: exchange.call(lambda host: host.gateways[1][SESSION].connection is None))
    return client.establish(**establish)


def test_a_clock_that_is_off_can_be_allowed(version):
    rules = replace(quiet_settings().rules, clock_tolerance_ns=400 * SECOND)
    with Exchange(quiet_settings(rules=rules)) as exchange:
        client = exchange.connect(version=version)
        client.send_data(client.peer.negotiate(now=now() - 300 * SECOND))
        client.one("NegotiateResponse")
