"""Small tables and files with which the lake's tests work."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pregao.lake.storage.commit_unit import CommitUnit, NewFile, TableSpec
from pregao.lake.storage.filesystem import Location, unique_name
from pregao.lake.storage.lake_store import LakeStore
from pregao.lake.storage.parquet import stats_json
from tests.forked import Forked
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).parents[2]
DAY = "2026-05-21"


def column(name, kind, comment=""):
    return pa.field(name, kind, metadata={"comment": comment or f"About {name}."})


ORDERS = TableSpec(
    "orders",
    pa.schema(
        [
            column("security_id", pa.int64(), "Instrument."),
            column("sequence_version", pa.int32()),
            column("sequence_number", pa.int64()),
            column("index_in_packet", pa.int32()),
            column("price", pa.decimal128(18, 4), "Price."),
            column("side", pa.string()),
            column("sending_time_ns", pa.int64()),
            column("expiry", pa.date32()),
            column(
                "legs",
                pa.list_(pa.field("element", pa.struct([column("leg_id", pa.int64())]))),
            ),
            column("date", pa.date32()),
        ]
    ),
    description="Orders.",
)
TRADES = TableSpec(
    "trades",
    pa.schema([column("security_id", pa.int64()), column("date", pa.date32())]),
    description="Trades.",
)


def order(security_id, number, price="10.0000", **more):
    return {
        "security_id": security_id,
        "sequence_version": 1,
        "sequence_number": number,
        "index_in_packet": 0,
        "price": None if price is None else Decimal(price),
        "side": "BID",
        "sending_time_ns": 1_747_832_400_000_000_000 + number,
        "expiry": date(2026, 6, 30),
        "legs": [],
        **more,
    }


def stored_type(kind):
    """Storage type of a declared type: decimals as 64-bit integers, texts as dictionaries."""
    if pa.types.is_decimal(kind):
        return pa.decimal64(kind.precision, kind.scale)
    if pa.types.is_string(kind):
        return pa.dictionary(pa.int32(), pa.string())
    return kind


def write_file(lake: Location | str, spec: TableSpec, rows, day=DAY, without=(), **options):
    """Write a file as an ingest task does, not yet visible."""
    fields = [field for field in spec.schema if field.name not in ("date", *without)]
    arrays = []
    for field in fields:
        kind = stored_type(field.type)
        values = pa.array([row[field.name] for row in rows], field.type)
        arrays.append(values.dictionary_encode() if pa.types.is_dictionary(kind) else values)
    table = pa.table(arrays, names=[field.name for field in fields])
    content = io.BytesIO()
    pq.write_table(table, content, store_schema=False, store_decimal_as_integer=True, **options)
    content.seek(0)
    stats = stats_json(pq.read_metadata(content), spec.schema)
    path = f"date={day}/{unique_name('part', '.parquet')}"
    Location.parse(lake).join(spec.name, path).write_bytes(content.getvalue())
    size = content.getbuffer().nbytes
    return NewFile(spec.name, path, size, len(rows), (("date", day),), stats)


def unit_of(lake, unit_id, captures, *, rows=2, first_number=1, day=DAY):
    """A unit with one file of orders and one of trades."""
    orders = [order(7, first_number + number) for number in range(rows)]
    files = (
        write_file(lake, ORDERS, orders, day),
        write_file(lake, TRADES, [{"security_id": 7}] * rows, day),
    )
    return CommitUnit(
        unit_id, tuple(captures), files, tuple(ingest_row(name, day) for name in captures)
    )


def ingest_row(capture, day=DAY):
    return {"capture_id": capture, "date": date.fromisoformat(day)}


def counts(lake: LakeStore):
    """The visible rows of every table."""
    return {name: lake.delta(name).to_pyarrow_table().num_rows for name in lake.table_names()}


@contextlib.contextmanager
def compiling(session):
    """Make Spark compile expressions: it cannot list its own tables without."""
    name = "spark.sql.codegen.factoryMode"
    before = session.conf.get(name)
    session.conf.set(name, "FALLBACK")
    yield
    session.conf.set(name, before)


PREFACE = "import os, sys; from tests.lake.lake_support import *\n"


def python(code: str, *arguments: str, wait=True):
    """Run a piece of Python in a separate process."""
    process = Forked(PREFACE + code, *arguments)
    return process.wait() if wait else process


def new_python(code: str, *arguments: str):
    """Run it in a new Python process, to test its start or its end."""
    command = [sys.executable, "-c", PREFACE + code, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, check=False, timeout=PATIENCE_S).returncode
