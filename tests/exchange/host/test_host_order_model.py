"""The order model over TCP: stops, investors, protections, providers, mass actions, spreads."""

from decimal import Decimal

import pytest

from pregao.entrypoint import VERSIONS
from pregao.exchange.engine.model.operations_commands import ProtectionReference, SetProtection
from tests.entrypoint.raw_peer import SESSION
from tests.exchange.host_desk import (
    ORDER,
    PETR4,
    VALE3,
    Exchange,
    parties,
    quiet_settings,
    row,
)

OTHER = SESSION + 2  # of firm 127
STATE = ("clOrdID", "ordType", "ordStatus", "workingIndicator")
ME = {"prefix": 205, "document": 8930}


@pytest.fixture
def exchange():
    with Exchange() as running:
        yield running


@pytest.fixture
def trader(exchange):
    return exchange.trader()


def test_003_7_1_4_a_stop_order_reports_its_activation(exchange, trader):
    other = exchange.trader(session_id=OTHER)
    trader.single(1, ordType="STOP_LIMIT", stopPx=Decimal(12), memo="mine", account=77)
    accepted = trader.read_messages()[0]
    assert row(accepted, *STATE) == ("New", 1, "STOP_LIMIT", "NEW", "FALSE_VALUE")
    assert accepted[1]["stopPx"] == Decimal(12)
    other.new(1, "SELL", 300)
    other.one("ExecutionReport_New")
    other.new(2, quantity=300, memo="not mine")
    # The values of the order are kept, though another's request made it active.
    active = trader.read_messages()[0]
    assert row(active, *STATE) == ("New", 1, "LIMIT", "NEW", "TRUE_VALUE")
    assert (active[1]["stopPx"], active[1]["memo"], active[1]["account"]) == (None, "mine", 77)
    trader.cancel(2, 1)
    assert trader.one("ExecutionReport_Cancel")["clOrdID"] == 2


def test_a_stop_price_can_be_changed(trader):
    trader.single(1, ordType="STOP_LIMIT", stopPx=Decimal(12))
    trader.one("ExecutionReport_New")
    trader.replace(2, 1, ordType="STOP_LIMIT", stopPx=Decimal("12.5"), price=13)
    changed = trader.one("ExecutionReport_Modify")
    assert (changed["stopPx"], changed["workingIndicator"]) == (Decimal("12.5"), "FALSE_VALUE")


@pytest.mark.parametrize("version", VERSIONS)
def test_003_16_2_1_self_trade_prevention(exchange, version):
    trader = exchange.trader(version)
    trader.new(1, "SELL", investorID=ME)
    trader.one("ExecutionReport_New")
    trader.new(2, investorID=ME)
    trader.one("ExecutionReport_New")
    gone = trader.one("ExecutionReport_Cancel")
    assert (gone["clOrdID"], gone["execRestatementReason"]) == (2, "SELF_TRADING_PREVENTION")
    trader.new(3, investorID=ME, selfTradePreventionInstruction="CANCEL_RESTING_ORDER")
    trader.one("ExecutionReport_New")
    gone = trader.one("ExecutionReport_Cancel")
    assert gone["clOrdID"] == 1
    assert gone["execRestatementReason"] == "CANCEL_RESTING_ORDER_ON_SELF_TRADE"


def test_003_15_4_2_an_investor_of_no_class_is_refused(trader):
    trader.new(1, investorID={"prefix": 99, "document": 1})
    assert trader.one("ExecutionReport_Reject")["ordRejReason"] == 2016


def test_003_16_3_market_protection(exchange, trader):
    other = exchange.trader(session_id=OTHER)
    command = SetProtection(
        7, 85, 123, (ProtectionReference(PETR4),), interval_ns=10**12, executions=1
    )
    exchange.call(lambda host: host.engine.apply(command, host.now_ns))
    trader.new(1, account=123)
    trader.new(2, account=123, price=11)
    trader.read_messages(2)
    other.new(1, "SELL")
    trader.one("ExecutionReport_Trade")
    gone = trader.one("ExecutionReport_Cancel")
    assert (gone["clOrdID"], gone["execRestatementReason"]) == (2, "MARKET_MAKER_PROTECTION")
    trader.new(3, account=123)
    refused = trader.one("ExecutionReport_Reject")
    assert refused["ordRejReason"] == 2600
    trader.new(4, account=123, mmProtectionReset="TRUE_VALUE")
    trader.one("ExecutionReport_New")
    trader.new(5, account=123)
    trader.one("ExecutionReport_New")


