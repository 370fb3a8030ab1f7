"""Writing captures: nanosecond pcap files, UDP and TCP frames for them, and records in bulk.

`UdpRecords` writes the records of many datagrams per call, for writers that record while receiving.
"""

from __future__ import annotations

import gzip
import os
import socket
import struct
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pregao.capture import _file_kernels
from pregao.errors import CaptureError, EncodeError
from pregao.extras import require
from pregao.safe_io.output_files import open_output

_MAGIC_NANOSECONDS = 0xA1B23C4D
_RECORD = struct.Struct("<IIII")
_FLUSH_BYTES = 1 << 18
_MAX_UDP_PAYLOAD = 65507
_MAX_TCP_PAYLOAD = 65495
_UDP = 17
_TCP = 6


def pcap_header(link_type: int = 1, snaplen: int = 65535) -> bytes:
    """Return the file header of a pcap with nanosecond times; link type 1 is Ethernet."""
    fields = (2, 4, 0, 0, _fits("snaplen", snaplen, 32), _fits("link_type", link_type, 16))
    return struct.pack("<IHHiIII", _MAGIC_NANOSECONDS, *fields)


class PcapWriter:
    """Writes a pcap file with nanosecond times.

    A path that ends in ``.gz`` or ``.zst`` is compressed accordingly; the same packets always
    produce the same bytes. A file object passed in stays open after ``close``.
    """

    def __init__(
        self,
        file: str | os.PathLike[str] | BinaryIO,
        link_type: int = 1,
        snaplen: int = 65535,
    ) -> None:
        header = pcap_header(link_type, snaplen)
        self.snaplen = snaplen
        self._opened: list[Any] = []
        if isinstance(file, str | os.PathLike):
            self.name = str(file)
            self._file: Any = self._open(Path(file))
        else:
            self.name = str(getattr(file, "name", "<stream>"))
            self._file = file
        self._waiting = [header]
        self._waiting_bytes = 0
        self._closed = False

    def _open(self, path: Path) -> Any:
        if path.suffix == ".zst":
            require("pyarrow")
        try:
            plain = open_output(path)
        except OSError as error:
            raise CaptureError(f"{path}: cannot be written: {error.strerror}") from error
        self._opened.append(plain)
        if path.suffix == ".gz":
            # No name and no time in the gzip header, so that equal captures are equal files.
            self._opened.append(gzip.GzipFile("", "wb", 6, plain, mtime=0))
        elif path.suffix == ".zst":
            import pyarrow as pa

            self._opened.append(pa.CompressedOutputStream(pa.PythonFile(plain, mode="w"), "zstd"))
        return self._opened[-1]

    def write(self, time_ns: int, frame: bytes, original_length: int | None = None) -> None:
        """Write a frame; bytes beyond the snap length are omitted, as in a capture."""
        seconds, nanos = divmod(time_ns, 1_000_000_000)
        if not 0 <= seconds <= 0xFFFFFFFF:
            raise EncodeError(
                f"The time of a pcap record must be from 1970 to 2106, was {time_ns} ns."
            )
        captured = frame if len(frame) <= self.snaplen else frame[: self.snaplen]
        length = len(frame) if original_length is None else original_length
        self._waiting.append(_RECORD.pack(seconds, nanos, len(captured), length))
        self._waiting.append(captured)
        self._waiting_bytes += len(captured) + 16
        if self._waiting_bytes >= _FLUSH_BYTES:
            self._hand_over()

    def write_records(self, records: bytes) -> None:
        """Write complete records, as built by `UdpRecords`."""
        self._waiting.append(records)
        self._waiting_bytes += len(records)
        if self._waiting_bytes >= _FLUSH_BYTES:
            self._hand_over()

    def flush(self) -> None:
        """Make everything written so far visible to readers of the file."""
        self._hand_over()
        try:
            for opened in reversed(self._opened or [self._file]):
                opened.flush()
        except OSError as error:
            raise CaptureError(f"{self.name}: cannot be written: {error.strerror}") from error

    def _hand_over(self) -> None:
        try:
            self._file.write(b"".join(self._waiting))
        except OSError as error:
            raise CaptureError(f"{self.name}: cannot be written: {error.strerror}") from error
        self._waiting.clear()
        self._waiting_bytes = 0

    def close(self) -> None:
        """Write pending records, and close the files that the writer opened."""
        if self._closed:
            return
        self._closed = True
        try:
            self._hand_over()
        finally:
            for opened in reversed(self._opened):
                opened.close()

    def __enter__(self) -> PcapWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class UdpFramer:
    """Builds the Ethernet frames of one UDP flow over IPv4; all constant parts are precomputed.

    The destination link address is derived from a multicast group; otherwise both link addresses
    are derived from the IP addresses. The IP identification is incremented with each frame.
    """

    def __init__(
        self,
        src_ip: str,
        src_port: int,
        dst_ip: str,
        dst_port: int,
        *,
        src_mac: str | bytes | None = None,
        dst_mac: str | bytes | None = None,
        ttl: int = 16,
        ident: int = 0,
        vlan: int | None = None,
    ) -> None:
        source, destination = _ipv4(src_ip), _ipv4(dst_ip)
        self._link = _link_header(source, destination, src_mac, dst_mac, vlan)
        self._addresses = source + destination
        self._ports = _port(src_port) << 16 | _port(dst_port)
        self._ttl = _fits("ttl", ttl, 8)
        self._ident = _fits("ident", ident, 16)
        pair = _sum(self._addresses)
        # Sums of the header words that are the same for every frame.
        self._ip_sum = 0x4500 + (ttl << 8 | _UDP) + pair
        self._udp_sum = pair + _UDP + src_port + dst_port
        self._pack = struct.Struct(f">{len(self._link)}sBBHHHBBH8sIHH").pack

    def frame(self, payload: bytes) -> bytes:
        """Return the frame of a payload."""
        size = len(payload)
        if size > _MAX_UDP_PAYLOAD:
            raise EncodeError(
                f"A UDP payload may have at most {_MAX_UDP_PAYLOAD} bytes, has {size}."
            )
        ident = self._ident
        self._ident = (ident + 1) & 0xFFFF
        ip_checksum = 0xFFFF - (self._ip_sum + size + 28 + ident) % 0xFFFF
        # 65535 represents both zeros of the ones' complement, and UDP sends 0 as 65535.
        udp_checksum = 0xFFFF - (self._udp_sum + 2 * (size + 8) + _sum(payload)) % 0xFFFF
        return (
            self._pack(
                self._link,
                0x45,
                0,
                size + 28,
                ident,
                0,
                self._ttl,
                _UDP,
                ip_checksum % 0xFFFF,
                self._addresses,
                self._ports,
                size + 8,
                udp_checksum,
            )
            + payload
        )


