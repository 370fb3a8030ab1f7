"""Packets made by hand for tests of a followed channel."""

from __future__ import annotations

from collections import Counter
from datetime import date
from decimal import Decimal

from pregao.clock import MILLISECOND, SECOND
from pregao.feed.channel.channel import Channel
from pregao.feed.channel.settings import ChannelSettings, Join
from pregao.sbe.codec import SchemaCodec
from pregao.schemas.bundle import bundled
from pregao.umdf import templates
from pregao.umdf.packets import PacketHeader, encode_packet
from pregao.umdf.streams import Stream
from pregao.units import Side

CHANNEL = 7
CODEC = SchemaCodec(bundled("umdf", 16))
INCREMENTAL, SNAPSHOT, DEFINITION = Stream.INCREMENTAL, Stream.SNAPSHOT, Stream.DEFINITION
DAY = date(2026, 5, 21)
END = templates.END_OF_EVENT


def encode(template, **values):
    return CODEC.codec(template).encode(values)


def packet(number, *messages, version=1, channel=CHANNEL):
    return encode_packet(PacketHeader(channel, version, number, 10**18 + number), messages)


def order(rpt, number, size=100, *, action="NEW", side="BID", security=1111, flags=END):
    return encode(
        templates.ORDER, securityID=security, rptSeq=rpt, secondaryOrderID=number,
        mDEntrySize=size, mDUpdateAction=action, mDEntryType=side, matchEventIndicator=flags,
        mDEntryPx=Decimal(10), mDInsertTimestamp=1, transactTime=1, mDEntryPrevSize=None,
    )  # fmt: skip


def sequence(following):
    return encode(templates.SEQUENCE, nextSeqNo=following)


def heartbeat(following, version=1):
    return packet(0, sequence(following), version=version)


def sequence_reset():
    return encode(templates.SEQUENCE_RESET)


def channel_reset(flags=END):
    return encode(templates.CHANNEL_RESET, matchEventIndicator=flags, mDEntryTimestamp=1)


def empty_book(security=1111, flags=END):
    return encode(
        templates.EMPTY_BOOK, securityID=security, matchEventIndicator=flags, mDEntryTimestamp=1
    )


def definition(
    security=1111, symbol="PETR4", *, group="P1", action="ADD", total=1, last=False, issued=DAY
):
    return encode(
        max(templates.SECURITY_DEFINITIONS), securityID=security, securityExchange="BVMF",
        securityGroup=group, symbol=symbol, securityUpdateAction=action, totNoRelatedSym=total,
        lastFragment="TRUE_VALUE" if last else "FALSE_VALUE", securityDesc="", securityType="CS",
        minPriceIncrement=Decimal("0.01"), currency="BRL", issueDate=issued, asset="PETR",
        securityIDSource=1, securitySubType=1, cfiCode="M", product=1,
        securityValidityTimestamp=0,
    )  # fmt: skip


def snapshot(last, rpt, *, bids=0, stats=0, reports=1, security=1111, version=1):
    return encode(
        templates.SNAPSHOT_HEADER, securityID=security, lastMsgSeqNumProcessed=last,
        totNumReports=reports, totNumBids=bids, totNumOffers=0, totNumStats=stats,
        lastRptSeq=rpt, lastSequenceVersion=version,
    )  # fmt: skip


def snapshot_orders(*numbers, security=1111):
    entries = [
        {
            "mDEntryType": "BID", "mDEntryPx": Decimal(10), "mDEntrySize": 100,
            "secondaryOrderID": number, "mDInsertTimestamp": 1, "enteringFirm": None,
            "matchEventIndicator": 0,
        }
        for number in numbers
    ]  # fmt: skip
    return encode(templates.SNAPSHOT_ORDERS, securityID=security, noMDEntries=entries)


def loop(version, *parts):
    """A complete loop of a recovery stream: a packet each, and the SequenceReset."""
    packets = [packet(at, *messages, version=version) for at, messages in enumerate(parts, 1)]
    return [*packets, packet(len(parts) + 1, sequence_reset(), version=version)]


class Driven:
    """A channel driven by hand: time advances a little with every packet."""

    def __init__(self, *, start=True, **settings):
        self.channel = Channel(ChannelSettings(CHANNEL, **settings))
        self.now = 10**18
        self.joined = set()
        if start:
            self.channel.start(self.now)
            self.act()

    def act(self):
        for action in self.channel.take_actions():
            key = (action.stream, action.feed)
            if isinstance(action, Join):
                self.joined.add(key)
            else:
                self.joined.remove(key)

    def receive(self, payload, feed="A", stream=INCREMENTAL):
        self.now += 1000
        self.channel.receive(stream, feed, payload, self.now)
        self.act()

    def send(self, *payloads, feeds="A", stream=INCREMENTAL):
        for payload in payloads:
            for feed in feeds:
                self.receive(payload, feed, stream)

    def snapshots(self, version, *parts, feed="A"):
        self.send(*loop(version, *parts), feeds=(feed,), stream=SNAPSHOT)

    def definitions(self, version, *parts, feed="A"):
        self.send(*loop(version, *parts), feeds=(feed,), stream=DEFINITION)

    def wait(self, nanoseconds=30 * MILLISECOND):
        """Advance the clock, as an owner with a timer would."""
        until = self.now + nanoseconds
        while (deadline := self.channel.deadline()) is not None and deadline <= until:
            self.now = deadline
            self.channel.tick(deadline)
        self.now = until
        self.channel.tick(until)
        self.act()

    def silence(self):
        self.wait(4 * SECOND)

    def events(self, *kinds):
        found = self.channel.take_events()
        return [each for each in found if not kinds or isinstance(each, kinds)]

    def tally(self):
        return Counter(type(each).__name__ for each in self.channel.take_events())

    def orders(self, security=1111):
        return [each.order_id for each in self.channel.book(security).orders(Side.BID)]

    def state(self, security=1111):
        return self.channel.book(security).state.name
