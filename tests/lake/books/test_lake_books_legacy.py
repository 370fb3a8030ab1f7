"""Books, trades and bars of the legacy feed are made as those of the binary feed, and equal."""

from __future__ import annotations

from collections import Counter

import pytest

from pregao.book.state import State
from pregao.clock import SECOND
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
from pregao.lake.books.book_at import book_at
from pregao.lake.books.build import build_books
from pregao.lake.books.catalog import FileCatalog
from pregao.lake.ingest.pipeline import ingest
from pregao.lake.ingest.protocols.legacy_channels import VARIABLE
from pregao.lake.storage.lake_store import LakeStore
from pregao.units import Side, price_text
from tests.exchange.capture_replay import captured, json_lines
from tests.lake.days import rows

TRADE = (
    "security_id", "symbol", "trade_id", "trade_date", "price", "size", "buyer", "seller",
    "busted", "corrected", "publications", "opening", "crossed", "bid_price", "ask_price",
)  # fmt: skip
"""Fields of a trade that both feeds publish."""


def simulated(out, **changes):
    settings = {
        "profile": "derivatives", "duration_ns": 20 * SECOND, "rate": 150.0, "instruments": 6,
        "truth_books": 2, "legacy": LegacyDepth.ORDERS,
    }  # fmt: skip
    Simulation(SimulationSettings(out=out, **(settings | changes))).run()
    return out


def build_lake(lake, captures):
    """A lake with captures, their books and their analytics."""
    assert ingest([str(path) for path in sorted(captures)], str(lake)).committed
    build_books(str(lake))
    analyse(LakeStore(str(lake)), tables=["trades", "bars"])
    return lake


@pytest.fixture(scope="module")
def day(tmp_path_factory):
    return simulated(tmp_path_factory.mktemp("day"))


@pytest.fixture(scope="module")
def binary(day, tmp_path_factory):
    captures = [path for path in day.glob("*.pcap") if "Legacy" not in path.name]
    return build_lake(tmp_path_factory.mktemp("binary") / "lake", captures)


@pytest.fixture(scope="module")
def legacy(day, tmp_path_factory):
    return build_lake(tmp_path_factory.mktemp("legacy") / "lake", day.glob("*Legacy*.pcap"))


@pytest.fixture(scope="module")
def both(day, tmp_path_factory):
    return build_lake(tmp_path_factory.mktemp("both") / "lake", day.glob("*.pcap"))


def trades(lake):
    counts = Counter(tuple(row[name] for name in TRADE) for row in rows(lake, "trades"))
    assert len(counts) > 100
    return counts


def shown(moment):
    """A book as the truth writes it, without times, which have milliseconds on one of the feeds."""
    return [
        [
            [None if one.price is None else price_text(one.price), one.size, one.order_id, one.firm]
            for one in moment.book.orders(side)
        ]
        for side in Side
    ]


def final(folder):
    return [line for line in json_lines(folder / "truth/books.jsonl") if line["final"]]


def ladders(lake):
    """By instrument: the levels of its ticks in sequence, without repetitions."""
    found = {}
    for row in rows(lake, "ticks"):
        levels = tuple(value for name, value in row.items() if name[:4] in ("bid_", "ask_"))
        own = found.setdefault(row["security_id"], [])
        if not own or own[-1] != levels:
            own.append(levels)
    return found


def test_both_feeds_give_the_same_trades_and_bars(binary, legacy):
    assert trades(legacy) == trades(binary)
    names = ("security_id", "interval", "start_ns", "volume", "notional", "vwap", "trades")
    bars = [
        {tuple(row[name] for name in names) for row in rows(lake, "bars")}
        for lake in (legacy, binary)
    ]
    assert bars[0] == bars[1]


def test_both_feeds_give_the_same_books(day, binary, legacy):
    compared = 0
    built = {row["security_id"] for row in rows(legacy, "book_checkpoints")}
    for line in final(day):
        expected = [[order[:4] for order in line[side]] for side in ("bids", "asks")]
        name = str(line["security_id"])
        if line["security_id"] not in built:  # defined, and never ordered
            assert not any(expected)
            continue
        moment = book_at(LakeStore(str(legacy)), name)
        assert shown(moment) == expected == shown(book_at(LakeStore(str(binary)), name))
        assert moment.book.state in (State.VALID, State.EMPTY)
        compared += any(expected)
    assert compared
    legacy_ladders = ladders(legacy)
    for security, levels in ladders(binary).items():
        # A large event is several messages there: ticks more, none less, in the same order.
        more = iter(legacy_ladders[security])
        assert all(each in more for each in levels), security


def test_snapshots_agree_with_the_rebuilt_books(legacy):
    results = Counter(row["result"] for row in rows(legacy, "book_audit"))
    assert results["equal"] > 10
    assert set(results) <= {"equal", "void"}
    assert {row["state"] for row in rows(legacy, "books")} <= {"valid", "empty"}


def test_a_lake_with_both_feeds_counts_nothing_twice(binary, both):
    for table in ("trades", "ticks", "bars", "books"):
        assert rows(both, table) == rows(binary, table)


def test_an_instrument_on_both_feeds_is_read_from_the_binary_one_whatever_its_channel(
    day, binary, tmp_path, monkeypatch
):
    flows = {
        f"{one.flow.dst}:{one.flow.dst_port}"
        for path in day.glob("*Legacy*.pcap")
        for one in captured(path)[:1]
    }
    monkeypatch.setenv(VARIABLE, ",".join(f"{flow}=201" for flow in sorted(flows)))
    lake = build_lake(tmp_path / "lake", day.glob("*.pcap"))
    assert 201 in FileCatalog(LakeStore(str(lake))).channels(
        FileCatalog(LakeStore(str(lake))).dates()[0]
    )
    for table in ("trades", "ticks", "bars"):
        assert rows(lake, table) == rows(binary, table)


def test_no_book_that_differs_is_called_valid_after_loss_and_resets(tmp_path):
    rates = FaultRates(0.1, 0.0, 0.02)
    faults = {"A": rates, "B": rates, "snapshot": FaultRates(), "definition": FaultRates()}
    folder = simulated(
        tmp_path / "day", faults=faults, duration_ns=30 * SECOND,
        resets=(InjectedReset(ResetKind.SEQUENCE, RunPoint(share=0.5)),),
    )  # fmt: skip
    lake = tmp_path / "lake"
    captures = [str(path) for path in sorted(folder.glob("*Legacy*.pcap"))]
    assert ingest(captures, str(lake)).committed
    build_books(str(lake))
    gaps = [row for row in rows(lake, "legacy_gaps") if row["closed_by"] is None]
    assert gaps
    healed = [row for row in rows(lake, "gaps") if row["closed_by"] is not None]
    assert healed
    trusted = 0
    for line in final(folder):
        moment = book_at(LakeStore(str(lake)), str(line["security_id"]))
        if moment.book.state in (State.VALID, State.EMPTY):
            expected = [[order[:4] for order in line[side]] for side in ("bids", "asks")]
            assert shown(moment) == expected
            trusted += 1
    assert trusted
