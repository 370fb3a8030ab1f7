"""`pregao lake`: list, check, compact and vacuum tables; drop data; write SQL for other tools.

`drop` removes days, channels or ingests. `views`, `ddl` and `dictionary` write SQL and descriptions
of the tables; `symbol` finds the names of an instrument.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pregao.cli import options
from pregao.errors import UsageError
from pregao.units import parse_duration

if TYPE_CHECKING:
    from pregao.lake.drop.drop import DropResult
    from pregao.lake.ingest.verify import CheckResult

DROP_EPILOG = "\n\n".join(
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

VIEWS_EPILOG = "\n\n".join(
    (
        "Example: pregao lake views --lake lake -o lake.sql, then: duckdb -init lake.sql",
        "The file requires no DuckDB extension. It lists the current files of the tables: write it "
        "again after an ingest.",
    )
)
DDL_EPILOG = "\n\n".join(
    (
        "Example: pregao lake ddl --lake s3://bucket/lake --schema main.b3 -o lake.sql",
        "The statements are in Spark SQL for the Delta connector, which other engines accept too. "
        "Do not register the folders as plain Parquet: they also contain replaced files.",
    )
)
DICTIONARY_EPILOG = "Example: pregao lake dictionary -o dictionary.md"
SYMBOL_EPILOG = "\n\n".join(
    (
        "Examples:",
        "pregao lake symbol PETR4 --lake lake",
        "pregao lake symbol PETR4 --date 2026-05-21 --lake lake",
        "pregao lake symbol 100000010014 --lake lake",
    )
)

_Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="Write to this file instead of standard output."
    ),
]
_Force = Annotated[bool, typer.Option("--force", "-f", help="Replace the file.")]

app = options.App(
    name="lake",
    no_args_is_help=True,
    help="Inspect and maintain a lake.",
    epilog="Example: pregao lake tables --lake lake",
)


# --- Drop ---


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
    from pregao.cli.console import console, print_table

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


# --- SQL and names ---


def views(lake: options.Lake, output: _Output = None, force: _Force = False) -> None:
    """Write SQL that defines the tables and views in any DuckDB."""
    from pregao.lake.sql.duckdb_script import views_script
    from pregao.lake.storage.lake_store import LakeStore

    _check(output, force)
    _write(views_script(LakeStore(lake)), output, force)


def ddl(
    lake: options.Lake,
    schema: Annotated[
        str, typer.Option(metavar="NAME", help="Schema of the tables: b3, or CATALOG.b3.")
    ] = "b3",
    root: Annotated[
        str | None,
        typer.Option(
            metavar="URI", help="URI of the lake for the catalog, e.g. s3a://bucket/lake."
        ),
    ] = None,
    output: _Output = None,
    force: _Force = False,
) -> None:
    """Write SQL that registers the tables and views in a Spark catalog."""
    from pregao.lake.storage.lake_store import LakeStore
    from pregao.lake.views.sql import catalog_ddl

    _check(output, force)
    _write(catalog_ddl(LakeStore(lake), schema, root), output, force)


def symbol(
    name: Annotated[str, typer.Argument(metavar="SYMBOL", help="Symbol or security ID.")],
    lake: options.Lake,
    day: Annotated[
        str | None, typer.Option("--date", metavar="DATE", help="Date (default: all).")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Show the security IDs of a symbol, or the symbols of a security ID, with their dates."""
    import json
    from dataclasses import asdict

    from pregao.cli import option_values
    from pregao.cli.console import console, print_table
    from pregao.lake.views.symbols import find_symbol

    date = option_values.days([day])[0] if day else None
    found = find_symbol(lake, name, date)
    if as_json:
        typer.echo(json.dumps([asdict(one) for one in found], indent=1, default=str))
        return
    print_table(
        console(),
        "",
        ["symbol", "security_id", "channel", "group", "from", "to", "days"],
        [
            (
                one.symbol, str(one.security_id), str(one.channel), one.security_group,
                one.first_day.isoformat(), one.last_day.isoformat(), one.days,
            )
            for one in found
        ],
        numbers="security_id channel days",
    )  # fmt: skip


def dictionary(
    lake: Annotated[
        str | None,
        typer.Option(
            "--lake", metavar="DIR", help="Describe this lake (default: this version's tables)."
        ),
    ] = None,
    output: _Output = None,
    force: _Force = False,
) -> None:
    """Write the data dictionary, every table and column with its meaning, as Markdown."""
    from pregao.lake.data_dictionary import dictionary as page
    from pregao.lake.data_dictionary import lake_specs, own_specs
    from pregao.lake.storage.lake_store import LakeStore

    _check(output, force)
    if lake is None:
        specs = own_specs()
    else:
        store = LakeStore(lake)
        store.require()
        store.roll_forward()
        specs = lake_specs(store)
    _write(page(specs), output, force)


def _check(output: Path | None, force: bool) -> None:
    """Raise `UsageError` before the work starts if the file cannot be written."""
    from pregao.safe_io.output_files import NewFiles

    if output is not None:
        NewFiles(force=force).check(output)


def _write(text: str, output: Path | None, force: bool) -> None:
    from pregao.safe_io.output_files import NewFiles

    if output is None:
        typer.echo(text, nl=not text.endswith("\n"))
        return
    with NewFiles(force=force) as files:
        files.create(output).write(text.encode())
    typer.echo(f"pregao: {output} written", err=True)


# --- Tables ---


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
    from pregao.cli.console import console, print_table
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
    limit = parse_duration(older_than, "--older-than")
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
    from pregao.cli.console import console, print_table
    from pregao.lake.datasource.options import parse_size
    from pregao.lake.ingest.maintenance import compact as merge
    from pregao.lake.storage.lake_store import LakeStore

    store = LakeStore(lake)
    store.require()
    size = parse_size(file_size, "--file-size")
    assert size is not None  # it has a default
    done = merge(store, table or None, size)
    if as_json:
        typer.echo(json.dumps([asdict(each) for each in done], indent=1, default=str))
        return
    if not done:
        typer.echo("Nothing to merge.")
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


app.command(epilog=VIEWS_EPILOG)(views)
app.command(epilog=DDL_EPILOG)(ddl)
app.command(epilog=SYMBOL_EPILOG)(symbol)
app.command(epilog=DICTIONARY_EPILOG)(dictionary)
app.command(epilog=DROP_EPILOG)(drop)
