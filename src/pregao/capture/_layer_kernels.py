"""Kernels of captured frames: offsets of the IP, UDP or TCP header, flows, and TCP streams.

`take_in_order` processes the segments that are next in their stream, which are nearly all.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pregao._njit import load_u32, load_u64, njit

# Link kinds: how the IP header is found.
LINK_ODD, LINK_ETHERNET, LINK_COOKED, LINK_COOKED_2, LINK_RAW = range(5)

_HASH_1 = np.uint64(0x9E3779B97F4A7C15)
_HASH_2 = np.uint64(0xC2B2AE3D27D4EB4F)
_SHIFT = np.uint64(32)

_UINT32_MASK = (1 << 32) - 1


@njit
def swap_u32(value: Any) -> Any:
    """Return the four bytes in reverse order."""
    wide = np.int64(value)
    return (wide & 0xFF) << 24 | (wide & 0xFF00) << 8 | (wide >> 8) & 0xFF00 | (wide >> 24) & 0xFF


@njit
def word(buffer: Any, at: int, swapped: bool) -> Any:
    """Load an unsigned 32-bit number in the byte order of the file."""
    value = np.int64(load_u32(buffer, at))
    return swap_u32(value) if swapped else value


@njit
def network_u16(buffer: Any, at: int) -> Any:
    """Load an unsigned 16-bit number in network byte order."""
    return np.int64(buffer[at]) << 8 | np.int64(buffer[at + 1])


@njit
def find_ip(buffer: Any, at: int, end: int, link: int) -> Any:
    """Return the offset of the IPv4 header of a frame; -1 if the plain code must process it."""
    if link == LINK_RAW:
        return at
    if link == LINK_ETHERNET:
        kind, ip = at + 12, at + 14
    elif link == LINK_COOKED:
        kind, ip = at + 14, at + 16
    elif link == LINK_COOKED_2:
        kind, ip = at, at + 20
    else:
        return -1
    if ip > end:
        return -1
    ethertype = network_u16(buffer, kind)
    while ethertype == 0x8100 or ethertype == 0x88A8 or ethertype == 0x9100:
        if ip + 4 > end:
            return -1
        ethertype = network_u16(buffer, ip + 2)
        ip += 4
    return ip if ethertype == 0x0800 else -1


@njit
def find_transport(buffer: Any, ip: int, end: int, protocol: int, least: int) -> Any:
    """Return the offset of the header after an IPv4 header; -1 unless the packet is ordinary.

    An ordinary packet is complete, of the protocol, not a fragment, and has at least ``least``
    bytes.
    """
    if ip < 0 or ip + 20 + least > end:
        return -1
    first = np.int64(buffer[ip])
    header = (first & 15) * 4
    total = network_u16(buffer, ip + 2)
    if (
        first >> 4 != 4
        or header < 20
        or buffer[ip + 9] != protocol
        or network_u16(buffer, ip + 6) & 0x3FFF
        or ip + total > end
        or total < header + least
    ):
        return -1
    return ip + header


@njit
def find_udp(buffer: Any, ip: int, end: int) -> Any:
    """Return the offset of the UDP header after an IPv4 header; -1 unless all lengths agree."""
    udp = find_transport(buffer, ip, end, 17, 8)
    if udp >= 0:
        length = network_u16(buffer, udp + 4)
        if length < 8 or udp + length > ip + network_u16(buffer, ip + 2):
            return -1
    return udp


@njit
def find_tcp(buffer: Any, ip: int, end: int) -> Any:
    """Return the offset of the TCP header after an IPv4 header; -1 unless all lengths agree."""
    tcp = find_transport(buffer, ip, end, 6, 20)
    if tcp >= 0:
        header = np.int64(buffer[tcp + 12] >> 4) * 4
        if header < 20 or tcp + header > ip + network_u16(buffer, ip + 2):
            return -1
    return tcp


@njit
def put_segment(
    buffer: Any, ip: int, tcp: int, number: int, position: int, time: int, tables: Any,
    columns: Any, count: int, flows: int,
) -> Any:  # fmt: skip
    """Append a TCP segment; return the number of its flow, -1 if the table of flows is full.

    ``tables`` are those that ``find_flow`` searches, ``columns`` those of a ``SegmentBlock``.
    """
    addresses, ports = load_u64(buffer, ip + 12), np.uint64(load_u32(buffer, tcp))
    found = find_flow(addresses, ports, tables[0], tables[1], tables[2], flows)
    if found < 0:
        return found
    payload = tcp + np.int64(buffer[tcp + 12] >> 4) * 4
    columns[0][count] = time
    columns[1][count] = payload
    columns[2][count] = ip + network_u16(buffer, ip + 2) - payload
    columns[3][count] = number
    columns[4][count] = position
    columns[5][count] = found
    columns[6][count] = swap_u32(load_u32(buffer, tcp + 4))
    columns[7][count] = buffer[tcp + 13]
    return found


@njit
def flow_slot(addresses: Any, ports: Any, slots: Any) -> Any:
    """Return the slot at which the search for a flow starts; the table's size is a power of two."""
    mixed = (addresses ^ (ports * _HASH_2)) * _HASH_1
    return np.int64((mixed ^ (mixed >> _SHIFT)) & np.uint64(slots.size - 1))


@njit
def find_flow(
    addresses: Any, ports: Any, slots: Any, flow_addresses: Any, flow_ports: Any, count: int
) -> Any:
    """Return the index of a flow; ``count`` if it was new and is added; -1 if the table is full.

    ``slots`` has indices (-1 if free) and is kept at most half full.
    """
    mask = slots.size - 1
    slot = flow_slot(addresses, ports, slots)
    while slots[slot] >= 0:
        index = np.int64(slots[slot])
        if flow_addresses[index] == addresses and flow_ports[index] == ports:
            return index
        slot = (slot + 1) & mask
    if count >= flow_addresses.size or 2 * (count + 1) > slots.size:
        return -1
    slots[slot] = count
    flow_addresses[count] = addresses
    flow_ports[count] = ports
    return count


@njit
def fill_slots(slots: Any, flow_addresses: Any, flow_ports: Any, over_ipv4: Any) -> None:
    """Insert the known flows over IPv4 into an empty table."""
    mask = slots.size - 1
    for index in range(over_ipv4.size):
        if over_ipv4[index]:
            slot = flow_slot(flow_addresses[index], flow_ports[index], slots)
            while slots[slot] >= 0:
                slot = (slot + 1) & mask
            slots[slot] = index


@njit
def take_in_order(
    flow: Any, sequence: Any, flags: Any, length: Any, begin: int, next_sequence: Any,
    taken_bytes: Any, last: Any, taken: Any,
) -> Any:  # fmt: skip
    """Process segments from ``begin`` on while each is next in its stream; return the first other.

    ``next_sequence`` has a number for each flow, -1 where the plain code must process every
    segment. ``taken_bytes`` and ``last`` are the bytes processed of each flow, and its last
    segment.
    """
    for i in range(begin, len(flow)):
        f = flow[i]
        # Neither FIN nor SYN nor RST.
        if next_sequence[f] < 0 or flags[i] & 7:
            return i
        size = length[i]
        if size == 0:
            taken[i] = False
            continue
        if sequence[i] != next_sequence[f]:
            return i
        next_sequence[f] = (sequence[i] + size) & _UINT32_MASK
        taken_bytes[f] += size
        last[f] = i
        taken[i] = True
    return len(flow)
