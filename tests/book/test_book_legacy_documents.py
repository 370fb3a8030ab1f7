"""The books that the FIX/FAST specification (002) prints, section by section."""

import pytest

from pregao.book.position_book import PositionBook
from pregao.book.price_depth_book import PriceDepthBook
from pregao.book.replay import BookKind, Replay
from pregao.book.state import FaultCode, State
from pregao.book.update_rows import NULL, rows_of
from pregao.book.updates import (
    LevelAdded,
    LevelChanged,
    LevelDeleted,
    LevelOverlaid,
    SideCleared,
    SnapshotEnded,
    SnapshotLevel,
    SnapshotStarted,
    TopRemoved,
)
from pregao.book.views import BookLevel
from tests.book.support import ASK, BID, Feed, fill, key

ORDER_DEPTH = [
    (BID, None, 1058, 5000),
    (BID, None, 1058, 4000),
    (BID, None, 1057, 3000),
    (BID, None, 1054, 4000),
    (ASK, None, 1103, 7000),
    (ASK, None, 1103, 2000),
    (ASK, None, 1105, 1000),
]
OFFERS_SHOWN = [(7000, 1103), (2000, 1103), (1000, 1105)]


def rows(book, side):
    return [(order.size, order.price) for order in book.orders(side)]


def order_depth_book():
    book, feed = PositionBook(), Feed()
    fill(book, feed, ORDER_DEPTH)
    return book, feed


def replayed(*updates):
    """The bids after a replay of the printed book and some updates, as (size, price)."""
    feed = Feed()
    opening = feed.snapshot(*ORDER_DEPTH)
    lines = rows_of([(1, at, update) for at, update in enumerate([*opening, *updates])])
    result = Replay(BookKind.POSITION, 5).run(lines, dump_at=[len(lines) - 1])
    assert result.faults == []
    full = result.books[0]
    return [
        (int(size), int(price))
        for side, size, price in zip(full.side, full.size, full.price, strict=True)
        if side == BID
    ]


def test_9_a_new_entry_at_4_shifts_the_others_down():
    book, feed = PositionBook(), Feed()
    fill(book, feed, [(BID, n, 2000 - n, n) for n in range(1, 11)])
    assert book.apply(feed.new(BID, 99, 1996, 50, position=4)) is None
    assert [order.order_id for order in book.orders(BID)] == [1, 2, 3, 99, *range(4, 11)]


def test_9_a_delete_at_7_shifts_the_others_up():
    book, feed = PositionBook(), Feed()
    fill(book, feed, [(BID, n, 2000 - n, n) for n in range(1, 11)])
    assert book.apply(feed.delete(BID, None, position=7)) is None
    assert [order.order_id for order in book.orders(BID)] == [1, 2, 3, 4, 5, 6, 8, 9, 10]


def test_9_1_order_depth_book():
    book, _ = order_depth_book()
    assert rows(book, BID) == [(5000, 1058), (4000, 1058), (3000, 1057), (4000, 1054)]
    assert rows(book, ASK) == OFFERS_SHOWN
    assert replayed() == rows(book, BID)


def test_9_1_1_a_change_keeps_its_position():
    book, feed = order_depth_book()
    change = feed.change(BID, None, 1058, 100, position=2)
    assert book.apply(change) is None
    assert rows(book, BID) == [(5000, 1058), (100, 1058), (3000, 1057), (4000, 1054)]
    assert replayed(change) == rows(book, BID)


def test_9_1_1_a_change_without_a_price_keeps_it():
    book, feed = order_depth_book()
    change = feed.change(BID, None, None, 100, position=3)
    assert book.apply(change) is None
    assert rows(book, BID) == [(5000, 1058), (4000, 1058), (100, 1057), (4000, 1054)]
    assert book.levels(BID) == [
        BookLevel(1058, 9000, 2), BookLevel(1057, 100, 1), BookLevel(1054, 4000, 1),
    ]  # fmt: skip
    assert replayed(change) == rows(book, BID)


def test_9_1_1_an_order_without_a_price_stays_one():
    book, feed = order_depth_book()
    updates = [
        feed.new(BID, 99, None, 700, position=1), feed.change(BID, None, None, 50, position=1),
    ]  # fmt: skip
    for update in updates:
        assert book.apply(update) is None
    assert rows(book, BID)[:2] == [(50, None), (5000, 1058)]
    assert replayed(*updates)[:2] == [(50, NULL), (5000, 1058)]


