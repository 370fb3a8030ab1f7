"""`pregao.Book` and `pregao.follow`: books from messages and channels from captures."""

import json
from dataclasses import replace
from decimal import Decimal
from itertools import chain

import pytest

import pregao
from pregao.capture import read_blocks
from pregao.errors import UsageError
from pregao.events import BookChanged, GapFound, Synchronized, TradeBusted, TradeDone
from pregao.feed.channel.channel import Channel
from pregao.feed.channel.settings import ChannelSettings
from pregao.live.items import LiveEvent
from pregao.umdf import templates
from pregao.umdf.sequencing import LAST_SEQUENCE_VERSION
from pregao.umdf.streams import Stream
from tests.cli.market import Market, order, small_market
from tests.entrypoint.captured_talk import conversation, segments_of, write_capture

State = pregao.State


@pytest.fixture(scope="module")
def truth(day):
    """The books at the end, by instrument: price, size and number of each order."""
    lines = (day / "truth" / "books.jsonl").read_text().splitlines()
    finals = [final for line in lines if (final := json.loads(line))["final"]]
    return {
        final["security_id"]: [
            (None if price is None else Decimal(price), size, order_id)
            for price, size, order_id, *_ in chain(final["bids"], final["asks"])
        ]
        for final in finals
    }


def content(book):
    return [(order.price, order.size, order.order_id) for order in book.orders]


def fed(book, capture):
    for message in capture.messages():
        book.apply(message)
    return book


def test_a_book_from_all_messages_is_the_exchanges(day, truth):
    messages = list(pregao.read(day).messages())
    for security_id, expected in truth.items():
        book = pregao.Book(security_id)
        assert sum(map(book.apply, messages)) > 0
        assert book.state is (State.VALID if expected else State.EMPTY)
        assert content(book) == expected


def test_a_book_of_the_instrument_that_messages_name(day, truth):
    for security_id, expected in truth.items():
        book = fed(pregao.Book(), pregao.read(day / "*_A.pcap", security_id=security_id))
        assert book.security_id == security_id or not expected
        assert content(book) == expected


def test_a_repeat_is_passed_over(day, truth):
    security_id = next(iter(truth))
    messages = list(pregao.read(day / "*_Incremental_A.pcap").messages())
    book = pregao.Book(security_id)
    for message in messages:
        book.apply(message)
        assert not book.apply(message)
    assert content(book) == truth[security_id]


def test_000_6_5_5_1_after_the_last_sequence_version_comes_the_first(day, truth):
    security_id = next(iter(truth))
    messages = pregao.read(day / "*_Incremental_A.pcap", security_id=security_id).messages()
    first, second, *_ = (each for each in messages if each.template_id == templates.ORDER)
    book = pregao.Book(security_id)
    assert book.apply(replace(first, sequence_version=LAST_SEQUENCE_VERSION))
    assert book.apply(replace(second, sequence_version=1, sequence_number=1))
    assert not book.apply(replace(first, sequence_version=LAST_SEQUENCE_VERSION))


def test_levels_add_the_orders_up(day, truth):
    security_id = max(truth, key=lambda each: len(truth[each]))
    book = fed(pregao.Book(security_id), pregao.read(day))
    for levels, side in ((book.bids, 0), (book.asks, 1)):
        own = [order for order in book.orders if order.side == side]
        assert sum(level.size for level in levels) == sum(order.size for order in own)
        assert [level.price for level in levels] == list(dict.fromkeys(o.price for o in own))
    assert f"{security_id}: valid" in str(book)


