"""Documents of users and peers: values, or one kind of error, whatever they hold."""

import json
import os
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pregao.errors import UsageError
from pregao.safe_io.documents import (
    MAX_DEPTH,
    DocumentError,
    SettingsTable,
    parse_json,
    parse_toml,
    read_document,
    read_file,
    read_tables,
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


@pytest.mark.parametrize(
    ("entries", "read", "error"),
    [
        ({"gatway": 1}, lambda t: t.only(["gateway"]),
         "gatway is not a known entry. Did you mean gateway?"),
        ({"x": 1}, lambda t: t.only(["gateway", "feed"]),
         "x is not a known entry. Entries are gateway, feed."),
        ({"feed": 5}, lambda t: t.inside("feed"), "feed must be a table, was 5."),
        ({"feed": {"a": 1}}, lambda t: t.inside("feed", ["b"]),
         "feed.a is not a known entry. Entries are b."),
        ({"feed": {"a": ""}}, lambda t: t.inside("feed").text("a"),
         "feed.a must be a non-empty string, was ''."),
        ({}, lambda t: t.text("a"), "a must be a non-empty string, was None."),
        ({"a": 1}, lambda t: t.flag("a"), "a must be true or false, was 1."),
        ({"a": True}, lambda t: t.whole("a", 0),
         "a must be an integer from 0 to 4611686018427387904, was True."),
        ({"a": 7}, lambda t: t.whole("a", 1, 6), "a must be an integer from 1 to 6, was 7."),
        ({"a": ["x", 1]}, lambda t: t.several("a", str),
         "a must be a list such as [\"BVMF\"], was ['x', 1]."),
    ],
)  # fmt: skip
def test_an_invalid_setting_is_named_with_its_value_and_bounds(entries, read, error):
    with pytest.raises(UsageError) as raised:
        read(SettingsTable("x.toml", entries))
    assert str(raised.value) == f"x.toml: {error}"


def test_settings_are_read_by_type():
    table = SettingsTable("x.toml", {"feed": {"on": True, "name": "a", "n": 3, "ids": [1, 2]}})
    feed = table.inside("feed", ["on", "name", "n", "ids"])
    assert (feed.flag("on"), feed.flag("off"), feed.text("name"), feed.whole("n", 3, 3)) == (
        True, False, "a", 3,
    )  # fmt: skip
    assert (feed.several("ids", int), feed.several("no", int)) == ({1, 2}, None)
    assert feed.optional_text("no") is None
    assert "n" in feed
    assert table.inside("none").entries == {}


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("a.toml", None, "there is no such file."),
        ("a.toml", "a =", "is not valid TOML: "),
        ("a.json", "{", "is not valid JSON: "),
        ("a.json", "[1]", "must contain a table of settings."),
    ],
)
def test_a_file_of_settings_that_cannot_be_read_is_named(tmp_path, name, text, error):
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError) as raised:
        read_tables(path)
    assert str(raised.value).startswith(f"{path}: {error}")
