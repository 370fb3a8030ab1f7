"""Cancellations overtake orders on their way through the risk engine (003 §7.2)."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.errors import UsageError
from pregao.exchange.host.gateway.pre_trade import RiskDelay, RiskQueue
from pregao.exchange.host.host import PRIMARY
from pregao.exchange.host.settings import parse_settings
from tests.entrypoint.raw_peer import MS
from tests.exchange.host.test_host_restart import STEP
from tests.exchange.host_desk import ORDER, PETR4, Exchange, parties, quiet_settings, whole_state
from tests.exchange.host_floor import SESSIONS, SETTINGS, HostFloor

FIRST, SECOND = SESSIONS
CANCEL = {"securityID": PETR4, "side": "BUY", "senderLocation": "BVMF", "enteringTrader": "ABC"}
SLOW = replace(SETTINGS, risk=RiskDelay(5 * MS, 3 * MS), seed=7)


def order(number, side="BUY"):
    return ORDER | parties(number, side, 100, 32)


def names(messages):
    return [name.removeprefix("ExecutionReport_") for name, _ in messages]


def later(floor, by_ns):
    floor.now += by_ns
    floor.host.advance(floor.now)
    return floor.read_messages(FIRST)


def test_003_7_2_a_cancel_is_rejected_because_it_came_before_its_order(tmp_path):
    floor = HostFloor(tmp_path, replace(SETTINGS, risk=RiskDelay(5 * MS)))
    floor.read_messages(FIRST)
    assert floor.send(FIRST, "SimpleNewOrder", **order(1)) == []
    rejected = floor.send(FIRST, "OrderCancelRequest", clOrdID=2, origClOrdID=1, **CANCEL)
    assert names(rejected) == ["Reject"]
    assert rejected[0][1]["cxlRejResponseTo"] == "CANCEL"
    assert later(floor, 5 * MS - 1) == []
    ((name, accepted),) = later(floor, 1)
    assert (name, accepted["clOrdID"]) == ("ExecutionReport_New", 1)
    # Now that the order is there, it can be cancelled.
    cancelled = floor.send(FIRST, "OrderCancelRequest", clOrdID=3, origClOrdID=1, **CANCEL)
    assert names(cancelled) == ["Cancel"]
    floor.end()


def test_003_7_2_a_mass_action_overtakes_too_and_crosses_are_overtaken(tmp_path):
    floor = HostFloor(tmp_path, replace(SETTINGS, risk=RiskDelay(5 * MS)))
    floor.read_messages(FIRST)
    assert floor.send(FIRST, "SimpleNewOrder", **order(1)) == []
    sides = [{"side": "BUY", "clOrdID": 7}, {"side": "SELL", "clOrdID": 8}]
    parties_ = {"senderLocation": "BVMF", "enteringTrader": "ABC"}
    crossed = {"crossID": 5, "securityID": PETR4, "orderQty": 100, "price": 32, "noSides": sides}
    assert floor.send(FIRST, "NewOrderCross", **crossed, **parties_) == []
    replies = floor.send(FIRST, "OrderMassActionRequest", clOrdID=2, massActionType="CANCEL_ORDERS")
    assert names(replies) == ["OrderMassActionReport"]
    arrived = later(floor, 5 * MS)
    assert arrived[0][1]["clOrdID"] == 1
    assert floor.host.engine.market.orders
    floor.end()


def test_orders_arrive_at_their_own_time_however_late_one_looks(tmp_path):
    floor = HostFloor(tmp_path, replace(SETTINGS, risk=RiskDelay(5 * MS)))
    floor.read_messages(FIRST)
    sent = floor.now
    floor.send(FIRST, "SimpleNewOrder", **order(1))
    ((_, accepted),) = later(floor, 1000 * MS)
    assert accepted["transactTime"] == sent + 5 * MS
    floor.end()


@settings(max_examples=30, deadline=None)
@given(st.lists(STEP, max_size=30))
def test_the_same_journal_delivers_everything_again_at_the_same_times(tmp_path_factory, steps):
    floor = HostFloor(tmp_path_factory.mktemp("journal"), SLOW)
    for step in steps:
        floor.do(step)
    expected = whole_state(floor.host)
    again = floor.again()
    assert whole_state(again) == expected
    assert again.holding == floor.host.holding
    # What was on its way when the process ended arrives with the next thing that happens.
    for host in (floor.host, again):
        host.connect(PRIMARY, floor.now + 100 * MS)
        assert not host.holding
    assert whole_state(again) == whole_state(floor.host)


@given(
    st.lists(st.tuples(st.sampled_from(SESSIONS), st.integers(0, 50)), max_size=30),
    st.integers(0, 20),
    st.integers(0, 20),
)
def test_orders_of_a_session_arrive_in_their_order_within_the_bounds(sent, delay, jitter):
    path = RiskQueue()
    path.delay = RiskDelay(delay, jitter)
    now, times, arrived = 0, {}, []
    for number, (session, pause) in enumerate(sent):
        now += pause
        times[number] = now
        key = (session, number, now)
        path.send(key, "", b"", lambda _, each=key[:2]: arrived.append(each))
    dues = []
    while (found := path.arriving(10**9)) is not None:
        due = found.due_ns
        found.arrive(due)
        dues.append(due)
        number = arrived[-1][1]
        earlier = [dues[index] for index, each in enumerate(arrived[:-1])
                   if each[0] == arrived[-1][0]]  # fmt: skip
        assert due > times[number]
        assert due <= max([times[number] + max(delay + jitter, 1), *earlier])
    assert dues == sorted(dues)
    for session in SESSIONS:
        numbers = [number for owner, number in arrived if owner == session]
        assert numbers == sorted(numbers)
    assert len(arrived) == len(sent)


def test_on_the_network_orders_arrive_by_themselves():
    quiet = quiet_settings(risk=RiskDelay(20 * MS))
    with Exchange(quiet) as exchange:
        client = exchange.trader()
        client.new(1)
        client.cancel(2, 1)
        assert client.one("ExecutionReport_Reject")["clOrdID"] == 2
        assert client.one("ExecutionReport_New")["clOrdID"] == 1
        client.cancel(3, 1)
        assert client.one("ExecutionReport_Cancel")["clOrdID"] == 3


def test_the_risk_engine_is_configured_and_off_by_default():
    assert not quiet_settings().risk.takes_time
    read = parse_settings({"risk": {"delay_us": 200, "jitter_us": 50}})
    assert read.risk == RiskDelay(200_000, 50_000)
    with pytest.raises(UsageError, match=r"risk.delay_us must be an integer from 0"):
        parse_settings({"risk": {"delay_us": -1}})
    with pytest.raises(UsageError, match=r"risk.delay is not a known entry. Did you mean delay_us"):
        parse_settings({"risk": {"delay": 1}})
