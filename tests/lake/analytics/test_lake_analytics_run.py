"""Building the tables: in order, only when due, each day replaced completely; and the command."""

import datetime
from itertools import accumulate

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from pregao.cli.analytics import analytics
from pregao.errors import UsageError
from pregao.lake.analytics import writing
from pregao.lake.analytics.registry import ANALYTICS, in_order
from pregao.lake.analytics.run import analyse
from pregao.lake.analytics.tables import AnalyticsOptions, AnalyticsTable, column
from pregao.lake.analytics.writing import write_frame
from pregao.lake.ingest.merging import read_staged
from pregao.lake.ingest.pipeline import ingest
from pregao.lake.storage import delta
from pregao.lake.storage.lake_store import LakeStore
from tests.lake.analytics_support import DATE, lake_of, rows
from tests.lake.days import day

SMALL = {"seed": 3, "instruments": 2, "duration": "10s"}
OTHER = {**SMALL, "profile": "derivatives"}


def analyzed_rows(lake, **options):
    return {one.table: one.rows for one in analyse(lake, **options)}


def test_tables_come_after_those_they_are_derived_from():
    names = list(ANALYTICS)
    for name, table in ANALYTICS.items():
        assert all(names.index(need) < names.index(name) for need in table.needs)
    assert [table.name for table in in_order(["latency_minutes", "bars"])] == [
        "trades", "bars", "clock_offsets", "latency", "latency_minutes",
    ]  # fmt: skip


def test_a_day_is_rebuilt_only_when_it_has_more_data():
    lake, _ = lake_of(**SMALL)
    first = analyzed_rows(lake, tables=["bars"], wanted=AnalyticsOptions(("1m",)))
    assert first == {"trades": len(rows(lake, "trades")), "bars": len(rows(lake, "bars"))}
    trades = rows(lake, "trades")
    version = lake.delta("trades").version()

    assert analyzed_rows(lake, tables=["trades"]) == {"trades": None}
    assert lake.delta("trades").version() == version

    assert analyzed_rows(lake, tables=["trades"], force=True) == {"trades": len(trades)}
    assert lake.delta("trades").version() == version + 1
    assert rows(lake, "trades") == trades

    ingest([str(day(**OTHER))], lake.location)
    # An interval once asked for is kept up to date.
    later = analyzed_rows(lake, tables=["bars"], wanted=AnalyticsOptions(("15m",)))
    assert later["trades"] > len(trades)
    grown = rows(lake, "trades")
    assert len(grown) == later["trades"]
    assert [row for row in grown if row["channel"] == trades[0]["channel"]] == trades
    assert {bar["interval"] for bar in rows(lake, "bars")} == {"1m", "15m"}
    assert lake.delta("trades").version() == version + 2


def test_concurrent_replacements_of_a_day_do_not_add_rows(monkeypatch):
    lake, _ = lake_of(**SMALL)
    analyzed_rows(lake, tables=["trades"])
    trades = rows(lake, "trades")
    calls = []
    original = delta.commit_changes

    def interfere(*change):
        calls.append(change)
        if len(calls) == 1:
            # Between our read of the table and our change of it, another writer is faster.
            analyzed_rows(lake, tables=["trades"], force=True)
        original(*change)

    monkeypatch.setattr(delta, "commit_changes", interfere)
    analyzed_rows(lake, tables=["trades"], force=True)
    assert len(calls) == 3
    assert rows(lake, "trades") == trades


app = typer.Typer(pretty_exceptions_enable=False)
app.command()(analytics)


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def test_the_command_reports_what_it_built():
    lake, _ = lake_of(**SMALL)
    output = run(
        "--lake",
        lake.location,
        "--engine",
        "local",
        "--table",
        "trades,bars",
        "--interval",
        "60s,1m",
    )
    assert "bars" in output
    assert f"{len(rows(lake, 'trades'))}" in output
    assert {bar["interval"] for bar in rows(lake, "bars")} == {"1m"}
    again = run("--lake", lake.location, "--engine", "local", "--table", "trades", "--date", DATE)
    assert "up to date" in again
    assert run("--lake", lake.location, "--engine", "local", "--table", "trades", "--quiet") == ""
    before = lake.table_names()
    with pytest.raises(UsageError, match="has no data of 2026-05-22; it has 2026-05-21"):
        run("--lake", lake.location, "--engine", "local", "--date", DATE + datetime.timedelta(1))
    assert lake.table_names() == before  # no empty tables are left behind


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--table", "tradez"], "no analytics table 'tradez'; choose from trades, venue_trades"),
        (["--date", "yesterday"], "--date must be a date such as 2026-05-21"),
        (["--interval", "25h"], "at most 1d, was '25h'"),
        (["--conf", "memory=1g"], "--conf must be spark.NAME=VALUE"),
        ([], "is not a lake: create one with `pregao ingest"),
    ],
)
def test_errors_show_before_spark_starts(tmp_path, monkeypatch, arguments, complaint):
    monkeypatch.setattr("pregao.lake.execution.spark_session.spark_session", None)
    with pytest.raises(UsageError, match=complaint):
        run("--lake", tmp_path / "none", *arguments)


@pytest.mark.parametrize("sizes", [[3], [0], [3, 0, 5], [3, 20, 5], [20, 3], [25, 90, 1, 2, 200]])
def test_small_tables_are_written_together_and_none_is_lost(tmp_path, monkeypatch, sizes):
    monkeypatch.setattr(writing, "MAX_STAGED_ROWS", 10)
    monkeypatch.setattr(writing, "ROWS_PER_FILE", 50)
    lake = LakeStore(tmp_path / "lake")
    table = AnalyticsTable("numbers", "Numbers.", (column("number", pa.int64(), "It."),), None)
    ends = list(accumulate(sizes))
    parts = [
        pa.table({"number": pa.array(range(end - size, end), pa.int64())})
        for size, end in zip(sizes, ends, strict=True)
    ]
    files, staged = write_frame(lake.location, table, iter(parts), DATE, "_staging", "7")
    written = [pq.read_table(lake.location.join("numbers", file.path).path) for file in files]
    written += [read_staged(lake.location, one.path) for one in staged]
    assert [row for rows in written for row in rows.column("number").to_pylist()] == list(
        range(ends[-1])
    )
    assert bool(staged) == (0 < ends[-1] <= 10)
    assert all(rows.num_rows <= 50 for rows in written)
