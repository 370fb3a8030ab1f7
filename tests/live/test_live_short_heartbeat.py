"""The shortest packet that ended readers: a heartbeat whose block has no bytes."""

import socket

import pytest

import pregao
from pregao.capture import PcapWriter, udp_frame
from pregao.events import RecoveryIdle
from pregao.exchange.publisher.channels import ChannelEndpoints
from pregao.feed.channel.settings import ChannelSettings
from pregao.live import FeedProcesses, Line, LiveConfig, report
from pregao.live.config import STREAMS
from tests.feed.channel_days import CHANNEL, simulated_day
from tests.live.test_live_hostile import NO_BLOCK
from tests.net.net_support import free_group
from tests.waiting import until

NUMBER = NO_BLOCK[0]
SENT = 3


@pytest.fixture(scope="module")
def day():
    return simulated_day(3, seconds=2, rate=60.0)


def capture(path, packets):
    with PcapWriter(path) as writer:
        for when, channel, stream, payload in packets:
            line = next(iter(ChannelEndpoints.numbered(channel).endpoints(stream)))[1]
            writer.write(when, udp_frame("10.0.0.1", 20000, line.address, line.port, payload))
    return path


@pytest.mark.parametrize("own", [False, True], ids=["of another channel", "of this channel"])
def test_a_heartbeat_without_a_block_ends_no_followed_capture(day, tmp_path, own):
    real = [(when, CHANNEL, stream, payload) for when, stream, payload in day.sent]
    short = bytes([CHANNEL]) + NO_BLOCK[1:] if own else NO_BLOCK
    number = CHANNEL if own else NUMBER
    mixed = []
    for at, packet in enumerate(real):
        if at % 10 == 0:
            mixed += [(packet[0], number, stream, short) for stream in STREAMS]
        mixed.append(packet)
    expected = list(pregao.follow(capture(tmp_path / "day.pcap", real)))
    found = list(pregao.follow(capture(tmp_path / "mixed.pcap", mixed)))
    assert len(expected) > 100
    idle = [each for each in found if isinstance(each.event, RecoveryIdle)]
    assert bool(idle) == own  # a heartbeat of a recovery stream: it is between two loops
    assert [each for each in found if each not in idle] == expected


def test_a_heartbeat_without_a_block_ends_no_worker_process():
    lines = tuple(
        Line(number, stream, "A", free_group(), "lo")
        for number in (NUMBER, NUMBER + 1)
        for stream in STREAMS
    )
    settings = tuple(ChannelSettings(each, feeds=("A",)) for each in (NUMBER, NUMBER + 1))
    processes = FeedProcesses(LiveConfig(settings, lines).groups(2))
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
            loopback = socket.inet_aton("127.0.0.1")
            sending.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, loopback)
            for line in lines:
                for _ in range(SENT):
                    sending.sendto(NO_BLOCK, (line.address.host, line.address.port))

        def counted():
            return [each.counters for each in processes.call(report).channels]

        until(lambda: [each["packets"] for each in counted()] == [3 * SENT] * 2, counted)
        first, second = counted()
        assert (first["undecoded_messages"], first["failures"]) == (SENT, 0)
        assert (second["bad_packets"], second["failures"]) == (3 * SENT, 0)
        assert processes.failure is None
    finally:
        processes.stop()
