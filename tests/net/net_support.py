"""Groups and ports on this machine that no other test uses at the same time."""

import os
import socket
from contextlib import suppress
from itertools import count

from pregao.net.addresses import Address, find_interface

LO = find_interface("lo")
_returned = set()
_groups = count(1)


def free_port():
    """Return a port that is free for UDP and TCP, and that no earlier call returned."""
    while True:
        with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
            tcp.bind(("127.0.0.1", 0))
            port = tcp.getsockname()[1]
            with suppress(OSError):
                udp.bind(("127.0.0.1", port))
                if port not in _returned:
                    _returned.add(port)
                    return port


def free_group(port=None):
    """A group of this process alone."""
    process, number = os.getpid(), next(_groups)
    host = f"239.{64 + process % 128}.{process // 128 % 256}.{number % 256}"
    return Address(host, port or free_port())


def received(receiver, count, tries=20):
    """Receive ``count`` datagrams, as (line, payload, time); fewer if no more come."""
    found = []
    for _ in range(tries):
        batch = receiver.receive(0.2)
        found += zip(batch.line.tolist(), batch.payloads(), batch.time_ns.tolist(), strict=True)
        if len(found) >= count:
            break
    return found
