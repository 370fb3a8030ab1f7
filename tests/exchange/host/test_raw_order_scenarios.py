"""Orders of the raw client over TCP, by the sections of 003: conversations with one exchange."""

from decimal import Decimal

import pytest

from tests.exchange.raw_floor import SOON, Desk, raw_market, report


@pytest.fixture(scope="module")
def market():
    with raw_market() as running:
        yield running


@pytest.fixture
def desk(market):
    return Desk(market)


# 7.1 Order types and validities

TYPES = {
    # type: price, stop price
    "MARKET": (None, None),
    "LIMIT": (12, None),
    "STOP_LOSS": (None, 13),
    "STOP_LIMIT": (14, 13),
    "MARKET_WITH_LEFTOVER_AS_LIMIT": (None, None),
    "RLP": (None, None),
    "PEGGED_MIDPOINT": (12, None),
}
WORKING, WAITING, REMOVED = "working", "waiting", "gone"
ALONE = 2013
"""Refused: there is no order on the other side."""
NOT_TOGETHER, NOT_NOW = 7047, 7027
ANSWERS = [
    ("7_1_1", "MARKET", "DAY", WORKING),
    ("7_1_1", "MARKET", "GOOD_TILL_CANCEL", WORKING),
    ("7_1_1", "MARKET", "IMMEDIATE_OR_CANCEL", REMOVED),
    ("7_1_1", "MARKET", "FILL_OR_KILL", REMOVED),
    ("7_1_1", "MARKET", "GOOD_TILL_DATE", WORKING),
    ("7_1_13", "MARKET", "AT_THE_CLOSE", WAITING),
    ("7_1_14", "MARKET", "GOOD_FOR_AUCTION", NOT_NOW),
    ("7_1_8", "LIMIT", "DAY", WORKING),
    ("7_1_9", "LIMIT", "GOOD_TILL_CANCEL", WORKING),
    ("7_1_10", "LIMIT", "IMMEDIATE_OR_CANCEL", REMOVED),
    ("7_1_11", "LIMIT", "FILL_OR_KILL", REMOVED),
    ("7_1_12", "LIMIT", "GOOD_TILL_DATE", WORKING),
    ("7_1_13", "LIMIT", "AT_THE_CLOSE", WAITING),
    ("7_1_14", "LIMIT", "GOOD_FOR_AUCTION", NOT_NOW),
    ("7_1_3", "STOP_LOSS", "DAY", WAITING),
    ("7_1_3", "STOP_LOSS", "GOOD_TILL_CANCEL", WAITING),
    ("7_1_3", "STOP_LOSS", "AT_THE_CLOSE", NOT_TOGETHER),
    ("7_1_4", "STOP_LIMIT", "DAY", WAITING),
    ("7_1_4", "STOP_LIMIT", "GOOD_TILL_DATE", WAITING),
    ("7_1_4", "STOP_LIMIT", "AT_THE_CLOSE", NOT_TOGETHER),
    ("7_1_5", "MARKET_WITH_LEFTOVER_AS_LIMIT", "DAY", ALONE),
    ("7_1_5", "MARKET_WITH_LEFTOVER_AS_LIMIT", "AT_THE_CLOSE", NOT_TOGETHER),
    ("7_1_6", "RLP", "GOOD_TILL_CANCEL", NOT_TOGETHER),
    ("7_1_6", "RLP", "FILL_OR_KILL", NOT_TOGETHER),
    ("7_1", "PEGGED_MIDPOINT", "IMMEDIATE_OR_CANCEL", REMOVED),
    ("7_1", "PEGGED_MIDPOINT", "DAY", WORKING),
    ("7_1", "PEGGED_MIDPOINT", "GOOD_TILL_CANCEL", NOT_TOGETHER),
]


@pytest.mark.parametrize(
    ("kind", "validity", "answer"), [each[1:] for each in ANSWERS],
    ids=[f"{section}-{kind}-{validity}" for section, kind, validity, _ in ANSWERS],
)  # fmt: skip
def test_003_7_1_each_type_with_each_validity_in_an_empty_book(desk, kind, validity, answer):
    client = desk.trader()
    price, stop = TYPES[kind]
    more = {"expireDate": SOON} if validity == "GOOD_TILL_DATE" else {}
    if stop is not None:
        more["stopPx"] = Decimal(stop)
    desk.order(client, 1, price=price, ordType=kind, timeInForce=validity, **more)
    if isinstance(answer, int):
        report(client, "Reject", clOrdID=1, ordRejReason=answer, cxlRejResponseTo="NEW")
        return
    values = report(
        client, "New", clOrdID=1, ordStatus="NEW", ordType=kind, timeInForce=validity, orderQty=100,
        workingIndicator="FALSE_VALUE" if answer is WAITING else "TRUE_VALUE",
        expireDate=more.get("expireDate"), stopPx=more.get("stopPx"),
    )  # fmt: skip
    if answer is REMOVED:
        report(client, "Cancel", clOrdID=1, orderID=values["orderID"], ordStatus="CANCELED",
               cumQty=0)  # fmt: skip
    else:
        client.cancel(2, 1, securityID=desk.security)
        report(client, "Cancel", clOrdID=2, origClOrdID=1, ordStatus="CANCELED")


