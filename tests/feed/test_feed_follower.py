"""Rules of the follower: heartbeats, messages without books, inconsistent updates."""

from decimal import Decimal

import pytest

from pregao.book.state import State
from pregao.feed.channel.follower import Follower, FollowerListener
from pregao.sbe.codec import SchemaCodec
from pregao.schemas.bundle import bundled
from pregao.umdf import templates
from pregao.umdf.packets import PacketDecoder, PacketHeader, encode_packet
from pregao.umdf.sequencing import PacketKey
from pregao.units import Side
from tests.feed.feed_days import Lines

CODEC = SchemaCodec(bundled("umdf", 16))
DECODER = PacketDecoder()


def packet(number, *messages, version=1):
    header = PacketHeader(7, version, number, 10**18 + number)
    return DECODER.decode(encode_packet(header, messages))


def encode(template, codec=CODEC, **values):
    return codec.codec(template).encode(values)


def order(rpt, number, size=100, *, action="NEW", side="BID", security=1111):
    return encode(
        templates.ORDER, securityID=security, rptSeq=rpt, secondaryOrderID=number,
        mDEntrySize=size, mDUpdateAction=action, mDEntryType=side, matchEventIndicator=0x80,
        mDEntryPx=Decimal(10), mDInsertTimestamp=1, transactTime=1, mDEntryPrevSize=None,
    )  # fmt: skip


def heartbeat(following):
    return packet(0, encode(templates.SEQUENCE, nextSeqNo=following))


def snapshot(last, rpt, *, bids=0, security=1111, version=1):
    return encode(
        templates.SNAPSHOT_HEADER, securityID=security, lastMsgSeqNumProcessed=last,
        totNumReports=1, totNumBids=bids, totNumOffers=0, totNumStats=0, lastRptSeq=rpt,
        lastSequenceVersion=version,
    )  # fmt: skip


class RecordingListener(FollowerListener):
    def __init__(self):
        self.gaps, self.heals, self.missing = [], [], []

    def on_stale(self, gap):
        self.gaps.append(gap)

    def on_healed(self, healed):
        self.heals.append(healed)

    def lost(self, lost):
        self.missing.append((lost.first, lost.last))


def follower(*, from_the_start=True):
    listener = RecordingListener()
    return Follower(from_the_start=from_the_start, listener=listener), listener


def test_7_5_an_idle_channel_is_joined_by_the_number_of_its_heartbeats():
    followed, listener = follower(from_the_start=False)
    lines = Lines(followed, listener.lost)
    followed.snapshot(packet(1, snapshot(1235, 4)))
    lines.receive("A", heartbeat(1236), 0)
    assert followed.position == PacketKey(1, 1235)
    lines.receive("A", packet(1236, order(5, 1)), 1)
    assert followed.stale == {}
    assert listener.gaps == []
    assert [each.order_id for each in followed.books[1111].orders(Side.BID)] == [1]


def test_7_5_a_heartbeat_shows_packets_missing_before_the_first_one():
    followed, listener = follower(from_the_start=False)
    lines = Lines(followed, listener.lost)
    lines.receive("A", heartbeat(1236), 0)
    lines.receive("A", packet(1240, order(5, 1)), 1)
    lines.expire(10**12)
    assert listener.missing == [(1236, 1239)]


def test_news_and_definitions_are_no_matter_of_books():
    followed, _ = follower()
    followed.deliver(packet(1, order(1, 1)))
    followed.deliver(packet(3, order(3, 3)))
    assert list(followed.stale) == [1111]
    news = encode(
        templates.NEWS, securityID=1111, newsSource="OTHER", totalTextLength=0, partCount=1,
        matchEventIndicator=0x80, partNumber=1, origTime=1, headline=b"", text=b"", uRLLink=b"",
    )  # fmt: skip
    followed.deliver(packet(4, news))
    assert followed.stale[1111].found_at == (1, 3, 0)


def test_a_message_that_does_not_fit_its_book_makes_it_stale_until_a_snapshot():
    followed, listener = follower()
    followed.deliver(packet(1, order(1, 1)))
    followed.deliver(packet(2, order(2, 99, action="CHANGE")))
    assert "order 99 is not in the book" in followed.stale[1111].reason
    assert followed.books[1111].state is State.STALE
    followed.deliver(packet(3, order(3, 3)))
    followed.snapshot(packet(1, snapshot(2, 2)))
    assert followed.stale == {}
    assert len(listener.heals) == 1
    assert [each.order_id for each in followed.books[1111].orders(Side.BID)] == [3]


def test_a_snapshot_ahead_of_the_stream_waits_for_it():
    followed, _ = follower()
    followed.deliver(packet(1, order(1, 1)))
    followed.snapshot(packet(1, snapshot(4, 2)))
    assert [each.order_id for each in followed.books[1111].orders(Side.BID)] == [1]
    followed.deliver(packet(6, order(3, 6)))  # 2 to 5 are lost; the snapshot holds up to 4
    assert followed.stale == {}
    assert [each.order_id for each in followed.books[1111].orders(Side.BID)] == [6]


@pytest.mark.parametrize("version", [9, 16])
def test_books_are_kept_as_the_feed_describes_them(version):
    values = {
        "securityID": 1111, "rptSeq": 1, "secondaryOrderID": 5, "mDEntrySize": 100,
        "mDUpdateAction": "NEW", "mDEntryType": "BID", "matchEventIndicator": 0x80,
        "mDInsertTimestamp": 1,
    }  # fmt: skip
    values |= (
        {"transactTime": 1} if version >= 15 else {"mDEntryPositionNo": 1, "mDEntryTimestamp": 1}
    )
    codec = SchemaCodec(bundled("umdf", version))
    followed, _ = follower()
    followed.deliver(packet(1, encode(templates.ORDER, codec, **values)))
    expected = "PositionBook" if version < 15 else "PriorityBook"
    assert type(followed.books[1111]).__name__ == expected
