"""Exports have the content of the lake's books and trades, for every reader."""

import csv
import io
import json
import os
import subprocess
from dataclasses import fields
from datetime import date
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import duckdb
import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import pregao
from pregao.book.update_rows import NULL
from pregao.cli.main import app
from pregao.lake.analytics.bars import BARS
from pregao.lake.analytics.session_stats import SESSION_STATS
from pregao.lake.books.book_at import find_instrument
from pregao.lake.books.catalog import FileCatalog
from pregao.lake.books.columns import integers
from pregao.lake.exports.levels import Halt, ladders
from pregao.lake.exports.lobster import write_lobster
from pregao.lake.exports.nautilus import (
    COLUMNS,
    OPTION,
    InstrumentTerms,
    catalog_files,
    instrument_table,
    terms_of,
)
from pregao.lake.exports.order_events import ChangeCause, FlowAction, OrderFlow, order_flow
from pregao.lake.storage.lake_store import LakeStore

pytestmark = pytest.mark.slow

SYMBOL = "PETR4"
DAY = date(2026, 5, 21)
START_NS = 1_779_357_600_000_000_000  # 10:00 UTC of that day
ROOT = Path(pregao.__file__).parents[2]
CONSUMERS = Path(os.environ.get("PREGAO_CONSUMERS", ROOT / ".venv-consumers"), "bin", "python")


def build_lake(folder, **wishes):
    pregao.simulate(folder / "day", instruments=6, messages=9_000, duration="4m", **wishes)
    lake = pregao.Lake(folder / "lake")
    lake.ingest(folder / "day")
    return folder / "lake"


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    return build_lake(tmp_path_factory.mktemp("exports"))


@pytest.fixture(scope="module")
def lossy(tmp_path_factory):
    """A lake of a day on which both lines lost some packets."""
    return build_lake(tmp_path_factory.mktemp("lossy"), seed=3, loss=0.02)


def instruments(lake):
    catalogue = FileCatalog(LakeStore(lake))
    names = (
        pregao.Lake(lake)
        .sql("SELECT symbol, channel FROM orders GROUP BY ALL ORDER BY count(*) DESC LIMIT 3")
        .to_pylist()
    )
    return [find_instrument(catalogue, row["symbol"], None, row["channel"]) for row in names]


def ticks_of(lake, instrument):
    """The ticks of an instrument's day without unknown state: event key and ten levels."""
    levels = ", ".join(
        f"{side}_{part}_{level}"
        for side in ("bid", "ask") for level in range(1, 11) for part in ("price", "size", "orders")
    )  # fmt: skip
    return pregao.Lake(lake).sql(
        "SELECT sequence_version * 100000000000000 + sequence_number * 10000 "
        f"+ coalesce(index_in_packet, 9999) AS place, {levels} FROM ticks "
        f"WHERE channel = {instrument.channel} AND security_id = {instrument.security_id} "
        "AND state IN ('valid', 'empty', 'unconfirmed') AND NOT (bid_price_1 IS NULL "
        "AND bid_orders_1 > 0) AND NOT (ask_price_1 IS NULL AND ask_orders_1 > 0) "
        "ORDER BY 1"
    )


@pytest.mark.parametrize("which", ["lake", "lossy"])
def test_the_flow_of_orders_makes_the_books_of_the_lake(which, request):
    """After the last act of every event the ten best levels are those of the table ticks."""
    folder = request.getfixturevalue(which)
    compared = 0
    causes = set()
    for instrument in instruments(folder):
        flow = order_flow(LakeStore(folder), instrument)
        causes |= set(flow.cause.tolist())
        flow = flow.priced()
        rebuilt = ladders(flow, 10)
        ticks = ticks_of(folder, instrument)
        at = np.searchsorted(flow.event_key, integers(ticks["place"]), side="right") - 1
        assert (at >= 0).all()
        for side, name in enumerate(("bid", "ask")):
            for level in range(10):
                orders = integers(ticks[f"{name}_orders_{level + 1}"], 0)
                for part, own in (
                    ("price", rebuilt.price), ("size", rebuilt.size), ("orders", rebuilt.orders),
                ):  # fmt: skip
                    from_ticks = integers(ticks[f"{name}_{part}_{level + 1}"], NULL)
                    empty = NULL if part == "price" else 0
                    expected = np.where(orders > 0, from_ticks, empty)
                    np.testing.assert_array_equal(own[side, at, level], expected)
        compared += len(at)
    assert compared > 1_000
    assert {ChangeCause.REQUEST, ChangeCause.FILL, ChangeCause.AUCTION} <= causes
    if which == "lossy":
        assert {ChangeCause.SNAPSHOT, ChangeCause.CLEARING} & causes