def test_003_7_1_10_what_an_immediate_order_does_not_trade_is_cancelled(desk):
    seller, buyer = desk.trader(), desk.trader()
    desk.order(seller, 1, "SELL", 400, "10.58")
    report(seller, "New")
    desk.order(buyer, 20_230_201, "BUY", 700, "10.58", timeInForce="IMMEDIATE_OR_CANCEL")
    new = report(buyer, "New", orderQty=700, ordStatus="NEW", price=Decimal("10.5800"))
    report(buyer, "Trade", clOrdID=20_230_201, orderID=new["orderID"], lastQty=400, cumQty=400,
           lastPx=Decimal("10.5800"), ordStatus="PARTIALLY_FILLED", leavesQty=300,
           aggressorIndicator="TRUE_VALUE")  # fmt: skip
    report(buyer, "Cancel", clOrdID=20_230_201, ordStatus="CANCELED", cumQty=400)
    report(seller, "Trade", lastQty=400, ordStatus="FILLED", leavesQty=0,
           aggressorIndicator="FALSE_VALUE")  # fmt: skip


def test_003_7_1_11_a_fill_or_kill_order_trades_all_or_nothing(desk):
    seller, buyer = desk.trader(), desk.trader()
    desk.order(seller, 1, "SELL", 400, 10)
    report(seller, "New")
    desk.order(buyer, 1, "BUY", 500, 10, timeInForce="FILL_OR_KILL")
    report(buyer, "New", ordStatus="NEW")
    report(buyer, "Cancel", ordStatus="CANCELED", cumQty=0)
    desk.order(buyer, 2, "BUY", 400, 10, timeInForce="FILL_OR_KILL")
    report(buyer, "New", ordStatus="NEW")
    report(buyer, "Trade", ordStatus="FILLED", lastQty=400, leavesQty=0)


def test_003_7_1_5_1_the_remainder_of_a_market_order_becomes_a_limit_order(desk):
    seller, buyer = desk.trader(), desk.trader()
    desk.order(seller, 1, "SELL", 2000, "10.58")
    report(seller, "New")
    desk.order(buyer, 202_301, "BUY", 7000, None, ordType="MARKET_WITH_LEFTOVER_AS_LIMIT")
    report(buyer, "New", ordType="MARKET_WITH_LEFTOVER_AS_LIMIT", price=None, orderQty=7000)
    report(buyer, "Trade", lastQty=2000, lastPx=Decimal("10.5800"), ordStatus="PARTIALLY_FILLED",
           leavesQty=5000)  # fmt: skip
    report(seller, "Trade", ordStatus="FILLED")
    desk.order(seller, 2, "SELL", 1000, "10.58")
    report(seller, "New")
    report(buyer, "Trade", lastQty=1000, lastPx=Decimal("10.5800"), leavesQty=4000, cumQty=3000)


def test_003_7_1_16_an_iceberg_shows_its_part_again_under_another_number(desk):
    owner, taker = desk.trader(), desk.trader()
    desk.order(owner, 1, "SELL", 10_000, 10, maxFloor=500)
    first = report(owner, "New", orderQty=10_000, maxFloor=500, ordStatus="NEW")
    desk.order(taker, 1, "BUY", 500, 10)
    report(taker, "New")
    report(taker, "Trade", lastQty=500, ordStatus="FILLED")
    report(owner, "Trade", lastQty=500, leavesQty=9500, ordStatus="PARTIALLY_FILLED")
    again = report(owner, "New", ordStatus="RESTATED", orderID=first["orderID"])
    assert again["secondaryOrderID"] != first["secondaryOrderID"]


