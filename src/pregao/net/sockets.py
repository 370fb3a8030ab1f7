"""UDP sockets as the feed needs them: joined to a group, large buffers, times from the kernel."""

from __future__ import annotations

import contextlib
import errno
import logging
import socket
import struct
import sys

from pregao.errors import NetworkError
from pregao.net.addresses import Address, Interface

BUFFER_BYTES = 32 * 1024 * 1024
"""A burst of some 40,000 small packets: the kernel counts more than 800 bytes for each."""

# Numbers of Linux that Python's socket module does not name everywhere.
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
    interface: Interface | None = None,
    source: str | None = None,
    buffer_bytes: int = BUFFER_BYTES,
) -> socket.socket:
    """A socket that hears what is sent to an address, and nothing else; closing it leaves a group.

    With ``source`` only that sender is heard (source-specific multicast). Several processes may
    hear one group; an address that is no group belongs to one.
    """
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        made.setblocking(False)
        if address.multicast:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Bound to the group itself: a socket that is bound to any address hears every group that
        # somebody on this machine joined at the same port.
        made.bind(address)
        if address.multicast:
            _join(made, address, interface, source)
        _enlarge(made, buffer_bytes)
        if _LINUX:
            made.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    except OSError as error:
        made.close()
        raise NetworkError(f"{address} cannot be listened to: {_why(error)}.") from error
    return made


def send_socket(
    *, interface: Interface | None = None, ttl: int = 0, buffer_bytes: int = BUFFER_BYTES
) -> socket.socket:
    """A socket to send with. Multicast with a ``ttl`` of 0 does not leave this machine."""
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, ttl)
        made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
        if interface is not None:
            made.setsockopt(
                socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(interface.address)
            )
        with contextlib.suppress(OSError):
            made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
        if _LINUX:
            with contextlib.suppress(OSError):
                made.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, buffer_bytes)
    except OSError as error:
        made.close()
        raise NetworkError(f"Nothing can be sent from here: {_why(error)}.") from error
    return made


def dropped(listening: socket.socket) -> int:
    """How many datagrams the kernel dropped because this socket's buffer was full.

    It is the counter that ``/proc/net/udp`` shows; counts that come with a packet tell of a loss
    only when another packet follows it.
    """
    if not _LINUX:
        return 0
    try:
        told = listening.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 4 * _MEMORY_WORDS)
    except OSError:
        return 0
    return int(struct.unpack_from("=I", told, 4 * _DROPS)[0]) if len(told) >= 36 else 0


def _join(
    listening: socket.socket, address: Address, interface: Interface | None, source: str | None
) -> None:
    group = socket.inet_aton(address.host)
    if not _LINUX:
        if source is not None:
            raise NetworkError(f"{address}: a sender can be chosen on Linux only.")
        where = socket.inet_aton(interface.address if interface else "0.0.0.0")  # noqa: S104
        listening.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group + where)
        return
    # Otherwise a group that another socket joined on another interface is heard too.
    listening.setsockopt(socket.IPPROTO_IP, _IP_MULTICAST_ALL, 0)
    request = struct.pack("=I4x", interface.index if interface else 0) + _storage(group)
    if source is None:
        listening.setsockopt(socket.IPPROTO_IP, _MCAST_JOIN_GROUP, request)
    else:
        request += _storage(socket.inet_aton(source))
        listening.setsockopt(socket.IPPROTO_IP, _MCAST_JOIN_SOURCE_GROUP, request)


def _storage(address: bytes) -> bytes:
    """An address in the shape of the kernel's ``sockaddr_storage``."""
    return struct.pack("=HH4s", socket.AF_INET, 0, address).ljust(_SOCKADDR_STORAGE, b"\0")


def granted_buffer(listening: socket.socket, wanted: int) -> int:
    """Ask for a large receive buffer; gives how large it is: the kernel cuts it silently."""
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, wanted)
    if _LINUX:
        # Whoever may administer the network is not bound to the limit.
        with contextlib.suppress(OSError):
            listening.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, wanted)
    granted = listening.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    return granted // 2 if _LINUX else granted  # Linux tells twice what can be used


def _enlarge(listening: socket.socket, wanted: int) -> None:
    """Ask for a large buffer, and say once where it is smaller."""
    warning = buffer_warning(wanted, granted_buffer(listening, wanted))
    if warning and warning not in _warned:
        _warned.add(warning)
        _log.warning(warning)


def buffer_warning(wanted: int, granted: int) -> str | None:
    """What to tell where the kernel grants a smaller buffer than was asked for."""
    if granted >= wanted:
        return None
    return (
        f"The kernel grants receive buffers of {granted:,} bytes instead of {wanted:,}; bursts may "
        f"be lost. `sysctl -w net.core.rmem_max={wanted}` raises its limit."
    )


def _why(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "another program listens there; stop it, or choose another address or port"
    if error.errno == errno.ENODEV:
        return "there is no interface for it; name one (lo for this machine alone)"
    if error.errno == errno.EADDRNOTAVAIL:
        return "it is neither an address of this machine nor a multicast group"
    return error.strerror or str(error)
