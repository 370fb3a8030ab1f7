"""The whole market of some seeds under faults; seeds that once failed run first.

`make days` runs a thousand, `make torture SEED=17` one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.torture.__main__ import faults_of, main, run
from tests.torture.faults import KINDS, LAKE_KINDS, draw_faults, read_faults, write_faults
from tests.torture.shrink import shrunk
from tests.torture.whole_market import STEPS

ONCE_FAILED = [int(line) for line in Path(__file__).with_name("seeds.txt").read_text().split()]


@pytest.mark.parametrize(
    "seed", sorted({*ONCE_FAILED, *range(1, 9)}, key=lambda seed: (seed not in ONCE_FAILED, seed))
)
def test_after_all_faults_every_component_has_the_exchanges_books_orders_and_reports(seed):
    outcome = run(seed, faults_of(seed))
    assert outcome.requests > 200
    assert outcome.trades > 10
    assert outcome.compared["compared"] > 500


def test_one_seed_is_one_market():
    faults = [each for each in faults_of(3) if each.kind != "loss"]
    first, second = run(3, faults_of(3)), run(3, faults_of(3))
    assert first.digest == second.digest
    assert (first.requests, first.injected) == (second.requests, second.injected)
    assert run(3, faults).digest != first.digest


def test_the_captures_of_a_seed_in_a_lake_are_the_exchanges_trades_bars_and_books():
    outcome = run(20, faults_of(20, lake=True), lake=True)
    assert outcome.compared["in lakes"] > 20
    assert sum(outcome.injected[kind] for kind in LAKE_KINDS) > 0


def test_a_failing_seed_prints_a_replay_and_the_fault_that_it_needs(tmp_path, monkeypatch, capsys):
    def failing(seed, faults, **_):
        assert "kill" not in [each.kind for each in faults], "lost an order"
        raise AssertionError("not asked for")

    faults = [replace(each, number=at) for at, each in enumerate(faults_of(30))]
    assert "kill" in [each.kind for each in faults]
    monkeypatch.setattr("tests.torture.__main__.failure", lambda seed, some, **_: (
        "lost an order" if "kill" in [each.kind for each in some] else ""
    ))  # fmt: skip
    monkeypatch.setattr("tests.torture.__main__.run", failing)
    kept = tmp_path / "failed.txt"
    assert main(["--seed", "30", "--failures", str(kept)]) == 1
    printed = capsys.readouterr().out
    (replay,) = [line for line in printed.splitlines() if line.startswith("Replay: ")]
    path = Path(replay.split()[-1])
    assert [each.kind for each in read_faults(path)] == ["kill"]
    assert kept.read_text() == "30\n"


def test_a_list_is_shrunk_to_what_fails_together():
    def fails(some):
        return {3, 11} <= set(some)

    assert shrunk(list(range(20)), fails) == [3, 11]
    assert shrunk([7], lambda some: True) == []


def test_every_kind_is_drawn_and_faults_are_read_as_they_were_written(tmp_path):
    found = Counter(each.kind for seed in range(250) for each in draw_faults(seed, STEPS))
    assert set(found) == set(KINDS)
    write_faults(tmp_path / "faults", faults_of(4))
    assert read_faults(tmp_path / "faults") == faults_of(4)