def test_quantities_removed_from_orders_equal_the_traded_ones(lake):
    """In continuous trading the fills of an event's resting orders add up to its trades."""
    instrument = find_instrument(FileCatalog(LakeStore(lake)), SYMBOL, None, None)
    flow = order_flow(LakeStore(lake), instrument)
    event = np.append(0, np.cumsum(flow.last_of_event)[:-1])
    count = int(event[-1]) + 1
    fills = (flow.cause == ChangeCause.FILL) & (flow.act != FlowAction.TRADE)
    trades = (flow.act == FlowAction.TRADE) & ~flow.off_book
    taken = np.bincount(event, np.where(fills, flow.old_size - flow.size, 0), count)
    traded = np.bincount(event, np.where(trades, flow.size, 0), count)
    both = (taken > 0) & (traded > 0)
    assert both.sum() > 20
    busted = pregao.Lake(lake).sql(f"SELECT size FROM trades WHERE symbol = '{SYMBOL}' AND busted")
    more = (taken - traded)[both]
    # Trades that were busted later are left out; what they took of orders is not given back.
    assert set(more[more != 0]) <= set(integers(busted["size"]).tolist())


def exported(lake, what, output, *more, symbol=SYMBOL):
    arguments = ["export", what, "--lake", str(lake), "--symbol", symbol, "-o", str(output), *more]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return output


def last_book(lake):
    book = pregao.Lake(lake).book(SYMBOL)
    return book.bids, book.asks


def traded(lake):
    rows = pregao.Lake(lake).sql(
        f"SELECT count(*) AS n, sum(size) AS size FROM trades "
        f"WHERE symbol = '{SYMBOL}' AND NOT busted"
    )
    return rows.to_pylist()[0]


def test_lobster(lake, tmp_path):
    folder = exported(lake, "lobster", tmp_path / "lobster", "--depth", "5")
    names = sorted(path.name for path in folder.iterdir())
    assert len(names) == 2
    assert names[0].startswith("PETR4_2026-05-21_324")  # just after nine in São Paulo
    assert [name.rpartition("5.csv")[0].split("_")[-2] for name in names] == [
        "message", "orderbook",
    ]  # fmt: skip
    messages, books = (list(csv.reader((folder / name).read_text().splitlines())) for name in names)
    assert len(messages) == len(books) > 500
    assert {row[1] for row in messages} >= {"1", "2", "3", "4", "6"}
    assert all(Decimal(row[3]) > 0 for row in messages if row[1] != "7")
    times = [Decimal(row[0]) for row in messages]
    assert times == sorted(times)
    # Replayed as LOBSTER says, the messages make the book of the last row.
    orders = {}
    for _, kind, number, size, price, direction in messages:
        if number == "0":
            continue  # a trade without a visible order, or a halt
        if kind == "1":
            orders[number] = [int(direction), int(price), int(size)]
        else:
            orders[number][2] -= int(size)
            assert orders[number][:2] == [int(direction), int(price)]
    bids, asks = last_book(lake)
    for sign, levels, at in ((1, bids, 2), (-1, asks, 0)):
        totals = {}
        for direction, price, size in orders.values():
            if direction == sign and size:
                totals[price] = totals.get(price, 0) + size
        best = sorted(totals, reverse=sign == 1)[:5]
        own = [(int(level.price * 10_000), level.size) for level in levels[:5]]
        assert [(price, totals[price]) for price in best] == own
        row = list(map(int, books[-1]))
        exported_levels = [(row[at + 4 * n], row[at + 1 + 4 * n]) for n in range(len(own))]
        assert exported_levels == own