@pytest.mark.parametrize("simple", [True, False])
def test_003_16_3_2_2_both_messages_of_a_change_reset_the_protection(exchange, simple):
    trader, other = exchange.trader(6), exchange.trader(session_id=OTHER)
    exchange.control(
        command="protect", id=7, firm=85, account=123, watch=["PETR4"], interval_ms=10**6,
        executions=1,
    )  # fmt: skip
    trader.single(1, account=123, price=14, ordType="STOP_LIMIT", stopPx=13)
    trader.new(2, account=123)
    trader.read_messages(2)
    other.new(1, "SELL")
    trader.one("ExecutionReport_Trade")
    change = trader.modify if simple else trader.replace
    stop = {"price": 14, "ordType": "LIMIT" if simple else "STOP_LIMIT"}
    change(3, 1, quantity=900, **stop)
    trader.new(4, account=123)
    change(5, 3, quantity=900, mmProtectionReset="TRUE_VALUE", **stop)
    trader.new(6, account=123)
    modified, refused, again, accepted = trader.read_messages(4)
    assert row(refused, "clOrdID", "ordRejReason") == ("Reject", 4, 2600)
    assert row(again, "clOrdID", "ordType", "stopPx") == ("Modify", 5, "STOP_LIMIT", 13)
    assert row(modified, "mmProtectionReset") == ("Modify", "FALSE_VALUE")
    assert row(again, "mmProtectionReset") == ("Modify", "TRUE_VALUE")
    assert row(accepted, "clOrdID") == ("New", 6)


def test_003_7_1_6_a_retail_order_trades_with_its_firms_provider(exchange, trader):
    other = exchange.trader(session_id=OTHER)
    other.new(1, "SELL", 100, 12)
    other.new(2, "BUY", 100, 11)
    other.read_messages(2)
    trader.single(1, "SELL", 1000, None, ordType="RLP")
    trader.one("ExecutionReport_New")
    trader.single(2, "BUY", 100, 12, routingInstruction="RETAIL_LIQUIDITY_TAKER")
    trader.one("ExecutionReport_New")
    fills = [values for _, values in trader.read_messages(2)]
    assert {fill["clOrdID"] for fill in fills} == {1, 2}
    assert {fill["lastPx"] for fill in fills} == {Decimal("11.99")}


def test_003_16_1_4_mass_action_by_asset_and_investor(exchange):
    trader = exchange.trader(2)
    trader.new(1, investorID=ME)
    trader.new(2, securityID=VALE3)
    trader.new(3)
    trader.read_messages(3)
    trader.mass_cancel(10, asset="VALE")
    assert trader.one("ExecutionReport_Cancel")["clOrdID"] == 2
    trader.one("OrderMassActionReport")
    trader.mass_cancel(11, investorID=ME)
    assert trader.one("ExecutionReport_Cancel")["clOrdID"] == 1
    trader.one("OrderMassActionReport")


def test_from_version_3_on_a_mass_action_reaches_an_investors_orders_in_all_sessions(exchange):
    first, second = exchange.trader(3), exchange.trader(3, session_id=SESSION + 1)
    first.new(1, investorID=ME)
    second.new(1, investorID=ME)
    first.one("ExecutionReport_New")
    second.one("ExecutionReport_New")
    first.mass_cancel(2, investorID=ME)
    own = first.one("ExecutionReport_Cancel")
    assert own["execRestatementReason"] == "ORDER_MASS_ACTION_FROM_CLIENT_REQUEST"
    gone = second.one("ExecutionReport_Cancel")
    assert gone["execRestatementReason"] == "MASS_CANCEL_ON_BEHALF"
    assert gone["actionRequestedFromSessionID"] == SESSION


