"""Days, channels and ingests that are dropped: gone from all tables, and free to come again."""

import gzip
import shutil
import signal
import textwrap
from collections import Counter
from datetime import date

import pytest

from pregao.capture import PcapWriter, read_packets
from pregao.errors import UsageError
from pregao.lake.books.build import build_books
from pregao.lake.books.catalog import latest_build
from pregao.lake.drop.drop import drop
from pregao.lake.drop.selection import DropSelection
from pregao.lake.ingest.pipeline import ingest
from pregao.lake.ingest.verify import check_lake, unsound
from pregao.lake.storage import delta, lake_store
from pregao.lake.storage.lake_store import LakeStore
from tests.forked import Forked
from tests.lake.days import SMALL, assert_same, day, rows
from tests.lake.streaming.test_lake_streaming_ingest import streamed

FIRST, SECOND = date(2026, 5, 21), date(2026, 5, 22)


def first():
    return day(**SMALL)


def second():
    return day(**SMALL, day="2026-05-22", seed=2)


def other_channel():
    return day(**SMALL, profile="derivatives", seed=3)


def ingested_lake(location, *ingests):
    for captures in ingests:
        ingest([str(path) for path in captures], str(location))
    return LakeStore(location)


def captures(folder, *names):
    return [folder / f"051_{name}.pcap" for name in names]


def assert_sound(lake):
    assert unsound(lake) == []
    assert check_lake(lake).faults == []
    assert lake.pending() == []


