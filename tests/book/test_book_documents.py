"""The books that the Binary UMDF guidelines (000) print, section by section."""

from pregao.book.priority_book import PriorityBook
from pregao.book.replay import Replay
from pregao.book.state import State
from pregao.book.update_rows import rows_of
from pregao.book.views import BookLevel
from tests.book.support import ASK, BID, Feed, fill, position_in_side, shown

# 12.2.1 a): the book of instrument A, sides as (id, size, price), prices in cents.
BIDS = [
    (300358, 15, 1210),
    (400358, 5, 1210),
    (545922, 10, 1210),
    (120478, 5, 1200),
    (303690, 15, 1200),
    (789100, 10, 1190),
]
OFFERS = [(95010, 15, 1230), (101020, 10, 1230), (434001, 25, 1260), (200452, 10, 1280)]


def instrument_a(bids=BIDS, asks=OFFERS):
    book, feed = PriorityBook(), Feed()
    rows = [(BID, oid, px, qty) for oid, qty, px in bids]
    rows += [(ASK, oid, px, qty) for oid, qty, px in asks]
    fill(book, feed, rows)
    return book, feed


def apply_all(book, *updates):
    """Apply to the book, and check that the kernel ends with the same one."""
    before = [
        (order.side, order.order_id, order.price, order.size)
        for side in (BID, ASK)
        for order in book.orders(side)
    ]
    for update in updates:
        assert book.apply(update) is None
    opening = Feed().snapshot(*before)
    rows = rows_of([(1, at, update) for at, update in enumerate([*opening, *updates])])
    replayed = Replay(depth=10).run(rows, dump_at=[len(rows) - 1])
    assert replayed.faults == []
    full = replayed.books[0]
    assert [
        (int(oid), int(size), int(price))
        for oid, size, price in zip(full.order_id, full.size, full.price, strict=True)
    ] == shown(book, BID) + shown(book, ASK)


def depth_book():
    """The book printed in 12.1.1 and 12.1.2."""
    book, feed = PriorityBook(), Feed()
    fill(
        book,
        feed,
        [
            (BID, 1, 1058, 5000),
            (BID, 2, 1058, 4000),
            (BID, 3, 1057, 3000),
            (BID, 4, 1054, 4000),
            (ASK, 5, 1103, 7000),
            (ASK, 6, 1103, 2000),
            (ASK, 7, 1105, 1000),
        ],
    )
    return book, feed


def test_12_1_orders_without_a_price_come_before_every_price_on_both_sides():
    book, feed = depth_book()
    apply_all(book)
    for side in (BID, ASK):
        assert book.apply(feed.new(side, 900 + side, None, 300)) is None
        assert book.apply(feed.new(side, 800 + side, None, 100)) is None
        assert [order.order_id for order in book.orders(side)][:2] == [800 + side, 900 + side]
        assert book.best(side) == BookLevel(None, 400, 2)
    assert book.best_price(BID) == 1058
    assert book.best_price(ASK) == 1103


def test_12_1_1_order_depth_book():
    book, _ = depth_book()
    assert shown(book, BID) == [(1, 5000, 1058), (2, 4000, 1058), (3, 3000, 1057), (4, 4000, 1054)]
    assert shown(book, ASK) == [(5, 7000, 1103), (6, 2000, 1103), (7, 1000, 1105)]


def test_12_1_2_the_delete_thru_case():
    book, feed = depth_book()
    apply_all(book, feed.thru(BID))
    assert shown(book, BID) == []
    assert shown(book, ASK) == [(5, 7000, 1103), (6, 2000, 1103), (7, 1000, 1105)]
    assert book.state is State.VALID


def test_12_2_1_adding_a_new_order():
    book, feed = instrument_a()
    apply_all(book, feed.new(ASK, 500910, 1230, 20))
    assert shown(book, BID) == BIDS
    assert shown(book, ASK) == [
        (95010, 15, 1230),
        (101020, 10, 1230),
        (500910, 20, 1230),
        (434001, 25, 1260),
        (200452, 10, 1280),
    ]


