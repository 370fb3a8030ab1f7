"""The examples do what they say, over loopback."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pregao.capture import datagrams, read_packets
from tests.live.config_text import config_text
from tests.live.live_support import followed_at, replayer, simulated
from tests.waiting import until

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def day(tmp_path_factory):
    folder = tmp_path_factory.mktemp("day")
    simulated(folder, seconds=30, rate=60.0, instruments=3)
    return folder


class Example:
    """An example that runs."""

    def __init__(self, name, *arguments):
        path = os.pathsep.join([str(ROOT), *sys.path])
        command = [sys.executable, "-u", str(ROOT / "examples" / name), *map(str, arguments)]
        self.process = subprocess.Popen(
            command, env=os.environ | {"PYTHONPATH": path}, stdout=subprocess.PIPE, text=True
        )
        self._alarm = threading.Timer(120, self.process.kill)
        self._alarm.start()

    def line(self):
        return self.process.stdout.readline()

    def end(self):
        self._alarm.cancel()
        self.process.kill()
        self.process.communicate()


class Sending:
    """A slow replay, begun again until it is stopped: an example needs its time to start."""

    def __init__(self, folder, targets):
        self._replayers = [
            replayer(folder, targets, speed=3.0, rewrite_times=True) for _ in range(40)
        ]
        self._stopped = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        for each in self._replayers:
            if not self._stopped:
                each.run()

    def stop(self):
        self._stopped = True
        for each in self._replayers:
            each.stop()
        self._thread.join()


@pytest.mark.parametrize(
    ("name", "arguments", "begins"),
    [
        ("live_top_of_book.py", ["PETR4"], "PETR4: bid "),
        ("live_bars.py", ["1"], "PETR"),
    ],
)
def test_an_example_prints_what_happens(day, tmp_path, name, arguments, begins):
    config, targets = followed_at()
    path = tmp_path / "live.toml"
    path.write_text(config_text(config))
    running = Example(name, path, *arguments)
    sending = Sending(day, targets)
    try:
        lines = [running.line() for _ in range(3)]
    finally:
        running.end()
        sending.stop()
    assert any(line.startswith(begins) for line in lines), lines


def test_the_recorder_records(day, tmp_path):
    _, targets = followed_at()
    running = Example("live_recorder.py", tmp_path / "captures", "lo", *targets.values())
    try:
        assert running.line() == "recording\n"
        sent = replayer(day, targets, speed=40.0).run()
        assert sent.packets > 500
        # What it receives with may still be compiled; the packets wait for it.
        captures = tmp_path / "captures"
        until(lambda: sum(one.stat().st_size for one in captures.iterdir()) > 74_000)
    finally:
        running.end()
    (path,) = (tmp_path / "captures").iterdir()
    assert 500 < len(list(datagrams(read_packets(path)))) <= sent.packets
