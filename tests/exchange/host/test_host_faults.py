"""Handlers that fail: the request is rejected, its traces removed, and the exchange continues."""

from dataclasses import replace

import pytest

from pregao.errors import UsageError
from pregao.exchange.engine import engine as engine_module
from pregao.exchange.engine.model.commands import NewOrder
from pregao.exchange.host.faults import FaultLog
from pregao.exchange.host.gateway.pre_trade import RiskDelay
from pregao.exchange.host.host import PRIMARY
from pregao.exchange.host.journal import replay as replaying
from pregao.exchange.host.journal.journal_file import RecordKind
from pregao.exchange.host.journal.replay import ReplayedHost
from tests.entrypoint.raw_peer import MS, SESSION
from tests.exchange.host.test_host_odd_requests import replayed, with_feed
from tests.exchange.host_desk import Exchange, quiet_settings, whole_state
from tests.exchange.host_floor import SETTINGS, HostFloor


class BoomError(RuntimeError):
    """Something that no check foresaw."""


def booming(function, times=1):
    """A wrapper that raises after the function's work, the given number of times."""
    left = [times]

    def boom(*given, **named):
        found = function(*given, **named)
        if left[0]:
            left[0] -= 1
            raise BoomError("boom")
        return found

    return boom


def broken(monkeypatch, floor, stage):
    """Make one step in an order's path fail once, after it has done its work."""
    match stage:
        case "apply":
            handlers = engine_module._HANDLERS
            monkeypatch.setitem(handlers, NewOrder, booming(handlers[NewOrder]))
        case "report":
            reporting = floor.host.request_router._reporting
            monkeypatch.setattr(reporting, "send_reports", booming(reporting.send_reports))
        case "encode":
            monkeypatch.setattr(floor.host, "publish", booming(floor.host.publish))
        case "session":
            session = floor.host.gateways[PRIMARY][SESSION]
            monkeypatch.setattr(session, "accept", booming(session.accept))


def requests(floor):
    floor.host.commit()
    floor.journal.commit()
    return sum(record.kind == RecordKind.REQUEST for record in floor.journal.records())


@pytest.mark.parametrize("stage", ["apply", "report", "encode"])
def test_a_request_that_fails_is_rejected_and_leaves_no_trace(tmp_path, monkeypatch, stage, caplog):
    floor = HostFloor(tmp_path)
    with_feed(floor)
    floor.request("new", SESSION, 1, "BUY", 12, 100, 0)
    floor.host.commit()
    floor.request("new", SESSION + 1, 2, "BUY", 11, 300, 0)  # in the same turn
    floor.read_messages(SESSION)
    before = whole_state(floor.host)
    kept = len(before[0][SESSION][4])
    broken(monkeypatch, floor, stage)
    floor.request("new", SESSION, 3, "SELL", 12, 100, 0)
    ((name, values),) = floor.read_messages(SESSION)
    assert (name, values["refSeqNum"], values["text"]) == (
        "BusinessMessageReject", 2, "the request could not be processed",
    )  # fmt: skip
    assert floor.host.faults.count == 1
    assert "boom; bytes " in caplog.text
    after = whole_state(floor.host)
    assert after[1:] == before[1:]
    assert after[0][SESSION + 1] == before[0][SESSION + 1]
    assert after[0][SESSION][2:4] == (3, before[0][SESSION][3] + 1)
    assert len(after[0][SESSION][4]) == kept + 1
    assert requests(floor) == 2
    floor.request("new", SESSION, 4, "SELL", 12, 100, 0)  # the same order again: it trades
    assert [name for name, _ in floor.read_messages(SESSION)] == [
        "ExecutionReport_New", "ExecutionReport_Trade", "ExecutionReport_Trade",
    ]  # fmt: skip
    assert [name for name, _ in floor.read_messages(SESSION + 1)][-1] == "ExecutionReport_New"
    again = replayed(floor)
    assert whole_state(again) == whole_state(floor.host)
    assert not again.faults.skipped_records


def test_a_failure_of_the_session_layer_ends_that_connection_alone(tmp_path, monkeypatch):
    floor = HostFloor(tmp_path)
    before = whole_state(floor.host)
    broken(monkeypatch, floor, "session")
    floor.request("new", SESSION, 1, "BUY", 12, 100, 0)
    assert [name for name, _ in floor.read_messages(SESSION)][-1] == "Terminate"
    assert floor.lines[SESSION].closing
    assert floor.host.faults.count == 1
    assert whole_state(floor.host) == before
    floor.request("new", SESSION + 1, 1, "BUY", 12, 100, 0)
    assert [name for name, _ in floor.read_messages(SESSION + 1)][-1] == "ExecutionReport_New"
    floor.numbers[SESSION] = 1
    floor.connect(SESSION)
    floor.request("new", SESSION, 1, "BUY", 12, 100, 0)
    assert [name for name, _ in floor.read_messages(SESSION)][-1] == "ExecutionReport_New"
    assert whole_state(replayed(floor)) == whole_state(floor.host)


