"""Encoding of integers, bytes and object references of columns."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

from pregao.errors import PregaoError

MAX_INTEGER_BYTES: Final = 64
_WIDTHS: Final = tuple(
    (width, code, -(1 << (8 * width - 1)), (1 << (8 * width - 1)) - 1)
    for width, code in ((1, "b"), (2, "h"), (4, "i"), (8, "q"))
)
_CODES: Final = {width: code for width, code, _, _ in _WIDTHS}


class ColumnError(PregaoError, ValueError):
    """Values are not of the declared types, or bytes do not encode values of them."""


class ColumnBytesWriter:
    """Output buffer, and the objects that it refers to."""

    def __init__(self, classes: int) -> None:
        self.parts: list[bytes] = []
        self._places: list[dict[int, int]] = [{} for _ in range(classes)]
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
        index_of, referenced = self._places[number], self._objects[number]
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
        """Return integers written by `Writer.integers`."""
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
