"""Audit: compares every snapshot with the book rebuilt up to it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pregao.book.audit import compare_books
from pregao.book.state import State
from pregao.book.replay import FullBook
from pregao.book.updates import Side
from pregao.feed.snapshots import Snapshots

SHOWN = 5
"""Maximum number of differences listed in the detail."""

_COLUMNS = ("order_id", "price", "size", "side", "firm", "inserted", "implied")

EQUAL, DIFFERENT, GAP, START, INCOMPLETE, VOID = range(6)
RESULTS: list[str | None] = ["equal", "different", "gap", "start", "incomplete", "void"]


def no_book(*, of_levels: bool = False) -> FullBook:
    """Return the book of an instrument without messages."""
    codes, numbers = np.empty(0, np.uint8), np.empty(0, np.int64)
    book = FullBook(-1, State.EMPTY, codes, numbers, numbers, numbers, numbers, numbers, codes)
    return book.with_levels(numbers) if of_levels else book


@dataclass(slots=True)
class Audit:
    """Result of the comparison of each snapshot."""

    result: list[int]
    differences: list[int]
    detail: list[str | None]

    @staticmethod
    def of(snapshots: Snapshots) -> Audit:
        """Create an audit without comparisons; void and incomplete snapshots are marked."""
        audit = Audit([INCOMPLETE] * len(snapshots), [0] * len(snapshots), [None] * len(snapshots))
        void = snapshots.void()
        for at in range(len(snapshots)):
            if void[at]:
                audit.result[at] = VOID
            elif not snapshots.complete[at]:
                audit.detail[at] = "parts of the snapshot are missing"
        return audit

    def put(self, at: int, result: int, detail: str | None) -> None:
        """Set the result of a snapshot that was not compared."""
        self.result[at] = result
        self.detail[at] = detail

    def compare(
        self, at: int, rebuilt: FullBook, snapshot: FullBook, statistics: list[str]
    ) -> None:
        """Compare a snapshot with the rebuilt book; ``statistics`` are further differences."""
        differences = []
        if not _same(rebuilt, snapshot):
            differences = [str(difference) for difference in compare_books(rebuilt, snapshot)]
        if rebuilt.state is State.STALE:
            differences.insert(0, "the book is stale")
        self.differ(at, [*differences, *statistics])

    def differ(self, at: int, found: list[str]) -> None:
        """Record the differences of a snapshot, which may be none."""
        self.result[at] = DIFFERENT if found else EQUAL
        self.differences[at] = len(found)
        if found:
            more = [f"… and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
            self.detail[at] = "; ".join([*found[:SHOWN], *more])


def _same(one: FullBook, other: FullBook) -> bool:
    """Whether two books are equal byte for byte: a fast check that is usually enough."""
    if one.of_levels or other.of_levels:
        return all(one.levels(side) == other.levels(side) for side in Side)
    return len(one) == len(other) and all(
        getattr(one, name).tobytes() == getattr(other, name).tobytes() for name in _COLUMNS
    )
