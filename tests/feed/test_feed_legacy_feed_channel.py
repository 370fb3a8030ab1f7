"""A channel of the legacy feed in the form of every followed channel."""

from __future__ import annotations

from decimal import Decimal

import pytest

from pregao.book.state import State
from pregao.clock import SECOND
from pregao.errors import UsageError
from pregao.events import (
    BookChanged,
    ChannelDown,
    ChannelUp,
    EventsMissed,
    FailedOver,
    GapFound,
    StreamActive,
    StreamSilent,
    TradeBusted,
    TradeDone,
    VenueTrade,
)
from pregao.feed.channel.settings import ChannelSettings, ChannelState, Join, Leave, LegacyFeed
from pregao.feed.legacy.channel import LegacyFeedChannel
from pregao.legacy.streams import DEAD_AFTER_NS
from pregao.umdf.phases import Status
from pregao.umdf.streams import Stream
from pregao.umdf.templates import flag
from tests.legacy import writing
from tests.legacy.writing import (
    SENT,
    entry,
    heartbeat,
    incremental,
    news,
    reset,
    snapshot,
)

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
    assert trade.price_mantissa == expected


def test_002_10_a_trade_of_another_venue_is_an_event_of_its_own():
    followed = channel()
    trade = {"TradeID": "10", "MDEntryDate": 20130812}
    for rpt, (venue, action, size, price) in enumerate(
        [(None, 0, 100, "10.5"), ("X", 0, 7, "99"), ("X", 0, 8, "98"), ("E", 0, 90, "10.6"),
         ("X", 2, None, "98"), ("O", 0, 5, "97")], 1
    ):  # fmt: skip
        own = entry("2", action, SECURITY, rpt, size=size, price=price, MDStreamID=venue, **trade)
        followed.receive(Stream.INCREMENTAL, "A", incremental(rpt, own), START + rpt)
    events = followed.take_events()
    electronic = [
        (event.trade_id, event.price_mantissa, event.size, event.corrects, event.makes_last)
        for event in events
        if isinstance(event, TradeDone)
    ]
    assert electronic == [(10, 105_000, 100, False, True), (10, 106_000, 90, True, True)]
    others = [
        (event.venue, event.trade_id, event.price, event.size, event.corrects, event.busted)
        for event in events
        if isinstance(event, VenueTrade)
    ]
    assert others == [
        ("X", 10, 99, 7, False, False), ("X", 10, 98, 8, True, False),
        ("X", 10, 98, 0, False, True), ("O", 10, 97, 5, False, False),
    ]  # fmt: skip
    assert not [event for event in events if isinstance(event, TradeBusted)]


def test_002_10_1_the_number_of_a_trade_is_unique_on_its_day_only():
    followed = channel()
    for rpt, day in enumerate((20130812, 20130813, 20130813), 1):
        own = entry("2", 0, SECURITY, rpt, TradeID="10", size=1, price="10", MDEntryDate=day)
        followed.receive(Stream.INCREMENTAL, "A", incremental(rpt, own), START + rpt)
    trades = [event for event in followed.take_events() if isinstance(event, TradeDone)]
    assert [each.corrects for each in trades] == [False, False, True]


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
        7, Decimal("10.5"), 100, 3, 8,
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
    # What continues no sequence is no sign of life.
    followed.receive(Stream.INCREMENTAL, "A", b"unreadable", START + DEAD_AFTER_NS)
    assert followed.state is ChannelState.DOWN
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


