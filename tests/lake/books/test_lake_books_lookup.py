"""A book at any moment, from checkpoint and replay; and ticks and books as CSV."""

from __future__ import annotations

import csv
import io
from decimal import Decimal
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

from pregao.book.state import State
from pregao.clock import SECOND
from pregao.errors import UsageError
from pregao.lake.books.book_at import book_at, open_books
from pregao.lake.books.build import BookOptions, build_books
from pregao.lake.books.catalog import FileCatalog
from pregao.lake.books.selection import BookSelection
from pregao.lake.exports.tabular import (
    BOOK_SCHEMA,
    export_checkpoints,
    export_moments,
    export_ticks,
    tick_schema,
)
from pregao.lake.ingest.pipeline import ingest
from pregao.lake.storage.lake_store import LakeStore
from pregao.units import Side
from tests.lake.book_days import BookDay, built, simulate

EVERY_SECOND = BookOptions(interval_ns=SECOND)


@cache
def day(**settings) -> BookDay:
    folder = simulate(Path(mkdtemp(prefix="pregao-books-")), seconds=12, **settings)
    return built(folder, options=EVERY_SECOND)


class Lookups(dict):
    """Results of `book_at`, with the books of each instrument opened once."""

    def __init__(self, lake):
        self.catalog = FileCatalog(lake)

    def __missing__(self, symbol):
        self[symbol] = open_books(self.catalog, symbol)
        return self[symbol]

    def at(self, symbol, at_ns):
        return self[symbol].exactly([at_ns])[0]


def orders(moment, side):
    return [
        [
            None if order.price is None else f"{Decimal(order.price).scaleb(-4):.4f}",
            order.size,
            order.order_id,
            order.firm,
            order.insert_time_ns,
        ]
        for order in moment.book.orders(side)
    ]


def check(line, moment):
    assert orders(moment, Side.BID) == line["bids"], line["symbol"]
    assert orders(moment, Side.ASK) == line["asks"], line["symbol"]


@pytest.mark.parametrize("version", [9, 16])
def test_the_book_at_any_time_is_the_engines(version):
    clean = day(version=version)
    symbols = ["PETR3", "PETR4", "VALE3"]
    lookups = Lookups(clean.lake)
    replayed = 0
    for line in clean.truth():
        if line["symbol"] in symbols:
            moment = lookups.at(line["symbol"], line["time_ns"])
            check(line, moment)
            assert moment.current
            assert moment.rpt_seq <= line["rpt_seq"]
            replayed += moment.replayed
            for figure in line["statistics"]:
                if figure["name"] == "ExecutionStatistics":
                    assert moment.trade_volume == figure["trade_volume"]
    assert replayed > 50


def test_without_a_time_it_is_the_end_of_the_day():
    clean = day(version=16)
    for line in [line for line in clean.truth() if line["final"]][:4]:
        moment = book_at(clean.lake, line["symbol"])
        check(line, moment)
        assert moment.replayed == 0


def test_just_before_and_at_a_message():
    clean = day(version=16)
    ticks = [tick for tick in clean.rows("ticks", symbol="PETR4") if tick["state"] == "valid"]
    for tick in ticks[40:50]:
        moment = book_at(clean.lake, "PETR4", tick["sending_time_ns"])
        before = book_at(clean.lake, "PETR4", tick["sending_time_ns"] - 1)
        assert moment.sending_time_ns == tick["sending_time_ns"]
        assert before.sending_time_ns < tick["sending_time_ns"]
        assert before.rpt_seq < moment.rpt_seq


def test_before_the_first_message_there_is_nothing():
    clean = day(version=16)
    first = min(row["sending_time_ns"] for row in clean.rows("packets"))
    moment = book_at(clean.lake, "PETR4", first - 1)
    assert len(moment.book) == 0
    assert moment.book.state is State.EMPTY
    assert moment.sequence_number is None
    assert moment.last_price is None


def test_after_lost_messages_a_book_is_stale_until_healed_by_a_snapshot():
    bad = day(version=16, loss="0.2")
    stale = healed = 0
    symbols = ["PETR3", "PETR4", "VALE3", "ITUB4"]
    lookups = Lookups(bad.lake)
    for line in [line for line in bad.truth() if line["symbol"] in symbols]:
        moment = lookups.at(line["symbol"], line["time_ns"])
        if moment.book.state is State.STALE:
            stale += 1
        elif moment.rpt_seq == line["rpt_seq"]:
            check(line, moment)
            healed += 1
    assert stale > 1
    assert healed > 10


def test_between_joining_late_and_the_first_checkpoint():
    late = day(version=16, late_join="0.5")
    rows = late.rows("book_checkpoints", symbol="PETR4")
    first = min(row["sending_time_ns"] for row in rows)
    moment = book_at(late.lake, "PETR4", first - 1)
    assert moment.book.state is State.VALID
    assert moment.low_limit_price is not None
    ticks = late.rows("ticks", symbol="PETR4")
    tick = [tick for tick in ticks if tick["sending_time_ns"] < first][-1]
    best = moment.book.orders(Side.BID)[0]
    assert Decimal(best.price).scaleb(-4) == tick["bid_price_1"]
    assert moment.trade_volume == tick["trade_volume"]
    begin = min(row["sending_time_ns"] for row in late.rows("packets"))
    assert book_at(late.lake, "PETR4", begin - 1).sequence_number is None
    last = [line for line in late.truth() if line["final"] and line["symbol"] == "PETR4"]
    check(last[0], book_at(late.lake, "PETR4"))


