"""Column decoder: decodes many FAST messages into flat columns and Arrow.

It uses the templates of the message codec, with one kernel that interprets an instruction table.
A message that the codec would refuse is skipped; its status is the code of the reason.
"""

from __future__ import annotations

import mmap
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pregao.arrays import Int64Array, Uint8Array
from pregao.fast import _table as k
from pregao.fast import arrow
from pregao.fast._kernels import decode_messages
from pregao.fast._program import Node, Program, program_of
from pregao.fast._wire import MANY_ENTRIES, MUCH_TEXT
from pregao.fast.arrow import RowColumns
from pregao.fast.model import FieldType, Template, Templates

REASONS = {
    k.ENDED: "the message ends in the middle of a field",
    k.OVERLONG: "an integer in more bytes than it needs (ERR R6)",
    k.OUT_OF_RANGE: "an integer out of its range (ERR D2)",
    k.UNKNOWN: "the template is not known (ERR D9)",
    k.NO_ID: "no template id, and no previous one (ERR D5)",
    k.NO_PREVIOUS: "no value, and no previous one (ERR D5, D6)",
    k.EMPTY_PREVIOUS: "a difference to an empty previous value (ERR D6)",
    k.OTHER_KIND: "the previous value is of another kind (ERR D4)",
    k.DIFFERENCE: "a difference that leaves the range of its field (ERR R4)",
    k.CONSUMED: "more characters to take off a text than it has (ERR D7)",
    k.NOT_UTF8: "a Unicode string that is not UTF-8 (ERR R2)",
    k.EXPONENT_RANGE: "a decimal's exponent beyond 63 (ERR R1)",
    k.OVERLONG_TEXT: "a string in more bytes than it needs (ERR R9)",
    k.LONG_TEXT: f"a text that has grown beyond {k.MAX_TEXT} bytes",
    k.PAST_END: "a byte vector runs past the end of the message",
    k.ENTRIES: "a sequence of more entries than there are bytes",
    k.MANY_ENTRIES: MANY_ENTRIES,
    k.MUCH_TEXT: MUCH_TEXT,
}
"""Reasons for refusing a message, by status code."""

_TEXT_TAGS = [
    tag
    for tag, kind in enumerate(FieldType, 1)
    if kind in (FieldType.ASCII, FieldType.UNICODE, FieldType.BYTES)
]
_SPARE = 64


@dataclass(slots=True)
class FastMessageColumns:
    """Result of a call: the outcome of each message, and the rows of all."""

    template: Int64Array
    """By message, the index of its template in `templates`; -1 if it was refused."""
    row: Int64Array
    """By message, its row among those of its template."""
    end: Int64Array
    """By message, its end in the buffer; for a refused one, the position of the fault."""
    status: npt.NDArray[np.int8]
    """By message, 0 or the reason for refusing it: a key of `REASONS`."""
    templates: list[Template]
    _program: Program
    _filled: arrow.KernelOutput

    @property
    def refused(self) -> Int64Array:
        """Indices of the refused messages."""
        return np.flatnonzero(self.status)

    def count(self, template: Template) -> int:
        """Return the number of messages of a template."""
        return self._filled.count(self._root(template))

    def messages(self, template: Template) -> Int64Array:
        """Return the indices of the messages of a template, in the order of its rows."""
        return np.flatnonzero(self.template == self.templates.index(template))

    def batch(self, template: Template) -> Any:
        """Return the rows of a template as a ``pyarrow.RecordBatch``.

        Groups are structs, sequences lists of structs, decimals structs of exponent and mantissa.
        Mandatory constants have no column.
        """
        return arrow.batch_of(self._filled, self._root(template))

    def rows(self, template: Template) -> RowColumns:
        """Return the rows of a template by column, to read only some rows or columns."""
        return RowColumns(self._filled, self._root(template))

    def _root(self, template: Template) -> Node:
        return self._program.roots[self.templates.index(template)]


