"""The public API: what `import pregao` offers, and what it costs."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pregao
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
