"""Packets that make little sense are taken, counted and told; they never break an ingest."""

import struct
from pathlib import Path

from pregao.capture import PcapWriter, datagrams, read_packets, udp_frame
from pregao.lake.ingest import ingest
from pregao.umdf.layout import PACKET_HEADER_SIZE, SMALLEST_MESSAGE
from pregao.umdf.packets import PacketDecoder
from tests.lake.days import day


def test_a_message_of_template_0_is_of_an_unknown_template(tmp_path):
    """The schema states the packet header as a message of that number; none is ever sent."""
    source = next(Path(day()).glob("*Incremental_A.pcap"))
    with read_packets(source) as reader:
        first = next(iter(datagrams(reader)))
    payload = bytearray(first.payload)
    # Of the first message's header: block length, then the template.
    struct.pack_into("<H", payload, PACKET_HEADER_SIZE + SMALLEST_MESSAGE - 6, 0)
    outcome = PacketDecoder().decode(bytes(payload)).outcomes[0]
    assert outcome.frame.template_id == 0
    assert outcome.decoded is None
    capture = tmp_path / "odd.pcap"
    with PcapWriter(capture) as writer:
        frame = udp_frame("10.0.0.1", 1, "233.1.1.1", 5000, bytes(payload))
        writer.write(first.time_ns, frame)
    report = ingest([str(capture)], str(tmp_path / "lake"))
    assert report.committed
    assert list(report.json()["messages"]["unknown_by_template"]) == ["0 (version 16)"]
