"""Books as sent: levels and queues are those of the book."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pregao.book.replay import FullBook
from pregao.book.state import State
from pregao.book.update_rows import NULL
from pregao.book.views import levels_of
from pregao.units import Side
from pregao.web.json_encoding import (
    LEVELS,
    MAX_QUEUE_ORDERS,
    QUEUES,
    auction_of,
    dumped,
    side_data,
    trade_bars,
)

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
def test_a_crossed_book_has_the_levels_around_its_balance(bids, asks):
    shown = auction_of(book(bids, asks))
    priced = [[(price, size) for price, size in side if price] for side in (bids, asks)]
    prices = [sorted({price for price, _ in side}) for side in priced]
    if not all(prices) or prices[0][-1] < prices[1][0]:
        assert shown is None
        return

    def imbalance(price):
        demand = sum(size for limit, size in bids if limit is None or limit >= price)
        return abs(demand - sum(size for limit, size in asks if limit is None or limit <= price))

    *sides, balance = shown
    assert imbalance(balance) == min(map(imbalance, prices[0] + prices[1]))
    for side, own in zip(sides, priced, strict=True):
        sums = {price: sum(size for each, size in own if each == price) for price, _ in own}
        assert dict(zip(side[::2], side[1::2], strict=True)) == sums
        distances = [abs(price - balance) for price in side[::2]]
        assert distances == sorted(distances)


TRADES = st.lists(
    st.tuples(st.integers(-500, 500), st.integers(1, 99), st.integers(1, 9), st.booleans())
)


@given(TRADES, st.integers(1, 100), st.integers(-50, 50))
def test_a_bar_has_the_trades_of_its_time(trades, length, midnight):
    columns = np.array(trades, np.int64).reshape(-1, 4).T
    by_start = {}
    for trade in trades:
        by_start.setdefault((trade[0] - midnight) // length * length + midnight, []).append(trade)
    expected = []
    for start, own in sorted(by_start.items()):
        prices, last = [one[1] for one in own], [one[1] for one in own if one[3]]
        ends = (last[0], last[-1]) if last else (None, None)
        volume = sum(one[2] for one in own)
        expected.append([start - 7, ends[0], max(prices), min(prices), ends[1], volume])
    assert trade_bars(*columns, length, midnight, 7) == expected


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
