"""Columns: many values of one declared type as bytes.

A value that is not of the declared type cannot be written, and bytes that are no values of it
raise ``ColumnError``. Every number of values is at most the number of bytes there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date
from enum import Enum, Flag
from itertools import chain, repeat
from types import NoneType
from typing import Any, ClassVar, Final, Protocol

from pregao.exchange.host.column_bytes import ColumnError, Reader, Writer


class Column(Protocol):
    """How many values of one type are written and read at once."""

    kinds: frozenset[type]
    """The exact classes of its values."""

    def write(self, values: Sequence[Any], out: Writer) -> None:
        """Write values."""

    def read(self, count: int, source: Reader) -> list[Any]:
        """Read so many values."""


def _expect(values: Sequence[Any], kinds: frozenset[type]) -> None:
    """Refuse values of other classes, also of subclasses: they would be read as something else."""
    found = set(map(type, values)) - kinds
    if found:
        names = " and ".join(sorted(each.__name__ for each in found))
        wanted = " or ".join(sorted(each.__name__ for each in kinds))
        raise ColumnError(f"{names} where {wanted} is declared")


class _Kinds:
    """The base of the columns here."""

    def __init__(self, *kinds: type) -> None:
        self.kinds = frozenset(kinds)


class _Integers(_Kinds):
    def write(self, values: Sequence[Any], out: Writer) -> None:
        found = set(map(type, values))
        if found - self.kinds:
            # Where a number is declared, a member of an enumeration counts as its number.
            if not all(issubclass(each, int) and each is not bool for each in found):
                _expect(values, self.kinds)
            values = list(map(int, values))
        out.integers(values)

    def read(self, count: int, source: Reader) -> list[Any]:
        return list(source.integers(count))


class _Mapped(_Kinds):
    """Values that whole numbers stand for."""

    def __init__(
        self, kind: type, number: Callable[[Any], int], value: Callable[[int], Any]
    ) -> None:
        super().__init__(kind)
        self._number, self._value = number, value

    def write(self, values: Sequence[Any], out: Writer) -> None:
        _expect(values, self.kinds)
        out.integers(list(map(self._number, values)))

    def read(self, count: int, source: Reader) -> list[Any]:
        return list(map(self._value, source.integers(count)))


def _truth(number: int) -> bool:
    if number not in (0, 1):
        raise ColumnError(f"{number} is neither yes nor no")
    return number == 1


class _Bytes(_Kinds):
    def write(self, values: Sequence[Any], out: Writer) -> None:
        _expect(values, self.kinds)
        out.integers(list(map(len, values)))
        out.parts.extend(values)

    def read(self, count: int, source: Reader) -> list[Any]:
        lengths, total = source.lengths(count)
        data = source.take(total)
        found, start = [], 0
        for length in lengths:
            found.append(data[start : start + length])
            start += length
        return found


class _Text(_Kinds):
    _bytes: ClassVar = _Bytes(bytes)

    def write(self, values: Sequence[Any], out: Writer) -> None:
        _expect(values, self.kinds)
        self._bytes.write([each.encode() for each in values], out)

    def read(self, count: int, source: Reader) -> list[Any]:
        return [each.decode() for each in self._bytes.read(count, source)]


PLAIN: Final[dict[Any, Column]] = {
    int: _Integers(int),
    bool: _Mapped(bool, int, _truth),
    bytes: _Bytes(bytes),
    str: _Text(str),
    date: _Mapped(date, date.toordinal, date.fromordinal),
}


class MemberColumn(_Kinds):
    """Members of an enumeration by their place in it; flags by their bits."""

    def __init__(self, kind: type[Enum]) -> None:
        super().__init__(kind)
        self._kind = kind
        self._members = list(kind)
        self._numbers = {each: number for number, each in enumerate(self._members)}
        self._flags = issubclass(kind, Flag)
        self._bits = sum({each.value for each in self._members}) if self._flags else 0

    def write(self, values: Sequence[Any], out: Writer) -> None:
        """Write values."""
        _expect(values, self.kinds)
        if self._flags:
            out.integers([each.value for each in values])
        else:
            out.integers(list(map(self._numbers.__getitem__, values)))

    def read(self, count: int, source: Reader) -> list[Any]:
        """Read so many values."""
        numbers = source.integers(count)
        if numbers and (
            min(numbers) < 0 or (self._flags and any(n & ~self._bits for n in numbers))
        ):
            raise ColumnError(f"numbers that {self._kind.__name__} has not")
        make = self._kind if self._flags else self._members.__getitem__
        return list(map(make, numbers))


class ReferenceColumn(_Kinds):
    """Objects of a class by their numbers."""

    def __init__(self, kind: type, number: int) -> None:
        super().__init__(kind)
        self._number = number

    def write(self, values: Sequence[Any], out: Writer) -> None:
        """Write values."""
        _expect(values, self.kinds)
        out.reference(self._number, values)

    def read(self, count: int, source: Reader) -> list[Any]:
        """Read so many values."""
        numbers = source.integers(count)
        if numbers and min(numbers) < 0:
            raise ColumnError("an object with a number below 0")
        return list(map(source.objects[self._number].__getitem__, numbers))


class OptionalColumn(_Kinds):
    """Values that may be None."""

    _NONE, _ALL, _SOME = 0, 1, 2

    def __init__(self, inner: Column) -> None:
        super().__init__(NoneType, *inner.kinds)
        self._inner = inner

    def write(self, values: Sequence[Any], out: Writer) -> None:
        """Write values."""
        if not values:
            return
        there = [each for each in values if each is not None]
        if not there:
            out.parts.append(bytes((self._NONE,)))
        elif len(there) == len(values):
            out.parts.append(bytes((self._ALL,)))
        else:
            out.parts.append(bytes((self._SOME,)))
            out.parts.append(bytes([each is not None for each in values]))
        self._inner.write(there, out)

    def read(self, count: int, source: Reader) -> list[Any]:
        """Read so many values."""
        if not count:
            return []
        source.check(count)
        how = source.take(1)[0]
        if how == self._NONE:
            return [None] * count
        if how == self._ALL:
            return self._inner.read(count, source)
        there = source.take(count)
        if how != self._SOME or max(there) > 1:
            raise ColumnError("neither there nor None")
        found = iter(self._inner.read(sum(there), source))
        return [next(found) if each else None for each in there]


class UnionColumn(_Kinds):
    """Values of several types, each after its number among them."""

    def __init__(self, columns: Sequence[Column]) -> None:
        super().__init__(*chain.from_iterable(each.kinds for each in columns))
        if len(self.kinds) < sum(len(each.kinds) for each in columns):
            raise ColumnError("types of a union that cannot be told apart")
        self._columns = columns
        self._tags = {kind: tag for tag, each in enumerate(columns) for kind in each.kinds}

    def write(self, values: Sequence[Any], out: Writer) -> None:
        """Write values."""
        _expect(values, self.kinds)
        tags = bytes([self._tags[type(each)] for each in values])
        out.parts.append(tags)
        for number, column in enumerate(self._columns):
            column.write(
                [each for each, tag in zip(values, tags, strict=True) if tag == number], out
            )

    def read(self, count: int, source: Reader) -> list[Any]:
        """Read so many values."""
        tags = source.take(count)
        columns = self._columns
        found = [iter(each.read(tags.count(tag), source)) for tag, each in enumerate(columns)]
        return [next(found[tag]) for tag in tags]


class SequenceColumn(_Kinds):
    """Lists, sets and their like: how long they are, then all they hold."""

    def __init__(self, kind: type, inner: Column) -> None:
        super().__init__(kind)
        self._kind: Callable[[Any], Any] = kind
        self._inner = inner

    def write(self, values: Sequence[Any], out: Writer) -> None:
        """Write values."""
        _expect(values, self.kinds)
        out.integers(list(map(len, values)))
        self._inner.write(list(chain.from_iterable(values)), out)

    def read(self, count: int, source: Reader) -> list[Any]:
        """Read so many values."""
        lengths, total = source.lengths(count)
        items = self._inner.read(total, source)
        made, found, start = self._kind, [], 0
        for length in lengths:
            each = made(items[start : start + length])
            if len(each) != length:
                raise ColumnError("a set has something twice")
            found.append(each)
            start += length
        return found


class TableColumn(_Kinds):
    """Dictionaries: how long they are, then all keys, then all values."""

    def __init__(self, kind: type, keys: Column, values: Column) -> None:
        super().__init__(kind)
        self._kind: Callable[[Any], Any] = kind
        self._keys, self._values = keys, values

    def write(self, values: Sequence[Any], out: Writer) -> None:
        """Write values."""
        _expect(values, self.kinds)
        out.integers(list(map(len, values)))
        self._keys.write(list(chain.from_iterable(values)), out)
        self._values.write(list(chain.from_iterable(each.values() for each in values)), out)

    def read(self, count: int, source: Reader) -> list[Any]:
        """Read so many values."""
        lengths, total = source.lengths(count)
        keys, values = self._keys.read(total, source), self._values.read(total, source)
        found, start = [], 0
        for length in lengths:
            end = start + length
            each = dict(zip(keys[start:end], values[start:end], strict=True))
            if len(each) != length:
                raise ColumnError("a table has a key twice")
            found.append(each if self._kind is dict else self._kind(each))
            start = end
        return found


class RowColumn(_Kinds):
    """Tuples of a fixed length, with or without names: a column for each of their fields."""

    def __init__(
        self, kind: type, columns: Sequence[Column], make: Callable[[Iterable[Any]], Any]
    ) -> None:
        super().__init__(kind)
        self._columns, self._make = columns, make

    def write(self, values: Sequence[Any], out: Writer) -> None:
        """Write values."""
        _expect(values, self.kinds)
        if set(map(len, values)) - {len(self._columns)}:
            raise ColumnError("a tuple that is longer or shorter than declared")
        fields = zip(*values, strict=True) if values else repeat(())
        for column, each in zip(self._columns, fields, strict=False):
            column.write(each, out)

    def read(self, count: int, source: Reader) -> list[Any]:
        """Read so many values."""
        fields = [each.read(count, source) for each in self._columns]
        made = zip(*fields, strict=True)
        return list(made) if self._make is tuple else list(map(self._make, made))


class ClassColumn(_Kinds):
    """Values that are themselves one of some classes."""

    def __init__(self, classes: tuple[type, ...]) -> None:
        super().__init__(type)
        self._numbers = {each: number for number, each in enumerate(classes)}
        self._classes = classes

    def write(self, values: Sequence[Any], out: Writer) -> None:
        """Write values."""
        if not set(values) <= self._numbers.keys():
            raise ColumnError("a class that is not declared")
        out.integers([self._numbers[each] for each in values])

    def read(self, count: int, source: Reader) -> list[Any]:
        """Read so many values."""
        numbers = source.integers(count)
        if numbers and min(numbers) < 0:
            raise ColumnError("a class with a number below 0")
        return [self._classes[each] for each in numbers]
