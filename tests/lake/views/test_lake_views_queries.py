"""The bundled queries: both engines return the same rows, and the page shows the files."""

import math
from datetime import datetime

import duckdb
import pytest

from pregao.capture import PcapWriter, udp_frame
from pregao.errors import UsageError
from pregao.lake.ingest.pipeline import ingest
from pregao.lake.ingest.protocols.legacy_channels import VARIABLE
from pregao.lake.sql.duckdb_engine import DuckdbEngine
from pregao.lake.sql.examples import example, examples, page
from pregao.lake.sql.spark_engine import SparkEngine
from pregao.lake.sql.spark_tables import connect
from pregao.lake.storage.lake_store import LakeStore
from tests.lake.analytics.test_lake_analytics_trades import SETTINGS
from tests.lake.analytics_support import analysed, few_partitions
from tests.lake.lake_support import ROOT
from tests.legacy.writing import entry, incremental

NAMES = [one.name for one in examples() if not one.name.startswith("legacy_")]
MAY_BE_EMPTY = {"missing_packets", "likely_icebergs"}


@pytest.fixture(scope="module")
def engines(spark):
    lake, _ = analysed(books=True, **SETTINGS)
    with few_partitions(spark):
        yield DuckdbEngine(lake), SparkEngine(connect(lake.location, spark))


def plain(value):
    """A value as both engines give it: timestamps in UTC to the microsecond, numbers as numbers."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(timespec="microseconds")
    return value


def same(one, other):
    if isinstance(one, float) or isinstance(other, float):
        if one is None or other is None:
            return one is other
        return math.isclose(float(one), float(other), rel_tol=1e-9, abs_tol=1e-9)
    return one == other


@pytest.mark.parametrize("name", NAMES)
def test_both_engines_answer_alike(engines, name):
    first, second = (engine.query(example(name).sql).rows() for engine in engines)
    assert first.column_names == second.column_names
    assert first.num_rows == second.num_rows
    assert first.num_rows or name in MAY_BE_EMPTY
    for one, other in zip(first.to_pylist(), second.to_pylist(), strict=True):
        for column in one:
            assert same(plain(one[column]), plain(other[column])), (name, column, one, other)


def test_both_engines_answer_alike_about_the_legacy_feed(spark, tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, "233.1.1.1:5001=51")
    trades = [
        entry(
            "2", action, 1111, at, size=at, price="10.5", TradeID=number, TradeCondition=condition
        )
        for at, (action, number, condition) in enumerate(
            [(0, "10", None), (0, "20", "X"), (2, "10", None), (0, "", "U"), (0, "20", "X")], 1
        )
    ]
    with PcapWriter(tmp_path / "a.pcap") as writer:
        for number, trade in enumerate(trades, 1):
            payload = incremental(number, trade)
            frame = udp_frame("10.0.0.1", 9, "233.1.1.1", 5001, payload)
            writer.write(1_376_308_800_000_000_000 + number, frame)
    ingest([str(tmp_path / "a.pcap")], str(tmp_path / "lake"))
    lake = LakeStore(str(tmp_path / "lake"))
    engines = (DuckdbEngine(lake), SparkEngine(connect(lake.location, spark)))
    first, second = (engine.query(example("legacy_trades").sql).rows() for engine in engines)
    assert first.to_pylist() == second.to_pylist()
    assert [(row["trade_id"], row["size"]) for row in first.to_pylist()] == [("20", 5)]


@pytest.mark.parametrize(
    ("sizes", "bid_depth", "ask_depth"),
    [
        ("0.01, NULL, NULL, NULL", 30, 300),
        ("NULL, NULL, NULL, 0.01", 30, 300),
        ("NULL, NULL, NULL, NULL", 10, 100),
    ],
    ids=["current", "version 7", "without a tick size"],
)
def test_depth_near_the_best_with_and_without_a_tick_size(sizes, bid_depth, ask_depth):
    columns = ", ".join(
        f"{side}_{what}_{level}"
        for side in ("bid", "ask")
        for level in range(1, 5)
        for what in ("price", "size")
    )
    connection = duckdb.connect()
    connection.execute(
        f"""CREATE TABLE v_ticks AS SELECT DATE '2026-05-21' AS date, 51 AS channel,
        7 AS security_id, 'PETR4' AS symbol, TIMESTAMP '2026-05-21 13:00:00' AS event_time,
        1 AS sequence_version, 1 AS sequence_number, 1 AS event, true AS trades_continuously,
        'valid' AS state, * FROM (VALUES (36.08, 10, 36.05, 20, 36.04, 40, NULL, NULL,
        36.09, 100, 36.12, 200, 36.13, 400, NULL, NULL)) AS levels({columns})"""
    )
    connection.execute(
        f"""CREATE TABLE v_instruments AS SELECT DATE '2026-05-21' AS date, 51 AS channel,
        7 AS security_id, * FROM (VALUES ({sizes})) AS ticks(min_price_increment,
        min_price_increment_v9, min_price_increment_v8, min_price_increment_v7)"""
    )
    (row,) = connection.sql(example("depth_near_the_best").sql).fetchall()
    assert row[-2:] == (bid_depth, ask_depth)


def test_the_page_shows_the_files():
    assert (ROOT / "docs" / "queries.md").read_text() == page(), (
        "generate it again with: python -c "
        "'from pregao.lake.sql.examples import page; print(page(), end=\"\")' > docs/queries.md"
    )


def test_there_are_twenty_queries_of_views_with_descriptions():
    assert len(NAMES) >= 20
    for one in examples():
        assert "v_" in one.sql
        assert one.answers.endswith(".")
        assert "umdf_trade_53" not in one.sql


def test_busted_trades_count_nowhere():
    for one in examples():
        if "FROM v_trades" in one.sql and one.name != "busts_and_corrections":
            assert "NOT busted" in one.sql, one.name


def test_a_name_is_found_however_it_is_written():
    assert example("VWAP-by-minute.sql").name == "vwap_by_minute"
    with pytest.raises(UsageError, match="Did you mean vwap_by_minute"):
        example("vwap_by_second")
