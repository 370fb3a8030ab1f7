"""The offset between the clocks of captures and the exchange: estimated, reported, removed."""

import struct
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.capture import PcapWriter, udp_frame
from pregao.capture.pcap import HEADER_BYTES, RECORD_HEADER_BYTES
from pregao.cli.analytics import _clocks
from pregao.clock import DAY, MILLISECOND, SECOND
from pregao.lake.analytics.clock_offsets import Differences, clock_offsets
from pregao.lake.analytics.local.session import LocalSession
from pregao.lake.analytics.reading import CaptureFacts, DayTables, LakeDay
from pregao.lake.analytics.run import analyse
from pregao.lake.ingest.pipeline import ingest
from pregao.lake.ingest.protocols.legacy_channels import VARIABLE
from pregao.lake.ingest.schemas import DATE_FIELD, PACKETS
from pregao.lake.ingest.verify import check_lake
from pregao.lake.ingest.writer import write_rows
from pregao.lake.sql.table_files import TableFiles
from pregao.lake.storage.commit_unit import TableSpec
from pregao.lake.storage.filesystem import Location
from pregao.lake.storage.lake_store import LakeStore
from pregao.units import day_number
from tests.lake.analytics_support import DATE, latency_times, rows
from tests.lake.days import day
from tests.legacy.writing import datagrams, entry

CLOCK_LAG_S = -16
"""By how many seconds the clock of the captures of the incremental stream is off."""

CAPTURED = 1_376_308_801_000_000_000
"""A second after `SENT` of the legacy messages."""

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
    events = latency_times(lake)
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


def plain_offset(values):
    """Median, smallest plausible difference, and number of outliers of some differences."""
    ordered = sorted(values)
    low, median = (ordered[-(-len(ordered) // parts) - 1] for parts in (10, 2))
    plausible = [one for one in ordered if one >= median - 10 * (median - low) - MILLISECOND]
    return median, plausible[0], len(ordered) - len(plausible)


@settings(max_examples=200)
@given(
    st.lists(
        st.integers(-70_000, 70_000)
        | st.integers(-20 * MILLISECOND, 20 * MILLISECOND)
        | st.integers(-(1 << 61), 1 << 61),
        min_size=1,
        max_size=40,
    ),
    st.integers(1, 3),
)
def test_the_offset_is_found_in_passes_over_any_differences(values, parts):
    """No pass keeps the differences, which come in parts."""
    flow = Differences()
    own = [np.array(values[part::parts], np.int64) for part in range(parts)]
    own = [part for part in own if len(part)]
    for part in own:
        flow.measure(part)
    flow.search()
    passes = 0
    while not flow.found:
        passes += 1
        for part in own:
            flow.bin(part)
        flow.narrow()
    for part in own:
        flow.judge(part)
    assert passes <= 4
    assert (flow.count, flow.min) == (len(values), min(values))
    assert (flow.median, flow.plausible, flow.outliers) == plain_offset(values)


def test_packets_without_a_sending_time_have_no_difference(tmp_path):
    """Neither null nor, in lakes of earlier versions, 0."""
    location = Location.parse(tmp_path)
    sent = [0, None, *range(1_000, 1_010)]
    content = pa.table(
        {
            "channel": pa.array([7] * len(sent), pa.int16()),
            **{
                name: pa.array([text] * len(sent)).dictionary_encode()
                for name, text in (("stream", "incremental"), ("feed", "A"), ("capture_id", "x"))
            },
            "sending_time_ns": pa.array(sent, pa.int64()),
            "capture_time_ns": pa.array([DAY] * 2 + [one + 5 for one in sent[2:]], pa.int64()),
        }
    )
    path = write_rows(location, "packets", content, day_number(DATE)).path
    actions = pa.table({"path": [path]})
    files = TableFiles("packets", location.join("packets"), PACKETS, True, actions)
    captures = {"x": CaptureFacts("x.pcap", False)}
    tables = DayTables(location, DATE, {"packets": files}, captures, None)
    with LocalSession(location) as session:
        (row,) = clock_offsets(LakeDay(session, tables, 7)).to_pylist()
    assert row == {
        "channel": 7, "stream": "incremental", "feed": "A", "capture_id": "x", "name": "x.pcap",
        "packets": 10, "offset_ns": 5, "min_ns": 5, "median_ns": 5, "outliers": 0,
    }  # fmt: skip


def test_datagrams_with_later_chunks_have_no_sending_time(tmp_path, monkeypatch):
    """Here they are most of the packets, and the day has its offset and its latencies."""
    monkeypatch.setenv(VARIABLE, "233.1.1.1:5001=51")
    orders = [entry("0", 0, rpt=rpt, position=rpt, size=100, price="10.5") for rpt in range(1, 9)]
    with PcapWriter(tmp_path / "a.pcap") as writer:
        time = CAPTURED
        for number in range(1, 6):
            entries = [{"MDEntryTime": 120000000, **order} for order in orders]
            for payload in datagrams("IncrementalRefresh_152", number, 40, MDEntries=entries):
                writer.write(time, udp_frame("10.0.0.1", 9, "233.1.1.1", 5001, payload))
                time += 1000
    lake = LakeStore(tmp_path / "lake")
    assert ingest([str(tmp_path / "a.pcap")], lake.location).committed
    packets = rows(lake, "legacy_packets")
    with_time = [row for row in packets if row["sending_time_ns"] is not None]
    assert len(with_time) == 5
    assert len(packets) > 3 * len(with_time)
    assert {row["sending_time_ns"] for row in with_time} == {CAPTURED - SECOND}
    assert check_lake(lake).faults == []
    analyse(lake, tables=["latency_minutes"])
    (offset,) = rows(lake, "clock_offsets")
    assert (offset["packets"], offset["min_ns"], offset["offset_ns"]) == (5, SECOND, SECOND)
    events = sorted(latency_times(lake), key=lambda row: row["event"])
    assert [row["messages"] for row in events] == [8] * 5
    assert [row["network_ns"] for row in events] == [
        row["capture_time_ns"] - CAPTURED for row in events
    ]
