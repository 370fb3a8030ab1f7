"""The kernel of order histories: equal to its plain twin, however it is cut into windows."""

from copy import deepcopy
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.book.update_rows import NULL, UpdateKind, none_if_null, rows_of
from pregao.book.updates import (
    BookEmptied,
    MessageKey,
    OrderAdded,
    OrderChanged,
    OrderDeleted,
    SideCleared,
    SnapshotEnded,
    SnapshotOrder,
    SnapshotStarted,
    TopRemoved,
)
from pregao.feed.messages import BookColumns
from pregao.lake.analytics import _order_kernels as k
from pregao.lake.analytics import order_histories
from pregao.lake.analytics.order_histories import NO_SIDE, BookOfLives, OrderItems, TradedMoments
from pregao.umdf.gaps import GapStep
from pregao.units import Side
from tests.book.support import long_script, scripts
from tests.lake.analytics.order_twin import Histories, Item, Life, Trades, story


@pytest.fixture(autouse=True)
def little_space(monkeypatch):
    """Let the arrays grow in small stories, too."""
    monkeypatch.setattr(order_histories, "CAPACITY", 4)


KINDS = [(False, True), (True, True), (True, False)]
"""By priority, by position with numbers, by position alone."""
REASONS = [None, "FILLED", "CANCELLED", "SIDE_CANCELLED", "BOOK_EMPTIED", "UNOBSERVED"]


def columns_of(instruments):
    """The items of several instruments as the kernel takes them."""
    placed, columns = [], {name: [] for name in ("rank", "serial", "event", "step", "row", "time")}
    spans = []
    for rank, items in instruments:
        for item in items:
            first = len(placed)
            placed += [(rank, 0, update) for update in item.snapshot]
            spans.append((first, len(placed)) if item.snapshot else (0, 0))
            columns["rank"].append(rank)
            columns["serial"].append(item.serial)
            columns["event"].append(-1 if item.event is None else item.event)
            columns["step"].append(item.step)
            columns["row"].append(-1 if item.update is None else len(placed))
            if item.update is not None:
                placed.append((rank, 0, item.update))
                columns["time"] += [(len(placed) - 1, item.time)]
    rows = rows_of(placed)
    books = BookColumns(*(getattr(rows, column.name) for column in fields(BookColumns)))
    fixed = [BookColumns.empty(1, kind) for kind in (UpdateKind.INTERRUPT, UpdateKind.EMPTY)]
    books = BookColumns.concat([books, *fixed])
    times = np.full(len(books), NULL, np.int64)
    for at, time in columns["time"]:
        times[at] = time
    numbers = {name: np.array(columns[name], np.int64) for name in ("rank", "serial", "event")}
    first, end = np.array(spans, np.int64).reshape(-1, 2).T.copy()
    return OrderItems(
        np.arange(max((rank for rank, _ in instruments), default=-1) + 1), **numbers,
        step=np.array(columns["step"], np.uint8), book_row=np.array(columns["row"], np.int64),
        snapshot_first=first, snapshot_end=end, columns=books,
        implied=(books.flags & 1).astype(np.int64), times=times,
    )  # fmt: skip


def moments_of(trades_by_rank):
    rows = [
        (rank, moment, NULL if own.volume is None else own.volume, own.first,
         NO_SIDE if own.aggressor is None else int(own.aggressor))
        for rank, trades in enumerate(trades_by_rank)
        for moment, own in sorted(trades.items())
    ]  # fmt: skip
    return TradedMoments(*np.array(rows, np.int64).reshape(-1, 5).T.copy())


def life_of(row):
    """A row of the kernel as the twin has it."""
    value = {
        name: none_if_null(row[at])
        for name, at in {
            "order_id": k.ID, "side": k.SIDE, "serial": k.SERIAL, "event": k.EVENT,
            "price": k.PRICE, "firm": k.FIRM, "entered": k.ENTERED, "size": k.FIRST_SIZE,
            "queue_position": k.QUEUE, "changes": k.CHANGES, "reductions": k.REDUCTIONS,
            "reduced": k.REDUCED, "fills": k.FILLS, "filled": k.FILLED_SIZE,
            "unobserved": k.UNSEEN, "last_change": k.LAST_CHANGE, "last_size": k.LEFT,
            "ended": k.ENDED, "end_event": k.END_EVENT, "replenishes": k.REPLENISHES,
            "chain": k.CHAIN, "chain_position": k.CHAIN_POSITION,
        }.items()
    }  # fmt: skip
    return Life(
        **value,
        implied=None if row[k.IMPLIED_FLAG] == NULL else bool(row[k.IMPLIED_FLAG]),
        origin="snapshot" if row[k.ORIGIN] == k.SNAPSHOT else "message",
        entry_seen=bool(row[k.ENTRY_SEEN]),
        reason=REASONS[row[k.REASON]],
    )


