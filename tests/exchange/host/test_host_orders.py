"""Orders over TCP: what each request is answered with, as the documents print it."""

import re
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from pregao.entrypoint import VERSIONS
from pregao.entrypoint.messages import OTHER as OTHER_REASON
from pregao.entrypoint.messages import THROTTLED
from pregao.exchange.engine.matching.self_trade_prevention import investor_number
from pregao.exchange.engine.model import reject_codes
from pregao.exchange.engine.model.reject_codes import Reject
from pregao.exchange.host.gateway.other_requests import UNSUPPORTED
from pregao.exchange.host.gateway.pre_trade import NOT_AUTHORIZED
from tests.entrypoint.raw_peer import SESSION
from tests.exchange.host_desk import PETR4, VALE3, Exchange, row

OTHER = SESSION + 2  # of firm 127
STATE = ("clOrdID", "origClOrdID", "orderID", "orderQty", "ordStatus", "cumQty", "leavesQty")


@pytest.fixture
def exchange():
    with Exchange() as running:
        yield running


@pytest.fixture
def trader(exchange):
    return exchange.trader()


def test_003_7_1_20_1_plain_modification(trader):
    trader.new(20230301, quantity=1000, price=12)
    trader.modify(20230322, 20230301, quantity=1400, price=12)
    new, modified = trader.read_messages(2)
    assert row(new, "clOrdID", "orderID", "price", "orderQty", "ordStatus") == (
        "New", 20230301, 1, 12, 1000, "NEW",
    )  # fmt: skip
    assert row(modified, *STATE) == (
        "Modify", 20230322, 20230301, 1, 1400, "REPLACED", 0, 1400,
    )  # fmt: skip


def test_003_7_1_20_2_modification_in_flight(exchange, trader):
    seller = exchange.trader(session_id=OTHER)
    trader.new(20230301, quantity=1000, price=12)
    trader.one("ExecutionReport_New")
    seller.new(1, "SELL", 200, 12)
    seller.read_messages(2)
    trader.modify(20230322, 20230301, quantity=1300, price=12)
    trade, modified = trader.read_messages(2)
    assert row(trade, "clOrdID", "orderQty", "ordStatus", "cumQty", "leavesQty", "lastQty") == (
        "Trade", 20230301, 1000, "PARTIALLY_FILLED", 200, 800, 200,
    )  # fmt: skip
    assert row(modified, *STATE) == (
        "Modify", 20230322, 20230301, 1, 1300, "REPLACED", 200, 1100,
    )  # fmt: skip


def test_003_7_1_20_3_modification_below_the_filled_quantity(exchange, trader):
    seller = exchange.trader(session_id=OTHER)
    trader.new(20230301, quantity=1000, price=12)
    trader.one("ExecutionReport_New")
    seller.new(1, "SELL", 800, 12)
    seller.read_messages(2)
    trader.modify(20230322, 20230301, quantity=700, price=12)
    trade, cancelled = trader.read_messages(2)
    assert row(trade, "ordStatus", "cumQty", "leavesQty") == ("Trade", "PARTIALLY_FILLED", 800, 200)
    assert row(cancelled, "clOrdID", "origClOrdID", "ordStatus", "cumQty") == (
        "Cancel", 20230322, 20230301, "CANCELED", 800,
    )  # fmt: skip


def test_003_7_3_the_simple_messages_take_fewer_types_and_validities(trader):
    trader.new(1, ordType=ord("K"))
    trader.new(2, timeInForce=ord("6"))
    trader.single(3, ordType="MARKET_WITH_LEFTOVER_AS_LIMIT", price=None)
    first, second, third = trader.read_messages(3)
    assert first[1]["text"].startswith("ordType has no value")
    assert second[1]["text"].startswith("timeInForce has no value")
    assert row(third, "ordRejReason") == ("Reject", 2013)


def test_003_7_3_2_the_simple_change_changes_price_and_quantity_alone(trader):
    trader.single(1, timeInForce="GOOD_TILL_CANCEL", maxFloor=100, price=12)
    trader.modify(2, 1, quantity=2000, price=13, timeInForce="DAY")
    _, modified = trader.read_messages(2)
    assert row(modified, "timeInForce", "maxFloor", "orderQty", "price") == (
        "Modify", "GOOD_TILL_CANCEL", 100, 2000, 13,
    )  # fmt: skip


