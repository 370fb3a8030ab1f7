"""Every example about a lake runs, and says what the lake holds."""

import runpy
import sys
from datetime import date

import pytest

from pregao.lake.ingest.schemas import INGESTS, PACKETS
from pregao.lake.storage.commit_unit import CommitUnit, TableSpec
from pregao.lake.storage.lake_store import LakeStore
from tests.lake.lake_support import DAY, ROOT, write_file

SECOND = 10**9
NOON = 1_779_364_800 * SECOND


def packet(number, outcome="decoded"):
    return {
        "capture_id": "c",
        "position": 24 + 100 * number,
        "capture_time_ns": NOON + number * SECOND // 3,
        "destination": "233.252.14.1:30001",
        "channel": 72,
        "stream": "incremental",
        "feed": "AB"[number % 2],
        "sequence_version": 1,
        "sequence_number": number + 1,
        "sending_time_ns": NOON + number * SECOND // 3 - 1000,
        "size": 100,
        "message_count": 2,
        "outcome": outcome,
    }


@pytest.fixture(scope="module")
def lake_of_packets(tmp_path_factory):
    lake = LakeStore(tmp_path_factory.mktemp("lakes") / "lake")
    spec = TableSpec("packets", PACKETS)
    lake.ensure_tables([spec, TableSpec("ingests", INGESTS)])
    rows = [packet(number) for number in range(7)] + [packet(7, "duplicate")]
    ingest = {
        "capture_id": "c",
        "name": "day.pcap",
        "packets": 8,
        "messages": 16,
        "first_time_ns": NOON,
        "last_time_ns": NOON + 7 * SECOND // 3,
        "date": date.fromisoformat(DAY),
    }
    lake.commit(CommitUnit("u", ("c",), (write_file(lake.location, spec, rows),), (ingest,)))
    return lake


@pytest.mark.parametrize(
    ("example", "shown"),
    [
        ("query_spark", ["72", "incremental", "8", "16"]),
        ("query_polars", ["A", "B", "4", "400"]),
        ("query_duckdb", ["2026-05-21 12:00:00", "3"]),
        ("query_pandas", ["day.pcap", "16", "2026-05-21 12:00:02.333333333"]),
        ("query_pyarrow", ["decoded", "7", "duplicate", "1"]),
    ],
)
def test_an_example_runs(request, monkeypatch, capsys, lake_of_packets, example, shown):
    if example == "query_spark":
        request.getfixturevalue("spark")
    monkeypatch.setattr(sys, "argv", [example, str(lake_of_packets.location)])
    runpy.run_path(str(ROOT / "examples" / f"{example}.py"), run_name="__main__")
    printed = capsys.readouterr().out
    for words in shown:
        assert words in printed


def test_every_example_about_a_lake_is_run():
    present = {path.stem for path in (ROOT / "examples").glob("query_*.py")}
    assert present == {
        "query_spark",
        "query_polars",
        "query_duckdb",
        "query_pandas",
        "query_pyarrow",
    }
