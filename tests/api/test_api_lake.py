"""`pregao.Lake`: tables in every engine, books at any moment, SQL, ingest, audit."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import matplotlib as mpl
import numpy as np
import polars
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import pregao
from pregao.cli.main import app
from pregao.errors import UsageError

mpl.use("Agg")

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


def places(rows):
    """The time, channel, packet and index of each row of a table, as its place in time."""
    names = ("channel", "sequence_version", "sequence_number", "index_in_packet")
    time = "time_ns" if "time_ns" in rows.column_names else "sending_time_ns"
    return list(zip(*(rows[name].to_pylist() for name in (time, *names)), strict=True))


@pytest.mark.parametrize("engine", ["arrow", "duckdb", "pandas", "polars"])
@pytest.mark.parametrize("name", ["trades", "ticks", "umdf_order_mbo_50"])
@pytest.mark.parametrize("raw", [False, True])
def test_rows_are_in_event_order(lake, engine, name, raw):
    def read(**choice):
        rows = lake.table(name, engine=engine, raw=raw, **choice)
        if engine == "polars":
            return rows.collect().to_arrow()
        if engine == "pandas":
            return pa.Table.from_pandas(rows, preserve_index=False)
        return rows.to_arrow_table() if engine == "duckdb" else rows

    found = places(read())
    assert found == sorted(found)
    assert len(found) >= 50
    # Also by columns that are not read.
    some = read(columns=["channel"], where="channel > 0")
    assert some.num_rows == len(found)
    unsorted = places(read(ordered=False))
    assert sorted(unsorted) == found
    if name == "ticks" and (engine != "polars" or raw):  # the files have them by instrument
        assert unsorted != found


def test_scans_and_views_are_in_event_order(lake):
    batches = list(lake.scan("ticks", rows=50))
    found = places(pa.Table.from_batches(batches))
    assert found == sorted(found)
    assert places(pa.Table.from_batches(lake.scan("ticks", ordered=False))) != found
    names = "sending_time_ns, channel, sequence_version, sequence_number, index_in_packet"
    for query in (f"SELECT {names} FROM v_ticks", "FROM v_ticks WHERE bid_size_1 > 0"):
        listed = places(lake.sql(query))
        assert len(listed) > 50
        assert listed == sorted(listed)
        assert places(lake.sql(f"{query} LIMIT 5")) == listed[:5]
    # A query with an order of its own keeps it.
    backwards = lake.sql(f"SELECT {names} FROM v_ticks ORDER BY ALL DESC")
    assert places(backwards) == found[::-1]


def test_columns_have_the_types_that_libraries_calculate_with(lake):
    frame = lake.table("trades", engine="pandas", where="symbol = 'PETR4'")
    kinds = {name: str(kind) for name, kind in frame.dtypes.items()}
    assert kinds["time"] == kinds["bust_time"] == "datetime64[ns, UTC]"
    assert kinds["time_ns"] == kinds["bust_time_ns"] == kinds["size"] == "Int64"
    assert kinds["channel"] == "Int16"
    assert kinds["busted"] == "boolean"
    assert frame["bust_time_ns"].isna().any()
    assert list(frame["time"].astype("int64")) == list(frame["time_ns"])
    assert {type(price) for price in frame["price"]} == {Decimal}
    exact = lake.table("trades", where="symbol = 'PETR4'")
    assert exact.schema.field("time").type == pa.timestamp("ns", "UTC")
    lazy = lake.table("trades", engine="polars", where="symbol = 'PETR4'").collect()
    assert lazy.schema["time"] == polars.Datetime("ns", "UTC")
    assert lazy["time"].cast(int).to_list() == exact["time_ns"].to_pylist()
    assert lazy.schema["price"] == polars.Decimal(18, 4)
    # A batch of a scan has the same types as the table.
    batch = next(lake.scan("trades", where="symbol = 'PETR4'", tz="America/Sao_Paulo"))
    assert batch.schema.field("time").type == pa.timestamp("ns", "America/Sao_Paulo")


def test_nanoseconds_are_kept_where_times_are_missing(lake):
    frame = lake.table("trades", engine="pandas", columns=["trade_id", "bust_time_ns"])
    exact = lake.table("trades", columns=["trade_id", "bust_time_ns"]).to_pylist()
    busted = {row["trade_id"]: row["bust_time_ns"] for row in exact if row["bust_time_ns"]}
    found = frame.dropna().itertuples(index=False, name=None)
    assert dict(found) == busted
    assert any(time % 1000 for time in busted.values())


@pytest.mark.parametrize("engine", ["arrow", "pandas", "polars", "duckdb"])
def test_prices_are_floats_on_request(lake, engine):
    columns = ["time", "price", "bid_price", "size"]
    exact = lake.table("trades", columns=columns)
    rows = lake.table("trades", engine=engine, columns=columns, prices="float")
    rows = rows.collect() if engine == "polars" else rows
    rows = rows.to_arrow_table() if engine == "duckdb" else rows
    column = rows["price"]
    prices = column.to_list() if engine in ("polars", "pandas") else column.to_pylist()
    # The nearest float, not one beside it.
    assert prices == [float(price) for price in exact["price"].to_pylist()]
    assert {type(price) for price in prices} == {float}


def test_pandas_calculates_with_float_prices(lake):
    frame = lake.table("trades", engine="pandas", prices="float", tz="America/Sao_Paulo")
    frame = frame.set_index("time")
    assert str(frame.index.dtype) == "datetime64[ns, America/Sao_Paulo]"
    assert frame["bid_price"].isna().any()
    bars = frame["price"].resample("1min").ohlc()
    assert bars["high"].max() == frame["price"].max()
    returns = np.log(frame["price"].where(frame["price"] > 0)).diff()
    assert returns.std() > 0
    assert frame[["price", "size"]].describe().loc["count"].tolist() == [len(frame)] * 2
    (drawn,) = frame["price"].plot().lines
    assert list(drawn.get_ydata()) == list(frame["price"])


def test_timestamps_are_in_the_zone_that_is_named(lake):
    times = lake.table("trades", columns=["time_ns"])["time_ns"].to_pylist()
    there = lake.table("trades", columns=["time"], tz="America/Sao_Paulo")["time"].to_pylist()
    assert [str(time)[-6:] for time in there] == ["-03:00"] * len(times)
    assert [time.value for time in there] == times
    lazy = lake.table("trades", engine="polars", columns=["time"], tz="America/Sao_Paulo").collect()
    assert lazy.schema["time"] == polars.Datetime("ns", "America/Sao_Paulo")
    assert lazy["time"].cast(int).to_list() == times


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
        (lambda lake: lake.table("trades", prices="cents"), "one of decimal, float, was 'cents'"),
        (
            lambda lake: lake.table("trades", tz="Mars"),
            "was 'Mars'",
        ),
        (lambda lake: lake.table("trades", engine="duckdb", tz="Asia/Tokyo"), "must be UTC with"),
        (lambda lake: lake.sql("DROP TABLE trades"), "accepts one query"),
        (lambda lake: lake.sql("SELECT 1", engine="excel"), "'local', 'spark', was 'excel'"),
        (lambda lake: lake.book("NOBODY9"), "has no instrument NOBODY9"),
        (lambda lake: lake.book("PETR4", "noon"), "'noon' is not a valid time"),
        (
            lambda lake: lake.book("PETR4", "2026-05-21", tz="Mars"),
            "was 'Mars'",
        ),
        (
            lambda lake: lake.book("PETR4", day="today"),
            "day must be a date such as 2026-05-21",
        ),
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


def listed_rows(found):
    """Rows of any engine's result as tuples."""
    if hasattr(found, "fetchall"):
        return found.fetchall()
    if hasattr(found, "collect"):
        return found.collect().rows()
    if hasattr(found, "to_pylist"):
        return [tuple(row.values()) for row in found.to_pylist()]
    return list(found.itertuples(index=False, name=None))


