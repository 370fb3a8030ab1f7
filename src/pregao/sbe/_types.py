"""Reader of the `<types>` of an SBE schema: simple types, composites, enumerations and sets."""

from __future__ import annotations

import math
import re

from pregao.sbe.model import (
    PRIMITIVES,
    Choice,
    Composite,
    Constant,
    EncodedType,
    EnumMember,
    EnumType,
    Member,
    Nature,
    Presence,
    Primitive,
    SetType,
    Type,
)
from pregao.xml_tree import MAX_DEPTH, Element, Leaves, schema_error

_TAGS = ("type", "composite", "enum", "set")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*\Z")
_WHOLE = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]{1,16}|[0-9]{1,20})")
_MAX_LENGTH = 1 << 20
MAX_BLOCK = 1 << 20
"""Maximum bytes of a composite or block; encoders build a block in one piece."""

ENCODINGS = frozenset({"ASCII", "USASCII", "ISO88591", "LATIN1", "UTF8"})
"""Character encodings that a schema may name, ignoring hyphens and case.

Python has many more, but some are not character encodings (``zlib_codec``), some need time
quadratic in the text (``punycode``) and some produce text that was not there (``unicode_escape``).
"""


class TypeReader:
    """Reader of types in any order of declaration; a type that contains itself is refused."""

    def __init__(self) -> None:
        self.types: dict[str, Type] = {
            name: EncodedType(name, primitive) for name, primitive in PRIMITIVES.items()
        }
        self._declared: dict[str, Element] = {}
        self._reading: list[str] = []
        self.leaves = Leaves()
        self._expanded: dict[int, tuple[int, int]] = {}
        """Fields and depth of each composite, by id(); the reader keeps the composites alive."""

    def read_types(self, sections: list[Element]) -> None:
        """Read all the types of a schema."""
        for section in sections:
            for element in section.children:
                if element.tag not in _TAGS:
                    raise schema_error(element, "not allowed in <types>")
                name = self.name(element)
                if name in self._declared:
                    raise schema_error(element, "another type has this name")
                self._declared[name] = element
        for name in self._declared:
            self._resolve(name)

    def type_named(self, element: Element, name: str) -> Type:
        """Return the type of that name, which the element uses."""
        if name not in self._declared and name not in self.types:
            raise schema_error(element, f"the type {name!r} is not declared")
        return self._resolve(name)

    def count(self, element: Element, kind: Type) -> int:
        """Count the fields that an element of a type expands to, and return their number."""
        leaves = 1
        if isinstance(kind, Composite):
            leaves = self._expanded[id(kind)][0]
        elif isinstance(kind, EncodedType) and kind.primitive.size > 1:
            leaves = kind.length  # each number of an array is decoded separately
        self.leaves.add(element, leaves)
        return leaves

    def _resolve(self, name: str) -> Type:
        element = self._declared.get(name)
        if element is None or (name in self.types and name not in PRIMITIVES):
            return self.types[name]
        if name in self._reading:
            if name in PRIMITIVES:  # a type may have the name of its primitive
                return EncodedType(name, PRIMITIVES[name])
            raise schema_error(element, "the type contains itself")
        if len(self._reading) > MAX_DEPTH:
            raise schema_error(element, f"types nested deeper than {MAX_DEPTH} levels")
        self._reading.append(name)
        found = self._type(element)
        self._reading.pop()
        self.types[name] = found
        if name in PRIMITIVES:
            del self._declared[name]
        return found

    def _type(self, element: Element) -> Type:
        match element.tag:
            case "type":
                return self._encoded(element)
            case "composite":
                return self._composite(element)
            case "enum":
                return self._enum(element)
            case _:
                return self._set(element)

    # Attributes

    def text(self, element: Element, name: str) -> str:
        """Return a mandatory attribute."""
        value = element.get(name)
        if value is None or not value.strip():
            raise schema_error(element, f"the attribute {name!r} is missing")
        return value.strip()

    def name(self, element: Element) -> str:
        """Return the element's name."""
        value = self.text(element, "name")
        if not _NAME.match(value):
            raise schema_error(element, f"{value!r} is not a name")
        return value

    def number(
        self, element: Element, name: str, low: int, high: int, default: int | None = None
    ) -> int:
        """Return an integer attribute in a range."""
        value = element.get(name)
        if value is None and default is not None:
            return default
        return self._whole(element, name, self.text(element, name), low, high)

    def since(self, element: Element) -> int:
        """Return the version that added the element."""
        return self.number(element, "sinceVersion", 0, 0xFFFF, default=0)

    def deprecated(self, element: Element) -> int | None:
        """Return the version that deprecated the element, or None."""
        if element.get("deprecated") is None:
            return None
        return self.number(element, "deprecated", 0, 0xFFFF)

    def presence(self, element: Element) -> Presence:
        """Return the element's presence."""
        value = element.get("presence") or "required"
        try:
            return Presence(value)
        except ValueError:
            raise schema_error(element, f"unknown presence {value!r}") from None

    def _whole(self, element: Element, what: str, text: str, low: int, high: int) -> int:
        if not _WHOLE.fullmatch(text):
            raise schema_error(element, f"{what} {text!r} is not an integer")
        value = int(text, 16 if "x" in text.lower() else 10)
        if not low <= value <= high:
            raise schema_error(element, f"{what} {value} is not from {low} to {high}")
        return value

    # Values

    def _primitive(self, element: Element, name: str) -> Primitive:
        if name not in PRIMITIVES:
            raise schema_error(element, f"unknown primitive type {name!r}")
        return PRIMITIVES[name]

    def _value(self, element: Element, what: str, text: str, primitive: Primitive) -> int | float:
        """Return a number of a primitive type; for a char also given as the character."""
        if primitive.nature is Nature.FLOAT:
            try:
                number = float(text)
            except ValueError:
                raise schema_error(element, f"{what} {text!r} is not a number") from None
            if math.isinf(number):
                raise schema_error(element, f"{what} {text!r} is not a finite number")
            return number
        if primitive.nature is Nature.CHAR and len(text) == 1 and text not in "0123456789":
            return self._character(element, text, primitive)
        return self._whole(element, what, text, primitive.minimum, primitive.maximum)

    def _character(self, element: Element, text: str, primitive: Primitive) -> int:
        """Return the value of an enumeration's member; for a char always the character."""
        if primitive.nature is Nature.CHAR:
            if len(text) != 1 or ord(text) > 0xFF:
                raise schema_error(element, f"{text!r} is not one character")
            return ord(text)
        return self._whole(element, "the value", text, primitive.minimum, primitive.maximum)

    def value_ref(self, element: Element, reference: str) -> tuple[EnumType, EnumMember]:
        """Return the enumeration and member that ``Enum.Member`` names."""
        owner_name, dot, member_name = reference.strip().partition(".")
        owner = self.type_named(element, owner_name) if dot else None
        if not isinstance(owner, EnumType):
            raise schema_error(element, f"valueRef {reference!r} is not Enumeration.Member")
        member = owner.member(member_name)
        if member is None:
            raise schema_error(element, f"{owner_name} has no member {member_name!r}")
        return owner, member

    def constant_text(self, element: Element, primitive: Primitive, text: str) -> Constant:
        """Return the value of a constant: text of chars, else a number."""
        if primitive.nature is Nature.CHAR:
            return text
        return self._value(element, "the constant", text, primitive)

    # Types

    def _encoding(self, element: Element) -> str | None:
        name = element.get("characterEncoding")
        if name is None:
            return None
        known = name.upper().replace("-", "").replace("_", "") in ENCODINGS
        if not known or not name.isascii():
            allowed = "US-ASCII, ISO-8859-1 or UTF-8"
            raise schema_error(element, f"the character encoding {name!r} is not {allowed}")
        return name

    def _encoded(self, element: Element) -> EncodedType:
        primitive = self._primitive(element, self.text(element, "primitiveType"))
        presence = self.presence(element)
        length = self.number(element, "length", 0, _MAX_LENGTH, default=1)
        constant: Constant | None = None
        if presence is Presence.CONSTANT:
            reference = element.get("valueRef")
            if reference is not None:
                constant = self.value_ref(element, reference)[1].value
            elif element.text:
                constant = self.constant_text(element, primitive, element.text)
            else:
                raise schema_error(element, "a constant type without a value")
            if isinstance(constant, str):
                if element.get("length") is not None and len(constant) > length:
                    raise schema_error(element, f"{constant!r} is longer than {length}")
                length = max(length, len(constant))
        bounds = {
            name: None
            if (text := element.get(name)) is None
            else self._value(element, name, text.strip(), primitive)
            for name in ("nullValue", "minValue", "maxValue")
        }
        return EncodedType(
            name=self.name(element),
            primitive=primitive,
            length=length,
            presence=presence,
            null_value=bounds["nullValue"],
            minimum=bounds["minValue"],
            maximum=bounds["maxValue"],
            character_encoding=self._encoding(element),
            semantic_type=element.get("semanticType"),
            constant=constant,
            since_version=self.since(element),
            deprecated=self.deprecated(element),
            description=element.get("description") or "",
        )

    def _composite(self, element: Element) -> Composite:
        members: list[Member] = []
        names: set[str] = set()
        position = leaves = 0
        for child in element.children:
            if child.tag == "ref":
                kind = self.type_named(child, self.text(child, "type"))
            elif child.tag in _TAGS:
                kind = self._type(child)
            else:
                raise schema_error(child, "not allowed in a composite")
            name = self.name(child)
            if name in names:
                raise schema_error(child, "another member of this composite has this name")
            names.add(name)
            leaves += self.count(child, kind)
            offset = self.number(child, "offset", 0, MAX_BLOCK, default=position)
            if kind.size and offset < position:
                raise schema_error(child, f"offset {offset} overlaps the member before it")
            if kind.size or offset > position:
                position = offset + kind.size
            if position > MAX_BLOCK:
                raise schema_error(child, f"ends after {MAX_BLOCK:,} bytes")
            members.append(
                Member(
                    name,
                    kind,
                    offset,
                    self.since(child),
                    self.deprecated(child),
                    child.get("description") or "",
                )
            )
        if not members:
            raise schema_error(element, "a composite without members")
        composite = Composite(
            name=self.name(element),
            members=tuple(members),
            size=position,
            semantic_type=element.get("semanticType"),
            since_version=self.since(element),
            deprecated=self.deprecated(element),
            description=element.get("description") or "",
        )
        inner = (self._expanded.get(id(member.type), (0, 0))[1] for member in members)
        depth = 1 + max(inner)
        if depth > MAX_DEPTH:
            raise schema_error(element, f"composites nested deeper than {MAX_DEPTH} levels")
        self._expanded[id(composite)] = leaves, depth
        return composite

    def _number_encoding(self, element: Element) -> EncodedType:
        """Return the encoding of an enumeration or set: a primitive, or a type of one."""
        name = self.text(element, "encodingType")
        found = self.type_named(element, name)
        if (
            not isinstance(found, EncodedType)
            or found.presence is Presence.CONSTANT
            or found.length != 1
            or found.primitive.nature is Nature.FLOAT
        ):
            raise schema_error(element, f"the encoding type {name!r} is not a number or a char")
        return found

    def _enum(self, element: Element) -> EnumType:
        encoding = self._number_encoding(element)
        members: list[EnumMember] = []
        names: set[str] = set()
        values: set[int] = set()
        for child in element.children:
            if child.tag != "validValue":
                raise schema_error(child, "not allowed in an enumeration")
            member = EnumMember(
                self.name(child),
                self._character(child, child.text, encoding.primitive),
                self.since(child),
                self.deprecated(child),
                child.get("description") or "",
            )
            self.leaves.add(child)
            if member.name in names:
                raise schema_error(child, "another member of this enumeration has this name")
            if member.value in values:
                raise schema_error(child, f"another member has the value {child.text!r}")
            names.add(member.name)
            values.add(member.value)
            members.append(member)
        return EnumType(
            name=self.name(element),
            encoding=encoding,
            members=tuple(members),
            semantic_type=element.get("semanticType"),
            since_version=self.since(element),
            deprecated=self.deprecated(element),
            description=element.get("description") or "",
        )

    def _set(self, element: Element) -> SetType:
        encoding = self._number_encoding(element)
        if encoding.primitive.nature is not Nature.UNSIGNED:
            raise schema_error(element, "a set must be encoded as an unsigned number")
        choices: list[Choice] = []
        for child in element.children:
            if child.tag != "choice":
                raise schema_error(child, "not allowed in a set")
            choice = Choice(
                self.name(child),
                self._whole(child, "the bit", child.text, 0, 8 * encoding.primitive.size - 1),
                self.since(child),
                self.deprecated(child),
                child.get("description") or "",
            )
            if any(choice.name == other.name for other in choices):
                raise schema_error(child, "another choice of this set has this name")
            if any(choice.bit == other.bit for other in choices):
                raise schema_error(child, f"another choice has the bit {choice.bit}")
            choices.append(choice)
        return SetType(
            name=self.name(element),
            encoding=encoding,
            choices=tuple(choices),
            semantic_type=element.get("semanticType"),
            since_version=self.since(element),
            deprecated=self.deprecated(element),
            description=element.get("description") or "",
        )
