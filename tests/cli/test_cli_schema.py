"""``pregao schema``: templates, fields and types of every version."""

import json

import pytest

from pregao.cli.schema import show
from pregao.sbe.model import blocks
from pregao.schemas.bundle import bundled, bundled_versions
from pregao.schemas.description import described

SCHEMAS = [
    (protocol, version.number)
    for protocol in ("umdf", "entrypoint")
    for version in bundled_versions(protocol)
]


def schema_info(pregao, *arguments):
    result = pregao("schema", *arguments, "--json")
    assert result.code == 0, result.err
    return json.loads(result.out)


@pytest.mark.parametrize(("protocol", "version"), SCHEMAS)
def test_every_template_of_every_version_is_shown(pregao, protocol, version):
    schema = bundled(protocol, version)
    listed = schema_info(pregao, "--protocol", protocol, "--version", version)
    assert {m["template"]: m["name"] for m in listed["messages"]} == {
        m.id: m.name for m in schema.messages
    }
    shown = pregao("schema", "--protocol", protocol, "--version", version).out
    assert all(message.name in shown for message in schema.messages)


def test_fields_with_offset_type_null_and_since(pregao):
    found = schema_info(pregao, "Order_MBO_50")
    fields = {field["name"]: field for field in found["fields"]}
    assert (found["template"], found["block_length"], found["version"]) == (50, 72, 17)
    price = fields["mDEntryPx"]
    assert (price["offset"], price["size"], price["null"]) == (12, 8, -(2**63))
    assert (price["column"], price["presence"]) == ("md_entry_px", "optional")
    assert fields["enteringFirm"]["null"] == 0
    assert fields["securityExchange"]["constant"] == "BVMF"
    assert fields["securityExchange"]["offset"] is None
    assert fields["mDEntryPrevSize"]["since"] == 16
    padding = [field for name, field in fields.items() if name.startswith("padding")]
    assert all(field["column"] is None for field in padding)


@pytest.mark.parametrize("protocol", ["umdf", "entrypoint"])
def test_every_message_can_be_shown(capsys, protocol):
    schema = bundled(protocol)
    for message in schema.messages:
        found = described(schema, str(message.id))
        assert found == described(schema, message.name)
        assert [field["offset"] for field in found["fields"]] == [
            None if field.presence.value == "constant" else field.offset for field in message.fields
        ]
        show(found)
        shown = capsys.readouterr().out
        for block in blocks(message):
            assert all(field.name in shown for field in block.fields)


@pytest.mark.parametrize("protocol", ["umdf", "entrypoint"])
def test_every_type_can_be_shown(capsys, protocol):
    schema = bundled(protocol)
    for name, kind in schema.types.items():
        found = described(schema, name)
        assert (found["name"], found["size"]) == (kind.name, kind.size)
        show(found)
        assert kind.name in capsys.readouterr().out


def test_versions_differ(pregao):
    old = {f["name"] for f in schema_info(pregao, "50", "--version", "7")["fields"]}
    new = {f["name"] for f in schema_info(pregao, "50", "--version", "2.2.0")["fields"]}
    assert "mDEntryPositionNo" in old - new
    assert "mDEntryPrevSize" in new - old


def test_groups_and_data_are_indented(pregao):
    lines = pregao("schema", "SecurityDefinition_12").out.splitlines()
    names = [line[:30].rstrip() for line in lines]
    assert "  noLegs […]" in names
    assert names.index("    legSecurityID") > names.index("  noLegs […]")
    assert "  securityDesc …" in names


def test_sets_and_enumerations(pregao):
    found = schema_info(pregao, "matcheventindicator")
    last = found["members"][-1]
    assert (found["kind"], last["name"], last["bit"]) == ("set", "EndOfEvent", 7)
    shown = pregao("schema", "MatchEventIndicator").out
    assert "EndOfEvent" in shown
    assert "set of 1 byte (uint8)" in shown
    actions = schema_info(pregao, "MDUpdateAction")
    assert [(m["name"], m["value"]) for m in actions["members"]][:2] == [("NEW", 0), ("CHANGE", 1)]
    assert "mantissa int64, exponent = -4" in pregao("schema", "Price").out


def test_a_schema_file_of_the_user(pregao, tmp_path):
    path = tmp_path / "mine.xml"
    path.write_text(
        '<sbe:messageSchema xmlns:sbe="http://fixprotocol.io/2016/sbe" package="mine" id="77" '
        'version="3" byteOrder="bigEndian"><types><composite name="messageHeader">'
        '<type name="blockLength" primitiveType="uint16"/>'
        '<type name="templateId" primitiveType="uint16"/>'
        '<type name="schemaId" primitiveType="uint16"/>'
        '<type name="version" primitiveType="uint16"/></composite></types>'
        '<sbe:message name="Only" id="5"><field name="f" id="1" type="double" presence="optional"/>'
        "</sbe:message></sbe:messageSchema>"
    )
    found = schema_info(pregao, "--schema", path)
    assert [m["name"] for m in found["messages"]] == ["Only"]
    assert (found["byte_order"], found["version"]) == ("big-endian", 3)
    assert schema_info(pregao, "Only", "--schema", path)["fields"][0]["null"] == "NaN"
    path.write_text("<no-schema/>")
    broken = pregao("schema", "--schema", path)
    assert (broken.code, "mine.xml" in broken.err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ordr_mbo_50"], "Did you mean Order_MBO_50?"),
        (["zzzzzzzz"], "`pregao schema` lists"),
        (["--version", "99"], "known versions: 7 (1.6.0)"),
        (["--protocol", "fast"], "--protocol must be one of entrypoint, umdf"),
        (["--schema", "none.xml"], "none.xml"),
    ],
)
def test_likely_mistakes_have_an_error_message(pregao, arguments, words):
    result = pregao("schema", *arguments)
    assert (result.code, result.out) == (2, "")
    assert words in result.err