@pytest.mark.parametrize("version", [2, 6])
@pytest.mark.parametrize("simple", [True, False])
def test_003_7_1_8_an_order_without_a_validity_is_valid_for_the_day(exchange, version, simple):
    client = exchange.trader(version)
    enter = client.new if simple else client.single
    enter(1, timeInForce=None)
    assert row(client.read_messages()[0], "clOrdID", "timeInForce") == ("New", 1, "DAY")
    enter(2, timeInForce=None, quantity=155)
    assert row(client.read_messages()[0], "clOrdID", "ordRejReason") == ("Reject", 2, 5006)


def test_003_7_1_13_the_report_of_a_cancelled_order_says_whether_it_was_working(trader):
    trader.single(1, price=14, ordType="STOP_LIMIT", stopPx=13)
    trader.single(2, timeInForce="AT_THE_CLOSE")
    trader.single(3)
    trader.read_messages(3)
    for number in (1, 2, 3):
        trader.cancel(10 + number, number)
    found = [row(each, "origClOrdID", "workingIndicator") for each in trader.read_messages(3)]
    assert found == [
        ("Cancel", 1, "FALSE_VALUE"),
        ("Cancel", 2, "FALSE_VALUE"),
        ("Cancel", 3, "TRUE_VALUE"),
    ]


def test_003_8_1_1_a_bust_reports_the_aggressor_of_the_trade(exchange, trader):
    seller = exchange.trader(session_id=OTHER)
    trader.new(1, quantity=100)
    trader.one("ExecutionReport_New")
    seller.new(2, "SELL", 100)
    seller.one("ExecutionReport_New")
    trades = [client.one("ExecutionReport_Trade") for client in (trader, seller)]
    exchange.control(command="bust", symbol="PETR4", trade=trades[0]["tradeID"])
    busts = [client.one("ExecutionReport_Trade") for client in (trader, seller)]
    assert [(each["execType"], each["aggressorIndicator"]) for each in busts] == [
        ("TRADE_CANCEL", "FALSE_VALUE"),
        ("TRADE_CANCEL", "TRUE_VALUE"),
    ]
    trader.cross(9, 11, 12, quantity=100)
    crossed = trader.read_messages(4)[2:]
    exchange.control(command="bust", symbol="PETR4", trade=crossed[0][1]["tradeID"])
    busts = [values["aggressorIndicator"] for _, values in trader.read_messages(2)]
    assert busts == ["FALSE_VALUE", "FALSE_VALUE"]


def test_003_8_2_the_documents_list_every_code():
    """The tables of docs/orders.md are the codes and reasons that are sent."""
    page = (Path(__file__).parents[3] / "docs" / "orders.md").read_text()
    section = page.split("## Reject codes\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (\d+) \| (.*?) \|", section, re.MULTILINE)
    codes = [each for each in vars(reject_codes).values() if isinstance(each, Reject)]
    *listed, other, unsupported, forbidden, throttled = [(int(code), text) for code, text in rows]
    assert listed == [(each.code, each.text) for each in sorted(codes, key=lambda x: x.code)]
    assert (other[0], unsupported[0], forbidden[0]) == (OTHER_REASON, UNSUPPORTED, NOT_AUTHORIZED)
    assert throttled == (THROTTLED[0], f"{THROTTLED[1]} (§4.9)")
    assert len(set(codes)) == len(codes)


ME, YOU = {"prefix": 200, "document": 1}, {"prefix": 200, "document": 2}


def test_003_7_3_2_the_simple_change_leaves_and_reports_everything_else(exchange):
    trader = exchange.trader(6)
    names = ("account", "ordTagID", "investorID", "timeInForce", "minQty", "maxFloor")
    trader.single(
        1, account=7, ordTagID=3, investorID=ME, maxFloor=200, timeInForce="GOOD_TILL_CANCEL",
        deskID="desk", memo="mine",
    )  # fmt: skip
    trader.modify(
        2, 1, quantity=900, price=11, account=8, ordTagID=4, investorID=YOU, ordType="MARKET",
        selfTradePreventionInstruction="CANCEL_RESTING_ORDER", memo="why",
    )  # fmt: skip
    new, modified = trader.read_messages(2)
    assert row(modified, *names) == ("Modify", *row(new, *names)[1:])
    assert row(modified, *names)[1:] == (7, 3, ME, "GOOD_TILL_CANCEL", None, 200)
    assert row(modified, "orderQty", "price", "ordType", "deskID", "memo")[1:] == (
        900, 11, "LIMIT", "desk", "why",
    )  # fmt: skip
    state = exchange.call(lambda host: next(iter(host.engine.market.orders.values())))
    assert (state.account, state.ord_tag_id, state.prevention) == (7, 3, 0)
    assert state.investor_id == investor_number(200, 1)
    # A disclosed quantity above the new quantity discloses all of it.
    trader.modify(3, 2, quantity=100, price=11)
    trader.cancel(4, 3)
    modified, cancelled = trader.read_messages(2)
    assert row(modified, "maxFloor", "memo") == ("Modify", None, "mine")
    assert row(cancelled, "maxFloor", "account", "ordTagID") == ("Cancel", None, 7, 3)


