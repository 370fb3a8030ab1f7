"""The samples of the documents run word for word, and print what the pages show.

Numbers may differ, because every change of the simulated market changes them: `make samples` and
`make docs` update them.
"""

import importlib.util
import os
import sys
from pathlib import Path

import pytest

import pregao

pytestmark = pytest.mark.slow

ROOT = Path(pregao.__file__).parents[2]
_SPEC = importlib.util.spec_from_file_location("samples", ROOT / "packaging" / "samples.py")
samples = importlib.util.module_from_spec(_SPEC)
sys.modules["samples"] = samples
_SPEC.loader.exec_module(samples)
OTHER_TESTS = {
    "docs/api.md": "test_api_page",
    "docs/cluster.md": "test_lake_cluster_page",
    "docs/lake.md": "test_lake_documented_queries",
    "docs/queries.md": "test_lake_views_queries",
}
"""Pages whose samples other tests run."""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    # The path of a socket must be short.
    folder = Path(os.path.relpath(tmp_path_factory.mktemp("s")))
    with samples.Server(folder.resolve()) as running:
        yield running


@pytest.mark.parametrize("page", samples.PAGES)
def test_the_samples_of_a_page_print_what_it_shows(page, server):
    ran = samples.run_page(page, server, numbers=False)
    assert ran.failures == []
    assert ran.ran == sum(
        each.language in ("sh", "console", "python") and each.directive != "not run"
        for each in ran.samples
    )


def test_every_page_with_samples_is_run():
    pages = {
        str(path.relative_to(ROOT))
        for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
        if any(
            each.directive != "not run"
            and (each.language == "console" or each.text.startswith("pregao "))
            for each in samples.samples(path.read_text())
        )
    }
    assert pages - set(OTHER_TESTS) == set(samples.PAGES)
    named = {path.stem for path in (ROOT / "tests").rglob("test_*.py")}
    assert set(OTHER_TESTS.values()) <= named


def test_no_command_is_shown_in_a_block_that_is_not_run():
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        page = str(path.relative_to(ROOT))
        if page in OTHER_TESTS:
            continue
        for each in samples.samples(path.read_text()):
            if each.language in ("", "text"):
                assert not each.text.startswith(("pregao ", "$ ")), f"{page}:{each.line}"


SHOWN = ["head", "…", "packets 12 in 1.5 s", "…", "tail"]


@pytest.mark.parametrize(
    ("output", "same"),
    [
        (["head", "packets 12 in 9.9 s", "tail"], True),
        (["head", "more", "packets 12 in 9.9 s", "more", "more", "tail"], True),
        (["head", "packets 13 in 9.9 s", "tail"], False),
        (["other", "packets 12 in 9.9 s", "tail"], False),
        (["head", "packets 12 in 9.9 s", "tail", "more"], False),
        (["head", "packets 12 in 9.9 s"], False),
    ],
)
def test_output_is_compared_except_for_durations_and_what_is_left_out(output, same):
    assert (samples.differs(SHOWN, output) == "") is same


def test_numbers_are_compared_only_if_requested():
    assert samples.differs(["at 09:01, 12,300 rows"], ["at 10:02, 7 rows"], numbers=False) == ""
    assert samples.differs(["at 09:01, 12,300 rows"], ["at 10:02, 7 rows"])
    assert samples.differs(["12,300 rows"], ["7 columns"], numbers=False)


def test_rewritten_output_leaves_out_what_the_page_left_out():
    output = ["new head", "more", "packets 13 in 9.9 s", "more", "new tail"]
    found = samples.rewritten(SHOWN, output)
    assert found == ["new head", "…", "packets 13 in 9.9 s", "…", "new tail"]
    assert samples.differs(found, output) == ""


def test_a_transcript_is_split_into_commands_and_their_output():
    text = '```console\n$ one "a\n  b" \\\n  c\nout\n$ two\n```\n'
    text += "<!-- not run: why -->\n```sh\nx\n```\n"
    found = [(each.text, each.shown, each.directive) for each in samples.samples(text)]
    assert found == [
        ('one "a\n  b" \\\n  c\n', ["out"], ""),
        ("two\n", [], ""),
        ("x\n", None, "not run"),
    ]
