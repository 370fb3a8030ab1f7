"""The ``pregao`` command: its subcommands, logging and error handling.

Commands import their dependencies when they run, so that ``pregao --help`` starts fast.
"""

from __future__ import annotations

import gc
import logging
import sys
import traceback
from typing import Annotated, NoReturn

import typer

from pregao.cli import analytics as analytics_command
from pregao.cli import audit as audit_command
from pregao.cli import book as book_command
from pregao.cli import books as books_command
from pregao.cli import demo as demo_command
from pregao.cli import doctor as doctor_command
from pregao.cli import export as export_command
from pregao.cli import info as info_command
from pregao.cli import ingest as ingest_command
from pregao.cli import lake as lake_commands
from pregao.cli import pack as pack_command
from pregao.cli import plot as plot_command
from pregao.cli import query as query_command
from pregao.cli import replay as replay_command
from pregao.cli import schema as schema_command
from pregao.cli import stream as stream_command
from pregao.cli import ui as ui_command
from pregao.cli import warm as warm_command
from pregao.cli.console import guard
from pregao.cli.decode import command as decode_command
from pregao.cli.ep import command as ep_commands
from pregao.cli.errors import run_command
from pregao.cli.exchange import command as exchange_commands
from pregao.cli.live import command as live_command
from pregao.cli.options import LAKE, LIVE, READ, TOOLS, TRADE, App
from pregao.cli.simulate import command as simulate_command
from pregao.safe_io.urls import redacted

app = App(
    name="pregao",
    help="Tools for B3's electronic market: captures, market data, order books, tables, order "
    "entry.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

_debug = False
_COLLECTION = (50_000, 20, 50)


def _version(wanted: bool) -> None:
    if wanted:
        from pregao._version import __version__

        typer.echo(f"pregao {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[  # noqa: ARG001 - its callback acts during parsing
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show stack traces.")] = False,
) -> None:
    """Set options that apply to all commands."""
    global _debug
    _debug = debug


_COMMANDS = (
    (READ, decode_command, decode_command.decode),
    (READ, info_command, info_command.info),
    (READ, schema_command, schema_command.schema),
    (LAKE, ingest_command, ingest_command.ingest),
    (LAKE, stream_command, stream_command.stream),
    (LAKE, query_command, query_command.query),
    (LAKE, book_command, book_command.book),
    (LAKE, plot_command, plot_command.plot),
    (LAKE, export_command, export_command.export),
    (LAKE, books_command, books_command.books),
    (LAKE, analytics_command, analytics_command.analytics),
    (LAKE, audit_command, audit_command.audit),
    (LIVE, live_command, live_command.live),
    (LIVE, ui_command, ui_command.ui),
    (LIVE, replay_command, replay_command.replay),
    (TOOLS, demo_command, demo_command.demo),
    (TOOLS, simulate_command, simulate_command.simulate),
    (TOOLS, warm_command, warm_command.warm),
    (TOOLS, doctor_command, doctor_command.doctor),
    (TOOLS, pack_command, pack_command.pack),
)
for _panel, _module, _command in _COMMANDS:
    app.command(rich_help_panel=_panel, epilog=_module.EPILOG)(_command)
app.add_typer(lake_commands.app, rich_help_panel=LAKE)
app.add_typer(exchange_commands.app, rich_help_panel=TRADE)
app.add_typer(ep_commands.app, rich_help_panel=TRADE)


class _LogLines(logging.Handler):
    """Log handler that prints the library's log records as lines of the command."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record, with its stack trace if it has one."""
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            trace = traceback.format_exception(record.exc_info[1])
            text = f"{text}\n{''.join(trace).rstrip()}"
        sys.stderr.write(f"pregao: {redacted(text)}\n")


def _print_log() -> None:
    """Print Pregão's own log records, not those of libraries, which also raise their errors."""
    own, root = logging.getLogger("pregao"), logging.getLogger()
    if not any(isinstance(handler, _LogLines) for handler in own.handlers):
        own.addHandler(_LogLines())
    if not root.handlers and "--debug" not in sys.argv:
        root.addHandler(logging.NullHandler())


def run() -> NoReturn:
    """Run the command line; an error is one line on standard error and the exit code 2.

    The exit code is 1 if the input has none of the requested data.
    """
    # Start-up creates many objects, which stay: looking for garbage among them takes 0.2 s.
    gc.set_threshold(*_COLLECTION)
    guard()
    _print_log()
    raise SystemExit(
        run_command(lambda: app(prog_name="pregao", standalone_mode=False), lambda: _debug)
    )
