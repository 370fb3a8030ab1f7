"""Facts of a schema, as a set of plain sentences, so that two schemas can be compared both ways.

``tree_facts`` works on XML trees alone and lays out fields itself; ``model_facts`` inspects the
model that the loader built. They share nothing, so an error in one does not hide in the other.
"""

from __future__ import annotations

import dataclasses
import enum
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from pathlib import Path

from pregao.sbe.model import Schema
from pregao.schemas import bundle
from pregao.schemas.evolution import derive
from pregao.xml_tree import Element, parse_tree

SIZES = {
    "char": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "uint64": 8,
}
LAID_OUT = ("offset", "blockLength")  # compared by value, not as written
PARTS = ("field", "group", "data")


@dataclasses.dataclass
class Node:
    """An XML element, of any parser."""

    tag: str
    attributes: dict[str, str]
    children: list[Node]
    text: str

    def named(self, *tags: str) -> list[Node]:
        return [child for child in self.children if child.tag in tags]


def node_of_file(path: Path) -> Node:
    return _of_element_tree(ET.parse(path).getroot())


def _of_element_tree(element: ET.Element) -> Node:
    return Node(
        tag=element.tag.rpartition("}")[2],
        attributes={name: value for name, value in element.attrib.items() if "}" not in name},
        children=[_of_element_tree(child) for child in element if isinstance(child.tag, str)],
        text=(element.text or "").strip(),
    )


def node_of_element(element: Element) -> Node:
    return Node(
        tag=element.tag,
        attributes=dict(element.attributes),
        children=[node_of_element(child) for child in element.children],
        text=element.text,
    )


def published_file(version: int, **renamed: str) -> bytes:
    """A schema of UMDF as a file of one version, as B3 publishes them; names can be replaced."""
    path = Path(bundle.__file__).parent / "umdf" / "umdf.xml"
    root = derive(parse_tree(path.read_bytes(), path.name), version)

    def written(element: Element) -> ET.Element:
        made = ET.Element(element.tag, element.attributes)
        made.set("name", renamed.get(made.get("name", ""), made.get("name", "")))
        if not made.get("name"):
            del made.attrib["name"]
        made.text = element.text or None
        made.extend(written(child) for child in element.children)
        return made

    return ET.tostring(written(root), "utf-8")


def tree_facts(root: Node) -> set[str]:
    types = {
        each.attributes["name"]: each for types in root.named("types") for each in types.children
    }
    return set(_TreeFacts(types).of_root(root))


class _TreeFacts:
    def __init__(self, types: dict[str, Node]) -> None:
        self.types = types

    def of_root(self, root: Node) -> Iterator[str]:
        yield from self.attributes("schema", root)
        for name, node in self.types.items():
            yield from self.of_type(name, node)
        for message in root.named("message"):
            yield from self.of_block(f"message {message.attributes['id']}", message)

    def attributes(self, path: str, node: Node) -> Iterator[str]:
        yield f"{path} is a {node.tag} with text {node.text!r}"
        for name, value in node.attributes.items():
            if name != "description" and name not in LAID_OUT:
                yield f"{path} {name} = {value!r}"

    def of_type(self, path: str, node: Node) -> Iterator[str]:
        yield from self.attributes(path, node)
        yield f"{path} takes {self.size(node)} bytes"
        if node.tag in ("enum", "set"):
            encoding = node.attributes["encodingType"]
            yield f"{path} is encoded as {self.resolved(encoding)}"
            for member in node.children:
                yield from self.attributes(f"{path}.{member.attributes['name']}", member)
        elif node.tag == "composite":
            for index, (member, offset) in enumerate(self.layout(node.children)):
                name = f"{path}[{index}]"
                yield from self.of_type(name, member)
                yield f"{name} stands at {offset}"

    def of_block(self, path: str, node: Node) -> Iterator[str]:
        yield from self.attributes(path, node)
        fields = node.named("field")
        end = 0
        for index, (part, offset) in enumerate(self.layout(fields)):
            name = f"{path}.field[{index}]"
            yield from self.attributes(name, part)
            yield f"{name} stands at {offset}, takes {self.size(part)} bytes"
            yield f"{name} is of {self.resolved(part.attributes['type'])}"
            end = max(end, offset + self.size(part))
        yield f"{path} block length is {node.attributes.get('blockLength', end)}"
        for index, part in enumerate(node.named("group")):
            yield from self.of_block(f"{path}.group[{index}]", part)
        for index, part in enumerate(node.named("data")):
            yield from self.attributes(f"{path}.data[{index}]", part)
        yield f"{path} has its parts in the order {[c.tag for c in node.named(*PARTS)]}"

    def layout(self, parts: list[Node]) -> Iterator[tuple[Node, int]]:
        position = 0
        for part in parts:
            position = int(part.attributes.get("offset", position))
            yield part, position
            position += self.size(part)

    def size(self, node: Node) -> int:
        if node.attributes.get("presence") == "constant":
            return 0
        if node.tag in ("field", "ref"):
            name = node.attributes["type"]
            return SIZES[name] if name in SIZES else self.size(self.types[name])
        if node.tag == "type":
            return SIZES[node.attributes["primitiveType"]] * int(node.attributes.get("length", 1))
        if node.tag in ("enum", "set"):
            name = node.attributes["encodingType"]
            return SIZES[name] if name in SIZES else self.size(self.types[name])
        last, offset = list(self.layout(node.children))[-1]
        return offset + self.size(last)

    def resolved(self, name: str) -> str:
        """A type down to its primitive, its length and its null."""
        if name in SIZES:
            return name
        node = self.types[name]
        if node.tag == "composite":
            return f"composite of {[self.resolved_member(child) for child in node.children]}"
        if node.tag in ("enum", "set"):
            return f"{node.tag} of {self.resolved(node.attributes['encodingType'])}"
        return self.resolved_member(node)

    def resolved_member(self, node: Node) -> str:
        if node.tag == "ref":
            return self.resolved(node.attributes["type"])
        kept = ("primitiveType", "length", "presence", "nullValue", "characterEncoding", "valueRef")
        return str([node.attributes.get(name) for name in kept] + [node.text])


def model_facts(schema: Schema) -> set[str]:
    return set(_model_facts("schema", schema))


def _model_facts(path: str, value: object) -> Iterator[str]:
    if isinstance(value, enum.Enum):
        yield f"{path} = {value.value!r}"
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            if field.name not in ("description", "file_name"):
                yield from _model_facts(f"{path}.{field.name}", getattr(value, field.name))
    elif isinstance(value, Mapping):
        yield f"{path} has {sorted(value)}"
        for name, each in value.items():
            yield from _model_facts(f"{path}[{name}]", each)
    elif isinstance(value, tuple):
        yield f"{path} has {len(value)} entries"
        for index, each in enumerate(value):
            key = _key(path, index, each)
            yield from _model_facts(f"{path}[{key}]", each)
    else:
        yield f"{path} = {value!r}"


def _key(path: str, index: int, value: object) -> object:
    """Messages go by their id, values and flags by their name; all else by its order."""
    if path == "schema.messages":
        return getattr(value, "id", index)
    if path.endswith((".members", ".choices")) and not hasattr(value, "offset"):
        return getattr(value, "name", index)
    return index
