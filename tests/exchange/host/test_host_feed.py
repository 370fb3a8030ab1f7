"""The feed of a running exchange, followed: books equal to the engine's, also over a restart."""

import random
import threading
import time

from pregao.feed.channel.channel import Channel
from pregao.feed.channel.settings import ChannelSettings
from pregao.umdf.streams import Stream
from pregao.units import Side
from tests.exchange.host_desk import PETR4, Exchange, quiet_settings
from tests.waiting import until

EQUITIES = 51


class Listener:
    """A tap that keeps what is published, and a channel that follows it."""

    def __init__(self):
        self.lock = threading.Lock()
        self.datagrams = []
        self.channel = Channel(ChannelSettings(EQUITIES))
        self.channel.start(time.time_ns())

    def __call__(self, _settings):
        return self

    def opened(self, line):
        pass

    def received(self, line, data, now_ns):
        pass

    def sent(self, line, data, now_ns):
        pass

    def closed(self, line, now_ns):
        pass

    def published(self, datagrams):
        with self.lock:
            self.datagrams += datagrams

    def close(self):
        pass

    def follow(self):
        with self.lock:
            taken, self.datagrams = self.datagrams, []
        for datagram in taken:
            if datagram.channel != EQUITIES:
                continue
            feeds = "AB" if datagram.stream is Stream.INCREMENTAL else "A"
            for feed in feeds:
                self.channel.receive(datagram.stream, feed, datagram.payload, datagram.time_ns)

    def until(self, condition):
        def so():
            self.follow()
            return condition()

        until(so, lambda: self.channel.counters)


def rows(book):
    """A followed book as the engine shows its own."""
    return [
        [(each.price, each.size, each.order_id, each.firm) for each in book.content.orders(side)]
        for side in Side
    ]


def shown(view):
    return [
        [(each.price, each.size, each.secondary_order_id, each.firm) for each in side]
        for side in (view.bids, view.offers)
    ]


def is_the_engines(listener, exchange):
    book = listener.channel.book(PETR4)
    view = exchange.call(lambda host: host.engine.book(PETR4))
    return book.state.name in ("VALID", "EMPTY") and rows(book) == shown(view)


def trade(client, rng, count, first):
    """Send orders, some of which trade; return the public numbers that the reports name."""
    for number in range(first, first + count):
        side = rng.choice(("BUY", "SELL"))
        client.new(number, side, rng.randrange(1, 9) * 100, rng.randrange(30, 36))
    named = set()
    news = 0
    while news < count:
        (found,) = client.read_messages()
        news += found[0] == "ExecutionReport_New"
        named.add(found[1].get("secondaryOrderID"))
    return named


def test_followed_books_are_the_engines_also_after_a_restart(tmp_path):
    rng = random.Random(5)
    settings = quiet_settings(feed="unicast")
    listener = Listener()
    with Exchange(settings, journal=tmp_path, capture=listener) as exchange:
        client = exchange.trader()
        named = trade(client, rng, 120, 1)
        listener.until(lambda: is_the_engines(listener, exchange))
        public = {number for side in rows(listener.channel.book(PETR4)) for _, _, number, _ in side}
        assert public
        assert public <= named
        before = listener.channel.last_packet
    with Exchange(settings, journal=tmp_path, capture=listener) as exchange:
        # A separate sequence version.
        listener.until(lambda: listener.channel.last_packet[0] == before[0] + 1)
        listener.until(lambda: is_the_engines(listener, exchange))
        client = exchange.connect()
        client.establish(1, 121)
        trade(client, rng, 60, 1000)
        listener.until(lambda: is_the_engines(listener, exchange))


def test_a_late_joiner_learns_it_from_the_loops():
    rng = random.Random(6)
    first = Listener()
    with Exchange(quiet_settings(feed="unicast"), capture=first) as exchange:
        trade(exchange.trader(), rng, 60, 1)
        late = Listener()
        exchange.server._tap = late
        # The loops of definitions and of snapshots come in any order.
        late.until(lambda: is_the_engines(late, exchange) and len(late.channel.instruments) > 20)


def test_operations_are_on_the_feed():
    listener = Listener()
    with Exchange(quiet_settings(feed="unicast"), capture=listener) as exchange:
        exchange.control(command="news", headline="Something happened", symbol="PETR4")
        exchange.control(command="halt", symbol="PETR4")

        def news_received():
            names = {type(event).__name__ for event in listener.channel.take_events()}
            return "NewsReceived" in names

        listener.until(news_received)
