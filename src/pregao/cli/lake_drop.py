"""`pregao lake drop`: days, channels or ingests taken out of a lake."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from pregao.cli import options
from pregao.errors import UsageError

if TYPE_CHECKING:
    from pregao.lake.dropping import Dropped

EPILOG = "\n\n".join(
    (
        "Examples:",
        "pregao lake drop --lake lake --date 2026-05-21 --dry-run",
        "pregao lake drop --lake lake --date 2026-05-21 --channel 72 --yes",
        "pregao lake drop --lake lake --ingest 3f9c21aa",
        "Books and analytics of what is touched go too; `pregao books` and `pregao analytics` "
        "make them again from what is left. What was dropped can be ingested again. The files "
        "stay until `pregao lake vacuum` removes them.",
    )
)


def drop(
    lake: options.Lake,
    day: Annotated[
        list[str] | None, typer.Option("--date", metavar="DAY", help="These days.")
    ] = None,
    channel: Annotated[
        list[str] | None, typer.Option(metavar="NUMBER", help="These channels.")
    ] = None,
    ingest: Annotated[
        list[str] | None,
        typer.Option(
            metavar="UNIT", help="These ingests, as a whole: `unit_id` of the table ingests."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only tell what would be dropped.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Drop days, channels or ingests from all tables, at once or not at all.

    Days and channels that are given together mean these channels on these days.
    """
    from pregao.cli import option_values
    from pregao.lake.dropping import Selection
    from pregao.lake.dropping import drop as take_out
    from pregao.lake.store import Lake

    chosen = Selection(
        tuple(option_values.days(day)),
        tuple(sorted(option_values.numbers(channel, "--channel", 255) or ())),
        tuple(option_values.parts(ingest)),
    )
    chosen.check()
    place = Lake(lake)
    if dry_run or not yes:
        _show(take_out(place, chosen, dry_run=True), "would be dropped")
        if dry_run:
            return
        if not sys.stdin.isatty():
            raise UsageError("Nobody is there to be asked: add --yes to drop this.")
        if not typer.confirm(f"Drop {chosen.words()} from {lake}?"):
            typer.echo("Nothing was dropped.")
            return
    done = take_out(place, chosen)
    if yes:
        _show(done, "dropped")
    typer.echo(f"Dropped; `pregao lake vacuum --lake {lake}` frees the space of its files.")


def _show(what: Dropped, did: str) -> None:
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
        typer.echo(f"nothing is left of the ingests {', '.join(what.ingests)}")
    if what.shortened:
        typer.echo(f"something is left of the ingests {', '.join(what.shortened)}")
    if what.partly:
        typer.echo(
            f"of these captures a part is left: {', '.join(what.partly)}. To ingest the dropped "
            "channels again, name them with --channel."
        )
    if what.left_alone:
        typer.echo(f"left alone, for they are no tables of ours: {', '.join(what.left_alone)}")
