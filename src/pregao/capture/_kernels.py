"""Kernels of captures: one pass over the records of a buffer.

Their plain twin is the packet-by-packet path (``reader`` and ``layers``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pregao._njit import load_u32, load_u64, njit, njit_or
from pregao.capture._layer_kernels import (
    find_flow,
    find_ip,
    find_tcp,
    find_udp,
    network_u16,
    put_segment,
    word,
)

_FALLBACK = "pregao.capture._numpy_fallback"

# Reasons for the end of a walk.
ENDED = 0
"""No complete record is left before the end."""
RECORD = 1
"""This record is not for the kernel: the plain code must process it."""
FULL = 2
"""The output arrays are full."""
FLOWS = 3
"""The table of flows is full."""
TCP_FLOWS = 4
"""The table of TCP flows is full."""

# Indices of the results of a walk.
AT, DATAGRAMS, ODD, STOPPED, FLOW_COUNT, CAPTURED, PAYLOAD, NUMBER = range(8)
SEGMENTS, TCP_FLOW_COUNT = 8, 9
RESULTS = 10

_SECOND = 1_000_000_000


@njit_or(_FALLBACK)
def walk_pcap(
    buffer: Any,
    begin: int,
    end: int,
    stop: int,
    base: int,
    swapped: bool,
    time_unit: int,
    max_captured: int,
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
    """Walk the pcap records from ``begin`` that start before ``stop`` and end before ``end``.

    Ordinary UDP datagrams go to the output arrays, ordinary TCP segments to ``segments`` (if these
    have no capacity, they are only counted), the offsets of all other records to ``odd_at``.
    ``base`` is the file position of ``buffer[0]``; ``result`` carries the counters in and out.
    """
    at = begin
    count, odd, flows = 0, 0, result[FLOW_COUNT]
    segment_count, tcp_flows, capacity = 0, result[TCP_FLOW_COUNT], segments[0].size
    captured_bytes, payload_bytes, packets = 0, 0, result[NUMBER]
    stopped = ENDED
    last_addresses, last_ports, last_flow = np.uint64(0), np.uint64(0), np.int64(-1)
    while at < stop and at + 16 <= end:
        captured = word(buffer, at + 8, swapped)
        if captured > max_captured:
            stopped = RECORD
            break
        frame = at + 16
        following = frame + captured
        if following > end:
            break
        if count == time_ns.size or odd == odd_at.size or (capacity and segment_count == capacity):
            stopped = FULL
            break
        ip = find_ip(buffer, frame, following, link)
        udp = find_udp(buffer, ip, following)
        if udp < 0:
            tcp = find_tcp(buffer, ip, following)
            if tcp >= 0:
                if capacity:
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
    max_block: int,
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
    """Walk the pcapng blocks from ``begin`` that are complete before ``end``.

    ``clocks`` has a row for each interface of the section: link kind, maximum packet length, last
    tick that the kernel may convert (-1: none), factor, divisor, shift (-1: decimal), offset in
    nanoseconds. Enhanced packet blocks are processed like the records of a pcap, unknown blocks are
    skipped; any other or invalid block is left to the plain code.
    """
    at = begin
    count, odd, flows = 0, 0, result[FLOW_COUNT]
    segment_count, tcp_flows, capacity = 0, result[TCP_FLOW_COUNT], segments[0].size
    captured_bytes, payload_bytes, packets = 0, 0, result[NUMBER]
    stopped = ENDED
    last_addresses, last_ports, last_flow = np.uint64(0), np.uint64(0), np.int64(-1)
    while at + 12 <= end:
        kind = word(buffer, at, swapped)
        size = word(buffer, at + 4, swapped)
        if size < 12 or size & 3 or size > max_block or kind <= 3 or kind == 0x0A0D0D0A:
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
        if count == time_ns.size or odd == odd_at.size or (capacity and segment_count == capacity):
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
                if capacity:
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