@pytest.mark.parametrize("engine", ["arrow", "pandas", "polars", "duckdb"])
def test_readers_select_instruments_and_times(lake, engine):
    every = lake.table("trades", columns=["symbol", "time_ns", "trade_id"]).to_pylist()
    times = sorted(row["time_ns"] for row in every)
    since, until = times[len(times) // 4], times[-len(times) // 4]
    found = lake.trades(
        ["petr4", "PETR3"], since, until, columns=["symbol", "time_ns", "trade_id"], engine=engine
    )
    wanted = [
        tuple(row.values())
        for row in every
        if row["symbol"] in ("PETR4", "PETR3") and since <= row["time_ns"] < until
    ]
    assert listed_rows(found) == wanted
    assert 0 < len(wanted) < len(every)
    bars = lake.bars("PETR4", interval="60s", columns=["start_ns"], engine=engine)
    assert listed_rows(bars) == sorted(
        {(row["time_ns"] // 60_000_000_000 * 60_000_000_000,) for row in every
         if row["symbol"] == "PETR4"}
    )  # fmt: skip


def test_readers_of_each_table_are_those_of_the_lake(lake):
    (defined,) = lake.instruments("PETR4").to_pylist()
    assert defined["symbol"] == "PETR4"
    by_id = lake.orders(defined["security_id"], day=str(defined["date"]), where="side = 'BUY'")
    own = f"symbol = 'PETR4' AND side = 'BUY' AND date = DATE '{defined['date']}'"
    assert by_id.equals(lake.table("orders", where=own))
    ticks = lake.ticks("PETR4", "2026-05-21 09:01", tz="America/Sao_Paulo", prices="float")
    assert ticks.equals(
        lake.table(
            "ticks", prices="float", tz="America/Sao_Paulo",
            where="symbol = 'PETR4' AND sending_time_ns >= 1779364860000000000",
        )
    )  # fmt: skip
    assert repr(lake.ticks) == "<rows of ticks: call it with a symbol, since and until>"


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda lake: lake.trades("PETR5"), r"knows no instrument PETR5. Did you mean PETR"),
        (lambda lake: lake.trades(1.5), "symbol must be a symbol such as 'PETR4', .* was 1.5"),
        (lambda lake: lake.trades([]), "symbol must be a symbol"),
        (lambda lake: lake.trades("PETR4", interval="1m"), "^interval is for bars; trades have no"),
        (lambda lake: lake.bars(interval="soon"), "^interval must be a duration such as"),
        (lambda lake: lake.instruments(since="2026-05-21"), "no times: select a day with day="),
        (lambda lake: lake.ticks(since=1779364800), "If it is in seconds, append 9 zeros"),
        (
            lambda lake: lake.export("xls", "x.csv"),
            "^what must be one of ticks, book, mbo, .*'xls'",
        ),
        (lambda lake: lake.export("mbo", "x.csv"), "requires symbols"),
        (lambda lake: lake.export("mbo", "x.csv", at="2026-05-21 12:01"), "^at requires"),
    ],
)
def test_readers_and_exports_refuse_what_they_cannot_select(lake, read, message):
    with pytest.raises(UsageError, match=message):
        read(lake)


def test_an_export_is_that_of_the_command(lake, tmp_path):
    path = repr(lake).split("'")[1]
    for what, name, depth in (("ticks", "ticks.csv", 3), ("mbo", "mbo.csv", 10)):
        found = lake.export(what, tmp_path / name, symbols=["PETR4", "PETR3"], depth=depth)
        assert found == [tmp_path / name]
        arguments = [
            "export", what, "--lake", path, "--symbol", "PETR4,PETR3",
            "--depth", str(depth), "-o", str(tmp_path / f"command-{name}"),
        ]  # fmt: skip
        assert CliRunner().invoke(app, arguments).exit_code == 0
        assert found[0].read_bytes() == (tmp_path / f"command-{name}").read_bytes()
    with pytest.raises(UsageError, match="already exists; use force=True to replace it"):
        lake.export("ticks", tmp_path / "ticks.csv")
    book = lake.export(
        "book", tmp_path / "b.csv", symbols="PETR4", at="2026-05-21 09:02", tz="America/Sao_Paulo"
    )
    lines = book[0].read_text().splitlines()
    assert len(lines) - 1 == len(lake.book("PETR4", at="2026-05-21 12:02").orders) > 0
