"""``pregao ui``: a lake or the live market in the browser."""

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
from pregao.cli import options
from pregao.cli.config import LAKE_VARIABLE, configuration, default_lake
from pregao.cli.ep import command
from pregao.errors import UsageError
from pregao.units import MARKET_ZONE, parse_zone

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
_Identity = tuple[int, int, str]
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
    shown = parse_zone(tz or configuration().tz or MARKET_ZONE, "--tz")
    from pregao.live.config import read_config
    from pregao.web.origin_guard import read_token
    from pregao.web.server import PageServer

    token = None if token_file is None else read_token(token_file)
    identity = (session, firm, access_key)
    with ExitStack() as opened:
        if demo:
            application = _of_demo(opened, shown, identity)
        elif live is not None:
            panel = None
            if exchange is not None:
                panel = _panel(exchange, gateway or command.DEFAULT_GATEWAYS, identity)
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


def _of_demo(opened: ExitStack, shown: tzinfo, identity: _Identity) -> Application:
    """Return the page of an exchange in this process, on loopback, with its panel."""
    from pregao.cli.ui_demo import INSTRUMENTS, DemoExchange

    _print_line(f"starting an exchange with {INSTRUMENTS} instruments and a trading crowd …")
    exchange = opened.enter_context(DemoExchange())
    panel = _panel(exchange.control_port, [str(exchange.gateway)], identity)
    opened.callback(panel.close)
    return _of_feed(opened, exchange.config, "demo exchange", shown, panel)


def _panel(control: int, gateways: Sequence[str], identity: _Identity) -> ExchangePanel:
    from pregao.entrypoint.session_settings import ClientSettings
    from pregao.net.addresses import parse_address
    from pregao.web.exchange_panel import ExchangePanel

    addresses = [parse_address(each, "--gateway") for each in gateways]
    settings = ClientSettings(*identity)
    return ExchangePanel(control, settings, [(address.host, address.port) for address in addresses])


def _print_line(words: str) -> None:
    sys.stderr.write(f"pregao: {words}\n")
    sys.stderr.flush()
