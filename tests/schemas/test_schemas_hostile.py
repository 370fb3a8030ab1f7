"""Schema and template files that try to exhaust the reader, or to become part of its code."""

import os
from pathlib import Path
from xml.sax.saxutils import quoteattr

import pytest

from pregao.errors import SchemaError
from pregao.fast.codec import Decoder, Encoder
from pregao.fast.xml import load_templates, templates_from_bytes
from pregao.sbe.codec import SchemaCodec
from pregao.sbe.xml import load_schema, schema_from_bytes
from pregao.schemas.evolution import EVOLUTION, known_versions
from pregao.schemas.registry import Registry
from pregao.xml_tree import MAX_BYTES, parse_tree

HEADER = (
    '<composite name="messageHeader"><type name="blockLength" primitiveType="uint16"/>'
    '<type name="templateId" primitiveType="uint16"/><type name="schemaId" primitiveType="uint16"/>'
    '<type name="version" primitiveType="uint16"/></composite>'
    '<composite name="groupSizeEncoding"><type name="blockLength" primitiveType="uint16"/>'
    '<type name="numInGroup" primitiveType="uint8"/></composite>'
)
FIELD = '<field name="a" id="1" type="uint32"/>'


def schema(types="", fields=FIELD, root=""):
    return (
        f'<messageSchema id="9" version="1"{root}><types>{HEADER}{types}</types>'
        f'<message name="M" id="1">{fields}</message></messageSchema>'
    ).encode()


def doubled(levels, last='<type name="c0" primitiveType="uint32"/>'):
    """Composites, each of which refers to the previous one twice."""
    return last + "".join(
        f'<composite name="c{n}"><ref name="a" type="c{n - 1}"/><ref name="b" type="c{n - 1}"/>'
        "</composite>"
        for n in range(1, levels + 1)
    )


def chain(levels):
    """Composites, each of which refers to the previous one once."""
    return '<type name="c0" primitiveType="uint32"/>' + "".join(
        f'<composite name="c{n}"><ref name="a" type="c{n - 1}"/></composite>'
        for n in range(1, levels + 1)
    )


def backwards(types):
    """The types in reverse order."""
    parts = [part + "</composite>" for part in types.split("</composite>")[:-1]]
    return "".join(reversed(parts))


MANY = "more than 20,000 fields, references expanded"
SCHEMAS = {
    "doubling": (schema(doubled(60)), MANY),
    "doubling, backwards": (schema(backwards(doubled(60))), MANY),
    "fields": (schema(doubled(10), "".join(
        f'<field name="f{n}" id="{n}" type="c10"/>' for n in range(20))), MANY),
    "deep references": (schema(chain(5_000)), "nested deeper than 64 levels"),
    "deep references, backwards": (schema(backwards(chain(5_000))), "nested deeper than 64 levels"),
    "recursive": (schema(
        '<composite name="a"><ref name="x" type="b"/></composite>'
        '<composite name="b"><ref name="x" type="a"/></composite>'), "contains itself"),
    "an array of numbers": (
        schema('<type name="t" primitiveType="int32" length="30000"/>',
               '<field name="a" id="1" type="t"/>'), MANY),
    "values": (schema('<enum name="E" encodingType="uint32">' + "".join(
        f'<validValue name="v{n}">{n}</validValue>' for n in range(20_001)) + "</enum>"), MANY),
    "a long block": (
        schema(fields='<field name="a" id="1" type="uint32" offset="4294967290"/>'),
        "offset 4294967290 is not from 0 to 1048576"),
    "a block that ends late": (
        schema(fields='<field name="a" id="1" type="uint32" offset="1048576"/>'),
        "ends after 1,048,576 bytes"),
    "a composite that ends late": (
        schema('<composite name="c"><type name="a" primitiveType="uint8" offset="1048576"/>'
               "</composite>"), "ends after 1,048,576 bytes"),
    "a composite doubled in bytes": (
        schema(doubled(12, '<type name="c0" primitiveType="char" length="1000"/>')),
        "ends after 1,048,576 bytes"),
    "digits": (schema(fields=f'<field name="a" id="{"9" * 5_000}" type="uint32"/>'),
               "is not an integer"),
    "hexadecimal digits": (schema(fields=f'<field name="a" id="0x{"f" * 5_000}" type="uint32"/>'),
                           "is not an integer"),
    "digits of another script": (schema(fields='<field name="a" id="١" type="uint32"/>'),
                                 "is not an integer"),
    "an infinite null": (
        schema('<type name="t" primitiveType="double" nullValue="1e999"/>'),
        "is not a finite number"),
    "a null beyond a byte": (
        schema('<type name="t" primitiveType="char" nullValue="€"/>'), "is not one character"),
}  # fmt: skip


@pytest.mark.parametrize("case", sorted(SCHEMAS))
def test_a_schema_that_expands_without_end_is_refused_with_line_and_element(case):
    source, reason = SCHEMAS[case]
    with pytest.raises(SchemaError, match=r"bad\.xml:1: <\w+( name=\"\w+\")?>: ") as raised:
        schema_from_bytes(source, "bad.xml")
    assert reason in str(raised.value)


