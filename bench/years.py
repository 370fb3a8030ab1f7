"""Growth over years: the cost of the 1,000th ingest, of one instrument, and of whole days."""

from __future__ import annotations

import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench import days, traffic
from bench.measure import Row, best
from pregao.capture import PcapWriter, UdpFramer
from pregao.lake.analytics.run import analyse
from pregao.lake.books.build import build_books
from pregao.lake.ingest.maintenance import compact
from pregao.lake.ingest.pipeline import ingest
from pregao.lake.ingest.tables import table_specs
from pregao.lake.ingest.writer import write_rows
from pregao.lake.sql.duckdb_engine import DuckdbEngine
from pregao.lake.storage.commit_unit import CommitUnit, NewFile
from pregao.lake.storage.delta import visible_files
from pregao.lake.storage.lake_store import LakeStore
from pregao.lake.storage.parquet import stored_schema
from pregao.umdf.packets import PacketHeader, encode_packet
from pregao.units import day_number

SECTION = "years"
_DAY = 86_400 * 10**9
_INGESTS = (10, 100, 1_000)
_TEMPLATES = (50, 51, 53, 55, 56, 3, 22, 10)
_TURNS = 20
_TABLE = "umdf_order_mbo_50"
_FIRST = date(2026, 1, 1)
_BASES, _YOUNG, _TURNS_OF_DAYS = 5, 10, 5
_YEAR = int(os.environ.get("PREGAO_BENCH_YEAR_DAYS", "250"))
"""Days of the lake that is compared with one of ten days."""
_MESSAGES_A_DAY = 100_000
_INSTRUMENTS, _DAYS, _FILES, _ROWS = 10_000, 30, 9, 120_000


def run() -> Iterator[Row]:
    with tempfile.TemporaryDirectory(dir=days.folder()) as name:
        folder = Path(name)
        yield from ingests(folder)
        yield from lookups(folder)
        yield from planning(folder)
        yield from year(folder)


