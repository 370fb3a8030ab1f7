"""Worked examples of the FAST specification and of 002 §3: types, operators, presence maps."""

from decimal import Decimal

import numpy as np
import pytest

from pregao.errors import DecodeError, EncodeError
from pregao.fast.codec import Decoder, Encoder, NestedMessage
from pregao.fast.columns import FastColumnDecoder
from pregao.fast.xml import templates_from_bytes
from tests.fast.plain import PlainDecoder
from tests.fast.support import compare_with_codec, present


def templates_of(fields, rest=""):
    return templates_from_bytes(
        f'<templates><template name="T" id="1">{fields}</template>{rest}</templates>'.encode()
    )


def hexes(text):
    return bytes.fromhex(text)


def check(fields, *steps, **settings):
    """Values and the bytes that follow the template id, one message after the other.

    A step is the field's value, the bits of its presence map without the template id's, and bytes.
    The encoder must write them, and every decoder must read them.
    """
    templates = templates_of(fields)
    encoder, decoder = Encoder(templates, **settings), Decoder(templates, **settings)
    plain = PlainDecoder(templates, **settings)
    messages = []
    for number, (value, bits, body) in enumerate(steps):
        first = number == 0 or settings.get("reset_each_message", False)
        presence = f"{int(first)}{bits}".ljust(7, "0")
        expected = bytes([int(presence, 2) | 128]) + (b"\x81" if first else b"") + hexes(body)
        values = value if isinstance(value, dict) else {"F": value}
        assert encoder.encode("T", values) == expected, (value, expected.hex(" "))
        assert decoder.decode(expected).values == present(values)
        assert plain.decode(expected)[1] == present(values)
        messages.append(expected)
    again = Decoder(templates, **settings)
    assert compare_with_codec(FastColumnDecoder(templates, **settings), again, messages) == len(
        steps
    )


def refused(fields, message, reason, *, before=()):
    """All decoders refuse a message, the codec with that reason."""
    templates = templates_of(fields)
    decoder = Decoder(templates)
    for each in before:
        decoder.decode(hexes(each))
    with pytest.raises(DecodeError, match=reason):
        decoder.decode(hexes(message))
    cases = [*map(hexes, before), hexes(message)]
    decoded = compare_with_codec(FastColumnDecoder(templates), Decoder(templates), cases)
    assert decoded == len(before)
    plain = PlainDecoder(templates)
    for each in before:
        plain.decode(hexes(each))
    with pytest.raises(DecodeError):
        plain.decode(hexes(message))


INT32, UINT32 = '<int32 name="F"{}/>', '<uInt32 name="F"{}/>'
TEXT, BYTES, DECIMAL = '<string name="F"{}/>', '<byteVector name="F"{}/>', '<decimal name="F"{}/>'
OPTIONAL = ' presence="optional"'


@pytest.mark.parametrize(
    ("field", "optional", "value", "body"),
    [
        (INT32, True, 942755, "39 45 a4"),
        (INT32, False, 942755, "39 45 a3"),
        (INT32, True, -942755, "46 3a dd"),
        (INT32, False, -7942755, "7c 1b 1b 9d"),
        (INT32, False, 8193, "00 40 81"),
        (INT32, False, -8193, "7f 3f ff"),
        (INT32, True, None, "80"),
        (UINT32, True, 0, "81"),
        (UINT32, True, 1, "82"),
        (UINT32, True, 942755, "39 45 a4"),
        (UINT32, False, 0, "80"),
        (UINT32, False, 942755, "39 45 a3"),
        (TEXT, True, "ABC", "41 42 c3"),
        (TEXT, True, None, "80"),
        (TEXT, True, "", "00 80"),
        (TEXT, True, "\0", "00 00 80"),
        (TEXT, False, "", "80"),
        (TEXT, False, "\0", "00 80"),
        (BYTES, True, b"ABC", "84 41 42 43"),
        (BYTES, True, None, "80"),
        (BYTES, False, b"ABC", "83 41 42 43"),
        (BYTES, False, b"", "80"),
        (DECIMAL, False, Decimal("942755E2"), "82 39 45 a3"),
        (DECIMAL, False, Decimal("9427550E1"), "81 04 3f 34 de"),
        (DECIMAL, True, Decimal("942755E2"), "83 39 45 a3"),
        (DECIMAL, False, Decimal("9427.55"), "fe 39 45 a3"),
        (DECIMAL, True, Decimal("-9427.55"), "fe 46 3a dd"),
        (DECIMAL, True, Decimal("-8.193"), "fd 7f 3f ff"),
        (DECIMAL, True, None, "80"),
    ],
)
def test_data_types(field, optional, value, body):
    check(field.format(OPTIONAL if optional else ""), (value, "", body))


