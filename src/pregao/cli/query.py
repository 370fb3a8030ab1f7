"""`pregao query`: SQL on the tables of a lake, as a table, as JSON or in a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from pregao.cli import options
from pregao.cli.config import LAKE_VARIABLE, default_lake
from pregao.cli.console import console, plain, print_line, print_table
from pregao.clock import SECOND
from pregao.errors import UsageError
from pregao.extras import require
from pregao.lake.execution.runner import EngineName

if TYPE_CHECKING:
    from pregao.lake.sql.engines import QueryResult

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

Writer = Callable[[Any, BinaryIO], None]
STANDARD_OUTPUT = "-"


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
            help="Lake directory or URI.",
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
            help="Write all rows to a .csv, .parquet, .json or .jsonl file, or to standard output "
            "(-) as CSV, with --json as JSON.",
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
    from pregao.cli import option_values
    from pregao.lake.execution.spark_session import parse_conf
    from pregao.lake.sql.engines import choose_engine, open_engine
    from pregao.lake.sql.query_guard import require_query
    from pregao.lake.storage.lake_store import LakeStore
    from pregao.safe_io.output_files import NewFiles

    if examples:
        _list_examples(as_json)
        return
    to_stdout = output is not None and str(output) == STANDARD_OUTPUT
    if as_json and output is not None and not to_stdout:
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
        named = Path("-.json" if as_json else "-.csv") if to_stdout else output
        write = writer(named, safe_csv=safe_csv)
        if not to_stdout:
            NewFiles(force=force).check(output)
    store = LakeStore(lake)
    chosen = choose_engine(store, engine, spark_wanted=master is not None or bool(settings))
    opened = open_engine(store, chosen, master=master, settings=settings, unsafe=unsafe)
    answer = opened.query(sql)
    if output is None:
        (show_json if as_json else show)(answer, limit)
        return
    rows = answer.rows()
    if to_stdout:
        _to_stdout(rows, write)
        return
    with NewFiles(force=force) as files:
        write(rows, files.create(output))
    typer.echo(f"{rows.num_rows:,} rows written to {output}", err=True)


def _to_stdout(rows: Any, write: Writer) -> None:
    """Write all rows to standard output; a reader that stops early (``| head``) is no error."""
    from pregao.cli.decode.outputs import OutputClosedError, StandardOutput

    content = BytesIO()
    write(rows, content)
    with suppress(OutputClosedError):
        StandardOutput().write(content.getbuffer())


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
    from pregao.cli.console import console, print_table
    from pregao.lake.sql.examples import examples

    rows = [(each.name, each.answers) for each in examples()]
    if as_json:
        import json

        names = ("name", "answers")
        typer.echo(json.dumps([dict(zip(names, row, strict=True)) for row in rows], indent=1))
        return
    print_table(console(), f"{len(rows)} queries", ["name", "answers"], rows)


def show(answer: QueryResult, limit: int) -> None:
    """Print the first rows as a table, and the number of further rows."""
    rows, total = answer.first(limit)
    more = total - rows.num_rows
    numbers = [field.name for field in rows.schema if _is_number(field.type)]
    out = console()
    cells = [[_cell(value) for value in row.values()] for row in _dictionaries(rows)]
    title = f"{total:,} {'row' if total == 1 else 'rows'}"
    print_table(out, title, rows.schema.names, cells, numbers=" ".join(numbers))
    if more:
        print_line(
            out, f"{more:,} more rows; print them with --limit, or write all to a file with -o."
        )


def show_json(answer: QueryResult, limit: int) -> None:
    """Print the first rows as a JSON list, and the number of further rows to standard error."""
    rows, total = answer.first(limit)
    lines = ",\n".join(map(json_text, _dictionaries(rows)))
    sys.stdout.write(f"[\n{lines}\n]\n" if lines else "[]\n")
    if more := total - rows.num_rows:
        sys.stderr.write(f"pregao: {more:,} more rows; use --limit or -o\n")


def writer(path: Path, *, safe_csv: bool = False) -> Writer:
    """Return the writer for a file extension; ``safe_csv`` is for files opened in spreadsheets."""
    found = _WRITERS.get(path.suffix.lower())
    if found is None:
        raise UsageError(f"{path}: the file name must end in {', '.join(_WRITERS)}.")
    if safe_csv and found is _write_csv:
        return lambda rows, stream: _write_csv(rows, stream, safe=True)
    return found


def _dictionaries(rows: Any) -> list[dict[str, Any]]:
    """Return rows as dictionaries; columns of equal names (from joins) are named by index."""
    names = rows.schema.names
    unique = [f"{index}" if names.count(name) > 1 else name for index, name in enumerate(names)]
    found: list[dict[str, Any]] = rows.rename_columns(unique).to_pylist()
    return found


def _is_number(kind: Any) -> bool:
    import pyarrow as pa

    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def _cell(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        return value
    return json_text(value) if isinstance(value, dict | list) else _plain(value)


def _plain(value: Any) -> str:
    """Return a value as text: decimals with all digits, bytes in hexadecimal, times in UTC."""
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime):
        # Times without a zone are those of the lake's views, which are in UTC.
        utc = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
        return f"{utc.isoformat()}Z"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bool):
        return "true" if value else "false"
    return _interval_text(*value) if _is_interval(value) else str(value)


def _is_interval(value: Any) -> bool:
    """Whether a value is an interval: Arrow's tuple of months, days and nanoseconds."""
    return type(value).__name__ == "MonthDayNano"


