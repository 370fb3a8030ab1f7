"""The offset between the clocks of captures and the exchange: estimated, reported, removed."""

import struct
from pathlib import Path
from tempfile import mkdtemp

import pyarrow as pa
import pytest

from pregao.capture.pcap import HEADER_BYTES, RECORD_HEADER_BYTES
from pregao.cli.analytics import _clocks
from pregao.clock import SECOND
from pregao.lake.analytics.clock_offsets import clock_offsets
from pregao.lake.analytics.run import analyse
from pregao.lake.ingest.pipeline import ingest
from pregao.lake.ingest.schemas import DATE_FIELD
from pregao.lake.storage.commit_unit import TableSpec
from pregao.lake.storage.lake_store import LakeStore
from tests.lake.analytics_support import DATE, rows, the_day
from tests.lake.days import day

CLOCK_LAG_S = -16
"""By how many seconds the clock of the captures of the incremental stream is off."""

BEFORE = TableSpec(
    "latency_minutes",
    pa.schema(
        [
            pa.field("channel", pa.int16()),
            pa.field("minute_ns", pa.int64()),
            pa.field("measure", pa.string()),
            pa.field("events", pa.int64()),
            *[pa.field(name, pa.float64()) for name in ("p50", "p90", "p99", "p999")],
            pa.field("max", pa.int64()),
            DATE_FIELD,
        ]
    ),
    ("date",),
)
"""The table as lakes of 0.1 have it: it gets the columns that it lacks, and keeps its own."""


def shifted(capture, seconds, wrong=()):
    """The capture with its times moved; the packets of some numbers have a wrong time."""
    data = bytearray(capture.read_bytes())
    at, number = HEADER_BYTES, 0
    while at < len(data):
        second, rest, size = struct.unpack_from("<III", data, at)
        moved = (second + seconds) * SECOND + rest - (SECOND // 2 if number in wrong else 0)
        struct.pack_into("<II", data, at, *divmod(moved, SECOND))
        at += RECORD_HEADER_BYTES + size
        number += 1
    return bytes(data)


@pytest.fixture(scope="module")
def lake():
    """A day whose incremental stream was captured by a clock 16 seconds late, twice wrong."""
    folder = Path(mkdtemp(prefix="pregao-clock-"))
    for capture in day(seed=3, instruments=2, duration="10s").glob("*.pcap"):
        late = CLOCK_LAG_S if "Incremental" in capture.stem else 0
        wrong = (30, 50) if capture.stem.endswith("_A") else ()
        (folder / capture.name).write_bytes(shifted(capture, late, wrong))
    lake = LakeStore(folder / "lake")
    ingest([str(path) for path in sorted(folder.glob("*.pcap"))], lake.location)
    lake.ensure_tables([BEFORE])
    analyse(lake, tables=["latency_minutes"])
    return lake


def flows(lake):
    found = {}
    for row in rows(lake, "packets"):
        key = row["channel"], row["stream"], row["feed"], row["capture_id"]
        found.setdefault(key, []).append(row["capture_time_ns"] - row["sending_time_ns"])
    return found


def test_the_offset_is_the_smallest_plausible_difference(lake):
    expected = flows(lake)
    found = rows(lake, "clock_offsets")
    assert len(found) == len(expected)
    for row in found:
        own = expected[row["channel"], row["stream"], row["feed"], row["capture_id"]]
        sense = [one for one in own if one % SECOND < SECOND // 4]
        assert row["packets"] == len(own)
        assert row["min_ns"] == min(own)
        assert row["offset_ns"] == min(sense)
        assert row["outliers"] == len(own) - len(sense)
        assert row["name"].endswith(".pcap")
    incremental = {row["feed"]: row for row in found if row["stream"] == "incremental"}
    assert {feed: row["outliers"] for feed, row in incremental.items()} == {"A": 2, "B": 0}
    for row in incremental.values():
        assert CLOCK_LAG_S * SECOND < row["offset_ns"] < (CLOCK_LAG_S + 1) * SECOND


def test_network_times_are_given_raw_and_without_the_offset(lake):
    offsets = {
        (row["channel"], row["feed"], row["capture_id"]): row["offset_ns"]
        for row in rows(lake, "clock_offsets", stream="incremental")
    }
    events = rows(lake, "latency")
    assert any(row["network_raw_ns"] < 0 for row in events)
    for row in events:
        offset = offsets[row["channel"], row["feed"], row["capture_id"]]
        assert row["clock_offset_ns"] == offset
        assert row["network_raw_ns"] == row["capture_time_ns"] - row["t11_ns"]
        above = row["network_raw_ns"] - offset
        assert row["network_ns"] == (above if above >= 0 else None)
    assert sum(row["network_ns"] is not None for row in events) > len(events) - 10
    minutes = rows(lake, "latency_minutes", measure="network")
    assert minutes
    assert all(0 <= row["p50_ns"] <= row["max_ns"] < SECOND for row in minutes)
    assert any(row["p50_ns"] < 0 for row in rows(lake, "latency_minutes", measure="network_raw"))


def test_the_command_prints_the_offsets(lake):
    lines = list(_clocks(lake, {DATE}))
    assert "Incremental_" in lines[0]
    assert "is 15,9" in lines[0]
    assert "ns behind the exchange's" in lines[0]
    assert "network_ns" in lines[-1]
    assert list(_clocks(lake, set())) == []


def test_time_columns_are_marked(lake):
    for table in ("clock_offsets", "latency", "latency_minutes"):
        for field in lake.schema(table):
            ours = field.name not in BEFORE.schema.names
            if ours and field.name.startswith(("p", "max", "network", "t1", "offset")):
                assert field.name == "packets" or field.name.endswith("_ns"), (table, field.name)
    with the_day(lake) as rows_of_day:
        assert clock_offsets(rows_of_day).columns[0] == "channel"
