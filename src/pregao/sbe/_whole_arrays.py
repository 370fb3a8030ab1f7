"""Columns without numba: what the kernels of `_kernels` do to runs, over whole arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from pregao.sbe import _kernels as k

_ANY = (1 << 64) - 1


def check_blocks(positions: Any, block_lengths: Any, ends: Any) -> tuple[int, bool]:
    """What the kernel of this name does."""
    shortest = int(block_lengths.min(initial=1 << 62))
    return shortest, bool((block_lengths > ends - positions).any())


def _at(buffer: Any, places: Any, kind: str) -> Any:
    width = np.dtype(kind).itemsize
    return buffer[places[:, None] + np.arange(width)].view(kind)[:, 0]


def _outside(values: Any, low: int, span: int) -> Any:
    """Is a value further from the lowest, as an unsigned number, than the span?"""
    return (values.astype(np.int64) - np.int64(low)).view(np.uint64) > np.uint64(span)


def _numbers(places: Any, buffer: Any, row: Any, out: Any, kind: str, judged: bool) -> Any:
    """Store a number of each message; which are not null, and is any of them out of range?"""
    out[:] = _at(buffer, places, kind)
    low, span = int(row[k.LOW]), int(row[k.SPAN]) & _ANY
    wrong = _outside(out, low, span) if judged else np.zeros(len(out), np.bool_)
    if not row[k.NULLABLE]:
        return None, bool(wrong.any())
    valid = out != row[k.NULL]
    return valid, bool((valid & wrong).any())


def _names(places: Any, buffer: Any, names: Any, out: Any) -> Any:
    """Store the index of each name; which have one, and was any number unknown?"""
    found = names[buffer[places]]
    out[:] = np.maximum(found, 0)
    return found >= 0, bool((found == k.UNKNOWN).any())


def _texts(places: Any, buffer: Any, size: int, widen: bool, offsets: Any, out: Any) -> Any:
    """Store texts up to their first NUL; which are not empty, is a byte odd, how long are all?"""
    found = buffer[places[:, None] + np.arange(size)]
    ends = found == 0
    high = found > 127  # beyond ASCII
    if not widen:
        ends |= high
    kept = np.logical_not(np.logical_or.accumulate(ends, axis=1))
    odd = not widen and bool((high & _first(ends)).any())
    sizes = kept.sum(axis=1) + (kept & high).sum(axis=1)
    offsets[0] = 0
    np.cumsum(sizes, out=offsets[1:])
    _copy(found[kept], out)
    return sizes > 0, odd, int(offsets[-1])


def _first(marks: Any) -> Any:
    """The first mark of each row."""
    before = np.zeros_like(marks)
    before[:, 1:] = np.logical_or.accumulate(marks, axis=1)[:, :-1]
    return marks & ~before


def _copy(characters: Any, out: Any) -> None:
    """Write Latin-1 as UTF-8."""
    high = characters > 127  # beyond ASCII
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
"""What is loaded, and whether it can be out of range."""


def fill_columns(
    buffer: Any, positions: Any, table: Any, names: Any, reach: int, out16: Any, out32: Any,  # noqa: ARG001
    out64: Any, arena: Any, report: Any,
) -> None:  # fmt: skip
    """What the kernel of this name does."""
    count = len(positions)
    k.lay_out(table, count, report)
    views = {2: out16, 4: out32, 8: out64}
    for row, told in zip(table, report, strict=True):
        operation, size, place = int(row[k.OPERATION]), int(row[k.SIZE]), int(told[k.PLACE])
        places = positions + row[k.OFFSET]
        if operation == k.TEXT:
            offsets = out32[place >> 2 : (place >> 2) + count + 1]
            out = arena[int(told[k.TEXT_PLACE]) :]
            valid, wrong, used = _texts(places, buffer, size, row[k.NAMES] == 1, offsets, out)
            told[k.TEXT_SIZE] = used
        else:
            values = views[size][place // size : place // size + count]
            if operation == k.ENUM8_I16:
                valid, wrong = _names(places, buffer, names[row[k.NAMES]], values)
            else:
                kind, judged = _KINDS[operation]
                valid, wrong = _numbers(places, buffer, row, values, kind, judged)
        if told[k.VALIDITY] >= 0:
            bits = np.packbits(valid, bitorder="little")
            arena[told[k.VALIDITY] : told[k.VALIDITY] + len(bits)] = bits
            told[k.NULLS] = count - np.count_nonzero(valid)
        told[k.ODD] = wrong
