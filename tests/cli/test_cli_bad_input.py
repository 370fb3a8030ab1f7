"""Captures with arbitrary changes: each command ends with an error message, not a traceback."""

import random

import pytest

from pregao.clock import format_ns
from tests.cli.market import START, small_market, wild_market

COMMANDS = [
    ["decode"],
    ["decode", "--format", "jsonl", "--channel", "72", "--since", format_ns(START)],
    ["decode", "--format", "jsonl", "--security-id", "1001", "--limit", "5"],
    ["info"],
    ["info", "--json"],
]


def ended_well(result):
    """Check that the command reported the errors, in complete lines."""
    assert result.code in (0, 1, 2)
    assert "Traceback" not in result.err
    assert all(line.startswith("pregao: ") for line in result.err.splitlines())
    return result


def damaged(rng, data):
    data = bytearray(data)
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(data))
        match rng.randrange(4):
            case 0:
                data[at] = rng.randrange(256)
            case 1:
                del data[at : at + rng.randrange(1, 40)]
            case 2:
                data[at:at] = rng.randbytes(rng.randrange(1, 40))
            case 3:
                size = rng.choice([1, 2, 4, 8])
                data[at : at + size] = rng.choice([b"\0", b"\xff", b"\x7f"]) * size
        data = data or bytearray(b"\0")
    return bytes(data)


@pytest.mark.parametrize("seed", range(20))
def test_any_damage_to_a_capture(pregao, tmp_path, seed):
    rng = random.Random(seed)
    market = small_market() if seed % 2 else wild_market(seed, count=20)
    path = tmp_path / "day.pcap"
    path.write_bytes(damaged(rng, market.write(path).read_bytes()))
    for command in COMMANDS:
        ended_well(pregao(*command, path))


@pytest.mark.parametrize("seed", range(8))
def test_any_damage_to_packets(pregao, tmp_path, seed):
    """The capture is valid; the content of its packets is not."""
    rng = random.Random(seed)
    market = wild_market(seed, count=30)
    market.packets = [
        (where, damaged(rng, payload) if rng.random() < 0.5 else payload)
        for where, payload in market.packets
    ]
    path = market.write(tmp_path / "day.pcap")
    for command in COMMANDS:
        ended_well(pregao(*command, path))
    folder = ended_well(pregao("decode", path, "-o", f"{tmp_path}/tables/"))
    lines = ended_well(pregao("decode", path, "-o", tmp_path / "all.jsonl"))
    assert folder.code == lines.code
    account = folder.err.splitlines()[-1].split(" in ")[0]
    assert lines.err.splitlines()[-1].split(" in ")[0] == account


@pytest.mark.parametrize("size", [*range(30), 100, 5000])
def test_random_bytes(pregao, tmp_path, size):
    path = tmp_path / "noise"
    path.write_bytes(random.Random(size).randbytes(size))
    for command in COMMANDS:
        result = ended_well(pregao(*command, path))
        assert (result.code, result.out) == (2, "")


@pytest.mark.parametrize("name", ["day.pcap.gz", "day.pcap.zst"])
def test_compressed_captures_cut_at_any_byte(pregao, tmp_path, name):
    path = small_market().write(tmp_path / name)
    data = path.read_bytes()
    for size in range(len(data) - 1, 0, -37):
        path.write_bytes(data[:size])
        result = ended_well(pregao("decode", path))
        assert result.code == 2 or "ends early" in result.err
