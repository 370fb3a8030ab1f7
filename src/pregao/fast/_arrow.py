"""Arrow arrays from the flat columns that the kernel fills."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pregao.fast import _column_kernels as columns
from pregao.fast import _table as k
from pregao.fast._program import Entries, Layout, Leaf, Node, Struct
from pregao.fast.model import DecimalField, Field, Kind

Numbers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

DECIMAL = pa.struct(
    [pa.field("exponent", pa.int8(), False), pa.field("mantissa", pa.int64(), False)]
)
"""A decimal of FAST has an exponent of its own in every message."""

_TYPES = {
    Kind.UINT32: pa.int64(),
    Kind.INT32: pa.int64(),
    Kind.INT64: pa.int64(),
    Kind.UINT64: pa.uint64(),
    Kind.ASCII: pa.string(),
    Kind.UNICODE: pa.string(),
    Kind.BYTES: pa.binary(),
}


@dataclass(slots=True)
class Filled:
    """What the kernel filled: all columns of all nodes."""

    values: Numbers
    masks: npt.NDArray[np.uint64]
    arena: Bytes
    column_place: Numbers
    nodes: Numbers

    def count(self, node: Node) -> int:
        """How many rows a node has."""
        return int(self.nodes[k.USED, node.index])

    def column(self, node: Node, column: int) -> Numbers:
        """The values of a column."""
        place = int(self.column_place[column])
        return self.values[place : place + self.count(node)]

    def words(self, node: Node) -> npt.NDArray[np.uint64]:
        """The masks of a node's rows, a row of words each."""
        words, place = node.mask_words, int(self.nodes[k.MASK_PLACE, node.index])
        return self.masks[place : place + words * self.count(node)].reshape(-1, max(words, 1))


@dataclass(slots=True)
class _Presence:
    """Which rows have something: a bitmap, or all."""

    bitmap: Bytes | None
    nulls: int

    @property
    def buffer(self) -> Any:
        return None if self.bitmap is None or not self.nulls else pa.py_buffer(self.bitmap)

    def bits(self, count: int) -> Bytes:
        """A bitmap also where all rows have something."""
        return np.full(count + 7 >> 3, 255, np.uint8) if self.bitmap is None else self.bitmap


_ALL = _Presence(None, 0)


def has_column(item: Layout) -> bool:
    """Is there a column? Not of a constant that is always there."""
    if isinstance(item, Leaf) and item.column < 0:
        return item.bit is not None
    return True


def fields_of(layout: list[Layout]) -> list[Any]:
    """The Arrow fields of a node or group."""
    return [
        pa.field(item.part.name, type_of(item), item.bit is not None)
        for item in layout
        if has_column(item)
    ]


def type_of(item: Layout) -> Any:
    """The Arrow type of a field, group or sequence."""
    if isinstance(item, Struct):
        return pa.struct(fields_of(item.leaves))
    if isinstance(item, Entries):
        return pa.list_(pa.field("item", pa.struct(fields_of(item.node.layout)), False))
    return DECIMAL if isinstance(item.part, DecimalField) else _TYPES[item.part.kind]


def schema_of(node: Node) -> Any:
    """The Arrow schema of a node's rows."""
    return pa.schema(fields_of(node.layout))


def batch_of(filled: Filled, node: Node) -> Any:
    """The rows of a template as a record batch."""
    count = filled.count(node)
    arrays = _Maker(filled, node).arrays(node.layout, _ALL)
    whole = pa.StructArray.from_buffers(
        pa.struct(fields_of(node.layout)), count, [None], 0, 0, arrays
    )
    return pa.RecordBatch.from_struct_array(whole)


_NOTHING: dict[Any, Any] = {}


def _nulls(count: int, kind: Any) -> Any:
    """An array without values; most columns are, and making each anew would take long."""
    known = _NOTHING.get(kind)
    if known is None or len(known) < count:
        known = _NOTHING[kind] = pa.nulls(max(count, 1024), kind)
    return known.slice(0, count)


