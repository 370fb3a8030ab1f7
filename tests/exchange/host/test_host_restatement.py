"""Good-till orders of an earlier day are restated, to sessions of version 6 only."""

from datetime import date

import pytest

from tests.exchange.host_desk import ORDER, PETR4, parties, whole_state
from tests.exchange.host_floor import SESSIONS, SETTINGS, HostFloor

FIRST = SESSIONS[0]
GOOD_TILL = {"timeInForce": "GOOD_TILL_CANCEL"}
GOOD_TILL_DATE = {"timeInForce": "GOOD_TILL_DATE", "expireDate": date(2026, 5, 29)}


def next_day(floor):
    """Begin the next day; the clients come again, under a new version of the session."""
    floor.now += 10**9
    floor.host.control({"command": "day", "date": "2026-05-29"}, floor.now)
    floor.numbers = dict.fromkeys(SESSIONS, 1)
    line = floor.lines[FIRST] = floor.host.connect(floor.host.active, floor.now)
    peer = floor.peers[FIRST]
    floor.host.receive(line, peer.negotiate(2, now=floor.now), floor.now)
    floor.host.receive(line, peer.establish(2, 1, now=floor.now), floor.now)
    return floor.read_messages(FIRST)


def with_orders(tmp_path, version, validity=GOOD_TILL):
    floor = HostFloor(tmp_path, SETTINGS, version)
    floor.read_messages(FIRST)
    floor.send(FIRST, "NewOrderSingle", **(ORDER | parties(1, "BUY", 300, 31) | validity),
               memo="keep", account=12)  # fmt: skip
    floor.send(FIRST, "NewOrderSingle", **(ORDER | parties(2, "BUY", 200, 30)))
    floor.send(FIRST, "SimpleNewOrder", **(ORDER | parties(3, "SELL", 100, 31)))
    return floor


@pytest.mark.parametrize("validity", [GOOD_TILL, GOOD_TILL_DATE])
def test_003_7_1_9_at_8_4_2_a_carried_order_is_restated(tmp_path, validity):
    floor = with_orders(tmp_path, 6, validity)
    messages = next_day(floor)
    assert [name for name, _ in messages] == [
        "NegotiateResponse",
        "EstablishAck",
        "ExecutionReport_Modify",
    ]
    values = messages[-1][1]
    assert values["execRestatementReason"] == "GT_RESTATEMENT"
    assert values["ordStatus"] == "RESTATED"
    assert values["timeInForce"] == validity["timeInForce"]
    assert values["expireDate"] == validity.get("expireDate")
    assert (values["clOrdID"], values["origClOrdID"]) == (1, None)
    assert (values["orderQty"], values["cumQty"], values["leavesQty"]) == (300, 100, 200)
    assert (values["memo"], values["account"]) == ("keep", 12)
    assert values["businessHeader"]["msgSeqNum"] == 1
    # It is restated once, also when the journal is replayed.
    floor.host.lost(floor.lines.pop(FIRST), floor.now)
    line = floor.lines[FIRST] = floor.host.connect(floor.host.active, floor.now)
    floor.host.receive(line, floor.peers[FIRST].establish(2, 1, now=floor.now), floor.now)
    assert [name for name, _ in floor.read_messages(FIRST)] == ["EstablishAck"]
    expected = whole_state(floor.host)
    assert whole_state(floor.again()) == expected


@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_003_7_1_9_before_8_4_2_nothing_is_restated(tmp_path, version):
    floor = with_orders(tmp_path, version)
    assert [name for name, _ in next_day(floor)] == ["NegotiateResponse", "EstablishAck"]
    assert [order.cl_ord_id for order in floor.host.engine.market.orders.values()] == [1]
    floor.end()


def test_an_order_that_was_removed_meanwhile_is_not_restated(tmp_path):
    floor = with_orders(tmp_path, 6)
    floor.now += 10**9
    floor.host.control({"command": "day", "date": "2026-05-29"}, floor.now)
    (number,) = floor.host.engine.market.orders
    floor.host.control({"command": "cancel", "order": number}, floor.now)
    floor.host.control({"command": "day", "date": "2026-05-29"}, floor.now)
    assert PETR4 in floor.host.engine.market.listings
    assert not floor.host.engine.market.carried
    floor.end()
