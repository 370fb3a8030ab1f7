"""Vacuum takes away orphans and nothing else; compaction changes files, not rows."""

import os
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pregao.clock import DAY, HOUR
from pregao.errors import UsageError
from pregao.lake.ingest.maintenance import compact, layout_of
from pregao.lake.storage.commit_unit import CommitUnit
from pregao.lake.storage.lake_store import STAGING, LakeStore
from pregao.lake.storage.optimize import TableLayout
from pregao.lake.storage.vacuum import vacuum
from tests.lake.lake_support import (
    DAY as TODAY,
)
from tests.lake.lake_support import (
    ORDERS,
    TRADES,
    counts,
    ingest_row,
    order,
    python,
    unit_of,
    write_file,
)


def age(path, hours):
    """Set the age of a file."""
    old = Path(path).stat().st_mtime_ns - hours * HOUR
    os.utime(path, ns=(old, old))


def age_all(lake, hours):
    for entry in lake.location.entries(recursive=True):
        if not entry.is_folder:
            age(entry.location.uri, hours)


def removed(lake, **options):
    return sorted(
        entry.location.relative_to(lake.location) for entry in vacuum(lake, **options).files
    )


def sorted_rows(lake, name="orders"):
    rows = lake.delta(name).to_pyarrow_table().to_pylist()
    return sorted(map(str, rows))


def test_only_old_files_that_nothing_names_are_removed(small_lake):
    location = small_lake.location
    old = write_file(location, ORDERS, [order(1, 1)])
    new = write_file(location, ORDERS, [order(1, 2)])
    location.join(STAGING, "task-1", "left.parquet").write_bytes(b"old")
    location.join("notes.txt").write_bytes(b"the user's own")
    location.join("orders", "readme.md").write_bytes(b"the user's own")
    location.join("other", "x.parquet").write_bytes(b"no table of ours")
    age_all(small_lake, 48)
    os.utime(location.join("orders", new.path).uri)
    before = counts(small_lake)
    expected = [f"{STAGING}/task-1/left.parquet", f"orders/{old.path}"]
    assert removed(small_lake, dry_run=True) == expected
    assert location.join("orders", old.path).exists()
    assert removed(small_lake) == expected
    assert not location.join("orders", old.path).exists()
    assert removed(small_lake) == []
    assert counts(small_lake) == before
    assert location.join("orders", new.path).exists()
    assert location.join("other", "x.parquet").exists()
    assert removed(small_lake, older_than_ns=0) == [f"orders/{new.path}"]


def test_files_that_an_intent_names_are_kept_and_finished(small_lake):
    def die(step):
        if step == "intended":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        small_lake.commit(unit_of(small_lake.location, "u3", ["c3"]), watch=die)
    age_all(small_lake, 48)
    assert removed(small_lake) == []
    assert counts(small_lake)["orders"] == 6


def test_files_of_an_intent_are_kept_even_if_it_cannot_be_finished_now(small_lake, monkeypatch):
    def die(step):
        if step == "intended":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        small_lake.commit(unit_of(small_lake.location, "u3", ["c3"]), watch=die)
    age_all(small_lake, 48)
    # Another process declares it in the moment after everything was rolled forward.
    monkeypatch.setattr(LakeStore, "roll_forward", lambda self: [])
    assert removed(small_lake) == []
    monkeypatch.undo()
    assert small_lake.roll_forward() == ["u3"]
    assert counts(small_lake)["orders"] == 6


def test_merged_files_are_kept_for_readers_within_the_limit(small_lake):
    location = small_lake.location
    small_lake.commit(unit_of(location, "u3", ["c3"], first_number=5))
    age_all(small_lake, 48)
    (merged,) = compact(small_lake, ["orders"])
    assert (merged.files, merged.rows, merged.date) == (2, 4, TODAY)
    # According to the log they were removed just now.
    assert removed(small_lake) == []
    age_all(small_lake, 48)
    assert len(removed(small_lake)) == 2
    assert counts(small_lake)["orders"] == 6


