"""A simulated day over loopback multicast: books equal the engine's, noise and loss are counted."""

import http.client
import json
import os
import random
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from pregao.book.state import State
from pregao.capture import datagrams, read_packets
from pregao.clock import MILLISECOND
from pregao.errors import NetworkError, UsageError
from pregao.events import BookChanged, GapFound, Synchronized, TradeDone
from pregao.feed.channel.settings import ChannelSettings, ChannelState
from pregao.live import (
    BookRefresh,
    FeedHandler,
    ItemsMissed,
    Line,
    LineState,
    LiveConfig,
    LiveEvent,
    MarketWatch,
    Recorder,
    RecordSettings,
    Subscription,
    metrics_text,
    report,
    serve,
)
from pregao.live.config import STREAMS
from pregao.live.latency import LatencyHistogram, RecentLatency
from pregao.net.addresses import Address
from pregao.net.sender import Sender
from pregao.net.sockets import receive_socket
from pregao.umdf.packets import PacketDecoder
from pregao.umdf.streams import Stream
from tests.live.live_support import (
    NUMBER,
    books_of,
    followed_at,
    replayer,
    running,
    settled,
    simulated,
    true_books,
    trusted_of,
    unicast,
)
from tests.net.net_support import LO, free_group
from tests.waiting import until

OF_ITS_MESSAGE = ("rptSeq", "matchEventIndicator")
ROUNDS = int(os.environ.get("PREGAO_SOAK_ROUNDS", "1"))
"""Number of times that the publisher is killed; each takes some seconds."""


@pytest.fixture(scope="module")
def day(tmp_path_factory):
    folder = tmp_path_factory.mktemp("day")
    return folder, simulated(folder)


