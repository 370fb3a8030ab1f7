"""Runners: each of them gives the same results, progress and errors, also when workers die."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark import cloudpickle

from pregao.errors import CaptureError, DecodeError, PregaoError
from pregao.lake.analytics.registry import ANALYTICS
from pregao.lake.analytics.run import analyse
from pregao.lake.analytics.task import JOB as ANALYTICS_JOB
from pregao.lake.books.build import BookOptions, build_books
from pregao.lake.execution import processes
from pregao.lake.execution.fork_server import ForkServer
from pregao.lake.execution.processes import MAX_ATTEMPTS, ProcessRunner
from pregao.lake.execution.runner import Job, SerialRunner
from pregao.lake.execution.spark import SparkRunner
from pregao.lake.ingest.options import IngestOptions
from pregao.lake.ingest.pipeline import ingest
from pregao.lake.ingest.task import INGEST
from pregao.lake.ingest.verify import check_lake
from pregao.lake.storage.lake_store import LakeStore
from pregao.lake.storage.vacuum import vacuum
from tests.lake.book_days import BookDay, built, simulate
from tests.lake.days import SMALL, assert_same
from tests.lake.days import day as simulated
from tests.lake.lake_support import ROOT
from tests.waiting import until

# A server of Spark Connect has not the tests on its path.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

SPARKS = {"spark": "spark", "connect": "connect_session"}
ON_SPARK = [pytest.param(name, marks=pytest.mark.spark) for name in SPARKS]


def opened(name, request):
    if name in SPARKS:
        return SparkRunner(request.getfixturevalue(SPARKS[name]))
    return ProcessRunner(2) if name == "processes" else SerialRunner()


@pytest.fixture(scope="module", params=["serial", "processes", *ON_SPARK])
def runner(request):
    with opened(request.param, request) as found:
        yield found


@pytest.fixture(scope="module", params=["processes", *ON_SPARK])
def workers(request):
    """A runner whose tasks run in other processes."""
    with opened(request.param, request) as found:
        yield found


@pytest.fixture
def pool():
    with ProcessRunner(2) as found:
        yield found


@pytest.fixture
def no_small_jobs(monkeypatch):
    monkeypatch.setattr(processes, "SMALL_JOB", -1)


# Jobs of numbers.


def doubled(number):
    if number < 0:
        raise CaptureError(f"day.pcap: {number} is negative.")
    return 2 * number


def large(_task):
    return 1 << 40


def amounts(number, result):
    return number, result


def nothing(_task, _result):
    return 0, 0


DOUBLE = Job("double", doubled, large, amounts)


def test_results_are_in_the_order_of_the_tasks(runner):
    assert runner.run(DOUBLE, [7, 3, 5, 1, 9]) == [14, 6, 10, 2, 18]
    assert runner.run(DOUBLE, [4]) == [8]
    assert runner.run(DOUBLE, []) == []


def test_progress_ends_with_the_totals(runner):
    calls = []
    runner.run(DOUBLE, [7, 3, 5], lambda *totals: calls.append(totals))
    assert calls == sorted(calls)
    if isinstance(runner, SparkRunner) and not hasattr(runner.session, "sparkContext"):
        assert calls == []  # Spark Connect has no accumulators
    else:
        assert calls[-1] == (15, 30)


def test_the_error_of_a_task_arrives(runner):
    with pytest.raises(CaptureError, match=r"^day\.pcap: -3 is negative\.$"):
        runner.run(DOUBLE, [7, -3, 5])
    assert runner.run(DOUBLE, [4, 5]) == [8, 10]


def fails_after(seconds):
    time.sleep(seconds)
    raise CaptureError(f"It failed after {seconds} s.")


def test_of_several_errors_that_of_the_first_task_arrives(runner):
    with pytest.raises(CaptureError, match=r"^It failed after 0\.5 s\.$"):
        runner.run(Job("failing", fails_after, large, nothing), [0.5, 0.0])


def malformed(position):
    raise DecodeError("short", position)


def test_an_error_keeps_its_fields(workers):
    with pytest.raises(DecodeError) as caught:
        workers.run(Job("decode", malformed, large, nothing), [17, 17])
    assert (caught.value.reason, caught.value.position) == ("short", 17)


def divided(number):
    return 1 // number


def test_an_unexpected_error_says_where_it_was_raised(pool):
    with pytest.raises(ZeroDivisionError) as caught:
        pool.run(Job("divide", divided, large, nothing), [1, 0])
    assert "in divided" in caught.value.__notes__[0]


class OddError(Exception):
    def __reduce__(self):
        raise TypeError("It cannot be pickled.")


def odd(_task):
    raise OddError("odd")


def test_an_error_that_cannot_be_sent_becomes_its_text(pool):
    with pytest.raises(PregaoError, match=r"^OddError: odd$"):
        pool.run(Job("odd", odd, large, nothing), [1, 2])


def test_parallelism_is_the_number_of_workers(runner):
    expected = 1 if isinstance(runner, SerialRunner) else 2
    assert runner.parallelism == expected


def test_without_a_number_there_is_a_worker_per_core_that_has_memory(monkeypatch):
    assert ProcessRunner().parallelism == len(os.sched_getaffinity(0))
    memory = {"SC_PAGE_SIZE": 1 << 12, "SC_PHYS_PAGES": 3 << 17}  # 1.5 GB
    monkeypatch.setattr(os, "sysconf", memory.__getitem__)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: set(range(8)))
    assert ProcessRunner().parallelism == 1


# Workers.


def process(_task):
    return os.getpid()


WHERE = Job("where", process, large, nothing)


def few(_task):
    return 1


def running(number):
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True


def children():
    """Process numbers of the children of all threads of this process."""
    lists = Path("/proc/self/task").glob("*/children")
    return {int(number) for each in lists for number in each.read_text().split()}


def test_workers_stay_for_the_next_job_and_end_with_the_runner():
    before = children()
    with ProcessRunner(2) as pool:
        numbers = set(pool.run(WHERE, range(20)))
        assert set(pool.run(replace(WHERE, name="other"), range(20))) <= numbers
        assert os.getpid() not in numbers
        assert 1 <= len(numbers) <= 2
        assert len(children() - before) == 1  # the server, whose children the workers are
    assert not any(map(running, numbers))
    assert children() <= before
    assert not set(pool.run(WHERE, range(4))) & numbers  # opened again
    pool.close()
    assert children() <= before


@pytest.mark.parametrize(("job", "tasks"), [(WHERE, 1), (replace(WHERE, messages=few), 20)])
def test_small_jobs_start_no_processes_but_use_those_that_run(pool, job, tasks):
    before = children()
    assert set(pool.run(job, range(tasks))) == {os.getpid()}
    assert children() <= before
    pool.run(WHERE, range(2))
    assert (os.getpid() in pool.run(job, range(tasks))) == (tasks == 1)


@pytest.mark.parametrize(("messages", "started"), [(large(None), 1), (few(None), 0)])
def test_an_expected_job_starts_the_pool_if_it_is_large(pool, messages, started):
    before = children()
    pool.expect(WHERE, messages)
    assert len(children() - before) == started
    job = replace(WHERE, messages=few)
    assert (os.getpid() in pool.run(job, range(2))) is not bool(started)


prepared = []


def prepare():
    prepared.append(os.getpid())


def prepared_by(_task):
    return prepared


def test_a_job_is_prepared_once_for_all_workers(pool):
    before = children()
    found = pool.run(Job("prepared", prepared_by, large, nothing, prepare=prepare), range(8))
    assert found == [list(children() - before)] * 8


def loaded(_task):
    """Return how many variants of a kernel are loaded."""
    from pregao.book._kernels import replay

    return len(replay.overloads)


def test_workers_start_with_compiled_kernels_loaded(pool, local_day):
    assert local_day.rows("ticks")  # compiled, and in the cache
    assert min(pool.run(Job("kernels", loaded, large, nothing), range(4))) > 0


released = []


def release():
    released.append(True)


def count_released(_task):
    return len(released)


@pytest.mark.parametrize("name", ["serial", "processes"])
def test_what_a_job_keeps_is_released_before_a_job_of_another_name(name, request):
    released.clear()
    first = Job("first", count_released, large, nothing, release)
    second = Job("second", count_released, large, nothing)
    count = 1 if name == "serial" else 2
    with ProcessRunner(1) if name == "processes" else SerialRunner() as runner:
        assert runner.run(first, range(count)) == [0] * count
        assert runner.run(first, range(count)) == [0] * count
        assert runner.run(second, range(count)) == [1] * count
        assert runner.run(second, range(count)) == [1] * count


def dies_at_first(task):
    folder, number = task
    died = Path(folder, "died")
    if number == 2 and not died.exists():
        died.write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGKILL)
    return 10 * number


def test_the_task_of_a_worker_that_died_runs_again(workers, tmp_path):
    job = Job("dying", dies_at_first, large, nothing)
    tasks = [(str(tmp_path), number) for number in range(6)]
    assert workers.run(job, tasks) == [0, 10, 20, 30, 40, 50]
    assert (tmp_path / "died").exists()


def always_dies(task):
    folder, number = task
    if number == 2:
        with Path(folder, "attempts").open("a") as attempts:
            attempts.write("x")
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_a_task_that_always_kills_its_worker_is_an_error(pool, tmp_path):
    job = Job("dying", always_dies, large, nothing)
    error = (
        r"^Task 3 of 4 of the dying job failed: SIGKILL ended its worker process, in each of 3 "
        r"attempts\. The system may have had too little memory"
    )
    with pytest.raises(PregaoError, match=error):
        pool.run(job, [(str(tmp_path), number) for number in range(4)])
    assert (tmp_path / "attempts").read_text() == "x" * MAX_ATTEMPTS
    assert pool.run(DOUBLE, [1, 2]) == [2, 4]


def leaves(number):
    os._exit(number)


def test_a_worker_that_exits_is_an_error(pool):
    error = r"^Task 1 of 2 of the leaving job failed: its worker process exited with 7, in each"
    with pytest.raises(PregaoError, match=error):
        pool.run(Job("leaving", leaves, large, nothing), [7, 7])


def test_workers_that_were_killed_between_jobs_are_no_attempts():
    count = 2 * MAX_ATTEMPTS
    with ProcessRunner(count) as pool:
        killed = set(pool.run(WHERE, range(count)))
        assert len(killed) == count
        for number in killed:
            os.kill(number, signal.SIGKILL)
        assert pool.run(DOUBLE, [1, 2]) == [2, 4]


def test_workers_go_on_without_their_server(pool):
    before = children()
    pool.run(WHERE, range(2))
    (server,) = children() - before
    os.kill(server, signal.SIGKILL)
    assert pool.run(DOUBLE, [1, 2, 3]) == [2, 4, 6]
    pool.close()
    assert pool.run(DOUBLE, [1, 2, 3]) == [2, 4, 6]


def sleeps_after_the_first(number):
    time.sleep(600 * number)


def test_the_server_of_workers_with_duckdb_ends_in_silence(capfd):
    server = ForkServer(ANALYTICS_JOB.work, ANALYTICS_JOB.prepare)
    _, connection = server.fork()
    server.close()
    connection.close()
    assert server._process.returncode == 0
    assert capfd.readouterr() == ("", "")


def test_an_exception_of_the_caller_ends_running_tasks(pool):
    before = children()

    def interrupt(_size, _messages):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pool.run(Job("sleep", sleeps_after_the_first, large, nothing), [0, 1], interrupt)
    assert children() <= before
    assert pool.run(DOUBLE, [1, 2, 3]) == [2, 4, 6]


def sleeps(folder):
    Path(folder, str(os.getpid())).touch()
    time.sleep(600)


SLEEPING = """
from pregao.lake.execution.fork_server import ForkServer
from pregao.lake.execution.processes import ProcessRunner
from pregao.lake.execution.runner import Job
from tests.lake.execution import test_lake_runners as tests
with ProcessRunner(2) as runner:
    runner.run(Job("sleep", tests.sleeps, tests.large, tests.nothing), [{folder!r}] * 4)
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupt_or_a_kill_ends_all_processes_at_once(tmp_path, how):
    # Without a guard of its main module.
    script = tmp_path / "script.py"
    script.write_text(SLEEPING.format(folder=str(tmp_path)))
    process = subprocess.Popen(
        [sys.executable, script],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )

    def workers():
        return [int(path.name) for path in tmp_path.iterdir() if path.name.isdigit()]

    try:
        until(lambda: len(workers()) == 2)
        if how == signal.SIGINT:
            os.killpg(process.pid, how)  # as a terminal does
        else:
            process.kill()
        _, errors = process.communicate(timeout=60)
        until(lambda: not any(map(running, workers())))
    finally:
        process.kill()
    assert process.returncode == -how
    assert errors.count("Traceback") == (how == signal.SIGINT)
    assert len(workers()) == 2


