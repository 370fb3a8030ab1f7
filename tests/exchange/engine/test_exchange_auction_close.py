"""Ends of auctions: extensions, random ends, the protection band, orders that are bound."""

from __future__ import annotations

from decimal import Decimal

import pytest

from pregao.clock import SECOND, parse_ns
from pregao.exchange.engine.model.auction_rules import AuctionRules, parse_auction_rules
from pregao.exchange.engine.model.commands import CancelOrder, MassCancel
from pregao.exchange.engine.model.enums import ExecRestatementReason, PriceBandType, TradingStatus
from pregao.exchange.engine.model.events import (
    AuctionImbalance,
    News,
    SecurityStatus,
    TheoreticalOpeningPrice,
    Trade,
)
from pregao.exchange.engine.model.operations_commands import (
    AdvanceTime,
    PairAuctions,
    SetGroupPhase,
    SetPriceBand,
    SetSecurityStatus,
)
from pregao.exchange.engine.model.reports import OrderCancelled, OrderModified
from tests.exchange.floor import BUY, OTHER, SELL, SHARE, Floor, future, px, share

OPEN, RESERVED, CLOSE = TradingStatus.OPEN, TradingStatus.RESERVED, TradingStatus.CLOSE
EXTENDING = AuctionRules(extension_ns=30 * SECOND, window_ns=60 * SECOND, extensions=2)
RANDOM = AuctionRules(random_ns=30 * SECOND)
PROTECTED = AuctionRules(extension_ns=60 * SECOND, extensions=2, protection=100_000)
BINDING = AuctionRules(binding=True)


def at(time: str) -> int:
    return parse_ns(f"2026-05-21T{time}")


def auction(rules: AuctionRules | None = None, until: str = "12:05:00", **options: object) -> Floor:
    """An instrument in its own auction since 12:00, with two orders that will trade."""
    floor = Floor(share(auction=rules), phase=OPEN, **options)
    floor.now = at("12:00:00")
    floor.do(SetSecurityStatus(SHARE, RESERVED, open_time_ns=at(until)), after=0)
    floor.order(BUY, 10, 10)
    floor.order(SELL, 10, 10, session=2)
    return floor


def go(floor: Floor, time: str, after: int = 0) -> None:
    floor.now = at(time) + after
    floor.do(AdvanceTime(), after=0)


def status(floor: Floor, security_id: int = SHARE) -> TradingStatus:
    return floor.engine.book(security_id).ruling_status


def reasons(floor: Floor) -> list[str]:
    return [news.headline.partition(" - ")[2] for news in floor.items(News)]


def test_000_15_4_a_late_change_moves_the_end_by_30_seconds_and_news_announce_it():
    floor = auction(EXTENDING)
    floor.now = at("12:04:20")
    floor.order(BUY, 5, 10)
    assert not floor.items(News)  # the price and the quantity that trade are the same
    floor.order(SELL, 5, 10, session=2)
    (published,) = floor.items(SecurityStatus)
    assert (published.status, published.open_time_ns) == (RESERVED, at("12:05:30"))
    (news,) = floor.items(News)
    assert news.headline == "Auction for instrument ACME1 - extension"
    assert news.text == "Call for instrument ACME1 -Reason: extension"
    go(floor, "12:05:29")
    assert status(floor) == RESERVED
    go(floor, "12:05:30")
    assert status(floor) == OPEN
    assert sum(trade.size for trade in floor.items(Trade)) == 15
    floor.check_feed()


def test_a_change_before_the_window_moves_nothing():
    floor = auction(EXTENDING)
    floor.now = at("12:03:59")
    floor.order(SELL, 5, "9.99", session=2)
    assert not floor.items(News)
    go(floor, "12:05:00")
    assert status(floor) == OPEN


def test_an_end_moves_once_for_each_schedule_and_not_forever():
    floor = auction(EXTENDING)
    moved = []
    for time in ("12:04:30", "12:04:40", "12:05:10", "12:05:20", "12:05:40"):
        floor.now = at(time)
        floor.order(BUY, 1, "10.50")
        floor.order(SELL, 1, "9.50", session=2)
        moved += [(time, item.open_time_ns) for item in floor.items(SecurityStatus)]
    assert moved == [("12:04:30", at("12:05:30")), ("12:05:10", at("12:06:00"))]
    go(floor, "12:06:00")
    assert status(floor) == OPEN


def test_an_auction_called_by_a_band_has_its_own_duration_and_a_reason():
    rules = AuctionRules(duration_ns=90 * SECOND, extension_ns=SECOND, window_ns=3600 * SECOND)
    floor = Floor(share(auction=rules))
    floor.do(SetPriceBand(SHARE, PriceBandType.AUCTION_LIMITS, low=px(9), high=px(11)))
    floor.order(SELL, 10, 12, session=2)
    floor.now = at("12:00:00") - 1
    floor.order(BUY, 10, 12)
    (published,) = floor.items(SecurityStatus)
    assert published.open_time_ns == at("12:01:30")
    assert reasons(floor) == ["oscillation"]
    go(floor, "12:01:30")
    assert status(floor) == OPEN


