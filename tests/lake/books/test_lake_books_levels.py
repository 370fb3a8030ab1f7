"""Channels of the legacy feed with price levels: books, ticks and audits in the lake.

One session is published with all its orders, recorded as the truth and on the binary feed,
and with price levels: at any time the levels are those of the orders.
"""

from __future__ import annotations

import csv
import io
from collections import Counter

import pytest

from pregao.book.state import State
from pregao.clock import SECOND
from pregao.errors import UsageError
from pregao.exchange.simulation.network_faults import FaultRates
from pregao.exchange.simulation.settings import (
    InjectedReset,
    LegacyDepth,
    ResetKind,
    RunPoint,
    SimulationSettings,
)
from pregao.exchange.simulation.simulation import Simulation
from pregao.lake.analytics.run import analyse
from pregao.lake.books.book_at import book_at, open_books
from pregao.lake.books.build import build_books
from pregao.lake.books.catalog import FileCatalog
from pregao.lake.books.selection import BookSelection
from pregao.lake.exports.tabular import export_checkpoints, export_moments
from pregao.lake.ingest.pipeline import ingest
from pregao.lake.storage.lake_store import LakeStore
from pregao.units import Side
from tests.exchange.capture_replay import json_lines
from tests.lake.book_days import UNTRUSTED, levels, tick_levels
from tests.lake.days import rows

KINDS = {LegacyDepth.PRICES: 5, LegacyDepth.TOP: 1}
CALM = {name: FaultRates() for name in ("snapshot", "definition")}


def simulated(out, kind, **changes):
    settings = {
        "profile": "derivatives", "duration_ns": 12 * SECOND, "rate": 150.0, "instruments": 5,
        "truth_books": 12, "legacy": kind,
    }  # fmt: skip
    Simulation(SimulationSettings(out=out, **(settings | changes))).run()
    return out


def build_lake(lake, captures):
    """A lake with captures and their books."""
    assert ingest([str(path) for path in sorted(captures)], str(lake)).committed
    build_books(str(lake))
    return LakeStore(str(lake))


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: kind.value)
def whole(request, tmp_path_factory):
    """A complete day: its folder, the lake of its levels, and the number of levels on the feed."""
    folder = simulated(tmp_path_factory.mktemp("day"), request.param)
    lake = build_lake(tmp_path_factory.mktemp("levels") / "lake", folder.glob("*Legacy*.pcap"))
    return folder, lake, KINDS[request.param]


def shown(moment):
    """The levels of both sides, as those of the truth are added up."""
    return [
        [
            (None if level.price is None else level.price, level.size, level.orders)
            for level in moment.book.levels(side)
        ]
        for side in Side
    ]


def expected(line, depth):
    return [
        [
            (None if price is None else int(price.scaleb(4)), size, orders)
            for price, size, orders in levels(line[side], depth)
        ]
        for side in ("bids", "asks")
    ]


def compared(folder, lake, depth):
    """Hold the books at all moments of the truth against it; gives how many were compared.

    Stale and unconfirmed books may have any content.
    """
    known = {row["security_id"] for row in rows(lake.location.uri, "book_checkpoints")}
    refreshes = rows(lake.location.uri, "legacy_incremental_refresh")
    begins = min(row["sending_time_ns"] for row in refreshes)
    books = {}
    found = Counter()
    for line in json_lines(folder / "truth/books.jsonl"):
        if line["time_ns"] < begins:
            continue
        if line["security_id"] not in known:
            assert line["bids"] == line["asks"] == []
            continue
        security = str(line["security_id"])
        if security not in books:
            books[security] = open_books(FileCatalog(lake), security)
        # The feed's times have milliseconds: what was sent before, and no more.
        moment = books[security].at(None if line["final"] else line["time_ns"] - 1)
        if moment.book.state in (State.STALE, State.UNCONFIRMED):
            found["untrusted"] += 1
            continue
        assert shown(moment) == expected(line, depth), (line["symbol"], line["time_ns"])
        assert moment.market_depth == depth
        assert moment.book.orders(Side.BID) == []
        found["equal"] += 1
        found["occupied"] += any(line[side] for side in ("bids", "asks"))
    return found


def test_levels_are_those_of_the_orders_at_any_moment(whole):
    folder, lake, depth = whole
    found = compared(folder, lake, depth)
    assert found["occupied"] > 20
    assert not found["untrusted"]


def test_ticks_show_every_change_of_the_levels(whole, tmp_path):
    folder, lake, depth = whole
    captures = [path for path in folder.glob("*.pcap") if "Legacy" not in path.name]
    binary = build_lake(tmp_path / "lake", captures)

    def ladders(lake):
        ladder = {}
        for tick in rows(lake.location.uri, "ticks"):
            sides = tuple(tuple(tick_levels(tick, side, depth)) for side in ("bid", "ask"))
            own = ladder.setdefault(tick["security_id"], [])
            if not own or own[-1] != sides:
                own.append(sides)
        return ladder

    published = ladders(lake)
    changes = 0
    for security, own in ladders(binary).items():
        # A large event is several messages there: ticks more, none less, in the same order.
        more = iter(published[security])
        assert all(each in more for each in own), security
        changes += len(own)
    assert changes > 100
    columns = [set(rows(each.location.uri, "ticks")[0]) for each in (lake, binary)]
    assert columns[0] == columns[1]


