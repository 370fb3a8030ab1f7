"""Groups of channels in worker processes: queried together, isolated from the caller."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

import pregao.live.worker_processes as processes_module
from pregao.errors import NetworkError, UsageError
from pregao.feed.channel.settings import ChannelSettings
from pregao.live import FeedProcesses, Line, LiveConfig, report
from pregao.live.config import STREAMS
from pregao.live.items import BookRefresh, LiveEvent
from tests.live.live_support import NUMBER, followed_at, replayer, simulated
from tests.net.net_support import free_group
from tests.waiting import until


@pytest.fixture(scope="module")
def day(tmp_path_factory):
    folder = tmp_path_factory.mktemp("apart")
    return folder, simulated(folder, seconds=5)


def subscriptions(handler):
    """The subscriptions of a worker process, and as many listeners; asked there."""
    assert len(processes_module._subscribed) == len(handler._listeners)
    return [len(processes_module._subscribed)]


def test_subscriptions_of_several_threads_have_different_numbers():
    class Slow(int):
        """A number that other threads can change while it is added to."""

        def __add__(self, other):
            value = int(self)
            time.sleep(0.001)
            return Slow(value + other)

    processes = FeedProcesses.__new__(FeedProcesses)
    processes._members, processes._lock, processes.failure = [], threading.Lock(), None
    processes._subscriptions = Slow(0)
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda _: processes.subscribe()._number, range(40)))
    assert sorted(made) == list(range(1, 41))


def with_another(config):
    """The configuration with an additional silent channel."""
    lines = tuple(Line(52, stream, "A", free_group(), "lo") for stream in STREAMS)
    channels = (*config.channels, ChannelSettings(52, ("A",)))
    return replace(config, channels=channels, lines=(*config.lines, *lines))


def test_channels_are_followed_in_workers_and_answer_together(day):
    folder, _summary = day
    config, targets = followed_at()
    groups = with_another(config).groups(2)
    assert [[each.number for each in group.channels] for group in groups] == [[NUMBER], [52]]
    processes = FeedProcesses(groups)
    try:
        subscription = processes.subscribe(depth=1)
        replayer(folder, targets).run()
        found = []

        def received():
            found.extend(subscription.take())
            made = processes.call(report)
            return made.channels[0].counters["packets"] > 100 and made

        made = until(received, lambda: processes.call(report))
        assert [each.number for each in made.channels] == [NUMBER, 52]
        assert made.channels[0].counters["packets"] > 100
        assert made.channels[1].counters["packets"] == 0
        found += subscription.take()
        assert any(isinstance(each, LiveEvent) for each in found)
        assert all(isinstance(each, LiveEvent | BookRefresh) for each in found)
        other = processes.subscribe(depth=1)
        assert other.take()
        assert processes.call(subscriptions) == [2, 2]
        subscription.close()
        subscription.close()
        assert subscription.take() == []
        assert processes.call(subscriptions) == [1, 1]
        other.close()
        assert processes.call(subscriptions) == [0, 0]
        with pytest.raises(UsageError, match="cannot be merged"):
            processes.call(str)
    finally:
        processes.stop()
    with pytest.raises(NetworkError, match="has ended"):
        processes.call(report)


def test_network_errors_of_a_worker_process_are_reported_immediately():
    config, _ = followed_at()
    wrong = tuple(replace(line, interface="nothere0") for line in config.lines)
    with pytest.raises(NetworkError, match="nothere0"):
        FeedProcesses([LiveConfig(config.channels, wrong)])


def test_a_configuration_assigns_channels_to_processes():
    config = with_another(followed_at()[0])
    assert len(config.groups()) == 1
    separate = replace(config, processes={52: "other"})
    assert [[each.number for each in group.channels] for group in separate.groups()] == [
        [NUMBER],
        [52],
    ]
    assert len(separate.groups(1)) == 1
    assert len(separate.groups(9)) == 2
    with pytest.raises(UsageError, match="no channels to follow"):
        FeedProcesses([])
