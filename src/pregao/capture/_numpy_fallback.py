"""NumPy fallback of the walk over pcap records: records one by one, their headers as arrays.

A record that it cannot classify is set aside for the plain layers, as in the kernel; it sets aside
some that the kernel would classify, with the same result.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from pregao.capture import _kernels as k
from pregao.capture import _layer_kernels as layers

_RECORD_HEAD = 16
_TAGS = (0x8100, 0x88A8, 0x9100)
_IPV4 = 0x0800
_UDP, _TCP = 17, 6
# Offset of the ethertype in a link header, and size of the header.
_HEADER_OFFSETS = {
    layers.LINK_ETHERNET: (12, 14),
    layers.LINK_COOKED: (14, 16),
    layers.LINK_COOKED_2: (0, 20),
}


class _Bytes:
    """Numbers at many offsets of a buffer; values beyond its end are meaningless."""

    def __init__(self, buffer: Any) -> None:
        self._buffer = buffer
        self._last = len(buffer) - 8

    def at(self, offsets: Any, width: int, kind: str) -> Any:
        """Return the numbers of the given width at each offset."""
        safe = np.minimum(offsets, self._last)
        found = self._buffer[safe[:, None] + np.arange(width)]
        return found.view(kind)[:, 0]

    def u8(self, offsets: Any) -> Any:
        """Return the byte at each offset."""
        return self._buffer[np.minimum(offsets, self._last)].astype(np.int64)

    def network_u16(self, offsets: Any) -> Any:
        """Return the 16-bit number at each offset, in network byte order."""
        return self.at(offsets, 2, ">u2").astype(np.int64)


def _records(
    buffer: Any,
    begin: int,
    end: int,
    stop: int,
    order: str,
    max_captured_length: int,
    max_records: int,
) -> tuple[list[int], int, int]:
    """Return the offsets of at most ``max_records`` records, the walk's end and its reason."""
    memory, captured_of = memoryview(buffer), struct.Struct(f"{order}I").unpack_from
    starts: list[int] = []
    at, stopped = begin, k.ENDED
    while at < stop and at + _RECORD_HEAD <= end:
        (captured,) = captured_of(memory, at + 8)
        if captured > max_captured_length:
            stopped = k.RECORD
            break
        following = at + _RECORD_HEAD + captured
        if following > end:
            break
        if len(starts) == max_records:
            stopped = k.FULL
            break
        starts.append(at)
        at = following
    return starts, at, stopped


def _find_ip(data: _Bytes, frame: Any, end: Any, link: int) -> Any:
    """Return the offset of each frame's IPv4 header; -1 if the plain code must process it."""
    if link == layers.LINK_RAW:
        return frame
    if link not in _HEADER_OFFSETS:
        return np.full(len(frame), -1, np.int64)
    kind, size = _HEADER_OFFSETS[link]
    ip = frame + size
    kinds = np.where(ip <= end, data.network_u16(frame + kind), 0)
    tagged = np.isin(kinds, _TAGS)
    while tagged.any():
        ip = np.where(tagged, ip + 4, ip)
        kinds = np.where(tagged, data.network_u16(ip - 2), kinds)
        kinds[ip > end] = 0
        tagged = np.isin(kinds, _TAGS)
    return np.where(kinds == _IPV4, ip, -1)


def _find_transport(data: _Bytes, ip: Any, end: Any) -> tuple[Any, Any, Any]:
    """Return each transport header's offset, packet end and protocol; -1 if it is not ordinary."""
    first, total = data.u8(ip), data.network_u16(ip + 2)
    header = (first & 15) * 4
    ordinary = (
        (ip >= 0)
        & (ip + 20 <= end)
        & (first >> 4 == 4)
        & (header >= 20)
        & (data.network_u16(ip + 6) & 0x3FFF == 0)
        & (ip + total <= end)
    )
    return ip + header, ip + total, np.where(ordinary, data.u8(ip + 9), -1)


class _Flows:
    """Flow numbers from a table of the reader; each flow is looked up once."""

    def __init__(self, tables: Any, count: int) -> None:
        self._tables = tables
        self._known: dict[tuple[int, int], int] = {}
        self.count = count

    def number(self, key: tuple[int, int]) -> int:
        """Return the number of a flow; -1 if the table is full."""
        found = self._known.get(key)
        if found is None:
            addresses, ports = map(np.uint64, key)
            found = int(layers.find_flow(addresses, ports, *self._tables, self.count))
            if found >= 0:
                self._known[key] = found
                self.count = max(self.count, found + 1)
        return found


