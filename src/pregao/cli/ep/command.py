"""``pregao ep``: an EntryPoint client, interactive or driven by a script."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pregao.cli import options
from pregao.errors import PregaoError, UsageError

if TYPE_CHECKING:
    from pregao.cli.ep.order_console import OrderConsole
    from pregao.entrypoint.client import Client


app = options.App(
    name="ep",
    no_args_is_help=True,
    help="Enter orders over Binary EntryPoint.",
    epilog="Example: pregao exchange (in another window), then pregao ep shell",
)

Gateways = Annotated[
    list[str] | None,
    typer.Option(
        "--gateway",
        metavar="ADDRESS:PORT",
        help="Gateway; repeat for its backups, in order (default: those of pregao exchange).",
    ),
]
Session = Annotated[int, typer.Option(metavar="NUMBER", help="Session ID.")]
Firm = Annotated[int, typer.Option(metavar="NUMBER", help="Firm of the session.")]
Key = Annotated[
    str,
    typer.Option(
        "--access-key",
        envvar="PREGAO_ACCESS_KEY",
        metavar="TEXT",
        help="Access key of the session. Prefer the environment variable, which other users "
        "cannot see.",
        show_default=False,
    ),
]
Version = Annotated[
    str,
    typer.Option("--schema-version", metavar="VERSION", help="Schema version, e.g. 8.0.0 or 2."),
]
SchemaFile = Annotated[
    Path | None,
    typer.Option(
        "--schema",
        metavar="FILE",
        help="SBE schema file, for a gateway whose version is not bundled.",
    ),
]
Store = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Session file; the next run resumes from it. Without it, the orders of a session "
        "established earlier today are unknown.",
    ),
]
Segment = Annotated[int, typer.Option(metavar="NUMBER", help="Market segment.")]
Trader = Annotated[str, typer.Option(metavar="TEXT", help="Entering trader (5 characters).")]
Account = Annotated[int | None, typer.Option(metavar="NUMBER", help="Account of the orders.")]

DEFAULT_GATEWAYS = ("127.0.0.1:9610", "127.0.0.1:9611")
DEFAULT_KEY = "123456789ABC"
"""Access key of all sessions of an exchange without a configuration file."""


@app.command(
    epilog="Example: pregao ep shell --session 100000002 --store session.db\n\n"
    "Type help for the commands. The shell reads a pipe too, and exits at its end."
)
def shell(
    gateway: Gateways = None, session: Session = 100_000_001, firm: Firm = 85,
    access_key: Key = DEFAULT_KEY, schema_version: Version = "8.0.0", schema: SchemaFile = None,
    store: Store = None, segment: Segment = 80, trader: Trader = "TRADR", account: Account = None,
) -> None:  # fmt: skip
    """Establish a session and enter orders: new, modify, cancel, mass-cancel, cross, status."""
    from pregao.cli.ep.order_console import run_shell

    _hold(
        run_shell, gateway, session, firm, access_key, schema_version, schema, store, segment,
        trader, account,
    )  # fmt: skip


@app.command(
    epilog="Example: pregao ep run scenario.txt --gateway 127.0.0.1:9610\n\n"
    "A script has one shell command per line; # starts a comment. Type help in the shell for the "
    "commands. The exit code is 0 if all expectations were met, 1 if not, 2 if the script is "
    "invalid or no session was established."
)
def run(
    script: Annotated[
        Path, typer.Argument(metavar="SCRIPT", help="Script file, or - for standard input.")
    ],
    gateway: Gateways = None, session: Session = 100_000_001, firm: Firm = 85,
    access_key: Key = DEFAULT_KEY, schema_version: Version = "8.0.0", schema: SchemaFile = None,
    store: Store = None, segment: Segment = 80, trader: Trader = "TRADR", account: Account = None,
) -> None:  # fmt: skip
    """Run a script of requests and expected reports."""
    from pregao.cli.ep.order_console import ExpectationError, play, read_script

    steps = read_script(script)
    try:
        _hold(
            lambda desk: play(desk, steps, str(script)), gateway, session, firm, access_key,
            schema_version, schema, store, segment, trader, account,
        )  # fmt: skip
    except ExpectationError as error:
        typer.echo(f"pregao: {error}", err=True)
        raise typer.Exit(1) from None


def _hold(
    work: Callable[[OrderConsole], Coroutine[Any, Any, None]],
    gateways: list[str] | None,
    session: int,
    firm: int,
    access_key: str,
    schema_version: str,
    schema: Path | None,
    store: Path | None,
    segment: int,
    trader: str,
    account: int | None,
) -> None:
    """Establish a session, run `work` and close it."""
    import asyncio

    from pregao.cli.ep.order_console import OrderConsole
    from pregao.entrypoint.client import Client, ClientTimeoutError
    from pregao.entrypoint.request_builder import RequestDefaults
    from pregao.entrypoint.session_settings import ClientSettings
    from pregao.entrypoint.session_store import SessionFile
    from pregao.net.addresses import parse_address
    from pregao.schemas.bundle import bundled_versions

    known = bundled_versions("entrypoint")
    version = next(
        (v.number for v in known if schema_version in (v.semantic_version, str(v.number))), None
    )
    if version is None:
        names = ", ".join(f"{each.semantic_version} ({each.number})" for each in known)
        raise UsageError(f"--schema-version must be one of {names}; was {schema_version!r}.")
    parsed = [parse_address(each, "--gateway") for each in gateways or DEFAULT_GATEWAYS]
    addresses = [(address.host, address.port) for address in parsed]
    settings = ClientSettings(session, firm, access_key, version=version)

    async def held() -> None:
        session_file = None if store is None else SessionFile(store)
        client = Client(settings, addresses, session_file, schema=schema)
        try:
            desk = OrderConsole(client, RequestDefaults(segment, trader, account=account))
            client.start()
            try:
                await client.ready(timeout_s=_READY_TIMEOUT_S)
            except ClientTimeoutError as error:
                raise PregaoError(f"{error} {_next_step(client)}") from None
            await work(desk)
        finally:
            await client.close()
            if session_file is not None:
                session_file.close()

    try:
        asyncio.run(held())
    except KeyboardInterrupt:
        sys.stdout.flush()


def _next_step(client: Client) -> str:
    """Return what to do if no session was established: unreadable messages, or no answer."""
    if client.unreadable:
        version = f"{client.schema.semantic_version} (version {client.schema.version})"
        return (
            f"The client uses {version}; select another bundled version with "
            "--schema-version, or a schema file with --schema FILE."
        )
    return "Is the exchange running? Start one with `pregao exchange`."


_READY_TIMEOUT_S = 10.0
