"""Price and quantity bands: what they refuse, and the auctions they call."""

from __future__ import annotations

import pytest

from pregao.clock import MINUTE
from pregao.errors import UsageError
from pregao.exchange.engine.model.commands import CrossSide, NewCross
from pregao.exchange.engine.model.enums import (
    CrossPrioritization,
    CrossType,
    ExecRestatementReason,
    OpenCloseSettlFlag,
    OrdType,
    PriceBandMidpoint,
    PriceBandType,
    PriceLimitType,
    TimeInForce,
    TradingStatus,
)
from pregao.exchange.engine.model.events import (
    AuctionImbalance,
    DeleteOrderMbo,
    ExecutionSummary,
    NewOrderMbo,
    PriceBand,
    QuantityBand,
    SecurityStatus,
    TheoreticalOpeningPrice,
    Trade,
)
from pregao.exchange.engine.model.instruments import Product
from pregao.exchange.engine.model.operations_commands import (
    AdvanceTime,
    SetClosingPrice,
    SetPriceBand,
    SetQuantityBand,
)
from pregao.exchange.engine.model.reports import OrderCancelled, OrderFilled, OrderRejected
from pregao.umdf.phases import TradingEvent
from tests.exchange.floor import BUY, SELL, SHARE, Floor, future, px, share

HARD, REJECTION = PriceBandType.HARD_LIMIT, PriceBandType.REJECTION_BAND
STATIC, AUCTION = PriceBandType.STATIC_LIMITS, PriceBandType.AUCTION_LIMITS
PERCENT, UNIT = PriceLimitType.PERCENTAGE, PriceLimitType.PRICE_UNIT
LAST_PRICE = PriceBandMidpoint.LAST_TRADED_PRICE
PREVIOUS = OpenCloseSettlFlag.ENTRY_FROM_PREVIOUS_BUSINESS_DAY


def band(kind: PriceBandType, low: float | None, high: float | None) -> SetPriceBand:
    return SetPriceBand(
        SHARE, kind, low=None if low is None else px(low), high=None if high is None else px(high)
    )


@pytest.mark.parametrize(("kind", "code"), [(HARD, 2137), (STATIC, 2137), (REJECTION, 2179)])
def test_000_13_11_prices_outside_a_band_are_refused_on_both_sides(kind, code):
    floor = Floor()
    floor.do(band(kind, 9, 11))
    for side in (BUY, SELL):
        for price, expected in ((8.99, code), (9, None), (11, None), (11.01, code)):
            order = floor.order(side, 1, price)
            assert floor.reject_code() == expected
            if expected is None:
                floor.cancel(order)


def test_a_refusal_states_the_limits():
    floor = Floor()
    floor.do(band(HARD, 9, 11))
    floor.order(BUY, 1, 8.5)
    assert floor.reports()[0].text.endswith("8.5000 is outside 9.0000 to 11.0000")


def test_000_13_11_bands_of_different_types_coexist():
    floor = Floor()
    floor.do(band(HARD, 5, 15))
    floor.do(band(REJECTION, 9, 11))
    floor.order(BUY, 1, 8)
    assert floor.reject_code() == 2179
    floor.order(BUY, 1, 4)
    assert floor.reject_code() == 2137
    floor.do(band(REJECTION, 7, 11))
    floor.order(BUY, 1, 8)
    assert floor.reject_code() is None
    kinds = [item.band_type for item in floor.shown(PriceBand)]
    assert kinds == [HARD, REJECTION]


def test_a_band_is_published_separately():
    floor = Floor()
    floor.do(band(HARD, 9, 11))
    unit = floor.unit()
    assert not unit.event
    assert unit.items == [
        PriceBand(SHARE, HARD, PriceLimitType.PRICE_UNIT, None, px(9), px(11), None, floor.now)
    ]


def test_a_percentage_band_follows_the_last_trade():
    floor = Floor(share(previous_close=10 * 10**8))
    floor.do(
        SetPriceBand(
            SHARE, REJECTION, PERCENT, PriceBandMidpoint.LAST_TRADED_PRICE, -50_000, 50_000
        )
    )
    floor.order(BUY, 1, 9.49)
    assert floor.reject_code() == 2179
    floor.order(BUY, 1, 10.50)
    assert floor.reject_code() is None
    floor.order(SELL, 1, 10.50, session=2)
    assert floor.items(Trade)
    # 5 % around 10.50 is 9.975 to 11.025.
    floor.order(BUY, 1, 9.97)
    assert floor.reject_code() == 2179
    floor.order(BUY, 1, 9.98)
    assert floor.reject_code() is None
    floor.order(SELL, 1, 11.02)
    assert floor.reject_code() is None
    floor.order(SELL, 1, 11.03)
    assert floor.reject_code() == 2179


