"""`pregao.Lake`: tables in every engine, books at any moment, SQL, ingest, audit."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

import pregao
from pregao.errors import UsageError

BUSIEST_SYMBOL = """
    SELECT symbol, count(*) AS trades FROM v_trades GROUP BY symbol ORDER BY trades DESC, symbol
"""


@pytest.fixture(scope="module")
def symbol(lake):
    return lake.sql(BUSIEST_SYMBOL)["symbol"][0].as_py()


@pytest.fixture(scope="module")
def security_id(lake, symbol):
    rows = lake.table("instruments", columns=["security_id"], where=f"symbol = '{symbol}'")
    return rows["security_id"][0].as_py()


def test_an_ingest_makes_messages_books_and_analytics(lake_report):
    lake, report = lake_report
    assert report["messages"]["decoded"] > 500
    assert {made["table"] for made in report["analytics"]} >= {"trades", "bars"}
    assert report["books"]
    assert {"packets", "trades", "book_checkpoints", "umdf_trade_53"} <= set(lake.tables)


def test_ingested_captures_are_not_ingested_again(lake, day):
    before = lake.sql("SELECT count(*) AS n FROM umdf_order_mbo_50")["n"][0]
    again = lake.ingest([day], books=False, analytics=False)
    assert again["messages"]["decoded"] == 0
    assert "books" not in again
    assert lake.sql("SELECT count(*) AS n FROM umdf_order_mbo_50")["n"][0] == before


def json_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def rows_of(table):
    columns = [table[name].to_pylist() for name in ("symbol", "trade_id", "price")]
    return sorted(zip(*columns, strict=True))


def test_engines_give_the_same_rows(lake, day):
    columns = ["symbol", "trade_id", "price"]
    rows = lake.table("trades", columns=columns)
    done = {(one["symbol"], one["trade_id"]) for one in json_lines(day / "truth" / "trades.jsonl")}
    assert {row[:2] for row in rows_of(rows)} == done
    expected = rows_of(rows)
    lazy = lake.table("trades", engine="polars", columns=columns)
    assert rows_of(lazy.collect().to_arrow()) == expected
    assert rows_of(lake.table("trades", engine="duckdb").to_arrow_table()) == expected
    frame = lake.table("trades", engine="pandas", columns=columns)
    assert sorted(frame.itertuples(index=False, name=None)) == expected


@pytest.mark.parametrize("engine", ["arrow", "polars"])
def test_conditions_choose_rows(lake, symbol, engine):
    rows = lake.table("trades", engine=engine, where=f"symbol = '{symbol}'", columns=["symbol"])
    rows = rows.collect().to_arrow() if engine == "polars" else rows
    expected = lake.sql(BUSIEST_SYMBOL)["trades"][0].as_py()
    assert rows["symbol"].to_pylist() == [symbol] * expected


def test_a_table_has_names_unless_stored_values_are_requested(lake):
    assert {"time", "phase"} <= set(lake.table("trades").schema.names)
    assert lake.table("v_trades").schema == lake.table("trades").schema
    for name in ("trades", "v_trades"):
        assert not {"time", "phase"} & set(lake.table(name, raw=True).schema.names)


def test_a_relation_outlives_the_lake_that_gave_it(lake):
    path = lake._lake.location.path
    relation = pregao.Lake(path).table("trades", engine="duckdb").filter("size > 0").limit(1)
    assert len(relation.fetchall()) == 1


def test_the_book_at_the_end_is_the_exchanges(lake, day, symbol, security_id):
    (last,) = (
        one
        for one in json_lines(day / "truth" / "books.jsonl")
        if one["security_id"] == security_id and one["final"]
    )
    book = lake.book(symbol)
    assert book.state is pregao.State.VALID
    assert book.trusted
    for side, levels in (("bids", book.bids), ("asks", book.asks)):
        assert sum(level.size for level in levels) == sum(size for _, size, *_ in last[side])
        assert sum(level.orders for level in levels) == len(last[side])
    assert [(order.price, order.size, order.order_id) for order in book.orders] == [
        (None if price is None else Decimal(price), size, order_id)
        for price, size, order_id, *_ in [*last["bids"], *last["asks"]]
    ]
    assert str(book).startswith(f"{symbol} ")
    assert lake.book(symbol.lower()) == lake.book(security_id) == book


def test_a_time_is_of_the_zone_that_is_named(lake, symbol):
    when = lake.table("trades", columns=["time_ns"], where=f"symbol = '{symbol}'")
    at = when["time_ns"][0].as_py() // 1_000_000_000
    time = datetime.fromtimestamp(at, UTC)
    there = datetime.fromtimestamp(at - 3 * 3600, UTC).replace(tzinfo=None)
    expected = lake.book(symbol, at * 1_000_000_000)
    for same in (
        lake.book(symbol, time),
        lake.book(symbol, str(time)),
        lake.book(symbol, there, tz="America/Sao_Paulo"),
        lake.book(symbol, f"{there}", tz="America/Sao_Paulo"),
        lake.book(symbol, f"{there}-03:00", tz="Asia/Tokyo"),
    ):
        assert same == expected


def test_a_book_after_the_data_states_where_the_data_ends(lake, symbol):
    book = lake.book(symbol, "2026-05-21T23:00:00")
    assert book.data_ends_ns is not None
    assert book.data_ends_ns < book.at_ns
    assert lake.book(symbol, day="2026-05-21").orders == book.orders


def test_the_audit_counts_equal_snapshots(lake, symbol):
    audit = lake.audit()
    assert audit.passed
    assert audit.snapshots == audit.results["equal"] + audit.results["start"] > 0
    one = lake.audit(symbols=symbol, days=[date(2026, 5, 21)])
    assert one.instruments == 1
    assert 0 < one.snapshots < audit.snapshots


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda lake: lake.table("trade"), "has no table trade; it has"),
        (lambda lake: lake.table("trades", engine="excel"), "engine must be one of .* was 'excel'"),
        (lambda lake: lake.table("trades", where="nothing = 1"), '"nothing" not found'),
        (lambda lake: lake.sql("DROP TABLE trades"), "accepts one query"),
        (lambda lake: lake.sql("SELECT 1", engine="excel"), "'local', 'spark', was 'excel'"),
        (lambda lake: lake.book("NOBODY9"), "has no instrument NOBODY9"),
        (lambda lake: lake.book("PETR4", "noon"), "'noon' is not a valid time"),
        (lambda lake: lake.book("PETR4", "2026-05-21", tz="Mars"), "Unknown time zone 'Mars'"),
        (lambda lake: lake.book("PETR4", day="today"), "'today' is not a valid day"),
        (lambda lake: pregao.Lake("nowhere").tables, "nowhere is not a lake"),
    ],
)
def test_an_error_is_one_line(lake, ask, words):
    with pytest.raises(UsageError, match=words):
        ask(lake)


def test_a_scan_gives_a_table_in_batches(lake):
    whole = lake.table("ticks", where="symbol = 'PETR4'", columns=["event", "bid_price_1"])
    batches = list(
        lake.scan("ticks", where="symbol = 'PETR4'", columns=["event", "bid_price_1"], rows=50)
    )
    assert len(batches) > 1
    assert max(batch.num_rows for batch in batches) <= 2048  # DuckDB's smallest batch
    rows = [row for batch in batches for row in batch.to_pylist()]
    key = lambda row: (row["event"] or 0, row["bid_price_1"] or 0)  # noqa: E731
    assert sorted(rows, key=key) == sorted(whole.to_pylist(), key=key)
    with pytest.raises(UsageError, match="rows must be at least 1"):
        next(lake.scan("ticks", rows=0))
