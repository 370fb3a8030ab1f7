"""The flows of a capture, numbered in order of appearance, in a table that the kernels search."""

from __future__ import annotations

import socket
import struct

import numpy as np
from numpy.typing import NDArray

from pregao.capture import _layer_kernels as _kernels
from pregao.capture.layers import Flow, address_text
from pregao.errors import CaptureError

_FIRST_CAPACITY = 256


class FlowTable:
    """Numbers flows; those over IPv4 are in ``slots``, ``addresses`` and ``ports`` too.

    The arrays are indexed by flow number, so flows over IPv6 leave unused entries in them.
    """

    def __init__(self, name: str, max_flows: int, transport: str = "UDP") -> None:
        self.flows: list[Flow] = []
        self.addresses: NDArray[np.uint64] = np.zeros(_FIRST_CAPACITY, np.uint64)
        self.ports: NDArray[np.uint64] = np.zeros(_FIRST_CAPACITY, np.uint64)
        self.slots: NDArray[np.int32] = np.full(2 * _FIRST_CAPACITY, -1, np.int32)
        self._name = name
        self._max_flows = max_flows
        self._transport = transport
        self._numbers: dict[Flow, int] = {}

    @property
    def count(self) -> int:
        """Number of flows."""
        return len(self.flows)

    def take_new(self, count: int) -> None:
        """Add the flows that a kernel put into the table, which now has this many."""
        for index in range(len(self.flows), count):
            # As in the packet: two addresses of four bytes, two ports of two bytes.
            addresses = int(self.addresses[index]).to_bytes(8, "little")
            src_port, dst_port = struct.unpack(">HH", int(self.ports[index]).to_bytes(4, "little"))
            src, dst = address_text(addresses[:4]), address_text(addresses[4:])
            self._add(Flow(src, src_port, dst, dst_port))

    def index(self, flow: Flow) -> int:
        """Return the number of a flow; adds a new one."""
        known = self._numbers.get(flow)
        if known is not None:
            return known
        index = len(self.flows)
        while index >= self.addresses.size:
            self.grow()
        if ":" not in flow.src:
            addresses = socket.inet_aton(flow.src) + socket.inet_aton(flow.dst)
            ports = struct.pack(">HH", flow.src_port, flow.dst_port)
            _kernels.find_flow(
                np.uint64(int.from_bytes(addresses, "little")),
                np.uint64(int.from_bytes(ports, "little")),
                self.slots,
                self.addresses,
                self.ports,
                index,
            )
        self._add(flow)
        return index

    def grow(self) -> None:
        """Double the capacity; the indices do not change."""
        capacity = 2 * self.addresses.size
        self.addresses = np.concatenate((self.addresses, np.zeros_like(self.addresses)))
        self.ports = np.concatenate((self.ports, np.zeros_like(self.ports)))
        self.slots = np.full(2 * capacity, -1, np.int32)
        over_ipv4 = np.array([":" not in flow.src for flow in self.flows], np.bool_)
        _kernels.fill_slots(self.slots, self.addresses, self.ports, over_ipv4)

    def _add(self, flow: Flow) -> None:
        if len(self.flows) >= self._max_flows:
            raise CaptureError(
                f"{self._name}: more than {self._max_flows} {self._transport} flows; this is not a "
                "market data capture. Filter it by address first, or raise the limit (max_flows)."
            )
        self._numbers[flow] = len(self.flows)
        self.flows.append(flow)