def merged(folder, *captures):
    """One capture with the packets of several, in their order."""
    path = folder / "merged.pcap"
    with PcapWriter(path) as writer:
        for capture in captures:
            for packet in read_packets(capture):
                writer.write(packet.time_ns, packet.data)
    return path


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Two days, the first with two channels, in one ingest."""
    folder = tmp_path_factory.mktemp("both")
    return ingested_lake(folder, [first(), second(), other_channel()])


@pytest.fixture
def lake(both, tmp_path):
    shutil.copytree(both.location.path, tmp_path / "lake")
    return LakeStore(tmp_path / "lake")


def test_a_day_is_removed_and_ingested_again(both, lake, tmp_path):
    done = drop(lake, DropSelection(dates=(FIRST,)))
    assert done.shortened
    assert not done.ingests
    assert sum(done.rows.values()) > 1_000
    assert_sound(lake)
    assert_same(ingested_lake(tmp_path / "only", [second()]).location.path, lake.location.path)
    assert ingest([str(second())], lake.location, allow_empty=True).captures == []
    ingest([str(first()), str(other_channel())], lake.location)
    assert_sound(lake)
    assert_same(both.location.path, lake.location.path)


def test_a_channel_is_removed_and_the_others_stay(lake, tmp_path):
    drop(lake, DropSelection(channels=(51,)))
    assert_sound(lake)
    assert_same(
        ingested_lake(tmp_path / "only", [other_channel()]).location.path, lake.location.path
    )


def test_a_channel_of_a_day(lake, tmp_path):
    drop(lake, DropSelection(dates=(FIRST,), channels=(51,)))
    expected = ingested_lake(tmp_path / "only", [second(), other_channel()])
    assert_sound(lake)
    assert_same(expected.location.path, lake.location.path)


def test_a_dry_run_changes_nothing_and_opens_each_table_once(both, lake, monkeypatch):
    before = {name: lake.delta(name).version() for name in lake.table_names()}
    opened = Counter()

    def load(location):
        opened[location.name] += 1
        return delta.LakeTable(location)

    with monkeypatch.context() as patch:
        patch.setattr(lake_store, "load", load)
        patch.setattr(delta, "load", load)
        planned = drop(lake, DropSelection(dates=(FIRST,)), dry_run=True)
    assert opened.keys() >= set(lake.table_names())
    assert {name for name, count in opened.items() if count > 1} <= {"ingests", "_intents"}
    assert {name: lake.delta(name).version() for name in lake.table_names()} == before
    done = drop(lake, DropSelection(dates=(FIRST,)))
    assert (planned.rows, planned.pairs) == (done.rows, done.pairs)


def test_dropped_twice_and_ingested_thrice(tmp_path):
    lake = ingested_lake(tmp_path, [first()])
    expected = rows(tmp_path, "umdf_order_mbo_50")
    for _ in range(2):
        drop(lake, DropSelection(dates=(FIRST,)))
        assert rows(tmp_path, "umdf_order_mbo_50") == []
        with pytest.raises(UsageError, match="nothing to drop"):
            drop(lake, DropSelection(dates=(FIRST,)))
        assert len(ingest([str(first())], lake.location).captures) == 4
        assert ingest([str(first())], lake.location).captures == []
        assert rows(tmp_path, "umdf_order_mbo_50") == expected
        assert_sound(lake)


def test_a_dropped_capture_comes_back_compressed_too(tmp_path):
    (plain,) = captures(first(), "Incremental_A")
    lake = ingested_lake(tmp_path / "lake", [plain])
    expected = rows(lake.location.path, "umdf_trade_53")
    drop(lake, DropSelection(dates=(FIRST,)))
    packed = tmp_path / "again.pcap.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes(), 1))
    assert len(ingest([str(packed)], lake.location).captures) == 1
    assert ingest([str(plain)], lake.location).captures == []
    assert rows(lake.location.path, "umdf_trade_53") == expected
    assert_sound(lake)


def units(lake):
    found = lake.delta("ingests").to_pyarrow_table().sort_by("committed_at_ns").to_pylist()
    return list(dict.fromkeys(row["unit_id"] for row in found))


def test_an_ingest_that_others_lean_on_is_not_dropped_alone(tmp_path):
    feeds = [captures(first(), name) for name in ("Incremental_A", "Incremental_B")]
    lake = ingested_lake(tmp_path / "lake", *feeds)
    before, after = units(lake)
    with pytest.raises(UsageError, match=f"later ingest {after} .*channel 51 on 2026-05-21"):
        drop(lake, DropSelection(ingests=(before,)))
    drop(lake, DropSelection(ingests=(after[:8],)))
    assert_sound(lake)
    assert_same(ingested_lake(tmp_path / "only", feeds[0]).location.path, lake.location.path)
    ingest([str(path) for path in feeds[1]], lake.location)
    assert_same(ingested_lake(tmp_path / "two", *feeds).location.path, lake.location.path)
    before, after = (unit for unit in units(lake) if not unit.startswith("drop-"))
    drop(lake, DropSelection(ingests=(before, after)))
    assert rows(lake.location.path, "packets") == []
    assert_sound(lake)


def test_instruments_come_from_other_ingests(tmp_path):
    (whole,) = captures(first(), "InstrumentDefinition")
    packets = list(read_packets(whole))
    halves = []
    for number, part in enumerate((packets[: len(packets) // 2], packets[len(packets) // 2 :])):
        halves.append(tmp_path / f"half{number}.pcap")
        with PcapWriter(halves[-1]) as writer:
            for packet in part:
                writer.write(packet.time_ns, packet.data)
    lake = ingested_lake(tmp_path / "lake", [halves[0]], [halves[1]])
    drop(lake, DropSelection(ingests=(units(lake)[1],)))
    assert_sound(lake)
    expected = ingested_lake(tmp_path / "only", [halves[0]])
    assert rows(expected.location.path, "instruments")
    assert_same(expected.location.path, lake.location.path)


def test_a_capture_of_two_days_loses_one(tmp_path):
    (one,), (other,) = captures(first(), "Incremental_A"), captures(second(), "Incremental_A")
    path = merged(tmp_path, one, other)
    lake = ingested_lake(tmp_path / "lake", [path])
    expected = rows(lake.location.path, "umdf_order_mbo_50")
    done = drop(lake, DropSelection(dates=(SECOND,)))
    assert done.partly == [path.name]
    assert_sound(lake)
    assert {row["date"] for row in rows(lake.location.path, "packets")} == {FIRST}
    # It may come again: what stayed counts as there already.
    assert len(ingest([str(path)], lake.location).captures) == 1
    assert rows(lake.location.path, "umdf_order_mbo_50") == expected
    assert_sound(lake)
    assert ingest([str(path)], lake.location).captures == []
    drop(lake, DropSelection(dates=(FIRST, SECOND)))
    assert rows(lake.location.path, "packets") == []
    assert_sound(lake)


DIE = """
    import os, signal, sys
    from datetime import date
    from pregao.lake.drop.drop import drop
    from pregao.lake.drop.selection import DropSelection
    from pregao.lake.storage.lake_store import LakeStore
    lake, step = sys.argv[1:]
    real = LakeStore.commit
    def commit(self, unit):
        def watch(done):
            if done == step:
                os.kill(os.getpid(), signal.SIGKILL)
        return real(self, unit, watch)
    LakeStore.commit = commit
    drop(LakeStore(lake), DropSelection(dates=(date(2026, 5, 21),)))
