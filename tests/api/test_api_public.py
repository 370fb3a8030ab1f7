"""The public API: what `import pregao` offers, and what it costs."""

import doctest
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pregao
from pregao import entrypoint, events, plot
from pregao.api.tables import TableReader
from pregao.errors import UsageError

HOUSE = Path(pregao.__file__).parent


def test_importing_it_loads_next_to_nothing():
    heavy = "{'numba', 'numpy', 'pyarrow', 'pyspark', 'duckdb', 'deltalake', 'pandas', 'polars'}"
    code = f"import sys, pregao; dir(pregao); print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("name", "needless"), [("Lake", {"pyspark", "numba"}), ("read", {"pyspark", "duckdb"})]
)
def test_a_name_loads_what_it_needs(name, needless):
    code = f"import sys, pregao; pregao.{name}; print(sorted({needless} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_everything_it_names_exists_and_is_listed():
    assert dir(pregao) == sorted(pregao.__all__)
    for name in pregao.__all__:
        assert getattr(pregao, name) is not None
    assert pregao.entrypoint.Client is not None


def test_inner_modules_do_not_import_the_public_names():
    public = "|".join(set(pregao.__all__) - {"entrypoint", "plot"})
    import_of_it = re.compile(rf"^\s*(import pregao$|from pregao import .*\b({public})\b)", re.M)
    found = [path for path in HOUSE.rglob("*.py") if import_of_it.search(path.read_text())]
    assert found == []


def test_a_simulated_day_is_the_commands(tmp_path):
    arguments = {
        "seed": 7,
        "instruments": 2,
        "messages": 60,
        "duration": "1m",
        "profile": "equities",
    }
    summary = pregao.simulate(tmp_path / "one", **arguments)
    assert summary == json.loads((tmp_path / "one" / "truth" / "summary.json").read_text())
    pregao.simulate(str(tmp_path / "two"), **arguments)
    names = [path.name for path in (tmp_path / "one").glob("*.pcap")]
    assert names
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"compress": "rar"}, "compress must be one of .* was 'rar'"),
        ({"legacy": "all"}, "legacy must be one of .* was 'all'"),
        ({"duration": "long"}, "must be a duration such as .* was 'long'"),
        ({"loss": 2}, "loss: rate must be from 0 to 1, .* was '2'"),
        ({"day": "today"}, "day must be a date such as 2026-05-21, was 'today'"),
    ],
)
def test_a_day_that_cannot_be_is_refused(tmp_path, wish, words):
    with pytest.raises(UsageError, match=words):
        pregao.simulate(tmp_path / "day", **wish)


CLASSES = (pregao.Book, pregao.Capture, pregao.Lake, TableReader)
PROPERTIES = [getattr(pregao.Lake, name) for name in ("trades", "ticks", "bars", "orders")]


def public_functions():
    """Public functions of the four public modules, and methods of the classes of the API."""
    for module in (pregao, entrypoint, plot):
        for name in module.__all__:
            found = getattr(module, name)
            if inspect.isroutine(found) or hasattr(found, "__wrapped__"):
                yield f"{module.__name__}.{name}", found
    for kind in CLASSES:
        for name, found in vars(kind).items():
            if inspect.isfunction(found) and (name == "__call__" or not name.startswith("_")):
                yield f"{kind.__name__}.{name}", found


FUNCTIONS = dict(public_functions())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_public_function_states_its_arguments_and_results_and_shows_an_example(name):
    text, signature = inspect.getdoc(FUNCTIONS[name]), inspect.signature(FUNCTIONS[name])
    given = [each for each in signature.parameters if each != "self"]
    assert not given or "Args:\n" in text
    for each in given:
        assert re.search(rf"^ +{each}: ", text, re.M), each
    returned = signature.return_annotation
    assert "Any" not in re.findall(r"\w+", str(returned).replace("dict[str, Any]", ""))
    assert returned == "None" or re.search(r"^(Returns|Yields):\n", text, re.M)
    assert "Example:\n    >>> " in text


def test_the_examples_of_docstrings_run(day, lake, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("day").symlink_to(day)
    Path("lake").symlink_to(repr(lake).split("'")[1])
    order_entry = {name: getattr(entrypoint, name) for name in entrypoint.__all__}
    runner, finder = doctest.DocTestRunner(verbose=False), doctest.DocTestFinder(recurse=False)
    found = [*FUNCTIONS.values(), *PROPERTIES, pregao.Book, pregao.Lake, events]
    failed = []
    for each in found:
        capture = pregao.read("day/*_Incremental_A.pcap", symbol="PETR4")
        for test in finder.find(each, getattr(each, "__name__", "example"), globs={}):
            test.globs = {**order_entry, "pregao": pregao, "lake": lake, "capture": capture}
            runner.run(test, out=failed.append)
    assert failed == []
    assert runner.tries > 50
