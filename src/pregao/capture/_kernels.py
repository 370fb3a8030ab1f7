"""Kernels of captures: one pass over the records of a buffer, and the search for boundaries.

The plain twin of the walks is the message-at-a-time path (``reader`` and ``layers``); the twin of
the boundary search is in its tests.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pregao._njit import load_u32, load_u64, njit

# Why a walk stopped.
ENDED = 0
"""No whole record is left before the end."""
RECORD = 1
"""The record here is not for the kernel: the plain code must look at it."""
FULL = 2
"""The output arrays are full."""
FLOWS = 3
"""The table of flows is full."""
TCP_FLOWS = 4
"""The table of TCP flows is full."""

# Where a walk writes its results.
AT, DATAGRAMS, ODD, STOPPED, FLOW_COUNT, CAPTURED, PAYLOAD, NUMBER = range(8)
SEGMENTS, TCP_FLOW_COUNT = 8, 9
RESULTS = 10

# How the IP header is found: the numbers of ``link_kind``.
LINK_ODD, LINK_ETHERNET, LINK_COOKED, LINK_COOKED_2, LINK_RAW = range(5)

_HASH_1 = np.uint64(0x9E3779B97F4A7C15)
_HASH_2 = np.uint64(0xC2B2AE3D27D4EB4F)
_SHIFT = np.uint64(32)
_SECOND = 1_000_000_000


@njit
def swap_u32(value: Any) -> Any:
    """The same four bytes in the other order."""
    wide = np.int64(value)
    return (wide & 0xFF) << 24 | (wide & 0xFF00) << 8 | (wide >> 8) & 0xFF00 | (wide >> 24) & 0xFF


@njit
def word(buffer: Any, at: int, swapped: bool) -> Any:
    """An unsigned 32-bit number of the file."""
    value = np.int64(load_u32(buffer, at))
    return swap_u32(value) if swapped else value


@njit
def network_u16(buffer: Any, at: int) -> Any:
    """An unsigned 16-bit number in network byte order."""
    return np.int64(buffer[at]) << 8 | np.int64(buffer[at + 1])


@njit
def find_ip(buffer: Any, at: int, end: int, link: int) -> Any:
    """Where the IPv4 header of a frame starts; -1 if the plain code must look at the frame."""
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
def find_udp(buffer: Any, ip: int, end: int) -> Any:
    """Where the UDP header behind an IPv4 header starts; -1 for anything but the ordinary.

    Ordinary is a whole packet, no fragment, in which all lengths agree.
    """
    if ip < 0 or ip + 28 > end:
        return -1
    first = np.int64(buffer[ip])
    header = (first & 15) * 4
    total = network_u16(buffer, ip + 2)
    if (
        first >> 4 != 4
        or header < 20
        or buffer[ip + 9] != 17
        or network_u16(buffer, ip + 6) & 0x3FFF
        or ip + total > end
        or total < header + 8
    ):
        return -1
    udp = ip + header
    length = network_u16(buffer, udp + 4)
    if length < 8 or length > total - header:
        return -1
    return udp


@njit
def find_tcp(buffer: Any, ip: int, end: int) -> Any:
    """Where the TCP header behind an IPv4 header starts; -1 for anything but the ordinary."""
    if ip < 0 or ip + 40 > end:
        return -1
    first = np.int64(buffer[ip])
    header = (first & 15) * 4
    total = network_u16(buffer, ip + 2)
    if (
        first >> 4 != 4
        or header < 20
        or buffer[ip + 9] != 6
        or network_u16(buffer, ip + 6) & 0x3FFF
        or ip + total > end
        or total < header + 20
    ):
        return -1
    tcp = ip + header
    options = np.int64(buffer[tcp + 12] >> 4) * 4
    if options < 20 or header + options > total:
        return -1
    return tcp


@njit
def put_segment(
    buffer: Any, ip: int, tcp: int, number: int, position: int, time: int, tables: Any,
    columns: Any, count: int, flows: int,
) -> Any:  # fmt: skip
    """Put a TCP segment behind the others; give the number of its flow, -1 if there is no room.

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
    """Where the search for a flow starts in the table, whose size is a power of two."""
    mixed = (addresses ^ (ports * _HASH_2)) * _HASH_1
    return np.int64((mixed ^ (mixed >> _SHIFT)) & np.uint64(slots.size - 1))


