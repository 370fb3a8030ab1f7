"""A block of fixed fields, to and from named values: the inner part of the message codec."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pregao.errors import EncodeError
from pregao.sbe._from_wire import Converter, converter
from pregao.sbe._to_wire import RefusedError, encoder
from pregao.sbe.values import Reading, ValueKind

Paths = tuple[tuple[str, ...], ...]
Blanks = tuple[tuple[int, Any], ...]


class BlockCodec:
    """Reads and writes the fixed fields of a message or of a group's entries."""

    __slots__ = (
        "_absent",
        "_all_single",
        "_converters",
        "_encoders",
        "_names",
        "_struct",
        "block_length",
        "readings",
        "size",
    )

    def __init__(self, readings: Sequence[Reading], block_length: int, byte_order: str) -> None:
        self.readings = tuple(readings)
        self.block_length = block_length
        leaves = [leaf for reading in readings for leaf in reading.leaves]
        self._struct = _structure(leaves, block_length, byte_order)
        self.size = self._struct.size
        self._names = tuple(reading.name for reading in readings)
        self._all_single = all(reading.single for reading in readings)
        self._converters: list[tuple[str, int, int, Converter | None]] = []
        self._encoders: list[tuple[str, bool, bool, Converter]] = []
        start = 0
        for reading in readings:
            # A width of 0 means a single number, which is not handed on as a tuple.
            width = 0 if reading.single else reading.width
            self._converters.append((reading.name, start, width, converter(reading)))
            self._encoders.append(
                (reading.name, reading.required, reading.single, encoder(reading))
            )
            start += reading.width
        self._absent: dict[int, tuple[Paths, Blanks]] = {}

    def decode(self, buffer: Any, position: int, block_length: int, version: int) -> dict[str, Any]:
        """The values of the block at a position that is so long."""
        if block_length < self.size:
            return self._decode_short(buffer, position, block_length, version)
        leaves = self._struct.unpack_from(buffer, position)
        newer, blanks = self._newer(version)
        if blanks:
            leaves = _blanked(leaves, blanks)
        values: dict[str, Any]
        if self._all_single:
            values = dict(zip(self._names, leaves, strict=True))
            for name, start, _width, convert in self._converters:
                if convert is not None:
                    values[name] = convert(leaves[start])
        else:
            values = {}
            for name, start, width, convert in self._converters:
                value = leaves[start : start + width] if width else leaves[start]
                values[name] = value if convert is None else convert(value)
        for path in newer:
            _forget(values, path)
        return values

    def _decode_short(
        self, buffer: Any, position: int, block_length: int, version: int
    ) -> dict[str, Any]:
        """A block of an older sender: what it does not reach is null."""
        block = bytes(buffer[position : position + block_length]).ljust(self.size, b"\0")
        newer, blanks = self._newer(version)
        leaves = _blanked(self._struct.unpack(block), blanks)
        values: dict[str, Any] = {}
        for reading, (name, start, width, convert) in zip(
            self.readings, self._converters, strict=True
        ):
            if reading.end > block_length:
                values[name] = None
            else:
                value = leaves[start : start + width] if width else leaves[start]
                values[name] = value if convert is None else convert(value)
        for path in newer:
            _forget(values, path)
        return values

    def _newer(self, version: int) -> tuple[Paths, Blanks]:
        """The ways to the fields, and members of records, that came after a version.

        And what is put in place of their numbers: what an older sender had there does not count.
        """
        found = self._absent.get(version)
        if found is None:
            paths = tuple(path for r in self.readings for path in _newer_parts(r, version))
            found = paths, tuple(self._blanks(version))
            if len(self._absent) < 64:  # the version comes from the wire
                self._absent[version] = found
        return found

    def _blanks(self, version: int) -> Iterator[tuple[int, Any]]:
        start = 0
        for reading in self.readings:
            for leaf in reading.leaves:
                if max(reading.since_version, leaf.since_version) > version:
                    blank = b"" if leaf.kind in (ValueKind.TEXT, ValueKind.BYTES) else 0
                    yield from ((start + k, blank) for k in range(leaf.width))
                start += leaf.width

    def encode(self, values: Mapping[str, Any], prefix: str) -> bytes:
        """The bytes of the block with these values; other keys are the caller's to check."""
        leaves: list[Any] = []
        name = ""
        try:
            for name, required, single, encode in self._encoders:
                value = values.get(name)
                if value is None and required and name not in values:
                    raise RefusedError("a value is required")
                if single:
                    leaves.append(encode(value))
                else:
                    leaves.extend(encode(value))
        except RefusedError as refused:
            path = ".".join((prefix + name, *refused.path))
            raise EncodeError(f"{path}: {refused.reason}") from None
        return self._struct.pack(*leaves)

    def packer(self, names: Sequence[str]) -> Callable[..., bytes]:
        """A fast writer of the named fields, given as their numbers on the wire, in that order.

        None means null. Fields that are not named are null, or zero where they cannot be.
        """
        base: list[Any] = []
        places: dict[str, int] = {}
        for reading in self.readings:
            for leaf in reading.leaves:
                places[reading.name] = len(base)
                base.extend([_raw_null(leaf)] * leaf.width)
        unknown = [name for name in names if name not in places]
        if unknown:
            raise EncodeError(f"{unknown[0]}: no such field in this message")
        order = tuple(places[name] for name in names)
        pack = self._struct.pack

        def write(*raws: Any) -> bytes:
            leaves = base.copy()
            for place, raw in zip(order, raws, strict=True):
                leaves[place] = base[place] if raw is None else raw
            try:
                return pack(*leaves)
            except struct.error as error:
                raise EncodeError(f"{', '.join(names)}: {error}") from None

        return write


def _blanked(leaves: tuple[Any, ...], blanks: Blanks) -> tuple[Any, ...]:
    changed = list(leaves)
    for place, blank in blanks:
        changed[place] = blank
    return tuple(changed)


def _newer_parts(reading: Reading, version: int) -> list[tuple[str, ...]]:
    if reading.since_version > version:
        return [(reading.name,)]
    return [
        (reading.name, *path)
        for member in reading.members
        for path in _newer_parts(member, version)
    ]


def _forget(values: dict[str, Any], path: tuple[str, ...]) -> None:
    """Make a value null; a record of only nulls is null."""
    name, *rest = path
    inner = values[name]
    if rest and inner is not None:
        _forget(inner, tuple(rest))
        if any(value is not None for value in inner.values()):
            return
    values[name] = None


def _structure(leaves: Sequence[Reading], block_length: int, byte_order: str) -> struct.Struct:
    """The ``struct`` of a block, gaps filled with padding."""
    parts = [byte_order]
    position = 0
    for leaf in leaves:
        if leaf.offset > position:
            parts.append(f"{leaf.offset - position}x")
        if leaf.kind in (ValueKind.TEXT, ValueKind.BYTES):
            parts.append(f"{leaf.size}s")
        elif leaf.kind is ValueKind.NUMBERS:
            parts.append(f"{leaf.length}{leaf.primitive.code}")
        else:
            parts.append(leaf.primitive.code)
        position = leaf.end
    if block_length > position:
        parts.append(f"{block_length - position}x")
    return struct.Struct("".join(parts))


def _raw_null(leaf: Reading) -> Any:
    if leaf.kind in (ValueKind.TEXT, ValueKind.BYTES):
        return b""
    return 0 if leaf.null is None else leaf.null
