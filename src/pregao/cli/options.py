"""Options that several commands have, each declared once; `option_values` reads their text."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pregao.cli.configuration import LAKE_VARIABLE, ZONE_VARIABLE, default_lake
from pregao.urls import without_secrets


def _or_default_lake(context: typer.Context, option: typer.CallbackParam, lake: str) -> str:
    """The lake that was named, or the one that is set; a shell that completes needs none."""
    source = context.get_parameter_source(option.name or "")
    if context.resilient_parsing or source is None or source.name != "DEFAULT":
        return without_secrets(lake)
    return without_secrets(default_lake())


def without_url_secrets(_context: typer.Context, names: list[str]) -> list[str]:
    """Take user info and queries off URLs, before anything can print them."""
    return [without_secrets(name) for name in names]


def _lake(help_: str) -> Any:
    """An option for a lake that may be named once for all commands."""
    return typer.Option(
        "--lake",
        metavar="DIR",
        envvar=LAKE_VARIABLE,
        default_factory=str,
        callback=_or_default_lake,
        show_default="lake of pregao.toml",
        help=help_,
    )


Lake = Annotated[str, _lake("The lake.")]
NewLake = Annotated[str, _lake("The lake; made if need be.")]
SafeCsv = Annotated[
    bool,
    typer.Option(
        "--safe-csv",
        help="In CSV, put ' before texts that a spreadsheet would run as formulas.",
    ),
]
Zone = Annotated[
    str | None,
    typer.Option(
        "--tz",
        metavar="ZONE",
        envvar=ZONE_VARIABLE,
        show_default="tz of pregao.toml, or UTC",
        help="The zone of times that name none, such as America/Sao_Paulo.",
    ),
]
Master = Annotated[
    str | None,
    typer.Option(
        help="Spark's master: local[*] by default, spark://HOST:PORT, yarn, k8s://…, "
        "sc://HOST:PORT; or 'here' to do without Spark."
    ),
]
Conf = Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting for Spark.")]
Json = Annotated[bool, typer.Option("--json", help="Write JSON, for programs.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]
Days = Annotated[
    list[str] | None,
    typer.Option("--date", metavar="DAY", help="Only these days, such as 2026-05-21."),
]
Channels = Annotated[list[str] | None, typer.Option(metavar="NUMBER", help="Only these channels.")]
Symbols = Annotated[
    list[str] | None,
    typer.Option(metavar="SYMBOL", help="Only these instruments, by symbol or number."),
]
TakenChannels = Annotated[
    list[str] | None,
    typer.Option(metavar="NUMBER", help="Take in only these channels (comma list)."),
]
Streams = Annotated[
    list[str] | None,
    typer.Option(metavar="ADDRESS:PORT=STREAM", help="Say what a destination carries."),
]
Feeds = Annotated[
    list[str] | None,
    typer.Option(metavar="ADDRESS:PORT=FEED", help="Say which feed a destination is."),
]
Schemas = Annotated[
    list[str] | None,
    typer.Option("--schema", metavar="FILE", help="Read messages with this schema."),
]
RangeSize = Annotated[str, typer.Option("--range-size", help="About how much one task reads.")]
