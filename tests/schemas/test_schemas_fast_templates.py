"""The bundled FAST templates: their layouts as facts, and those of the published file."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest

from pregao.errors import SchemaError
from pregao.fast.codec import Encoder
from pregao.fast.model import DecimalField, FastField, FastSequence, Templates
from pregao.fast.xml import load_templates, templates_from_bytes, templates_from_tree
from pregao.schemas import fast_templates
from pregao.schemas.fast_templates import bundled_tags, bundled_templates, renamed

PUBLISHED = (
    Path(__file__).parents[3] / "shared" / "reference" / "fast" / "umdf-templates-5.1.13.xml"
)
# fmt: off
LAYOUTS = {
    81: 0x0B8DFA73, 101: 0x72B33510, 111: 0xFE853A1A, 117: 0x6CC0356C, 118: 0x7262EEDC,
    119: 0xBB7004E2, 120: 0x933FFD2A, 122: 0x92A19660, 123: 0x24DF7365, 125: 0x66124486,
    126: 0xCE6E0A9D, 127: 0x5DD4FFE0, 128: 0x59349FCF, 129: 0xEBEF3AB3, 134: 0xF583E7E4,
    137: 0x8F903579, 138: 0x03FF8FE7, 139: 0x8C3A7B2E, 140: 0xDD29822D, 141: 0x5F8C664C,
    142: 0x24C1BD45, 143: 0x8466E01B, 144: 0xEBEF3AB3, 145: 0xCB442DC0, 146: 0xECE6139C,
    147: 0x1C9AB614, 148: 0x72BC6CF5, 149: 0xF8FEDCEE, 150: 0xA07472DB, 151: 0x2E72A67C,
    152: 0xF0A11ACB, 153: 0x8CC33781,
}
# fmt: on
"""CRC-32 of the layout of each template."""


def operation(templates: Templates, each) -> str:
    initial = "" if each.initial is None else f"={each.initial!r}"
    slot = f" {templates.slots[each.slot].dictionary}" if each.slot >= 0 else ""
    return f"{each.operator.value}{initial}{slot}"


def layout(templates: Templates, parts) -> str:
    """Bytes and meaning of a message: tags, types, operators, their order."""
    lines = []
    for part in parts:
        mark = "?" if part.optional else ""
        if isinstance(part, FastSequence):
            inner = layout(templates, part.parts)
            lines.append(f"{part.length.id}{mark} [{inner}]")
        elif isinstance(part, FastField):
            what = operation(templates, part.operation)
            lines.append(f"{part.id}{mark} {part.kind.value} {what}")
        else:
            assert isinstance(part, DecimalField)
            what = (operation(templates, part.exponent), operation(templates, part.mantissa))
            lines.append(f"{part.id}{mark} decimal {what}")
    return "; ".join(lines)


def facts(templates: Templates) -> dict[int, int]:
    return {
        number: crc32(layout(templates, each.parts).encode())
        for number, each in templates.by_id.items()
    }


@pytest.mark.parametrize("path", [None, *([PUBLISHED] if PUBLISHED.is_file() else [])])
def test_every_template_has_the_layout_of_5_1_13(path):
    templates = bundled_templates() if path is None else load_templates(path)
    assert facts(templates) == LAYOUTS


def test_ids_of_messages_oldest_first():
    families: dict[str, list[int]] = {}
    for template in bundled_templates().templates:
        name, _, number = template.name.rpartition("_")
        assert int(number) == template.id
        families.setdefault(name, []).append(template.id)
    assert families == {
        "Heartbeat": [101, 129, 144],
        "IncrementalRefresh": [81, 123, 126, 138, 145, 150, 152],
        "Logon": [118],
        "Logout": [119],
        "News": [120, 137, 143],
        "NonFix": [140],
        "RequestReject": [117],
        "SecurityList": [111, 141, 148, 149],
        "SecurityStatus": [125, 134, 142],
        "SequenceReset": [122],
        "SnapshotFullRefresh": [127, 128, 139, 146, 147, 151, 153],
    }


def test_no_two_fields_of_a_template_share_a_previous_value_unless_they_are_one_tag():
    templates = bundled_templates()
    for template in templates.templates:
        users: dict[int, set[int | None]] = {}
        for part in _all(template.parts):
            operations = (
                [part.operation] if isinstance(part, FastField) else [part.exponent, part.mantissa]
            )
            for each in operations:
                if each.slot >= 0:
                    users.setdefault(each.slot, set()).add(part.id)
        assert all(len(tags) == 1 for tags in users.values())


def _all(parts):
    for part in parts:
        if isinstance(part, FastSequence):
            yield from _all(part.parts)
        else:
            yield part


def test_a_heartbeat_in_bytes():
    message = Encoder(bundled_templates(), reset_each_message=True).encode(
        "Heartbeat_144", {"MsgSeqNum": 7, "SendingTime": 20130812120000000}
    )
    # Presence map with the template id's bit, the id 144, the number 7, the time.
    assert message[:4] == bytes.fromhex("c0 01 90 87")


def test_names_of_another_file_become_ours_by_their_tags():
    source = b"""<templates><template name="X" id="9" dictionary="9">
        <string name="MessageType" id="35"><constant value="X"/></string>
        <uInt32 name="Unheard" id="60000"/>
        <sequence name="Rows"><length name="NoRows" id="268"/>
            <uInt64 name="Instrument" id="48"><copy/></uInt64></sequence>
        </template></templates>"""
    template = renamed(templates_from_bytes(source)).by_id[9]
    assert [part.name for part in template.parts] == ["MsgType", "Unheard", "MDEntries"]
    assert [part.name for part in template.parts[2].parts] == ["SecurityID"]


def test_a_tag_that_changed_its_meaning_has_two_names():
    assert bundled_tags()[37010] == ("CorporateActionEventID", "BuyersPerspective")
    assert all(len(names) == 1 for tag, names in bundled_tags().items() if tag != 37010)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("  Nobody", "no field of that name"),
        ("  MsgSeqNum @ 2", "not templates of this message"),
        ("  MsgSeqNum copy copy", "not a member"),
        ("      MsgSeqNum", "not a member"),
    ],
)
def test_an_error_in_the_file_names_its_line(line, reason):
    text = f"fields\n  34 MsgSeqNum uInt32\nmessage Heartbeat 1\n{line}\n"
    with pytest.raises(SchemaError, match=rf"^own:4: .*{reason}"):
        fast_templates._Source(text, "own")


def test_a_wrong_operator_names_its_line_too():
    text = "fields\n  34 MsgSeqNum uInt32\nmessage Heartbeat 1\n  MsgSeqNum tail\n"
    with pytest.raises(SchemaError, match=r"^own:4: "):
        templates_from_tree(fast_templates._Source(text, "own").tree())
