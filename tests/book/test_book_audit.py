"""A rebuilt book is compared with a snapshot order by order."""

from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.book.audit import DifferenceKind as Kind
from pregao.book.audit import compare_books, compare_side
from pregao.book.replay import Replay
from pregao.book.update_rows import rows_of
from pregao.book.views import BookOrder
from tests.book.support import ASK, BID, Feed, Story, long_script

ORDERS = [BookOrder(n, BID, 1000 - n, 10 * n) for n in range(1, 6)]


def kinds(rebuilt, snapshot=ORDERS):
    return [(found.kind, found.position) for found in compare_side(BID, rebuilt, snapshot)]


def test_equal_sides_have_no_differences():
    assert kinds(ORDERS) == []


def test_missing_and_extra_orders_do_not_blame_their_neighbours():
    assert kinds(ORDERS[1:]) == [(Kind.MISSING, 1)]
    assert kinds([*ORDERS, BookOrder(9, BID, 1, 1)]) == [(Kind.EXTRA, 6)]
    assert kinds([BookOrder(9, BID, 1, 1), *ORDERS[:2], *ORDERS[3:]]) == [
        (Kind.EXTRA, 1),
        (Kind.MISSING, 3),
    ]


def test_other_content_is_named_field_by_field():
    wrong = [BookOrder(1, BID, 999, 11, firm=3), *ORDERS[1:]]
    (found,) = compare_side(BID, wrong, ORDERS)
    assert str(found) == (
        "bid order 1 at position 1 has size 11 instead of 10, firm 3 instead of None"
    )


def test_orders_that_swapped_positions_are_reported():
    assert kinds([ORDERS[1], ORDERS[0], *ORDERS[2:]]) == [(Kind.POSITION, 1), (Kind.POSITION, 2)]
    (first, _) = compare_side(BID, [ORDERS[1], ORDERS[0]], ORDERS[:2])
    assert str(first) == "bid order 1 at position 1 is at another position"


def test_orders_without_numbers_are_compared_by_position():
    bare = [BookOrder(None, BID, order.price, order.size) for order in ORDERS]
    assert kinds(bare, bare) == []
    assert kinds(bare[:-1], bare) == [(Kind.MISSING, 5)]
    assert kinds(bare, bare[:-1]) == [(Kind.EXTRA, 5)]
    assert kinds([bare[1], *bare[1:]], bare) == [(Kind.CONTENT, 1)]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), fault=st.integers(0, 3))
def test_a_planted_fault_is_found_and_a_clean_book_is_not_blamed(seed, fault):
    updates = Story(by_position=False).play(
        [step for step in long_script(seed, 60) if step[0] in ("add", "change", "delete")]
    )
    rows = rows_of([(1, at, update) for at, update in enumerate(updates)])
    rebuilt = Replay(depth=0).run(rows, dump_at=[len(rows) - 1]).books[0]
    again = Replay(depth=0).run(rebuilt.rows(1, 0), dump_at=[len(rebuilt) + 1]).books[0]
    assert compare_books(rebuilt, again) == []
    if len(rebuilt) == 0:
        return
    at = seed % len(rebuilt)
    if fault == 0:
        rebuilt.size[at] += 1
    elif fault == 1:
        rebuilt.firm[at] = 77_777
    elif fault == 2:
        rebuilt.order_id[at] += 500_000
    else:
        rebuilt.implied[at] ^= 1
    found = compare_books(rebuilt, again)
    assert {difference.side for difference in found} == {(BID, ASK)[rebuilt.side[at]]}
    assert len(found) == (2 if fault == 2 else 1)


def test_a_book_that_lost_a_message_shows_it():
    feed = Feed()
    updates = [feed.new(BID, 1, 10, 5), feed.new(BID, 2, 10, 6), feed.delete(BID, 1, 10, 5)]
    full, lossy = (
        Replay(depth=0).run(rows_of([(1, 1, u) for u in part]), dump_at=[len(part) - 1]).books[0]
        for part in (updates, updates[:2])
    )
    assert [str(found) for found in compare_books(lossy, full)] == [
        "bid order 1 at position 1 is in the rebuilt book only"
    ]
