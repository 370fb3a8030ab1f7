"""The commands `query` and `lake`: what they print, write and refuse."""

import io
import json
import sys
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from pregao.cli.lake import app as lake_app
from pregao.cli.query import json_text, query
from pregao.errors import UsageError
from pregao.lake.ingest.verify import unsound
from pregao.lake.storage.commit_unit import CommitUnit
from pregao.lake.storage.lake_store import LakeStore
from tests.lake.lake_support import (
    ORDERS,
    TRADES,
    ingest_row,
    order,
    unit_of,
    write_file,
)

app = typer.Typer(pretty_exceptions_enable=False)
app.command()(query)
app.add_typer(lake_app)


def run(*arguments):
    """Run a command; what went wrong is raised."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture
def odd_lake(tmp_path):
    """Values at the edge of what columns hold."""
    lake = LakeStore(tmp_path / "lake")
    lake.ensure_tables([ORDERS, TRADES])
    rows = [
        order(2**63 - 1, 1, "99999999999999.9999", side='a "quoted", text', legs=[{"leg_id": 5}]),
        order(-(2**63), 2, None, side=None, expiry=None, legs=None),
    ]
    files = (write_file(lake.location, ORDERS, rows),)
    lake.commit(CommitUnit("u", ("c",), files, (ingest_row("c"),)))
    return lake


ENGINES = pytest.mark.parametrize("engine", ["local", "spark"])
SELECT = "SELECT security_id, price, side, expiry, legs FROM orders ORDER BY sequence_number"
TOP = "99999999999999.9999"


@ENGINES
def test_a_query_is_printed_with_exact_values(spark, odd_lake, engine):
    result = run("query", SELECT, "--lake", odd_lake.location, "--engine", engine)
    assert "2 rows" in result.output
    assert "9223372036854775807" in result.output
    assert TOP in result.output
    assert '[{"leg_id": 5}]' in result.output
    assert "null" in result.output


@ENGINES
def test_only_the_first_rows_are_printed_and_the_others_counted(spark, small_lake, engine):
    options = ("--lake", small_lake.location, "--engine", engine)
    result = run("query", "SELECT * FROM orders CROSS JOIN range(30)", *options)
    assert "120 rows" in result.output
    assert "70 more" in result.output
    result = run("query", "SHOW TABLES", *options, "--limit", 1000)
    assert "ingests" in result.output
    assert "more" not in result.output


@ENGINES
def test_a_query_is_written_as_parquet_csv_and_json(spark, odd_lake, tmp_path, engine):
    def written(name):
        path = tmp_path / name
        run("query", SELECT, "--lake", odd_lake.location, "-o", path, "--engine", engine)
        return path

    table = pq.read_table(written("x.parquet"))
    assert table["price"].to_pylist() == [Decimal(TOP), None]
    assert table["security_id"].to_pylist() == [2**63 - 1, -(2**63)]
    lines = written("x.csv").read_text().splitlines()
    assert lines[0].replace('"', "") == "security_id,price,side,expiry,legs"
    assert lines[1].startswith(f'9223372036854775807,{TOP},"a ""quoted"", text",2026-06-30,')
    assert lines[2] == "-9223372036854775808,,,,"
    read = pa.csv.read_csv(tmp_path / "x.csv").to_pylist()
    assert json.loads(read[0]["legs"]) == [{"leg_id": 5}]
    rows = json.loads(written("x.json").read_text())
    assert rows == [
        {
            "security_id": 2**63 - 1,
            "price": TOP,
            "side": 'a "quoted", text',
            "expiry": "2026-06-30",
            "legs": [{"leg_id": 5}],
        },
        {"security_id": -(2**63), "price": None, "side": None, "expiry": None, "legs": None},
    ]
    lines = written("x.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == rows
    empty = tmp_path / "none.json"
    run("query", "SELECT * FROM orders WHERE false", "--lake", odd_lake.location, "-o", empty)
    assert json.loads(empty.read_text()) == []


def test_a_dash_writes_all_rows_to_standard_output(small_lake, monkeypatch):
    location = small_lake.location
    sql = "SELECT range AS n, 0.5 AS half, TIMESTAMP '2026-05-21 10:00:00' AS t FROM range(60)"
    stdout = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", stdout)

    def written(*options):
        stdout.buffer.seek(0)
        stdout.buffer.truncate()
        query(sql, lake=str(location), output=Path("-"), **dict(options))
        return stdout.buffer.getvalue().decode()

    header, first, *others = written().splitlines()
    assert header.replace('"', "") == "n,half,t"
    assert first == "0,0.5,2026-05-21 10:00:00.000000"
    assert len(others) == 59
    rows = json.loads(written(("as_json", True)))
    assert len(rows) == 60
    assert rows[0] == {"n": 0, "half": "0.5", "t": "2026-05-21T10:00:00Z"}
    with pytest.raises(UsageError, match="--json is for standard output"):
        run("query", sql, "--lake", location, "--json", "-o", "x.json")


def test_an_existing_file_is_only_replaced_on_request(small_lake, tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("mine")
    location = small_lake.location
    with pytest.raises(UsageError, match="already exists; use --force"):
        run("query", "SELECT 1", "--lake", location, "-o", path)
    assert path.read_text() == "mine"
    run("query", "SELECT 1 AS one", "--lake", location, "-o", path, "--force")
    assert path.read_text().replace('"', "").split() == ["one", "1"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["SELECT * FROM nope"], r"`nope` cannot be found\. The lake has ingests, orders, trades"),
        (["SELECT nope FROM orders"], "The query failed: .*`nope` cannot be resolved"),
        (["SELECT FROM WHERE"], "Syntax error|cannot be resolved"),
        (["SELEC"], "SELEC is not one: nothing was run"),
        (["SELECT 1", "-o", "x.xls"], r"must end in \.csv, \.parquet"),
        (["SELECT 1", "--conf", "x"], "--conf must be"),
    ],
)
def test_an_error_in_a_query_is_one_line(spark, small_lake, arguments, message):
    with pytest.raises(UsageError, match=message) as caught:
        run("query", *arguments, "--lake", small_lake.location, "--engine", "spark")
    assert "\n" not in str(caught.value)


def test_values_become_json():
    assert json_text({"a": [Decimal("1.50"), True, None, b"\x0f", 0.5]}) == (
        '{"a": ["1.50", true, null, "0f", 0.5]}'
    )
    time = datetime(2026, 5, 21, 10, tzinfo=timezone(timedelta(hours=-3)))
    assert json_text([time, time.replace(tzinfo=UTC), time.replace(tzinfo=None)]) == (
        '["2026-05-21T13:00:00Z", "2026-05-21T10:00:00Z", "2026-05-21T10:00:00Z"]'
    )
    assert json_text([float("nan"), float("-inf"), "é"]) == '[null, null, "é"]'
    intervals = [(0, 0, 33_689_748_000), (1, -2, 0), (0, 1, -3_600_000_000_001), (0, 0, 0)]
    assert json_text([pa.MonthDayNano(each) for each in intervals]) == (
        '["00:00:33.689748", "1 month -2 days", "1 day -01:00:00.000000001", "00:00:00"]'
    )


def test_tables_are_listed_from_their_logs_alone(small_lake):
    for file in small_lake.files("orders"):
        Path(file.uri).unlink()
    shown = run("lake", "tables", "--lake", small_lake.location).output
    (line,) = [line for line in shown.splitlines() if line.strip().startswith("orders")]
    assert line.split()[1:3] == ["4", "2"]
    assert "2025-05-21T13:00:00.000000001Z" in line
    found = json.loads(run("lake", "tables", "--json", "--lake", small_lake.location).output)
    by_name = {each["name"]: each for each in found}
    assert list(by_name) == ["ingests", "orders", "trades"]
    orders = by_name["orders"]
    assert (orders["rows"], orders["files"], orders["columns"], orders["dates"]) == (4, 2, 10, 2)
    assert orders["description"] == "Orders."
    assert orders["last_time_ns"] - orders["first_time_ns"] == 3
    assert orders["size"] > 0
    assert by_name["trades"]["first_time_ns"] is None


def test_the_columns_of_a_table_are_listed_with_their_meaning(small_lake):
    location = small_lake.location
    shown = run("lake", "tables", "orders", "--lake", location).output
    assert "decimal(18,4)" in shown
    assert "Instrument." in shown
    found = json.loads(run("lake", "tables", "orders", "--json", "--lake", location).output)
    assert found[0] == {"name": "security_id", "type": "bigint", "comment": "Instrument."}
    assert {each["name"]: each["type"] for each in found}["legs"] == "array<struct<leg_id:bigint>>"
    with pytest.raises(UsageError, match="has no table nope"):
        run("lake", "tables", "nope", "--lake", location)


def test_an_empty_lake_has_tables_without_rows(tmp_path):
    LakeStore(tmp_path).ensure_tables([ORDERS])
    found = json.loads(run("lake", "tables", "--json", "--lake", tmp_path).output)
    assert [(each["rows"], each["size"]) for each in found] == [(0, 0), (0, 0)]


@pytest.mark.parametrize("command", ["tables", "vacuum", "compact", "check"])
def test_a_folder_that_is_no_lake_is_refused(tmp_path, command):
    with pytest.raises(UsageError, match="is not a lake"):
        run("lake", command, "--lake", tmp_path)


def test_orphans_are_listed_and_removed(small_lake):
    orphan = write_file(small_lake.location, TRADES, [{"security_id": 1}])
    location = small_lake.location
    assert "0 files" in run("lake", "vacuum", "--lake", location).output
    output = run("lake", "vacuum", "--lake", location, "--older-than", "0m", "--dry-run").output
    assert f"trades/{orphan.path}" in output
    assert "1 files" in output
    assert "would be removed" in output
    assert "removed" in run("lake", "vacuum", "--lake", location, "--older-than", "0m").output
    assert not location.join("trades", orphan.path).exists()


def test_an_age_is_a_span(small_lake):
    for wrong in ("", "1", "-1h", "1w"):
        with pytest.raises(UsageError, match="--older-than must be a duration such as"):
            run("lake", "vacuum", "--lake", small_lake.location, "--older-than", wrong)


def test_small_files_are_merged(small_lake):
    small_lake.commit(unit_of(small_lake.location, "u3", ["c3"]))
    output = run("lake", "compact", "--lake", small_lake.location, "orders").output
    assert "2 files merged into 1" in output
    assert len(small_lake.files("orders", "2026-05-21")) == 1


def test_files_that_differ_from_the_record_are_found(small_lake):
    assert unsound(small_lake) == []
    first, second = small_lake.files("orders")
    (third, _) = small_lake.files("trades")
    Path(first.uri).unlink()
    Path(second.uri).write_bytes(b"short")
    Path(third.uri).write_bytes(bytes(Path(third.uri).stat().st_size))
    faults = unsound(small_lake)
    assert len(faults) == 3
    assert any("is missing" in fault for fault in faults)
    assert any("has 5 bytes instead of" in fault for fault in faults)
    assert any("cannot be read" in fault for fault in faults)
    with pytest.raises(UsageError, match="is inconsistent: 3 faults"):
        run("lake", "check", "--lake", small_lake.location)
