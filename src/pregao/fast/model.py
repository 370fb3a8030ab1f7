"""Model of a FAST template file, with every reference and key resolved.

Decoders, encoders, the kernel's instruction table and columns all derive from this model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

MAX_EXPONENT = 63
"""Maximum absolute value of a decimal's exponent."""

MAX_ENTRIES = 10_000
"""Maximum number of entries of all sequences of one message."""

TEXT_FACTOR = 63
TEXT_ALLOWANCE = 1 << 20
"""Limit of the text that one message repeats: `TEXT_FACTOR` times its bytes plus this.

An entry can repeat a long text with one bit of the presence map, so the size of a message does not
bound its decoded size. The limit counts texts that are not in the stream: copied and default ones,
constants of entries, and texts completed by a delta or tail. The others cannot be longer than the
message, so that all together are at most 64 times its bytes plus 1 MiB.
"""


class FieldType(Enum):
    """Type of a field, or of one of the two parts of a decimal."""

    UINT32 = "uInt32"
    INT32 = "int32"
    UINT64 = "uInt64"
    INT64 = "int64"
    ASCII = "ASCII string"
    UNICODE = "Unicode string"
    BYTES = "byteVector"

    @property
    def is_number(self) -> bool:
        """Whether it is an integer type, not text or bytes."""
        return self in (FieldType.UINT32, FieldType.INT32, FieldType.UINT64, FieldType.INT64)

    @property
    def signed(self) -> bool:
        """Whether the number can be negative."""
        return self in (FieldType.INT32, FieldType.INT64)

    @property
    def minimum(self) -> int:
        """Smallest number of the type."""
        return {FieldType.INT32: -(1 << 31), FieldType.INT64: -(1 << 63)}.get(self, 0)

    @property
    def maximum(self) -> int:
        """Largest number of the type."""
        wide = self in (FieldType.UINT64, FieldType.INT64)
        return (1 << ((64 if wide else 32) - self.signed)) - 1


class Operator(Enum):
    """FAST operator: derives a field's value from the previous value and the stream."""

    NONE = "none"
    CONSTANT = "constant"
    DEFAULT = "default"
    COPY = "copy"
    INCREMENT = "increment"
    DELTA = "delta"
    TAIL = "tail"

    @property
    def remembers(self) -> bool:
        """Whether it keeps the previous value in a dictionary."""
        return self in (Operator.COPY, Operator.INCREMENT, Operator.DELTA, Operator.TAIL)


Value = int | str | bytes


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator with its initial value and the slot of its previous value."""

    operator: Operator = Operator.NONE
    initial: Value | None = None
    """Initial value; UTF-8 bytes for a Unicode string."""
    slot: int = -1
    """Index in `Templates.slots`; -1 if the operator keeps no previous value."""

    def bits(self, optional: bool) -> int:
        """Return the number of presence map bits it uses: 0 or 1."""
        if self.operator is Operator.CONSTANT:
            return int(optional)
        return int(self.operator not in (Operator.NONE, Operator.DELTA))


NO_OPERATION = Operation()


@dataclass(frozen=True, slots=True)
class FastField:
    """A field with an integer, text or bytes."""

    name: str
    id: int | None
    kind: FieldType
    optional: bool
    operation: Operation = NO_OPERATION

    @property
    def bits(self) -> int:
        """Number of presence map bits that it uses."""
        return self.operation.bits(self.optional)


@dataclass(frozen=True, slots=True)
class DecimalField:
    """A decimal: an exponent of ten (int32) and a mantissa (int64).

    In an optional decimal the exponent is optional; the mantissa and its bit are present only if
    the exponent is.
    """

    name: str
    id: int | None
    optional: bool
    exponent: Operation = NO_OPERATION
    mantissa: Operation = NO_OPERATION
    joint: bool = False
    """Whether both parts share one operator and one presence map bit, the exponent's."""

    @property
    def mantissa_bits(self) -> int:
        """Number of presence map bits of the mantissa, if it is present."""
        return 0 if self.joint else self.mantissa.bits(False)

    @property
    def bits(self) -> int:
        """Maximum number of presence map bits that it uses."""
        return self.exponent.bits(self.optional) + self.mantissa_bits