def udp_frame(
    src_ip: str,
    src_port: int,
    dst_ip: str,
    dst_port: int,
    payload: bytes,
    *,
    src_mac: str | bytes | None = None,
    dst_mac: str | bytes | None = None,
    ttl: int = 16,
    ident: int = 0,
    vlan: int | None = None,
) -> bytes:
    """Return one Ethernet frame with a UDP datagram; for many of a flow, use a ``UdpFramer``."""
    framer = UdpFramer(
        src_ip,
        src_port,
        dst_ip,
        dst_port,
        src_mac=src_mac,
        dst_mac=dst_mac,
        ttl=ttl,
        ident=ident,
        vlan=vlan,
    )
    return framer.frame(payload)


def tcp_frame(
    src_ip: str,
    src_port: int,
    dst_ip: str,
    dst_port: int,
    payload: bytes = b"",
    *,
    sequence: int = 0,
    acknowledgment: int = 0,
    flags: int = 0x18,
    window: int = 65535,
    src_mac: str | bytes | None = None,
    dst_mac: str | bytes | None = None,
    ttl: int = 64,
    ident: int = 0,
    vlan: int | None = None,
) -> bytes:
    """Return one Ethernet frame with a TCP segment (by default PSH and ACK) without options."""
    if len(payload) > _MAX_TCP_PAYLOAD:
        raise EncodeError(
            f"A TCP payload may have at most {_MAX_TCP_PAYLOAD} bytes, has {len(payload)}."
        )
    source, destination = _ipv4(src_ip), _ipv4(dst_ip)
    header = struct.pack(
        ">HHIIBBHHH",
        _port(src_port),
        _port(dst_port),
        sequence & 0xFFFFFFFF,
        acknowledgment & 0xFFFFFFFF,
        0x50,
        _fits("flags", flags, 8),
        _fits("window", window, 16),
        0,
        0,
    )
    total = len(header) + len(payload)
    checksum = _sum(source + destination) + _TCP + total + _sum(header) + _sum(payload)
    segment = header[:16] + struct.pack(">H", _closing(checksum)) + header[18:] + payload
    fields = (0x45, 0, total + 20, _fits("ident", ident, 16), 0, _fits("ttl", ttl, 8), _TCP)
    start = struct.pack(">BBHHHBB", *fields)
    ip_checksum = _closing(_sum(start) + _sum(source + destination))
    ip_header = start + struct.pack(">H", ip_checksum) + source + destination
    return _link_header(source, destination, src_mac, dst_mac, vlan) + ip_header + segment


