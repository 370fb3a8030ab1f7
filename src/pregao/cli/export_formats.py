"""How `pregao export` writes the formats of others."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pregao.errors import UsageError

if TYPE_CHECKING:
    from pregao.lake.books.export import Selection

SAO_PAULO = "America/Sao_Paulo"
"""LOBSTER counts seconds from midnight, the exchange's unless another zone is named."""


def write_foreign(
    format_name: str,
    lake: str,
    selection: Selection,
    output: str,
    depth: int,
    zone: str | None,
    *,
    force: bool,
    safe_csv: bool,
) -> None:
    """Write an instrument's day, or several, in a format of others."""
    from pregao.cli.new_files import NewFiles
    from pregao.lake.books import Catalogue, find_instrument
    from pregao.lake.exports import Format, check_output, files_of
    from pregao.lake.store import Lake

    wanted = Format(format_name)
    check_output(wanted, output)
    if not selection.symbols:
        raise UsageError(f"Name the instruments of `export {wanted}` with --symbol.")
    if len(selection.channels) > 1:
        raise UsageError(f"`export {wanted}` takes one --channel, where a symbol is on several.")
    place = Lake(lake)
    place.require()
    catalogue = Catalogue(place)
    channel = selection.channels[0] if selection.channels else None
    instruments = [
        find_instrument(catalogue, name, day, channel)
        for name in selection.symbols
        for day in selection.dates or (None,)
    ]
    found = files_of(
        place, wanted, instruments, output, depth, zone or SAO_PAULO, safe_csv=safe_csv
    )
    if output == "-":
        for each in found:
            each.write(sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    rows = 0
    with NewFiles(force=force) as files:
        for each in found:
            each.path.parent.mkdir(parents=True, exist_ok=True)
            rows += each.write(files.create(Path(each.path)))
        paths = files.paths
    for path in paths:
        typer.echo(f"pregao: {path}", err=True)
    if rows:
        typer.echo(f"pregao: {rows:,} rows", err=True)
