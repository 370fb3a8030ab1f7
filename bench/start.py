"""Processor time of short commands, most of which is start-up."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.measure import Row
from pregao.capture import read_packets
from pregao.cli.simulate.command import simulate

SECTION = "start"
_RUNS = 5
_LONGEST = "≤ 1 s"
_NO_BYTE_CODE = "PYTHONDONTWRITEBYTECODE"
_HEADERS = 42
"""Bytes of the Ethernet, IPv4 and UDP headers of a simulated packet."""


def run() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with contextlib.redirect_stdout(io.StringIO()):
            simulate(output=folder / "day", instruments=6, duration="40s", rate=150.0, quiet=True)
        lake = str(folder / "lake")
        processor_time(["ingest", str(folder / "day"), "--lake", lake, "--engine", "local"])
        capture = next((folder / "day").glob("*_InstrumentDefinition.pcap"))
        first = next(iter(read_packets(next((folder / "day").glob("*_Incremental_A.pcap")))))
        payload = first.data[_HEADERS:].hex()
        trades = "SELECT count(*) FROM trades"
        for title, arguments, target in (
            ("--help", ["--help"], "≤ 0.3 s"),
            ("info of a small capture", ["info", str(capture)], _LONGEST),
            ("decode --hex of a packet", ["decode", "--hex", payload], _LONGEST),
            ("query", ["query", trades, "--lake", lake], _LONGEST),
            ("book", ["book", "PETR3", "--lake", lake], _LONGEST),
        ):
            seconds = min(processor_time(arguments) for _ in range(_RUNS))
            yield Row(SECTION, f"processor time of {title}", seconds, "s", target)


def processor_time(arguments: list[str]) -> float:
    """Run a command in a process; return the time for which processors worked on it.

    Its byte code may be stored, as by an installation: compiling it is not part of a start-up.
    """
    settings = {name: value for name, value in os.environ.items() if name != _NO_BYTE_CODE}
    before = os.times()
    subprocess.run(
        [sys.executable, "-m", "pregao", *arguments],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=settings,
    )
    after = os.times()
    return (after.children_user + after.children_system) - (
        before.children_user + before.children_system
    )
