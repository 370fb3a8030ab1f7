"""Faults are planted where they are said to be, and the report counts them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants.__main__ import PACKAGES, SOURCE, equivalents, main, report, sample
from tests.mutants.planting import mutants

TEXT = '''
def first(a, b):
    """Text."""
    if a < b and a != 3:
        b += 1
        print(a, b)
    return a, max(a, b)

class Some:
    def again(self):
        def inner():
            return 5 + 5
        return True
'''


def test_every_kind_of_fault_is_planted_where_it_is_said_to_be():
    found = [(each.function, each.kind, each.old, each.text) for each in mutants("x.py", TEXT)]
    assert sorted(found) == sorted(
        [
            ("first", "condition always false", "a < b and a != 3", "False"),
            ("first", "condition dropped", "a < b and a != 3", "(a != 3)"),
            ("first", "comparison inverted", "a < b", "(a >= b)"),
            ("first", "comparison inverted", "a != 3", "(a == 3)"),
            ("first", "constant + 1", "3", "4"),
            ("first", "constant + 1", "1", "2"),
            ("first", "statement deleted", "b += 1", "pass"),
            ("first", "statement deleted", "print(a, b)", "pass"),
            ("first", "arguments swapped", "print(a, b)", "print(b, a)"),
            ("first", "return replaced", "a, max(a, b)", "None"),
            ("Some.again.<locals>.inner", "return replaced", "5 + 5", "None"),
            ("Some.again.<locals>.inner", "constant + 1", "5", "6"),
            ("Some.again.<locals>.inner", "constant + 1", "5", "6"),
            ("Some.again", "constant negated", "True", "False"),
        ]
    )


def test_names_of_faults_are_unique_and_only_the_fault_changes():
    found = mutants("x.py", TEXT)
    assert len({each.name for each in found}) == len(found)
    for each in found:
        planted = each.planted(TEXT)
        compile(planted, "x.py", "exec")
        changed = [
            number
            for number, (line, other) in enumerate(
                zip(TEXT.split("\n"), planted.split("\n"), strict=True), 1
            )
            if line != other
        ]
        assert changed == [each.line]


def test_a_sample_is_of_all_packages_and_of_its_seed():
    found = sample(3, 24)
    assert found == sample(3, 24) != sample(4, 24)
    for package in PACKAGES:
        assert sum(each.path.startswith(f"{package}/") for each in found) == 2
    assert [len(sample(3, count)) for count in (1, 13)] == [1, 13]


def test_a_fault_is_loaded_in_place_of_its_module(tmp_path):
    fault = {"module": "pregao.sbe.row_decoder", "source": "planted = 5", "tests": []}
    (tmp_path / "mutant.json").write_text(json.dumps(fault), encoding="utf-8")
    program = (
        "from types import SimpleNamespace as Space; from tests.mutants import plugin; "
        "plugin.pytest_configure(Space(pluginmanager=Space(register=lambda each: None))); "
        "from pregao.sbe import row_decoder; print(row_decoder.planted)"
    )
    variables = {"PREGAO_MUTANT": str(tmp_path / "mutant.json"), "PYTHONPATH": str(SOURCE.parent)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True,
        env=os.environ | variables, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.stdout == "5\n"


def test_the_report_leaves_out_equivalent_mutants():
    results = {
        name: {"outcome": outcome}
        for name, outcome in zip(
            "abcde", ("killed", "survived", "timeout", "survived", "not reached"), strict=True
        )
    }
    assert report(results, {"d": "sorted anyway"}).splitlines() == [
        "survived: b",
        "timeout: c",
        "not reached: e",
        "5 mutants: 1 equivalent, 1 killed, 1 not reached, 1 survived, 1 timeout.",
        "Killed of the 3 that are killed, survived or not reached: 33.3 %.",
    ]


def test_equivalent_mutants_exist_and_have_a_reason():
    for name, reason in equivalents().items():
        path = name.partition(" ")[0]
        source = (SOURCE / path).read_text(encoding="utf-8")
        assert name in {each.name for each in mutants(path, source)}
        assert len(reason.split()) > 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--count", "0"], "--count must be at least 1, was 0."),
        (["--minutes", "0"], "--minutes must be more than 0, was 0."),
        (["--package", "web"], "argument --package: invalid choice: 'web'"),
        (["--match", "nothing is so called"], "No mutant of seed 0 contains"),
        (["--results", __file__], "--results must be a file of results"),
    ],
)
def test_wrong_options_are_refused(arguments, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert message in capsys.readouterr().err
