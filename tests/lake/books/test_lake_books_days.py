"""Books of simulated days: equal to the engine's, at every version, over good and bad lines."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

from pregao.book.replay import Replay
from pregao.book.update_rows import UpdateKind
from pregao.exchange.simulation.settings import SCHEMA_VERSIONS
from pregao.lake.books.build import BookOptions, build_books
from tests.lake.book_days import (
    BookDay,
    built,
    checkpoint_orders,
    compare_final,
    compare_ticks,
    simulate,
)


@cache
def day(**settings) -> BookDay:
    """The books of a day with these settings, made once per run."""
    return built(simulate(Path(mkdtemp(prefix="pregao-books-")), **settings))


@pytest.mark.parametrize("version", SCHEMA_VERSIONS)
def test_every_book_of_a_clean_day_is_the_engines_at_all_times(version):
    clean = day(version=version)
    assert compare_final(clean) == []
    assert compare_ticks(clean) == len(clean.truth())
    assert clean.count("gaps") == clean.count("stale") == 0


@pytest.mark.parametrize("version", SCHEMA_VERSIONS)
def test_the_audit_finds_every_snapshot_of_a_clean_day_equal(version):
    audit = day(version=version).audit
    assert audit["equal"] > 100
    assert set(audit) <= {"equal", "incomplete"}
    # The last loop may be cut by the end of the capture.
    assert audit.get("incomplete", 0) <= 1


@pytest.mark.parametrize(
    "faults",
    [
        {"loss": "A=0.1"},
        {"loss": "B=0.1", "version": 9},
        {"reorder": "0.1", "duplicate": "0.1"},
        {"reorder": "0.1", "duplicate": "0.1", "loss": "A=0.1", "version": 8},
    ],
)
def test_what_one_feed_loses_or_mixes_up_changes_no_book(faults):
    bad = day(**faults)
    injected = bad.faults["channels"]["51"] if "channels" in bad.faults else bad.faults
    assert any_positive(injected)
    assert compare_final(bad) == []
    assert compare_ticks(bad) == len(bad.truth())
    assert bad.count("gaps") == 0
    assert "different" not in bad.audit


@pytest.mark.parametrize("version", [8, 16])
def test_what_both_feeds_lose_makes_just_those_instruments_stale_until_a_snapshot(version):
    bad = day(version=version, loss="0.2", seconds=20)
    assert compare_final(bad) == []  # the day ends with a complete loop of snapshots
    assert 0 < compare_ticks(bad) < len(bad.truth())
    gaps = bad.rows("gaps")
    found = [row for row in gaps if row["security_id"] is not None]
    assert len(found) == bad.count("gaps") > 10
    assert {row["closed_by"] for row in found} <= {"snapshot", "EmptyBook", None}
    assert sum(row["closed_by"] == "snapshot" for row in found) > 10
    for row in found:
        if row["closed_by"] == "snapshot":
            assert row["closed_sequence_number"] >= row["sequence_number"]
    audit = bad.audit
    assert audit["gap"] > 10
    assert audit["equal"] > 50
    assert "different" not in audit
    stale = {row["security_id"] for row in found}
    assert {tick["security_id"] for tick in bad.rows("ticks", state="stale")} <= stale


@pytest.mark.parametrize("version", [9, 10, 16])
def test_a_late_joiner_begins_with_snapshots_and_ends_with_the_same_books(version):
    late = day(version=version, late_join="0.5", seconds=20)
    assert compare_final(late) == []
    assert compare_ticks(late) > 20
    assert late.count("gaps") == 0
    assert late.audit["start"] >= 8
    assert late.audit["equal"] > 50
    assert "different" not in late.audit
    origins = {row["symbol"]: row["origin"] for row in late.rows("books")}
    assert "snapshot" in origins.values()
    assert None not in origins.values()


@pytest.mark.parametrize("version", [10, 16])
@pytest.mark.parametrize("resets", [("0.4",), ("sequence@0.5",)])
def test_resets_in_the_middle_of_a_day(version, resets):
    reset = day(version=version, resets=resets, seconds=20)
    assert compare_final(reset) == []
    assert compare_ticks(reset) == len(reset.truth())
    assert reset.count("gaps") == 0
    assert set(reset.audit) <= {"equal", "incomplete"}
    if resets[0].startswith("sequence"):
        assert {tick["sequence_version"] for tick in reset.rows("ticks")} == {1, 2}


@pytest.mark.parametrize("version", [7, 16])
def test_everything_together(version):
    worst = day(
        version=version,
        seconds=20,
        late_join="0.2",
        loss="A=0.2,B=0.2",
        reorder="0.02",
        duplicate="0.02",
        resets=("0.3", "sequence@0.6"),
    )
    assert compare_final(worst) == []
    assert compare_ticks(worst) > 10
    assert "different" not in worst.audit


def test_losses_in_the_snapshot_stream_leave_incomplete_snapshots_uncompared():
    bad = day(loss="snapshot=0.1", seconds=20)
    assert bad.audit["incomplete"] > 5
    assert bad.audit["equal"] > 50
    assert "different" not in bad.audit
    assert compare_final(bad) == []


def test_an_instrument_without_snapshots_and_past_is_never_known():
    folder = simulate(Path(mkdtemp(prefix="pregao-books-")), late_join="0.5", seconds=20)
    blind = built(folder, captures=sorted(folder.glob("*Incremental*.pcap")))
    rows = [row for row in blind.rows("books") if row["origin"] is None]
    assert len(rows) > 5
    assert {row["state"] for row in rows} == {"stale"}
    assert all("no snapshot" in row["reason"] for row in rows)
    assert blind.audit == {}


# Mutations: each plants a fault in the code of the book.


def sizes_too_large(rows):
    chosen = (rows.kind == UpdateKind.ADD) & (rows.order_id % 50 == 0)
    rows.size[chosen] += 100


def deletions_forgotten(rows):
    chosen = (rows.kind == UpdateKind.DELETE) & (rows.order_id % 20 == 0)
    rows.kind[chosen] = UpdateKind.CHANGE
    rows.size[chosen] = rows.previous[chosen]


def firms_forgotten(rows):
    rows.firm[rows.order_id % 50 == 0] += 1


def priorities_mixed_up(rows):
    chosen = rows.kind <= UpdateKind.DELETE
    rows.order_id[chosen] ^= 1 << 40 if len(rows) else 0
    rows.flags[chosen & (rows.order_id % 7 == 0)] |= 1


@pytest.mark.parametrize(
    "mutate", [sizes_too_large, deletions_forgotten, firms_forgotten, priorities_mixed_up]
)
def test_the_audit_finds_a_fault_planted_in_the_code_of_the_book(monkeypatch, mutate):
    sound = Replay._replay
    seen = set()

    def faulty(self, rows, start, *rest):
        if id(rows) not in seen and len(rows):
            seen.add(id(rows))
            kept.append(rows)
            mutate(rows)
        return sound(self, rows, start, *rest)

    kept = []  # so that no two have the same id
    monkeypatch.setattr(Replay, "_replay", faulty)
    source = day(version=16)
    reports = build_books(source.lake.location, BookOptions(depth=3))
    try:
        audit = reports[0].audit
        assert audit["different"] > 0, audit
        found = [row for row in BookDay(source.folder, source.lake).rows("book_audit")
                 if row["result"] == "different"]  # fmt: skip
        assert len(found) == audit["different"]
        assert all(row["differences"] > 0 and row["detail"] for row in found)
        if mutate is sizes_too_large:  # reported too, healed by snapshots
            gaps = [
                row for row in BookDay(source.folder, source.lake).rows("gaps") if row["reason"]
            ]
            assert {"snapshot"} <= {row["closed_by"] for row in gaps} <= {"snapshot", None}
            assert all("wrong previous size" in row["reason"] for row in gaps)
    finally:
        monkeypatch.undo()
        again = build_books(source.lake.location, BookOptions())
        assert "different" not in again[0].audit


def test_checkpoints_hold_the_book_of_their_message():
    clean = day(version=16)
    finals = {line["security_id"]: line for line in clean.truth() if line["final"]}
    ends = {row["security_id"]: row for row in clean.rows("book_checkpoints", reason="end")}
    assert set(finals) <= set(ends)  # in addition, some were listed and delisted again
    for security, line in finals.items():
        row = ends[security]
        assert checkpoint_orders(row["bids"]) == line["bids"]
        assert row["rpt_seq"] <= line["rpt_seq"]
    assert {row["reason"] for row in clean.rows("book_checkpoints")} >= {"end", "phase"}


def any_positive(value):
    if isinstance(value, dict):
        return any(any_positive(one) for one in value.values())
    return isinstance(value, int | float) and value > 0
