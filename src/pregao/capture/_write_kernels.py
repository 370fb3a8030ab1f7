"""Kernel of writing: pcap records of UDP datagrams in bulk.

Its plain twin is `write`: `UdpFramer` builds the frame and `PcapWriter` the record.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pregao._njit import njit

_UDP = 17
_TTL = 16
_SECOND = 1_000_000_000
_LINK, _IP, _UDP_HEAD, _RECORD = 14, 20, 8, 16
AROUND = _RECORD + _LINK + _IP + _UDP_HEAD
"""Size of a record without its payload."""


@njit
def _big(out: Any, at: Any, value: Any, count: Any) -> Any:
    """Write a number in network byte order; return the offset after it."""
    for place in range(count):
        out[at + place] = (value >> (8 * (count - 1 - place))) & 0xFF
    return at + count


@njit
def _little(out: Any, at: Any, value: Any) -> Any:
    """Write a four-byte number in little-endian order; return the offset after it."""
    for place in range(4):
        out[at + place] = (value >> (8 * place)) & 0xFF
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
        for place in range(size // 2):
            words += np.int64(buffer[start + 2 * place]) << 8
            words += np.int64(buffer[start + 2 * place + 1])
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
