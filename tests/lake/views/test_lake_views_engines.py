"""Views give the same rows in DuckDB, Spark and Polars, and say what is true."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta

import duckdb
import pytest

from pregao.lake.sql.duckdb_engine import DuckdbEngine
from pregao.lake.sql.duckdb_script import views_script
from pregao.lake.sql.spark_tables import connect
from pregao.lake.views.definitions import TimestampColumn, define_view, view_names
from pregao.lake.views.polars import scan
from pregao.lake.views.sql import catalog_ddl
from tests.lake.analytics.test_lake_analytics_trades import SETTINGS
from tests.lake.analytics_support import DATE, analysed, message_key, rows

COMPARED = (
    "v_trades", "v_status", "v_auctions", "v_bars", "v_gaps", "v_ingests", "v_rejects",
    "v_umdf_auction_imbalance_19", "v_umdf_security_definition_12", "v_umdf_trade_53",
)  # fmt: skip


@pytest.fixture(scope="module")
def lake():
    return analysed(books=True, **SETTINGS)[0]


@pytest.fixture(scope="module")
def session(spark, lake):
    return connect(lake.location, spark)


def ask(lake, sql):
    return DuckdbEngine(lake).query(sql).rows()


def in_order(found):
    """Rows as texts, whose order says nothing; timestamps are cut to what Spark's can hold."""

    def comparable(value):
        if isinstance(value, datetime):
            return value.replace(tzinfo=None).isoformat(timespec="microseconds")
        if isinstance(value, list):
            return [comparable(one) for one in value]
        if isinstance(value, dict):
            return {name: comparable(one) for name, one in value.items()}
        return value

    return sorted(repr({name: comparable(value) for name, value in row.items()}) for row in found)


@pytest.mark.parametrize("name", COMPARED)
def test_all_engines_give_the_same_rows(lake, session, name):
    by_duckdb = ask(lake, f"SELECT * FROM {name}")
    there = session.table(name).toArrow()
    frame = scan(lake, name).collect().to_arrow()
    assert by_duckdb.column_names == there.column_names == frame.column_names
    assert by_duckdb.num_rows or name in ("v_gaps", "v_rejects")
    assert in_order(by_duckdb.to_pylist()) == in_order(there.to_pylist())
    assert in_order(by_duckdb.to_pylist()) == in_order(frame.to_pylist())


def test_ticks_are_the_same_too(lake, session):
    names = (
        "symbol, event, sequence_number, phase, status, trades_continuously, event_time, "
        "bid_price_1, ask_price_1, state"
    )
    sql = f"SELECT {names} FROM v_ticks"
    by_duckdb, there = ask(lake, sql), session.sql(sql).toArrow()
    frame = scan(lake, "v_ticks").select(names.split(", ")).collect().to_arrow()
    assert by_duckdb.num_rows > 1_000
    assert in_order(by_duckdb.to_pylist()) == in_order(there.to_pylist())
    assert in_order(by_duckdb.to_pylist()) == in_order(frame.to_pylist())


def test_a_view_has_the_rows_and_columns_of_its_table(lake):
    tables = lake.table_names()
    assert set(view_names(tables)) == {f"v_{name}" for name in tables}
    counts = " UNION ALL ".join(
        f"SELECT '{name}' AS name, (SELECT count(*) FROM {name}) AS ours, "
        f"(SELECT count(*) FROM {table}) AS theirs"
        for name, table in view_names(tables).items()
    )
    counted = ask(lake, counts).to_pylist()
    assert len(counted) == len(tables)
    assert [row["name"] for row in counted if row["ours"] != row["theirs"]] == []
    for name, table in view_names(tables).items():
        view = define_view(lake, name)
        columns = [column.name for column in view.columns]
        assert [column for column in columns if column in lake.schema(table).names] == [
            *lake.schema(table).names
        ]
        assert len(set(columns)) == len(columns)


def test_timestamps_are_moments_of_the_day_or_null(lake):
    """No length of time is taken for a moment."""
    begin, end = (datetime.combine(DATE, datetime.min.time()) + timedelta(days=n) for n in (0, 2))
    seen = 0
    for name in view_names(lake.table_names()):
        view = define_view(lake, name)
        moments = [
            column.name for column in view.columns if isinstance(column.value, TimestampColumn)
        ]
        moments = [one for one in moments if one not in ("committed_at", "orig_time")]
        moments = [one for one in moments if "validity" not in one]
        if moments:
            expressions = ", ".join(
                f"min({one}) AS low_{one}, max({one}) AS high_{one}" for one in moments
            )
            (row,) = ask(lake, f"SELECT {expressions} FROM {name}").to_pylist()
            for column, value in row.items():
                assert value is None or begin <= value < end, (name, column, value)
                seen += value is not None
    assert seen > 60


