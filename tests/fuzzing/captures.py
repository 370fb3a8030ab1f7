"""Captures with damage, through the kernels of captures, packets and messages (Binary UMDF).

Either the file is damaged, or the payloads of its packets inside complete records, so that the
kernels of messages are reached. Whatever comes is rows, counted rejects or an error of ours.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pregao
from pregao.capture import PcapWriter, datagrams, read_packets, udp_frame
from pregao.cli.simulate.command import simulate
from pregao.errors import PregaoError
from tests.fuzzing.damage import damaged

PACKETS = 40
TABLES = ("Order_MBO_50", "Trade_53", "SecurityDefinition_12", "SnapshotFullRefresh_Orders_MBO_71")


def prepare() -> tuple[Path, list[tuple[bytes, list[tuple[int, bytes]]]]]:
    """Simulate a small day; keep the first packets of each of its captures."""
    folder = Path(tempfile.mkdtemp())
    simulate(output=folder / "day", quiet=True, instruments=3, duration="5s", rate=60.0)
    found = []
    for path in sorted((folder / "day").glob("*.pcap")):
        with read_packets(path) as reader:
            packets = [(each.time_ns, bytes(each.payload)) for each in datagrams(reader)]
        found.append((path.read_bytes()[:8_000], packets[:400]))
    return folder, found


def run(rng: random.Random, prepared: tuple[Path, list]) -> bool:
    """Damage a capture and read it completely; return whether any of it was decoded."""
    folder, captures = prepared
    content, packets = rng.choice(captures)
    path = folder / "damaged.pcap"
    path.unlink(missing_ok=True)
    if rng.random() < 0.3 or not packets:
        path.write_bytes(damaged(rng, content))
    else:
        first = rng.randrange(max(1, len(packets) - PACKETS))
        with PcapWriter(path) as writer:
            for time_ns, payload in packets[first : first + PACKETS]:
                bad = damaged(rng, payload) if rng.random() < 0.5 else payload
                frame = udp_frame("10.0.0.1", 1, "233.1.1.1", 5000, bad[:60_000])
                writer.write(time_ns, frame)
    try:
        capture = pregao.read(str(path))
        count = sum(1 for _ in capture.messages())
        for name in TABLES:
            capture.table(name)
    except PregaoError:
        return False
    return count > 0
