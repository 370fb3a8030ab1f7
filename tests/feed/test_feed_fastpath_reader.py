"""Trades and statistics of the fast path, read quickly, equal those of the plain machine."""

import copy
import pickle
import random
from datetime import date
from decimal import Decimal

import pytest

from pregao.events import StatisticChanged, TradeDone
from pregao.feed.channel.channel import Channel
from pregao.feed.channel.market_state import STATISTICS
from pregao.feed.channel.settings import ChannelSettings
from pregao.feed.fastpath.channel import FastChannel
from pregao.feed.fastpath.message_reader import LazyFields
from pregao.sbe.codec import SchemaCodec
from pregao.sbe.value_specs import readings
from pregao.schemas.bundle import bundled, bundled_versions
from pregao.umdf import templates
from pregao.umdf.layout import MESSAGE_HEADER
from pregao.umdf.streams import Stream
from tests.feed.channel_messages import CHANNEL, packet
from tests.feed.test_feed_fastpath import LINES, datagrams
from tests.sbe.support import plausible_body

INSTRUMENTS = (1111, 2222)
STATE_TEMPLATES = sorted(
    {*STATISTICS, templates.TRADE, templates.TRADE_BUST, templates.SECURITY_STATUS}
)
PACKETS = 60


def message_of(draw, schema, template, security_id, count):
    """A message about an instrument: its fields are small numbers, nulls or anything."""
    message = schema.by_id[template]
    body = bytearray(plausible_body(draw, message, wild=0))
    for each in readings(message):
        if each.name == "securityID":
            body[each.offset : each.end] = security_id.to_bytes(each.size, "little")
        elif each.name == "rptSeq":
            body[each.offset : each.end] = count.to_bytes(each.size, "little")
    header = MESSAGE_HEADER.pack(message.block_length, template, schema.id, schema.version)
    return header + bytes(body)


def followed(kind, payloads):
    """Events of a machine for packets, and its final statistics."""
    channel = kind(ChannelSettings(CHANNEL, ("A",), from_the_start=True))
    now = 10**18
    channel.start(now)
    found = [(now + 1000 * at, Stream.INCREMENTAL, "A", each) for at, each in enumerate(payloads)]
    if isinstance(channel, FastChannel):
        channel.set_lines(LINES)
        batch, at = datagrams(found), 0
        while at < len(found):
            at = channel.receive_many(batch, at)
    else:
        for when, stream, feed, payload in found:
            channel.receive(stream, feed, payload, when, when)
    return channel, channel.take_events()


@pytest.mark.parametrize("version", [each.number for each in bundled_versions("umdf")])
@pytest.mark.parametrize("seed", range(3))
def test_the_fast_path_emits_the_statistics_of_the_plain_machine(version, seed):
    draw = random.Random(f"{version} {seed}")
    schema = bundled("umdf", version)
    known = [template for template in STATE_TEMPLATES if template in schema.by_id]
    counts = dict.fromkeys(INSTRUMENTS, 0)
    packets = []
    for number in range(1, PACKETS):
        messages = []
        for template in draw.choices(known, k=draw.randint(1, 12)):
            security_id = draw.choice(INSTRUMENTS)
            counts[security_id] += 1
            messages.append(message_of(draw, schema, template, security_id, counts[security_id]))
        packets.append(packet(number, *messages))
    plain, expected = followed(Channel, packets)
    pumped, found = followed(FastChannel, packets)
    assert any(isinstance(getattr(each, "values", None), LazyFields) for each in found)
    assert any(isinstance(each, TradeDone) for each in found)
    assert any(isinstance(each, StatisticChanged) and each.values is None for each in found)
    assert found == expected
    for security_id in INSTRUMENTS:
        assert dict(pumped.statistics(security_id)) == dict(plain.statistics(security_id))
    assert pumped.counters == plain.counters


def high_price(codec, rpt, price):
    return codec.codec(templates.HIGH_PRICE).encode(
        {
            "securityID": 1111, "matchEventIndicator": 0, "mDUpdateAction": "NEW",
            "tradeDate": date(2026, 5, 21), "mDEntryPx": price, "mDEntryTimestamp": 1,
            "rptSeq": rpt,
        }
    )  # fmt: skip


def test_unread_values_can_be_kept_and_sent():
    codec = SchemaCodec(bundled("umdf", 16))
    packets = [packet(at, high_price(codec, at, Decimal(at))) for at in (1, 2, 3)]
    _, found = followed(FastChannel, packets)
    last = found[-1]
    assert isinstance(last.values, LazyFields)
    assert pickle.loads(pickle.dumps(last)) == last
    assert copy.deepcopy(last.values) == dict(last.values)
    assert [each.values["mDEntryPx"] for each in found if isinstance(each, StatisticChanged)] == [
        1,
        2,
        3,
    ]
