"""Streams of the legacy feed: feeds made one, resets, heartbeats, loops."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.clock import MILLISECOND, SECOND
from pregao.errors import DecodeError
from pregao.fast.xml import templates_from_bytes
from pregao.legacy.incremental_line import (
    IncrementalLine,
    LineGap,
    LineMessage,
    LineRestarted,
    LineSwitched,
)
from pregao.legacy.loop_line import LoopEnded, LoopLine, LoopMessage
from pregao.legacy.messages import MessageReader, MsgType
from pregao.legacy.reassembly import AssembledMessage
from pregao.legacy.streams import MEGABOLSA, PUMA, LegacyStream, stream_of
from pregao.legacy.times import moment_ns, timestamp_digits, timestamp_ns
from tests.legacy.writing import SENT, datagram, heartbeat, incremental, message, news, reset


def numbers(events):
    return [event.message.number for event in events if isinstance(event, LineMessage)]


def test_a_message_follows_its_template():
    read = MessageReader().read(AssembledMessage(7, message("News_143", 7, Headline="aviso")))
    assert (read.type, read.number, read.template_id) == (MsgType.NEWS, 7, 143)
    assert read.values["Headline"] == "aviso"
    assert read.sending_time_ns == timestamp_ns(SENT)


def test_the_number_of_the_header_is_compared_with_tag_34():
    with pytest.raises(DecodeError, match="tag 34"):
        MessageReader().read(AssembledMessage(8, message("News_143", 7)))
    with pytest.raises(DecodeError, match="bytes after"):
        MessageReader().read(AssembledMessage(7, message("News_143", 7) + b"\x80"))


def test_templates_of_another_file_need_no_new_code():
    templates = templates_from_bytes(
        b"""<templates><template name="MDNew_200" id="200" dictionary="200">
        <string name="MessageType" id="35"><constant value="0"/></string>
        <uInt32 name="Number" id="34"/><uInt64 name="Sent" id="52"/></template></templates>"""
    )
    reader = MessageReader(templates)
    read = reader.read(AssembledMessage(3, bytes.fromhex("c0 01 c8 83 81")))
    assert (read.type, read.values) == (
        MsgType.HEARTBEAT,
        {"MsgType": "0", "MsgSeqNum": 3, "SendingTime": 1},
    )


def test_002_3_1_3_timestamps_are_decimal_digits():
    moment = timestamp_ns(20081007091208008)
    assert timestamp_digits(moment) == 20081007091208008
    assert timestamp_ns("20081007-09:12:08.008") == moment
    assert [timestamp_ns(value) for value in (None, 0, 5, 20081307091208008, "soon")] == [None] * 5


@pytest.mark.parametrize("digits", [18, 30, 4_300, 4_301, 60_000])
def test_texts_of_many_digits_are_no_times_and_cost_no_message(digits):
    text = "1" * digits
    assert timestamp_ns(text) is None
    assert moment_ns(text, None) is None
    assert moment_ns(20081007, text) is None
    body = message(
        "SecurityList_149", 9, TotNoRelatedSym=0, LastFragment="Y", RelatedSym=[], SendingTime=text
    )
    found = MessageReader().read(AssembledMessage(9, body))
    assert (found.number, found.sending_time_ns) == (9, None)


@pytest.mark.parametrize(
    "day", [19691231, 22620101, 99991231, 10**9, 10**13, 2**63, 2**64 - 1, "9" * 17]
)
def test_dates_beyond_64_bit_nanoseconds_are_none(day):
    assert moment_ns(day, None) is None


def test_002_15_11_the_time_of_an_entry_has_milliseconds_on_puma():
    day = timestamp_ns(20130812000000000)
    whole = day + (16 * 3600 + 21 * 60 + 9) * SECOND
    assert moment_ns(20130812, 162109364) == whole + 364 * MILLISECOND
    assert moment_ns(20130812, 162109) == whole
    assert moment_ns(20130812, "162109364") == whole + 364 * MILLISECOND
    assert moment_ns(20130812, None) == day
    assert moment_ns(20130812, 246060000) is None


@pytest.mark.parametrize("milliseconds", [None, False, True])
@pytest.mark.parametrize("time", [-1, -999, -1000, -999_999, -1_000_000, -(1 << 63)])
def test_a_negative_time_is_none(time, milliseconds):
    assert moment_ns(20130812, time, milliseconds=milliseconds) is None


def test_a_stream_is_known_by_what_it_sends():
    assert stream_of({MsgType.HEARTBEAT, MsgType.SEQUENCE_RESET}) is None
    assert stream_of({MsgType.SECURITY_LIST}) is LegacyStream.INSTRUMENT_DEFINITION
    assert stream_of({MsgType.SECURITY_LIST, MsgType.NEWS}) is LegacyStream.INCREMENTAL
    assert stream_of({MsgType.SNAPSHOT}) is LegacyStream.MARKET_RECOVERY


def test_002_5_2_pumas_feeds_make_up_for_each_other():
    line = IncrementalLine(platform=PUMA)
    events = []
    for number in range(1, 9):
        for feed, lost in (("A", (3, 4)), ("B", (6,))):
            if number not in lost:
                events += line.receive(feed, news(number), number)
    assert numbers(events) == list(range(1, 9))
    assert (line.counters.lost, line.counters.duplicates) == (0, 5)


def test_002_5_2_megabolsas_feeds_are_never_mixed():
    line = IncrementalLine(platform=MEGABOLSA)
    events = line.receive("A", news(1), 0)
    events += line.receive("B", news(900), 1)
    events += line.receive("A", news(2), 2)
    assert numbers(events) == [1, 2]
    assert line.counters.ignored == 1
    # Feed A is dead: feed B is followed from its position, and books restart.
    later = 31 * SECOND
    assert line.is_dead(later)
    switched, received = line.receive("B", news(905), later)
    assert switched == LineSwitched("B")
    assert (received.packet_key, received.message.number) == ((2, 905), 905)
    assert line.followed == "B"
    assert [line.numbers_agree(feed) for feed in "AB"] == [False, True]


def sites(offset, count, *, lost=()):
    """Return feed, number and story of messages that B numbers differently from A."""
    sent = [("A", story, story) for story in range(1, count) if story not in lost]
    sent += [("B", story + offset, story) for story in range(1, count) if story + offset > 0]
    return sorted(sent, key=lambda each: each[2])


@pytest.mark.parametrize("offset", [-3, 1, 3])
def test_002_5_2_feeds_that_give_one_number_to_two_messages_are_not_mixed(offset):
    line = IncrementalLine(platform=PUMA, max_wait_ns=4 * MILLISECOND)
    events = []
    for at, (feed, number, story) in enumerate(sites(offset, 60, lost=(20, 21, 40))):
        events += line.receive(feed, news(number, f"story {story}"), at * MILLISECOND // 4)
    switched = [event for event in events if isinstance(event, LineSwitched)]
    assert len(switched) == 1
    after = [
        int(event.message.values["Headline"].split()[1]) - event.packet_key.sequence_number
        for event in events[events.index(switched[0]) :]
        if isinstance(event, LineMessage)
    ]
    (numbering,) = set(after)
    followed = "A" if numbering == 0 else "B"
    assert (followed, -numbering) in (("A", 0), ("B", offset))
    assert switched[0].feed == followed
    assert [line.numbers_agree(feed) for feed in "AB"] == [followed == "A", followed == "B"]
    assert len(after) > 45


def test_002_5_2_a_feed_that_sent_one_wrong_message_joins_again():
    line = IncrementalLine(platform=PUMA)
    events = line.receive("A", news(1, "right"), 0)
    events += line.receive("B", news(1, "wrong"), 1)
    assert events[1:] == [LineSwitched("A")]
    for number in (2, 3):
        events += line.receive("A", news(number), 2 * number)
        events += line.receive("B", news(number), 2 * number + 1)
    events += line.receive("B", news(4), 8)
    assert numbers(events) == [1, 2, 3, 4]
    assert line.numbers_agree("B")


def test_packets_that_neither_feed_delivers_are_reported_after_a_while():
    line = IncrementalLine(max_wait_ns=10 * MILLISECOND)
    events = line.receive("A", news(1), 0) + line.receive("A", news(4), MILLISECOND)
    assert numbers(events) == [1]
    assert line.awaited == LineGap(1, 2, 3)
    assert line.tick(line.deadline_ns - 1) == []
    lost, received = line.tick(line.deadline_ns)
    assert lost == LineGap(1, 2, 3)
    assert received.message.number == 4
    assert (line.awaited, line.deadline_ns, line.counters.lost) == (None, None, 2)


def test_a_retransmitted_message_fills_its_gap():
    line = IncrementalLine(max_wait_ns=SECOND)
    line.receive("A", news(1), 0)
    line.receive("A", news(3), 0)
    again = MessageReader().read(AssembledMessage(2, message("News_143", 2)))
    assert numbers(line.recovered(1, again, MILLISECOND)) == [2, 3]


def test_002_5_3_7_a_reset_of_the_incremental_stream_restarts_it_once():
    line = IncrementalLine()
    for number in (1, 2, 3):
        line.receive("A", news(number), 0)
        line.receive("B", news(number), 0)
    assert line.receive("A", reset(), 1) == [LineRestarted((2, 1))]
    assert numbers(line.receive("A", news(1), 2)) == [1]
    assert line.receive("B", reset(), 3) == []
    assert line.receive("B", news(1), 4) == []
    (received,) = line.receive("B", news(2), 5)
    assert received.packet_key == (2, 2)
    assert line.counters.lost == 0


def test_002_5_3_7_when_one_site_resets_alone_the_other_replaces_it_once_it_is_silent():
    line = IncrementalLine()
    for number in (1, 2, 3):
        line.receive("A", news(number), 0)
        line.receive("B", news(number), 0)
    assert line.receive("A", reset(), SECOND) == [LineRestarted((2, 1))]
    assert numbers(line.receive("A", news(1, "4 of B"), SECOND)) == [1]
    assert [line.numbers_agree(feed) for feed in "AB"] == [True, False]
    # Feed B continues with its own numbers, which are not those of the line.
    for number in range(4, 33):
        assert line.receive("B", news(number), (number - 3) * SECOND) == []
    assert not line.is_dead(31 * SECOND - 1)
    assert line.is_dead(31 * SECOND)  # whatever feed B has sent
    switched, received = line.receive("B", news(34), 31 * SECOND)
    assert switched == LineSwitched("B")
    assert (received.packet_key, received.feed) == ((3, 34), "B")
    assert numbers(line.receive("B", news(35), 32 * SECOND)) == [35]
    # Feed A is no longer the line's, until it restarts and sends the same as feed B.
    assert numbers(line.receive("A", news(36, "other"), 33 * SECOND)) == []
    assert [line.numbers_agree(feed) for feed in "AB"] == [False, True]


def test_002_5_3_7_of_two_sites_that_reset_the_first_to_send_leads():
    line = IncrementalLine()
    for feed in "AB":
        line.receive(feed, news(1), 0)
    events = line.receive("A", reset(), 1) + line.receive("B", reset(), 1)
    for number in (1, 2, 3):
        events += line.receive("B", news(number), 1 + number)
    assert numbers(events) == [1, 2, 3]
    assert (line.version, line.numbers_agree("B"), line.numbers_agree("A")) == (2, True, False)


def test_002_5_3_7_a_site_that_resets_later_has_other_numbers():
    line = IncrementalLine()
    for number in (1, 2, 3):
        line.receive("A", news(number), 0)
        line.receive("B", news(number), 0)
    line.receive("A", reset(), 1)
    for number in range(1, 6):
        line.receive("A", news(number, f"story {number}"), 2)
    line.receive("B", reset(), 3)  # its first message is the fifth of feed A
    for number in range(1, 9):
        assert line.receive("B", news(number, f"story {number + 4}"), 4) == []
    assert [line.numbers_agree(feed) for feed in "AB"] == [True, False]
    assert numbers(line.receive("A", news(6, "story 6"), 5)) == [6]
    # A message that happens to be the same proves nothing any more.
    assert line.receive("B", news(6, "story 6"), 6) == []
    assert not line.numbers_agree("B")


def test_002_5_3_7_the_same_text_at_another_time_is_another_message():
    line = IncrementalLine()
    for feed in "AB":
        line.receive(feed, news(1), 0)
    line.receive("A", reset(), 1)
    line.receive("B", reset(), 1)
    later = (0, SECOND, SECOND + MILLISECOND)
    sent = [timestamp_digits(timestamp_ns(SENT) + after) for after in later]
    line.receive("A", news(1, "every day", SendingTime=sent[0]), 2)
    assert line.receive("B", news(1, "every day", SendingTime=sent[2]), 3) == []
    assert not line.numbers_agree("B")
    line.receive("B", reset(), 4)
    line.receive("B", news(1, "every day", SendingTime=sent[1]), 5)
    assert line.numbers_agree("B")


def test_002_5_3_7_a_site_that_starts_with_a_reset_has_other_numbers():
    line = IncrementalLine()
    line.receive("A", news(1), 0)
    assert line.receive("B", reset(), 1) == []
    assert [line.numbers_agree(feed) for feed in "AB"] == [True, False]
    assert numbers(line.receive("A", news(2, "two"), 2)) == [2]
    assert line.receive("B", news(3, "three of site B"), 3) == []


def test_002_5_3_7_a_repeated_reset_of_one_site_leaves_it_in_the_lead():
    line = IncrementalLine()
    for feed in "AB":
        line.receive(feed, news(1), 0)
    assert line.receive("A", reset(), 1) == [LineRestarted((2, 1))]
    assert line.receive("A", reset(), 1) == []
    assert [line.numbers_agree(feed) for feed in "AB"] == [True, False]


def test_002_5_3_7_sites_that_reset_together_are_one_sequence_again():
    line = IncrementalLine()
    for number in (1, 2, 3):
        line.receive("A", news(number), 0)
        line.receive("B", news(number), 0)
    line.receive("A", reset(), 1)
    line.receive("A", news(1, "story 1"), 2)
    line.receive("B", reset(), 3)
    # Feed B is ahead of feed A: its messages wait until one of them is also on feed A.
    assert line.receive("B", news(2, "story 2"), 4) == []
    assert line.receive("B", news(3, "story 3"), 4) == []
    assert numbers(line.receive("A", news(2, "story 2"), 5)) == [2, 3]
    assert [line.numbers_agree(feed) for feed in "AB"] == [True, True]
    assert numbers(line.receive("B", news(4, "story 4"), 6)) == [4]


@pytest.mark.parametrize("first", ["A", "B"])
def test_002_5_3_7_a_site_that_restarted_before_the_line_began_has_other_numbers(first):
    line = IncrementalLine(max_wait_ns=MILLISECOND)
    offset, delivered, now = {"A": 40, "B": 5000}, [], 0
    other = "B" if first == "A" else "A"

    def send(feed, story):
        sent = timestamp_digits(timestamp_ns(SENT) + now)
        datagram = news(offset[feed] + story, f"story {story}", SendingTime=sent)
        delivered.extend(line.receive(feed, datagram, now))

    for story in range(1, 41):
        now += SECOND // 10
        send(first, story)
        send(other, story)
    # Feed A's messages are not late copies of feed B's: they were sent after those.
    assert [line.numbers_agree(feed) for feed in "AB"] == [False, True]
    assert numbers(delivered)[-30:] == list(range(5011, 5041))
    # When feed B falls silent, feed A replaces it.
    delivered.clear()
    for story in range(41, 80):
        now += SECOND
        send("A", story)
    assert delivered[0] == LineSwitched("A")
    assert numbers(delivered) == list(range(110, 120))
    assert line.numbers_agree("A")


def test_002_5_3_7_a_slow_feed_keeps_its_numbers():
    line = IncrementalLine(max_wait_ns=MILLISECOND)
    for story in range(1, 61):
        now = story * SECOND
        for feed, at in (("A", story), ("B", story - 5)):  # feed B is five seconds late
            if at > 0:
                sent = timestamp_digits(timestamp_ns(SENT) + at * SECOND)
                line.receive(feed, news(at, f"story {at}", SendingTime=sent), now)
        assert line.numbers_agree("B")
    # Once it has caught up, it is compared with later messages of the line.
    for number in range(56, 61):
        line.receive("B", news(number), now)
    for story in range(61, 81):
        sent = timestamp_digits(timestamp_ns(SENT) + story * SECOND)
        for feed, number in (("A", 5000 + story), ("B", story)):
            datagram = news(number, f"story {story}", SendingTime=sent)
            line.receive(feed, datagram, story * SECOND)
    assert [line.numbers_agree(feed) for feed in "AB"] == [True, False]


@pytest.mark.parametrize(
    ("later", "switched"), [(MILLISECOND, [LineSwitched("A")]), (5 * MILLISECOND, [])]
)
def test_002_5_3_7_a_feed_that_gives_a_number_to_another_message_leaves_the_line(later, switched):
    line = IncrementalLine(max_wait_ns=MILLISECOND)
    for feed in "AB":
        line.receive(feed, news(1), 0)
    line.receive("A", reset(), 1)
    for number in (1, 2):
        line.receive("A", news(number, f"second start {number}" if number > 1 else "open"), 1)
    # Feed B is slow: it sends what followed an earlier start, which began with the same message.
    line.receive("B", reset(), MILLISECOND)
    line.receive("B", news(1, "open"), MILLISECOND)
    assert line.numbers_agree("B")
    # Shortly after it, books may contain messages of both, and are synchronized again.
    assert line.receive("B", news(2, "first start 2"), later) == switched
    assert [line.numbers_agree(feed) for feed in "AB"] == [True, False]
    assert line.receive("B", news(3, "first start 3"), 5 * MILLISECOND) == []
    assert numbers(line.receive("A", news(3, "second start 3"), 6 * MILLISECOND)) == [3]


@pytest.mark.parametrize("first", ["A", "B"])
def test_002_5_3_7_a_feed_whose_reset_was_lost_joins_with_the_same_message(first):
    line = IncrementalLine()
    for number in range(1, 6):
        for feed in "AB":
            line.receive(feed, news(number), 0)
    assert line.receive("B", reset(), 1) == [LineRestarted((2, 1))]
    for number in range(1, 8):
        line.receive("B", news(number, f"story {number}"), 1)
    # A late message with a number of before the reset proves nothing.
    assert line.receive("A", news(6), 2) == []
    # Feed A was silent meanwhile, and its number is higher than its last one.
    for feed in (first, "A" if first == "B" else "B"):
        line.receive(feed, news(8, "story 8"), 2)
    assert [line.numbers_agree(feed) for feed in "AB"] == [True, True]
    assert numbers(line.receive("A", news(9, "story 9"), 3)) == [9]


def test_a_lost_reset_of_one_feed_leaves_the_line_with_the_other():
    line = IncrementalLine()
    for number in range(1, 200):
        line.receive("A", news(number), 0)
        line.receive("B", news(number), 0)
    for at in range(1, 100):
        assert numbers(line.receive("A", news(199 + at), at)) == [199 + at]
        assert line.receive("B", news(at), at) == []
    assert line.version == 1
    assert [line.numbers_agree(feed) for feed in "AB"] == [True, False]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 30))
def test_002_5_3_7_messages_of_two_numberings_are_never_mixed(seed):
    """Sites restart alone or together, lose messages and fall silent."""
    draw = random.Random(seed)
    line = IncrementalLine(max_wait_ns=MILLISECOND)
    offset, silent_until, events, now = {"A": 0, "B": 0}, {"A": 0, "B": 0}, [], 0
    for story in range(1, 150):
        now += draw.choice([MILLISECOND, 20 * MILLISECOND, 2 * SECOND])
        if draw.random() < 0.06:
            restarted = draw.choice(["A", "B", "AB"])
            for feed in restarted:
                offset[feed] = story - 1
                events += line.receive(feed, reset(), now)
        if draw.random() < 0.04:
            silent_until[draw.choice("AB")] = now + 40 * SECOND
        sent = timestamp_digits(timestamp_ns(SENT) + now)
        for feed in draw.sample("AB", 2):
            if now >= silent_until[feed] and draw.random() > 0.1:
                datagram = news(story - offset[feed], f"story {story}", SendingTime=sent)
                events += line.receive(feed, datagram, now)
    numberings: dict[int, set[int]] = {}
    for event in events:
        if isinstance(event, LineMessage):
            story = int(event.message.values["Headline"].split()[1])
            number = event.packet_key.sequence_number
            numberings.setdefault(event.packet_key.sequence_version, set()).add(story - number)
    assert {version: len(found) for version, found in numberings.items() if len(found) > 1} == {}


def test_a_reset_at_the_start_restarts_nothing():
    line = IncrementalLine()
    assert line.receive("A", reset(), 0) == []
    (received,) = line.receive("A", news(1), 0)
    assert received.packet_key == (1, 1)


def test_a_new_number_other_than_one_is_kept_to():
    line = IncrementalLine()
    line.receive("A", news(8), 0)
    assert line.receive("A", reset(new=5), 0) == [LineRestarted((2, 5))]
    (received,) = line.receive("A", news(5), 0)
    assert received.packet_key == (2, 5)


def test_a_reset_that_got_lost_is_noticed():
    line = IncrementalLine(feeds=("A",))
    for number in range(1, 200):
        line.receive("A", news(number), 0)
    events = [event for number in range(1, 120) for event in line.receive("A", news(number), 1)]
    assert sum(isinstance(event, LineRestarted) for event in events) == 1
    found = numbers(events)
    assert found == list(range(found[0], 120))


def test_a_heartbeat_counts_and_costs_no_message_of_its_number():
    line = IncrementalLine()
    assert numbers(line.receive("A", heartbeat(1), 0)) == [1]
    assert numbers(line.receive("A", news(2), 0)) == [2]
    line.receive("A", heartbeat(3), 0)
    received = line.receive("A", news(3), 0)
    assert [event.message.type for event in received] == [MsgType.NEWS]
    assert numbers(line.receive("A", news(4), 0)) == [4]
    assert (line.counters.heartbeats, line.counters.lost) == (2, 0)


def test_002_5_3_6_three_heartbeats_that_do_not_come():
    line = IncrementalLine()
    assert not line.is_dead(100 * SECOND)
    line.receive("A", heartbeat(1), 0)
    assert not line.is_dead(29 * SECOND)
    assert line.is_dead(30 * SECOND)


def test_what_cannot_be_read_is_left_to_the_other_feed():
    line = IncrementalLine()
    line.receive("A", news(1), 0)
    line.receive("A", b"\x00\x01\x02", 0)
    broken = bytearray(news(2))
    broken[10:12] = b"\xc0\xff"
    line.receive("A", bytes(broken), 0)
    assert line.counters.rejected == 2
    assert numbers(line.receive("B", news(2), 0)) == [2]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1 << 30), st.floats(0, 0.3), st.integers(1, 4))
def test_every_number_is_delivered_once_in_order_or_reported_missing(seed, loss, shuffle):
    draw = random.Random(seed)
    line = IncrementalLine(max_wait_ns=MILLISECOND)
    sent = []
    for number in range(1, 40):
        for feed in "AB":
            if number == 1 or draw.random() >= loss:
                sent.append((number + draw.randrange(shuffle), feed, number))
    sent.sort(key=lambda each: each[0])
    events = [event for at, feed, number in sent for event in line.receive(feed, news(number), at)]
    events += line.tick(SECOND)
    last_number = None
    delivered = 0
    for event in events:
        if isinstance(event, LineGap):
            assert event.first == last_number + 1
            last_number = event.last
        else:
            assert last_number is None or event.message.number == last_number + 1
            last_number = event.message.number
            delivered += 1
    assert delivered == line.counters.delivered
    assert delivered + line.counters.late >= len({number for _, _, number in sent}) - shuffle


def security_list(number, symbols, total, last):
    rows = [
        {
            "Symbol": name, "SecurityID": at, "ApplIDs": [{"ApplID": "10"}],
            "SecurityUpdateAction": "A", "Product": 4, "SecurityType": "FUT",
            "SecuritySubType": "1", "SecurityDesc": name, "CFICode": "F", "CountryOfIssue": "BR",
            "IssueDate": 20130101, "SecurityValidityTimestamp": 0, "SecurityGroup": "DI",
        }
        for at, name in symbols
    ]  # fmt: skip
    return datagram(
        "SecurityList_149", number, TotNoRelatedSym=total, LastFragment=last, RelatedSym=rows,
        **{"SendingTime": str(SENT)},
    )  # fmt: skip


def test_002_15_2_loops_and_empty_loops():
    line = LoopLine()
    events = line.receive("A", heartbeat(1), 0)
    events += line.receive("A", security_list(1, [(1, "DI1F14"), (2, "DI1F15")], 3, "N"), 0)
    events += line.receive("B", security_list(2, [(3, "DI1F16")], 3, "Y"), 0)
    events += line.receive("A", security_list(2, [(3, "DI1F16")], 3, "Y"), 0)
    events += line.receive("A", reset(), 0)
    events += line.receive("A", reset(), 0)
    assert [type(event) for event in events] == [LoopMessage, LoopMessage, LoopEnded, LoopEnded]
    assert [event.version for event in events] == [1, 1, 1, 2]
    assert line.counters.ignored == 1
    assert [row["Symbol"] for row in events[0].message.values["RelatedSym"]] == ["DI1F14", "DI1F15"]


def test_a_loop_with_a_lost_reset_ends_all_the_same():
    line = LoopLine()
    versions = []
    for number in (1, 2, 3, 1, 2):
        for event in line.receive("A", news(number), 0):
            versions.append((type(event).__name__, event.version))
    assert versions == [
        *[("LoopMessage", 1)] * 3, ("LoopEnded", 1), *[("LoopMessage", 2)] * 2,
    ]  # fmt: skip


def test_several_messages_of_a_datagram_and_entries_of_a_message():
    entry = {"SecurityID": 5, "RptSeq": 1, "MDUpdateAction": 0, "MDEntryType": "0"}
    line = IncrementalLine()
    events = line.receive("A", incremental(1, entry, entry) + news(2), 0)
    assert numbers(events) == [1, 2]
    assert len(events[0].message.values["MDEntries"]) == 2