def test_002_5_2_no_book_stays_valid_when_feeds_number_other_messages():
    """Feed A lost message 3, a deletion; what filled its number from B was another message."""
    followed = channel()
    deletion = entry("0", 2, SECURITY, 3, position=1)
    sent = [("A", bid(1)), ("A", bid(2)), ("B", news(3)), ("A", news(4, "of A"))]
    for at, (feed, datagram) in enumerate(sent):
        followed.receive(Stream.INCREMENTAL, feed, datagram, START + at)
    assert followed.book(SECURITY).state is State.VALID  # nothing contradicts it yet
    followed.receive(Stream.INCREMENTAL, "B", incremental(4, deletion), START + len(sent))
    assert followed.book(SECURITY).state is State.UNCONFIRMED
    (failover,) = [event for event in followed.take_events() if isinstance(event, FailedOver)]
    assert failover.site == ("A",)
    followed.receive(Stream.INCREMENTAL, "A", news(5), START + 10)
    shown = snapshot(1, 5, 3, ("0", 100, "10"), security=SECURITY)
    for each in [reset(), *shown]:  # the next loop
        followed.receive(Stream.SNAPSHOT, "A", each, START + 11)
    book = followed.book(SECURITY)
    assert (book.state, [level.size for level in book.bids]) == (State.VALID, [100])


def test_002_5_3_7_a_book_is_not_valid_when_only_the_other_site_sends():
    followed = channel()
    for number in (1, 2):
        for feed in "AB":
            followed.receive(Stream.INCREMENTAL, feed, bid(number), START + number)
    followed.receive(Stream.INCREMENTAL, "A", reset(), START + SECOND)
    followed.take_actions()
    # Feed A is synchronized with its own numbers, then falls silent; feed B has numbers of its own.
    for each in snapshot(1, 0, 2, *[("0", 100, "10.00")] * 2, security=SECURITY):
        followed.receive(Stream.SNAPSHOT, "A", each, START + SECOND)
    for at in range(2, 33):
        followed.receive(Stream.INCREMENTAL, "B", bid(at + 1), START + at * SECOND)
        deadline = followed.deadline()
        if deadline is not None and deadline <= START + at * SECOND:
            followed.tick(START + at * SECOND)
    # Now feed B is followed: its changes count, and the book waits for its snapshots.
    assert followed.counters.failovers == 1
    (failover,) = [event for event in followed.take_events() if isinstance(event, FailedOver)]
    assert failover.site == ("B",)
    assert followed.book(SECURITY).state is not State.VALID
    assert Join(Stream.SNAPSHOT, "B") in followed.take_actions()
    now = START + 33 * SECOND
    rows = [("0", 7, "10.00")]
    for each in snapshot(1, 33, 33, *rows, security=SECURITY):
        followed.receive(Stream.SNAPSHOT, "A", each, now)
    assert followed.book(SECURITY).state is not State.VALID  # they have the numbers of feed A
    for each in snapshot(1, 33, 33, *rows, security=SECURITY):
        followed.receive(Stream.SNAPSHOT, "B", each, now)
    assert followed.book(SECURITY).state is State.VALID
    assert [level.size for level in followed.book(SECURITY).bids] == [7]


def test_002_5_1_1_only_messages_that_continue_the_sequence_are_signs_of_life():
    followed = channel()
    followed.receive(Stream.INCREMENTAL, "A", bid(5), START)
    for at in range(1, 31):
        followed.receive(Stream.INCREMENTAL, "A", bytes(range(40)), START + at * SECOND)
        followed.receive(Stream.INCREMENTAL, "B", news(1), START + at * SECOND)
    followed.tick(START + DEAD_AFTER_NS)
    assert followed.state is ChannelState.DOWN
    assert followed.book(SECURITY).state is not State.VALID


@pytest.mark.parametrize("stream", [Stream.SNAPSHOT, Stream.DEFINITION])
def test_002_5_2_the_loops_of_the_other_feed_are_joined_when_one_is_silent(stream):
    followed = channel()
    other = Stream.DEFINITION if stream is Stream.SNAPSHOT else Stream.SNAPSHOT
    followed.take_actions()
    for at in range(1, 30):
        followed.receive(other, "A", heartbeat(1), START + at * SECOND)
        for feed in "AB":
            followed.receive(Stream.INCREMENTAL, feed, heartbeat(at), START + at * SECOND)
    assert followed.deadline() == START + DEAD_AFTER_NS
    followed.tick(START + DEAD_AFTER_NS)
    assert followed.take_actions() == [Leave(stream, "A"), Join(stream, "B")]
    # If that is silent, too, it is feed A's turn again.
    for at in range(30, 61):
        followed.receive(other, "A", heartbeat(1), START + at * SECOND)
        followed.tick(START + at * SECOND)
    assert followed.take_actions() == [Leave(stream, "B"), Join(stream, "A")]


