"""Books: the kernel against Python and C++ books, books of a lake, one book at a time."""

from __future__ import annotations

import ctypes
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sortedcontainers import SortedDict

from bench import days
from bench.measure import Row, best
from pregao.book.replay import BookKind, Replay
from pregao.book.update_rows import UpdateRows
from pregao.clock import MINUTE
from pregao.lake.books.build import BookOptions, build_books
from pregao.lake.execution.spark import SparkRunner
from pregao.lake.execution.spark_session import spark_session
from pregao.lake.ingest.pipeline import ingest

SECTION = "books"
EVENTS = 1_000_000
NEW, CHANGE, DELETE = 0, 1, 2


def run() -> Iterator[Row]:
    yield from kernels()
    with tempfile.TemporaryDirectory(dir=days.folder()) as folder:
        yield from in_the_lake(Path(folder))


def order_flow(depth: int) -> tuple[UpdateRows, int]:
    """Return updates that fill a book ``depth`` orders deep and then change it near the top."""
    rng = random.Random(1)
    rows = UpdateRows.empty(2 * depth + EVENTS)
    middle, number, at = 1_000_000, 1, 0
    near: tuple[list[tuple[int, int, int]], ...] = ([], [])

    def put(kind: int, side: int, order: tuple[int, int, int], previous: int = 0) -> None:
        nonlocal at
        rows.kind[at], rows.side[at] = kind, side
        rows.order_id[at], rows.price[at], rows.size[at] = order
        rows.previous[at] = previous
        at += 1

    for index in range(depth):
        for side in (0, 1):
            away = index // 5 + 1
            order = (number, middle + (away if side else -away), 100)
            put(NEW, side, order)
            if away <= 10:
                near[side].append(order)
            number += 1
    start = at
    for turn in range(EVENTS):
        side = turn & 1
        orders = near[side]
        draw = rng.random()
        if (draw < 0.45 and len(orders) < 60) or len(orders) < 40:
            away = min(10, 1 + int(rng.expovariate(0.4)))
            order = (number, middle + (away if side else -away), 100 + turn % 7)
            put(NEW, side, order)
            orders.append(order)
            number += 1
            continue
        chosen = rng.randrange(len(orders))
        order = orders[chosen]
        if draw < 0.9:
            orders[chosen] = orders[-1]
            orders.pop()
            put(DELETE, side, order, order[2])
        else:
            orders[chosen] = (order[0], order[1], order[2] + 1)
            put(CHANGE, side, orders[chosen], order[2])
    rows.event[:] = np.arange(len(rows))
    return rows, start


