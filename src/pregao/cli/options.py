"""Apps whose help shows texts as written, and options that several commands share.

`option_values` parses the values of options.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from pregao.cli.config import LAKE_VARIABLE, ZONE_VARIABLE, default_lake
from pregao.lake.execution.runner import EngineName
from pregao.safe_io.urls import without_secrets

_Function = TypeVar("_Function", bound=Callable[..., Any])
PANELS = READ, LAKE, LIVE, TRADE, TOOLS = (
    "Read captures", "Build and query a lake", "Follow the live feed", "Trade", "Tools",
)  # fmt: skip
"""Groups of commands in the help, in order."""


class _Escaped(str):
    """A help text without markup."""

    __slots__ = ()


def _write_help(command: Any, context: Any, formatter: Any, write: Any) -> None:
    """Write the help with brackets as they are, which markup would swallow; flags have no type."""
    from rich.markup import escape

    for each in (command, *command.get_params(context), *getattr(command, "commands", {}).values()):
        for name in ("help", "short_help", "epilog"):
            # Escaped texts are of another type, so that none is escaped twice.
            if (text := getattr(each, name, None)) and not isinstance(text, _Escaped):
                setattr(each, name, _Escaped(escape(text)))
        if getattr(each, "is_flag", False) and each.metavar is None:
            each.metavar = ""
    write(context, formatter)


class HelpCommand(TyperCommand):
    """A command of an `App`."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        _write_help(self, ctx, formatter, super().format_help)


class HelpGroup(TyperGroup):
    """The group of an `App`."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        _write_help(self, ctx, formatter, super().format_help)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the commands in the order of their panels."""

        def panel(name: str) -> int:
            title = getattr(self.commands[name], "rich_help_panel", None)
            return PANELS.index(title) if title in PANELS else 0

        return sorted(super().list_commands(ctx), key=panel)


class App(typer.Typer):
    """A group of commands; `-h` shows the help."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(
            cls=HelpGroup, context_settings={"help_option_names": ["-h", "--help"]}, **settings
        )

    def command(self, name: str | None = None, **settings: Any) -> Callable[[_Function], _Function]:
        """Return a decorator that adds a command."""
        return super().command(name, cls=HelpCommand, **settings)


def _or_default_lake(context: typer.Context, option: typer.CallbackParam, lake: str) -> str:
    """Return the lake given as an option, or the configured one; shell completion needs none."""
    source = context.get_parameter_source(option.name or "")
    if context.resilient_parsing or source is None or source.name != "DEFAULT":
        return without_secrets(lake)
    return without_secrets(default_lake())


def without_url_secrets(_context: typer.Context, names: list[str]) -> list[str]:
    """Remove user info and query strings from URLs before anything can print them."""
    return [without_secrets(name) for name in names]


def _lake(help_: str) -> Any:
    """Declare a `--lake` option that falls back to the environment and `pregao.toml`."""
    return typer.Option(
        "--lake",
        metavar="DIR",
        envvar=LAKE_VARIABLE,
        default_factory=str,
        callback=_or_default_lake,
        show_default="lake of pregao.toml",
        help=help_,
    )


Lake = Annotated[str, _lake("Lake directory or URI.")]
NewLake = Annotated[str, _lake("Lake directory or URI; created if missing.")]
SafeCsv = Annotated[
    bool,
    typer.Option(
        "--safe-csv",
        help="In CSV, prefix ' to text that a spreadsheet would evaluate as a formula.",
    ),
]
Zone = Annotated[
    str | None,
    typer.Option(
        "--tz",
        metavar="ZONE",
        envvar=ZONE_VARIABLE,
        show_default="tz of pregao.toml, or UTC",
        help="Time zone of times without an offset, e.g. America/Sao_Paulo.",
    ),
]
Engine = Annotated[
    EngineName | None,
    typer.Option(help="Where the work runs: spark (default), or local, without Spark and Java."),
]
Master = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Spark master URL: local[*] (default), spark://HOST:PORT, yarn, k8s://…, "
        "sc://HOST:PORT.",
    ),
]
Conf = Annotated[
    list[str] | None, typer.Option(metavar="KEY=VALUE", help="Spark configuration property.")
]
Json = Annotated[bool, typer.Option("--json", help="Print machine-readable JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
Days = Annotated[
    list[str] | None,
    typer.Option("--date", metavar="DATE", help="Only these dates, e.g. 2026-05-21."),
]
Channels = Annotated[list[str] | None, typer.Option(metavar="NUMBER", help="Only these channels.")]
Symbols = Annotated[
    list[str] | None,
    typer.Option(metavar="SYMBOL", help="Only these instruments, by symbol or security ID."),
]
TakenChannels = Annotated[
    list[str] | None,
    typer.Option(metavar="NUMBER", help="Ingest only these channels (comma-separated)."),
]
Streams = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ADDRESS:PORT=STREAM",
        help="Stream of a destination, e.g. 233.252.14.1:30001=incremental.",
    ),
]
Feeds = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ADDRESS:PORT=FEED", help="Feed of a destination, e.g. 233.252.14.1:30001=B."
    ),
]
Schemas = Annotated[
    list[str] | None,
    typer.Option("--schema", metavar="FILE", help="Decode messages with this schema."),
]
RangeSize = Annotated[str, typer.Option("--range-size", help="Approximate bytes per task.")]
