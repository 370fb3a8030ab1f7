"""The commands around books: build, look up, export, audit."""

from __future__ import annotations

import csv
import gzip
import json
import re
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from pregao.cli import audit, book, books, export
from pregao.cli import ingest as ingest_command
from pregao.cli.simulate.command import simulate
from pregao.errors import UsageError
from pregao.lake.analytics.run import ANALYTICS
from pregao.lake.ingest.pipeline import ingest

app = typer.Typer()
for module, command in (
    (books, books.books),
    (book, book.book),
    (export, export.export),
    (audit, audit.audit),
    (ingest_command, ingest_command.ingest),
):
    app.command(epilog=module.EPILOG)(command)


@cache
def folder() -> Path:
    out = Path(mkdtemp(prefix="pregao-books-"))
    simulate(output=out, instruments=6, duration="10s", rate=200.0, quiet=True, force=True)
    return out


@cache
def lake() -> str:
    """A lake with the books of a small day."""
    location = folder() / "lake"
    ingest([str(path) for path in sorted(folder().glob("*.pcap"))], str(location))
    result = run("books", "--lake", location, "--engine", "local")
    assert result.exit_code == 0, result.output
    return str(location)


def run(*arguments):
    return CliRunner().invoke(app, [str(part) for part in arguments], catch_exceptions=False)


def read(path):
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def truth():
    text = (folder() / "truth" / "books.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def final(symbol):
    return next(line for line in truth() if line["final"] and line["symbol"] == symbol)


def test_books_reports_its_work_and_then_that_all_is_up_to_date(tmp_path):
    lake()
    report = tmp_path / "report.json"
    first = run("books", "--lake", lake(), "--engine", "local", "--depth", "3",
                "--checkpoint-every", "1s", "--report", report)  # fmt: skip
    assert first.exit_code == 0
    (built,) = json.loads(report.read_text())
    assert built["built"]
    assert f"{built['ticks']:,} ticks" in first.output
    assert f"{built['audit']['equal']:,} equal" in first.output
    assert "ChannelReset" in first.output
    again = run("books", "--lake", lake(), "--engine", "local", "--depth", "3",
                "--checkpoint-every", "1s")  # fmt: skip
    assert "up to date" in again.output
    quiet = run("books", "--lake", lake(), "--engine", "local", "--quiet")
    assert quiet.output == ""


def test_ingest_builds_the_books_on_request(tmp_path):
    location = tmp_path / "lake"
    captures = sorted(folder().glob("*.pcap"))
    result = run("ingest", *captures, "--lake", location, "--engine", "local",
        "--only", "messages,books")  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "ticks" in result.output
    assert "up to date" in run("books", "--lake", location, "--engine", "local").output
    assert run("audit", "--lake", location).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--date", "yesterday"], "--date must be a date"),
        (["--channel", "x"], "--channel must be an integer"),
        (["--checkpoint-every", "soon"], "--checkpoint-every must be a duration"),
        (["--depth", "0"], "levels"),
        (["--symbol", "NOPE"], "NOPE"),
    ],
)
def test_books_reports_errors(arguments, words):
    with pytest.raises(UsageError, match=words):
        run("books", "--lake", lake(), "--engine", "local", *arguments)


def test_book_shows_levels():
    line = final("PETR4")
    result = run("book", "PETR4", "--lake", lake(), "--depth", "3")
    assert result.exit_code == 0
    assert line["bids"][0][0] in result.output
    assert line["asks"][0][0] in result.output
    assert "valid" in result.output
    assert "at the end" in result.output


