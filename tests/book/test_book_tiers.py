"""The cheaper tiers: levels without orders, and the top of the book alone."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.book.level_books import LevelsBook, TopOfBook
from pregao.book.priority_book import PriorityBook
from pregao.book.state import FaultCode, State
from pregao.book.updates import OrderChanged, OrderDeleted
from pregao.book.views import BookLevel
from tests.book.support import ASK, BID, Feed, Story, fill, long_script


def with_previous_values(updates):
    """The updates with what schema version 16 says about the past, as a full book knows it."""
    book = PriorityBook()
    for update in updates:
        order = book.order(update.order_id) if hasattr(update, "order_id") else None
        if isinstance(update, OrderChanged) and order is not None:
            update = OrderChanged(
                update.key, update.side, update.order_id, order.price, update.size, order.size
            )
        if isinstance(update, OrderDeleted) and order is not None:
            update = OrderDeleted(update.key, update.side, update.order_id, order.price, order.size)
        fault = book.apply(update)
        yield update, book, fault


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), length=st.integers(0, 150))
def test_12_1_1_1_levels_can_be_kept_without_orders(seed, length):
    """From previous sizes alone: equal to the full book as long as that one is valid."""
    story = [step for step in long_script(seed, length) if step[0] != "from" and not step[5]]
    updates = Story(by_position=False).play(story)
    levels, top = LevelsBook(), TopOfBook()
    for update, book, fault in with_previous_values(updates):
        if fault is not None and fault.code is FaultCode.DUPLICATE_ORDER:
            return  # undecidable without orders
        assert (levels.apply(update) is None) == (fault is None)
        top.apply(update)
        assert levels.state == top.state == book.state
        for side in (BID, ASK):
            assert levels.levels(side) == book.levels(side)
            assert levels.best_price(side) == book.best_price(side)
            assert top.best(side) == book.best(side)
            assert top.best_price(side) == book.best_price(side)
            assert len(top.levels(side)) <= 1
        assert levels.last_rpt_seq == book.last_rpt_seq


@pytest.mark.parametrize("cls", [LevelsBook, TopOfBook])
@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda feed: feed.change(BID, 1, 1000, 5), FaultCode.NO_PREVIOUS_SIZE),
        (lambda feed: feed.delete(BID, 1, 1000), FaultCode.NO_PREVIOUS_SIZE),
        (
            lambda feed: feed.change(BID, 1, 999, 5, previous_size=1),
            FaultCode.UNKNOWN_LEVEL,
        ),
        (lambda feed: feed.delete(BID, 1, 999, 10), FaultCode.UNKNOWN_LEVEL),
        (lambda feed: feed.delete(BID, 1, 1000, 11), FaultCode.WRONG_PREVIOUS_SIZE),
        (lambda feed: feed.delete(BID, 1, 1000, 9), FaultCode.WRONG_PREVIOUS_SIZE),
        (
            lambda feed: feed.change(BID, 1, 1000, 1, previous_size=12),
            FaultCode.WRONG_PREVIOUS_SIZE,
        ),
        (lambda feed: feed.from_(BID, 1), FaultCode.NO_ORDERS_KEPT),
        (lambda feed: feed.gap(), FaultCode.INTERRUPTED),
    ],
)
def test_a_book_of_levels_that_cannot_follow_is_stale(cls, make, code):
    book, feed = cls(), Feed()
    fill(book, feed, [(BID, 1, 1000, 10), (ASK, 2, 1010, 20)])
    update = make(feed)
    fault = book.apply(update)
    assert fault is not None
    assert (fault.code, fault.key) == (code, update.key)
    assert book.state is State.STALE
    assert book.best_bid == BookLevel(1000, 10, 1)


def test_snapshots_count_orders_not_levels():
    for cls in (LevelsBook, TopOfBook):
        book, feed = cls(), Feed()
        for update in feed.snapshot(
            (BID, 1, 1000, 10), (BID, 2, 1000, 5), (ASK, 3, None, 7), bids=2, asks=1
        ):
            assert book.apply(update) is None
        assert book.best_bid == BookLevel(1000, 15, 2)
        assert book.best_ask == BookLevel(None, 7, 1)
        assert book.state is State.VALID


def test_a_lost_best_is_found_again():
    book, feed = TopOfBook(), Feed()
    fill(book, feed, [(ASK, n, 1000 + n, n) for n in range(1, 6)])
    book.apply(feed.delete(ASK, 1, 1001, 1))
    book.apply(feed.new(ASK, 9, 1004, 1))
    assert book.best_ask == BookLevel(1002, 2, 1)
    book.apply(feed.thru(ASK))
    assert book.best_ask is None
    assert book.best_price(ASK) is None
