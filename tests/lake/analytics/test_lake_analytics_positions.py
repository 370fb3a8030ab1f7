"""Orders that the legacy feed identifies by position: the kernel finds those of the book."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.book.position_book import PositionBook
from pregao.book.state import State
from pregao.book.update_rows import NULL, none_if_null, rows_of
from pregao.book.updates import (
    OrderAdded,
    OrderChanged,
    OrderDeleted,
    SnapshotOrder,
    SnapshotStarted,
    TopRemoved,
)
from pregao.lake.analytics._kernels import orders_at_positions
from tests.book.support import Story, long_script, scripts


def legacy_updates(script):
    """Updates as the legacy feed has them: only new orders have a number."""
    for update in Story(True).play(script):
        if isinstance(update, OrderChanged | OrderDeleted):
            yield update._replace(order_id=None)
        else:
            yield update


def by_the_book(updates):
    """Of each update the order it is about and its size before, and those taken from the top.

    Where a snapshot is cut short the book is stale: what it says then counts for nothing.
    """
    book, found, taken, kept = PositionBook(check_sizes=False), [], [], []
    for row, update in enumerate(updates):
        orders = book.orders(update.side) if hasattr(update, "side") else []
        fault = book.apply(update)
        sound = fault is None and book.state is not State.STALE
        kept.append(sound)
        known = (None, None)
        if sound and isinstance(update, OrderAdded | SnapshotOrder):
            known = (update.order_id, None)
        elif sound and isinstance(update, OrderChanged | OrderDeleted):
            order = orders[update.position - 1]
            known = (order.order_id, order.size)
        elif sound and isinstance(update, TopRemoved):
            taken += [(row, order.order_id, order.size) for order in orders[: update.position]]
        found.append(known)
    return found, taken, kept


def by_the_kernel(updates):
    rows = rows_of([(7, at, update) for at, update in enumerate(updates)])
    capacity = sum(isinstance(update, OrderAdded | SnapshotOrder) for update in updates)
    found_id, found_size = (np.empty(len(rows), np.int64) for _ in range(2))
    removed = [np.empty(capacity, np.int64) for _ in range(3)]
    count = orders_at_positions(
        rows.instrument, rows.kind, rows.side, rows.order_id, rows.size, rows.position,
        found_id, found_size, *removed,
    )  # fmt: skip
    found = [
        (none_if_null(one), none_if_null(two))
        for one, two in zip(found_id, found_size, strict=True)
    ]
    return found, list(zip(*(column[:count].tolist() for column in removed), strict=True))


def compared(updates):
    # The feed's own rules keep snapshots complete: here they come without what they announce.
    plain = [
        SnapshotStarted(update.key) if isinstance(update, SnapshotStarted) else update
        for update in updates
    ]
    found, taken, kept = by_the_book(plain)
    ours, ours_taken = by_the_kernel(plain)
    for row, sound in enumerate(kept):
        if sound:
            assert ours[row] == found[row], (row, plain[row])
    sound_rows = {row for row, sound in enumerate(kept) if sound}
    assert [each for each in ours_taken if each[0] in sound_rows] == [
        (row, NULL if order is None else order, size) for row, order, size in taken
    ]


@settings(max_examples=200, deadline=None)
@given(scripts)
def test_positions_identify_the_orders_of_the_book(script):
    compared(list(legacy_updates(script)))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32))
def test_positions_identify_the_orders_of_long_sequences(seed):
    compared(list(legacy_updates(long_script(seed, 300))))
