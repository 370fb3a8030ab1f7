"""Schema files: what is read of them, and the error that each mistake gives."""

import re

import pytest

from pregao.errors import SchemaError
from pregao.sbe.model import Presence
from pregao.sbe.xml import load_schema, schema_from_bytes, template

HEADER = """<composite name="messageHeader">
<type name="blockLength" primitiveType="uint16"/><type name="templateId" primitiveType="uint16"/>
<type name="schemaId" primitiveType="uint16"/><type name="version" primitiveType="uint16"/>
</composite>"""


def schema(types="", messages="", root=""):
    return schema_from_bytes(
        f'<messageSchema id="1" version="3" {root}>\n<types>{HEADER}{types}</types>\n'
        f"{messages}</messageSchema>".encode(),
        "file.xml",
    )


MISTAKES = [
    ("", "<message name='M'/>", "'id' is missing"),
    ("", "<message name='M' id='x'/>", "id 'x' is not an integer"),
    ("", "<message name='M' id='70000'/>", "id 70000 is not from 0 to 65535"),
    ("", "<message id='1'/>", "'name' is missing"),
    ("", "<message name='1 2' id='1'/>", "'1 2' is not a name"),
    ("", "<message name='M' id='1'/><message name='N' id='1'/>", "another message has the id 1"),
    ("", "<message name='M' id='1'/><message name='M' id='2'/>", "another message has this name"),
    ("", "<messsage name='M' id='1'/>", "not allowed in an SBE schema"),
    ("", "<message name='M' id='1'><fild/></message>", "not allowed in an SBE message"),
    (
        "",
        "<message name='M' id='1'><field name='a' id='1' type='Nope'/></message>",
        "the type 'Nope' is not declared",
    ),
    (
        "",
        "<message name='M' id='1'><field name='a' id='1' type='int8'/>"
        "<field name='a' id='2' type='int8'/></message>",
        "another part of this block has this name",
    ),
    (
        "",
        "<message name='M' id='1'><field name='a' id='1' type='int64'/>"
        "<field name='b' id='2' type='int8' offset='7'/></message>",
        "offset 7 overlaps the field before it",
    ),
    (
        "",
        "<message name='M' id='1' blockLength='3'><field name='a' id='1' type='int32'/></message>",
        "blockLength 3 is less than its fields' 4",
    ),
    (
        "",
        "<message name='M' id='1'><field name='a' id='1' type='int8' presence='constant'/>"
        "</message>",
        "a constant field without a value",
    ),
    (
        "",
        "<message name='M' id='1'><field name='a' id='1' type='int8' presence='maybe'/></message>",
        "unknown presence 'maybe'",
    ),
    (
        "<enum name='E' encodingType='uint8'><validValue name='A'>1</validValue></enum>",
        "<message name='M' id='1'><field name='a' id='1' type='E' presence='constant'"
        " valueRef='E.B'/></message>",
        "E has no member 'B'",
    ),
    (
        "",
        "<message name='M' id='1'><group name='g' id='1' dimensionType='D'/></message>",
        "the dimension type 'D' is not a composite",
    ),
    (
        "<composite name='D'><type name='blockLength' primitiveType='uint16'/></composite>",
        "<message name='M' id='1'><group name='g' id='1' dimensionType='D'/></message>",
        "has no 'numInGroup'",
    ),
    (
        "",
        "<message name='M' id='1'><data name='d' id='1' type='int8'/></message>",
        "the data type 'int8' is not a composite",
    ),
    ("<type name='T'/>", "", "'primitiveType' is missing"),
    ("<type name='T' primitiveType='int9'/>", "", "unknown primitive type 'int9'"),
    ("<type name='T' primitiveType='int8' nullValue='300'/>", "", "nullValue 300 is not from"),
    ("<type name='T' primitiveType='char' presence='constant'/>", "", "without a value"),
    (
        "<type name='T' primitiveType='int8'/><type name='T' primitiveType='int8'/>",
        "",
        "another type has this name",
    ),
    ("<composite name='C'><ref name='c' type='C'/></composite>", "", "contains itself"),
    ("<composite name='C'/>", "", "a composite without members"),
    (
        "<composite name='C'><type name='a' primitiveType='int32'/>"
        "<type name='b' primitiveType='int8' offset='2'/></composite>",
        "",
        "offset 2 overlaps the member before it",
    ),
    (
        "<enum name='E' encodingType='uint8'><validValue name='A'>256</validValue></enum>",
        "",
        "256 is not from 0 to 255",
    ),
    (
        "<enum name='E' encodingType='char'><validValue name='A'>AB</validValue></enum>",
        "",
        "'AB' is not one character",
    ),
    (
        "<enum name='E' encodingType='uint8'><validValue name='A'>1</validValue>"
        "<validValue name='B'>1</validValue></enum>",
        "",
        "another member has the value '1'",
    ),
    ("<set name='S' encodingType='uint8'><choice name='A'>8</choice></set>", "", "not from 0 to 7"),
    ("<set name='S' encodingType='double'><choice name='A'>1</choice></set>", "", "not a number"),
    (
        "<type name='T' primitiveType='char' length='3' characterEncoding='EBCDIC-X'/>",
        "",
        "character encoding 'EBCDIC-X' is not US-ASCII",
    ),
]


@pytest.mark.parametrize(("types", "messages", "reason"), MISTAKES)
def test_an_error_names_file_line_and_element(types, messages, reason):
    with pytest.raises(SchemaError) as caught:
        schema(types, messages)
    text = str(caught.value)
    assert reason in text
    assert re.match(r"file\.xml:\d+: <\w+", text)