def test_missed_messages_make_a_book_stale_and_a_snapshot_heals_it(day, truth):
    security_id = max(truth, key=lambda each: len(truth[each]))
    (feed,) = (day / name for name in ["051_Incremental_A.pcap"] if (day / name).exists())
    messages = list(pregao.read(feed, security_id=security_id).messages())
    book = pregao.Book()
    for message in messages[len(messages) // 2 :]:
        book.apply(message)
    assert book.state is State.STALE
    assert "missing" in book.reason
    fed(book, pregao.read(day / "051_Snapshot.pcap", security_id=security_id))
    assert book.state is State.VALID
    assert content(book) == truth[security_id]


def test_snapshots_alone_make_a_book(day, truth):
    security_id = max(truth, key=lambda each: len(truth[each]))
    book = fed(pregao.Book(security_id), pregao.read(day / "051_Snapshot.pcap"))
    assert book.state is State.VALID
    assert book.orders


def test_a_book_is_of_one_instrument(tmp_path):
    path = small_market().write(tmp_path / "two.pcap")
    with pytest.raises(UsageError, match=r"of instrument 1001 got a message of 1002"):
        fed(pregao.Book(), pregao.read(path))
    assert fed(pregao.Book(1001), pregao.read(path)).security_id == 1001


def test_a_book_takes_market_data_only(tmp_path):
    path = write_capture(tmp_path / "orders.pcap", segments_of(conversation(1)))
    with pytest.raises(UsageError, match="this one is of entrypoint"):
        fed(pregao.Book(), pregao.read(path))


def test_nothing_has_come():
    book = pregao.Book()
    assert (book.state, book.bids, book.asks, book.orders) == (State.EMPTY, (), (), ())
    assert book.reason == "no message was applied"


# Channels


def followed(*captures, **wanted):
    items = list(pregao.follow(*captures, **wanted))
    assert all(isinstance(item, LiveEvent) for item in items)
    return items


def test_a_followed_channel_ends_with_the_exchanges_books(day, truth):
    last = {}
    for item in followed(day, depth=1000):
        if item.book is not None:
            last[item.event.security_id] = item.book
    for security_id, expected in truth.items():
        if expected:
            book = last[security_id]
            assert book.trusted
            sizes = sum(level.size for level in (*book.bids, *book.asks))
            assert sizes == sum(size for _, size, _ in expected)


def test_trades_are_emitted_once_though_both_feeds_deliver_them(day):
    published = [
        json.loads(line) for line in (day / "truth" / "trades.jsonl").read_text().splitlines()
    ]
    trades = followed(day, kinds=(TradeDone, TradeBusted))
    assert len(trades) == len(published)


def test_events_are_those_of_a_channel_that_is_followed_packet_by_packet(day):
    files = sorted(day.glob("051_*.pcap"))
    lines = {"A": Stream.INCREMENTAL, "B": Stream.INCREMENTAL, "Snapshot": Stream.SNAPSHOT}
    by_name = {path.stem.rpartition("_")[2]: path for path in files}
    packets = []
    for name, path in by_name.items():
        with read_blocks(path) as blocks:
            for block in blocks:
                for row in range(len(block)):
                    stream = lines.get(name, Stream.DEFINITION)
                    feed = "B" if name == "B" else "A"
                    packets.append((int(block.time_ns[row]), stream, feed, block.payload(row)))
    packets.sort(key=lambda packet: packet[0])
    channel = Channel(ChannelSettings(51))
    channel.start(packets[0][0])
    expected = []
    for when, stream, feed, payload in packets:
        channel.receive(stream, feed, payload, when, when)
        expected += channel.take_events()
    found = [item.event for item in followed(*files)]
    assert found == expected
    assert len(found) > 500


def test_events_come_in_the_order_of_time(day):
    times = [item.event.received_ns for item in followed(day)]
    assert times == sorted(times)
    assert len(times) > 100


def test_one_instrument_and_one_kind(day):
    everything = followed(day, kinds=(BookChanged,))
    symbol = everything[0].symbol
    own = followed(day, kinds=(BookChanged,), symbol=symbol)
    assert own == [item for item in everything if item.symbol == symbol]


def test_the_second_feed_fills_what_the_first_lost(tmp_path):
    folder = tmp_path / "lossy"
    pregao.simulate(
        folder, seed=3, instruments=3, messages=400, duration="2m", loss="A=0.2,snapshot=0"
    )
    alone = followed(folder / "051_Incremental_A.pcap", kinds=(GapFound,))
    assert alone
    both = folder / "051_Incremental_A.pcap", folder / "051_Incremental_B.pcap"
    assert followed(*both, kinds=(GapFound,)) == []
    healed = followed(
        both[0],
        snapshot=folder / "051_Snapshot.pcap",
        definition=folder / "051_InstrumentDefinition.pcap",
        kinds=(Synchronized,),
    )
    assert healed


def test_nothing_to_follow_is_reported(tmp_path):
    path = Market().send(order()).raw(b"noise").write(tmp_path / "short.pcap")
    assert followed(path, from_the_start=True, kinds=(BookChanged,))
    empty = Market().raw(b"noise").write(tmp_path / "noise.pcap")
    with pytest.raises(UsageError, match="No incremental stream"):
        followed(empty)