def test_the_widest_numbers():
    check('<uInt64 name="F"/>', (2**64 - 1, "", "01 7f 7f 7f 7f 7f 7f 7f 7f ff"))
    check(f'<uInt64 name="F"{OPTIONAL}/>', (2**64 - 1, "", "02 00 00 00 00 00 00 00 00 80"))
    check(f'<int64 name="F"{OPTIONAL}/>', (2**63 - 1, "", "01 00 00 00 00 00 00 00 00 80"))
    check('<int64 name="F"/>', (-(2**63), "", "7f 00 00 00 00 00 00 00 00 80"))
    check(f'<uInt32 name="F"{OPTIONAL}/>', (2**32 - 1, "", "10 00 00 00 80"))


def test_002_3_1_4_stop_bit_encoding():
    check(TEXT.format(""), ("BM&FBovespa", "", "42 4d 26 46 42 6f 76 65 73 70 e1"))
    check(UINT32.format(""), (123456, "", "07 44 c0"))
    check('<string name="F" charset="unicode"/>', ("ação", "", "86 61 c3 a7 c3 a3 6f"))


def test_002_3_1_3_a_decimal_and_a_timestamp():
    check(DECIMAL.format(""), (Decimal("23.45"), "", "fe 12 a9"))
    check('<uInt64 name="F"/>', (20081007091208008, "", "23 55 72 1c 73 1d 1e c8"))


def test_002_3_1_10_string_differences():
    """Its "-5" should be 6: that many characters are removed from the end."""
    fields = f'<string name="F"{OPTIONAL}><delta/></string>'
    check(
        fields,
        ("BMFBR123456", "", "81 42 4d 46 42 52 31 32 33 34 35 b6"),
        ("BMFBR789012", "", "87 37 38 39 30 31 b2"),
    )
    mandatory = '<string name="F"><delta value="BMFBR123456"/></string>'
    check(mandatory, ("BMFBR789012", "", "86 37 38 39 30 31 b2"))


def test_002_3_1_10_tail():
    check(
        f'<string name="F"{OPTIONAL}><tail/></string>',
        ("BMFBR123456", "1", "42 4d 46 42 52 31 32 33 34 35 b6"),
        ("BMFBR789012", "1", "37 38 39 30 31 b2"),
        ("BMFBR789012", "0", ""),
        (None, "1", "80"),
        (None, "0", ""),
    )


def test_002_3_1_10_constant_default_copy_and_increment():
    constant = '<string name="F"><constant value="X"/></string>'
    check(constant, ("X", "", ""))
    default = '<string name="F"><default value="BVMF"/></string>'
    check(default, ("BVMF", "0", ""), ("XCME", "1", "58 43 4d c5"))
    copy = f'<string name="F"{OPTIONAL}><copy/></string>'
    check(copy, ("BRL", "1", "42 52 cc"), ("BRL", "0", ""), (None, "1", "80"), (None, "0", ""))
    increment = f'<int64 name="F"{OPTIONAL}><increment/></int64>'
    check(increment, (7, "1", "88"), (8, "0", ""), (10, "1", "8b"))


