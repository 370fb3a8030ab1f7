"""A unit is committed exactly once, despite crashes and concurrent writers."""

import contextlib
import signal
from collections import Counter
from unittest.mock import patch

import pytest

from pregao.errors import UsageError
from pregao.lake.storage import delta
from pregao.lake.storage.commit_unit import CommitUnit, ReplacedRows
from pregao.lake.storage.filesystem import Location
from pregao.lake.storage.lake_store import LakeStore
from pregao.lake.storage.local_log import LocalLog
from tests.lake.lake_support import ORDERS, TRADES, counts, ingest_row, python, unit_of, write_file
from tests.torture.disk import KilledError

STEPS = ["written", "intended", "orders", "trades", "ingests"]

COMMIT_AND_DIE = """
import signal
lake = LakeStore(sys.argv[1])
lake.ensure_tables([ORDERS, TRADES])
def die(step):
    if step == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)
lake.commit(unit_of(sys.argv[1], "u1", ["c1", "c2"]), watch=die)
"""
ROLL_FORWARD = "print(LakeStore(sys.argv[1]).roll_forward())"
COMMIT = """
import time
lake = LakeStore(sys.argv[1])
lake.ensure_tables([ORDERS, TRADES])
unit = unit_of(sys.argv[1], sys.argv[2], sys.argv[3:])
outcome = lake.commit(unit)
sys.exit(0 if outcome.committed else 10)
"""


@pytest.fixture
def lake(tmp_path):
    lake = LakeStore(tmp_path / "lake")
    lake.ensure_tables([ORDERS, TRADES])
    return lake


def commit(lake, unit_id, captures, **options):
    return lake.commit(unit_of(lake.location, unit_id, captures, **options))


def test_a_unit_becomes_visible_in_all_tables_and_is_recorded_in_ingests(lake):
    steps: list[str] = []
    outcome = lake.commit(unit_of(lake.location, "u1", ["c1", "c2"]), watch=steps.append)
    assert (outcome.unit_id, outcome.committed, outcome.claimed) == ("u1", True, {})
    assert steps == STEPS
    assert counts(lake) == {"ingests": 2, "orders": 2, "trades": 2}
    rows = lake.delta("ingests").to_pyarrow_table().sort_by("capture_id").to_pylist()
    assert [(row["capture_id"], row["unit_id"]) for row in rows] == [("c1", "u1"), ("c2", "u1")]
    assert all(row["committed_at_ns"] > 0 for row in rows)
    assert lake.captures() == {"c1": "u1", "c2": "u1"}
    assert lake.claimed(["c2", "c3"]) == {"c2": "u1"}
    assert lake.pending() == []


def test_the_same_unit_again_adds_nothing(lake):
    unit = unit_of(lake.location, "u1", ["c1"])
    before = lake.commit(unit)
    again = LakeStore(lake.location).commit(unit)
    assert before.committed
    assert again.committed
    assert counts(lake) == {"ingests": 1, "orders": 2, "trades": 2}


def test_a_second_attempt_with_other_files_adds_nothing(lake):
    commit(lake, "u1", ["c1"])
    assert commit(lake, "u1", ["c1"], rows=5).committed
    assert counts(lake) == {"ingests": 1, "orders": 2, "trades": 2}


def test_a_claimed_capture_refuses_the_complete_unit(lake):
    commit(lake, "u1", ["c1"])
    outcome = commit(lake, "u2", ["c2", "c1"])
    assert not outcome.committed
    assert outcome.claimed == {"c1": "u1"}
    assert counts(lake) == {"ingests": 1, "orders": 2, "trades": 2}
    assert commit(lake, "u3", ["c2"]).committed


def test_a_capture_that_is_claimed_in_the_last_moment_is_refused(lake):
    unit = unit_of(lake.location, "u2", ["c1"])

    def overtake(step):
        if step == "written":
            commit(lake, "u1", ["c1"])

    outcome = lake.commit(unit, watch=overtake)
    assert outcome.claimed == {"c1": "u1"}
    assert counts(lake) == {"ingests": 1, "orders": 2, "trades": 2}
    # What was written for the refused unit's `ingests` is taken away again.
    written = lake.table_location("ingests").entries(recursive=True)
    assert len([entry for entry in written if entry.name.startswith("ingest-")]) == 1


def test_a_unit_id_cannot_be_used_for_other_captures(lake):
    commit(lake, "u1", ["c1"])
    with pytest.raises(UsageError, match="committed before with other captures"):
        commit(lake, "u1", ["c2"])


def test_a_unit_that_cannot_be_right_is_refused_before_anything_is_intended(lake):
    with pytest.raises(UsageError, match="has a duplicate capture"):
        commit(lake, "u", ["c", "c"])
    with pytest.raises(UsageError, match="needs a date"):
        lake.commit(CommitUnit("u", ("c",), (), ({"capture_id": "c"},)))
    file = write_file(lake.location, TRADES, [{"security_id": 1}])
    elsewhere = LakeStore(lake.location.join("nested"))
    with pytest.raises(UsageError, match="has no table _intents, ingests, trades"):
        elsewhere.commit(CommitUnit("u", ("c",), (file,), (ingest_row("c"),)))
    replaced = ReplacedRows("nope", "2026-05-21", (("channel", (7,)),))
    with pytest.raises(UsageError, match="has no table nope; create it"):
        lake.commit(CommitUnit("u", ("c",), (file,), (ingest_row("c"),), (replaced,)))
    assert (lake.captures(), lake.pending()) == ({}, [])


