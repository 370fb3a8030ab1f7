"""``pregao ui``: the market in the browser."""

from __future__ import annotations

import sys
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Annotated

import typer

from pregao.cli import options
from pregao.errors import UsageError

if TYPE_CHECKING:
    from pregao.web.guards import Application

EPILOG = "\n\n".join(
    (
        "Examples:",
        "pregao ui --lake lake",
        "The page is described in docs/page.md. It is served to this machine only.",
    )
)
PORT = 8050


def ui(
    lake: options.Lake,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where the page is served.")] = PORT,
    open_: Annotated[bool, typer.Option("--open/--no-open", help="Open it in the browser.")] = True,
    tz: options.Zone = None,
) -> None:
    """Show a lake as a page: ladder, tape, heatmap, bars, auctions, latency, replay."""
    _require_extra()
    from pregao.web import PageServer

    with ExitStack() as opened:
        application = _application(lake, tz)
        server = opened.enter_context(PageServer(application, port))
        _say(f"the page is at {server.address} (end with Ctrl-C)")
        if open_:
            import webbrowser

            webbrowser.open(server.address)
        with suppress(KeyboardInterrupt):  # that is how one ends what would go on for ever
            server.wait()


def _require_extra() -> None:
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
        import websockets  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"The page needs {error.name}: install it with `pip install 'pregao[ui]'`."
        ) from None


def _application(lake: str, tz: str | None) -> Application:
    from pregao.cli.configuration import configuration, zone
    from pregao.web import LakeMarket, lake_application

    shown = zone(tz or configuration().tz or "UTC", "--tz")
    return lake_application(LakeMarket(lake, shown))


def _say(words: str) -> None:
    sys.stderr.write(f"pregao: {words}\n")
    sys.stderr.flush()
