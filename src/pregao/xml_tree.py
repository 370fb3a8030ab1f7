"""A small XML tree with line numbers, which rejects entities and excessive input."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from pregao.errors import SchemaError
from pregao.safe_io.documents import DocumentError, read_file

MAX_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 64
MAX_ELEMENTS = 200_000
MAX_LEAVES = 20_000
"""Maximum number of fields of a schema or template file after expanding references.

References to types with two references each double the number with each line of a file.
"""
_SEPARATOR = "\n"  # cannot occur in a namespace or name


@dataclass(slots=True)
class Element:
    """An XML element: names without prefix, its file and line, its text."""

    tag: str
    namespace: str | None
    attributes: dict[str, str]
    file: str
    line: int
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def get(self, name: str) -> str | None:
        """Return the value of an attribute, or None."""
        return self.attributes.get(name)

    def described(self) -> str:
        """Return the element as error messages show it: ``<field name="price">``."""
        name = self.attributes.get("name")
        return f'<{self.tag} name="{name}">' if name is not None else f"<{self.tag}>"


def schema_error(element: Element, reason: str) -> SchemaError:
    """Return an error for an element, with its file, line and the element."""
    return SchemaError(f"{element.file}:{element.line}: {element.described()}: {reason}")


class Leaves:
    """Count of the expanded fields of a file; beyond the limit the file is rejected."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, element: Element, leaves: int = 1) -> None:
        """Count the fields that an element expands to."""
        self.count += leaves
        if self.count > MAX_LEAVES:
            raise schema_error(element, f"more than {MAX_LEAVES:,} fields, references expanded")


def read_tree(path: Path) -> Element:
    """Read an XML file into a tree, as `parse_tree` does."""
    try:
        source = read_file(path, max_bytes=MAX_BYTES)
    except OSError as error:
        raise SchemaError(f"{path}: cannot be read: {error.strerror or error}") from None
    except DocumentError as error:
        raise SchemaError(f"{path}: cannot be read as a schema file: {error}") from None
    return parse_tree(source, str(path))


def parse_tree(source: bytes, file_name: str) -> Element:
    """Parse XML into a tree. A DOCTYPE is allowed; an entity declaration is rejected.

    Nothing outside ``source`` is ever read; size, depth and element count are bounded.
    """
    if len(source) > MAX_BYTES:
        raise SchemaError(f"{file_name}: larger than {MAX_BYTES} bytes: not a schema file")
    return _TreeBuilder(file_name).build(source)


class _TreeBuilder:
    """State of one run of the XML parser."""

    def __init__(self, file_name: str) -> None:
        self.file_name = file_name
        self.open: list[Element] = []
        self.texts: list[list[str]] = []
        self.root: Element | None = None
        self.elements = 0
        self.parser = expat.ParserCreate(namespace_separator=_SEPARATOR)
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.characters
        self.parser.EntityDeclHandler = self.entity
        self.parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)

    def build(self, source: bytes) -> Element:
        try:
            self.parser.Parse(source, True)
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code)
            raise SchemaError(
                f"{self.file_name}:{error.lineno}: not well-formed XML: {reason}"
            ) from None
        except (LookupError, ValueError) as error:  # an encoding that Python does not support
            raise SchemaError(f"{self.file_name}: not readable as XML: {error}") from None
        if self.root is None:  # expat already rejects a document without a root
            raise SchemaError(f"{self.file_name}: no root element")
        return self.root

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.elements += 1
        line = self.parser.CurrentLineNumber
        namespace, _, tag = name.rpartition(_SEPARATOR)
        element = Element(tag, namespace or None, {}, self.file_name, line)
        for key, value in attributes.items():
            space, _, local = key.rpartition(_SEPARATOR)
            element.attributes[f"{{{space}}}{local}" if space else local] = value
        if len(self.open) >= MAX_DEPTH:
            raise schema_error(element, f"nested deeper than {MAX_DEPTH} levels")
        if self.elements > MAX_ELEMENTS:
            raise schema_error(element, f"more than {MAX_ELEMENTS} elements")
        if self.open:
            self.open[-1].children.append(element)
        else:
            self.root = element
        self.open.append(element)
        self.texts.append([])

    def end(self, _name: str) -> None:
        self.open.pop().text = "".join(self.texts.pop()).strip()

    def characters(self, text: str) -> None:
        if self.texts:
            self.texts[-1].append(text)

    def entity(self, name: str, *_rest: object) -> None:
        raise SchemaError(
            f"{self.file_name}:{self.parser.CurrentLineNumber}: declares the entity {name!r}; "
            "schema files with entities are not supported"
        )