def by_the_kernel(instruments, trades, kind, windows=1):
    """The lives of each instrument; with several windows there is one instrument."""
    by_position, named = kind
    book = BookOfLives(by_position=by_position, named=named)
    moments = moments_of(trades)
    found = {}
    count = sum(len(items) for items in instruments)
    for number in range(windows):
        part = list(enumerate(instruments))
        if windows > 1:
            cuts = number * count // windows, (number + 1) * count // windows
            part = [(0, instruments[0][cuts[0] : cuts[1]])]
        last = number == windows - 1
        items = columns_of(part)
        items.securities = np.arange(len(instruments))
        book.follow(items, moments, last=last)
        for row in book.take(last=last):
            found.setdefault(int(row[k.RANK]), []).append(life_of(row))
    return [in_order(found.get(rank, [])) for rank in range(len(instruments))]


def in_order(lives):
    return sorted(lives, key=lambda life: (life.serial, life.order_id))


def by_the_twin(items, trades, kind):
    by_position, named = kind
    return in_order(Histories(deepcopy(trades), by_position=by_position, named=named).follow(items))


def stories(drawn, seed, kind):
    by_position, named = kind
    made = [
        story(script, seed + at, by_position=by_position, named=named)
        for at, script in enumerate(drawn)
    ]
    return [items for items, _ in made], [trades for _, trades in made]


@settings(max_examples=150, deadline=None)
@given(st.lists(scripts, min_size=1, max_size=3), st.integers(0, 2**32), st.sampled_from(KINDS))
def test_the_kernel_equals_its_plain_twin(drawn, seed, kind):
    instruments, trades = stories(drawn, seed, kind)
    found = by_the_kernel(instruments, trades, kind)
    for own, items, traded in zip(found, instruments, trades, strict=True):
        assert own == by_the_twin(items, traded, kind)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(KINDS))
def test_any_number_of_windows_gives_the_same_rows(seed, kind):
    instruments, trades = stories([long_script(seed, 400)], seed, kind)
    whole = by_the_twin(instruments[0], trades[0], kind)
    assert len(whole) > 20
    for windows in (1, 2, 7, 50):
        assert by_the_kernel(instruments, trades, kind, windows) == [whole]


# --- Examples ---

PRIORITY, POSITION, LEGACY = KINDS
BID, ASK = Side.BID, Side.ASK


def key(number):
    return MessageKey(1, number)


def new(number, price, size, position=None, *, side=BID, firm=1, **more):
    return OrderAdded(key(number), side, number, price, size, position, firm, **more)


def change(number, price, size, position=None, *, previous=None, side=BID):
    return OrderChanged(key(number), side, number, price, size, previous, position, 1)


def delete(number, position=None, *, size=None, side=BID):
    return OrderDeleted(key(number), side, number, None, size, position)


def top(position, *, side=BID):
    return TopRemoved(key(1), side, position)


def messages(*rows, lost=()):
    """One item for each (event, update); before those in ``lost`` messages are missing."""
    stale, items = False, []
    for serial, (event, update) in enumerate(rows, 1):
        step = GapStep.GAP if serial - 1 in lost else GapStep.QUEUED
        stale = serial - 1 in lost or (stale and not isinstance(update, BookEmptied))
        if isinstance(update, list):
            stale = False
            items.append(Item(serial, snapshot=update, step=GapStep.LOADS))
            continue
        items.append(Item(serial, event, event, step if stale else GapStep.APPLIES, update))
    return items


def followed(items, kind, trades=None):
    """The rows of one instrument, which the twin has too."""
    trades = trades or {}
    found = by_the_kernel([items], [trades], kind)[0]
    assert found == by_the_twin(items, trades, kind)
    return found


