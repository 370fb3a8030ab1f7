"""Helpers of the FAST tests: random templates, random values, mutated messages."""

from decimal import Decimal
from xml.sax.saxutils import quoteattr

import numpy as np
from hypothesis import strategies as st

from pregao.errors import DecodeError
from pregao.fast.columns import REASONS
from pregao.fast.model import (
    DecimalField,
    FastField,
    FastGroup,
    FastSequence,
    FieldType,
    Operator,
    Reference,
)

NUMBERS = ["uInt32", "int32", "uInt64", "int64"]
TEXTS = ["ascii", "unicode", "byteVector"]
KINDS = {kind.value: kind for kind in FieldType}
EDGES = [0, 1, 62, 63, 64, 65, 127, 128, 8191, 8192, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1]
EDGES += [2**63, 2**64 - 1]
ASCII = st.text(st.characters(codec="ascii", exclude_characters="\0"), max_size=6)
ASCII = ASCII | st.sampled_from(["", "\0", "A", "PETR4", "PETR3", "BMFBR123456", "BMFBR789012"])
UNICODE = st.text(max_size=4) | st.sampled_from(["ação", "opção", "€", "", "\0a"])
BYTES = st.binary(max_size=5) | st.sampled_from([b"", b"\x80\xff", b"abcdef"])


def numbers(kind):
    """Numbers of a kind, with those at which encodings change."""
    edges = {each for edge in EDGES for each in (edge, -edge, -edge - 1)}
    fitting = sorted(each for each in edges if kind.minimum <= each <= kind.maximum)
    small = st.integers(max(kind.minimum, -3), 3)
    return small | st.sampled_from(fitting) | st.integers(kind.minimum, kind.maximum)


DECIMALS = st.builds(
    lambda mantissa, exponent: Decimal(mantissa).scaleb(exponent),
    numbers(KINDS["int64"]),
    st.sampled_from([-2, -2, -2, 0, -8, 3]) | st.integers(-63, 63),
)
NAMES = st.sampled_from(["global", "template", "type", "own"])


def values(kind):
    """Values of a kind of field."""
    if kind.is_number:
        return numbers(kind)
    return {FieldType.ASCII: ASCII, FieldType.UNICODE: UNICODE, FieldType.BYTES: BYTES}[kind]


def printable(kind):
    """Initial values that XML can hold, as attributes show them."""
    if kind.is_number:
        return numbers(kind).map(str)
    if kind is FieldType.BYTES:
        return BYTES.map(bytes.hex)
    letters = "ação" if kind is FieldType.UNICODE else "PETR4 "
    return st.text(letters, max_size=5)


@st.composite
def operator_xml(draw, kind, optional, *, tails=True):
    """An operator that fits, with an initial value where one is needed or drawn."""
    fitting = ["none", "constant", "default", "copy", "delta"]
    fitting += ["increment"] if kind.is_number else ["tail"] if tails else []
    operator = draw(st.sampled_from(fitting))
    if operator == "none":
        return ""
    needed = operator == "constant" or (operator == "default" and not optional)
    value = ""
    if needed or draw(st.booleans()):
        value = f" value={quoteattr(draw(printable(kind)))}"
    key = draw(st.sampled_from(["", "", "", ' key="shared"', ' key="other"']))
    where = draw(
        st.sampled_from(
            ["", "", *(f' dictionary="{name}"' for name in ("global", "template", "type", "own"))]
        )
    )
    return f"<{operator}{value}{key}{where}/>"


@st.composite
def exponent_xml(draw, optional):
    """An exponent with its own operator; its initial value is valid for decimals."""
    operator = draw(st.sampled_from(["none", "constant", "default", "copy", "delta", "increment"]))
    if operator == "none":
        return "<exponent/>"
    needed = operator == "constant" or (operator == "default" and not optional)
    value = f' value="{draw(st.integers(-4, 2))}"' if needed or draw(st.booleans()) else ""
    return f"<exponent><{operator}{value}/></exponent>"


