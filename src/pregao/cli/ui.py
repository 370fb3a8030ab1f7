"""``pregao ui``: a lake or the live market in the browser.

``pregao ui --demo``: an exchange with a trading crowd in this process, on loopback.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import tempfile
import threading
import tomllib
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from datetime import tzinfo
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Final

import typer

from pregao import extras
from pregao.cli import options
from pregao.cli.config import LAKE_VARIABLE, configuration, default_lake, zone
from pregao.cli.ep import command
from pregao.errors import PregaoError, UsageError
from pregao.exchange.host.crowd import CrowdRunner
from pregao.exchange.host.server import ExchangeServer
from pregao.exchange.host.settings import ExchangeSettings
from pregao.exchange.simulation.instruments import choose_instruments
from pregao.exchange.traders.profiles import load_profile
from pregao.live.config import LiveConfig, parse_config
from pregao.net.addresses import Address

if TYPE_CHECKING:
    from pregao.live.config import LiveConfig
    from pregao.web.exchange_panel import ExchangePanel
    from pregao.web.origin_guard import Application


EPILOG = "\n\n".join(
    (
        "Examples:",
        "pregao ui --lake lake",
        "pregao ui --demo",
        "pregao ui --live live.toml --exchange 9612",
        "docs/page.md describes the page. It is served on localhost only and requires the token in "
        "the printed URL.",
    )
)
PORT = 8050
_COLLECTION = (50_000, 20, 100)
_Desk = tuple[int, int, str]
"""Identity for order entry: session ID, firm and access key."""


def ui(
    context: typer.Context,
    lake: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            envvar=LAKE_VARIABLE,
            show_default="lake of pregao.toml",
            help="Show this lake at any time of its days.",
        ),
    ] = None,
    live: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Follow the channels of this configuration file."),
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="Run an exchange in this process and follow its feed.")
    ] = False,
    exchange: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            min=1,
            max=65535,
            help="With --live: control port of the exchange, for its panel.",
        ),
    ] = None,
    gateway: command.Gateways = None,
    session: command.Session = 100_000_004,
    firm: command.Firm = 127,
    access_key: command.Key = command.DEFAULT_KEY,
    port: Annotated[int, typer.Option(min=0, max=65535, help="HTTP port of the page.")] = PORT,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default="a random token at each start",
            help="File with the page's token, readable by you only.",
        ),
    ] = None,
    open_: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in the browser.")
    ] = True,
    tz: options.Zone = None,
) -> None:
    """Show a lake or the live feed in the browser: ladder, tape, heatmap, bars, auctions."""
    source = context.get_parameter_source("lake")
    # Only a lake given as an option conflicts: the configured default is not a request.
    named = lake is not None and source is not None and source.name == "COMMANDLINE"
    if sum((named, live is not None, demo)) > 1:
        raise UsageError("`pregao ui` accepts only one of --lake DIR, --live FILE and --demo.")
    if exchange is not None and live is None:
        raise UsageError("--exchange requires --live: it is the exchange that sends that feed.")
    extras.require("starlette", "uvicorn", "websockets")
    shown = zone(tz or configuration().tz or "UTC", "--tz")
    from pregao.live.config import read_config
    from pregao.web.origin_guard import read_token
    from pregao.web.server import PageServer

    token = None if token_file is None else read_token(token_file)
    desk = (session, firm, access_key)
    with ExitStack() as opened:
        if demo:
            application = _of_demo(opened, shown, desk)
        elif live is not None:
            panel = None
            if exchange is not None:
                panel = _panel(exchange, gateway or command.DEFAULT_GATEWAYS, desk)
                opened.callback(panel.close)
            application = _of_feed(opened, read_config(live), str(live), shown, panel)
        else:
            application = _of_lake(lake, shown)
        server = opened.enter_context(PageServer(application, port, token=token))
        # Books are many small lists without reference cycles: collections dominated run time.
        gc.set_threshold(*_COLLECTION)
        _print_line(f"serving on {server.url} (Ctrl-C to stop)")
        if open_:
            _open_browser(opened, server.url)
        with suppress(KeyboardInterrupt):  # the regular way to stop
            server.wait()


def _open_browser(opened: ExitStack, url: str) -> None:
    """Open a URL in the browser through a file that only the user can read.

    Other users of this machine can see process arguments, and so the token, but not that file.
    """
    import webbrowser

    folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="pregao-ui-")))
    page = folder / "open.html"
    page.write_text(
        '<!doctype html><meta charset="utf-8"><title>Pregão</title>'
        f'<meta http-equiv="refresh" content="0; url={url}"><a href="{url}">Open the page</a>\n',
        "utf-8",
    )
    webbrowser.open(page.as_uri())


def _of_lake(lake: str | None, shown: tzinfo) -> Application:
    from pregao.web.lake_market import LakeMarket
    from pregao.web.server import lake_application

    return lake_application(LakeMarket(default_lake() if lake is None else lake, shown))


def _of_feed(
    opened: ExitStack, config: LiveConfig, name: str, shown: tzinfo, panel: ExchangePanel | None
) -> Application:
    """Return the page of a live feed."""
    from pregao.live.handler import FeedHandler
    from pregao.web.live_market import LiveMarket
    from pregao.web.server import live_application

    handler = FeedHandler(config)
    market = LiveMarket(handler, name, shown)
    opened.callback(handler.stop)
    handler.start()
    return live_application(market, panel)


def _of_demo(opened: ExitStack, shown: tzinfo, desk: _Desk) -> Application:
    """Return the page of an exchange in this process, on loopback, with its panel."""

    _print_line(f"starting an exchange with {INSTRUMENTS} instruments and a trading crowd …")
    exchange = opened.enter_context(DemoExchange())
    panel = _panel(exchange.control_port, [str(exchange.gateway)], desk)
    opened.callback(panel.close)
    return _of_feed(opened, exchange.config, "demo exchange", shown, panel)


def _panel(control: int, gateways: Sequence[str], desk: _Desk) -> ExchangePanel:
    from pregao.entrypoint.session_settings import ClientSettings
    from pregao.net.addresses import parse_address
    from pregao.web.exchange_panel import ExchangePanel

    addresses = [parse_address(each, "--gateway") for each in gateways]
    settings = ClientSettings(*desk)
    return ExchangePanel(control, settings, [(address.host, address.port) for address in addresses])


def _print_line(words: str) -> None:
    sys.stderr.write(f"pregao: {words}\n")
    sys.stderr.flush()


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
