"""``pregao audit``: comparison of the rebuilt books with the snapshots in the captures."""

from __future__ import annotations

import json
from collections import Counter
from typing import Annotated, Any

import typer

from pregao.cli import options

EPILOG = "\n\n".join(
    (
        "Examples:",
        "pregao audit --lake lake",
        "pregao audit --lake lake --symbol PETR4 --json",
        "`pregao books` compares every snapshot in the captures with the book rebuilt up to it: "
        "orders, their priority, counts, and published statistics. The exit code is 1 if one "
        "differs and no gap explains it.",
    )
)


def audit(
    lake: options.Lake,
    day: options.Days = None,
    channel: options.Channels = None,
    symbol: options.Symbols = None,
    limit: Annotated[
        int,
        typer.Option(
            "--limit",
            "-n",
            metavar="NUMBER",
            min=0,
            max=1_000_000_000,
            help="Maximum number of differences to print.",
        ),
    ] = 20,
    as_json: options.Json = False,
) -> None:
    """Summarize the audit of a lake's books."""
    from pregao.cli import option_values
    from pregao.lake.books.selection import BookSelection, audit_summary
    from pregao.lake.storage.lake_store import LakeStore

    channels = option_values.numbers(channel, "--channel", 255)
    selection = BookSelection(
        tuple(option_values.days(day)),
        tuple(sorted(channels or ())),
        tuple(option_values.parts(symbol)),
    )
    summary = audit_summary(LakeStore(lake), selection, limit)
    if as_json:
        data = {
            "snapshots": summary.snapshots,
            "instruments": summary.instruments,
            "results": dict(sorted(summary.results.items())),
            "differences": summary.differences,
        }
        typer.echo(json.dumps(data, indent=1))
    else:
        _show(summary.results, summary.instruments, summary.differences)
    raise typer.Exit(0 if summary.passed else 1)


_MEANINGS = {
    "equal": "the rebuilt book is equal",
    "different": "the rebuilt book differs, and no gap explains it",
    "gap": "messages before the snapshot were missing: it healed the book",
    "start": "the book starts with the snapshot",
    "incomplete": "parts of the snapshot were not captured",
    "void": "the snapshot states that the book is empty",
}


def _show(results: Counter[str], instruments: int, different: list[dict[str, Any]]) -> None:
    from pregao.cli.console import console, print_line, print_table

    out = console()
    title = f"{results.total():,} snapshots of {instruments:,} instruments"
    rows = [(name, results[name], meaning) for name, meaning in _MEANINGS.items() if results[name]]
    columns = ("result", "snapshots", "meaning")
    print_table(out, title, columns, rows, numbers="snapshots", framed=True)
    for row in different:
        name = row["symbol"] or row["security_id"]
        print_line(
            out,
            f"{name}, channel {row['channel']}, as of packet {row['sequence_number']} of sequence "
            f"version {row['sequence_version']}: {row['detail']}",
        )
    more = results["different"] - len(different)
    if more > 0 and different:
        print_line(out, f"… and {more:,} more")
