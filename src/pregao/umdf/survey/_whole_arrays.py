"""The survey's counts without numba: the kernels of `_kernels`, over whole arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from pregao.umdf.survey import _kernels as k


def gather_words(buffer: Any, positions: Any, values: Any) -> None:
    """What the kernel of this name does."""
    values[:] = buffer[positions[:, None] + np.arange(8)].view("<i8")[:, 0]


def count_pairs(
    lines: Any, packet_of: Any, kinds: Any, slots: Any, pair_line: Any, pair_kind: Any,
    tallies: Any, used: int, rows: Any,
) -> int:  # fmt: skip
    """What the kernel of this name does: it is asked for the row of each pair once."""
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
    """What the kernel of this name does, for each place where a span is held at once."""
    wanted = np.flatnonzero(keys >= 0)
    if not len(wanted):
        return
    width = tags.shape[1]
    key, tag = keys[wanted].astype(np.int64), times[wanted] // span
    place = key * width + (tag & (width - 1))
    order = np.argsort(place, kind="stable")
    place, tag = place[order], tag[order]
    new_place = np.append(True, place[1:] != place[:-1])
    begins = np.flatnonzero(new_place | np.append(True, tag[1:] != tag[:-1]))
    size = np.diff(np.append(begins, len(place)))
    held_tags, held_counts = tags.reshape(-1), counts.reshape(-1)
    place, tag, first = place[begins], tag[begins], new_place[begins]
    size += np.where(first & (held_tags[place] == tag), held_counts[place], 0)
    np.maximum.at(peaks, place // width, size)
    last = np.append(first[1:], True)
    held_tags[place[last]], held_counts[place[last]] = tag[last], size[last]
