"""`pregao lake views`, `ddl`, `symbol` and `dictionary`: SQL for other tools, and names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pregao.cli import options

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


def views(lake: options.Lake, output: _Output = None, force: _Force = False) -> None:
    """Write SQL that defines the tables and views in any DuckDB."""
    from pregao.lake.sql.duckdb_script import views_script
    from pregao.lake.storage.lake_store import LakeStore

    _check(output, force)
    _write(views_script(LakeStore(lake)), output, force)


def ddl(
    lake: options.Lake,
    schema: Annotated[
        str, typer.Option(metavar="NAME", help="Schema of the tables: b3, or CATALOGUE.b3.")
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
    from pregao.lake.views.sql import catalogue_ddl

    _check(output, force)
    _write(catalogue_ddl(LakeStore(lake), schema, root), output, force)


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
    from pregao.cli.terminal import console, print_table
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
    from pregao.cli.new_files import NewFiles

    if output is not None:
        NewFiles(force=force).check(output)


def _write(text: str, output: Path | None, force: bool) -> None:
    from pregao.cli.new_files import NewFiles

    if output is None:
        typer.echo(text, nl=not text.endswith("\n"))
        return
    with NewFiles(force=force) as files:
        files.create(output).write(text.encode())
    typer.echo(f"pregao: {output} written", err=True)
