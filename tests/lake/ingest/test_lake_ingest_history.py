"""History of earlier ingests is read from one file, and equals that of their tables."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.capture import CaptureStatistics, PcapWriter, UdpFramer
from pregao.lake.ingest import history as memory_module
from pregao.lake.ingest.history import RANGE, IngestState, load_ingest_state
from pregao.lake.ingest.maintenance import compact
from pregao.lake.ingest.pipeline import ingest
from pregao.lake.ingest.report import CaptureReport, IngestReport
from pregao.lake.ingest.verify import check_lake
from pregao.lake.storage.delta import LakeTable
from pregao.lake.storage.lake_store import LakeStore
from pregao.lake.storage.vacuum import vacuum
from pregao.sbe.codec import MessageCodec
from pregao.schemas.bundle import bundled
from pregao.umdf.packets import PacketHeader, encode_packet

DAY = 86_400 * 10**9
START = 1_750_000_000 * 10**9


SCHEMA = bundled("umdf", 16)
ORDER = {
    "securityID": 7, "matchEventIndicator": 0, "mDUpdateAction": 0, "mDEntryType": 0x30,
    "mDEntryPx": 205_000, "mDEntrySize": 100, "secondaryOrderID": 1, "rptSeq": 0,
}  # fmt: skip
MESSAGE = MessageCodec(SCHEMA, SCHEMA.by_name["Order_MBO_50"]).packer(*ORDER)(*ORDER.values())


def capture_of(folder, number, *, packets=3, channel=84):
    """A capture of a day, with an order in each packet."""
    path = folder / f"day-{number}.pcap"
    framer = UdpFramer("10.0.0.1", 40000, "233.252.14.1", 30000 + channel)
    with PcapWriter(path) as writer:
        for index in range(1, packets + 1):
            time = START + number * DAY + index * 1000
            header = PacketHeader(channel, 1, index, time)
            writer.write(time, framer.frame(encode_packet(header, [MESSAGE])))
    return str(path)


@pytest.fixture
def folder(tmp_path):
    return tmp_path


@pytest.fixture
def lake(folder, monkeypatch):
    """A lake of five ingests, the first ones in the history file."""
    monkeypatch.setattr(memory_module, "MIN_UNCACHED_FILES", 3)
    for number in range(5):
        ingest([capture_of(folder, number)], str(folder / "lake"))
    return LakeStore(folder / "lake")


def rebuilt_state(lake):
    """State without any history file."""
    known = IngestState()
    rows = lake.delta("ingests").to_pyarrow_table().sort_by("committed_at_ns").to_pylist()
    known.add(rows)
    return known


@pytest.fixture
def files_read(monkeypatch):
    found = []
    rows_of = memory_module._rows

    def note(file):
        found.append(file.name)
        return rows_of(file)

    monkeypatch.setattr(memory_module, "_rows", note)
    return found


def test_few_reports_are_read_and_all_are_known(lake, files_read):
    known = load_ingest_state(lake)
    assert 0 < len(files_read) < 3
    assert known == rebuilt_state(lake)
    assert len(known.fingerprints) == 5


def test_captures_in_the_history_are_duplicates(folder, lake):
    again = ingest([capture_of(folder, number) for number in range(6)], str(lake.location))
    assert [capture.name for capture in again.captures] == ["day-5.pcap"]
    assert sorted(again.skipped) == [f"day-{number}.pcap" for number in range(5)]
    owners = {row["unit_id"] for row in lake.delta("ingests").to_pyarrow_table().to_pylist()}
    assert set(again.skipped.values()) < owners


def test_a_capture_with_more_of_a_known_day_adds_new_packets(folder, lake):
    (folder / "more").mkdir()
    report = ingest([capture_of(folder / "more", 0, packets=5)], str(lake.location))
    assert +report.sums.packets == {"duplicate": 3, "decoded": 2}
    assert check_lake(lake).faults == []


def test_files_merged_by_compaction_are_reread_and_recorded_again(folder, lake, files_read):
    (folder / "more").mkdir()
    ingest([capture_of(folder / "more", 0, channel=85)], str(lake.location))
    compact(lake)
    files_read.clear()
    known = load_ingest_state(lake)
    assert known == rebuilt_state(lake)
    assert len(files_read) < 3
    assert len(known.roles) == 2


def test_removed_rows_are_not_in_the_history(lake):
    load_ingest_state(lake)
    table = lake.delta("ingests")
    unit = table.to_pyarrow_table()["unit_id"][0].as_py()
    table.delete(f"unit_id = '{unit}'")
    known = load_ingest_state(lake)
    assert known == rebuilt_state(lake)
    assert len(known.fingerprints) == 4


def test_a_lake_without_memory_is_read_whole(lake):
    lake.table_location("_ingest_state").delete_folder()
    known = load_ingest_state(lake)
    assert known == rebuilt_state(lake)
    assert len(known.fingerprints) == 5


def older(lake):
    """The lake as version 0.1 left it: what it remembers is in ``_known``."""
    path = lake.location.path
    Path(path, "_ingest_state").rename(Path(path, "_known"))
    return Path(path, "_known")


def test_a_lake_of_an_earlier_version_is_read_and_remembers_again(folder, lake, files_read):
    old = older(lake)
    assert load_ingest_state(lake) == rebuilt_state(lake)
    assert not lake.table_location("_ingest_state").exists()
    again = ingest([capture_of(folder, number) for number in range(6)], str(lake.location))
    assert sorted(again.skipped) == [f"day-{number}.pcap" for number in range(5)]
    assert check_lake(lake).faults == []
    load_ingest_state(lake)
    files_read.clear()
    known = load_ingest_state(lake)
    assert len(files_read) < 3
    assert known == rebuilt_state(lake)
    assert old.exists()


def test_vacuum_removes_what_an_earlier_version_remembered(lake):
    old = older(lake)
    (old / "_delta_log" / "deep").mkdir()
    held = {str(path.relative_to(old.parent)) for path in old.rglob("*") if path.is_file()}
    assert any(path.endswith(".parquet") for path in held)

    def removed(**options):
        found = vacuum(lake, **options).files
        return {entry.location.relative_to(lake.location) for entry in found}

    assert not removed()  # an earlier version may be at work
    assert removed(older_than_ns=0, dry_run=True) == held
    assert old.exists()
    assert removed(older_than_ns=0) == held
    assert not old.exists()
    assert not removed(older_than_ns=0)
    assert load_ingest_state(lake) == rebuilt_state(lake)


def test_vacuum_keeps_the_files_of_others_among_what_is_retired(lake):
    old = older(lake)
    (old / "notes.txt").write_text("a user's own")
    vacuum(lake, older_than_ns=0)
    assert [path.name for path in old.rglob("*")] == ["notes.txt"]


RUNS = st.lists(st.tuples(st.integers(0, 9), st.integers(10, 19)), min_size=1, max_size=2)
KEYS = st.builds("{}/{}/{}".format, *[st.integers(1, 3)] * 3)
ROWS = st.fixed_dictionaries(
    {
        "content_hash": st.one_of(
            st.sampled_from("abc"),
            st.builds(f"{RANGE}{{}}@{{}}".format, st.just("f"), st.integers(0, 9)),
        ),
        "fingerprint": st.sampled_from("xyz"),
        "plain_fingerprint": st.one_of(st.none(), st.sampled_from("xyz")),
        "range_hash": st.none(),
        "size": st.integers(1, 9),
        "report": st.one_of(
            st.none(),
            st.fixed_dictionaries(
                {
                    "captures": st.just([]),
                    "roles": st.lists(
                        st.fixed_dictionaries(
                            {
                                "destination": st.sampled_from(["233.0.0.1:1", "233.0.0.2:1"]),
                                "stream": st.sampled_from(["incremental", "snapshot"]),
                                "feed": st.sampled_from("AB"),
                                "channels": st.lists(st.integers(1, 3), max_size=2),
                                "protocol": st.just("umdf"),
                            }
                        ),
                        max_size=2,
                    ),
                    "coverage": st.dictionaries(KEYS, RUNS, max_size=2),
                    "feeds": st.dictionaries(st.builds("{}/A".format, KEYS), RUNS, max_size=2),
                }
            ).map(json.dumps),
        ),
    }
)


@settings(max_examples=50, deadline=None)
@given(st.lists(ROWS, max_size=4), st.lists(ROWS, max_size=4))
def test_an_extended_history_equals_that_of_all_rows(first, second):
    whole = IngestState()
    whole.add([*first, *second])
    before = IngestState()
    before.add(first)
    recalled = IngestState()
    recalled.restore(json.loads(json.dumps(before.to_json())))
    assert recalled == before
    recalled.add(second)
    assert recalled == whole


def report_of(captures, *, odd=0):
    report = IngestReport("u")
    for number in range(captures):
        statistics = CaptureStatistics()
        statistics.packets = statistics.udp = 1000
        own = CaptureReport(f"capture-{number}.pcap", 10**9, f"{number:016x}", "0" * 32, "1" * 32)
        own.plain_fingerprint = "2" * 32
        if number < odd:
            statistics.packets += 1
            statistics.tcp = 1
        own.statistics = statistics
        report.captures.append(own)
        report.skipped[f"earlier-{number}.pcap"] = "3" * 32
        report.notes.append(f"capture-{number}.pcap: something was odd.")
        report.gaps.append({"channel": 1, "first_missing": number, "last_missing": number})
    return report


def test_the_report_that_a_lake_keeps_does_not_grow_with_the_captures():
    small, large = (len(json.dumps(report_of(count, odd=count).kept())) for count in (40, 500))
    assert large < 1.05 * small < 8_000
    kept = report_of(500, odd=500).kept()
    assert (kept["capture_count"], kept["captures_with_issues"], kept["skipped"]) == (500, 500, 500)
    assert kept["packets"]["captured"] == 500 * 1001
    # The one that a user asks for has everything.
    assert len(report_of(500).json()["captures"]) == 500


def test_tables_are_loaded_once_however_many_ingests_there_were(folder, lake, monkeypatch):
    loads = []
    make = LakeTable.__init__

    def note(self, location):
        loads.append(location.name)
        make(self, location)

    monkeypatch.setattr(LakeTable, "__init__", note)
    ingest([capture_of(folder, 8)], str(lake.location))
    several = {name for name in loads if loads.count(name) > 1}
    assert several <= {"_intents", "ingests"}
    assert len(loads) < 20