def test_9_2_the_price_depth_book_is_the_order_depth_book_added_up():
    book, _ = order_depth_book()
    assert book.levels(BID) == [
        BookLevel(1058, 9000, 2),
        BookLevel(1057, 3000, 1),
        BookLevel(1054, 4000, 1),
    ]
    assert book.levels(ASK) == [BookLevel(1103, 9000, 2), BookLevel(1105, 1000, 1)]


FIVE_ROWS = [
    BookLevel(1058, 9000, 2),
    BookLevel(1057, 3000, 1),
    BookLevel(1054, 4000, 1),
    BookLevel(1053, 10000, 4),
    BookLevel(1050, 8000, 3),
]


def price_depth_book(levels=FIVE_ROWS, market_depth=5):
    book = PriceDepthBook(market_depth)
    for position, level in enumerate(levels, 1):
        fault = book.apply(LevelAdded(key(position), BID, position, *level))
        assert fault is None
    return book


def test_9_2_1_price_depth_bottom_row_handling():
    book = price_depth_book()
    assert book.levels(BID) == FIVE_ROWS
    assert book.apply(LevelAdded(key(10), BID, 1, 1060, 1000, 1)) is None
    assert book.levels(BID) == [BookLevel(1060, 1000, 1), *FIVE_ROWS[:4]]
    assert book.apply(LevelDeleted(key(11), BID, 3)) is None
    four = [BookLevel(1060, 1000, 1), FIVE_ROWS[0], FIVE_ROWS[2], FIVE_ROWS[3]]
    assert book.levels(BID) == four  # the last row is missing until it is sent again
    assert book.apply(LevelAdded(key(12), BID, 5, 1050, 8000, 3)) is None
    assert book.levels(BID) == [*four, FIVE_ROWS[4]]
    assert book.state is State.VALID


def test_9_2_2_a_change_of_a_level_keeps_its_price():
    book = price_depth_book()
    assert book.apply(LevelChanged(key(10), BID, 2, 1057, 500, 2)) is None
    assert book.levels(BID)[1] == BookLevel(1057, 500, 2)
    assert book.apply(LevelChanged(key(11), BID, 2, None, 400, 1)) is None
    assert book.levels(BID)[1] == BookLevel(1057, 400, 1)
    fault = book.apply(LevelChanged(key(12), BID, 2, 1058, 400, 1))
    assert fault is not None
    assert fault.code is FaultCode.WRONG_PRICE
    assert fault.key == key(12)
    assert book.state is State.STALE


def test_9_3_top_of_the_book():
    book = PriceDepthBook(1)
    assert book.apply(LevelOverlaid(key(1), BID, 1058, 9000, 2)) is None
    assert book.apply(LevelOverlaid(key(2), ASK, 1103, 9000, 2)) is None
    assert book.apply(LevelOverlaid(key(3), BID, 1060, 1000, 1)) is None
    assert book.best_bid == BookLevel(1060, 1000, 1)
    assert book.best_ask == BookLevel(1103, 9000, 2)
    assert book.spread == 43
    assert book.apply(LevelAdded(key(4), BID, 1, 1061, 10, 1)) is None
    assert book.levels(BID) == [BookLevel(1061, 10, 1)]
    assert book.apply(LevelDeleted(key(5), BID, 1)) is None
    assert book.best_bid is None


def test_9_3_an_overlay_belongs_to_the_top_of_book_only():
    book = price_depth_book()
    fault = book.apply(LevelOverlaid(key(10), BID, 1058, 1, 1))
    assert fault is not None
    assert fault.code is FaultCode.OVERLAY_BELOW_TOP


def test_9_4_delete_from():
    book, feed = order_depth_book()
    update = feed.from_(BID, 3)
    assert book.apply(update) is None
    assert rows(book, BID) == [(4000, 1054)]
    assert rows(book, ASK) == OFFERS_SHOWN
    assert replayed(update) == [(4000, 1054)]


