"""Columns: serialization of many values of one declared type.

Values of another type cannot be written, and bytes that do not encode values of the type raise
``ColumnError``. A number of values never exceeds the number of bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from enum import Enum, Flag
from itertools import chain, repeat
from types import NoneType
from typing import Any, ClassVar, Final, Protocol

from pregao.errors import PregaoError

MAX_INTEGER_BYTES: Final = 64
_WIDTHS: Final = tuple(
    (width, code, -(1 << (8 * width - 1)), (1 << (8 * width - 1)) - 1)
    for width, code in ((1, "b"), (2, "h"), (4, "i"), (8, "q"))
)
_CODES: Final = {width: code for width, code, _, _ in _WIDTHS}


# --- Bytes ---


class ColumnError(PregaoError, ValueError):
    """Values are not of the declared types, or bytes do not encode values of them."""


class ColumnBytesWriter:
    """Output buffer, and the objects that it refers to."""

    def __init__(self, classes: int) -> None:
        self.parts: list[bytes] = []
        self._indexes: list[dict[int, int]] = [{} for _ in range(classes)]
        self._objects: list[list[Any]] = [[] for _ in range(classes)]
        self._written = [0] * classes

    def integers(self, values: Sequence[int]) -> None:
        """Write integers, each with as few bytes as the largest needs."""
        if not values:
            return
        low, high = min(values), max(values)
        for width, code, smallest, largest in _WIDTHS:
            if smallest <= low and high <= largest:
                self.parts.append(bytes((width,)))
                self.parts.append(struct.pack(f"<{len(values)}{code}", *values))
                return
        width = max(low.bit_length(), high.bit_length()) // 8 + 1
        if width > MAX_INTEGER_BYTES:
            raise ColumnError(f"integer of {width} bytes, at most {MAX_INTEGER_BYTES} are allowed")
        self.parts.append(bytes((width,)))
        self.parts.append(b"".join(each.to_bytes(width, "little", signed=True) for each in values))

    def reference(self, number: int, objects: Sequence[Any]) -> None:
        """Write the numbers of objects of a class; new objects are written later."""
        index_of, referenced = self._indexes[number], self._objects[number]
        indices = []
        for each in objects:
            index = index_of.get(id(each))
            if index is None:
                index = index_of[id(each)] = len(referenced)
                referenced.append(each)
            indices.append(index)
        if number:  # the root object has no number
            self.integers(indices)

    def unwritten(self, number: int) -> list[Any]:
        """Return the objects of a class that were referred to but not written yet."""
        start = self._written[number]
        self._written[number] = len(self._objects[number])
        return self._objects[number][start:]


class ColumnBytesReader:
    """Input buffer, and the objects that it refers to."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0
        self.objects: list[list[Any]] = []

    @property
    def ended(self) -> bool:
        """Whether all bytes have been read."""
        return self._position == len(self._data)

    def check(self, count: int) -> None:
        """Refuse a number of values that the data cannot contain."""
        if not 0 <= count <= len(self._data):
            raise ColumnError(f"{count} values do not fit in {len(self._data)} bytes")

    def take(self, size: int) -> bytes:
        """Return the next ``size`` bytes."""
        start = self._position
        end = start + size
        if size < 0 or end > len(self._data):
            raise ColumnError(f"data ends {end - len(self._data)} bytes too early")
        self._position = end
        return self._data[start:end]

    def integers(self, count: int) -> tuple[int, ...]:
        """Return integers written by `ColumnBytesWriter.integers`."""
        if not count:
            return ()
        self.check(count)
        width = self.take(1)[0]
        code = _CODES.get(width)
        if code is not None:
            return struct.unpack(f"<{count}{code}", self.take(width * count))
        if not 8 < width <= MAX_INTEGER_BYTES:
            raise ColumnError(f"invalid integer width of {width} bytes")
        data = self.take(width * count)
        return tuple(
            int.from_bytes(data[start : start + width], "little", signed=True)
            for start in range(0, len(data), width)
        )

    def lengths(self, count: int) -> tuple[tuple[int, ...], int]:
        """Return lengths of values, and their sum."""
        found = self.integers(count)
        if found and min(found) < 0:
            raise ColumnError("negative length")
        total = sum(found)
        self.check(total)
        return found, total


