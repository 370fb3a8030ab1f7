"""Rules of auctions as an exchange is configured with them, over EntryPoint and after a restart."""

from dataclasses import replace

import pytest

from pregao.clock import SECOND
from pregao.errors import UsageError
from pregao.exchange.engine.model.auction_rules import AuctionRules, parse_auction_rules
from pregao.exchange.engine.model.events import News
from pregao.exchange.engine.model.schedule import parse_schedule
from pregao.exchange.host.admin.commands import phase_request
from pregao.exchange.host.settings import parse_settings
from tests.exchange.host_desk import ORDER, PETR4, parties, whole_state
from tests.exchange.host_floor import SESSIONS, SETTINGS, HostFloor

FIRST = SESSIONS[0]
RANDOM = replace(SETTINGS, auction_rules=AuctionRules(random_ns=30 * SECOND, binding=True))
CANCEL = {"securityID": PETR4, "side": "BUY", "senderLocation": "BVMF", "enteringTrader": "ABC"}


def in_auction(tmp_path, settings=RANDOM):
    floor = HostFloor(tmp_path, settings)
    end = floor.now + 60 * SECOND
    floor.host.control({"command": "auction", "symbol": "PETR4", "until_ns": end}, floor.now)
    floor.send(FIRST, "SimpleNewOrder", **(ORDER | parties(1, "BUY", 100, 32)))
    floor.send(FIRST, "SimpleNewOrder", **(ORDER | parties(2, "SELL", 100, 32)))
    floor.host.take_units()
    return floor, end


def headlines(floor):
    return [
        item.headline
        for unit in floor.host.take_units()
        for item in unit.items
        if isinstance(item, News)
    ]


def test_a_random_end_is_the_same_after_a_restart(tmp_path):
    floor, end = in_auction(tmp_path)
    floor.now = end
    floor.host.advance(end)
    assert headlines(floor) == ["Auction for instrument PETR4 - random end"]
    drawn = floor.host.engine.next_due_ns
    assert end < drawn <= end + 30 * SECOND
    expected = whole_state(floor.host)
    again = floor.again()
    assert whole_state(again) == expected
    assert again.engine.next_due_ns == drawn
    assert again.engine.market.seed == floor.host.engine.market.seed
    again.advance(drawn)
    assert again.engine.next_due_ns is None
    assert not again.engine.market.orders  # both have traded


def test_a_bound_order_is_cancelled_over_entrypoint_only_by_mistake(tmp_path):
    floor, _ = in_auction(tmp_path)
    ((name, reply),) = floor.send(FIRST, "OrderCancelRequest", clOrdID=3, origClOrdID=1, **CANCEL)
    assert (name, reply["ordRejReason"]) == ("ExecutionReport_Reject", 7027)
    assert reply["text"].startswith("An order in the theoretical price")
    ((name, reply),) = floor.send(
        FIRST,
        "OrderCancelRequest",
        clOrdID=4,
        origClOrdID=1,
        execRestatementReason="CANCEL_ORDER_DUE_TO_OPERATIONAL_ERROR",
        **CANCEL,
    )
    assert name == "ExecutionReport_Cancel"
    assert reply["execRestatementReason"] == "ORDER_CANCELLED_DUE_TO_OPERATIONAL_ERROR"
    floor.end()


def test_the_rules_are_configured_for_the_market_and_for_a_phase(tmp_path):
    table = {"extension": 30, "window": 60, "random_end": 10}
    assert parse_settings({"auction": table, "seed": 5}).auction_rules == parse_auction_rules(table)
    with pytest.raises(UsageError, match=r"auction cannot be read: unknown auction rule 'extent'"):
        parse_settings({"auction": {"extent": 1}})
    entries = [
        {"time": "09:45", "phase": "PRE_OPEN", "auction": table},
        {"time": "10:00", "phase": "OPEN"},
    ]
    schedule = parse_schedule({"schedule": {"default": entries}}, "schedule.toml")
    (_, opening), _ = schedule.commands(["01"], SETTINGS.first_date)
    assert opening.auction == parse_auction_rules(table)
    # The request that the journal keeps says the same.
    floor = HostFloor(tmp_path, SETTINGS)
    floor.host.control(phase_request(opening), floor.now)
    assert floor.host.engine.market.groups["01"].auction == opening.auction
    floor.end()
    entries[1]["auction"] = table
    with pytest.raises(UsageError, match="entry 2, field auction: OPEN is not an auction phase"):
        parse_schedule({"schedule": {"default": entries}}, "schedule.toml")