def test_000_14_1_an_auction_can_end_at_a_random_time():
    ends = set()
    for seed in range(20):
        floor = auction(RANDOM, seed=seed)
        go(floor, "12:05:00")
        (published,) = floor.items(SecurityStatus)
        assert (published.status, published.open_time_ns) == (RESERVED, None)
        assert reasons(floor) == ["random end"]
        end = floor.engine.next_due_ns
        assert end is not None
        assert at("12:05:00") < end <= at("12:05:30")
        ends.add(end)
        floor.now = end - 2
        floor.order(BUY, 1, 10)  # orders are taken up to the end
        assert status(floor) == RESERVED
        floor.do(AdvanceTime())
        assert status(floor) == OPEN
        floor.check_feed()
    assert len(ends) > 10


def test_the_same_seed_draws_the_same_and_each_instrument_its_own():
    def ends(seed: int) -> list[int]:
        floor = Floor(share(SHARE), share(OTHER), seed=seed, auction_rules=RANDOM)
        floor.now = at("12:00:00")
        for security_id in (SHARE, OTHER):
            floor.do(SetSecurityStatus(security_id, RESERVED, open_time_ns=at("12:05:00")))
        go(floor, "12:05:00")
        found = []
        while (due := floor.engine.next_due_ns) is not None:
            found.append(due)
            floor.now = due
            floor.do(AdvanceTime(), after=0)
        return found

    assert ends(7) == ends(7)
    assert len(set(ends(7))) == 2
    assert ends(7) != ends(8)


def test_000_15_2_1_outside_the_protection_band_an_auction_does_not_end():
    floor = auction(PROTECTED)
    floor.engine.market.listings[SHARE].previous_close8 = px(8) * 10_000
    go(floor, "12:05:00")
    (published,) = floor.items(SecurityStatus)
    assert (published.status, published.open_time_ns) == (RESERVED, at("12:06:00"))
    assert reasons(floor) == ["protection band"]
    # Another sell order: within ten percent of 8.00 the auction can end.
    floor.order(SELL, 100, "8.50", session=2)
    go(floor, "12:06:00")
    assert status(floor) == OPEN
    assert {trade.price for trade in floor.items(Trade)} == {px("8.50")}


def test_the_protection_band_gives_way_after_its_extensions():
    floor = auction(PROTECTED)
    floor.engine.market.listings[SHARE].previous_close8 = px(8) * 10_000
    for time in ("12:05:00", "12:06:00"):
        go(floor, time)
        assert reasons(floor) == ["protection band"]
    go(floor, "12:07:00")
    assert status(floor) == OPEN


def test_000_15_3_an_opening_auction_is_extended_independently_of_its_group():
    floor = Floor(future(SHARE, symbol="DOLF24"), future(OTHER, symbol="WDOF24"), phase=CLOSE)
    floor.now = at("08:55:00")
    floor.do(PairAuctions(SHARE, OTHER), after=0)
    floor.do(SetGroupPhase("XX", RESERVED, open_time_ns=at("09:00:00"), auction=EXTENDING))
    floor.order(BUY, 10, 10)
    floor.now = at("08:59:50")
    floor.order(SELL, 10, 10, session=2)
    (published,) = floor.items(SecurityStatus)
    assert (published.security_id, published.open_time_ns) == (SHARE, at("09:00:30"))
    assert reasons(floor) == ["extension"]
    floor.now = at("09:00:00")
    floor.do(SetGroupPhase("XX", OPEN), after=0)
    assert reasons(floor) == ["synchronization"]  # the other one waits
    assert [status(floor, each) for each in (SHARE, OTHER)] == [RESERVED, RESERVED]
    go(floor, "09:00:31")
    assert [status(floor, each) for each in (SHARE, OTHER)] == [OPEN, OPEN]
    assert floor.items(Trade)


def test_a_change_after_the_end_of_an_unended_phase_moves_it_from_now_on():
    floor = Floor(share(), phase=CLOSE)
    floor.now = at("09:45:00")
    floor.do(SetGroupPhase("XX", RESERVED, open_time_ns=at("10:00:00"), auction=EXTENDING))
    floor.order(BUY, 10, 10)
    floor.now = at("10:05:00") - 1
    floor.order(SELL, 10, 10, session=2)
    (published,) = floor.items(SecurityStatus)
    assert published.open_time_ns == at("10:05:30")


def test_an_opening_auction_can_end_at_random_after_its_group():
    floor = Floor(share(), phase=CLOSE)
    floor.now = at("09:45:00")
    floor.do(SetGroupPhase("XX", RESERVED, open_time_ns=at("10:00:00"), auction=RANDOM))
    floor.order(BUY, 10, 10)
    floor.order(SELL, 10, 10, session=2)
    floor.now = at("10:00:00")
    floor.do(SetGroupPhase("XX", OPEN), after=0)
    assert reasons(floor) == ["random end"]
    assert not floor.items(Trade)
    assert status(floor) == RESERVED
    go(floor, "10:00:30")
    assert status(floor) == OPEN
    assert floor.items(Trade)
    floor.check_feed()


