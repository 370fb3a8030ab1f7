"""``pregao decode --hex``: packets pasted in the shapes in which tools print them."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.capture import udp_frame
from pregao.cli.decode.request import packet_bytes
from pregao.errors import UsageError
from tests.cli.market import INCREMENTAL, Market, order

# 001 §6 as specs/README reads it: without the stray byte, the second message at 0x5C of version 10.
SAMPLE = """
000000000 37 00 01 00 b1 68 de 3a 00 c8 98 65 f4 ac eb 15   7....h.:...e....
000000010 4c 00 50 eb 40 00 32 00 02 00 0f 00 a4 92 78 48   L.P.@.2.......xH
000000020 17 00 00 00 80 01 31 00 00 00 00 00 00 61 bc 00   ......1......a..
000000030 00 00 00 00 78 e0 01 00 00 00 00 00 00 c8 98 65   ....x..........e
000000040 f4 ac eb 15 00 00 00 00 00 00 00 00 0a 00 00 00   ................
000000050 39 30 00 00 00 00 00 00 00 00 00 00 44 00 50 eb   90..........D.P.
000000060 38 00 35 00 02 00 0a 00 a4 92 78 48 17 00 00 00   8.5.......xH....
000000070 80 01 04 00 00 00 00 00 61 bc 00 00 00 00 00 00   ........a.......
000000080 00 00 00 00 00 00 00 d0 07 00 00 81 e3 01 00 00   ................
000000090 39 30 00 00 74 4a 45 00 00 c8 98 65 f4 ac eb 15   90..tJE....e....
"""


def test_the_sample_packet_of_001_6(pregao):
    result = pregao("decode", "--hex", SAMPLE, "--format", "jsonl")
    assert result.code == 0
    first, second = map(json.loads, result.out.splitlines())
    assert (first["message"], first["version"]) == ("Order_MBO_50", 15)
    assert (second["message"], second["version"]) == ("Trade_53", 10)
    for row in (first, second):
        assert (row["channel"], row["sequence_version"]) == (55, 1)
        assert (row["sequence_number"], row["sending_time_ns"]) == (987654321, 1579546260000000000)
        assert row["capture_time_ns"] is None
        assert row["fields"]["securityID"] == 100000109220
        assert row["fields"]["matchEventIndicator"] == 0x80


def test_a_pasted_packet_as_text(pregao):
    result = pregao("decode", "--hex", "-", stdin=SAMPLE.encode())
    lines = result.out.splitlines()
    assert [line.split()[:5] for line in lines] == [
        ["-", "55", "incremental", "1:987654321.0", "Order_MBO_50"],
        ["-", "55", "incremental", "1:987654321.1", "Trade_53"],
    ]
    assert "matchEventIndicator=EndOfEvent" in lines[0]
    assert pregao("decode", "--hex", SAMPLE, "-t", "53").out.count("\n") == 1


def printed(data):
    """The shapes in which tools print bytes."""

    def text(row):
        return "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)

    rows = [(at, data[at : at + 16]) for at in range(0, len(data), 16)]
    yield "plain", data.hex()
    yield "spaces", data.hex(" ")
    yield "upper", data.hex(" ").upper()
    yield "colons", data.hex(":")
    yield "0x", ", ".join(f"0x{byte:02x}" for byte in data)
    yield "backslashes", "".join(f"\\x{byte:02x}" for byte in data)
    yield "lines", "\n".join(row.hex() for _, row in rows)
    yield (
        "hexdump -C",
        "\n".join(
            f"{at:08x}  {row[:8].hex(' '):23}  {row[8:].hex(' '):23}  |{text(row)}|"
            for at, row in rows
        ),
    )
    yield "xxd", "\n".join(f"{at:08x}: {row.hex(' ', -2):39}  {text(row)}" for at, row in rows)
    yield (
        "tcpdump -X",
        "\n".join(f"\t0x{at:04x}:  {row.hex(' ', -2):39}  {text(row)}" for at, row in rows),
    )
    yield "Wireshark", "\n".join(f"{at:04x}   {row.hex(' '):47}   {text(row)}" for at, row in rows)
    yield "od", "\n".join(f"{at:07x} {row.hex(' ')}" for at, row in rows)


@settings(max_examples=150, deadline=None)
@given(st.binary(min_size=1, max_size=60))
def test_any_bytes_in_any_shape(data):
    # A header that can be walked, so that the bytes are not taken for a frame.
    packet = Market().send(order()).packets[0][1] + data
    for shape, text in printed(packet):
        assert packet_bytes(text) == packet, shape


def test_text_that_looks_like_digits_is_not_mistaken_for_bytes():
    packet = Market().send(order()).packets[0][1] + b"abcdef0123456789" * 3 + b"ab"
    for shape, text in printed(packet):
        assert packet_bytes(text) == packet, shape


def test_a_complete_frame_may_be_pasted(pregao):
    frame = udp_frame("10.0.0.1", 5, *INCREMENTAL, Market().send(order()).packets[0][1])
    result = pregao("decode", "--hex", frame.hex())
    assert (result.code, result.out.split()[4]) == (0, "Order_MBO_50")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no hexadecimal digits"),
        ("37 00 0", "a digit is missing"),
        ("hello", "'h' is not a hexadecimal digit"),
        ("0000  37 00 01\n0010  00 00", "does not match the"),
        ("00" * 70000, "at most 65536 bytes"),
    ],
)
def test_invalid_packets(pregao, text, words):
    with pytest.raises(UsageError, match=words):
        packet_bytes(text)
    result = pregao("decode", "--hex", text)
    assert (result.code, result.out) == (2, "")


def test_a_broken_packet_is_rejected(pregao):
    result = pregao("decode", "--hex", "37 00 01")
    assert (result.code, "a packet of 3 bytes is too short" in result.err) == (1, True)


def test_a_pasted_packet_goes_to_the_screen(pregao, tmp_path):
    for arguments in (["-o", tmp_path / "x.csv"], ["--format", "csv"], ["--symbol", "X"]):
        assert pregao("decode", "--hex", SAMPLE, *arguments).code == 2
