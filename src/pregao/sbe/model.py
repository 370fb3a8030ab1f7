"""Model of an SBE schema, resolved to offsets, sizes and null values.

Codecs, column kernels, table schemas and documentation all derive from this model.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache, cached_property

LITTLE_ENDIAN_FRAME = 0xEB50
"""Encoding type in the framing header (SOFH) of a message in little-endian SBE 1.0."""


class Presence(Enum):
    """Whether a field is required, may be null, or is a constant that is not on the wire."""

    REQUIRED = "required"
    OPTIONAL = "optional"
    CONSTANT = "constant"


class Nature(Enum):
    """Nature of a primitive type."""

    CHAR = "char"
    SIGNED = "signed"
    UNSIGNED = "unsigned"
    FLOAT = "float"


@dataclass(frozen=True, slots=True)
class Primitive:
    """One of SBE's primitive types, with its range and default null value."""

    name: str
    nature: Nature
    size: int
    code: str
    """Letter of this type in a ``struct`` format; a char is read as a number."""

    @property
    def minimum(self) -> int:
        """Smallest number that fits the bytes."""
        return -(1 << (8 * self.size - 1)) if self.nature is Nature.SIGNED else 0

    @property
    def maximum(self) -> int:
        """Largest number that fits the bytes."""
        bits = 8 * self.size - (self.nature is Nature.SIGNED)
        return (1 << bits) - 1

    @property
    def null_value(self) -> int | float:
        """Default null value, unless the schema names another."""
        match self.nature:
            case Nature.CHAR:
                return 0
            case Nature.SIGNED:
                return self.minimum
            case Nature.UNSIGNED:
                return self.maximum
            case Nature.FLOAT:
                return math.nan


PRIMITIVES: Mapping[str, Primitive] = {
    primitive.name: primitive
    for primitive in (
        Primitive("char", Nature.CHAR, 1, "B"),
        Primitive("int8", Nature.SIGNED, 1, "b"),
        Primitive("int16", Nature.SIGNED, 2, "h"),
        Primitive("int32", Nature.SIGNED, 4, "i"),
        Primitive("int64", Nature.SIGNED, 8, "q"),
        Primitive("uint8", Nature.UNSIGNED, 1, "B"),
        Primitive("uint16", Nature.UNSIGNED, 2, "H"),
        Primitive("uint32", Nature.UNSIGNED, 4, "I"),
        Primitive("uint64", Nature.UNSIGNED, 8, "Q"),
        Primitive("float", Nature.FLOAT, 4, "f"),
        Primitive("double", Nature.FLOAT, 8, "d"),
    )
}

Constant = int | float | str


@dataclass(frozen=True, slots=True)
class EncodedType:
    """A simple type: a primitive, or an array of it, with its range and its null value."""

    name: str
    primitive: Primitive
    length: int = 1
    presence: Presence = Presence.REQUIRED
    null_value: int | float | None = None
    """Null value that the schema names; None for the primitive's default."""
    minimum: int | float | None = None
    maximum: int | float | None = None
    character_encoding: str | None = None
    semantic_type: str | None = None
    constant: Constant | None = None
    since_version: int = 0
    deprecated: int | None = None
    description: str = ""

    @property
    def size(self) -> int:
        """Number of bytes on the wire; a constant has none."""
        return 0 if self.presence is Presence.CONSTANT else self.primitive.size * self.length

    @property
    def null(self) -> int | float:
        """Value that means null."""
        return self.primitive.null_value if self.null_value is None else self.null_value


@dataclass(frozen=True, slots=True)
class EnumMember:
    """A named value of an enumeration."""

    name: str
    value: int
    since_version: int = 0
    deprecated: int | None = None
    description: str = ""


@dataclass(frozen=True, slots=True)
class EnumType:
    """A type with named values; other values are possible and kept as numbers."""

    name: str
    encoding: EncodedType
    members: tuple[EnumMember, ...]
    semantic_type: str | None = None
    since_version: int = 0
    deprecated: int | None = None
    description: str = ""

    @property
    def size(self) -> int:
        """Number of bytes on the wire."""
        return self.encoding.primitive.size

    @property
    def null(self) -> int:
        """Number that means null."""
        return int(self.encoding.null)

    def member(self, name: str) -> EnumMember | None:
        """Return the member of that name, or None."""
        return next((member for member in self.members if member.name == name), None)


@dataclass(frozen=True, slots=True)
class Choice:
    """A named bit of a set."""

    name: str
    bit: int
    since_version: int = 0
    deprecated: int | None = None
    description: str = ""


@dataclass(frozen=True, slots=True)
class SetType:
    """A type with named bits; other bits are possible and kept."""

    name: str
    encoding: EncodedType
    choices: tuple[Choice, ...]
    semantic_type: str | None = None
    since_version: int = 0
    deprecated: int | None = None
    description: str = ""

    @property
    def size(self) -> int:
        """Number of bytes on the wire."""
        return self.encoding.primitive.size

    def names(self, value: int) -> list[str]:
        """Return the names of the set bits; a bit without a name appears as its number."""
        names = {choice.bit: choice.name for choice in self.choices}
        return [names.get(bit, str(bit)) for bit in range(value.bit_length()) if value >> bit & 1]


