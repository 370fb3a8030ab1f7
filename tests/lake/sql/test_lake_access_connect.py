"""Spark Connect: the commands on a server, what does not run there, servers that do not answer."""

import os
import subprocess
import sys

import pytest

from pregao.errors import UsageError
from pregao.lake.books.build import build_books
from pregao.lake.execution.spark_session import remote_master, remote_session
from pregao.lake.ingest.pipeline import ingest
from pregao.lake.sql.spark_engine import SparkEngine
from pregao.lake.sql.spark_tables import connect
from tests.lake.cluster_support import free_port
from tests.lake.days import day, rows
from tests.lake.hostile_sql import CASES, REACHING, contents, refused
from tests.lake.lake_support import ROOT, compiling
from tests.lake.sql.test_lake_access_spark import numbers

COMMAND = "from pregao.cli.main import run; run()"


def pregao(*arguments, master=None):
    """The command line in a separate process, without Java."""
    environment = {**os.environ, "JAVA_HOME": "/nowhere", "COLUMNS": "200"}
    command = [sys.executable, "-c", COMMAND, *map(str, arguments)]
    done = subprocess.run(
        [*command, "--master", master],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def lake(connect_server, tmp_path_factory):
    path = tmp_path_factory.mktemp("lake") / "lake"
    options = ("--range-size", "300k", "--only", "messages,books")
    code, _, err = pregao(
        "ingest", day(duration="12s"), "--lake", path, *options, master=connect_server
    )
    assert (code, err) == (0, "")
    return path


def test_an_ingest_and_its_books_are_those_of_one_process(lake, tmp_path):
    other = tmp_path / "here"
    ingest([str(day(duration="12s"))], str(other))
    build_books(str(other))
    # Which builds there were differs between runs, and which tables analytics made.
    for table in ("umdf_order_mbo_50", "umdf_trade_53", "packets", "instruments"):
        assert rows(lake, table) == rows(other, table), table
    ticks = [len(rows(path, "ticks", without=("build_id",))) for path in (lake, other)]
    assert ticks[0] == ticks[1] > 0


def test_analytics_and_queries_run_on_the_server(lake, connect_server):
    code, out, err = pregao(
        "analytics", "--lake", lake, "--table", "trades,bars", master=connect_server
    )
    assert (code, err) == (0, "")
    assert "trades" in out
    text = "SELECT count(*) > 0 AS some, count(*) = count(price) AS priced FROM trades"
    code, out, err = pregao("query", text, "--lake", lake, master=connect_server)
    assert (code, err) == (0, "")
    assert out.count("true") == 2
    code, _, err = pregao("query", "SELECT * FROM nope", "--lake", lake, master=connect_server)
    assert code == 2
    assert "`nope` cannot be found" in err
    assert err.count("\n") < 6
    assert "Traceback" not in err


def test_views_are_opened_when_they_are_named(connect_session, small_lake):
    session = connect(small_lake.location, spark=connect_session)
    assert numbers(session) == [1, 2, 3, 4]
    assert session.table("orders").count() == session.read.table("orders").count() == 4
    with compiling(session):
        listed = {table.name for table in session.catalog.listTables()}
    assert {"orders", "trades"} <= listed
    session.refresh()
    del session
    assert connect_session.range(3).count() == 3


@pytest.mark.parametrize("unsafe", [False, True])
def test_no_statement_is_run_but_one_query(
    connect_session, small_lake, tmp_path, monkeypatch, unsafe
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.csv").write_text("x\nS3CRET\n")
    (tmp_path / "secret.txt").write_text("S3CRET")
    before = contents(tmp_path, small_lake.location.uri)
    engine = SparkEngine(connect(small_lake.location, connect_session), unsafe=unsafe)
    ran = []
    # Each statement alone, and some after each kind of query: a server takes its time.
    some = ("copy to", "create table", "drop", "set of spark", "closed bracket")
    for case in [case for case in CASES if case[0] == "alone" or case[1] in some]:
        try:
            engine.query(refused(case[1], case[0], tmp_path)).rows()
            ran.append(case)
        except UsageError as error:
            ran += [case] if "\n" in str(error) else []
    assert ran == []
    assert contents(tmp_path, small_lake.location.uri) == before
    assert engine.query("SELECT count(*) AS n FROM orders").rows().to_pylist() == [{"n": 4}]


@pytest.mark.parametrize("sql", REACHING)
def test_a_query_that_reaches_beyond_the_lake_is_refused(connect_session, small_lake, sql):
    with pytest.raises(UsageError):
        SparkEngine(connect(small_lake.location, connect_session)).query(sql).rows()
    assert connect_session.conf.get("spark.sql.runSQLOnFiles") == "true"


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT 1 AS x; ", [{"x": 1}]),
        ("SELECT 1 AS x -- ; DROP TABLE orders", [{"x": 1}]),
        ("VALUES (1)", [{"col1": 1}]),
        ("SELECT x FROM (VALUES (2), (1)) AS t(x) ORDER BY x", [{"x": 1}, {"x": 2}]),
        ("WITH a AS (SELECT count(*) AS n FROM orders) SELECT n FROM a", [{"n": 4}]),
        ("DESCRIBE SELECT 1 AS x", [{"col_name": "x", "data_type": "int", "comment": None}]),
    ],
)
def test_a_query_runs_on_the_server(connect_session, small_lake, sql, rows):
    engine = SparkEngine(connect(small_lake.location, connect_session))
    assert engine.query(sql).rows().to_pylist() == rows
    if not sql.startswith("DESCRIBE"):
        assert engine.query(f"EXPLAIN EXTENDED {sql}").rows().num_rows == 1


def test_a_stream_polls_for_new_bytes_itself(connect_server, lake, tmp_path):
    path = tmp_path / "lake"
    stream = ("stream", day(duration="12s"), "--lake", path, "--once")
    code, out, err = pregao(*stream, "--quiet-period", "0s", master=connect_server)
    assert (code, err) == (0, "")
    assert "messages" in out
    assert rows(path, "umdf_order_mbo_50") == rows(lake, "umdf_order_mbo_50")
    code, _, err = pregao(*stream, "--checkpoint", tmp_path, master=connect_server)
    assert code == 2
    assert "--checkpoint requires Spark's streaming" in " ".join(err.split())


def test_a_server_that_does_not_answer_is_reported_immediately(tmp_path):
    pytest.importorskip("grpc", reason="pyspark[connect] is not installed here")
    port = free_port()
    with pytest.raises(UsageError, match=rf"No Spark Connect server answers at 127.0.0.1:{port}"):
        remote_session(f"sc://127.0.0.1:{port}", {})
    with pytest.raises(UsageError, match=r"must be sc://HOST:PORT"):
        remote_session("sc://", {})


def test_a_server_is_named_as_master_setting_or_in_the_environment(monkeypatch):
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    assert remote_master(None, {}) is None
    assert remote_master("local[2]", {"spark.remote": "sc://a"}) is None
    assert remote_master("sc://a", {}) == "sc://a"
    assert remote_master(None, {"spark.remote": "sc://b"}) == "sc://b"
    monkeypatch.setenv("SPARK_REMOTE", "sc://c")
    assert remote_master(None, {}) == "sc://c"
