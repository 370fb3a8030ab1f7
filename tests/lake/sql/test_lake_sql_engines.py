"""Both engines of `pregao query` return the same rows, of exactly the files in the tables' logs."""

import subprocess
import sys
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from pregao.errors import UsageError
from pregao.lake.execution.runner import EngineName
from pregao.lake.sql.duckdb_engine import DuckdbEngine
from pregao.lake.sql.engines import choose_engine, open_engine
from pregao.lake.sql.spark_engine import SparkEngine
from pregao.lake.sql.spark_tables import connect
from pregao.lake.storage.commit_unit import CommitUnit, TableSpec
from pregao.lake.storage.delta import arrow_schema, dataset, visible_files
from pregao.lake.storage.lake_store import LakeStore
from tests.lake.analytics_support import lake_of
from tests.lake.hostile_sql import CASES, REACHING, contents, refused
from tests.lake.lake_support import ORDERS, ROOT, TRADES, column, order, unit_of, write_file
from tests.lake.storage.test_lake_storage_paths import rewrite

QUERIES = {
    "counts": "SELECT count(*) AS n FROM umdf_order_mbo_50",
    "groups": """SELECT security_id, count(*) AS n, sum(md_entry_size) AS quantity
        FROM umdf_order_mbo_50 GROUP BY security_id ORDER BY security_id""",
    "decimals": """SELECT security_id, min(md_entry_px) AS low, max(md_entry_px) AS high,
        sum(md_entry_px) AS total FROM umdf_trade_53 GROUP BY security_id ORDER BY security_id""",
    "products of decimals": """SELECT security_id,
        CAST(sum(md_entry_px * md_entry_size) / sum(md_entry_size) AS DECIMAL(18, 4)) AS vwap
        FROM umdf_trade_53 GROUP BY security_id ORDER BY security_id""",
    "comparison of decimals": """SELECT count(*) AS n FROM umdf_order_mbo_50
        WHERE md_entry_px > 20.5 AND md_entry_px <= CAST('40.0000' AS DECIMAL(18, 4))""",
    "dates": """SELECT date, count(*) AS n FROM packets WHERE date = DATE '2026-05-21'
        GROUP BY date""",
    "a day that is not there": "SELECT count(*) AS n FROM packets WHERE date < DATE '2020-01-01'",
    "parts of dates": """SELECT year(trade_date) AS y, month(trade_date) AS m, day(trade_date) AS d,
        count(*) AS n FROM umdf_trade_53 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3""",
    "nulls": """SELECT count(*) AS n, count(md_entry_px) AS priced, count(entering_firm) AS firms
        FROM umdf_order_mbo_50""",
    "order of nulls": """SELECT DISTINCT md_entry_px FROM umdf_order_mbo_50
        ORDER BY md_entry_px LIMIT 5""",
    "order of nulls, downwards": """SELECT DISTINCT md_entry_prev_size FROM umdf_order_mbo_50
        ORDER BY md_entry_prev_size DESC""",
    "texts": """SELECT md_entry_type, md_update_action, count(*) AS n FROM umdf_order_mbo_50
        GROUP BY md_entry_type, md_update_action ORDER BY md_entry_type, md_update_action""",
    "patterns": """SELECT DISTINCT symbol, length(symbol) AS size FROM instruments
        WHERE symbol LIKE 'P%' ORDER BY symbol""",
    "conditions": """SELECT CASE WHEN md_entry_size >= 1000 THEN 'large' ELSE 'small' END AS kind,
        count(*) AS n FROM umdf_trade_53 GROUP BY 1 ORDER BY 1""",
    "joins": """SELECT i.symbol, count(*) AS trades FROM umdf_trade_53 t
        JOIN instruments i USING (date, channel, security_id)
        GROUP BY i.symbol ORDER BY i.symbol""",
    "joins that find nothing": """SELECT i.symbol, max(t.md_entry_px) AS high FROM instruments i
        LEFT JOIN umdf_trade_bust_57 t ON t.security_id = i.security_id
        GROUP BY i.symbol ORDER BY i.symbol""",
    "windows": """SELECT security_id, sequence_number, index_in_packet, md_entry_px,
        md_entry_px - lag(md_entry_px) OVER (PARTITION BY security_id
            ORDER BY sequence_version, sequence_number, index_in_packet) AS step,
        row_number() OVER (PARTITION BY security_id
            ORDER BY sequence_version, sequence_number, index_in_packet) AS place
        FROM umdf_trade_53 ORDER BY security_id, sequence_number, index_in_packet""",
    "running sums": """SELECT sequence_number, sum(md_entry_size) OVER (
            ORDER BY sequence_number, index_in_packet
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS quantity
        FROM umdf_trade_53 ORDER BY sequence_number, index_in_packet""",
    "subqueries": """WITH busy AS (SELECT security_id, count(*) AS n FROM umdf_order_mbo_50
            GROUP BY security_id HAVING count(*) > 100)
        SELECT count(*) AS instruments, max(n) AS most FROM busy
        WHERE security_id IN (SELECT security_id FROM umdf_trade_53)""",
    "unions": """SELECT 'trade' AS what, count(*) AS n FROM umdf_trade_53
        UNION ALL SELECT 'delete' AS what, count(*) AS n FROM umdf_delete_order_mbo_51
        ORDER BY what""",
    "percentiles": """SELECT feed, percentile(feed_difference_ns, 0.5) AS median
        FROM umdf_order_mbo_50 WHERE stream = 'incremental' GROUP BY feed ORDER BY feed""",
    "a table without rows": "SELECT * FROM rejects",
    "every column": """SELECT * FROM umdf_trade_53
        ORDER BY sequence_version, sequence_number, index_in_packet""",
    "every column of definitions": "SELECT * FROM instruments ORDER BY security_id",
}


