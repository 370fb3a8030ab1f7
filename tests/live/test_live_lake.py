"""``pregao live --lake``: what was recorded is in the lake once, across a kill and a stop."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from pregao.capture import datagrams, read_packets
from pregao.lake.ingest.verify import check_lake
from pregao.lake.storage.lake_store import LakeStore
from tests.live.config_text import config_text
from tests.live.live_support import followed_at, replayer, simulated
from tests.waiting import until


class Running:
    """The command and its last report."""

    def __init__(self, config, lake):
        root = Path(__file__).parents[2]
        path = os.pathsep.join([str(root), *sys.path])
        command = [sys.executable, "-m", "pregao", "live", "--config", str(config), "--json"]
        self.process = subprocess.Popen(
            [*command, "--lake", str(lake), "--symbol", "PETR4"],
            env=os.environ | {"PYTHONPATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.status = None
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self):
        for line in self.process.stdout:
            data = json.loads(line) if line.endswith("}\n") else {}
            if data.get("event") == "Status":
                self.status = data

    def until(self, recorded):
        """Wait until this number of packets was recorded."""

        def there():
            assert self.process.poll() is None, self.process.stderr.read()
            return self.status is not None and self.status["recorded"] >= recorded

        until(there, lambda: self.status)

    def end(self, number):
        self.process.send_signal(number)
        code = self.process.wait(90)
        self._reading.join()
        errors = self.process.stderr.read()
        self.process.stdout.close()
        self.process.stderr.close()
        return code, errors


def test_recorded_packets_are_in_the_lake_once_across_a_kill_and_a_stop(tmp_path):
    day = tmp_path / "day"
    simulated(day, seconds=20, rate=80.0, instruments=3)
    config, targets = followed_at()
    path, lake = tmp_path / "live.toml", tmp_path / "lake"
    path.write_text(config_text(config))

    first = Running(path, lake)
    first.until(0)
    sending = replayer(day, targets, speed=2.0)
    half = threading.Thread(target=sending.run)
    half.start()
    first.until(500)
    assert first.end(signal.SIGKILL)[0] == -signal.SIGKILL
    sending.stop()
    half.join()

    second = Running(path, lake)
    second.until(0)
    sent = replayer(day, targets, speed=40.0).run()
    second.until(sent.packets)
    code, errors = second.end(signal.SIGINT)
    assert (code, errors) == (0, "")

    spool = tmp_path / "lake-spool"
    found = [len(list(datagrams(read_packets(each)))) for each in sorted(spool.iterdir())]
    assert len(found) == 2
    assert found[0] >= 500
    assert found[1] == sent.packets
    checked = check_lake(LakeStore(str(lake)))
    assert checked.faults == []
    assert checked.packets == sum(found)
