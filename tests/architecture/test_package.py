"""The built package: it is complete, and it works outside the checkout."""

import email
import importlib.util
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import pregao

pytestmark = pytest.mark.slow

ROOT = Path(pregao.__file__).parents[2]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A wheel and a source distribution, made without the network."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT],
        check=True,
        capture_output=True,
    )
    return folder


def test_the_wheel_works_outside_the_checkout(built, tmp_path):
    inside = tmp_path / "packages"
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        wheel.extractall(inside)
    code = (
        f"import sys; sys.path = [{str(inside)!r}, *(p for p in sys.path if {str(ROOT)!r} not in p"
        " or 'site-packages' in p)]\n"
        "import importlib.metadata, pregao\n"
        f"assert pregao.__file__.startswith({str(inside)!r})\n"
        "assert importlib.metadata.version('pregao') == pregao.__version__\n"
        "pregao.simulate('day', messages=60, instruments=2, duration='1m')\n"
        "assert pregao.read('day').table('Trade_53').schema\n"
        "assert pregao.Lake('lake')\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_wheel_has_every_file_of_the_package(built):
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        names = {name for name in wheel.namelist() if name.startswith("pregao/")}
    home = Path(pregao.__file__).parent
    there = {
        f"pregao/{path.relative_to(home).as_posix()}"
        for path in home.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert names == there


def check_metadata():
    path = ROOT / "packaging" / "check_metadata.py"
    spec = importlib.util.spec_from_file_location("check_metadata", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_an_index_would_accept_the_metadata(built, tmp_path, capsys):
    check = check_metadata()
    assert check.main([str(built)]) == 0
    assert "an index would accept them" in capsys.readouterr().out
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        (name,) = [each for each in wheel.namelist() if each.endswith("dist-info/METADATA")]
        text = wheel.read(name).decode()
    assert set(email.message_from_string(text).get_all("Provides-Extra")) == check.EXTRAS
    for old, new, words in (
        ("Name: pregao", "Name: prego", "Name is 'prego'"),
        (f"Version: {pregao.__version__}", "Version: 0.2.0.dev1", "not one of a release"),
        ("License-Expression: Apache-2.0", "License: Apache", "License-Expression is None"),
        ("Provides-Extra: plot\n", "", "Provides-Extra is not"),
        ("numpy>=2.0", "numpy @ https://example.org/numpy.whl", "by URL"),
        ("text/markdown", "text/plain", "Description-Content-Type is 'text/plain'"),
    ):
        assert text.count(old) >= 1, old
        (found,) = check.problems(email.message_from_string(text.replace(old, new, 1)))
        assert words in found
    shutil.copytree(built, tmp_path / "dist")
    copy = next((tmp_path / "dist").glob("*.whl"))
    with zipfile.ZipFile(copy, "a") as wheel, pytest.warns(UserWarning, match="Duplicate name"):
        wheel.writestr(name, text.replace("Summary: ", "Summary: X"))
    assert check.main([str(tmp_path / "dist")]) == 1
    assert "have other metadata" in capsys.readouterr().out


def test_the_source_distribution_can_be_tested(built):
    with tarfile.open(next(built.glob("*.tar.gz"))) as source:
        folders = {Path(name).parts[1] for name in source.getnames() if len(Path(name).parts) > 1}
    wanted = {"src", "tests", "docs", "examples", "Makefile", "requirements.lock", "LICENSE"}
    assert wanted <= folders
