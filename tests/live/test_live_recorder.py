"""Recordings contain what was received, in complete records, despite crashes of the process."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pregao.capture import datagrams, read_packets
from pregao.clock import SECOND
from pregao.errors import CaptureError, UsageError
from pregao.live import Recorder, RecordSettings
from pregao.net.addresses import Address
from pregao.net.datagram_batch import DatagramBatch
from pregao.net.receiver import open_receiver
from pregao.net.sender import Sender
from pregao.net.sockets import receive_socket
from tests.net.net_support import LO, free_group
from tests.waiting import until

START = 1_750_000_000 * SECOND
GROUPS = [Address("239.1.1.1", 31000), Address("239.1.1.2", 31001)]


def batch(payloads, start_ns=START, step_ns=1000):
    """Datagrams of both groups in turn, as received."""
    length = np.array([len(each) for each in payloads], np.int32)
    count = len(payloads)
    return DatagramBatch(
        np.frombuffer(b"".join(payloads) + bytes(64), np.uint8),
        np.cumsum(length, dtype=np.int64) - length,
        length,
        start_ns + step_ns * np.arange(count, dtype=np.int64),
        (np.arange(count) % 2).astype(np.int32),
        np.full(count, 0x0A000001 << 16 | 20000, np.int64),
    )


def recorder(folder, **settings):
    made = Recorder(RecordSettings(folder, **settings))
    for line, group in enumerate(GROUPS):
        made.line(line, group)
    return made


def recorded(folder, name="live"):
    """The datagrams of all files in order; no file may end within a record."""
    found = []
    for path in sorted(folder.glob(f"{name}-*.pcap")):
        reader = read_packets(path)
        found += datagrams(reader)
        assert reader.truncated_tail is None
    return found


def test_received_packets_are_recorded_with_times_senders_and_groups(tmp_path):
    groups = [free_group(), free_group()]
    receiver = open_receiver()
    with Recorder(RecordSettings(tmp_path)) as made, Sender(groups, interface=LO) as sender:
        for group in groups:
            made.line(receiver.add(receive_socket(group, interface=LO)), group)
        for number in range(300):
            sender.send(number % 2, b"%d" % number)
        expected = []
        while len(expected) < 300:
            got = receiver.receive(1)
            made.write(got)
            lines, times = got.line.tolist(), got.time_ns.tolist()
            expected += zip(lines, times, got.payloads(), strict=True)
    receiver.close()
    found = recorded(tmp_path)
    assert [(each.time_ns, each.payload) for each in found] == [each[1:] for each in expected]
    assert [Address(each.flow.dst, each.flow.dst_port) for each in found] == [
        groups[line] for line, _, _ in expected
    ]
    assert {each.flow.src for each in found} == {"127.0.0.1"}
    assert made.packets == 300


def test_files_are_rolled_by_size_and_by_time(tmp_path):
    with recorder(tmp_path, roll_bytes=2000) as made:
        for number in range(10):
            made.write(batch([b"x" * 500] * 4, START + number * SECOND))
    assert made.files == 10
    with recorder(tmp_path, name="old", roll_ns=3 * SECOND) as made:
        for number in range(10):
            made.write(batch([b"x"], START + number * SECOND))
        made.tick(START + 60 * SECOND)
        made.write(batch([b"y"], START + 9 * SECOND + 1))
    assert made.files == 5
    assert len(recorded(tmp_path)) == 40
    assert len(recorded(tmp_path, "old")) == 11


def test_half_a_record_at_the_end_is_cut_off_by_the_next_recorder(tmp_path):
    with recorder(tmp_path) as made:
        made.write(batch([b"first", b"second"]))
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    for cut in (1, 20, 60):
        path.write_bytes(whole[:-cut])
        assert recorder(tmp_path).mended == 64 - cut
        assert [each.payload for each in recorded(tmp_path)] == [b"first"]
    path.write_bytes(whole[:11])
    assert recorder(tmp_path).mended == 11
    assert list(tmp_path.iterdir()) == []


def test_two_recorders_never_write_under_one_name(tmp_path):
    with recorder(tmp_path) as made:
        made.write(batch([b"x"]))
        with pytest.raises(UsageError, match="is being written by another recorder"):
            recorder(tmp_path)
        recorder(tmp_path, name="other").close()


def test_an_unwritable_path_is_a_one_line_error(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    with pytest.raises(CaptureError, match="cannot be written: Not a directory"):
        Recorder(RecordSettings(blocked / "captures"))


FULL = """
import resource, signal, sys
from pathlib import Path
from pregao.errors import CaptureError
from tests.live.test_live_recorder import batch, recorder
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, resource.RLIM_INFINITY))
made = recorder(Path(sys.argv[1]))
try:
    while True:
        made.write(batch([b"x" * 300] * 7))
except CaptureError as error:
    print(error)
made.close()
"""

ENDLESS = """
import sys, time
from pathlib import Path
from tests.live.test_live_recorder import START, batch, recorder
made = recorder(Path(sys.argv[1]), roll_bytes=4_000_000)
start, number = time.time_ns(), 0
while True:
    made.write(batch([b"%06d" % (number + n) * 50 for n in range(200)], start + 1000 * number))
    number += 200
"""


def run(program, folder):
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(root), *sys.path])
    return subprocess.Popen(
        [sys.executable, "-c", program, str(folder)],
        env=os.environ | {"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_full_disk_is_a_one_line_error_and_leaves_complete_records(tmp_path):
    done = run(FULL, tmp_path)
    errors, _ = done.communicate(timeout=60)
    assert "cannot be written: File too large" in errors
    assert len(recorded(tmp_path)) == 7


def test_a_recorder_that_is_killed_leaves_complete_records_in_order(tmp_path):
    for _ in range(3):
        running = run(ENDLESS, tmp_path)
        known = set(tmp_path.iterdir())
        until(lambda known=known: len(set(tmp_path.iterdir()) - known) >= 2, every=0.01)
        running.send_signal(signal.SIGKILL)
        running.communicate()
    recorder(tmp_path).close()  # cuts off what the last kill left
    numbers = [int(each.payload[:6]) for each in recorded(tmp_path)]
    starts = [index for index, number in enumerate(numbers) if number == 0]
    assert len(starts) == 3
    for begin, end in zip(starts, [*starts[1:], len(numbers)], strict=True):
        assert numbers[begin:end] == list(range(end - begin))
        assert end - begin > 1000
