"""``pregao exchange``: a whole market on this machine; `exchange_ctl` operates it."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pregao.cli.exchange_ctl import ctl
from pregao.cli.exchange_repair import REPAIR_EPILOG, repair
from pregao.errors import UsageError

if TYPE_CHECKING:
    from pregao.exchange.host import ExchangeServer, ExchangeSettings

EPILOG = "\n\n".join(
    (
        "Examples:",
        "pregao exchange",
        "pregao exchange --journal journal --metrics 9613",
        "pregao exchange --config exchange.toml --journal journal --capture captures",
        "pregao exchange --live-config live.toml   (then: pregao live --config live.toml)",
        "pregao exchange ctl status",
        "The configuration is described in docs/exchange.md; without one there are four sessions.",
    )
)
_COLLECTION = (100_000, 50, 1_000)
"""When cycles are looked for: orders make none, and there are many of them."""

app = typer.Typer(
    name="exchange",
    help="Run a market on this machine: order entry, matching, market data, a journal.",
    epilog=EPILOG,
    invoke_without_command=True,
)
app.add_typer(ctl)
app.command(epilog=REPAIR_EPILOG)(repair)


@app.callback()
def exchange(
    context: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Instruments, sessions, addresses, in TOML."),
    ] = None,
    journal: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep everything here; a new start goes on from it."),
    ] = None,
    capture: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write what is sent and received as captures."),
    ] = None,
    feed: Annotated[
        str | None,
        typer.Option(metavar="multicast|unicast|none", help="How market data is sent."),
    ] = None,
    live_config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the configuration for `pregao live` here."),
    ] = None,
    legacy: Annotated[
        str | None,
        typer.Option(help="Publish a legacy feed (FIX/FAST) too: of orders, prices or top."),
    ] = None,
    recovery: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS:PORT", help="Let messages of the legacy feed be asked for here."
        ),
    ] = None,
    entrypoint_schema: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Hold sessions of this SBE schema's version with it, such as 5.6."
        ),
    ] = None,
    metrics: Annotated[
        int | None,
        typer.Option(metavar="PORT", min=0, max=65535, help="Serve /metrics and /health here."),
    ] = None,
    duration: Annotated[
        str | None, typer.Option("--for", metavar="SPAN", help="End after so long, such as 10m.")
    ] = None,
) -> None:
    """Run a market on this machine: order entry, matching, market data, a journal."""
    if context.invoked_subcommand is not None:
        return
    from dataclasses import replace

    from pregao.clock import SECOND, parse_span
    from pregao.exchange.host import ExchangeSettings, read_settings
    from pregao.output_files import replace_file

    settings = ExchangeSettings() if config is None else read_settings(config)
    if feed is not None:
        if feed not in ("multicast", "unicast", "none"):
            raise UsageError(f"--feed is multicast, unicast or none, not {feed!r}.")
        settings = replace(settings, feed=feed)
    if entrypoint_schema is not None:
        from pregao.exchange.host.named_schema import with_schema

        settings = with_schema(settings, entrypoint_schema)
    settings = _with_legacy(settings, legacy, recovery)
    if metrics is not None:
        settings = replace(settings, metrics_port=metrics)
    seconds = None if duration is None else parse_span(duration, "--for") / SECOND
    if live_config is not None:
        replace_file(live_config, settings.live_config().encode())
        if settings.legacy is not None:
            other = live_config.with_suffix(f".legacy{live_config.suffix}")
            replace_file(other, settings.legacy_live_config().encode())
    run_exchange(settings, journal, capture, seconds, embedded=config is None)


def _with_legacy(
    settings: ExchangeSettings, legacy: str | None, recovery: str | None
) -> ExchangeSettings:
    """The same with a legacy feed, if one is asked for."""
    from dataclasses import replace

    from pregao.exchange.simulation import LegacyDepth
    from pregao.net import parse_address

    if legacy is not None:
        if legacy not in list(LegacyDepth):
            raise UsageError(f"--legacy is {', '.join(LegacyDepth)}, not {legacy!r}.")
        settings = replace(settings, legacy=LegacyDepth(legacy))
    if recovery is not None:
        if settings.legacy is None:
            raise UsageError("--recovery is of the legacy feed: give --legacy orders too.")
        settings = replace(settings, recovery=parse_address(recovery, "--recovery"))
    return settings


def run_exchange(
    settings: ExchangeSettings,
    journal: Path | None,
    capture: Path | None,
    seconds: float | None,
    *,
    embedded: bool,
) -> None:
    """Serve until the user, a signal or the time ends it."""
    import asyncio

    from pregao.exchange.host import ExchangeServer, captures_in

    server = ExchangeServer(
        settings,
        journal=journal,
        capture=None if capture is None else captures_in(capture),
    )
    with asyncio.Runner(loop_factory=_fastest_loop()) as runner:
        runner.run(_serve(server, seconds, embedded=embedded, kept=journal is not None))


def _fastest_loop() -> Any:
    """The loop of uvloop where that is installed; else Python's own."""
    try:
        import uvloop  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _serve(
    server: ExchangeServer, seconds: float | None, *, embedded: bool, kept: bool
) -> None:
    import asyncio
    import gc
    import signal

    loop = asyncio.get_running_loop()
    try:
        await server.start()
    except BaseException:
        await server.close()
        raise
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTION)
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, server.stop)
    if seconds is not None:
        loop.call_later(seconds, server.stop)
    try:
        async with _recovery(server) as asked_at:
            _tell(server, embedded=embedded, kept=kept, asked_at=asked_at)
            await server.serve()
    finally:
        await server.close()


