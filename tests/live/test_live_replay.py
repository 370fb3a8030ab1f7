"""Captures sent again: everything, in the order of time, each line to its own target."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.capture import PcapWriter, UdpFramer, udp_frame
from pregao.clock import MILLISECOND, SECOND
from pregao.errors import UsageError
from pregao.live import Replayer, ReplaySpeed, parse_speed, replayer, targets_from
from pregao.live.capture_merge import merged
from pregao.net import sender
from pregao.net.addresses import Address
from pregao.net.receiver import open_receiver
from pregao.net.sockets import receive_socket
from pregao.umdf.packets import PacketHeader, decode_header, encode_packet
from pregao.umdf.survey.lines import Destination, LineTable
from tests.net.net_support import LO, free_group, received

GROUPS = [Destination("233.252.14.1", 30001), Destination("233.252.14.2", 30002)]
START = 1_750_000_000 * SECOND


def capture(path, packets):
    """A capture of (time, destination, payload)."""
    with PcapWriter(path) as writer:
        for time_ns, where, payload in packets:
            writer.write(time_ns, udp_frame("10.0.0.1", 20000, *where, payload))
    return path


packets = st.lists(
    st.tuples(st.integers(0, 50), st.sampled_from(GROUPS), st.binary(max_size=30)), max_size=30
)


@settings(max_examples=60, deadline=None)
@given(st.lists(packets, min_size=1, max_size=4))
def test_captures_are_merged_by_time_and_each_keeps_its_order(tmp_path_factory, files):
    folder = tmp_path_factory.mktemp("captures")
    names = [capture(folder / f"{index}.pcap", file) for index, file in enumerate(files)]
    lines = LineTable()
    found = []
    for stretch in merged(names, lines):
        ends = (stretch.offset + stretch.length).tolist()
        data = stretch.buffer.tobytes()
        found += zip(
            stretch.time_ns.tolist(),
            [lines.destinations[line] for line in stretch.line.tolist()],
            [data[a:b] for a, b in zip(stretch.offset.tolist(), ends, strict=True)],
            strict=True,
        )
    expected = []
    for index, file in enumerate(files):
        due = np.maximum.accumulate([each[0] for each in file]).tolist() if file else []
        expected += [
            (when, index, at, where, payload)
            for at, (when, (_, where, payload)) in enumerate(zip(due, file, strict=True))
        ]
    expected.sort(key=lambda each: each[:3])
    assert found == [(when, where, payload) for when, _, _, where, payload in expected]


class Clock:
    """Time that passes only during waits."""

    def __init__(self):
        self.now_ns = START

    def time_ns(self):
        return self.now_ns

    def wait(self, seconds):
        self.now_ns += max(1, int(seconds * SECOND))

    def is_set(self):
        return False


@pytest.fixture
def sent(monkeypatch):
    """Datagrams of replays, in the order of sending: time, target, payload; nothing is sent."""
    clock, found = Clock(), []

    class Kept:
        def __init__(self, targets, **_):
            self._targets = targets

        def send_all(self, buffer, offset, length, target):
            for at, size, to in zip(*map(np.ndarray.tolist, (offset, length, target)), strict=True):
                payload = buffer[at : at + size].tobytes()
                found.append((clock.now_ns, self._targets[to], payload))

        def close(self):
            pass

    monkeypatch.setattr(replayer, "Sender", Kept)
    monkeypatch.setattr(replayer, "time", clock)
    monkeypatch.setattr(replayer.threading, "Event", lambda: clock)
    return found


def two_lines(folder, count):
    """Two captures whose packets come by turns."""
    first = [(START + n * 10, GROUPS[0], b"a%d" % n) for n in range(count)]
    second = [(START + n * 10 + 5, GROUPS[1], b"b%d" % n) for n in range(count)]
    return [capture(folder / "a.pcap", first), capture(folder / "b.pcap", second)]


def test_every_line_is_sent_to_its_target_in_the_order_of_time(tmp_path, sent):
    targets = dict(zip(GROUPS, [free_group(), free_group()], strict=True))
    counts = Replayer(
        two_lines(tmp_path, 900), targets, speed=ReplaySpeed(None), interface=LO
    ).run()
    assert counts.packets == 1800
    assert counts.capture_ns == START + 8995
    assert [(target, payload) for _, target, payload in sent] == [
        (targets[where], b"%s%d" % (feed, n))
        for n in range(900)
        for feed, where in zip((b"a", b"b"), GROUPS, strict=True)
    ]


@pytest.mark.usefixtures("one_core")
def test_every_line_arrives_at_its_target_in_its_order(tmp_path):
    targets = dict(zip(GROUPS, [free_group(), free_group()], strict=True))
    receiver = open_receiver()
    lines = [receiver.add(receive_socket(target, interface=LO)) for target in targets.values()]
    counts = Replayer(two_lines(tmp_path, 60), targets, speed=ReplaySpeed(None), interface=LO).run()
    found = received(receiver, 120)
    receiver.close()
    assert counts.packets == 120
    for line, feed in zip(lines, (b"a", b"b"), strict=True):
        own = [payload for at, payload, _ in found if at == line]
        assert own == [b"%s%d" % (feed, n) for n in range(60)]


@pytest.mark.parametrize("factor", [1, 4])
def test_the_pace_of_the_capture_is_kept_and_what_has_no_target_is_counted(tmp_path, sent, factor):
    steps = [0, 0, 40, 41, 80, 900]
    found = [(START + step * MILLISECOND, GROUPS[0], b"%d" % n) for n, step in enumerate(steps)]
    found.insert(3, (START + 40 * MILLISECOND, GROUPS[1], b"not sent"))
    path = capture(tmp_path / "a.pcap", found)
    replayer = Replayer([path], {GROUPS[0]: free_group()}, speed=ReplaySpeed(factor), interface=LO)
    counts = replayer.run()
    assert (counts.packets, counts.unsent) == (6, 1)
    assert [payload for _, _, payload in sent] == [b"%d" % n for n in range(6)]
    late = [
        when - START - step * MILLISECOND // factor
        for (when, _, _), step in zip(sent, steps, strict=True)
    ]
    assert all(0 <= each <= 1000 for each in late), late
    assert counts.late_ns == max(late)


REMOTE = Destination("192.0.2.7", 30003)
"""An address of no machine, kept for documents."""


def test_no_remote_target_is_accepted_unless_allowed(tmp_path, monkeypatch, pregao):
    path = capture(tmp_path / "a.pcap", [(START, GROUPS[0], b"1"), (START, REMOTE, b"2")])

    def refused(*_, **__):
        raise AssertionError("a socket was made")

    monkeypatch.setattr(sender, "send_socket", refused)
    for host in ("192.0.2.7", "10.0.0.1", "0.0.0.0", "255.255.255.255", "8.8.8.8"):
        target = Address(host, 31000)
        assert not target.is_loopback
        with pytest.raises(UsageError, match=f"{host}:31000 is neither .* --allow-remote"):
            Replayer([path], {GROUPS[0]: target}, interface=LO)
        for to in (f"{host}:31000", f"{GROUPS[0]}={host}:31000"):
            done = pregao("replay", path, "--to", to)
            assert done.code == 2
            assert "neither a multicast group nor loopback" in done.err
        allowed = Replayer([path], {GROUPS[0]: target}, interface=LO, allow_remote=True)
        assert allowed._numbers([GROUPS[0]], {}).tolist() == [0]
    for host in ("127.0.0.1", "127.8.9.1", "224.0.0.1", "239.1.1.1"):
        assert Address(host, 31000).is_loopback


def test_captured_packets_to_other_machines_are_not_sent(tmp_path, sent):
    path = capture(tmp_path / "a.pcap", [(START, GROUPS[0], b"1"), (START, REMOTE, b"2")])
    counts = Replayer([path], speed=ReplaySpeed(None), interface=LO).run()
    assert (counts.packets, counts.unsent) == (1, 1)
    assert [(target, payload) for _, target, payload in sent] == [(Address(*GROUPS[0]), b"1")]
    sent.clear()
    counts = Replayer([path], speed=ReplaySpeed(None), interface=LO, allow_remote=True).run()
    assert {target for _, target, _ in sent} == {Address(*GROUPS[0]), Address(*REMOTE)}


def test_sending_times_can_be_those_of_now(tmp_path):
    headers = [PacketHeader(51, 1, n + 1, START + n * MILLISECOND) for n in range(3)]
    sent = [
        (header.sending_time_ns + 9000, GROUPS[0], encode_packet(header, [b"x" * 8]))
        for header in headers
    ]
    path = capture(tmp_path / "a.pcap", [*sent, (START + SECOND // 100, GROUPS[0], b"short")])
    target = free_group()
    receiver = open_receiver()
    receiver.add(receive_socket(target, interface=LO))
    before = time.time_ns()
    Replayer([path], {GROUPS[0]: target}, interface=LO, rewrite_times=True).run()
    payloads = [payload for _, payload, _ in received(receiver, 4)]
    receiver.close()
    found = [decode_header(payload) for payload in payloads[:3]]
    assert payloads[3] == b"short"
    assert [header.sequence_number for header in found] == [1, 2, 3]
    times = [header.sending_time_ns for header in found]
    assert np.diff(times).tolist() == [MILLISECOND, MILLISECOND]
    assert before - 9000 <= times[0] <= time.time_ns()
    assert [payload[16:] for payload in payloads[:3]] == [payload[16:] for _, _, payload in sent]


def test_a_replay_can_be_stopped(tmp_path):
    sent = [(START, GROUPS[0], b"1"), (START + 3600 * SECOND, GROUPS[0], b"2")]
    path = capture(tmp_path / "a.pcap", sent)
    replayer = Replayer([path], {GROUPS[0]: free_group()}, interface=LO)
    counts = replayer.run(lambda _: replayer.stop())
    assert counts.packets == 1


def test_speeds():
    assert [parse_speed(text).factor for text in ("1x", "10", " 0.5X ", "max")] == [
        1,
        10,
        0.5,
        None,
    ]
    assert [str(parse_speed(text)) for text in ("1", "2.50x", "MAX")] == ["1x", "2.5x", "max"]
    for text in ("", "fast", "-1x", "0x", "1e9x", "x"):
        with pytest.raises(UsageError, match="--speed must be a factor"):
            parse_speed(text)


def test_targets_follow_each_other():
    found = targets_from(Address("239.1.1.1", 31000), [GROUPS[1], GROUPS[0], GROUPS[1]])
    assert found == {GROUPS[0]: ("239.1.1.1", 31000), GROUPS[1]: ("239.1.1.2", 31001)}


def test_the_command_sends_and_prints(pregao, tmp_path):
    framer = UdpFramer("10.0.0.1", 20000, *GROUPS[0])
    with PcapWriter(tmp_path / "a.pcap") as writer:
        for number in range(5):
            writer.write(START + number, framer.frame(b"%d" % number))
    target = free_group()
    receiver = open_receiver()
    receiver.add(receive_socket(target, interface=LO))
    done = pregao("replay", tmp_path, "--to", target, "--speed", "max")
    assert done.code == 0
    assert f"{GROUPS[0]}" in done.err
    assert f"{target}" in done.err
    assert "5 packets sent, 5 bytes." in done.err
    assert [payload for _, payload, _ in received(receiver, 5)] == [b"%d" % n for n in range(5)]
    receiver.close()
    for arguments, words in (
        (["--to", "239.1.1.1"], "--to takes ADDRESS:PORT"),
        (["--to", "239.1.1.1:4", "--to", "239.1.1.1:5"], "--to accepts one ADDRESS:PORT"),
        (["--to", "1.2.3.4:5=239.1.1.1:4"], "no packet was captured to 1.2.3.4:5"),
        (["--interface", "eth77"], "There is no interface 'eth77'"),
        (["--speed", "fast"], "--speed must be a factor such as 1x, 10x"),
    ):
        done = pregao("replay", tmp_path, *arguments)
        assert done.code == 2
        assert words in done.err
        assert done.err.count("\n") == 1
