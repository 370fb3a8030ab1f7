"""Documents of users and peers: values, or one kind of error, whatever they hold."""

import json
import os
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pregao.safe_io.documents import (
    MAX_DEPTH,
    DocumentError,
    parse_json,
    parse_toml,
    read_document,
    read_file,
)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**127), 2**127) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=20,
)


@given(VALUES)
def test_what_json_holds_is_returned(value):
    assert parse_json(json.dumps(value)) == value


def test_many_dots_are_no_deep_key():
    numbers = ", ".join(["1.5"] * 1_000)
    assert len(parse_toml(f'n = [{numbers}]\ntext = "{"a." * 1_000}"')["n"]) == 1_000


def test_fractions_stay_exact_if_decimals_are_requested():
    assert parse_json("0.10", decimals=True) == Decimal("0.10")
    assert str(parse_toml("price = 0.10", decimals=True)["price"]) == "0.10"


@pytest.mark.parametrize("depth", [MAX_DEPTH, MAX_DEPTH + 1, 100_000])
@pytest.mark.parametrize(
    ("parse", "around"),
    [
        (parse_json, lambda depth: "[" * depth + "]" * depth),
        (parse_json, lambda depth: '{"a":' * depth + "1" + "}" * depth),
        (parse_toml, lambda depth: "a = " + "[" * (depth - 1) + "]" * (depth - 1)),
        (parse_toml, lambda depth: ".".join("a" * depth) + " = 1"),
        (parse_toml, lambda depth: "[ " + " . ".join(["'.'"] * (depth - 1)) + " ]"),
    ],
    ids=["json lists", "json tables", "toml lists", "toml keys", "toml headers"],
)
def test_a_document_is_as_deep_as_allowed_and_no_deeper(parse, around, depth):
    if depth <= MAX_DEPTH:
        parse(around(depth))
    else:
        with pytest.raises(DocumentError, match=r"nested more than 64 levels|more than 64 parts"):
            parse(around(depth))


@pytest.mark.parametrize("digits", [40, 4_000, 5_000])
def test_integers_of_many_digits_are_errors(digits):
    for parse, text in [(parse_json, "9" * digits), (parse_toml, "a = " + "9" * digits)]:
        with pytest.raises(DocumentError):
            parse(text)


@pytest.mark.parametrize("text", ["", "{", "\x00", "[1,]", "nul"])
def test_malformed_documents_are_errors(text):
    with pytest.raises(DocumentError):
        parse_json(text)
    with pytest.raises(DocumentError):
        parse_toml(text + "=")


def test_a_file_is_regular_and_within_its_limit(tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text("é" * 5)
    assert read_document(file, max_bytes=10) == "é" * 5
    with pytest.raises(DocumentError, match="larger than 9 bytes"):
        read_document(file, max_bytes=9)
    file.write_bytes(b"\xff")
    with pytest.raises(DocumentError, match="not UTF-8"):
        read_document(file)


@pytest.mark.parametrize("kind", ["file", "pipe", "folder", "device"])
def test_only_regular_files_are_read_and_no_descriptor_stays_open(tmp_path, kind):
    path = Path("/dev/zero") if kind == "device" else tmp_path / kind
    if kind == "file":
        path.write_text("a = 1")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    # The next descriptor gets the lowest free number: one left open would have taken it.
    free = os.dup(0)
    os.close(free)
    for read in (read_file, read_document):
        if kind == "file":
            assert len(read(path)) == 5
        else:
            with pytest.raises(DocumentError, match=r"^it is not a regular file$"):
                read(path)
    after = os.dup(0)
    os.close(after)
    assert after == free
