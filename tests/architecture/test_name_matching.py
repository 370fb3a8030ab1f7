"""Names as users write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pregao.name_matching import did_you_mean, folded, similar

SYMBOLS = st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", min_size=1, max_size=8)


@given(SYMBOLS, st.randoms())
def test_any_case_is_the_same_name(symbol, random):
    written = "".join(random.choice((each.lower(), each)) for each in symbol)
    assert folded(f" {written} ") == folded(symbol) == symbol


@given(SYMBOLS, st.lists(SYMBOLS, max_size=12))
def test_only_a_few_existing_names_are_suggested(wanted, known):
    near = similar(wanted, known)
    assert set(near) <= set(known)
    assert len(near) == len(set(near)) <= 5


@given(SYMBOLS, st.lists(SYMBOLS, max_size=3))
def test_a_beginning_finds_the_whole(symbol, others):
    assert symbol in similar(symbol[:3].lower(), [symbol, *others])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("petr5", " Did you mean PETR4 or PETR3?"),
        ("val", " Did you mean VALE3?"),
        ("XQZW", ""),
    ],
)
def test_the_question(name, words):
    assert did_you_mean(name, ["PETR3", "PETR4", "VALE3"]) == words
