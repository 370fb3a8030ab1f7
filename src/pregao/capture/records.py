"""Pcap records of UDP datagrams in bulk, for writers that record while receiving."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pregao.capture import _write_kernels
from pregao.capture.write import pcap_header


class UdpRecords:
    """Builds the records of datagrams; the IP identification is incremented with each."""

    header = pcap_header()
    """File header for such records."""

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
        """Return the concatenated records of datagrams; the result is valid until the next call.

        Source and destination are numbers: the address shifted left by 16 bits, plus the port.
        """
        capacity = int(length.sum()) + len(length) * _write_kernels.AROUND
        if len(self._out) < capacity:
            self._out = np.empty(2 * capacity, np.uint8)
        columns = (buffer, offset, length, time_ns, source, destination)
        size = _write_kernels.udp_records(*columns, self._ident, self._out)
        self._ident = (self._ident + len(length)) & 0xFFFF
        return self._out[:size]