@st.composite
def field_xml(draw, name):
    """A field of any kind."""
    optional = draw(st.booleans())
    presence = ' presence="optional"' if optional else ""
    kind = draw(st.sampled_from([*NUMBERS, *TEXTS, "decimal", "decimal"]))
    if kind == "decimal":
        if draw(st.booleans()):
            parts = draw(exponent_xml(optional))
            mantissa = draw(operator_xml(KINDS["int64"], False))
            return (
                f'<decimal name="{name}"{presence}>{parts}<mantissa>{mantissa}</mantissa></decimal>'
            )
        operator = draw(st.sampled_from(["none", "constant", "default", "copy", "delta"]))
        needed = operator == "constant" or (operator == "default" and not optional)
        value = ""
        if needed or draw(st.booleans()):
            value = f' value="{draw(st.sampled_from(["0", "-1.50", "1200", "12.34", ".5"]))}"'
        inner = "" if operator == "none" else f"<{operator}{value}/>"
        return f'<decimal name="{name}"{presence}>{inner}</decimal>'
    if kind in ("ascii", "unicode"):
        known = FieldType.ASCII if kind == "ascii" else FieldType.UNICODE
        inner = draw(operator_xml(known, optional))
        return f'<string name="{name}" charset="{kind}"{presence}>{inner}</string>'
    inner = draw(operator_xml(KINDS[kind], optional))
    return f'<{kind} name="{name}"{presence}>{inner}</{kind}>'


@st.composite
def parts_xml(draw, depth, names, *, entry=False, references=True):
    """Fields, groups and sequences; an entry takes at least a byte."""
    parts = [f'<uInt32 name="f{next(names)}"/>'] if entry else []
    for _ in range(draw(st.integers(0, 7))):
        parts.append(draw(field_xml(f"f{next(names)}")))
    if depth:
        for _ in range(draw(st.integers(0, 2))):
            tag = draw(st.sampled_from(["group", "sequence", "sequence"]))
            optional = draw(st.booleans())
            presence = ' presence="optional"' if optional else ""
            kind = draw(st.sampled_from(["", "", '<typeRef name="T"/>']))
            inner = draw(
                parts_xml(depth - 1, names, entry=tag == "sequence", references=references)
            )
            length = ""
            if tag == "sequence" and draw(st.booleans()):
                operator = draw(st.sampled_from(["none", "copy", "default", "delta", "increment"]))
                value = "" if optional and operator != "default" else ' value="1"'
                inside = "" if operator == "none" else f"<{operator}{value}/>"
                length = f'<length name="n{next(names)}">{inside}</length>'
            index = draw(st.integers(0, len(parts)))
            parts.insert(
                index, f'<{tag} name="g{next(names)}"{presence}>{kind}{length}{inner}</{tag}>'
            )
    if references and draw(st.integers(0, 5)) == 0:
        parts.append("<templateRef/>")
    if draw(st.integers(0, 3)) == 0:
        parts.append('<templateRef name="Shared"/>')
    return "".join(parts)


@st.composite
def templates_xml(draw, *, references=True):
    """A file of three templates and a fourth that others refer to."""
    names = iter(range(1000))
    shared = "".join(draw(field_xml(f"s{i}")) for i in range(draw(st.integers(1, 3))))
    parts = [f'<template name="Shared">{shared}</template>']
    for index, name in enumerate(("One", "Two", "Three")):
        where = draw(st.sampled_from(["", ' dictionary="template"', ' dictionary="own"']))
        reset = draw(st.sampled_from(["", "", "", ' reset="yes"']))
        inner = draw(parts_xml(2, names, references=references and index < 2))
        # A name may be there once in a group; a template is referred to once at most.
        parts.append(
            f'<template name="{name}" id="{[1, 200, 20000][index]}"{where}{reset}>'
            f"{inner}</template>"
        )
    return ("<templates>" + "".join(parts) + "</templates>").encode()


def value_of(part, templates):
    """A strategy of what a part can hold."""
    if isinstance(part, FastField):
        operation = part.operation
        if operation.operator is Operator.CONSTANT:
            value = st.just(
                operation.initial.decode() if part.kind is FieldType.UNICODE else operation.initial
            )
        else:
            value = values(part.kind)
            if operation.initial is not None:
                initial = operation.initial
                value |= st.just(initial.decode() if part.kind is FieldType.UNICODE else initial)
        return st.none() | value if part.optional else value
    if isinstance(part, DecimalField):
        value = DECIMALS
        exponent, mantissa = part.exponent, part.mantissa
        if exponent.operator is Operator.CONSTANT:
            value = numbers(FieldType.INT64).map(lambda m: Decimal(m).scaleb(exponent.initial))
        if mantissa.operator is Operator.CONSTANT:
            power = (
                st.just(exponent.initial)
                if exponent.operator is Operator.CONSTANT
                else (st.integers(-3, 3))
            )
            value = power.map(lambda e: Decimal(mantissa.initial).scaleb(e))
        return st.none() | value if part.optional else value
    if isinstance(part, FastGroup):
        value = values_of(part.parts, templates)
        return st.none() | value if part.optional else value
    if isinstance(part, FastSequence):
        value = st.lists(values_of(part.parts, templates), max_size=3)
        return st.none() | value if part.optional else value
    assert isinstance(part, Reference)
    three = templates.by_name["Three"]
    return st.tuples(st.just("Three"), values_of(three.parts, templates))


