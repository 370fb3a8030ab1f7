"""Schemas bundled with the package, by protocol and version."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from pregao.errors import SchemaError
from pregao.sbe.model import Schema
from pregao.sbe.xml import schema_from_tree
from pregao.schemas.evolution import SchemaVersion, derive, known_versions, member_states
from pregao.xml_tree import Element, parse_tree

ENTRYPOINT_SCHEMA_ID = 1
UMDF_SCHEMA_ID = 2
PROTOCOLS = {"entrypoint": ENTRYPOINT_SCHEMA_ID, "umdf": UMDF_SCHEMA_ID}
"""Protocols whose schemas are bundled, with their schema ids."""

_lock = threading.RLock()  # so that all threads share one model of a schema


def bundled(protocol: str, version: int | str | None = None) -> Schema:
    """Return a bundled schema by protocol (``umdf``, ``entrypoint``) and version.

    The version is its number or its semantic version (``16``, ``"8.3.3"``); default is the newest.
    A schema is derived on first use and cached.
    """
    known = bundled_versions(protocol)
    if version is None:
        version = known[-1].number
    for candidate in known:
        if version in (candidate.number, str(candidate.number), candidate.semantic_version):
            with _lock:
                return _schema(protocol, candidate.number)
    names = ", ".join(f"{each.number} ({each.semantic_version})" for each in known)
    raise SchemaError(f"version {version} of {protocol} is not bundled; bundled versions: {names}")


def bundled_versions(protocol: str) -> tuple[SchemaVersion, ...]:
    """Return the bundled versions of a protocol, oldest first."""
    with _lock:
        return _versions(protocol)


@cache
def bundled_message_ids(protocol: str) -> dict[str, int]:
    """Return the ids of all messages of a protocol by name, including older versions."""
    with _lock:
        messages = [child for child in _tree(protocol).children if child.tag == "message"]
    return {each.attributes["name"]: int(each.attributes["id"]) for each in messages}


@cache
def bundled_values(protocol: str, enumeration: str) -> Mapping[str, int]:
    """Return the values of an enumeration by every name that one of the versions gives them.

    A value may be renamed: 21 of UMDF's ``TradingSessionSubID`` is RESERVED up to version 16 and
    PRE_OPEN from 17 on. Rules therefore compare numbers, never names.

    Raises:
        SchemaError: No version has the enumeration, or a name means different values.
    """
    with _lock:
        tree = _tree(protocol)
    found: dict[str, int] = {}
    for kind, letters in _enumerations(tree):
        if kind.attributes["name"] != enumeration:
            continue
        for member in kind.children:
            if member.tag == "validValue":
                for name, text in member_states(member):
                    value = ord(text) if letters else int(text)
                    if found.setdefault(name, value) != value:
                        raise SchemaError(f"{enumeration}.{name} of {protocol} has several values")
    if not found:
        raise SchemaError(f"no bundled schema of {protocol} has an enumeration {enumeration}")
    return MappingProxyType(found)


def _enumerations(tree: Element) -> Iterator[tuple[Element, bool]]:
    """Yield the enumerations of a schema, and whether their values are letters."""
    types = [kind for child in tree.children if child.tag == "types" for kind in child.children]
    primitives = {kind.get("name"): kind.get("primitiveType") for kind in types}
    for kind in types:
        if kind.tag == "enum":
            encoding = kind.get("encodingType")
            yield kind, primitives.get(encoding, encoding) == "char"


def with_known_names(tree: Element, protocol: str) -> Element:
    """Return a schema whose values have names that the bundled schemas give them.

    A file may rename values, as version 17 of UMDF did. Rules and tables know the bundled names:
    under another name, a value would have no effect. A value that no bundled schema has keeps its
    name, followed by its number if the bundled schemas give that name to another value.
    """
    renamed: dict[str, dict[str, str]] = {}
    for kind, letters in _enumerations(tree):
        enumeration = kind.get("name") or ""
        try:
            known = bundled_values(protocol, enumeration)
        except SchemaError:
            continue  # unknown, so that no rule is about it
        newest = {value: name for name, value in known.items()}  # older names come first
        for member in kind.children:
            name, text = member.get("name") or "", member.text
            if member.tag != "validValue" or not (len(text) == 1 if letters else text.isdecimal()):
                continue
            value = ord(text) if letters else int(text)
            if known.get(name, value) != value or (name not in known and value in newest):
                names = renamed.setdefault(enumeration, {})
                names[name] = newest.get(value, f"{name}_{value}")
    return _renamed(tree, renamed) if renamed else tree


def _renamed(element: Element, renamed: Mapping[str, Mapping[str, str]]) -> Element:
    """Return a tree with other names of enumerations' values, in references to them too."""
    attributes = element.attributes
    enumeration, dot, name = attributes.get("valueRef", "").strip().partition(".")
    if dot and name in renamed.get(enumeration, ()):
        attributes = {**attributes, "valueRef": f"{enumeration}.{renamed[enumeration][name]}"}
    children = [_renamed(child, renamed) for child in element.children]
    if element.tag == "enum":
        names = renamed.get(attributes.get("name", ""), {})
        children = [
            replace(
                child,
                attributes={
                    **child.attributes,
                    "name": names.get(child.get("name") or "", child.get("name") or ""),
                },
            )
            for child in children
        ]
    return replace(element, attributes=attributes, children=children)


def bundled_name(protocol: str) -> str:
    """Return the name of a protocol's bundled file for error messages."""
    return f"{protocol}/{protocol}.xml"


@cache
def _tree(protocol: str) -> Element:
    if protocol not in PROTOCOLS:
        bundles = " and ".join(sorted(PROTOCOLS))
        raise SchemaError(f"no schemas of {protocol!r} are bundled; bundled protocols: {bundles}")
    source = files("pregao.schemas").joinpath(protocol, f"{protocol}.xml").read_bytes()
    return parse_tree(source, bundled_name(protocol))


@cache
def _versions(protocol: str) -> tuple[SchemaVersion, ...]:
    return known_versions(_tree(protocol))


@cache
def _schema(protocol: str, version: int) -> Schema:
    return schema_from_tree(derive(_tree(protocol), version))
