"""Many FAST messages to flat columns, and to Arrow.

The same templates as the message codec's, by one kernel that interprets a table of instructions.
A message that the codec would refuse is left out; the reason is told by its code.
"""

from __future__ import annotations

import mmap
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pregao.fast import _arrow
from pregao.fast import _table as k
from pregao.fast._arrow import RowColumns
from pregao.fast._kernels import decode_messages
from pregao.fast._program import Node, Program, program_of
from pregao.fast._wire import MANY_ENTRIES, MUCH_TEXT
from pregao.fast.model import Kind, Template, Templates

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]

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
    k.TAKEN: "more characters to take off a text than it has (ERR D7)",
    k.NOT_UTF8: "a Unicode string that is not UTF-8 (ERR R2)",
    k.EXPONENT_RANGE: "a decimal's exponent beyond 63 (ERR R1)",
    k.OVERLONG_TEXT: "a string in more bytes than it needs (ERR R9)",
    k.LONG_TEXT: f"a text that has grown beyond {k.MAX_TEXT} bytes",
    k.PAST_END: "a byte vector runs past the end of the message",
    k.ENTRIES: "a sequence of more entries than there are bytes",
    k.MANY_ENTRIES: MANY_ENTRIES,
    k.MUCH_TEXT: MUCH_TEXT,
}
"""What the codes of refused messages mean."""

_TEXT_TAGS = [
    tag for tag, kind in enumerate(Kind, 1) if kind in (Kind.ASCII, Kind.UNICODE, Kind.BYTES)
]
_SPARE = 64


@dataclass(slots=True)
class MessageColumns:
    """The messages of a call: what each one became, and the rows of all."""

    template: Numbers
    """Of each message, which of `templates` it has; -1 if it was refused."""
    row: Numbers
    """Its row among those of its template."""
    end: Numbers
    """Where it ends in the buffer; of a refused one, how far it was read."""
    status: npt.NDArray[np.int8]
    """0, or why it was refused: a key of `REASONS`."""
    templates: list[Template]
    _program: Program
    _filled: _arrow.Filled

    @property
    def refused(self) -> Numbers:
        """The indexes of the messages that were refused."""
        return np.flatnonzero(self.status)

    def count(self, template: Template) -> int:
        """How many messages have a template."""
        return self._filled.count(self._root(template))

    def messages(self, template: Template) -> Numbers:
        """The indexes of the messages that have a template, in the order of its rows."""
        return np.flatnonzero(self.template == self.templates.index(template))

    def batch(self, template: Template) -> Any:
        """The rows of a template as a ``pyarrow.RecordBatch``.

        Groups are structs, sequences lists of structs, decimals structs of exponent and mantissa.
        Constants that are always there have no column.
        """
        return _arrow.batch_of(self._filled, self._root(template))

    def rows(self, template: Template) -> RowColumns:
        """The rows of a template, column by column: for who wants some rows or columns of them."""
        return RowColumns(self._filled, self._root(template))

    def _root(self, template: Template) -> Node:
        return self._program.roots[self.templates.index(template)]