def _sum(data: bytes) -> int:
    """Return the sum of the 16-bit big-endian words of some bytes, modulo 65535."""
    # 65536 is 1 modulo 65535: one division of the complete number adds all its words.
    number = int.from_bytes(data, "big")
    return (number << 8 if len(data) & 1 else number) % 0xFFFF


def _closing(total: int) -> int:
    """Return the ones' complement checksum of a sum of words."""
    return (0xFFFF - total % 0xFFFF) % 0xFFFF


def _ipv4(text: str) -> bytes:
    try:
        return socket.inet_pton(socket.AF_INET, text)
    except OSError as error:
        raise EncodeError(f"Not an IPv4 address: {text!r}.") from error


def _port(port: int) -> int:
    return _fits("port", port, 16)


def _fits(name: str, value: int, bits: int) -> int:
    if not 0 <= value < 1 << bits:
        raise EncodeError(f"{name} does not fit {bits} bits: {value}.")
    return value


def _mac(address: str | bytes | None, ip: bytes) -> bytes:
    """Return a link address as given, or derived: the group's for multicast, else a local one."""
    if address is None:
        if ip[0] >> 4 == 0xE:
            return b"\x01\x00\x5e" + bytes([ip[1] & 0x7F]) + ip[2:]
        return b"\x02\x00" + ip
    try:
        raw = address if isinstance(address, bytes) else bytes.fromhex(address.replace(":", ""))
    except ValueError:
        raw = b""
    if len(raw) != 6:
        raise EncodeError(f"Not a link address of six bytes: {address!r}.")
    return raw


def _link_header(
    source: bytes,
    destination: bytes,
    src_mac: str | bytes | None,
    dst_mac: str | bytes | None,
    vlan: int | None,
) -> bytes:
    tag = b"" if vlan is None else struct.pack(">HH", 0x8100, _fits("vlan", vlan, 12))
    return _mac(dst_mac, destination) + _mac(src_mac, source) + tag + b"\x08\x00"


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
        capacity = int(length.sum()) + len(length) * _file_kernels.AROUND
        if len(self._out) < capacity:
            self._out = np.empty(2 * capacity, np.uint8)
        columns = (buffer, offset, length, time_ns, source, destination)
        size = _file_kernels.udp_records(*columns, self._ident, self._out)
        self._ident = (self._ident + len(length)) & 0xFFFF
        return self._out[:size]
