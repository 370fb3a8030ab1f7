"""Captures: pcap and pcapng reading and writing, link, IP, UDP and TCP layers, split points.

`read_blocks` returns the UDP payloads of a capture as flat arrays, `read_packets` one packet at a
time (`datagrams`, `segments` and `streams` dissect them). `split_points` returns where a capture
can be split without reading it. `PcapWriter` writes captures, `UdpRecords` builds records in bulk.
"""

from pregao.capture.block_reader import BLOCK_BYTES, BlockReader, read_blocks
from pregao.capture.blocks import PADDING, PacketBlock, SegmentBlock
from pregao.capture.fragments import FragmentLimits
from pregao.capture.layers import (
    ETHERNET,
    Datagram,
    Dissection,
    Flow,
    FragmentPacket,
    MalformedPacket,
    OtherPacket,
    PacketDissector,
    PacketItem,
    Segment,
    TruncatedPacket,
    datagrams,
    dissect,
    segments,
)
from pregao.capture.pcap import is_pcap
from pregao.capture.reader import CaptureReader, Packet, TruncatedTail, read_packets
from pregao.capture.source import ByteSource, Source, capture_error, open_source
from pregao.capture.split import (
    BoundaryFinder,
    boundary_at_time,
    boundary_finder,
    first_boundary,
    split_points,
)
from pregao.capture.statistics import CaptureStatistics
from pregao.capture.tcp import (
    StreamData,
    StreamEnd,
    StreamEvent,
    StreamGap,
    StreamStart,
    TcpLimits,
    TcpReassembler,
    streams,
)
from pregao.capture.tcp_columns import StreamColumns, StreamEventColumns
from pregao.capture.writer import PcapWriter, UdpFramer, UdpRecords, tcp_frame, udp_frame

__all__ = [
    "BLOCK_BYTES",
    "ETHERNET",
    "PADDING",
    "BlockReader",
    "BoundaryFinder",
    "ByteSource",
    "CaptureReader",
    "CaptureStatistics",
    "Datagram",
    "Dissection",
    "Flow",
    "FragmentLimits",
    "FragmentPacket",
    "MalformedPacket",
    "OtherPacket",
    "Packet",
    "PacketBlock",
    "PacketDissector",
    "PacketItem",
    "PcapWriter",
    "Segment",
    "SegmentBlock",
    "Source",
    "StreamColumns",
    "StreamData",
    "StreamEnd",
    "StreamEvent",
    "StreamEventColumns",
    "StreamGap",
    "StreamStart",
    "TcpLimits",
    "TcpReassembler",
    "TruncatedPacket",
    "TruncatedTail",
    "UdpFramer",
    "UdpRecords",
    "boundary_at_time",
    "boundary_finder",
    "capture_error",
    "datagrams",
    "dissect",
    "first_boundary",
    "is_pcap",
    "open_source",
    "read_blocks",
    "read_packets",
    "segments",
    "split_points",
    "streams",
    "tcp_frame",
    "udp_frame",
]