# Stages.


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    lake = tmp_path_factory.mktemp("clean")
    ingest([str(small_day())], str(lake))
    return lake


@pytest.fixture(scope="module")
def local_day(tmp_path_factory):
    day = built(simulate(tmp_path_factory.mktemp("built") / "day", seconds=6))
    analyse(day.lake)
    return day


def small_day():
    return simulated(**SMALL)


def deadly(task):
    """Kill the worker when the task has written its files, once."""
    manifest = INGEST.work(task)
    died = Path(task.lake.uri).with_name("died")
    if task.number == 1 and not died.exists():
        died.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return manifest


class Deadly(SerialRunner):
    """Runs the tasks of an ingest on another runner, whose worker dies once."""

    def __init__(self, runner):
        super().__init__()
        self.runner = runner

    def run(self, job, tasks, advanced):
        return self.runner.run(replace(job, work=deadly), tasks, advanced)


def test_ingest_with_a_worker_that_dies(workers, clean, tmp_path, no_small_jobs):
    """Its task runs again, and nothing is there twice."""
    lake = tmp_path / "lake"
    options = IngestOptions(target_bytes=60_000)
    report = ingest([str(small_day())], str(lake), options, runner=Deadly(workers))
    assert report.tasks > 2
    assert (tmp_path / "died").exists()
    assert_same(clean, lake)
    assert not check_lake(LakeStore(str(lake))).faults
    vacuum(LakeStore(str(lake)), older_than_ns=0)
    assert_same(clean, lake)
    assert not vacuum(LakeStore(str(lake)), older_than_ns=0).files


