"""Arrow columns of the fixed fields of a block."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pregao.arrays import BoolArray, Int64Array, Uint8Array, arrow_numbers, arrow_texts
from pregao.sbe import _kernels
from pregao.sbe._from_wire import decode_text
from pregao.sbe.arrow import column_type, enum_index_type
from pregao.sbe.model import Block, Nature
from pregao.sbe.value_specs import MAX_MANTISSA, ValueKind, ValueSpec, readings
from pregao.units import MAX_DAY, MIN_DAY

_INT64 = np.iinfo(np.int64)
_KERNELS = {
    "uint8": _kernels.U8_I16,
    "uint16": _kernels.U16_I32,
    "uint32": _kernels.U32_I64,
    "int32": _kernels.I32_I32,
    "uint64": _kernels.W64_I64,
    "int64": _kernels.W64_I64,
}
_WIDTHS = {
    _kernels.U8_I16: 2,
    _kernels.U16_I32: 4,
    _kernels.U32_I64: 8,
    _kernels.I32_I32: 4,
    _kernels.W64_I64: 8,
    _kernels.ENUM8_I16: 2,
}
_TEXTS = ("latin-1", "utf-8")
"""Encodings whose texts the kernel copies; UTF-8 only if the text is ASCII."""
_MAX_TEXT = 256
"""Maximum bytes of a text for the kernel, which reserves twice its size for every text."""


_SLACK = 3 * _kernels.ALIGNMENT + 8
"""Upper bound of a column's padding, in bytes."""


@dataclass(slots=True)
class _Marks:
    """Errors of blocks: which are bad, and the number of withheld values by column."""

    bad: BoolArray
    withheld: Counter[str]

    def sorted_out(self, leaf: ValueSpec, wrong: BoolArray, null: BoolArray) -> BoolArray:
        """Return the nulls, including wrong values if they are withheld; else mark blocks bad."""
        if not leaf.withheld_if_wrong or not wrong.any():
            self.bad |= wrong
            return null
        self.withheld[leaf.column] += int(np.count_nonzero(wrong))
        return null | wrong


@dataclass(slots=True)
class _Filled:
    """A column that the kernel fills, and how to build its array."""

    index: int
    """Index of its leaf."""
    end: int
    type: Any
    """Type of the stored values; for an enumeration, of the indices."""
    names: Any
    width: int
    text: bool
    bytes_per_message: int
    """Bytes per message, including validity bits."""


