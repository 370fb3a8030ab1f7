"""UDP sockets for the feed: multicast membership, large buffers, kernel timestamps."""

from __future__ import annotations

import contextlib
import errno
import logging
import socket
import struct
import sys

from pregao.errors import NetworkError
from pregao.net.addresses import Address, NetworkInterface

BUFFER_BYTES = 32 * 1024 * 1024
"""Enough for a burst of about 40,000 small packets: the kernel counts over 800 bytes for each."""

# Linux constants that Python's socket module does not always define.
SO_TIMESTAMPNS = 35
_SO_RCVBUFFORCE = 33
_SO_SNDBUFFORCE = 32
_SO_MEMINFO = 55
_MEMORY_WORDS = 9
_DROPS = 8
_IP_MULTICAST_ALL = 49
_MCAST_JOIN_GROUP = 42
_MCAST_JOIN_SOURCE_GROUP = 46
_SOCKADDR_STORAGE = 128
_LINUX = sys.platform.startswith("linux")

_log = logging.getLogger(__name__)
_warned: set[str] = set()


def receive_socket(
    address: Address,
    *,
    interface: NetworkInterface | None = None,
    source: str | None = None,
    buffer_bytes: int = BUFFER_BYTES,
) -> socket.socket:
    """Open a socket that receives only what is sent to an address; closing it leaves the group.

    With ``source``, receive only from that sender (source-specific multicast). Several processes
    may receive one group; a unicast address can be bound by one process only.
    """
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        sock.setblocking(False)
        if address.multicast:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Bind to the group itself: a socket bound to any address receives every group that any
        # process on the host has joined at the same port.
        sock.bind(address)
        if address.multicast:
            _join(sock, address, interface, source)
        _enlarge(sock, buffer_bytes)
        if _LINUX:
            sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    except OSError as error:
        sock.close()
        raise NetworkError(f"Cannot listen on {address}: {_why(error)}.") from error
    return sock


def send_socket(
    *, interface: NetworkInterface | None = None, ttl: int = 0, buffer_bytes: int = BUFFER_BYTES
) -> socket.socket:
    """Open a socket for sending. Multicast with a ``ttl`` of 0 does not leave the host."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, ttl)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
        if interface is not None:
            sock.setsockopt(
                socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(interface.address)
            )
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
        if _LINUX:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, buffer_bytes)
    except OSError as error:
        sock.close()
        raise NetworkError(f"Cannot open a socket for sending: {_why(error)}.") from error
    return sock


def dropped(listening: socket.socket) -> int:
    """Return the number of datagrams that the kernel dropped because the buffer was full.

    This is the counter that ``/proc/net/udp`` shows. The counts attached to packets would report a
    loss only when another packet follows it.
    """
    if not _LINUX:
        return 0
    try:
        memory = listening.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 4 * _MEMORY_WORDS)
    except OSError:
        return 0
    return int(struct.unpack_from("=I", memory, 4 * _DROPS)[0]) if len(memory) >= 36 else 0


def _join(
    listening: socket.socket,
    address: Address,
    interface: NetworkInterface | None,
    source: str | None,
) -> None:
    group = socket.inet_aton(address.host)
    if not _LINUX:
        if source is not None:
            raise NetworkError(f"{address}: a source can only be set on Linux.")
        local = socket.inet_aton(interface.address if interface else "0.0.0.0")  # noqa: S104
        listening.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group + local)
        return
        # Otherwise the socket also receives groups that another socket joined on an interface.
    listening.setsockopt(socket.IPPROTO_IP, _IP_MULTICAST_ALL, 0)
    request = struct.pack("=I4x", interface.index if interface else 0) + _storage(group)
    if source is None:
        listening.setsockopt(socket.IPPROTO_IP, _MCAST_JOIN_GROUP, request)
    else:
        request += _storage(socket.inet_aton(source))
        listening.setsockopt(socket.IPPROTO_IP, _MCAST_JOIN_SOURCE_GROUP, request)


def _storage(address: bytes) -> bytes:
    """Return an address as the kernel's ``sockaddr_storage``."""
    return struct.pack("=HH4s", socket.AF_INET, 0, address).ljust(_SOCKADDR_STORAGE, b"\0")


def granted_buffer(listening: socket.socket, wanted: int) -> int:
    """Request a receive buffer; return its actual size, which the kernel limits silently."""
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, wanted)
    if _LINUX:
        # CAP_NET_ADMIN lifts the limit.
        with contextlib.suppress(OSError):
            listening.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, wanted)
    granted = listening.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    return granted // 2 if _LINUX else granted  # Linux reports twice the usable size


def _enlarge(listening: socket.socket, wanted: int) -> None:
    """Request a large buffer, and warn once if it is smaller."""
    warning = buffer_warning(wanted, granted_buffer(listening, wanted))
    if warning and warning not in _warned:
        _warned.add(warning)
        _log.warning(warning)


def buffer_warning(wanted: int, granted: int) -> str | None:
    """Return a warning if the kernel granted a smaller buffer than requested."""
    if granted >= wanted:
        return None
    return (
        f"The kernel limits receive buffers to {granted:,} bytes instead of {wanted:,}; bursts may "
        f"be lost. Raise the limit with `sysctl -w net.core.rmem_max={wanted}`."
    )


def _why(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "another program listens there; stop it, or choose another address or port"
    if error.errno == errno.ENODEV:
        return "no interface for it; choose one (lo stays on this host)"
    if error.errno == errno.EADDRNOTAVAIL:
        return "it is neither a local address nor a multicast group"
    return error.strerror or str(error)