"""


@pytest.mark.parametrize("step", ["written", "intended", "umdf_trade_53"])
def test_killed_at_any_step_it_is_finished_or_never_was(both, lake, step):
    died = Forked(textwrap.dedent(DIE), lake.location.path, step)
    assert died.wait() == -signal.SIGKILL
    lake.roll_forward()
    assert_sound(lake)
    there = {row["date"] for row in rows(lake.location.path, "packets")}
    if step == "written":
        assert there == {FIRST, SECOND}
        assert_same(both.location.path, lake.location.path)
    else:
        assert there == {SECOND}


def test_a_concurrent_ingest_is_dropped_too(tmp_path, monkeypatch):
    """Feed B is ingested after the drop was planned: it is planned again, and feed B goes too."""
    lake = ingested_lake(tmp_path, captures(first(), "Incremental_A"))
    real = LakeStore.commit
    came = []

    def commit(self, unit, *more):
        if unit.unit_id.startswith("drop-") and not came:
            came.append(ingest([str(captures(first(), "Incremental_B")[0])], lake.location))
        return real(self, unit, *more)

    monkeypatch.setattr(LakeStore, "commit", commit)
    done = drop(lake, DropSelection(dates=(FIRST,)))
    assert came
    assert len(done.ingests) == 2
    assert rows(tmp_path, "packets") == []
    assert_sound(lake)


def test_an_ingest_that_was_planned_before_a_drop_plans_again(tmp_path, monkeypatch):
    """Feed B would be kept as duplicates of feed A, which is dropped before B is committed."""
    lake = ingested_lake(tmp_path, captures(first(), "Incremental_A"))
    but = ("capture_id", "feed", "capture_time_ns")
    expected = rows(tmp_path, "umdf_order_mbo_50", without=but)
    real = LakeStore.commit
    dropped = []

    def commit(self, unit, *more):
        if not unit.unit_id.startswith("drop-") and not dropped:
            dropped.append(drop(LakeStore(tmp_path), DropSelection(dates=(FIRST,))))
        return real(self, unit, *more)

    monkeypatch.setattr(LakeStore, "commit", commit)
    ingest([str(captures(first(), "Incremental_B")[0])], lake.location)
    assert dropped
    assert rows(tmp_path, "umdf_order_mbo_50", without=but) == expected
    assert_sound(lake)


def test_books_are_dropped_and_rebuilt_from_the_rest(tmp_path):
    lake = ingested_lake(tmp_path, captures(first(), "Incremental_A", "Snapshot"))
    build_books(lake.location)
    ticks = rows(tmp_path, "ticks")
    ingest([str(captures(first(), "Incremental_B")[0])], lake.location)
    drop(lake, DropSelection(ingests=(units(lake)[1],)))
    for table in ("ticks", "books", "book_checkpoints", "book_audit"):
        assert rows(tmp_path, table) == []
    # The rest is the input of the last build; its rows are removed all the same.
    (report,) = build_books(lake.location)
    assert report.built
    assert rows(tmp_path, "ticks") == ticks
    assert not build_books(lake.location)[0].built
    drop(lake, DropSelection(channels=(51,)))
    assert rows(tmp_path, "ticks") == []
    assert latest_build(lake, FIRST, 51)[1].startswith("drop-")
    assert_sound(lake)


def test_the_rows_of_a_stream_are_dropped_and_streamed_again(tmp_path):
    first_time = streamed(first(), tmp_path, max_bytes=60_000)
    lake = LakeStore(tmp_path)
    expected = {name: rows(tmp_path, name) for name in ("umdf_order_mbo_50", "umdf_trade_53")}
    drop(lake, DropSelection(channels=(51,)))
    assert rows(tmp_path, "packets") == []
    assert_sound(lake)
    assert len(streamed(first(), tmp_path, max_bytes=60_000)) == len(first_time) > 1
    assert {name: rows(tmp_path, name) for name in expected} == expected
    assert streamed(first(), tmp_path, max_bytes=60_000) == []
    assert_sound(lake)


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (DropSelection(), "Select what to drop"),
        (DropSelection(dates=(FIRST,), ingests=("abcd",)), "cannot be combined with --date"),
        (DropSelection(dates=(date(2020, 1, 1),)), "It has the days 2026-05-21, 2026-05-22"),
        (DropSelection(channels=(99,)), "has no data of channel 99"),
        (DropSelection(ingests=("nope",)), "matches no ingest"),
        (DropSelection(ingests=("ab",)), "too short"),
    ],
)
def test_invalid_values_are_reported(both, selection, message):
    with pytest.raises(UsageError, match=message):
        drop(both, selection)
