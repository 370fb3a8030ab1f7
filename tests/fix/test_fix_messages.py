"""Messages of FIX, in whatever pieces they come."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.errors import DecodeError, EncodeError
from pregao.fix.message import FixMessage, Parser, encode

texts = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12)
plain = st.tuples(st.integers(200, 900).filter(lambda tag: tag not in (212, 213)), texts)
raw = st.binary(max_size=30).map(lambda data: [(95, len(data)), (96, data)])
bodies = st.lists(st.one_of(plain.map(lambda field: [field]), raw), max_size=6)


def fields_of(body):
    named = [
        (tag, value)
        for part in body
        for tag, value in part
        if tag not in (348, 350, 352, 354, 356, 358)
    ]
    return [(35, "X"), *named]


def as_bytes(fields):
    return tuple(
        (tag, value if isinstance(value, bytes) else str(value).encode()) for tag, value in fields
    )


@settings(max_examples=100, deadline=None)
@given(st.lists(bodies, min_size=1, max_size=4), st.integers(1, 17))
def test_written_bytes_are_read_back_in_any_pieces(several, size):
    wanted = [fields_of(body) for body in several]
    stream = b"".join(encode(fields) for fields in wanted)
    parser = Parser()
    found = [
        message
        for at in range(0, len(stream), size)
        for message in parser.feed(stream[at : at + size])
    ]
    assert [message.fields for message in found] == [as_bytes(fields) for fields in wanted]


def test_a_message_in_bytes():
    message = encode([(35, "0"), (49, "A"), (56, "B"), (34, 7)])
    assert message == b"8=FIX.4.4\x019=20\x0135=0\x0149=A\x0156=B\x0134=7\x0110=131\x01"


def test_repeating_groups():
    message = FixMessage(as_bytes([(35, "BX"), (1351, 2), (1355, 10), (1182, 5), (1355, 11)]))
    groups = list(message.groups(1351, 1355))
    assert [(each.text(1355), each.number(1182)) for each in groups] == [("10", 5), ("11", None)]
    assert list(message.groups(268, 269)) == []


@pytest.mark.parametrize("count", [b"", b"x", b"-1", b"9" * 19, b"9" * 5000])
def test_a_count_that_is_not_a_number_of_up_to_18_digits_has_no_entries(count):
    message = FixMessage(((35, b"BX"), (1351, count), (1355, b"10")))
    assert list(message.groups(1351, 1355)) == []


@given(st.binary(max_size=20).map(lambda each: each.replace(b"\x01", b"\xff")))
def test_text_of_any_bytes_encodes_to_the_same_bytes(value):
    (message,) = Parser().feed(encode([(35, "0"), (58, value)]))
    (again,) = Parser().feed(encode([(35, "0"), (58, message.text(58))]))
    assert (len(message.text(58)), again.get(58)) == (len(value), value)


@pytest.mark.parametrize(
    "stream",
    [
        b"8=FIX.5.0\x01",
        b"GET / HTTP/1.1\r\n",
        b"8=FIX.4.4\x019=abc\x01",
        b"8=FIX.4.4\x019=9999999999\x01",
        b"8=FIX.4.4\x019=5\x0135=0\x0110=000\x01",
        b"8=FIX.4.4\x019=5\x01350=\x0110=161\x01",
    ],
)
def test_an_invalid_message_is_a_decode_error(stream):
    with pytest.raises(DecodeError):
        list(Parser().feed(stream))


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60), st.booleans())
def test_any_bytes_give_messages_or_a_decode_error(data, framed):
    stream = data
    if framed:
        head = b"8=FIX.4.4\x019=%d\x01" % len(data) + data
        stream = head + b"10=%03d\x01" % (sum(head) % 256)
    with contextlib.suppress(DecodeError):
        list(Parser().feed(stream))


@pytest.mark.parametrize(
    "fields", [[], [(49, "A")], [(35, "X"), (58, b"a\x01b")], [(35, "X"), (58, "€")]]
)
def test_what_cannot_be_written_is_refused(fields):
    with pytest.raises(EncodeError):
        encode(fields)
