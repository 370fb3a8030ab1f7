"""Third-party formats of `pregao export`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pregao.errors import UsageError

if TYPE_CHECKING:
    from pregao.lake.exports.tabular import BookSelection

SAO_PAULO = "America/Sao_Paulo"
"""Default time zone of LOBSTER's seconds after midnight: the exchange's."""


def write_third_party(
    format_name: str,
    lake: str,
    selection: BookSelection,
    output: str,
    depth: int,
    zone: str | None,
    *,
    force: bool,
    safe_csv: bool,
) -> None:
    """Write one or more instrument days in a third-party format."""
    from pregao.cli.new_files import NewFiles
    from pregao.lake.books.catalog import FileCatalogue
    from pregao.lake.books.book_at import find_instrument
    from pregao.lake.exports.formats import ExportFormat, check_output, files_of
    from pregao.lake.storage.lake_store import LakeStore

    wanted = ExportFormat(format_name)
    check_output(wanted, output)
    if not selection.symbols:
        raise UsageError(f"`export {wanted}` requires --symbol.")
    if len(selection.channels) > 1:
        raise UsageError(
            f"`export {wanted}` accepts one --channel, was {len(selection.channels)}. Use it "
            "if a symbol is on several channels."
        )
    store = LakeStore(lake)
    store.require()
    catalogue = FileCatalogue(store)
    channel = selection.channels[0] if selection.channels else None
    instruments = [
        find_instrument(catalogue, name, day, channel)
        for name in selection.symbols
        for day in selection.dates or (None,)
    ]
    found = files_of(
        store, wanted, instruments, output, depth, zone or SAO_PAULO, safe_csv=safe_csv
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