def test_003_7_4_a_change_is_confirmed_as_the_engine_made_it(exchange):
    trader = exchange.trader(6)
    day = date(exchange.settings.first_date.year + 1, 1, 2)
    trader.single(
        1, account=7, ordTagID=3, investorID=ME, maxFloor=200, timeInForce="GOOD_TILL_DATE",
        expireDate=day, deskID="desk", memo="mine",
    )  # fmt: skip
    names = ("account", "ordTagID", "investorID", "expireDate", "maxFloor", "deskID", "memo")
    trader.replace(2, 1, timeInForce=None, maxFloor=200)
    trader.replace(3, 2, timeInForce=None, ordTagID=4, investorID=YOU, account=8, memo="new")
    trader.replace(4, 3, timeInForce="DAY", maxFloor=300)
    found = trader.read_messages(4)
    assert [row(each, *names)[1:] for each in found] == [
        (7, 3, ME, day, 200, "desk", "mine"),
        (7, 3, ME, day, 200, "desk", "mine"),
        (8, 4, YOU, day, None, "desk", "new"),
        (8, 4, YOU, None, 300, "desk", "new"),
    ]
    trader.mass_cancel(5, ordTagID=3)
    assert trader.one("OrderMassActionReport")["massActionResponse"] == "ACCEPTED"
    trader.mass_cancel(6, ordTagID=4)
    cancelled, _ = trader.read_messages(2)
    assert row(cancelled, "clOrdID", *names) == (
        "Cancel", 4, 8, 4, YOU, None, 300, "desk", "new",
    )  # fmt: skip


def test_003_7_4_what_a_change_names_takes_effect(exchange, trader):
    seller = exchange.trader(session_id=OTHER)
    trader.single(1, price=11, ordTagID=3, investorID=ME)
    trader.replace(2, 1, price=11, account=8, ordTagID=4, investorID=YOU,
                   selfTradePreventionInstruction="CANCEL_BOTH_ORDERS",
                   routingInstruction="WAIVED_PRIORITY")  # fmt: skip
    trader.read_messages(2)
    state = exchange.call(lambda host: next(iter(host.engine.market.orders.values())))
    assert (state.account, state.ord_tag_id, state.investor_id) == (8, 4, investor_number(200, 2))
    assert (state.prevention, state.routing) == (3, 2)
    for number, investor, report in ((5, YOU, "Cancel"), (6, ME, "Trade")):
        seller.new(number, "SELL", 100, 11, investorID=investor)
        answers = [name for name, _ in seller.read_messages(2)]
        assert answers == ["ExecutionReport_New", f"ExecutionReport_{report}"]


def test_003_7_4_a_minimum_stays_and_a_disclosed_quantity_of_0_is_removed(exchange, trader):
    seller = exchange.trader(session_id=OTHER)
    seller.new(1, "SELL", 300)
    seller.one("ExecutionReport_New")
    trader.single(1, quantity=1000, minQty=200, maxFloor=100)
    trader.read_messages(2)
    trader.replace(2, 1, quantity=900, maxFloor=100)
    trader.replace(3, 2, quantity=900, maxFloor=0, price=11)
    found = [row(each, "minQty", "maxFloor", "leavesQty") for each in trader.read_messages(2)]
    assert found == [("Modify", 200, 100, 600), ("Modify", 200, None, 600)]
    book = exchange.call(lambda host: host.engine.book(PETR4))
    assert [(entry.price, entry.size) for entry in book.bids] == [(110_000, 600)]
    trader.cancel(4, 3)
    assert row(trader.read_messages()[0], "minQty", "maxFloor") == ("Cancel", 200, None)


def test_003_7_6_1_2_chained_identifiers(trader):
    trader.new(202211141530, price=12, quantity=1000)
    trader.modify(202211141531, 202211141530, price=12, quantity=1200)
    trader.modify(202211141532, 202211141531, price=12, quantity=1400)
    found = [row(each, *STATE) for each in trader.read_messages(3)]
    assert found == [
        ("New", 202211141530, None, 1, 1000, "NEW", None, None),
        ("Modify", 202211141531, 202211141530, 1, 1200, "REPLACED", 0, 1200),
        ("Modify", 202211141532, 202211141531, 1, 1400, "REPLACED", 0, 1400),
    ]


