"""``pregao ui --demo``: its own exchange, which is followed, operated and traded on."""

from pregao.cli.ui_demo import INSTRUMENTS, DemoExchange
from pregao.entrypoint import ClientSettings
from pregao.live import FeedHandler
from pregao.units import Side
from pregao.web.exchange_panel import ExchangePanel
from pregao.web.json_routes import Parameters
from pregao.web.live_market import LiveMarket
from tests.waiting import until


def test_the_page_of_the_demonstration_is_backed_by_an_exchange():
    with DemoExchange() as exchange:
        handler = FeedHandler(exchange.config)
        market = LiveMarket(handler, "the test")
        handler.start()
        gateway = exchange.gateway
        panel = ExchangePanel(
            exchange.control_port,
            ClientSettings(100_000_004, 127, "123456789ABC"),
            [(gateway.host, gateway.port)],
        )
        try:

            def busiest():
                known = market.search("")["instruments"]
                return len(known) >= INSTRUMENTS and max(known, key=lambda one: one["messages"])

            own = until(busiest)
            key = int(own["channel"]), int(own["id"])

            def offered():
                view = market.view(*key)
                return view is not None and view["sides"][Side.ASK]["levels"]

            until(offered)
            order = {"side": "BUY", "quantity": "100", "price": "", "id": own["id"]}

            def bought():
                # The crowd may have taken what was offered.
                assert panel.order(Parameters(order))["answer"].startswith("ExecutionReport_")
                return any(one["traded"] for one in panel.status()["own_orders"])

            until(bought, lambda: panel.status()["own_orders"], every=0.2)
            panel.do(Parameters({"command": "halt", "symbol": own["symbol"]}))
            until(lambda: market.view(*key)["status"] == "PAUSE")
        finally:
            panel.close()
            handler.stop()
