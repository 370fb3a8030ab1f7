"""``pregao info`` of the legacy feed, as tables."""

from __future__ import annotations

from typing import Any

from pregao.cli.terminal import console, print_line, print_table


def show_legacy(report: dict[str, Any]) -> None:
    """Print the report as tables."""
    out = console()
    print_line(
        out,
        f"Legacy feed (UMDF FIX/FAST): {report['datagrams']:,} datagrams, "
        f"{report['messages']:,} messages.",
    )
    columns = ("flow", "stream", "messages", "entries", "lowest", "highest", "missing", "resets")
    rows = [[each[column] or "" for column in columns] for each in report["flows"]]
    numbers = "messages entries lowest highest missing resets"
    print_table(out, "Flows", columns, rows, numbers=numbers, framed=True)
    names = ("template", "message", "messages")
    rows = [[each[name] for name in names] for each in report["templates"]]
    print_table(out, "Templates", names, rows, numbers="template messages", framed=True)
    if report["chunks_missing"]:
        print_line(out, f"{report['chunks_missing']:,} messages have missing chunks.")
    for reason, count in report["rejects"].items():
        print_line(out, f"{count:,} rejected: {reason}")
    for message in report["damaged"]:
        print_line(out, message)
