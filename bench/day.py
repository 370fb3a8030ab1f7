"""A full day: captures to messages, books and analytics in one command, cold, and its memory.

The day has `PREGAO_BENCH_DAY_MESSAGES` messages on several channels (36 million by default, about
50 million packets with both feeds and the loops); it is simulated once and kept.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bench import books, days
from bench.measure import Row
from pregao.lake.analytics.run import analyse
from pregao.lake.execution.processes import ProcessRunner
from pregao.lake.execution.spark import SparkRunner
from pregao.lake.execution.spark_session import spark_session
from pregao.lake.sql.duckdb_engine import DuckdbEngine
from pregao.lake.storage.lake_store import LakeStore

SECTION = "day"
MESSAGES = int(os.environ.get("PREGAO_BENCH_DAY_MESSAGES", "36_000_000"))
_STAGES = "messages,books"
_EVERY_S = 0.2


def run() -> Iterator[Row]:
    captures = days.simulated(MESSAGES)
    gigabytes = sum(path.stat().st_size for path in captures.glob("*.pcap")) / 1e9
    size = f"{MESSAGES / 1e6:.0f} M messages ({gigabytes:.1f} GB)"
    with tempfile.TemporaryDirectory(dir=days.folder()) as name:
        lake = Path(name) / "lake"
        seconds, memory = ingest(captures, lake, "--only", _STAGES)
        yield Row(SECTION, f"{size} to messages and books, whole command", seconds, "s", "≤ 55")
        yield Row(SECTION, "  largest Python process", memory.python / 1e6, "MB", "≤ 1000")
        for engine in ("spark", "local"):
            shutil.rmtree(lake)
            seconds, memory = ingest(captures, lake, "--engine", engine)
            yield Row(
                SECTION, f"the same with all analytics, --engine {engine}", seconds, "s", "≤ 120"
            )
            yield Row(SECTION, "  largest Python process", memory.python / 1e6, "MB", "≤ 1000")
            if memory.java:
                yield Row(SECTION, "  Java", memory.java / 1e6, "MB")
        yield from alone(lake)
        yield from aggregates(lake)
        yield from books.one_book(captures, str(lake))
        yield from survey(captures)


def alone(lake: Path) -> Iterator[Row]:
    """Time the analytics of a lake alone, on a session and a pool that have started."""
    store = LakeStore(str(lake))
    with ProcessRunner() as processes:
        yield Row(SECTION, "analytics alone, local processes", analytics(store, processes), "s")
    spark = spark_session("local[2]")
    with SparkRunner(spark) as runner:
        spark.range(1).count()
        yield Row(SECTION, "analytics alone, Spark", analytics(store, runner), "s")
    spark.stop()


def analytics(store: LakeStore, runner: ProcessRunner | SparkRunner, *tables: str) -> float:
    """Return the seconds that building all tables, or some, takes."""
    start = time.perf_counter()
    analyse(store, runner, tables=tables or None, force=True)
    return time.perf_counter() - start


@dataclass
class Memory:
    """Peak memory of the largest process of a command, in bytes."""

    python: int = 0
    java: int = 0


EVENTS = """SELECT count(*), sum(messages), median(last - first) FROM (
    SELECT channel, event, count(*) AS messages, min(sending_time_ns) AS first,
        max(sending_time_ns) AS last, min(capture_time_ns), min(feed_difference_ns)
    FROM ({messages}) WHERE event IS NOT NULL GROUP BY channel, event)"""
"""What each row of `latency` has at least, from the messages."""
MESSAGES_OF = ("umdf_order_mbo_50", "umdf_delete_order_mbo_51", "umdf_trade_53")


def aggregates(lake: Path) -> Iterator[Row]:
    """Time the table `latency`, and DuckDB's aggregates of the same messages by event."""
    store = LakeStore(str(lake))
    with ProcessRunner() as processes:
        analytics(store, processes, "clock_offsets")  # starts the processes
        seconds = analytics(store, processes, "latency")
    yield Row(SECTION, "events with all their times (latency, clock_offsets)", seconds, "s")
    columns = "channel, event, sending_time_ns, capture_time_ns, feed_difference_ns"
    messages = " UNION ALL ".join(f"SELECT {columns} FROM {name}" for name in MESSAGES_OF)
    start = time.perf_counter()
    rows = DuckdbEngine(store).query(EVENTS.format(messages=messages)).rows().to_pylist()
    count = next(iter(rows[0].values()))
    what = f"  DuckDB: {count:,} events by GROUP BY over orders, deletions and trades"
    yield Row(SECTION, what, time.perf_counter() - start, "s")


def survey(captures: Path) -> Iterator[Row]:
    """Time the whole command `pregao info` on the largest captures, up to 4 GB."""
    chosen: list[str] = []
    total = 0
    for path in sorted(captures.glob("*.pcap"), key=lambda path: -path.stat().st_size):
        if not chosen or total + path.stat().st_size <= 4e9:
            chosen.append(str(path))
            total += path.stat().st_size
    start = time.perf_counter()
    command = [sys.executable, "-m", "pregao", "info", *chosen]
    subprocess.run(command, check=True, capture_output=True)
    seconds = time.perf_counter() - start
    yield Row(SECTION, f"pregao info of {total / 1e9:.1f} GB", seconds, "s", "≤ 6 for 4 GB")


def ingest(captures: Path, lake: Path, *options: str) -> tuple[float, Memory]:
    """Run the whole command with a cold page cache; return its seconds and its peak memory."""
    forget_pages(captures)
    command = [sys.executable, "-m", "pregao", "ingest", str(captures), "--lake", str(lake)]
    memory = Memory()
    start = time.perf_counter()
    with subprocess.Popen([*command, "--quiet", *options], start_new_session=True) as running:
        watch = threading.Thread(target=watch_memory, args=(running, memory))
        watch.start()
        code = running.wait()
        seconds = time.perf_counter() - start
        watch.join()
    if code:
        raise RuntimeError("the ingest failed")
    return seconds, memory


def forget_pages(folder: Path) -> None:
    """Ask the system to drop the captures from the page cache."""
    for path in folder.glob("*.pcap"):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def watch_memory(running: subprocess.Popen[bytes], memory: Memory) -> None:
    """Note the peak memory of all processes of a command until it ends."""
    while running.poll() is None:
        for process in session_of(running.pid):
            with suppress(OSError, ValueError):
                words = (process / "cmdline").read_bytes()
                peak = peak_of((process / "status").read_text(encoding="utf-8").splitlines())
                if b"java" in words.split(b"\0")[0]:
                    memory.java = max(memory.java, peak)
                else:
                    memory.python = max(memory.python, peak)
        time.sleep(_EVERY_S)


def session_of(leader: int) -> list[Path]:
    """Return the folders of a session's processes."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            fields = (process / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            if int(fields[3]) == leader:
                found.append(process)
    return found


def peak_of(status: Sequence[str]) -> int:
    # A process that has ended has no memory.
    return next((int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM")), 0)
