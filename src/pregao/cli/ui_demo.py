"""``pregao ui --demo``: an exchange with a trading crowd in this process, on loopback."""

from __future__ import annotations

import asyncio
import os
import threading
import tomllib
from types import TracebackType
from typing import TYPE_CHECKING, Final

from pregao.errors import PregaoError
from pregao.exchange.host.crowd import CrowdRunner
from pregao.exchange.host.server import ExchangeServer
from pregao.exchange.host.settings import ExchangeSettings
from pregao.exchange.simulation.instruments import choose_instruments
from pregao.exchange.traders.profiles import load_profile
from pregao.live.config import LiveConfig, parse_config
from pregao.net.addresses import Address

if TYPE_CHECKING:
    from pregao.live.config import LiveConfig


INSTRUMENTS: Final = 16
RATE: Final = 120.0
"""Requests of the crowd per second."""
LOSS: Final = 0.02
"""Share of packets that each feed loses, so that the demo shows recovery."""
_PROFILE: Final = "equities"
_ANYWHERE: Final = Address("127.0.0.1", 0)
_FIRST_PORT, _PORTS, _ADDRESSES = 20_000, 1_000, 12
"""Ports of the feed, chosen by process ID so that concurrent demos use different ones."""
_PATIENCE_S: Final = 60.0


class DemoExchange:
    """An exchange in a thread, which runs inside `with DemoExchange() as exchange:`."""

    def __init__(self) -> None:
        profile = load_profile(_PROFILE)
        instruments = choose_instruments(profile, INSTRUMENTS, None, INSTRUMENTS)
        self.settings = ExchangeSettings(
            instruments=tuple(instruments),
            primary=_ANYWHERE,
            backup=None,
            control_port=0,
            feed="unicast",
            unicast=Address("127.0.0.1", _FIRST_PORT + os.getpid() % _ADDRESSES * _PORTS),
            loss=LOSS,
        )
        self._server = ExchangeServer(self.settings)
        self._crowd = CrowdRunner(self._server, profile, RATE)
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="pregao-exchange", daemon=True)

    def __enter__(self) -> DemoExchange:
        self._thread.start()
        if not self._started.wait(_PATIENCE_S):
            raise PregaoError(f"The demo exchange did not start within {_PATIENCE_S:g} s.")
        if self._failed is not None:
            raise self._failed
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._server.stop)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        try:
            await self._server.start()
            self._crowd.begin()
            self._started.set()
            await self._server.serve()
        except BaseException as error:
            self._failed = error
        finally:
            self._started.set()
            await self._server.close()

    @property
    def config(self) -> LiveConfig:
        """Configuration with which `pregao live` follows its feed."""
        return parse_config(tomllib.loads(self.settings.live_config()), "the demonstration")

    @property
    def control_port(self) -> int:
        """Control port of the exchange."""
        return self._server.control_port

    @property
    def gateway(self) -> Address:
        """Address for order entry."""
        return next(iter(self._server.addresses.values()))
