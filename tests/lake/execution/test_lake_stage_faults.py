"""Builds of books and analytics that die or run out of disk: equal tables after the next command,
nothing half visible before it.
"""

import shutil
import signal
import textwrap

import pytest
from deltalake import DeltaTable

from pregao.lake.analytics.registry import ANALYTICS
from pregao.lake.analytics.run import analyse
from pregao.lake.books.build import build_books
from pregao.lake.books.schemas import DERIVED
from pregao.lake.ingest.pipeline import ingest
from pregao.lake.storage.lake_store import LakeStore
from tests.forked import Forked
from tests.lake.days import SMALL, day

TABLES = {"books": tuple(DERIVED), "analytics": tuple(ANALYTICS)}

FAIL = """
    import os, resource, signal, sys
    from pathlib import Path
    from pregao.errors import PregaoError
    from pregao.lake.analytics import run
    from pregao.lake.books.build import build_books
    from pregao.lake.execution.runner import SerialRunner
    from pregao.lake.storage.lake_store import LakeStore
    lake, stage, step = sys.argv[1:]
    def die():
        os.kill(os.getpid(), signal.SIGKILL)
    class Failing(SerialRunner):
        def run(self, *arguments):
            if step != "disk":
                done = super().run(*arguments)
                return die() if step == "tasks" else done
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, resource.RLIM_INFINITY))
            try:
                return super().run(*arguments)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    commit, replace = LakeStore.commit, run.replace_partition
    def watch(done):
        if done == step:
            die()
    def replaced(location, *arguments):
        if location.name == step:
            die()
        return replace(location, *arguments)
    LakeStore.commit = lambda self, unit: commit(self, unit, watch)
    run.replace_partition = replaced
    try:
        if stage == "books":
            build_books(LakeStore(lake).location, runner=Failing())
        else:
            run.analyse(LakeStore(lake), Failing())
    except (PregaoError, OSError) as error:
        Path(lake).with_name("sentence").write_text(str(error))
"""


@pytest.fixture(scope="module")
def messages(tmp_path_factory):
    lake = tmp_path_factory.mktemp("messages")
    ingest([str(day(**SMALL))], str(lake))
    return lake


@pytest.fixture(scope="module")
def books(messages, tmp_path_factory):
    lake = tmp_path_factory.mktemp("books") / "lake"
    shutil.copytree(messages, lake)
    build_books(LakeStore(lake).location)
    return lake


@pytest.fixture(scope="module")
def clean(books, tmp_path_factory):
    lake = tmp_path_factory.mktemp("clean") / "lake"
    shutil.copytree(books, lake)
    analyse(LakeStore(lake))
    return {table: found(lake, table) for names in TABLES.values() for table in names}


def found(lake, table):
    """The rows of a table in some order, without the build; none if it does not exist."""
    if not (lake / table / "_delta_log").exists():
        return []
    rows = DeltaTable(str(lake / table)).to_pyarrow_table().to_pylist()
    return sorted(repr({**row, "unit_id": None, "build": None}) for row in rows)


@pytest.mark.parametrize(
    ("stage", "step"),
    [
        ("books", "written"),
        ("books", "ticks"),
        ("books", "disk"),
        ("analytics", "tasks"),
        ("analytics", "orders"),
        ("analytics", "disk"),
    ],
)
def test_a_stage_that_fails_leaves_whole_tables_and_is_completed(
    request, clean, tmp_path, stage, step
):
    lake = tmp_path / "lake"
    shutil.copytree(request.getfixturevalue("messages" if stage == "books" else "books"), lake)
    code = Forked(textwrap.dedent(FAIL), lake, stage, step).wait()
    sentence = tmp_path / "sentence"
    if step == "disk":
        assert code == 0
        assert "\n" not in sentence.read_text()
        assert "File too large" in sentence.read_text()
    else:
        assert code == -signal.SIGKILL
    if stage == "books":  # an intent makes all tables visible with the next command, or none
        LakeStore(lake).roll_forward()
    expected = {table: clean[table] for table in TABLES[stage]}
    left = {table: found(lake, table) for table in expected}
    assert all(rows in ([], expected[table]) for table, rows in left.items())
    visible = [table for table, rows in left.items() if rows]
    if stage == "books":
        assert visible == [table for table, rows in expected.items() if rows and step == "ticks"]
    else:  # each table has its own commit
        assert ("status" in visible) == (step == "orders")
        assert "orders" not in visible
    if stage == "books":
        build_books(LakeStore(lake).location)
    else:
        analyse(LakeStore(lake))
    assert {table: found(lake, table) for table in expected} == expected
    assert expected["ticks" if stage == "books" else "orders"]