def test_the_line_is_the_elements_own():
    with pytest.raises(SchemaError, match=r"f\.xml:3: <message name=\"M\">"):
        schema_from_bytes(
            f'<messageSchema id="1"><types>{HEADER.replace(chr(10), "")}</types>\n\n'
            '<message name="M"/></messageSchema>'.encode(),
            "f.xml",
        )


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (b"", "no element found"),
        (b"\0\1\2", "not well-formed"),
        (b"<a/>", "<messageSchema>"),
        (b"<messageSchema id='1'/>", "header type 'messageHeader' is not a composite"),
        (b"<messageSchema id='1' byteOrder='middle'/>", "unknown byteOrder 'middle'"),
        (b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "declares the entity 'b'"),
        (b"<a>" * 100, "nested deeper"),
        (b'<?xml version="1.0" encoding="utf-99"?><a/>', "f.xml"),
        (b" " * (17 << 20), "not a schema file"),
    ],
)
def test_invalid_schemas(source, reason):
    with pytest.raises(SchemaError, match=re.escape(reason)):
        schema_from_bytes(source, "f.xml")


def test_external_entities_are_never_read(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    for source in (
        f'<!DOCTYPE a [<!ENTITY x SYSTEM "{secret}">]><a>&x;</a>',
        f'<!DOCTYPE a SYSTEM "{secret}"><messageSchema id="1"/>',
    ):
        with pytest.raises(SchemaError) as caught:
            schema_from_bytes(source.encode(), "f.xml")
        assert "secret\n" not in str(caught.value)


def test_a_missing_file(tmp_path):
    with pytest.raises(SchemaError, match=r"nope\.xml: cannot be read: No such file"):
        load_schema(tmp_path / "nope.xml")


def test_includes_come_from_the_same_folder_only(tmp_path):
    (tmp_path / "types.xml").write_text(f"<types>{HEADER}</types>")
    main = tmp_path / "main.xml"
    include = (
        '<messageSchema xmlns:xi="http://www.w3.org/2001/XInclude" id="1"><xi:include href="{}"/>'
    )
    main.write_text(include.format("types.xml") + "<message name='M' id='1'/></messageSchema>")
    assert [message.name for message in load_schema(main).messages] == ["M"]
    for name in ("../other.xml", "/etc/hostname", "", "main.xml"):
        main.write_text(include.format(name) + "</messageSchema>")
        with pytest.raises(SchemaError, match="include"):
            load_schema(main)


def test_an_error_in_an_included_file_names_that_file(tmp_path):
    (tmp_path / "types.xml").write_text("<types>\n\n<type name='T' primitiveType='int7'/></types>")
    main = tmp_path / "main.xml"
    main.write_text(
        '<messageSchema xmlns:xi="http://www.w3.org/2001/XInclude" id="1">'
        '<xi:include href="types.xml"/></messageSchema>'
    )
    with pytest.raises(SchemaError, match=r'/types\.xml:3: <type name="T">'):
        load_schema(main)


def test_features_of_a_schema():
    found = schema(
        """<type name="Version" primitiveType="char" length="4" presence="constant">v1</type>
        <type name="Small" primitiveType="uint8" minValue="2" maxValue="9" nullValue="0"
              presence="optional" sinceVersion="2" deprecated="3"/>
        <enum name="E" encodingType="Small"><validValue name="A">3</validValue></enum>
        <composite name="Inner"><type name="x" primitiveType="int16" offset="2"/></composite>
        <composite name="Outer"><ref name="a" type="Inner"/><ref name="e" type="E"/>
          <enum name="own" encodingType="char"><validValue name="Y">Y</validValue></enum>
          <composite name="deep"><type name="z" primitiveType="uint8"/></composite></composite>
        <composite name="D"><type name="blockLength" primitiveType="uint8"/>
          <type name="numInGroup" primitiveType="uint8" maxValue="4"/></composite>
        <composite name="V"><type name="length" primitiveType="uint16"/>
          <type name="varData" primitiveType="uint8" length="0"/></composite>""",
        """<message name="Note_7" id="7" blockLength="40">
          <field name="version" id="1" type="Version"/>
          <field name="kind" id="2" type="E" presence="constant" valueRef="E.A"/>
          <field name="outer" id="3" type="Outer" offset="4"/>
          <field name="raw" id="4" type="int32" presence="optional"/>
          <group name="g" id="5" dimensionType="D" blockLength="8">
            <field name="f" id="6" type="uint8"/>
            <group name="inner" id="7" dimensionType="D"/>
            <data name="d" id="8" type="V"/>
          </group>
        </message>""",
        'byteOrder="bigEndian" package="p" semanticVersion="1.2"',
    )
    message = template(found, "note")
    assert template(found, 7) is message
    assert template(found, "Note_7") is message
    with pytest.raises(SchemaError, match="has no message 'other'"):
        template(found, "other")
    assert (found.big_endian, found.package, found.semantic_version) == (True, "p", "1.2")
    version, kind, outer, raw = message.fields
    assert (version.presence, version.constant) == (Presence.CONSTANT, "v1")
    assert (kind.presence, kind.constant) == (Presence.CONSTANT, "A")
    assert (outer.offset, outer.size) == (4, 4 + 1 + 1 + 1)
    assert [member.offset for member in outer.type.members] == [0, 4, 5, 6]
    assert (raw.offset, message.block_length) == (11, 40)
    small = found.types["Small"]
    assert (small.minimum, small.maximum, small.null) == (2, 9, 0)
    assert (small.since_version, small.deprecated) == (2, 3)
    (group,) = message.groups
    assert (group.block_length, group.dimension.num_in_group.maximum) == (8, 4)
    assert group.groups[0].name == "inner"
    assert group.data[0].header_size == 2
