"""Serialization of a graph of our own objects, bound to a fixed list of classes.

Objects are written class by class, and each field of a class as one column; a reference to an
object is its number among those of its class. The bytes name no class, module or function: a reader
with another list cannot read them. The recursion depth depends only on the declarations, not on
the bytes.
"""

from __future__ import annotations

import struct
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from itertools import repeat
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from pregao.exchange.host.checkpoints.columns import (
    PLAIN,
    ClassColumn,
    ColumnBytesReader,
    ColumnBytesWriter,
    ColumnError,
    MemberColumn,
    OptionalColumn,
    ReferenceColumn,
    RowColumn,
    SequenceColumn,
    StateColumn,
    StateTableColumn,
    UnionColumn,
)

_SEQUENCES: Final[tuple[type, ...]] = (list, set, frozenset, deque)
_MAX_DEPTH: Final = 16


class ColumnShape:
    """A class whose objects may be written, and the types of its fields.

    ``take`` returns the fields of an object where they are not its attributes, and ``fill`` sets
    them; ``begin`` prepares an empty object.
    """

    def __init__(
        self,
        cls: type,
        fields: Mapping[str, Any] | None = None,
        *,
        begin: Callable[[Any], None] | None = None,
        take: Callable[[Any], Sequence[Any]] | None = None,
        fill: Callable[[Any, tuple[Any, ...]], None] | None = None,
    ) -> None:
        self.cls = cls
        self.fields: dict[str, Any] = dict(get_type_hints(cls) if fields is None else fields)
        self.begin, self.take, self.fill = begin, take, fill

    def columns_of(self, objects: Sequence[Any]) -> Iterable[Sequence[Any]]:
        """Return the values of each field."""
        if self.take is not None:
            rows = [self.take(each) for each in objects]
            return zip(*rows, strict=True)
        return (list(map(attrgetter(name), objects)) for name in self.fields)

    def build(self, objects: Sequence[Any], columns: Sequence[Sequence[Any]]) -> None:
        """Set the fields of objects."""
        if self.fill is not None:
            deque(map(self.fill, objects, zip(*columns, strict=True)), maxlen=0)
            return
        for name, values in zip(self.fields, columns, strict=True):
            # A frozen record cannot be filled in another way after its creation.
            deque(map(object.__setattr__, objects, repeat(name), values), maxlen=0)


class StateSchema:
    """Classes whose objects may be written; the first is that of the root object."""

    def __init__(self, shapes: Iterable[ColumnShape]) -> None:
        self.shapes = list(shapes)
        self.numbers = {shape.cls: number for number, shape in enumerate(self.shapes)}
        self._columns: dict[Any, StateColumn] = {}
        self.fields = [
            [self._column(hint, 0) for hint in shape.fields.values()] for shape in self.shapes
        ]

    def pack(self, root: Any) -> bytes:
        """Serialize an object of the first class and all objects it refers to."""
        out = ColumnBytesWriter(len(self.shapes))
        out.reference(0, [root])
        batches: list[tuple[int, int]] = []
        waiting = True
        while waiting:
            waiting = False
            for number, shape in enumerate(self.shapes):
                objects = out.unwritten(number)
                if objects:
                    waiting = True
                    batches.append((number, len(objects)))
                    values = shape.columns_of(objects)
                    for column, each in zip(self.fields[number], values, strict=True):
                        column.write(each, out)
        head = ColumnBytesWriter(len(self.shapes))
        head.integers([len(batches)])
        for number, count in batches:
            head.integers([number, count])
        return b"".join(head.parts + out.parts)

    def unpack(self, data: bytes) -> Any:
        """Return the object that `pack` serialized."""
        try:
            return self._unpack(ColumnBytesReader(data))
        except ColumnError:
            raise
        except (ValueError, IndexError, TypeError, OverflowError, struct.error) as error:
            raise ColumnError(f"{type(error).__name__}: {error}") from error

    def _unpack(self, source: ColumnBytesReader) -> Any:
        (length,) = source.integers(1)
        source.check(length)
        batches = [tuple(source.integers(2)) for _ in range(length)]
        counts = [0] * len(self.shapes)
        for number, count in batches:
            if not 0 <= number < len(counts) or count < 1:
                raise ColumnError(f"invalid batch of {count} objects of class {number}")
            counts[number] += count
            source.check(counts[number])
        if counts[0] != 1:
            raise ColumnError(f"{counts[0]} root objects instead of one")
        for shape, count in zip(self.shapes, counts, strict=True):
            objects: list[Any] = [object.__new__(shape.cls) for _ in range(count)]
            if shape.begin is not None:
                deque(map(shape.begin, objects), maxlen=0)
            source.objects.append(objects)
        begun = [0] * len(self.shapes)
        for number, count in batches:
            columns = [each.read(count, source) for each in self.fields[number]]
            start = begun[number]
            begun[number] = start + count
            self.shapes[number].build(source.objects[number][start : start + count], columns)
        if not source.ended:
            raise ColumnError("unread bytes after the last object")
        return source.objects[0][0]

    def _column(self, hint: Any, depth: int) -> StateColumn:
        if depth > _MAX_DEPTH:
            raise ColumnError(f"{hint}: declared at more than {_MAX_DEPTH} levels of nesting")
        found = self._columns.get(hint)
        if found is None:
            found = self._columns[hint] = self._new_column(hint, depth + 1)
        return found

    def _new_column(self, hint: Any, depth: int) -> StateColumn:
        origin, inner = get_origin(hint), get_args(hint)
        if origin in (Union, UnionType):
            return self._union(inner, depth)
        if origin is tuple and not (len(inner) == 2 and inner[1] is Ellipsis):
            return RowColumn(tuple, [self._column(each, depth) for each in inner], tuple)
        if origin is tuple:
            return SequenceColumn(tuple, self._column(inner[0], depth))
        if origin in _SEQUENCES:
            return SequenceColumn(origin, self._column(inner[0], depth))
        if origin is type:
            return ClassColumn(get_args(inner[0]) or inner)
        if origin is dict:
            return StateTableColumn(
                dict, self._column(inner[0], depth), self._column(inner[1], depth)
            )
        if origin is Counter:
            return StateTableColumn(
                Counter, self._column(inner[0], depth), self._column(int, depth)
            )
        return self._plain(hint, depth)

    def _plain(self, hint: Any, depth: int) -> StateColumn:
        if hint in PLAIN:
            return PLAIN[hint]
        if hint in self.numbers:
            return ReferenceColumn(hint, self.numbers[hint])
        if isinstance(hint, type) and issubclass(hint, Enum):
            return MemberColumn(hint)
        if isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_make"):
            columns = [self._column(each, depth) for each in get_type_hints(hint).values()]
            return RowColumn(hint, columns, hint._make)
        raise ColumnError(f"{hint!r}: type cannot be serialized")

    def _union(self, inner: tuple[Any, ...], depth: int) -> StateColumn:
        kinds = [each for each in inner if each is not NoneType]
        columns = [self._column(each, depth) for each in kinds]
        column = columns[0] if len(columns) == 1 else UnionColumn(columns)
        return OptionalColumn(column) if len(kinds) < len(inner) else column