def test_messages_that_cannot_be_encoded_together_end_their_connection_alone(tmp_path, monkeypatch):
    floor = HostFloor(tmp_path)
    with_feed(floor)
    floor.request("new", SESSION + 1, 9, "BUY", 12, 100, 0)
    before = whole_state(floor.host)
    broken(monkeypatch, floor, "encode")
    line, sent = floor.lines[SESSION], []
    with monkeypatch.context() as patched:
        patched.setattr(floor.host, "receive", lambda _line, frame, _now: sent.append(frame))
        for number in (1, 2, 3):
            floor.request("new", SESSION, number, "SELL", 12, 100, 0)
    floor.host.receive(line, b"".join(sent), floor.now)
    assert [name for name, _ in floor.read_messages(SESSION)][-1] == "Terminate"
    assert whole_state(floor.host) == before
    assert requests(floor) == 1
    floor.numbers[SESSION] = 1
    floor.connect(SESSION)
    floor.host.receive(floor.lines[SESSION], b"".join(sent), floor.now)
    assert [name for name, _ in floor.read_messages(SESSION + 1)][-1] == "ExecutionReport_Trade"
    assert whole_state(replayed(floor)) == whole_state(floor.host)


@pytest.mark.parametrize("failing", [1, 2, 3])
def test_of_several_messages_in_one_read_only_the_failing_one_is_rejected(
    tmp_path, monkeypatch, failing
):
    floor = HostFloor(tmp_path)
    with_feed(floor)
    line, sent = floor.lines[SESSION], []
    with monkeypatch.context() as patched:
        patched.setattr(floor.host, "receive", lambda _line, frame, _now: sent.append(frame))
        for number in (1, 2, 3):
            floor.request("new", SESSION, number, "SELL", 12, 100, 0)
    handlers, seen = engine_module._HANDLERS, []
    apply = handlers[NewOrder]

    def boom(market, command, now_ns):
        apply(market, command, now_ns)
        if command.cl_ord_id == failing and not seen:
            seen.append(command)
            raise BoomError("boom")

    monkeypatch.setitem(handlers, NewOrder, boom)
    floor.read_messages(SESSION)
    floor.host.receive(line, b"".join(sent), floor.now)
    found = floor.read_messages(SESSION)
    expected = ["ExecutionReport_New"] * 3
    expected[failing - 1] = "BusinessMessageReject"
    assert [name for name, _ in found] == expected
    assert [values["businessHeader"]["msgSeqNum"] for _, values in found] == [1, 2, 3]
    assert whole_state(replayed(floor)) == whole_state(floor.host)


def test_a_command_that_fails_in_its_middle_changes_nothing(tmp_path, monkeypatch):
    floor = HostFloor(tmp_path)
    floor.request("new", SESSION, 1, "BUY", 12, 100, 0)
    before = whole_state(floor.host)
    desk = floor.host.request_router
    monkeypatch.setattr(desk, "invalidate_cache", booming(desk.invalidate_cache))
    with pytest.raises(UsageError, match="halt: the command failed and was undone: boom"):
        floor.host.control({"command": "halt", "symbol": "PETR4"}, floor.now)
    assert whole_state(floor.host) == before
    assert floor.host.faults.count == 1
    assert whole_state(replayed(floor)) == before


def test_the_end_of_a_failing_auction_is_abandoned(tmp_path, monkeypatch):
    floor = HostFloor(tmp_path)
    end = floor.now + 50 * MS
    floor.host.control({"command": "auction", "symbol": "PETR4", "until_ns": end}, floor.now)
    floor.host.commit()
    desk = floor.host.request_router
    monkeypatch.setattr(desk, "advance", booming(desk.advance))
    floor.now += 100 * MS
    floor.host.advance(floor.now)
    assert floor.host.faults.count == 1
    assert floor.host.next_due_ns is None
    floor.request("new", SESSION, 1, "BUY", 12, 100, 0)
    assert [name for name, _ in floor.read_messages(SESSION)][-1] == "ExecutionReport_New"
    assert whole_state(replayed(floor)) == whole_state(floor.host)


def test_a_request_that_fails_after_the_risk_engine_is_voided(tmp_path, monkeypatch):
    floor = HostFloor(tmp_path, replace(SETTINGS, risk=RiskDelay(5 * MS)))
    floor.request("new", SESSION, 1, "BUY", 12, 100, 0)
    floor.host.commit()  # the journal has it before it arrives
    floor.read_messages(SESSION)
    books = whole_state(floor.host)[1:]
    broken(monkeypatch, floor, "apply")
    floor.now += 10 * MS
    floor.host.advance(floor.now)
    ((name, values),) = floor.read_messages(SESSION)
    assert (name, values["refSeqNum"]) == ("BusinessMessageReject", 1)
    assert whole_state(floor.host)[1:] == books
    floor.request("new", SESSION, 2, "BUY", 12, 100, 0)
    floor.now += 10 * MS
    floor.host.advance(floor.now)
    assert [name for name, _ in floor.read_messages(SESSION)] == ["ExecutionReport_New"]
    assert whole_state(replayed(floor)) == whole_state(floor.host)


