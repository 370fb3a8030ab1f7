"""Channels of the legacy feed, from FAST bytes to books: worked examples, synchronization, gaps."""

from __future__ import annotations

import random
from decimal import Decimal

import pytest

from pregao.book.state import State
from pregao.clock import MILLISECOND, MINUTE, SECOND
from pregao.feed.legacy.book_updates import CHANGE, DELETE, DELETE_FROM, DELETE_THRU, NEW, OVERLAY
from pregao.feed.legacy.channel import LegacyStreamFollower, LegacyStreamSettings
from pregao.legacy.loop_line import LoopMessage
from pregao.legacy.messages import MessageReader
from pregao.legacy.reassembly import AssembledMessage
from pregao.legacy.streams import MEGABOLSA, PUMA, LegacyStream
from pregao.legacy.times import moment_ns
from pregao.units import Side
from tests.legacy.writing import (
    SENT,
    datagram,
    entry,
    heartbeat,
    incremental,
    message,
    news,
    reset,
    snapshot,
)

BID, ASK = "0", "1"
BOOK = [
    (BID, 5000, "10.58"),
    (BID, 4000, "10.58"),
    (BID, 3000, "10.57"),
    (BID, 4000, "10.54"),
    (ASK, 7000, "11.03"),
    (ASK, 2000, "11.03"),
    (ASK, 1000, "11.05"),
]
LEVELS = [
    (BID, 9000, "10.58", {"NumberOfOrders": 2}),
    (BID, 3000, "10.57", {"NumberOfOrders": 1}),
    (BID, 4000, "10.54", {"NumberOfOrders": 1}),
    (BID, 10000, "10.53", {"NumberOfOrders": 4}),
    (BID, 8000, "10.50", {"NumberOfOrders": 3}),
]


class Desk:
    """A channel with a writer of its messages."""

    def __init__(self, **settings):
        self.channel = LegacyStreamFollower(LegacyStreamSettings(**settings))
        self.number = self.now = 0
        self.loop = 0

    def send(self, *entries, number=None):
        self.number = self.number + 1 if number is None else number
        self.raw(incremental(self.number, *entries))

    def raw(self, payload, stream=LegacyStream.INCREMENTAL):
        self.now += 1
        self.channel.receive(stream, "A", payload, self.now)

    def snapshot(self, last, rpt, *rows, **more):
        self.loop += 1
        for each in snapshot(self.loop, last, rpt, *rows, **more):
            self.raw(each, LegacyStream.MARKET_RECOVERY)

    def end_loop(self):
        self.loop = 0
        self.raw(reset(), LegacyStream.MARKET_RECOVERY)

    def wait(self):
        self.now += SECOND
        self.channel.tick(self.now)

    def rows(self, side, security=1111):
        book = self.channel.book(security)
        return [(order.size, price(order.price)) for order in book.orders(Side(int(side)))]

    def levels(self, side, security=1111):
        book = self.channel.book(security)
        return [
            (level.orders, level.size, price(level.price)) for level in book.levels(Side(int(side)))
        ]

    def state(self, security=1111):
        return self.channel.book_state(security)


def price(mantissa):
    return None if mantissa is None else f"{Decimal(mantissa).scaleb(-4):.2f}"


def shown(*rows):
    """A desk with a book from a snapshot; the incremental stream is at message 1."""
    desk = Desk()
    desk.raw(news(1))
    desk.number = 1
    depth = 5 if any(len(row) > 3 for row in rows) else None
    desk.snapshot(1, 7, *rows, depth=depth)
    return desk


def test_002_9_1_order_depth_book_from_bytes():
    desk = shown(*BOOK)
    assert desk.state() is State.VALID
    assert desk.rows(BID) == [row[1:] for row in BOOK[:4]]
    assert desk.rows(ASK) == [row[1:] for row in BOOK[4:]]


def test_002_9_a_new_entry_shifts_down_and_a_delete_shifts_up_from_bytes():
    desk = shown(*BOOK)
    desk.send(entry(BID, NEW, rpt=8, position=2, size=100, price="10.58"))
    assert desk.rows(BID)[:3] == [(5000, "10.58"), (100, "10.58"), (4000, "10.58")]
    desk.send(
        entry(BID, DELETE, rpt=9, position=1),
        entry(BID, CHANGE, rpt=10, position=1, size=60, price="10.58"),
    )
    assert desk.rows(BID)[:2] == [(60, "10.58"), (4000, "10.58")]
    assert desk.state() is State.VALID