def test_002_3_1_15_the_dictionary_is_reset_at_every_message():
    copy = '<string name="F"><copy/></string>'
    check(copy, ("BRL", "1", "42 52 cc"), ("BRL", "1", "42 52 cc"), reset_each_message=True)


def test_constant_operator():
    check('<uInt32 name="F"><constant value="0"/></uInt32>', (0, "", ""))
    optional = f'<uInt32 name="F"{OPTIONAL}><constant value="0"/></uInt32>'
    check(optional, (None, "0", ""), (0, "1", ""))


def test_default_operator():
    check('<uInt32 name="F"><default value="0"/></uInt32>', (0, "0", ""), (1, "1", "81"))
    check(f'<uInt32 name="F"{OPTIONAL}><default/></uInt32>', (None, "0", ""))
    optional = f'<uInt32 name="F"{OPTIONAL}><default value="5"/></uInt32>'
    check(optional, (5, "0", ""), (None, "1", "80"), (5, "0", ""))


def test_copy_operator():
    check(
        '<string name="F"><copy/></string>',
        ("CME", "1", "43 4d c5"),
        ("CME", "0", ""),
        ("ISE", "1", "49 53 c5"),
    )
    check(
        f'<string name="F"{OPTIONAL}><copy value="BRL"/></string>',
        (None, "1", "80"),
        (None, "0", ""),
        ("BRL", "1", "42 52 cc"),
        ("BRL", "0", ""),
    )


def test_increment_operator():
    check(
        '<uInt32 name="F"><increment value="1"/></uInt32>',
        (1, "0", ""),
        (2, "0", ""),
        (4, "1", "84"),
        (5, "0", ""),
        (1, "1", "81"),
        (2, "0", ""),
    )


def test_an_increment_goes_from_the_highest_to_the_lowest_number():
    for kind, high, low in (("uInt64", 2**64 - 1, 0), ("int32", 2**31 - 1, -(2**31))):
        field = f'<{kind} name="F"><increment value="{high}"/></{kind}>'
        check(field, (high, "0", ""), (low, "0", ""), (low + 1, "0", ""))


def test_delta_operator_of_integers():
    check(
        '<int32 name="F"><delta/></int32>',
        (30100, "", "01 6b 94"),
        (30100, "", "80"),
        (30110, "", "8a"),
        (30120, "", "8a"),
    )
    check(
        f'<uInt64 name="F"{OPTIONAL}><delta/></uInt64>',
        (2**64 - 1, "", "02 00 00 00 00 00 00 00 00 80"),
        (None, "", "80"),
        (0, "", "7e 00 00 00 00 00 00 00 00 81"),
    )


def test_delta_operator_of_decimals():
    check(
        '<decimal name="F"><delta/></decimal>',
        (Decimal("12.1"), "", "ff 00 f9"),
        (Decimal("12.1"), "", "80 80"),
        (Decimal("12.2"), "", "80 81"),
        (Decimal("12.1"), "", "80 ff"),
    )
    check(
        '<decimal name="F"><delta value="12000"/></decimal>',
        (Decimal("12.1"), "", "fc 00 ed"),
        (Decimal("12.1"), "", "80 80"),
    )


def test_delta_operator_of_strings():
    check(
        '<string name="F"><delta/></string>',
        ("GEH6", "", "80 47 45 48 b6"),
        ("GEM6", "", "82 4d b6"),
        ("ESM6", "", "fd 45 d3"),
        ("RSESM6", "", "ff 52 d3"),
    )


def test_decimal_with_separate_operators():
    check(
        f'<decimal name="F"{OPTIONAL}><exponent><copy/></exponent>'
        "<mantissa><copy/></mantissa></decimal>",
        (Decimal("9427.55"), "11", "fe 39 45 a3"),
        (Decimal("9427.60"), "01", "39 45 a8"),
        (None, "1", "80"),
    )
    check(
        '<decimal name="F"><exponent><constant value="-2"/></exponent>'
        "<mantissa><delta/></mantissa></decimal>",
        (Decimal("9427.55"), "", "39 45 a3"),
        (Decimal("9427.51"), "", "fc"),
    )