def test_an_instrument_may_be_named_by_its_number():
    clean = day(version=16)
    by_symbol = book_at(clean.lake, "PETR4")
    by_number = book_at(clean.lake, str(by_symbol.instrument.security_id))
    assert by_number.instrument == by_symbol.instrument
    assert len(by_number.book) == len(by_symbol.book) > 0


def test_books_that_were_not_built_and_unknown_names_are_reported(tmp_path):
    lake = LakeStore(tmp_path / "lake")
    with pytest.raises(UsageError, match="not a lake"):
        book_at(lake, "PETR4")
    source = day(version=16)
    ingest([str(path) for path in sorted(source.folder.glob("*.pcap"))], lake.location)
    with pytest.raises(UsageError, match="pregao books"):
        book_at(lake, "PETR4")
    with pytest.raises(UsageError, match="has no instrument XYZ"):
        book_at(lake, "XYZ")
    build_books(lake.location, BookOptions(symbols=("PETR4",)))
    assert len(book_at(lake, "PETR4").book) > 0


def test_more_data_since_the_build_is_noticed(tmp_path):
    source = day(version=16)
    lake = LakeStore(tmp_path / "lake")
    ingest([str(path) for path in sorted(source.folder.glob("*Inc*.pcap"))], lake.location)
    ingest([str(path) for path in sorted(source.folder.glob("*Definition*.pcap"))], lake.location)
    build_books(lake.location)
    assert book_at(lake, "PETR4").current
    ingest([str(path) for path in sorted(source.folder.glob("*Snapshot*.pcap"))], lake.location)
    assert not book_at(lake, "PETR4").current


# CSV


def read_csv(write):
    sink = io.BytesIO()
    count = write(sink)
    rows = list(csv.DictReader(io.StringIO(sink.getvalue().decode())))
    assert len(rows) == count
    return sink.getvalue().decode().partition("\n")[0].split(","), rows


def test_ticks_have_the_articles_columns_and_the_tables_values():
    clean = day(version=16)
    selection = BookSelection(symbols=("PETR4",))
    heading, rows = read_csv(lambda sink: export_ticks(clean.lake, selection, 10, sink))
    assert heading[:8] == [
        "updateTime", "updateNano", "securityID", "Symbol", "lastPrice", "tradeVolume",
        "bid_px1", "bid_sz1",
    ]  # fmt: skip
    assert heading[-2:] == ["ask_px10", "ask_sz10"]
    assert heading == tick_schema(10).names
    assert len(heading) == 46
    ticks = clean.rows("ticks", symbol="PETR4")
    assert len(rows) == len(ticks) > 50
    for row, tick in zip(rows, ticks, strict=True):
        when = int(row["updateTime"]) * SECOND + int(row["updateNano"])
        assert when == tick["event_time_ns"]
        assert int(row["securityID"]) == tick["security_id"]
        for side in ("bid", "ask"):
            for level in range(1, 11):
                price, size = tick[f"{side}_price_{level}"], tick[f"{side}_size_{level}"]
                assert row[f"{side}_px{level}"] == ("" if price is None else str(price))
                assert row[f"{side}_sz{level}"] == ("" if size is None else str(size))


def test_books_have_the_articles_columns_then_side_position_price_and_size():
    clean = day(version=16)
    heading, rows = read_csv(
        lambda sink: export_checkpoints(clean.lake, BookSelection(), sink, all_of_them=False)
    )
    assert heading == BOOK_SCHEMA.names
    assert heading[:3] == ["updateTime", "updateNano", "secondaryOrderID"]
    assert heading[-4:] == ["side", "position", "price", "size"]
    finals = {line["symbol"]: line for line in clean.truth() if line["final"]}
    for symbol, line in finals.items():
        own = [row for row in rows if row["Symbol"] == symbol]
        for name, side in (("BID", "bids"), ("ASK", "asks")):
            mine = [row for row in own if row["side"] == name]
            assert [int(row["position"]) for row in mine] == list(range(1, len(mine) + 1))
            assert [
                [row["price"] or None, int(row["size"]), int(row["secondaryOrderID"])]
                for row in mine
            ] == [order[:3] for order in line[side]]
        for row in own:
            assert int(row["totNumBids"]) == len(line["bids"])
            assert int(row["totNumOffers"]) == len(line["asks"])


def test_books_at_a_moment_have_the_same_rows_as_the_checkpoint_there():
    clean = day(version=16)
    _, ends = read_csv(
        lambda sink: export_checkpoints(
            clean.lake, BookSelection(symbols=("PETR4",)), sink, all_of_them=False
        )
    )
    _, moment = read_csv(lambda sink: export_moments([book_at(clean.lake, "PETR4")], sink))
    assert moment == ends
    assert ends[0]["highLimitPrice"] != ""


def test_every_checkpoint_can_be_exported():
    clean = day(version=16)
    _, some = read_csv(
        lambda sink: export_checkpoints(clean.lake, BookSelection(), sink, all_of_them=False)
    )
    _, every = read_csv(
        lambda sink: export_checkpoints(clean.lake, BookSelection(), sink, all_of_them=True)
    )
    assert len(every) > 3 * len(some)


def test_selections_by_channel_and_date():
    clean = day(version=16)
    nothing = BookSelection(channels=(3,))
    _, rows = read_csv(lambda sink: export_ticks(clean.lake, nothing, 2, sink))
    assert rows == []
    number = clean.rows("books")[0]["security_id"]
    _, rows = read_csv(
        lambda sink: export_ticks(clean.lake, BookSelection(symbols=(str(number),)), 2, sink)
    )
    assert {int(row["securityID"]) for row in rows} == {number}
