"""`pregao lake drop`: drop days, channels or ingests from a lake."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from pregao.cli import options
from pregao.errors import UsageError

if TYPE_CHECKING:
    from pregao.lake.drop.drop import DropResult

EPILOG = "\n\n".join(
    (
        "Examples:",
        "pregao lake drop --lake lake --date 2026-05-21 --dry-run",
        "pregao lake drop --lake lake --date 2026-05-21 --channel 72 --yes",
        "pregao lake drop --lake lake --ingest 3f9c21aa",
        "Books and analytics derived from the dropped data are dropped too; `pregao books` and "
        "`pregao analytics` rebuild them from the rest. Dropped data can be ingested again. Files "
        "remain until `pregao lake vacuum` removes them.",
    )
)


def drop(
    lake: options.Lake,
    day: Annotated[
        list[str] | None, typer.Option("--date", metavar="DATE", help="Drop these dates.")
    ] = None,
    channel: Annotated[
        list[str] | None, typer.Option(metavar="NUMBER", help="Drop these channels.")
    ] = None,
    ingest: Annotated[
        list[str] | None,
        typer.Option(
            metavar="UNIT_ID", help="Drop complete ingests, by `unit_id` of the table `ingests`."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List what would be dropped, without dropping it.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Drop days, channels or ingests from all tables, atomically.

    Dates and channels given together select these channels on these dates.
    """
    from pregao.cli import option_values
    from pregao.lake.drop.drop import drop as take_out
    from pregao.lake.drop.selection import DropSelection
    from pregao.lake.storage.lake_store import LakeStore

    chosen = DropSelection(
        tuple(option_values.days(day)),
        tuple(sorted(option_values.numbers(channel, "--channel", 255) or ())),
        tuple(option_values.parts(ingest)),
    )
    chosen.check()
    store = LakeStore(lake)
    if dry_run or not yes:
        _show(take_out(store, chosen, dry_run=True), "would be dropped")
        if dry_run:
            return
        if not sys.stdin.isatty():
            raise UsageError("Standard input is not a terminal: add --yes to drop this.")
        if not typer.confirm(f"Drop {chosen.words()} from {lake}?"):
            typer.echo("Nothing was dropped.")
            return
    dropped = take_out(store, chosen)
    if yes:
        _show(dropped, "dropped")
    typer.echo(f"Dropped; `pregao lake vacuum --lake {lake}` frees the space of its files.")


def _show(what: DropResult, did: str) -> None:
    from pregao.cli.terminal import console, print_table

    print_table(
        console(),
        f"{sum(what.rows.values()):,} rows {did}",
        ["table", "rows"],
        list(what.rows.items()),
        numbers="rows",
    )
    for date, channels in sorted(what.pairs.items()):
        listed = ", ".join(map(str, sorted(channels)))
        typer.echo(f"{date}: channel {listed}")
    if what.ingests:
        typer.echo(f"dropped completely: ingests {', '.join(what.ingests)}")
    if what.shortened:
        typer.echo(f"dropped in part: ingests {', '.join(what.shortened)}")
    if what.partly:
        typer.echo(
            f"dropped in part: captures {', '.join(what.partly)}. To ingest the dropped channels "
            "again, select them with --channel."
        )
    if what.left_alone:
        typer.echo(f"unchanged, as they are not tables of Pregão: {', '.join(what.left_alone)}")
