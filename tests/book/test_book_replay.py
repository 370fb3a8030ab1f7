"""The kernels replay any sequence of updates exactly as the book classes do."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.book.level_books import TickBuilder
from pregao.book.position_book import PositionBook
from pregao.book.priority_book import PriorityBook
from pregao.book.replay import BookKind, Replay
from pregao.book.state import FaultCode, State
from pregao.book.update_rows import NULL, UpdateKind, UpdateRows, none_if_null, rows_of
from pregao.book.views import BookLevel
from pregao.errors import UsageError
from pregao.units import Side
from tests.book.support import BID, Feed, Story, long_script, position_in_side, scripts

KINDS = [BookKind.PRIORITY, BookKind.POSITION]
CLASSES = {BookKind.PRIORITY: PriorityBook, BookKind.POSITION: PositionBook}


def story_rows(kind, stories, per_event):
    """Scripts, one per instrument, as (instrument, event, update): some events have several."""
    rows = []
    for instrument, script in enumerate(stories, 7):
        updates = Story(kind is BookKind.POSITION).play(script)
        rows += [(instrument, at // per_event, update) for at, update in enumerate(updates)]
    return rows


def expected(kind, rows, depth, check_sizes):
    """Ticks, faults and full books after every row, by the classes."""
    ticks, faults, books = [], [], []
    makers: dict[int, Any] = {}
    last_row: dict[int, int] = {}
    for row, (instrument, event, update) in enumerate(rows):
        maker = makers.get(instrument)
        if maker is None:
            maker = makers[instrument] = TickBuilder(CLASSES[kind](check_sizes=check_sizes), depth)
        tick, fault = maker.apply(event, update)
        if tick:
            ticks.append((instrument, last_row[instrument], tick))
        if fault:
            assert fault.key == update.key
            faults.append((row, fault.code))
        last_row[instrument] = row
        book: Any = maker.book
        books.append((book.state, book.orders(Side.BID), book.orders(Side.ASK)))
    for instrument, maker in makers.items():
        tick = maker.end_event()
        if tick:
            ticks.append((instrument, last_row[instrument], tick))
    ticks.sort(key=lambda found: found[1])
    return ticks, faults, books


def as_levels(ticks, at, side):
    return tuple(
        BookLevel(none_if_null(price), int(size), int(orders))
        for price, size, orders in zip(
            ticks.price[side, at], ticks.size[side, at], ticks.orders[side, at], strict=True
        )
        if orders
    )


def as_orders(book, side):
    return book.orders(Side(side))


def compare(replayed, plain_result, depth):
    ticks, faults, books = plain_result
    assert replayed.faults == faults
    assert [book.row for book in replayed.books] == list(range(len(books)))
    for found, (state, bids, asks) in zip(replayed.books, books, strict=True):
        assert (found.state, as_orders(found, 0), as_orders(found, 1)) == (state, bids, asks)
        assert list(found.side) == sorted(found.side)
    if depth == 0:
        assert len(replayed.ticks) == 0
        return
    assert len(replayed.ticks) == len(ticks)
    for at, (instrument, row, tick) in enumerate(ticks):
        assert replayed.ticks.instrument[at] == instrument
        assert replayed.ticks.row[at] == row
        assert replayed.ticks.event[at] == tick.event
        assert replayed.ticks.state[at] == tick.state
        assert as_levels(replayed.ticks, at, 0) == tick.bids
        assert as_levels(replayed.ticks, at, 1) == tick.asks
        absent = replayed.ticks.orders[:, at] == 0
        assert (replayed.ticks.price[:, at][absent] == NULL).all()
        assert (replayed.ticks.size[:, at][absent] == 0).all()


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=150, deadline=None)
@given(
    stories=st.lists(scripts, min_size=1, max_size=3),
    depth=st.integers(0, 4),
    per_event=st.integers(1, 3),
    check_sizes=st.booleans(),
)
def test_kernels_equal_the_classes_on_any_sequence(kind, stories, depth, per_event, check_sizes):
    rows = story_rows(kind, stories, per_event)
    replay = Replay(kind, depth, check_sizes=check_sizes, capacity=1, chunk=3)
    replayed = replay.run(rows_of(rows), dump_at=range(len(rows)))
    compare(replayed, expected(kind, rows, depth, check_sizes), depth)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), depth=st.integers(0, 11), per_event=st.integers(1, 4))
def test_kernels_equal_the_classes_on_long_sequences(kind, seed, depth, per_event):
    stories = [long_script(seed, 250), long_script(seed + 1, 100)]
    rows = story_rows(kind, stories, per_event)
    replayed = Replay(kind, depth, capacity=16, chunk=50).run(
        rows_of(rows), dump_at=range(len(rows))
    )
    compare(replayed, expected(kind, rows, depth, check_sizes=True), depth)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40, deadline=None)
@given(
    stories=st.lists(scripts, min_size=1, max_size=2),
    cuts=st.lists(st.integers(0, 120), max_size=4),
)
def test_a_replay_can_stop_anywhere_and_continue(kind, stories, cuts):
    rows = story_rows(kind, stories, 2)
    whole = Replay(kind, 3).run(rows_of(rows), dump_at=range(len(rows)))
    replay = Replay(kind, 3, chunk=2)
    edges = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    ticks, faults, books = [], [], []
    for begin, end in pairwise(edges):
        last = end == len(rows)
        part = replay.run(rows_of(rows[begin:end]), finish=last, dump_at=range(begin, end))
        ticks += [
            (int(part.ticks.row[at]), as_levels(part.ticks, at, 0), as_levels(part.ticks, at, 1))
            for at in range(len(part.ticks))
        ]
        faults += part.faults
        books += [(book.row, as_orders(book, 0), as_orders(book, 1)) for book in part.books]
        replay.state = replay.state.copy()  # a checkpoint continues like the original
    assert faults == whole.faults
    assert books == [(book.row, as_orders(book, 0), as_orders(book, 1)) for book in whole.books]
    assert ticks == [
        (int(whole.ticks.row[at]), as_levels(whole.ticks, at, 0), as_levels(whole.ticks, at, 1))
        for at in range(len(whole.ticks))
    ]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40, deadline=None)
@given(script=scripts, cut=st.integers(0, 60))
def test_a_full_book_brings_another_replay_to_the_same_state(kind, script, cut):
    rows = story_rows(kind, [script], 1)
    if not rows:
        return
    cut = min(cut, len(rows) - 1)
    first = Replay(kind, 0).run(rows_of(rows), dump_at=[cut, len(rows) - 1])
    checkpoint, last = first.books
    if checkpoint.state in (State.STALE, State.BUILDING, State.UNCONFIRMED):
        return
    second = Replay(kind, 0)
    loaded = second.run(checkpoint.rows(7, 0), dump_at=[len(checkpoint) + 1])
    assert loaded.faults == []
    assert as_orders(loaded.books[0], 0) == as_orders(checkpoint, 0)
    assert as_orders(loaded.books[0], 1) == as_orders(checkpoint, 1)
    rest = second.run(rows_of(rows[cut + 1 :]), dump_at=[second.done + len(rows) - cut - 2])
    assert as_orders(rest.books[0], 0) == as_orders(last, 0)
    assert as_orders(rest.books[0], 1) == as_orders(last, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_deep_books_grow_and_empty_again(kind):
    """Thousands of orders over many levels: capacity grows, the search goes below the scan."""
    feed = Feed()
    rng = np.random.default_rng(5)
    rows, standing = [], []
    book: Any = CLASSES[kind]()
    for order_id in range(1, 3001):
        price = 10_000 - int(rng.integers(0, 700))
        better = sum(order.price >= price for order in book.orders(BID))
        update = feed.new(BID, order_id, price, 5, position=better + 1)
        book.apply(update)
        rows.append((1, order_id, update))
        standing.append(order_id)
        if order_id % 3 == 0:
            gone = standing.pop(int(rng.integers(0, len(standing))))
            order = book.order(gone)
            at = position_in_side(book, gone)
            update = feed.delete(BID, gone, order.price, order.size, position=at)
            book.apply(update)
            rows.append((1, order_id, update))
    replay = Replay(kind, 2, capacity=16)
    replayed = replay.run(rows_of(rows), dump_at=[len(rows) - 1])
    assert replayed.faults == []
    assert as_orders(replayed.books[0], 0) == book.orders(BID)
    emptied = replay.run(rows_of([(1, 9999, feed.thru(BID))]), dump_at=[len(rows)])
    assert len(emptied.books[0]) == 0
    assert emptied.books[0].state is State.EMPTY


def test_many_faults_are_all_reported():
    feed = Feed()
    rows = []
    for at in range(3000):
        rows.append((1, at, feed.empty()))
        rows.append((1, at, feed.delete(BID, 5)))
    replayed = Replay(depth=1).run(rows_of(rows))
    assert len(replayed.faults) == 3000
    assert {code for _, code in replayed.faults} == {FaultCode.UNKNOWN_ORDER}
    assert [row for row, _ in replayed.faults] == list(range(1, 6000, 2))


def test_a_senseless_replay_is_refused():
    with pytest.raises(UsageError, match="depth"):
        Replay(depth=-1)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("side", np.array([0, 2], np.uint8)),
        ("kind", np.array([0, max(UpdateKind) + 1], np.uint8)),
        ("price", np.array([1], np.int64)),
        ("price", np.array([1, 2], np.int32)),
        ("order_id", np.array([[1, 2]], np.int64)),
    ],
)
def test_columns_that_could_not_be_walked_are_refused(column, values):
    feed = Feed()
    rows = rows_of([(1, 1, feed.new(BID, 1, 10, 5)), (1, 1, feed.new(BID, 2, 10, 5))])
    setattr(rows, column, values)
    with pytest.raises(UsageError, match="book updates"):
        Replay(depth=1).run(rows)


@settings(max_examples=30, deadline=None)
@given(data=st.data(), kind=st.sampled_from(KINDS))
def test_any_numbers_at_all_are_survived(data, kind):
    """Not every sequence makes sense; none may do more than make a book stale."""
    count = data.draw(st.integers(1, 30))
    rows = UpdateRows.empty(count)
    numbers = st.one_of(
        st.integers(-3, 5), st.sampled_from([NULL, -(2**62), 2**62, 2**63 - 1, NULL + 1])
    )
    for name, limit in (("kind", 12), ("side", 1), ("flags", 255)):
        getattr(rows, name)[:] = data.draw(
            st.lists(st.integers(0, limit), min_size=count, max_size=count)
        )
    for name in ("instrument", "event", "order_id", "price", "size", "previous", "position"):
        getattr(rows, name)[:] = data.draw(st.lists(numbers, min_size=count, max_size=count))
    replayed = Replay(kind, 2, capacity=4).run(rows, dump_at=range(count))
    assert len(replayed.books) == count
    assert len(replayed.faults) <= count