def test_a_unit_without_captures_and_rows_is_committed_once_too(lake):
    unit = unit_of(lake.location, "batch-1", [])
    assert lake.commit(unit).committed
    assert lake.pending() == []
    assert LakeStore(lake.location).commit(unit).committed
    assert counts(lake) == {"ingests": 0, "orders": 2, "trades": 2}


@pytest.mark.parametrize("step", STEPS)
def test_a_process_killed_at_any_step_loses_nothing_and_doubles_nothing(tmp_path, step):
    assert python(COMMIT_AND_DIE, tmp_path, step) == -signal.SIGKILL
    lake = LakeStore(tmp_path)
    intended = step != "written"
    seen = {"orders": 2, "trades": 2, "ingests": 2}
    reached = STEPS.index(step)
    now = counts(lake)
    for name, rows in seen.items():
        # Tables are changed side by side: one that comes later may be there. `ingests` is last.
        may_be = {rows} if STEPS.index(name) <= reached else {0, rows if intended else 0}
        assert now[name] in (may_be if name != "ingests" or step == "ingests" else {0})
    assert lake.pending() == (["u1"] if intended and step != "ingests" else [])
    assert set(lake.captures()) == ({"c1", "c2"} if intended else set())
    # Another process finishes it; once more changes nothing.
    assert python(ROLL_FORWARD, tmp_path) == 0
    assert lake.roll_forward() == []
    assert counts(lake) == (seen if intended else dict.fromkeys(seen, 0))
    # The run is tried again: what was lost comes, what was there is not doubled.
    outcome = commit(lake, "u2", ["c1", "c2"])
    assert outcome.committed is not intended
    assert counts(lake) == seen


def commit_until(lake, call):
    """Commit a unit and end before a call that writes; return whether the commit ended before."""
    left = [call]

    def counted(function):
        def wrapped(*arguments, **named):
            left[0] -= 1
            if left[0] < 0:
                raise KilledError("commit")
            return function(*arguments, **named)

        return wrapped

    with (
        patch.object(Location, "write_bytes", counted(Location.write_bytes)),
        patch.object(LocalLog, "commit", counted(LocalLog.commit)),
        patch.object(delta, "commit_changes", counted(delta.commit_changes)),
        contextlib.suppress(KilledError),
    ):
        assert commit(lake, "u1", ["c1", "c2"]).committed
    return left[0] >= 0


def check_killed_commits(places):
    """Kill commits before each call in turn, each in its own lake; return the number of calls."""
    whole = {"orders": 2, "trades": 2, "ingests": 2}
    for call, place in enumerate(places):
        lake = LakeStore(place)
        lake.ensure_tables([ORDERS, TRADES])
        if commit_until(lake, call):
            assert counts(lake) == whole
            break
        again = LakeStore(place)
        assert counts(again)["ingests"] == 0
        begun = again.pending()
        assert again.roll_forward() == begun  # it reports what it completed
        assert counts(again) == (whole if begun else dict.fromkeys(whole, 0))
        assert commit(again, "u2", ["c1", "c2"]).committed is not bool(begun)
        assert counts(again) == whole
    return call


def test_a_commit_that_ends_before_any_call_is_completed_or_never_was(tmp_path):
    assert check_killed_commits(tmp_path / str(number) for number in range(99)) >= 4


def test_a_commit_on_s3_that_ends_before_any_call_is_completed_or_never_was(s3_endpoint):
    assert check_killed_commits(f"s3://bucket/lake-{number}" for number in range(99)) >= 4


def test_processes_that_roll_forward_concurrently_are_harmless(tmp_path):
    assert python(COMMIT_AND_DIE, tmp_path, "intended") == -signal.SIGKILL
    processes = [python(ROLL_FORWARD, tmp_path, wait=False) for _ in range(3)]
    assert [process.wait() for process in processes] == [0] * 3
    assert counts(LakeStore(tmp_path)) == {"ingests": 2, "orders": 2, "trades": 2}


def test_of_two_that_commit_the_same_capture_one_wins(tmp_path):
    """They create the lake, too."""
    processes = [
        python(COMMIT, tmp_path, "u1", "shared", "own-1", wait=False),
        python(COMMIT, tmp_path, "u2", "own-2", "shared", wait=False),
    ]
    codes = [process.wait() for process in processes]
    assert sorted(codes) == [0, 10]
    lake = LakeStore(tmp_path)
    winner = f"u{codes.index(0) + 1}"
    assert Counter(lake.captures().values()) == {winner: 2}
    assert counts(lake) == {"ingests": 2, "orders": 2, "trades": 2}


def test_those_that_commit_different_captures_all_succeed(tmp_path):
    """They create the lake, too."""
    processes = [
        python(COMMIT, tmp_path, f"u{number}", f"c{number}", wait=False) for number in range(3)
    ]
    assert [process.wait() for process in processes] == [0] * 3
    assert counts(LakeStore(tmp_path)) == {"ingests": 3, "orders": 6, "trades": 6}


def test_a_unit_id_longer_than_statistics_is_found_complete(lake):
    commit(lake, "unit-" + "x" * 60, ["c1"])
    assert lake.pending() == []
