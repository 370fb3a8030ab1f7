"""Appends to a local table's log: the table library sees them as its own, and they see its."""

import json
import threading

import pytest
from deltalake.exceptions import CommitFailedError
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.errors import UsageError
from pregao.lake.storage.append import open_target
from pregao.lake.storage.delta import (
    add_action,
    append_once,
    arrow_schema,
    change_table,
    commit_changes,
    load_existing,
    remove_action,
    visible_files,
)
from pregao.lake.storage.lake_store import LakeStore
from pregao.lake.storage.local_log import read_log, read_paths
from tests.lake.lake_support import ORDERS, TRADES, order, write_file


def always():
    return True


@pytest.fixture
def location(tmp_path):
    lake = LakeStore(tmp_path)
    lake.ensure_tables([ORDERS, TRADES])
    return lake.location.join("orders")


def new_file(location, number=1):
    return write_file(location.parent, ORDERS, [order(7, number)])


def append(location, name, number=1, is_open=always):
    open_target(location).append_once([name], [new_file(location, number)], is_open)


def numbers(location):
    return sorted(load_existing(location).to_pyarrow_table()["sequence_number"].to_pylist())


def test_appended_files_are_in_the_table_with_bounds_and_mark(location):
    append(location, "a", 5)
    table = load_existing(location)
    assert numbers(location) == [5]
    assert table.transaction_version("a") == 1
    (action,) = visible_files(table).to_pylist()
    assert (action["min.sequence_number"], action["num_records"]) == (5, 1)
    assert action["partition.date"].isoformat() == "2026-05-21"


def test_an_existing_mark_refuses_further_appends(location):
    append(location, "a", 1)
    append(location, "a", 2)
    assert append_once(location, ["a"], [add_action(new_file(location, 3))]) == ["a"]
    assert append_once(location, ["b"], [add_action(new_file(location, 4))]) == []
    append(location, "b", 5)
    assert numbers(location) == [1, 4]


def test_columns_and_settings_are_those_of_the_table(location):
    target, table = open_target(location), load_existing(location)
    assert target.log is not None
    assert target.table is None
    assert target.schema.equals(arrow_schema(table), check_metadata=True)
    assert target.settings == table.metadata().configuration


def test_an_append_to_an_old_version_finds_concurrent_commits(location):
    before, stale = open_target(location), open_target(location)
    append(location, "a", 1)
    change_table(location, lambda table: commit_changes(table, [], {"x": 3}))
    calls = []
    before.append_once(["a"], [new_file(location, 2)], lambda: not calls.append(1))
    stale.append_once(["b"], [new_file(location, 3)], lambda: not calls.append(1))
    assert numbers(location) == [1, 3]
    assert calls == [1, 1]


def test_a_writer_with_a_mark_retired_in_between_is_refused(location):
    stale = open_target(location)
    append(location, "a", 1)
    change_table(location, lambda table: commit_changes(table, [], retired=["a"]))
    assert open_target(location).lacking(["a", "b"]) == ["a", "b"]
    assert load_existing(location).transaction_version("a") is None
    stale.append_once(["a"], [new_file(location, 2)], lambda: False)
    assert numbers(location) == [1]


def test_the_library_refuses_a_mark_that_was_appended_in_between(location):
    table = load_existing(location)
    append(location, "a", 1)
    with pytest.raises(CommitFailedError):
        commit_changes(table, [add_action(new_file(location, 2))], {"a": 1})
    assert numbers(location) == [1]


@settings(max_examples=10, deadline=None)
@given(st.lists(st.sampled_from("LRCMD"), min_size=1, max_size=12))
def test_both_ways_give_one_table_in_any_order(tmp_path_factory, steps):
    """Appends of the library and of our own, retired marks, checkpoints and removed files."""
    lake = LakeStore(tmp_path_factory.mktemp("both"))
    lake.ensure_tables([ORDERS, TRADES])
    location = lake.location.join("orders")
    live, removed = set(), 0
    for number, step in enumerate([*steps, "O"]):
        name = f"m{number}"
        if step == "L":
            append_once(location, [name], [add_action(new_file(location, number))])
            live.add(name)
        elif step == "R" and live:
            gone = min(live)
            change_table(
                location, lambda table, gone=gone: commit_changes(table, [], retired=[gone])
            )
            live.discard(gone)
        elif step == "C":
            load_existing(location).create_checkpoint()
        elif step == "D":
            shown = visible_files(load_existing(location)).to_pylist()[:1]
            gone = [remove_action(each["path"], each["size_bytes"]) for each in shown]
            change_table(location, lambda table, gone=gone: commit_changes(table, gone))
            removed += len(gone)
        else:
            append(location, name, number)
            live.add(name)
        log, table = read_log(location), load_existing(location)
        assert log is not None
        assert log.version == table.version()
        known = [f"m{each}" for each in range(len(steps) + 1)]
        assert [each for each in known if each in log.marks] == [
            each for each in known if table.transaction_version(each) is not None
        ]
        assert live <= log.marks
        assert read_paths(location) == set(visible_files(table)["path"].to_pylist())
    assert len(numbers(location)) + removed == len(
        [step for step in steps if step in "LM"]
    ) + 1 + sum(step == "R" for step in steps) - _retired(steps)


def _retired(steps):
    """Return the number of steps R that retired a mark; the others appended."""
    live = retired = 0
    for step in steps:
        if step == "R" and live:
            live -= 1
            retired += 1
        elif step not in "CD":
            live += 1
    return retired


def test_checkpoints_are_written_as_by_the_library(location, monkeypatch):
    for number in range(35):
        append(location, f"m{number}", number)
    log = read_log(location)
    assert log is not None
    assert log.version >= 35
    checkpoint = json.loads(location.join("_delta_log", "_last_checkpoint").read_bytes())
    assert checkpoint["version"] % 30 == 0
    assert log.marks >= {f"m{number}" for number in range(35)}
    assert len(numbers(location)) == 35


def test_threads_that_append_concurrently_each_append_once(location):
    names = [f"m{number % 6}" for number in range(24)]
    threads = [threading.Thread(target=append, args=(location, name, 1)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(numbers(location)) == 6
    log = location.join("_delta_log").entries()
    assert not [entry.name for entry in log if entry.name.endswith(".tmp")]


def test_logs_that_are_not_plain_are_left_to_the_library(location, tmp_path):
    load_existing(location).alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    assert read_log(location) is None
    target = open_target(location)
    assert target.table is not None
    target.append_once(["a"], [new_file(location, 4)], always)
    assert numbers(location) == [4]
    assert target.lacking(["a", "b"]) in (["b"], ["a", "b"])
    assert read_log(location.parent.join("nothing")) is None
    with pytest.raises(UsageError, match="is not a table"):
        open_target(location.parent.join("nothing"))


def test_a_log_that_cannot_be_written_is_reported(location, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    target = open_target(location)
    file = new_file(location)
    monkeypatch.setattr("os.link", full)
    with pytest.raises(UsageError, match="cannot be written: No space left"):
        target.append_once(["a"], [file], always)
    monkeypatch.undo()
    assert numbers(location) == []