@pytest.mark.parametrize(("least", "kinds"), [(500, ["New", "Cancel"]), (300, ["New", "Trade"])])
def test_003_7_1_17_a_minimum_that_is_not_there_cancels_the_order(desk, least, kinds):
    seller, buyer = desk.trader(), desk.trader()
    desk.order(seller, 1, "SELL", 400, 10)
    report(seller, "New")
    desk.order(buyer, 1, "BUY", 1000, 10, minQty=least)
    assert [name for name, _ in buyer.read_messages(2)] == [
        f"ExecutionReport_{kind}" for kind in kinds
    ]


def test_003_7_1_18_quantities_of_several_fills(desk):
    buyer, seller = desk.trader(), desk.trader()
    desk.order(buyer, 1, "BUY", 1000, 10)
    report(buyer, "New")
    for number, quantity, left in ((1, 300, 700), (2, 500, 200), (3, 200, 0)):
        desk.order(seller, number, "SELL", quantity, 10)
        report(seller, "New")
        report(seller, "Trade", lastQty=quantity, leavesQty=0, ordStatus="FILLED")
        report(buyer, "Trade", lastQty=quantity, leavesQty=left, cumQty=1000 - left,
               ordStatus="PARTIALLY_FILLED" if left else "FILLED")  # fmt: skip


def test_003_7_1_19_the_cancelled_quantity_follows_from_two_quantities(desk):
    buyer, seller = desk.trader(), desk.trader()
    desk.order(buyer, 1, "BUY", 1000, 10)
    desk.order(seller, 1, "SELL", 300, 10)
    report(buyer, "New")
    report(buyer, "Trade", lastQty=300)
    buyer.cancel(2, 1, securityID=desk.security)
    report(buyer, "Cancel", orderQty=1000, cumQty=300, ordStatus="CANCELED")


# 7.2, 8 Changes, cancels and rejects


@pytest.mark.parametrize("simple", [True, False])
def test_003_7_1_20_1_a_change_is_confirmed_with_both_numbers(desk, simple):
    client = desk.trader()
    desk.order(client, 1, quantity=300)
    new = report(client, "New")
    change = client.modify if simple else client.replace
    change(2, 1, quantity=500, price=13, securityID=desk.security)
    report(client, "Modify", clOrdID=2, origClOrdID=1, orderID=new["orderID"], orderQty=500,
           price=Decimal("13.0000"), leavesQty=500, cumQty=0, ordStatus="REPLACED")  # fmt: skip


@pytest.mark.parametrize("kind", ["modify", "replace", "cancel"])
def test_003_16_1_2_missing_orders_cannot_be_changed(desk, kind):
    client = desk.trader()
    getattr(client, kind)(2, 1, securityID=desk.security)
    response = "CANCEL" if kind == "cancel" else "REPLACE"
    report(client, "Reject", clOrdID=2, origClOrdID=1, cxlRejResponseTo=response)


@pytest.mark.parametrize("by", ["origClOrdID", "orderID"])
def test_003_16_1_1_an_order_is_cancelled_by_either_number(desk, by):
    client = desk.trader()
    desk.order(client, 1)
    new = report(client, "New")
    number = {"origClOrdID": 1, "orderID": None} if by == "origClOrdID" else {
        "origClOrdID": None, "orderID": new["orderID"],
    }  # fmt: skip
    client.cancel(2, securityID=desk.security, original=number.pop("origClOrdID"), **number)
    report(client, "Cancel", clOrdID=2, orderID=new["orderID"], ordStatus="CANCELED")


@pytest.mark.parametrize("quantity", [0, 1, 99, 101, 2**63])
def test_003_8_a_quantity_that_is_no_lot_is_rejected(desk, quantity):
    client = desk.trader()
    desk.order(client, 1, quantity=quantity)
    ((name, values),) = client.read_messages()
    assert name in ("ExecutionReport_Reject", "BusinessMessageReject")
    assert values["text"]
    desk.order(client, 2)
    report(client, "New", clOrdID=2)


def test_003_8_an_instrument_that_is_not_there_is_rejected(desk):
    client = desk.trader()
    client.single(1, securityID=42)
    assert report(client, "Reject", clOrdID=1)["text"]


# 4.8 Mass cancel


@pytest.mark.parametrize(("side", "gone"), [(None, [1, 2]), ("BUY", [1]), ("SELL", [2])])
def test_003_4_8_a_mass_cancel_chooses_by_side(desk, side, gone):
    client = desk.trader()
    desk.order(client, 1, "BUY", price=10)
    desk.order(client, 2, "SELL", price=14)
    client.read_messages(2)
    client.mass_cancel(3, side=side)
    *cancelled, (name, values) = client.read_messages(len(gone) + 1)
    assert (name, values["massActionResponse"], values["clOrdID"]) == (
        "OrderMassActionReport", "ACCEPTED", 3,
    )  # fmt: skip
    assert [values["clOrdID"] for _, values in cancelled] == gone
    assert {(values["ordStatus"], values["execRestatementReason"]) for _, values in cancelled} == {
        ("CANCELED", "ORDER_MASS_ACTION_FROM_CLIENT_REQUEST")
    }