def halted(lake, symbol):
    """When an instrument did not trade in the session, by the table status: kinds of LOBSTER."""
    rows = pregao.Lake(lake).sql(
        f"SELECT status FROM status WHERE symbol = '{symbol}' ORDER BY from_ns, sequence_number"
    )
    states, before = [], None
    for row in rows.to_pylist():
        match before, row["status"]:
            case "OPEN", "PAUSE":
                states.append("-1")
            case "OPEN", "RESERVED":
                states += ["-1", "0"]
            case "PAUSE", "RESERVED":
                states.append("0")
            case "PAUSE" | "RESERVED", "OPEN" if states and states[-1] != "1":
                states.append("1")
        before = row["status"]
    return states


@pytest.mark.parametrize("symbol", ["BBAS3", "ITUB4", "PETR3"])
def test_lobster_contains_halts_and_called_auctions(lake, tmp_path, symbol):
    if symbol == "PETR3":
        assert any(halted(lake, each) for each in ("BBAS3", "ITUB4", "PETR3"))
    folder = exported(lake, "lobster", tmp_path / "lobster", symbol=symbol)
    messages, books = (path.read_text().splitlines() for path in sorted(folder.iterdir()))
    rows = [line.split(",") for line in messages]
    halts = [index for index, row in enumerate(rows) if row[1] == "7"]
    assert [rows[index][4] for index in halts] == halted(lake, symbol)
    for index in halts:
        assert rows[index][2:4] == ["0", "0"]
        assert books[index] == books[index - 1]
    times = [Decimal(row[0]) for row in rows]
    assert times == sorted(times)


def flow_of(acts, price=NULL):
    """A flow of one order's acts, all without a price."""
    count = len(acts)
    values = {each.name: np.zeros(count, np.int64) for each in fields(OrderFlow)}
    values |= {"act": np.array(acts, np.uint8), "cause": np.zeros(count, np.uint8)}
    values |= {"side": np.zeros(count, np.uint8), "last_of_event": np.ones(count, np.bool_)}
    values |= {"off_book": np.zeros(count, np.bool_), "order_id": np.full(count, 7)}
    values |= {"price": np.full(count, price), "old_price": np.full(count, price)}
    values["event_time"] = values["capture_time"] = START_NS + np.arange(count) * 1_000_000
    values["size"] = values["old_size"] = np.full(count, 100)
    return OrderFlow(**values)


@pytest.mark.parametrize(
    "acts", [[FlowAction.ADD], [FlowAction.ADD, FlowAction.CHANGE, FlowAction.DELETE], []]
)
@pytest.mark.parametrize("halts", [(), (Halt(0, START_NS, 0),)])
def test_a_flow_of_unpriced_orders_alone_is_an_empty_file(acts, halts):
    flow = flow_of(acts)
    messages, books = io.BytesIO(), io.BytesIO()
    assert write_lobster(flow, DAY, 3, "UTC", messages, books, halts) == 0
    assert (messages.getvalue(), books.getvalue()) == (b"", b"")
    instrument = SimpleNamespace(symbol="PETR4", security_id=1, date=DAY, channel=51)
    assert catalog_files(flow, instrument, InstrumentTerms()) == {}


def test_a_flow_of_one_priced_order_is_a_message():
    messages, books = io.BytesIO(), io.BytesIO()
    assert write_lobster(flow_of([FlowAction.ADD], 105_800), DAY, 1, "UTC", messages, books) == 1
    assert messages.getvalue() == b"36000.000000000,1,7,100,105800,1\n"
    assert books.getvalue() == b"9999999999,0,105800,100\n"


def test_mbo_and_mbp_10(lake, tmp_path):
    rows = pq.read_table(exported(lake, "mbo", tmp_path / "mbo.parquet"))
    orders = {}
    for row in rows.to_pylist():
        match row["action"]:
            case "A" | "M":
                orders[row["order_id"]] = [row["side"], row["price"], row["size"]]
            case "C":
                orders[row["order_id"]][2] -= row["size"]
    trades = [row["size"] for row in rows.to_pylist() if row["action"] == "T"]
    assert {"n": len(trades), "size": sum(trades)} == traded(lake)
    bids, asks = last_book(lake)
    for side, levels in (("B", bids), ("A", asks)):
        totals = {}
        for own, price, size in orders.values():
            if own == side and size:
                totals[price] = totals.get(price, 0) + size
        assert totals == {int(level.price * 10**9): level.size for level in levels}
    path = exported(lake, "mbp-10", tmp_path / "mbp.csv")
    last = duckdb.sql(f"SELECT * FROM read_csv('{path}') ORDER BY ts_event").fetchall()[-1]
    names = duckdb.sql(f"SELECT * FROM read_csv('{path}')").columns
    last_row = dict(zip(names, last, strict=True))
    assert last_row["bid_px_00"] == int(bids[0].price * 10**9)
    assert (last_row["bid_sz_00"], last_row["bid_ct_00"]) == (bids[0].size, bids[0].orders)
    assert (last_row["ask_px_00"], last_row["ask_sz_00"]) == (
        int(asks[0].price * 10**9),
        asks[0].size,
    )


