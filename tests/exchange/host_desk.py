"""An exchange in a thread of the test, and the raw clients that connect to it."""

import asyncio
import contextlib
import threading
from dataclasses import replace

from pregao.exchange.host.admin.control_server import send_request
from pregao.exchange.host.server import ExchangeServer
from pregao.exchange.host.settings import ExchangeSettings
from pregao.net.addresses import Address
from tests.entrypoint.raw_client import DOL, ORDER, PETR4, VALE3, Client, parties, row
from tests.entrypoint.raw_peer import SESSION
from tests.waiting import PATIENCE_S

__all__ = [
    "DOL",
    "ORDER",
    "PETR4",
    "VALE3",
    "Client",
    "Exchange",
    "parties",
    "quiet_settings",
    "row",
    "whole_state",
]

ANYWHERE = Address("127.0.0.1", 0)


def quiet_settings(**changes):
    """An exchange of the bundled instruments on free ports, without a feed."""
    usual = {"primary": ANYWHERE, "backup": ANYWHERE, "control_port": 0, "feed": "none"}
    return replace(ExchangeSettings(), **(usual | changes))


class Exchange:
    """A running exchange; `with Exchange() as exchange:` ends it."""

    def __init__(self, settings=None, journal=None, capture=None):
        self.settings = quiet_settings() if settings is None else settings
        self.server = ExchangeServer(self.settings, journal=journal, capture=capture)
        self._started = threading.Event()
        self.error = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._clients = []

    def __enter__(self):
        self._thread.start()
        assert self._started.wait(PATIENCE_S)
        if self.error is not None:
            self._thread.join(PATIENCE_S)  # it lets go of its journal
            raise self.error
        return self

    def __exit__(self, *_):
        for client in self._clients:
            client.close()
        with contextlib.suppress(RuntimeError):  # it has ended on its own
            self.loop.call_soon_threadsafe(self.server.stop)
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error

    def _run(self):
        asyncio.run(self._serve())

    async def _serve(self):
        self.loop = asyncio.get_running_loop()
        try:
            await self.server.start()
        except Exception as error:
            self.error = error
        self._started.set()
        if self.error is None:
            try:
                await self.server.serve()
            except Exception as error:
                self.error = error
        await self.server.close()

    @property
    def host(self):
        return self.server.host

    def connect(self, gateway=1, **options):
        client = Client(self.server.addresses[gateway].port, **options)
        self._clients.append(client)
        return client

    def trader(self, version=2, session_id=SESSION, gateway=1, **establish):
        """A client with an established session."""
        client = self.connect(gateway, version=version, session_id=session_id)
        client.log_on(**establish)
        return client

    def control(self, **request):
        return send_request(self.server.control_port, request)

    def call(self, question):
        """Return the result of a host's function, called in the exchange's own thread."""

        async def answer():
            return question(self.host)

        return asyncio.run_coroutine_threadsafe(answer(), self.loop).result(PATIENCE_S)


def whole_state(host):
    """All of an exchange that must survive its process."""
    market = host.engine.market
    sessions = {}
    for session in host.gateways[host.active]:
        state = session.state
        sessions[session.session_id] = (
            state.session_ver_id,
            state.version,
            state.next_incoming,
            state.next_outgoing,
            dict(state.sent),
            state.cancel_on_disconnect,
        )
    books = [host.engine.book(each.security_id) for each in host.engine.instruments]
    numbers = (market.order_id, market.secondary_id, market.exec_id)
    protections = [
        each.settings for _, found in sorted(market.protections.items()) for each in found
    ]
    operations = (market.no_legs, market.deltas, protections)
    return sessions, books, numbers, host.active, operations
