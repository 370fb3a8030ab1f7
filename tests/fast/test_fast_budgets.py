"""Budgets of a message: its entries and the text that operators give, alike in both decoders."""

import tracemalloc
from bisect import bisect_right

import numpy as np
import pytest

from pregao.errors import DecodeError
from pregao.fast.codec import Decoder, Encoder
from pregao.fast.columns import REASONS, FastColumnDecoder
from pregao.fast.xml import templates_from_bytes
from tests.fast.support import compare_with_codec

MAX_ENTRIES = 10_000
MUCH_TEXT = "repeats more text than 63 times the message's bytes and 1,048,576"
MANY_ENTRIES = "the sequences have more than 10,000 entries"
LONG = "PETR4 " * 400


def templates_of(entry, head='<string name="Text"><copy key="k"/></string>'):
    """Templates whose messages have a text and entries that may repeat it."""
    return templates_from_bytes(
        f'<templates><template name="M" id="1">{head}'
        f'<sequence name="Entries"><uInt32 name="N"><copy/></uInt32>{entry}</sequence>'
        "</template></templates>".encode()
    )


def text(operator, *, presence="", charset="ascii", value=""):
    inner = f"<{operator}{value} key='k'/>" if operator != "none" else ""
    return f'<string name="Copy" charset="{charset}"{presence}>{inner}</string>'


def refusals(templates, message, *, reset=True):
    """The reasons for which the codec and the kernel refuse a message; None if they do not."""
    reasons = []
    try:
        Decoder(templates, reset_each_message=reset).decode(message)
        reasons.append(None)
    except DecodeError as error:
        reasons.append(error.reason)
    found = FastColumnDecoder(templates, reset_each_message=reset).decode(
        np.frombuffer(message, np.uint8), np.array([0]), np.array([len(message)])
    )
    status = int(found.status[0])
    reasons.append(REASONS[status] if status else None)
    return reasons


OPTIONAL = ' presence="optional"'
UNICODE = '<string name="Text" charset="unicode"><copy key="k"/></string>'
VALUE = f' value="{LONG}"'
REPEATED = {
    "copy": templates_of(text("copy")),
    "copy, optional": templates_of(text("copy", presence=OPTIONAL)),
    "copy, Unicode": templates_of(text("copy", charset="unicode"), UNICODE),
    "tail": templates_of(text("tail")),
    "delta": templates_of(text("delta")),
    "default": templates_of(text("default", value=VALUE)),
    "default, Unicode": templates_of(text("default", value=VALUE, charset="unicode")),
    "constant": templates_of(text("constant", value=VALUE)),
    "constant, optional": templates_of(text("constant", value=VALUE, presence=OPTIONAL)),
}


def message_of(templates, entries):
    values = {"Text": LONG, "Entries": [{"N": 1, "Copy": LONG}] * entries}
    return Encoder(templates, reset_each_message=True).encode("M", values)


@pytest.mark.parametrize("case", sorted(REPEATED))
def test_text_that_operators_repeat_is_refused_beyond_the_budget_of_the_message(case):
    templates = REPEATED[case]

    def excess(entries):
        return entries * len(LONG) - 63 * len(message_of(templates, entries)) - (1 << 20)

    max_entries = bisect_right(range(1_000), 0, key=excess) - 1
    assert excess(max_entries) <= 0 < excess(max_entries + 1)
    assert refusals(templates, message_of(templates, max_entries)) == [None, None]
    assert refusals(templates, message_of(templates, max_entries + 1)) == [MUCH_TEXT, MUCH_TEXT]


def test_text_in_a_group_of_an_entry_counts_as_well():
    templates = templates_of(f'<group name="G">{text("copy")}</group>')
    values = {"Text": LONG, "Entries": [{"N": 1, "G": {"Copy": LONG}}] * 800}
    message = Encoder(templates, reset_each_message=True).encode("M", values)
    assert refusals(templates, message) == [MUCH_TEXT, MUCH_TEXT]


def test_text_without_an_operator_is_bounded_by_the_message_and_never_refused():
    templates = templates_of('<string name="Copy"/>')
    message = message_of(templates, 1_000)
    assert refusals(templates, message) == [None, None]


def test_a_small_capture_cannot_take_much_memory():
    """55 kB which would decode to 750 MB: a text of half of it, and entries of a byte each."""
    templates = templates_of(text("copy"))
    long = "A" * 27_000
    encoder = Encoder(templates, reset_each_message=True)
    one = encoder.encode("M", {"Text": long, "Entries": [{"N": 1, "Copy": long}]})
    for entries in (9_000, 27_000):
        # The presence map of an entry says that both fields are copied.
        message = one[: one.index(b"A\xc1") + 2] + _number(entries) + one[-2:]
        message += b"\x80" * (entries - 1)
        assert len(message) < 55_000
        tracemalloc.start()
        reasons = refusals(templates, message)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert reasons == ([MUCH_TEXT] * 2 if entries <= MAX_ENTRIES else [MANY_ENTRIES] * 2)
        assert peak < 20 << 20


def _number(value):
    """An unsigned number as the stream has it."""
    out = [value & 127 | 128]
    while value := value >> 7:
        out.insert(0, value & 127)
    return bytes(out)


def test_entries_are_refused_beyond_the_limit():
    templates = templates_of("")
    for entries, expected in ((MAX_ENTRIES, None), (MAX_ENTRIES + 1, MANY_ENTRIES)):
        values = {"Text": "A", "Entries": [{"N": 1}] * entries}
        message = Encoder(templates, reset_each_message=True).encode("M", values)
        assert refusals(templates, message) == [expected, expected]


def test_the_entries_of_all_sequences_of_a_message_count_together():
    templates = templates_of('<sequence name="Inner"><uInt32 name="N"><copy/></uInt32></sequence>')
    for inner, expected in ((99, None), (100, MANY_ENTRIES)):
        entry = {"N": 1, "Inner": [{"N": 1}] * inner}
        values = {"Text": "A", "Entries": [entry] * 100}
        message = Encoder(templates, reset_each_message=True).encode("M", values)
        assert refusals(templates, message) == [expected, expected]


def test_a_refused_message_leaves_the_next_one_its_full_budget():
    templates = templates_of(text("copy"))
    cases = [message_of(templates, count) for count in (400, 900, 400, 1_000, 430)]
    columns = FastColumnDecoder(templates, reset_each_message=True)
    assert compare_with_codec(columns, Decoder(templates, reset_each_message=True), cases) == 3


def test_a_text_that_grows_over_many_messages_is_bounded():
    templates = templates_from_bytes(
        b'<templates><template name="M" id="1"><string name="Text"><delta/></string></template>'
        b"</templates>"
    )
    # Nothing is taken off, 60 characters are added: by every message, to the text before.
    message = b"\xc0\x81\x80" + b"A" * 59 + b"\xc1"
    decoder, columns = Decoder(templates), FastColumnDecoder(templates)
    sizes = []
    for _ in range(1_100):
        ends = np.array([len(message)])
        found = columns.decode(np.frombuffer(message, np.uint8), ends * 0, ends)
        if found.status[0]:
            with pytest.raises(DecodeError, match="a text that has grown beyond 65535 bytes"):
                decoder.decode(message)
            sizes.append(0)
        else:
            sizes.append(len(decoder.decode(message).values["Text"]))
        assert len(columns._kept) == sizes[-1]
    assert max(sizes) == 65_520
    assert sizes[1092:1094] == [0, 60]