@pytest.fixture(scope="module")
def engines(spark):
    lake, _ = lake_of()
    return DuckdbEngine(lake), SparkEngine(connect(lake.location, spark))


def plain(rows):
    """Names and rows; numbers count by their value, whatever type holds them."""
    return rows.column_names, [list(row.values()) for row in rows.to_pylist()]


@pytest.mark.parametrize("name", QUERIES)
def test_both_engines_give_the_same_rows(engines, name):
    first, second = (plain(engine.query(QUERIES[name]).rows()) for engine in engines)
    assert first == second
    assert first[1] or name == "a table without rows"


def test_the_first_rows_and_their_number_are_the_same(engines):
    sql = "SELECT sequence_number FROM umdf_order_mbo_50 ORDER BY sequence_number, index_in_packet"
    (first, of), (second, same) = (engine.query(sql).first(7) for engine in engines)
    assert first.num_rows == 7
    assert first.to_pylist() == second.to_pylist()
    assert of == same > 7


def test_sums_are_64_bit_integers_if_they_fit(engines):
    duckdb, _ = engines
    rows = duckdb.query("SELECT sum(md_entry_size) AS s, sum(9223372036854775807) AS t "
                      "FROM umdf_trade_53").rows()  # fmt: skip
    assert rows.schema.field("s").type == pa.int64()
    assert pa.types.is_decimal(rows.schema.field("t").type)
    assert rows["t"][0].as_py() > 1 << 63


WIDER = TableSpec(
    "orders",
    pa.schema(
        [
            *(field for field in ORDERS.schema if field.name not in ("legs", "date")),
            column(
                "legs",
                pa.list_(
                    pa.field(
                        "element",
                        pa.struct([column("leg_id", pa.int64()), column("ratio", pa.int32())]),
                    )
                ),
            ),
            column("memo", pa.string()),
            column("fee", pa.decimal128(18, 8)),
            column("date", pa.date32()),
        ]
    ),
)


def both(lake, spark):
    return DuckdbEngine(lake), SparkEngine(connect(lake.location, spark))


def test_columns_that_came_later_are_null_before(small_lake, spark):
    small_lake.ensure_tables([WIDER])
    sql = "SELECT sequence_number, memo, fee, legs FROM orders ORDER BY sequence_number"
    for engine in both(small_lake, spark):  # no file has them yet
        rows = engine.query(sql).rows()
        assert set(rows["memo"].to_pylist()) == set(rows["fee"].to_pylist()) == {None}
        assert rows.num_rows == 4
    row = order(7, 9, legs=[{"leg_id": 1, "ratio": 2}], memo="new", fee=Decimal("0.00000001"))
    file = write_file(small_lake.location, WIDER, [row])
    small_lake.commit(CommitUnit("u3", ("c3",), (file,), ()))
    for engine in both(small_lake, spark):
        rows = engine.query(sql).rows().to_pylist()
        assert [one["memo"] for one in rows] == [None] * 4 + ["new"]
        assert rows[4]["fee"] == Decimal("0.00000001")
        assert rows[4]["legs"] == [{"leg_id": 1, "ratio": 2}]


