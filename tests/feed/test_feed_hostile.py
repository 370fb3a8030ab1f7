"""Packets that no exchange sends, on every stream: nothing fails, and both machines agree.

`PREGAO_HOSTILE=1` sends all of them, of every schema version; the suite sends a share of each.
"""

import os
import random
from dataclasses import replace

import pytest

from pregao.clock import SECOND
from pregao.feed.channel.settings import ChannelState
from pregao.umdf.packets import PacketHeader, decode_header
from pregao.umdf.sequencing import LAST_SEQUENCE_VERSION
from pregao.umdf.streams import Stream
from pregao.umdf.templates import SEQUENCE
from tests.feed.channel_days import (
    CHANNEL,
    Faults,
    arrivals,
    content,
    other_site,
    settings_of,
    simulated_day,
)
from tests.feed.hostile_packets import VERSIONS, framed, hostile_messages, written
from tests.feed.test_feed_fastpath import Both

ALL = "PREGAO_HOSTILE" in os.environ
SHARE = 1 if ALL else 10
FORGED = int(os.environ.get("PREGAO_FORGED", "30"))
AHEAD = 40
"""Offset of the sequence versions on the day after the hostile packets."""
STREAMS = (Stream.INCREMENTAL, Stream.SNAPSHOT, Stream.DEFINITION)
_day = {}


def day_of(version):
    if version not in _day:
        _day[version] = simulated_day(3, version=version, seconds=2, rate=60.0)
    return _day[version]


class Besieged(Both):
    """A channel in both machines, and where each of its streams is."""

    def __init__(self, version, seed):
        super().__init__(settings_of(), random.Random(seed))
        self.often = 0.01
        self.now = 0
        self.loops = dict.fromkeys(STREAMS[1:], 65_000)
        self.sent = dict.fromkeys(STREAMS, 0)

    def follow_day(self, day):
        found, _, joined_ns = arrivals(day, Faults(), 1)
        if not self.now:
            self.start(joined_ns)
        shift = max(0, self.now + SECOND - joined_ns)
        for when, _, stream, feed, payload in found:
            self.now = when + shift
            self.receive(self.now, stream, feed, payload)
        self.flush()

    def attack(self, stream, message, *, number=None):
        """One message, alone in the packet that is next on its stream."""
        self.now += 1000
        if stream is Stream.INCREMENTAL:
            expected = self.plain._arbiter.expected
            version, number = expected.sequence_version, expected.sequence_number
            if self.sent[stream] % 16 == 15:
                number = 0
        else:
            version = self.loops[stream]
            number = self.sent[stream] % 50 + 1
            self.loops[stream] += number == 50
        self.sent[stream] += 1
        header = PacketHeader(CHANNEL, version, number, self.now)
        self.receive(self.now, stream, "A", written(header, message))


@pytest.mark.parametrize("version", VERSIONS)
def test_no_short_block_and_no_extreme_value_fails_and_a_day_is_followed_after_them(version):
    day = day_of(version)
    own = min(day.books)
    both = Besieged(version, version)
    both.follow_day(day)
    count = 0
    for security_id, others in ((own, 1), (own, 0), (0, 1)):
        messages = hostile_messages(version, security_id, others)
        for message in messages[both._draw.randrange(SHARE) :: SHARE]:
            for stream in STREAMS:
                both.attack(stream, message)
                count += 1
    both.flush()
    assert both.sent[Stream.SNAPSHOT] > 100
    assert both.plain.counters.failures == 0
    assert both.plain.counters.undecoded_messages > count // 20
    both.follow_day(other_site(day, AHEAD))
    both.end()
    assert both.plain.state is both.pumped.state is ChannelState.LIVE
    for security_id in day.books:
        for channel in (both.plain, both.pumped):
            book = channel.book(security_id)
            assert book.trusted, (security_id, book.state, book.reason)
            assert content(book.content) == day.final(security_id)


# One forged packet

RATE = 8
"""One in this many loops of the recovery streams is sent, because they are very short."""
LOOPS = 3
"""Number of complete loops of each recovery stream that is enough, once a channel can detect that
numbers have gone back: it needs three heartbeat intervals in which all packets are of the past."""
DETECTION_NS = 5 * SECOND
"""Time until that is detected, with one heartbeat per second."""
FAR = (0, 1, 2, 100, 32_765, 32_766, 32_767, 32_768, 65_433, 65_532, 65_533)
NUMBERS = (1, 2, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1)


