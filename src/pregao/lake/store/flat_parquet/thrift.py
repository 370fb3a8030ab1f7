"""Records in Thrift's compact form, as the end of a Parquet file has them."""

from __future__ import annotations

from collections.abc import Sequence

from pregao.lake.store.flat_parquet.numbers import BINARY, LIST, NUMBER, SMALL_NUMBER, STRUCT, TRUE

_BYTE = 3


def varint(value: int) -> bytes:
    """A number in as many bytes as it needs, seven bits each."""
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    made.append(value)
    return bytes(made)


class Record:
    """A record that is made member by member, by rising numbers."""

    def __init__(self) -> None:
        self._made = bytearray()
        self._last = 0

    def _member(self, number: int, kind: int) -> None:
        self._made.append((number - self._last) << 4 | kind)
        self._last = number

    def number(self, number: int, value: int, *, wide: bool = False) -> Record:
        """A whole number from 0 on, of 32 bits or, if it is wide, of 64."""
        self._member(number, NUMBER if wide else SMALL_NUMBER)
        self._made += varint(value << 1)
        return self

    def byte(self, number: int, value: int) -> Record:
        """A number in one byte."""
        self._member(number, _BYTE)
        self._made.append(value)
        return self

    def true(self, number: int) -> Record:
        """A flag that is set."""
        self._member(number, TRUE)
        return self

    def text(self, number: int, value: str) -> Record:
        """A text."""
        self._member(number, BINARY)
        encoded = value.encode()
        self._made += varint(len(encoded)) + encoded
        return self

    def inner(self, number: int, value: bytes) -> Record:
        """A record that is a member."""
        self._member(number, STRUCT)
        self._made += value
        return self

    def records(self, number: int, values: Sequence[bytes], count: int | None = None) -> Record:
        """A list of records; the count, if one value is all of them."""
        self._member(number, LIST)
        many = len(values) if count is None else count
        self._made += bytes([many << 4 | STRUCT]) if many < 15 else bytes([0xF0 | STRUCT])
        self._made += b"" if many < 15 else varint(many)
        self._made += b"".join(values)
        return self

    def end(self) -> bytes:
        """The record's bytes."""
        return bytes(self._made) + b"\0"


def record(choice: int) -> bytes:
    """A choice among records, all of them empty."""
    return Record().inner(choice, b"\0").end()