def test_002_9_1_1_a_change_without_a_price_keeps_it_from_bytes():
    desk = shown(*BOOK)
    desk.send(entry(BID, CHANGE, rpt=8, position=3, size=60))
    assert desk.rows(BID) == [(5000, "10.58"), (4000, "10.58"), (60, "10.57"), (4000, "10.54")]
    assert desk.state() is State.VALID
    levels = shown(*LEVELS)
    levels.send(entry(BID, CHANGE, rpt=8, position=2, size=60, NumberOfOrders=1))
    assert levels.levels(BID)[1] == (1, 60, "10.57")


def test_002_9_1_1_note_2_only_its_position_identifies_an_order():
    desk = Desk(from_the_start=True)
    for size in (30, 20, 10):
        rpt = desk.number + 1
        desk.send(entry(BID, NEW, rpt=rpt, position=1, size=size, price="10.58", OrderID="5"))
    # Two orders of different firms may have the same number, and a message that of another order.
    desk.send(entry(BID, CHANGE, rpt=4, position=2, size=25, price="10.58", OrderID="9"))
    desk.send(entry(BID, DELETE, rpt=5, position=3, OrderID="7", MDEntryBuyer="3"))
    assert desk.rows(BID) == [(10, "10.58"), (25, "10.58")]
    assert desk.state() is State.VALID
    # A number without a position says nothing.
    desk.send(entry(BID, DELETE, rpt=6, OrderID="5"))
    assert desk.state() is State.STALE


def test_002_9_2_1_bottom_row_handling_from_bytes():
    desk = shown(*LEVELS)
    assert desk.levels(BID) == [
        (more["NumberOfOrders"], size, text) for _, size, text, more in LEVELS
    ]
    one = {"NumberOfOrders": 1}
    desk.send(entry(BID, NEW, rpt=8, position=1, size=1000, price="10.60", **one))
    assert [row[2] for row in desk.levels(BID)] == ["10.60", "10.58", "10.57", "10.54", "10.53"]
    desk.send(entry(BID, DELETE, rpt=9, position=3))
    assert len(desk.levels(BID)) == 4
    desk.send(entry(BID, NEW, rpt=10, position=5, size=8000, price="10.50", NumberOfOrders=3))
    assert [row[2] for row in desk.levels(BID)] == ["10.60", "10.58", "10.54", "10.53", "10.50"]
    assert desk.state() is State.VALID


def test_002_9_3_top_of_the_book_and_its_overlay_from_bytes():
    desk = Desk(market_depth=1, from_the_start=True)
    for rpt, (size, text) in enumerate([(10, "10.50"), (20, "10.51"), (5, "10.49")], 1):
        desk.send(entry(BID, OVERLAY, rpt=rpt, position=1, size=size, price=text, NumberOfOrders=1))
        assert desk.levels(BID) == [(1, size, text)]
    desk.send(entry(BID, DELETE, rpt=4, position=1))
    assert desk.levels(BID) == []
    assert desk.state() is State.EMPTY


def test_an_overlay_in_a_book_of_orders_is_not_passed_over():
    desk = shown(*BOOK)
    desk.send(entry(BID, OVERLAY, rpt=8, position=1, size=1, price="10.58"))
    assert desk.state() is State.STALE


def test_002_9_4_delete_from_from_bytes():
    desk = shown(*BOOK)
    desk.send(entry(BID, DELETE_FROM, rpt=8, position=3))
    assert desk.rows(BID) == [(4000, "10.54")]
    assert len(desk.rows(ASK)) == 3


def test_002_9_5_delete_thru_from_bytes():
    desk = shown(*BOOK)
    desk.send(entry(BID, DELETE_THRU, rpt=8, position=1))
    assert desk.rows(BID) == []
    assert len(desk.rows(ASK)) == 3
    # On PUMA it may be sent of an empty side (002 §15.3).
    desk.send(entry(BID, DELETE_THRU, rpt=9, position=1))
    assert desk.state() is State.VALID


def test_002_15_1_orders_without_a_price_rest_at_the_top_from_bytes():
    rows = [(BID, 8400, None), (BID, 3900, None), (BID, 300, "50.00"), (ASK, 1500, None)]
    desk = shown(*rows)
    desk.send(entry(BID, NEW, rpt=8, position=3, size=11000))
    assert desk.rows(BID) == [(8400, None), (3900, None), (11000, None), (300, "50.00")]
    levels = shown(
        (BID, 23600, None, {"NumberOfOrders": 4}), (BID, 300, "50.00", {"NumberOfOrders": 1})
    )
    assert levels.levels(BID) == [(4, 23600, None), (1, 300, "50.00")]


