"""Fallback of `_kernels` without numba: numpy operations on whole arrays instead of runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from pregao.sbe import _kernels as k

_ANY = (1 << 64) - 1


def check_blocks(positions: Any, block_lengths: Any, ends: Any) -> tuple[int, bool]:
    """Return the shortest block, and whether any block runs past the end of its message."""
    shortest = int(block_lengths.min(initial=1 << 62))
    return shortest, bool((block_lengths > ends - positions).any())


def _at(buffer: Any, offsets: Any, kind: str) -> Any:
    width = np.dtype(kind).itemsize
    return buffer[offsets[:, None] + np.arange(width)].view(kind)[:, 0]


def _outside(values: Any, low: int, span: int) -> Any:
    """Return which values minus ``low``, as unsigned numbers, exceed the span."""
    return (values.astype(np.int64) - np.int64(low)).view(np.uint64) > np.uint64(span)


def _numbers(offsets: Any, buffer: Any, row: Any, out: Any, kind: str, judged: bool) -> Any:
    """Store a number per message; return which are valid, and whether one is out of range."""
    out[:] = _at(buffer, offsets, kind)
    low, span = int(row[k.LOW]), int(row[k.SPAN]) & _ANY
    wrong = _outside(out, low, span) if judged else np.zeros(len(out), np.bool_)
    if not row[k.NULLABLE]:
        return None, bool(wrong.any())
    valid = out != row[k.NULL]
    return valid, bool((valid & wrong).any())


def _names(offsets: Any, buffer: Any, names: Any, out: Any) -> Any:
    """Store the index of each name; return which have one, and whether one is unknown."""
    found = names[buffer[offsets]]
    out[:] = np.maximum(found, 0)
    return found >= 0, bool((found == k.UNKNOWN).any())


def _texts(positions: Any, buffer: Any, size: int, widen: bool, offsets: Any, out: Any) -> Any:
    """Store texts up to their first NUL.

    Return which are not empty, whether a byte could not be copied, and the total size.
    """
    found = buffer[positions[:, None] + np.arange(size)]
    ends = found == 0
    high = found > 127  # non-ASCII
    if not widen:
        ends |= high
    kept = np.logical_not(np.logical_or.accumulate(ends, axis=1))
    unsupported = not widen and bool((high & _first(ends)).any())
    sizes = kept.sum(axis=1) + (kept & high).sum(axis=1)
    offsets[0] = 0
    np.cumsum(sizes, out=offsets[1:])
    _copy(found[kept], out)
    return sizes > 0, unsupported, int(offsets[-1])


def _first(marks: Any) -> Any:
    """Return the first mark of each row."""
    before = np.zeros_like(marks)
    before[:, 1:] = np.logical_or.accumulate(marks, axis=1)[:, :-1]
    return marks & ~before


def _copy(characters: Any, out: Any) -> None:
    """Copy Latin-1 characters as UTF-8."""
    high = characters > 127  # non-ASCII
    if not high.any():
        out[: len(characters)] = characters
        return
    at = np.arange(len(characters)) + np.cumsum(high) - high
    out[at] = np.where(high, 0xC0 | characters >> 6, characters)
    out[at[high] + 1] = 0x80 | characters[high] & 0x3F


_KINDS = {
    k.W64_I64: ("<i8", True),
    k.U32_I64: ("<u4", False),
    k.U8_I16: ("<u1", False),
    k.U16_I32: ("<u2", False),
    k.I32_I32: ("<i4", True),
}
"""Loaded type, and whether its values can be out of range."""


def fill_columns(
    buffer: Any, positions: Any, table: Any, names: Any, reach: int, out16: Any, out32: Any,  # noqa: ARG001
    out64: Any, arena: Any, report: Any,
) -> None:  # fmt: skip
    """Fill every column of a table of operations, like the kernel of this name."""
    count = len(positions)
    k.lay_out(table, count, report)
    views = {2: out16, 4: out32, 8: out64}
    for row, entry in zip(table, report, strict=True):
        operation, size, start = (
            int(row[k.OPERATION]),
            int(row[k.SIZE]),
            int(entry[k.VALUES_OFFSET]),
        )
        field_positions = positions + row[k.OFFSET]
        if operation == k.TEXT:
            offsets = out32[start >> 2 : (start >> 2) + count + 1]
            out = arena[int(entry[k.TEXT_OFFSET]) :]
            valid, wrong, used = _texts(
                field_positions, buffer, size, row[k.NAMES] == 1, offsets, out
            )
            entry[k.TEXT_SIZE] = used
        else:
            values = views[size][start // size : start // size + count]
            if operation == k.ENUM8_I16:
                valid, wrong = _names(field_positions, buffer, names[row[k.NAMES]], values)
            else:
                kind, judged = _KINDS[operation]
                valid, wrong = _numbers(field_positions, buffer, row, values, kind, judged)
        if entry[k.VALIDITY] >= 0:
            bits = np.packbits(valid, bitorder="little")
            arena[entry[k.VALIDITY] : entry[k.VALIDITY] + len(bits)] = bits
            entry[k.NULLS] = count - np.count_nonzero(valid)
        entry[k.ODD] = wrong