class ColumnDecoder:
    """Decodes the messages of a stream, many at a time.

    With ``reset_each_message`` every message begins with nothing known of earlier ones; without
    it, previous values go from call to call. Templates with a place for a message of any template
    are in `left_out`: their messages are refused as unknown.

    With ``reuse`` what a call gave is overwritten by the next one of any such decoder in the same
    thread: who takes many messages, and copies what he wants of them, need not wait for new memory.
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
        """Templates that only the message decoder reads, by id, and why."""
        return self._program.left_out

    def reset(self) -> None:
        """Forget all previous values."""
        self._generation += 1
        self._last_id = -1
        self._kept = b""

    def schema(self, template: Template) -> Any:
        """The Arrow schema of a template's rows."""
        root = self._program.roots[self._program.known.index(template)]
        return _arrow.schema_of(root)

    def decode(self, buffer: Bytes, positions: Numbers, ends: Numbers) -> MessageColumns:
        """Decode the messages that begin at the positions and end before the ends.

        The buffer is copied if it has fewer than eight bytes behind the last message.
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
        rooms = np.where(self._per_message > 0, self._per_message * count * 1.25, 0)
        entries = min(longest, k.MAX_ENTRIES + 1)
        rooms = np.where(rooms > 0, rooms + entries + _SPARE, 0).astype(np.int64)
        filled = self._allocate(rooms, used, None)
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
            rooms = self._larger(rooms, used, int(template[done]), count - done, entries)
            filled = self._allocate(rooms, used, filled)
        filled.arena = arena
        self._remember(state, arena, used, count)
        return MessageColumns(template, row, end, status, program.known, program, filled)

    def _placed(self, filled: _arrow.Filled) -> Numbers:
        """The table, with the places of columns instead of their numbers."""
        code = self._program.code.copy()
        columns = code[:, k.COLUMN]
        columns[columns >= 0] = filled.column_place[columns[columns >= 0]]
        return code

    def _larger(
        self, rooms: Numbers, used: Numbers, template: int, waiting: int, entries: int
    ) -> Numbers:
        """Rooms in which the messages that are waiting probably fit."""
        first, last = self._program.templates[template, [k.FIRST_NODE, k.LAST_NODE]].tolist()
        larger = rooms.copy()
        larger[first] = used[first] + waiting
        for node in range(first + 1, last):
            # Room that is not used costs nothing; too little of it, a copy of everything.
            larger[node] = max(2 * rooms[node], used[node] + 2 * waiting) + entries + _SPARE
        return larger

    def _allocate(
        self, rooms: Numbers, used: Numbers, before: _arrow.Filled | None
    ) -> _arrow.Filled:
        """Columns with room for so many rows, and what is in them already."""
        program = self._program
        if self._reuse:
            # Of a few sizes only, so that the same pages are used again.
            rooms = np.where(rooms > 0, 1 << np.ceil(np.log2(np.maximum(rooms, 1))).astype(int), 0)
        nodes = np.zeros((3, len(rooms)), np.int64)
        nodes[k.ROOM], nodes[k.USED] = rooms, used
        words = rooms * program.node_facts[:, k.MASK_WORDS]
        nodes[k.MASK_PLACE] = np.cumsum(words) - words
        owners = np.repeat(np.arange(len(rooms)), program.node_facts[:, k.COLUMNS])
        sizes = rooms[owners]
        places = np.cumsum(sizes) - sizes
        filled = _arrow.Filled(
            self._memory("values", int(sizes.sum()), np.int64, before),
            self._memory("masks", int(words.sum()), np.uint64, before),
            np.empty(0, np.uint8),
            places,
            nodes,
        )
        if before is not None:
            for node in program.nodes:
                self._copy(node, int(used[node.index]), before, filled)
        return filled

    def _memory(self, name: str, count: int, kind: Any, before: _arrow.Filled | None) -> Any:
        """Room for so many words, which may hold anything; not that of ``before``."""
        if not self._reuse or count * 8 < mmap.PAGESIZE:
            return _untouched(count, kind)
        known = _KEPT.pages.get(name)
        taken = before is not None and getattr(before, name).nbytes >= mmap.PAGESIZE
        if known is None or taken or len(known) < count:
            known = _KEPT.pages[name] = _untouched(count, kind)
        return known[:count]

    def _copy(self, node: Node, count: int, before: _arrow.Filled, filled: _arrow.Filled) -> None:
        """Copy rows to larger columns; a column that no row has costs nothing."""
        if not count:
            return
        masks = before.words(node)
        if node.mask_words:
            place = int(filled.nodes[k.MASK_PLACE, node.index])
            filled.masks[place : place + masks.size] = masks.reshape(-1)
            present = np.bitwise_or.reduce(masks, axis=0).tolist()
        for column in range(node.first_column, node.first_column + node.columns):
            bit = self._program.optional_columns.get(column, (0, None))[1]
            if bit is None or present[bit >> 6] >> (bit & 63) & 1:
                filled.column(node, column)[:] = before.column(node, column)

    def _remember(self, state: Numbers, arena: Bytes, used: Numbers, count: int) -> None:
        """Keep what the next call needs: previous values, and how many rows messages have."""
        self._generation, self._last_id = int(state[k.GENERATION]), int(state[k.LAST_ID])
        if count:
            self._per_message = np.maximum(used / count, self._per_message * 0.5)
            # Where a template was met, its sequences need room even if none had entries.
            for first, last in self._program.templates[:, [k.FIRST_NODE, k.LAST_NODE]].tolist():
                if self._per_message[first]:
                    self._per_message[first:last] += 1e-9
        if self._reset_each:
            return
        kept = bytearray()
        stamp = self._generation << 4
        for slot in np.flatnonzero(np.isin(self._stamps - stamp, _TEXT_TAGS)).tolist():
            place, size = divmod(int(self._previous[slot]), 1 << 32)
            self._previous[slot] = len(self._program.texts) + len(kept) << 32 | size
            kept += arena[place : place + size].tobytes()
        self._kept = bytes(kept)


class _Kept(threading.local):
    """The memory of decoders that use it again, by what it is for."""

    def __init__(self) -> None:
        self.pages: dict[str, Any] = {}


_KEPT = _Kept()


def _untouched(count: int, kind: Any) -> Any:
    """Zeros that cost no memory until they are written to."""
    size = count * 8
    if size < mmap.PAGESIZE:
        return np.zeros(count, kind)
    pages = mmap.mmap(-1, size)
    if hasattr(mmap, "MADV_HUGEPAGE"):  # where the system has them, they are filled much sooner
        with suppress(OSError):
            pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, kind)