def shown(lives, *names):
    return [tuple(getattr(life, name) for name in ("order_id", *names)) for life in lives]


def test_002_9_4_a_deletion_from_the_top_takes_the_first_positions():
    items = messages(
        (1, new(1, 50, 9, 1)),
        (2, new(2, 50, 9, 2)),
        (3, new(3, 51, 9, 1)),
        (4, new(4, 49, 9, 4)),
        (5, top(2)),
        (6, change(2, 50, 8, 1, previous=9)),
    )
    for kind in (POSITION, LEGACY):
        assert shown(followed(items, kind), "reason", "end_event", "last_size") == [
            (1, "CANCELLED", 5, 9),
            (2, None, None, 8),
            (3, "CANCELLED", 5, 9),
            (4, None, None, 9),
        ]


def test_after_a_loss_a_deletion_from_the_top_takes_no_order_of_an_unknown_side():
    """An order entered among the missing messages: positions are one off."""
    trade = {9: Trades(10, 2, ASK)}
    rows = [(1, new(1, 50, 9, 1)), (2, new(2, 49, 9, 2)), (3, new(3, 48, 9, 4)), (9, top(1))]
    assert shown(followed(messages(*rows, lost=[2]), POSITION, trade), "reason", "filled") == [
        (1, None, 0),
        (2, None, 0),
        (3, None, 0),
    ]
    assert shown(followed(messages(*rows[:2], *rows[3:]), POSITION, trade), "reason") == [
        (1, "FILLED"),
        (2, None),
    ]


def test_a_side_is_known_again_once_it_is_emptied_or_a_snapshot_arrives():
    begins = [(1, new(1, 50, 9, 1)), (2, new(2, 49, 9, 3))]
    emptied = [*begins, (3, BookEmptied(key(3))), (4, new(4, 50, 9, 1)), (5, top(1))]
    assert shown(followed(messages(*emptied, lost=[1]), POSITION), "reason", "end_event") == [
        (1, "BOOK_EMPTIED", 3),
        (2, "BOOK_EMPTIED", 3),
        (4, "CANCELLED", 5),
    ]
    snapshot = [
        SnapshotStarted(key(3), 2, 1),
        SnapshotOrder(key(3), BID, 2, 49, 9),
        SnapshotOrder(key(3), BID, 7, 48, 5),
        SnapshotOrder(key(3), ASK, 8, 60, 5),
        SnapshotEnded(key(3)),
    ]
    healed = [*begins, (None, snapshot), (4, new(4, 50, 9, 1)), (5, top(2)), (6, top(1, side=ASK))]
    assert shown(followed(messages(*healed, lost=[1]), POSITION), "reason", "end_event") == [
        (1, "UNOBSERVED", None),
        (2, "CANCELLED", 5),
        (7, None, None),
        (8, "CANCELLED", 6),
        (4, "CANCELLED", 5),
    ]


def test_a_replenished_clip_has_its_position_though_its_level_did_not_change():
    """100 are filled and 100 follow: a tick of the best levels would not show it."""
    items = messages(
        (1, new(1, 50, 100, firm=7)),
        (3, delete(1)),
        (3, new(3, 50, 100, firm=7)),
    )
    found = followed(items, PRIORITY, {3: Trades(100, 1, ASK)})
    assert shown(found, "queue_position", "reason", "replenishes", "chain_position") == [
        (1, 1, "FILLED", None, 1),
        (3, 1, None, 1, 2),
    ]


def test_000_12_2_4_1_an_implied_order_queues_after_all_others_of_its_price():
    items = messages(
        (1, new(1, 50, 9, implied=True)),
        (2, new(2, 50, 9)),
        (3, new(3, 50, 9)),
        (4, new(4, 50, 9, implied=True)),
        (5, new(5, 51, 9)),
    )
    assert shown(followed(items, PRIORITY), "queue_position") == [
        (1, 1), (2, 1), (3, 2), (4, 4), (5, 1),
    ]  # fmt: skip


def test_a_position_is_that_after_the_event_and_null_for_an_order_that_left_in_it():
    items = messages(
        (1, new(1, 50, 9)),
        (2, new(2, 50, 9)),
        (2, new(3, 50, 9)),
        (2, new(4, 50, 9)),
        (2, delete(1, size=9)),
        (2, delete(3, size=9)),
    )
    assert shown(followed(items, PRIORITY), "queue_position") == [
        (1, 1), (2, 1), (3, None), (4, 2),
    ]  # fmt: skip