def test_snapshots_agree_with_the_levels(whole):
    _, lake, depth = whole
    results = Counter(row["result"] for row in rows(lake.location.uri, "book_audit"))
    assert results["equal"] > 10
    assert set(results) <= {"equal", "void"}
    books = rows(lake.location.uri, "books")
    assert {(row["kind"], row["market_depth"]) for row in books} == {("price", depth)}
    assert {row["state"] for row in books} <= {"valid", "empty"}


def test_checkpoints_hold_levels_and_no_orders(whole):
    folder, lake, depth = whole
    last = {
        row["security_id"]: row
        for row in rows(lake.location.uri, "book_checkpoints")
        if row["reason"] == "end"
    }
    for line in json_lines(folder / "truth/books.jsonl"):
        if not line["final"] or line["security_id"] not in last:
            continue
        row = last[line["security_id"]]
        assert row["bids"] is row["asks"] is None
        for side, own in (("bids", "bid_levels"), ("asks", "ask_levels")):
            found = [(level["price"], level["size"], level["orders"]) for level in row[own]]
            assert found == levels(line[side], depth)


def test_exported_books_are_levels_with_their_numbers_of_orders(whole):
    _, lake, _ = whole
    sink = io.BytesIO()
    assert export_checkpoints(lake, BookSelection(), sink, all_of_them=False)
    found = list(csv.DictReader(io.StringIO(sink.getvalue().decode())))
    name = found[0]["Symbol"]
    own = [row for row in found if row["Symbol"] == name]
    moment = book_at(lake, name)
    for side, text in ((Side.BID, "BID"), (Side.ASK, "ASK")):
        assert [
            (float(row["price"]), int(row["size"]), int(row["numberOfOrders"]))
            for row in own
            if row["side"] == text
        ] == [
            (level.price / 10_000, level.size, level.orders) for level in moment.book.levels(side)
        ]
    assert {row["secondaryOrderID"] for row in found} == {""}
    sink = io.BytesIO()
    export_moments([moment], sink)
    assert list(csv.DictReader(io.StringIO(sink.getvalue().decode()))) == own


def trades_file(folder):
    return folder / "truth/trades.jsonl"


def test_bars_and_trades_are_derived_from_the_levels_too(whole):
    folder, lake, _ = whole
    analyse(lake, tables=["trades", "bars"])
    trades = rows(lake.location.uri, "trades")
    traded = {(line["security_id"], line["trade_id"]) for line in json_lines(trades_file(folder))}
    assert {(row["security_id"], row["trade_id"]) for row in trades} == traded
    assert any(row["bid_price"] is not None for row in trades)
    assert sum(row["volume"] for row in rows(lake.location.uri, "bars") if row["interval"] == "1m")


@pytest.mark.parametrize(
    ("kind", "late", "reset"),
    [
        (LegacyDepth.PRICES, None, ResetKind.CHANNEL),
        (LegacyDepth.PRICES, None, ResetKind.SEQUENCE),
        (LegacyDepth.PRICES, 0.4, None),
        (LegacyDepth.TOP, None, ResetKind.SEQUENCE),
    ],
    ids=["reset", "numbers restart", "late", "top, numbers restart"],
)
def test_no_levels_that_differ_are_called_valid_after_loss(tmp_path, kind, late, reset):
    rates = FaultRates(0.1, 0.0, 0.02)
    folder = simulated(
        tmp_path / "day", kind, faults={"A": rates, "B": rates, **CALM},
        late_join=None if late is None else RunPoint(share=late),
        resets=() if reset is None else (InjectedReset(reset, RunPoint(share=0.5)),),
    )  # fmt: skip
    lake = build_lake(tmp_path / "lake", folder.glob("*Legacy*.pcap"))
    found = compared(folder, lake, KINDS[kind])
    assert found["occupied"]
    assert any(row["closed_by"] is not None for row in rows(lake.location.uri, "gaps"))
    assert any(row["state"] in UNTRUSTED for row in rows(lake.location.uri, "ticks"))


def test_without_snapshots_the_number_of_levels_is_unknown(tmp_path):
    folder = simulated(tmp_path / "day", LegacyDepth.PRICES, duration_ns=4 * SECOND)
    captures = [*folder.glob("*Legacy_Inc*_A.pcap"), *folder.glob("*Legacy_Instr*.pcap")]
    lake = build_lake(tmp_path / "lake", captures)
    assert rows(lake.location.uri, "ticks") == []
    listed = [row["symbol"] for row in rows(lake.location.uri, "legacy_security_list")]
    with pytest.raises(UsageError, match="ingest the channel's market recovery stream"):
        book_at(lake, listed[0])