def test_a_schema_of_many_but_not_too_many_fields_is_read():
    # 2 + 4 + … + 2^12 in composites, and 2^12 in a message.
    found = schema_from_bytes(schema(doubled(12), '<field name="a" id="1" type="c12"/>'))
    codec = SchemaCodec(found)
    assert len(codec.encode("M", {"a": _pairs(12, 7)})) == 8 + 4 * 4096


def _pairs(depth, leaf):
    return {"a": _pairs(depth - 1, leaf), "b": _pairs(depth - 1, leaf)} if depth else leaf


def test_a_file_of_too_many_versions_is_refused():
    versions = "".join(f'<e:version number="{n}" semanticVersion="{n}"/>' for n in range(1, 66))
    root = f' xmlns:e="{EVOLUTION}"'
    source = schema(root=root).replace(b"<types>", versions.encode() + b"<types>")
    tree = parse_tree(source, "bad.xml")
    with pytest.raises(SchemaError, match="more than 64 versions"):
        known_versions(tree)


ENCODINGS = ["ASCII", "US-ASCII", "us_ascii", "ISO-8859-1", "iso8859-1", "latin1", "UTF-8", "utf8"]
NO_ENCODINGS = [
    "unicode_escape", "raw_unicode_escape", "idna", "punycode", "zlib_codec", "zip", "bz2", "hex",
    "base64", "rot13", "utf_7", "utf-16", "undefined", "mbcs", "string_escape", "x'+'y", "",
    "ıso-8859-1", "utf-8\n", "../../x", "__import__",
]  # fmt: skip


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_the_encodings_of_texts_are_read(encoding):
    types = f'<type name="t" primitiveType="char" length="4" characterEncoding="{encoding}"/>'
    codec = SchemaCodec(schema_from_bytes(schema(types, '<field name="a" id="1" type="t"/>')))
    message = codec.encode("M", {"a": "PETR"})
    assert codec.decode(message).values == {"a": "PETR"}


@pytest.mark.parametrize("encoding", NO_ENCODINGS)
def test_other_encodings_are_refused(encoding):
    types = f'<type name="t" primitiveType="char" length="4" characterEncoding="{encoding}"/>'
    with pytest.raises(SchemaError, match="US-ASCII, ISO-8859-1 or UTF-8"):
        schema_from_bytes(schema(types, '<field name="a" id="1" type="t"/>'))


def attacks(target):
    """Names that would do something if any part of them were run."""
    call = f"__import__('os').mkdir('{target}')"
    return [
        f"x={call}", f"'+{call}+'", f"']={call}\n#", f'"]={call}\n#', f"\\'+{call}#",
        f"{{{call}}}", f"{{x!r}}{call}", f"'''+{call}+'''", f"x\n{call}\n", f"x\r{call}",
        f"x\u2028{call}", f"x\x85{call}", f"\\N{{BULLET}}{call}", f"x): {call} #",
        "ｅｘｅｃ", "ﬁeld",
    ]  # fmt: skip


def escaped(text):
    return quoteattr(text, {"\n": "&#10;", "\r": "&#13;"})


HARMLESS = [
    "class", "import", "None", "True", "lambda", "__class__", "__init__", "__builtins__", "values",
    "position", "buffer", "k0", "v0", "filled", "function", "self", "exec", "d", "r", "x", "b",
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(attacks(""))))
@pytest.mark.parametrize("element", ["field", "message", "type", "enum", "value", "group", "data"])
def test_no_name_of_a_schema_becomes_code(number, element, tmp_path):
    target = tmp_path / "made"
    name = escaped(attacks(target)[number])
    types = {
        "type": f'<type name={name} primitiveType="uint8"/>',
        "enum": f'<enum name={name} encodingType="uint8"/>',
        "value": f'<enum name="E" encodingType="uint8"><validValue name={name}>1</validValue>'
        "</enum>",
    }.get(element, "")
    fields = {
        "field": f'<field name={name} id="1" type="uint8"/>',
        "group": f'<group name={name} id="2">{FIELD}</group>',
        "data": f'<data name={name} id="2" type="groupSizeEncoding"/>',
    }.get(element, FIELD)
    source = schema(types, fields)
    if element == "message":
        source = source.replace(b'<message name="M"', f"<message name={name}".encode())
    with pytest.raises(SchemaError, match=r"is not a name|has no 'varData'"):
        schema_from_bytes(source)
    assert not target.exists()


@pytest.mark.parametrize("name", HARMLESS)
def test_words_of_python_are_names_like_others_in_a_schema(name):
    types = f'<enum name="E" encodingType="uint8"><validValue name="{name}">1</validValue></enum>'
    fields = f'<field name="{name}" id="1" type="E"/><field name="other" id="2" type="uint32"/>'
    group = f'<group name="G" id="3"><field name="{name}" id="1" type="uint32"/></group>'
    codec = SchemaCodec(schema_from_bytes(schema(types, fields + group)))
    values = {name: name, "other": 7, "G": [{name: 5}]}
    assert codec.decode(codec.encode("M", values)).values == values


