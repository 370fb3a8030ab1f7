"""Which schema reads a message: bundled, added by a user, or named by a user."""

from __future__ import annotations

import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pregao.errors import DecodeError, SchemaError, UsageError
from pregao.schemas.bundle import ENTRYPOINT_SCHEMA_ID, UMDF_SCHEMA_ID, bundled
from pregao.schemas.registry import SCHEMA_PATH_VARIABLE, KnownSchema, Registry
from tests.schemas.plain_facts import published_file

PUBLISHED = """<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<!DOCTYPE xml>
<sbe:messageSchema xmlns:sbe="http://fixprotocol.io/2016/sbe" package="{package}" id="{id}"
    version="{version}" semanticVersion="{semantic}" byteOrder="littleEndian">
  <types>
    <composite name="messageHeader">
      <type name="blockLength" primitiveType="uint16"/>
      <type name="templateId" primitiveType="uint16"/>
      <type name="schemaId" primitiveType="uint16"/>
      <type name="version" primitiveType="uint16"/>
    </composite>
  </types>
  <sbe:message name="M" id="1"><field name="f" id="1" type="uint8"/></sbe:message>
</sbe:messageSchema>
"""
OWN = Path(__file__).parents[2] / "src" / "pregao" / "schemas" / "umdf" / "umdf.xml"


def publish(folder: Path, name: str, schema_id: int, version: int, semantic: str = "1.0") -> Path:
    path = folder / name
    path.write_text(
        PUBLISHED.format(package=name, id=schema_id, version=version, semantic=semantic)
    )
    return path


def test_the_ids_of_the_protocols():
    assert (bundled("umdf").id, bundled("entrypoint").id) == (UMDF_SCHEMA_ID, ENTRYPOINT_SCHEMA_ID)
    assert (UMDF_SCHEMA_ID, ENTRYPOINT_SCHEMA_ID) == (2, 1)


@given(
    schema_id=st.sampled_from([UMDF_SCHEMA_ID, ENTRYPOINT_SCHEMA_ID]), version=st.integers(0, 65535)
)
def test_the_newest_version_not_above_that_of_the_wire_reads_a_message(schema_id, version):
    registry = Registry.bundled()
    versions = registry.versions(schema_id)
    if version < versions[0]:
        with pytest.raises(DecodeError) as raised:
            registry.find(schema_id, version)
        assert raised.value.reason == (
            f"version {version} of schema id {schema_id} is older than {versions[0]}, "
            "the oldest known"
        )
    else:
        found = registry.find(schema_id, version)
        assert found.id == schema_id
        assert found.version == max(each for each in versions if each <= version)
        assert registry.find(schema_id, version) is found


@pytest.mark.parametrize(
    ("wire", "used"),
    [(7, 7), (10, 10), (11, 10), (14, 10), (15, 15), (16, 16), (17, 17), (18, 17), (65535, 17)],
)
def test_versions_between_and_above_the_known_ones(wire, used):
    assert Registry.bundled().find(UMDF_SCHEMA_ID, wire).version == used


def test_an_unknown_schema_id_is_a_decode_error():
    with pytest.raises(DecodeError, match="unknown schema id 3"):
        Registry.bundled().find(3, 1)


def test_bundled_schemas_are_listed_without_loading_them():
    registry = Registry.bundled()
    assert registry.versions(UMDF_SCHEMA_ID) == [7, 8, 9, 10, 15, 16, 17]
    assert registry.versions(ENTRYPOINT_SCHEMA_ID) == [2, 3, 4, 5, 6]
    assert registry.versions(3) == []
    assert [each.semantic_version for each in registry.schemas()] == [
        *("8.0.0", "8.1.1", "8.2.1", "8.3.3", "8.4.2"),
        *("1.6.0", "1.7.0", "1.8.0", "1.9.0", "2.1.0", "2.2.0", "2.3.1"),
    ]
    assert registry.schemas()[-1] == KnownSchema(2, 17, "2.3.1", "umdf/umdf.xml")


@pytest.mark.parametrize("version", [17, "17", "2.3.1", None])
def test_a_bundled_schema_by_number_or_semantic_version(version):
    assert bundled("umdf", version).version == 17
    assert bundled("umdf", version) is bundled("umdf", 17)


def test_exact_versions_of_a_registry():
    registry = Registry.bundled()
    assert registry.get(ENTRYPOINT_SCHEMA_ID, "8.3.3") is bundled("entrypoint", 5)
    assert registry.get(UMDF_SCHEMA_ID, 8).semantic_version == "1.7.0"
    assert registry.newest(UMDF_SCHEMA_ID).version == 17
    with pytest.raises(SchemaError, match=r"11 of schema id 2 is unknown; known versions: 7 \("):
        registry.get(UMDF_SCHEMA_ID, 11)
    with pytest.raises(SchemaError, match="known versions: none of this id"):
        registry.get(9, 1)
    with pytest.raises(SchemaError, match="unknown schema id 9"):
        registry.newest(9)