def test_002_5_2_loops_are_joined_where_they_are():
    legacy = LegacyFeed(snapshot_feeds=("B",), definition_feeds=("A", "B"))
    followed = LegacyFeedChannel(ChannelSettings(72, legacy=legacy))
    followed.start(START)
    loops = [each for each in followed.take_actions() if each.stream is not Stream.INCREMENTAL]
    assert loops == [Join(Stream.SNAPSHOT, "B"), Join(Stream.DEFINITION, "A")]


NO_INSTRUMENT = writing.datagram(
    "SecurityList_149", 1, TotNoRelatedSym=0, LastFragment="Y", RelatedSym=[],
    SendingTime=str(SENT),
)  # fmt: skip


def synchronized():
    """A channel that has left its loops."""
    followed = channel()
    followed.receive(Stream.INCREMENTAL, "A", bid(1), START)
    followed.receive(Stream.DEFINITION, "A", NO_INSTRUMENT, START)
    assert followed.state is ChannelState.LIVE
    followed.take_actions()
    return followed


def test_002_5_2_loops_are_joined_on_a_feed_that_is_alive():
    followed = synchronized()
    for at in range(1, 32):
        followed.receive(Stream.INCREMENTAL, "B", heartbeat(1), START + at * SECOND)
    followed.receive(Stream.INCREMENTAL, "B", bid(3), START + 32 * SECOND)
    followed.tick(START + 33 * SECOND)
    assert followed.take_actions() == [Join(Stream.SNAPSHOT, "B"), Join(Stream.DEFINITION, "B")]


def test_002_5_2_snapshots_are_received_on_a_feed_with_the_numbers_of_the_line():
    followed = synchronized()
    for feed in "AB":
        followed.receive(Stream.INCREMENTAL, feed, bid(2), START + SECOND)
    followed.receive(Stream.INCREMENTAL, "B", reset(), START + 2 * SECOND)
    followed.receive(Stream.INCREMENTAL, "A", bid(3), START + 2 * SECOND)
    # Feed B was reset alone and leads; feed A is alive, but its snapshots have other numbers.
    assert followed.take_actions() == [Join(Stream.SNAPSHOT, "B"), Join(Stream.DEFINITION, "A")]


def test_002_5_3_8_the_channel_is_healing_while_an_emptied_book_is_not_refilled():
    followed = synchronized()
    order = {"position": 1, "size": 100, "price": "10"}
    again = entry("0", 0, SECURITY, 1, QuoteCondition="R", **order)
    followed.receive(
        Stream.INCREMENTAL, "A", incremental(2, entry("J", 0, SECURITY), again), START + 1
    )
    assert followed.book(SECURITY).state is State.BUILDING
    assert followed.state is ChannelState.HEALING
    assert Join(Stream.SNAPSHOT, "A") in followed.take_actions()
    # The first entry without "R": the book is recovered.
    followed.receive(
        Stream.INCREMENTAL, "A", incremental(3, entry("0", 0, SECURITY, 2, **order)), START + 2
    )
    assert followed.book(SECURITY).state is State.VALID
    assert followed.state is ChannelState.LIVE


