"""An exchange, the feed handler that follows it, and the page of both, on loopback."""

import os
import tomllib
from contextlib import ExitStack, contextmanager
from itertools import count

from pregao.entrypoint import ClientSettings
from pregao.live import FeedHandler, parse_config
from pregao.net.addresses import Address
from pregao.web.exchange_panel import ExchangePanel
from pregao.web.live_market import LiveMarket
from pregao.web.server import PageServer, live_application
from tests.exchange.host_desk import Exchange, quiet_settings

_PORT_RANGES = count()
SESSION, FIRM, KEY = 100_000_004, 127, "123456789ABC"


def followed_settings():
    """An exchange whose feed goes to ports that no other test process uses."""
    # Processes of one run have the same parent, and each another number.
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    process = (os.getppid() + worker) % 6
    base = Address("127.0.0.1", 18_000 + process * 2_000 + next(_PORT_RANGES) % 4 * 500)
    return quiet_settings(feed="unicast", unicast=base)


@contextmanager
def live_page(*, panel=True):
    """The page of an exchange that runs for the test: the server, the exchange, the market."""
    settings = followed_settings()
    with ExitStack() as opened:
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