def test_a_null_exponent_means_no_mantissa_and_no_bit_of_it():
    fields = (
        f'<decimal name="F"{OPTIONAL}><exponent><default value="-2"/></exponent>'
        '<mantissa><copy/></mantissa></decimal><uInt32 name="G"><copy/></uInt32>'
    )
    check(
        fields,
        ({"F": None, "G": 5}, "11", "80 85"),
        ({"F": Decimal("0.07"), "G": 5}, "010", "87"),
        ({"F": None, "G": 6}, "11", "80 86"),
    )


def test_presence_map_optional_group():
    fields = (
        f'<group name="F"{OPTIONAL}><uInt32 name="A"/><uInt32 name="B"><copy/></uInt32></group>'
        f'<group name="G"{OPTIONAL}><uInt32 name="A"/></group>'
    )
    check(
        fields,
        ({"F": {"A": 1, "B": 2}, "G": None}, "10", "c0 81 82"),
        ({"F": {"A": 3, "B": 2}, "G": {"A": 9}}, "11", "80 83 89"),
        ({"F": None, "G": None}, "00", ""),
    )


def test_presence_map_template_id_copied():
    templates = templates_of(
        '<uInt32 name="F"/>', '<template name="U" id="300"><uInt32 name="F"/></template>'
    )
    encoder, decoder = Encoder(templates), Decoder(templates)
    bodies = ["c0 81 85", "80 86", "c0 02 ac 87", "80 88"]
    names = ["T", "T", "U", "U"]
    for name, value, body in zip(names, (5, 6, 7, 8), bodies, strict=True):
        assert encoder.encode(name, {"F": value}) == hexes(body)
        decoded = decoder.decode(hexes(body))
        assert (decoded.template.name, decoded["F"]) == (name, value)
    again = Decoder(templates)
    assert compare_with_codec(FastColumnDecoder(templates), again, list(map(hexes, bodies))) == 4
    decoder.reset()
    with pytest.raises(DecodeError, match="no template id"):
        decoder.decode(hexes("80 86"))