def test_only_committed_files_are_read(small_lake, spark):
    write_file(small_lake.location, ORDERS, [order(7, 99)])
    for engine in both(small_lake, spark):
        (row,) = engine.query("SELECT count(*) AS n, max(date) AS d FROM orders").rows().to_pylist()
        assert row == {"n": 4, "d": date(2026, 5, 22)}


def test_unselected_days_are_not_opened(small_lake):
    for file in small_lake.files("trades", "2026-05-22"):
        file.write_bytes(file.read_bytes()[:-40] + b"\0" * 36 + b"PAR1")
    # Elsewhere than on this machine, opening a file is a request.
    table = small_lake.delta("trades")
    location = small_lake.table_location("trades")
    files = dataset(location, arrow_schema(table), visible_files(table))
    assert files.count_rows(filter=ds.field("date") == date(2026, 5, 21)) == 2


def test_a_lake_on_s3_is_read_without_extensions(s3_endpoint):
    lake = LakeStore("s3://bucket/lake")
    lake.ensure_tables([ORDERS, TRADES])
    lake.commit(unit_of(lake.location, "u1", ["c1"]))
    engine = open_engine(lake, choose_engine(lake, None, spark_wanted=False))
    assert isinstance(engine, DuckdbEngine)
    sql = "SELECT price, side, count(*) AS n, date FROM orders WHERE side = 'BID' GROUP BY ALL"
    assert engine.query(sql).rows().to_pylist() == [
        {"price": Decimal("10.0000"), "side": "BID", "n": 2, "date": date(2026, 5, 21)}
    ]


def test_spark_is_used_on_request_or_if_duckdb_cannot_read_the_lake(small_lake):
    far = LakeStore("hdfs://name/lake")
    assert choose_engine(small_lake, None, spark_wanted=False) is EngineName.LOCAL
    assert choose_engine(small_lake, None, spark_wanted=True) is EngineName.SPARK
    assert choose_engine(small_lake, EngineName.SPARK, spark_wanted=False) is EngineName.SPARK
    assert choose_engine(far, None, spark_wanted=False) is EngineName.SPARK
    with pytest.raises(UsageError, match="use --engine spark"):
        choose_engine(far, EngineName.LOCAL, spark_wanted=False)


def test_duckdb_answers_without_java_and_without_pyspark(small_lake):
    code = (
        "import sys; from pregao.cli.main import app\n"
        "try: app()\nexcept SystemExit: pass\n"
        "assert not [name for name in sys.modules if name.split('.')[0] in ('pyspark', 'py4j')]"
    )
    sql = "SELECT sum(security_id) AS s FROM trades"
    done = subprocess.run(
        [sys.executable, "-c", code, "query", sql, "--lake", str(small_lake.location)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={"PATH": "/nowhere", "PYTHONPATH": str(ROOT / "src"), "JAVA_HOME": "/nowhere"},
    )
    assert done.returncode == 0, done.stderr
    assert "28" in done.stdout


@pytest.mark.parametrize("unsafe", [False, True])
def test_no_statement_is_run_but_one_query(small_lake, spark, tmp_path, monkeypatch, unsafe):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.csv").write_text("x\nS3CRET\n")
    (tmp_path / "secret.txt").write_text("S3CRET")
    before = contents(tmp_path, small_lake.location.uri)
    engine = SparkEngine(connect(small_lake.location, spark), unsafe=unsafe)
    for case in CASES:
        with pytest.raises(UsageError) as caught:
            engine.query(refused(case[1], case[0], tmp_path)).rows()
        message = str(caught.value)
        assert message.startswith(("The query failed: ", "There is no query: ")) or (
            message.endswith(("nothing was run.", "for queries that you trust."))
        ), case
        assert "\n" not in message
    assert contents(tmp_path, small_lake.location.uri) == before
    assert engine.query("SELECT count(*) AS n FROM orders").rows().to_pylist() == [{"n": 4}]


@pytest.mark.parametrize("sql", REACHING)
def test_a_query_that_reaches_beyond_the_lake_is_refused(small_lake, spark, sql):
    with pytest.raises(UsageError, match="--unsafe allows it"):
        SparkEngine(connect(small_lake.location, spark)).query(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 'reflect' AS x",
        "SELECT x FROM (SELECT 'java_method; DROP TABLE orders' AS x)",
        "SELECT /* reflect('a', 'b') */ 1 AS x -- ; DROP TABLE orders",
        "WITH a AS (SELECT 1 AS x) SELECT (SELECT max(x) FROM a) AS x",
        "SELECT max(x) OVER w AS x FROM (SELECT 1 AS x) WINDOW w AS (PARTITION BY x)",
        "SELECT id AS x FROM range(1)",
        "SELECT x FROM IDENTIFIER('orders') LATERAL VIEW explode(array(1)) AS x LIMIT 1",
        "SELECT transform(array(1), x -> x)[0] AS x",
        "SELECT o.security_id AS x FROM orders o JOIN trades t USING (security_id) LIMIT 1",
        "FROM orders |> WHERE security_id > 0 |> SELECT security_id AS x |> LIMIT 1",
        "EXPLAIN EXTENDED SELECT 1 AS x",
        "DESCRIBE orders",
        "SHOW TABLES;",
    ],
)
def test_queries_of_all_kinds_run(small_lake, spark, sql):
    assert SparkEngine(connect(small_lake.location, spark)).query(sql).rows().num_rows > 0


