"""Builds of books: once for the same data, again for more, complete or not at all."""

from __future__ import annotations

from collections import Counter
from datetime import date
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest

from pregao.clock import MINUTE, SECOND
from pregao.errors import UsageError
from pregao.feed.replay.day import LAST_SERIAL
from pregao.lake.books import build as build_module
from pregao.lake.books.build import BookOptions, build_books
from pregao.lake.books.catalog import FileCatalog, latest_build
from pregao.lake.books.planner import plan_day, plan_tasks
from pregao.lake.books.schemas import DERIVED
from pregao.lake.books.task import BookTask, BuildSettings, run_book_task
from pregao.lake.ingest.maintenance import compact
from pregao.lake.ingest.pipeline import ingest
from pregao.lake.storage import transaction
from pregao.lake.storage.lake_store import LakeStore
from tests.lake.book_days import BookDay, built, compare_final, compare_ticks, simulate

DAY = date(2026, 5, 21)


@cache
def folder() -> Path:
    return simulate(Path(mkdtemp(prefix="pregao-books-")), seconds=12, loss="0.03")


@pytest.fixture
def lake(tmp_path):
    lake = LakeStore(tmp_path / "lake")
    ingest([str(path) for path in sorted(folder().glob("*.pcap"))], lake.location)
    return lake


def content(lake, tables=DERIVED, *, without=("unit_id",)):
    """All rows of the books' tables, in order."""
    found = {}
    for table in tables:
        rows = lake.delta(table).to_pyarrow_table().to_pylist()
        found[table] = sorted(
            repr(sorted((k, v) for k, v in row.items() if k not in without)) for row in rows
        )
    return found


def test_building_twice_adds_nothing(lake):
    (first,) = build_books(lake.location)
    before = content(lake, without=())
    (second,) = build_books(lake.location)
    assert (first.built, second.built) == (True, False)
    assert second.unit_id == first.unit_id
    assert content(lake, without=()) == before


def test_other_settings_replace_existing_rows_and_back_again(lake):
    build_books(lake.location)
    wide = content(lake)
    (narrow,) = build_books(lake.location, BookOptions(depth=2, interval_ns=SECOND))
    assert narrow.built
    day = BookDay(folder(), lake)
    assert len(day.rows("books")) == narrow.counts["instruments"]
    assert all(row["bid_price_3"] is None for row in day.rows("ticks"))
    assert len(day.rows("book_checkpoints")) == narrow.counts["checkpoints"]
    (again,) = build_books(lake.location)
    assert again.built
    assert content(lake) == wide


def test_more_levels_than_the_table_had_columns(lake):
    build_books(lake.location)
    build_books(lake.location, BookOptions(depth=12))
    ticks = BookDay(folder(), lake).rows("ticks")
    assert any(tick["bid_price_12"] is not None for tick in ticks)


def test_a_later_ingest_rebuilds_the_day(tmp_path):
    lake = LakeStore(tmp_path / "lake")
    incremental = sorted(folder().glob("*Incremental*.pcap"))
    ingest(incremental, lake.location)
    (blind,) = build_books(lake.location)
    assert blind.audit == Counter()
    ingest([str(path) for path in sorted(folder().glob("*Snapshot*.pcap"))], lake.location)
    (seeing,) = build_books(lake.location)
    assert seeing.built
    assert seeing.audit["equal"] > 50
    day = BookDay(folder(), lake, [seeing])
    assert compare_final(day) == []
    assert len(day.rows("books")) == seeing.counts["instruments"]
    _, unit = latest_build(lake, DAY, seeing.channel)
    assert {row["unit_id"] for row in day.rows("books")} == {unit}
    gaps = [row for row in day.rows("gaps") if row["security_id"] is not None]
    assert len(gaps) == seeing.counts["gaps"]


def test_a_build_of_some_instruments_leaves_the_others_alone(lake):
    build_books(lake.location)
    before = content(lake, ("ticks", "books"))
    day = BookDay(folder(), lake)
    own = day.rows("books")[0]
    build_books(lake.location, BookOptions(symbols=(own["symbol"],), depth=1))
    ticks = day.rows("ticks")
    mine = [tick for tick in ticks if tick["security_id"] == own["security_id"]]
    assert mine
    assert all(tick["bid_price_2"] is None for tick in mine)
    assert len(day.rows("books")) == len(before["books"])
    build_books(lake.location, BookOptions(symbols=(str(own["security_id"]),)))
    assert content(lake, ("ticks", "books")) == before


def test_rows_that_compaction_put_into_one_file_are_still_replaced(lake):
    build_books(lake.location, BookOptions(parallelism=4))
    before = content(lake)
    gaps = len(BookDay(folder(), lake).rows("gaps"))
    compact(lake)
    build_books(lake.location, BookOptions(depth=3))
    assert len(BookDay(folder(), lake).rows("gaps")) == gaps
    build_books(lake.location)
    assert content(lake) == before


def test_a_build_that_dies_while_it_commits_is_finished_by_the_next_command(lake, monkeypatch):
    build_books(lake.location)
    whole = content(lake)
    build_books(lake.location, BookOptions(depth=2))
    replace_once = transaction.replace_once

    def die(table, *arguments):
        if table.name == "ticks":
            raise KeyboardInterrupt
        return replace_once(table, *arguments)

    monkeypatch.setattr(transaction, "replace_once", die)
    with pytest.raises(KeyboardInterrupt):
        build_books(lake.location)
    monkeypatch.undo()
    assert lake.pending()
    assert content(lake) != whole
    lake.roll_forward()
    assert content(lake) == whole
    (report,) = build_books(lake.location)
    assert not report.built