def test_an_error_inside_a_task_is_one_line(runner, tmp_path, no_small_jobs):
    broken = tmp_path / "broken.pcap"
    source = next(Path(small_day()).glob("*Incremental_A.pcap"))
    data = bytearray(source.read_bytes())
    position = len(data) // 2
    data[position : position + 4000] = b"\xff" * 4000
    broken.write_bytes(data)
    options = IngestOptions(target_bytes=60_000)
    with pytest.raises(CaptureError) as caught:
        ingest([str(broken)], str(tmp_path / "lake"), options, runner=runner)
    assert "broken.pcap" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_runner_makes_the_same_tables(
    runner, local_day, tmp_path, monkeypatch, no_small_jobs
):
    monkeypatch.setattr("pregao.lake.ingest.merging._FEW_ROWS", 0)  # merge with the runner too
    monkeypatch.setattr("pregao.lake.books.planner.MIN_TASK", 500)
    lake = LakeStore(tmp_path / "lake")
    captures = [str(path) for path in sorted(local_day.folder.glob("*.pcap"))]
    report = ingest(captures, lake.location, IngestOptions(target_bytes=200_000), runner=runner)
    assert report.tasks > 2
    assert_same(
        local_day.lake.location.uri,
        lake.location.uri,
        but=("ticks", "book_checkpoints", "book_audit", "books", "gaps", *ANALYTICS),
    )
    reports = build_books(lake.location, BookOptions(parallelism=4), runner=runner)
    assert sum(one.tasks for one in reports) > 2
    day = BookDay(local_day.folder, lake, reports)
    for table in ("ticks", "book_checkpoints", "book_audit"):
        assert keyed(day.rows(table)) == keyed(local_day.rows(table))
        assert day.rows(table)
    assert {one.table for one in analyse(lake, runner)} == ANALYTICS.keys()
    for table in ANALYTICS:
        assert in_some_order(day, table) == in_some_order(local_day, table), table
        assert (table == "venue_trades") == (not day.rows(table))


def in_some_order(day, table):
    return sorted(repr({**row, "capture_id": None}) for row in day.rows(table))


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


@pytest.mark.spark
def test_spark_reads_the_files_of_books(spark, local_day):
    frame = spark.read.parquet(f"{local_day.lake.location.uri}/ticks")
    best = frame.selectExpr("max(bid_price_1)", "min(ask_price_1)", "count(*)").collect()[0]
    rows = local_day.rows("ticks")
    bids = [row["bid_price_1"] for row in rows if row["bid_price_1"] is not None]
    asks = [row["ask_price_1"] for row in rows if row["ask_price_1"] is not None]
    assert tuple(best) == (max(bids), min(asks), len(rows))
