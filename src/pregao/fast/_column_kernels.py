"""Kernels that turn what the interpreter filled into the buffers of Arrow arrays."""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, check-untyped-defs=False
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

import numpy as np

from pregao._njit import njit

_U1 = np.uint64(1)


@njit
def present_bits(masks, place, words, word, bit, count, out):
    """Pack one bit of each row's mask into a bitmap; returns how many are zero."""
    present = 0
    shift = np.uint64(bit)
    for first in range(0, count, 8):
        byte = np.uint64(0)
        for k in range(min(8, count - first)):
            one = (masks[place + (first + k) * words + word] >> shift) & _U1
            byte |= one << np.uint64(k)
            present += np.int64(one)
        out[first >> 3] = byte
    return count - present


@njit
def text_sizes(values, bitmap, offsets):
    """The offsets of texts in a column of their own; an absent one takes nothing."""
    used = np.int64(0)
    for i in range(len(values)):
        offsets[i] = used
        if bitmap[i >> 3] >> (i & 7) & 1:
            used += values[i] & 0xFFFFFFFF
        if used > 0x7FFFFFFF:
            return np.int64(-1)
    offsets[len(values)] = used
    return used


@njit
def copy_texts(values, offsets, arena, out):
    """Copy texts from the arena to where their offsets say."""
    for i in range(len(values)):
        place = values[i] >> 32
        start = offsets[i]
        for k in range(offsets[i + 1] - start):
            out[start + k] = arena[place + k]


@njit
def list_offsets(counts, bitmap, offsets):
    """The offsets of entries from the lengths of sequences; an absent one has none."""
    used = np.int64(0)
    for i in range(len(counts)):
        offsets[i] = used
        if bitmap[i >> 3] >> (i & 7) & 1:
            used += counts[i]
    offsets[len(counts)] = used
