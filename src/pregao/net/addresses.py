"""IPv4 addresses with ports, and the network interfaces of the host."""

from __future__ import annotations

import contextlib
import socket
import struct
import sys
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address
from typing import NamedTuple

from pregao.errors import NetworkError, UsageError

_MAX_PORT = 0xFFFF
_SIOCGIFADDR = 0x8915
_IFREQ = struct.Struct("16s24x")
_ADDRESS_AT = slice(20, 24)


class Address(NamedTuple):
    """An IPv4 address and a UDP port."""

    host: str
    port: int

    @property
    def multicast(self) -> bool:
        """Whether this is a multicast group."""
        return IPv4Address(self.host).is_multicast

    @property
    def is_loopback(self) -> bool:
        """Whether packets to it can stay on the host: a multicast group, or loopback."""
        return self.multicast or IPv4Address(self.host).is_loopback

    def moved(self, by: int) -> Address:
        """Return the address with the port, and for a group also the host, increased by ``by``."""
        host = IPv4Address(self.host) + by if self.multicast else self.host
        return checked(str(host), self.port + by, str(self))

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def parse_address(text: str, what: str) -> Address:
    """Parse ``ADDRESS:PORT``; ``what`` names the setting in errors."""
    host, colon, port = text.strip().rpartition(":")
    if not (colon and port.isascii() and port.isdigit() and len(port) <= len(str(_MAX_PORT))):
        raise UsageError(f"{what} takes ADDRESS:PORT, such as 233.252.14.1:30001, not {text!r}.")
    return checked(host, int(port), what)


def checked(host: str, port: int, what: str) -> Address:
    """Return an address after checking host and port; ``what`` names the setting in errors."""
    try:
        IPv4Address(host)
    except (AddressValueError, ValueError):
        raise UsageError(f"{what}: {host!r} is not an IPv4 address.") from None
    if not 0 < port <= _MAX_PORT:
        raise UsageError(f"{what}: {port} is not a port from 1 to {_MAX_PORT}.")
    return Address(host, port)


@dataclass(frozen=True, slots=True)
class NetworkInterface:
    """A network interface: its name, its index in the system, and its first IPv4 address."""

    name: str
    index: int
    address: str


def find_interface(name: str) -> NetworkInterface:
    """Return the interface with a name (``eth0``) or with a local IPv4 address."""
    available = interfaces()
    for each in available:
        if name in (each.name, each.address):
            return each
    with contextlib.suppress(AddressValueError):
        if IPv4Address(name).is_loopback and available:
            return next((each for each in available if each.address == "127.0.0.1"), available[0])
        if not sys.platform.startswith("linux"):
            return NetworkInterface(name, 0, name)
    listed = ", ".join(f"{each.name} ({each.address})" for each in available) or "none"
    raise NetworkError(f"There is no interface {name!r} with an IPv4 address; available: {listed}.")


def interfaces() -> list[NetworkInterface]:
    """Return the interfaces that have an IPv4 address."""
    if not sys.platform.startswith("linux"):
        return [NetworkInterface("lo", 0, "127.0.0.1")]
    import fcntl

    result = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for index, name in socket.if_nameindex():
            # The call fails for an interface without an IPv4 address.
            with contextlib.suppress(OSError):
                reply = fcntl.ioctl(probe, _SIOCGIFADDR, _IFREQ.pack(name.encode()[:15]))
                result.append(NetworkInterface(name, index, socket.inet_ntoa(reply[_ADDRESS_AT])))
    return result