def test_9_4_delete_from_in_a_price_depth_book():
    book = price_depth_book()
    assert book.apply(TopRemoved(key(10), BID, 3)) is None
    assert book.levels(BID) == FIVE_ROWS[3:]


def test_9_5_delete_thru():
    book, feed = order_depth_book()
    update = feed.thru(BID)
    assert book.apply(update) is None
    assert rows(book, BID) == []
    assert rows(book, ASK) == OFFERS_SHOWN
    assert replayed(update) == []
    assert book.apply(feed.thru(BID)) is None  # 15.3: may come for an empty book


def test_9_5_delete_thru_in_a_price_depth_book():
    book = price_depth_book()
    assert book.apply(SideCleared(key(10), BID)) is None
    assert book.levels(BID) == []
    assert book.state is State.EMPTY


def test_15_1_market_on_auction_and_on_close_orders_rest_at_the_top():
    book, feed = PositionBook(), Feed()
    bids = [(8400, None), (3900, None), (11000, None), (300, None), (300, 5000)]
    bids += [(1100, 2320), (1100, 2320), (1200, 2320)]
    offers = [(1500, None), (1000, None), (100, None), (3000, 2250), (2000, 2250)]
    offers += [(100, 2278), (17700, 2278), (200, 2289), (500, 2289)]
    fill(book, feed, [(BID, None, price, size) for size, price in bids])
    fill(book, feed, [(ASK, None, price, size) for size, price in offers])
    assert book.levels(BID) == [
        BookLevel(None, 23600, 4),
        BookLevel(5000, 300, 1),
        BookLevel(2320, 3400, 3),
    ]
    assert book.levels(ASK) == [
        BookLevel(None, 2600, 3),
        BookLevel(2250, 5000, 2),
        BookLevel(2278, 17800, 2),
        BookLevel(2289, 700, 2),
    ]
    assert book.crossed


@pytest.mark.parametrize(
    ("update", "code"),
    [
        (LevelAdded(key(9), BID, 6, 1040, 1, 1), FaultCode.POSITION_BEYOND_END),
        (LevelAdded(key(9), BID, 0, 1040, 1, 1), FaultCode.POSITION_BEYOND_END),
        (LevelAdded(key(9), ASK, 2, 1040, 1, 1), FaultCode.POSITION_BEYOND_END),
        (LevelChanged(key(9), ASK, 1, 1040, 1, 1), FaultCode.POSITION_BEYOND_END),
        (LevelDeleted(key(9), BID, 6), FaultCode.POSITION_BEYOND_END),
        (TopRemoved(key(9), BID, 6), FaultCode.POSITION_BEYOND_END),
        (SnapshotEnded(key(9)), FaultCode.SNAPSHOT_NOT_BEGUN),
        (SnapshotLevel(key(9), BID, 1, 1, 1), FaultCode.SNAPSHOT_NOT_BEGUN),
    ],
)
def test_a_price_depth_book_that_cannot_follow_is_stale(update, code):
    book = price_depth_book()
    fault = book.apply(update)
    assert fault is not None
    assert (fault.code, fault.key) == (code, key(9))
    assert book.levels(BID) == FIVE_ROWS  # it stands still
    assert book.apply(LevelDeleted(key(10), BID, 1)) is None
    assert (book.levels(BID), book.skipped) == (FIVE_ROWS, 1)


def test_a_snapshot_heals_a_price_depth_book():
    book = price_depth_book()
    book.interrupt(key(8), "message 7 is missing")
    assert book.fault is not None
    book.apply(SnapshotStarted(key(9), 2, 0, 55))
    book.apply(SnapshotLevel(key(9), BID, 1058, 5, 1, 1))
    book.apply(SnapshotLevel(key(9), BID, 1057, 6, 1))
    assert book.state.name == "BUILDING"
    assert book.apply(SnapshotEnded(key(9))) is None
    assert book.state is State.VALID
    assert book.levels(BID) == [BookLevel(1058, 5, 1), BookLevel(1057, 6, 1)]
    assert book.last_rpt_seq == 55


def test_a_price_depth_book_without_a_limit_keeps_every_level():
    book = PriceDepthBook(None)
    for position in range(1, 31):
        assert book.apply(LevelAdded(key(position), ASK, position, 1000 + position, 1, 1)) is None
    assert len(book.levels(ASK)) == 30
