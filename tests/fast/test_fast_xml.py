"""Template files: the model read from them, and errors with file, line and element."""

import pytest

from pregao.errors import SchemaError
from pregao.fast.model import (
    DecimalField,
    FastField,
    FastGroup,
    FastSequence,
    FieldType,
    Operator,
    slots_of,
)
from pregao.fast.xml import load_templates, templates_from_bytes

SOUND = b"""<?xml version="1.0"?>
<templates xmlns="http://www.fixprotocol.org/ns/fast/td/1.1" dictionary="template">
  <!-- a comment -->
  <template name="Quote" id="12" dictionary="own" xmlns:x="urn:other">
    <typeRef name="Q"/>
    <string name="Type" id="35"><constant value="X"/></string>
    <x:note>somebody else's</x:note>
    <decimal name="Price" id="270" presence="optional">
      <exponent><default value="-2"/></exponent><mantissa><delta/></mantissa>
    </decimal>
    <byteVector name="Raw"><length name="RawLength"/><copy value="41 c3"/></byteVector>
    <sequence name="Entries" presence="optional">
      <length name="NoEntries" id="268"/>
      <group name="Inner">
        <string name="Text" charset="unicode"><copy value="a&#xE7;"/></string>
      </group>
    </sequence>
  </template>
</templates>"""


def test_a_file_becomes_a_model(tmp_path):
    path = tmp_path / "quotes.xml"
    path.write_bytes(SOUND)
    templates = load_templates(path)
    (quote,) = templates.templates
    assert (quote.name, quote.id, quote.map_bits) == ("Quote", 12, 3)
    kind, price, raw, entries = quote.parts
    assert isinstance(kind, FastField)
    assert kind.operation.operator is Operator.CONSTANT
    assert isinstance(price, DecimalField)
    assert (price.exponent.initial, price.mantissa.operator) == (-2, Operator.DELTA)
    assert isinstance(raw, FastField)
    assert (raw.kind, raw.operation.initial) == (FieldType.BYTES, b"\x41\xc3")
    assert isinstance(entries, FastSequence)
    assert (entries.length.name, entries.length.id, entries.bits) == ("NoEntries", 268, 0)
    (inner,) = entries.parts
    assert isinstance(inner, FastGroup)
    assert inner.parts[0].operation.initial == "aç".encode()
    assert {slot.dictionary for slot in templates.slots} == {"named own"}
    assert slots_of(quote.parts) == set(range(len(templates.slots)))


def test_a_single_template_can_be_the_root():
    templates = templates_from_bytes(b'<template name="One" id="1"><uInt32 name="A"/></template>')
    assert list(templates.by_name) == ["One"]


MISTAKES = [
    ("<uInt16 name='A'/>", "<uInt16", "S1"),
    ("<uInt32/>", "<uInt32>", "S1"),
    ("<uInt32 name='A' presence='maybe'/>", "presence 'maybe'", "S1"),
    ("<uInt32 name='A' id='x'/>", "the id 'x'", "S1"),
    ("<uInt32 name='A'><square/></uInt32>", "<square>", "S1"),
    ("<uInt32 name='A'><copy/><delta/></uInt32>", "one operator", "S1"),
    ("<uInt32 name='A'/><int32 name='A'/>", "the name 'A' is used twice", "S1"),
    ("<string name='A' charset='latin'/>", "charset 'latin'", "S1"),
    ("<decimal name='A'><copy/><mantissa/></decimal>", "<copy>", "S1"),
    ("<uInt32 name='A'><tail/></uInt32>", "not an operator for uInt32", "S2"),
    ("<string name='A'><increment/></string>", "not an operator for ASCII string", "S2"),
    ("<decimal name='A'><increment/></decimal>", "not an operator for a decimal", "S2"),
    ("<uInt32 name='A'><copy value='-1'/></uInt32>", "'-1' is not a uInt32", "S3"),
    ("<int32 name='A'><copy value='2147483648'/></int32>", "is not an int32", "S3"),
    ("<string name='A'><copy value='&#xE7;'/></string>", "not an ASCII string", "S3"),
    ("<byteVector name='A'><copy value='4'/></byteVector>", "hexadecimal", "S3"),
    ("<decimal name='A'><copy value='1,5'/></decimal>", "not a decimal", "S3"),
    ("<decimal name='A'><copy value='1e5'/></decimal>", "not a decimal", "S3"),
    ("<uInt32 name='A'><constant/></uInt32>", "a constant must have a value", "S4"),
    ("<uInt32 name='A'><default/></uInt32>", "default of a mandatory field", "S5"),
    ("<templateRef name='Nobody'/>", "no template of that name", "D8"),
    ("<templateRef name='T'/>", "refers to itself", "S1"),
    ("<decimal name='A'><exponent><copy value='64'/></exponent></decimal>", "exponent", "R1"),
    (
        "<sequence name='A'><length/><length/><uInt32 name='B'/></sequence>",
        "one length",
        "S1",
    ),
]


@pytest.mark.parametrize(("fields", "reason", "code"), MISTAKES)
def test_errors_name_file_line_element_and_code(fields, reason, code):
    source = f'<templates>\n<template name="T" id="1">\n{fields}</template></templates>'
    with pytest.raises(SchemaError, match=f"ERR {code}") as error_info:
        templates_from_bytes(source.encode(), "my.xml")
    assert str(error_info.value).startswith("my.xml:3: <")
    assert reason in str(error_info.value)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("<schema/>", "my.xml:1: <schema>: a FAST template file must"),
        ("<templates><uInt32 name='A'/></templates>", "my.xml:1: <uInt32"),
        ("<templates><template id='1'/></templates>", "has no 'name'"),
        (
            "<templates><template name='A' id='1'/><template name='B' id='1'/></templates>",
            "another template has the id 1",
        ),
        (
            "<templates><template name='A' id='1'/><template name='A' id='2'/></templates>",
            "another template has this name",
        ),
        (
            "<templates><template name='A' id='1' reset='perhaps'/></templates>",
            "reset 'perhaps'",
        ),
        ("<templates>", "not well-formed"),
        (
            '<!DOCTYPE t [<!ENTITY a "aaaa">]><templates/>',
            "declares the entity 'a'",
        ),
        (
            "<template name='T' id='1'><sequence name='S'><uInt32 name='A'>"
            "<constant value='1'/></uInt32></sequence></template>",
            "have no bytes",
        ),
    ],
)
def test_files_that_are_refused(source, reason):
    with pytest.raises(SchemaError) as error_info:
        templates_from_bytes(source.encode(), "my.xml")
    assert reason in str(error_info.value)


def test_templates_that_grow_by_references_are_bounded():
    """Twenty templates, each with the previous one twice: a million fields without a limit."""
    source = "<template name='T0'><uInt32 name='A'/></template>"
    for i in range(1, 21):
        groups = "".join(
            f"<group name='G{j}'><templateRef name='T{i - 1}'/></group>" for j in range(2)
        )
        source += f"<template name='T{i}'>{groups}</template>"
    with pytest.raises(SchemaError, match="more than 20,000 fields"):
        templates_from_bytes(f"<templates>{source}</templates>".encode())
    chain = "<template name='T0'><uInt32 name='A'/></template>"
    for i in range(1, 80):
        inner = f"<group name='G'><templateRef name='T{i - 1}'/></group>"
        chain += f"<template name='T{i}'>{inner}</template>"
    with pytest.raises(SchemaError, match="nested deeper"):
        templates_from_bytes(f"<templates>{chain}</templates>".encode())


def test_the_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(SchemaError, match=r"none\.xml: cannot be read"):
        load_templates(tmp_path / "none.xml")