def kernels() -> Iterator[Row]:
    flows = {depth: order_flow(depth) for depth in (50, 5_000)}
    for levels, words in (
        (0, "book only"),
        (1, "top of book after each event"),
        (10, "ten levels"),
    ):
        rates = {}
        for depth, (rows, start) in flows.items():
            shortest = min(replayed(rows, start, levels) for _ in range(5))
            rates[depth] = EVENTS / shortest / 1e6
            target = "≥ 20" if levels == 0 else ""
            what = f"kernel, {depth:,} orders deep, {words}"
            yield Row(SECTION, what, rates[depth], "M events/s", target)
        ratio = rates[5_000] / rates[50]
        yield Row(SECTION, "  deep / shallow", ratio, "ratio", "≥ 0.5")
    rows, _ = flows[50]
    few = rows[: len(rows) // 5]
    seconds = best(lambda: python_book(few))
    yield Row(
        SECTION, "the same as dict and SortedDict in Python", len(few) / seconds / 1e6, "M events/s"
    )
    native = cpp_book(rows)
    if native is not None:
        seconds = best(native)
        yield Row(
            SECTION, "the same as std::map in C++ (-O3)", len(rows) / seconds / 1e6, "M events/s"
        )


def replayed(rows: UpdateRows, start: int, levels: int) -> float:
    """Return the seconds that the events from ``start`` on take."""
    replay = Replay(BookKind.PRIORITY, levels)
    list(replay.stream(rows[:start], finish=True))
    began = time.perf_counter()
    for _ in replay.stream(rows[start:]):
        pass
    seconds = time.perf_counter() - began
    assert not replay.faults
    return seconds


def python_book(rows: UpdateRows) -> int:
    """Replay in Python with a sorted container; return a checksum of the best prices."""
    sides: tuple[Any, Any] = (SortedDict(), SortedDict())
    orders: dict[int, tuple[int, int, int]] = {}
    total = 0
    for kind, side, number, price, size in zip(
        rows.kind.tolist(), rows.side.tolist(), rows.order_id.tolist(), rows.price.tolist(),
        rows.size.tolist(), strict=True,
    ):  # fmt: skip
        if kind != NEW:
            old_side, old_price, old_size = orders.pop(number)
            levels = sides[old_side]
            left = levels[old_price]
            if left[1] == 1:
                del levels[old_price]
            else:
                levels[old_price] = (left[0] - old_size, left[1] - 1)
        if kind != DELETE:
            key = price if side else -price
            orders[number] = (side, key, size)
            there = sides[side].get(key, (0, 0))
            sides[side][key] = (there[0] + size, there[1] + 1)
        if sides[0] and sides[1]:
            total += sides[0].peekitem(0)[0] + sides[1].peekitem(0)[0]
    return total


def cpp_book(rows: UpdateRows) -> Callable[[], int] | None:
    """Compile the C++ book; return None without a compiler."""
    compiler = next(
        (found for name in ("c++", "g++", "clang++") if (found := shutil.which(name))), None
    )
    if compiler is None:
        return None
    library = Path(tempfile.mkdtemp()) / "book.so"
    source = Path(__file__).with_name("book.cpp")
    subprocess.run(
        [compiler, "-O3", "-shared", "-fPIC", "-o", str(library), str(source)], check=True
    )
    function = ctypes.CDLL(str(library)).replay
    function.restype = ctypes.c_int64
    columns: list[np.ndarray] = [
        np.ascontiguousarray(rows.kind, np.int8),
        np.ascontiguousarray(rows.side, np.int8),
        *(
            np.ascontiguousarray(column, np.int64)
            for column in (rows.order_id, rows.price, rows.size)
        ),
    ]

    def work() -> int:
        pointers = [ctypes.c_void_p(column.ctypes.data) for column in columns]
        return int(function(*pointers, ctypes.c_int64(len(rows))))

    assert work() == python_book(rows)
    return work


def in_the_lake(folder: Path) -> Iterator[Row]:
    """Build ticks, checkpoints and the audit of a whole day, both feeds."""
    day = days.simulated_day()
    lake = str(folder / "lake")
    spark = spark_session("local[2]")
    captures = [str(path) for path in sorted(day.glob("*.pcap"))]
    ingest(captures, lake, runner=SparkRunner(spark))
    for depth, words, target in (
        (10, "ten-level ticks, checkpoints, audit", "≥ 1.6"),
        (1, "the same with top of book only", "≥ 2"),
    ):
        # Each build has other settings, so that it runs; the first warms up.
        built = [
            build_books(
                lake,
                BookOptions(depth=depth, interval_ns=10 * MINUTE + turn),
                runner=SparkRunner(spark),
            )
            for turn in range(3)
        ]
        reports = min(built, key=lambda days: sum(day.seconds for day in days))
        messages = sum(report.counts["messages"] for report in reports)
        ticks = sum(report.counts["ticks"] for report in reports)
        seconds = sum(report.seconds for report in reports)
        yield Row(SECTION, f"lake to {words}", messages / seconds / 1e6, "M messages/s", target)
        yield Row(SECTION, "  ticks per message", ticks / messages, "")
        wrong = sum(
            count for report in reports for name, count in report.audit.items() if name != "equal"
        )
        snapshots = sum(report.audit.total() for report in reports)
        yield Row(SECTION, f"  of {snapshots:,} snapshots, not equal to the book", wrong, "")
    spark.stop()
    yield from one_book(day, lake)


def one_book(day: Path, lake: str) -> Iterator[Row]:
    """Time the whole command `pregao book` at times across the day."""
    summary = json.loads((day / "truth" / "summary.json").read_text(encoding="utf-8"))
    symbol = summary["instruments"][1]["symbol"]
    longest = 0.0
    for time_text in ("13:07:11.123456789", "15:30:00", "17:59:59.5", "19:45:00.000000001"):
        at = f"{summary['settings']['trade_date']}T{time_text}"
        command = [sys.executable, "-m", "pregao", "book", symbol, "--lake", lake, "--at", at]
        seconds = best(
            lambda: subprocess.run(command, check=True, capture_output=True),  # noqa: B023
            seconds=0,
            min_runs=2,
        )
        longest = max(longest, seconds)
    yield Row(SECTION, f"pregao book {symbol} --at, slowest of four times", longest, "s", "≤ 1.5")
