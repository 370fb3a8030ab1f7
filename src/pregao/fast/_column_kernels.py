"""Kernels that convert the interpreter's output into buffers of Arrow arrays."""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, check-untyped-defs=False
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

import numpy as np

from pregao._njit import load_u64, njit, store_u64

_U1 = np.uint64(1)


@njit
def present_bits(masks, word, bit, out):
    """Pack one bit of each row's mask into a bitmap; return the number of zeros."""
    present = 0
    shift = np.uint64(bit)
    count = len(masks)
    for first in range(0, count, 8):
        byte = np.uint64(0)
        for k in range(min(8, count - first)):
            one = (masks[first + k, word] >> shift) & _U1
            byte |= one << np.uint64(k)
            present += np.int64(one)
        out[first >> 3] = byte
    return count - present


@njit
def chosen_masks(masks, rows, out):
    """Copy the masks of the given rows."""
    for i in range(np.uint64(len(rows))):
        for k in range(np.uint64(out.shape[1])):
            out[i, k] = masks[np.uint64(rows[i]), k]
    return out


@njit
def chosen_values(values, rows, out):
    """Copy the values of the given rows."""
    for i in range(np.uint64(len(rows))):
        out[i] = values[np.uint64(rows[i])]


@njit
def text_sizes(values, bitmap, offsets):
    """Compute the offsets of a column of texts; return its bytes, or -1 above 2 GB."""
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
    """Copy texts from the arena to their offsets.

    It copies eight bytes at a time; the next text overwrites the excess. So ``out`` has eight bytes
    more after the last text.
    """
    limit = len(arena) - 8
    for i in range(len(values)):
        text_start = values[i] >> 32
        start = offsets[i]
        size = offsets[i + 1] - start
        if text_start + size <= limit:
            for k in range(0, size, 8):
                store_u64(out, start + k, load_u64(arena, text_start + k))
        else:
            for k in range(size):
                out[start + k] = arena[text_start + k]


@njit
def label_texts(values, bitmap, arena, slots, known, labels):
    """Number texts of at most seven bytes by their first appearance; absent ones get 0.

    ``known`` receives one text per number. Return the number of distinct texts; -1 if there are too
    many, or a longer one.
    """
    mask = len(slots) - 1
    limit = len(arena) - 8
    found = 0
    last = np.uint64(0)
    label = -1
    for i in range(len(values)):
        if not bitmap[i >> 3] >> (i & 7) & 1:
            labels[i] = 0
            continue
        text_start = values[i] >> 32
        size = values[i] & 0xFFFFFFFF
        if size > 7 or text_start > limit:
            return -1
        # The bytes of the text, with its size in the top byte.
        low = load_u64(arena, text_start) & ((_U1 << np.uint64(8 * size)) - _U1)
        key = low | (np.uint64(size) << np.uint64(56))
        if key != last or label < 0:
            last = key
            slot = np.int64((key * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)) & mask
            label = slots[slot]
            while label >= 0 and known[label, 0] != np.int64(key):
                slot = (slot + 1) & mask
                label = slots[slot]
            if label < 0:
                if found == len(known):
                    return -1
                label = found
                slots[slot] = label
                known[label, 0] = np.int64(key)
                known[label, 1] = values[i]
                found += 1
        labels[i] = label
    return found


@njit
def list_offsets(counts, bitmap, offsets):
    """Compute the offsets of entries from the lengths of sequences; absent ones have none."""
    used = np.int64(0)
    for i in range(len(counts)):
        offsets[i] = used
        if bitmap[i >> 3] >> (i & 7) & 1:
            used += counts[i]
    offsets[len(counts)] = used
