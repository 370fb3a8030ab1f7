"""Captures built byte by byte for the tests, without the code under test."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

ETHERNET, COOKED, COOKED_2, RAW, RAW_12, RAW_14 = 1, 113, 276, 101, 12, 14
RAW_4, RAW_6, NULL, LOOP = 228, 229, 0, 108
LINK_TYPES = [ETHERNET, COOKED, COOKED_2, RAW, RAW_12, RAW_14, RAW_4, RAW_6, NULL, LOOP]


@dataclass(frozen=True)
class Raw:
    """A packet to be put into a file."""

    time_ns: int
    data: bytes
    original: int | None = None

    @property
    def length(self) -> int:
        return len(self.data) if self.original is None else self.original


def pcap_header(
    link_type: int = ETHERNET,
    *,
    order: str = "<",
    nanos: bool = True,
    snaplen: int = 65535,
    magic: int | None = None,
) -> bytes:
    if magic is None:
        magic = 0xA1B23C4D if nanos else 0xA1B2C3D4
    return struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, snaplen, link_type)


def pcap_record(
    seconds: int,
    fraction: int,
    data: bytes,
    original: int | None = None,
    *,
    captured: int | None = None,
    order: str = "<",
) -> bytes:
    captured = len(data) if captured is None else captured
    original = len(data) if original is None else original
    return struct.pack(f"{order}IIII", seconds, fraction, captured, original) + data


def pcap_file(
    packets: Iterable[Raw],
    link_type: int = ETHERNET,
    *,
    order: str = "<",
    nanos: bool = True,
    snaplen: int = 65535,
) -> bytes:
    unit = 1 if nanos else 1000
    out = [pcap_header(link_type, order=order, nanos=nanos, snaplen=snaplen)]
    for packet in packets:
        seconds, nanosecond = divmod(packet.time_ns, 10**9)
        out.append(
            pcap_record(seconds, nanosecond // unit, packet.data, packet.length, order=order)
        )
    return b"".join(out)


def block(kind: int, body: bytes, *, order: str = "<") -> bytes:
    body += bytes(-len(body) % 4)
    length = struct.pack(f"{order}I", len(body) + 12)
    return struct.pack(f"{order}I", kind) + length + body + length


def option(code: int, value: bytes, *, order: str = "<") -> bytes:
    return struct.pack(f"{order}HH", code, len(value)) + value + bytes(-len(value) % 4)


def section(*, order: str = "<", major: int = 1, minor: int = 0, options: bytes = b"") -> bytes:
    body = struct.pack(f"{order}IHHq", 0x1A2B3C4D, major, minor, -1) + options
    return block(0x0A0D0D0A, body, order=order)


def interface(
    link_type: int = ETHERNET,
    *,
    order: str = "<",
    snaplen: int = 0,
    tsresol: int | None = None,
    tsoffset: int | None = None,
) -> bytes:
    body = struct.pack(f"{order}HHI", link_type, 0, snaplen)
    body += option(2, b"eth0", order=order)
    if tsresol is not None:
        body += option(9, bytes([tsresol]), order=order)
    if tsoffset is not None:
        body += option(14, struct.pack(f"{order}q", tsoffset), order=order)
    return block(1, body + option(0, b"", order=order), order=order)


def enhanced(
    ticks: int,
    data: bytes,
    original: int | None = None,
    *,
    interface: int = 0,
    order: str = "<",
    options: bytes = b"",
) -> bytes:
    head = struct.pack(
        f"{order}IIIII",
        interface,
        ticks >> 32,
        ticks & 0xFFFFFFFF,
        len(data),
        len(data) if original is None else original,
    )
    return block(6, head + data + bytes(-len(data) % 4) + options, order=order)


def obsolete(
    ticks: int,
    data: bytes,
    original: int | None = None,
    *,
    interface: int = 0,
    order: str = "<",
) -> bytes:
    head = struct.pack(
        f"{order}HHIIII",
        interface,
        0xFFFF,
        ticks >> 32,
        ticks & 0xFFFFFFFF,
        len(data),
        len(data) if original is None else original,
    )
    return block(2, head + data, order=order)


def simple(data: bytes, original: int | None = None, *, order: str = "<") -> bytes:
    length = len(data) if original is None else original
    return block(3, struct.pack(f"{order}I", length) + data, order=order)


def udp(
    payload: bytes, src_port: int = 5000, dst_port: int = 6000, *, length: int | None = None
) -> bytes:
    length = 8 + len(payload) if length is None else length
    return struct.pack(">HHHH", src_port, dst_port, length, 0) + payload


def tcp(
    payload: bytes = b"",
    *,
    sequence: int = 0,
    flags: int = 0x10,
    offset: int = 5,
    options: bytes = b"",
) -> bytes:
    head = struct.pack(">HHIIBBHHH", 1000, 2000, sequence, 0, offset << 4, flags, 1024, 0, 0)
    return head + options + payload


def ipv4(
    body: bytes,
    protocol: int = 17,
    *,
    src: bytes = b"\x0a\x00\x00\x01",
    dst: bytes = b"\xe9\x01\x02\x03",
    ident: int = 0,
    fragment: int = 0,
    options: bytes = b"",
    total: int | None = None,
    words: int | None = None,
    version: int = 4,
) -> bytes:
    words = 5 + len(options) // 4 if words is None else words
    total = 20 + len(options) + len(body) if total is None else total
    head = struct.pack(
        ">BBHHHBBH4s4s", version << 4 | words, 0, total, ident, fragment, 9, protocol, 0, src, dst
    )
    return head + options + body


def ipv6(
    body: bytes,
    protocol: int = 17,
    *,
    src: bytes = b"\xfd" + bytes(14) + b"\x01",
    dst: bytes = b"\xff" * 16,
    length: int | None = None,
) -> bytes:
    length = len(body) if length is None else length
    return struct.pack(">IHBB", 6 << 28, length & 0xFFFF, protocol, 64) + src + dst + body


def ipv6_fragment(part: bytes, offset: int, more: int, ident: int = 7, protocol: int = 17) -> bytes:
    head = struct.pack(">BBHI", protocol, 0, offset | more, ident)
    return ipv6(head + part, 44)


def framed(
    packet: bytes,
    link_type: int = ETHERNET,
    *,
    tags: Sequence[int] = (),
    version: int = 4,
) -> bytes:
    """An IP packet in a frame of the given kind."""
    kind = b"\x86\xdd" if version == 6 else b"\x08\x00"
    chain = b""
    for tag in reversed(tags):
        chain = struct.pack(">H", 0x123) + kind + chain
        kind = struct.pack(">H", tag)
    if link_type == ETHERNET:
        return bytes(6) + b"\x02" + bytes(5) + kind + chain + packet
    if link_type == COOKED:
        return bytes(14) + kind + chain + packet
    if link_type == COOKED_2:
        return kind + bytes(18) + chain + packet
    if link_type == NULL:
        return struct.pack("<I", 30 if version == 6 else 2) + packet
    if link_type == LOOP:
        return struct.pack(">I", 30 if version == 6 else 2) + packet
    return packet


# ---- strategies ----------------------------------------------------------------------------

payloads = st.one_of(st.binary(max_size=40), st.just(b"x" * 1400))
addresses = st.sampled_from([b"\xe9\x01\x02\x03", b"\xe9\x01\x02\x04", b"\x0a\x00\x00\x02"])
ports = st.sampled_from([0, 6000, 6001, 65535])


@st.composite
def fragments_of(draw: st.DrawFn, body: bytes, ident: int) -> list[bytes]:
    """IPv4 fragments of a body: cut at multiples of eight, some lost, repeated or out of order."""
    cuts = sorted(draw(st.sets(st.integers(1, max(1, (len(body) - 1) // 8)), max_size=4)))
    edges = [0, *[8 * cut for cut in cuts if 8 * cut < len(body)], len(body)]
    out = []
    for start, end in itertools.pairwise(edges):
        more = 0x2000 if end < len(body) else 0
        out.append(ipv4(body[start:end], ident=ident, fragment=more | start // 8))
    fate = draw(st.sampled_from(["whole", "shuffled", "lost", "repeated", "overlapping"]))
    if fate == "shuffled":
        out = draw(st.permutations(out))
    elif fate == "lost":
        out = out[1:]
    elif fate == "repeated":
        out = [part for part in out for _ in range(2)]
    elif fate == "overlapping":
        out.insert(1, ipv4(bytes(16), ident=ident, fragment=0x2000))
    return list(out)


IP_KINDS = [
    *("udp", "udp", "udp", "options", "udp6", "extended", "tcp", "icmp", "icmp6"),
    *("fragments", "fragments", "fragments6", "atomic", "udp_length", "ip_length", "version"),
]


@st.composite
def ip_packets(draw: st.DrawFn) -> list[tuple[int, bytes]]:
    """One or several IP packets of any kind, as (version, bytes) pairs."""
    kind = draw(st.sampled_from(IP_KINDS))
    payload = draw(payloads)
    body = udp(payload, draw(ports), draw(ports))
    if kind == "udp":
        return [(4, ipv4(body, dst=draw(addresses)))]
    if kind == "options":
        return [(4, ipv4(body, options=b"\x01" * 4 * draw(st.integers(1, 10))))]
    if kind == "udp6":
        return [(6, ipv6(body))]
    if kind == "extended":
        hop = bytes([60, 0]) + bytes(6)
        destination = bytes([17, 1]) + bytes(14)
        return [(6, ipv6(hop + destination + body, 0))]
    if kind == "tcp":
        words = draw(st.integers(4, 8))
        return [(4, ipv4(tcp(payload, offset=words), 6))]
    if kind == "icmp":
        return [(4, ipv4(payload, draw(st.sampled_from([1, 2, 89]))))]
    if kind == "icmp6":
        return [(6, ipv6(payload, draw(st.sampled_from([58, 59, 50]))))]
    if kind == "fragments":
        return [(4, part) for part in draw(fragments_of(body, draw(st.integers(0, 3))))]
    if kind == "fragments6":
        cut = min(8 * draw(st.integers(1, 3)), (len(body) - 1) // 8 * 8)
        if cut == 0:
            return [(6, ipv6_fragment(body, 0, 0))]
        return [(6, ipv6_fragment(body[:cut], 0, 1)), (6, ipv6_fragment(body[cut:], cut, 0))]
    if kind == "atomic":
        return [(6, ipv6_fragment(body, 0, 0))]
    if kind == "udp_length":
        length = draw(st.integers(0, 80))
        return [(4, ipv4(udp(payload, length=length)))]
    if kind == "ip_length":
        total = draw(st.integers(0, 120))
        return [(4, ipv4(body, total=total))]
    words, version = draw(st.integers(0, 15)), draw(st.integers(0, 15))
    return [(4, ipv4(body, words=words, version=version))]


@st.composite
def frames(draw: st.DrawFn, link_type: int) -> list[tuple[bytes, int]]:
    """Frames of one kind of link: usual ones, padded, cut, tagged, flipped and plain noise."""
    kind = draw(st.sampled_from(["ip"] * 8 + ["noise", "other"]))
    if kind == "noise":
        data = draw(st.binary(max_size=80))
        return [(data, len(data) + draw(st.sampled_from([0, 0, 7])))]
    if kind == "other":
        data = framed(bytes(40), link_type)
        data = data[:12] + draw(st.sampled_from([b"\x08\x06", b"\x00\x40"])) + data[14:]
        return [(data, len(data))]
    tags = draw(st.lists(st.sampled_from([0x8100, 0x88A8, 0x9100]), max_size=3))
    out = []
    for version, packet in draw(ip_packets()):
        data = framed(packet, link_type, tags=tags, version=version)
        change = draw(st.sampled_from(["none"] * 8 + ["padded", "cut", "short", "flip"]))
        if change == "padded":
            data += b"\xee" * draw(st.integers(1, 30))
        length = len(data)
        if change == "cut":
            data = data[: draw(st.integers(0, len(data)))]
        elif change == "short":
            data = data[: draw(st.integers(0, len(data)))]
            length = len(data)
        elif change == "flip" and data:
            offset = draw(st.integers(0, min(len(data) - 1, 60)))
            flipped = data[offset] ^ draw(st.integers(1, 255))
            data = data[:offset] + bytes([flipped]) + data[offset + 1 :]
        out.append((data, length))
    return out


@st.composite
def raw_packets(draw: st.DrawFn, link_type: int, max_size: int = 12) -> list[Raw]:
    """Packets in order of time, now and then far apart."""
    now = draw(st.sampled_from([0, 1_700_000_000 * 10**9, (2**32 - 1000) * 10**9]))
    out = []
    for _ in range(draw(st.integers(0, max_size))):
        for data, original in draw(frames(link_type)):
            now += draw(st.sampled_from([0, 1, 1, 999_999_999, 999_999_999, 40 * 10**9]))
            out.append(Raw(now, data, original))
    return out


@st.composite
def pcap_files(draw: st.DrawFn) -> bytes:
    """A pcap of any kind: link type, byte order, time unit."""
    link_type = draw(st.sampled_from(LINK_TYPES + [ETHERNET] * 8 + [147]))
    packets = draw(raw_packets(link_type))
    order, nanos = draw(st.sampled_from("<>")), draw(st.booleans())
    return pcap_file(packets, link_type, order=order, nanos=nanos)


@st.composite
def pcapng_files(draw: st.DrawFn) -> bytes:
    """A pcapng with several sections, interfaces, clocks, byte orders and kinds of block."""
    out = []
    for _ in range(draw(st.integers(1, 3))):
        order = draw(st.sampled_from("<>"))
        out.append(section(order=order))
        links = draw(st.lists(st.sampled_from([ETHERNET, ETHERNET, RAW, COOKED]), max_size=3))
        for link_type in links:
            tsresol = draw(st.sampled_from([None, 0, 3, 6, 9, 12, 30, 127, 0x80, 0x9E, 0xA8]))
            tsoffset = draw(st.sampled_from([None, 0, 3600, -3600, 2**40]))
            out.append(interface(link_type, order=order, tsresol=tsresol, tsoffset=tsoffset))
        for number, link_type in enumerate(links):
            for packet in draw(raw_packets(link_type, max_size=4)):
                usual = packet.time_ns // 1000
                ticks = draw(st.sampled_from([usual] * 9 + [5, 2**32, 2**63 + 5]))
                writer = draw(st.sampled_from([enhanced, enhanced, enhanced, obsolete]))
                out.append(writer(ticks, packet.data, packet.length, interface=number, order=order))
                if draw(st.integers(0, 7)) == 0:
                    kind = draw(st.sampled_from([0, 4, 5, 0xBAD]))
                    out.append(block(kind, b"12345", order=order))
                if number == 0 and draw(st.integers(0, 7)) == 0:
                    out.append(simple(packet.data, order=order))
    return b"".join(out)


capture_files = st.one_of(pcap_files(), pcapng_files())
