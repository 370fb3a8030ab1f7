"""The documents build into a site without a dead link, complete, and asking nothing of others."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import pregao
from pregao.cli.main import app

pytestmark = pytest.mark.slow

ROOT = Path(pregao.__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built strictly: a warning fails it."""
    folder = tmp_path_factory.mktemp("site")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "NO_MKDOCS_2_WARNING": "1",
        "PREGAO_REPOSITORY": "https://example.org/market/pregao.git",
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "mkdocs", "build", "--strict", "-d", folder],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def test_no_page_loads_anything_from_elsewhere(site):
    loads = re.compile(r"<(?:script|img|iframe)[^>]+src=\"(https?:)?//|<link[^>]+href=\"https?://"
                       r"(?!127)[^\"]+\"[^>]*stylesheet|@import url\(.?https?:")  # fmt: skip
    pages = list(site.rglob("*.html"))
    assert len(pages) > 40
    assert [page.name for page in pages if loads.search(page.read_text())] == []


def test_the_site_names_its_version_and_the_repository_if_one_is_known(site):
    start = (site / "index.html").read_text()
    assert f"Pregão {pregao.__version__}" in start
    assert 'href="https://example.org/market/pregao"' in start


def test_figures_are_in_their_pages_in_light_and_dark_colors(site):
    figures = {path.stem for path in (ROOT / "docs" / "figures").glob("*.svg")}
    pages = "".join(path.read_text() for path in (site / "concepts").glob("*.html"))
    assert pages.count('<svg xmlns="http://www.w3.org/2000/svg" class="figure"') == len(figures)
    assert pages.count('[data-md-color-scheme="slate"] svg.figure{') == len(figures)


def test_commands_wrap_and_long_signatures_have_a_line_per_parameter(site):
    assert ".language-sh pre > code" in (site / "assets" / "site.css").read_text()
    calls = re.sub(r"<[^>]+>", "", (site / "reference" / "api.html").read_text())
    assert "\npregao.simulate(\n" in calls
    assert max(map(len, calls[calls.index("pregao.simulate(") :].splitlines())) < 1_000


def test_the_reference_has_every_command_call_and_message(site):
    commands = (site / "reference" / "commands.html").read_text()
    for name in typer.main.get_command(app).commands:
        assert f"pregao {name}" in commands
    calls = (site / "reference" / "api.html").read_text()
    for name in set(pregao.__all__) - {"__version__", "entrypoint", "plot"}:
        assert f"pregao.{name}" in calls
    assert "pregao.plot.heatmap" in calls
    assert "Order_MBO_50" in (site / "reference" / "umdf.html").read_text()
    assert "SimpleNewOrder" in (site / "reference" / "entrypoint.html").read_text()
