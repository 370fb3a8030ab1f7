"""Whole numbers and bytes of columns, and the objects that they refer to."""

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
    """Values are not of the declared types, or bytes are no values of them."""


class Writer:
    """Bytes that grow, and the objects that they refer to."""

    def __init__(self, classes: int) -> None:
        self.parts: list[bytes] = []
        self._places: list[dict[int, int]] = [{} for _ in range(classes)]
        self._objects: list[list[Any]] = [[] for _ in range(classes)]
        self._written = [0] * classes

    def integers(self, values: Sequence[int]) -> None:
        """Write whole numbers with as few bytes each as the largest needs."""
        if not values:
            return
        low, high = min(values), max(values)
        for width, code, least, largest in _WIDTHS:
            if least <= low and high <= largest:
                self.parts.append(bytes((width,)))
                self.parts.append(struct.pack(f"<{len(values)}{code}", *values))
                return
        width = max(low.bit_length(), high.bit_length()) // 8 + 1
        if width > MAX_INTEGER_BYTES:
            raise ColumnError(f"a number has more than {MAX_INTEGER_BYTES} bytes")
        self.parts.append(bytes((width,)))
        self.parts.append(b"".join(each.to_bytes(width, "little", signed=True) for each in values))

    def reference(self, number: int, objects: Sequence[Any]) -> None:
        """Write the numbers of objects of a class; what is new is written later."""
        places, known = self._places[number], self._objects[number]
        found = []
        for each in objects:
            place = places.get(id(each))
            if place is None:
                place = places[id(each)] = len(known)
                known.append(each)
            found.append(place)
        if number:  # the whole is written without a number
            self.integers(found)

    def unwritten(self, number: int) -> list[Any]:
        """The objects of a class that were referred to and are to be written now."""
        start = self._written[number]
        self._written[number] = len(self._objects[number])
        return self._objects[number][start:]


class Reader:
    """Bytes that are read from the beginning, and the objects that they refer to."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0
        self.objects: list[list[Any]] = []

    @property
    def ended(self) -> bool:
        """Whether all bytes are read."""
        return self._position == len(self._data)

    def check(self, count: int) -> None:
        """Refuse a number of values that so few bytes cannot hold."""
        if not 0 <= count <= len(self._data):
            raise ColumnError(f"{count} values cannot be in {len(self._data)} bytes")

    def take(self, size: int) -> bytes:
        """The next bytes."""
        start = self._position
        end = start + size
        if size < 0 or end > len(self._data):
            raise ColumnError(f"it ends {end - len(self._data)} bytes too early")
        self._position = end
        return self._data[start:end]

    def integers(self, count: int) -> tuple[int, ...]:
        """Whole numbers that `Writer.integers` has written."""
        if not count:
            return ()
        self.check(count)
        width = self.take(1)[0]
        code = _CODES.get(width)
        if code is not None:
            return struct.unpack(f"<{count}{code}", self.take(width * count))
        if not 8 < width <= MAX_INTEGER_BYTES:
            raise ColumnError(f"numbers of {width} bytes")
        data = self.take(width * count)
        return tuple(
            int.from_bytes(data[start : start + width], "little", signed=True)
            for start in range(0, len(data), width)
        )

    def lengths(self, count: int) -> tuple[tuple[int, ...], int]:
        """Lengths of values, and their sum."""
        found = self.integers(count)
        if found and min(found) < 0:
            raise ColumnError("a length is less than nothing")
        total = sum(found)
        self.check(total)
        return found, total