def test_000_13_10_1_a_held_instrument_is_reserved_before_its_group_opens():
    floor = Floor(share(auction=RANDOM), share(OTHER), phase=CLOSE)
    floor.now = at("09:45:00")
    floor.do(SetGroupPhase("XX", RESERVED, open_time_ns=at("10:00:00")))
    for security_id in (SHARE, OTHER):
        floor.order(BUY, 10, 10, security_id=security_id)
        floor.order(SELL, 4, 10, session=2, security_id=security_id)
    prices = floor.shown(TheoreticalOpeningPrice, AuctionImbalance)
    floor.now = at("10:00:00")
    floor.do(SetGroupPhase("XX", OPEN), after=0)
    held, uncrossing, change, news = floor.last.market
    (published,) = held.items
    assert (held.event, change.event, news.event) == (False, False, False)
    assert (published.security_id, published.status) == (SHARE, RESERVED)
    assert {item.security_id for item in uncrossing.items} == {OTHER}
    assert [item.phase for item in change.items] == [OPEN]
    assert [item.security_id for item in news.items] == [SHARE]
    assert floor.shown(TheoreticalOpeningPrice, AuctionImbalance) == prices
    assert len(prices) == 2


def test_orders_in_the_theoretical_price_are_bound_unless_cancelled_by_mistake():
    floor = auction(BINDING)
    bound = floor.order(BUY, 10, "10.10")
    free = floor.order(BUY, 10, "9.90")
    floor.cancel(bound)
    assert floor.reject_code() == 7027
    for quantity, price in ((9, "10.10"), (10, "10.09")):
        floor.modify(bound, quantity, price)
        assert floor.reject_code() == 7027
    floor.do(MassCancel(1, 99, security_id=SHARE))
    assert [report.orig_cl_ord_id or report.cl_ord_id for report in floor.reports(OrderCancelled)]
    assert free not in [order.cl_ord_id for order in floor.engine.market.orders.values()]
    assert bound in [order.cl_ord_id for order in floor.engine.market.orders.values()]
    better = floor.modify(bound, 11, "10.20")
    assert floor.reports(OrderModified)
    reason = ExecRestatementReason.CANCEL_ORDER_DUE_TO_OPERATIONAL_ERROR
    floor.do(CancelOrder(1, 500, SHARE, orig_cl_ord_id=better, reason=reason))
    assert floor.reports(OrderCancelled)
    floor.check_feed()


def test_without_rules_orders_of_an_auction_can_be_cancelled():
    floor = auction()
    order = floor.order(BUY, 10, "10.10")
    floor.cancel(order)
    assert floor.reports(OrderCancelled)


def test_the_rules_of_the_instrument_come_before_those_of_the_phase_and_the_market():
    floor = Floor(
        share(SHARE, auction=AuctionRules(duration_ns=7)),
        share(OTHER),
        auction_rules=AuctionRules(duration_ns=9),
        phase=CLOSE,
    )
    floor.do(SetGroupPhase("XX", RESERVED, auction=AuctionRules(duration_ns=8)))
    listings = floor.engine.market.listings
    assert [listings[each].auction for each in (SHARE, OTHER)] == [
        AuctionRules(duration_ns=7),
        AuctionRules(duration_ns=8),
    ]
    floor.do(SetGroupPhase("XX", OPEN))
    assert listings[SHARE].auction is None
    floor.do(SetSecurityStatus(OTHER, RESERVED))
    assert listings[OTHER].auction == AuctionRules(duration_ns=9)


def test_rules_are_read_from_tables():
    rules = parse_auction_rules(
        {"duration": 300, "extension": Decimal("30.5"), "window": 60, "random_end": 30}
    )
    assert rules == AuctionRules(300 * SECOND, 30_500_000_000, 60 * SECOND, 1, 30 * SECOND)
    assert parse_auction_rules({"extension": 1, "protection": 10}).protection == 100_000


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (5, "must be a table"),
        ({"extention": 5}, "unknown auction rule 'extention'"),
        ({"extension": "5"}, "must be a time in seconds"),
        ({"extension": -5}, "must be from 0"),
        ({"duration": 0}, "must be greater than 0"),
        ({"extensions": 2}, "extensions requires extension"),
        ({"extension": 5}, "requires window"),
        ({"protection": 5}, "protection requires extension"),
        ({"protection": 0, "extension": 5}, "percentage above 0"),
        ({"binding": 1}, "true or false"),
        ({"extensions": 1.5, "extension": 5}, "integer from 0"),
    ],
)
def test_an_error_in_the_rules_is_one_line(table: object, message: str):
    with pytest.raises(ValueError, match=message):
        parse_auction_rules(table)
