"""Packages that come with an extra: named where they are missing, needless where they should be."""

import re
import tomllib
from pathlib import Path

import pytest

import pregao
from pregao import extras
from tests.architecture.blocked_packages import command, without

pytestmark = pytest.mark.slow

ROOT = Path(pregao.__file__).parents[2]


@pytest.fixture(scope="module")
def day(tmp_path_factory):
    folder = tmp_path_factory.mktemp("light") / "day"
    pregao.simulate(folder, instruments=2, messages=60, duration="1m")
    return folder


def test_they_are_those_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = re.compile(r"[a-z0-9_]+")

    def packages(lines):
        return {names.match(line)[0] for line in lines} - {"pregao"}

    wanted = project["optional-dependencies"]
    for package, extra in extras.EXTRAS.items():
        assert package in packages(wanted[extra]), package
    own = packages(project["dependencies"])
    listed = set(extras.EXTRAS) | {"uvloop"}  # optional: it only improves speed
    assert set().union(*map(packages, wanted.values())) <= listed | own


def test_what_needs_no_extra_runs_without_any(day):
    capture = day / "051_Incremental_A.pcap"
    commands = (
        ["info", str(capture)],
        ["decode", str(capture), "-o", "out.jsonl", "--template", "Trade_53"],
        ["schema", "Trade_53"],
        ["exchange", "--help"],
    )
    code = (
        "import pregao\n"
        "from pregao.cli.main import app\n"
        f"for arguments in {commands!r}:\n"
        "    app(arguments, standalone_mode=False)\n"
        "next(iter(pregao.follow('day'))), pregao.Live, pregao.entrypoint.Client, pregao.simulate"
    )
    done = without(extras.EXTRAS, code, day.parent)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("blocked", "arguments", "extra"),
    [
        (["deltalake"], ["ingest", "day", "--lake", "lake"], "lake"),
        (["pyarrow"], ["ingest", "day", "--lake", "lake"], "lake"),
        (["numba"], ["ingest", "day", "--lake", "other", "--engine", "local"], "fast"),
        (["pyarrow"], ["decode", "day", "-o", "out/"], "tables"),
        (["pyarrow"], ["simulate", "--output", "more", "--compress", "zstd"], "tables"),
        (["duckdb"], ["query", "SELECT 1", "--lake", "lake"], "lake"),
        (["pyspark"], ["query", "SELECT 1", "--lake", "lake", "--engine", "spark"], "spark"),
        (["pyspark"], ["ingest", "day", "--lake", "other", "--master", "local[1]"], "spark"),
    ],
)
def test_a_command_names_the_extra_that_it_needs(day, blocked, arguments, extra):
    lake = day.parent / "lake"
    if not lake.exists():
        pregao.Lake(lake).ingest(day, books=False, analytics=False)
    done = command(blocked, arguments, day.parent)
    assert done.returncode == 2
    assert f"pip install 'pregao[{extra}]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr


def test_an_ingest_without_spark_works_in_the_process(day):
    done = command(["pyspark", "pandas"], ["ingest", "day", "--lake", "own"], day.parent)
    assert done.returncode == 0, done.stderr
    assert "no Spark found: running without Spark" in done.stderr


@pytest.mark.parametrize(
    ("blocked", "code", "extra"),
    [
        ("deltalake", "pregao.Lake", "lake"),
        ("pyarrow", "pregao.Lake", "lake"),
        ("pyarrow", "pregao.read('day').table('Trade_53')", "tables"),
        ("polars", "pregao.read('day').to_polars('Trade_53')", "frames"),
        ("pandas", "pregao.read('day').to_pandas('Trade_53')", "frames"),
    ],
)
def test_in_python_it_is_an_error_of_ours_and_of_imports(day, blocked, code, extra):
    whole = (
        "import pregao, pregao.errors\n"
        f"try: {code}\n"
        "except ImportError as error:\n"
        "    assert isinstance(error, pregao.errors.PregaoError)\n"
        "    print(error)"
    )
    done = without([blocked], whole, day.parent)
    assert f"pip install 'pregao[{extra}]'" in done.stdout, done.stderr
