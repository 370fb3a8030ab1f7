"""Twelve rows that compare two commits; `python -m bench.rows NAME` prints one.

Each is short enough to run many times in alternation with another commit; see `bench.compare`.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

# Size of the simulated day, a tenth of that of `make bench`; set before `bench.days` reads it.
os.environ.setdefault("PREGAO_BENCH_MESSAGES", "1_000_000")

from bench import books, days, decoding, fast, feed, gateway, market, traffic
from bench.measure import Row, best
from pregao.capture import datagrams, read_packets
from pregao.clock import MINUTE
from pregao.exchange.simulation.settings import SimulationSettings
from pregao.exchange.simulation.simulation import Simulation
from pregao.lake.ingest.pipeline import ingest

_REPLAYED = 100_000


def _first(rows: Iterator[Row]) -> float:
    return next(rows).value


def columns() -> float:
    return _first(decoding.columns())


def mixed() -> float:
    with tempfile.TemporaryDirectory() as folder:
        capture = Path(folder) / "mixed.pcap"
        traffic.write_capture(str(capture), traffic.packets(60_000), copies=2)
        return _first(decoding.mixed(capture))


def codec() -> float:
    return _first(decoding.codec())


def fast_columns() -> float:
    return _first(fast.run())


def engine() -> float:
    return _first(market.run())


def publisher() -> float:
    accepted, _ = market.split_by_outcome(list(market.commands()))
    units, _ = market.engine_run(accepted)
    return max(market.publisher_run(units) for _ in range(3))


def orders() -> float:
    with gateway.Exchange("none") as exchange:
        return max(gateway.throughput(exchange) for _ in range(2))


def restart() -> float:
    gateway.REPLAYED = _REPLAYED
    return _REPLAYED / gateway.replay()


def _sent() -> feed.Datagrams:
    with tempfile.TemporaryDirectory() as folder:
        settings = SimulationSettings(
            profile="equities", out=Path(folder), instruments=feed.INSTRUMENTS,
            duration_ns=10 * MINUTE, messages=feed.MESSAGES, truth_books=1, force=True,
        )  # fmt: skip
        Simulation(settings).run()
        capture = Path(folder) / f"{feed.CHANNEL:03d}_Incremental_A.pcap"
        read = datagrams(read_packets(capture))
        return [(each.time_ns, bytes(each.payload)) for each in read]


def channel() -> float:
    sent = _sent()
    return len(sent) / best(lambda: feed.follow(sent, "A"))


def fast_path() -> float:
    batch = feed.batch_of(_sent())
    return 1 / min(feed.fast_path_times(batch, 1024)[1] for _ in range(3))


def lake() -> float:
    with tempfile.TemporaryDirectory(dir=days.folder()) as folder:
        into = Path(folder) / "lake"
        fastest = 0.0
        for _ in range(3):
            shutil.rmtree(into, ignore_errors=True)
            report = ingest([str(days.one_feed())], str(into))
            fastest = max(fastest, report.messages / report.seconds)
        return fastest


def book_kernel() -> float:
    rows, start = books.order_flow(50)
    return books.EVENTS / min(books.replayed(rows, start, 10) for _ in range(5))


ROWS: dict[str, Callable[[], float]] = {
    "order messages to Arrow columns": columns,
    "mixed stream of all templates": mixed,
    "message codec, decode": codec,
    "FAST messages to columns": fast_columns,
    "requests through the engine": engine,
    "messages through the publisher": publisher,
    "orders through the gateway, journal synced": orders,
    "journaled orders replayed": restart,
    "a channel followed, plain": channel,
    "a channel followed, fast path": fast_path,
    "ingest of one feed, one process": lake,
    "book kernel, ten levels": book_kernel,
}
"""Rates by title; higher is better."""


if __name__ == "__main__":
    print(f"rate {ROWS[sys.argv[1]]()}")