def test_a_price_of_more_digits_than_books_have_breaks_its_book_alone():
    desk = shown(*BOOK)
    desk.send(entry(BID, NEW, rpt=8, position=1, size=1, price="10.123456"))
    assert desk.state() is State.STALE
    assert "decimal places" in desk.channel.book(1111).reason


def test_a_book_from_the_start_counts_from_one():
    desk = Desk(from_the_start=True)
    desk.send(entry(BID, NEW, rpt=1, position=1, size=10, price="1.00"))
    assert desk.state() is State.VALID
    desk.send(entry(BID, NEW, rpt=3, position=1, size=10, price="1.00"))
    assert desk.state() is State.STALE


def test_002_5_3_5_synchronization_discards_what_a_snapshot_holds():
    desk = Desk()
    for rpt, number in enumerate(range(101, 106), 5):
        desk.send(entry(BID, NEW, rpt=rpt, position=1, size=number, price="10.00"), number=number)
    assert desk.state() is State.STALE
    assert not desk.channel.synchronized
    # The snapshot is as of message 103, whose count is 7: 104 and 105 come after it.
    desk.snapshot(103, 7, (BID, 103, "10.00"), (BID, 50, "9.00"))
    assert [size for size, _ in desk.rows(BID)] == [105, 104, 103, 50]
    assert desk.state() is State.VALID
    assert desk.channel.synchronized


def test_002_5_3_5_a_snapshot_older_than_the_queue_waits_for_the_next_loop():
    desk = Desk()
    desk.send(entry(BID, NEW, rpt=9, position=1, size=9, price="10.00"), number=109)
    desk.snapshot(90, 5, (BID, 5, "10.00"))
    assert desk.state() is State.STALE
    desk.end_loop()
    desk.snapshot(108, 8, (BID, 8, "10.00"))
    assert [size for size, _ in desk.rows(BID)] == [9, 8]
    assert desk.state() is State.VALID


def test_a_snapshot_ahead_of_the_incremental_stream_waits_its_turn():
    desk = Desk()
    desk.send(entry(BID, NEW, security=2, rpt=1, position=1, size=9, price="1.00"), number=10)
    desk.snapshot(11, 4, (BID, 8, "10.00"))
    assert desk.state() is not State.VALID
    desk.send(entry(BID, NEW, security=2, rpt=2, position=1, size=9, price="1.00"))
    assert desk.state() is State.VALID


def test_002_6_2_2_only_instruments_that_missed_something_are_stale():
    desk = Desk(from_the_start=True)
    for security in (1, 2):
        desk.send(entry(BID, NEW, security, 1, position=1, size=1, price="1.00"))
    desk.number += 1  # a message about instrument 1 gets lost
    desk.send(entry(BID, NEW, 1, 3, position=1, size=3, price="1.00"))
    desk.wait()
    assert desk.state(1) is State.STALE
    assert desk.state(2) is State.UNCONFIRMED
    desk.snapshot(desk.number, 3, *[(BID, 3, "1.00")] * 3, security=1)
    assert desk.state(1) is State.VALID
    assert len(desk.rows(BID, 1)) == 3


def test_no_snapshot_in_a_complete_loop_means_an_empty_book():
    desk = Desk()
    desk.send(entry(BID, NEW, 2, 5, position=1, size=1, price="1.00"), number=20)
    assert desk.state(2) is State.STALE
    desk.snapshot(20, 3, (BID, 3, "1.00"), security=1, reports=1)
    desk.end_loop()
    assert desk.state(1) is State.VALID
    assert desk.state(2) is State.EMPTY


def test_a_loop_with_a_missing_message_proves_nothing_absent():
    desk = Desk()
    desk.send(entry(BID, NEW, 2, 5, position=1, size=1, price="1.00"), number=20)
    desk.loop += 1
    desk.snapshot(20, 3, (BID, 3, "1.00"), security=1, reports=2)
    desk.end_loop()
    assert desk.state(2) is State.STALE


