"""The worked examples of the guidelines (000) in which messages are printed."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from pregao.exchange.engine.model.commands import MassCancel
from pregao.exchange.engine.model.enums import OrderSide, TradingStatus
from pregao.exchange.engine.model.events import (
    ChangeOrderMbo,
    MarketEvent,
    MassDeleteOrders,
    NewOrderMbo,
)
from pregao.exchange.engine.model.events import DeleteOrderMbo as Deleted
from pregao.exchange.engine.model.operations_commands import (
    EnterImplied,
    RejoinGroup,
    SetGroupPhase,
    SetSecurityStatus,
)
from pregao.exchange.publisher.channels import ChannelEndpoints
from pregao.exchange.publisher.publisher import Publisher
from pregao.umdf.streams import Stream
from tests.exchange.feed_reader import DELETE, MASS, ORDER, PHASE, STATUS, SUMMARY, TRADE, Receiver
from tests.exchange.floor import BUY, OTHER, SELL, SHARE, Floor, px, share

NAMES = {ORDER: "Order", DELETE: "Delete", MASS: "Mass", TRADE: "Trade", SUMMARY: "Summary"}
START = 1_000


class Example:
    """A floor, its publisher and a receiver; or hand-made events without a floor."""

    def __init__(self, *instruments: Any, version: int = 16, **options: Any) -> None:
        self.instruments = instruments or (share(),)
        self.publisher = Publisher(
            [ChannelEndpoints.numbered(1)], self.instruments, START, schema_version=version
        )
        self.receiver = Receiver(version)
        self.floor = Floor(*self.instruments, **options)
        self.publish(self.floor.last.market)

    def publish(self, units: list[MarketEvent]) -> list[Any]:
        """Publish, and give the messages that a receiver got."""
        self.receiver.log.clear()
        for datagram in self.publisher.publish(units, self.floor.now):
            if datagram.stream is Stream.INCREMENTAL:
                self.receiver.feed(datagram.payload)
        return list(self.receiver.log)

    def publish_items(self, *items: Any) -> list[Any]:
        """Publish hand-made events as one unit."""
        return self.publish([MarketEvent(list(items))])

    def last(self) -> list[Any]:
        """Publish the events of the last command on the floor."""
        return self.publish(self.floor.last.market)

    def book(self, security_id: int = SHARE) -> tuple[list[Any], list[Any]]:
        """Both sides as (number, quantity, price)."""
        bids, offers = self.receiver.instrument(security_id).book()
        return (
            [(number, size, float(price)) for price, size, number, _, _ in bids],
            [(number, size, float(price)) for price, size, number, _, _ in offers],
        )


def test_000_5_4_first_trade_of_the_day():
    security_id, number = 100988, 727042222275
    example = Example(share(security_id), first_order_id=number)
    example.floor.order(BUY, 1, 65265, security_id=security_id, session=2, firm=85)
    example.last()
    example.floor.order(SELL, 1, 65265, security_id=security_id, session=3, firm=88)
    messages = example.last()
    assert [message.message.name for message in messages] == [
        "ExecutionSummary_55",
        "Trade_53",
        "OpeningPrice_15",
        "HighPrice_24",
        "LowPrice_25",
        "DeleteOrder_MBO_51",
        "ExecutionStatistics_56",
    ]
    summary, trade, opening, high, low, delete, statistics = messages
    price = Decimal(65265)
    assert {message["securityID"] for message in messages} == {security_id}
    assert (summary["lastPx"], summary["fillQty"]) == (price, 1)
    assert (summary["cxlQty"], summary["tradedHiddenQty"]) == (0, 0)
    assert summary["aggressorSide"] == "SELL"
    assert (trade["mDEntryBuyer"], trade["mDEntrySeller"], trade["tradeID"]) == (85, 88, 10)
    assert (trade["mDEntrySize"], trade["mDEntryPx"]) == (1, price)
    assert opening["mDEntryPx"] == high["mDEntryPx"] == low["mDEntryPx"] == price
    assert (delete["secondaryOrderID"], delete["mDEntryType"]) == (number, "BID")
    assert (statistics["tradeVolume"], statistics["vwapPx"]) == (1, price)
    flags = [message["matchEventIndicator"] for message in messages[1:]]
    assert flags == [0, 0, 0, 0, 0, 0x80]
    assert [message["rptSeq"] for message in messages] == [2, 3, 4, 5, 6, 7, 8]


def order(side: OrderSide, number: int, size: int, price: float, **more: Any) -> NewOrderMbo:
    return NewOrderMbo(SHARE, side, px(price), size, number, None, 1, 1, **more)


BIDS = [
    (300358, 15, 12.10),
    (400358, 5, 12.10),
    (545922, 10, 12.10),
    (120478, 5, 12.00),
    (303690, 15, 12.00),
    (789100, 10, 11.90),
]
OFFERS = [(95010, 15, 12.30), (101020, 10, 12.30), (434001, 25, 12.60), (200452, 10, 12.80)]


def scenario(offers: list[tuple[int, int, float]], version: int = 16) -> Example:
    example = Example(version=version)
    # By number any order is valid; by position they come in queue order.
    bids = BIDS if version < 15 else BIDS[::-1]
    example.publish_items(
        *(order(BUY, *row) for row in bids), *(order(SELL, *row) for row in offers)
    )
    assert example.book() == (BIDS, offers)
    return example


@pytest.mark.parametrize("version", [10, 16])
def test_000_12_2_1_adding_a_new_order(version):
    example = scenario(OFFERS, version)
    (message,) = example.publish_items(order(SELL, 500910, 20, 12.30))
    assert (message["mDUpdateAction"], message["mDEntryType"]) == ("NEW", "OFFER")
    assert (message["mDEntryPx"], message["mDEntrySize"]) == (Decimal("12.30"), 20)
    assert message["secondaryOrderID"] == 500910
    assert message.values.get("mDEntryPositionNo") == (3 if version == 10 else None)
    assert example.book()[1] == [*OFFERS[:2], (500910, 20, 12.30), *OFFERS[2:]]


AFTER_1 = [*OFFERS[:2], (500910, 20, 12.30), *OFFERS[2:]]


@pytest.mark.parametrize("version", [10, 16])
def test_000_12_2_2_1_keeping_priority(version):
    example = scenario(AFTER_1, version)
    (message,) = example.publish_items(
        ChangeOrderMbo(SHARE, SELL, px(12.30), 5, 15, 95010, None, 1, 1)
    )
    assert (message["mDUpdateAction"], message["mDEntrySize"]) == ("CHANGE", 5)
    assert message.values.get("mDEntryPrevSize") == (15 if version >= 16 else None)
    assert example.book()[1] == [(95010, 5, 12.30), *AFTER_1[1:]]


AFTER_2 = [(95010, 5, 12.30), *AFTER_1[1:]]


@pytest.mark.parametrize("version", [10, 16])
def test_000_12_2_2_2_losing_priority(version):
    example = scenario(AFTER_2, version)
    delete, new = example.publish_items(
        Deleted(SHARE, SELL, px(12.30), 5, 95010, 1), order(SELL, 645120, 20, 12.30)
    )
    assert (delete.message.id, delete["mDEntrySize"]) == (DELETE, 5)
    assert delete["secondaryOrderID"] == 95010
    assert (new["mDUpdateAction"], new["secondaryOrderID"]) == ("NEW", 645120)
    assert [delete["matchEventIndicator"], new["matchEventIndicator"]] == [0, 0x80]
    assert example.book()[1] == [
        (101020, 10, 12.30),
        (500910, 20, 12.30),
        (645120, 20, 12.30),
        (434001, 25, 12.60),
        (200452, 10, 12.80),
    ]


AFTER_3 = [
    (101020, 10, 12.30),
    (500910, 20, 12.30),
    (645120, 20, 12.30),
    (434001, 25, 12.60),
    (200452, 10, 12.80),
]


@pytest.mark.parametrize("version", [10, 16])
def test_000_12_2_3_matching_a_resting_order(version):
    example = scenario(AFTER_3, version)
    messages = example.publish_items(
        Deleted(SHARE, SELL, px(12.30), 10, 101020, 1, matched=True),
        Deleted(SHARE, SELL, px(12.30), 20, 500910, 1, matched=True),
        ChangeOrderMbo(SHARE, SELL, px(12.30), 10, 20, 645120, None, 1, 1),
    )
    if version >= 16:
        assert [
            (message["mDEntryType"], message["mDEntryPx"], message["mDEntrySize"])
            for message in messages
        ] == [
            ("OFFER", Decimal("12.30"), 10),
            ("OFFER", Decimal("12.30"), 20),
            ("OFFER", Decimal("12.30"), 10),
        ]
        numbers = [message["secondaryOrderID"] for message in messages]
        assert numbers == [101020, 500910, 645120]
    else:
        # By position the two executed orders at the top go with one message.
        mass, change = messages
        assert (mass["mDUpdateAction"], mass["mDEntryPositionNo"]) == ("DELETE_FROM", 2)
        assert (change["mDUpdateAction"], change["mDEntryPositionNo"]) == ("CHANGE", 1)
    assert example.book() == (
        BIDS,
        [(645120, 10, 12.30), (434001, 25, 12.60), (200452, 10, 12.80)],
    )


@pytest.mark.parametrize("version", [9, 10, 16])
def test_000_12_2_4_a_real_order_takes_priority_over_an_implied_one(version):
    offers = [(645120, 10, 12.30), (434001, 25, 12.60), (200452, 10, 12.80)]
    example = scenario(offers, version)
    (implied,) = example.publish_items(order(SELL, 999999, 20, 12.20, implied=True))
    # The flag came with version 10.
    assert implied["matchEventIndicator"] == (0x80 if version == 9 else 0x90)
    assert example.book()[1] == [(999999, 20, 12.20), *offers]
    (real,) = example.publish_items(order(SELL, 300160, 15, 12.20))
    assert real["matchEventIndicator"] == 0x80
    assert example.book()[1] == [(300160, 15, 12.20), (999999, 20, 12.20), *offers]


@pytest.mark.parametrize("version", [10, 16])
def test_000_12_1_2_the_delete_thru_case(version):
    example = Example(version=version)
    bids = [(1, 5000, 10.58), (2, 4000, 10.58), (3, 3000, 10.57), (4, 4000, 10.54)]
    offers = [(5, 7000, 11.03), (6, 2000, 11.03), (7, 1000, 11.05)]
    example.publish_items(
        *(order(BUY, *row) for row in bids), *(order(SELL, *row) for row in offers)
    )
    (message,) = example.publish_items(MassDeleteOrders(SHARE, BUY, 4, 1))
    assert message.message.id == MASS
    assert (message["mDUpdateAction"], message["mDEntryType"]) == ("DELETE_THRU", "BID")
    assert example.book() == ([], offers)


def test_000_13_1_1_matching_disclosed_quantity_orders():
    example = Example()
    floor = example.floor
    floor.order(BUY, 800, 20.50, session=2)
    first = example.last()[0]["secondaryOrderID"]
    floor.order(BUY, 10_000, 20.50, session=3, max_floor=500)
    iceberg = example.last()[0]["secondaryOrderID"]
    floor.order(SELL, 1800, 20.50, session=4)
    messages = example.last()
    summary = messages[0]
    assert summary.message.id == SUMMARY
    assert (summary["aggressorSide"], summary["lastPx"]) == ("SELL", Decimal("20.50"))
    sums = (summary["fillQty"], summary["tradedHiddenQty"], summary["cxlQty"])
    assert sums == (1800, 1000, 0)
    trades = [message for message in messages if message.message.id == TRADE]
    assert [(x["mDEntryPx"], x["mDEntrySize"], x["tradeID"]) for x in trades] == [
        (Decimal("20.50"), 800, 10),
        (Decimal("20.50"), 500, 20),
        (Decimal("20.50"), 500, 30),
    ]
    book = [message for message in messages if message.message.id in (ORDER, DELETE)]
    second, third = (x["secondaryOrderID"] for x in book if x.message.id == ORDER)
    assert iceberg < second < third
    assert [
        (NAMES[x.message.id], x["mDEntryType"], x["mDEntryPx"], x["mDEntrySize"],
         x["secondaryOrderID"])
        for x in book
    ] == [
        ("Delete", "BID", Decimal("20.50"), 800, first),
        ("Delete", "BID", Decimal("20.50"), 500, iceberg),
        ("Order", "BID", Decimal("20.50"), 500, second),
        ("Delete", "BID", Decimal("20.50"), 500, second),
        ("Order", "BID", Decimal("20.50"), 500, third),
    ]  # fmt: skip
    flagged = [x.values.get("matchEventIndicator") for x in messages]
    assert flagged[-1] == 0x80
    assert not any(flagged[:-1])


def test_000_4_2_1_a_mass_cancel_is_one_event_over_several_instruments():
    example = Example(share(), share(OTHER))
    for security_id in (SHARE, OTHER, SHARE):
        example.floor.order(BUY, 5, 10, security_id=security_id)
        example.last()
    example.floor.do(MassCancel(1, 99))
    messages = example.last()
    assert {message["securityID"] for message in messages} == {SHARE, OTHER}
    assert [message["matchEventIndicator"] for message in messages] == [0, 0, 0x80]
    assert [message["rptSeq"] for message in messages if message["securityID"] == SHARE] == [3, 4]


def test_000_14_group_phase_and_instrument_status():
    example = Example(share(99999999))
    floor = example.floor
    floor.do(SetSecurityStatus(99999999, TradingStatus.PAUSE))
    (status,) = example.last()
    assert status.message.id == STATUS
    assert status["securityID"] == 99999999
    assert status["securityTradingStatus"] == "PAUSE"
    assert status["securityTradingEvent"] == "SECURITY_STATUS_CHANGE"
    assert (status["matchEventIndicator"], status["rptSeq"]) == (0x80, 1)
    floor.do(RejoinGroup(99999999))
    (status,) = example.last()
    assert status["securityTradingStatus"] == "OPEN"
    assert status["securityTradingEvent"] == "SECURITY_REJOINS_SECURITY_GROUP_STATUS"
    assert status["rptSeq"] == 2
    floor.do(SetGroupPhase("XX", TradingStatus.PAUSE))
    (phase,) = example.last()
    assert phase.message.id == PHASE
    assert (phase["securityGroup"], phase["tradingSessionSubID"]) == ("XX", "PAUSE")
    assert phase["matchEventIndicator"] == 0x80


def test_000_18_1_an_implied_order_is_flagged_and_last_at_its_price():
    spread = share(implied_market_indicator=True, security_group="YY")
    example = Example(spread)
    example.floor.do(EnterImplied(SHARE, SELL, px(0.35), 10))
    (implied,) = example.last()
    assert implied["matchEventIndicator"] & 0x10
    example.floor.order(SELL, 15, 0.35)
    (normal,) = example.last()
    assert not normal["matchEventIndicator"] & 0x10
    assert [(size, price) for _, size, price in example.book()[1]] == [(15, 0.35), (10, 0.35)]
    example.floor.order(BUY, 20, 0.35, session=5)
    trades = [x for x in example.last() if x.message.id == TRADE]
    assert [(x["mDEntrySize"], x["matchEventIndicator"] & 0x10) for x in trades] == [
        (15, 0),
        (5, 0x10),
    ]
