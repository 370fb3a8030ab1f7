"""Queries of books, when and why they become stale, and how they recover."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.book.position_book import PositionBook
from pregao.book.priority_book import PriorityBook
from pregao.book.replay import BookKind, Replay
from pregao.book.state import FaultCode, Origin, State
from pregao.book.update_rows import rows_of
from pregao.book.updates import (
    GapExcluded,
    GapPossible,
    SnapshotEnded,
    SnapshotOrder,
    SnapshotStarted,
)
from pregao.book.views import BookLevel, QueuePosition, price_rank
from tests.book.support import ASK, BID, Feed, Story, fill, key, position_in_side, scripts, shown

STANDING = [
    (BID, 1, 1000, 10),
    (BID, 2, 1000, 20),
    (BID, 3, 990, 30),
    (ASK, 4, 1010, 40),
    (ASK, 5, 1020, 50),
]


def standing(cls):
    book, feed = cls(), Feed()
    fill(book, feed, STANDING)
    return book, feed


PRIORITY_FAULTS = [
    (lambda feed: feed.change(BID, 9, 1000, 1), FaultCode.UNKNOWN_ORDER),
    (lambda feed: feed.delete(BID, 9), FaultCode.UNKNOWN_ORDER),
    (lambda feed: feed.new(BID, 1, 1000, 1), FaultCode.DUPLICATE_ORDER),
    (lambda feed: feed.new(ASK, 1, 1010, 1), FaultCode.DUPLICATE_ORDER),
    (lambda feed: feed.delete(ASK, 1), FaultCode.WRONG_SIDE),
    (lambda feed: feed.change(ASK, 1, 1010, 1), FaultCode.WRONG_SIDE),
    (lambda feed: feed.change(BID, 1, 1000, 5, previous_size=9), FaultCode.WRONG_PREVIOUS_SIZE),
    (lambda feed: feed.delete(BID, 1, 1000, 9), FaultCode.WRONG_PREVIOUS_SIZE),
    (lambda feed: feed.delete(BID, 1, 990, 10), FaultCode.WRONG_PRICE),
    (lambda feed: feed.new(BID, None, 1000, 5), FaultCode.NO_ORDER_ID),
    (lambda feed: feed.delete(BID, None), FaultCode.NO_ORDER_ID),
    (lambda feed: feed.from_(BID, 4), FaultCode.POSITION_BEYOND_END),
    (lambda feed: feed.from_(BID, 0), FaultCode.POSITION_BEYOND_END),
    (lambda feed: feed.gap(), FaultCode.INTERRUPTED),
    (lambda feed: SnapshotEnded(feed.key()), FaultCode.SNAPSHOT_NOT_BEGUN),
    (lambda feed: SnapshotOrder(feed.key(), BID, 9, 1, 1), FaultCode.SNAPSHOT_NOT_BEGUN),
]

POSITION_FAULTS = [
    (lambda feed: feed.new(BID, 9, 980, 1, position=5), FaultCode.POSITION_BEYOND_END),
    (lambda feed: feed.new(BID, 9, 980, 1, position=0), FaultCode.POSITION_BEYOND_END),
    (lambda feed: feed.new(BID, 9, 980, 1), FaultCode.POSITION_MISSING),
    (lambda feed: feed.change(BID, 1, 1000, 1, position=4), FaultCode.POSITION_BEYOND_END),
    (lambda feed: feed.change(BID, 1, 1000, 1), FaultCode.POSITION_MISSING),
    (lambda feed: feed.change(BID, 1, 1000, 1, position=2), FaultCode.OTHER_ORDER_AT_POSITION),
    (lambda feed: feed.delete(BID, 3, position=1), FaultCode.OTHER_ORDER_AT_POSITION),
    (lambda feed: feed.delete(BID, 3, position=4), FaultCode.POSITION_BEYOND_END),
    (lambda feed: feed.delete(BID, 3), FaultCode.POSITION_MISSING),
    (lambda feed: feed.delete(BID, 3, 990, 31, position=3), FaultCode.WRONG_PREVIOUS_SIZE),
    (lambda feed: feed.delete(BID, 3, 991, 30, position=3), FaultCode.WRONG_PRICE),
    (lambda feed: feed.from_(ASK, 3), FaultCode.POSITION_BEYOND_END),
    (lambda feed: feed.gap(), FaultCode.INTERRUPTED),
    (lambda feed: SnapshotEnded(feed.key()), FaultCode.SNAPSHOT_NOT_BEGUN),
]


@pytest.mark.parametrize(
    ("cls", "make", "code"),
    [(PriorityBook, *case) for case in PRIORITY_FAULTS]
    + [(PositionBook, *case) for case in POSITION_FAULTS],
)
def test_what_does_not_fit_makes_the_book_stale_and_is_reported_with_its_key(cls, make, code):
    book, feed = standing(cls)
    before = shown(book, BID), shown(book, ASK)
    update = make(feed)
    fault = book.apply(update)
    assert fault is not None
    assert (fault.code, fault.key) == (code, update.key)
    assert book.fault == fault
    assert book.state is State.STALE
    assert str(update.key.sequence_number) in book.reason
    assert (shown(book, BID), shown(book, ASK)) == before  # nothing of it was applied
    assert book.apply(feed.new(BID, 77, 1000, 5, position=1)) is None
    assert (shown(book, BID), shown(book, ASK)) == before  # it stands still
    assert book.skipped == 1
    assert book.apply(feed.gap()) is None  # one reason is enough
    assert book.fault == fault


@pytest.mark.parametrize(
    ("cls", "kind"),
    [(PriorityBook, BookKind.PRIORITY), (PositionBook, BookKind.POSITION)],
)
@pytest.mark.parametrize("which", ["empty", "reset", "snapshot"])
def test_a_stale_book_comes_back(cls, kind, which):
    book, feed = standing(cls)
    updates = [feed.delete(BID, 9, position=9)]
    updates += {
        "empty": lambda: [feed.empty()],
        "reset": lambda: [feed.reset()],
        "snapshot": lambda: feed.snapshot((BID, 8, 1000, 5), bids=1, asks=0, last_rpt_seq=12),
    }[which]()
    updates.append(feed.new(BID, 50, 999, 7, position=2 if which == "snapshot" else 1))
    faults = [book.apply(update) for update in updates]
    assert [fault is not None for fault in faults] == [True] + [False] * (len(updates) - 1)
    assert book.state is State.VALID
    origins = {
        "empty": Origin.EMPTY_BOOK,
        "reset": Origin.CHANNEL_RESET,
        "snapshot": Origin.SNAPSHOT,
    }
    assert book.origin is origins[which]
    first = [(8, 5, 1000)] if which == "snapshot" else []
    assert shown(book, BID) == [*first, (50, 7, 999)]
    rows = rows_of([(1, at, update) for at, update in enumerate(updates)])
    replayed = Replay(kind, 5).run(rows, dump_at=[len(rows) - 1])
    assert [row for row, _ in replayed.faults] == [0]
    assert list(replayed.books[0].order_id) == [oid for oid, _, _ in shown(book, BID)]
    assert replayed.ticks.state[0] == State.STALE


@pytest.mark.parametrize(("bids", "asks"), [(2, None), (None, 0), (1, 2)])
@pytest.mark.parametrize(
    ("cls", "kind"),
    [(PriorityBook, BookKind.PRIORITY), (PositionBook, BookKind.POSITION)],
)
def test_a_snapshot_with_other_counts_than_announced_is_not_trusted(cls, kind, bids, asks):
    feed, book = Feed(), cls()
    updates = feed.snapshot((BID, 1, 10, 1), (ASK, 2, 11, 1), bids=bids, asks=asks)
    faults = [book.apply(update) for update in updates]
    assert [fault.code for fault in faults if fault] == [FaultCode.SNAPSHOT_INCOMPLETE]
    assert faults[-1].key == updates[-1].key
    rows = rows_of([(1, 1, update) for update in updates])
    assert Replay(kind, 1).run(rows).faults == [(3, FaultCode.SNAPSHOT_INCOMPLETE)]


def test_an_update_in_the_middle_of_a_snapshot_makes_the_book_stale():
    book, feed = PriorityBook(), Feed()
    book.apply(SnapshotStarted(feed.key(), 1, 0))
    assert book.state is State.BUILDING
    assert "snapshot" in book.reason
    fault = book.apply(feed.new(BID, 1, 10, 1))
    assert fault is not None
    assert fault.code is FaultCode.SNAPSHOT_INTERRUPTED


def test_states_follow_the_book():
    book, feed = PriorityBook(), Feed()
    assert (book.state, book.origin) == (State.EMPTY, Origin.START)
    book.apply(feed.new(BID, 1, 10, 1, rpt_seq=4))
    assert (book.state, book.last_rpt_seq) == (State.VALID, 4)
    last = feed.delete(BID, 1, 10, 1)
    book.apply(last)
    assert book.state is State.EMPTY
    assert book.last_key == last.key
    book.apply(feed.empty())
    book.apply(feed.new(BID, 1, 10, 1, recovery=True))
    assert (book.state, book.reason) == (State.BUILDING, "being refilled after an EmptyBook")


def test_sizes_and_prices_of_the_past_can_be_left_unchecked():
    for cls in (PriorityBook, PositionBook):
        book, feed = cls(check_sizes=False), Feed()
        fill(book, feed, STANDING)
        assert book.apply(feed.change(BID, 1, 1000, 5, previous_size=99, position=1)) is None
        assert book.apply(feed.delete(BID, 1, 7, 99, position=1)) is None
        assert [order.order_id for order in book.orders(BID)] == [2, 3]


def test_a_change_of_price_moves_the_order_to_where_its_number_puts_it():
    book, feed = standing(PriorityBook)
    assert book.apply(feed.change(BID, 1, 990, 11, previous_size=10)) is None
    assert shown(book, BID) == [(2, 20, 1000), (1, 11, 990), (3, 30, 990)]


def test_ids_in_a_book_by_position_may_be_missing_or_shared():
    book, feed = PositionBook(), Feed()
    for at in (1, 2):
        assert book.apply(feed.new(BID, 7, 1000, at, position=at)) is None
    assert book.apply(feed.change(BID, None, 1000, 9, position=2)) is None
    assert book.apply(feed.delete(BID, 7, position=1)) is None
    assert shown(book, BID) == [(7, 9, 1000)]


def test_queue_positions_count_orders_and_sizes_ahead():
    for cls in (PriorityBook, PositionBook):
        book, _ = standing(cls)
        assert book.queue_position(1) == QueuePosition(1, 1, 0, 0)
        assert book.queue_position(2) == QueuePosition(2, 2, 10, 10)
        assert book.queue_position(3) == QueuePosition(3, 1, 30, 0)
        assert book.queue_position(4) == QueuePosition(1, 1, 0, 0)
        assert book.queue_position(99) is None


def test_depth_size_spread_and_imbalance():
    book, feed = standing(PriorityBook)
    assert book.depth(BID) == [(1000, 30, 2), (990, 60, 3)]
    assert book.depth(ASK, 1) == [(1010, 40, 1)]
    assert book.size_to(BID, 1000) == 30
    assert book.size_to(BID, 1) == 60
    assert book.size_to(ASK, 1009) == 0
    assert book.size_to(ASK, 1015) == 40
    assert book.imbalance() == (60 - 90) / 150
    assert book.imbalance(1) == (30 - 40) / 70
    assert PriorityBook().imbalance() is None
    assert (book.spread, book.crossed, book.locked) == (10, False, False)
    book.apply(feed.new(BID, 60, 1010, 1))
    assert (book.spread, book.crossed, book.locked) == (0, False, True)
    book.apply(feed.new(BID, 61, 1011, 1))
    assert (book.spread, book.crossed, book.locked) == (-1, True, False)
    book.apply(feed.thru(ASK))
    assert (book.spread, book.crossed, book.locked) == (None, False, False)


@settings(max_examples=60, deadline=None)
@given(script=scripts, by_position=st.booleans())
def test_levels_are_the_orders_added_up(script, by_position):
    story = Story(by_position)
    story.play(script)
    for side in (BID, ASK):
        levels, orders = story.book.levels(side), story.book.orders(side)
        assert sum(level.orders for level in levels) == len(orders) == story.book.count(side)
        assert sum(level.size for level in levels) == sum(order.size for order in orders)
        flat = [order.price for order in orders]
        assert [p for level in levels for p in [level.price] * level.orders] == flat
        assert all(a.price != b.price for a, b in pairwise(levels))
        if not by_position:
            assert flat == sorted(flat, key=lambda price: price_rank(side, price))
            positions = [position_in_side(story.book, order.order_id) for order in orders]
            assert positions == list(range(1, len(orders) + 1))


def test_a_level_prints_as_what_it_is():
    assert BookLevel(1000, 5, 1) == (1000, 5, 1)
    assert key(3) < key(3, 1) < key(4)


@pytest.mark.parametrize(
    ("cls", "kind"), [(PriorityBook, BookKind.PRIORITY), (PositionBook, BookKind.POSITION)]
)
def test_a_book_in_doubt_is_unconfirmed_until_it_is_confirmed(cls, kind):
    """Precedence: stale, unconfirmed, building, empty, valid."""
    feed = Feed()
    book = cls()
    steps = [
        (GapPossible(feed.key()), State.UNCONFIRMED),
        (feed.new(BID, 1, 1000, 5, position=1), State.UNCONFIRMED),
        (feed.empty(), State.UNCONFIRMED),
        (feed.gap(), State.STALE),
        (GapExcluded(feed.key()), State.STALE),
        (GapPossible(feed.key()), State.STALE),
        (feed.empty(), State.UNCONFIRMED),
        (GapExcluded(feed.key()), State.EMPTY),
    ]
    for update, state in steps:
        book.apply(update)
        assert book.state is state
    rows = rows_of((7, at, update) for at, (update, _) in enumerate(steps))
    replayed = Replay(kind, 2).run(rows, dump_at=range(len(steps)))
    assert [each.state for each in replayed.books] == [state for _, state in steps]
    assert replayed.ticks.state.tolist()[0] == State.UNCONFIRMED  # a tick without any change
