"""Arrow arrays built from the flat columns that the kernel fills."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pregao.arrays import Int64Array, Uint8Array
from pregao.fast import _column_kernels as columns
from pregao.fast import _table as k
from pregao.fast._program import Layout, Leaf, Node, SequenceNode, Struct
from pregao.fast.model import DecimalField, FastField, FieldType

DECIMAL = pa.struct(
    [pa.field("exponent", pa.int8(), False), pa.field("mantissa", pa.int64(), False)]
)
"""Type of a FAST decimal, whose exponent may differ in every message."""

_TYPES = {
    FieldType.UINT32: pa.int64(),
    FieldType.INT32: pa.int64(),
    FieldType.INT64: pa.int64(),
    FieldType.UINT64: pa.uint64(),
    FieldType.ASCII: pa.string(),
    FieldType.UNICODE: pa.string(),
    FieldType.BYTES: pa.binary(),
}


@dataclass(slots=True)
class KernelOutput:
    """Output of the kernel: all columns of all nodes."""

    values: Int64Array
    masks: npt.NDArray[np.uint64]
    arena: Uint8Array
    column_offset: Int64Array
    nodes: Int64Array

    def count(self, node: Node) -> int:
        """Return the number of rows of a node."""
        return int(self.nodes[k.USED, node.index])

    def column(self, node: Node, column: int) -> Int64Array:
        """Return the values of a column."""
        start = int(self.column_offset[column])
        return self.values[start : start + self.count(node)]

    def text(self, value: int) -> bytes:
        """Return the text that a value refers to."""
        start = value >> 32
        return self.arena[start : start + (value & 0xFFFFFFFF)].tobytes()

    def words(self, node: Node) -> npt.NDArray[np.uint64]:
        """Return the presence masks of a node's rows, as one array of words per row."""
        words, start = node.mask_words, int(self.nodes[k.MASK_OFFSET, node.index])
        return self.masks[start : start + words * self.count(node)].reshape(-1, max(words, 1))


@dataclass(slots=True)
class _Presence:
    """Which rows have a value: a bitmap, or all rows."""

    bitmap: Uint8Array | None
    nulls: int

    @property
    def buffer(self) -> Any:
        return None if self.bitmap is None or not self.nulls else pa.py_buffer(self.bitmap)

    def bits(self, count: int) -> Uint8Array:
        """Return a bitmap, also if all rows have a value."""
        return np.full(count + 7 >> 3, 255, np.uint8) if self.bitmap is None else self.bitmap


_ALL = _Presence(None, 0)


def has_column(item: Layout) -> bool:
    """Whether a field has a column; a mandatory constant has none."""
    if isinstance(item, Leaf) and item.column < 0:
        return item.bit is not None
    return True


def fields_of(layout: list[Layout]) -> list[Any]:
    """Return the Arrow fields of a node or group."""
    return [
        pa.field(item.part.name, type_of(item), item.bit is not None)
        for item in layout
        if has_column(item)
    ]


def type_of(item: Layout) -> Any:
    """Return the Arrow type of a field, group or sequence."""
    if isinstance(item, Struct):
        return pa.struct(fields_of(item.leaves))
    if isinstance(item, SequenceNode):
        return pa.list_(pa.field("item", pa.struct(fields_of(item.node.layout)), False))
    return DECIMAL if isinstance(item.part, DecimalField) else _TYPES[item.part.kind]


def schema_of(node: Node) -> Any:
    """Return the Arrow schema of a node's rows."""
    return pa.schema(fields_of(node.layout))


def batch_of(filled: KernelOutput, node: Node) -> Any:
    """Return the rows of a template as a record batch."""
    count = filled.count(node)
    arrays = RowColumns(filled, node).arrays(node.layout, _ALL)
    struct = pa.StructArray.from_buffers(
        pa.struct(fields_of(node.layout)), count, [None], 0, 0, arrays
    )
    return pa.RecordBatch.from_struct_array(struct)


_FEW_TEXTS = 4096
_NOTHING: dict[Any, Any] = {}


def _nulls(count: int, kind: Any) -> Any:
    """Return an array of nulls, cached: most columns are empty and creating each is slow."""
    known = _NOTHING.get(kind)
    if known is None or len(known) < count:
        known = _NOTHING[kind] = pa.nulls(max(count, 1024), kind)
    return known.slice(0, count)


