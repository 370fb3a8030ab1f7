"""The page of the live feed: it shows the exchange's state, and its requests are executed."""

import json
import threading

import httpx
import pytest

from pregao.exchange.engine.model.enums import (
    PriceBandMidpoint,
    PriceBandType,
    PriceLimitType,
    ProtectionScope,
)
from pregao.feed.fastpath.channel import FastChannel
from pregao.units import Side
from pregao.web.server import PageServer, live_application
from tests.exchange.host_desk import PETR4, VALE3
from tests.waiting import PATIENCE_S, until
from tests.web.live_support import SESSION, live_page
from tests.web.visiting import get, post, socket_of

OWN = {"channel": 51, "id": str(PETR4)}
OTHER = {"channel": 51, "id": str(VALE3)}


@pytest.fixture(scope="module")
def page():
    with live_page() as served:
        yield served


def known(server):
    """Wait until the instrument is known, and its book is confirmed."""

    def valid():
        book = get(server, "api/book", **OWN).json()
        return book is not None and book["state"] in ("valid", "empty") and book

    return until(valid)


def order(server, side, quantity, price, own=OWN):
    answer = post(
        server,
        "api/exchange/order",
        {"side": side, "quantity": quantity, "price": price, "id": own["id"]},
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_orders_of_the_page_come_back_over_the_feed(page):
    server, exchange, _ = page
    known(server)
    with socket_of(server, "ws/live") as socket:
        socket.send(json.dumps(OWN))
        reply = order(server, "BUY", 300, "30.10")
        assert reply["answer"] == "ExecutionReport_New"
        order(server, "SELL", 200, "30.30")

        def pushed():
            message = json.loads(socket.recv(PATIENCE_S))
            book = message.get("book")
            return book and all(side["levels"] for side in book["sides"]) and book

        book = until(pushed)
    assert [side["levels"][0] for side in book["sides"]] == [[301_000, 300, 1], [303_000, 200, 1]]
    assert book["state"] == "valid"
    public = reply["values"]["secondaryOrderID"]
    assert book["sides"][0]["queues"][0][0][3] == public
    listed = get(server, "api/exchange").json()
    assert {one["session"]: one["connected"] for one in listed["sessions"]}[SESSION]
    assert {one["quantity"] for one in listed["own_orders"]} >= {200, 300}
    engine = exchange.call(lambda host: len(host.engine.market.orders))
    assert engine == listed["orders"]


def test_a_symbol_is_found_ahead_of_those_that_begin_with_it(page, monkeypatch):
    server, _, market = page
    known(server)
    listed = FastChannel.instruments.fget
    # The list may have been joined anywhere.
    backwards = property(lambda own: dict(reversed(listed(own).items())))
    monkeypatch.setattr(FastChannel, "instruments", backwards)

    def symbols(words):
        return [
            one["symbol"] for one in get(server, "api/instruments", q=words).json()["instruments"]
        ]

    until(lambda: len(symbols("petr4")) > 1)
    for words in ("petr4", "PETR4F", "petr4t"):
        assert symbols(words)[0] == words.upper()
    # However the list of instruments was joined: the order of their definitions means nothing.
    assert symbols("petr4")[1:] == sorted(symbols("petr4")[1:])
    assert market.search("petr4")["count"] == len(symbols("petr4"))


class Slow:
    """A market that publishes an instrument while another one has already been selected."""

    def __init__(self, market):
        self._market = market
        self.requested = threading.Event()
        self.go_on = threading.Event()

    def __getattr__(self, name):
        return getattr(self._market, name)

    def view(self, channel, security_id):
        if security_id == PETR4 and not self.requested.is_set():
            self.requested.set()
            assert self.go_on.wait(PATIENCE_S)
        return self._market.view(channel, security_id)


def test_a_book_is_sent_under_its_own_number_when_another_is_selected_meanwhile(page):
    server, _, market = page
    known(server)
    order(server, "BUY", 100, "29.90")
    slow = Slow(market)
    with (
        PageServer(live_application(slow, None), 0) as served,
        socket_of(served, "ws/live") as socket,
    ):
        socket.send(json.dumps(OWN))
        assert slow.requested.wait(PATIENCE_S)
        socket.send(json.dumps(OTHER))
        # The server has read that message when it has answered a later request.
        assert get(served, "api/book", **OTHER).status_code == 200
        slow.go_on.set()
        books = {}

        def both():
            message = json.loads(socket.recv(PATIENCE_S))
            if "book" in message:
                books.setdefault(message["id"], message["book"])
            return OTHER["id"] in books

        until(both)
    assert books[OTHER["id"]]["sides"] == get(server, "api/book", **OTHER).json()["sides"]
    if OWN["id"] in books:
        assert books[OWN["id"]]["sides"] == get(server, "api/book", **OWN).json()["sides"]


def test_trades_and_busts_are_emitted(page):
    server, _, _ = page
    known(server)
    order(server, "BUY", 500, "30.20")
    order(server, "SELL", 500, "30.20")

    def traded():
        return [one for one in get(server, "api/book", **OWN).json()["trades"] if one[1] == 302_000]

    _sent, price, size, _, busted, number, *_ = until(traded)[-1]
    assert (price, size, busted) == (302_000, 500, None)
    assert (
        post(
            server, "api/exchange/do", {"command": "bust", "symbol": "PETR4", "trade": number}
        ).status_code
        == 200
    )
    gone = until(lambda: [one for one in traded() if one[4] is not None])
    assert gone[0][5] == number


def test_an_instrument_is_halted_and_resumed(page):
    server, _, _ = page
    known(server)

    def status():
        return get(server, "api/book", **OWN).json()["status"]

    assert (
        post(server, "api/exchange/do", {"command": "halt", "symbol": "petr4"}).status_code == 200
    )
    until(lambda: status() == "PAUSE")
    assert (
        post(server, "api/exchange/do", {"command": "resume", "symbol": "PETR4"}).status_code == 200
    )
    until(lambda: status() == "OPEN")
    news = {"command": "news", "headline": "<b>Fato relevante</b>"}
    assert post(server, "api/exchange/do", news).status_code == 200
    until(lambda: get(server, "api/news").json())
    assert get(server, "api/news").json()[-1]["headline"] == news["headline"]


def operate(server, **request):
    return post(server, "api/exchange/do", request | {"symbol": "PETR4"})


def test_operations_of_the_panel_reach_the_exchange(page):
    server, exchange, _ = page
    known(server)
    order(server, "BUY", 700, "20.10", OWN)

    def book():
        return exchange.call(lambda host: host.engine.book(PETR4))

    def figures():
        return {type(each).__name__: each for each in book().statistics}

    assert len(book().bids) >= 1
    for request in (
        {"command": "reset-book"},
        {"command": "delete-side", "side": "buy"},
        {"command": "settlement", "price": "36.5"},
        {"command": "closing", "price": "36.25"},
        {"command": "reference", "price": "36"},
        {"command": "open-interest", "quantity": 12},
        {"command": "quantity-band", "maximum": 10_000},
        {"command": "band", "kind": "REJECTION_BAND", "low": "1", "high": "90"},
        {"command": "trade", "price": "36.5", "quantity": 300},
        {"command": "reset-stream", "channel": 51},
        {"command": "delta", "delta": "-0.45"},
        {"command": "blacklist"},
        {"command": "protect", "id": "3", "firm": "85", "account": "7", "limit": "delta",
         "maximum": "600", "counts": "INSTRUMENT", "cancels": "BOTH"},
        {"command": "band", "kind": "AUCTION_LIMITS", "low": "-50", "high": "50",
         "limits": "PERCENTAGE", "midpoint": "LAST_TRADED_PRICE"},
    ):  # fmt: skip
        assert operate(server, **request).status_code == 200, request
    assert not book().bids
    shown = figures()
    assert (shown["SettlementPrice"].price, shown["ClosingPrice"].price8) == (
        365_000, 3_625_000_000,
    )  # fmt: skip
    assert (shown["OpenInterest"].size, shown["QuantityBand"].max_trade_vol) == (12, 10_000)
    deltas, forbidden, protections, bands = exchange.call(
        lambda host: (
            dict(host.engine.market.deltas),
            host.engine.market.no_legs,
            host.engine.market.protections[85, 7],
            host.engine.market.listings[PETR4].bands,
        )
    )
    assert (deltas[PETR4], forbidden) == (-4_500, {PETR4})
    (protection,) = protections
    (reference,) = protection.settings.references
    assert (reference.security_id, reference.counts, reference.cancels) == (
        PETR4, ProtectionScope.INSTRUMENT, ProtectionScope.BOTH,
    )  # fmt: skip
    assert (protection.settings.delta, protection.settings.executions) == (6_000_000, None)
    assert bands[PriceBandType.REJECTION_BAND][2:] == (10_000, 900_000)
    assert bands[PriceBandType.AUCTION_LIMITS] == (
        PriceLimitType.PERCENTAGE, PriceBandMidpoint.LAST_TRADED_PRICE, -500_000, 500_000,
    )  # fmt: skip
    assert operate(server, command="blacklist", remove="yes").status_code == 200
    assert not exchange.call(lambda host: host.engine.market.no_legs)
    assert "limit must be one of" in operate(server, command="protect", limit="x").json()["error"]
    traded = shown["LastTradePrice"]
    assert (traded.price, traded.size) == (365_000, 300)
    number = exchange.call(lambda host: host.engine.market.listings[PETR4].trade_id)
    amend = {"command": "amend-trade", "trade": number, "price": "36.6", "quantity": 0}
    assert operate(server, **amend).status_code == 200
    assert figures()["LastTradePrice"].price == 366_000
    assert operate(server, command="forbid").status_code == 200
    until(lambda: get(server, "api/book", **OWN).json()["status"] == "FORBIDDEN")
    assert operate(server, command="resume").status_code == 200
    until(lambda: get(server, "api/book", **OWN).json()["status"] == "OPEN")
    wrong = operate(server, command="settlement", price="much")
    assert wrong.status_code == 400
    assert "settlement: price must be a price" in wrong.json()["error"]


def test_search_definition_and_health(page):
    server, _, market = page
    known(server)
    assert get(server, "api/about").json()["exchange"]
    found = get(server, "api/instruments", q="petr4").json()["instruments"]
    assert found[0]["symbol"] == "PETR4"
    about = get(server, "api/instrument", **OWN).json()
    assert (about["symbol"], about["tick"]) == ("PETR4", 100)
    health = get(server, "api/health").json()
    own = next(one for one in health["channels"] if one["number"] == 51)
    assert own["instruments"] > 5
    assert sum(line["packets"] for line in own["lines"]) > 0
    assert market.view(51, 1) is None
    assert "no instrument 1" in get(server, "api/instrument", channel=51, id=1).json()["error"]


def test_what_the_page_may_not_do_is_refused(page):
    server, _, _ = page
    do = {"command": "halt", "symbol": "PETR4"}
    assert httpx.post(f"{server.address}api/exchange/do", json=do).status_code == 403
    assert (
        post(server, "api/exchange/do", do, headers={"origin": "http://evil.example"}).status_code
        == 403
    )
    refused = post(server, "api/exchange/do", {"command": "end-day"})
    assert "command must be one of" in refused.json()["error"]
    assert (
        "unknown instrument"
        in post(server, "api/exchange/do", {"command": "halt", "symbol": "NO"}).json()["error"]
    )
    for wrong in ({"side": "UP"}, {"quantity": 0}, {"price": "much"}, {"price": "NaN"}):
        request = {"side": "BUY", "quantity": 1, "price": "1", "id": OWN["id"]} | wrong
        assert post(server, "api/exchange/order", request).status_code == 400
    text = post(
        server, "api/exchange/do", content="command=halt", headers={"content-type": "text/plain"}
    )
    assert text.status_code == 415


def test_a_feed_without_an_exchange_has_no_panel():
    with live_page(panel=False) as (server, _, market):
        assert not get(server, "api/about").json()["exchange"]
        assert get(server, "api/exchange").status_code == 404
        known(server)
        sides = market.view(51, PETR4)["sides"]
        assert [side["orders"] for side in sides] == [0, 0]
        assert len(sides) == len(Side)


def test_bars_are_of_the_trades_that_count(page):
    server, _, _ = page
    known(server)
    for price in ("60.50", "60.60", "60.40"):
        order(server, "BUY", 700, price, OTHER)
        order(server, "SELL", 700, price, OTHER)

    def shown():
        return sum(bar[5] for bar in get(server, "api/bars", **OTHER, interval="1s").json())

    until(lambda: shown() == 2_100)
    trades = [*get(server, "api/book", **OTHER).json()["trades"]]
    assert len(trades) == 3
    highest = max(trades, key=lambda one: one[1])
    assert max(bar[2] for bar in get(server, "api/bars", **OTHER).json()) == highest[1]
    bust = {"command": "bust", "symbol": "VALE3", "trade": highest[5]}
    assert post(server, "api/exchange/do", bust).status_code == 200
    until(lambda: shown() == 1_400)
    whole = get(server, "api/bars", **OTHER, interval="5m").json()
    assert max(bar[2] for bar in whole) < highest[1]
    assert whole[-1][4] == trades[-1][1]
    assert (
        "interval must be one of 1s"
        in get(server, "api/bars", **OTHER, interval="7m").json()["error"]
    )
    spread = get(server, "api/latency").json()["spread"]["51"]
    until(lambda: sum(count for _, count in get(server, "api/latency").json()["spread"]["51"]) > 9)
    assert spread == sorted(spread)
