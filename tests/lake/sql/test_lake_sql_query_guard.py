"""DuckDB is given one query and nothing else: no text runs a statement or reads another file."""

import os
import stat
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pregao.errors import UsageError
from pregao.lake.sql import duckdb_engine, duckdb_session, query_guard
from pregao.lake.sql.duckdb_engine import DuckdbEngine
from pregao.lake.sql.query_guard import parse
from tests.lake.hostile_sql import BEFORE, CASES, READING, STATEMENTS, contents, refused
from tests.lake.lake_support import ORDERS, order, write_file


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with files that no query may read, and in which none may come into being."""
    path = tmp_path / "folder"
    path.mkdir()
    (path / "secret.csv").write_text("x\nS3CRET\n")
    (path / "secret.txt").write_text('{"x": "S3CRET"}')
    pq.write_table(pa.table({"x": ["S3CRET"]}), path / "secret.parquet")
    monkeypatch.chdir(path)
    return path


@pytest.mark.parametrize("unsafe", [False, True])
def test_no_statement_is_run_but_one_query(small_lake, folder, unsafe):
    before = contents(folder, small_lake.location.uri)
    engine = DuckdbEngine(small_lake, unsafe=unsafe)
    for case in CASES:
        with pytest.raises(UsageError) as caught:
            engine.query(refused(case[1], case[0], folder)).rows()
        message = str(caught.value)
        assert message.startswith(("The query failed: ", "There is no query: ")) or (
            message.endswith(("nothing was run.", "for queries that you trust."))
        ), case
        assert "\n" not in message
    assert contents(folder, small_lake.location.uri) == before


@pytest.mark.parametrize("first", [name for name in BEFORE if name != "explained"])
def test_a_second_query_is_refused_too(small_lake, first):
    with pytest.raises(UsageError, match="nothing was run"):
        DuckdbEngine(small_lake).query(BEFORE[first] + "SELECT 2" + "; SELECT 3")


WRITING_WITHIN = [name for name in STATEMENTS if "with" in name and name != "insert with"]


@pytest.mark.parametrize("name", WRITING_WITHIN)
def test_a_query_that_writes_within_is_none(name):
    """DuckDB takes such a text for a SELECT."""
    with pytest.raises(UsageError, match=r"(COPY|INSERT|DELETE) is not one: nothing was run"):
        parse(STATEMENTS[name], unsafe=True)


@pytest.mark.parametrize("name", READING)
def test_no_query_reads_another_file(small_lake, folder, name):
    hidden = pa.table({"x": ["S3CRET"]})
    before = contents(folder, small_lake.location.uri)
    with pytest.raises(UsageError) as caught:
        DuckdbEngine(small_lake).query(READING[name].replace("{folder}", str(folder))).rows()
    assert "S3CRET" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert contents(folder, small_lake.location.uri) == before
    del hidden


FILES = [name for name in READING if name not in ("secrets", "which secret", "settings")]


@pytest.mark.parametrize("name", FILES)
def test_the_session_refuses_what_the_tree_would_accept(small_lake, folder, monkeypatch, name):
    """The second wall: as if a function that reads files were taken for a harmless one."""
    monkeypatch.setattr(duckdb_engine, "parse", lambda sql, unsafe: parse(sql, unsafe=True))
    before = contents(folder, small_lake.location.uri)
    sql = READING[name].replace("{folder}", str(folder))
    results = []
    try:
        results.append(str(DuckdbEngine(small_lake).query(sql).rows().to_pylist()))
    except UsageError as error:
        results.append(str(error).replace(sql, ""))
    assert "S3CRET" not in results[0]
    assert "secret" not in results[0].replace(f"{folder}/secret", "")
    assert contents(folder, small_lake.location.uri) == before


def test_the_session_writes_no_file_whatever_runs_in_it(folder):
    before = contents(folder)
    session = duckdb_session.open_session()
    for sql in STATEMENTS.values():
        for each in sql.replace("{folder}", str(folder)).split(";"):
            try:
                session.execute(each).fetchall()
            except duckdb_engine.duckdb.Error:
                continue
    assert contents(folder) == before
    for name in ("enable_external_access", "lock_configuration", "allowed_paths"):
        with pytest.raises(duckdb_engine.duckdb.Error, match="locked"):
            session.execute(f"RESET {name}")


def test_other_files_in_the_folder_of_a_table_are_not_read(small_lake, folder, monkeypatch):
    """Neither files that are not committed, nor by links and .. from those that are."""
    location = small_lake.location.join("orders")
    (file, *_) = [path.uri for path in small_lake.files("orders")]
    uncommitted = location.join(write_file(small_lake.location, ORDERS, [order(7, 99)]).path).uri
    Path(location.uri, "link.parquet").symlink_to(folder / "secret.parquet")
    monkeypatch.setattr(duckdb_engine, "parse", lambda sql, unsafe: parse(sql, unsafe=True))
    engine = DuckdbEngine(small_lake)
    for path in (
        uncommitted,
        f"{location.uri}/link.parquet",
        f"{Path(file).parent}/../link.parquet",
        f"{file}/../../../../../{folder}/secret.parquet",
        f"{location.uri}/*.parquet",
        f"file://{folder}/secret.parquet",
    ):
        with pytest.raises(UsageError):
            engine.query(f"SELECT o.*, f.* FROM orders o, read_parquet('{path}') f").rows()
    own = f"SELECT count(*) AS n FROM orders, read_parquet('{file}')"
    assert engine.query(own).rows()["n"][0].as_py() > 0


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 AS x",
        "SELECT 1 AS x;",
        "; ;SELECT 1 AS x ; ;",
        "-- a\nSELECT 1 /* ; DROP TABLE orders */ AS x -- ; DROP TABLE orders",
        "SELECT 1 AS x WHERE '; DROP TABLE orders' <> ';'",
        "(SELECT 1 AS x)",
        "WITH a AS (SELECT 1 AS x) FROM a",
        "FROM (VALUES (1)) AS t(x)",
        "SELECT 1 AS x WHERE 'read_csv' = 'read_csv' AND 'reflect' <> ''",
        "SELECT x FROM range(1, 2) AS r(x)",
        "SELECT x FROM (SELECT unnest([1]) AS x)",
    ],
)
def test_one_query_is_one_however_it_is_written(small_lake, sql):
    assert DuckdbEngine(small_lake).query(sql).rows().to_pylist() == [{"x": 1}]


@pytest.mark.parametrize(
    ("sql", "shown"),
    [
        ("SHOW TABLES", "v_trades"),
        ("DESCRIBE orders", "security_id"),
        ("DESCRIBE SELECT price FROM orders", "price"),
        ("SHOW orders", "security_id"),
        ("SUMMARIZE orders", "security_id"),
        ("EXPLAIN SELECT count(*) FROM orders", "physical_plan"),
        ("EXPLAIN ANALYZE SELECT count(*) FROM orders", "analyzed_plan"),
        ("/* é */ EXPLAIN (FORMAT JSON) SELECT count(*) FROM orders", "physical_plan"),
        ("EXPLAIN (SELECT count(*) FROM orders)", "physical_plan"),
        ("SELECT table_name FROM information_schema.tables", "v_orders"),
        ("SELECT view_name FROM duckdb_views()", "v_orders"),
        ("SELECT name FROM pragma_table_info('orders')", "security_id"),
    ],
)
def test_questions_about_tables_are_answered(small_lake, sql, shown):
    assert shown in str(DuckdbEngine(small_lake).query(sql).rows().to_pylist())


def test_a_query_that_is_nested_too_deeply_is_refused(small_lake):
    for sql in ("SELECT " + "1 + " * 700 + "1", "SELECT " + "(" * 5000 + "1" + ")" * 5000):
        with pytest.raises(UsageError) as caught:
            DuckdbEngine(small_lake).query(sql)
        assert "\n" not in str(caught.value)


def test_spilled_data_goes_to_a_private_folder_that_is_removed(small_lake):
    answer = DuckdbEngine(small_lake).query("SELECT count(*) AS n FROM orders")
    settings = dict(
        answer._connection.execute("SELECT name, value FROM duckdb_settings()").fetchall()
    )
    assert settings["enable_external_access"] == settings["autoload_known_extensions"] == "false"
    assert settings["lock_configuration"] == "true"
    assert settings["memory_limit"] != settings["max_temp_directory_size"]
    root = Path(settings["temp_directory"]).parent
    assert stat.S_IMODE(root.stat().st_mode) == 0o700
    assert root.stat().st_uid == os.getuid()
    duckdb_session._remove_spill_root(os.getpid() + 1, root)
    assert root.is_dir()  # it is the parent's, where a child ends
    duckdb_session._remove_spill_root(os.getpid(), root)
    assert not root.exists()
    assert answer.rows().to_pylist() == [{"n": 4}]
    DuckdbEngine(small_lake).query("SELECT 1 AS x").rows()  # makes another


def test_a_session_for_parsing_opens_no_file(folder):
    session = query_guard._parser()
    assert session is query_guard._parser()
    with pytest.raises(duckdb_engine.duckdb.PermissionException):
        session.execute(f"FROM '{folder}/secret.parquet'")
    with pytest.raises(duckdb_engine.duckdb.PermissionException):
        session.execute("COPY (SELECT 1) TO 'new.csv'")
    assert not (folder / "new.csv").exists()


@pytest.mark.parametrize(
    ("sql", "lists"),
    [
        ("FROM v_ticks", True),
        ("SELECT upper(symbol), size + 1 FROM v_trades AS t WHERE size > 5 LIMIT 5 OFFSET 2", True),
        ("WITH a AS (SELECT 1) SELECT * FROM v_trades", True),
        ("SELECT * FROM v_trades ORDER BY size", False),
        ("SELECT DISTINCT symbol FROM v_trades", False),
        ("SELECT symbol FROM v_trades GROUP BY symbol", False),
        ("SELECT symbol FROM v_trades GROUP BY ALL", False),
        ("SELECT max(size) + 1 FROM v_trades", False),
        ("SELECT row_number() OVER () FROM v_trades", False),
        ("SELECT * FROM v_trades USING SAMPLE 5", False),
        ("SELECT * FROM v_trades, v_status", False),
        ("SELECT * FROM (SELECT * FROM v_trades)", False),
        ("SUMMARIZE v_trades", False),
        ("SELECT 1", False),
    ],
)
def test_a_query_that_only_lists_rows_is_known(sql, lists):
    assert query_guard.lists_rows(parse(sql).tree) is lists