def _interval_text(months: int, days: int, nanos: int) -> str:
    """Format an interval: ``1 month 2 days 00:00:33.689748``, without what is zero."""
    parts = [
        f"{count} {unit}{'' if abs(count) == 1 else 's'}"
        for count, unit in ((months, "month"), (days, "day"))
        if count
    ]
    if nanos or not parts:
        seconds, rest = divmod(abs(nanos), SECOND)
        text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        fraction = f".{rest:09}".rstrip("0") if rest else ""
        parts.append(f"{'-' if nanos < 0 else ''}{text}{fraction}")
    return " ".join(parts)


def json_text(value: Any) -> str:
    """Return a value as JSON; decimals are strings with all digits."""
    if isinstance(value, dict):
        members = (f"{json.dumps(key)}: {json_text(inner)}" for key, inner in value.items())
        return f"{{{', '.join(members)}}}"
    if isinstance(value, list | tuple) and not _is_interval(value):
        return f"[{', '.join(map(json_text, value))}]"
    if value is None:
        return "null"
    if isinstance(value, float):
        return json.dumps(value if value == value and abs(value) != float("inf") else None)
    if isinstance(value, int):
        return _plain(value)
    text = json.dumps(value if isinstance(value, str) else _plain(value), ensure_ascii=False)
    return plain(text)


def _write_parquet(rows: Any, stream: BinaryIO) -> None:
    import pyarrow.parquet as pq

    pq.write_table(rows, stream, compression="zstd")


def _write_csv(rows: Any, stream: BinaryIO, *, safe: bool = False) -> None:
    import pyarrow.csv as pa_csv

    table = _csv_texts(rows)
    if safe:
        from pregao.safe_io.csv_cells import safe_table

        table = safe_table(table)
    pa_csv.write_csv(table, stream, pa_csv.WriteOptions(quoting_style="needed"))


def _csv_texts(rows: Any) -> Any:
    """Convert nested values, bytes and intervals to text, which Arrow's CSV writer cannot."""
    import pyarrow as pa

    columns = []
    for column in rows.columns:
        kind = column.type
        if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_interval(kind):
            texts = [None if value is None else _cell(value) for value in column.to_pylist()]
            columns.append(pa.chunked_array([pa.array(texts, pa.string())]))
        else:
            columns.append(column)
    return pa.table(columns, names=rows.schema.names)


def _write_json_lines(rows: Any, stream: BinaryIO) -> None:
    for batch in rows.to_batches(max_chunksize=10_000):
        for row in batch.to_pylist():
            stream.write(json_text(row).encode() + b"\n")


def _write_json(rows: Any, stream: BinaryIO) -> None:
    between = b"[\n"
    for batch in rows.to_batches(max_chunksize=10_000):
        for row in batch.to_pylist():
            stream.write(between + json_text(row).encode())
            between = b",\n"
    stream.write(b"[]\n" if between == b"[\n" else b"\n]\n")


_WRITERS: dict[str, Writer] = {
    ".csv": _write_csv,
    ".parquet": _write_parquet,
    ".json": _write_json,
    ".jsonl": _write_json_lines,
}