def test_003_7_6_1_3_identifiers_are_echoed_in_rejects_too(trader):
    trader.new(202211141530)
    trader.modify(202211141531, 202211141530, quantity=1250, price=12)  # no multiple of the lot
    trader.modify(202211141532, 202211141530, quantity=1400, price=13)
    found = [row(each, "clOrdID", "origClOrdID", "orderQty") for each in trader.read_messages(3)]
    assert found == [
        ("New", 202211141530, None, 1000),
        ("Reject", 202211141531, 202211141530, 1250),
        ("Modify", 202211141532, 202211141530, 1400),
    ]


def test_003_7_6_1_3_a_reject_echoes_the_terms_of_the_request(trader):
    terms = {
        "ordType": "STOP_LIMIT", "price": Decimal("12.0000"), "stopPx": Decimal("11.5000"),
        "minQty": 200, "maxFloor": 300, "account": 9, "deskID": "desk", "memo": "mine",
        "timeInForce": "GOOD_TILL_DATE", "expireDate": date(2026, 5, 29), "orderQty": 1250,
    }  # fmt: skip
    trader.single(1, **terms)  # no multiple of the lot
    ((name, values),) = trader.read_messages()
    assert (name, values["ordRejReason"]) == ("ExecutionReport_Reject", 5006)
    assert {field: values[field] for field in terms} == terms


def test_003_7_6_1_3_one_number_can_be_used_for_a_complete_chain(trader):
    number = 202211141530
    trader.new(number)
    trader.modify(number, number, quantity=1250)
    trader.modify(number, number, quantity=1400)
    trader.cancel(number, number, side="SELL")
    trader.cancel(number, number)
    found = [row(each, "clOrdID", "origClOrdID") for each in trader.read_messages(5)]
    assert [name for name, *_ in found] == ["New", "Reject", "Modify", "Reject", "Cancel"]
    assert {tuple(rest) for _, *rest in found[1:]} == {(number, number)}


def test_003_7_6_2_3_the_public_number_stays_with_fills(exchange, trader):
    seller = exchange.trader(session_id=OTHER)
    trader.new(202211141600, quantity=300)
    (new,) = trader.read_messages()
    seller.new(1, "SELL", 100)
    seller.new(2, "SELL", 200)
    found = [
        row(each, "orderID", "secondaryOrderID", "ordStatus") for each in trader.read_messages(2)
    ]
    number = new[1]["secondaryOrderID"]
    assert found == [
        ("Trade", 1, number, "PARTIALLY_FILLED"),
        ("Trade", 1, number, "FILLED"),
    ]


def test_003_7_6_2_3_the_public_number_changes_with_each_part_shown(exchange, trader):
    seller = exchange.trader(session_id=OTHER)
    trader.single(202211141600, quantity=300, maxFloor=100)
    seller.new(1, "SELL", 100)
    seller.new(2, "SELL", 200)
    found = trader.read_messages(6)
    names = [row(each, "ordStatus") for each in found]
    assert names.count(("New", "RESTATED")) == 2
    shown = [values["secondaryOrderID"] for name, values in found if name.endswith("_New")]
    assert len(set(shown)) == 3
    assert {values["orderID"] for _, values in found} == {1}


def test_003_7_6_3_a_refused_order_gets_an_order_id(trader):
    trader.new(1, quantity=55)
    trader.new(2)
    refused, new = trader.read_messages(2)
    assert refused[1]["orderID"] == 1
    assert new[1]["orderID"] == 2


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_has_its_own_reports(exchange, version):
    """T2 from version 3 on, T4 always, the market segment in the header from 5 on."""
    client = exchange.trader(version)
    client.single(1, account=77, memo="for the report", deskID="desk", ordTagID=9)
    client.replace(2, 1, quantity=2000, timeInForce=None)
    client.cancel(3, 2)
    client.cancel(4, 3)
    names = ["New", "Modify", "Cancel", "Reject"]
    found = client.read_messages(4)
    assert [name for name, *_ in map(row, found)] == names
    for name, values in found[:3]:
        assert values["account"] == 77, name
        assert values["marketSegmentReceivedTime"] == values["transactTime"]
    for name, values in found:
        assert ("receivedTime" in values) == (version >= 3), name
        if version >= 3:
            assert values["receivedTime"] == values["transactTime"]
        header = values["businessHeader"]
        assert header.get("possResend", "FALSE_VALUE") == "FALSE_VALUE"
        assert header.get("eventIndicator", 0) == 0
        segment = header.get("marketSegmentID")
        assert segment == (80 if version >= 5 else None)
    if version >= 3:
        assert found[0][1]["ordTagID"] == found[2][1]["ordTagID"] == 9