def test_12_2_2_1_modifying_an_order_keeping_priority():
    book, feed = instrument_a(asks=[*OFFERS[:2], (500910, 20, 1230), *OFFERS[2:]])
    apply_all(book, feed.change(ASK, 95010, 1230, 5, previous_size=15))
    assert shown(book, ASK) == [
        (95010, 5, 1230),
        (101020, 10, 1230),
        (500910, 20, 1230),
        (434001, 25, 1260),
        (200452, 10, 1280),
    ]


def test_12_2_2_2_modifying_an_order_losing_priority():
    book, feed = instrument_a(asks=[(95010, 5, 1230), OFFERS[1], (500910, 20, 1230), *OFFERS[2:]])
    apply_all(book, feed.delete(ASK, 95010, 1230, 5), feed.new(ASK, 645120, 1230, 20))
    assert shown(book, ASK) == [
        (101020, 10, 1230),
        (500910, 20, 1230),
        (645120, 20, 1230),
        (434001, 25, 1260),
        (200452, 10, 1280),
    ]
    assert shown(book, BID) == BIDS


BEFORE_THE_MATCH = [
    (101020, 10, 1230),
    (500910, 20, 1230),
    (645120, 20, 1230),
    (434001, 25, 1260),
    (200452, 10, 1280),
]


def test_12_2_3_matching_a_resting_order():
    book, feed = instrument_a(asks=BEFORE_THE_MATCH)
    steps = [
        feed.delete(ASK, 101020, 1230, 10),
        feed.delete(ASK, 500910, 1230, 20),
        feed.change(ASK, 645120, 1230, 10, previous_size=20),
    ]
    for step in steps:
        assert position_in_side(book, step.order_id) == 1  # the implicit position
        apply_all(book, step)
    assert shown(book, ASK) == [(645120, 10, 1230), (434001, 25, 1260), (200452, 10, 1280)]
    assert shown(book, BID) == BIDS


def test_12_2_4_1_a_real_order_takes_the_priority_over_an_implied_one():
    book, feed = instrument_a(asks=[(645120, 10, 1230), (434001, 25, 1260), (200452, 10, 1280)])
    assert book.apply(feed.new(ASK, 999999, 1220, 20, implied=True)) is None
    assert shown(book, ASK)[0] == (999999, 20, 1220)
    assert book.best_ask == BookLevel(1220, 20, 1)
    assert book.apply(feed.new(ASK, 300160, 1220, 15)) is None
    assert shown(book, ASK) == [
        (300160, 15, 1220),
        (999999, 20, 1220),
        (645120, 10, 1230),
        (434001, 25, 1260),
        (200452, 10, 1280),
    ]
    assert [order.implied for order in book.orders(ASK)] == [False, True, False, False, False]
    assert shown(book, BID) == BIDS


def test_13_1_1_matching_disclosed_quantity_orders():
    """Read with all prices 20.50: the iceberg is shown 500 at a time, under new numbers."""
    sord_21, sord_1, sord_2, sord_3 = 21, 31, 32, 33
    book, feed = PriorityBook(), Feed()
    fill(book, feed, [(BID, sord_21, 2050, 800), (BID, sord_1, 2050, 500)])
    steps = [
        (feed.delete(BID, sord_21, 2050, 800), sord_21),
        (feed.delete(BID, sord_1, 2050, 500), sord_1),
        (feed.new(BID, sord_2, 2050, 500), sord_2),
        (feed.delete(BID, sord_2, 2050, 500), sord_2),
        (feed.new(BID, sord_3, 2050, 500), sord_3),
    ]
    for step, order_id in steps:
        if book.order(order_id):
            assert position_in_side(book, order_id) == 1
        apply_all(book, step)
        if book.order(order_id):
            assert position_in_side(book, order_id) == 1
    assert shown(book, BID) == [(sord_3, 500, 2050)]