@dataclass(frozen=True, slots=True)
class Member:
    """A part of a composite, at its offset in the composite."""

    name: str
    type: Type
    offset: int
    since_version: int = 0
    deprecated: int | None = None
    description: str = ""


@dataclass(frozen=True, slots=True)
class Composite:
    """A type composed of other types."""

    name: str
    members: tuple[Member, ...]
    size: int
    semantic_type: str | None = None
    since_version: int = 0
    deprecated: int | None = None
    description: str = ""

    def member(self, name: str) -> Member | None:
        """Return the member of that name, or None."""
        return next((member for member in self.members if member.name == name), None)


Type = EncodedType | EnumType | SetType | Composite


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a block, at its offset in the block; a constant has its value instead."""

    name: str
    id: int
    type: Type
    offset: int
    presence: Presence = Presence.REQUIRED
    constant: Constant | None = None
    since_version: int = 0
    deprecated: int | None = None
    semantic_type: str | None = None
    description: str = ""

    @property
    def size(self) -> int:
        """Number of bytes on the wire; a constant has none."""
        return 0 if self.presence is Presence.CONSTANT else self.type.size


@dataclass(frozen=True, slots=True)
class LengthField:
    """A number of a header: its primitive, and its offset in the header."""

    primitive: Primitive
    offset: int
    maximum: int


@dataclass(frozen=True, slots=True)
class Dimension:
    """The header of a repeating group, with its block length and entry count."""

    type: Composite
    block_length: LengthField
    num_in_group: LengthField

    @property
    def size(self) -> int:
        """Number of bytes of the header."""
        return self.type.size


@dataclass(frozen=True, slots=True)
class Data:
    """Variable-length data: a length, then that many bytes."""

    name: str
    id: int
    type: Composite
    length: LengthField
    header_size: int
    """Offset of the bytes from the start of the length's composite."""
    character_encoding: str | None
    since_version: int = 0
    deprecated: int | None = None
    semantic_type: str | None = None
    description: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """A repeating group: a block per entry, which may have its own groups and data."""

    name: str
    id: int
    dimension: Dimension
    block_length: int
    fields: tuple[Field, ...]
    groups: tuple[Group, ...] = ()
    data: tuple[Data, ...] = ()
    since_version: int = 0
    deprecated: int | None = None
    description: str = ""


@dataclass(frozen=True, slots=True)
class MessageTemplate:
    """A message template."""

    name: str
    id: int
    block_length: int
    fields: tuple[Field, ...]
    groups: tuple[Group, ...] = ()
    data: tuple[Data, ...] = ()
    since_version: int = 0
    deprecated: int | None = None
    semantic_type: str | None = None
    description: str = ""


Block = MessageTemplate | Group
"""A structure of fixed fields, then groups, then data."""


@dataclass(frozen=True, slots=True)
class Header:
    """The message header, with the four numbers that select how to decode a message."""

    type: Composite
    block_length: LengthField
    template_id: LengthField
    schema_id: LengthField
    version: LengthField

    @property
    def size(self) -> int:
        """Number of bytes of the header."""
        return self.type.size


@dataclass(frozen=True)
class Schema:
    """A message schema of one version."""

    package: str
    id: int
    version: int
    semantic_version: str
    big_endian: bool
    header: Header
    types: Mapping[str, Type]
    messages: tuple[MessageTemplate, ...]
    description: str = ""
    file_name: str = ""

    @cached_property
    def by_id(self) -> Mapping[int, MessageTemplate]:
        """Messages by template id."""
        return {message.id: message for message in self.messages}

    @cached_property
    def by_name(self) -> Mapping[str, MessageTemplate]:
        """Messages by name."""
        return {message.name: message for message in self.messages}

    @property
    def byte_order(self) -> str:
        """Character of the byte order in a ``struct`` format."""
        return ">" if self.big_endian else "<"


def blocks(block: Block) -> Iterator[Block]:
    """Yield a message or group and, depth first, all groups in it."""
    yield block
    for group in block.groups:
        yield from blocks(group)


_ACRONYM_END = re.compile(r"([A-Z]+)([A-Z][a-z])")
_WORD_START = re.compile(r"([a-z0-9])([A-Z])")


@cache
def snake_case(name: str) -> str:
    """Convert a name to snake_case; acronyms stay together (``mDEntryPx`` → ``md_entry_px``)."""
    name = name[:1].upper() + name[1:]
    name = _ACRONYM_END.sub(r"\1_\2", name)
    name = _WORD_START.sub(r"\1_\2", name)
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def is_padding(name: str) -> bool:
    """Whether a field is only padding."""
    return name.lower().startswith("padding")
