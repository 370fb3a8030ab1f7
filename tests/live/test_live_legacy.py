"""Channels of the legacy feed followed over real sockets, as those of the binary feed are."""

from __future__ import annotations

import pytest

from pregao.clock import MILLISECOND, SECOND
from pregao.errors import UsageError
from pregao.events import BookChanged, GapFound, Synchronized, TradeDone
from pregao.exchange.publisher.channels import ChannelEndpoints
from pregao.exchange.simulation.network_faults import FaultRates
from pregao.exchange.simulation.settings import LegacyDepth, SimulationSettings
from pregao.exchange.simulation.simulation import Simulation
from pregao.feed.channel.settings import ChannelSettings, ChannelState, LegacyFeed
from pregao.feed.legacy.channel import LegacyFeedChannel
from pregao.live import FeedHandler, Line, LiveConfig, Replayer, ReplaySpeed, report
from pregao.live.config import STREAMS, parse_config
from pregao.umdf.survey.lines import Destination
from tests.exchange.capture_replay import captured, json_lines
from tests.live.config_text import config_text
from tests.live.live_support import running, settled, true_books
from tests.net.net_support import LO, free_group

NUMBER = 72
FEED = LegacyFeed()


def simulated(folder, kind=LegacyDepth.ORDERS, lost=0.0):
    rates = FaultRates(lost, 0.0, 0.0)
    faults = {"A": rates, "B": rates, "snapshot": FaultRates(), "definition": FaultRates()}
    settings = SimulationSettings(
        "derivatives", folder, instruments=5, duration_ns=20 * SECOND, rate=100.0, truth_books=1,
        legacy=kind, faults=faults,
    )  # fmt: skip
    Simulation(settings).run()
    return folder


def followed_at(legacy=FEED, reorder_ns=5 * SECOND):
    """Return settings that wait long for packets, so that a slow machine loses none."""
    lines, targets = [], {}
    for stream in STREAMS:
        for feed, endpoint in ChannelEndpoints.numbered(NUMBER, legacy=True).endpoints(stream):
            address = free_group()
            lines.append(Line(NUMBER, stream, feed.value, address, "lo"))
            targets[Destination(endpoint.address, endpoint.port)] = address
    channel = ChannelSettings(NUMBER, legacy=legacy, reorder_ns=reorder_ns)
    return LiveConfig((channel,), tuple(lines)), targets


class EventRecorder:
    """Keeps the events."""

    def __init__(self):
        self.events = []

    def on_events(self, channel, events):
        assert isinstance(channel, LegacyFeedChannel)
        self.events += events

    def of(self, kind):
        return [event for event in self.events if isinstance(event, kind)]


def shown(handler, security_id):
    book = handler.channels[NUMBER].channel.book(security_id)
    return tuple(
        [(level.price, level.size, level.orders) for level in side]
        for side in (book.bids, book.asks)
    )


@pytest.mark.parametrize(("kind", "lost"), [("orders", 0.0), ("orders", 0.1), ("prices", 0.0)])
def test_books_and_trades_are_the_exchanges(tmp_path, kind, lost):
    folder = simulated(tmp_path, LegacyDepth(kind), lost)
    depth = LegacyDepth(kind).market_depth
    wait = 20 * MILLISECOND if lost else 5 * SECOND
    config, targets = followed_at(LegacyFeed(market_depth=depth), wait)
    captures = sorted(folder.glob(f"{NUMBER:03d}_Legacy_*.pcap"))
    sent = sum(len(captured(path)) for path in captures if "Incremental" in path.name)
    recorder = EventRecorder()
    with running(config, recorder) as handler:
        # Sending times are in the messages: they must stay unchanged.
        Replayer(captures, targets, speed=ReplaySpeed(10.0), interface=LO, rewrite_times=True).run()
        made = settled(handler, sent)
        channel = handler.channels[NUMBER].channel
        assert made.channels[0].counters["bad_packets"] == 0
        assert made.channels[0].instruments == len(true_books(folder))
        trusted = 0
        for security_id, expected in true_books(folder).items():
            if channel.book(security_id).trusted:
                assert shown(handler, security_id) == tuple(side[:depth] for side in expected)
                trusted += 1
        assert trusted >= (1 if lost else len(true_books(folder)))
        assert bool(recorder.of(GapFound)) == bool(lost)
        if not lost:
            assert made.channels[0].state is ChannelState.LIVE
            assert recorder.of(Synchronized)
    trades = [event.trade_id for event in recorder.of(TradeDone)]
    truth = [
        line["trade_id"]
        for line in json_lines(folder / "truth/trades.jsonl")
        if line["channel"] == NUMBER and line["action"] == "NEW"
    ]
    assert trades == truth if not lost else set(trades) <= set(truth)
    assert recorder.of(BookChanged)


def test_a_configuration_names_the_feed_and_its_platform():
    config, _ = followed_at(LegacyFeed("MEGABOLSA", 5))
    text = config_text(config)
    assert 'protocol = "legacy"' in text
    lines = {
        stream.value: {
            line.feed: str(line.address) for line in config.lines if line.stream is stream
        }
        for stream in STREAMS
    }
    own = {"protocol": "legacy", "platform": "MEGABOLSA", "market_depth": 5}
    parsed = parse_config({"channel": {"72": {**lines, **own}}})
    feed = LegacyFeed("MEGABOLSA", 5, snapshot_feeds=("A",), definition_feeds=("A",))
    assert parsed.channels == (ChannelSettings(72, legacy=feed),)
    for wrong, words in (
        ({"protocol": "fast"}, "must be umdf or legacy"),
        ({"protocol": "legacy", "platform": "BELL"}, "PUMA or MEGABOLSA"),
        ({"protocol": "legacy", "market_depth": -1}, "price levels"),
        ({"platform": "PUMA"}, 'requires protocol = "legacy"'),
    ):
        with pytest.raises(UsageError, match=words):
            parse_config({"channel": {"72": {**lines, **wrong}}})


def test_silence_is_reported_and_confirms_nothing():
    config, _ = followed_at()
    with running(config) as handler:
        assert isinstance(handler, FeedHandler)
        made = handler.call(report)
    assert made.channels[0].state is ChannelState.STARTING
    assert not made.ready
