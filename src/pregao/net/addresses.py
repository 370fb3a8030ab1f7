"""Where datagrams go: IPv4 addresses with ports, and the interfaces of this machine."""

from __future__ import annotations

import contextlib
import socket
import struct
import sys
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address
from typing import NamedTuple

from pregao.errors import NetworkError, UsageError

_LARGEST_PORT = 0xFFFF
_SIOCGIFADDR = 0x8915
_IFREQ = struct.Struct("16s24x")
_ADDRESS_AT = slice(20, 24)


class Address(NamedTuple):
    """An IPv4 address and a UDP port."""

    host: str
    port: int

    @property
    def multicast(self) -> bool:
        """Is it a multicast group?"""
        return IPv4Address(self.host).is_multicast

    @property
    def stays_here(self) -> bool:
        """Whether packets to it need not leave this machine: a multicast group, or loopback."""
        return self.multicast or IPv4Address(self.host).is_loopback

    def moved(self, by: int) -> Address:
        """The port so many further on, of a group also the address."""
        host = IPv4Address(self.host) + by if self.multicast else self.host
        return checked(str(host), self.port + by, str(self))

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def parse_address(text: str, what: str) -> Address:
    """Read ``ADDRESS:PORT``; ``what`` is named where it is wrong."""
    host, colon, port = text.strip().rpartition(":")
    if not (colon and port.isascii() and port.isdigit() and len(port) <= len(str(_LARGEST_PORT))):
        raise UsageError(f"{what} takes ADDRESS:PORT, such as 233.252.14.1:30001, not {text!r}.")
    return checked(host, int(port), what)


def checked(host: str, port: int, what: str) -> Address:
    """An address whose parts make sense."""
    try:
        IPv4Address(host)
    except (AddressValueError, ValueError):
        raise UsageError(f"{what}: {host!r} is not an IPv4 address.") from None
    if not 0 < port <= _LARGEST_PORT:
        raise UsageError(f"{what}: {port} is not a port from 1 to {_LARGEST_PORT}.")
    return Address(host, port)


@dataclass(frozen=True, slots=True)
class Interface:
    """A network interface: its name, the system's number of it, and its first IPv4 address."""

    name: str
    index: int
    address: str


def find_interface(name: str) -> Interface:
    """The interface of a name (``eth0``) or of an IPv4 address of this machine."""
    found = interfaces()
    for each in found:
        if name in (each.name, each.address):
            return each
    with contextlib.suppress(AddressValueError):
        if IPv4Address(name).is_loopback:
            return next((each for each in found if each.address == "127.0.0.1"), found[0])
        if not sys.platform.startswith("linux"):
            return Interface(name, 0, name)
    known = ", ".join(f"{each.name} ({each.address})" for each in found)
    raise NetworkError(
        f"There is no interface {name!r} here with an IPv4 address; there are {known}."
    )


def interfaces() -> list[Interface]:
    """The interfaces that have an IPv4 address."""
    if not sys.platform.startswith("linux"):
        return [Interface("lo", 0, "127.0.0.1")]
    import fcntl

    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for index, name in socket.if_nameindex():
            # One that has no address refuses to tell it.
            with contextlib.suppress(OSError):
                told = fcntl.ioctl(asking, _SIOCGIFADDR, _IFREQ.pack(name.encode()[:15]))
                found.append(Interface(name, index, socket.inet_ntoa(told[_ADDRESS_AT])))
    return found
