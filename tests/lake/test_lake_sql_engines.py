"""Both engines of `pregao query` give the same rows, of exactly what the tables' logs tell."""

import re
import subprocess
import sys
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from pregao.errors import UsageError
from pregao.lake.spark import connect
from pregao.lake.sql import EngineName, choose_engine, open_engine
from pregao.lake.sql.duckdb_engine import DuckdbEngine
from pregao.lake.sql.spark_engine import SparkEngine
from pregao.lake.store import Lake, TableSpec, Unit, arrow_schema, dataset, visible_files
from tests.lake.analytics_support import lake_of
from tests.lake.lake_support import ORDERS, ROOT, TRADES, column, order, unit_of, write_file

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
    here, there = (plain(engine.ask(QUERIES[name]).rows()) for engine in engines)
    assert here == there
    assert here[1] or name == "a table without rows"


def test_the_first_rows_and_their_number_are_the_same(engines):
    sql = "SELECT sequence_number FROM umdf_order_mbo_50 ORDER BY sequence_number, index_in_packet"
    (here, of), (there, same) = (engine.ask(sql).first(7) for engine in engines)
    assert here.num_rows == 7
    assert here.to_pylist() == there.to_pylist()
    assert of == same > 7


def test_sums_are_whole_numbers_of_64_bits_where_they_fit(engines):
    duckdb, _ = engines
    rows = duckdb.ask("SELECT sum(md_entry_size) AS s, sum(9223372036854775807) AS t "
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
        rows = engine.ask(sql).rows()
        assert set(rows["memo"].to_pylist()) == set(rows["fee"].to_pylist()) == {None}
        assert rows.num_rows == 4
    row = order(7, 9, legs=[{"leg_id": 1, "ratio": 2}], memo="new", fee=Decimal("0.00000001"))
    file = write_file(small_lake.location, WIDER, [row])
    small_lake.commit(Unit("u3", ("c3",), (file,), ()))
    for engine in both(small_lake, spark):
        rows = engine.ask(sql).rows().to_pylist()
        assert [one["memo"] for one in rows] == [None] * 4 + ["new"]
        assert rows[4]["fee"] == Decimal("0.00000001")
        assert rows[4]["legs"] == [{"leg_id": 1, "ratio": 2}]


def test_only_committed_files_are_read(small_lake, spark):
    write_file(small_lake.location, ORDERS, [order(7, 99)])
    for engine in both(small_lake, spark):
        (row,) = engine.ask("SELECT count(*) AS n, max(date) AS d FROM orders").rows().to_pylist()
        assert row == {"n": 4, "d": date(2026, 5, 22)}


def test_days_that_are_not_asked_for_are_not_opened(small_lake):
    for file in small_lake.files("trades", "2026-05-22"):
        file.write_bytes(file.read_bytes()[:-40] + b"\0" * 36 + b"PAR1")
    # Elsewhere than on this machine, opening a file is a request.
    table = small_lake.delta("trades")
    place = small_lake.table_location("trades")
    files = dataset(place, arrow_schema(table), visible_files(table))
    assert files.count_rows(filter=ds.field("date") == date(2026, 5, 21)) == 2


def test_a_lake_on_s3_is_read_without_extensions(s3_endpoint):
    lake = Lake("s3://bucket/lake")
    lake.ensure_tables([ORDERS, TRADES])
    lake.commit(unit_of(lake.location, "u1", ["c1"]))
    engine = open_engine(lake, choose_engine(lake, None, spark_wanted=False))
    assert isinstance(engine, DuckdbEngine)
    sql = "SELECT price, side, count(*) AS n, date FROM orders WHERE side = 'BID' GROUP BY ALL"
    assert engine.ask(sql).rows().to_pylist() == [
        {"price": Decimal("10.0000"), "side": "BID", "n": 2, "date": date(2026, 5, 21)}
    ]


def test_spark_answers_where_it_is_asked_for_or_duckdb_cannot(small_lake):
    far = Lake("hdfs://name/lake")
    assert choose_engine(small_lake, None, spark_wanted=False) is EngineName.DUCKDB
    assert choose_engine(small_lake, None, spark_wanted=True) is EngineName.SPARK
    assert choose_engine(small_lake, EngineName.SPARK, spark_wanted=False) is EngineName.SPARK
    assert choose_engine(far, None, spark_wanted=False) is EngineName.SPARK
    with pytest.raises(UsageError, match="use --engine spark"):
        choose_engine(far, EngineName.DUCKDB, spark_wanted=False)
    with pytest.raises(UsageError, match="leave them out"):
        choose_engine(small_lake, EngineName.DUCKDB, spark_wanted=True)


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


CHANGING = [
    "DROP TABLE orders",
    "CREATE TABLE x AS SELECT 1",
    "CREATE OR REPLACE TEMP VIEW orders AS SELECT 1",
    "INSERT INTO orders SELECT * FROM orders",
    "WITH x AS (SELECT * FROM orders) INSERT INTO orders SELECT * FROM x",
    "FROM orders INSERT INTO orders SELECT *",
    "FROM orders INSERT/**/INTO orders SELECT *",
    "DELETE FROM orders",
    "UPDATE orders SET side = 'x'",
    "MERGE INTO orders USING trades ON true WHEN MATCHED THEN DELETE",
    "TRUNCATE TABLE orders",
    "COPY orders TO 'x.csv'",
    "SET threads = 1",
    "ADD JAR 'x.jar'",
    "ATTACH 'x.db'",
    "BEGIN DROP TABLE orders; END",
    "EXPLAIN ANALYZE COPY orders TO 'x.csv'",
    "EXPLAIN DROP TABLE orders",
    "SELECT 1; DROP TABLE orders",
    "-- SELECT\nDROP TABLE orders",
    "/* /* */ SELECT 1 */ DROP TABLE orders",
    "(DROP TABLE orders)",
]
REACHING = [
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM READ_TEXT ('/etc/passwd')",
    "SELECT * FROM glob('/etc/*')",
    "SELECT reflect('java.lang.System', 'getenv', 'HOME')",
    "SELECT java_method('java.lang.System', 'exit', 0)",
    "SELECT `try_reflect`('java.lang.System', 'exit', 0)",
    "SELECT * FROM parquet.`/lake/orders`",
    "SELECT * FROM `csv`.`/etc/passwd`",
    "SELECT * FROM text/**/.`/etc/passwd`",
    "SELECT * FROM (SELECT TRANSFORM (side) USING 'sh' AS x FROM orders)",
]


@pytest.mark.parametrize("sql", CHANGING)
def test_statements_that_change_something_are_refused(small_lake, spark, sql):
    before = small_lake.location.entries(recursive=True)
    for engine in (
        DuckdbEngine(small_lake, unsafe=True),
        SparkEngine(connect(small_lake.location, spark), unsafe=True),
    ):
        with pytest.raises(UsageError) as caught:
            engine.ask(sql)
        assert "\n" not in str(caught.value)
        assert "nothing was run" in str(caught.value) or "failed" in str(caught.value)
    assert small_lake.location.entries(recursive=True) == before


@pytest.mark.parametrize("sql", REACHING)
def test_functions_that_reach_beyond_the_lake_are_refused(small_lake, spark, sql):
    for engine in both(small_lake, spark):
        with pytest.raises(UsageError, match="--unsafe allows it"):
            engine.ask(sql)


def test_the_engines_themselves_refuse_what_the_words_do_not_show(small_lake, spark, monkeypatch):
    monkeypatch.setattr("pregao.lake.sql.statements.refuse_beyond", lambda sql: None)
    monkeypatch.setattr("pregao.lake.sql.statements._WRITES_BEHIND", re.compile("$^"))
    duckdb, on_spark = both(small_lake, spark)
    for sql in ("SELECT * FROM read_text('/etc/hostname')", "SELECT * FROM '/etc/passwd'"):
        with pytest.raises(UsageError, match="The query failed"):
            duckdb.ask(sql).rows()
    uncommitted = small_lake.location.join(
        "orders", write_file(small_lake.location, ORDERS, [order(7, 99)]).path
    )
    with pytest.raises(UsageError, match="only the lake's tables"):
        duckdb.ask(f"SELECT * FROM read_parquet('{uncommitted}')").rows()
    with pytest.raises(UsageError, match="The query failed"):
        on_spark.ask("SELECT * FROM text.`/etc/passwd`").rows()
    with pytest.raises(UsageError, match="nothing was run"):
        on_spark.ask("FROM orders INSERT INTO orders SELECT *")
    with pytest.raises(UsageError, match="start a program"):
        on_spark.ask("SELECT * FROM (SELECT TRANSFORM (side) USING 'sh' AS x FROM orders)")


def test_files_can_be_read_when_that_is_wanted(small_lake, spark, tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("a,b\n1,2\n")
    duckdb = DuckdbEngine(small_lake, unsafe=True)
    assert duckdb.ask(f"SELECT a FROM read_csv('{path}')").rows().to_pylist() == [{"a": 1}]
    on_spark = SparkEngine(connect(small_lake.location, spark), unsafe=True)
    assert on_spark.ask(f"SELECT * FROM text.`{path}`").rows().num_rows == 2


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT * FROM nope", r"`nope` cannot be found\. The lake has ingests, orders, trades"),
        ("SELECT nope FROM orders", "nope"),
        ("SELECT FROM WHERE", "failed"),
        ("SELECT from_unixtime(1)", "--engine spark"),
        ("SELECT CAST('x' AS INT) AS x", "Could not convert"),
    ],
)
def test_a_mistake_is_one_sentence_of_duckdb_too(small_lake, sql, said):
    with pytest.raises(UsageError, match=said) as caught:
        DuckdbEngine(small_lake).ask(sql).rows()
    assert "\n" not in str(caught.value)


def test_a_lost_or_damaged_file_is_told_in_one_sentence(small_lake):
    (first, second) = small_lake.files("orders")
    first.delete()
    with pytest.raises(UsageError, match="The query failed") as caught:
        DuckdbEngine(small_lake).ask("SELECT * FROM orders").rows()
    assert first.name in str(caught.value)
    second.write_bytes(b"PAR1 not at all PAR1")
    with pytest.raises(UsageError, match="The query failed"):
        DuckdbEngine(small_lake).ask("SELECT * FROM orders").rows()