def test_two_concurrent_builds_make_one(lake, monkeypatch):
    commit = build_module._commit
    other = []

    def interrupted(*arguments):
        if not other:
            other.append(None)
            other[0] = build_books(lake.location)
        return commit(*arguments)

    monkeypatch.setattr(build_module, "_commit", interrupted)
    (report,) = build_books(lake.location)
    assert report.unit_id == other[0][0].unit_id
    day = BookDay(folder(), lake)
    assert len(day.rows("books")) == report.counts["instruments"]
    assert len(day.rows("ticks")) == report.counts["ticks"]


def test_of_two_concurrent_builds_with_other_settings_the_later_one_stays(lake, monkeypatch):
    commit = build_module._commit
    other = []

    def interrupted(*arguments):
        if not other:
            other.append(None)
            other[0] = build_books(lake.location, BookOptions(depth=2))
        return commit(*arguments)

    monkeypatch.setattr(build_module, "_commit", interrupted)
    (report,) = build_books(lake.location)
    assert report.unit_id != other[0][0].unit_id
    day = BookDay(folder(), lake)
    assert {row["unit_id"] for row in day.rows("books")} == {report.unit_id}
    assert len(day.rows("ticks")) == report.counts["ticks"]


def planned(lake):
    catalog = FileCatalog(lake)
    (channel,) = catalog.channels(DAY)
    return plan_day(catalog, DAY, channel)


SETTINGS = BuildSettings("unit", 10, 10 * MINUTE)


def rows_of(lake, manifests, table):
    found = []
    for manifest in manifests:
        for file in manifest.files:
            if file.table == table:
                import pyarrow.parquet as pq

                path = lake.table_location(table).join(file.path).path
                found += pq.ParquetFile(path).read().to_pylist()
    return sorted(map(repr, found))


def test_how_instruments_are_shared_out_changes_nothing(lake, monkeypatch):
    lake.ensure_tables(build_module.specs(10))
    monkeypatch.setattr("pregao.lake.books.planner.MIN_TASK", 1)
    day = planned(lake)
    few, many = plan_tasks(day, SETTINGS, 1), plan_tasks(day, SETTINGS, 8)
    assert len(few) < len(many)
    parts = sorted((task.part.first, task.part.last) for task in many)
    assert all(a[1] < b[0] for a, b in pairwise(parts))
    one = [run_book_task(task) for task in few]
    other = [run_book_task(task) for task in many]
    for table in ("ticks", "book_checkpoints", "book_audit", "gaps", "books"):
        assert rows_of(lake, one, table) == rows_of(lake, other, table), table


def test_a_sequence_in_windows_gives_the_same_as_in_one(lake):
    lake.ensure_tables(build_module.specs(10))
    day = planned(lake)
    busiest = max(BookDay(folder(), lake, build_books(lake.location)).rows("books"),
                  key=lambda row: row["messages"])  # fmt: skip
    part = type(plan_tasks(day, SETTINGS, 1)[0].part)(
        busiest["security_id"], busiest["security_id"]
    )
    whole = run_book_task(BookTask(0, day, SETTINGS, part))
    last = busiest["origin_number"] + 5000
    cuts = sorted(set(np.linspace(1, last, 9).astype(int).tolist()))
    windows = tuple(zip([0, *(cut + 1 for cut in cuts)], [*cuts, LAST_SERIAL], strict=True))
    cut = run_book_task(BookTask(0, day, SETTINGS, part, windows))
    for table in ("ticks", "book_audit", "gaps"):
        assert rows_of(lake, [whole], table) == rows_of(lake, [cut], table), table
    assert cut.counts["checkpoints"] >= whole.counts["checkpoints"]


def test_instruments_with_very_many_messages_are_read_in_windows(lake, monkeypatch):
    monkeypatch.setattr("pregao.lake.books.planner.ROWS_PER_WINDOW", 100)
    monkeypatch.setattr("pregao.lake.books.planner.ROWS_PER_TASK", 100)
    monkeypatch.setattr("pregao.lake.books.planner.MIN_TASK", 1)
    tasks = plan_tasks(planned(lake), SETTINGS, 1)
    windowed = [task for task in tasks if task.windows]
    assert windowed
    for task in windowed:
        assert task.part.first == task.part.last
        assert task.windows[0][0] == 0
        assert task.windows[-1][1] == LAST_SERIAL


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (BookOptions(depth=0), "levels"),
        (BookOptions(depth=101), "levels"),
        (BookOptions(interval_ns=1), "at least one second"),
        (BookOptions(dates=(date(2020, 1, 1),)), "2026-05-21"),
        (BookOptions(channels=(3,)), "channels"),
        (BookOptions(symbols=("NOPE",)), "NOPE"),
    ],
)
def test_what_cannot_be_built_is_reported(lake, options, words):
    with pytest.raises(UsageError, match=words):
        build_books(lake.location, options)


def test_a_path_without_a_lake_is_reported(tmp_path):
    with pytest.raises(UsageError, match="not a lake"):
        build_books(str(tmp_path))


def test_a_day_on_several_channels(tmp_path):
    day = built(simulate(tmp_path / "day", instruments=40, seconds=6, rate=500.0))
    assert len({report.channel for report in day.reports}) > 1
    assert compare_final(day) == []
    assert compare_ticks(day) == len(day.truth())
    assert "different" not in day.audit