def test_003_8_1_1_reports_name_the_aggressor(exchange, trader):
    seller = exchange.trader(session_id=OTHER)
    trader.new(1, quantity=100)
    trader.one("ExecutionReport_New")
    seller.new(2, "SELL", 100)
    seller.one("ExecutionReport_New")
    passive, active = (client.one("ExecutionReport_Trade") for client in (trader, seller))
    assert passive["aggressorIndicator"] == "FALSE_VALUE"
    assert active["aggressorIndicator"] == "TRUE_VALUE"
    assert passive["tradeID"] == active["tradeID"]
    assert (passive["contraBroker"], active["contraBroker"]) == (127, 85)


def test_003_12_the_memo_is_echoed_and_only_to_its_owner(exchange, trader):
    seller = exchange.trader(session_id=OTHER)
    trader.new(1, quantity=200, memo="mine")
    seller.new(2, "SELL", 100, memo="yours")
    assert [values["memo"] for _, values in trader.read_messages(2)] == ["mine", "mine"]
    assert [values["memo"] for _, values in seller.read_messages(2)] == ["yours", "yours"]
    trader.cancel(3, 1, memo="why")
    assert trader.one("ExecutionReport_Cancel")["memo"] == "why"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"memo": "bell \x07"}, "memo has non-printable characters"),
        ({"senderLocation": ""}, "senderLocation needs a value"),
        ({"enteringTrader": ""}, "enteringTrader needs a value"),
        ({"side": ord("9")}, "side has no value"),
        ({"mmProtectionReset": 7}, "mmProtectionReset has no value 7"),
        ({"clOrdID": 0}, "clOrdID needs a value"),
    ],
)
def test_003_16_malformed_messages_get_a_business_reject(trader, changes, text):
    trader.new(5, **changes)
    values = trader.one("BusinessMessageReject")
    assert values["text"].startswith(text)
    assert values["refSeqNum"] == 1
    assert values["refMsgType"] == "SimpleNewOrder"
    trader.new(6)
    assert trader.one("ExecutionReport_New")["clOrdID"] == 6


@pytest.mark.parametrize("name", ["SimpleNewOrder", "NewOrderSingle", "NewOrderCross"])
def test_003_12_a_memo_of_more_than_40_characters_is_rejected(trader, name):
    """A sender that minds no schema can write one: its length has a byte."""
    sent = []
    trader.send_data = sent.append
    if name == "NewOrderCross":
        trader.cross(9, 1, 2, memo="x" * 40)
    else:
        (trader.new if name == "SimpleNewOrder" else trader.single)(1, memo="x" * 40)
    frame = sent[0][:-41] + bytes([60]) + b"y" * 60
    trader.socket.sendall(len(frame).to_bytes(2, "little") + frame[2:])
    values = trader.one("BusinessMessageReject")
    assert values["text"] == "memo is longer than 40 characters"
    assert values["memo"] is None


def test_003_4_6_3_1_the_segment_chooses_the_engine(trader):
    trader.request("SimpleNewOrder", segment=99, **_simple(1))
    trader.request("SimpleNewOrder", segment=72, **_simple(2))
    first, second = trader.read_messages(2)
    assert first[0] == "BusinessMessageReject"
    assert "99 is not a segment" in first[1]["text"]
    assert row(second, "clOrdID", "ordRejReason") == ("Reject", 2, 2047)


def _simple(number):
    from tests.exchange.host_desk import ORDER, parties

    return ORDER | parties(number, "BUY", 1000, 12)


def test_003_13_1_the_account_is_kept_changed_and_removed(trader):
    trader.single(1, account=10)
    trader.replace(2, 1)
    trader.replace(3, 2, account=11)
    trader.replace(4, 3, accountType="REMOVE_ACCOUNT_INFORMATION")
    found = [values["account"] for _, values in trader.read_messages(4)]
    assert found == [10, 10, 11, None]


LOCATIONS = {  # whether each category of §11 is direct market access
    "BVMF": False, "REPS": False,
    "DMA1": True, "XYZ": True, "PROVIDER7": True, "DMA3": True, "COLO0": True, "COLO1": True,
}  # fmt: skip


@pytest.mark.parametrize("named", ["BVMF", "DMA1", "XYZ"])
@pytest.mark.parametrize("location", LOCATIONS)
def test_003_13_1_an_account_of_direct_access_cannot_be_removed(trader, location, named):
    """The order's own location decides, whatever the change names."""
    trader.single(1, account=10, senderLocation=location)
    trader.replace(2, 1, senderLocation=named)
    trader.replace(3, 2, accountType="REMOVE_ACCOUNT_INFORMATION", senderLocation=named)
    _, modified, answer = trader.read_messages(3)
    assert modified[1]["account"] == 10
    if LOCATIONS[location]:
        assert row(answer, "ordRejReason", "cxlRejResponseTo") == ("Reject", 7031, "REPLACE")
    else:
        assert row(answer, "clOrdID", "account") == ("Modify", 3, None)