@asynccontextmanager
async def _recovery(server: ExchangeServer) -> AsyncIterator[str | None]:
    """Serve messages of the legacy feed again, where that is wanted; gives the address."""
    from pregao.fix import SessionSettings
    from pregao.live.legacy_recovery import recovery_server

    where, store = server.settings.recovery, server.legacy_store
    if where is None or store is None:
        yield None
        return
    names = SessionSettings("BVMF", "CUSTOMER", acceptor=True)
    async with recovery_server(where.host, where.port, names, store) as port:
        yield f"{where.host}:{port}"


def _tell(
    server: ExchangeServer, *, embedded: bool, kept: bool, asked_at: str | None = None
) -> None:
    """Say where everything is."""
    settings = server.settings
    records, took = server.replayed
    if records:
        _say(f"{records:,} records of the journal replayed in {took:.1f} s")
    where = " and ".join(
        f"{address} ({'primary' if number == 1 else 'backup'})"
        for number, address in server.addresses.items()
    )
    _say(f"gateways at {where}")
    if embedded:
        known = ", ".join(f"{each.session_id} (firm {each.firm})" for each in settings.sessions)
        _say(f"sessions {known}; access key {settings.sessions[0].access_key}")
    if settings.feed == "none":
        _say("no market data is sent")
    else:
        numbers = ", ".join(str(each.number) for each in settings.channels)
        _say(f"market data of channels {numbers} by {settings.feed}; --live-config FILE says where")
    if settings.legacy is not None:
        _say(f"a legacy feed (FIX/FAST) of {settings.legacy} beside it")
    if asked_at is not None:
        _say(f"its messages can be asked for at {asked_at}, as CUSTOMER of BVMF (FIX 4.4)")
    _say(f"control at 127.0.0.1:{server.control_port}: `pregao exchange ctl --help`")
    if server.metrics_port is not None:
        _say(f"http://127.0.0.1:{server.metrics_port}/metrics")
    if not kept:
        _say("nothing is kept: --journal DIR lets the exchange survive its end")
    _say("ready")


def _say(words: str) -> None:
    sys.stderr.write(f"pregao: {words}\n")
    sys.stderr.flush()
