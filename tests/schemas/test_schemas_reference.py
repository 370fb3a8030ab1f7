"""The bundled schema files compared with the published ones, if those are next to the checkout."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pregao.sbe.xml import load_schema
from pregao.schemas.bundle import PROTOCOLS, bundled, bundled_versions
from pregao.schemas.evolution import derive
from pregao.xml_tree import parse_tree
from tests.schemas.plain_facts import (
    Node,
    model_facts,
    node_of_element,
    node_of_file,
    tree_facts,
)

PROJECT = Path(__file__).parents[2]
REFERENCE = PROJECT.parent / "shared" / "reference"
PUBLISHED = {
    path.stem: path for folder in ("sbe", "next") for path in (REFERENCE / folder).glob("*.xml")
}
"""The published files by protocol and semantic version: of the documents, then newer ones."""
KNOWN = [
    (protocol, version.number, version.semantic_version)
    for protocol in PROTOCOLS
    for version in bundled_versions(protocol)
]
FILES = [each for each in KNOWN if f"{each[0]}-{each[2]}" in PUBLISHED]


def published_file(protocol: str, semantic_version: str) -> Path:
    return PUBLISHED[f"{protocol}-{semantic_version}"]


def ours(protocol: str, version: int) -> Node:
    path = PROJECT / "src" / "pregao" / "schemas" / protocol / f"{protocol}.xml"
    return node_of_element(derive(parse_tree(path.read_bytes(), path.name), version))


@pytest.mark.parametrize(("protocol", "version", "semantic_version"), FILES)
def test_a_derived_tree_equals_the_published_file(protocol, version, semantic_version):
    published = tree_facts(node_of_file(published_file(protocol, semantic_version)))
    derived = tree_facts(ours(protocol, version))
    assert len(published) > 4000
    assert sorted(published - derived) == []
    assert sorted(derived - published) == []


@pytest.mark.parametrize(("protocol", "version", "semantic_version"), FILES)
def test_a_derived_model_is_that_of_the_published_file(protocol, version, semantic_version):
    published = model_facts(load_schema(published_file(protocol, semantic_version)))
    derived = model_facts(bundled(protocol, version))
    assert len(published) > 10000
    assert sorted(published - derived) == []
    assert sorted(derived - published) == []


def test_every_published_file_has_its_bundled_version():
    known = {f"{protocol}-{semantic}" for protocol, _, semantic in KNOWN}
    assert PUBLISHED
    assert PUBLISHED.keys() - known == set()
    newer = {
        f"{protocol}-{bundled_versions(protocol)[-1].semantic_version}" for protocol in PROTOCOLS
    }
    assert known - PUBLISHED.keys() <= newer, "only the newest file may be missing"


def descriptions(node: Node) -> Iterator[str]:
    if "description" in node.attributes:
        yield node.attributes["description"].strip().rstrip(".").lower()
    for child in node.children:
        yield from descriptions(child)


@pytest.mark.parametrize(("protocol", "version", "semantic_version"), FILES)
def test_descriptions_are_our_own_words(protocol, version, semantic_version):
    published = set(descriptions(node_of_file(published_file(protocol, semantic_version))))
    shared = published & set(descriptions(ours(protocol, version)))
    # One or two words can only be said in one way ("side of order", "new").
    assert [text for text in sorted(shared) if len(text.split()) > 3] == []