# --- Columns of values ---


class StateColumn(Protocol):
    """Writes and reads many values of one type."""

    kinds: frozenset[type]
    """Exact classes of its values."""

    def write(self, values: Sequence[Any], out: ColumnBytesWriter) -> None:
        """Write values."""

    def read(self, count: int, source: ColumnBytesReader) -> list[Any]:
        """Read ``count`` values."""


def _expect(values: Sequence[Any], kinds: frozenset[type]) -> None:
    """Refuse values of other classes, also of subclasses: they would be read as another type."""
    found = set(map(type, values)) - kinds
    if found:
        names = " and ".join(sorted(each.__name__ for each in found))
        declared = " or ".join(sorted(each.__name__ for each in kinds))
        raise ColumnError(f"value of type {names}, declared {declared}")


class _Kinds:
    """Base class of the columns of this module."""

    def __init__(self, *kinds: type) -> None:
        self.kinds = frozenset(kinds)


class _Integers(_Kinds):
    def write(self, values: Sequence[Any], out: ColumnBytesWriter) -> None:
        found = set(map(type, values))
        if found - self.kinds:
            # An enum member is accepted as its number where an integer is declared.
            if not all(issubclass(each, int) and each is not bool for each in found):
                _expect(values, self.kinds)
            values = list(map(int, values))
        out.integers(values)

    def read(self, count: int, source: ColumnBytesReader) -> list[Any]:
        return list(source.integers(count))


class _Mapped(_Kinds):
    """Values that are stored as integers."""

    def __init__(
        self, kind: type, number: Callable[[Any], int], value: Callable[[int], Any]
    ) -> None:
        super().__init__(kind)
        self._number, self._value = number, value

    def write(self, values: Sequence[Any], out: ColumnBytesWriter) -> None:
        _expect(values, self.kinds)
        out.integers(list(map(self._number, values)))

    def read(self, count: int, source: ColumnBytesReader) -> list[Any]:
        return list(map(self._value, source.integers(count)))


def _truth(number: int) -> bool:
    if number not in (0, 1):
        raise ColumnError(f"boolean must be 0 or 1, was {number}")
    return number == 1


class _Bytes(_Kinds):
    def write(self, values: Sequence[Any], out: ColumnBytesWriter) -> None:
        _expect(values, self.kinds)
        out.integers(list(map(len, values)))
        out.parts.extend(values)

    def read(self, count: int, source: ColumnBytesReader) -> list[Any]:
        lengths, total = source.lengths(count)
        data = source.take(total)
        found, start = [], 0
        for length in lengths:
            found.append(data[start : start + length])
            start += length
        return found


class _Text(_Kinds):
    _bytes: ClassVar = _Bytes(bytes)

    def write(self, values: Sequence[Any], out: ColumnBytesWriter) -> None:
        _expect(values, self.kinds)
        self._bytes.write([each.encode() for each in values], out)

    def read(self, count: int, source: ColumnBytesReader) -> list[Any]:
        return [each.decode() for each in self._bytes.read(count, source)]


PLAIN: Final[dict[Any, StateColumn]] = {
    int: _Integers(int),
    bool: _Mapped(bool, int, _truth),
    bytes: _Bytes(bytes),
    str: _Text(str),
    date: _Mapped(date, date.toordinal, date.fromordinal),
}


