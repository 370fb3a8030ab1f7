"""Tasks on Spark: what they make is what this process makes, also when one of them dies."""

from pathlib import Path

import pytest

from pregao.errors import PregaoError
from pregao.lake.books.build import books_on_spark, build_books
from pregao.lake.ingest.options import IngestOptions
from pregao.lake.ingest.pipeline import ingest
from pregao.lake.ingest.runner import merge_on_spark, on_spark
from pregao.lake.ingest.verify import check_lake
from pregao.lake.storage.lake_store import LakeStore
from pregao.lake.storage.vacuum import vacuum
from tests.lake.book_days import BookDay, built, simulate
from tests.lake.days import SMALL, assert_same
from tests.lake.days import day as simulated


def day():
    return simulated(**SMALL)


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    lake = tmp_path_factory.mktemp("clean")
    ingest([str(day())], str(lake))
    return lake


def test_on_spark_with_a_worker_that_dies(clean, tmp_path, spark, monkeypatch):
    """A worker is killed when it has written: Spark tries again, and nothing is there twice."""
    from pregao.lake.ingest import runner

    died = tmp_path / "died"

    def deadly(task, work=runner.run_task):
        import os
        import signal

        manifest = work(task)
        if task.number == 1 and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return manifest

    monkeypatch.setattr(runner, "run_task", deadly)
    report = ingest(
        [str(day())],
        str(tmp_path / "lake"),
        IngestOptions(target_bytes=60_000),
        run=on_spark(spark),
        merge=merge_on_spark(spark),
    )
    assert report.tasks > 2
    assert died.exists()
    assert_same(clean, tmp_path / "lake")
    assert not check_lake(LakeStore(str(tmp_path / "lake"))).faults
    vacuum(LakeStore(str(tmp_path / "lake")), older_than_ns=0)
    assert_same(clean, tmp_path / "lake")
    assert not vacuum(LakeStore(str(tmp_path / "lake")), older_than_ns=0).files


def test_an_error_inside_a_task_is_one_line(tmp_path, spark):
    broken = tmp_path / "broken.pcap"
    source = next(Path(day()).glob("*Incremental_A.pcap"))
    data = bytearray(source.read_bytes())
    position = len(data) // 2
    data[position : position + 4000] = b"\xff" * 4000
    broken.write_bytes(data)
    with pytest.raises(PregaoError) as caught:
        ingest(
            [str(broken)], str(tmp_path / "lake"), run=on_spark(spark), merge=merge_on_spark(spark)
        )
    assert "broken.pcap" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_on_spark_the_books_are_the_same(spark, tmp_path):
    local_day = built(simulate(tmp_path / "day", seconds=6))
    lake = LakeStore(tmp_path / "lake")
    ingest([str(path) for path in sorted(local_day.folder.glob("*.pcap"))], lake.location)
    reports = build_books(lake.location, run=books_on_spark(spark))
    spark_day = BookDay(local_day.folder, lake, reports)
    for table in ("ticks", "book_checkpoints", "book_audit"):
        assert keyed(spark_day.rows(table)) == keyed(local_day.rows(table))
    frame = spark.read.parquet(str(tmp_path / "lake" / "ticks"))
    best = frame.selectExpr("max(bid_price_1)", "min(ask_price_1)", "count(*)").collect()[0]
    rows = local_day.rows("ticks")
    bids = [row["bid_price_1"] for row in rows if row["bid_price_1"] is not None]
    asks = [row["ask_price_1"] for row in rows if row["ask_price_1"] is not None]
    assert tuple(best) == (max(bids), min(asks), len(rows))


def keyed(rows):
    return sorted(
        rows,
        key=lambda row: (
            row["channel"],
            row["security_id"],
            row["sequence_version"],
            row["sequence_number"],
            row.get("index_in_packet") or -1,
            row.get("loop_version") or -1,
        ),
    )
