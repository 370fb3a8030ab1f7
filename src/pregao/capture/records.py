"""Pcap records of many UDP datagrams at once, for whoever writes a capture while it is received."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pregao.capture import _write_kernels
from pregao.capture.write import pcap_header


class UdpRecords:
    """Builds the records of datagrams; the IP identification counts up with each."""

    header = pcap_header()
    """What a file begins with that holds such records."""

    def __init__(self) -> None:
        self._ident = 0
        self._out = np.empty(1 << 16, np.uint8)

    def build(
        self,
        buffer: NDArray[np.uint8],
        offset: NDArray[np.int64],
        length: NDArray[np.int32],
        time_ns: NDArray[np.int64],
        source: NDArray[np.int64],
        destination: NDArray[np.int64],
    ) -> NDArray[np.uint8]:
        """The records of datagrams, one behind the other; they hold until the next call.

        Source and destination are numbers: the address shifted by 16 bits, and the port.
        """
        room = int(length.sum()) + len(length) * _write_kernels.AROUND
        if len(self._out) < room:
            self._out = np.empty(2 * room, np.uint8)
        columns = (buffer, offset, length, time_ns, source, destination)
        size = _write_kernels.udp_records(*columns, self._ident, self._out)
        self._ident = (self._ident + len(length)) & 0xFFFF
        return self._out[:size]
