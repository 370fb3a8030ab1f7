"""The kernels replay books by price depth exactly as PriceDepthBook does."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.book.audit import compare_books
from pregao.book.level_books import TickBuilder
from pregao.book.price_depth_book import PriceDepthBook
from pregao.book.replay import BookKind, Replay
from pregao.book.update_rows import none_if_null, rows_of
from pregao.book.updates import (
    BookEmptied,
    BookReset,
    GapExcluded,
    GapPossible,
    LevelAdded,
    LevelChanged,
    LevelDeleted,
    LevelOverlaid,
    MessagesMissing,
    RebuildEnded,
    SideCleared,
    SnapshotEnded,
    SnapshotLevel,
    SnapshotStarted,
    TopRemoved,
)
from pregao.book.views import BookLevel
from pregao.errors import UsageError
from pregao.units import Side
from tests.book.support import ASK, BID, key

KINDS = (
    ["add"] * 30 + ["change"] * 12 + ["delete"] * 12 + ["overlay"] * 6
    + ["thru", "from", "empty", "reset", "gap", "doubt", "confirm", "settle"]
    + ["snapshot"] * 4 + ["begin", "row", "end"]
)  # fmt: skip
steps = st.tuples(
    st.sampled_from(KINDS),
    st.sampled_from(Side),
    st.integers(0, 7),
    st.none() | st.integers(990, 1010),
    st.integers(1, 90),
    st.integers(1, 9),
    st.booleans(),
)
depths = st.none() | st.integers(1, 6)


def updates_of(at, step):
    """A random step; its positions usually exist, and sometimes do not."""
    kind, side, position, price, size, orders, flag = step
    where = key(at)
    rest = {"rpt_seq": None, "recovery": flag and size % 5 == 0}
    match kind:
        case "add":
            return [LevelAdded(where, side, position, price, size, orders, **rest)]
        case "change":
            stated = price if flag and size % 7 == 0 else None
            return [LevelChanged(where, side, position, stated, size, orders, **rest)]
        case "delete":
            return [LevelDeleted(where, side, position)]
        case "overlay":
            return [LevelOverlaid(where, side, price, size, orders, **rest)]
        case "thru":
            return [SideCleared(where, side)]
        case "from":
            return [TopRemoved(where, side, position)]
        case "snapshot" | "begin" | "row" | "end":
            rows = [
                SnapshotLevel(where, side, 1000 + number, size + number, orders)
                for number in range(position % 5 if kind == "snapshot" else 1)
            ]
            stated = (len(rows) + (size == 7), 0) if side is BID else (0, len(rows))
            whole = [SnapshotStarted(where, *(stated if flag else ())), *rows, SnapshotEnded(where)]
            return {"snapshot": whole, "begin": whole[:1], "row": rows, "end": whole[-1:]}[kind]
    plain = {
        "empty": BookEmptied, "reset": BookReset, "gap": MessagesMissing, "doubt": GapPossible,
        "confirm": GapExcluded, "settle": RebuildEnded,
    }  # fmt: skip
    return [plain[kind](where)]


def story_rows(stories, per_event):
    rows = []
    for instrument, script in enumerate(stories, 7):
        own = [update for at, step in enumerate(script) for update in updates_of(at, step)]
        rows += [(instrument, at // per_event, update) for at, update in enumerate(own)]
    return rows


def expected(rows, market_depth, depth):
    """Ticks, faults and books after every row, by the class."""
    ticks, faults, books, makers, last_row = [], [], [], {}, {}
    for row, (instrument, event, update) in enumerate(rows):
        if instrument not in makers:
            makers[instrument] = TickBuilder(PriceDepthBook(market_depth), depth)
        tick, fault = makers[instrument].apply(event, update)
        if tick:
            ticks.append((last_row[instrument], instrument, tick))
        if fault:
            faults.append((row, fault.code))
        last_row[instrument] = row
        book = makers[instrument].book
        books.append((book.state, [book.levels(side) for side in Side]))
    for instrument, maker in makers.items():
        tick = maker.end_event()
        if tick:
            ticks.append((last_row[instrument], instrument, tick))
    return sorted(ticks), faults, books


def levels(ticks, at, side):
    return tuple(
        BookLevel(none_if_null(price), int(size), int(orders))
        for price, size, orders in zip(
            ticks.price[side, at], ticks.size[side, at], ticks.orders[side, at], strict=True
        )
        if orders
    )


def shown(book):
    return book.state, [book.levels(side) for side in Side]


@settings(max_examples=300, deadline=None)
@given(
    stories=st.lists(st.lists(steps, max_size=40), min_size=1, max_size=3),
    market_depth=depths,
    depth=st.integers(0, 7),
    per_event=st.integers(1, 3),
)
def test_kernels_equal_the_class_on_any_sequence(stories, market_depth, depth, per_event):
    rows = story_rows(stories, per_event)
    replay = Replay(BookKind.DEPTH, depth, market_depth=market_depth, capacity=1, chunk=3)
    replayed = replay.run(rows_of(rows), dump_at=range(len(rows)))
    ticks, faults, books = expected(rows, market_depth, depth)
    assert replayed.faults == faults
    assert [shown(book) for book in replayed.books] == books
    assert all(book.of_levels and not book.orders(BID) for book in replayed.books)
    if depth:
        assert replayed.ticks.row.tolist() == [row for row, *_ in ticks]
        for at, (_, instrument, tick) in enumerate(ticks):
            assert replayed.ticks.instrument[at] == instrument
            assert (replayed.ticks.event[at], replayed.ticks.state[at]) == (tick.event, tick.state)
            assert (levels(replayed.ticks, at, 0), levels(replayed.ticks, at, 1)) == (
                tick.bids, tick.asks,
            )  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(script=st.lists(steps, max_size=60), market_depth=depths)
def test_the_rows_of_a_full_book_bring_a_replay_to_it(script, market_depth):
    rows = story_rows([script], 1)
    whole = Replay(BookKind.DEPTH, 0, market_depth=market_depth)
    for book in whole.run(rows_of(rows), dump_at=range(len(rows))).books:
        again = Replay(BookKind.DEPTH, 0, market_depth=market_depth)
        lines = book.rows(7, -1)
        (found,) = again.run(lines, dump_at=[len(lines) - 1]).books
        assert shown(found)[1] == shown(book)[1]


def test_an_audit_of_levels_reports_differences():
    def book(*rows):
        made = [SnapshotLevel(key(1), *row) for row in rows]
        updates = [SnapshotStarted(key(1)), *made, SnapshotEnded(key(1))]
        replay = Replay(BookKind.DEPTH, 0, market_depth=5)
        lines = rows_of([(7, 0, update) for update in updates])
        return replay.run(lines, dump_at=[len(lines) - 1]).books[0]

    one = book((BID, 1000, 50, 2), (BID, 999, 10, 1), (ASK, 1001, 5, 1))
    other = book((BID, 1000, 50, 3), (ASK, 1001, 5, 1), (ASK, 1002, 5, 1))
    assert compare_books(one, one) == []
    assert [str(difference) for difference in compare_books(one, other)] == [
        "bid level at position 1 has orders 2 instead of 3",
        "bid level at position 2 is in the rebuilt book only",
        "ask level at position 2 is in the snapshot only",
    ]


def test_a_market_depth_is_of_books_by_price_depth():
    with pytest.raises(UsageError, match="market depth"):
        Replay(BookKind.POSITION, market_depth=5)
    with pytest.raises(UsageError, match="market depth"):
        Replay(BookKind.DEPTH, market_depth=0)
    overlaid = rows_of([(7, 0, LevelOverlaid(key(1), BID, 1000, 5, 1))])
    with pytest.raises(UsageError, match="kind"):
        Replay(BookKind.POSITION).run(overlaid)
