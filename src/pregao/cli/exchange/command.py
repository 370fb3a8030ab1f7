"""``pregao exchange``: run an exchange on localhost; `ctl` operates it."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pregao.cli import options
from pregao.cli.exchange.ctl import REPAIR_EPILOG, ctl, repair
from pregao.errors import UsageError

if TYPE_CHECKING:
    from pregao.exchange.host.server import ExchangeServer
    from pregao.exchange.host.settings import ExchangeSettings

EPILOG = "\n\n".join(
    (
        "Examples:",
        "pregao exchange",
        "pregao exchange --journal journal --metrics 9613",
        "pregao exchange --config exchange.toml --journal journal --capture captures",
        "pregao exchange --live-config live.toml   (then: pregao live --config live.toml)",
        "pregao exchange ctl status",
        "docs/exchange.md describes the configuration file; without one there are four sessions.",
    )
)
_COLLECTION = (100_000, 50, 1_000)
"""Thresholds of the garbage collector: high, as the many orders form no reference cycles."""

app = options.App(
    name="exchange",
    help="Run an exchange: order entry, matching, market data, a journal.",
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
        typer.Option(
            metavar="FILE", help="Configuration file (TOML): instruments, sessions, addresses."
        ),
    ] = None,
    journal: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Journal directory; a restart resumes from it."),
    ] = None,
    capture: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Write captures of all messages sent and received to this folder."
        ),
    ] = None,
    feed: Annotated[
        str | None,
        typer.Option(metavar="multicast|unicast|none", help="Transport of market data."),
    ] = None,
    live_config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a configuration for `pregao live` to this file."),
    ] = None,
    legacy: Annotated[
        str | None,
        typer.Option(help="Also publish a legacy feed (FIX/FAST): orders, prices or top."),
    ] = None,
    recovery: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS:PORT", help="Serve legacy TCP recovery on this address."),
    ] = None,
    entrypoint_schema: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="SBE schema file for sessions of its version, e.g. 5.6."),
    ] = None,
    metrics: Annotated[
        int | None,
        typer.Option(
            metavar="PORT", min=0, max=65535, help="Serve /metrics and /health on this port."
        ),
    ] = None,
    duration: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Stop after this time, e.g. 10m.")
    ] = None,
) -> None:
    """Run an exchange: order entry, matching, market data, a journal."""
    if context.invoked_subcommand is not None:
        return
    from dataclasses import replace

    from pregao.clock import SECOND
    from pregao.exchange.host.settings import ExchangeSettings, read_settings
    from pregao.safe_io.output_files import replace_file
    from pregao.units import parse_duration

    settings = ExchangeSettings() if config is None else read_settings(config)
    if feed is not None:
        if feed not in ("multicast", "unicast", "none"):
            raise UsageError(f"--feed must be multicast, unicast or none, was {feed!r}.")
        settings = replace(settings, feed=feed)
    if entrypoint_schema is not None:
        from pregao.exchange.host.base_host import with_schema

        settings = with_schema(settings, entrypoint_schema)
    settings = _with_legacy(settings, legacy, recovery)
    if metrics is not None:
        settings = replace(settings, metrics_port=metrics)
    seconds = None if duration is None else parse_duration(duration, "--duration") / SECOND
    if live_config is not None:
        replace_file(live_config, settings.live_config().encode())
        if settings.legacy is not None:
            other = live_config.with_suffix(f".legacy{live_config.suffix}")
            replace_file(other, settings.legacy_live_config().encode())
    run_exchange(settings, journal, capture, seconds, embedded=config is None)


def _with_legacy(
    settings: ExchangeSettings, legacy: str | None, recovery: str | None
) -> ExchangeSettings:
    """Add the requested legacy feed and its recovery to the settings."""
    from dataclasses import replace

    from pregao.exchange.simulation.settings import LegacyDepth
    from pregao.net.addresses import parse_address

    if legacy is not None:
        if legacy not in list(LegacyDepth):
            raise UsageError(f"--legacy must be one of {', '.join(LegacyDepth)}; was {legacy!r}.")
        settings = replace(settings, legacy=LegacyDepth(legacy))
    if recovery is not None:
        if settings.legacy is None:
            raise UsageError("--recovery requires a legacy feed: add --legacy orders.")
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
    """Run until a signal, or until `seconds` have passed."""
    import asyncio

    from pregao.exchange.host.captures import captures_in
    from pregao.exchange.host.server import ExchangeServer

    server = ExchangeServer(
        settings,
        journal=journal,
        capture=None if capture is None else captures_in(capture),
    )
    with asyncio.Runner(loop_factory=_fastest_loop()) as runner:
        runner.run(_serve(server, seconds, embedded=embedded, kept=journal is not None))


def _fastest_loop() -> Any:
    """Return the loop factory of uvloop if installed, else None for asyncio's."""
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
        async with _recovery(server) as recovery_address:
            _print_status(server, embedded=embedded, kept=kept, recovery_address=recovery_address)
            await server.serve()
    finally:
        await server.close()


@asynccontextmanager
async def _recovery(server: ExchangeServer) -> AsyncIterator[str | None]:
    """Serve TCP recovery of the legacy feed, if configured; yield its address."""
    from pregao.fix.session import FixSessionSettings
    from pregao.live.legacy_recovery_transport import recovery_server

    address, store = server.settings.recovery, server.legacy_store
    if address is None or store is None:
        yield None
        return
    names = FixSessionSettings("BVMF", "CUSTOMER", acceptor=True)
    async with recovery_server(address.host, address.port, names, store) as port:
        yield f"{address.host}:{port}"


def _print_status(
    server: ExchangeServer, *, embedded: bool, kept: bool, recovery_address: str | None = None
) -> None:
    """Print the addresses and state of the exchange."""
    settings = server.settings
    records, seconds = server.replayed
    if records:
        _print_line(f"{records:,} records of the journal replayed in {seconds:.1f} s")
    gateways = " and ".join(
        f"{address} ({'primary' if number == 1 else 'backup'})"
        for number, address in server.addresses.items()
    )
    _print_line(f"gateways at {gateways}")
    if embedded:
        sessions = ", ".join(f"{each.session_id} (firm {each.firm})" for each in settings.sessions)
        _print_line(f"sessions {sessions}; access key {settings.sessions[0].access_key}")
    if settings.feed == "none":
        _print_line("no market data is published")
    else:
        numbers = ", ".join(str(each.number) for each in settings.channels)
        _print_line(
            f"market data of channels {numbers} by {settings.feed}; --live-config FILE writes the "
            "addresses"
        )
    if settings.legacy is not None:
        _print_line(f"legacy feed (FIX/FAST) of {settings.legacy}")
    if recovery_address is not None:
        _print_line(
            f"legacy TCP recovery at {recovery_address}, CompIDs CUSTOMER and BVMF (FIX 4.4)"
        )
    _print_line(f"control at 127.0.0.1:{server.control_port}: `pregao exchange ctl --help`")
    if server.metrics_port is not None:
        _print_line(f"http://127.0.0.1:{server.metrics_port}/metrics")
    if not kept:
        _print_line("no journal: state is lost at exit; use --journal DIR to keep it")
    _print_line("ready")


def _print_line(words: str) -> None:
    sys.stderr.write(f"pregao: {words}\n")
    sys.stderr.flush()