@pytest.mark.parametrize(("location", "code"), [("DMA3", 7031), ("BVMF", None)])
def test_003_13_1_the_location_of_a_cross_is_that_of_its_orders(exchange, location, code):
    band = {"command": "band", "symbol": "PETR4", "kind": "AUCTION_LIMITS"}
    exchange.control(**band, low="11", high="13")
    trader = exchange.trader()
    sides = [{"side": "BUY", "clOrdID": 1, "account": 7}, {"side": "SELL", "clOrdID": 2}]
    trader.cross(9, 1, 2, price=15, noSides=sides, senderLocation=location)
    trader.read_messages(2)
    trader.replace(3, 1, price=15, accountType="REMOVE_ACCOUNT_INFORMATION")
    assert trader.read_messages()[0][1].get("ordRejReason") == code


def test_003_13_2_the_desk_of_an_order_is_echoed_until_another_is_named(exchange, trader):
    trader.single(1, deskID="desk one")
    trader.single(2, deskID="desk two")
    trader.replace(3, 1, price=11)
    trader.replace(4, 3, price=11, deskID="desk three")
    trader.cancel(5, 4)
    trader.cancel(6, 2, deskID="desk four")
    trader.single(7, deskID="d" * 20)
    trader.mass_cancel(8)
    found = [values["deskID"] for _, values in trader.read_messages(8)]
    assert found == [
        "desk one", "desk two", "desk one", "desk three", "desk three", "desk four", "d" * 20,
        "d" * 20,
    ]  # fmt: skip
    assert trader.one("OrderMassActionReport")["massActionResponse"] == "ACCEPTED"


def test_003_9_the_custodian_of_an_order_is_kept_as_a_whole(exchange, trader):
    first = {"custodian": 1, "custodyAccount": 2, "custodyAllocationType": 3}

    def kept():
        (known,) = exchange.call(lambda host: list(host.request_router.state()[1][0].values()))
        return known.custodian, known.custody_account, known.custody_type

    trader.single(1, custodianInfo=first)
    trader.one("ExecutionReport_New")
    assert kept() == (1, 2, 3)
    trader.replace(2, 1, price=11)
    trader.one("ExecutionReport_Modify")
    assert kept() == (1, 2, 3)
    other = {"custodian": 9, "custodyAccount": None, "custodyAllocationType": None}
    trader.replace(3, 2, price=11, custodianInfo=other)
    trader.one("ExecutionReport_Modify")
    assert kept() == (9, None, None)
    trader.modify(4, 3, price=12)
    trader.one("ExecutionReport_Modify")
    assert kept() == (9, None, None)


def test_003_16_1_1_cancel_by_client_number(trader):
    trader.new(1)
    trader.cancel(2, 1)
    _, cancelled = trader.read_messages(2)
    assert row(cancelled, "clOrdID", "origClOrdID", "orderID", "ordStatus") == (
        "Cancel", 2, 1, 1, "CANCELED",
    )  # fmt: skip


def test_003_16_1_2_cancel_of_a_filled_order(exchange, trader):
    seller = exchange.trader(session_id=OTHER)
    trader.new(1, quantity=100)
    seller.new(2, "SELL", 100)
    seller.read_messages(2)
    trader.cancel(3, 1)
    found = trader.read_messages(3)
    assert row(found[2], "clOrdID", "origClOrdID", "cxlRejResponseTo", "ordRejReason") == (
        "Reject", 3, 1, "CANCEL", 5,
    )  # fmt: skip


def test_003_16_1_3_a_changed_order_keeps_its_order_id(trader):
    trader.new(1)
    trader.replace(2, 1, price=13)
    new, modified = trader.read_messages(2)
    assert modified[1]["orderID"] == new[1]["orderID"]


def test_003_16_1_4_mass_action(trader):
    trader.new(1)
    trader.new(2, securityID=VALE3)
    trader.single(3, timeInForce="GOOD_TILL_CANCEL", price=11)
    trader.read_messages(3)
    trader.mass_cancel(4)
    first, second, report = trader.read_messages(3)
    for each in (first, second):
        assert each[1]["execRestatementReason"] == "ORDER_MASS_ACTION_FROM_CLIENT_REQUEST"
        assert each[1]["massActionReportID"] == report[1]["massActionReportID"]
        assert each[1]["clOrdID"] in (1, 2)
    assert row(report, "clOrdID", "massActionResponse") == (
        "OrderMassActionReport", 4, "ACCEPTED",
    )  # fmt: skip


