"""Ingests that die, run out of disk, meet growing files or each other: nothing lost, none twice."""

import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from pregao.capture import PcapWriter, read_packets
from pregao.lake.execution.runner import SerialRunner
from pregao.lake.ingest.pipeline import ingest
from pregao.lake.ingest.verify import check_lake
from pregao.lake.storage.lake_store import LakeStore
from tests.forked import Forked
from tests.lake.days import SMALL, assert_same, rows
from tests.lake.days import day as simulated

ROOT = Path(__file__).parents[3]


def day(**settings):
    return simulated(**SMALL, **settings)


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    lake = tmp_path_factory.mktemp("clean")
    ingest([str(day())], str(lake))
    return lake


def in_a_process(program, *arguments):
    """Run a program that ends itself or is ended."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


DIE = """
    import os, signal, sys
    from pregao.lake.ingest.pipeline import ingest
    from pregao.lake.execution.runner import SerialRunner
    from pregao.lake.storage.lake_store import LakeStore
    captures, lake, step = sys.argv[1:]
    def die():
        os.kill(os.getpid(), signal.SIGKILL)
    if step == "tasks":
        class Dying(SerialRunner):
            def run(self, *arguments):
                super().run(*arguments)
                die()
        ingest([captures], lake, runner=Dying())
    real = LakeStore.commit
    def commit(self, unit):
        def watch(done):
            if done == step:
                die()
        if step == "before":
            die()
        return real(self, unit, watch)
    LakeStore.commit = commit
    ingest([captures], lake)
"""


@pytest.mark.parametrize(
    "step", ["tasks", "before", "written", "intended", "packets", "umdf_trade_53", "ingests"]
)
def test_killed_at_any_step_and_run_again(clean, tmp_path, step):
    assert Forked(textwrap.dedent(DIE), day(), tmp_path, step).wait() == -signal.SIGKILL
    report = ingest([str(day())], str(tmp_path))
    assert bool(report.captures) == (step in ("tasks", "before", "written"))
    assert_same(clean, tmp_path)
    assert not check_lake(LakeStore(str(tmp_path))).faults


def test_two_concurrent_ingests_make_one_lake(tmp_path):
    """Two days, two processes, one new lake; and the same day from both sides."""
    lake = tmp_path / "both"
    days = [str(day()), str(day(seed=2, day="2026-05-22")), str(day())]
    errors = []

    def work(captures):
        try:
            ingest([captures], str(lake))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(captures,)) for captures in days]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    single = tmp_path / "single"
    for captures in days[:2]:
        ingest([captures], str(single))
    assert_same(lake, single)
    assert not check_lake(LakeStore(str(lake))).faults


def test_both_feeds_concurrently_from_two_sides(clean, tmp_path):
    """Each side ingests one feed: the later one plans again and adds only what is missing."""
    source = Path(day())
    second = [str(path) for path in source.glob("*Incremental_B.pcap")]
    first = [str(path) for path in source.glob("*.pcap") if str(path) not in second]
    errors = []

    def work(captures):
        try:
            ingest(captures, str(tmp_path))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(side,)) for side in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert not check_lake(LakeStore(str(tmp_path))).faults
    assert len(rows(tmp_path, "umdf_order_mbo_50")) == len(rows(clean, "umdf_order_mbo_50"))


FULL = """
    import resource, signal, sys
    from pregao.errors import PregaoError
    from pregao.lake.execution.runner import SerialRunner
    from pregao.lake.ingest.pipeline import ingest
    limit = int(sys.argv[3])
    class LittleSpace(SerialRunner):
        def run(self, *arguments):
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            try:
                return super().run(*arguments)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    try:
        ingest([sys.argv[1]], sys.argv[2], runner=LittleSpace())
    except (PregaoError, OSError) as error:
        print("sentence:", error)
"""


def test_a_full_disk_leaves_nothing_visible(clean, tmp_path):
    done = in_a_process(FULL, day(), tmp_path, 8_000)
    assert "sentence:" in done.stdout, done.stderr
    assert rows(tmp_path, "packets") == []
    ingest([str(day())], str(tmp_path))
    assert_same(clean, tmp_path)


def test_a_file_that_grows_while_it_is_read(tmp_path):
    """The content at the start is ingested; the grown file is another capture."""
    source = next(Path(day()).glob("*Incremental_A.pcap"))
    with read_packets(source) as reader:
        packets = list(reader)
    growing = tmp_path / "growing.pcap"
    half = len(packets) // 2
    with PcapWriter(growing) as writer:
        for packet in packets[:half]:
            writer.write(packet.time_ns, packet.data)
    rest = tmp_path / "rest.pcap"
    with PcapWriter(rest) as writer:
        for packet in packets[half:]:
            writer.write(packet.time_ns, packet.data)

    class Growing(SerialRunner):
        def run(self, *arguments):
            with growing.open("ab") as more:
                more.write(rest.read_bytes()[24:])
            return super().run(*arguments)

    lake = tmp_path / "lake"
    first = ingest([str(growing)], str(lake), runner=Growing())
    assert first.captures[0].statistics.packets == half
    second = ingest([str(growing)], str(lake))
    assert second.captures[0].statistics.packets == len(packets)
    assert second.json()["packets"]["duplicate"] >= half - 20  # heartbeats have no key
    assert not check_lake(LakeStore(str(lake))).faults


def test_the_check_finds_missing_rows(clean, tmp_path):
    import shutil

    lake = tmp_path / "lake"
    shutil.copytree(clean, lake)
    store = LakeStore(str(lake))
    assert not check_lake(store).faults
    store.delta("umdf_trade_53").delete("index_in_packet > 1")
    faults = check_lake(LakeStore(str(lake))).faults
    assert any("messages Trade_53" in fault for fault in faults)
