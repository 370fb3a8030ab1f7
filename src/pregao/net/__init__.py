"""Sockets for the feed: UDP receive and send, multicast, and HTTP for health and metrics.

`receive_socket` opens a socket on a group or an address, `open_receiver` returns a receiver for
many of them, which returns datagrams in batches of flat arrays. `Sender` sends. `HttpServer`
answers on localhost. This package does not interpret datagrams.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pregao.net.addresses import Address, Interface, find_interface, interfaces, parse_address

if TYPE_CHECKING:
    from pregao.net.batches import Batch as Batch
    from pregao.net.batches import LineCounts as LineCounts
    from pregao.net.batches import LineReceiver as LineReceiver
    from pregao.net.http import HttpServer as HttpServer
    from pregao.net.http import Response as Response
    from pregao.net.receiving import CompiledReceiver as CompiledReceiver
    from pregao.net.receiving import PlainReceiver as PlainReceiver
    from pregao.net.receiving import open_receiver as open_receiver
    from pregao.net.sending import Sender as Sender
    from pregao.net.sockets import BUFFER_BYTES as BUFFER_BYTES
    from pregao.net.sockets import dropped as dropped
    from pregao.net.sockets import granted_buffer as granted_buffer
    from pregao.net.sockets import receive_socket as receive_socket

__all__ = [
    "BUFFER_BYTES",
    "Address",
    "Batch",
    "CompiledReceiver",
    "HttpServer",
    "Interface",
    "LineCounts",
    "LineReceiver",
    "PlainReceiver",
    "Response",
    "Sender",
    "dropped",
    "find_interface",
    "granted_buffer",
    "interfaces",
    "open_receiver",
    "parse_address",
    "receive_socket",
]

_HOMES = {
    "batches": ["Batch", "LineCounts", "LineReceiver"],
    "http": ["HttpServer", "Response"],
    "receiving": ["CompiledReceiver", "PlainReceiver", "open_receiver"],
    "sending": ["Sender"],
    "sockets": ["BUFFER_BYTES", "dropped", "granted_buffer", "receive_socket"],
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"{__name__} has no {name}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
