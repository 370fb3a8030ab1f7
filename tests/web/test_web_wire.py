"""Books as sent: levels and queues are those of the book."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pregao.book.replay import FullBook
from pregao.book.state import State
from pregao.book.update_rows import NULL
from pregao.book.updates import Side
from pregao.book.views import levels_of
from pregao.web.json_encoding import LEVELS, MAX_QUEUE_ORDERS, QUEUES, dumped, side_data

ORDERS = st.lists(
    st.tuples(st.sampled_from([None, 99, 100, 101, 102]), st.integers(1, 10**9)), max_size=60
)


def book(bids, asks):
    """Orders without a price come first, then the best price."""
    bids = sorted(bids, key=lambda order: (order[0] is not None, -(order[0] or 0)))
    asks = sorted(asks, key=lambda order: (order[0] is not None, order[0] or 0))
    both = bids + asks
    price = np.array([NULL if one is None else one for one, _ in both], np.int64)
    size = np.array([size for _, size in both], np.int64)
    number = np.arange(len(both), dtype=np.int64) + 2**62
    side = np.repeat(np.array([0, 1], np.uint8), [len(bids), len(asks)])
    return FullBook(
        0, State.VALID, side, number, price, size, number, number, side.astype(np.uint8)
    )


@given(ORDERS, ORDERS)
def test_levels_and_queues_are_those_of_the_book(bids, asks):
    made = book(bids, asks)
    for side in Side:
        encoded = json.loads(dumped(side_data(made, side, 0)))
        orders = made.orders(side)
        assert [tuple(level) for level in encoded["levels"]] == list(levels_of(orders))
        assert encoded["orders"] == len(orders)
        assert encoded["size"] == sum(order.size for order in orders)
        at = 0
        for level, queue in zip(encoded["levels"], encoded["queues"], strict=False):
            own = orders[at : at + level[2]][:MAX_QUEUE_ORDERS]
            assert [(size, order) for size, _, _, order in queue] == [
                (order.size, str(order.order_id)) for order in own
            ]
            at += level[2]
        sizes = json.loads(dumped(side_data(made, side, 0, whole=False)))["queues"]
        assert sizes == [[order[0] for order in queue] for queue in encoded["queues"]]
        assert len(encoded["queues"]) == min(QUEUES, len(encoded["levels"]))


@given(ORDERS, ORDERS)
def test_a_book_by_price_depth_has_levels_and_no_queues(bids, asks):
    orders = book(bids, asks)
    made = orders.with_levels(np.arange(1, len(orders) + 1))
    for side in Side:
        encoded = json.loads(dumped(side_data(made, side, 0)))
        assert [tuple(level) for level in encoded["levels"]] == made.levels(side)[:LEVELS]
        assert encoded["orders"] == sum(level.orders for level in made.levels(side))
        assert encoded["queues"] == []


def test_what_json_has_no_word_for_is_not_sent():
    with pytest.raises(ValueError, match="JSON"):
        dumped({"a": float("nan")})
