"""Units that are complete are retired: logs forget their ids, which refuse all the same."""

import pyarrow.parquet as pq
import pytest

from pregao.errors import UsageError
from pregao.lake.ingest.maintenance import compact
from pregao.lake.storage import delta, intent_log, transaction
from pregao.lake.storage import lake_store as lake_module
from pregao.lake.storage.delta import load_existing, visible_files
from pregao.lake.storage.lake_store import LakeStore
from tests.lake.lake_support import ORDERS, TRADES, counts, python, unit_of

UNITS = 5


@pytest.fixture
def lake(tmp_path):
    """Five units of one capture each, and a guard each."""
    lake = LakeStore(tmp_path / "lake")
    lake.ensure_tables([ORDERS, TRADES])
    for number in range(UNITS):
        commit(lake, number)
    return lake


def commit(lake, number, **options):
    captures = [f"c{number}", f"guard 2026-05-21 {number}"]
    return lake.commit(unit_of(lake.location, f"u{number}", captures, **options))


def retire(lake, least=1):
    transaction.retire(lake.location, least)


def marks(lake, number):
    """Return the tables whose log still has the ID of a unit."""
    tables = {
        name for name in ("orders", "trades", "ingests", "_intents")
        if lake.delta(name).transaction_version(f"unit:u{number}") is not None
    }  # fmt: skip
    taken = lake.delta("_intents").transaction_version(f"capture:c{number}")
    return tables if taken is None else {*tables, "capture"}


def declared_and_left(lake, number=9):
    """A unit that was intended and left there by a process that died."""

    def die(step):
        if step == "intended":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lake.commit(unit_of(lake.location, f"u{number}", [f"c{number}"]), watch=die)


def test_logs_forget_ids_that_still_refuse(lake):
    assert marks(lake, 3) == {"orders", "trades", "ingests", "_intents", "capture"}
    before, known = counts(lake), lake.captures()
    retire(lake)
    assert marks(lake, 3) == set()
    assert lake.captures() == known
    assert lake.claimed(["c3", "c7"]) == {"c3": "u3"}
    assert lake.claimed([f"c{number}" for number in range(100)]).keys() == {
        f"c{number}" for number in range(UNITS)
    }
    assert lake.claimed_with_prefix("guard 2026-05-2").keys() == {
        f"guard 2026-05-21 {number}" for number in range(UNITS)
    }
    assert lake.claimed_with_prefix("guard 2026-05-22") == {}
    assert lake.pending() == []
    assert lake.commit(unit_of(lake.location, "other", ["c8", "c3"])).claimed == {"c3": "u3"}
    assert commit(lake, 3, rows=5).committed
    with pytest.raises(UsageError, match="committed before with other captures"):
        lake.commit(unit_of(lake.location, "u3", ["c8"]))
    assert counts(lake) == before
    assert commit(lake, 8).committed


def test_they_are_retired_when_there_are_many_and_pending_ones_are_not(lake):
    retire(lake, least=UNITS + 1)
    assert marks(lake, 0)
    declared_and_left(lake)
    retire(lake, least=UNITS)
    assert marks(lake, 0) == set()
    assert marks(lake, 9) == {"_intents", "capture"}
    assert lake.roll_forward() == ["u9"]
    assert counts(lake)["orders"] == 2 * (UNITS + 1)
    # What was retired before is merged with it, and stays retired.
    retire(lake)
    assert len(visible_files(lake.delta("_intents"))) == 1
    assert lake.claimed(["c0", "c9"]) == {"c0": "u0", "c9": "u9"}


def test_a_late_writer_to_a_retired_unit_adds_nothing(lake):
    declared_and_left(lake)
    (unit,) = intent_log.read(lake.location, ["u9"])
    opened = {name: load_existing(lake.location.join(name)) for name in ("orders", "trades")}
    lake.roll_forward()
    compact(lake)  # its files are gone, and its rows in others
    before = counts(lake)
    assert marks(lake, 9) == set()
    transaction.finish(lake.location, unit)
    transaction.finish(lake.location, unit, opened=opened)
    assert counts(lake) == before


