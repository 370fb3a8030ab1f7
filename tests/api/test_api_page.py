"""The examples of docs/api.md run, one after the other, as the page says."""

import re
from pathlib import Path

import pytest

import pregao

PAGE = Path(__file__).parents[2] / "docs" / "api.md"
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def examples():
    return PYTHON.findall(PAGE.read_text())


def test_the_examples_of_the_page_run(examples, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), names)  # the page's own code
    output = capsys.readouterr().out
    assert "VALID" in output
    assert "PETR4 2026-05-21T11:03:00.000000000Z: valid" in output
    assert names["trades"].num_rows > 0
    assert names["bars"].collect().height > 0
    assert len(examples) >= 6


def test_the_page_names_everything_that_is_public():
    text = PAGE.read_text()
    missing = [name for name in pregao.__all__ if f"pregao.{name}" not in text]
    assert missing == ["__version__"]
