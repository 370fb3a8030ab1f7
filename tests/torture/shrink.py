"""A minimal list of faults that still fails: parts of the list are left out while it fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def shrunk(items: Sequence[Item], fails: Callable[[list[Item]], bool]) -> list[Item]:
    """Return a part of the items that fails and of which none can be left out."""
    kept, size = list(items), max(1, len(items) // 2)
    while True:
        at, before = 0, len(kept)
        while at < len(kept):
            candidate = kept[:at] + kept[at + size :]
            if fails(candidate):
                kept = candidate
            else:
                at += size
        if size > 1:
            size //= 2
        elif len(kept) == before:
            return kept