def implied_in():
    """18.1, moments 1 to 4: two outright legs, and the spread that they imply."""
    january, july, spread = PriorityBook(), PriorityBook(), PriorityBook()
    feed = Feed()
    assert january.apply(feed.new(BID, 10, 699, 10)) is None
    assert july.apply(feed.new(ASK, 20, 734, 10)) is None
    assert spread.apply(feed.new(ASK, 5_000_000, 35, 10, implied=True)) is None
    assert spread.apply(feed.new(ASK, 30, 35, 15)) is None
    return january, july, spread, feed


def test_18_1_implied_in_orders():
    january, july, spread, _ = implied_in()
    assert january.levels(BID) == [BookLevel(699, 10, 1)]
    assert july.levels(ASK) == [BookLevel(734, 10, 1)]
    assert [(order.price, order.size, order.implied) for order in spread.orders(ASK)] == [
        (35, 15, False),
        (35, 10, True),
    ]


def test_18_an_implied_order_is_last_at_its_price_whatever_its_number():
    book, feed = PriorityBook(), Feed()
    book.apply(feed.new(ASK, 1, 35, 10, implied=True))
    book.apply(feed.new(ASK, 2, 35, 15))
    assert [order.order_id for order in book.orders(ASK)] == [2, 1]


def test_18_3_match_that_involves_an_implied_order():
    """Read with the sides of the update table put right; the synthetic order comes back later."""
    january, july, spread, feed = implied_in()
    for step in (feed.delete(ASK, 30, 35, 15), feed.delete(ASK, 5_000_000, 35, 10)):
        assert position_in_side(spread, step.order_id) == 1
        assert spread.apply(step) is None
    assert january.apply(feed.change(BID, 10, 699, 5, previous_size=10)) is None
    assert july.apply(feed.change(ASK, 20, 734, 5, previous_size=10)) is None
    assert spread.apply(feed.new(ASK, 5_000_001, 35, 5, implied=True)) is None
    assert spread.levels(ASK) == [BookLevel(35, 5, 1)]
    assert january.levels(BID) == [BookLevel(699, 5, 1)]
    assert july.levels(ASK) == [BookLevel(734, 5, 1)]


def test_6_5_12_channel_reset_empties_the_book_and_recovery_messages_fill_it_again():
    book, feed = instrument_a()
    assert book.apply(feed.reset()) is None
    assert shown(book, BID) == shown(book, ASK) == []
    assert book.apply(feed.empty()) is None  # sent as well, for clients of a few instruments
    assert book.apply(feed.new(BID, 300358, 1210, 15, recovery=True, rpt_seq=1)) is None
    assert book.state.name == "BUILDING"
    assert book.apply(feed.new(BID, 400358, 1210, 5, recovery=True, rpt_seq=2)) is None
    assert book.state.name == "BUILDING"
    assert book.apply(feed.new(BID, 999000, 1210, 1, rpt_seq=3)) is None
    assert book.state is State.VALID
    assert book.best_bid == BookLevel(1210, 21, 3)


def test_6_5_13_empty_book_restarts_rpt_seq():
    book, feed = PriorityBook(), Feed()
    book.apply(feed.new(BID, 1, 1000, 5, rpt_seq=6998))
    assert book.last_rpt_seq == 6998
    book.apply(feed.empty())
    assert book.last_rpt_seq is None
    assert "EmptyBook" in book.reason
    book.apply(feed.new(BID, 1, 1000, 5, rpt_seq=1, recovery=True))
    assert book.last_rpt_seq == 1
    assert book.fault is None


def test_6_5_11_replenishing_after_a_stream_reset_needs_no_gap():
    """The sequence version rises and numbers restart: EmptyBook, then recovery orders."""
    book, feed = instrument_a()
    first = feed.empty()
    book.apply(first)
    assert book.last_key == first.key
    for order_id, size, price in BIDS:
        assert book.apply(feed.new(BID, order_id, price, size, recovery=True)) is None
    assert shown(book, BID) == BIDS
    assert shown(book, ASK) == []