def test_presence_map_infinite_zero_suffix():
    """Bits that are not there are zero, and the encoder leaves zero bytes at the end out."""
    fields = "".join(f'<uInt32 name="F{i}"><copy value="7"/></uInt32>' for i in range(200))
    templates = templates_of(fields)
    encoder, decoder = Encoder(templates), Decoder(templates)
    columns = FastColumnDecoder(templates)
    sevens = {f"F{i}": 7 for i in range(200)}
    cases = [encoder.encode("T", sevens)]
    assert cases == [hexes("c0 81")]
    for number in (0, 5, 6, 61, 62, 63, 64, 125, 126, 199):
        values = sevens | {f"F{number}": 8}
        encoder.reset()
        cases.append(encoder.encode("T", values))
        assert cases[-1][0 : (number + 1) // 7 + 1][-1] & 128
        decoder.reset()
        assert decoder.decode(cases[-1]).values == values
    fresh = {"reset_each_message": True}
    found = compare_with_codec(
        FastColumnDecoder(templates, **fresh), Decoder(templates, **fresh), cases
    )
    assert found == len(cases)
    # A map that is longer than it must be is let pass.
    decoder.reset()
    assert decoder.decode(hexes("40" + "00" * 60 + "80 81")).values == sevens
    assert not columns.decode(
        np.frombuffer(hexes("40" + "00" * 60 + "80 81"), np.uint8), np.array([0]), np.array([63])
    ).status[0]


OPERATORS = {
    "none": ("", [(None, "", "80"), (3, "", "84")]),
    "constant": ('<constant value="3"/>', [(None, "0", ""), (3, "1", "")]),
    "default": ('<default value="3"/>', [(None, "1", "80"), (3, "0", ""), (4, "1", "85")]),
    "copy": ('<copy value="3"/>', [(3, "0", ""), (None, "1", "80"), (None, "0", "")]),
    "increment": ("<increment/>", [(None, "0", ""), (3, "1", "84"), (4, "0", "")]),
    "delta": ('<delta value="3"/>', [(None, "", "80"), (4, "", "82"), (4, "", "81")]),
}


@pytest.mark.parametrize("operator", OPERATORS)
def test_presence_map_optional_with_each_operator(operator):
    inner, steps = OPERATORS[operator]
    check(f'<uInt32 name="F"{OPTIONAL}>{inner}</uInt32>', *steps)


def test_sequences_have_separate_presence_maps():
    fields = (
        f'<sequence name="F"{OPTIONAL}><length name="N"/><uInt32 name="A"><copy/></uInt32>'
        f'<sequence name="B"{OPTIONAL}><uInt32 name="C"/></sequence></sequence>'
    )
    entries = [{"A": 1, "B": None}, {"A": 1, "B": [{"C": 5}, {"C": 6}]}]
    check(fields, ({"F": None}, "", "80"), ({"F": []}, "", "81"),
          ({"F": entries}, "", "83 c0 81 80 80 83 85 86"))  # fmt: skip


def test_references_insert_a_template():
    rest = '<template name="R"><uInt32 name="A"><copy/></uInt32></template>'
    templates = templates_of('<templateRef name="R"/><uInt32 name="B"/>', rest)
    message = Encoder(templates).encode("T", {"A": 1, "B": 2})
    assert message == hexes("e0 81 81 82")
    assert Decoder(templates).decode(message).values == {"A": 1, "B": 2}


def test_references_without_a_name_hold_a_message_of_any_template():
    rest = '<template name="R" id="2"><uInt32 name="A"><copy/></uInt32></template>'
    templates = templates_of('<templateRef/><uInt32 name="B"/>', rest)
    values = {"templateRef": NestedMessage("R", {"A": 1}), "B": 2}
    message = Encoder(templates).encode("T", values)
    assert message == hexes("c0 81 e0 82 81 82")
    assert Decoder(templates).decode(message).values == values
    columns = FastColumnDecoder(templates)
    assert list(columns.left_out) == [1]
    found = columns.decode(np.frombuffer(message, np.uint8), np.array([0]), np.array([6]))
    assert found.refused.tolist() == [0]


def test_messages_within_messages_end_somewhere():
    templates = templates_of("<templateRef/>")
    with pytest.raises(DecodeError, match="nested deeper"):
        Decoder(templates).decode(hexes("c0 81") * 20)


COPY = '<uInt32 name="F"><copy{}/></uInt32>'


@pytest.mark.parametrize(
    ("fields", "message", "reason"),
    [
        (UINT32.format(""), "c0 81 00 81", "ERR R6"),
        (INT32.format(""), "c0 81 00 81", "ERR R6"),
        (INT32.format(""), "c0 81 7f ff", "ERR R6"),
        (UINT32.format(""), "c0 81 10 00 00 00 80", "ERR D2"),
        (UINT32.format(OPTIONAL), "c0 81 10 00 00 00 81", "ERR D2"),
        (INT32.format(""), "c0 81 08 00 00 00 80", "ERR D2"),
        (INT32.format(""), "c0 81 77 7f 7f 7f ff", "ERR D2"),
        ('<uInt64 name="F"/>', "c0 81 02 00 00 00 00 00 00 00 00 80", "ERR D2"),
        ('<uInt64 name="F"/>', "c0 81 01 00 00 00 00 00 00 00 00 00 80", "ERR D2"),
        (COPY.format(""), "c0 81", "ERR D5"),
        ('<uInt32 name="F"><increment/></uInt32>', "c0 81", "ERR D5"),
        ('<string name="F"><tail/></string>', "c0 81", "ERR D5"),
        ('<string name="F"><delta/></string>', "c0 81 81 c1", "ERR D7"),
        ('<string name="F"><delta value="A"/></string>', "c0 81 fd c1", "ERR D7"),
        (UINT32.format(""), "c0 82 81", "ERR D9"),
        (UINT32.format(""), "80 81", "ERR D5"),
        (DECIMAL.format(""), "c0 81 00 c0 81", "ERR R1"),
        ('<decimal name="F"><delta/></decimal>', "c0 81 00 c0 81", "ERR R1"),
        ('<string name="F" charset="unicode"/>', "c0 81 81 ff", "ERR R2"),
        ('<string name="F" charset="unicode"/>', "c0 81 83 ed a0 80", "ERR R2"),
        ('<uInt32 name="F"><delta/></uInt32>', "c0 81 ff", "ERR R4"),
        ('<int64 name="F"><delta value="9223372036854775807"/></int64>', "c0 81 81", "ERR R4"),
        (TEXT.format(""), "c0 81 00 c1", "ERR R9"),
        (TEXT.format(OPTIONAL), "c0 81 00 00 00 80", "ERR R9"),
        (BYTES.format(""), "c0 81 85 41", "past the end"),
        (BYTES.format(""), "c0 81 0f 7f 7f 7f ff 41", "past the end"),
        ('<sequence name="F"><uInt32 name="A"/></sequence>', "c0 81 0f 7f 7f 7f ff 81", "entries"),
        (UINT32.format(""), "c0 81 05", "middle of a field"),
        (UINT32.format(""), "40", "middle of a field"),
        (UINT32.format(""), "", "middle of a field"),
    ],
)  # fmt: skip
def test_errors_of_the_specification(fields, message, reason):
    refused(fields, message, reason)


def test_a_mandatory_field_after_an_empty_previous_value():
    copy = f'<uInt32 name="F"{OPTIONAL}><copy key="k"/></uInt32>'
    refused(f'{copy}<uInt32 name="G"><copy key="k"/></uInt32>', "e0 81 80", "ERR D6")
    refused(f'{copy}<uInt32 name="G"><delta key="k"/></uInt32>', "e0 81 80 81", "ERR D6")


def test_a_previous_value_of_another_kind():
    fields = '<uInt32 name="F"><copy key="k"/></uInt32><int32 name="G"><copy key="k"/></int32>'
    refused(fields, "e0 81 85", "ERR D4")
    with pytest.raises(EncodeError, match="ERR D4"):
        Encoder(templates_of(fields)).encode("T", {"F": 5, "G": 5})


def test_texts_do_not_grow_forever():
    fields = '<byteVector name="F"><delta/></byteVector>'
    half = "80 02 00 80" + "41" * 32768
    refused(fields, "80 80 02 00 80" + "42" * 32768, "grown", before=["c0 81" + half])


def test_after_an_error_previous_values_are_reset():
    templates = templates_of(COPY.format(""))
    decoder = Decoder(templates)
    decoder.decode(hexes("e0 81 85"))
    assert decoder.decode(hexes("80"))["F"] == 5
    for broken in ("a0 05", "80"):
        with pytest.raises(DecodeError):
            decoder.decode(hexes(broken))


def test_a_template_can_reset_all_previous_values():
    templates = templates_of(
        COPY.format(' value="1"'),
        '<template name="R" id="2" xmlns:scp="urn:s" scp:reset="yes"/>',
    )
    encoder, decoder = Encoder(templates), Decoder(templates)
    sent = [("T", {"F": 5}), ("T", {"F": 5}), ("R", {}), ("T", {"F": 1})]
    messages = [encoder.encode(*each) for each in sent]
    assert messages == list(map(hexes, ["e0 81 85", "80", "c0 82", "c0 81"]))
    assert [decoder.decode(each).values for each in messages] == [values for _, values in sent]
    found = compare_with_codec(FastColumnDecoder(templates), Decoder(templates), messages)
    assert found == len(messages)


@pytest.mark.parametrize(
    ("dictionary", "shared"),
    [("global", {"B", "C"}), ("template", set()), ("type", {"B"}), ("mine", {"B", "C"})],
)
def test_dictionaries_share_previous_values(dictionary, shared):
    source = "".join(
        f'<template name="{name}" id="{number}" dictionary="{dictionary}"><typeRef name="{kind}"/>'
        '<uInt32 name="F"><copy/></uInt32></template>'
        for number, (name, kind) in enumerate([("A", "X"), ("B", "X"), ("C", "Y")])
    )
    templates = templates_from_bytes(f"<templates>{source}</templates>".encode())
    for name in ("B", "C"):
        encoder = Encoder(templates)
        encoder.encode("A", {"F": 5})
        assert (len(encoder.encode(name, {"F": 5})) == 2) == (name in shared)


@pytest.mark.parametrize(
    ("fields", "values", "reason"),
    [
        (UINT32.format(""), {}, "F: mandatory"),
        (UINT32.format(""), {"F": -1}, "F: -1 is not between 0 and 4294967295"),
        (UINT32.format(""), {"F": "1"}, "F: '1' is not an integer"),
        (UINT32.format(""), {"F": 1, "G": 2}, "G: no such field"),
        (TEXT.format(""), {"F": "ação"}, "F: .* ASCII"),
        (TEXT.format(""), {"F": "\0A"}, "F: .* character 0"),
        (BYTES.format(""), {"F": "A"}, "F: 'A' is not bytes"),
        ('<string name="F" charset="unicode"/>', {"F": b"A"}, "F: b'A' is not a text"),
        ('<string name="F" charset="unicode"/>', {"F": "\ud800"}, "F: .* UTF-8"),
        (DECIMAL.format(""), {"F": 1.5}, "F: 1.5 is not a decimal"),
        (DECIMAL.format(""), {"F": Decimal("NaN")}, "F: NaN is not a number"),
        (DECIMAL.format(""), {"F": Decimal("1E70")}, "F: 1E.70 does not fit"),
        ('<uInt32 name="F"><constant value="8"/></uInt32>', {"F": 9}, "F: always 8 here"),
        ('<string name="F"><tail value="ABC"/></string>', {"F": "AB"}, "F: 'AB' is shorter"),
        ('<group name="F"><uInt32 name="A"/></group>', {"F": 1}, "F: 1 is not named values"),
        ('<group name="F"><uInt32 name="A"/></group>', {"F": {}}, "F.A: mandatory"),
        ('<sequence name="F"><uInt32 name="A"/></sequence>', {"F": {}}, "F: {} is not a list"),
        (
            '<sequence name="F"><uInt32 name="A"/></sequence>',
            {"F": [{"A": 1}, {"A": None}]},
            r"F\[1\].A: mandatory",
        ),
        (
            '<decimal name="F"><exponent><constant value="-2"/></exponent></decimal>',
            {"F": Decimal("1.005")},
            "F: .* exponent -2 .ERR D3",
        ),
    ],
)
def test_values_that_cannot_be_written_are_named(fields, values, reason):
    encoder = Encoder(templates_of(fields))
    with pytest.raises(EncodeError, match=reason):
        encoder.encode("T", values)


def test_a_message_that_cannot_be_written_leaves_no_trace():
    templates = templates_of(f'{COPY.format("")}<uInt32 name="G"/>')
    encoder = Encoder(templates)
    encoder.encode("T", {"F": 5, "G": 1})
    with pytest.raises(EncodeError):
        encoder.encode("T", {"F": 6, "G": None})
    assert encoder.encode("T", {"F": 5, "G": 1}) == hexes("80 81")
    with pytest.raises(EncodeError, match="no template of that name"):
        encoder.encode("Z", {})