class Captures:
    """Tiny captures of a channel, one per day, so that decoding takes almost no time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pool = traffic.message_pool(5)
        self._rng = random.Random(7)

    def of(self, number: int) -> str:
        """Write the capture of a day and return its path."""
        framer = UdpFramer("10.0.0.1", 40000, "233.252.14.1", 30001)
        path = self._folder / f"day-{number}.pcap"
        begin = traffic.START + number * _DAY
        with PcapWriter(path) as writer:
            for index in range(1, 21):
                message = self._rng.choice(self._pool[_TEMPLATES[index % len(_TEMPLATES)]])
                sent = begin + index * 1000
                payload = encode_packet(PacketHeader(84, 1, index, sent), [message])
                writer.write(sent, framer.frame(payload))
        return str(path)


def ingest_seconds(capture: str, lake: Path) -> float:
    """Return the seconds that the ingest of a capture takes."""
    start = time.perf_counter()
    ingest([capture], str(lake))
    return time.perf_counter() - start


def ingests(folder: Path) -> Iterator[Row]:
    """Ingest a capture of a new day a thousand times."""
    captures = Captures(folder)
    lake = folder / "lake"
    seconds: list[float] = []
    young = folder / "young"
    for number in range(max(_INGESTS)):
        seconds.append(ingest_seconds(captures.of(number), lake))
        count = number + 1
        if count == min(_INGESTS):
            shutil.copytree(lake, young)
        if count in _INGESTS:
            typical = statistics.median(seconds[max(1, count - _TURNS) :])
            yield Row(SECTION, f"ingest of a tiny capture, the {count:,}th", typical, "s")
    # Alternating, so that other load on the machine affects both.
    early, late = [], []
    for number in range(max(_INGESTS), max(_INGESTS) + _TURNS):
        capture = captures.of(number)
        early.append(ingest_seconds(capture, young))
        late.append(ingest_seconds(capture, lake))
    ratio = statistics.median(late) / statistics.median(early)
    yield Row(SECTION, "  the 1,000th / the 10th, alternating", ratio, "ratio", "≤ 1.2")
    mean = statistics.mean(late) / statistics.mean(early)
    yield Row(SECTION, "  the same, mean of twenty, checkpoints included", mean, "ratio")
    size = sum(path.stat().st_size for path in (lake / "_ingest_state").glob("*.parquet"))
    yield Row(SECTION, "  ingest state after 1,000 ingests", size / 1e3, "kB")


def orders(day: int, seed: int) -> Any:
    """Return orders of all instruments, sorted by instrument as in a task of an ingest."""
    rng = np.random.default_rng(seed)
    rows = _ROWS // _FILES
    security = np.sort(rng.integers(1, _INSTRUMENTS + 1, rows)) + 100_000_000_000
    number = seed * rows + np.arange(rows)
    sent = day * _DAY + number * 1_000_000
    values = {
        "channel": np.full(rows, 84),
        "sequence_version": np.ones(rows),
        "sequence_number": number,
        "index_in_packet": np.zeros(rows),
        "event": number * 10_000,
        "sending_time_ns": sent,
        "capture_time_ns": sent + rng.integers(0, 50_000, rows),
        "security_id": security,
        "md_entry_size": rng.integers(1, 100, rows) * 100,
        "secondary_order_id": rng.integers(1, 1 << 40, rows),
        "rpt_seq": number,
    }
    names = pa.dictionary(pa.int32(), pa.string())  # as an ingest writes them
    schema = pa.schema(
        field.with_type(names) if pa.types.is_string(field.type) else field
        for field in stored_schema(spec_of(_TABLE).schema)
    )
    columns = [
        pa.array(values[field.name].astype(np.int64)).cast(field.type)
        if field.name in values
        else pa.nulls(rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def spec_of(name: str) -> Any:
    return next(spec for spec in table_specs() if spec.name == name)


def lookups(folder: Path) -> Iterator[Row]:
    """Query one of ten thousand instruments over thirty days."""
    lake = LakeStore(folder / "instruments")
    lake.ensure_tables(table_specs())
    for day in range(_DAYS):
        number = day_number(_FIRST + timedelta(days=day))
        written = [
            write_rows(lake.location, _TABLE, orders(number, seed), number)
            for seed in range(_FILES)
        ]
        lake.commit(CommitUnit(f"day-{day}", (), lake.new_files(written)))
    wanted = 100_000_004_321
    sql = f"SELECT count(*), sum(md_entry_size) FROM {_TABLE} WHERE security_id = {wanted}"
    title = f"one of {_INSTRUMENTS:,} instruments over {_DAYS} days"
    before = DuckdbEngine(lake).query(sql).rows().to_pylist()
    there, read = admitted_files(lake, wanted)
    yield Row(
        SECTION, f"{title}: files read, as ingested", 100 * read / there, "%", "", f"of {there}"
    )
    seconds = best(lambda: DuckdbEngine(lake).query(sql).rows(), seconds=3)
    yield Row(SECTION, "  seconds", seconds, "s")
    start = time.perf_counter()
    compact(lake, [_TABLE], 64 << 10)
    took = time.perf_counter() - start
    there, read = admitted_files(lake, wanted)
    share = 100 * read / there
    yield Row(SECTION, f"{title}: files read, compacted", share, "%", "≤ 5", f"of {there}")
    seconds = best(lambda: DuckdbEngine(lake).query(sql).rows(), seconds=3)
    yield Row(SECTION, "  seconds", seconds, "s")
    rows = _DAYS * (_ROWS // _FILES) * _FILES
    yield Row(SECTION, "  compaction", rows / took / 1e6, "M rows/s")
    assert DuckdbEngine(lake).query(sql).rows().to_pylist() == before


def admitted_files(lake: LakeStore, security: int) -> tuple[int, int]:
    """Return the number of files, and of those that may have rows of an instrument."""
    actions = visible_files(lake.delta(_TABLE))
    low, high = (actions[f"{end}.security_id"].to_numpy() for end in ("min", "max"))
    return actions.num_rows, int(((low <= security) & (high >= security)).sum())


def planning(folder: Path) -> Iterator[Row]:
    """Time the planning of a query, by the number of files of the table."""
    for files in (1, 100, 2_000):
        lake = LakeStore(folder / f"files-{files}")
        lake.ensure_tables(table_specs())
        lake.commit(CommitUnit("files", (), tuple(linked(lake, files))))
        load = best(partial(lake.delta, _TABLE), seconds=0.5)
        yield Row(SECTION, f"table of {files:,} files: its log loaded", load * 1e3, "ms")
        condition = f"date = '{_FIRST.isoformat()}' AND security_id = 100000004321"
        sql = f"SELECT count(*) FROM {_TABLE}"
        for what, query in (("one day", f"{sql} WHERE {condition}"), ("all of it", sql)):
            took = best(partial(DuckdbEngine(lake).query, query), seconds=1)
            yield Row(SECTION, f"  a query for {what} planned", took * 1e3, "ms")


def linked(lake: LakeStore, files: int) -> Iterator[NewFile]:
    """Yield files of many days: one written file, hard-linked under many names."""
    first = day_number(_FIRST)
    written = write_rows(lake.location, _TABLE, orders(first, 0).slice(0, 1_000), first)
    (made,) = lake.new_files([written])
    folder = Path(lake.table_location(_TABLE).uri)
    yield made
    for number in range(1, files):
        day = (_FIRST + timedelta(days=number // 8)).isoformat()
        path = f"date={day}/part-{number}.parquet"
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).hardlink_to(folder / made.path)
        yield NewFile(made.table, path, made.size, made.rows, (("date", day),), made.stats)


def year(folder: Path) -> Iterator[Row]:
    """Make all tables of simulated days again and again, each on another date; compact them."""
    bases = [days.simulated(_MESSAGES_A_DAY, seed) for seed in range(11, 11 + _BASES)]
    old, young = LakeStore(folder / "year"), LakeStore(folder / "young-year")
    for number in range(_YEAR):
        add_day(old, bases, folder, number)
        if number + 1 == _YOUNG:
            compact(old)
            shutil.copytree(old.location.path, young.location.path)
    compact(old)
    symbol = json.loads((bases[0] / "truth" / "summary.json").read_text(encoding="utf-8"))
    symbol = symbol["instruments"][1]["symbol"]
    # Alternating, so that other load on the machine affects both.
    seconds: dict[str, dict[int, list[float]]] = {}
    for number in range(_YEAR, _YEAR + _TURNS_OF_DAYS):
        for lake in (young, old):
            for what, took in timed_day(lake, bases, folder, number, symbol).items():
                seconds.setdefault(what, {}).setdefault(id(lake), []).append(took)
    for what, by_lake in seconds.items():
        few, many = (statistics.median(by_lake[id(lake)]) for lake in (young, old))
        yield Row(SECTION, f"{what}, in a lake of {_YEAR} days", many, "s")
        title = f"  / in a lake of {_YOUNG} days, alternating"
        yield Row(SECTION, title, many / few, "ratio", "≤ 1.2")
    size = sum(path.stat().st_size for path in Path(old.location.path).rglob("*.parquet"))
    yield Row(SECTION, f"Parquet files of {_YEAR} days, before a vacuum", size / 1e6, "MB")


def add_day(lake: LakeStore, bases: list[Path], folder: Path, number: int) -> None:
    """Make all tables of another day."""
    captures = days.redated(bases[number % len(bases)], folder / "captures", number)
    ingest(captures, lake.location)
    build_books(lake.location)
    analyse(lake)
    shutil.rmtree(folder / "captures")


def timed_day(
    lake: LakeStore, bases: list[Path], folder: Path, number: int, symbol: str
) -> dict[str, float]:
    """Return the seconds of another day, of a book in the tenth, and of a query over all days."""
    start = time.perf_counter()
    add_day(lake, bases, folder, number)
    added = time.perf_counter()
    summary = json.loads((bases[0] / "truth" / "summary.json").read_text(encoding="utf-8"))
    day = date.fromisoformat(summary["settings"]["trade_date"]) + timedelta(days=_BASES)
    book = ["book", symbol, "--lake", lake.location.path, "--at", f"{day}T15:30:00"]
    subprocess.run([sys.executable, "-m", "pregao", *book], check=True, capture_output=True)
    shown = time.perf_counter()
    sql = f"SELECT date, count(*), sum(size) FROM v_trades WHERE symbol = '{symbol}' GROUP BY date"
    found = DuckdbEngine(lake).query(sql).rows().num_rows
    read = time.perf_counter() - shown
    return {
        "a day of 100,000 messages, all tables": added - start,
        "pregao book --at of the sixth day": shown - added,
        "trades of one instrument by day, per day": read / found,
    }
