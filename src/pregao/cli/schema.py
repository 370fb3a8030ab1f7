"""``pregao schema``: tables of the messages, fields and types of a schema version."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pregao.cli import options

EPILOG = "\n\n".join(
    (
        "Examples:",
        "pregao schema",
        "pregao schema Order_MBO_50",
        "pregao schema 12 --version 9",
        "pregao schema MatchEventIndicator",
        "pregao schema NewOrderSingle --protocol entrypoint",
    )
)


def schema(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Message (by name or template ID), type, enumeration or set.",
            show_default=False,
        ),
    ] = None,
    protocol: Annotated[
        str,
        typer.Option(metavar="PROTOCOL", help="umdf (market data) or entrypoint (order entry)."),
    ] = "umdf",
    version: Annotated[
        str | None,
        typer.Option(
            metavar="VERSION", help="Schema version, e.g. 16 or 2.2.0 (default: the newest)."
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--schema", metavar="FILE", help="Show this SBE schema file instead."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Show the messages of a schema, the fields of one message, or a type."""
    import json

    from pregao.cli import schema_document, schema_tables

    chosen, versions = schema_document.choose(protocol, version, file)
    described = (
        schema_document.contents(chosen, versions)
        if name is None
        else schema_document.described(chosen, name)
    )
    if as_json:
        typer.echo(json.dumps(described, indent=2))
    else:
        schema_tables.show(described)
