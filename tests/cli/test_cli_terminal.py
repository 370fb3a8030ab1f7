"""Tables on terminals of any width: no number is ever cut, and nothing is left out silently."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from pregao.cli.console import console, print_table, shown

ANSI = re.compile(r"\x1b\[[0-9;]*m")
COLUMNS = ["table", "rows", "files", "bytes", "from", "meaning"]
ROWS = [
    ("umdf_snapshot_full_refresh_orders_mbo_71", 2_502, 17, 987_654_321, "2026-05-21T11:00:00Z",
     "Orders of the book, as the snapshot has them, 12,345 at most."),
    ("packets", 14_575_644, 29, 135_454_242, None, "A UDP payload that was seen."),
]  # fmt: skip


def printed(width, *arguments, terminal=True, **options):
    stream = io.StringIO()
    out = Console(file=stream, width=width, force_terminal=terminal, markup=False, highlight=False)
    print_table(out, *arguments, **options)
    return ANSI.sub("", stream.getvalue())


@pytest.mark.parametrize("framed", [False, True])
@pytest.mark.parametrize("width", [200, 120, 80, 60, 40, 20])
def test_every_number_is_complete_at_any_width(width, framed):
    text = printed(width, "t", COLUMNS, ROWS, numbers="rows files bytes", framed=framed)
    words = set(re.split(r"[\s│┃]+", text))
    for row in ROWS:
        for cell in row[:5]:
            assert shown(cell) in words or cell is None, (width, cell)
    assert "12,345" in words


@pytest.mark.parametrize("width", [80, 40])
def test_columns_that_may_be_left_out_are_named(width):
    text = printed(
        width, "t", COLUMNS[:5], [row[:5] for row in ROWS], numbers="rows files bytes",
        optional="files bytes from",
    )  # fmt: skip
    for name in COLUMNS[:5]:
        assert name in text
    if width == 80:
        assert "Omitted for lack of width: from." in text
        assert "2026" not in text
        assert all(len(line) <= width for line in text.splitlines())
    else:
        assert "rows   2,502" in text


def test_what_does_not_fit_is_a_field_on_each_line():
    text = printed(40, "two", COLUMNS, ROWS, numbers="rows files bytes")
    assert "rows     2,502\nfiles    17\nbytes    987,654,321\n" in text
    assert "rows     14,575,644" in text


def test_a_file_has_space_for_everything():
    text = printed(80, "t", COLUMNS, ROWS, terminal=False, numbers="rows files bytes")
    line = next(line for line in text.splitlines() if "2,502" in line)
    assert "987,654,321" in line
    assert "2026-05-21T11:00:00Z" in line


def test_brackets_are_shown_unchanged():
    text = printed(80, "[bold]x[/bold]", ["[red]", "n"], [("[/] a[0] :smile:", 1)], numbers="n")
    assert "[bold]x[/bold]" in text
    assert "[red]" in text
    assert "[/] a[0] :smile:" in text


def test_no_escape_codes_where_there_is_no_terminal(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    print_table(console(), "title", ["a"], [("x",)])
    assert "\x1b[" not in capsys.readouterr().out


@given(
    st.lists(
        st.tuples(st.text("abc [", max_size=30), st.integers(), st.integers(0, 9)), max_size=5
    ),
    st.integers(15, 100),
    st.booleans(),
)
def test_numbers_of_any_table(rows, width, framed):
    text = printed(width, "", ["what", "large", "small"], rows, numbers="large small",
                   framed=framed)  # fmt: skip
    found = re.findall(r"-?[\d,]+", text)
    for _, large, small in rows:
        assert shown(large) in found
        assert shown(small) in found