@pytest.mark.parametrize("validity", ["GOOD_TILL_CANCEL", "GOOD_TILL_DATE"])
def test_003_16_1_4_1_orders_of_several_days_are_not_mass_cancelled(desk, validity):
    client = desk.trader()
    expiry = {"expireDate": SOON} if validity == "GOOD_TILL_DATE" else {}
    desk.order(client, 1, timeInForce=validity, **expiry)
    report(client, "New")
    client.mass_cancel(2)
    assert client.one("OrderMassActionReport")["massActionResponse"] == "ACCEPTED"
    client.cancel(3, 1, securityID=desk.security)
    report(client, "Cancel", clOrdID=3, ordStatus="CANCELED")


# 16.1.5 Crosses


def test_003_16_1_5_a_cross_trades_both_sides_with_each_other(desk):
    client = desk.trader()
    client.cross(9, 1, 2, quantity=100, price=12, securityID=desk.security)
    found = client.read_messages(4)
    kinds = [
        (name.removeprefix("ExecutionReport_"), values["side"], values["clOrdID"])
        for name, values in found
    ]
    assert kinds[:2] == [("New", "BUY", 1), ("New", "SELL", 2)]
    assert sorted(kinds[2:]) == [("Trade", "BUY", 1), ("Trade", "SELL", 2)]
    assert {values["crossID"] for _, values in found} == {9}
    assert {values["lastPx"] for name, values in found if name.endswith("Trade")} == {12}


# 15.4 Self-trade prevention


BY_ITSELF, RESTING = "SELF_TRADING_PREVENTION", "CANCEL_RESTING_ORDER_ON_SELF_TRADE"


@pytest.mark.parametrize(
    ("instruction", "buyer", "seller"),
    [
        ("CANCEL_AGGRESSOR_ORDER", [BY_ITSELF], []),
        ("CANCEL_RESTING_ORDER", [], [RESTING]),
        ("CANCEL_BOTH_ORDERS", [BY_ITSELF], [RESTING]),
        ("NONE", [BY_ITSELF], []),
    ],
)
def test_003_15_4_1_an_investor_does_not_trade_with_itself(desk, instruction, buyer, seller):
    one, other = desk.trader(), desk.trader()
    investor = {"investorID": {"prefix": 300, "document": 123_456}}
    desk.order(other, 1, "SELL", 100, 10, **investor)
    report(other, "New")
    desk.order(one, 1, "BUY", 100, 10, **investor, selfTradePreventionInstruction=instruction)
    report(one, "New")
    for client, reasons in ((one, buyer), (other, seller)):
        desk.order(client, 5, "BUY", 100, 1)  # what comes before its report is all there is
        *found, (last, _) = client.read_messages(len(reasons) + 1)
        assert [values["execRestatementReason"] for _, values in found] == reasons
        assert {name for name, _ in found} <= {"ExecutionReport_Cancel"}
        assert last == "ExecutionReport_New"


@pytest.mark.parametrize("document", [None, 7])
def test_003_16_2_1_without_the_same_investor_orders_trade(desk, document):
    one, other = desk.trader(), desk.trader()
    own = None if document is None else {"prefix": 300, "document": document}
    desk.order(other, 1, "SELL", 100, 10, investorID={"prefix": 300, "document": 123_456})
    report(other, "New")
    desk.order(one, 1, "BUY", 100, 10, investorID=own)
    report(one, "New")
    report(one, "Trade", lastQty=100, ordStatus="FILLED")
    report(other, "Trade", lastQty=100, ordStatus="FILLED")


def test_003_16_2_2_a_change_that_would_trade_with_itself_ends_the_order(desk):
    one = desk.trader()
    investor = {"investorID": {"prefix": 300, "document": 123_456}}
    desk.order(one, 1, "SELL", 100, 12, **investor)
    desk.order(one, 2, "BUY", 100, 10, **investor)
    one.read_messages(2)
    one.replace(3, 2, "BUY", 100, 12, securityID=desk.security, **investor)
    report(one, "Modify", clOrdID=3, origClOrdID=2, price=Decimal("12.0000"))
    report(one, "Cancel", ordStatus="CANCELED", execRestatementReason=BY_ITSELF)