def walk_pcap(
    buffer: Any, begin: int, end: int, stop: int, base: int, swapped: bool, time_unit: int,
    max_captured_length: int, link: int, slots: Any, flow_addresses: Any, flow_ports: Any,
    time_ns: Any, offset: Any, length: Any, number: Any, position: Any, flow: Any, odd_at: Any,
    odd_number: Any, tcp_tables: Any, segments: Any, result: Any,
) -> None:  # fmt: skip
    """Walk pcap records, as the kernel does."""
    order = ">" if swapped else "<"
    capacity = segments[0].size
    limit = min(time_ns.size, odd_at.size, capacity or odd_at.size)
    starts, ended, stopped = _records(buffer, begin, end, stop, order, max_captured_length, limit)
    data, at = _Bytes(buffer), np.array(starts, np.int64)
    following = np.append(at[1:], ended)[: len(at)]
    frame = at + _RECORD_HEAD
    ip = _find_ip(data, frame, following, link)
    header, packet_end, protocol = _find_transport(data, ip, following)
    size = data.network_u16(header + 4)
    udp = (protocol == _UDP) & (header + 8 <= packet_end)
    udp &= (size >= 8) & (header + size <= packet_end)
    payload = header + (data.u8(header + 12) >> 4) * 4
    tcp = (protocol == _TCP) & (header + 20 <= packet_end)
    tcp &= (payload >= header + 20) & (payload <= packet_end)

    flows = _Flows((slots, flow_addresses, flow_ports), int(result[k.FLOW_COUNT]))
    tcp_flows = _Flows(tcp_tables, int(result[k.TCP_FLOW_COUNT]))
    numbers = np.empty(len(at), np.int64)
    transport = np.flatnonzero(udp | tcp if capacity else udp)
    addresses, ports = data.at(ip[transport] + 12, 8, "<u8"), data.at(header[transport], 4, "<u4")
    keys = zip(addresses.tolist(), ports.tolist(), strict=True)
    for record, of_udp, key in zip(transport.tolist(), udp[transport].tolist(), keys, strict=True):
        found = (flows if of_udp else tcp_flows).number(key)
        if found < 0:
            stopped = k.FLOWS if of_udp else k.TCP_FLOWS
            ended = starts[record]
            udp[record:] = tcp[record:] = False
            at = at[:record]
            break
        numbers[record] = found

    packets = int(result[k.NUMBER])
    seconds, fraction = (data.at(at + field, 4, f"{order}u4").astype(np.int64) for field in (0, 4))
    times = seconds * 1_000_000_000 + fraction * time_unit
    which = np.flatnonzero(udp)
    count = len(which)
    time_ns[:count] = times[which]
    offset[:count] = header[which] + 8
    length[:count] = size[which] - 8
    number[:count] = packets + 1 + which
    position[:count] = base + at[which]
    flow[:count] = numbers[which]
    of_tcp = np.flatnonzero(tcp)
    if capacity:
        columns = (
            times[of_tcp], payload[of_tcp], packet_end[of_tcp] - payload[of_tcp],
            packets + 1 + of_tcp, base + at[of_tcp], numbers[of_tcp],
            data.at(header[of_tcp] + 4, 4, ">u4"), data.u8(header[of_tcp] + 13),
        )  # fmt: skip
        for column, values in zip(segments, columns, strict=True):
            column[: len(of_tcp)] = values
    odd = np.flatnonzero(~(udp | tcp)[: len(at)])
    odd_at[: len(odd)] = at[odd]
    odd_number[: len(odd)] = packets + 1 + odd
    ordinary = udp | tcp
    result[k.AT] = ended
    result[k.DATAGRAMS] = count
    result[k.ODD] = len(odd)
    result[k.STOPPED] = stopped
    result[k.FLOW_COUNT] = flows.count
    result[k.CAPTURED] = int((following - frame)[ordinary].sum())
    result[k.PAYLOAD] = int(length[:count].sum())
    result[k.NUMBER] = packets + len(at)
    result[k.SEGMENTS] = len(of_tcp)
    result[k.TCP_FLOW_COUNT] = tcp_flows.count
