"""The queue order of a book: plain keys, columns and books agree."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.book.position_book import PositionBook
from pregao.book.priority_book import PriorityBook
from pregao.book.update_rows import NULL
from pregao.book.updates import MessageKey, SnapshotEnded, SnapshotOrder, SnapshotStarted
from pregao.book.views import price_rank, priority, queue_order, ranked_price
from pregao.units import Side

KEY = MessageKey(1, 1)
MANY = settings(max_examples=150, deadline=None)  # the first one compiles
orders = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(Side),
        st.one_of(st.none(), st.integers(-3, 3)),
        st.booleans(),
        st.integers(1, 30),
    ),
    max_size=25,
    unique_by=lambda order: order[4],
)


def columns(rows):
    owner, side, price, implied, number = zip(*rows, strict=True) if rows else ((),) * 5
    return (
        np.array(owner, np.int64),
        np.array(side, np.uint8),
        np.array([NULL if each is None else each for each in price], np.int64),
        np.array(implied, np.uint8),
        np.array(number, np.int64),
    )


@MANY
@given(orders)
def test_columns_sort_as_the_plain_keys_do(rows):
    order = queue_order(*columns(rows))
    expected = sorted(
        rows,
        key=lambda row: (row[0], row[1], price_rank(row[1], row[2]), priority(row[4], row[3])),
    )
    assert [rows[at] for at in (range(len(rows)) if order is None else order)] == expected
    assert queue_order(*columns(expected)) is None


@MANY
@given(orders)
def test_a_book_by_priority_keeps_that_order(rows):
    book = PriorityBook()
    own = [row for row in rows if row[0] == 0]
    book.apply(SnapshotStarted(KEY))
    for _, side, price, implied, number in own:
        book.apply(SnapshotOrder(KEY, side, number, price, 1, implied=implied))
    book.apply(SnapshotEnded(KEY))
    order = queue_order(*columns(own))
    ranked = [own[at] for at in (range(len(own)) if order is None else order)]
    shown = [each.order_id for side in Side for each in book.orders(side)]
    assert shown == [row[4] for row in ranked]


@MANY
@given(st.permutations(range(1, 7)))
def test_a_book_by_position_uses_the_given_positions(positions):
    side = np.array([0, 0, 0, 1, 1, 1], np.uint8)
    owner, position = np.zeros(6, np.int64), np.array(positions, np.int64)
    order = queue_order(owner, side, position, side, position, position)
    found = list(range(6)) if order is None else order.tolist()
    assert found == sorted(range(6), key=lambda at: (side[at], positions[at]))
    book = PositionBook()
    book.apply(SnapshotStarted(KEY))
    for at in found[:3]:
        book.apply(SnapshotOrder(KEY, Side.BID, positions[at], None, 1))
    assert [each.order_id for each in book.orders(Side.BID)] == sorted(positions[:3])


@MANY
@given(st.sampled_from(Side), st.one_of(st.none(), st.integers(-(10**17), 10**17)))
def test_a_rank_converts_back_to_its_price(side, price):
    assert ranked_price(side, price_rank(side, price)) == price