class FastColumnDecoder:
    """Decoder of the messages of a stream, many per call.

    With ``reset_each_message`` previous values are reset before every message; without it they are
    kept between calls. Templates that contain a message of any template (dynamic templateRef) are
    in `left_out`: their messages are refused as unknown.

    With ``reuse`` the result of a call is overwritten by the next call of any such decoder in the
    same thread: a caller that copies what it needs then avoids allocating new memory.
    """

    def __init__(
        self, templates: Templates, *, reset_each_message: bool = False, reuse: bool = False
    ) -> None:
        self.templates = templates
        self._reuse = reuse
        self._program = program_of(templates)
        self._reset_each = reset_each_message
        self._stamps, self._previous = np.zeros((2, max(len(templates.slots), 1)), np.int64)
        self._generation, self._last_id = 1, -1
        self._kept = b""
        self._per_message = np.zeros(len(self._program.nodes), np.float64)

    @property
    def left_out(self) -> dict[int, str]:
        """Templates that only the message decoder supports, by id, with the reason."""
        return self._program.left_out

    def reset(self) -> None:
        """Reset all previous values."""
        self._generation += 1
        self._last_id = -1
        self._kept = b""

    def schema(self, template: Template) -> Any:
        """Return the Arrow schema of a template's rows."""
        root = self._program.roots[self._program.known.index(template)]
        return arrow.schema_of(root)

    def decode(
        self, buffer: Uint8Array, positions: Int64Array, ends: Int64Array
    ) -> FastMessageColumns:
        """Decode the messages between ``positions`` and ``ends``.

        The buffer is copied if it has fewer than eight bytes after the last message.
        """
        program, count = self._program, len(positions)
        if ends.max(initial=0) + k.SLACK > len(buffer):
            buffer = np.concatenate([buffer, np.zeros(k.SLACK, np.uint8)])
        template, row, end = np.full((3, count), -1, np.int64)
        status = np.zeros(count, np.int8)
        head = program.texts + self._kept
        longest = int((ends - positions).max(initial=0)) + 2
        arena = np.empty(len(head) + min(len(buffer), k.MAX_ARENA >> 1) + longest, np.uint8)
        arena[: len(head)] = np.frombuffer(head, np.uint8)
        state = np.array([self._generation, self._last_id, len(head), 0], np.int64)
        used = np.zeros(len(program.nodes), np.int64)
        capacities = np.where(self._per_message > 0, self._per_message * count * 1.25, 0)
        entries = min(longest, k.MAX_ENTRIES + 1)
        capacities = np.where(capacities > 0, capacities + entries + _SPARE, 0).astype(np.int64)
        filled = self._allocate(capacities, used, None)
        while True:
            arena = decode_messages(
                buffer, positions, ends, self._reset_each, self._placed(filled), program.runs,
                program.patterns, program.templates, program.node_facts, state, self._stamps,
                self._previous, filled.nodes, filled.values, filled.masks, arena, template, row,
                end, status,
            )  # fmt: skip
            done = int(state[k.DONE])
            used = filled.nodes[k.USED]
            if done == count:
                break
            capacities = self._larger(capacities, used, int(template[done]), count - done, entries)
            filled = self._allocate(capacities, used, filled)
        filled.arena = arena
        self._remember(state, arena, used, count)
        return FastMessageColumns(template, row, end, status, program.known, program, filled)

    def _placed(self, filled: arrow.KernelOutput) -> Int64Array:
        """Return the instruction table, with offsets of columns instead of their numbers."""
        code = self._program.code.copy()
        columns = code[:, k.COLUMN]
        columns[columns >= 0] = filled.column_offset[columns[columns >= 0]]
        return code

    def _larger(
        self, capacities: Int64Array, used: Int64Array, template: int, waiting: int, entries: int
    ) -> Int64Array:
        """Return capacities that are probably enough for the remaining messages."""
        first, last = self._program.templates[template, [k.FIRST_NODE, k.LAST_NODE]].tolist()
        larger = capacities.copy()
        larger[first] = used[first] + waiting
        for node in range(first + 1, last):
            # Unused capacity costs nothing; too little costs a copy of everything.
            larger[node] = max(2 * capacities[node], used[node] + 2 * waiting) + entries + _SPARE
        return larger

    def _allocate(
        self, capacities: Int64Array, used: Int64Array, before: arrow.KernelOutput | None
    ) -> arrow.KernelOutput:
        """Allocate columns with the given capacities, and copy existing rows to them."""
        program = self._program
        if self._reuse:
            # Powers of two only, so that the same pages are reused.
            capacities = np.where(
                capacities > 0, 1 << np.ceil(np.log2(np.maximum(capacities, 1))).astype(int), 0
            )
        nodes = np.zeros((3, len(capacities)), np.int64)
        nodes[k.CAPACITY], nodes[k.USED] = capacities, used
        words = capacities * program.node_facts[:, k.MASK_WORDS]
        nodes[k.MASK_OFFSET] = np.cumsum(words) - words
        owners = np.repeat(np.arange(len(capacities)), program.node_facts[:, k.COLUMNS])
        sizes = capacities[owners]
        offsets = np.cumsum(sizes) - sizes
        filled = arrow.KernelOutput(
            self._memory("values", int(sizes.sum()), np.int64, before),
            self._memory("masks", int(words.sum()), np.uint64, before),
            np.empty(0, np.uint8),
            offsets,
            nodes,
        )
        if before is not None:
            for node in program.nodes:
                self._copy(node, int(used[node.index]), before, filled)
        return filled

    def _memory(self, name: str, count: int, kind: Any, before: arrow.KernelOutput | None) -> Any:
        """Return memory for ``count`` words, uninitialized, and not that of ``before``."""
        if not self._reuse or count * 8 < mmap.PAGESIZE:
            return _untouched(count, kind)
        known = _KEPT.pages.get(name)
        in_use = before is not None and getattr(before, name).nbytes >= mmap.PAGESIZE
        if known is None or in_use or len(known) < count:
            known = _KEPT.pages[name] = _untouched(count, kind)
        return known[:count]

    def _copy(
        self, node: Node, count: int, before: arrow.KernelOutput, filled: arrow.KernelOutput
    ) -> None:
        """Copy rows to larger columns; columns without values are skipped."""
        if not count:
            return
        masks = before.words(node)
        if node.mask_words:
            start = int(filled.nodes[k.MASK_OFFSET, node.index])
            filled.masks[start : start + masks.size] = masks.reshape(-1)
            present = np.bitwise_or.reduce(masks, axis=0).tolist()
        for column in range(node.first_column, node.first_column + node.columns):
            bit = self._program.optional_columns.get(column, (0, None))[1]
            if bit is None or present[bit >> 6] >> (bit & 63) & 1:
                filled.column(node, column)[:] = before.column(node, column)

    def _remember(self, state: Int64Array, arena: Uint8Array, used: Int64Array, count: int) -> None:
        """Keep the state for the next call: previous values, and rows per message."""
        self._generation, self._last_id = int(state[k.GENERATION]), int(state[k.LAST_ID])
        if count:
            self._per_message = np.maximum(used / count, self._per_message * 0.5)
            # Sequences of a template that occurred need capacity even if none had entries.
            for first, last in self._program.templates[:, [k.FIRST_NODE, k.LAST_NODE]].tolist():
                if self._per_message[first]:
                    self._per_message[first:last] += 1e-9
        if self._reset_each:
            return
        kept = bytearray()
        stamp = self._generation << 4
        for slot in np.flatnonzero(np.isin(self._stamps - stamp, _TEXT_TAGS)).tolist():
            start, size = divmod(int(self._previous[slot]), 1 << 32)
            self._previous[slot] = len(self._program.texts) + len(kept) << 32 | size
            kept += arena[start : start + size].tobytes()
        self._kept = bytes(kept)


class _Kept(threading.local):
    """Memory that decoders reuse, by purpose."""

    def __init__(self) -> None:
        self.pages: dict[str, Any] = {}


_KEPT = _Kept()


def _untouched(count: int, kind: Any) -> Any:
    """Allocate zeros that use no memory until they are written."""
    size = count * 8
    if size < mmap.PAGESIZE:
        return np.zeros(count, kind)
    pages = mmap.mmap(-1, size)
    if hasattr(mmap, "MADV_HUGEPAGE"):  # huge pages are faulted in much faster
        with suppress(OSError):
            pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, kind)
