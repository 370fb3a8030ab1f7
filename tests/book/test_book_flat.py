"""A book in flat arrays does and says what a book of objects does and says."""

from hypothesis import given, settings

from pregao.book.array_book import FlatBook
from pregao.book.priority_book import PriorityBook
from pregao.units import Side
from tests.book.support import ASK, BID, Feed, Story, fill, long_script, scripts


def readable_state(book):
    """All that can be read of a book."""
    return (
        book.state,
        book.reason,
        book.fault,
        book.origin,
        book.last_key,
        book.last_rpt_seq,
        book.skipped,
        *(
            (book.levels(side), book.levels(side, 2), book.best(side), book.count(side))
            for side in Side
        ),
        *(book.orders(side) for side in Side),
    )


def follow(updates):
    flat, plain = FlatBook(), PriorityBook()
    for update in updates:
        assert flat.apply(update) == plain.apply(update)
        assert readable_state(flat) == readable_state(plain)
    return flat, plain


@given(scripts)
@settings(max_examples=60, deadline=None)
def test_any_updates_make_the_same_book_and_the_same_faults(script):
    follow(Story(by_position=False).play(script))


def test_a_long_story_grows_the_book_and_every_order_is_found():
    flat, plain = follow(Story(by_position=False).play(long_script(5, 400)))
    feed = Feed()
    for number in range(500):
        update = feed.new(BID if number % 2 else ASK, 10_000 + number, 1000 + number % 37, 1)
        assert flat.apply(update) == plain.apply(update)
    assert readable_state(flat) == readable_state(plain)
    for side in Side:
        for order in plain.orders(side):
            assert flat.order(order.order_id) == order
            assert flat.queue_position(order.order_id) == plain.queue_position(order.order_id)
    assert flat.order(3) is None
    assert flat.order(2**64) is None
    assert readable_state(flat.plain())[7:] == readable_state(plain)[7:]


def test_numbers_that_no_array_holds_are_refused_or_left_out():
    flat, plain, feed = FlatBook(), PriorityBook(), Feed()
    late = feed.new(BID, 7, 1000, 5, insert_time_ns=2**64 - 1)
    assert flat.apply(late) is None
    assert flat.orders(BID)[0].insert_time_ns is None
    beyond = feed.new(BID, 2**63, 1000, 5)
    fill(plain, feed, [(BID, 7, 1000, 5)])
    assert flat.apply(beyond) == plain.apply(beyond)
    assert flat.fault is not None