def test_002_8_after_a_loss_the_channel_waits_for_definitions_and_states():
    followed = channel()
    definition = writing.datagram(
        "SecurityList_149", 1, TotNoRelatedSym=0, LastFragment="Y", RelatedSym=[],
        SendingTime=str(SENT),
    )  # fmt: skip
    followed.receive(Stream.INCREMENTAL, "A", bid(1), START)
    followed.receive(Stream.DEFINITION, "A", definition, START)
    assert followed.state is ChannelState.LIVE
    followed.receive(Stream.INCREMENTAL, "A", news(3), START + 1)
    followed.tick(START + SECOND)
    assert followed.state is ChannelState.HEALING
    followed.take_actions()
    for each in snapshot(1, 3, 1, ("0", 100, "10.00"), security=SECURITY):
        followed.receive(Stream.SNAPSHOT, "A", each, START + 3 * SECOND)
    followed.receive(Stream.SNAPSHOT, "A", reset(), START + 3 * SECOND)
    assert followed.book(SECURITY).state is State.VALID
    assert followed.state is ChannelState.HEALING  # definitions may have been lost, too
    followed.receive(Stream.DEFINITION, "A", reset(), START + 4 * SECOND)
    followed.receive(Stream.DEFINITION, "A", definition, START + 4 * SECOND)
    assert followed.state is ChannelState.LIVE


def test_002_8_after_a_loss_states_are_those_of_a_whole_loop_of_snapshots():
    followed = channel()
    definition = writing.datagram(
        "SecurityList_149", 1, TotNoRelatedSym=0, LastFragment="Y", RelatedSym=[],
        SendingTime=str(SENT),
    )  # fmt: skip
    followed.receive(Stream.INCREMENTAL, "A", bid(1), START)
    followed.receive(Stream.DEFINITION, "A", definition, START)
    followed.receive(Stream.INCREMENTAL, "A", news(3), START + 1)
    followed.tick(START + SECOND)
    followed.receive(Stream.DEFINITION, "A", definition, START + 2 * SECOND)
    for each in snapshot(1, 3, 1, ("0", 100, "10.00"), security=SECURITY):
        followed.receive(Stream.SNAPSHOT, "A", each, START + 3 * SECOND)
    assert followed.book(SECURITY).state is State.VALID
    # Message 2 may have been a change of phase, of any group.
    assert followed.state is ChannelState.HEALING
    followed.receive(Stream.SNAPSHOT, "A", reset(), START + 3 * SECOND)
    assert followed.state is ChannelState.LIVE


@pytest.mark.parametrize(
    ("platform", "status"), [("PUMA", Status.PAUSE), ("MEGABOLSA", Status.OPEN)]
)
def test_002_11_the_platform_decides_whether_an_instrument_keeps_its_own_state(platform, status):
    followed = LegacyFeedChannel(ChannelSettings(72, legacy=LegacyFeed(platform)))
    followed.start(START)
    group = {"SecurityGroup": "DI", "TradingSessionSubID": "17"}
    states = {"SecurityID": 1, "SecurityTradingStatus": 2}, {**group, "SecurityTradingStatus": 17}
    row = {
        "Symbol": "PETR4", "SecurityID": 1, "ApplIDs": [{"ApplID": "72"}], "Product": 4,
        "SecurityType": "CS", "SecuritySubType": "1", "SecurityDesc": "", "CFICode": "E",
        "SecurityUpdateAction": "A", "CountryOfIssue": "BR", "IssueDate": 20130101,
        "SecurityValidityTimestamp": 0, "SecurityGroup": "DI",
    }  # fmt: skip
    payloads = [
        writing.datagram(
            "SecurityList_149", 1, TotNoRelatedSym=1, LastFragment="Y", RelatedSym=[row],
            SendingTime=str(SENT),
        ),
        *[
            writing.datagram(
                "SecurityStatus_142", at, TradeDate=20130812, TransactTime=SENT, **values
            )
            for at, values in enumerate(states, 2)
        ],
    ]  # fmt: skip
    for each in payloads:
        followed.receive(Stream.INCREMENTAL, "A", each, START)
    assert followed.phases.status(1) is status


@pytest.mark.parametrize(("feeds", "followed"), [((), "A"), (("B",), "B")])
def test_002_5_2_on_megabolsa_a_feed_with_snapshots_is_followed(feeds, followed):
    legacy = LegacyFeed("MEGABOLSA", snapshot_feeds=feeds)
    assert LegacyFeedChannel(ChannelSettings(72, legacy=legacy)).incremental.followed == followed


