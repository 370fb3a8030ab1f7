"""Kernels that find record boundaries in the middle of a capture."""

from __future__ import annotations

from typing import Any

import numpy as np

from pregao._njit import njit
from pregao.capture._layer_kernels import word


@njit
def next_boundary(
    buffer: Any, begin: int, end: int, target: int, swapped: bool, most_captured: int
) -> Any:
    """Follow complete records from a boundary to the first one at or after ``target``.

    Returns where it stopped: there, or at a record that is incomplete before ``end``, or (as the
    complement) at an impossible one.
    """
    at = begin
    while at < target and at + 16 <= end:
        captured = word(buffer, at + 8, swapped)
        if captured > most_captured:
            return ~at
        if at + 16 + captured > end:
            break
        at += 16 + captured
    return at


@njit
def first_not_before(buffer: Any, end: int, swapped: bool, time_unit_ns: int, time_ns: int) -> Any:
    """Follow records from the first byte to one that is not before a time.

    If there is none, returns the complement of the end position.
    """
    at = np.int64(0)
    while at < end and at + 16 <= len(buffer):
        time = np.int64(word(buffer, at, swapped)) * 1_000_000_000
        time += np.int64(word(buffer, at + 4, swapped)) * time_unit_ns
        if time >= time_ns:
            return at
        at += 16 + np.int64(word(buffer, at + 8, swapped))
    return ~at


@njit
def surviving_boundaries(
    buffer: Any,
    end: int,
    starts: int,
    target: int,
    swapped: bool,
    most_captured: int,
    final: bool,
    marks: Any,
    found: Any,
) -> Any:
    """Find the positions at or after ``target`` that can be the first boundary there.

    Every position below ``starts`` is tried as a boundary, all chains of records are followed to
    the end of the buffer (``final``: of the file), and chains that reach an impossible record are
    discarded. ``marks`` is zeroed scratch of ``end + 1`` bytes; ``found`` receives the survivors;
    returns their number, at most one more than its size.
    """
    for at in range(target):
        if at >= starts and not marks[at]:
            continue
        if at + 16 > end:
            if final:
                marks[end] = 1
            continue
        captured = word(buffer, at + 8, swapped)
        if captured <= most_captured:
            marks[min(at + 16 + captured, end)] = 1
    count = 0
    for first in range(target, end + 1):
        if first >= starts and not marks[first]:
            continue
        at = first
        alive = True
        while at + 16 <= end:
            captured = word(buffer, at + 8, swapped)
            if captured > most_captured:
                alive = False
                break
            at += 16 + captured
        if alive:
            if count == found.size:
                return count + 1
            found[count] = first
            count += 1
    return count
