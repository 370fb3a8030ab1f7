"""Column decoder: decodes many messages of one template and version into Arrow columns.

It uses the readings of the message codec, with kernels instead of one value at a time. A message
that the codec would refuse is skipped and its index reported; decoding it with the codec gives the
reason. So is one with an unsigned number that does not fit a signed 64-bit column
(`beyond_columns` names it). If such a number is in an optional field, or a day outside the years 1
to 9999 in any field, the message is kept: the column has null there, and the value is counted as
withheld.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pregao.arrays import Int64Array, Uint8Array
from pregao.sbe import _kernels
from pregao.sbe._block_columns import BlockColumns, list_of, text_of
from pregao.sbe.arrow import block_schema, data_type, group_type
from pregao.sbe.model import Block, Data, Group, MessageTemplate, Schema
from pregao.sbe.row_decoder import DecodedColumns
from pregao.sbe.value_specs import python_encoding


@dataclass(slots=True)
class _Node:
    """A group or data field in the tree of a template's parts."""

    part: Group | Data
    parent: int
    columns: BlockColumns | None


class ColumnDecoder:
    """Decoder of one template for one version of the sender."""

    def __init__(self, schema: Schema, message: MessageTemplate, version: int) -> None:
        self.message = message
        self.version = version
        self.arrow_schema = block_schema(message)
        self._big_endian = schema.big_endian
        self._root = BlockColumns(message, version, schema.big_endian)
        self._nodes: list[_Node] = []
        self._code: list[list[int]] = []
        self._compile(message, -1)
        self._struct = pa.struct(list(self.arrow_schema))
        self._lists = [
            group_type(node.part) if isinstance(node.part, Group) else None for node in self._nodes
        ]
        self._plans = {-1: _plan(self._nodes, -1, message)}
        for index, node in enumerate(self._nodes):
            if isinstance(node.part, Group):
                self._plans[index] = _plan(self._nodes, index, node.part)
        self._code_table = np.array(self._code, np.int64).reshape(-1, _kernels.CODE_WIDTH)
        self._parents = np.array([node.parent for node in self._nodes], np.int64)

    def _compile(self, block: Block, parent: int) -> None:
        """Compile the walk over the groups and data of a block that the sender's version has."""
        for group in block.groups:
            if group.since_version > self.version:
                continue
            node = len(self._nodes)
            self._nodes.append(
                _Node(group, parent, BlockColumns(group, self.version, self._big_endian))
            )
            dimension = group.dimension
            start = len(self._code)
            instruction = [
                _kernels.GROUP,
                node,
                dimension.size,
                dimension.block_length.offset,
                dimension.block_length.primitive.size,
                dimension.num_in_group.offset,
                dimension.num_in_group.primitive.size,
                0,
            ]
            self._code.append(instruction)
            self._compile(group, node)
            self._code.append([_kernels.END, node, 0, 0, 0, 0, 0, start + 1])
            instruction[_kernels.JUMP] = len(self._code)
        for data in block.data:
            if data.since_version > self.version:
                continue
            node = len(self._nodes)
            self._nodes.append(_Node(data, parent, None))
            length = data.length
            self._code.append(
                [
                    _kernels.DATA,
                    node,
                    data.header_size,
                    length.offset,
                    length.primitive.size,
                    0,
                    0,
                    0,
                ]
            )

    def decode(
        self, buffer: Uint8Array, positions: Int64Array, block_lengths: Int64Array, ends: Int64Array
    ) -> DecodedColumns:
        """Decode the messages with blocks at ``positions`` and frames that end at ``ends``."""
        count = len(positions)
        shortest, past_end = _kernels.check_blocks(positions, block_lengths, ends)
        bad = positions + block_lengths > ends if past_end else np.zeros(count, np.bool_)
        if not past_end:
            withheld: Counter[str] = Counter()
            batch = self._decode(
                buffer, positions, block_lengths, ends, bad, int(shortest), withheld
            )
            if batch is not None:
                return DecodedColumns(batch, count, None, np.empty(0, np.int64), withheld)
        # Some messages are bad: remove them until the rest can be decoded.
        kept = np.arange(count)
        batch = None
        while batch is None:
            kept = kept[~bad]
            bad = np.zeros(len(kept), np.bool_)
            lengths = block_lengths[kept]
            shortest = lengths.min(initial=1 << 62)
            withheld = Counter()
            batch = self._decode(
                buffer, positions[kept], lengths, ends[kept], bad, int(shortest), withheld
            )
        rejected = np.ones(count, np.bool_)
        rejected[kept] = False
        return DecodedColumns(batch, len(kept), kept, np.flatnonzero(rejected), withheld)

    def _decode(
        self,
        buffer: Uint8Array,
        positions: Int64Array,
        block_lengths: Int64Array,
        ends: Int64Array,
        bad: npt.NDArray[np.bool_],
        shortest: int,
        withheld: Counter[str],
    ) -> Any:
        """Return the batch; or None, with bad messages marked."""
        count = len(positions)
        arrays: dict[int, Any] = {}
        if self._nodes:
            walked = self._walk(buffer, positions + block_lengths, ends, bad)
            if walked is None:
                return None
            entry_positions, entry_lengths, list_offsets, bases, offset_bases, totals = walked
            for index in reversed(range(len(self._nodes))):
                node = self._nodes[index]
                base, total = bases[index], totals[index]
                starts = entry_positions[base : base + total]
                lengths = entry_lengths[base : base + total]
                if isinstance(node.part, Data):
                    arrays[index] = _data_array(node.part, buffer, starts, lengths)
                    continue
                assert node.columns is not None
                wrong = np.zeros(total, np.bool_)
                shortest_entry = int(lengths.min(initial=1 << 62))
                fields = node.columns.decode(
                    buffer, starts, lengths, wrong, shortest_entry, withheld
                )
                if np.count_nonzero(wrong):
                    self._blame(wrong, index, list_offsets, offset_bases, totals, bad)
                owners = count if node.parent < 0 else totals[node.parent]
                first = offset_bases[index]
                offsets = list_offsets[first : first + owners + 1]
                fields += self._parts(index, arrays, total)
                arrays[index] = list_of(self._lists[index], offsets, fields, total)
        fields = self._root.decode(buffer, positions, block_lengths, bad, shortest, withheld)
        if np.count_nonzero(bad):
            return None
        fields += self._parts(-1, arrays, count)
        struct = pa.StructArray.from_buffers(self._struct, count, [None], 0, 0, fields)
        return pa.RecordBatch.from_struct_array(struct)

    def _parts(self, parent: int, arrays: dict[int, Any], count: int) -> list[Any]:
        """Return the columns of a block's groups and data, empty if the sender lacks them."""
        result = []
        for index, kind, is_list in self._plans[parent]:
            if index is not None:
                result.append(arrays[index])
            elif is_list:
                result.append(list_of(kind, np.zeros(count + 1, np.int32), None, 0))
            else:
                result.append(pa.nulls(count, kind))
        return result

    def _walk(
        self, buffer: Uint8Array, starts: Int64Array, ends: Int64Array, bad: npt.NDArray[np.bool_]
    ) -> (
        tuple[Int64Array, Int64Array, npt.NDArray[np.int32], list[int], list[int], list[int]] | None
    ):
        """Return the positions of group entries and data; None if some messages are bad."""
        nodes = len(self._nodes)
        totals, bases, offset_bases = np.zeros((3, nodes), np.int64)
        unused = np.zeros(1, np.int64)
        _kernels.walk_parts(
            buffer, starts, ends, self._code_table, self._parents, self._big_endian,
            bases, offset_bases, totals, bad, unused, unused, np.zeros(1, np.int32), False,
        )  # fmt: skip
        if np.count_nonzero(bad):
            return None
        entries, offsets = _kernels.lay_out_parts(
            totals, self._parents, len(starts), bases, offset_bases
        )
        entry_positions, entry_lengths = np.empty((2, entries), np.int64)
        list_offsets = np.zeros(offsets, np.int32)
        _kernels.walk_parts(
            buffer, starts, ends, self._code_table, self._parents, self._big_endian,
            bases, offset_bases, totals, bad, entry_positions, entry_lengths, list_offsets, True,
        )  # fmt: skip
        return (
            entry_positions,
            entry_lengths,
            list_offsets,
            bases.tolist(),
            offset_bases.tolist(),
            totals.tolist(),
        )

    def _blame(
        self,
        wrong: npt.NDArray[np.bool_],
        index: int,
        list_offsets: npt.NDArray[np.int32],
        offset_bases: list[int],
        totals: list[int],
        bad: npt.NDArray[np.bool_],
    ) -> None:
        """Mark the messages that contain wrong entries of a group as bad."""
        while True:
            parent = self._nodes[index].parent
            owners = len(bad) if parent < 0 else totals[parent]
            first = offset_bases[index]
            offsets = list_offsets[first : first + owners + 1]
            owner_rows = np.searchsorted(offsets, np.flatnonzero(wrong), side="right") - 1
            if parent < 0:
                bad[owner_rows] = True
                return
            wrong = np.zeros(owners, np.bool_)
            wrong[owner_rows] = True
            index = parent


def _plan(nodes: list[_Node], parent: int, block: Block) -> list[tuple[int | None, Any, bool]]:
    """Return the groups and data of a block: node (None if the sender lacks it) and type."""
    known = {node.part.name: i for i, node in enumerate(nodes) if node.parent == parent}
    lists = [(known.get(group.name), group_type(group), True) for group in block.groups]
    return lists + [(known.get(data.name), data_type(data), False) for data in block.data]


def _data_array(data: Data, buffer: Uint8Array, starts: Int64Array, lengths: Int64Array) -> Any:
    """Return variable-length data as a column; empty data is null."""
    encoding = None if data.character_encoding is None else python_encoding(data.character_encoding)
    return text_of(buffer, starts, lengths, encoding, stop_at_nul=False, empty_is_null=True)
