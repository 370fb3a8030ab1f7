"""``pregao demo``: a small capture made, decoded and shown, without any data at hand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EPILOG = "\n\n".join(
    (
        "Example:",
        "pregao demo",
        "The same files are written each time; only what the demonstration made is replaced.",
    )
)


def demo(
    folder: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where to write.")
    ] = Path("demo-output"),
) -> None:
    """Make a small capture, decode it into tables, and show what to try next."""
    from pregao.cli.demonstration import show, write_capture
    from pregao.errors import UsageError

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be made: {error.strerror}.") from None
    capture = folder / "demo.pcap"
    write_capture(capture)
    show(capture, folder / "tables")