@pytest.mark.parametrize(
    "empty",
    [[reset(), reset()], [reset(), heartbeat(1), reset()], [heartbeat(1), heartbeat(1)]],
    ids=["MEGABOLSA", "MEGABOLSA with heartbeats", "PUMA"],
)
def test_002_15_2_an_empty_loop_proves_nothing(empty):
    """It states no message that it is as of: books, prices and orders are as without it."""
    joined = Desk()
    joined.send(entry(BID, NEW, rpt=5, position=1, size=1, price="1.00"), number=20)
    for payload in empty * 2:
        joined.raw(payload, LegacyStream.MARKET_RECOVERY)
    assert joined.state() is State.STALE
    desk = shown(*BOOK)
    desk.send(entry("7", NEW, rpt=8, price="11.03"))
    desk.end_loop()
    desk.send(entry(BID, NEW, rpt=10, position=1, size=1, price="10.58"), number=4)
    desk.wait()
    assert desk.state() is State.STALE
    for payload in empty * 2:
        desk.raw(payload, LegacyStream.MARKET_RECOVERY)
    assert desk.state() is State.STALE
    assert [key.entry_type for key in desk.channel.state.statistics[1111]] == ["7"]
    desk.snapshot(4, 10, *BOOK[:4])
    assert desk.state() is State.VALID
    for payload in empty * 2:
        desk.raw(payload, LegacyStream.MARKET_RECOVERY)
    assert desk.state() is State.VALID
    assert desk.rows(BID) == [row[1:] for row in BOOK[:4]]


@pytest.mark.parametrize("in_entries", [False, True], ids=["PUMA", "MEGABOLSA"])
@pytest.mark.parametrize(("following", "expected"), [(8, State.UNCONFIRMED), (9, State.STALE)])
def test_002_15_2_the_count_of_a_snapshot_is_that_of_its_message_or_of_its_entries(
    in_entries, following, expected
):
    desk = Desk()
    desk.raw(news(1))
    rows = [
        {"MDEntryType": BID, "MDEntrySize": size, "MDEntryPx": Decimal(10)} for size in (1, 2, 3)
    ]
    own = MessageReader().read(
        AssembledMessage(
            1,
            message(
                "SnapshotFullRefresh_153", 1, LastMsgSeqNumProcessed=1, RptSeq=7, SecurityID=1111,
                TotNumReports=1, MDEntries=rows,
            ),
        )
    )  # fmt: skip
    if in_entries:
        del own.values["RptSeq"]
        for each, count in zip(own.values["MDEntries"], (5, 7, 6), strict=True):
            each["RptSeq"] = count
    desk.channel.follower.snapshot(LoopMessage(1, own))
    # Message 2 is lost: the count shows that it concerned the instrument, or not.
    desk.send(entry(BID, NEW, rpt=following, position=1, size=9, price="10.00"), number=3)
    desk.wait()
    assert desk.state() is expected


def test_snapshots_in_chunks():
    rows = [(BID, size, "10.00") for size in range(1, 400)]
    desk = shown(*rows)
    assert len(snapshot(1, 1, 7, *rows)) > 3
    assert [size for size, _ in desk.rows(BID)] == list(range(1, 400))


def test_002_5_3_7_after_a_stream_reset_books_are_resynchronized():
    desk = shown(*BOOK)
    desk.raw(reset())
    desk.number = 0
    assert desk.state() is State.UNCONFIRMED
    desk.send(entry(ASK, DELETE, rpt=8, position=1))
    assert desk.state() is State.UNCONFIRMED
    desk.end_loop()
    desk.snapshot(1, 8, *BOOK[:4])
    assert desk.state() is State.VALID
    assert desk.rows(ASK) == []


def test_snapshots_of_the_sequence_before_a_reset_do_not_count_in_the_new_one():
    desk = shown(*BOOK)
    desk.send(entry(ASK, DELETE, rpt=8, position=1), number=2)
    desk.raw(reset())
    desk.number = 0
    desk.end_loop()
    desk.snapshot(2, 8, *BOOK)  # still of before
    desk.end_loop()
    desk.snapshot(0, 0, security=5)
    desk.send(entry(BID, NEW, 9, 1, position=1, size=1, price="1.00"))
    desk.send(entry(BID, NEW, 9, 2, position=1, size=1, price="1.00"))
    assert desk.state() is State.UNCONFIRMED