class BlockColumns:
    """Decoder of the fixed fields of many blocks of one layout and version."""

    def __init__(self, block: Block, version: int, big_endian: bool) -> None:
        self.readings = readings(block)
        self._version = version
        self._order = ">" if big_endian else "<"
        self._big_endian = big_endian
        self._leaves = [leaf for reading in self.readings for leaf in reading.leaves]
        self._types = [column_type(leaf) for leaf in self._leaves]
        self._spans: list[tuple[ValueSpec, Any, range]] = []
        first = 0
        for reading in self.readings:
            leaves = range(first, first + len(reading.leaves))
            self._spans.append((reading, column_type(reading), leaves))
            first = leaves.stop
        names: list[npt.NDArray[np.int16]] = []
        rows = []
        self._by_kernels: list[_Filled] = []
        for index, leaf in enumerate(self._leaves):
            operation = self._operation(leaf)
            if operation is not None and leaf.since_version <= version:
                rows.append(_row(leaf, operation, names))
                self._by_kernels.append(_filled(index, leaf, self._types[index], rows[-1]))
        self._table = np.array(rows, np.int64).reshape(-1, _kernels.TABLE_WIDTH)
        self._names = np.array(names, np.int16).reshape(-1, 256)
        self._kernel_reach = max((filled.end for filled in self._by_kernels), default=0)

    def _operation(self, leaf: ValueSpec) -> int | None:
        """Return the kernel operation of a leaf, or None if numpy reads it."""
        if self._big_endian:
            return None
        if leaf.kind is ValueKind.ENUM:
            return _kernels.ENUM8_I16 if leaf.primitive.size == 1 else None
        if leaf.kind is ValueKind.TIME or leaf.kind is ValueKind.DECIMAL:
            return _kernels.W64_I64 if leaf.primitive.size == 8 else None
        if leaf.kind in (ValueKind.INTEGER, ValueKind.SET):
            return _KERNELS.get(leaf.primitive.name)
        if leaf.kind is ValueKind.DATE:
            return _KERNELS.get(leaf.primitive.name) if leaf.primitive.size in (2, 4) else None
        if leaf.kind is ValueKind.TEXT and leaf.size <= _MAX_TEXT:
            return _kernels.TEXT if leaf.encoding in _TEXTS else None
        return None

    def decode(
        self,
        buffer: Uint8Array,
        positions: Int64Array,
        block_lengths: Int64Array,
        bad: BoolArray,
        reach: int,
        withheld: Counter[str],
    ) -> list[Any]:
        """Return a column for each reading; blocks with a value out of range are marked bad.

        In an optional field, and in any date, such a value becomes null and is counted as withheld.
        ``reach`` is the length of the shortest block.
        """
        count = len(positions)
        if count == 0:
            return [pa.nulls(0, kind) for _, kind, _ in self._spans]
        marks = _Marks(bad, withheld)
        arrays = self._by_kernel(buffer, positions, reach, marks)
        columns = []
        for reading, kind, leaves in self._spans:
            if reading.since_version > self._version:
                columns.append(pa.nulls(count, kind))
            elif reading.end > reach:
                columns.append(self._short(reading, buffer, positions, block_lengths, marks))
            elif reading.kind is not ValueKind.RECORD and leaves.start in arrays:
                columns.append(arrays[leaves.start])
            else:
                parts = [self._part(i, arrays, buffer, positions, marks) for i in leaves]
                columns.append(_assembled(reading, iter(parts)))
        return columns

    def _part(
        self,
        index: int,
        arrays: dict[int, Any],
        buffer: Uint8Array,
        positions: Int64Array,
        marks: _Marks,
    ) -> Any:
        leaf = self._leaves[index]
        if leaf.since_version > self._version:
            return pa.nulls(len(positions), self._types[index])
        found = arrays.get(index)
        return self._by_numpy(leaf, buffer, positions, marks) if found is None else found

    def _short(
        self,
        reading: ValueSpec,
        buffer: Uint8Array,
        positions: Int64Array,
        block_lengths: Int64Array,
        marks: _Marks,
    ) -> Any:
        """Return a column for which some blocks, of older senders, are too short."""
        rows = np.flatnonzero(block_lengths >= reading.end)
        wrong = np.zeros(len(rows), np.bool_)
        own = _Marks(wrong, marks.withheld)
        parts = []
        for leaf in reading.leaves:
            if leaf.since_version > self._version or not len(rows):
                parts.append(pa.nulls(len(rows), column_type(leaf)))
            else:
                parts.append(self._by_numpy(leaf, buffer, positions[rows], own))
        marks.bad[rows[wrong]] = True
        compact = _assembled(reading, iter(parts))
        indices = np.zeros(len(positions), np.int64)
        indices[rows] = np.arange(len(rows))
        return compact.take(pa.array(indices, mask=block_lengths < reading.end))

    def _by_kernel(
        self, buffer: Uint8Array, positions: Int64Array, reach: int, marks: _Marks
    ) -> dict[int, Any]:
        """Return the columns that the kernel fills, all in one arena."""
        count = len(positions)
        table, by_kernels, reach = self._table, self._by_kernels, min(reach, self._kernel_reach)
        if reach < self._kernel_reach:
            within = [row for row, filled in enumerate(by_kernels) if filled.end <= reach]
            table = table[within]
            by_kernels = [by_kernels[row] for row in within]
        size = sum(filled.bytes_per_message for filled in by_kernels) * count + len(table) * _SLACK
        arena = np.empty(_kernels.ALIGNMENT * (size // _kernels.ALIGNMENT + 1), np.uint8)
        report = np.empty((len(table), _kernels.REPORT_WIDTH), np.int64)
        _kernels.fill_columns(
            buffer, positions, table, self._names, reach - 1, arena.view(np.int16),
            arena.view(np.int32), arena.view(np.int64), arena, report,
        )  # fmt: skip
        memory = pa.py_buffer(arena)
        bits = (count + 7) // 8
        arrays: dict[int, Any] = {}
        for filled, (start, validity, nulls, unusual, text_start, text_size) in zip(
            by_kernels, report.tolist(), strict=True
        ):
            index = filled.index
            if unusual:  # an unknown name or an unusual value: check each one
                arrays[index] = self._by_numpy(self._leaves[index], buffer, positions, marks)
                continue
            buffers = [
                memory.slice(validity, bits) if nulls else None,
                memory.slice(start, filled.width * count),
            ]
            if filled.text:
                buffers[1] = memory.slice(start, 4 * (count + 1))
                buffers.append(memory.slice(text_start, text_size))
            array = pa.Array.from_buffers(filled.type, count, buffers, nulls)
            if filled.names is not None:
                array = pa.DictionaryArray.from_arrays(array, filled.names, safe=False)
            arrays[index] = array
        return arrays

    def _by_numpy(
        self, leaf: ValueSpec, buffer: Uint8Array, positions: Int64Array, marks: _Marks
    ) -> Any:
        """Return a column read by numpy: rare types and unusual values."""
        starts = positions + leaf.offset
        if leaf.kind is ValueKind.TEXT:
            lengths = np.full(len(starts), leaf.size, np.int64)
            return text_of(
                buffer,
                starts,
                lengths,
                leaf.encoding,
                stop_at_nul=True,
                empty_is_null=leaf.null is not None,
            )
        raw = buffer[starts[:, None] + np.arange(leaf.size)]
        if leaf.kind is ValueKind.BYTES:
            return pa.array([row.tobytes() for row in raw], pa.binary())
        code = leaf.primitive.code
        numbers = raw.reshape(-1).view(f"{self._order}{'u1' if code == 'B' else code}")
        if leaf.kind is ValueKind.NUMBERS:
            values = numbers.reshape(-1, leaf.length)
            if leaf.primitive.name == "uint64":
                marks.bad |= (values > _INT64.max).any(axis=1)
            kind = column_type(leaf)
            flat = pa.array(_native(values.reshape(-1), leaf), kind.value_type)
            return pa.FixedSizeListArray.from_arrays(flat, leaf.length)
        return self._numbers(leaf, numbers, marks)

    def _numbers(self, leaf: ValueSpec, numbers: npt.NDArray[Any], marks: _Marks) -> Any:
        """Return a column of single numbers, with every value checked."""
        null = np.zeros(len(numbers), np.bool_)
        if leaf.null is not None:
            null = np.isnan(numbers) if leaf.null != leaf.null else numbers == leaf.null
        if leaf.kind is ValueKind.ENUM:
            return _enum_column(leaf, numbers, null)
        if leaf.kind is not ValueKind.FLOAT:
            low, high = _range(leaf)
            if leaf.primitive.name == "uint64":
                wrong = numbers > np.uint64(high)
            else:
                wide = numbers.astype(np.int64)
                wrong = (wide < low) | (wide > high)
            null = marks.sorted_out(leaf, wrong & ~null, null)
        values = np.where(null, 0, _native(numbers, leaf))
        mask = null if null.any() else None
        if leaf.kind is ValueKind.DECIMAL:
            plain = pa.array(values.astype(np.int64), pa.int64(), mask=mask)
            return pa.Array.from_buffers(
                column_type(leaf), len(plain), plain.buffers(), plain.null_count
            )
        if leaf.kind is ValueKind.DATE:
            days = np.clip(values, MIN_DAY, MAX_DAY).astype(np.int32)
            return pa.array(days, pa.int32(), mask=mask).cast(pa.date32())
        return pa.array(values, column_type(leaf), mask=mask)


def _filled(index: int, leaf: ValueSpec, kind: Any, row: list[int]) -> _Filled:
    size = row[_kernels.SIZE]
    names = None
    if leaf.enum is not None:
        names = arrow_texts([member.name for member in leaf.enum.members])
        kind = kind.index_type
    text = row[_kernels.OPERATION] == _kernels.TEXT
    bytes_per_message = (4 + 2 * size if text else size) + 1
    return _Filled(index, leaf.end, kind, names, size, text, bytes_per_message)


def _row(leaf: ValueSpec, operation: int, names: list[npt.NDArray[np.int16]]) -> list[int]:
    """Return a leaf's row in the operation table; append an enumeration's names to ``names``."""
    low, high = _range(leaf)
    row = [0] * _kernels.TABLE_WIDTH
    row[_kernels.OPERATION] = operation
    row[_kernels.OFFSET] = leaf.offset
    row[_kernels.SIZE] = leaf.size if operation == _kernels.TEXT else _WIDTHS[operation]
    row[_kernels.NULLABLE] = leaf.null is not None or leaf.kind is ValueKind.ENUM
    if leaf.null is not None and leaf.kind is not ValueKind.TEXT:
        row[_kernels.NULL] = _signed(int(leaf.null))
    row[_kernels.LOW] = low
    row[_kernels.SPAN] = _signed(high - low)
    if leaf.kind is ValueKind.ENUM:
        row[_kernels.NAMES] = len(names)
        names.append(_name_table(leaf))
    elif operation == _kernels.TEXT:
        row[_kernels.NAMES] = leaf.encoding == "latin-1"
    return row


def _native(numbers: npt.NDArray[Any], leaf: ValueSpec) -> npt.NDArray[Any]:
    """Convert numbers to native byte order, signed unless they are floats."""
    if leaf.primitive.nature is Nature.FLOAT:
        return numbers.astype(np.float32 if leaf.primitive.size == 4 else np.float64)
    return numbers.astype(np.int64)  # values that wrap around were marked bad before


def _range(leaf: ValueSpec) -> tuple[int, int]:
    """Return the valid range of a leaf's numbers."""
    if leaf.kind is ValueKind.DECIMAL:
        return -MAX_MANTISSA, MAX_MANTISSA
    if leaf.kind is ValueKind.DATE:
        return MIN_DAY, MAX_DAY
    if leaf.primitive.name == "uint64":
        return 0, int(_INT64.max)
    return int(_INT64.min), int(_INT64.max)


def _signed(number: int) -> int:
    """Return the signed 64-bit number with the same bits."""
    number &= (1 << 64) - 1
    return number - (1 << 64) if number >> 63 else number


def _name_table(leaf: ValueSpec) -> npt.NDArray[np.int16]:
    """Return, for every byte, the index of its name, or that it is null or unknown."""
    assert leaf.enum is not None
    table = np.full(256, _kernels.UNKNOWN, np.int16)
    if leaf.null is not None:
        table[int(leaf.null) & 0xFF] = _kernels.NULL_NAME
    for index, member in enumerate(leaf.enum.members):
        table[member.value & 0xFF] = index
    return table


def _enum_column(leaf: ValueSpec, numbers: npt.NDArray[Any], null: BoolArray) -> Any:
    """Return an enumeration's column; the name of an unknown number is its digits."""
    assert leaf.enum is not None
    index_of = {member.value: index for index, member in enumerate(leaf.enum.members)}
    names = [member.name for member in leaf.enum.members]
    distinct, inverse = np.unique(numbers, return_inverse=True)
    indexes = np.zeros(len(distinct), np.int32)
    for position, number in enumerate(distinct.tolist()):
        if number not in index_of and not (leaf.null is not None and number == leaf.null):
            index_of[number] = len(names)
            names.append(str(number))
        indexes[position] = index_of.get(number, 0)
    kind = enum_index_type(leaf)
    array = pa.array(indexes[inverse], kind, mask=null if null.any() else None)
    return pa.DictionaryArray.from_arrays(array, pa.array(names, pa.string()))


def _assembled(reading: ValueSpec, parts: Any) -> Any:
    """Assemble a reading's column from those of its leaves; a record of nulls is null."""
    if reading.kind is not ValueKind.RECORD:
        return next(parts)
    members = [_assembled(member, parts) for member in reading.members]
    empty = np.ones(len(members[0]), np.bool_)
    for member in members:
        if member.null_count == 0:
            empty[:] = False
            break
        empty &= _null(member)
    mask = arrow_numbers(empty) if empty.any() else None
    names = [member.column for member in reading.members]
    return pa.StructArray.from_arrays(members, names=names, mask=mask)


def _null(array: Any) -> BoolArray:
    """Return which values of an array with nulls are null; `is_null` would import pandas."""
    bits = np.frombuffer(array.buffers()[0], np.uint8)
    valid = np.unpackbits(bits, bitorder="little", count=array.offset + len(array))
    return ~valid[array.offset :].astype(np.bool_)


def list_of(
    kind: Any, offsets: npt.NDArray[np.int32], columns: list[Any] | None, count: int
) -> Any:
    """Return the column of a group: lists of its entries, ``count`` in total."""
    entries_kind = kind.value_type
    if columns is None:
        columns = [pa.nulls(0, field.type) for field in entries_kind]
    entries = pa.StructArray.from_buffers(entries_kind, count, [None], 0, 0, columns)
    buffers = [None, pa.py_buffer(offsets)]
    return pa.ListArray.from_buffers(kind, len(offsets) - 1, buffers, 0, 0, [entries])


def text_of(
    buffer: Uint8Array,
    starts: Int64Array,
    lengths: Int64Array,
    encoding: str | None,
    *,
    stop_at_nul: bool,
    empty_is_null: bool,
) -> Any:
    """Return a column of the texts at ``starts``; of bytes if there is no encoding."""
    lengths = lengths.copy()
    sizes = np.empty(len(starts), np.int64)
    _kernels.text_sizes(buffer, starts, lengths, stop_at_nul, sizes)
    widen = encoding == "latin-1"
    if not widen:
        sizes = lengths
    mask = lengths == 0 if empty_is_null else np.zeros(len(starts), np.bool_)
    if encoding not in (None, "latin-1", "utf-8"):
        return _texts_one_by_one(buffer, starts, lengths, encoding or "", mask)
    offsets = np.zeros(len(starts) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    out = np.empty(max(1, int(offsets[-1])), np.uint8)
    _kernels.copy_text(buffer, starts, lengths, offsets, widen, out)
    validity = None
    if mask.any():
        validity = pa.py_buffer(np.packbits(~mask, bitorder="little"))
    kind = pa.binary() if encoding is None else pa.string()
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(out[: offsets[-1]])]
    array = pa.Array.from_buffers(kind, len(starts), buffers)
    if encoding == "utf-8":
        try:
            array.validate(full=True)
        except pa.ArrowInvalid:
            return _texts_one_by_one(buffer, starts, lengths, encoding, mask)
    return array


def _texts_one_by_one(
    buffer: Uint8Array, starts: Int64Array, lengths: Int64Array, encoding: str, mask: BoolArray
) -> Any:
    """Return a column of texts decoded one by one: invalid ones, or in a rare encoding."""
    texts = [
        None if empty else decode_text(buffer[start : start + length].tobytes(), encoding)
        for start, length, empty in zip(
            starts.tolist(), lengths.tolist(), mask.tolist(), strict=True
        )
    ]
    return pa.array(texts, pa.string())
