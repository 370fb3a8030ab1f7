"""Derives the SBE schema of one version from a file that states each field once for all versions.

Such a file is SBE XML with a namespace of ours. Its root lists the versions it knows
(``<evo:version number="16" semanticVersion="2.2.0"/>``), and below it

- ``sinceVersion="8"`` is the first version that has an element; ``evo:since`` says the same
  where the published schema has no ``sinceVersion`` or another one;
- ``evo:until="9"`` is the last version that has it;
- a child ``<evo:from version="15" type="Quantity"/>`` replaces attributes of its parent from that
  version on (``evo:text`` its text); an empty value removes the attribute.

A child is in no version that its parent is not in. A ``sinceVersion`` in an ``<evo:from>`` is only
an attribute: it does not change which versions have its parent.
"""

from __future__ import annotations

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
    """A version that a file knows: its number on the wire and the name it goes by."""

    number: int
    semantic_version: str


def evolves(tree: Element) -> bool:
    """Whether a tree states several versions, as our files do and published ones do not."""
    return any(child.namespace == EVOLUTION for child in tree.children)


def known_versions(tree: Element) -> tuple[SchemaVersion, ...]:
    """The versions that the root lists, oldest first."""
    versions: list[SchemaVersion] = []
    for child in tree.children:
        if child.namespace != EVOLUTION or child.tag != "version":
            continue
        if set(child.attributes) != {"number", "semanticVersion"}:
            raise schema_error(child, "needs number and semanticVersion, nothing else")
        number = _number(child, "number")
        if versions and number <= versions[-1].number:
            raise schema_error(child, "versions are listed once each, oldest first")
        if len(versions) == MAX_VERSIONS:
            raise schema_error(child, f"more than {MAX_VERSIONS} versions")
        versions.append(SchemaVersion(number, child.attributes["semanticVersion"]))
    if not versions:
        raise schema_error(tree, "lists no <evo:version>")
    return tuple(versions)


def derive(tree: Element, version: int) -> Element:
    """A plain SBE tree of one version; the given tree stays as it is.

    A mistake raises SchemaError with the file, the line and the element, also where it does not
    touch the version that was asked for. Only siblings that are the same thing are looked
    for in that version alone.
    """
    versions = known_versions(tree)
    wanted = next((known for known in versions if known.number == version), None)
    if wanted is None:
        numbers = ", ".join(str(known.number) for known in versions)
        raise SchemaError(f"{tree.file} knows the versions {numbers}, not {version}")
    for name in ("version", "semanticVersion"):
        if name in tree.attributes:
            raise schema_error(tree, f"{name} is said by <evo:version>, not by the root")
    root = _Derivation(version).element(tree, [known.number for known in versions])
    if root is None:
        raise schema_error(tree, "a root is in all versions")
    root.attributes["version"] = str(version)
    root.attributes["semanticVersion"] = wanted.semantic_version
    return root


class _Derivation:
    """The walk through one file for one version."""

    def __init__(self, version: int) -> None:
        self.version = version

    def element(self, source: Element, around: list[int]) -> Element | None:
        """The element as it is in the version; None where the version does not have it.

        ``around`` are the versions that have the parent. What the version does not have is
        walked too, so that its mistakes are found.
        """
        if source.namespace not in (None, _SBE):
            raise schema_error(source, f"the namespace {source.namespace} is not known here")
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
        self.refuse_twins(children)
        return Element(
            source.tag, source.namespace, attributes, source.file, source.line, children, text
        )

    def present_in(self, element: Element, around: list[int]) -> list[int]:
        """The versions that have an element."""
        first, last = around[0], around[-1]
        if "sinceVersion" in element.attributes:
            first = _number(element, "sinceVersion")
        if _SINCE in element.attributes:
            first = self.one_of(around, element, _SINCE)
        if _UNTIL in element.attributes:
            last = self.one_of(around, element, _UNTIL)
        present = [number for number in around if first <= number <= last]
        if not present:
            raise schema_error(element, "is in no version that its parent is in")
        return present

    def state(self, element: Element, present: list[int]) -> tuple[dict[str, str], str]:
        """The attributes and the text of an element in the version, or at first."""
        attributes: dict[str, str] = {}
        for name, value in element.attributes.items():
            if "}" not in name:
                attributes[name] = value
            elif name not in (_SINCE, _UNTIL):
                raise schema_error(element, f"the attribute {_local(name)} is not known here")
        text = element.text
        found = attributes, text
        last = present[0]
        for child in element.children:
            if child.namespace != EVOLUTION or _lists_version(element, child):
                continue
            if child.tag != "from":
                raise schema_error(child, "the namespace of evolution has no such element here")
            if child.children or child.text or "version" not in child.attributes:
                raise schema_error(child, "needs a version, and takes no text and no children")
            version = self.one_of(present, child, "version")
            if version <= last:
                raise schema_error(child, f"version {version} must come after version {last}")
            last = version
            attributes, text = self.changed(child, attributes, text)
            if version <= self.version:
                found = attributes, text
        return found

    def changed(
        self, change: Element, attributes: dict[str, str], text: str
    ) -> tuple[dict[str, str], str]:
        """What an ``<evo:from>`` makes of attributes and text; it must change what it names."""
        after = dict(attributes)
        if len(change.attributes) == 1:
            raise schema_error(change, "changes nothing")
        for name, value in change.attributes.items():
            if name == "version":
                continue
            if name == _TEXT:
                if value == text:
                    raise schema_error(change, f"the text is {value!r} already")
                text = value
            elif "}" in name:
                raise schema_error(change, f"the attribute {_local(name)} is not known here")
            elif after.get(name, "") == value:
                state = f"is {value!r} already" if value else "is not there to be removed"
                raise schema_error(change, f"{name} {state}")
            else:
                after[name] = value
        return {name: value for name, value in after.items() if value}, text

    def refuse_twins(self, children: list[Element]) -> None:
        """Two siblings of one name, id or value cannot be in the same version."""
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
        """The number in an attribute, which must be one of the versions."""
        number = _number(element, attribute)
        if number not in versions:
            possible = ", ".join(map(str, versions))
            raise schema_error(
                element, f"{_local(attribute)} is {number}, and must be one of {possible}"
            )
        return number


def _lists_version(parent: Element, child: Element) -> bool:
    """Whether a child is an entry of the root's list of versions."""
    return parent.tag == "messageSchema" and child.tag == "version"


def _local(name: str) -> str:
    """The name of an attribute as the file has it, without its namespace."""
    return name.rpartition("}")[2]


def _number(element: Element, attribute: str) -> int:
    text = element.attributes[attribute]
    if not (text.isascii() and text.isdigit() and len(text) <= 5):
        raise schema_error(element, f"{_local(attribute)} is {text!r}, not a version number")
    return int(text)
