"""``pregao ep``: an EntryPoint client, interactive or driven by a script.

Console of ``pregao ep shell``: reads commands and prints events as they arrive.

Scripts of ``pregao ep run``: all lines are parsed before anything is sent, then run.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from pregao.cli.ep.console_commands import ConsoleCommand, parse
from pregao.cli.ep.order_console import ExpectationError, OrderConsole
from pregao.errors import PregaoError, UsageError

if TYPE_CHECKING:
    from pregao.cli.ep.order_console import OrderConsole
    from pregao.entrypoint.client import Client


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
    """Establish a session and enter orders: new, modify, cancel, mass-cancel, cross, status."""

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
    """Run a script of requests and expected reports."""
    from pregao.cli.ep.order_console import ExpectationError

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
    from pregao.cli.ep.order_console import OrderConsole
    from pregao.entrypoint.client import Client
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
                await client.ready(timeout_s=_PATIENCE_S)
            except TimeoutError:
                raise PregaoError(_no_session(client)) from None
            await work(desk)
        finally:
            await client.close()
            if session_file is not None:
                session_file.close()

    try:
        asyncio.run(held())
    except KeyboardInterrupt:
        sys.stdout.flush()


def _no_session(client: Client) -> str:
    """Return the reason why no session was established: unreadable messages, or no answer."""
    listed = ", ".join(f"{host}:{port}" for host, port in client.gateways)
    problem = client.unreadable or client.last_problem or "no answer"
    text = f"No session within {_PATIENCE_S:g} s at {listed}: {problem}."
    if client.unreadable:
        version = f"{client.schema.semantic_version} (version {client.schema.version})"
        return (
            f"{text} The client uses {version}; select another bundled version with "
            "--schema-version, or a schema file with --schema FILE."
        )
    return f"{text} Is the exchange running? Start one with `pregao exchange`."


_PATIENCE_S = 10.0


_AFTERWARDS_S = 0.5
"""Time to wait for replies after the end of the input."""


async def run_shell(desk: OrderConsole) -> None:
    """Run commands from standard input until it ends, and print what arrives."""
    lines: asyncio.Queue[str | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    typed = sys.stdin.isatty()

    def listen() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(lines.put_nowait, line)
        loop.call_soon_threadsafe(lines.put_nowait, None)

    # A daemon thread: a blocking read of standard input must not delay the exit of the process.
    threading.Thread(target=listen, daemon=True).start()
    printing = asyncio.create_task(_show(desk))
    try:
        if typed:
            _print_line('Type "help" for the commands, "quit" to end.')
        while (line := await lines.get()) is not None:
            try:
                command = parse(line)
                if command is None:
                    continue
                if command.name == "quit":
                    return
                for text in await desk.do(command):
                    _print_line(text)
            except PregaoError as error:
                _print_line(str(error))
        await asyncio.sleep(_AFTERWARDS_S)
    finally:
        printing.cancel()
        with suppress(asyncio.CancelledError):
            await printing


async def _show(desk: OrderConsole) -> None:
    while (line := await desk.next_line()) is not None:
        _print_line(line)


def _print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class ScriptStep(NamedTuple):
    """A command of a script and its line number."""

    number: int
    command: ConsoleCommand


def read_script(path: Path) -> list[ScriptStep]:
    """Read the steps of a script; errors name the line."""
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not a text file.") from None
    steps = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            command = parse(line)
        except UsageError as error:
            raise UsageError(f"{path}:{number}: {error}") from None
        if command is not None:
            steps.append(ScriptStep(number, command))
    if not steps:
        raise UsageError(f"{path} contains no command.")
    return steps


async def play(desk: OrderConsole, steps: list[ScriptStep], name: str) -> None:
    """Run a script and print what is sent and the expectations that were met."""
    expectations = 0
    for number, command in steps:
        if command.name == "quit":
            break
        try:
            for line in await desk.do(command):
                sys.stdout.write(f"{line}\n")
        except ExpectationError as error:
            raise ExpectationError(f"{name}:{number}: {error}") from None
        except PregaoError as error:
            raise UsageError(f"{name}:{number}: {error}") from None
        expectations += command.name == "expect"
    sys.stdout.write(f"{name}: {len(steps)} steps, {expectations} expectations, all met\n")
    sys.stdout.flush()