def test_an_operational_error_is_reported_as_applied(trader):
    trader.new(1)
    trader.one("ExecutionReport_New")
    trader.cancel(2, 1, execRestatementReason="CANCEL_ORDER_DUE_TO_OPERATIONAL_ERROR")
    gone = trader.one("ExecutionReport_Cancel")
    assert gone["execRestatementReason"] == "ORDER_CANCELLED_DUE_TO_OPERATIONAL_ERROR"


def test_a_sweep_and_cross(exchange):
    trader, other = exchange.trader(3), exchange.trader(session_id=OTHER)
    other.new(1, "SELL", 300, 12)
    other.one("ExecutionReport_New")
    trader.cross(
        7,
        1,
        2,
        crossType="CROSS_EXECUTED_AGAINST_BOOK_FROM_CLIENT",
        crossPrioritization="BUY_SIDE_IS_PRIORITIZED",
    )
    messages = trader.read_messages(6)
    kinds = [name.removeprefix("ExecutionReport_") for name, _ in messages]
    assert kinds == ["New", "New", "Trade", "Trade", "Trade", "Cancel"]
    gone = messages[-1][1]
    assert gone["execRestatementReason"] == "CANCEL_REMAINING_FROM_SWEEP_CROSS"
    trader.cross(8, 3, 4, crossType="CROSS_EXECUTED_AGAINST_BOOK_FROM_CLIENT")
    assert [name for name, _ in trader.read_messages(2)] == ["ExecutionReport_Reject"] * 2


def define(trader, *legs):
    trader.request(
        "SecurityDefinitionRequest",
        securityReqID=5,
        senderLocation="BVMF",
        enteringTrader="ABC",
        noLegs=[
            {"legSymbol": symbol, "legRatioQty": Decimal(ratio), "legSide": side}
            for symbol, ratio, side in legs
        ],
    )
    values = trader.one("SecurityDefinitionResponse")
    assert values["securityReqID"] == 5
    return values


@pytest.mark.parametrize("version", VERSIONS)
def test_003_15_1_a_strategy_is_created_and_traded(exchange, version):
    trader, other = exchange.trader(version), exchange.trader(session_id=OTHER)
    made = define(trader, ("PETR4", 1, "BUY"), ("VALE3", 1, "SELL"))
    assert made["securityResponseType"] == "ACCEPT_SECURITY_PROPOSAL_AS_IS"
    assert made["securityStrategyType"] == "VV"
    number = made["securityID"]
    other.new(1, "SELL", 100, -20, securityID=number)
    other.one("ExecutionReport_New")
    trader.new(1, "BUY", 200, -20, securityID=number)
    trader.one("ExecutionReport_New")
    spread, *legs = (values for _, values in trader.read_messages(3))
    assert (spread["securityID"], spread["multiLegReportingType"]) == (number, "MULTILEG_SECURITY")
    assert [(leg["securityID"], leg["side"]) for leg in legs] == [(PETR4, "BUY"), (VALE3, "SELL")]
    for leg in legs:
        assert leg["multiLegReportingType"] == "INDIVIDUALLEG_OF_MULTILEG_SECURITY"
        assert (leg["orderID"], leg["clOrdID"]) == (spread["orderID"], 1)
    assert legs[0]["lastPx"] - legs[1]["lastPx"] == Decimal(-20)
    # The rest of the order remains.
    trader.cancel(2, 1, securityID=number)
    assert trader.one("ExecutionReport_Cancel")["cumQty"] == 100


def spread_order_filled_in_part(exchange, ratio=1):
    """A trader whose order of 300 spreads traded 100, its report, and those of the legs."""
    trader, other = exchange.trader(6), exchange.trader(session_id=OTHER)
    number = define(trader, ("PETR4", 1, "BUY"), ("VALE3", ratio, "SELL"))["securityID"]
    changes = {"securityID": number, "account": 77, "memo": "pair", "deskID": "D1"}
    trader.single(1, "BUY", 300, -20, **changes)
    trader.one("ExecutionReport_New")
    other.new(1, "SELL", 100, -20, securityID=number)
    fills = [values for _, values in trader.read_messages(3)]
    return trader, number, fills


