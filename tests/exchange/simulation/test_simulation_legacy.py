"""Simulated days on both feeds: the captures of the legacy one give the exchange's own books."""

from __future__ import annotations

import json

import pytest

from pregao.book.state import State
from pregao.clock import SECOND
from pregao.exchange.simulation.network_faults import FaultRates
from pregao.exchange.simulation.settings import LegacyDepth, SimulationSettings
from pregao.exchange.simulation.simulation import Simulation
from pregao.feed.legacy.channel import LegacyStreamFollower, LegacyStreamSettings
from pregao.legacy.streams import LegacyStream
from pregao.units import Side, price_text
from tests.exchange.capture_replay import captured, json_lines

FILES = {
    "Incremental_A": (LegacyStream.INCREMENTAL, "A"),
    "Incremental_B": (LegacyStream.INCREMENTAL, "B"),
    "Snapshot": (LegacyStream.MARKET_RECOVERY, "A"),
    "InstrumentDefinition": (LegacyStream.INSTRUMENT_DEFINITION, "A"),
}


def simulated(out, **changes):
    settings = SimulationSettings(
        profile="derivatives", out=out, duration_ns=6 * SECOND, rate=200.0, instruments=8,
        truth_books=2, **changes,
    )  # fmt: skip
    Simulation(settings).run()
    return json.loads((out / "truth/summary.json").read_text())


def followed(folder, number, depth, **settings):
    """A channel that has followed the captures of a day."""
    channel = LegacyStreamFollower(LegacyStreamSettings(market_depth=depth, **settings))
    arrived = []
    for name, (stream, feed) in FILES.items():
        for each in captured(folder / f"{number:03d}_Legacy_{name}.pcap"):
            arrived.append((each.time_ns, stream, feed, each.payload))
    arrived.sort(key=lambda each: each[0])
    for time_ns, stream, feed, payload in arrived:
        channel.tick(time_ns)
        channel.receive(stream, feed, payload, time_ns)
    channel.tick(arrived[-1][0] + SECOND)
    return channel


def added_up(rows, depth):
    levels = {}
    for price, size, *_ in rows:
        level = levels.setdefault(price, [0, 0])
        level[0] += size
        level[1] += 1
    return [[price, *level] for price, level in levels.items()][:depth]


def shown(channel, security_id, depth):
    book = channel.book(security_id)
    text = {None: None}
    sides = []
    for side in Side:
        rows = []
        if book is not None and depth is None:
            rows = [
                [order.price, order.size, order.order_id, order.firm] for order in book.orders(side)
            ]
        elif book is not None:
            rows = [[level.price, level.size, level.orders] for level in book.levels(side)]
        for row in rows:
            row[0] = text.get(row[0]) if row[0] is None else price_text(row[0])
        sides.append(rows)
    return sides


@pytest.mark.parametrize("kind", list(LegacyDepth))
def test_both_feeds_of_a_day_give_the_same_books_and_trades(tmp_path, kind):
    summary = simulated(tmp_path, legacy=kind)
    depth = kind.market_depth
    final = [line for line in json_lines(tmp_path / "truth/books.jsonl") if line["final"]]
    compared = 0
    for number in map(int, summary["channels"]):
        channel = followed(tmp_path, number, depth)
        for line in final:
            if line["channel"] != number:
                continue
            expected = [line["bids"], line["asks"]]
            if depth is None:
                expected = [[row[:4] for row in side] for side in expected]
            else:
                expected = [added_up(side, depth) for side in expected]
            assert channel.book_state(line["security_id"]) in (State.VALID, State.EMPTY)
            assert shown(channel, line["security_id"], depth) == expected
            compared += any(expected)
        trades = [
            (trade.security_id, int(trade.trade_id), "BUST" if trade.busted else "NEW")
            for trade in channel.state.take_trades()
        ]
        assert trades == [
            (line["security_id"], line["trade_id"], line["action"])
            for line in json_lines(tmp_path / "truth/trades.jsonl")
            if line["channel"] == number
        ]
    assert compared


def test_a_day_over_bad_lines_is_healed_by_snapshots(tmp_path):
    faults = {
        "A": FaultRates(0.05, 0.01, 0.01), "B": FaultRates(0.05, 0.01, 0.01),
        "snapshot": FaultRates(), "definition": FaultRates(),
    }  # fmt: skip
    summary = simulated(tmp_path, legacy=LegacyDepth.ORDERS, faults=faults)
    (number, *_) = map(int, summary["channels"])
    counts = json.loads((tmp_path / "truth/faults.json").read_text())["channels"][str(number)]
    assert counts["legacy A"]["lost"]
    channel = followed(tmp_path, number, None)
    counters = channel.incremental.counters
    assert counters.duplicates
    assert counters.delivered
    final = [line for line in json_lines(tmp_path / "truth/books.jsonl") if line["final"]]
    same = 0
    for line in final:
        if line["channel"] == number and channel.book_state(line["security_id"]) is State.VALID:
            rows = shown(channel, line["security_id"], None)
            assert rows == [[row[:4] for row in line[side]] for side in ("bids", "asks")]
            same += 1
    assert same
