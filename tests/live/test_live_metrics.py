"""Prometheus metrics of the live feed: the names of counters and their HELP sentences."""

from dataclasses import asdict, fields, replace

import pytest

from pregao.book.state import State
from pregao.clock import SECOND
from pregao.feed.channel.settings import ChannelCounters, ChannelState, FeedCounters
from pregao.live import ChannelReport, FeedReport, Line, metrics_text
from pregao.live.health import CHANNEL_HELP, FEED_HELP, LINE_HELP
from pregao.live.live_channel import LineState
from pregao.net.addresses import parse_address
from pregao.net.datagram_batch import LineCounts
from pregao.umdf.streams import Stream


@pytest.mark.parametrize(
    ("counters", "sentences"),
    [(ChannelCounters, CHANNEL_HELP), (FeedCounters, FEED_HELP), (LineCounts, LINE_HELP)],
)
def test_every_counter_has_a_sentence(counters, sentences):
    assert list(sentences) == [each.name for each in fields(counters) if each.type == "int"]
    assert all(text[0].isupper() and text.endswith(".") for text in sentences.values())
    assert len(set(sentences.values())) == len(sentences)


def test_counters_are_named_by_their_unit():
    counters = asdict(
        ChannelCounters(
            unexpected_packets=1, undecoded_messages=2, lost_packets=3, recovered_messages=4,
            outdated_snapshots=5, outages=6, silent_streams=9,
        )
    )  # fmt: skip
    line = Line(51, Stream.INCREMENTAL, "A", parse_address("127.0.0.1:30001", "A"))
    channel = ChannelReport(
        51,
        ChannelState.LIVE,
        0,
        dict.fromkeys(State, 0),
        {name: count for name, count in counters.items() if name not in ("feeds", "silent")},
        {"A": asdict(FeedCounters(first_arrivals=7))},
        (SECOND, 2 * SECOND, None),
        (
            LineState(line, True, LineCounts(truncated=8)),
            LineState(replace(line, feed="B"), True, LineCounts()),
        ),
        frozenset({(Stream.INCREMENTAL, "B")}),
    )
    text = metrics_text(FeedReport(SECOND, 0, (channel,), None, 0))
    for sample in (
        'channel_unexpected_packets_total{channel="51"} 1',
        'channel_undecoded_messages_total{channel="51"} 2',
        'channel_lost_packets_total{channel="51"} 3',
        'channel_recovered_messages_total{channel="51"} 4',
        'channel_outdated_snapshots_total{channel="51"} 5',
        'channel_outages_total{channel="51"} 6',
        'channel_silent_streams_total{channel="51"} 9',
        'line_silent{channel="51",stream="incremental",feed="A"} 0',
        'line_silent{channel="51",stream="incremental",feed="B"} 1',
        'feed_first_arrivals_total{channel="51",feed="A"} 7',
        'line_truncated_total{channel="51",stream="incremental",feed="A"} 8',
        'feed_latency_seconds{channel="51",quantile="0.99"} 2.0',
    ):
        assert f"\npregao_{sample}\n" in text
    assert "# HELP pregao_channel_outages_total Number of times that no packets were" in text
