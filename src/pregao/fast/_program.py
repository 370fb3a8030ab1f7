"""Compiler from templates to the kernel's instruction table and columns."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence as Many
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pregao.fast import _table as k
from pregao.fast._source import absent
from pregao.fast.model import (
    DecimalField,
    FastField,
    FastGroup,
    FastSequence,
    FieldType,
    Operation,
    Operator,
    Part,
    Reference,
    Template,
    Templates,
    Value,
    constant_text,
    walk,
)

_OPERATORS = {
    Operator.NONE: k.NONE,
    Operator.CONSTANT: k.CONSTANT,
    Operator.DEFAULT: k.DEFAULT,
    Operator.COPY: k.COPY,
    Operator.INCREMENT: k.INCREMENT,
    Operator.DELTA: k.DELTA,
    Operator.TAIL: k.TAIL,
}
_KINDS = {
    FieldType.UINT32: k.UNSIGNED,
    FieldType.UINT64: k.UNSIGNED,
    FieldType.INT32: k.SIGNED,
    FieldType.INT64: k.SIGNED,
    FieldType.ASCII: k.ASCII,
    FieldType.UNICODE: k.UNICODE,
    FieldType.BYTES: k.BYTES,
}
_TAGS = {kind: number for number, kind in enumerate(FieldType, 1)}
_PACKED = {"kind": k.KIND_SHIFT, "tag": k.TAG_SHIFT, "flags": k.FLAGS_SHIFT}
_WORD = 64


@dataclass(slots=True)
class Leaf:
    """A field of a node: its columns and its mask bit."""

    part: FastField | DecimalField
    column: int = -1
    """Column of the value or mantissa; -1 for a constant."""
    exponent: int = -1
    bit: int | None = None
    """Bit of the row's mask that is set if the field is present; None if it is mandatory."""
    constant: tuple[int, int] = (0, 0)
    """A constant's exponent (of a decimal) and its value in column form."""


@dataclass(slots=True)
class Struct:
    """A group of a node: its fields are columns of the same node."""

    part: FastGroup
    leaves: list[Layout]
    bit: int | None = None


@dataclass(slots=True)
class SequenceNode:
    """A sequence of a node: the column of its lengths, and the node of its entries."""

    part: FastSequence
    node: Node
    column: int
    bit: int | None = None


Layout = Leaf | Struct | SequenceNode