def test_book_in_json_is_the_truth_at_every_moment():
    for line in [line for line in truth() if line["symbol"] == "PETR4"][3:]:
        result = run("book", "PETR4", "--lake", lake(), "--at", line["time_ns"], "--json",
                     "--orders", "--depth", "100000")  # fmt: skip
        data = json.loads(result.stdout)
        for name, side in (("bid_orders", "bids"), ("ask_orders", "asks")):
            assert [
                [o["price"], o["size"], o["order_id"], o["firm"], o["insert_time_ns"]]
                for o in data[name]
            ] == line[side]
        assert data["symbol"] == "PETR4"
        assert data["at_ns"] == line["time_ns"]
        assert sum(level["size"] for level in data["bids"]) == sum(
            order[1] for order in line["bids"] if order[0] in {x["price"] for x in data["bids"]}
        )


def test_book_shows_orders():
    line = final("PETR4")
    result = run("book", "PETR4", "--lake", lake(), "--orders", "--depth", "2")
    assert str(line["bids"][0][2]) in result.output
    assert str(line["asks"][1][2]) in result.output


@pytest.mark.parametrize("depth", [1, 3])
def test_the_depth_limits_levels_and_orders_of_json(depth):
    line, lists = final("PETR4"), ("bids", "asks")
    data = json.loads(
        run("book", "PETR4", "--lake", lake(), "--orders", "--json", "--depth", str(depth)).stdout
    )
    for name, side in (("bid_orders", "bids"), ("ask_orders", "asks")):
        assert len(line[side]) > 3
        assert [order["order_id"] for order in data[name]] == [
            order[2] for order in line[side][:depth]
        ]
    assert [len(data[name]) for name in lists] == [
        min(depth, len({order[0] for order in line[side]})) for side in lists
    ]


def test_book_takes_times_with_zones():
    line = truth()[-1]
    seconds = line["time_ns"] // 10**9
    from datetime import UTC, datetime, timedelta, timezone

    moment = datetime.fromtimestamp(seconds, UTC)
    local = moment.astimezone(timezone(timedelta(hours=-3)))
    results = [
        json.loads(run("book", "PETR4", "--lake", lake(), "--json", "--at", text).stdout)
        for text in (moment.isoformat(), local.isoformat(), str(seconds * 10**9))
    ]
    assert results[0] == results[1] == results[2]


def test_book_reports_errors(tmp_path):
    with pytest.raises(UsageError, match="--at must be a time"):
        run("book", "PETR4", "--lake", lake(), "--at", "noon")
    with pytest.raises(UsageError, match="has no instrument"):
        run("book", "NOPE", "--lake", lake())
    with pytest.raises(UsageError, match="not a lake"):
        run("book", "PETR4", "--lake", tmp_path)


def test_export_writes_ticks(tmp_path):
    out = tmp_path / "ticks.csv"
    result = run("export", "ticks", "--lake", lake(), "--symbol", "PETR4", "-o", out)
    assert result.exit_code == 0
    rows = read(out)
    assert len(rows) > 20
    assert {row["Symbol"] for row in rows} == {"PETR4"}
    assert f"{len(rows):,} rows" in result.output
    with pytest.raises(UsageError, match="--force"):
        run("export", "ticks", "--lake", lake(), "-o", out)
    assert run("export", "ticks", "--lake", lake(), "-o", out, "--force").exit_code == 0
    assert len(read(out)) > len(rows)


def test_export_writes_books_at_the_end_and_at_a_time(tmp_path):
    out = tmp_path / "books.csv"
    run("export", "book", "--lake", lake(), "-o", out)
    line = final("PETR4")
    own = [row for row in read(out) if row["Symbol"] == "PETR4"]
    assert len(own) == len(line["bids"]) + len(line["asks"])
    at = tmp_path / "at.csv"
    middle = [line for line in truth() if line["symbol"] == "PETR4"][6]
    run("export", "book", "--lake", lake(), "--symbol", "PETR4", "--at", middle["time_ns"],
        "-o", at)  # fmt: skip
    rows = read(at)
    assert [int(row["secondaryOrderID"]) for row in rows] == [
        order[2] for order in (*middle["bids"], *middle["asks"])
    ]


