"""Runners: every one of them gives the same results, progress and errors."""

import pytest

from pregao.errors import CaptureError
from pregao.lake.execution.runner import Job
from pregao.lake.execution.serial import SerialRunner


def doubled(number):
    if number < 0:
        raise CaptureError(f"day.pcap: {number} is negative.")
    return 2 * number


def large(number):
    return 1 << 40


def amounts(number, result):
    return number, result


DOUBLE = Job("double", doubled, large, amounts)


@pytest.fixture
def runner():
    with SerialRunner() as opened:
        yield opened


def test_results_are_in_the_order_of_the_tasks(runner):
    assert runner.run(DOUBLE, [7, 3, 5, 1, 9]) == [14, 6, 10, 2, 18]


def test_a_job_without_tasks_has_no_results(runner):
    calls = []
    assert runner.run(DOUBLE, [], lambda *totals: calls.append(totals)) == []
    assert calls in ([], [(0, 0)])


def test_progress_ends_with_the_totals(runner):
    calls = []
    runner.run(DOUBLE, [7, 3, 5], lambda *totals: calls.append(totals))
    assert calls[-1] == (15, 30)
    assert calls == sorted(calls)


def test_the_error_of_a_task_arrives(runner):
    with pytest.raises(CaptureError, match=r"^day\.pcap: -3 is negative\.$"):
        runner.run(DOUBLE, [7, -3, 5])
    assert runner.run(DOUBLE, [4]) == [8]