@pytest.mark.parametrize(
    ("text", "names", "sub_type"),
    [(None, [], None), ("R", ["OpeningPrice"], None),
     ("X L", ["Crossed", "LastTradeAtTheSamePrice"], None),
     ("3", [], "MULTI_ASSET_TRADE"), ("X 3", ["Crossed"], "MULTI_ASSET_TRADE")],
)  # fmt: skip
def test_002_10_1_conditions_of_trades_are_those_of_the_binary_feed(text, names, sub_type):
    followed = channel()
    own = entry("2", 0, SECURITY, 1, TradeID="7", size=1, price="10", TradeCondition=text)
    followed.receive(Stream.INCREMENTAL, "A", incremental(1, own), START)
    (trade,) = [event for event in followed.take_events() if isinstance(event, TradeDone)]
    expected = sum(flag("TradeCondition", name) for name in names)
    assert (trade.condition, trade.sub_type) == (expected, sub_type)


def test_002_10_1_a_term_trade_and_a_late_one_are_marked():
    followed = channel()
    when = {"MDEntryDate": 20130812}
    own = [
        entry("2", 0, SECURITY, 1, TradeID="7", size=1, price="10", **when),
        entry("2", 0, SECURITY, 2, TradeID="8", size=1, price="10", SellerDays=30, **when),
        entry("2", 0, SECURITY, 3, TradeID="6", size=1, price="10", **when),
    ]
    followed.receive(Stream.INCREMENTAL, "A", incremental(1, *own), START)
    trades = [event for event in followed.take_events() if isinstance(event, TradeDone)]
    found = [(each.trade_id, each.forward, each.makes_last) for each in trades]
    assert found == [(7, False, True), (8, True, True), (6, False, False)]


def test_002_5_3_6_the_silence_of_one_of_two_feeds_is_detected():
    followed = LegacyFeedChannel(ChannelSettings(72, from_the_start=True, legacy=LegacyFeed()))
    followed.start(START)
    for at in range(1, 31):
        for stream in (Stream.INCREMENTAL, Stream.SNAPSHOT, Stream.DEFINITION):
            followed.receive(stream, "A", heartbeat(at), START + at * SECOND)
    followed.tick(START + DEAD_AFTER_NS)
    silent = [each for each in followed.take_events() if isinstance(each, StreamSilent)]
    assert [(each.stream, each.feed) for each in silent] == [(Stream.INCREMENTAL, "B")]
    assert followed.counters.silent == {(Stream.INCREMENTAL, "B")}


@pytest.mark.parametrize("stream", [Stream.SNAPSHOT, Stream.DEFINITION])
def test_002_5_3_6_the_silence_of_a_joined_stream_is_detected(stream):
    followed = LegacyFeedChannel(ChannelSettings(72, feeds=("A",), legacy=LegacyFeed()))
    followed.start(START)
    other = Stream.DEFINITION if stream is Stream.SNAPSHOT else Stream.SNAPSHOT
    for at in range(1, 31):
        for active in (Stream.INCREMENTAL, other):
            followed.receive(active, "A", heartbeat(at), START + at * SECOND)
    assert followed.deadline() <= START + DEAD_AFTER_NS
    followed.tick(START + DEAD_AFTER_NS)
    (silent,) = [each for each in followed.take_events() if isinstance(each, StreamSilent)]
    assert (silent.stream, silent.feed, silent.silent_ns) == (stream, "A", DEAD_AFTER_NS)
    assert followed.state is ChannelState.SILENT
    assert followed.counters.silent_streams == 1
    followed.receive(stream, "A", heartbeat(1), START + DEAD_AFTER_NS + 1)
    assert [each for each in followed.take_events() if isinstance(each, StreamActive)]
    assert followed.state is ChannelState.SYNCHRONIZING