def test_an_unknown_bundled_name_is_reported_with_the_known_ones():
    with pytest.raises(SchemaError, match=r"5\.6 of entrypoint is not bundled.* 5 \(8\.3\.3"):
        bundled("entrypoint", "5.6")
    with pytest.raises(
        SchemaError, match="'fix' are bundled; bundled protocols: entrypoint and umdf"
    ):
        bundled("fix", 1)


def test_a_users_file_wins_over_a_bundled_schema_of_its_version(tmp_path):
    registry = Registry()
    before = registry.find(ENTRYPOINT_SCHEMA_ID, 5)
    path = publish(tmp_path, "entrypoint-5.6.xml", ENTRYPOINT_SCHEMA_ID, 5, "5.6")
    assert registry.add_file(path) == [KnownSchema(1, 5, "5.6", str(path))]
    after = registry.find(ENTRYPOINT_SCHEMA_ID, 5)
    assert (before.semantic_version, after.semantic_version) == ("8.3.3", "5.6")
    assert registry.find(ENTRYPOINT_SCHEMA_ID, 4).semantic_version == "8.2.1"
    assert bundled("entrypoint", "8.3.3").version == 5
    assert Registry.bundled().find(ENTRYPOINT_SCHEMA_ID, 5).semantic_version == "8.3.3"


def test_a_users_file_can_be_older_or_of_another_id(tmp_path):
    registry = Registry()
    registry.add_file(publish(tmp_path, "old.xml", UMDF_SCHEMA_ID, 4))
    registry.add_file(publish(tmp_path, "other.xml", 77, 1))
    assert registry.find(UMDF_SCHEMA_ID, 6).package == "old.xml"
    assert registry.find(UMDF_SCHEMA_ID, 7).semantic_version == "1.6.0"
    assert registry.find(77, 9).package == "other.xml"


def test_a_file_that_states_many_versions_can_be_added():
    registry = Registry()
    added = registry.add_file(OWN)
    assert [each.version for each in added] == [7, 8, 9, 10, 15, 16, 17]
    assert registry.find(UMDF_SCHEMA_ID, 9) is not bundled("umdf", 9)
    assert registry.find(UMDF_SCHEMA_ID, 9).messages == bundled("umdf", 9).messages


def test_a_named_schema_reads_every_version_of_its_id(tmp_path):
    registry = Registry()
    path = publish(tmp_path, "mine.xml", UMDF_SCHEMA_ID, 8)
    assert registry.find(UMDF_SCHEMA_ID, 16).version == 16
    schema = registry.name_file(path)
    assert {registry.find(UMDF_SCHEMA_ID, wire).package for wire in (0, 6, 8, 16, 99)} == {
        "mine.xml"
    }
    assert registry.find(ENTRYPOINT_SCHEMA_ID, 6).version == 6
    assert registry.named() == [schema]


@pytest.mark.parametrize("add", ["add_file", "name_file"])
def test_values_that_a_file_renames_have_known_names_for_rules(tmp_path, add):
    """000 §5.10.1: rules compare numbers, so a name that no bundled schema has must not matter."""
    path = tmp_path / "umdf.xml"
    names = {"PRE_OPEN": "GATHERING", "OPEN": "RUNNING", "PAUSE": "OPEN", "NEW": "FRESH"}
    # A constant of template 12 refers to a renamed value.
    source = published_file(17, **names).replace(b"MDUpdateAction.NEW", b"MDUpdateAction.FRESH")
    # A value that no bundled schema has, under the name of another one.
    own = b'<validValue name="PAUSE">33</validValue></enum>'
    at = source.index(b"</enum>", source.index(b'<enum name="TradingSessionSubID"'))
    path.write_bytes(source[:at] + own + source[at + len(b"</enum>") :])
    shown, ruled = (
        {member.value: member.name for member in schema.types["TradingSessionSubID"].members}
        for schema in (named(add, path, known_names=known) for known in (False, True))
    )
    assert (shown[21], shown[17], shown[2], shown[33]) == ("GATHERING", "RUNNING", "OPEN", "PAUSE")
    assert (ruled[21], ruled[17], ruled[2], ruled[4]) == ("PRE_OPEN", "OPEN", "PAUSE", "CLOSE")
    assert ruled[33] == "PAUSE_33"
    schema = named(add, path, known_names=True)
    assert {field.constant for field in schema.by_id[16].fields if field.constant} == {
        field.constant for field in bundled("umdf", 17).by_id[16].fields if field.constant
    }
    # Names of any version are known.
    older = write_file(tmp_path, 16)
    shown, ruled = (named(add, older, 16, known_names=known).types for known in (False, True))
    assert ruled == shown


def named(add, path, version=17, *, known_names):
    registry = Registry(known_names=known_names)
    getattr(registry, add)(path)
    return registry.find(UMDF_SCHEMA_ID, version)