def test_symbols_are_those_of_the_definitions(lake):
    known = {row["security_id"]: row["symbol"] for row in rows(lake, "instruments")}
    sql = "SELECT DISTINCT security_id, symbol FROM v_umdf_order_mbo_50"
    found = {row["security_id"]: row["symbol"] for row in ask(lake, sql).to_pylist()}
    assert found
    assert found.items() <= known.items()


def held_at(lake):
    """The table of states, by instrument, in the order of the channel."""
    found = defaultdict(list)
    for row in rows(lake, "status"):
        if row["security_id"] is not None:
            found[row["channel"], row["security_id"]].append(row)
    for own in found.values():
        own.sort(key=lambda row: (row["event"] or 0, row["from_ns"] or 0))
    return found


def test_a_tick_shows_what_held_after_its_event(lake):
    held = held_at(lake)
    sql = "SELECT channel, security_id, event, status, trades_continuously FROM v_ticks"
    seen = set()
    for tick in ask(lake, sql).to_pylist():
        if tick["event"] is None:
            continue
        before = [
            row
            for row in held[tick["channel"], tick["security_id"]]
            if (row["event"] or 0) <= tick["event"]
        ]
        expected = before[-1] if before else {"status": None, "trades_continuously": None}
        assert tick["status"] == expected["status"]
        assert tick["trades_continuously"] == expected["trades_continuously"]
        seen.add(tick["status"])
    assert {"OPEN", "RESERVED"} <= seen


def test_a_trade_shows_the_phase_at_its_time(lake):
    held = held_at(lake)
    sql = "SELECT * FROM v_trades"
    ends = 0
    for trade in ask(lake, sql).to_pylist():
        before = [
            row
            for row in held[trade["channel"], trade["security_id"]]
            if row["event"] is None or message_key(row) <= message_key(trade)
        ]
        assert trade["status"] == before[-1]["status"]
        if trade["aggressor_side"] is not None:
            assert trade["trades_continuously"]
        ends += trade["status"] == "RESERVED"
    assert ends  # the trades that end an auction were made in it


def test_books_cross_in_auctions_alone(lake):
    sql = """SELECT trades_continuously, min(ask_price_1 - bid_price_1) AS spread FROM v_ticks
        WHERE state = 'valid' GROUP BY 1"""
    spreads = {row["trades_continuously"]: row["spread"] for row in ask(lake, sql).to_pylist()}
    assert spreads[True] > 0
    assert spreads[False] < 0


def test_any_duckdb_reads_the_file_of_views(lake):
    plain = duckdb.connect(":memory:")
    plain.execute("SET autoinstall_known_extensions = false")
    plain.execute(views_script(lake))
    for sql in (
        "SELECT symbol, count(*) AS n, sum(size) AS volume FROM v_trades GROUP BY ALL ORDER BY 1",
        "SELECT count(*) AS n, max(date) AS day FROM umdf_order_mbo_50 WHERE feed = 'A'",
        "SELECT phase, count(*) AS n FROM v_ticks GROUP BY phase ORDER BY phase NULLS FIRST",
        "SELECT * FROM rejects",
        "SELECT percentile(t11_ns - t5_ns, 0.5) AS median FROM v_latency",
        "SELECT no_legs, no_underlyings FROM instruments ORDER BY security_id",
    ):
        assert plain.sql(sql).to_arrow_table().to_pylist() == ask(lake, sql).to_pylist(), sql


def test_statements_for_a_catalog_are_sparks(lake, spark):
    text = catalog_ddl(lake, "main.b3", "s3a://bucket/lake/")
    parser = spark._jsparkSession.sessionState().sqlParser()
    statements = [part for part in text.split(";\n") if part.strip()]
    assert len(statements) == 1 + 2 * len(lake.table_names())
    for statement in statements:
        parser.parsePlan(statement)
    assert "`main`.`b3`.`trades`\nUSING DELTA LOCATION 's3a://bucket/lake/trades'" in text


def test_timestamps_count_nanoseconds_where_they_can(lake, session):
    sql = "SELECT time_ns, time FROM v_trades ORDER BY time_ns LIMIT 1"
    duckdb_rows, spark_rows = ask(lake, sql), session.sql(sql).toArrow()
    ns = duckdb_rows["time_ns"][0].as_py()
    assert duckdb_rows["time"][0].value == ns
    assert spark_rows["time"][0].value == ns // 1_000
    assert spark_rows["time"][0].as_py() == datetime.fromtimestamp(0, UTC) + timedelta(
        microseconds=ns // 1_000
    )