@pytest.mark.parametrize("still_fails", [False, True])
def test_voided_requests_restart_a_replay_once(tmp_path, monkeypatch, still_fails):
    floor = HostFloor(tmp_path, replace(SETTINGS, risk=RiskDelay(5 * MS)))
    handlers = engine_module._HANDLERS
    ordinary = handlers[NewOrder]

    def failing(market, command, now_ns):
        ordinary(market, command, now_ns)
        if command.quantity == 600:
            raise BoomError("boom")

    monkeypatch.setitem(handlers, NewOrder, failing)
    for number, quantity in enumerate((100, 600, 600, 200, 600, 600, 300), 1):
        floor.request("new", SESSION, number, "BUY", 12, quantity, 0)
        floor.host.commit()  # the journal has it before it arrives
        floor.now += 10 * MS
        floor.host.advance(floor.now)
    assert floor.host.faults.count == 4
    if not still_fails:
        monkeypatch.setitem(handlers, NewOrder, ordinary)
    passes = []
    replay = ReplayedHost._replay
    monkeypatch.setattr(
        ReplayedHost, "_replay", lambda *given: [passes.append(given), replay(*given)][1]
    )
    monkeypatch.setattr(replaying, "MAX_SET_ASIDE", 1)
    again = replayed(floor)
    assert len(passes) == 2
    assert again.faults.skipped_records == {}
    assert whole_state(again) == whole_state(floor.host)
    quantities = [order.quantity for order in again.engine.market.orders.values()]
    assert sorted(quantities) == [100, 200, 300]


def test_a_record_that_fails_at_the_start_is_set_aside_and_named(tmp_path, monkeypatch):
    floor = HostFloor(tmp_path)
    floor.host.commit()
    for number in (1, 2, 3):
        floor.request("new", SESSION, number, "BUY", 12, number * 100, 0)
    handlers = engine_module._HANDLERS
    monkeypatch.setitem(handlers, NewOrder, booming(handlers[NewOrder]))
    again = replayed(floor)
    ((position, found),) = again.faults.skipped_records.items()
    assert (found.kind, found.reason) == ("REQUEST", "BoomError: boom")
    assert (found.file, found.offset) == position[:2]
    assert sorted(order.quantity for order in again.engine.market.orders.values()) == [200, 300]
    assert again.store.state(SESSION).next_incoming == 4


def test_without_a_journal_a_failure_ends_neither_exchange_nor_session(monkeypatch):
    with Exchange(quiet_settings()) as exchange:
        client = exchange.trader()
        handlers = engine_module._HANDLERS
        monkeypatch.setitem(handlers, NewOrder, booming(handlers[NewOrder]))
        client.new(1)
        assert client.one("BusinessMessageReject")["refSeqNum"] == 1
        client.new(2)
        client.one("ExecutionReport_New")
        status = exchange.control(command="status")
        assert (status["failures"], status["set_aside"]) == (1, [])


def test_a_feed_that_fails_begins_again_with_all_that_holds(tmp_path, monkeypatch):
    settings = quiet_settings(feed="unicast")
    with Exchange(settings, journal=tmp_path) as exchange:
        client = exchange.trader()
        client.new(1, quantity=100)
        client.one("ExecutionReport_New")
        data = exchange.server._market_data
        starts = exchange.host.starts
        monkeypatch.setattr(data.publisher, "stage", booming(data.publisher.stage))
        client.new(2, quantity=200)
        assert client.one("BusinessMessageReject")["refSeqNum"] == 2
        client.new(3, quantity=300)
        client.one("ExecutionReport_New")
        assert exchange.host.starts == starts + 1
        assert exchange.server._market_data is not data
        (channel, *_) = exchange.server._market_data.publisher.channels.values()
        assert channel.incremental.sequence_version == starts + 1
    assert exchange.host.faults.count == 1


def test_a_failure_that_is_repeated_is_logged_with_its_stack_trace_once(caplog):
    faults = FaultLog()
    for error in (ValueError("boom"), ValueError("boom"), KeyError("other")):
        try:
            raise error
        except (ValueError, KeyError) as raised:
            faults.note("SimpleNewOrder", raised, b"\x01")
    assert faults.count == len(caplog.records) == 3
    assert [record.exc_info is not None for record in caplog.records] == [True, False, True]
