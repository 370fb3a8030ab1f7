"""The simulated market: requests to the engine, messages of the publisher, a whole run."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.measure import Row
from pregao.clock import MICROSECOND, MINUTE, parse_ns
from pregao.exchange.engine.engine import MatchingEngine
from pregao.exchange.engine.model.commands import CancelOrder, NewOrder
from pregao.exchange.engine.model.enums import OrderSide, TimeInForce, TradingStatus
from pregao.exchange.engine.model.instrument_loader import bundled_catalogue
from pregao.exchange.engine.model.operations_commands import SetGroupPhase
from pregao.exchange.engine.model.reports import OrderRejected
from pregao.exchange.publisher.channels import ChannelEndpoints
from pregao.exchange.publisher.publisher import Publisher
from pregao.exchange.simulation.settings import TRADE_DATE, SimulationSettings
from pregao.exchange.simulation.simulation import Simulation

SECTION = "market"
ORDERS = 200_000
OPEN = parse_ns("2026-05-21T13:00:00")


def run() -> Iterator[Row]:
    requests = list(commands())
    accepted, refused = split_by_outcome(requests)
    units: list[tuple[list[Any], int]] = []
    fastest = 0.0
    for _ in range(3):
        units, rate = engine_run(accepted)
        fastest = max(fastest, rate)
    note = f"{len(refused) / len(requests):.0%} of the flow is refused and excluded"
    yield Row(SECTION, "accepted requests through the engine", fastest / 1e3, "k orders/s", "≥ 60",
              note)  # fmt: skip
    rate = max(engine_run(refused)[1] for _ in range(3))
    yield Row(SECTION, "refused requests through the engine", rate / 1e3, "k orders/s")
    rate = max(publisher_run(units) for _ in range(3))
    yield Row(SECTION, "messages through the publisher", rate / 1e3, "k messages/s", "≥ 100")
    yield from simulation()


def commands() -> Iterator[Any]:
    """Yield 45 % new orders near the top, 45 % cancels and 10 % aggressive orders."""
    rng = random.Random(1)
    instruments = [i for i in bundled_catalogue() if i.security_type.name in ("CS", "PS")][:40]
    standing: list[tuple[int, int]] = []
    for number in range(1, ORDERS + 1):
        draw = rng.random()
        if draw < 0.45 and standing:
            chosen = rng.randrange(len(standing))
            standing[chosen], standing[-1] = standing[-1], standing[chosen]
            original, security = standing.pop()
            yield CancelOrder(1, ORDERS + number, security, orig_cl_ord_id=original)
            continue
        instrument = rng.choice(instruments)
        side = rng.choice((OrderSide.BUY, OrderSide.SELL))
        middle = 100_000
        away = -rng.randrange(1, 40) * 100 if draw < 0.9 else 300
        price = middle + away if side is OrderSide.BUY else middle - away
        aggressive = draw >= 0.9
        yield NewOrder(
            1, 100 + number % 50, number, instrument.security_id, side, 100, price,
            time_in_force=TimeInForce.IMMEDIATE_OR_CANCEL if aggressive else TimeInForce.DAY,
        )  # fmt: skip
        if not aggressive:
            standing.append((number, instrument.security_id))


def open_market() -> MatchingEngine:
    instruments = bundled_catalogue()
    engine = MatchingEngine(instruments, TRADE_DATE)
    for group in sorted({instrument.security_group for instrument in instruments}):
        engine.apply(SetGroupPhase(group, TradingStatus.OPEN), OPEN)
    return engine


def split_by_outcome(requests: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return the accepted and the refused requests; refused ones cost less."""
    engine, now = open_market(), OPEN
    accepted: list[Any] = []
    refused: list[Any] = []
    for command in requests:
        now += 10 * MICROSECOND
        reports = engine.apply(command, now).reports
        is_refused = any(isinstance(report, OrderRejected) for report in reports)
        (refused if is_refused else accepted).append(command)
    return accepted, refused


def engine_run(orders: list[Any]) -> tuple[list[tuple[list[Any], int]], float]:
    """Apply requests; return the events of the engine and the requests per second."""
    engine, now = open_market(), OPEN
    units = []
    start = time.perf_counter()
    for order in orders:
        now += 10 * MICROSECOND
        units.append((engine.apply(order, now).market, now))
    return units, len(orders) / (time.perf_counter() - start)


def publisher_run(units: list[tuple[list[Any], int]]) -> float:
    """Publish the events of the engine; return messages per second."""
    instruments = bundled_catalogue()
    channels = [
        ChannelEndpoints.numbered(number) for number in sorted({i.channel for i in instruments})
    ]
    publisher = Publisher(channels, instruments, OPEN)
    before = publisher.messages
    start = time.perf_counter()
    for events, now in units:
        publisher.publish(events, now)
    return (publisher.messages - before) / (time.perf_counter() - start)


def simulation() -> Iterator[Row]:
    what = "pregao simulate: traders, engine, publisher, three streams, two feeds, pcap"
    note = "the market trades in a worker process"
    # Alternating, because the speed of a shared machine changes.
    rates = [(simulation_run(worker=True), simulation_run(worker=False)) for _ in range(3)]
    two, one = (max(each) for each in zip(*rates, strict=True))
    yield Row(SECTION, what, two / 1e3, "k messages/s", "≥ 60", note)
    yield Row(SECTION, "the same, in one process", one / 1e3, "k messages/s")
    several = max(simulation_run(worker=True, profile="stress") for _ in range(2))
    what = "the same with several channels and more orders (profile stress)"
    yield Row(SECTION, what, several / 1e3, "k messages/s", "≥ 100")


def simulation_run(worker: bool, profile: str = "equities") -> float:
    """Simulate five minutes; return messages per second."""
    with tempfile.TemporaryDirectory() as folder:
        settings: dict[str, Any] = {"instruments": 40, "duration_ns": 5 * MINUTE}
        start = time.perf_counter()
        simulation = Simulation(SimulationSettings(profile, Path(folder), force=True, **settings))
        summary = simulation.run(worker=worker)
        return summary.messages / (time.perf_counter() - start)