def test_an_ingest_names_and_times_its_stages(tmp_path):
    location, report = tmp_path / "lake", tmp_path / "report.json"
    captures = sorted(folder().glob("*.pcap"))
    arguments = ("ingest", *captures, "--lake", location, "--engine", "local")
    only = run(*arguments, "--only", "messages")
    assert only.exit_code == 0
    assert "ticks" not in only.output
    result = run(*arguments, "--report", report)
    assert "Nothing new" in result.output
    assert re.search(r"^messages: done in \d+\.\d s$", result.output, re.MULTILINE)
    assert re.search(r"^books: done in \d+\.\d s$", result.output, re.MULTILINE)
    assert re.search(r"^analytics: done in \d+\.\d s$", result.output, re.MULTILINE)
    data = json.loads(report.read_text())
    assert list(data["stages"]) == ["messages", "books", "analytics"]
    assert {one["table"] for one in data["analytics"]} == set(ANALYTICS)
    assert data["books"][0]["built"]
    alone = run(*arguments, "--only", "books")
    assert "up to date" in alone.output
    assert "Nothing new" not in alone.output


def test_a_small_ingest_without_java_works_in_the_process(tmp_path, monkeypatch):
    from pregao.lake.execution import spark_session

    def none(*_arguments):
        raise UsageError("Spark needs Java.")

    monkeypatch.setattr(spark_session, "find_java", none)
    captures = sorted(folder().glob("*.pcap"))
    result = run("ingest", *captures, "--lake", tmp_path / "lake")
    assert result.exit_code == 0
    assert "no Java found: running without Spark" in result.output
    assert "books: done" in result.output
    assert "analytics: done" in result.output
    monkeypatch.setattr(ingest_command, "MAX_LOCAL_BYTES", 100)
    with pytest.raises(UsageError, match=r"needs Java\. Or use --engine local, which"):
        run("ingest", *captures, "--lake", tmp_path / "other")
    with pytest.raises(UsageError, match=r"Spark needs Java\.$"):
        run("ingest", *captures, "--lake", tmp_path / "other", "--engine", "spark")
    assert not (tmp_path / "other").exists()


ENDINGS = ["csv", "csv.gz", "csv.zst", "parquet", "arrow", "feather"]


def contents(path):
    """A table of texts from whatever format; what is not there is empty."""
    if path.suffix == ".parquet":
        rows = pq.read_table(path)
    elif path.suffix in (".arrow", ".feather"):
        rows = feather.read_table(path)
    else:
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
        if path.suffix == ".zst":
            data = pa.input_stream(pa.BufferReader(data), compression="zstd").read()
        return list(csv.DictReader(data.decode().splitlines()))
    return [
        {name: "" if value is None else str(value) for name, value in row.items()}
        for row in rows.to_pylist()
    ]


@pytest.mark.parametrize("what", ["ticks", "book"])
def test_the_name_of_a_file_determines_its_format(tmp_path, what):
    found = []
    for ending in ENDINGS:
        out = tmp_path / f"x.{ending}"
        result = run("export", what, "--lake", lake(), "--symbol", "PETR4", "-o", out)
        assert result.exit_code == 0, result.output
        found.append(contents(out))
        with pytest.raises(UsageError, match="--force"):
            run("export", what, "--lake", lake(), "-o", out)
    assert len(found[0]) > 20
    assert all(rows == found[0] for rows in found)
    typed = pq.read_schema(tmp_path / "x.parquet")
    assert typed.field("lastPrice").type == pa.decimal128(18, 4)
    assert typed.field("updateTime").type == pa.int64()


