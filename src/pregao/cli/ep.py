"""``pregao ep``: a client of EntryPoint, typed at or driven by a script."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pregao.errors import PregaoError, UsageError

if TYPE_CHECKING:
    from pregao.cli.ep_desk import Desk
    from pregao.entrypoint import Client

app = typer.Typer(
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
        help="The gateway, and its backups behind it. By default those of pregao exchange.",
    ),
]
Session = Annotated[int, typer.Option(metavar="NUMBER", help="The number of the session.")]
Firm = Annotated[int, typer.Option(metavar="NUMBER", help="The firm that the session is of.")]
Key = Annotated[
    str,
    typer.Option(
        "--access-key",
        envvar="PREGAO_ACCESS_KEY",
        metavar="TEXT",
        help="The key of the session; better given in the environment, where nobody sees it.",
        show_default=False,
    ),
]
Version = Annotated[
    str, typer.Option("--schema-version", metavar="VERSION", help="Such as 8.0.0, or 2.")
]
SchemaFile = Annotated[
    Path | None,
    typer.Option(
        "--schema",
        metavar="FILE",
        help="Speak with this SBE schema file, for a gateway whose version is not bundled.",
    ),
]
Store = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Keep the session here, so that the next run goes on with it. Without it a session "
        "that was held before today cannot know its orders.",
    ),
]
Segment = Annotated[int, typer.Option(metavar="NUMBER", help="The market segment.")]
Trader = Annotated[str, typer.Option(metavar="TEXT", help="The trader who enters (5 characters).")]
Account = Annotated[int | None, typer.Option(metavar="NUMBER", help="The account of orders.")]

DEFAULT_GATEWAYS = ("127.0.0.1:9610", "127.0.0.1:9611")
DEFAULT_KEY = "123456789ABC"
"""Of the sessions of an exchange that runs without a configuration."""


@app.command(
    epilog="Example: pregao ep shell --session 100000002 --store session.db\n\n"
    "Type help for the commands. Lines may come from a pipe too: the shell ends with them."
)
def shell(
    gateway: Gateways = None,
    session: Session = 100_000_001,
    firm: Firm = 85,
    access_key: Key = DEFAULT_KEY,
    schema_version: Version = "8.0.0",
    schema: SchemaFile = None,
    store: Store = None,
    segment: Segment = 80,
    trader: Trader = "TRADR",
    account: Account = None,
) -> None:
    """Hold a session and enter orders by hand: new, modify, cancel, mass-cancel, cross, status."""
    from pregao.cli.ep_shell import converse

    _hold(
        converse, gateway, session, firm, access_key, schema_version, schema, store, segment,
        trader, account,
    )  # fmt: skip


@app.command(
    epilog="Example: pregao ep run scenario.txt --gateway 127.0.0.1:9610\n\n"
    "A script has a command on each line, as in the shell, with # before comments; help in "
    "the shell lists them. The exit code is 0 if everything came as expected, 1 if not, 2 if the "
    "script is wrong or there is no session."
)
def run(
    script: Annotated[Path, typer.Argument(metavar="SCRIPT", help="The file, or - for a pipe.")],
    gateway: Gateways = None,
    session: Session = 100_000_001,
    firm: Firm = 85,
    access_key: Key = DEFAULT_KEY,
    schema_version: Version = "8.0.0",
    schema: SchemaFile = None,
    store: Store = None,
    segment: Segment = 80,
    trader: Trader = "TRADR",
    account: Account = None,
) -> None:
    """Play a scenario: requests, and the reports that are expected to them."""
    from pregao.cli.ep_desk import ExpectationError
    from pregao.cli.ep_script import play, read_script

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
    work: Callable[[Desk], Coroutine[Any, Any, None]],
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
    """Hold a session while something is done with it."""
    from pregao.cli.ep_desk import Desk
    from pregao.entrypoint import Client, ClientSettings, Entering, SessionFile
    from pregao.net import parse_address
    from pregao.schemas import bundled_versions

    known = bundled_versions("entrypoint")
    version = next(
        (v.number for v in known if schema_version in (v.semantic_version, str(v.number))), None
    )
    if version is None:
        names = ", ".join(f"{each.semantic_version} ({each.number})" for each in known)
        raise UsageError(f"--schema-version is one of {names}; not {schema_version!r}.")
    places = [parse_address(each, "--gateway") for each in gateways or DEFAULT_GATEWAYS]
    addresses = [(place.host, place.port) for place in places]
    settings = ClientSettings(session, firm, access_key, version=version)

    async def held() -> None:
        kept = None if store is None else SessionFile(store)
        client = Client(settings, addresses, kept, schema=schema)
        try:
            desk = Desk(client, Entering(segment, trader, account=account))
            client.start()
            try:
                await client.ready(timeout_s=_PATIENCE_S)
            except TimeoutError:
                raise PregaoError(_no_session(client)) from None
            await work(desk)
        finally:
            await client.close()
            if kept is not None:
                kept.close()

    try:
        asyncio.run(held())
    except KeyboardInterrupt:
        sys.stdout.flush()


def _no_session(client: Client) -> str:
    """Say why there is no session yet: what could not be read, or that nothing answers."""
    listed = ", ".join(f"{host}:{port}" for host, port in client.gateways)
    problem = client.unreadable or client.last_problem or "it says nothing"
    words = f"No session within {_PATIENCE_S:g} s at {listed}: {problem}."
    if client.unreadable:
        spoken = f"{client.schema.semantic_version} (version {client.schema.version})"
        return (
            f"{words} The client speaks {spoken}; --schema-version chooses another bundled "
            "version, --schema FILE a schema file."
        )
    return f"{words} Is the exchange running? pregao exchange starts one."


_PATIENCE_S = 10.0