def test_a_position_is_unknown_while_messages_are_missing():
    rows = [(1, new(1, 50, 9)), (2, new(2, 50, 9)), (3, new(3, 50, 9))]
    found = followed(messages(*rows, lost=[1]), PRIORITY)
    assert shown(found, "queue_position", "entry_seen") == [(1, 1, True), (2, None, True),
                                                            (3, None, True)]  # fmt: skip


def test_an_order_that_is_replaced_under_its_number_has_a_row_for_each_stay():
    items = messages(
        (1, new(1, 50, 9, 1, insert_time_ns=100)),
        (2, new(2, 51, 9, 1, insert_time_ns=200)),
        (3, delete(1, 2, size=9)),
        (3, new(1, 51, 9, 2, insert_time_ns=300)),
        (4, change(1, 51, 4, 2, previous=9)),
    )
    found = followed(items, POSITION)
    names = ("price", "entered", "queue_position", "changes", "reason", "end_event")
    assert shown(found, *names) == [
        (1, 50, 100, 1, 0, "CANCELLED", 3),
        (2, 51, 200, 1, 0, None, None),
        (1, 51, 300, 2, 1, None, None),
    ]


def test_an_order_resent_with_less_than_it_had_lost_it_unobserved():
    items = messages(
        (1, new(1, 50, 9)),
        (2, BookEmptied(key(2))),
        (2, new(1, 50, 5, recovery=True)),
        (3, delete(1, size=5)),
    )
    names = ("unobserved", "reductions", "reduced", "last_size", "reason", "entry_seen")
    assert shown(followed(items, PRIORITY), *names) == [(1, 4, 0, 0, 5, "CANCELLED", True)]


def test_fills_use_up_the_traded_volume_in_message_order():
    items = messages(
        (1, new(1, 50, 5)),
        (1, new(2, 50, 5)),
        (1, new(3, 50, 5)),
        (1, new(4, 60, 5, side=ASK)),
        (6, delete(1, size=5)),
        (6, change(2, 50, 2, previous=5)),
        (6, change(3, 50, 1, previous=5)),
        (6, delete(4, size=5, side=ASK)),
    )
    found = followed(items, PRIORITY, {6: Trades(8, 4, ASK)})
    names = ("reason", "fills", "filled", "reductions", "reduced", "last_size")
    assert shown(found, *names) == [
        (1, "FILLED", 1, 5, 0, 0, 5),
        (2, None, 1, 3, 0, 0, 2),
        (3, None, 0, 0, 1, 4, 1),
        (4, "CANCELLED", 0, 0, 0, 0, 5),
    ]


def test_a_side_that_is_canceled_or_a_book_that_is_emptied_ends_its_orders():
    items = messages(
        (1, new(1, 50, 5)),
        (2, new(2, 60, 5, side=ASK)),
        (3, SideCleared(key(3), BID)),
        (4, new(4, 50, 5)),
        (5, BookEmptied(key(5))),
    )
    assert shown(followed(items, PRIORITY), "reason", "ended", "end_event") == [
        (1, "SIDE_CANCELLED", 3, 3),
        (2, "BOOK_EMPTIED", 5, 5),
        (4, "BOOK_EMPTIED", 5, 5),
    ]


@pytest.mark.parametrize(("reports", "chosen"), [
    ([(7, 10)], 0),
    ([(7, 10), (7, 10), (7, 40)], 0),
    ([(7, 10), (7, 30), (7, 40)], 1),
    ([(7, 40), (7, 50)], 0),
    ([(6, 30), (8, 30)], -1),
    ([], -1),
])  # fmt: skip
def test_the_report_of_an_entry_is_the_last_up_to_it_or_the_first(reports, chosen):
    found = np.full(1, -1, np.int64)
    numbers = np.array([number for number, _ in reports], np.int64)
    times = np.array([time for _, time in reports], np.int64)
    one = np.ones(len(reports), np.int64)
    order = (np.array([value], np.int64) for value in (1, 7, 30))
    k.first_reports(*order, one, numbers, times, found)
    assert found.tolist() == [chosen]