def test_003_4_8_filters_of_a_mass_action(trader):
    trader.new(1, ordTagID=5)
    trader.new(2, "SELL", price=20)
    trader.new(3, securityID=VALE3)
    trader.read_messages(3)
    trader.mass_cancel(10, ordTagID=5)
    assert trader.one("ExecutionReport_Cancel")["clOrdID"] == 1
    trader.one("OrderMassActionReport")
    trader.mass_cancel(11, side="SELL")
    assert trader.one("ExecutionReport_Cancel")["clOrdID"] == 2
    trader.one("OrderMassActionReport")
    trader.mass_cancel(12, securityID=PETR4)
    trader.one("OrderMassActionReport")
    trader.mass_cancel(13, securityID=VALE3)
    assert trader.one("ExecutionReport_Cancel")["clOrdID"] == 3


def test_a_mass_action_that_is_not_served_is_refused(exchange, trader):
    trader.new(1)
    trader.one("ExecutionReport_New")
    trader.request(
        "OrderMassActionRequest", 80, clOrdID=3, massActionType="CANCEL_AND_SUSPEND_ORDERS"
    )
    refused = trader.one("OrderMassActionReport")
    assert refused["massActionRejectReason"] == "MASS_ACTION_NOT_SUPPORTED"
    trader.request("OrderMassActionRequest", 99, clOrdID=4, massActionType="CANCEL_ORDERS")
    refused = trader.one("OrderMassActionReport")
    assert refused["massActionRejectReason"] == "INVALID_OR_UNKNOWN_MARKET_SEGMENT"
    assert exchange.call(lambda host: len(host.engine.market.orders)) == 1


def test_a_mass_action_is_of_its_segment(exchange, trader):
    trader.new(1)
    trader.one("ExecutionReport_New")
    trader.request("OrderMassActionRequest", 72, clOrdID=2, massActionType="CANCEL_ORDERS")
    assert trader.one("OrderMassActionReport")["massActionResponse"] == "ACCEPTED"
    assert exchange.call(lambda host: len(host.engine.market.orders)) == 1


def test_003_16_1_4_asset_and_investor_choose_too(trader):
    investor = {"prefix": 200, "document": 123456789}
    trader.new(1, investorID=investor)
    trader.new(2, securityID=VALE3)
    trader.read_messages(2)
    trader.mass_cancel(3, asset="VALE")
    assert trader.one("ExecutionReport_Cancel")["clOrdID"] == 2
    trader.one("OrderMassActionReport")
    trader.mass_cancel(4, investorID=investor)
    assert trader.one("ExecutionReport_Cancel")["clOrdID"] == 1
    assert trader.one("OrderMassActionReport")["investorID"] == investor


def test_003_16_2_1_an_investor_does_not_trade_with_itself(exchange):
    client = exchange.trader(6)
    investor = {"prefix": 200, "document": 123456789}
    wish = "CANCEL_RESTING_ORDER"
    client.new(1, "BUY", 100, investorID=investor)
    client.new(2, "SELL", 100, investorID=investor, selfTradePreventionInstruction=wish)
    found = client.read_messages(3)
    assert row(found[2], "clOrdID", "execRestatementReason") == (
        "Cancel", 1, "CANCEL_RESTING_ORDER_ON_SELF_TRADE",
    )  # fmt: skip


def test_003_7_1_4_a_stop_order_waits_and_reports_its_stop_price(exchange, trader):
    other = exchange.trader(session_id=OTHER)
    trader.single(1, "BUY", 100, 14, ordType="STOP_LIMIT", stopPx=13, memo="mine")
    new = trader.one("ExecutionReport_New")
    assert (new["workingIndicator"], new["stopPx"]) == ("FALSE_VALUE", 13)
    other.new(1, "SELL", 100, 13)
    other.new(2, "BUY", 100, 13)
    other.read_messages(4)
    triggered = trader.one("ExecutionReport_New")
    assert (triggered["ordStatus"], triggered["workingIndicator"]) == ("NEW", "TRUE_VALUE")
    assert (triggered["orderID"], triggered["memo"]) == (new["orderID"], "mine")


def test_003_7_2_a_cancel_by_mistake_is_reported_as_such(trader):
    trader.new(1)
    trader.cancel(2, 1, execRestatementReason="CANCEL_ORDER_DUE_TO_OPERATIONAL_ERROR")
    _, cancelled = trader.read_messages(2)
    reason = "ORDER_CANCELLED_DUE_TO_OPERATIONAL_ERROR"
    assert cancelled[1]["execRestatementReason"] == reason