def test_a_percentage_band_can_follow_the_theoretical_price():
    floor = Floor(share(previous_close=10 * 10**8), phase=TradingStatus.RESERVED)
    floor.do(
        SetPriceBand(
            SHARE, REJECTION, PERCENT, PriceBandMidpoint.THEORETICAL_PRICE, -100_000, 100_000
        )
    )
    floor.order(BUY, 10, 11)
    floor.order(SELL, 10, 11, session=2)
    assert floor.items(TheoreticalOpeningPrice)[0].price == px(11)
    floor.order(SELL, 10, 12, session=2)
    assert floor.reject_code() is None


def test_the_reference_price_is_a_band_without_a_type():
    floor = Floor(share(product=Product.ECONOMIC_INDICATOR))
    floor.do(SetPriceBand(SHARE, reference8=123_456_789))
    (item,) = floor.items()
    assert item == PriceBand(SHARE, None, None, None, None, None, 123_456_789, floor.now)


def test_001_9_2_13_only_economic_indicators_show_a_reference_price():
    floor = Floor()
    floor.do(SetPriceBand(SHARE, reference8=123_456_789))
    assert not floor.last.market
    assert not floor.shown(PriceBand)


def test_000_13_11_2_derivatives_have_no_average_and_no_limit():
    floor = Floor(future())
    with pytest.raises(UsageError, match="derivative"):
        floor.do(SetQuantityBand(SHARE, 1000, 5000))
    floor.do(SetQuantityBand(SHARE, 0, 0))
    assert floor.unit().items == [QuantityBand(SHARE, 0, 0, floor.now)]
    floor.order(BUY, 1_000_000, 10)
    assert floor.reject_code() is None


@pytest.mark.parametrize(
    "kind", [CrossType.ALL_OR_NONE_CROSS, CrossType.CROSS_EXECUTED_AGAINST_BOOK_FROM_CLIENT]
)
@pytest.mark.parametrize(
    ("maximum", "limit", "code"), [(None, 1000, 2115), (1000, None, 2115), (2000, 1000, 2115)]
)
def test_000_13_11_2_crosses_obey_the_quantity_band_and_the_largest_quantity(
    kind, maximum, limit, code
):
    floor = Floor(share(max_order_qty=maximum))
    if limit is not None:
        floor.do(SetQuantityBand(SHARE, limit, 5000))
    buys = CrossPrioritization.BUY_SIDE_IS_PRIORITIZED
    for quantity, expected in ((1001, [code, code]), (1000, [])):
        sides = (CrossSide(11, floor.now), CrossSide(12, floor.now + 1))
        floor.do(NewCross(1, 7, SHARE, quantity, px(10), *sides, None, kind, buys), after=2)
        assert [report.code for report in floor.reports(OrderRejected)] == expected
        assert [made.size for made in floor.items(Trade)] == ([] if expected else [quantity])


def test_a_quantity_band_limits_orders():
    floor = Floor()
    floor.do(SetQuantityBand(SHARE, 1000, 5000))
    assert floor.unit().items == [QuantityBand(SHARE, 5000, 1000, floor.now)]
    floor.order(BUY, 1001, 10)
    assert floor.reject_code() == 2115
    floor.order(BUY, 1000, 10)
    assert floor.reject_code() is None


def test_a_trade_that_would_leave_the_auction_band_calls_an_auction():
    floor = Floor(auction_duration_ns=MINUTE)
    floor.do(band(AUCTION, 9.5, 10.5))
    floor.order(SELL, 5, 10.50)
    floor.order(SELL, 5, 10.60)
    floor.order(BUY, 8, 10.60, session=2)
    execution, frozen = floor.last.market
    assert execution.event
    assert [trade.price for trade in floor.items(Trade)] == [px(10.50)]
    assert isinstance(execution.items[0], ExecutionSummary)
    assert [type(item) for item in frozen.items] == [
        SecurityStatus,
        NewOrderMbo,
        TheoreticalOpeningPrice,
        AuctionImbalance,
    ]
    status: SecurityStatus = floor.items(SecurityStatus)[0]
    assert status.status == TradingStatus.RESERVED
    assert status.event == TradingEvent.SECURITY_STATUS_CHANGE
    assert status.open_time_ns == floor.now + MINUTE
    assert floor.book(BUY) == [(px(10.60), 3)]
    floor.do(AdvanceTime(), after=MINUTE)
    assert [(trade.price, trade.size) for trade in floor.items(Trade)] == [(px(10.60), 3)]
    assert floor.items(SecurityStatus)[0].status == TradingStatus.OPEN
    floor.check_feed()