@dataclass(slots=True)
class Node:
    """A template, or a sequence of one, to which rows are appended."""

    index: int
    layout: list[Layout] = field(default_factory=list)
    first_column: int = 0
    columns: int = 0
    bits: int = 0
    constant_text: int = 0

    @property
    def mask_words(self) -> int:
        """Number of words of a row's mask."""
        return -(-self.bits // _WORD)


@dataclass(slots=True)
class Program:
    """The instruction table, with the nodes and columns that it refers to."""

    code: npt.NDArray[np.int64]
    runs: npt.NDArray[np.int16]
    patterns: npt.NDArray[np.uint64]
    """By run, the presence map bits if all its parts are absent, first bit highest."""
    templates: npt.NDArray[np.int64]
    node_facts: npt.NDArray[np.int64]
    known: list[Template]
    roots: list[Node]
    nodes: list[Node]
    columns: int
    optional_columns: dict[int, tuple[int, int]]
    """Node and mask bit of each optional column."""
    texts: bytes
    """Initial content of the arena: the ASCII characters, then initial values."""
    left_out: dict[int, str]
    """Templates that only the message decoder supports, by id, with the reason."""


_known: dict[int, tuple[Templates, Program]] = {}
_MAX_CACHED = 8


def program_of(templates: Templates) -> Program:
    """Return the instruction table of all templates that have an id.

    Decoders of the same templates share it; it is immutable. The cache identifies templates by
    object identity, because comparing all their fields is slow.
    """
    known = _known.get(id(templates))
    if known is None:
        while len(_known) >= _MAX_CACHED:
            _known.pop(next(iter(_known)), None)
        known = _known[id(templates)] = (templates, _Compiler().compile(templates))
    return known[1]


class _Compiler:
    def __init__(self) -> None:
        self.code: list[list[int]] = []
        self.nodes: list[Node] = []
        self.texts = bytearray(range(k.CHARACTERS))
        self.runs: list[npt.NDArray[np.int16]] = []
        self.patterns: list[int] = []
        self.columns: list[tuple[int, int | None]] = []
        """Node and mask bit of each column; `number_columns` orders them by node."""

    def compile(self, templates: Templates) -> Program:
        known: list[Template] = []
        roots: list[Node] = []
        table: list[list[int]] = []
        left_out: dict[int, str] = {}
        for number, template in templates.by_id.items():
            reason = _unfit(template)
            if reason is not None:
                left_out[number] = reason
                continue
            first, first_node = len(self.code), len(self.nodes)
            root = self.node(template.parts)
            self.segment(template.parts, root, root.layout)
            self.emit(k.END)
            table.append([number, first, first_node, len(self.nodes), int(template.reset)])
            known.append(template)
            roots.append(root)
        self.number_columns()
        facts = [
            [node.mask_words, node.first_column, node.columns, node.constant_text]
            for node in self.nodes
        ]
        return Program(
            np.array(self.code, np.int64).reshape(-1, k.TABLE_WIDTH),
            np.array(self.runs, np.int16).reshape(-1, k.RUN_WIDTH),
            np.array(self.patterns, np.uint64),
            np.array(table, np.int64).reshape(-1, 5),
            np.array(facts, np.int64).reshape(-1, 4),
            known,
            roots,
            self.nodes,
            len(self.columns),
            {c: (n, b) for c, (n, b) in enumerate(self.columns) if b is not None},
            bytes(self.texts),
            left_out,
        )

    def number_columns(self) -> None:
        """Renumber the columns so that those of a node are contiguous."""
        order = sorted(range(len(self.columns)), key=lambda column: self.columns[column][0])
        ranks = {column: rank for rank, column in enumerate(order)}
        self.columns = [self.columns[column] for column in order]
        for row in self.code:
            if row[k.COLUMN] >= 0:
                row[k.COLUMN] = ranks[row[k.COLUMN]]
        for rank, (owner, _bit) in enumerate(self.columns):
            if not self.nodes[owner].columns:
                self.nodes[owner].first_column = rank
            self.nodes[owner].columns += 1
        for node in self.nodes:
            _renumber(node.layout, ranks)

    def node(self, parts: tuple[Part, ...]) -> Node:
        self.nodes.append(Node(len(self.nodes), constant_text=constant_text(parts)))
        return self.nodes[-1]

    def emit(self, op: int, **fields: int) -> list[int]:
        row = [0] * k.TABLE_WIDTH
        row[k.COLUMN] = row[k.RUN] = -1
        for name, shift in _PACKED.items():
            op |= fields.pop(name, 0) << shift
        row[k.HEAD] = op
        for name, value in fields.items():
            row[getattr(k, name.upper())] = value
        self.code.append(row)
        return row

    def column(self, node: Node, bit: int | None) -> int:
        self.columns.append((node.index, bit))
        return len(self.columns) - 1

    def bit(self, node: Node, optional: bool) -> int | None:
        """Allocate a bit of a node's row mask for an optional part; None for a mandatory one."""
        if not optional:
            return None
        node.bits += 1
        return node.bits - 1

    def segment(self, parts: Many[Part], node: Node, layout: list[Layout]) -> None:
        """Emit the instructions of a template, group or entry, and its runs of optional parts."""
        starts: list[int] = []
        breaks: list[int] = []
        for index, part in enumerate(parts):
            needed = _mask_bits(part)
            if node.bits // _WORD != (node.bits + needed - 1) // _WORD and needed:
                # A mask word is entirely inside or outside an optional group.
                node.bits = -(-node.bits // _WORD) * _WORD
                self.emit(k.NEXT_MASK)
                breaks.append(index)
            elif needed and node.bits % _WORD == 0 and node.bits:
                self.emit(k.NEXT_MASK)
                breaks.append(index)
            starts.append(len(self.code))
            layout.append(self.part(part, node))
        starts.append(len(self.code))
        for index in range(len(parts)):
            stop = next((each for each in breaks if each > index), len(parts))
            self.run(parts[index:stop], starts[index : stop + 1])

    def run(self, parts: Many[Part], starts: list[int]) -> None:
        """Add a run, with which the kernel skips any number of absent parts at this point."""
        bits, nulls, pattern = [0], [0], 0
        for part in parts[: k.MAX_PARTS]:
            found = absent(part)
            if found is None or nulls[-1] + found[1] > k.MAX_NULLS:
                break
            pattern = pattern << len(found[0]) | int(found[0] or "0", 2)
            bits.append(bits[-1] + len(found[0]))
            nulls.append(nulls[-1] + found[1])
        if len(bits) < 2:
            return
        row = np.zeros(k.RUN_WIDTH, np.int16)
        row[k.BY_BITS : k.BY_BITS + 65] = [bisect_right(bits, count) - 1 for count in range(65)]
        row[k.BY_BYTES : k.BY_BYTES + 9] = [bisect_right(nulls, count) - 1 for count in range(9)]
        row[k.BITS_OF : k.BITS_OF + len(bits)] = bits
        row[k.BYTES_OF : k.BYTES_OF + len(bits)] = nulls
        steps = [start - starts[0] for start in starts[: len(bits)]]
        if max(steps) > np.iinfo(np.int16).max:  # a group with a very large number of fields
            return
        row[k.NEXT_OF : k.NEXT_OF + len(bits)] = steps
        self.code[starts[0]][k.RUN] = len(self.runs)
        self.runs.append(row)
        self.patterns.append(pattern << _WORD - bits[-1])

    def part(self, part: Part, node: Node) -> Layout:
        if isinstance(part, FastField):
            return self.field(part, node)
        if isinstance(part, DecimalField):
            return self.decimal(part, node)
        if isinstance(part, FastGroup):
            return self.group(part, node)
        assert isinstance(part, FastSequence)
        return self.sequence(part, node)

    def field(self, part: FastField, node: Node) -> Leaf:
        bit = self.bit(node, part.optional)
        if part.operation.operator is Operator.CONSTANT:
            if part.optional:
                self.emit(k.CONSTANT, flags=k.HAS_BIT, mask=_mask(bit))
            return Leaf(part, bit=bit, constant=(0, self.initial(part.operation.initial)))
        column = self.column(node, bit)
        self.scalar(part.kind, part.optional, part.operation, column, bit)
        return Leaf(part, column, bit=bit)

    def scalar(
        self,
        kind: FieldType,
        optional: bool,
        operation: Operation,
        column: int,
        bit: int | None,
        flags: int = 0,
    ) -> list[int]:
        operator = operation.operator
        wire = _KINDS[kind]
        if operator is Operator.DELTA and kind.is_number:
            wire = k.SIGNED
        flags |= k.NULLABLE * optional
        flags |= k.HAS_BIT * (operation.bits(optional) and not flags & k.FOLLOWS)
        flags |= k.WIDE * (kind in (FieldType.INT64, FieldType.UINT64))
        flags |= k.SIGNED_FIELD * kind.signed
        flags |= k.HAS_INITIAL * (operation.initial is not None)
        flags |= k.NUMERIC * (kind.is_number and operator is not Operator.CONSTANT)
        return self.emit(
            _OPERATORS[operator],
            kind=wire,
            flags=flags,
            column=column,
            mask=_mask(bit),
            slot=operation.slot,
            initial=self.initial(operation.initial),
            tag=_TAGS[kind],
        )

    def initial(self, value: Value | None) -> int:
        """Return an initial value in the kernel's form: a number, or a slice of the arena."""
        if value is None:
            return 0
        if isinstance(value, int):
            return value - (1 << 64) if value >= 1 << 63 else value
        raw = value.encode() if isinstance(value, str) else value
        offset = len(self.texts)
        self.texts += raw
        return offset << 32 | len(raw)

    def decimal(self, part: DecimalField, node: Node) -> Leaf:
        bit = self.bit(node, part.optional)
        if part.joint and part.exponent.operator is Operator.CONSTANT:
            if part.optional:
                self.emit(k.CONSTANT, flags=k.HAS_BIT, mask=_mask(bit))
            constant = self.initial(part.exponent.initial), self.initial(part.mantissa.initial)
            return Leaf(part, bit=bit, constant=constant)
        exponent, mantissa = self.column(node, bit), self.column(node, bit)
        self.scalar(FieldType.INT32, part.optional, part.exponent, exponent, bit, k.EXPONENT)
        joint = part.joint and part.exponent.operator is not Operator.DELTA
        self.scalar(
            FieldType.INT64, False, part.mantissa, mantissa, None, k.FOLLOWS if joint else 0
        )
        return Leaf(part, mantissa, exponent, bit)

    def group(self, part: FastGroup, node: Node) -> Struct:
        bit = self.bit(node, part.optional)
        flags = k.HAS_MAP * (part.map_bits > 0)
        opening = self.emit(k.GROUP, flags=flags | k.HAS_BIT * part.optional, mask=_mask(bit))
        leaves: list[Layout] = []
        self.segment(part.parts, node, leaves)
        self.emit(k.END_GROUP, flags=flags)
        opening[k.JUMP] = len(self.code)
        return Struct(part, leaves, bit)

    def sequence(self, part: FastSequence, node: Node) -> SequenceNode:
        bit = self.bit(node, part.optional)
        column = self.column(node, bit)
        flags = k.HAS_MAP * (part.map_bits > 0)
        length = self.scalar(
            FieldType.UINT32, part.optional, part.length.operation, column, bit, flags | k.LENGTH
        )
        first = len(self.code)
        inner = self.node(part.parts)
        self.segment(part.parts, inner, inner.layout)
        self.emit(k.LEAVE, flags=flags, jump=first)
        length[k.NODE], length[k.JUMP] = inner.index, len(self.code)
        return SequenceNode(part, inner, column, bit)


def _mask(bit: int | None) -> int:
    """Return a mask word with one bit set, as a signed number."""
    if bit is None:
        return 0
    bit %= _WORD
    return 1 << bit if bit < _WORD - 1 else -(1 << bit)


def _mask_bits(part: Part) -> int:
    """Return the bits that a part needs in its row's mask; entries have separate masks."""
    assert not isinstance(part, Reference)
    inner = sum(map(_mask_bits, part.parts)) if isinstance(part, FastGroup) else 0
    return int(part.optional) + inner


def _unfit(template: Template) -> str | None:
    """Return the reason for which the kernel does not support a template; None if it does."""
    for part in walk(template.parts):
        if isinstance(part, Reference):
            return "it contains a message of any template (dynamic templateRef)"
        if isinstance(part, FastGroup) and _mask_bits_or_more(part) > _WORD:
            return f"a group of more than {_WORD} optional fields"
    return None


def _mask_bits_or_more(group: FastGroup) -> int:
    return sum(not isinstance(part, Reference) and part.optional for part in walk(group.parts)) + 1


def _renumber(layout: list[Layout], new_index: dict[int, int]) -> None:
    for item in layout:
        if isinstance(item, Struct):
            _renumber(item.leaves, new_index)
        elif item.column >= 0:
            item.column = new_index[item.column]
            if isinstance(item, Leaf) and item.exponent >= 0:
                item.exponent = new_index[item.exponent]
