"""The template model: what a FAST template file says, with every reference and key resolved.

Decoders, encoders, the instruction table of the kernel and columns all derive from this model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

MAX_EXPONENT = 63
"""The exponent of a decimal is between this and its negative."""

MAX_ENTRIES = 10_000
"""Entries of all sequences of one message."""

TEXT_FACTOR = 63
TEXT_ALLOWANCE = 1 << 20
"""Bounds of the text that one message repeats: this factor of its bytes, and this.

An entry can repeat a long text for one bit of the presence map, so that the size of a message says
nothing of what it decodes to. Counted are texts that the stream does not hold: copied and default
ones, constants of entries, and texts that a difference or a tail completes. The others cannot be
longer than the message, so that all together are at most 64 times its bytes and 1 MiB.
"""


class Kind(Enum):
    """What a field holds; of a decimal, what each of its two parts holds."""

    UINT32 = "uInt32"
    INT32 = "int32"
    UINT64 = "uInt64"
    INT64 = "int64"
    ASCII = "ASCII string"
    UNICODE = "Unicode string"
    BYTES = "byteVector"

    @property
    def is_number(self) -> bool:
        """Is it a whole number, and not a text or bytes?"""
        return self in (Kind.UINT32, Kind.INT32, Kind.UINT64, Kind.INT64)

    @property
    def signed(self) -> bool:
        """Can the number be negative?"""
        return self in (Kind.INT32, Kind.INT64)

    @property
    def minimum(self) -> int:
        """The smallest number."""
        return {Kind.INT32: -(1 << 31), Kind.INT64: -(1 << 63)}.get(self, 0)

    @property
    def maximum(self) -> int:
        """The largest number."""
        wide = self in (Kind.UINT64, Kind.INT64)
        return (1 << ((64 if wide else 32) - self.signed)) - 1


class Operator(Enum):
    """How a field's value follows from what was before and what is in the stream."""

    NONE = "none"
    CONSTANT = "constant"
    DEFAULT = "default"
    COPY = "copy"
    INCREMENT = "increment"
    DELTA = "delta"
    TAIL = "tail"

    @property
    def remembers(self) -> bool:
        """Does it keep the previous value in a dictionary?"""
        return self in (Operator.COPY, Operator.INCREMENT, Operator.DELTA, Operator.TAIL)


Value = int | str | bytes


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator with its initial value and the place of its previous value."""

    operator: Operator = Operator.NONE
    initial: Value | None = None
    """A Unicode string's is its UTF-8 bytes."""
    slot: int = -1
    """The place in `Templates.slots`; -1 where nothing is kept."""

    def bits(self, optional: bool) -> int:
        """How many bits of the presence map it takes: none or one."""
        if self.operator is Operator.CONSTANT:
            return int(optional)
        return int(self.operator not in (Operator.NONE, Operator.DELTA))


NO_OPERATION = Operation()


@dataclass(frozen=True, slots=True)
class Field:
    """A number, a text or bytes."""

    name: str
    id: int | None
    kind: Kind
    optional: bool
    operation: Operation = NO_OPERATION

    @property
    def bits(self) -> int:
        """How many bits of the presence map it takes."""
        return self.operation.bits(self.optional)


@dataclass(frozen=True, slots=True)
class DecimalField:
    """A decimal: an exponent of ten (int32) and a mantissa (int64).

    Of an optional one the exponent is optional; the mantissa and its bit are there only where the
    exponent is.
    """

    name: str
    id: int | None
    optional: bool
    exponent: Operation = NO_OPERATION
    mantissa: Operation = NO_OPERATION
    joint: bool = False
    """One operator for both, with one bit of the presence map: that of the exponent."""

    @property
    def mantissa_bits(self) -> int:
        """How many bits the mantissa takes where there is one."""
        return 0 if self.joint else self.mantissa.bits(False)

    @property
    def bits(self) -> int:
        """The most bits of the presence map that it takes."""
        return self.exponent.bits(self.optional) + self.mantissa_bits


@dataclass(frozen=True, slots=True)
class Group:
    """Fields that are there together or not at all, with a presence map if they need one."""

    name: str
    id: int | None
    optional: bool
    parts: tuple[Part, ...]

    @property
    def bits(self) -> int:
        """How many bits of the presence map around it it takes."""
        return int(self.optional)

    @property
    def map_bits(self) -> int:
        """The most bits of its own presence map; 0 if it has none."""
        return sum(part.bits for part in self.parts)


@dataclass(frozen=True, slots=True)
class Sequence:
    """A length and so many entries, each with a presence map of its own if it needs one."""

    name: str
    id: int | None
    optional: bool
    length: Field
    parts: tuple[Part, ...]

    @property
    def bits(self) -> int:
        """How many bits of the presence map around it it takes: those of its length."""
        return self.length.bits

    @property
    def map_bits(self) -> int:
        """The most bits of the presence map of an entry; 0 if entries have none."""
        return sum(part.bits for part in self.parts)


@dataclass(frozen=True, slots=True)
class Reference:
    """A place for a whole message of a template that the stream names."""

    name: str

    @property
    def bits(self) -> int:
        """It takes no bit of the presence map around it."""
        return 0


Part = Field | DecimalField | Group | Sequence | Reference


@dataclass(frozen=True, slots=True)
class Template:
    """The layout of a message; one without an id is only there to be referred to."""

    name: str
    id: int | None
    parts: tuple[Part, ...]
    reset: bool = False
    """Are all previous values forgotten before a message of it?"""

    @property
    def map_bits(self) -> int:
        """The most bits of a message's presence map; the first one is the template id's."""
        return 1 + sum(part.bits for part in self.parts)


@dataclass(frozen=True, slots=True)
class Slot:
    """A place for a previous value: a key of a dictionary."""

    dictionary: str
    key: str
    kinds: frozenset[Kind]
    """What the fields that share it hold. If they differ, a value of another kind is an error."""


@dataclass(frozen=True)
class Templates:
    """The templates of a file."""

    templates: tuple[Template, ...]
    slots: tuple[Slot, ...]
    file_name: str = ""

    @cached_property
    def by_id(self) -> dict[int, Template]:
        """The templates that a stream can name."""
        return {each.id: each for each in self.templates if each.id is not None}

    @cached_property
    def by_name(self) -> dict[str, Template]:
        """The templates by name."""
        return {each.name: each for each in self.templates}


def walk(parts: tuple[Part, ...]) -> Iterator[Part]:
    """All parts, those within groups and sequences too, in the order of the stream."""
    for part in parts:
        yield part
        if isinstance(part, (Group, Sequence)):
            if isinstance(part, Sequence):
                yield part.length
            yield from walk(part.parts)


def constant_text(parts: tuple[Part, ...]) -> int:
    """Bytes of the constant texts of an entry; those in groups count as present."""
    total = 0
    for part in parts:
        if isinstance(part, Group):
            total += constant_text(part.parts)
        elif isinstance(part, Field) and part.operation.operator is Operator.CONSTANT:
            initial = part.operation.initial
            total += len(initial) if isinstance(initial, str | bytes) else 0
    return total


def slots_of(parts: tuple[Part, ...]) -> set[int]:
    """The places of previous values that these parts use."""
    found: set[int] = set()
    for part in walk(parts):
        if isinstance(part, Field):
            found.add(part.operation.slot)
        elif isinstance(part, DecimalField):
            found |= {part.exponent.slot, part.mantissa.slot}
    return found - {-1}
