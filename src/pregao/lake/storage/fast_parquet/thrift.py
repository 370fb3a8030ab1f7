"""Encoder of structs in Thrift's compact protocol, for the footer of Parquet files."""

from __future__ import annotations

from collections.abc import Sequence

from pregao.lake.storage.fast_parquet.columns import (
    BINARY,
    LIST,
    NUMBER,
    SMALL_NUMBER,
    STRUCT,
    TRUE,
)

_BYTE = 3


def varint(value: int) -> bytes:
    """Encode a varint: seven bits per byte."""
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


class ThriftStruct:
    """Builds a struct field by field, in order of field ID."""

    def __init__(self) -> None:
        self._made = bytearray()
        self._last = 0

    def _member(self, number: int, kind: int) -> None:
        self._made.append((number - self._last) << 4 | kind)
        self._last = number

    def number(self, number: int, value: int, *, wide: bool = False) -> ThriftStruct:
        """Add a non-negative integer of 32 bits, or of 64 if ``wide``."""
        self._member(number, NUMBER if wide else SMALL_NUMBER)
        self._made += varint(value << 1)
        return self

    def byte(self, number: int, value: int) -> ThriftStruct:
        """Add a number of one byte."""
        self._member(number, _BYTE)
        self._made.append(value)
        return self

    def true(self, number: int) -> ThriftStruct:
        """Add a flag that is set."""
        self._member(number, TRUE)
        return self

    def text(self, number: int, value: str) -> ThriftStruct:
        """Add a string."""
        self._member(number, BINARY)
        encoded = value.encode()
        self._made += varint(len(encoded)) + encoded
        return self

    def inner(self, number: int, value: bytes) -> ThriftStruct:
        """Add a nested struct."""
        self._member(number, STRUCT)
        self._made += value
        return self

    def records(
        self, number: int, values: Sequence[bytes], count: int | None = None
    ) -> ThriftStruct:
        """Add a list of structs; ``count`` is its length if ``values`` has them concatenated."""
        self._member(number, LIST)
        many = len(values) if count is None else count
        self._made += bytes([many << 4 | STRUCT]) if many < 15 else bytes([0xF0 | STRUCT])
        self._made += b"" if many < 15 else varint(many)
        self._made += b"".join(values)
        return self

    def end(self) -> bytes:
        """Return the encoded struct."""
        return bytes(self._made) + b"\0"


def record(choice: int) -> bytes:
    """Encode a union whose chosen member is an empty struct."""
    return ThriftStruct().inner(choice, b"\0").end()
