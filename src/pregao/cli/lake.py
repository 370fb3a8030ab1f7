"""`pregao lake`: list, check, compact and vacuum the tables of a lake."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from pregao.cli import lake_drop, lake_views, options
from pregao.clock import parse_span
from pregao.errors import UsageError

if TYPE_CHECKING:
    from pregao.lake.ingest.verify import CheckResult

app = typer.Typer(
    name="lake",
    no_args_is_help=True,
    help="Inspect and maintain a lake.",
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
    """List the tables (rows, files, size, columns, time span), or the columns of one."""
    from pregao.cli.terminal import console, print_table
    from pregao.clock import format_ns
    from pregao.lake.ingest.maintenance import summarize, table_columns
    from pregao.lake.storage.lake_store import LakeStore
    from pregao.lake.views.definitions import view_columns, view_names

    store = LakeStore(lake)
    store.require()
    store.roll_forward()
    if table is not None:
        is_view = table in view_names(store.table_names())
        described = view_columns(store, table) if is_view else table_columns(store, table)
        if as_json:
            names = ("name", "type", "comment")
            typer.echo(json.dumps([dict(zip(names, row, strict=True)) for row in described]))
        else:
            print_table(console(), table, ["column", "type", "meaning"], described)
        return
    found = summarize(store)
    if as_json:
        typer.echo(json.dumps([asdict(each) for each in found], indent=2))
        return
    print_table(
        console(),
        str(store.location),
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
    deep: Annotated[bool, typer.Option("--deep", help="Read every column of every file.")] = False,
    as_json: options.Json = False,
) -> None:
    """Recount the tables and compare with the ingest reports."""
    from pregao.lake.ingest.verify import CheckResult, check_lake, unsound
    from pregao.lake.storage.lake_store import LakeStore

    store = LakeStore(lake)
    store.require()
    store.roll_forward()
    unreadable = unsound(store, deep=deep)
    # Rows can be counted only if the files match the tables' logs.
    found = CheckResult(faults=unreadable) if unreadable else check_lake(store)
    if as_json:
        typer.echo(json.dumps({**asdict(found), "counted": not unreadable, "deep": deep}, indent=1))
    else:
        _show_check(found, counted=not unreadable)
    if found.faults:
        raise UsageError(f"{lake} is inconsistent: {len(found.faults):,} faults.")
    if as_json:
        return
    typer.echo("The lake is consistent.")
    if not deep:
        typer.echo("Not all pages of the files were read; use --deep for that.")


def _show_check(found: CheckResult, *, counted: bool) -> None:
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
            metavar="DURATION",
            help="Minimum age of removed files, e.g. 30m, 24h, 7d; must exceed the duration of "
            "any ingest.",
        ),
    ] = "24h",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List what would be removed, without removing it.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Remove files left by failed ingests and replaced files."""
    from pregao.lake.storage.lake_store import LakeStore
    from pregao.lake.storage.vacuum import vacuum as remove_orphans

    store = LakeStore(lake)
    store.require()
    limit = parse_span(older_than, "--older-than")
    done = remove_orphans(store, older_than_ns=limit, dry_run=dry_run)
    removed = done.files
    if as_json:
        files = [
            {"file": entry.location.relative_to(store.location), "bytes": entry.size}
            for entry in removed
        ]
        data = {
            "removed": not dry_run,
            "files": files,
            "links": done.links,
            "unknown": done.unknown,
        }
        typer.echo(json.dumps(data, indent=1))
        return
    for entry in removed:
        typer.echo(entry.location.relative_to(store.location))
    for path in done.links:
        typer.echo(f"{path} is a symbolic link or not a regular file: not followed, not removed.")
    for path in done.unknown:
        typer.echo(f"{path} is in no table, but was not written by Pregão: not removed.")
    did = "would be removed" if dry_run else "removed"
    typer.echo(f"{len(removed):,} files, {sum(entry.size for entry in removed):,} bytes {did}")


@app.command(epilog="Example: pregao lake compact trades ticks --lake lake --file-size 32m")
def compact(
    lake: options.Lake,
    table: Annotated[
        list[str] | None, typer.Argument(metavar="TABLE…", help="Tables (default: all).")
    ] = None,
    file_size: Annotated[
        str,
        typer.Option(
            metavar="SIZE",
            help="Target file size. Queries for one instrument read less with smaller files.",
        ),
    ] = "64m",
    as_json: options.Json = False,
) -> None:
    """Merge small files and cluster rows by instrument."""
    from pregao.cli.terminal import console, print_table
    from pregao.lake.ingest.maintenance import compact as merge
    from pregao.lake.datasource.options import parse_size
    from pregao.lake.storage.lake_store import LakeStore

    store = LakeStore(lake)
    store.require()
    size = parse_size(file_size, "--file-size")
    assert size is not None  # it has a default
    done = merge(store, table or None, size)
    if as_json:
        typer.echo(json.dumps([asdict(each) for each in done], indent=1, default=str))
        return
    print_table(
        console(),
        f"{sum(each.files for each in done):,} files merged into "
        f"{sum(each.into for each in done):,}",
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