def test_002_5_3_7_snapshots_of_a_loop_that_the_reset_interrupted_do_not_count():
    desk = shown(*BOOK)
    desk.raw(reset())
    desk.number = 0
    # The rest of the loop may still refer to the numbers before the reset.
    desk.snapshot(1, 9, (BID, 1, "9.00"))
    desk.send(entry(ASK, DELETE, rpt=8, position=1))
    assert desk.state() is State.UNCONFIRMED
    desk.end_loop()
    desk.snapshot(1, 8, *BOOK[:4])
    assert desk.state() is State.VALID
    assert desk.rows(BID) == [row[1:] for row in BOOK[:4]]


def test_002_5_3_7_a_snapshot_ahead_of_the_reset_does_not_count_after_it():
    desk = shown(*BOOK)
    desk.snapshot(4, 9, (BID, 1, "9.00"))  # waits for message 4 of the numbers before the reset
    desk.raw(reset())
    desk.number = 0
    for rpt in range(8, 14):
        desk.send(entry("7", NEW, rpt=rpt, price="1.00"))
    assert desk.state() is State.UNCONFIRMED
    assert desk.rows(BID) == [row[1:] for row in BOOK[:4]]


def test_002_5_3_7_the_end_of_a_loop_that_the_reset_interrupted_proves_nothing_absent():
    desk = shown(*BOOK)  # the whole loop
    desk.send(entry(BID, NEW, 5, 1, position=1, size=1, price="1.00"))
    desk.send(entry("7", NEW, 5, 2, price="1.00"))
    desk.raw(reset())
    desk.number = 0
    desk.send(entry(BID, NEW, 5, 3, position=1, size=2, price="1.00"))
    desk.end_loop()
    assert (desk.state(5), desk.rows(BID, 5)) == (State.UNCONFIRMED, [(2, "1.00"), (1, "1.00")])
    assert [key.entry_type for key in desk.channel.state.statistics[5]] == ["7"]


def test_002_5_3_7_snapshots_of_a_site_with_other_numbers_do_not_count():
    desk = Desk(from_the_start=True)

    def send(feed, *payloads, stream=LegacyStream.MARKET_RECOVERY):
        for each in payloads:
            desk.now += 1
            desk.channel.receive(stream, feed, each, desk.now)

    first = entry(BID, NEW, rpt=1, position=1, size=7, price="1.00")
    for feed in "AB":
        send(feed, incremental(1, first), stream=LegacyStream.INCREMENTAL)
    send("B", reset())
    send("A", reset(), news(1, "of site A"), stream=LegacyStream.INCREMENTAL)
    assert desk.state() is State.UNCONFIRMED
    send("B", reset(), *snapshot(1, 1, 1, (BID, 9, "9.00")))
    assert (desk.state(), desk.rows(BID)) == (State.UNCONFIRMED, [(7, "1.00")])
    # Feed A's are received at once, though feed B is not silent.
    send("A", *snapshot(1, 1, 1, (BID, 8, "1.00")))
    assert (desk.state(), desk.rows(BID)) == (State.VALID, [(8, "1.00")])


def definition(number, *rows, action="A"):
    own = [
        {
            "Symbol": f"S{security}", "SecurityID": security, "ApplIDs": [{"ApplID": "10"}],
            "SecurityUpdateAction": action, "Product": 4, "SecurityType": "FUT",
            "SecuritySubType": "1", "SecurityDesc": "", "CFICode": "F", "CountryOfIssue": "BR",
            "IssueDate": 20130101, "SecurityValidityTimestamp": 0, "SecurityGroup": "DI",
        }
        for security in rows
    ]  # fmt: skip
    return datagram(
        "SecurityList_149", number, TotNoRelatedSym=len(rows), LastFragment="Y", RelatedSym=own,
        SendingTime=str(SENT),
    )  # fmt: skip


def test_002_8_3_the_book_of_a_deleted_instrument_is_removed():
    desk = shown(*BOOK)
    desk.send(entry(BID, NEW, rpt=9, position=1, size=1, price="10.58"))
    assert desk.state() is State.STALE
    desk.number += 1
    desk.raw(definition(desk.number, 1111, action="D"))
    assert desk.channel.book(1111) is None
    assert desk.channel.synchronized  # the deleted instrument waits for nothing
    # A snapshot of before the deletion shows it still.
    desk.snapshot(2, 9, *BOOK)
    assert desk.channel.book(1111) is None
    # An instrument of that number may be listed again.
    desk.number += 1
    desk.raw(definition(desk.number, 1111))
    desk.snapshot(2, 9, *BOOK)
    assert desk.rows(BID) == []
    desk.snapshot(desk.number, 3, (BID, 7, "1.00"))
    assert desk.rows(BID) == [(7, "1.00")]


