"""`pregao query`: SQL on the tables of a lake."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pregao.cli import options

EPILOG = "\n\n".join(
    (
        "Examples:",
        'pregao query "SELECT count(*) FROM umdf_trade_53" --lake lake',
        'pregao query "SELECT * FROM packets WHERE channel = 72" --lake lake -o packets.parquet',
    )
)


def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="A query in Spark's SQL.")],
    lake: options.Lake,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write all rows to a .csv, .parquet, .json or .jsonl file.",
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="Show at most so many rows.")] = 50,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace the file.")] = False,
    master: Annotated[
        str | None,
        typer.Option(
            help="Spark's master: local[*] by default, spark://HOST:PORT, yarn, k8s://…, "
            "sc://HOST:PORT."
        ),
    ] = None,
    conf: options.Conf = None,
) -> None:
    """Query the tables of a lake with SQL, and print or write the rows."""
    from pregao.cli import query_output
    from pregao.cli.new_files import NewFiles
    from pregao.lake.spark import parse_conf

    settings = parse_conf(conf)
    if output is not None:
        # Mistakes about the file show before Spark is started.
        write = query_output.writer(output)
        NewFiles(force=force).check(output)
    session, frame = query_output.run(sql, lake, master, settings)
    if output is None:
        query_output.show(session, frame, limit)
        return
    rows = query_output.all_rows(session, frame)
    with NewFiles(force=force) as files:
        write(rows, files.create(output))
    typer.echo(f"{rows.num_rows:,} rows written to {output}", err=True)