@pytest.fixture(scope="module")
def long_day():
    day = simulated_day(5, seconds=2, rate=60.0, calm=9)
    kept = [
        each
        for each in day.sent
        if each[1] is Stream.INCREMENTAL or decode_header(each[2]).sequence_version % RATE == 1
    ]
    return replace(day, sent=kept)


def forged_packet(draw, day, _stream, version, number):
    """Any header with any message; ``version`` and ``number`` are those of the true stream."""
    security_id = draw.choice((min(day.books), 0))
    message = draw.choice(hostile_messages(16, security_id, draw.choice((0, 1))))
    near = (number, number + 1, number + 2, number + 17, max(0, number - 1), 0)
    away = (version - 1 + draw.choice(FAR)) % LAST_SEQUENCE_VERSION + 1
    header = PacketHeader(
        draw.choice((CHANNEL,) * 9 + (CHANNEL + 1,)),
        draw.choice((version, away, away, away, 0, 65_535)),
        draw.choice((*near, *NUMBERS)),
        draw.choice((10**18, 0, 2**63 - 1, 2**63, 2**64 - 1)),
    )
    if draw.random() < 0.3:
        following = draw.choice((0, 1, number + 1, number + 2, number + 91, 2**32 - 1))
        message = framed(SEQUENCE, 16, following.to_bytes(4, "little"), 4)
        header = header._replace(sequence_number=0)
    return written(header, message)


def stream_of(draw):
    return draw.choice((Stream.INCREMENTAL,) * 4 + (Stream.SNAPSHOT, Stream.DEFINITION))


def follow_with(day, seed, make=forged_packet, choose=stream_of):
    """Follow a day in which one packet is forged, with both machines."""
    draw = random.Random(seed)
    both = Both(settings_of(), draw)
    both.often = 0.05
    found, _, joined_ns = arrivals(day, Faults(), 1)
    both.start(joined_ns)
    stream = choose(draw)
    span = day.start_ns + draw.choice((2, 4)) * SECOND - joined_ns
    when_forged = joined_ns + draw.randrange(span)
    last, loops, forged = {}, {each: [] for each in STREAMS}, None
    for when, _, of_stream, feed, payload in found:
        header = decode_header(payload)
        if forged is None and when >= when_forged:
            version, number = last.get(stream, (1, 0))
            forged = make(draw, day, stream, version, number)
            both.receive(when, stream, draw.choice("AB"), forged)
        if of_stream is not Stream.INCREMENTAL and when > when_forged + DETECTION_NS:
            own = loops[of_stream]
            if header.sequence_version not in own:
                own.append(header.sequence_version)
            if len(own) > LOOPS + 1:  # the first one may have begun before
                continue
        both.receive(when, of_stream, feed, payload)
        if header.sequenced:
            last[of_stream] = header[1:3]
    both.end()
    assert min(len(loops[each]) for each in STREAMS[1:]) > LOOPS
    return both


def is_as_if_nothing_had_been(both, day):
    """Both machines are live, and their books are those of the exchange."""
    assert both.plain.counters.failures == 0
    assert both.plain.state is both.pumped.state is ChannelState.LIVE
    for security_id in day.books:
        for channel in (both.plain, both.pumped):
            book = channel.book(security_id)
            assert book.trusted, (security_id, book.state, book.reason)
            assert content(book.content) == day.final(security_id)


@pytest.mark.parametrize("seed", range(FORGED))
def test_after_any_forged_packet_a_channel_is_live_again(long_day, seed):
    is_as_if_nothing_had_been(follow_with(long_day, seed), long_day)


@pytest.mark.parametrize("ahead", [1, 100, 32_766, 32_767, 32_768, 65_533, None])
@pytest.mark.parametrize("number", [0, 1, 2**32 - 1])
def test_no_forged_sequence_version_keeps_a_channel_stale(long_day, ahead, number):
    def make(_draw, _day, _stream, version, _number):
        forged = 65_535 if ahead is None else (version - 1 + ahead) % LAST_SEQUENCE_VERSION + 1
        body = (2**32 - 1).to_bytes(4, "little")
        header = PacketHeader(CHANNEL, forged, number, 10**18)
        return written(header, framed(SEQUENCE, 16, body, 4))

    both = follow_with(long_day, number % 7, make, lambda _: Stream.INCREMENTAL)
    is_as_if_nothing_had_been(both, long_day)