@dataclass(frozen=True, slots=True)
class FastGroup:
    """Fields that are present or absent together, with a presence map if they need one."""

    name: str
    id: int | None
    optional: bool
    parts: tuple[Part, ...]

    @property
    def bits(self) -> int:
        """Number of bits that it uses in the enclosing presence map."""
        return int(self.optional)

    @property
    def map_bits(self) -> int:
        """Maximum number of bits of its own presence map; 0 if it has none."""
        return sum(part.bits for part in self.parts)


@dataclass(frozen=True, slots=True)
class FastSequence:
    """A length and that number of entries, each with its own presence map if it needs one."""

    name: str
    id: int | None
    optional: bool
    length: FastField
    parts: tuple[Part, ...]

    @property
    def bits(self) -> int:
        """Number of bits that its length uses in the enclosing presence map."""
        return self.length.bits

    @property
    def map_bits(self) -> int:
        """Maximum number of bits of an entry's presence map; 0 if entries have none."""
        return sum(part.bits for part in self.parts)


@dataclass(frozen=True, slots=True)
class Reference:
    """A dynamic templateRef: a complete message whose template is named in the stream."""

    name: str

    @property
    def bits(self) -> int:
        """Number of bits in the enclosing presence map: none."""
        return 0


Part = FastField | DecimalField | FastGroup | FastSequence | Reference


@dataclass(frozen=True, slots=True)
class Template:
    """The layout of a message; one without an id can only be referenced by others."""

    name: str
    id: int | None
    parts: tuple[Part, ...]
    reset: bool = False
    """Whether all previous values are reset before a message of this template."""

    @property
    def map_bits(self) -> int:
        """Maximum bits of a message's presence map; the first one is the template id's."""
        return 1 + sum(part.bits for part in self.parts)


@dataclass(frozen=True, slots=True)
class Slot:
    """Storage of a previous value: a key of a dictionary."""

    dictionary: str
    key: str
    kinds: frozenset[FieldType]
    """Kinds of the fields that share it; reading a value of another kind is an error."""


@dataclass(frozen=True)
class Templates:
    """Templates of a file."""

    templates: tuple[Template, ...]
    slots: tuple[Slot, ...]
    file_name: str = ""

    @cached_property
    def by_id(self) -> dict[int, Template]:
        """Templates that have an id, by id."""
        return {each.id: each for each in self.templates if each.id is not None}

    @cached_property
    def by_name(self) -> dict[str, Template]:
        """Templates by name."""
        return {each.name: each for each in self.templates}


def walk(parts: tuple[Part, ...]) -> Iterator[Part]:
    """Yield all parts in stream order, including those inside groups and sequences."""
    for part in parts:
        yield part
        if isinstance(part, (FastGroup, FastSequence)):
            if isinstance(part, FastSequence):
                yield part.length
            yield from walk(part.parts)


def constant_text(parts: tuple[Part, ...]) -> int:
    """Return the bytes of an entry's constant texts; groups count as present."""
    total = 0
    for part in parts:
        if isinstance(part, FastGroup):
            total += constant_text(part.parts)
        elif isinstance(part, FastField) and part.operation.operator is Operator.CONSTANT:
            initial = part.operation.initial
            total += len(initial) if isinstance(initial, str | bytes) else 0
    return total


def slots_of(parts: tuple[Part, ...]) -> set[int]:
    """Return the slots of previous values that these parts use."""
    found: set[int] = set()
    for part in walk(parts):
        if isinstance(part, FastField):
            found.add(part.operation.slot)
        elif isinstance(part, DecimalField):
            found |= {part.exponent.slot, part.mantissa.slot}
    return found - {-1}