@pytest.mark.parametrize("kind", ["number", "text", "decimal", "group", "sequence", "constant"])
def test_no_name_or_value_of_a_template_becomes_code(kind, tmp_path):
    """FAST takes any text as a name: it is a key of what is decoded, and nothing else."""
    target = tmp_path / "made"
    for name in [*attacks(target), *HARMLESS]:
        quoted = escaped(name)
        inner, value = {
            "number": (f"<uInt32 name={quoted}><copy/></uInt32>", 5),
            "text": (f"<string name={quoted} charset='unicode'><default value={quoted}/></string>",
                     name),
            "decimal": (f"<decimal name={quoted}/>", 5),
            "group": (f"<group name={quoted}><uInt32 name={quoted}/></group>", {name: 5}),
            "sequence": (f"<sequence name={quoted}><uInt32 name={quoted}/></sequence>",
                         [{name: 5}]),
            "constant": (f"<string name={quoted} charset='unicode'><constant value={quoted}/>"
                         "</string>", name),
        }[kind]  # fmt: skip
        source = f"<templates><template name={quoted} id='1'>{inner}</template></templates>"
        templates = templates_from_bytes(source.encode())
        message = Encoder(templates).encode(name, {name: value})
        found = Decoder(templates).decode(message)
        assert (found.template.name, found.values) == (name, {name: value})
        assert not target.exists()


def references(levels, inner):
    """Templates, each of which refers to the previous one twice."""
    return f'<templates><template name="t0">{inner}</template>' + "".join(
        f'<template name="t{n}"><group name="a"><templateRef name="t{n - 1}"/></group>'
        f'<group name="b"><templateRef name="t{n - 1}"/></group></template>'
        for n in range(1, levels + 1)
    ) + "</templates>"  # fmt: skip


TEMPLATES = {
    "doubling": (references(40, '<uInt32 name="a"/>'), MANY),
    "doubling of nothing": (references(40, ""), MANY),
    "many templates": ("<templates>" + "".join(
        f'<template name="t{n}">' + "".join(f'<uInt32 name="f{i}"/>' for i in range(150))
        + "</template>" for n in range(140)) + "</templates>", MANY),
    "recursive": ('<templates><template name="a"><templateRef name="b"/></template>'
                  '<template name="b"><templateRef name="a"/></template></templates>',
                  "refers to itself"),
    "references to any": ('<template name="a">' + "<templateRef/>" * 20_001 + "</template>", MANY),
    "digits": (f'<template name="a" id="{"9" * 5_000}"/>', "is not a number up to 4294967295"),
    "digits of another script": ('<template name="a" id="١"/>', "is not a number up to"),
}  # fmt: skip


@pytest.mark.parametrize("case", sorted(TEMPLATES))
def test_templates_that_expand_without_end_are_refused_with_line_and_element(case):
    source, reason = TEMPLATES[case]
    with pytest.raises(SchemaError, match=r"bad\.xml:1: <\w+( name=\"\w+\")?>: ") as raised:
        templates_from_bytes(source.encode(), "bad.xml")
    assert reason in str(raised.value)


LAUGHS = '<!DOCTYPE a [<!ENTITY a "ha">' + "".join(
    f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(9)
) + "]><a>&j;</a>"  # fmt: skip
XML = {
    "entities": (LAUGHS, "declares the entity 'a'"),
    "an external entity": ('<!DOCTYPE a [<!ENTITY a SYSTEM "file:///etc/passwd">]><a>&a;</a>',
                           "declares the entity 'a'"),
    "deep": ("<a>" * 100_000, "nested deeper than 64 levels"),
    "elements": ("<a>" + "<b/>" * 200_001 + "</a>", "more than 200000 elements"),
    "long": ("<a>" + " " * MAX_BYTES + "</a>", "larger than"),
}  # fmt: skip


@pytest.mark.parametrize("case", sorted(XML))
def test_xml_that_grows_is_refused(case):
    source, reason = XML[case]
    with pytest.raises(SchemaError, match=reason):
        parse_tree(source.encode(), "bad.xml")


def test_text_in_many_pieces_is_assembled():
    assert parse_tree(b"<a>" + b"x<!---->" * 50_000 + b"</a>", "long.xml").text == "x" * 50_000


def sources(folder):
    pipe = folder / "pipe.xml"
    os.mkfifo(pipe)
    long = folder / "long.xml"
    long.write_bytes(b"<a>" + b" " * MAX_BYTES)
    return [pipe, long, folder, Path("/dev/zero")]


@pytest.mark.parametrize("load", [load_schema, load_templates, Registry().add_file])
def test_only_regular_files_of_bounded_size_are_read(load, tmp_path):
    for path in sources(tmp_path):
        with pytest.raises(SchemaError, match=str(path)):
            load(path)