def test_a_unit_that_is_retired_between_the_check_and_the_commit_is_not_doubled(lake, monkeypatch):
    declared_and_left(lake)
    (unit,) = intent_log.read(lake.location, ["u9"])
    answers = []
    is_retired = intent_log.is_retired

    def overtake(location, unit_id):
        answer = is_retired(location, unit_id)
        answers.append(answer)
        if len(answers) == 1:  # while it was on its way back, others did all of this
            monkeypatch.undo()
            lake.roll_forward()
            compact(lake)
            monkeypatch.setattr(intent_log, "is_retired", overtake)
        return answer

    monkeypatch.setattr(intent_log, "is_retired", overtake)
    transaction.finish(lake.location, unit)
    assert answers[0] is False
    assert answers[1:] == [True] * 3  # once for each table
    assert counts(lake) == {"orders": 12, "trades": 12, "ingests": 11}


@pytest.mark.parametrize("table", ["ingests", "orders", "trades"])
def test_a_writer_that_dies_while_retiring_leaves_a_lake_that_refuses(lake, monkeypatch, table):
    change = delta.change_table

    def die(location, work, loaded=None):
        if location.name == table:
            raise KeyboardInterrupt
        return change(location, work, loaded)

    monkeypatch.setattr(transaction, "change_table", die)
    with pytest.raises(KeyboardInterrupt):
        retire(lake)
    monkeypatch.undo()
    before = counts(lake)
    assert table in marks(lake, 0)
    assert lake.roll_forward() == []
    assert commit(lake, 0).committed
    assert lake.commit(unit_of(lake.location, "other", ["c0"])).claimed == {"c0": "u0"}
    assert counts(lake) == before
    assert commit(lake, 7).committed
    retire(lake)
    assert lake.claimed(["c0", "c7"]) == {"c0": "u0", "c7": "u7"}


RETIRE = """
lake = LakeStore(sys.argv[1])
from pregao.lake.storage import transaction
for _ in range(12):
    transaction.retire(lake.location, 1)
"""


def test_processes_that_retire_and_commit_concurrently_lose_and_double_nothing(lake):
    processes = [python(RETIRE, lake.location, wait=False) for _ in range(2)]
    number = 100
    while any(process.poll() is None for process in processes):
        assert commit(lake, number).committed
        assert not commit(lake, number, rows=3).claimed
        number += 1
    assert [process.wait() for process in processes] == [0, 0]
    units = UNITS + number - 100
    rows = {"orders": 2 * units, "trades": 2 * units, "ingests": 2 * units}
    assert counts(lake) == rows
    assert len(lake.captures()) == 2 * units


def test_the_log_has_no_more_to_remember_after_many_units_than_after_few(tmp_path):
    """Ids that the newest checkpoint of each table has, and files of intents."""
    lake = LakeStore(tmp_path)
    lake.ensure_tables([ORDERS, TRADES])
    for number in range(40):
        retire(lake, least=8)
        assert commit(lake, number).committed
    max_commits = 8 + 10  # and commits since the previous checkpoint
    for name, ids in (("orders", 1), ("trades", 1), ("ingests", 1), ("_intents", 3)):
        log = tmp_path / name / "_delta_log"
        newest = max(log.glob("*.checkpoint.parquet"))
        marks = [each for each in pq.read_table(newest)["txn"].to_pylist() if each is not None]
        assert 0 < len(marks) <= ids * max_commits + 8
    assert len(visible_files(lake.delta("_intents"))) <= max_commits


def test_an_older_lake_continues_to_work(tmp_path, monkeypatch):
    with monkeypatch.context() as before:
        for module in (delta, lake_module):
            before.setattr(module, "settings_of", lambda spec: {"delta.checkpointInterval": "10"})
        old = LakeStore(tmp_path)
        old.ensure_tables([ORDERS, TRADES])
        for number in range(UNITS):
            commit(old, number)
        declared_and_left(old)
    lake = LakeStore(tmp_path)
    assert lake.pending() == ["u9"]
    lake.roll_forward()
    lake.ensure_tables([ORDERS, TRADES])
    retire(lake)
    assert marks(lake, 0) == marks(lake, 9) == set()
    assert lake.commit(unit_of(tmp_path, "other", ["c9"])).claimed == {"c9": "u9"}
    assert counts(lake) == {"orders": 12, "trades": 12, "ingests": 11}
