"""`pregao lake`: what a lake holds, whether it is sound, and its upkeep."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from pregao.cli import lake_drop, lake_views, options
from pregao.clock import parse_span
from pregao.errors import UsageError

if TYPE_CHECKING:
    from pregao.lake.ingest import Checked

app = typer.Typer(
    name="lake",
    no_args_is_help=True,
    help="Look into a lake, and keep it in order.",
    epilog="Example: pregao lake tables --lake lake",
)


@app.command(epilog="Examples: pregao lake tables --lake lake; pregao lake tables trades --json")
def tables(
    lake: options.Lake,
    table: Annotated[
        str | None,
        typer.Argument(metavar="TABLE", help="Show the columns of this table or view."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """List the tables: rows, files, size, columns, time span; or the columns of one."""
    from pregao.cli.terminal import console, print_table
    from pregao.clock import format_ns
    from pregao.lake.ingest import summarize, table_columns
    from pregao.lake.store import Lake
    from pregao.lake.views import view_columns, view_names

    place = Lake(lake)
    place.require()
    place.roll_forward()
    if table is not None:
        is_view = table in view_names(place.table_names())
        described = view_columns(place, table) if is_view else table_columns(place, table)
        if as_json:
            names = ("name", "type", "comment")
            typer.echo(json.dumps([dict(zip(names, row, strict=True)) for row in described]))
        else:
            print_table(console(), table, ["column", "type", "meaning"], described)
        return
    found = summarize(place)
    if as_json:
        typer.echo(json.dumps([asdict(each) for each in found], indent=2))
        return
    print_table(
        console(),
        str(place.location),
        ["table", "rows", "files", "bytes", "columns", "dates", "from", "to"],
        [
            (
                each.name,
                each.rows,
                each.files,
                each.size,
                each.columns,
                each.dates,
                None if each.first_time_ns is None else format_ns(each.first_time_ns),
                None if each.last_time_ns is None else format_ns(each.last_time_ns),
            )
            for each in found
        ],
        numbers="rows files bytes columns dates",
        optional="columns dates from to",
    )


@app.command(epilog="Example: pregao lake check --lake lake --deep")
def check(
    lake: options.Lake,
    deep: Annotated[
        bool, typer.Option("--deep", help="Read every column of every file, to find damage.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Make the account again from the tables, and hold it against what the ingests reported."""
    from pregao.lake.ingest import Checked, check_lake, unsound
    from pregao.lake.store import Lake

    place = Lake(lake)
    place.require()
    place.roll_forward()
    unreadable = unsound(place, deep=deep)
    # Rows can only be counted where the files are what the tables say.
    found = Checked(faults=unreadable) if unreadable else check_lake(place)
    if as_json:
        typer.echo(json.dumps({**asdict(found), "counted": not unreadable, "deep": deep}, indent=1))
    else:
        _show_check(found, counted=not unreadable)
    if found.faults:
        raise UsageError(f"{lake} does not add up: {len(found.faults):,} faults.")
    if as_json:
        return
    typer.echo("Everything adds up.")
    if not deep:
        typer.echo("The files' pages were not all read; --deep does that.")


def _show_check(found: Checked, *, counted: bool) -> None:
    if counted:
        typer.echo(
            f"{found.units:,} ingests, {found.packets:,} packets, {found.messages:,} messages"
        )
    for fault in found.faults:
        typer.echo(fault)


@app.command(epilog="Example: pregao lake vacuum --lake lake --older-than 7d --dry-run")
def vacuum(
    lake: options.Lake,
    older_than: Annotated[
        str,
        typer.Option(
            metavar="AGE", help="Keep what is younger: 30m, 24h, 7d. Longer than any ingest takes."
        ),
    ] = "24h",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only tell what would be removed.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Remove the files that failed or replaced attempts have left."""
    from pregao.lake.store import Lake
    from pregao.lake.store import vacuum as remove_orphans

    place = Lake(lake)
    place.require()
    limit = parse_span(older_than, "--older-than")
    done = remove_orphans(place, older_than_ns=limit, dry_run=dry_run)
    gone = done.files
    if as_json:
        files = [
            {"file": entry.location.relative_to(place.location), "bytes": entry.size}
            for entry in gone
        ]
        told = {
            "removed": not dry_run,
            "files": files,
            "links": done.links,
            "unknown": done.unknown,
        }
        typer.echo(json.dumps(told, indent=1))
        return
    for entry in gone:
        typer.echo(entry.location.relative_to(place.location))
    for path in done.links:
        typer.echo(f"{path} is a symbolic link or no file: neither followed nor removed.")
    for path in done.unknown:
        typer.echo(f"{path} is in no table, but Pregão did not write it: not removed.")
    did = "would be removed" if dry_run else "removed"
    typer.echo(f"{len(gone):,} files, {sum(entry.size for entry in gone):,} bytes {did}")


@app.command(epilog="Example: pregao lake compact trades ticks --lake lake --file-size 32m")
def compact(
    lake: options.Lake,
    table: Annotated[
        list[str] | None, typer.Argument(metavar="TABLE…", help="Tables; all by default.")
    ] = None,
    file_size: Annotated[
        str,
        typer.Option(
            metavar="SIZE",
            help="How large files become. Smaller ones let a query for one instrument read less.",
        ),
    ] = "64m",
    as_json: options.Json = False,
) -> None:
    """Put small files together, and the rows of an instrument into few; rows stay what they are."""
    from pregao.cli.terminal import console, print_table
    from pregao.lake.ingest import compact as merge
    from pregao.lake.source import parse_size
    from pregao.lake.store import Lake

    place = Lake(lake)
    place.require()
    size = parse_size(file_size, "--file-size")
    assert size is not None  # it has a default
    done = merge(place, table or None, size)
    if as_json:
        typer.echo(json.dumps([asdict(each) for each in done], indent=1, default=str))
        return
    print_table(
        console(),
        f"{sum(each.files for each in done):,} files became {sum(each.into for each in done):,}",
        ["table", "date", "files", "into", "rows", "before", "after"],
        [
            (
                each.table,
                each.date,
                each.files,
                each.into,
                each.rows,
                each.bytes_before,
                each.bytes_after,
            )
            for each in done
        ],
        numbers="files into rows before after",
        optional="before after",
    )


app.command(epilog=lake_views.VIEWS_EPILOG)(lake_views.views)
app.command(epilog=lake_views.DDL_EPILOG)(lake_views.ddl)
app.command(epilog=lake_views.SYMBOL_EPILOG)(lake_views.symbol)
app.command(epilog=lake_views.DICTIONARY_EPILOG)(lake_views.dictionary)
app.command(epilog=lake_drop.EPILOG)(lake_drop.drop)
