"""``pregao ui``: the market in the browser."""

from __future__ import annotations

import gc
import sys
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
        "The page is described in docs/page.md. It is served to this machine only.",
    )
)
PORT = 8050
_COLLECTION = (50_000, 20, 100)


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
        bool, typer.Option("--demo", help="Simulate a market, send it on loopback, follow it.")
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
    from pregao.web import PageServer

    with ExitStack() as opened:
        if live is None and not demo:
            application = _of_lake(lake, shown)
        else:
            panel = None
            if exchange is not None:
                panel = _panel(exchange, gateway or ep.DEFAULT_GATEWAYS, session, firm, access_key)
                opened.callback(panel.close)
            application = _of_feed(opened, live, shown, panel)
        server = opened.enter_context(PageServer(application, port))
        # Books are many small lists without cycles: looking for some took most of the time.
        gc.set_threshold(*_COLLECTION)
        _say(f"the page is at {server.address} (end with Ctrl-C)")
        if open_:
            import webbrowser

            webbrowser.open(server.address)
        with suppress(KeyboardInterrupt):  # that is how one ends what would go on for ever
            server.wait()


def _of_lake(lake: str | None, shown: tzinfo) -> Application:
    from pregao.web import LakeMarket, lake_application

    return lake_application(LakeMarket(default_lake() if lake is None else lake, shown))


def _of_feed(
    opened: ExitStack, config: Path | None, shown: tzinfo, panel: ExchangePanel | None
) -> Application:
    """The page of the feed of a configuration, or of a demonstration without one."""
    from pregao.live import FeedHandler, Speed, read_config
    from pregao.web import LiveMarket, live_application

    followed: LiveConfig
    if config is not None:
        followed, name, start = read_config(config), str(config), None
    else:
        from pregao.cli.live_demo import DURATION_NS, INSTRUMENTS, Demo
        from pregao.clock import MINUTE

        minutes = DURATION_NS // MINUTE
        _say(f"simulating a session of {INSTRUMENTS} instruments that takes {minutes} minutes …")
        made = Demo()
        opened.callback(made.close)
        made.prepare(Speed(1.0))
        followed, name, start = made.config, "a demonstration", made.start
    handler = FeedHandler(followed)
    market = LiveMarket(handler, name, shown)
    opened.callback(handler.stop)
    handler.start()
    if start is not None:
        start()
    return live_application(market, panel)


def _panel(
    control: int, gateways: Sequence[str], session: int, firm: int, access_key: str
) -> ExchangePanel:
    from pregao.entrypoint import ClientSettings
    from pregao.net import parse_address
    from pregao.web.exchange_panel import ExchangePanel

    places = [parse_address(each, "--gateway") for each in gateways]
    settings = ClientSettings(session, firm, access_key)
    return ExchangePanel(control, settings, [(place.host, place.port) for place in places])


def _say(words: str) -> None:
    sys.stderr.write(f"pregao: {words}\n")
    sys.stderr.flush()
