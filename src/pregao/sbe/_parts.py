"""Encoders of the parts after a block: groups and variable-length data."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pregao.sbe._layout import length_struct
from pregao.sbe._to_wire import ValueRefusedError, encode_text
from pregao.sbe.model import Data, Group
from pregao.sbe.values import python_encoding


class GroupHeader:
    """Encoder of a group's header (dimensions)."""

    def __init__(self, group: Group, byte_order: str) -> None:
        self._group = group
        self._block_length = length_struct(group.dimension.block_length, byte_order)
        self._count = length_struct(group.dimension.num_in_group, byte_order)

    def encode(self, entries: int) -> bytes:
        """Encode the header for the given number of entries."""
        dimension, name = self._group.dimension, self._group.name
        limit = dimension.num_in_group.maximum
        if entries > limit:
            raise ValueRefusedError(f"{entries} entries exceed the maximum of {limit}", (name,))
        header = bytearray(dimension.size)
        try:
            self._block_length.pack_into(
                header, dimension.block_length.offset, self._group.block_length
            )
        except struct.error:
            raise ValueRefusedError(
                "its block is too long for the group's header", (name,)
            ) from None
        self._count.pack_into(header, dimension.num_in_group.offset, entries)
        return bytes(header)


class GroupEncoder:
    """Encoder of a group: its header, then its entries."""

    def __init__(
        self, group: Group, byte_order: str, entry: Callable[[Mapping[str, Any]], bytes]
    ) -> None:
        self._name = group.name
        self._header = GroupHeader(group, byte_order)
        self._entry = entry

    def encode(self, entries: Sequence[Mapping[str, Any]]) -> bytes:
        """Encode a group."""
        name, write = self._name, self._entry
        if isinstance(entries, (str, bytes, Mapping)) or not isinstance(entries, Sequence):
            raise ValueRefusedError(f"{entries!r} is not a list of entries", (name,))
        parts = [self._header.encode(len(entries))]
        for number, entry in enumerate(entries):
            if not isinstance(entry, Mapping):
                raise ValueRefusedError(f"{entry!r} is not named values", (f"{name}[{number}]",))
            try:
                parts.append(write(entry))
            except ValueRefusedError as refused:
                path = (f"{name}[{number}]", *refused.path)
                raise ValueRefusedError(refused.reason, path) from None
        return b"".join(parts)


class DataEncoder:
    """Encoder of variable-length data: a length, then bytes."""

    def __init__(self, data: Data, byte_order: str) -> None:
        self._data = data
        before = data.length.offset
        after = data.header_size - before - data.length.primitive.size
        self._header = struct.Struct(f"{byte_order}{before}x{data.length.primitive.code}{after}x")
        self._encoding = python_encoding(data.character_encoding or "utf-8")

    def encode(self, value: Any) -> bytes:
        """Encode a value: its length and its bytes."""
        if value is None:
            raw = b""
        elif isinstance(value, (bytes, bytearray)):
            raw = bytes(value)
        else:
            raw = self._text(value)
        limit = self._data.length.maximum
        if len(raw) > limit:
            raise ValueRefusedError(
                f"{len(raw)} bytes exceed the maximum of {limit}", (self._data.name,)
            )
        return self._header.pack(len(raw)) + raw

    def _text(self, value: Any) -> bytes:
        try:
            return encode_text(value, self._encoding)
        except ValueRefusedError as refused:
            raise ValueRefusedError(refused.reason, (self._data.name,)) from None
