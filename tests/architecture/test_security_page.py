"""The page about security names tests that exist, for every promise."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = [
    line
    for line in (ROOT / "docs" / "security.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| Promise")
]
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


@cache
def functions_of(file):
    tree = ast.parse((ROOT / file).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("row", ROWS)
def test_every_promise_has_a_test(row):
    named = NAMED.findall(row)
    assert named
    for file, function in named:
        tests = {name for name in functions_of(file) if name.startswith("test_")}
        assert tests
        assert not function or function in tests


def test_there_are_promises_for_every_surface():
    assert len(ROWS) > 40