def test_003_14_1_2_a_frozen_order_is_cancelled_if_it_is_refused_when_the_instrument_thaws():
    floor = Floor(auction_duration_ns=MINUTE)
    floor.do(band(AUCTION, 9.5, 10.5))
    floor.do(band(REJECTION, 9, 12))
    floor.order(SELL, 6, 10.60)
    frozen = floor.order(BUY, 10, 10.60, session=2)
    (accepted,) = floor.reports()
    assert accepted.leaves_qty == 10
    # Meanwhile market operations move the band away from its price.
    floor.do(band(REJECTION, 9, 10.55))
    floor.do(AdvanceTime(), after=MINUTE)
    fill, *_ = floor.reports(OrderFilled)
    (cancelled,) = floor.reports(OrderCancelled)
    assert fill.last_qty == 6
    assert (cancelled.cl_ord_id, cancelled.cum_qty) == (frozen, 6)
    assert cancelled.reason == ExecRestatementReason.MARKET_OPTION
    assert floor.book(BUY) == []
    floor.check_feed()


def test_003_14_1_2_a_frozen_order_is_filled_in_parts_when_the_instrument_thaws():
    floor = Floor(auction_duration_ns=MINUTE)
    floor.do(band(AUCTION, 9.5, 10.5))
    floor.order(SELL, 6, 10.60)
    order = floor.order(BUY, 10, 10.60, session=2)
    assert [type(report).__name__ for report in floor.reports()] == ["OrderAccepted"]
    floor.order(SELL, 4, 10.60)
    floor.do(AdvanceTime(), after=MINUTE)
    fills = [report for report in floor.reports(OrderFilled) if report.cl_ord_id == order]
    assert [(each.last_qty, each.cum_qty, each.leaves_qty) for each in fills] == [
        (6, 6, 4),
        (4, 10, 0),
    ]


def test_an_auction_is_called_also_when_nothing_has_traded_yet():
    floor = Floor()
    floor.do(band(AUCTION, 9.5, 10.5))
    floor.order(BUY, 5, 9.4)
    floor.order(SELL, 5, 9.4, session=2)
    unit = floor.unit()
    assert not floor.items(Trade)
    assert isinstance(unit.items[0], SecurityStatus)
    assert unit.event
    floor.check_feed()


@pytest.mark.parametrize("validity", [TimeInForce.IMMEDIATE_OR_CANCEL, TimeInForce.FILL_OR_KILL])
def test_an_order_that_may_not_wait_calls_no_auction(validity):
    floor = Floor()
    floor.do(band(AUCTION, 9.5, 10.5))
    floor.order(SELL, 5, 10.60)
    floor.order(BUY, 5, 10.60, session=2, time_in_force=validity)
    assert not floor.last.market
    assert floor.reports(OrderCancelled)


def test_a_changed_order_can_call_an_auction():
    floor = Floor()
    floor.do(band(AUCTION, 9.5, 10.5))
    floor.order(SELL, 5, 10.60)
    order = floor.order(BUY, 5, 10)
    floor.modify(order, 5, 10.60)
    assert [type(item) for item in floor.unit().items][:3] == [
        DeleteOrderMbo,
        SecurityStatus,
        NewOrderMbo,
    ]
    floor.check_feed()


def test_003_16_1_5_a_cross_outside_the_auction_band_goes_to_auction():
    floor = Floor(auction_duration_ns=MINUTE)
    floor.do(band(AUCTION, 9.5, 10.5))
    floor.do(NewCross(1, 7, SHARE, 100, px(11), CrossSide(11, 1), CrossSide(12, 2)))
    assert not floor.items(Trade)
    assert len(floor.items(NewOrderMbo)) == 2
    floor.do(AdvanceTime(), after=MINUTE)
    assert [(t.buyer, t.seller, t.size) for t in floor.items(Trade)] == [(11, 12, 100)]
    floor.check_feed()