def test_compaction_keeps_rows_and_sorts_them_over_all_files(tmp_path):
    lake = LakeStore(tmp_path)
    lake.ensure_tables([ORDERS, TRADES])
    prices = ["99999999999999.9999", None, "-0.0001"]
    for number in range(3):
        rows = [
            order(security, 10 * number + index, prices[number], legs=[{"leg_id": index}])
            for index, security in enumerate((9, 3, 5))
        ]
        rows.sort(key=lambda row: row["security_id"])
        file = write_file(tmp_path, ORDERS, rows)
        lake.commit(CommitUnit(f"u{number}", (f"c{number}",), (file,), (ingest_row(f"c{number}"),)))
    before = sorted_rows(lake)
    assert Counter(each.table for each in compact(lake)) == {"orders": 1, "ingests": 1}
    assert sorted_rows(lake) == before
    (file,) = lake.files("orders")
    stored = pq.read_table(file.path, partitioning=None)
    keys = [
        tuple(row[name] for name in layout_of(stored.column_names).order)
        for row in stored.to_pylist()
    ]
    assert keys == sorted(keys)
    assert len(keys) == 9
    # Nothing is left to do, and the intents are still known.
    assert compact(lake) == []
    assert lake.captures() == {"c0": "u0", "c1": "u1", "c2": "u2"}
    assert lake.pending() == []
    assert lake.commit(unit_of(tmp_path, "u4", ["c1"])).claimed == {"c1": "u1"}
    age_all(lake, 48)
    vacuum(lake)
    assert sorted_rows(lake) == before
    assert lake.captures() == {"c0": "u0", "c1": "u1", "c2": "u2"}


def test_the_intent_of_a_pending_unit_is_not_merged(small_lake, monkeypatch):
    def die(step):
        if step == "intended":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        small_lake.commit(unit_of(small_lake.location, "u3", ["c3"]), watch=die)
    monkeypatch.setattr(LakeStore, "roll_forward", lambda self: [])
    compact(small_lake)
    monkeypatch.undo()
    assert small_lake.pending() == ["u3"]
    assert small_lake.roll_forward() == ["u3"]
    assert counts(small_lake)["orders"] == 6


COMPACT = "from pregao.lake.ingest.maintenance import compact; compact(LakeStore(sys.argv[1]))"


def test_processes_that_compact_and_commit_concurrently_lose_and_double_nothing(small_lake):
    for number in range(5):
        unit = unit_of(small_lake.location, f"x{number}", [f"x{number}"], first_number=10 * number)
        small_lake.commit(unit)
    processes = [python(COMPACT, small_lake.location, wait=False) for _ in range(2)]
    while any(process.poll() is None for process in processes):
        name = f"y{len(small_lake.captures())}"
        small_lake.commit(unit_of(small_lake.location, name, [name]))
    assert [process.wait() for process in processes] == [0, 0]
    captures = len(small_lake.captures())
    assert captures > 7
    assert counts(small_lake) == {
        "ingests": captures,
        "orders": 2 * captures,
        "trades": 2 * captures,
    }


@pytest.mark.parametrize(
    ("names", "layout"),
    [
        (
            ORDERS.schema.names,
            TableLayout(
                ("security_id", "sequence_version", "sequence_number", "index_in_packet"),
                "security_id",
                "sequence_number",
            ),
        ),
        (["capture_id", "channel", "position", "date"], TableLayout(("capture_id", "position"))),
        (["x", "date"], TableLayout()),
        (["security_id", "symbol", "date"], TableLayout(("security_id",), "security_id")),
    ],
)
def test_files_are_sorted_as_ingests_sort_them(names, layout):
    assert layout_of(names) == layout


def test_a_limit_of_a_day_is_the_default():
    assert vacuum.__kwdefaults__["older_than_ns"] == DAY


def test_tables_that_are_laid_out_for_lookups_are_not_merged(tmp_path):
    with pytest.raises(UsageError, match="ticks cannot be compacted"):
        compact(LakeStore(tmp_path), ["ticks"])
