"""NumPy fallback of the survey's `_kernels`, without numba."""

from __future__ import annotations

from typing import Any

import numpy as np

from pregao.umdf.survey import _kernels as k


def gather_words(buffer: Any, positions: Any, values: Any) -> None:
    """Read the eight bytes at each position, as the kernel does."""
    values[:] = buffer[positions[:, None] + np.arange(8)].view("<i8")[:, 0]


def count_pairs(
    lines: Any, packet_of: Any, kinds: Any, slots: Any, pair_line: Any, pair_kind: Any,
    tallies: Any, used: int, rows: Any,
) -> int:  # fmt: skip
    """Count messages, as the kernel does; looks up the row of each pair once."""
    if not len(kinds):
        return used
    own = lines[packet_of].astype(np.int64)
    _, kind = np.unique(kinds, return_inverse=True)
    pair = kind.reshape(-1) * (int(own.max()) + 1) + own
    _, first, which, count = np.unique(
        pair, return_index=True, return_inverse=True, return_counts=True
    )
    order = np.argsort(first)
    chosen = first[order]
    found = np.empty(len(order), np.int64)
    used = int(
        k.count_one_by_one(
            lines, packet_of[chosen], kinds[chosen], slots, pair_line, pair_kind, tallies, used,
            found,
        )
    )  # fmt: skip
    row = np.empty_like(found)
    row[order] = found
    known = row >= 0
    np.add.at(tallies, row[known], count[known] - 1)
    rows[:] = row[which.reshape(-1)]
    return used


def tally_peaks(times: Any, keys: Any, span: int, tags: Any, counts: Any, peaks: Any) -> None:
    """Raise each key's maximum count, as the kernel does, for each open interval."""
    wanted = np.flatnonzero(keys >= 0)
    if not len(wanted):
        return
    width = tags.shape[1]
    key, tag = keys[wanted].astype(np.int64), times[wanted] // span
    slot = key * width + (tag & (width - 1))
    order = np.argsort(slot, kind="stable")
    slot, tag = slot[order], tag[order]
    new_slot = np.append(True, slot[1:] != slot[:-1])
    begins = np.flatnonzero(new_slot | np.append(True, tag[1:] != tag[:-1]))
    size = np.diff(np.append(begins, len(slot)))
    held_tags, held_counts = tags.reshape(-1), counts.reshape(-1)
    slot, tag, first = slot[begins], tag[begins], new_slot[begins]
    size += np.where(first & (held_tags[slot] == tag), held_counts[slot], 0)
    np.maximum.at(peaks, slot // width, size)
    last = np.append(first[1:], True)
    held_tags[slot[last]], held_counts[slot[last]] = tag[last], size[last]