def test_a_market_order_is_protected_by_the_bands_too():
    floor = Floor(share(previous_close=10 * 10**8, protection_offset=px(5)))
    floor.do(band(HARD, 9, 10.505))
    floor.order(SELL, 1, 10.40)
    floor.order(BUY, 5, ord_type=OrdType.MARKET, session=2)
    assert floor.book(BUY) == [(px(10.50), 4)]


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (band(HARD, 11, 9), "HARD_LIMIT band of ACME1 has its low limit above"),
        (SetPriceBand(SHARE), "requires a type or a reference price"),
        (SetPriceBand(5, HARD), "security ID 5"),
        (SetQuantityBand(5, 1), "security ID 5"),
        (SetClosingPrice(5, 1, PREVIOUS), "security ID 5"),
    ],
)
def test_an_invalid_band_is_refused(command, reason):
    floor = Floor()
    with pytest.raises(UsageError, match=reason):
        floor.do(command)


@pytest.mark.parametrize("midpoint", [None, *PriceBandMidpoint])
@pytest.mark.parametrize("unit", PriceLimitType)
@pytest.mark.parametrize("kind", PriceBandType)
def test_000_13_11_5_each_type_has_its_units_and_midpoints(kind, unit, midpoint):
    floor = Floor()
    command = SetPriceBand(SHARE, kind, unit, midpoint, -10_000, 10_000)
    floating = unit == PERCENT and midpoint is not None and kind in (REJECTION, AUCTION)
    if floating or (unit == UNIT and midpoint is None):
        floor.do(command)
        expected = PriceBand(SHARE, kind, unit, midpoint, -10_000, 10_000, None, floor.now)
        assert floor.items() == [expected]
        return
    with pytest.raises(UsageError, match=f"the {kind.name} band of ACME1"):
        floor.do(command)
    assert not floor.shown(PriceBand)
    floor.order(BUY, 1, 99)
    assert floor.reject_code() is None


@pytest.mark.parametrize("kind", PriceBandType)
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"low": 1}, "requires both its low and its high limit"),
        ({"high": 1}, "requires both its low and its high limit"),
        ({}, "requires both its low and its high limit"),
        ({"low": 1, "high": 2, "reference8": 3}, "must not have a reference price"),
    ],
)
def test_000_13_11_5_a_band_has_both_limits_and_no_reference_price(kind, fields, reason):
    floor = Floor()
    with pytest.raises(UsageError, match=reason):
        floor.do(SetPriceBand(SHARE, kind, **fields))
    assert not floor.shown(PriceBand)


@pytest.mark.parametrize("fields", [{"low": 1}, {"high": 1}, {"midpoint": LAST_PRICE}])
def test_000_13_11_5_a_reference_price_has_neither_limits_nor_a_midpoint(fields):
    floor = Floor(share(product=Product.ECONOMIC_INDICATOR))
    with pytest.raises(UsageError, match="neither limits nor a midpoint"):
        floor.do(SetPriceBand(SHARE, reference8=5, **fields))
    assert not floor.shown(PriceBand)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (-50_000, 50_000, (95_004, 105_004)),
        (-1, 1, (100_004, 100_004)),
        (0, 10_000, (100_004, 101_004)),
    ],
)
def test_limits_in_percent_are_rounded_inwards(low, high, expected):
    floor = Floor(share(previous_close=100_004 * 10_000))
    floor.do(SetPriceBand(SHARE, REJECTION, PERCENT, LAST_PRICE, low, high))
    listing = floor.engine.market.listings[SHARE]
    assert (listing.reject_low, listing.reject_high) == expected


@pytest.mark.parametrize(
    ("side", "resting", "limit"),
    [
        (BUY, (10.50, 10.60), 10.60),
        (BUY, (9.40, 10.0), 10.60),
        (SELL, (9.50, 9.40), 9.40),
        (SELL, (10.60, 10.0), 9.40),
    ],
)
def test_fill_or_kill_counts_only_what_the_auction_band_lets_trade(side, resting, limit):
    floor = Floor()
    other = SELL if side == BUY else BUY
    for price in resting:
        floor.order(other, 5, price)
    floor.do(band(AUCTION, 9.5, 10.5))
    floor.order(side, 8, limit, session=2, time_in_force=TimeInForce.FILL_OR_KILL)
    assert not floor.last.market
    assert floor.reports(OrderCancelled)[0].cum_qty == 0
