"""``pregao exchange repair``: show the damage in a journal and, on request, set it aside."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

REPAIR_EPILOG = "\n\n".join(
    (
        "Examples:",
        "pregao exchange repair journal",
        "pregao exchange repair journal --yes",
        "Restore a damaged file from a copy if you have one: a repair cannot recover records.",
    )
)


def repair(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Journal directory.")],
    yes: Annotated[
        bool,
        typer.Option("-y", "--yes", help="Set the damaged bytes aside (default: change nothing)."),
    ] = False,
    json_output: Annotated[
        bool, typer.Option("--json", help="Print machine-readable JSON.")
    ] = False,
) -> None:
    """Show the damage in a journal and whom it affects; with --yes, set it aside.

    Damaged bytes are kept in files next to the journal. Orders entered after the damage may get
    IDs other than those in their execution reports.
    """
    import json

    from pregao.errors import UsageError
    from pregao.exchange.host.journal.repair import examine_journal, repair_journal

    found = repair_journal(folder) if yes else examine_journal(folder)
    if json_output:
        typer.echo(json.dumps(found.as_data(), indent=1))
    else:
        for line in (*found.notes, *found.findings, *found.hopeless):
            typer.echo(line)
        for line in found.concerns:
            typer.echo(f"  {line}")
        for path in found.set_aside:
            typer.echo(f"{path}: set aside.")
    if found.hopeless:
        raise UsageError("This journal cannot be repaired without the files listed above.")
    if found.sound or yes:
        typer.echo(
            f"An exchange can start from {'' if found.sound else 'the rest of '}this journal.",
            err=True,
        )
        return
    typer.echo("Nothing was changed. Use --yes to set the damaged bytes aside.", err=True)
    raise typer.Exit(1)