@njit
def find_flow(
    addresses: Any, ports: Any, slots: Any, flow_addresses: Any, flow_ports: Any, count: int
) -> Any:
    """The index of a flow; ``count`` if it is new (and now in the table); -1 if there is no room.

    ``slots`` holds indices (-1 where free) and is kept at most half full.
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
    """Put the known flows over IPv4 into an empty table."""
    mask = slots.size - 1
    for index in range(over_ipv4.size):
        if over_ipv4[index]:
            slot = flow_slot(flow_addresses[index], flow_ports[index], slots)
            while slots[slot] >= 0:
                slot = (slot + 1) & mask
            slots[slot] = index


@njit
def walk_pcap(
    buffer: Any,
    begin: int,
    end: int,
    stop: int,
    base: int,
    swapped: bool,
    time_unit: int,
    most_captured: int,
    link: int,
    slots: Any,
    flow_addresses: Any,
    flow_ports: Any,
    time_ns: Any,
    offset: Any,
    length: Any,
    number: Any,
    position: Any,
    flow: Any,
    odd_at: Any,
    odd_number: Any,
    tcp_tables: Any,
    segments: Any,
    result: Any,
) -> None:
    """Walk the pcap records from ``begin`` that start before ``stop`` and are whole before ``end``.

    Ordinary UDP datagrams go to the output arrays, ordinary TCP segments to ``segments`` (where
    these have no room at all they are only counted), the places of all other records to ``odd_at``.
    ``base`` is the file position of ``buffer[0]``; ``result`` carries the counters in and out.
    """
    at = begin
    count, odd, flows = 0, 0, result[FLOW_COUNT]
    segment_count, tcp_flows, room = 0, result[TCP_FLOW_COUNT], segments[0].size
    captured_bytes, payload_bytes, packets = 0, 0, result[NUMBER]
    stopped = ENDED
    last_addresses, last_ports, last_flow = np.uint64(0), np.uint64(0), np.int64(-1)
    while at < stop and at + 16 <= end:
        captured = word(buffer, at + 8, swapped)
        if captured > most_captured:
            stopped = RECORD
            break
        frame = at + 16
        following = frame + captured
        if following > end:
            break
        if count == time_ns.size or odd == odd_at.size or (room and segment_count == room):
            stopped = FULL
            break
        ip = find_ip(buffer, frame, following, link)
        udp = find_udp(buffer, ip, following)
        if udp < 0:
            tcp = find_tcp(buffer, ip, following)
            if tcp >= 0:
                if room:
                    time = word(buffer, at, swapped) * _SECOND
                    time += word(buffer, at + 4, swapped) * time_unit
                    found = put_segment(
                        buffer, ip, tcp, packets + 1, base + at, time, tcp_tables, segments,
                        segment_count, tcp_flows,
                    )  # fmt: skip
                    if found < 0:
                        stopped = TCP_FLOWS
                        break
                    tcp_flows = max(tcp_flows, found + 1)
                segment_count += 1
                captured_bytes += captured
            else:
                odd_at[odd] = at
                odd_number[odd] = packets + 1
                odd += 1
            packets += 1
            at = following
            continue
        addresses = load_u64(buffer, ip + 12)
        ports = np.uint64(load_u32(buffer, udp))
        if last_flow < 0 or addresses != last_addresses or ports != last_ports:
            found = find_flow(addresses, ports, slots, flow_addresses, flow_ports, flows)
            if found < 0:
                stopped = FLOWS
                break
            if found == flows:
                flows += 1
            last_addresses, last_ports, last_flow = addresses, ports, found
        packets += 1
        seconds = word(buffer, at, swapped)
        time_ns[count] = seconds * _SECOND + word(buffer, at + 4, swapped) * time_unit
        size = network_u16(buffer, udp + 4) - 8
        offset[count] = udp + 8
        length[count] = size
        number[count] = packets
        position[count] = base + at
        flow[count] = last_flow
        count += 1
        captured_bytes += captured
        payload_bytes += size
        at = following
    result[AT] = at
    result[DATAGRAMS] = count
    result[ODD] = odd
    result[STOPPED] = stopped
    result[FLOW_COUNT] = flows
    result[CAPTURED] = captured_bytes
    result[PAYLOAD] = payload_bytes
    result[NUMBER] = packets
    result[SEGMENTS] = segment_count
    result[TCP_FLOW_COUNT] = tcp_flows


@njit
def walk_pcapng(
    buffer: Any,
    begin: int,
    end: int,
    base: int,
    swapped: bool,
    most_block: int,
    clocks: Any,
    slots: Any,
    flow_addresses: Any,
    flow_ports: Any,
    time_ns: Any,
    offset: Any,
    length: Any,
    number: Any,
    position: Any,
    flow: Any,
    odd_at: Any,
    odd_number: Any,
    tcp_tables: Any,
    segments: Any,
    result: Any,
) -> None:
    """Walk the pcapng blocks from ``begin`` that are whole before ``end``.

    ``clocks`` has a row for each interface of the section: kind of link, longest packet, last tick
    the kernel may convert (-1: none), factor, divisor, shift (-1: decimal), offset in nanoseconds.
    Enhanced packet blocks are walked as the records of a pcap are, unknown blocks skipped; any
    other block, and whatever is wrong, is left to the plain code.
    """
    at = begin
    count, odd, flows = 0, 0, result[FLOW_COUNT]
    segment_count, tcp_flows, room = 0, result[TCP_FLOW_COUNT], segments[0].size
    captured_bytes, payload_bytes, packets = 0, 0, result[NUMBER]
    stopped = ENDED
    last_addresses, last_ports, last_flow = np.uint64(0), np.uint64(0), np.int64(-1)
    while at + 12 <= end:
        kind = word(buffer, at, swapped)
        size = word(buffer, at + 4, swapped)
        if size < 12 or size & 3 or size > most_block or kind <= 3 or kind == 0x0A0D0D0A:
            stopped = RECORD
            break
        following = at + size
        if following > end:
            break
        if word(buffer, following - 4, swapped) != size:
            stopped = RECORD
            break
        if kind != 6:
            at = following
            continue
        if size < 32:
            stopped = RECORD
            break
        interface = word(buffer, at + 8, swapped)
        captured = word(buffer, at + 20, swapped)
        if interface >= clocks.shape[0] or captured > size - 32:
            stopped = RECORD
            break
        high, low = word(buffer, at + 12, swapped), word(buffer, at + 16, swapped)
        ticks = high << 32 | low
        if captured > clocks[interface, 1] or ticks < 0 or ticks > clocks[interface, 2]:
            stopped = RECORD
            break
        if count == time_ns.size or odd == odd_at.size or (room and segment_count == room):
            stopped = FULL
            break
        frame = at + 28
        ip = find_ip(buffer, frame, frame + captured, clocks[interface, 0])
        udp = find_udp(buffer, ip, frame + captured)
        shift = clocks[interface, 5]
        if shift < 0:
            fine = ticks * clocks[interface, 3] // clocks[interface, 4]
        else:
            whole = ticks >> shift
            fine = whole * _SECOND + ((ticks - (whole << shift)) * _SECOND >> shift)
        if udp < 0:
            tcp = find_tcp(buffer, ip, frame + captured)
            if tcp >= 0:
                if room:
                    found = put_segment(
                        buffer, ip, tcp, packets + 1, base + at, fine + clocks[interface, 6],
                        tcp_tables, segments, segment_count, tcp_flows,
                    )  # fmt: skip
                    if found < 0:
                        stopped = TCP_FLOWS
                        break
                    tcp_flows = max(tcp_flows, found + 1)
                segment_count += 1
                captured_bytes += captured
            else:
                odd_at[odd] = at
                odd_number[odd] = packets + 1
                odd += 1
            packets += 1
            at = following
            continue
        addresses = load_u64(buffer, ip + 12)
        ports = np.uint64(load_u32(buffer, udp))
        if last_flow < 0 or addresses != last_addresses or ports != last_ports:
            found = find_flow(addresses, ports, slots, flow_addresses, flow_ports, flows)
            if found < 0:
                stopped = FLOWS
                break
            if found == flows:
                flows += 1
            last_addresses, last_ports, last_flow = addresses, ports, found
        packets += 1
        time_ns[count] = fine + clocks[interface, 6]
        payload = network_u16(buffer, udp + 4) - 8
        offset[count] = udp + 8
        length[count] = payload
        number[count] = packets
        position[count] = base + at
        flow[count] = last_flow
        count += 1
        captured_bytes += captured
        payload_bytes += payload
        at = following
    result[AT] = at
    result[DATAGRAMS] = count
    result[ODD] = odd
    result[STOPPED] = stopped
    result[FLOW_COUNT] = flows
    result[CAPTURED] = captured_bytes
    result[PAYLOAD] = payload_bytes
    result[NUMBER] = packets
    result[SEGMENTS] = segment_count
    result[TCP_FLOW_COUNT] = tcp_flows


@njit
def next_boundary(
    buffer: Any, begin: int, end: int, target: int, swapped: bool, most_captured: int
) -> Any:
    """Follow whole records from a boundary to the first one at or after ``target``.

    Gives where it stopped: there, or at a record that is not whole before ``end``, or (as its
    complement) at one that cannot be.
    """
    at = begin
    while at < target and at + 16 <= end:
        captured = word(buffer, at + 8, swapped)
        if captured > most_captured:
            return ~at
        if at + 16 + captured > end:
            break
        at += 16 + captured
    return at


@njit
def first_not_before(buffer: Any, end: int, swapped: bool, time_unit_ns: int, time_ns: int) -> Any:
    """Follow records from the first byte to one that is not before a time.

    If there is none, the complement of where that ended is given.
    """
    at = np.int64(0)
    while at < end and at + 16 <= len(buffer):
        time = np.int64(word(buffer, at, swapped)) * 1_000_000_000
        time += np.int64(word(buffer, at + 4, swapped)) * time_unit_ns
        if time >= time_ns:
            return at
        at += 16 + np.int64(word(buffer, at + 8, swapped))
    return ~at


@njit
def surviving_boundaries(
    buffer: Any,
    end: int,
    starts: int,
    target: int,
    swapped: bool,
    most_captured: int,
    final: bool,
    marks: Any,
    found: Any,
) -> Any:
    """Which positions at or after ``target`` can be the first boundary there.

    Every position below ``starts`` is tried as a boundary, all chains of records are followed to
    the end of the buffer (``final``: of the file), and those that meet a record that cannot be
    are given up. ``marks`` is zeroed scratch of ``end + 1`` bytes; the survivors go to ``found``;
    their number is given, never more than one above its size.
    """
    for at in range(target):
        if at >= starts and not marks[at]:
            continue
        if at + 16 > end:
            if final:
                marks[end] = 1
            continue
        captured = word(buffer, at + 8, swapped)
        if captured <= most_captured:
            marks[min(at + 16 + captured, end)] = 1
    count = 0
    for first in range(target, end + 1):
        if first >= starts and not marks[first]:
            continue
        at = first
        alive = True
        while at + 16 <= end:
            captured = word(buffer, at + 8, swapped)
            if captured > most_captured:
                alive = False
                break
            at += 16 + captured
        if alive:
            if count == found.size:
                return count + 1
            found[count] = first
            count += 1
    return count