def test_a_name_that_does_not_fit_the_format_is_an_error(lake, tmp_path):
    for what, name, words in (
        ("hftbacktest", "day.csv", "must end in .npz"),
        ("lobster", "day.csv", "give a folder"),
        ("nautilus", "day.parquet", "give a folder"),
        ("mbo", "day.npz", "must end in .csv"),
    ):
        arguments = ["export", what, "--lake", str(lake), "--symbol", SYMBOL]
        result = CliRunner().invoke(app, [*arguments, "-o", str(tmp_path / name)])
        assert words in str(result.exception)
    result = CliRunner().invoke(app, ["export", "mbo", "--lake", str(lake), "-o", "x.csv"])
    assert "requires --symbol" in str(result.exception)


def read_by_the_consumer(code, *arguments):
    """JSON output of a program in the consumers' environment."""
    done = subprocess.run(
        [CONSUMERS, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


needs_consumers = pytest.mark.skipif(
    not CONSUMERS.exists(),
    reason="the environment with hftbacktest and NautilusTrader is not there: see the Makefile",
)
BACKTEST = """
import json, sys
from hftbacktest import BacktestAsset, HashMapMarketDepthBacktest
asset = (
    BacktestAsset().data([sys.argv[1]]).linear_asset(1.0).constant_latency(0, 0)
    .no_partial_fill_exchange().trading_value_fee_model(0, 0).tick_size(0.01).lot_size(1.0)
)
asset = asset.l3_fifo_queue_model() if sys.argv[2] == "L3" else asset.risk_adverse_queue_model()
backtest = HashMapMarketDepthBacktest([asset])
while backtest.elapse(60_000_000_000) == 0:
    pass
depth = backtest.depth(0)
print(json.dumps([depth.best_bid, depth.best_bid_qty, depth.best_ask, depth.best_ask_qty]))
"""


@needs_consumers
@pytest.mark.parametrize(("what", "kind"), [("hftbacktest", "L3"), ("hftbacktest-l2", "L2")])
def test_hftbacktest_sees_the_last_book(lake, tmp_path, what, kind):
    path = exported(lake, what, tmp_path / "day.npz")
    events = np.load(path)["data"]
    assert (np.diff(events["exch_ts"]) >= 0).all()
    assert (np.diff(events["local_ts"]) >= 0).all()
    bids, asks = last_book(lake)
    found = read_by_the_consumer(BACKTEST, path, kind)
    best = [float(bids[0].price), bids[0].size, float(asks[0].price), asks[0].size]
    assert found == pytest.approx(best)


NAUTILUS = """
import json, sys
from nautilus_trader.model.book import OrderBook
from nautilus_trader.model.enums import BookType
from nautilus_trader.persistence.catalog import ParquetDataCatalog
catalog = ParquetDataCatalog(sys.argv[1])
one, = catalog.instruments()
book = OrderBook(one.id, BookType.L3_MBO)
for delta in catalog.order_book_deltas([str(one.id)]):
    book.apply_delta(delta)
ticks = catalog.trade_ticks([str(one.id)])
print(json.dumps({
    "class": type(one).__name__,
    "increment": str(one.price_increment),
    "terms": {
        name: str(getattr(one, name))
        for name in ("underlying", "multiplier", "expiration_ns", "strike_price")
        if hasattr(one, name)
    },
    "bids": [[str(level.price), level.size()] for level in book.bids()],
    "asks": [[str(level.price), level.size()] for level in book.asks()],
    "n": len(ticks), "size": sum(int(tick.size) for tick in ticks),
}))
"""


@needs_consumers
def test_nautilus_sees_the_last_book_and_the_trades(lake, tmp_path):
    found = read_by_the_consumer(NAUTILUS, exported(lake, "nautilus", tmp_path / "catalog"))
    assert (found["class"], found["increment"]) == ("Equity", "0.01")
    for name, levels in zip(("bids", "asks"), last_book(lake), strict=True):
        assert found[name] == [[f"{level.price:.2f}", level.size] for level in levels]
    assert {"n": found["n"], "size": found["size"]} == traded(lake)


@pytest.fixture(scope="module")
def derivatives(tmp_path_factory):
    folder = tmp_path_factory.mktemp("derivatives")
    wishes = {"profile": "derivatives", "instruments": 24, "messages": 4_000, "duration": "2m"}
    pregao.simulate(folder / "day", **wishes)
    lake = pregao.Lake(folder / "lake")
    lake.ingest(folder / "day")
    return folder / "lake"


def definition(lake, kind):
    """The busiest instrument of a kind, with its definition."""
    rows = pregao.Lake(lake).sql(
        "SELECT i.symbol, asset, contract_multiplier, strike_price, min_price_increment, "
        "security_validity_timestamp_s AS ends FROM instruments i JOIN orders USING (security_id) "
        f"WHERE security_type = '{kind}' GROUP BY ALL ORDER BY count(*) DESC LIMIT 1"
    )
    return rows.to_pylist()[0]


@pytest.mark.parametrize("sub_type", [90, 140, 141, "140"])
def test_000_16_1_strategies_and_rollovers_are_not_options(sub_type):
    row = dict.fromkeys(COLUMNS) | {"security_type": "OPT", "put_or_call": "CALL"}
    assert terms_of(row | {"security_sub_type": 60}).kind == OPTION
    assert terms_of(row | {"security_sub_type": sub_type}).kind is None


@pytest.mark.parametrize(
    ("day", "begins_ns"),
    [
        (None, 0),
        (date(1, 1, 1), 0),
        (date(1969, 12, 31), 0),
        (date(2026, 5, 21), 1_779_332_400 * 10**9),
        (date(9999, 12, 31), 9_223_372_036 * 10**9),
    ],
)
def test_days_are_within_the_times_of_nautilus(day, begins_ns):
    row = dict.fromkeys(COLUMNS) | {"security_type": "FUT", "issue_date": day, "maturity_date": day}
    terms = terms_of(row)
    assert (terms.begins_ns, terms.ends_ns) == (begins_ns, begins_ns)
    table = instrument_table("1", "DOLF26", terms, 1)
    assert table["activation_ns"].to_pylist() == [begins_ns]


def test_001_9_2_8_columns_say_that_divisor_and_multiplier_do_not_count():
    for table in (BARS, SESSION_STATS):
        (notional,) = (each for each in table.columns if each.name == "notional")
        comment = notional.metadata[b"comment"].decode()
        assert "without price divisor and contract multiplier" in comment


@needs_consumers
@pytest.mark.parametrize(
    ("kind", "called"), [("FUT", "FuturesContract"), ("SOPT", "OptionContract")]
)
def test_nautilus_knows_derivatives(derivatives, tmp_path, kind, called):
    own = definition(derivatives, kind)
    symbol = own["symbol"]
    folder = exported(derivatives, "nautilus", tmp_path / "catalog", symbol=symbol)
    found = read_by_the_consumer(NAUTILUS, folder)
    assert found["class"] == called
    assert Decimal(found["increment"]) == own["min_price_increment"]
    assert found["terms"]["underlying"] == own["asset"]
    assert Decimal(found["terms"]["multiplier"]) == (own["contract_multiplier"] or 1)
    assert int(found["terms"]["expiration_ns"]) == own["ends"] * 10**9
    if kind == "SOPT":
        assert Decimal(found["terms"]["strike_price"]) == own["strike_price"]
    book = pregao.Lake(derivatives).book(symbol)
    for name, levels in (("bids", book.bids), ("asks", book.asks)):
        assert [[Decimal(price), size] for price, size in found[name]] == [
            [level.price, level.size] for level in levels
        ]


@pytest.mark.parametrize(
    ("sub_type", "expected"), [(90, None), (140, None), (141, None), (20, OPTION), (None, OPTION)]
)
def test_002_13_4_strategies_and_rollovers_are_not_options(sub_type, expected):
    row = dict.fromkeys(COLUMNS) | {"security_type": "OPT", "put_or_call": "CALL"}
    assert terms_of(row | {"security_sub_type": sub_type}).kind is expected
