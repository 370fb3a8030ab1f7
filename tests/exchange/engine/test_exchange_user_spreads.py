"""User-defined spreads (003 §15.1) and the strategies of appendix B."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.errors import UsageError
from pregao.exchange.engine.model.commands import CrossSide, DefineSpread, NewCross, ProposedLeg
from pregao.exchange.engine.model.enums import (
    ExecRestatementReason,
    OrdStatus,
    OrdType,
    PriceBandType,
    RoutingInstruction,
    SecurityResponseType,
    SecurityUpdateAction,
    TimeInForce,
    TradeCondition,
    TradingStatus,
    TrdSubType,
)
from pregao.exchange.engine.model.events import (
    MassDeleteOrders,
    SecurityDefinition,
    SecurityStatus,
    Trade,
)
from pregao.exchange.engine.model.instruments import (
    Instrument,
    MultiLegModel,
    Product,
    PutOrCall,
    SecurityType,
)
from pregao.exchange.engine.model.operations_commands import (
    RejoinGroup,
    RemoveInstrument,
    SetGroupPhase,
    SetPriceBand,
    SetSecurityStatus,
    StartDay,
)
from pregao.exchange.engine.model.reports import (
    OrderCancelled,
    OrderFilled,
    OrderRejected,
    SpreadDefined,
)
from pregao.exchange.engine.products.user_defined_spreads import TYPES, StrategyLeg, strategy_type
from pregao.exchange.publisher.encoding.encoder import FeedEncoder
from tests.exchange.feed_reader import codec
from tests.exchange.floor import BUY, DAY, SELL, Floor, future, px, share

ONE = 10_000_000
AS_IS = SecurityResponseType.ACCEPT_SECURITY_PROPOSAL_AS_IS
REVISED = SecurityResponseType.ACCEPT_SECURITY_AS_PROPOSAL_WITH_REVISIONS
REJECTED = SecurityResponseType.REJECT_SECURITY_PROPOSAL
MONTHS = {"V10": date(2010, 10, 18), "G11": date(2011, 2, 21)} | {
    f"Q{quarter}": date(2008 + (2 + 3 * quarter) // 12, (2 + 3 * quarter) % 12 + 1, 15)
    for quarter in range(1, 6)
}


def instrument(name: str) -> Instrument:
    """ACMEG11C001900 is a call of February 2011 at 19.00; other names are cash or futures."""
    kind = name[-7:-6]
    if kind in ("C", "P") and name[-6:].isdigit():
        month = next(month for month in MONTHS if name[:-7].endswith(month))
        return share(
            crc32(name.encode()),
            symbol=name,
            asset=name[:-7].removesuffix(month),
            security_type=SecurityType.OPT,
            put_or_call=PutOrCall.CALL if kind == "C" else PutOrCall.PUT,
            strike_price=int(name[-6:]) * 100,
            maturity_date=MONTHS[month],
        )
    if name.endswith("FX"):
        return future(crc32(name.encode()), symbol=name, product=Product.EQUITY)
    if name.startswith("IND"):
        return future(crc32(name.encode()), symbol=name)
    etf = SecurityType.ETF if name.endswith("11") else SecurityType.CS
    return share(crc32(name.encode()), symbol=name, security_type=etf)


def legs(text: str) -> list[StrategyLeg]:
    """Legs as "+1 ACME3 -2 ACME4"."""
    words = text.split()
    return [
        StrategyLeg(instrument(name), BUY if ratio[0] == "+" else SELL, int(ratio[1:]))
        for ratio, name in zip(words[::2], words[1::2], strict=True)
    ]


C, P = "ACMEG11C", "ACMEG11P"
NEAR_C, NEAR_P = "ACMEV10C", "ACMEV10P"
PRINTED = [
    ("3W", f"+1 {C}002100 -1 {C}002150 -1 {P}002050"),
    ("3W", f"+1 {P}002100 -1 {P}002050 -1 {C}002150"),
    ("3C", f"+1 {C}001900 +1 {P}001900 -1 {C}002000"),
    ("3C", f"+1 {C}001900 +1 {P}001900 -1 {C}001800"),
    ("3P", f"+1 {C}001900 +1 {P}001900 -1 {P}001700"),
    ("3P", f"+1 {C}001900 +1 {P}001900 -1 {P}002000"),
    ("BX", f"+1 {C}001900 -1 {P}001900 +1 {P}002100 -1 {C}002100"),
    ("BO", f"+1 {C}001800 -2 {C}001900 +1 {C}002000"),
    ("BO", f"+5 {P}002000 -10 {P}001900 +5 {P}001800"),
    ("XT", f"+1 {C}009800 -1 {C}009850 -1 {C}009900"),
    ("XT", f"+1 {P}009900 -1 {P}009850 -1 {P}009800"),
    ("CC", f"+1 {C}009800 -1 MIDG11C009800"),
    ("CC", f"+1 {P}009800 -1 MIDG11P009850"),
    ("CO", f"+1 {C}001800 -1 {C}001850 -1 {C}001900 +1 {C}001950"),
    ("CO", f"+1 {P}001950 -1 {P}001900 -1 {P}001850 +1 {P}001800"),
    ("DG", f"+1 {C}001800 -1 {NEAR_C}002100"),
    ("DG", f"+1 {C}002100 -1 {NEAR_C}002000"),
    ("DG", f"+1 {P}001800 -1 {NEAR_P}002100"),
    ("GT", f"+1 {C}002100 +1 {P}002200"),
    ("HO", f"+1 {C}001800 -1 {NEAR_C}001800"),
    ("HO", f"+1 {P}001800 -1 {NEAR_P}001800"),
    ("DB", f"+1 {C}002100 +1 {C}002150"),
    ("DB", f"+1 {P}002150 +1 {P}002100"),
    ("IB", f"-1 {P}001800 +1 {P}001850 +1 {C}001850 -1 {C}001900"),
    ("IC", f"-1 {P}001800 +1 {P}001850 +1 {C}001900 -1 {C}001950"),
    ("HS", f"+1 {C}002100 +1 {P}002100 -1 {NEAR_C}002100 -1 {NEAR_P}002100"),
    ("HS", f"+1 {C}002100 +1 {P}002100 -1 {NEAR_C}002000 -1 {NEAR_P}002000"),
    ("JR", f"-1 {NEAR_C}002000 +1 {NEAR_P}002000 +1 {C}002000 -1 {P}002000"),
    ("JR", f"-1 {NEAR_C}002000 +1 {NEAR_P}002000 +1 {C}002100 -1 {P}002100"),
    ("JR", f"-1 {NEAR_C}002100 +1 {NEAR_P}002100 +1 {C}002000 -1 {P}002000"),
    ("12", f"+1 {C}002000 -2 {C}002100"),
    ("12", f"+3 {P}002100 -6 {P}002000"),
    ("13", f"+1 {C}002000 -3 {C}002100"),
    ("13", f"+1 {P}002100 -3 {P}002000"),
    ("23", f"+2 {C}002000 -3 {C}002100"),
    ("23", f"+2 {P}002100 -3 {P}002000"),
    ("RR", f"+1 {C}002100 -1 {P}002000"),
    ("RR", f"+1 {P}002000 -1 {C}002100"),
    ("SS", f"+1 {NEAR_C}002000 +1 {NEAR_P}002000 +1 {C}002000 +1 {P}002000"),
    ("ST", f"+1 {C}001900 +1 {P}001900"),
    ("SG", f"+1 {P}001900 +1 {C}001950"),
    ("SR", "+1 EURQ1C009800 +1 EURQ2C009800 +1 EURQ3C009800 +1 EURQ4C009800"),
    ("SR", "+1 EURQ1P009800 +1 EURQ2P009800 +1 EURQ3P009800 +1 EURQ4P009800"),
    ("VT", f"+1 {C}001900 -1 {C}001950"),
    ("VT", f"+1 {P}001950 -1 {P}001900"),
    ("VV", "+1 ACME3 -1 ACME4"),
    ("VV", "+1 ACME3 -1 BOVA11"),
    ("VO", f"+1 ACME3 -1 {C}001900 -2 {C}002000"),
    ("FO", f"+1 ACMEEFX -1 {C}001900"),
    ("FF", "+1 ACMEEFX -1 ACMEFFX"),
    ("FV", "+1 ACME3 -1 ACMEEFX"),
    ("GN", "+1 ACME3 +1 ACME4"),
    ("GN", "+1 ACME3 -1 INDM26"),
]


@pytest.mark.parametrize(("kind", "text"), PRINTED)
def test_003_app_b_strategies(kind, text):
    found = legs(text)
    assert strategy_type(found) == kind
    assert strategy_type(found[::-1]) == kind


def test_003_app_b_has_31_types_and_each_is_tried():
    assert len(set(TYPES)) == 31
    assert {kind for kind, _ in PRINTED} == set(TYPES)


@pytest.mark.parametrize(
    "text",
    [
        f"+1 {C}001800 -2 {C}001900 +1 {C}002100",
        f"+1 {C}009800 -1 {C}009850 -1 {C}009950",
        f"+1 {C}001800 -1 {C}001850 -1 {C}001950 +1 {C}002000",
        "+1 EURQ1C009800 +1 EURQ2C009800 +1 EURQ3C009800 +1 EURQ5C009800",
        f"+1 {NEAR_C}001800 -1 {C}001800",
        f"+1 {C}002100 -2 {C}002000",
        f"+2 {C}001900 +1 {P}001900",
        f"+1 {C}001900 -1 {P}001900",
    ],
)
def test_near_matches_of_a_strategy_are_generic(text):
    assert strategy_type(legs(text)) == "GN"


def floor_of(**options: Any) -> Floor:
    close = {"previous_close": 10 * 10**8}
    return Floor(
        share(1, symbol="ACME3", **close),
        share(2, symbol="ACME4", **close),
        share(6, symbol="ACME5", **close),
        share(3, symbol="FINE3", min_price_increment=100_000, **close),
        share(4, symbol="AWAY3", channel=2, **close),
        share(5, symbol="NEVER3"),
        **options,
    )


def define(floor: Floor, text: str, session: int = 1) -> SpreadDefined:
    words = text.split()
    proposed = tuple(
        ProposedLeg(name, BUY if ratio[0] == "+" else SELL, int(ratio[1:]) * ONE)
        for ratio, name in zip(words[::2], words[1::2], strict=True)
    )
    floor.do(DefineSpread(session, 77, proposed))
    (answer,) = floor.reports()
    assert isinstance(answer, SpreadDefined)
    assert (answer.session, answer.request_id) == (session, 77)
    return answer


def test_003_15_1_a_spread_is_listed_and_traded_immediately():
    floor = floor_of()
    answer = define(floor, "+1 ACME4 -1 ACME3")
    assert (answer.response, answer.strategy_type) == (AS_IS, "VV")
    (definition,) = floor.items()
    assert isinstance(definition, SecurityDefinition)
    assert definition.action == SecurityUpdateAction.ADD
    made = definition.instrument
    assert (made.security_id, made.symbol) == (answer.security_id, answer.symbol)
    assert made.multi_leg_model == MultiLegModel.USER_DEFINED
    assert [(leg.symbol, leg.side) for leg in made.legs] == [("ACME4", BUY), ("ACME3", SELL)]
    floor.order(SELL, 5, -0.10, security_id=made.security_id)
    floor.order(BUY, 5, -0.10, security_id=made.security_id, session=2)
    trades = {t.security_id: t for t in floor.items(Trade)}
    assert trades[2].price - trades[1].price == px(-0.10)
    for number in (1, 2):
        assert trades[number].trd_sub_type == TrdSubType.LEG_TRADE
        assert not trades[number].trade_condition & TradeCondition.REGULAR_TRADE
        assert trades[number].size == 5
    fills = [(r.security_id, r.side) for r in floor.reports(OrderFilled) if r.session == 2]
    assert fills == [(made.security_id, BUY), (2, BUY), (1, SELL)]
    floor.check_feed()


def test_000_16_1_a_strategy_on_options_is_published_without_a_strike():
    close = {"previous_close": 10 * 10**8}
    calls = [replace(instrument(f"{C}00{strike}"), **close) for strike in (1900, 2000)]
    floor = Floor(*calls)
    answer = define(floor, f"+1 {calls[0].symbol} -2 {calls[1].symbol}")
    assert answer.strategy_type == "12"
    (definition,) = floor.items(SecurityDefinition)
    encoder = FeedEncoder(16).definitions
    for own, sub_type, strike in (
        (calls[0], calls[0].security_sub_type, Decimal("19.00")),
        (definition.instrument, 90, None),
    ):
        message = encoder.message(own, SecurityUpdateAction.ADD, 1, True)
        values = codec(16).decode(message).values
        assert (values["securitySubType"], values["strikePrice"]) == (sub_type, strike)
        assert values["marketSegmentID"] == calls[0].market_segment_id


def test_003_15_1_1_a_repeated_strategy_is_the_same_and_ratios_are_reduced():
    floor = floor_of()
    first = define(floor, "+1 ACME4 -2 ACME3")
    again = define(floor, "-4 ACME3 +2 ACME4", session=2)
    assert (again.response, again.security_id) == (REVISED, first.security_id)
    assert not floor.last.market


@pytest.mark.parametrize("price", [-10.03, -10, 0.01, 3.33])
@pytest.mark.parametrize("ratios", [(2, 3), (1, 1), (1, 7), (3, 5)])
def test_leg_prices_add_up_whatever_the_ratios(ratios, price):
    floor = floor_of()
    made = define(floor, f"+{ratios[0]} ACME4 -{ratios[1]} ACME3").security_id
    floor.order(SELL, 5, price, security_id=made)
    floor.order(BUY, 5, price, security_id=made, session=2)
    trades = {t.security_id: t for t in floor.items(Trade)}
    assert ratios[0] * trades[2].price - ratios[1] * trades[1].price == px(price)
    assert [trades[2].size, trades[1].size] == [5 * ratio for ratio in ratios]
    assert all(trades[number].price % 100 == 0 for number in (1, 2))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("+1 ACME4 -1 ACME4", "two legs"),
        ("+1 ACME4 -2 ACME3 +1 ACME4", "two legs"),
        ("+1 ACME4", "2 to 40"),
        ("+1 ACME4 -1 NOPE3", "unknown"),
        ("+1 ACME4 -1 FINE3", "tick size"),
        ("+1 ACME4 -1 AWAY3", "same engine"),
        ("+1 ACME4 -1 NEVER3", "reference price"),
        ("+6 ACME4 -10 ACME3 +15 ACME5", "add up"),
        ("+0 ACME4 -1 ACME3", "integer"),
    ],
)
def test_003_15_1_1_creation_rules(text, words):
    floor = floor_of()
    answer = define(floor, text)
    assert (answer.response, answer.security_id) == (REJECTED, 0)
    assert words in answer.text
    assert not floor.last.market


def test_003_15_1_1_neither_the_opposite_nor_what_is_on_the_blacklist():
    floor = floor_of(no_legs=[1])
    assert "blacklist" in define(floor, "+1 ACME4 -1 ACME3").text
    floor = floor_of()
    made = define(floor, "+1 ACME4 -1 ACME3")
    refused = define(floor, "-1 ACME4 +1 ACME3")
    assert refused.response == REJECTED
    assert made.symbol in refused.text
    assert "outright" in define(floor, f"+1 {made.symbol} -1 ACME3").text


def test_003_15_1_2_after_seven_idle_days_it_is_removed():
    floor = floor_of()
    made = define(floor, "+1 ACME4 -1 ACME3").security_id
    floor.do(StartDay(DAY + timedelta(7)))
    assert made in floor.engine.market.listings
    floor.order(SELL, 5, 0.1, security_id=made)
    floor.do(StartDay(DAY + timedelta(14)))
    assert made in floor.engine.market.listings
    floor.do(StartDay(DAY + timedelta(15)))
    (gone,) = floor.items(SecurityDefinition)
    assert (gone.action, gone.instrument.security_id) == (SecurityUpdateAction.DELETE, made)


# States and limits of the legs (000 §14.1, §13.11)

CLOSED = [TradingStatus.PAUSE, TradingStatus.CLOSE, TradingStatus.FORBIDDEN, TradingStatus.RESERVED]


def leg_trades(floor: Floor) -> list[tuple[int, int, int]]:
    return [(t.security_id, t.price, t.size) for t in floor.items(Trade) if t.security_id in (1, 2)]


@pytest.mark.parametrize("status", CLOSED)
@pytest.mark.parametrize("leg", [1, 2])
def test_000_14_1_a_spread_does_not_trade_while_a_leg_is_not_open(status, leg):
    floor = floor_of()
    made = define(floor, "+1 ACME4 -1 ACME3").security_id
    resting = floor.order(SELL, 5, -0.10, security_id=made)
    floor.do(SetSecurityStatus(leg, status))
    for price in (-0.10, -0.20):
        floor.order(BUY, 5, price, security_id=made, session=2)
        assert (floor.items(), floor.reject_code()) == ([], 1003)
    floor.do(NewCross(2, 9, made, 5, px(-0.10), CrossSide(85, 901), CrossSide(85, 902)))
    assert (floor.items(), floor.reject_code()) == ([], 1003)
    floor.modify(resting, 6, -0.10, security_id=made)
    (refused,) = floor.reports(OrderRejected)
    assert refused.text.endswith(f"is not open: ACME{leg + 2} is {status.name}")
    assert floor.book(SELL, made) == [(px(-0.10), 5)]
    floor.do(RejoinGroup(leg))
    floor.order(BUY, 5, -0.10, security_id=made, session=2)
    assert leg_trades(floor) == [(2, px(10), 5), (1, px(10.10), 5)]


def test_000_14_1_an_order_of_a_spread_can_be_canceled_while_a_leg_is_halted():
    floor = floor_of()
    made = define(floor, "+1 ACME4 -1 ACME3").security_id
    resting = floor.order(SELL, 5, -0.10, security_id=made)
    floor.do(SetSecurityStatus(1, TradingStatus.PAUSE))
    floor.cancel(resting, security_id=made)
    assert floor.book(SELL, made) == []


def crossed_in_auction(floor: Floor) -> int:
    made = define(floor, "+1 ACME4 -1 ACME3").security_id
    floor.do(SetGroupPhase("XX", TradingStatus.RESERVED))
    floor.do(SetSecurityStatus(1, TradingStatus.FORBIDDEN))
    floor.order(SELL, 5, -0.10, security_id=made)
    floor.order(BUY, 5, -0.10, security_id=made, session=2)
    assert floor.reject_code() is None
    return made


def test_000_14_1_the_auction_of_a_spread_ends_when_its_legs_are_open():
    floor = floor_of()
    made = crossed_in_auction(floor)
    floor.do(SetGroupPhase("XX", TradingStatus.OPEN))
    assert floor.items(Trade) == []
    (held,) = [x for x in floor.items(SecurityStatus) if x.security_id == made]
    assert held.status == TradingStatus.RESERVED
    with pytest.raises(UsageError, match="cannot end: its legs must be open"):
        floor.do(RejoinGroup(made))
    floor.order(BUY, 1, 9.99, security_id=2)
    assert floor.book(BUY, made) == floor.book(SELL, made) == [(px(-0.10), 5)]
    floor.do(RejoinGroup(1))
    trades = [(t.security_id, t.price, t.size) for t in floor.items(Trade)]
    assert trades == [(made, px(-0.10), 5), (2, px(10), 5), (1, px(10.10), 5)]
    assert floor.engine.book(made).ruling_status == TradingStatus.OPEN
    assert floor.book(BUY, made) == floor.book(SELL, made) == []


def test_000_14_1_a_spread_that_closes_in_its_auction_does_not_trade():
    floor = floor_of()
    made = crossed_in_auction(floor)
    floor.do(SetGroupPhase("XX", TradingStatus.CLOSE))
    assert floor.items(Trade) == []
    assert floor.book(BUY, made) == [(px(-0.10), 5)]


def limit(leg: int, low: float, high: float) -> SetPriceBand:
    return SetPriceBand(leg, PriceBandType.HARD_LIMIT, low=px(low), high=px(high))


def test_000_13_11_leg_trades_stay_within_the_hard_limits_of_the_legs():
    """Leg 1 absorbs the difference, up to its limit; leg 2 has the rest."""
    floor = floor_of()
    made = define(floor, "+1 ACME4 -1 ACME3").security_id
    floor.do(limit(2, 9.50, 10.50))
    floor.do(limit(1, 9.00, 11.00))
    floor.order(SELL, 5, -1.20, security_id=made)
    floor.order(BUY, 5, -1.20, security_id=made, session=2)
    assert leg_trades(floor) == [(2, px(9.80), 5), (1, px(11.00), 5)]
    floor.order(SELL, 5, -1.51, security_id=made)
    assert (floor.items(), floor.reject_code()) == ([], 2137)
    floor.order(SELL, 5, -1.50, security_id=made)
    floor.order(BUY, 5, -1.50, security_id=made, session=2)
    assert leg_trades(floor) == [(2, px(9.50), 5), (1, px(11.00), 5)]


@pytest.mark.parametrize("validity", [TimeInForce.DAY, TimeInForce.FILL_OR_KILL])
def test_000_13_11_a_spread_does_not_trade_at_a_price_that_its_legs_no_longer_have(validity):
    floor = floor_of()
    made = define(floor, "+1 ACME4 -1 ACME3").security_id
    floor.order(SELL, 5, -0.10, security_id=made)
    floor.order(SELL, 5, -1.00, security_id=made)
    floor.do(limit(2, 9.50, 10.50))
    floor.do(limit(1, 9.70, 10.30))
    floor.order(BUY, 5, -0.10, security_id=made, session=2, time_in_force=validity)
    assert floor.items(Trade) == []
    (gone,) = floor.reports(OrderCancelled)
    reason = ExecRestatementReason.MARKET_OPTION if validity == TimeInForce.DAY else None
    assert (gone.session, gone.status, gone.reason) == (2, OrdStatus.CANCELED, reason)
    assert floor.book(SELL, made) == [(px(-1.00), 5), (px(-0.10), 5)]


@pytest.mark.parametrize("validity", [TimeInForce.DAY, TimeInForce.FILL_OR_KILL])
def test_000_13_11_a_liquidity_provider_trades_only_where_the_legs_can(validity):
    """It would improve on -0.80, the lowest price of the legs, by a tick."""
    floor = floor_of()
    made = define(floor, "+1 ACME4 -1 ACME3").security_id
    floor.do(limit(2, 9.50, 10.50))
    floor.do(limit(1, 9.70, 10.30))
    floor.order(SELL, 5, ord_type=OrdType.RLP, firm=7, security_id=made)
    floor.order(SELL, 5, -0.80, security_id=made, session=3)
    retail = {"firm": 7, "routing_instruction": RoutingInstruction.RETAIL_LIQUIDITY_TAKER}
    buyer = {"security_id": made, "session": 2, "time_in_force": validity, **retail}
    floor.order(BUY, 5, -0.80, **buyer)
    (trade, *_) = floor.items(Trade)
    assert (trade.price, trade.trd_sub_type) == (px(-0.80), None)
    assert leg_trades(floor) == [(2, px(9.50), 5), (1, px(10.30), 5)]
    floor.order(SELL, 5, -0.79, security_id=made, session=3)
    floor.order(BUY, 5, -0.79, **buyer)
    (trade, *_) = floor.items(Trade)
    assert (trade.price, trade.trd_sub_type) == (px(-0.80), TrdSubType.RLP_TRADE)
    assert leg_trades(floor) == [(2, px(9.50), 5), (1, px(10.30), 5)]


def test_003_15_1_no_trade_without_prices_of_all_legs():
    """At 10.00 below the other leg, leg 2 would have the price zero, unless leg 1 rises."""
    floor = floor_of()
    made = define(floor, "+1 ACME4 -1 ACME3").security_id
    floor.do(limit(1, 9.00, 10.00))
    floor.order(SELL, 5, -10.00, security_id=made)
    assert floor.reject_code() == 2137
    floor.order(SELL, 5, -9.99, security_id=made)
    floor.order(BUY, 5, -9.99, security_id=made, session=2)
    assert leg_trades(floor) == [(2, px(0.01), 5), (1, px(10), 5)]


@settings(max_examples=200, deadline=None)
@given(
    ratios=st.lists(st.integers(1, 4), min_size=2, max_size=3).filter(lambda x: 1 in x),
    price=st.integers(-6_000, 6_000),
    bounds=st.lists(st.tuples(st.integers(-300, 300), st.integers(0, 400)), min_size=3, max_size=3),
)
def test_000_13_11_leg_prices_are_within_the_limits_or_the_order_is_refused(ratios, price, bounds):
    """With a leg of ratio 1, every tick of the spread between its extremes has leg prices."""
    floor = floor_of()
    names = {"ACME4": (2, 1), "ACME3": (1, -1), "ACME5": (6, 1)}
    chosen = list(zip(names, ratios, strict=False))
    text = " ".join(f"{'+' if names[n][1] > 0 else '-'}{ratio} {n}" for n, ratio in chosen)
    made = define(floor, text).security_id
    low = high = 0
    limits = {}
    for (name, ratio), (start, width) in zip(chosen, bounds, strict=False):
        number, sign = names[name]
        limits[number] = (10_00 + start, 10_00 + start + width)
        floor.do(limit(number, *(x / 100 for x in limits[number])))
        weighted = sorted(sign * ratio * x for x in limits[number])
        low, high = low + weighted[0], high + weighted[1]
    floor.order(SELL, 5, price / 100, security_id=made)
    if floor.reject_code() is not None:
        assert not low <= price <= high or min(w for _, w in bounds) < 4
        return
    assert low <= price <= high
    floor.order(BUY, 5, price / 100, security_id=made, session=2)
    trades = {t.security_id: t.price for t in floor.items(Trade)}
    assert trades.pop(made) == price * 100
    assert sum(names[n][1] * ratio * trades[names[n][0]] for n, ratio in chosen) == price * 100
    for number, (lowest, highest) in limits.items():
        if number in trades:
            assert lowest * 100 <= trades[number] <= highest * 100


def test_003_15_1_a_spread_is_delisted_with_its_leg_and_its_orders_are_canceled():
    floor = floor_of()
    made = define(floor, "+1 ACME4 -1 ACME3").security_id
    other = define(floor, "+1 ACME4 -1 ACME5").security_id
    floor.order(SELL, 5, -0.10, security_id=made)
    floor.order(BUY, 5, -0.30, security_id=made, session=2)
    floor.order(BUY, 5, -0.30, security_id=other, session=2)
    floor.do(RemoveInstrument(1))
    deleted = [(x.security_id, x.side) for x in floor.items(MassDeleteOrders)]
    assert deleted == [(made, BUY), (made, SELL)]
    gone = [(x.action, x.instrument.security_id) for x in floor.items(SecurityDefinition)]
    assert gone == [(SecurityUpdateAction.DELETE, made), (SecurityUpdateAction.DELETE, 1)]
    reports = [(r.session, r.security_id, r.reason) for r in floor.reports(OrderCancelled)]
    market_option = ExecRestatementReason.MARKET_OPTION
    assert reports == [(2, made, market_option), (1, made, market_option)]
    floor.order(BUY, 5, -0.10, security_id=made, session=2)
    assert floor.reject_code() == 2047
    assert floor.book(BUY, other) == [(px(-0.30), 5)]
    floor.do(StartDay(DAY + timedelta(1)))
    assert other in floor.engine.market.listings
