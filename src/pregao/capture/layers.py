"""Dissection of captured packets: link, IP, UDP and TCP layers."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Generic, NamedTuple, TypeVar

from pregao.capture.fragments import FragmentLimits, FragmentReassembler
from pregao.capture.reader import Packet
from pregao.capture.statistics import CaptureStatistics
from pregao.errors import DecodeError

ETHERNET = 1
LINUX_COOKED = 113
LINUX_COOKED_2 = 276
RAW_IP = frozenset({12, 14, 101})
RAW_IPV4 = 228
RAW_IPV6 = 229
BSD_NULL = 0
BSD_LOOP = 108

VLAN_TAGS = frozenset({0x8100, 0x88A8, 0x9100})
_IPV4 = 0x0800
_IPV6 = 0x86DD
_TCP = 6
_UDP = 17
_FRAGMENT_HEADER = 44
_AUTHENTICATION = 51
# Hop-by-hop, routing, destination options, mobility, HIP and Shim6 encode their length alike.
_SIZED_HEADERS = frozenset({0, 43, 60, 135, 139, 140})
# Values of the IPv6 family in a loopback header on the BSDs, macOS, Linux and Windows.
_IPV6_FAMILIES = frozenset({10, 23, 24, 28, 30})
_ETHERTYPES = {0x0806: "ARP", 0x88CC: "LLDP", 0x8847: "MPLS", 0x88F7: "PTP", 0x8809: "LACP"}
_PROTOCOLS = {1: "ICMP", 2: "IGMP", 47: "GRE", 58: "ICMPv6", 89: "OSPF", 103: "PIM", 112: "VRRP"}


class Flow(NamedTuple):
    """One direction of traffic: addresses as text, ports as numbers."""

    src: str
    src_port: int
    dst: str
    dst_port: int


@dataclass(frozen=True, slots=True)
class Datagram:
    """A complete UDP datagram; a reassembled one has the time of the completing fragment."""

    kind: ClassVar[str] = "udp"

    time_ns: int
    src: str
    src_port: int
    dst: str
    dst_port: int
    payload: bytes
    number: int
    position: int

    @property
    def flow(self) -> Flow:
        """Source and destination."""
        return Flow(self.src, self.src_port, self.dst, self.dst_port)


@dataclass(frozen=True, slots=True)
class Segment:
    """A complete TCP segment; ``flags`` as on the wire (FIN 1, SYN 2, RST 4, PSH 8, ACK 16)."""

    kind: ClassVar[str] = "tcp"

    time_ns: int
    src: str
    src_port: int
    dst: str
    dst_port: int
    sequence: int
    acknowledgment: int
    flags: int
    payload: bytes
    number: int
    position: int

    @property
    def flow(self) -> Flow:
        """Source and destination."""
        return Flow(self.src, self.src_port, self.dst, self.dst_port)


@dataclass(frozen=True, slots=True)
class TruncatedPacket:
    """A packet with an incomplete payload, because the capture kept only its first bytes."""

    kind: ClassVar[str] = "cut"

    time_ns: int
    captured: int
    original_length: int
    number: int
    position: int


@dataclass(frozen=True, slots=True)
class MalformedPacket:
    """A packet whose headers contradict each other or the frame."""

    kind: ClassVar[str] = "malformed"

    time_ns: int
    reason: str
    number: int
    position: int


@dataclass(frozen=True, slots=True)
class OtherPacket:
    """A packet that is neither UDP nor TCP over IP."""

    kind: ClassVar[str] = "other"

    time_ns: int
    reason: str
    number: int
    position: int


@dataclass(frozen=True, slots=True)
class FragmentPacket:
    """A fragment of a datagram that is not complete yet."""

    kind: ClassVar[str] = "fragment"

    time_ns: int
    number: int
    position: int


PacketItem = Datagram | Segment | TruncatedPacket | MalformedPacket | OtherPacket | FragmentPacket


class _UnwantedError(Exception):
    """Neither UDP nor TCP."""


class _ShortError(Exception):
    """The frame ends too early: truncated by the snap length, or invalid."""


class PacketDissector:
    """Dissects packets into one item each, and counts them."""

    def __init__(
        self,
        statistics: CaptureStatistics | None = None,
        limits: FragmentLimits | None = None,
    ) -> None:
        self.statistics = statistics if statistics is not None else CaptureStatistics()
        self._fragments = FragmentReassembler(self.statistics, limits)

    def item(self, packet: Packet) -> PacketItem:
        """Return the item of a packet; every packet has exactly one."""
        statistics = self.statistics
        statistics.packets += 1
        statistics.bytes += len(packet.data)
        try:
            version, offset = _network(packet.data, packet.link_type)
            return self._ipv4(packet, offset) if version == 4 else self._ipv6(packet, offset)
        except _UnwantedError as unwanted:
            reason = str(unwanted)
            statistics.other[reason] += 1
            return OtherPacket(packet.time_ns, reason, packet.number, packet.position)
        except _ShortError as short:
            if packet.original_length > len(packet.data):
                statistics.cut += 1
                return TruncatedPacket(
                    packet.time_ns,
                    len(packet.data),
                    packet.original_length,
                    packet.number,
                    packet.position,
                )
            reason = str(short)
        except DecodeError as error:
            reason = error.reason
        statistics.malformed[reason] += 1
        return MalformedPacket(packet.time_ns, reason, packet.number, packet.position)

    def _ipv4(self, packet: Packet, at: int) -> PacketItem:
        data = packet.data
        if at + 20 > len(data):
            raise _ShortError("frame ends inside the IPv4 header")
        if data[at] >> 4 != 4:
            raise DecodeError("IP version is not 4 in an IPv4 packet")
        header = (data[at] & 15) * 4
        if header < 20:
            raise DecodeError("IPv4 header length is below 20")
        total = data[at + 2] << 8 | data[at + 3]
        if total < header:
            raise DecodeError("IPv4 total length is shorter than the header")
        protocol = data[at + 9]
        if protocol != _UDP and protocol != _TCP:
            raise _UnwantedError(_protocol_name(protocol))
        end = at + total
        if end > len(data):
            raise _ShortError("IPv4 packet runs past the frame")
        source, destination = data[at + 12 : at + 16], data[at + 16 : at + 20]
        flags_offset = (data[at + 6] << 8 | data[at + 7]) & 0x3FFF
        if flags_offset:
            identification = data[at + 4 : at + 6]
            part = data[at + header : end]
            key = (4, source, destination, protocol, identification)
            datagram = self._fragments.add(
                key, (flags_offset & 0x1FFF) * 8, flags_offset > 0x1FFF, part, packet.time_ns
            )
            if datagram is None:
                return FragmentPacket(packet.time_ns, packet.number, packet.position)
            return self._transport(
                packet, protocol, source, destination, datagram, 0, len(datagram)
            )
        return self._transport(packet, protocol, source, destination, data, at + header, end)

    def _ipv6(self, packet: Packet, at: int) -> PacketItem:
        data = packet.data
        if at + 40 > len(data):
            raise _ShortError("frame ends inside the IPv6 header")
        if data[at] >> 4 != 6:
            raise DecodeError("IP version is not 6 in an IPv6 packet")
        end = at + 40 + (data[at + 4] << 8 | data[at + 5])
        source, destination = data[at + 8 : at + 24], data[at + 24 : at + 40]
        protocol, at = _skip_extensions(data, data[at + 6], at + 40, end)
        if protocol == _FRAGMENT_HEADER:
            if at + 8 > end:
                raise DecodeError("IPv6 extension header runs past the packet")
            if at + 8 > len(data):
                raise _ShortError("frame ends inside an IPv6 extension header")
            protocol, flags_offset = data[at], data[at + 2] << 8 | data[at + 3]
            if protocol not in (_UDP, _TCP, _AUTHENTICATION) and protocol not in _SIZED_HEADERS:
                raise _UnwantedError(_protocol_name(protocol))
            if end > len(data):
                raise _ShortError("IPv6 packet runs past the frame")
            part = data[at + 8 : end]
            if flags_offset & 0xFFF9:
                key = (6, source, destination, protocol, data[at + 4 : at + 8])
                datagram = self._fragments.add(
                    key, flags_offset & 0xFFF8, bool(flags_offset & 1), part, packet.time_ns
                )
                if datagram is None:
                    return FragmentPacket(packet.time_ns, packet.number, packet.position)
                part = datagram
            data, end = part, len(part)
            protocol, at = _skip_extensions(data, protocol, 0, end)
            if protocol == _FRAGMENT_HEADER:
                raise DecodeError("IPv6 fragment inside a fragment")
        if protocol != _UDP and protocol != _TCP:
            raise _UnwantedError(_protocol_name(protocol))
        if end > len(data):
            raise _ShortError("IPv6 packet runs past the frame")
        return self._transport(packet, protocol, source, destination, data, at, end)

    def _transport(
        self,
        packet: Packet,
        protocol: int,
        source: bytes,
        destination: bytes,
        data: bytes,
        at: int,
        end: int,
    ) -> PacketItem:
        """Parse the UDP or TCP header at ``at``; ``end`` is the end of the IP packet."""
        if protocol == _UDP:
            if at + 8 > end:
                raise DecodeError("UDP header runs past the IP packet")
            length = data[at + 4] << 8 | data[at + 5]
            if length < 8:
                raise DecodeError("UDP length is below 8")
            if at + length > end:
                raise DecodeError("UDP length runs past the IP packet")
            self.statistics.udp += 1
            self.statistics.udp_bytes += length - 8
            return Datagram(
                packet.time_ns,
                address_text(source),
                data[at] << 8 | data[at + 1],
                address_text(destination),
                data[at + 2] << 8 | data[at + 3],
                data[at + 8 : at + length],
                packet.number,
                packet.position,
            )
        if at + 20 > end:
            raise DecodeError("TCP header runs past the IP packet")
        header = (data[at + 12] >> 4) * 4
        if header < 20:
            raise DecodeError("TCP header length is below 20")
        if at + header > end:
            raise DecodeError("TCP header runs past the IP packet")
        self.statistics.tcp += 1
        return Segment(
            packet.time_ns,
            address_text(source),
            data[at] << 8 | data[at + 1],
            address_text(destination),
            data[at + 2] << 8 | data[at + 3],
            int.from_bytes(data[at + 4 : at + 8], "big"),
            int.from_bytes(data[at + 8 : at + 12], "big"),
            data[at + 13],
            data[at + header : end],
            packet.number,
            packet.position,
        )


def _network(data: bytes, link_type: int) -> tuple[int, int]:
    """Return the IP version (4 or 6) of a frame, and the offset of the IP header."""
    if link_type == ETHERNET:
        return _ethertype(data, 12, 14, "frame ends inside the Ethernet header")
    if link_type == LINUX_COOKED:
        return _ethertype(data, 14, 16, "frame ends inside the Linux cooked header")
    if link_type == LINUX_COOKED_2:
        return _ethertype(data, 0, 20, "frame ends inside the Linux cooked header")
    if link_type == RAW_IPV4:
        return 4, 0
    if link_type == RAW_IPV6:
        return 6, 0
    if link_type in RAW_IP:
        if not data:
            raise _ShortError("frame is empty")
        version = data[0] >> 4
        if version not in (4, 6):
            raise DecodeError("IP version is neither 4 nor 6")
        return version, 0
    if link_type in (BSD_NULL, BSD_LOOP):
        if len(data) < 4:
            raise _ShortError("frame ends inside the loopback header")
        family = int.from_bytes(data[:4], "big")
        if link_type == BSD_NULL and family > 0xFFFF:
            # Written in the byte order of the capturing machine, which the file does not state.
            family = int.from_bytes(data[:4], "little")
        if family == 2:
            return 4, 4
        if family in _IPV6_FAMILIES:
            return 6, 4
        raise _UnwantedError(f"loopback family {family}")
    raise _UnwantedError(f"link type {link_type}")


def _ethertype(data: bytes, at: int, payload: int, short: str) -> tuple[int, int]:
    """Follow the ethertype at ``at``, through any VLAN tags, to the IP header."""
    if len(data) < payload:
        raise _ShortError(short)
    ethertype = data[at] << 8 | data[at + 1]
    while ethertype in VLAN_TAGS:
        if len(data) < payload + 4:
            raise _ShortError("frame ends inside a VLAN tag")
        ethertype = data[payload + 2] << 8 | data[payload + 3]
        payload += 4
    if ethertype == _IPV4:
        return 4, payload
    if ethertype == _IPV6:
        return 6, payload
    if ethertype < 0x600:
        raise _UnwantedError("802.3 length instead of an ethertype")
    raise _UnwantedError(_ETHERTYPES.get(ethertype) or f"ethertype 0x{ethertype:04x}")


def _skip_extensions(data: bytes, protocol: int, at: int, end: int) -> tuple[int, int]:
    """Skip IPv6 extension headers; stops at a fragment header too."""
    while protocol in _SIZED_HEADERS or protocol == _AUTHENTICATION:
        if at + 8 > end:
            raise DecodeError("IPv6 extension header runs past the packet")
        if at + 8 > len(data):
            raise _ShortError("frame ends inside an IPv6 extension header")
        size = data[at + 1]
        following = at + ((size + 2) * 4 if protocol == _AUTHENTICATION else (size + 1) * 8)
        if following > end:
            raise DecodeError("IPv6 extension header runs past the packet")
        protocol, at = data[at], following
    return protocol, at


def _protocol_name(protocol: int) -> str:
    return _PROTOCOLS.get(protocol) or f"IP protocol {protocol}"


@lru_cache(maxsize=65536)
def address_text(address: bytes) -> str:
    """Return an IPv4 or IPv6 address as text."""
    family = socket.AF_INET if len(address) == 4 else socket.AF_INET6
    return socket.inet_ntop(family, address)


ItemT = TypeVar("ItemT", covariant=True)


class Dissection(Iterator[ItemT], Generic[ItemT]):
    """An iterator over the items of a capture, with statistics of the items so far."""

    def __init__(self, items: Iterator[ItemT], statistics: CaptureStatistics) -> None:
        self._items = items
        self.statistics = statistics

    def __next__(self) -> ItemT:
        return next(self._items)


def dissect(
    packets: Iterable[Packet], limits: FragmentLimits | None = None
) -> Dissection[PacketItem]:
    """Return one item per packet: datagram, segment, cut, malformed, other or fragment."""
    layers = PacketDissector(limits=limits)
    return Dissection(map(layers.item, packets), layers.statistics)


def datagrams(
    packets: Iterable[Packet], limits: FragmentLimits | None = None
) -> Dissection[Datagram]:
    """Return the UDP datagrams of a capture; other packets are only counted."""
    items = dissect(packets, limits)
    return Dissection((x for x in items if isinstance(x, Datagram)), items.statistics)


def segments(
    packets: Iterable[Packet], limits: FragmentLimits | None = None
) -> Dissection[Segment]:
    """Return the TCP segments of a capture; other packets are only counted."""
    items = dissect(packets, limits)
    return Dissection((x for x in items if isinstance(x, Segment)), items.statistics)