class RowColumns:
    """Rows of a template, or of the entries of one of its sequences, by column.

    It has all rows, or a selection in any order (`chosen`), for which values are copied directly
    from the kernel's columns to the result.
    """

    def __init__(self, filled: KernelOutput, node: Node, rows: Int64Array | None = None) -> None:
        self._filled, self._node, self._rows = filled, node, rows
        self.count = filled.count(node) if rows is None else len(rows)
        words = filled.words(node)
        if rows is not None and node.mask_words:
            words = columns.chosen_masks(words, rows, np.empty((len(rows), words.shape[1]), "u8"))
        self._masks = words
        self._any = (
            np.bitwise_or.reduce(words, axis=0).tolist()
            if node.mask_words and self.count
            else [0] * node.mask_words
        )

    def chosen(self, rows: Int64Array) -> RowColumns:
        """Return a selection of the rows, in the given order."""
        assert self._rows is None
        return RowColumns(self._filled, self._node, rows)

    def __contains__(self, name: str) -> bool:
        return self._find(name) is not None

    def kind(self, name: str) -> Any:
        """Return the Arrow type of a column."""
        return type_of(self._item(name))

    def has(self, name: str) -> bool:
        """Whether there is a column of that name with a value in at least one row."""
        item = self._find(name)
        return item is not None and self.count > 0 and self._there(item)

    def array(self, name: str) -> Any:
        """Return a column as an Arrow array."""
        return self._array(self._item(name), _ALL)

    def dictionary(self, name: str) -> Any:
        """Return a column of repeating texts as a dictionary array of distinct texts."""
        item = self._item(name)
        assert isinstance(item, Leaf)
        presence = self._presence(item.bit, _ALL)
        values = self._values(item, item.column, item.constant[1])
        labels = np.empty(self.count, np.int32)
        known = np.empty((_FEW_TEXTS, 2), np.int64)
        slots = np.full(4 * _FEW_TEXTS, -1, np.int32)
        found = int(columns.label_texts(values, presence.bits(self.count), self._filled.arena,
                                        slots, known, labels))  # fmt: skip
        if found < 0:
            return self.array(name).dictionary_encode()
        texts = [self._filled.text(value) for value in known[:found, 1].tolist()]
        buffers = [presence.buffer, pa.py_buffer(labels)]
        indices = pa.Array.from_buffers(pa.int32(), self.count, buffers, presence.nulls)
        return pa.DictionaryArray.from_arrays(indices, pa.array(texts, type_of(item)))

    def numbers(self, name: str) -> Int64Array:
        """Return a column of numbers; values of absent ones are undefined."""
        item = self._item(name)
        assert isinstance(item, Leaf)
        return self._values(item, item.column, item.constant[1])

    def decimals(self, name: str) -> tuple[Int64Array, Int64Array, npt.NDArray[np.bool_]]:
        """Return a column of decimals as exponents, mantissas and presence flags."""
        item = self._item(name)
        assert isinstance(item, Leaf)
        present = np.ones(self.count, np.bool_)
        if item.bit is not None:
            word = self._masks[:, item.bit >> 6]
            present = (word >> np.uint64(item.bit & 63) & np.uint64(1)).astype(np.bool_)
        exponents = self._values(item, item.exponent, item.constant[0])
        return exponents, self._values(item, item.column, item.constant[1]), present

    def sizes(self, name: str) -> Int64Array:
        """Return the number of entries of a sequence in each row."""
        item = self._item(name)
        assert isinstance(item, SequenceNode)
        presence = self._presence(item.bit, _ALL)
        offsets = np.empty(self.count + 1, np.int32)
        counts = self._gathered(item.column)
        columns.list_offsets(counts, presence.bits(self.count), offsets)
        return np.diff(offsets).astype(np.int64)

    def entries(self, name: str) -> RowColumns:
        """Return the entries of a sequence, concatenated over all rows."""
        item = self._item(name)
        assert isinstance(item, SequenceNode)
        assert self._rows is None
        return RowColumns(self._filled, item.node)

    def arrays(self, layout: list[Layout], around: _Presence) -> list[Any]:
        """Return the columns of a node or group."""
        return [self._array(item, around) for item in layout if has_column(item)]

    def _find(self, name: str) -> Layout | None:
        found = (item for item in self._node.layout if item.part.name == name)
        return next((item for item in found if has_column(item)), None)

    def _item(self, name: str) -> Layout:
        item = self._find(name)
        if item is None:
            raise KeyError(name)
        return item

    def _there(self, item: Layout) -> bool:
        """Whether any row has the field."""
        return item.bit is None or bool(self._any[item.bit >> 6] >> (item.bit & 63) & 1)

    def _presence(self, bit: int | None, around: _Presence) -> _Presence:
        """Return the rows that have a field; a mandatory one is present where its group is."""
        if bit is None:
            return around
        bitmap = np.empty(self.count + 7 >> 3, np.uint8)
        nulls = columns.present_bits(self._masks, bit >> 6, bit & 63, bitmap)
        return _Presence(bitmap, int(nulls))

    def _array(self, item: Layout, around: _Presence) -> Any:
        kind = type_of(item)
        if not self._there(item):
            return _nulls(self.count, kind)
        presence = self._presence(item.bit, around)
        own = presence if item.bit is not None else _ALL
        if isinstance(item, Struct):
            arrays = self.arrays(item.leaves, presence)
            return pa.StructArray.from_buffers(kind, self.count, [own.buffer], own.nulls, 0, arrays)
        if isinstance(item, SequenceNode):
            return self._lists(item, kind, presence, own)
        if isinstance(item.part, DecimalField):
            exponents = self._values(item, item.exponent, item.constant[0]).astype(np.int8)
            mantissas = self._values(item, item.column, item.constant[1])
            parts = [pa.array(exponents), pa.array(mantissas)]
            return pa.StructArray.from_buffers(kind, self.count, [own.buffer], own.nulls, 0, parts)
        assert isinstance(item.part, FastField)
        values = self._values(item, item.column, item.constant[1])
        if item.part.kind.is_number:
            buffers = [own.buffer, pa.py_buffer(values)]
            return pa.Array.from_buffers(kind, self.count, buffers, own.nulls)
        return self._texts(kind, values, presence, own)

    def _values(self, item: Leaf, column: int, constant: int) -> Int64Array:
        if item.column < 0:
            return np.full(self.count, constant, np.int64)
        return self._gathered(column)

    def _gathered(self, column: int) -> Int64Array:
        values = self._filled.column(self._node, column)
        if self._rows is None:
            return values
        out = np.empty(self.count, np.int64)
        columns.chosen_values(values, self._rows, out)
        return out

    def _texts(self, kind: Any, values: Int64Array, presence: _Presence, own: _Presence) -> Any:
        offsets = np.empty(self.count + 1, np.int32)
        size = int(columns.text_sizes(values, presence.bits(self.count), offsets))
        if size < 0:
            raise pa.ArrowInvalid(
                "more than 2 GB of text in one column: decode fewer messages per call"
            )
        text = np.empty(size + 8, np.uint8)
        columns.copy_texts(values, offsets, self._filled.arena, text)
        buffers = [own.buffer, pa.py_buffer(offsets), pa.py_buffer(text)]
        return pa.Array.from_buffers(kind, self.count, buffers, own.nulls)

    def _lists(self, item: SequenceNode, kind: Any, presence: _Presence, own: _Presence) -> Any:
        if self._rows is not None:
            # Nested sequences are rare and have few rows: speed does not matter.
            return RowColumns(self._filled, self._node)._array(item, _ALL).take(self._rows)
        offsets = np.empty(self.count + 1, np.int32)
        counts = self._filled.column(self._node, item.column)
        columns.list_offsets(counts, presence.bits(self.count), offsets)
        inner = RowColumns(self._filled, item.node)
        arrays = inner.arrays(item.node.layout, _ALL)
        rows = pa.StructArray.from_buffers(kind.value_type, inner.count, [None], 0, 0, arrays)
        return pa.Array.from_buffers(
            kind, self.count, [own.buffer, pa.py_buffer(offsets)], own.nulls, 0, [rows]
        )