def test_003_15_1_trades_of_the_legs_leave_the_spreads_order_as_it_is(exchange):
    """The reports about the rest of a spread's order have its account, desk and memo."""
    trader, number, _ = spread_order_filled_in_part(exchange)
    trader.replace(2, 1, "BUY", 200, -20, securityID=number)
    changed = trader.one("ExecutionReport_Modify")
    trader.cancel(3, 2, securityID=number)
    gone = trader.one("ExecutionReport_Cancel")
    for values in (changed, gone):
        assert (values["account"], values["deskID"], values["cumQty"]) == (77, "D1", 100)
    assert changed["memo"] == "pair"
    # Its trades can still be busted, and are reported with the same.
    exchange.control(command="bust", symbol=str(number), trade=10)
    bust = trader.one("ExecutionReport_Trade")
    assert (bust["execType"], bust["account"], bust["deskID"]) == ("TRADE_CANCEL", 77, "D1")


def test_003_7_1_18_a_busted_leg_trade_does_not_change_the_spreads_order(exchange):
    trader, number, (spread, *legs) = spread_order_filled_in_part(exchange, ratio=3)
    assert [leg["lastQty"] for leg in legs] == [100, 300]
    for symbol, leg in zip(("PETR4", "VALE3"), legs, strict=True):
        exchange.control(command="bust", symbol=symbol, trade=leg["tradeID"])
        bust = trader.one("ExecutionReport_Trade")
        assert (bust["execType"], bust["execRefID"]) == ("TRADE_CANCEL", leg["execID"])
        assert bust["multiLegReportingType"] == "INDIVIDUALLEG_OF_MULTILEG_SECURITY"
        assert (bust["orderID"], bust["lastQty"]) == (spread["orderID"], leg["lastQty"])
        assert (bust["cumQty"], bust["leavesQty"]) == (0, 0)
    exchange.control(command="bust", symbol=str(number), trade=spread["tradeID"])
    bust = trader.one("ExecutionReport_Trade")
    assert bust["multiLegReportingType"] == "MULTILEG_SECURITY"
    assert (bust["ordStatus"], bust["cumQty"], bust["leavesQty"]) == ("NEW", 0, 200)


def test_003_15_1_1_a_strategy_that_cannot_be_is_rejected(trader):
    for legs in ((), (("PETR4", 1, "BUY"), ("PETR4", 1, "SELL")), (("NOPE", 1, "BUY"),)):
        made = define(trader, *legs)
        assert made["securityResponseType"] == "REJECT_SECURITY_PROPOSAL"


def test_000_18_a_trade_with_an_implied_order_is_reported_with_its_legs():
    with Exchange(quiet_settings(implied_orders=True)) as exchange:
        numbers = exchange.call(
            lambda host: {x.symbol: x.security_id for x in host.engine.instruments}
        )
        first, second, spread = (numbers[name] for name in ("DI1F27", "DI1N27", "DIIF27N27"))
        legs, trader = exchange.trader(), exchange.trader(session_id=OTHER)
        legs.request("SimpleNewOrder", 72, **order(1, "BUY", first, "13.5"))
        legs.request("SimpleNewOrder", 72, **order(2, "SELL", second, "13.1"))
        legs.read_messages(2)
        trader.request("SimpleNewOrder", 72, **order(1, "BUY", spread, "-0.4"))
        trader.one("ExecutionReport_New")
        fills = [values for _, values in trader.read_messages(3)]
        assert [(fill["securityID"], fill["side"], fill["lastPx"]) for fill in fills] == [
            (spread, "BUY", Decimal("-0.4")),
            (first, "SELL", Decimal("13.5")),
            (second, "BUY", Decimal("13.1")),
        ]
        assert {values["clOrdID"] for _, values in legs.read_messages(2)} == {1, 2}


def order(cl_ord_id, side, security_id, price):
    return ORDER | parties(cl_ord_id, side, 5, price) | {"securityID": security_id}