def test_002_8_3_a_whole_list_without_an_instrument_removes_its_book():
    desk = shown(*BOOK)
    for number, listed in ((1, [1111, 2]), (2, [2])):
        desk.raw(definition(1, *listed), LegacyStream.INSTRUMENT_DEFINITION)
        desk.raw(reset(), LegacyStream.INSTRUMENT_DEFINITION)
        assert (desk.channel.book(1111) is not None) == (number == 1)
        desk.number += 1  # a message is lost: it may have deleted an instrument
        desk.send(entry(BID, NEW, 2, number, position=1, size=1, price="1.00"))
        desk.wait()


def test_002_6_1_snapshots_order_statistics_as_they_order_books():
    desk = Desk()
    desk.send(entry("7", NEW, rpt=5, price="12"), number=20)
    # It is ahead of the incremental stream: its statistics count when that has reached it.
    desk.snapshot(22, 7, ("8", None, "8"), (BID, 1, "9.00"))
    assert [key.entry_type for key in desk.channel.state.statistics[1111]] == ["7"]
    desk.send(entry("7", NEW, rpt=6, price="13"))
    desk.send(entry("8", NEW, rpt=7, price="8"))
    assert [key.entry_type for key in desk.channel.state.statistics[1111]] == ["8"]
    # In a later loop it is missing: it has neither a book nor statistics.
    desk.number += 1
    desk.send(entry("7", NEW, 2, 1, price="1"))
    desk.wait()
    desk.end_loop()
    desk.snapshot(desk.number, 1, ("7", None, "1"), security=2, reports=1)
    desk.end_loop()
    assert desk.state() is State.EMPTY
    assert desk.channel.state.statistics[1111] == {}


def test_002_5_3_8_book_reset_of_one_instrument():
    desk = shown(*BOOK)
    again = {"QuoteCondition": "R"}
    desk.send(entry("J", NEW), entry(BID, NEW, rpt=1, position=1, size=7, price="10.58", **again))
    assert desk.state() is State.BUILDING
    desk.send(entry(BID, NEW, rpt=2, position=2, size=8, price="10.57"))
    assert desk.state() is State.VALID
    assert desk.rows(BID) == [(7, "10.58"), (8, "10.57")]


@pytest.mark.parametrize("own_count", [0, 1, 57])
def test_002_5_3_8_the_entry_that_empties_a_book_may_have_its_own_count(own_count):
    desk = shown(*BOOK)
    following = own_count + 1 if own_count < 2 else 1
    desk.send(
        entry("J", NEW, rpt=own_count),
        entry(BID, NEW, rpt=following, position=1, size=7, price="1"),
    )
    assert desk.state() is State.VALID
    assert desk.rows(BID) == [(7, "1.00")]


def test_002_5_3_8_book_reset_of_the_channel():
    desk = shown(*BOOK)
    desk.snapshot(1, 4, (BID, 1, "2.00"), security=2)
    desk.send(entry("J", NEW, security=0))
    assert desk.rows(BID) == desk.rows(BID, 2) == []
    assert {desk.state(), desk.state(2)} == {State.EMPTY}


def test_the_kind_of_book_is_what_its_snapshot_shows():
    desk = Desk(from_the_start=True)
    desk.send(entry(BID, NEW, rpt=1, position=1, size=9000, price="10.58", NumberOfOrders=2))
    assert desk.rows(BID) == [(9000, "10.58")]  # taken for an order
    desk.snapshot(1, 1, (BID, 9000, "10.58", {"NumberOfOrders": 2}), depth=5)
    assert desk.levels(BID) == [(2, 9000, "10.58")]
    assert desk.channel.book(1111).market_depth == 5
    desk.send(entry(BID, CHANGE, rpt=2, position=1, size=8000, price="10.58", NumberOfOrders=1))
    assert desk.levels(BID) == [(1, 8000, "10.58")]
    assert desk.state() is State.VALID


def test_002_5_1_1_no_book_is_confirmed_when_the_stream_is_dead():
    desk = shown(*BOOK)
    now = desk.now
    assert desk.channel.book_state(1111, now + 29 * SECOND) is State.VALID
    assert desk.channel.book_state(1111, now + 30 * SECOND) is State.UNCONFIRMED


