"""Captures: pcap and pcapng in and out, link, IP, UDP and TCP layers, split points."""

from pregao.capture.bulk import BlockReader, PacketBlock, read_blocks
from pregao.capture.fragments import FragmentLimits
from pregao.capture.layers import (
    Cut,
    Datagram,
    Dissection,
    Flow,
    Fragment,
    Item,
    Layers,
    Malformed,
    Other,
    Segment,
    datagrams,
    dissect,
    segments,
)
from pregao.capture.reader import CaptureReader, Packet, TruncatedTail, read_packets
from pregao.capture.source import Source
from pregao.capture.split import boundary_at_time, first_boundary, split_points
from pregao.capture.statistics import CaptureStatistics
from pregao.capture.tcp import (
    Chunk,
    StreamEnd,
    StreamEvent,
    StreamGap,
    StreamStart,
    TcpLimits,
    TcpReassembler,
    streams,
)
from pregao.capture.write import PcapWriter, UdpFramer, tcp_frame, udp_frame

__all__ = [
    "BlockReader",
    "CaptureReader",
    "CaptureStatistics",
    "Chunk",
    "Cut",
    "Datagram",
    "Dissection",
    "Flow",
    "Fragment",
    "FragmentLimits",
    "Item",
    "Layers",
    "Malformed",
    "Other",
    "Packet",
    "PacketBlock",
    "PcapWriter",
    "Segment",
    "Source",
    "StreamEnd",
    "StreamEvent",
    "StreamGap",
    "StreamStart",
    "TcpLimits",
    "TcpReassembler",
    "TruncatedTail",
    "UdpFramer",
    "boundary_at_time",
    "datagrams",
    "dissect",
    "first_boundary",
    "read_blocks",
    "read_packets",
    "segments",
    "split_points",
    "streams",
    "tcp_frame",
    "udp_frame",
]