@pytest.fixture(scope="module")
def lossy_day(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lossy")
    return folder, simulated(folder, loss="0.08", seed=3)


@pytest.mark.skipif(not hasattr(os, "sched_getscheduler"), reason="only Linux has such threads")
def test_the_feed_has_realtime_priority_if_granted_and_runs_without_it(caplog):
    config = replace(followed_at()[0], realtime=True)
    with running(config) as handler:
        policy = handler.call(lambda _: os.sched_getscheduler(0))
    went_first = policy & os.SCHED_FIFO
    refused = [each for each in caplog.messages if "feed's thread was refused" in each]
    assert bool(went_first) != bool(refused)
    assert os.sched_getscheduler(0) == os.SCHED_OTHER  # no real-time scheduling


def test_what_spins_does_not_go_first():
    config = replace(followed_at()[0], realtime=True)
    with pytest.raises(UsageError, match="Choose spin or realtime"):
        FeedHandler(config, spin=True)


def packets_of(summary):
    """Return the number of packets of all incremental feeds."""
    files = summary.data["channels"][str(NUMBER)]["files"].values()
    return sum(file["packets"] for file in files if file["feed"] in "AB")


def messages_of_packets(folder):
    """The names of the messages in each packet of the incremental feed that has a number."""
    decoder = PacketDecoder()
    with read_packets(folder / f"{NUMBER:03}_Incremental_A.pcap") as reader:
        packets = [decoder.decode(datagram.payload) for datagram in datagrams(reader)]
    return [
        [outcome.decoded.message.name for outcome in packet.outcomes]
        for packet in packets
        if packet.header.sequence_number
    ]


class EventRecorder:
    """Keeps all events."""

    def __init__(self):
        self.events = []

    def on_events(self, channel, events):
        self.events += events

    def of(self, kind):
        return [event for event in self.events if isinstance(event, kind)]


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
def test_every_book_of_a_followed_day_is_the_engines(day, compiled):
    folder, summary = day
    config, targets = followed_at()
    recorder = EventRecorder()
    with running(config, recorder, compiled=compiled) as handler:
        counts = replayer(folder, targets, speed=10.0, rewrite_times=True).run()
        made = settled(handler, packets_of(summary)).channels[0]
        found = handler.call(books_of)
    truth = true_books(folder)
    assert counts.packets > packets_of(summary)
    assert len(truth) >= 5
    # A spread that was defined and never ordered has no book.
    assert {number: found.get(number, ([], [])) for number in truth} == truth
    assert made.state is ChannelState.LIVE
    assert made.books[State.STALE] == made.books[State.UNCONFIRMED] == 0
    assert (made.counters["gaps"], made.counters["bad_packets"], made.dropped) == (0, 0, 0)
    # On a busy machine the first snapshot may arrive before its content: that is not reported.
    packets = messages_of_packets(folder)
    delivered_packets = packets[len(packets) - made.counters["delivered"] :]
    assert len(delivered_packets) > len(packets) / 2
    assert sum(len(names) for names in packets) == summary.messages
    assert made.counters["messages"] == sum(len(names) for names in delivered_packets)
    assert len(recorder.of(Synchronized)) == 1
    assert len(recorder.of(TradeDone)) == sum(
        names.count("Trade_53") for names in delivered_packets
    )
    assert len(recorder.of(BookChanged)) > 1000
    # Left when nothing was to be learned from it any more.
    joined = {line.line.stream: line.joined for line in made.lines}
    assert joined[Stream.INCREMENTAL]
    assert not joined[Stream.DEFINITION]
    assert not joined[Stream.SNAPSHOT]
    assert 0 < made.delays_ns[0] <= made.delays_ns[1] <= made.delays_ns[2]


def test_loss_on_both_feeds_is_reported_and_no_trusted_book_is_wrong(lossy_day):
    folder, summary = lossy_day
    config, targets = followed_at()
    recorder = EventRecorder()
    lost = summary_faults(folder)
    with running(config, recorder) as handler:
        replayer(folder, targets).run()
        settled(handler, packets_of(summary))
    # Stopped: events and counters are the same now.
    made = handler.call(report).channels[0]
    found, trusted = books_of(handler), trusted_of(handler)
    assert lost > 0
    assert made.counters["lost_packets"] >= lost
    assert len(recorder.of(GapFound)) == made.counters["gaps"] > 0
    assert made.counters["confirmed"] > 0
    truth = true_books(folder)
    assert trusted & truth.keys()
    for number in trusted & truth.keys():
        assert found[number] == truth[number]


def summary_faults(folder):
    data = json.loads((folder / "truth" / "faults.json").read_text())
    return data["channels"][str(NUMBER)]["lost_on_both"]


def test_a_publisher_that_is_killed_and_begins_again_is_followed_again(day):
    folder, summary = day
    config, targets = followed_at()
    quick = replace(config.channels[0], heartbeat_ns=500 * MILLISECOND)
    recorder = EventRecorder()
    truth = true_books(folder)
    with running(replace(config, channels=(quick,)), recorder) as handler:
        for turn in range(1, ROUNDS + 1):
            first = replayer(folder, targets)
            sending = threading.Thread(target=first.run)
            before = received_packets(handler)
            sending.start()
            settled(handler, before + packets_of(summary) // 3)
            first.stop()
            sending.join()
            down = until_down(handler)
            assert down.state is ChannelState.DOWN
            assert down.books[State.VALID] == 0
            # It knows nothing of what it sent before: its numbers go back to the first one.
            before = received_packets(handler)
            replayer(folder, targets, speed=5.0).run()
            settled(handler, before + packets_of(summary))
            made, found, trusted = handler.call(
                lambda own_handler: (
                    report(own_handler).channels[0],
                    books_of(own_handler),
                    trusted_of(own_handler),
                )
            )
            assert made.counters["resyncs"] >= turn
            # A spread that was defined and never ordered has no book.
            assert {number for number in truth if truth[number] != ([], [])} <= trusted
            assert {number: found.get(number, ([], [])) for number in truth} == truth
            until_down(handler)
    assert len(recorder.of(Synchronized)) > ROUNDS


def received_packets(handler):
    """Number of packets received on the incremental feeds."""
    return sum(feed["packets"] for feed in handler.call(report).channels[0].feeds.values())


def until_down(handler):
    def channel_report():
        return handler.call(report).channels[0]

    return until(
        lambda: (now := channel_report()).state is ChannelState.DOWN and now, channel_report
    )


def test_batches_next_to_another_channel_give_the_same_as_single_packets(day):
    folder, summary = day
    config, targets = followed_at()
    silent = tuple(Line(52, stream, "A", free_group(), "lo") for stream in STREAMS)
    beside = replace(
        config,
        channels=(ChannelSettings(52, ("A",)), *config.channels),
        lines=(*silent, *config.lines),
    )
    one_by_one, at_once = EventRecorder(), EventRecorder()
    with running(config, one_by_one) as handler, running(beside) as other, running(config) as deaf:
        other.call(lambda own_handler: own_handler.add_listener(at_once, singly=False))
        replayer(folder, targets, speed=10.0).run()
        settled(handler, packets_of(summary))
        every = handler, other, deaf
        # One may still have snapshots to read when the others have read them all.
        until(
            lambda: (
                alike(delivered(each) for each in every)
                and alike(each.call(statistics) for each in every)
            ),
            lambda: [(delivered(each), each.call(statistics)) for each in every],
        )
        pumped = deaf.call(
            lambda own_handler: own_handler.channels[NUMBER].channel.fast_path_packets
        )
    # Snapshots may arrive at another time: the events of the incremental stream are the same.
    first, second = (
        [replace(each, received_ns=0) for each in recorder.events if is_of_market(each)]
        for recorder in (one_by_one, at_once)
    )
    assert len(first) > 1000
    assert first == second
    assert pumped > 100  # more where it joins soon


def alike(found):
    first, *others = found
    return all(each == first for each in others)


def is_of_market(event):
    return isinstance(event, TradeDone) or (isinstance(event, BookChanged) and event.event >= 0)


def delivered(handler):
    return handler.call(lambda own_handler: own_handler.channels[NUMBER].channel.counters.delivered)


def statistics(handler):
    """State of every instrument, without its source (snapshot or stream)."""
    channel = handler.channels[NUMBER].channel
    return {
        number: {
            key: {name: value for name, value in each.values.items() if name not in OF_ITS_MESSAGE}
            for key, each in channel.statistics(number).items()
        }
        for number in channel.instruments
    }


def test_noise_at_full_rate_is_counted_and_the_feed_continues(day):
    folder, summary = day
    config, targets = followed_at()
    addresses = [line.address for line in config.lines]
    stop = threading.Event()
    sent = []

    def make_noise():
        draws = random.Random(1)
        noise = [draws.randbytes(draws.randrange(0, 400)) for _ in range(997)]
        # Another protocol, and another channel's heartbeat.
        noise += [b"8=FIX.4.4\x019=100\x0135=X\x01" * 5, bytes([7]) + bytes(15) + noise[0]]
        with Sender(addresses, interface=LO) as sender:
            while not stop.is_set():
                for payload in noise:
                    sender.send(draws.randrange(len(addresses)), payload)
                    sent.append(payload)
                time.sleep(0.05)

    making = threading.Thread(target=make_noise)
    with running(config) as handler:
        making.start()
        replayer(folder, targets, speed=10.0).run()
        stop.set()
        making.join()
        made = settled(handler, packets_of(summary)).channels[0]
        found = handler.call(books_of)
    truth = true_books(folder)
    assert made.counters["bad_packets"] > 100
    assert made.dropped == 0
    assert made.counters["messages"] >= summary.messages
    # A spread that was defined and never ordered has no book.
    assert {number: found.get(number, ([], [])) for number in truth} == truth


def test_followed_packets_can_be_recorded_completely_and_followed_again(day, tmp_path):
    folder, _ = day
    config, targets = followed_at()
    with running(config, recorder=Recorder(RecordSettings(tmp_path))) as handler:
        sent = replayer(folder, targets, speed=40.0).run()
        until(
            lambda: handler.recorder.packets >= sent.packets,
            lambda: (handler.recorder.packets, sent.packets),
        )
    # Also the loops that the channel no longer needed.
    (path,) = tmp_path.iterdir()
    found = list(datagrams(read_packets(path)))
    assert len(found) == sent.packets
    assert {Address(each.flow.dst, each.flow.dst_port) for each in found} == set(targets.values())
    assert {each.flow.src for each in found} == {"127.0.0.1"}


def test_a_recorder_without_disk_space_does_not_stop_the_feed(day, tmp_path, caplog):
    folder, summary = day
    config, targets = followed_at()
    recorder = Recorder(RecordSettings(tmp_path / "gone"))
    (tmp_path / "gone").rmdir()
    with running(config, recorder=recorder) as handler:
        replayer(folder, targets, speed=40.0).run()
        made = settled(handler, packets_of(summary))
    assert made.unrecorded > 0
    assert made.channels[0].counters["messages"] == summary.messages
    assert any("Recording failed and is paused" in line for line in caplog.messages)


def test_unicast_is_followed_too(day):
    folder, summary = day
    config, targets = followed_at()
    config = unicast(config)
    addresses = [line.address for line in config.lines]
    targets = dict(zip(targets, addresses, strict=True))
    with running(config) as handler:
        replayer(folder, targets, speed=40.0).run()
        made = settled(handler, packets_of(summary)).channels[0]
    assert made.counters["messages"] == summary.messages


def test_a_slow_consumer_is_notified_of_losses_and_gets_fresh_books(day):
    folder, summary = day
    config, targets = followed_at()
    slow, quick = Subscription(max_pending=50), Subscription(["PETR4"], kinds=(BookChanged,))
    with running(config) as handler:
        handler.call(slow.begin)
        handler.call(quick.begin)
        replayer(folder, targets, speed=40.0).run()
        settled(handler, packets_of(summary))
        assert slow.overflowed
        assert slow.take() == []
        handler.call(slow.refresh)
        missed, *fresh = slow.take()
        found = handler.call(books_of)
        received = quick.take()
    assert isinstance(missed, ItemsMissed)
    assert missed.count == slow.missed > 1000
    assert not slow.overflowed
    assert set(found) <= {each.security_id for each in fresh}
    assert len(fresh) >= 5
    for each in fresh:
        assert isinstance(each, BookRefresh)
        assert list(each.book.bid_levels) == found.get(each.security_id, ([], []))[0][:5]
    assert received
    assert all(isinstance(each, LiveEvent) and each.symbol == "PETR4" for each in received)
    assert received[-1].book.bids == next(
        each.book.bids for each in fresh if each.symbol == "PETR4"
    )


def test_fresh_books_always_fit_and_losses_are_never_forgotten(day):
    folder, summary = day
    config, targets = followed_at()
    tiny = Subscription(max_pending=1)
    with running(config) as handler:
        handler.call(tiny.begin)
        replayer(folder, targets, speed=40.0).run()
        settled(handler, packets_of(summary))
        first = tiny.missed
        handler.call(tiny.refresh)
        replayer(folder, targets, speed=40.0).run()  # of the past: no new events
        settled(handler, 2 * packets_of(summary))
        if tiny.overflowed:
            handler.call(tiny.refresh)
        missed, *fresh = tiny.take()
    assert isinstance(missed, ItemsMissed)
    assert missed.count == tiny.missed >= first
    assert len(fresh) >= 5


def test_metrics_health_and_readiness_are_served(day):
    folder, summary = day
    config, targets = followed_at()
    with running(config) as handler:
        server = serve(handler, 0)

        def get(path):
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
            connection.request("GET", path)
            answer = connection.getresponse()
            text = answer.read().decode()
            connection.close()
            return answer.status, text

        assert get("/ready")[0] == 503
        assert get("/health")[0] == 200
        replayer(folder, targets, speed=40.0).run()
        made = settled(handler, packets_of(summary))
        status, body = get("/ready")
        text = get("/metrics")[1]
        server.close()
    state = body.split(": ")[1]
    assert state in ("live", "healing")
    assert (status == 200) == (state == "live")
    assert f'pregao_channel_messages_total{{channel="51"}} {summary.messages}' in text
    assert f'pregao_channel_state{{channel="51",state="{state}"}} 1' in text
    assert 'pregao_line_packets_total{channel="51",stream="incremental",feed="B"}' in text
    names = [line.split("{")[0].split(" ")[0] for line in text.splitlines() if line[0] != "#"]
    described = [line.split(" ")[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert set(names) == set(described)
    assert len(described) == len(set(described))
    assert metrics_text(made).count("\n") == text.count("\n")


def test_network_errors_are_reported_at_the_start():
    config, _ = followed_at()
    first = config.lines[-1]
    taken = LiveConfig(config.channels, (*config.lines[:-1], unicast(config).lines[-1]))
    with (
        receive_socket(taken.lines[-1].address),
        pytest.raises(NetworkError, match=r"channel 51, definition A .* another program listens"),
    ):
        FeedHandler(taken)
    wrong = LiveConfig(config.channels, (*config.lines[:-1], _elsewhere(first)))
    with pytest.raises(NetworkError, match=r"channel 51, definition A .* no interface 'eth77'"):
        FeedHandler(wrong)


def _elsewhere(line):
    return type(line)(line.channel, line.stream, line.feed, line.address, "eth77")


def test_a_watcher_knows_the_busiest_instruments_and_their_tapes(day):
    folder, summary = day
    config, targets = followed_at()
    watcher = MarketWatch()
    with running(config, watcher) as handler:
        replayer(folder, targets, speed=40.0).run()
        settled(handler, packets_of(summary))
        rows = handler.call(lambda running: watcher.busiest(running, 3))
        page = handler.call(
            lambda running: watcher.page(running, NUMBER, rows[0].security_id, depth=4)
        )
        nothing = handler.call(lambda running: watcher.page(running, NUMBER, 1, depth=4))
    assert len(rows) == 3
    assert [row.changes for row in rows] == sorted((row.changes for row in rows), reverse=True)
    assert page.row.symbol == rows[0].symbol
    trades = [x for x in page.tape if isinstance(x, TradeDone) and not x.corrects]
    assert trades[0].price == page.row.last_price
    assert page.row.trades >= len(page.tape) > 0
    assert nothing is None


def test_questions_are_answered_before_and_after_it_runs(day):
    config, _ = followed_at()
    handler = FeedHandler(config)
    states = handler.call(FeedHandler.line_states)
    assert all(isinstance(each, LineState) for each in states)
    handler.start()
    handler.stop()
    assert [each.line for each in handler.call(FeedHandler.line_states)] == list(config.lines)


def test_percentiles_of_delays():
    delays = LatencyHistogram()
    assert delays.percentile(0.5) is None
    values = np.arange(1, 100_001, dtype=np.int64) * 1000
    delays.add(values)
    delays.add(np.array([-5, 0], np.int64))
    assert len(delays) == 100_002
    for share in (0.01, 0.5, 0.99, 1.0):
        exact = share * 100_000 * 1000
        assert exact * 0.99 <= delays.percentile(share) <= exact * 1.1
    recent = RecentLatency(10)
    for value in values[:3000].tolist():
        recent.add(value, 100)
    recent.add(-(1 << 70), 101)
    assert recent.percentiles((0.5,), 105)[0] is not None
    assert recent.percentiles((0.5,), 115)[0] is not None
    assert recent.percentiles((0.5,), 200) == [None]