def values_of(parts, templates):
    """A strategy of the values of a template, group or entry."""
    return st.fixed_dictionaries({part.name: value_of(part, templates) for part in parts})


def messages(templates, count=6):
    """A strategy of several messages: names of templates and values."""
    each = st.one_of(
        *(
            st.tuples(st.just(template.name), values_of(template.parts, templates))
            for template in templates.by_id.values()
        )
    )
    return st.lists(each, min_size=1, max_size=count)


def mutated(rng, message):
    """The message with a few bytes changed, taken out, put in or cut off."""
    out = bytearray(message)
    for _ in range(rng.randrange(1, 4)):
        index = rng.randrange(len(out) + 1)
        match rng.randrange(5):
            case 0 if index < len(out):
                out[index] = rng.randrange(256)
            case 1 if index < len(out):
                out[index] ^= 1 << rng.randrange(8)
            case 2 if index < len(out):
                del out[index]
            case 3:
                out.insert(index, rng.choice([0, 0x7F, 0x80, 0x81, 0xFF, rng.randrange(256)]))
            case _:
                del out[index + 1 :]
    return bytes(out)


def shown(parts, row):
    """Values in the message codec's form, from a row of Arrow columns."""
    return present({part.name: _shown(part, row) for part in parts})


def present(value):
    """Named values without those that are absent, also of groups and entries."""
    if isinstance(value, dict):
        return {name: present(part) for name, part in value.items() if part is not None}
    if isinstance(value, (list, tuple)):
        return type(value)(map(present, value))
    return value


def _shown(part, row):
    constant = None
    if isinstance(part, FastField) and part.operation.operator is Operator.CONSTANT:
        constant = part.operation.initial
        constant = constant.decode() if part.kind is FieldType.UNICODE else constant
    joint = isinstance(part, DecimalField) and part.joint
    if joint and part.exponent.operator is Operator.CONSTANT:
        constant = Decimal(part.mantissa.initial).scaleb(part.exponent.initial)
    if constant is not None and not part.optional:
        assert part.name not in row
        return constant
    value = row[part.name]
    if value is None:
        return None
    if isinstance(part, DecimalField):
        return Decimal(value["mantissa"]).scaleb(value["exponent"])
    if isinstance(part, FastGroup):
        return shown(part.parts, value)
    if isinstance(part, FastSequence):
        return [shown(part.parts, entry) for entry in value]
    return value


def compare_with_codec(columns, codec, cases):
    """Kernel and codec must accept the same messages and give the same values.

    ``columns`` and ``codec`` are decoders of the same templates in the same state. Returns how
    many messages were decoded.
    """
    buffer = np.frombuffer(b"".join(cases), np.uint8)
    ends = np.cumsum([len(case) for case in cases], dtype=np.int64)
    positions = ends - np.array([len(case) for case in cases], np.int64)
    found = columns.decode(buffer, positions, ends)
    rows = {}
    for template in found.templates:
        batch = found.batch(template)
        batch.validate(full=True)
        assert batch.schema == columns.schema(template)
        assert len(found.messages(template)) == found.count(template)
        rows[template.name] = batch.to_pylist() or [{}] * found.count(template)
    decoded = 0
    for index, case in enumerate(cases):
        try:
            expected = codec.decode(case)
        except DecodeError:
            assert found.status[index], (index, case.hex())
            assert found.status[index] in REASONS
            continue
        assert not found.status[index], (index, case.hex(), REASONS[int(found.status[index])])
        template = found.templates[found.template[index]]
        assert template == expected.template
        assert found.end[index] - positions[index] == expected.end
        row = rows[template.name][found.row[index]]
        assert shown(template.parts, row) == expected.values
        decoded += 1
    return decoded
