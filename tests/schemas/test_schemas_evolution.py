"""The derivation of one version, and the mistakes it finds in a file."""

from __future__ import annotations

from copy import deepcopy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.errors import SchemaError
from pregao.sbe.xml import schema_from_tree
from pregao.schemas.evolution import EVOLUTION, SchemaVersion, derive, evolves, known_versions
from pregao.xml_tree import Element, parse_tree

HEADER = """
    <composite name="messageHeader">
      <type name="blockLength" primitiveType="uint16"/>
      <type name="templateId" primitiveType="uint16"/>
      <type name="schemaId" primitiveType="uint16"/>
      <type name="version" primitiveType="uint16"/>
    </composite>"""
VERSIONS = (3, 5, 6, 9)
F = '<field name="f" id="1" type="int8"'


def tree(body: str = "", *, types: str = "", root: str = "", versions=VERSIONS) -> Element:
    """A schema file of ours; the body begins in its line 2."""
    listed = "".join(f'<evo:version number="{n}" semanticVersion="1.{n}"/>' for n in versions)
    text = (
        f'<s:messageSchema xmlns:s="http://fixprotocol.io/2016/sbe" xmlns:evo="{EVOLUTION}" '
        f'package="p" id="7" {root}>{listed}\n{body}\n<types>{types}{HEADER}</types>'
        "</s:messageSchema>"
    )
    return parse_tree(text.encode(), "test.xml")


def message(fields: str) -> str:
    return f'<s:message name="M" id="1">{fields}</s:message>'


def fields_of(derived: Element) -> list[Element]:
    found = [child for child in derived.children if child.tag == "message"]
    return found[0].children if found else []


def namespaces(element: Element) -> set[str | None]:
    spaces = {element.namespace}
    spaces |= {name[1:].partition("}")[0] for name in element.attributes if "}" in name}
    return spaces.union(*(namespaces(child) for child in element.children))


def test_versions_are_those_of_the_root():
    assert known_versions(tree()) == tuple(SchemaVersion(n, f"1.{n}") for n in VERSIONS)
    assert evolves(tree())
    assert not evolves(derive(tree(), 5))


@given(
    ranges=st.lists(
        st.tuples(st.sampled_from((None, *VERSIONS)), st.sampled_from((None, *VERSIONS))),
        max_size=8,
    ),
    own=st.booleans(),
    version=st.sampled_from(VERSIONS),
)
@settings(max_examples=100, deadline=None)
def test_a_field_exists_from_its_first_to_its_last_version(ranges, own, version):
    ranges = [
        (first, last) for first, last in ranges if (first or VERSIONS[0]) <= (last or VERSIONS[-1])
    ]
    since = "evo:since" if own else "sinceVersion"
    fields = "".join(
        f'<field name="f{index}" id="{index}" type="uint8"'
        + (f' {since}="{first}"' if first else "")
        + (f' evo:until="{last}"' if last else "")
        + "/>"
        for index, (first, last) in enumerate(ranges)
    )
    source = tree(message(fields))
    untouched = deepcopy(source)
    derived = derive(source, version)
    assert [each.attributes["name"] for each in fields_of(derived)] == [
        f"f{index}"
        for index, (first, last) in enumerate(ranges)
        if (first or 0) <= version <= (last or 99)
    ]
    assert all(("sinceVersion" in each.attributes) <= (not own) for each in fields_of(derived))
    assert EVOLUTION not in namespaces(derived)
    assert derived.attributes["version"] == str(version)
    assert derived.attributes["semanticVersion"] == f"1.{version}"
    assert source == untouched
    assert schema_from_tree(derived).version == version


@given(
    changes=st.dictionaries(
        st.sampled_from(VERSIONS[1:]), st.integers(0, 3), min_size=1, max_size=3
    ),
    version=st.sampled_from(VERSIONS),
)
@settings(max_examples=60, deadline=None)
def test_the_latest_change_not_after_the_version_counts(changes, version):
    written = ["9"]  # no length of the changes below, so that the first one changes something
    steps = ""
    for number, length in sorted(changes.items()):
        value = str(length) if length else ""
        if value != written[-1]:
            steps += f'<evo:from version="{number}" length="{value}"/>'
            written.append(value)
    expected = "9"
    for number, length in sorted(changes.items()):
        if number <= version:
            expected = str(length) if length else ""
    derived = derive(
        tree(types=f'<type name="T" primitiveType="char" length="9">{steps}</type>'), version
    )
    (kind,) = [
        each
        for types in derived.children
        for each in types.children
        if each.attributes.get("name") == "T"
    ]
    assert kind.attributes.get("length", "") == expected


def test_a_change_of_text_and_of_name():
    value = (
        '<enum name="E" encodingType="uint8"><validValue name="OLD">1'
        '<evo:from version="5" name="NEW"/><evo:from version="9" evo:text="2"/></validValue></enum>'
    )
    found = {}
    for version in VERSIONS:
        (member,) = derive(tree(types=value), version).children[-1].children[0].children
        found[version] = (member.attributes["name"], member.text)
    assert found == {3: ("OLD", "1"), 5: ("NEW", "1"), 6: ("NEW", "1"), 9: ("NEW", "2")}


def test_a_since_version_of_the_published_schema_is_kept_next_to_ours():
    source = tree(message(f'{F} sinceVersion="2" evo:since="6"/>'))
    (kept,) = fields_of(derive(source, 9))
    assert kept.attributes["sinceVersion"] == "2"
    assert not fields_of(derive(source, 5))


