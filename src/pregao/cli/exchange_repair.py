"""``pregao exchange repair``: show the damage of a journal, and set it aside if that is wanted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

REPAIR_EPILOG = "\n\n".join(
    (
        "Examples:",
        "pregao exchange repair journal",
        "pregao exchange repair journal --yes",
        "Restore a damaged file from a copy if there is one: a repair cannot bring records back.",
    )
)


def repair(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the journal.")],
    yes: Annotated[
        bool,
        typer.Option("-y", "--yes", help="Set the damaged bytes aside. Otherwise nothing changes."),
    ] = False,
    json_output: Annotated[
        bool, typer.Option("--json", help="Print machine-readable JSON.")
    ] = False,
) -> None:
    """Show the damage of a journal and whom it concerns; with --yes, set it aside.

    The damaged bytes are kept in files beside the journal. Orders entered after the damage can get
    other numbers than their reports told.
    """
    import json

    from pregao.errors import UsageError
    from pregao.exchange.host.journal_repair import examine_journal, repair_journal

    found = repair_journal(folder) if yes else examine_journal(folder)
    if json_output:
        typer.echo(json.dumps(found.as_data(), indent=1))
    else:
        for words in (*found.notes, *found.findings, *found.hopeless):
            typer.echo(words)
        for words in found.concerns:
            typer.echo(f"  {words}")
        for path in found.set_aside:
            typer.echo(f"{path}: set aside.")
    if found.hopeless:
        raise UsageError("This journal cannot be repaired without the files named above.")
    if found.sound or yes:
        typer.echo(
            f"An exchange can start with {'' if found.sound else 'what is left of '}this journal.",
            err=True,
        )
        return
    typer.echo("Nothing was changed. --yes sets the damaged bytes aside.", err=True)
    raise typer.Exit(1)
