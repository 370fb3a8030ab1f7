"""Simulated days for the benchmarks, kept in the folder PREGAO_BENCH_DIR."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np

from pregao.capture import read_blocks
from pregao.cli.simulate.command import simulate
from pregao.umdf.layout import SENDING_TIME_AT, SEQUENCE_NUMBER_AT

MESSAGES = int(os.environ.get("PREGAO_BENCH_MESSAGES", "10_000_000"))
"""Messages of the simulated day; the default gives an incremental capture of about 1 GB."""
_RECORD_BYTES = 16
_SECONDS = 8 * 3600


def folder() -> Path:
    """Return the folder of inputs that take long to create."""
    named = os.environ.get("PREGAO_BENCH_DIR")
    found = Path(named) if named else Path(tempfile.gettempdir()) / "pregao-bench"
    found.mkdir(parents=True, exist_ok=True)
    return found


def simulated_day() -> Path:
    """Return the folder of a day of `MESSAGES` messages, with its ground truth."""
    return simulated(MESSAGES)


def simulated(messages: int, seed: int = 1) -> Path:
    """Return the folder of a day of some messages."""
    path = folder() / (f"day-{messages}" if seed == 1 else f"day-{messages}-{seed}")
    if not (path / "truth" / "summary.json").exists():
        print(f"  simulating a day of {messages:,} messages into {path.name} …", flush=True)
        simulate(
            output=path, messages=messages, seed=seed, duration=f"{_SECONDS}s", quiet=True,
            force=True,
        )  # fmt: skip
    return path


def redated(day: Path, out: Path, later: int) -> list[str]:
    """Write the captures of a day again, some days later; return their paths."""
    out.mkdir()
    paths = []
    for capture in sorted(day.glob("*.pcap")):
        data = np.frombuffer(bytearray(capture.read_bytes()), np.uint8)
        for block in read_blocks(capture):
            records, at = block.position, block.position + _RECORD_BYTES + 42
            _put(data, records, 0, _word(data, records, 0) + later * 86_400, 4)
            sent = _word(data, at, SENDING_TIME_AT, 8)
            _put(data, at, SENDING_TIME_AT, sent + later * 86_400 * 10**9, 8)
        paths.append(str(out / capture.name))
        Path(paths[-1]).write_bytes(data.tobytes())
    return paths


def one_feed() -> Path:
    """Return the largest incremental capture of the day."""
    return max(simulated_day().glob("*_Incremental_A.pcap"), key=lambda each: each.stat().st_size)


def repeated(capture: Path, times: int) -> Path:
    """Return the capture repeated, each repetition with later times and sequence numbers."""
    path = folder() / f"{capture.stem}-{MESSAGES}-{times}.pcap"
    if path.exists():
        return path
    making = path.with_suffix(".making")
    with making.open("wb") as out:
        out.write(capture.read_bytes()[:24])
        last = 0
        for turn in range(times):
            highest = 0
            for block in read_blocks(capture):
                begin = int(block.position[0])
                with capture.open("rb") as file:
                    file.seek(begin)
                    span = int(block.position[-1]) - begin
                    data = np.frombuffer(bytearray(file.read(span + 65_536)), np.uint8)
                records = block.position - begin
                size = int(records[-1]) + _RECORD_BYTES + int(_word(data, records[-1:], 8)[0])
                seconds = _word(data, records, 0) + turn * _SECONDS
                _put(data, records, 0, seconds, 4)
                # Ethernet, IPv4 and UDP headers are between a record header and its payload.
                at = records + _RECORD_BYTES + 42
                numbers = _word(data, at, SEQUENCE_NUMBER_AT)
                highest = max(highest, int(numbers.max()))
                _put(data, at, SEQUENCE_NUMBER_AT, np.where(numbers > 0, numbers + last, 0), 4)
                times_ns = _word(data, at, SENDING_TIME_AT, 8) + turn * _SECONDS * 10**9
                _put(data, at, SENDING_TIME_AT, times_ns, 8)
                out.write(data[:size].tobytes())
            last += highest
    making.rename(path)
    return path


def _word(data: np.ndarray, records: np.ndarray, at: int, size: int = 4) -> np.ndarray:
    raw = data[(records + at)[:, None] + np.arange(size)]
    return np.ascontiguousarray(raw).view(f"<u{size}").reshape(-1).astype(np.int64)


def _put(data: np.ndarray, records: np.ndarray, at: int, values: np.ndarray, size: int) -> None:
    raw = values.astype(f"<u{size}").reshape(-1, 1).view(np.uint8)
    data[(records + at)[:, None] + np.arange(size)] = raw