@pytest.mark.parametrize("name", ["x", "x.xlsx", "x.gz", "x.parquet.gz", "csv"])
def test_a_file_of_an_unknown_kind_is_refused(tmp_path, name):
    with pytest.raises(UsageError, match=r"must end in \.csv, \.csv\.gz"):
        run("export", "ticks", "--lake", lake(), "-o", tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_levels_that_no_tick_has_are_empty_in_every_format(tmp_path):
    for ending in ("csv", "parquet"):
        out = tmp_path / f"x.{ending}"
        run("export", "ticks", "--lake", lake(), "--symbol", "PETR4", "--depth", "12", "-o", out)
        assert {row["bid_px12"] for row in contents(out)} == {""}


def test_book_distinguishes_days_that_were_built_from_others(tmp_path):
    location = tmp_path / "lake"
    ingest([str(path) for path in sorted(folder().glob("*.pcap"))], str(location))
    with pytest.raises(UsageError, match="were not built: run"):
        run("book", "PETR4", "--lake", location)
    run("books", "--lake", location, "--engine", "local", "--symbol", "VALE3")
    with pytest.raises(UsageError) as error_info:
        run("book", "PETR4", "--lake", location)
    assert "built without PETR4" in str(error_info.value) or "again" in str(error_info.value)
    run("books", "--lake", location, "--engine", "local")
    symbols = [line["symbol"] for line in truth() if line["final"]]
    for symbol in symbols:
        assert run("book", symbol, "--lake", location).exit_code == 0
    with pytest.raises(UsageError, match="has no instrument ²"):
        run("book", "²", "--lake", location)


def test_export_to_standard_output():
    result = run("export", "book", "--lake", lake(), "--symbol", "PETR4", "-o", "-")
    assert result.stdout.startswith("updateTime,updateNano,secondaryOrderID,enteringFirm,")


def test_a_failed_export_leaves_no_file(tmp_path):
    out = tmp_path / "x.csv"
    with pytest.raises(UsageError):
        run("export", "book", "--lake", lake(), "--symbol", "NOPE", "--at", "1779364800000000000",
            "-o", out)  # fmt: skip
    assert not out.exists()
    with pytest.raises(UsageError, match="--at requires"):
        run("export", "ticks", "--lake", lake(), "--at", "1779364800000000000", "-o", out)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("audit", "--symbol", "NOSUCH"), "book_audit has no rows of NOSUCH"),
        (("audit", "--date", "1999-01-01"), "no books of 1999-01-01"),
        (("export", "ticks", "--symbol", "NOSUCH", "-o", "-"), "ticks has no rows of NOSUCH"),
        (("export", "book", "--symbol", "NOSUCH", "-o", "-"), "has no rows of NOSUCH"),
    ],
)
def test_missing_data_is_an_error_and_not_an_empty_answer(arguments, words):
    with pytest.raises(UsageError, match=words):
        run(*arguments, "--lake", lake())


def test_audit_of_a_clean_day_is_content():
    result = run("audit", "--lake", lake())
    assert result.exit_code == 0
    assert "equal" in result.output
    data = json.loads(run("audit", "--lake", lake(), "--json").stdout)
    assert data["results"]["equal"] > 50
    assert data["differences"] == []
    assert data["snapshots"] == sum(data["results"].values())
    one = json.loads(run("audit", "--lake", lake(), "--json", "--symbol", "PETR4").stdout)
    assert one["instruments"] == 1


def test_audit_of_a_wrong_book_exits_with_1_and_reports_where(monkeypatch):
    from pregao.feed import messages

    sound = messages.BookColumns.concat

    def wrong(parts):
        joined = sound(parts)
        joined.firm[joined.order_id % 40 == 0] += 1
        return joined

    location = lake()
    monkeypatch.setattr(messages.BookColumns, "concat", staticmethod(wrong))
    run("books", "--lake", location, "--engine", "local", "--depth", "4", "--quiet")
    monkeypatch.undo()
    try:
        result = run("audit", "--lake", location, "--limit", "2")
        assert result.exit_code == 1
        assert "different" in result.output
        assert "firm" in result.output
        assert "more" in result.output
    finally:
        run("books", "--lake", location, "--engine", "local", "--quiet")
    assert run("audit", "--lake", location).exit_code == 0