def test_002_6_2_1_messages_that_one_feed_lost_come_from_the_other_on_puma_only():
    for platform, expected in ((PUMA, State.VALID), (MEGABOLSA, State.STALE)):
        desk = Desk(from_the_start=True, platform=platform)
        rows = [
            incremental(at, entry(BID, NEW, rpt=at, position=1, size=at, price="1.00"))
            for at in (1, 2, 3)
        ]
        desk.raw(rows[0])
        for each in rows[1:]:
            desk.channel.receive(LegacyStream.INCREMENTAL, "B", each, desk.now)
        desk.raw(rows[2])
        desk.wait()
        assert desk.state() is expected


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_damaged_datagrams_never_break_a_channel(seed):
    draw = random.Random(seed)
    sent = [(LegacyStream.INCREMENTAL, news(1)), (LegacyStream.INCREMENTAL, reset())]
    for at in range(2, 30):
        kind = draw.choice([BID, ASK, "2", "4", "J", "g"])
        rows = [
            entry(kind, draw.randrange(6), draw.randrange(3), at, position=draw.randrange(1, 5),
                  size=at, price="10.5", NumberOfOrders=1)
            for _ in range(draw.randrange(1, 4))
        ]  # fmt: skip
        sent.append((LegacyStream.INCREMENTAL, incremental(at, *rows)))
    for each in snapshot(1, 20, 9, *BOOK) + snapshot(2, 20, 3, *LEVELS, security=2, depth=5):
        sent.append((LegacyStream.MARKET_RECOVERY, each))
    channel = LegacyStreamFollower(LegacyStreamSettings(market_depth=draw.choice([None, 1, 5])))
    for now in range(1500):
        stream, payload = draw.choice(sent)
        damaged = bytearray(payload)
        for _ in range(draw.randrange(3)):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        channel.receive(stream, draw.choice("AB"), bytes(damaged), now * 1_000_000)
        channel.tick(now * 1_000_000)
    assert channel.incremental.counters.rejected > 100
    assert channel.incremental.counters.delivered


TIMES = {
    0: (0, 0),
    1: (MILLISECOND, SECOND),
    100: (100 * MILLISECOND, MINUTE),
    959: (959 * MILLISECOND, 9 * MINUTE + 59 * SECOND),
    999: (999 * MILLISECOND, None),
    1000: (SECOND, 10 * MINUTE),
    59_999: (59 * SECOND + 999 * MILLISECOND, None),
    100_000: (MINUTE, 10 * 60 * MINUTE),
    235_959: (2 * MINUTE + 35 * SECOND + 959 * MILLISECOND, (24 * 60) * MINUTE - SECOND),
    240_000: (2 * MINUTE + 40 * SECOND, None),
    959_999: (9 * MINUTE + 59 * SECOND + 999 * MILLISECOND, None),
    999_999: (None, None),
    1_000_000: (10 * MINUTE, None),
}
"""Digits of a time of day: the time since midnight on PUMA, and on MEGABOLSA."""


@pytest.mark.parametrize("digits", TIMES)
@pytest.mark.parametrize("platform", [PUMA, MEGABOLSA])
def test_002_15_11_the_platform_decides_whether_a_time_has_milliseconds(platform, digits):
    day, midnight = 20130812, moment_ns(20130812, None)
    after = TIMES[digits][0 if platform is PUMA else 1]
    expected = None if after is None else midnight + after
    desk = Desk(platform=platform, from_the_start=True)
    when = {"MDInsertDate": day, "MDInsertTime": digits}
    desk.send(
        entry(BID, NEW, rpt=1, position=1, size=100, price="10.58", **when),
        entry("2", NEW, rpt=2, size=100, price="10.58", TradeID="10", MDEntryDate=day,
              MDEntryTime=digits),
    )  # fmt: skip
    (order,) = desk.channel.book(1111).orders(Side.BID)
    (trade,) = desk.channel.state.take_trades()
    assert (order.insert_time_ns, trade.time_ns) == (expected, expected)
    last = {"TradeID": "9", "MDEntryDate": day, "MDEntryTime": str(digits)}
    desk.snapshot(desk.number, 7, (BID, 100, "10.58", when), ("2", 3, "10.58", last), security=2222)
    desk.end_loop()
    (shown_order,) = desk.channel.book(2222).orders(Side.BID)
    assert shown_order.insert_time_ns == expected
    assert desk.channel.state.last_trades[2222, "E"].time_ns == expected