class MemberColumn(_Kinds):
    """Members of an enumeration by their index; flags by their bits."""

    def __init__(self, kind: type[Enum]) -> None:
        super().__init__(kind)
        self._kind = kind
        self._members = list(kind)
        self._numbers = {each: number for number, each in enumerate(self._members)}
        self._flags = issubclass(kind, Flag)
        self._bits = sum({each.value for each in self._members}) if self._flags else 0

    def write(self, values: Sequence[Any], out: ColumnBytesWriter) -> None:
        """Write values."""
        _expect(values, self.kinds)
        if self._flags:
            out.integers([each.value for each in values])
        else:
            out.integers(list(map(self._numbers.__getitem__, values)))

    def read(self, count: int, source: ColumnBytesReader) -> list[Any]:
        """Read ``count`` values."""
        numbers = source.integers(count)
        if numbers and (
            min(numbers) < 0 or (self._flags and any(n & ~self._bits for n in numbers))
        ):
            raise ColumnError(f"number without a member in {self._kind.__name__}")
        make = self._kind if self._flags else self._members.__getitem__
        return list(map(make, numbers))


class ReferenceColumn(_Kinds):
    """Objects of a class by their numbers."""

    def __init__(self, kind: type, number: int) -> None:
        super().__init__(kind)
        self._number = number

    def write(self, values: Sequence[Any], out: ColumnBytesWriter) -> None:
        """Write values."""
        _expect(values, self.kinds)
        out.reference(self._number, values)

    def read(self, count: int, source: ColumnBytesReader) -> list[Any]:
        """Read ``count`` values."""
        numbers = source.integers(count)
        if numbers and min(numbers) < 0:
            raise ColumnError("negative object number")
        return list(map(source.objects[self._number].__getitem__, numbers))


class OptionalColumn(_Kinds):
    """Values that may be None."""

    _NONE, _ALL, _SOME = 0, 1, 2

    def __init__(self, inner: StateColumn) -> None:
        super().__init__(NoneType, *inner.kinds)
        self._inner = inner

    def write(self, values: Sequence[Any], out: ColumnBytesWriter) -> None:
        """Write values."""
        if not values:
            return
        present = [each for each in values if each is not None]
        if not present:
            out.parts.append(bytes((self._NONE,)))
        elif len(present) == len(values):
            out.parts.append(bytes((self._ALL,)))
        else:
            out.parts.append(bytes((self._SOME,)))
            out.parts.append(bytes([each is not None for each in values]))
        self._inner.write(present, out)

    def read(self, count: int, source: ColumnBytesReader) -> list[Any]:
        """Read ``count`` values."""
        if not count:
            return []
        source.check(count)
        marker = source.take(1)[0]
        if marker == self._NONE:
            return [None] * count
        if marker == self._ALL:
            return self._inner.read(count, source)
        present = source.take(count)
        if marker != self._SOME or max(present) > 1:
            raise ColumnError("invalid presence marker of an optional value")
        found = iter(self._inner.read(sum(present), source))
        return [next(found) if each else None for each in present]


class UnionColumn(_Kinds):
    """Values of several types, with the index of each value's type."""

    def __init__(self, columns: Sequence[StateColumn]) -> None:
        super().__init__(*chain.from_iterable(each.kinds for each in columns))
        if len(self.kinds) < sum(len(each.kinds) for each in columns):
            raise ColumnError("types of a union that cannot be distinguished")
        self._columns = columns
        self._tags = {kind: tag for tag, each in enumerate(columns) for kind in each.kinds}

    def write(self, values: Sequence[Any], out: ColumnBytesWriter) -> None:
        """Write values."""
        _expect(values, self.kinds)
        tags = bytes([self._tags[type(each)] for each in values])
        out.parts.append(tags)
        for number, column in enumerate(self._columns):
            column.write(
                [each for each, tag in zip(values, tags, strict=True) if tag == number], out
            )

    def read(self, count: int, source: ColumnBytesReader) -> list[Any]:
        """Read ``count`` values."""
        tags = source.take(count)
        columns = self._columns
        found = [iter(each.read(tags.count(tag), source)) for tag, each in enumerate(columns)]
        return [next(found[tag]) for tag in tags]