def test_files_are_no_tables_while_rows_are_fetched(small_lake, spark):
    engine = SparkEngine(connect(small_lake.location, spark))
    with engine.asking():
        assert spark.conf.get("spark.sql.runSQLOnFiles") == "false"
    assert spark.conf.get("spark.sql.runSQLOnFiles") == "true"


def test_a_log_that_names_other_files_is_refused(small_lake, spark):
    rewrite(small_lake, "../trades/secret.parquet")
    with pytest.raises(UsageError, match=r"/orders: .*\.\./trades/secret\.parquet"):
        SparkEngine(connect(small_lake.location, spark)).query("SELECT * FROM orders")


def test_values_are_bound(small_lake, spark):
    sql = "SELECT count(*) AS n FROM orders WHERE security_id = ? AND side = ?"
    for engine in both(small_lake, spark):
        (all_,) = engine.query(sql, [7, "BID"]).rows().to_pylist()
        (none,) = engine.query(sql, [7, "' OR '' = '"]).rows().to_pylist()
        assert all_["n"] > none["n"] == 0


def test_files_can_be_read_on_request(small_lake, spark, tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("a,b\n1,2\n")
    duckdb = DuckdbEngine(small_lake, unsafe=True)
    assert duckdb.query(f"SELECT a FROM read_csv('{path}')").rows().to_pylist() == [{"a": 1}]
    on_spark = SparkEngine(connect(small_lake.location, spark), unsafe=True)
    assert on_spark.query(f"SELECT * FROM text.`{path}`").rows().num_rows == 2


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT * FROM nope", r"`nope` cannot be found\. The lake has ingests, orders, trades"),
        ("SELECT nope FROM orders", "nope"),
        ("SELECT qqq FROM orders", r"\"qqq\" not found in FROM clause!$"),
        ("SELECT security_ids FROM orders", r"FROM clause! Did you mean security_id\?$"),
        ("SELECT o.securty_id FROM orders o", r"securty_id.\. Did you mean security_id\?$"),
        ("SELECT FROM WHERE", "failed"),
        ("SELECT from_unixtime(1)", "--engine spark"),
        ("SELECT CAST('x' AS INT) AS x", "Could not convert"),
    ],
)
def test_an_error_of_duckdb_is_one_line_too(small_lake, sql, message):
    with pytest.raises(UsageError, match=message) as caught:
        DuckdbEngine(small_lake).query(sql).rows()
    assert "\n" not in str(caught.value)


def test_a_lost_or_damaged_file_is_reported_in_one_line(small_lake):
    (first, second) = small_lake.files("orders")
    first.delete()
    with pytest.raises(UsageError, match="The query failed") as caught:
        DuckdbEngine(small_lake).query("SELECT * FROM orders").rows()
    assert first.name in str(caught.value)
    second.write_bytes(b"PAR1 not at all PAR1")
    with pytest.raises(UsageError, match="The query failed"):
        DuckdbEngine(small_lake).query("SELECT * FROM orders").rows()
