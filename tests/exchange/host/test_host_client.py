"""Our own client at our own exchange: what both know of orders, and what the lake makes of it."""

import asyncio
import random
from decimal import Decimal

import pytest

from pregao.entrypoint import (
    Client,
    ClientSettings,
    NotAppliedError,
    ReconnectPolicy,
    RequestBuilder,
)
from pregao.exchange.host.captures import captures_in
from pregao.lake.analytics.run import analyse
from pregao.lake.ingest.pipeline import ingest
from pregao.lake.ingest.verify import check_lake
from pregao.lake.storage.lake_store import LakeStore
from tests.entrypoint.raw_peer import FIRM, KEY, SESSION
from tests.exchange.host_desk import PETR4, VALE3, Exchange, quiet_settings
from tests.lake.analytics_support import latency_times
from tests.lake.days import rows
from tests.waiting import PATIENCE_S

QUICK = ReconnectPolicy(first_s=0.001, max_delay_s=0.02)


def held(exchange, version=2, session_id=SESSION):
    settings = ClientSettings(session_id, FIRM, KEY, version=version)
    addresses = [(each.host, each.port) for each in exchange.server.addresses.values()]
    return Client(settings, addresses[:1], reconnecting=QUICK)


def run(work):
    asyncio.run(asyncio.wait_for(work, PATIENCE_S))


def test_both_know_the_same_orders_though_the_exchange_ends_connections():
    chance, requests = random.Random(5), RequestBuilder(2)

    async def work(exchange):
        client = held(exchange)
        client.start()
        ended = 0
        for _ in range(1, 200):
            free = [each for each in client.orders.working() if not each.pending]
            roll = chance.random()
            if free and roll < 0.3:
                price = Decimal(chance.randrange(3000, 3020)) / 100
                quantity = 100 * chance.randrange(1, 9)
                made = requests.modify(chance.choice(free), quantity, price)
            elif free and roll < 0.5:
                made = requests.cancel(chance.choice(free))
            else:
                price = Decimal(chance.randrange(3000, 3020)) / 100
                side = chance.choice(["BUY", "SELL"])
                made = requests.new(side, chance.choice([PETR4, VALE3]), 100, price)
            await client.send(*made)
            if chance.random() < 0.05:
                await asyncio.to_thread(exchange.control, command="disconnect", session=SESSION)
                ended += 1
        while True:
            try:
                await client.request(*requests.new("BUY", PETR4, 100, Decimal(20)))
            except NotAppliedError:
                continue
            if not client.orders.unanswered:
                break
        assert ended > 3
        assert sum(each.order_id is not None for each in client.orders) > 20
        mine = {each.order_id: (each.cl_ord_id, each.leaves) for each in client.orders.working()}
        await client.close()
        return mine

    with Exchange() as exchange:
        mine = asyncio.run(asyncio.wait_for(work(exchange), PATIENCE_S))
        theirs = exchange.call(working_orders)
    assert mine
    assert mine == theirs


def working_orders(host):
    """The orders in the books, by their number: the client's number, what is left."""
    there = host.engine.market.orders.values()
    return {order.order_id: (order.cl_ord_id, order.leaves) for order in there}


@pytest.mark.parametrize("validity", ["DAY", "GOOD_TILL_CANCEL"])
def test_003_7_4_a_change_of_quantity_and_price_keeps_the_disclosed_quantity(validity):
    """The simple message leaves it alone; the full one, without it, would remove it."""
    requests = RequestBuilder(6)

    async def work(exchange):
        async with held(exchange, version=6) as client:
            entered = requests.new(
                "BUY", PETR4, 1000, Decimal(30), client_id=1, timeInForce=validity, maxFloor=200
            )
            await client.request(*entered)
            order = client.orders.get(1)
            found = []
            changes = ({}, {"maxFloor": 300}, {"deskID": "D"}, {"maxFloor": None})
            for number, more in enumerate(changes, 2):
                request = requests.modify(order, 900, Decimal(29 + number), **more)
                await client.request(*request)
                found.append(order.max_floor)
            return found

    with Exchange() as exchange:
        found = asyncio.run(asyncio.wait_for(work(exchange), PATIENCE_S))
    assert found == [200, 300, 300, None]


def test_captures_of_the_exchange_join_in_the_lake(tmp_path):
    """Orders and events of the public feed have the requests that caused them, with times."""
    requests = RequestBuilder(6)

    async def work(exchange):
        async with held(exchange, version=6) as client:
            for number in range(1, 31):
                side, price = ("BUY", 30) if number % 2 else ("SELL", 31)
                await client.request(
                    *requests.new(side, PETR4, 100, Decimal(price), client_id=number)
                )
            for number in range(31, 36):
                order = client.orders.get(number - 30)
                await client.request(
                    *requests.modify(order, 300, Decimal("30.5"), client_id=number)
                )

    folder = tmp_path / "captures"
    settings = quiet_settings(feed="unicast")
    with Exchange(settings, capture=captures_in(folder)) as exchange:
        run(work(exchange))
    lake = LakeStore(str(tmp_path / "lake"))
    ingest([str(folder)], lake.location)
    assert check_lake(lake).faults == []
    analyse(lake, tables=["orders", "latency"])
    orders = [row for row in rows(lake.location.path, "orders") if row["session_id"] is not None]
    assert {row["cl_ord_id"] for row in orders} >= set(range(1, 31))
    for row in orders:
        assert row["session_id"] == SESSION
        assert row["t1_ns"] <= row["t2_ns"] <= row["t4_ns"] <= row["t6_ns"]
    events = [row for row in latency_times(lake) if row["t1_ns"] is not None]
    assert len(events) >= 30
    for row in events:
        assert row["t1_ns"] <= row["t2_ns"] <= row["t4_ns"] <= row["t5_ns"] <= row["t11_ns"]
