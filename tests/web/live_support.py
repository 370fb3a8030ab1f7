"""An exchange, the feed handler that follows it, and the page of both, on loopback."""

import os
import socket
import tomllib
from contextlib import ExitStack, contextmanager

from pregao.entrypoint import ClientSettings
from pregao.live import FeedHandler, parse_config
from pregao.net.addresses import Address
from pregao.web.exchange_panel import ExchangePanel
from pregao.web.live_market import LiveMarket
from pregao.web.server import PageServer, live_application
from tests.exchange.host_desk import Exchange, quiet_settings
from tests.waiting import until

_PORT_RANGES = range(18_000, 30_000, 500)
"""First ports of feeds; those of one range follow in steps that leave out the next ranges."""
SESSION, FIRM, KEY = 100_000_004, 127, "123456789ABC"


@contextmanager
def port_range():
    """The first port of a range that no other test of this machine uses meanwhile."""
    first = os.getpid() % len(_PORT_RANGES)

    def reserved():
        for port in (*_PORT_RANGES[first:], *_PORT_RANGES[:first]):
            lock = socket.socket()
            try:
                lock.bind(("127.0.0.1", port))
            except OSError:
                lock.close()
            else:
                return lock
        return None

    with until(reserved) as lock:
        yield lock.getsockname()[1]


@contextmanager
def live_page(*, panel=True):
    """The page of an exchange that runs for the test: the server, the exchange, the market."""
    with ExitStack() as opened:
        base = Address("127.0.0.1", opened.enter_context(port_range()))
        settings = quiet_settings(feed="unicast", unicast=base)
        exchange = opened.enter_context(Exchange(settings))
        handler = FeedHandler(parse_config(tomllib.loads(settings.live_config()), "the test"))
        market = LiveMarket(handler, "the test")
        opened.callback(handler.stop)
        handler.start()
        desk = None
        if panel:
            address = exchange.server.addresses[1]
            own = ClientSettings(SESSION, FIRM, KEY)
            desk = ExchangePanel(exchange.server.control_port, own, [(address.host, address.port)])
            opened.callback(desk.close)
        server = opened.enter_context(PageServer(live_application(market, desk), 0))
        yield server, exchange, market
