"""``pregao ui``: the market in the browser."""

from __future__ import annotations

import gc
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from datetime import tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pregao import extras
from pregao.cli import ep, options
from pregao.cli.configuration import LAKE_VARIABLE, configuration, default_lake, zone
from pregao.errors import UsageError

if TYPE_CHECKING:
    from pregao.live import LiveConfig
    from pregao.web.exchange_panel import ExchangePanel
    from pregao.web.guards import Application

EPILOG = "\n\n".join(
    (
        "Examples:",
        "pregao ui --lake lake",
        "pregao ui --demo",
        "pregao ui --live live.toml --exchange 9612",
        "The page is described in docs/page.md. It is served to this machine only, and needs the "
        "token in the address that is printed.",
    )
)
PORT = 8050
_COLLECTION = (50_000, 20, 100)
_Desk = tuple[int, int, str]
"""Who enters orders: the session, its firm and its access key."""


def ui(
    context: typer.Context,
    lake: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            envvar=LAKE_VARIABLE,
            show_default="lake of pregao.toml",
            help="Show this lake: any moment of its days.",
        ),
    ] = None,
    live: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Follow the channels of this configuration instead."),
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="Run an exchange in this process, follow its feed.")
    ] = False,
    exchange: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            min=1,
            max=65535,
            help="With --live: the control port of the exchange that sends, for its panel.",
        ),
    ] = None,
    gateway: ep.Gateways = None,
    session: ep.Session = 100_000_004,
    firm: ep.Firm = 127,
    access_key: ep.Key = ep.DEFAULT_KEY,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where the page is served.")] = PORT,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default="a random token at each start",
            help="Read the page's token from this file, which only you may read.",
        ),
    ] = None,
    open_: Annotated[bool, typer.Option("--open/--no-open", help="Open it in the browser.")] = True,
    tz: options.Zone = None,
) -> None:
    """Show a lake or the live feed as a page: ladder, tape, heatmap, bars, auctions, replay."""
    source = context.get_parameter_source("lake")
    # A lake that is set for all commands does not count: nobody asked for it here.
    named = lake is not None and source is not None and source.name == "COMMANDLINE"
    if sum((named, live is not None, demo)) > 1:
        raise UsageError("pregao ui takes one of --lake DIR, --live FILE and --demo.")
    if exchange is not None and live is None:
        raise UsageError("--exchange is for --live: it names the exchange that sends the feed.")
    extras.require("starlette", "uvicorn", "websockets")
    shown = zone(tz or configuration().tz or "UTC", "--tz")
    from pregao.live import read_config
    from pregao.web import PageServer
    from pregao.web.tokens import read_token

    token = None if token_file is None else read_token(token_file)
    desk = (session, firm, access_key)
    with ExitStack() as opened:
        if demo:
            application = _of_demo(opened, shown, desk)
        elif live is not None:
            panel = None
            if exchange is not None:
                panel = _panel(exchange, gateway or ep.DEFAULT_GATEWAYS, desk)
                opened.callback(panel.close)
            application = _of_feed(opened, read_config(live), str(live), shown, panel)
        else:
            application = _of_lake(lake, shown)
        server = opened.enter_context(PageServer(application, port, token=token))
        # Books are many small lists without cycles: looking for some took most of the time.
        gc.set_threshold(*_COLLECTION)
        _say(f"the page is at {server.url} (end with Ctrl-C)")
        if open_:
            _open_browser(opened, server.url)
        with suppress(KeyboardInterrupt):  # that is how one ends what would go on for ever
            server.wait()


def _open_browser(opened: ExitStack, url: str) -> None:
    """Open an address in the browser by way of a file that only we may read.

    Other users of this machine see the arguments of processes, but not that file.
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
    from pregao.web import LakeMarket, lake_application

    return lake_application(LakeMarket(default_lake() if lake is None else lake, shown))


def _of_feed(
    opened: ExitStack, config: LiveConfig, name: str, shown: tzinfo, panel: ExchangePanel | None
) -> Application:
    """The page of the feed of a configuration."""
    from pregao.live import FeedHandler
    from pregao.web import LiveMarket, live_application

    handler = FeedHandler(config)
    market = LiveMarket(handler, name, shown)
    opened.callback(handler.stop)
    handler.start()
    return live_application(market, panel)


def _of_demo(opened: ExitStack, shown: tzinfo, desk: _Desk) -> Application:
    """The page of an exchange that runs in this process, on loopback, with its panel."""
    from pregao.cli.ui_demo import INSTRUMENTS, DemoExchange

    _say(f"opening an exchange of {INSTRUMENTS} instruments, on which a crowd trades …")
    exchange = opened.enter_context(DemoExchange())
    panel = _panel(exchange.control_port, [str(exchange.gateway)], desk)
    opened.callback(panel.close)
    return _of_feed(opened, exchange.config, "a demonstration", shown, panel)


def _panel(control: int, gateways: Sequence[str], desk: _Desk) -> ExchangePanel:
    from pregao.entrypoint import ClientSettings
    from pregao.net import parse_address
    from pregao.web.exchange_panel import ExchangePanel

    places = [parse_address(each, "--gateway") for each in gateways]
    settings = ClientSettings(*desk)
    return ExchangePanel(control, settings, [(place.host, place.port) for place in places])


def _say(words: str) -> None:
    sys.stderr.write(f"pregao: {words}\n")
    sys.stderr.flush()
