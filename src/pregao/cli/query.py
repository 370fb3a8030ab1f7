"""`pregao query`: SQL on the tables of a lake."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pregao.cli import options
from pregao.cli.configuration import LAKE_VARIABLE, default_lake
from pregao.errors import UsageError
from pregao.extras import require
from pregao.lake.engine_names import EngineName

EPILOG = "\n\n".join(
    (
        "Examples:",
        'pregao query "SELECT count(*) FROM trades WHERE NOT busted" --lake lake',
        'pregao query "SELECT symbol, time, price, phase FROM v_trades" --lake lake',
        "pregao query --example vwap_by_minute --lake lake",
        'pregao query "SELECT * FROM packets WHERE channel = 72" --lake lake -o packets.parquet',
        'pregao query "SELECT * FROM bars" --lake hdfs://name/lake --master yarn',
        "Each table has a view (v_trades for trades) that adds symbols, timestamps, flag names "
        "and, in v_ticks and v_trades, the phase.",
    )
)


def query(
    sql: Annotated[
        str | None, typer.Argument(metavar="SQL", help="Query; or use --example.")
    ] = None,
    lake: Annotated[
        str | None,
        typer.Option(
            "--lake",
            metavar="DIR",
            envvar=LAKE_VARIABLE,
            show_default="lake of pregao.toml",
            help="LakeStore directory or URI.",
        ),
    ] = None,
    example: Annotated[
        str | None, typer.Option(metavar="NAME", help="Run a bundled query.")
    ] = None,
    examples: Annotated[bool, typer.Option("--examples", help="List the bundled queries.")] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write all rows to a .csv, .parquet, .json or .jsonl file.",
        ),
    ] = None,
    limit: Annotated[
        int,
        typer.Option(
            "--limit",
            "-n",
            metavar="NUMBER",
            min=0,
            max=1_000_000_000,
            help="Maximum number of rows to print.",
        ),
    ] = 50,
    as_json: options.Json = False,
    safe_csv: options.SafeCsv = False,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace the file.")] = False,
    engine: Annotated[
        EngineName | None,
        typer.Option(
            help="Query engine: local (DuckDB, for lakes on a local disk or S3) or spark "
            "(default: local if it can read the lake; spark with --master or --conf).",
        ),
    ] = None,
    master: options.Master = None,
    conf: options.Conf = None,
    unsafe: Annotated[
        bool,
        typer.Option(
            "--unsafe",
            help="Allow functions that read files or call Java. Use with trusted queries only.",
        ),
    ] = False,
) -> None:
    """Query the tables of a lake with SQL, and print or write the rows.

    Only queries are accepted: statements that write, drop or create are refused.
    """
    require("deltalake")
    from pregao.cli import option_values, query_output
    from pregao.cli.new_files import NewFiles
    from pregao.lake.execution.spark_session import parse_conf
    from pregao.lake.sql.engines import choose_engine, open_engine
    from pregao.lake.sql.query_guard import require_query
    from pregao.lake.storage.lake_store import LakeStore

    if examples:
        _list_examples(as_json)
        return
    if as_json and output is not None:
        raise UsageError(
            "--json is for standard output: omit it with -o, whose extension sets the format."
        )
    # Validate options before starting an engine.
    option_values.check_engine(engine, master, conf)
    settings = parse_conf(conf)
    sql = _requested_query(sql, example)
    if lake is None:
        lake = default_lake()
    require_query(sql)
    if output is not None:
        write = query_output.writer(output, safe_csv=safe_csv)
        NewFiles(force=force).check(output)
    store = LakeStore(lake)
    chosen = choose_engine(store, engine, spark_wanted=master is not None or bool(settings))
    opened = open_engine(store, chosen, master=master, settings=settings, unsafe=unsafe)
    answer = opened.query(sql)
    if output is None:
        (query_output.show_json if as_json else query_output.show)(answer, limit)
        return
    rows = answer.rows()
    with NewFiles(force=force) as files:
        write(rows, files.create(output))
    typer.echo(f"{rows.num_rows:,} rows written to {output}", err=True)


def _requested_query(sql: str | None, name: str | None) -> str:
    """Return the SQL of the query or of the example with this name."""
    from pregao.lake.sql.examples import example

    if sql is not None and name is not None:
        raise UsageError("Give a query or --example NAME, not both.")
    if name is not None:
        return example(name).sql
    if sql is None:
        raise UsageError(
            "No query given: pass SQL such as SELECT count(*) FROM packets, or use --example NAME "
            "(`pregao query --examples` lists the bundled queries)."
        )
    return sql


def _list_examples(as_json: bool) -> None:
    from pregao.cli.terminal import console, print_table
    from pregao.lake.sql.examples import examples

    rows = [(each.name, each.answers) for each in examples()]
    if as_json:
        import json

        names = ("name", "answers")
        typer.echo(json.dumps([dict(zip(names, row, strict=True)) for row in rows], indent=1))
        return
    print_table(console(), f"{len(rows)} queries", ["name", "answers"], rows)
