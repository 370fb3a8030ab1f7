"""Derivation of one version's SBE schema from a file that defines each field once for all versions.

Such a file is SBE XML with an additional namespace, ``evo``. Its root lists the versions
(``<evo:version number="16" semanticVersion="2.2.0"/>``), and below it

- ``sinceVersion="8"`` is the first version that has an element; ``evo:since`` replaces it where the
  published schema has no ``sinceVersion`` or another one;
- ``evo:until="9"`` is the last version that has it;
- a child ``<evo:from version="15" type="Quantity"/>`` replaces attributes of its parent from that
  version on (``evo:text`` its text); an empty value removes the attribute.

A child is only in versions that have its parent. A ``sinceVersion`` in an ``<evo:from>`` is only an
attribute: it does not change which versions have its parent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pregao.errors import SchemaError
from pregao.xml_tree import Element, schema_error

EVOLUTION = "urn:pregao:evolution:1"
MAX_VERSIONS = 64
_SBE = "http://fixprotocol.io/2016/sbe"
_SINCE = f"{{{EVOLUTION}}}since"
_UNTIL = f"{{{EVOLUTION}}}until"
_TEXT = f"{{{EVOLUTION}}}text"


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """A version that a file defines: its number on the wire, and its semantic version."""

    number: int
    semantic_version: str


def evolves(tree: Element) -> bool:
    """Whether a tree defines several versions, as bundled files do and published ones do not."""
    return any(child.namespace == EVOLUTION for child in tree.children)


def known_versions(tree: Element) -> tuple[SchemaVersion, ...]:
    """Return the versions that the root lists, oldest first."""
    versions: list[SchemaVersion] = []
    for child in tree.children:
        if child.namespace != EVOLUTION or child.tag != "version":
            continue
        if set(child.attributes) != {"number", "semanticVersion"}:
            raise schema_error(child, "must have the attributes number and semanticVersion only")
        number = _number(child, "number")
        if versions and number <= versions[-1].number:
            raise schema_error(child, "each version must be listed once, oldest first")
        if len(versions) == MAX_VERSIONS:
            raise schema_error(child, f"more than {MAX_VERSIONS} versions")
        versions.append(SchemaVersion(number, child.attributes["semanticVersion"]))
    if not versions:
        raise schema_error(tree, "lists no <evo:version>")
    return tuple(versions)


def derive(tree: Element, version: int) -> Element:
    """Return the plain SBE tree of one version; the given tree is not modified.

    Raises:
        SchemaError: The file has an error, also one that does not affect this version; the message
            names the file, the line and the element. Only duplicate siblings are checked in this
            version alone.
    """
    versions = known_versions(tree)
    wanted = next((known for known in versions if known.number == version), None)
    if wanted is None:
        numbers = ", ".join(str(known.number) for known in versions)
        raise SchemaError(f"{tree.file} has no version {version}; it has {numbers}")
    for name in ("version", "semanticVersion"):
        if name in tree.attributes:
            raise schema_error(tree, f"{name} must be in <evo:version>, not in the root")
    root = _Derivation(version).element(tree, [known.number for known in versions])
    if root is None:
        raise schema_error(tree, "the root must be in all versions")
    root.attributes["version"] = str(version)
    root.attributes["semanticVersion"] = wanted.semantic_version
    return root


def member_states(member: Element) -> Iterator[tuple[str, str]]:
    """Yield the names and texts that a ``<validValue>`` has over all versions, oldest first."""
    name, text = member.attributes["name"], member.text
    yield name, text
    for change in member.children:
        if change.namespace == EVOLUTION and change.tag == "from":
            name = change.attributes.get("name", name)
            text = change.attributes.get(_TEXT, text)
            yield name, text


class _Derivation:
    """Traversal of a file for one version."""

    def __init__(self, version: int) -> None:
        self.version = version

    def element(self, source: Element, around: list[int]) -> Element | None:
        """Return the element in this version; None if the version does not have it.

        ``around`` are the versions that have the parent. Elements that this version does not have
        are traversed too, to find their errors.
        """
        if source.namespace not in (None, _SBE):
            raise schema_error(source, f"unknown namespace {source.namespace}")
        present = self.present_in(source, around)
        attributes, text = self.state(source, present)
        children: list[Element] = []
        for child in source.children:
            if child.namespace != EVOLUTION:
                derived = self.element(child, present)
                if derived is not None:
                    children.append(derived)
        if self.version not in present:
            return None
        self.reject_duplicates(children)
        return Element(
            source.tag, source.namespace, attributes, source.file, source.line, children, text
        )

    def present_in(self, element: Element, around: list[int]) -> list[int]:
        """Return the versions that have an element."""
        first, last = around[0], around[-1]
        if "sinceVersion" in element.attributes:
            first = _number(element, "sinceVersion")
        if _SINCE in element.attributes:
            first = self.one_of(around, element, _SINCE)
        if _UNTIL in element.attributes:
            last = self.one_of(around, element, _UNTIL)
        present = [number for number in around if first <= number <= last]
        if not present:
            raise schema_error(element, "is in no version that has its parent")
        return present

    def state(self, element: Element, present: list[int]) -> tuple[dict[str, str], str]:
        """Return the attributes and the text of an element in this version, or the initial ones."""
        attributes: dict[str, str] = {}
        for name, value in element.attributes.items():
            if "}" not in name:
                attributes[name] = value
            elif name not in (_SINCE, _UNTIL):
                raise schema_error(element, f"unknown attribute {_local(name)}")
        text = element.text
        found = attributes, text
        last = present[0]
        for child in element.children:
            if child.namespace != EVOLUTION or _lists_version(element, child):
                continue
            if child.tag != "from":
                raise schema_error(child, "the namespace evo allows only <from> here")
            if child.children or child.text or "version" not in child.attributes:
                raise schema_error(child, "must have a version, and no text and no children")
            version = self.one_of(present, child, "version")
            if version <= last:
                raise schema_error(child, f"version {version} must be after version {last}")
            last = version
            attributes, text = self.changed(child, attributes, text)
            if version <= self.version:
                found = attributes, text
        return found

    def changed(
        self, change: Element, attributes: dict[str, str], text: str
    ) -> tuple[dict[str, str], str]:
        """Apply an ``<evo:from>`` to attributes and text; it must change each one it names."""
        after = dict(attributes)
        if len(change.attributes) == 1:
            raise schema_error(change, "changes nothing")
        for name, value in change.attributes.items():
            if name == "version":
                continue
            if name == _TEXT:
                if value == text:
                    raise schema_error(change, f"the text is already {value!r}")
                text = value
            elif "}" in name:
                raise schema_error(change, f"unknown attribute {_local(name)}")
            elif after.get(name, "") == value:
                state = f"is already {value!r}" if value else "does not exist and cannot be removed"
                raise schema_error(change, f"{name} {state}")
            else:
                after[name] = value
        return {name: value for name, value in after.items() if value}, text

    def reject_duplicates(self, children: list[Element]) -> None:
        """Refuse siblings with the same name, id or value in one version."""
        seen: dict[tuple[str, str], Element] = {}
        for child in children:
            keys = [("name", child.attributes["name"])] if "name" in child.attributes else []
            if child.tag == "message" and "id" in child.attributes:
                keys.append(("id", child.attributes["id"]))
            if child.tag in ("validValue", "choice"):
                keys.append(("value", child.text))
            for key in keys:
                other = seen.setdefault(key, child)
                if other is not child:
                    raise schema_error(
                        child,
                        f"is in version {self.version} with the same {key[0]} as "
                        f"{other.described()} in line {other.line}",
                    )

    def one_of(self, versions: list[int], element: Element, attribute: str) -> int:
        """Return the number in an attribute, which must be one of the versions."""
        number = _number(element, attribute)
        if number not in versions:
            possible = ", ".join(map(str, versions))
            raise schema_error(
                element, f"{_local(attribute)} must be one of {possible}, was {number}"
            )
        return number


def _lists_version(parent: Element, child: Element) -> bool:
    """Whether a child is an entry of the root's list of versions."""
    return parent.tag == "messageSchema" and child.tag == "version"


def _local(name: str) -> str:
    """Return the name of an attribute without its namespace."""
    return name.rpartition("}")[2]


def _number(element: Element, attribute: str) -> int:
    text = element.attributes[attribute]
    if not (text.isascii() and text.isdigit() and len(text) <= 5):
        raise schema_error(element, f"{_local(attribute)} must be a version number, was {text!r}")
    return int(text)
