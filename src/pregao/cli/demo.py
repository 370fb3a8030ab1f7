"""``pregao demo``: a market simulated, captured, taken into a lake and asked, without any data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EPILOG = "\n\n".join(
    (
        "Example:",
        "pregao demo",
        "The same captures are written each time; a lake that holds them already is left alone.",
    )
)


def demo(
    folder: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where to write.")
    ] = Path("demo-output"),
) -> None:
    """Simulate a session, take it into a lake, ask it three questions, and say how to go on."""
    from pregao.cli.demonstration import run
    from pregao.errors import UsageError

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be made: {error.strerror}.") from None
    run(folder)
