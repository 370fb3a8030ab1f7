"""A channel of the legacy feed in the form of every followed channel."""

from __future__ import annotations

import pytest

from pregao.book.state import State
from pregao.clock import SECOND
from pregao.errors import UsageError
from pregao.events import (
    BookChanged,
    ChannelDown,
    ChannelUp,
    EventsMissed,
    GapFound,
    TradeBusted,
    TradeDone,
)
from pregao.feed.channel.settings import ChannelSettings, ChannelState, Join, Leave, LegacyFeed
from pregao.feed.legacy.channel import LegacyFeedChannel
from pregao.legacy.streams import DEAD_AFTER_NS
from pregao.umdf.streams import Stream
from tests.legacy.writing import entry, heartbeat, incremental, news, snapshot

START = 1_376_308_800_000_000_000
SECURITY = 1111


def channel(**settings):
    found = LegacyFeedChannel(
        ChannelSettings(72, legacy=LegacyFeed(), from_the_start=True, **settings)
    )
    found.start(START)
    return found


def bid(number, position=1):
    return incremental(
        number, entry("0", 0, SECURITY, number, position=position, size=100, price="10")
    )


def test_it_asks_for_its_streams_and_leaves_those_that_it_does_not_need():
    followed = channel()
    actions = followed.take_actions()
    assert Join(Stream.INCREMENTAL, "B") in actions
    assert Join(Stream.SNAPSHOT, "A") in actions
    assert not any(isinstance(each, Leave) for each in actions)
    assert followed.state is ChannelState.STARTING
    followed.receive(Stream.INCREMENTAL, "A", bid(1), START)
    assert followed.state is ChannelState.SYNCHRONIZING
    assert followed.book(SECURITY).state is State.VALID


@pytest.mark.parametrize(
    "text", ["7" * 18, str(2**62), str(2**63 - 1), str(2**63), "9" * 19, "7" * 40, "7" * 5_000],
    ids=len,
)  # fmt: skip
def test_identifiers_that_are_too_long_are_none_and_harm_no_channel(text):
    followed = channel()
    trade = {"size": 100, "price": "10.5", "MDEntryDate": 20130812}
    datagrams = [
        incremental(1, entry("2", 0, SECURITY, 1, TradeID=text, MDEntryBuyer=text, **trade)),
        incremental(2, entry("2", 0, SECURITY, 2, TradeID="7", MDEntrySeller=text, **trade)),
        incremental(3, entry("0", 0, SECURITY, 3, position=1, size=100, price="10", OrderID=text,
                             MDEntryBuyer=text)),
        bid(4, position=2),
    ]  # fmt: skip
    for at, datagram in enumerate(datagrams):
        followed.receive(Stream.INCREMENTAL, "A", datagram, START + at)
    number = int(text) if len(text) < 20 and int(text) < 2**63 else None
    trades = [event for event in followed.take_events() if isinstance(event, TradeDone)]
    assert [(each.trade_id, each.buyer, each.seller) for each in trades] == [
        (number or 0, number, None), (7, None, number),
    ]  # fmt: skip
    assert followed.counters.messages == 4


@pytest.mark.parametrize(
    ("price", "expected"),
    [("922337203685477.5807", 2**63 - 1), ("922337203685478", 0), ("9E+18", 0)],
)
def test_prices_of_trades_fit_a_column(price, expected):
    followed = channel()
    datagram = incremental(1, entry("2", 0, SECURITY, 1, TradeID="7", size=1, price=price))
    followed.receive(Stream.INCREMENTAL, "A", datagram, START)
    (trade,) = [event for event in followed.take_events() if isinstance(event, TradeDone)]
    assert trade.price == expected


def test_books_trades_and_gaps_are_emitted_in_order():
    followed = channel()
    datagrams = [
        bid(1),
        incremental(2, entry("2", 0, SECURITY, 2, size=100, price="10.5", TradeID="7",
                             MDEntryBuyer="3", MDEntrySeller="8", MDEntryDate=20130812)),
        incremental(3, entry("2", 2, SECURITY, 3, TradeID="7", MDEntryDate=20130812)),
        news(6),
    ]  # fmt: skip
    for at, datagram in enumerate(datagrams):
        followed.receive(Stream.INCREMENTAL, "A", datagram, START + at)
    followed.tick(START + SECOND)
    events = followed.take_events()
    kinds = [type(event) for event in events if not isinstance(event, GapFound)]
    assert [kind for kind in kinds if kind in (BookChanged, TradeDone, TradeBusted)] == [
        BookChanged, TradeDone, TradeBusted,
    ]  # fmt: skip
    (trade,) = [event for event in events if isinstance(event, TradeDone)]
    assert (trade.trade_id, trade.price, trade.size, trade.buyer, trade.seller) == (
        7, 105_000, 100, 3, 8,
    )  # fmt: skip
    assert not trade.corrects
    (gap,) = [event for event in events if isinstance(event, GapFound)]
    assert (gap.first, gap.last) == (4, 5)
    assert followed.counters.lost_packets == 2
    assert followed.book(SECURITY).state is State.UNCONFIRMED


def test_002_5_1_1_silence_confirms_nothing():
    followed = channel()
    followed.receive(Stream.INCREMENTAL, "A", bid(1), START)
    assert followed.deadline() == START + DEAD_AFTER_NS
    followed.tick(START + DEAD_AFTER_NS)
    assert followed.state is ChannelState.DOWN
    assert not followed.is_alive("A")
    assert followed.book(SECURITY).state is State.UNCONFIRMED
    followed.receive(Stream.INCREMENTAL, "A", heartbeat(2), START + DEAD_AFTER_NS + 1)
    kinds = [type(event) for event in followed.take_events()]
    assert kinds.index(ChannelDown) < kinds.index(ChannelUp)
    assert followed.book(SECURITY).state is State.VALID


def test_datagrams_of_something_else_are_counted_and_cost_nothing():
    followed = channel()
    followed.receive(Stream.INCREMENTAL, "A", bytes(range(40)), START)
    followed.receive(Stream.INCREMENTAL, "A", bid(1), START + 1)
    followed.receive(Stream.INCREMENTAL, "Z", bid(2), START + 2)
    assert followed.counters.packets == 3
    assert followed.counters.bad_packets == 2
    assert [level.size for level in followed.book(SECURITY).bids] == [100]


def test_a_book_by_prices_has_levels_and_no_orders():
    followed = channel()
    rows = [("0", 300, "10.00", {"NumberOfOrders": 2})]
    for datagram in snapshot(1, 0, 4, *rows, security=SECURITY, depth=5):
        followed.receive(Stream.SNAPSHOT, "A", datagram, START)
    followed.receive(Stream.INCREMENTAL, "A", news(1), START + 1)
    book = followed.book(SECURITY)
    assert [(level.size, level.orders) for level in book.bids] == [(300, 2)]
    assert book.orders(0) == []


def test_a_slow_reader_is_notified_of_losses():
    followed = channel(max_events=3)
    for number in range(1, 11):
        followed.receive(Stream.INCREMENTAL, "A", bid(number), START + number)
    events = followed.take_events()
    assert isinstance(events[0], EventsMissed)
    followed.enable_events(enabled=False)
    followed.receive(Stream.INCREMENTAL, "A", bid(11), START + 11)
    assert followed.take_events() == []


def test_an_unknown_platform_is_refused():
    with pytest.raises(UsageError, match="PUMA or MEGABOLSA"):
        LegacyFeedChannel(ChannelSettings(72, legacy=LegacyFeed("BELL")))
