"""``pregao schema``: tables of the messages, fields and types of a schema version."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from pregao.cli import options
from pregao.cli.console import console, print_line, print_table

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

    from pregao.schemas.description import choose, contents, described

    chosen, versions = choose(protocol, version, file)
    document = contents(chosen, versions) if name is None else described(chosen, name)
    if as_json:
        typer.echo(json.dumps(document, indent=2))
    else:
        show(document)


_FIELD_COLUMNS = (
    "field", "tag", "offset", "size", "type", "null", "presence", "since", "description",
)  # fmt: skip


def show(described: dict[str, Any]) -> None:
    """Print the description of a schema, message or type."""
    out = console()
    version = f"version {described['version']} ({described['semantic_version']})"
    kind = described["kind"]
    if kind == "schema":
        print_table(out, f"{described['package']}, {version}", *_messages(described))
        print_line(out, f"versions: {', '.join(described['versions'])}")
        print_line(out, f"types: {', '.join(described['types'])}")
        print_line(out, "Run `pregao schema NAME` to show a message or a type.")
    elif kind == "message":
        title = (
            f"{described['name']}: template {described['template']}, block of "
            f"{described['block_length']} bytes, {version}"
        )
        rows = list(_fields(described, ""))
        print_table(out, title, _FIELD_COLUMNS, rows, numbers="tag offset size since")
        if described["description"]:
            print_line(out, described["description"])
    else:
        size = f"{described['size']} bytes" if described["size"] != 1 else "1 byte"
        title = f"{described['name']}: {kind} of {size} ({described['encoding']}), {version}"
        print_table(out, title, *_members(described))
        if described["description"]:
            print_line(out, described["description"])


def _messages(described: dict[str, Any]) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    rows = [
        (
            message["template"],
            message["name"],
            message["block_length"],
            message["fields"],
            ", ".join(message["groups"]),
            ", ".join(message["data"]),
            message["since"] or None,
        )
        for message in described["messages"]
    ]
    return ("template", "message", "block", "fields", "groups", "data", "since"), list(rows)


def _fields(block: dict[str, Any], indent: str) -> Iterator[tuple[object, ...]]:
    for field in block["fields"]:
        constant = field["constant"]
        yield (
            indent + field["name"],
            str(field["id"]),
            field["offset"],
            field["size"] or None,
            _type_name(field),
            _number(field["null"]),
            field["presence"] if constant is None else f"constant {constant}",
            field["since"] or None,
            field["description"],
        )
    for group in block["groups"]:
        yield (
            f"{indent}{group['name']} […]",
            str(group["id"]),
            None,
            None,
            f"group, entries of {group['block_length']} bytes",
            None,
            None,
            group["since"] or None,
            group["description"],
        )
        yield from _fields(group, indent + "  ")
    for data in block["data"]:
        yield (
            f"{indent}{data['name']} …",
            str(data["id"]),
            None,
            None,
            f"data, length {data['length']}",
            None,
            None,
            data["since"] or None,
            data["description"],
        )


def _type_name(field: dict[str, Any]) -> str:
    name, encoding = field["type"], field["encoding"]
    return name if name == encoding else f"{name} ({encoding})"


def _number(value: object) -> str | None:
    """Return a null value as schemas write it, without thousands separators."""
    return None if value is None else str(value)


def _members(described: dict[str, Any]) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    kind = described["kind"]
    if kind == "type":
        row = (
            described["encoding"],
            described["presence"],
            _number(described["null"]),
            _number(described["constant"]),
        )
        return ("encoding", "presence", "null", "constant"), [row]
    if kind == "composite":
        return ("member", "offset", "size", "encoding", "presence", "constant", "since"), [
            (
                member["name"],
                member["offset"],
                member["size"],
                member["encoding"],
                member.get("presence"),
                _number(member.get("constant")),
                member["since"] or None,
            )
            for member in described["members"]
        ]
    number = "value" if kind == "enum" else "bit"
    return ("name", number, "since", "description"), [
        (member["name"], str(member[number]), member["since"] or None, member["description"])
        for member in described["members"]
    ]
