"""Sends UDP datagrams, one by one or many per system call."""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pregao.errors import NetworkError
from pregao.extras import kernels_compiled
from pregao.net.addresses import Address, NetworkInterface
from pregao.net.sockets import send_socket

MAX_BATCH = 256


class Sender:
    """Sends to a list of targets. Multicast with a ``ttl`` of 0 does not leave the host."""

    def __init__(
        self,
        targets: Sequence[Address],
        *,
        interface: NetworkInterface | None = None,
        ttl: int = 0,
        compiled: bool | None = None,
    ) -> None:
        self.targets = tuple(targets)
        self._socket = send_socket(interface=interface, ttl=ttl)
        supported = (
            sys.platform.startswith("linux") and sys.maxsize > 1 << 32 and kernels_compiled()
        )
        self._many = _Many(self.targets) if supported and compiled is not False else None

    def send(self, target: int, payload: bytes) -> None:
        """Send one datagram to a target, by its index."""
        address = self.targets[target]
        try:
            self._socket.sendto(payload, address)
        except OSError as error:
            why = error.strerror or str(error)
            raise NetworkError(f"Cannot send to {address}: {why}.") from error

    def send_all(
        self,
        buffer: NDArray[np.uint8],
        offset: NDArray[np.int64],
        length: NDArray[np.int32],
        target: NDArray[np.int32],
    ) -> None:
        """Send payloads of a buffer in order, each to the target with its index."""
        done = 0
        while done < len(offset):
            if self._many is not None:
                done += self._many.send(self._socket, buffer, offset, length, target, done)
            if done < len(offset):
                # Sending the refused datagram alone raises the error with its reason.
                start = int(offset[done])
                payload = buffer[start : start + int(length[done])].tobytes()
                self.send(int(target[done]), payload)
                done += 1

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def __enter__(self) -> Sender:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Many:
    """Arguments of ``sendmmsg``, prepared once."""

    def __init__(self, targets: Sequence[Address]) -> None:
        from pregao.net import _kernels

        self._kernels = _kernels
        sockaddrs = b"".join(
            struct.pack("=H", socket.AF_INET)
            + struct.pack(">H4s8x", each.port, socket.inet_aton(each.host))
            for each in targets
        )
        self._targets = np.frombuffer(sockaddrs, np.uint8).copy()
        self._vectors = np.zeros(2 * MAX_BATCH, np.int64)
        headers = np.zeros((MAX_BATCH, _kernels.HEADER_WORDS), np.int64)
        headers[:, _kernels.NAME_LENGTH] = _kernels.SOCKADDR_BYTES
        headers[:, _kernels.VECTOR] = self._vectors.ctypes.data + np.arange(MAX_BATCH) * 16
        headers[:, _kernels.VECTORS] = 1
        self._headers = headers.reshape(-1)

    def send(
        self,
        sending: socket.socket,
        buffer: NDArray[np.uint8],
        offset: NDArray[np.int64],
        length: NDArray[np.int32],
        target: NDArray[np.int32],
        begin: int,
    ) -> int:
        """Send from index ``begin`` on; return the number sent before one was refused."""
        return int(
            self._kernels.send(
                sending.fileno(),
                self._headers,
                self._headers.ctypes.data,
                self._vectors,
                buffer.ctypes.data,
                offset,
                length,
                target,
                self._targets.ctypes.data,
                begin,
                len(offset),
            )
        )