def test_003_16_1_5_a_sweep_takes_the_book_first(exchange):
    client = exchange.trader(6)
    other = exchange.trader(session_id=OTHER)
    other.new(1, "SELL", 300, 12)
    other.one("ExecutionReport_New")
    client.cross(
        9, 1, 2, quantity=1000, price=12, crossType="CROSS_EXECUTED_AGAINST_BOOK_FROM_CLIENT",
        crossPrioritization="BUY_SIDE_IS_PRIORITIZED",
    )  # fmt: skip
    assert other.one("ExecutionReport_Trade")["lastQty"] == 300
    found = client.read_messages(2)
    assert [values["crossType"] for _, values in found] == [
        "CROSS_EXECUTED_AGAINST_BOOK_FROM_CLIENT"
    ] * 2


def test_003_16_1_5_cross_order(trader):
    trader.cross(9, 1, 2, quantity=1000, price=12, memo="both", crossedIndicator="TWAP_VWAP")
    found = trader.read_messages(4)
    assert [row(each, "side", "crossID", "memo") for each in found[:2]] == [
        ("New", "BUY", 9, "both"),
        ("New", "SELL", 9, "both"),
    ]
    assert {each[1]["side"] for each in found[2:]} == {"BUY", "SELL"}
    for name, values in found[2:]:
        assert name == "ExecutionReport_Trade"
        assert values["crossID"] == 9
        assert values["crossedIndicator"] == "TWAP_VWAP"
        assert values["ordStatus"] == "FILLED"


def test_003_16_1_5_a_cross_through_the_book_is_refused_on_both_sides(trader):
    trader.new(1, price=13)
    trader.one("ExecutionReport_New")
    trader.cross(9, 2, 3, price=12)
    found = trader.read_messages(2)
    assert [row(each, "side", "clOrdID", "crossID", "ordRejReason") for each in found] == [
        ("Reject", "BUY", 2, 9, 2137),
        ("Reject", "SELL", 3, 9, 2137),
    ]


def test_crosses_that_make_no_sense_are_refused(exchange):
    client = exchange.trader(6)
    sides = [{"side": "BUY", "clOrdID": 1}, {"side": "BUY", "clOrdID": 2}]
    client.cross(9, 1, 2, noSides=sides)
    assert "one SELL side" in client.one("BusinessMessageReject")["text"]
    client.cross(9, 1, 2, quantity=2**64 - 1)
    client.cross(9, 1, 2, crossType="VWAP_CROSS", price="1")
    codes = [values["ordRejReason"] for _, values in client.read_messages(4)]
    assert codes == [2115, 2115, 2311, 2311]


def test_numbers_of_any_size_are_refused_or_accepted_but_never_harm(exchange):
    client = exchange.trader(6)
    client.new(2**64 - 1, quantity=2**64 - 1)
    client.new(2**63, quantity=100, price="99999999999999.9999")
    client.new(1, quantity=0)
    client.new(2, securityID=2**64 - 1)
    client.single(3, maxFloor=2**63, minQty=2**63)
    codes = [row(each, "ordRejReason") for each in client.read_messages(5)]
    assert codes == [
        ("Reject", 2115), ("Reject", 2137), ("Reject", 2115), ("Reject", 2047), ("Reject", 2046),
    ]  # fmt: skip


def test_a_good_till_date_order_reports_its_date(trader, exchange):
    day = exchange.settings.first_date
    trader.single(1, timeInForce="GOOD_TILL_DATE", expireDate=date(day.year + 1, 1, 2))
    assert trader.one("ExecutionReport_New")["expireDate"] == date(day.year + 1, 1, 2)


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("firm", [127, 1, 2**32 - 1])
def test_003_4_5_2_a_session_crosses_for_its_own_firm_alone(exchange, side, firm):
    trader = exchange.trader()
    sides = [{"side": "BUY", "clOrdID": 1}, {"side": "SELL", "clOrdID": 2}]
    sides[side]["enteringFirm"] = firm
    trader.cross(9, 1, 2, noSides=sides)
    values = trader.one("BusinessMessageReject")
    assert (values["businessRejectReason"], values["text"]) == (
        6, f"enteringFirm {firm} is not the firm of this session",
    )  # fmt: skip
    for each in sides:
        each["enteringFirm"] = 85
    trader.cross(10, 1, 2, noSides=sides)
    assert [name for name, _ in trader.read_messages(4)][2:] == ["ExecutionReport_Trade"] * 2