class SequenceColumn(_Kinds):
    """Lists, sets and similar: all lengths, then all items."""

    def __init__(self, kind: type, inner: StateColumn) -> None:
        super().__init__(kind)
        self._kind: Callable[[Any], Any] = kind
        self._inner = inner

    def write(self, values: Sequence[Any], out: ColumnBytesWriter) -> None:
        """Write values."""
        _expect(values, self.kinds)
        out.integers(list(map(len, values)))
        self._inner.write(list(chain.from_iterable(values)), out)

    def read(self, count: int, source: ColumnBytesReader) -> list[Any]:
        """Read ``count`` values."""
        lengths, total = source.lengths(count)
        items = self._inner.read(total, source)
        make, found, start = self._kind, [], 0
        for length in lengths:
            each = make(items[start : start + length])
            if len(each) != length:
                raise ColumnError("duplicate item in a set")
            found.append(each)
            start += length
        return found


class StateTableColumn(_Kinds):
    """Dictionaries: all lengths, then all keys, then all values."""

    def __init__(self, kind: type, keys: StateColumn, values: StateColumn) -> None:
        super().__init__(kind)
        self._kind: Callable[[Any], Any] = kind
        self._keys, self._values = keys, values

    def write(self, values: Sequence[Any], out: ColumnBytesWriter) -> None:
        """Write values."""
        _expect(values, self.kinds)
        out.integers(list(map(len, values)))
        self._keys.write(list(chain.from_iterable(values)), out)
        self._values.write(list(chain.from_iterable(each.values() for each in values)), out)

    def read(self, count: int, source: ColumnBytesReader) -> list[Any]:
        """Read ``count`` values."""
        lengths, total = source.lengths(count)
        keys, values = self._keys.read(total, source), self._values.read(total, source)
        found, start = [], 0
        for length in lengths:
            end = start + length
            each = dict(zip(keys[start:end], values[start:end], strict=True))
            if len(each) != length:
                raise ColumnError("duplicate key in a table")
            found.append(each if self._kind is dict else self._kind(each))
            start = end
        return found


class RowColumn(_Kinds):
    """Tuples of a fixed length, named or not: one column per field."""

    def __init__(
        self, kind: type, columns: Sequence[StateColumn], make: Callable[[Iterable[Any]], Any]
    ) -> None:
        super().__init__(kind)
        self._columns, self._make = columns, make

    def write(self, values: Sequence[Any], out: ColumnBytesWriter) -> None:
        """Write values."""
        _expect(values, self.kinds)
        if set(map(len, values)) - {len(self._columns)}:
            raise ColumnError(f"tuple whose length is not the declared {len(self._columns)}")
        fields = zip(*values, strict=True) if values else repeat(())
        for column, each in zip(self._columns, fields, strict=False):
            column.write(each, out)

    def read(self, count: int, source: ColumnBytesReader) -> list[Any]:
        """Read ``count`` values."""
        fields = [each.read(count, source) for each in self._columns]
        rows = zip(*fields, strict=True)
        return list(rows) if self._make is tuple else list(map(self._make, rows))


class ClassColumn(_Kinds):
    """Values that are classes, from a fixed list."""

    def __init__(self, classes: tuple[type, ...]) -> None:
        super().__init__(type)
        self._numbers = {each: number for number, each in enumerate(classes)}
        self._classes = classes

    def write(self, values: Sequence[Any], out: ColumnBytesWriter) -> None:
        """Write values."""
        if not set(values) <= self._numbers.keys():
            raise ColumnError("class that is not declared")
        out.integers([self._numbers[each] for each in values])

    def read(self, count: int, source: ColumnBytesReader) -> list[Any]:
        """Read ``count`` values."""
        numbers = source.integers(count)
        if numbers and min(numbers) < 0:
            raise ColumnError("negative class number")
        return [self._classes[each] for each in numbers]
