"""Kernels of capture files: record boundaries in the middle of a file, and pcap records in bulk.

The plain twin of `udp_records` is `pregao.capture.writer`: `UdpFramer` builds the frame and
`PcapWriter` the record.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pregao._njit import njit
from pregao.capture._layer_kernels import word

_UDP = 17
_TTL = 16
_SECOND = 1_000_000_000
_LINK, _IP, _UDP_HEAD, _RECORD = 14, 20, 8, 16
AROUND = _RECORD + _LINK + _IP + _UDP_HEAD
"""Size of a record without its payload."""


@njit
def next_boundary(
    buffer: Any, begin: int, end: int, target: int, swapped: bool, max_captured: int
) -> Any:
    """Follow complete records from a boundary to the first one at or after ``target``.

    Returns where it stopped: there, or at a record that is incomplete before ``end``, or (as the
    complement) at an impossible one.
    """
    at = begin
    while at < target and at + 16 <= end:
        captured = word(buffer, at + 8, swapped)
        if captured > max_captured:
            return ~at
        if at + 16 + captured > end:
            break
        at += 16 + captured
    return at


@njit
def first_not_before(buffer: Any, end: int, swapped: bool, time_unit_ns: int, time_ns: int) -> Any:
    """Follow records from the first byte to one that is not before a time.

    If there is none, returns the complement of the end position.
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
    max_captured: int,
    final: bool,
    marks: Any,
    found: Any,
) -> Any:
    """Find the positions at or after ``target`` that can be the first boundary there.

    Every position below ``starts`` is tried as a boundary, all chains of records are followed to
    the end of the buffer (``final``: of the file), and chains that reach an impossible record are
    discarded. ``marks`` is zeroed scratch of ``end + 1`` bytes; ``found`` receives the survivors;
    returns their number, at most one more than its size.
    """
    for at in range(target):
        if at >= starts and not marks[at]:
            continue
        if at + 16 > end:
            if final:
                marks[end] = 1
            continue
        captured = word(buffer, at + 8, swapped)
        if captured <= max_captured:
            marks[min(at + 16 + captured, end)] = 1
    count = 0
    for first in range(target, end + 1):
        if first >= starts and not marks[first]:
            continue
        at = first
        alive = True
        while at + 16 <= end:
            captured = word(buffer, at + 8, swapped)
            if captured > max_captured:
                alive = False
                break
            at += 16 + captured
        if alive:
            if count == found.size:
                return count + 1
            found[count] = first
            count += 1
    return count


@njit
def _big(out: Any, at: Any, value: Any, count: Any) -> Any:
    """Write a number in network byte order; return the offset after it."""
    for index in range(count):
        out[at + index] = (value >> (8 * (count - 1 - index))) & 0xFF
    return at + count


@njit
def _little(out: Any, at: Any, value: Any) -> Any:
    """Write a four-byte number in little-endian order; return the offset after it."""
    for index in range(4):
        out[at + index] = (value >> (8 * index)) & 0xFF
    return at + 4


@njit
def _link_address(out: Any, at: Any, host: Any) -> Any:
    """Write the link address derived from a host's address: the group's own, or a local one."""
    if host >> 28 == 0xE:
        return _big(out, at, 0x01005E << 24 | host & 0x7FFFFF, 6)
    return _big(out, at, 0x0200 << 32 | host, 6)


@njit
def udp_records(
    buffer: Any,
    offset: Any,
    length: Any,
    time_ns: Any,
    source: Any,
    destination: Any,
    ident: Any,
    out: Any,
) -> Any:
    """Write the records; source and destination are address << 16 | port. Returns their length."""
    at = 0
    for one in range(len(offset)):
        size = np.int64(length[one])
        start = offset[one]
        src, src_port = source[one] >> 16, source[one] & 0xFFFF
        dst, dst_port = destination[one] >> 16, destination[one] & 0xFFFF
        number = (ident + one) & 0xFFFF
        whole = size + _LINK + _IP + _UDP_HEAD
        at = _little(out, at, time_ns[one] // _SECOND)
        at = _little(out, at, time_ns[one] % _SECOND)
        at = _little(out, at, whole)
        at = _little(out, at, whole)
        at = _link_address(out, at, dst)
        at = _link_address(out, at, src)
        at = _big(out, at, 0x0800, 2)
        pair = (src >> 16) + (src & 0xFFFF) + (dst >> 16) + (dst & 0xFFFF)
        total = 0x4500 + (size + 28) + number + (_TTL << 8 | _UDP) + pair
        at = _big(out, at, 0x4500, 2)
        at = _big(out, at, size + 28, 2)
        at = _big(out, at, number, 2)
        at = _big(out, at, 0, 2)
        at = _big(out, at, _TTL << 8 | _UDP, 2)
        at = _big(out, at, (0xFFFF - total % 0xFFFF) % 0xFFFF, 2)
        at = _big(out, at, src, 4)
        at = _big(out, at, dst, 4)
        words = np.int64(0)
        for index in range(size // 2):
            words += np.int64(buffer[start + 2 * index]) << 8
            words += np.int64(buffer[start + 2 * index + 1])
        if size & 1:
            words += np.int64(buffer[start + size - 1]) << 8
        total = pair + _UDP + src_port + dst_port + 2 * (size + _UDP_HEAD) + words
        at = _big(out, at, src_port, 2)
        at = _big(out, at, dst_port, 2)
        at = _big(out, at, size + _UDP_HEAD, 2)
        # UDP sends a checksum of 0 as 65535.
        at = _big(out, at, 0xFFFF - total % 0xFFFF, 2)
        out[at : at + size] = buffer[start : start + size]
        at += size
    return at