def write_file(folder, version):
    path = folder / f"umdf-{version}.xml"
    path.write_bytes(published_file(version))
    return path


def test_a_schema_can_be_named_directly():
    registry = Registry(named=[bundled("umdf", 7)])
    assert registry.find(UMDF_SCHEMA_ID, 1).version == 7


def test_two_named_schemas_of_one_id_are_refused(tmp_path):
    registry = Registry()
    registry.name_file(publish(tmp_path, "a.xml", UMDF_SCHEMA_ID, 8))
    with pytest.raises(UsageError, match=r"Two schemas of id 2 were named, .*a\.xml and .*b\.xml"):
        registry.name_file(publish(tmp_path, "b.xml", UMDF_SCHEMA_ID, 9))


def test_a_file_of_many_versions_cannot_be_named():
    with pytest.raises(UsageError, match="defines 7 versions"):
        Registry().name_file(OWN)


def test_a_path_of_files_and_folders(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    publish(folder, "b.xml", 77, 2)
    publish(folder, "a.xml", 77, 2)
    publish(folder, "c.xml", 77, 3)
    (folder / "templates.xml").write_text("<templates/>")
    (folder / "notes.txt").write_text("not a schema")
    file = publish(tmp_path, "single.xml", 78, 1)
    registry = Registry()
    added = registry.add_path(os.pathsep.join(["", str(folder), " ", str(file)]))
    assert [(Path(each.file_name).name, each.schema_id, each.version) for each in added] == [
        ("a.xml", 77, 2),
        ("b.xml", 77, 2),
        ("c.xml", 77, 3),
        ("single.xml", 78, 1),
    ]
    assert registry.find(77, 2).package == "b.xml"
    assert registry.versions(77) == [2, 3]
    assert registry.add_path("") == []


def test_the_environment_adds_and_the_command_names(tmp_path, monkeypatch):
    added = publish(tmp_path, "added.xml", 77, 2)
    named = publish(tmp_path, "named.xml", UMDF_SCHEMA_ID, 3)
    monkeypatch.setenv(SCHEMA_PATH_VARIABLE, str(added))
    registry = Registry.from_environment([named])
    assert registry.find(77, 2).package == "added.xml"
    assert registry.find(UMDF_SCHEMA_ID, 16).package == "named.xml"
    with pytest.raises(DecodeError, match="is older than 2, the oldest known"):
        registry.find(77, 1)
    monkeypatch.delenv(SCHEMA_PATH_VARIABLE)
    assert Registry.from_environment().schemas() == Registry.bundled().schemas()


def test_the_name_of_the_environment_variable():
    assert SCHEMA_PATH_VARIABLE == "PREGAO_SCHEMA_PATH"


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    missing = tmp_path / "missing.xml"
    for attempt in (Registry().add_file, Registry().name_file):
        with pytest.raises(SchemaError, match=r"missing\.xml: cannot be read"):
            attempt(missing)
    with pytest.raises(SchemaError, match=r"missing\.xml: cannot be read"):
        Registry().add_path(str(missing))


def test_a_broken_file_is_refused_when_it_is_added_and_changes_nothing(tmp_path):
    path = publish(tmp_path, "broken.xml", UMDF_SCHEMA_ID, 16)
    path.write_text(path.read_text().replace('type="uint8"', 'type="uint9"'))
    registry = Registry()
    with pytest.raises(SchemaError, match=r"broken\.xml:\d+: <field"):
        registry.add_file(path)
    assert registry.schemas() == Registry.bundled().schemas()
    assert registry.find(UMDF_SCHEMA_ID, 16) is bundled("umdf", 16)


def test_the_shared_registry_is_one_and_closed(tmp_path):
    shared = Registry.bundled()
    path = publish(tmp_path, "a.xml", 77, 1)
    assert Registry.bundled() is shared
    for attempt in (shared.add_file, shared.name_file):
        with pytest.raises(UsageError, match="is shared"):
            attempt(path)
    with pytest.raises(UsageError, match="is shared"):
        shared.name(bundled("umdf"))
    assert shared.versions(77) == []


def test_a_registry_can_be_sent_to_another_process(tmp_path):
    registry = Registry(named=[bundled("entrypoint", 2)])
    registry.add_file(publish(tmp_path, "a.xml", 77, 1))
    received = pickle.loads(pickle.dumps(registry))
    assert received.schemas() == registry.schemas()
    assert received.find(77, 1).messages == registry.find(77, 1).messages
    assert received.find(ENTRYPOINT_SCHEMA_ID, 6).version == 2
    assert received.find(UMDF_SCHEMA_ID, 16) == bundled("umdf", 16)


def test_threads_share_one_model():
    registry = Registry()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda version: registry.find(UMDF_SCHEMA_ID, version), [16] * 16))
    assert all(each is found[0] for each in found)