class _Maker:
    """Makes the arrays of one node."""

    def __init__(self, filled: Filled, node: Node) -> None:
        self.filled = filled
        self.node = node
        self.count = filled.count(node)
        self.any = (
            np.bitwise_or.reduce(filled.words(node), axis=0).tolist()
            if node.mask_words and self.count
            else [0] * node.mask_words
        )

    def arrays(self, layout: list[Layout], around: _Presence) -> list[Any]:
        return [self.array(item, around) for item in layout if has_column(item)]

    def presence(self, bit: int | None, around: _Presence) -> _Presence:
        """Where something is there; what always is, is where its group is."""
        if bit is None:
            return around
        words = self.node.mask_words
        place = int(self.filled.nodes[k.MASK_PLACE, self.node.index])
        bitmap = np.empty(self.count + 7 >> 3, np.uint8)
        nulls = columns.present_bits(
            self.filled.masks, place, words, bit >> 6, bit & 63, self.count, bitmap
        )
        return _Presence(bitmap, int(nulls))

    def array(self, item: Layout, around: _Presence) -> Any:
        kind = type_of(item)
        if item.bit is not None and not self.any[item.bit >> 6] >> (item.bit & 63) & 1:
            return _nulls(self.count, kind)
        presence = self.presence(item.bit, around)
        own = presence if item.bit is not None else _ALL
        if isinstance(item, Struct):
            arrays = self.arrays(item.leaves, presence)
            return pa.StructArray.from_buffers(kind, self.count, [own.buffer], own.nulls, 0, arrays)
        if isinstance(item, Entries):
            return self.entries(item, kind, presence, own)
        if isinstance(item.part, DecimalField):
            exponents = self.values(item, item.exponent, item.constant[0]).astype(np.int8)
            mantissas = self.values(item, item.column, item.constant[1])
            parts = [pa.array(exponents), pa.array(mantissas)]
            return pa.StructArray.from_buffers(kind, self.count, [own.buffer], own.nulls, 0, parts)
        assert isinstance(item.part, Field)
        values = self.values(item, item.column, item.constant[1])
        if item.part.kind.is_number:
            buffers = [own.buffer, pa.py_buffer(values)]
            return pa.Array.from_buffers(kind, self.count, buffers, own.nulls)
        return self.texts(kind, values, presence, own)

    def values(self, item: Leaf, column: int, constant: int) -> Numbers:
        if item.column < 0:
            return np.full(self.count, constant, np.int64)
        return self.filled.column(self.node, column)

    def texts(self, kind: Any, values: Numbers, presence: _Presence, own: _Presence) -> Any:
        offsets = np.empty(self.count + 1, np.int32)
        size = int(columns.text_sizes(values, presence.bits(self.count), offsets))
        if size < 0:
            raise pa.ArrowInvalid("more than 2 GB of text in one column: decode fewer messages")
        text = np.empty(size, np.uint8)
        columns.copy_texts(values, offsets, self.filled.arena, text)
        buffers = [own.buffer, pa.py_buffer(offsets), pa.py_buffer(text)]
        return pa.Array.from_buffers(kind, self.count, buffers, own.nulls)

    def entries(self, item: Entries, kind: Any, presence: _Presence, own: _Presence) -> Any:
        offsets = np.empty(self.count + 1, np.int32)
        counts = self.filled.column(self.node, item.column)
        columns.list_offsets(counts, presence.bits(self.count), offsets)
        inner = _Maker(self.filled, item.node)
        arrays = inner.arrays(item.node.layout, _ALL)
        rows = pa.StructArray.from_buffers(kind.value_type, inner.count, [None], 0, 0, arrays)
        return pa.Array.from_buffers(
            kind, self.count, [own.buffer, pa.py_buffer(offsets)], own.nulls, 0, [rows]
        )