def test_two_elements_of_one_name_may_follow_each_other():
    source = tree(
        types='<type name="T" primitiveType="int8" evo:until="5"/>'
        '<enum name="T" encodingType="int8" evo:since="6"/>'
    )
    kinds = [derive(source, version).children[-1].children[0].tag for version in VERSIONS]
    assert kinds == ["type", "type", "enum", "enum"]


def test_the_content_of_a_lost_message_is_lost():
    body = (
        '<s:message name="M" id="1" evo:until="5"><field name="f" id="1" type="int8"/></s:message>'
    )
    assert fields_of(derive(tree(body), 5))
    assert not fields_of(derive(tree(body), 6))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (message(f'{F} evo:until="4"/>'), "until must be one of 3, 5, 6, 9, was 4"),
        (message(f'{F} evo:since="four"/>'), "since must be a version number, was 'four'"),
        (message(f'{F} sinceVersion="-1"/>'), "sinceVersion must be a version number, was '-1'"),
        (message(f'{F} evo:since="9" evo:until="5"/>'), "is in no version"),
        (message(f'{F} sinceVersion="10"/>'), "is in no version"),
        (message(f'{F} evo:unitl="5"/>'), "unknown attribute unitl"),
        (message(f'{F} evo:text="5"/>'), "unknown attribute text"),
        (message(f'{F} xmlns:x="urn:x" x:y="5"/>'), "unknown attribute y"),
        (message("<evo:field/>"), "<field>: the namespace evo allows only <from>"),
        (message("<evo:version/>"), "<version>: the namespace evo allows only <from>"),
        (message('<x:field xmlns:x="urn:x"/>'), "unknown namespace urn:x"),
        (message(f'{F}><evo:from type="int8"/></field>'), "must have a version"),
        (
            message(f'{F}><evo:from version="5" id="2">x</evo:from></field>'),
            "no text and no children",
        ),
        (message(f'{F}><evo:from version="5"/></field>'), "changes nothing"),
        (message(f'{F}><evo:from version="4" id="2"/></field>'), "must be one of 3, 5, 6, 9"),
        (message(f'{F}><evo:from version="3" id="2"/></field>'), "must be after version 3"),
        (
            message(f'{F}><evo:from version="6" id="2"/><evo:from version="5" id="3"/></field>'),
            "version 5 must be after version 6",
        ),
        (
            message(f'{F} evo:until="5"><evo:from version="6" id="2"/></field>'),
            "version must be one of 3, 5, was 6",
        ),
        (message(f'{F}><evo:from version="5" id="1"/></field>'), "id is already '1'"),
        (message(f'{F}><evo:from version="5" offset=""/></field>'), "offset does not exist"),
        (message(f'{F}><evo:from version="5" evo:text=""/></field>'), "the text is already ''"),
        (message(f'{F}><evo:from version="5" evo:since="6"/></field>'), "unknown attribute since"),
        (
            f'<s:message name="M" id="1" evo:until="5">{F} evo:since="6"/></s:message>',
            "since must be one of 3, 5, was 6",
        ),
    ],
)
def test_an_error_names_file_line_and_element_whatever_the_version(body, reason):
    for version in VERSIONS:
        with pytest.raises(SchemaError) as raised:
            derive(tree(body), version)
        assert str(raised.value).startswith("test.xml:2: <")
        assert reason in str(raised.value)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (message(f"{F}/>{F}/>"), 'name as <field name="f"> in line 2'),
        (message(f'{F} evo:until="6"/>{F} evo:since="6"/>'), "name as"),
        (message(f"{F}/>") + '<s:message name="N" id="1"/>', 'id as <message name="M">'),
    ],
)
def test_duplicate_elements_in_the_same_version_are_an_error(body, reason):
    with pytest.raises(SchemaError) as raised:
        derive(tree(body), 6)
    assert str(raised.value).startswith("test.xml:2: <")
    assert f"is in version 6 with the same {reason}" in str(raised.value)


@pytest.mark.parametrize(
    "members",
    [
        '<validValue name="A">1</validValue><validValue name="B">1</validValue>',
        '<validValue name="A">1</validValue>'
        '<validValue name="B">2<evo:from version="9" evo:text="1"/></validValue>',
    ],
)
def test_two_names_of_one_value_in_the_same_version_are_an_error(members):
    source = tree(types=f'<enum name="E" encodingType="uint8">{members}</enum>')
    with pytest.raises(SchemaError, match='same value as <validValue name="A">'):
        derive(source, 9)


def test_a_version_that_the_file_does_not_know_is_refused():
    with pytest.raises(SchemaError, match=r"test\.xml has no version 7; it has 3, 5, 6, 9"):
        derive(tree(), 7)


@pytest.mark.parametrize("versions", [(), (5, 3), (3, 3)])
def test_the_list_of_versions_is_in_order_and_not_empty(versions):
    with pytest.raises(SchemaError, match=r"evo:version|listed once"):
        derive(tree(versions=versions), 3)


@pytest.mark.parametrize(
    ("root", "reason"),
    [
        ('version="3"', "version must be in <evo:version>"),
        ('semanticVersion="1.3"', "semanticVersion must be in <evo:version>"),
        ('evo:since="9"', "the root must be in all versions"),
    ],
)
def test_the_root_has_no_version_itself(root, reason):
    with pytest.raises(SchemaError, match=reason):
        derive(tree(root=root), 3)


def test_an_entry_of_the_version_list_has_both_names():
    source = tree()
    del source.children[0].attributes["semanticVersion"]
    with pytest.raises(SchemaError, match="must have the attributes number and semanticVersion"):
        known_versions(source)
