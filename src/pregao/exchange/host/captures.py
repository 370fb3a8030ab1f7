"""Captures of a running exchange: one of order entry, and one per channel, stream and feed.

Credentials are blanked before anything is written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

from pregao.capture.writer import PcapWriter, UdpFramer, tcp_frame
from pregao.entrypoint.framing import BadFrame, FrameReader, blanked
from pregao.errors import UsageError
from pregao.exchange.host.gateway.tcp import GatewayTransport, TrafficTap
from pregao.exchange.host.settings import ExchangeSettings
from pregao.exchange.publisher.channels import OutgoingPacket
from pregao.safe_io import private_files
from pregao.umdf.streams import Stream

ENTRY_FILE: Final = "EntryPoint.pcap"
_SYN, _SYN_ACK, _ACK, _FIN_ACK = 0x02, 0x12, 0x10, 0x11
_MAX_SEGMENT: Final = 1400
_STREAMS: Final = {
    Stream.INCREMENTAL: "Incremental",
    Stream.SNAPSHOT: "Snapshot",
    Stream.DEFINITION: "InstrumentDefinition",
}


def captures_in(folder: Path) -> Callable[[ExchangeSettings], TrafficTap]:
    """Return a factory that creates the captures in a folder once the settings are known."""
    return lambda settings: ExchangeCaptures(folder, settings)


class _Flow:
    """One direction of a connection."""

    def __init__(self, source: tuple[str, int], target: tuple[str, int], flows: list[int]) -> None:
        self.source = source
        self.target = target
        self.numbers = flows
        """Sequence numbers of both directions, its own first."""
        self.reader = FrameReader()
        self.broken = False


class ExchangeCaptures:
    """Writes the captures of a run."""

    def __init__(self, folder: Path, settings: ExchangeSettings) -> None:
        self._files: list[BinaryIO] = []
        self._closed = False
        self._flows: dict[GatewayTransport, tuple[_Flow, _Flow]] = {}
        self._feeds: dict[tuple[int, Stream, bool], list[tuple[PcapWriter, UdpFramer]]] = {}
        """Writers by channel, stream and whether it is the legacy feed."""
        try:
            private_files.make_folder(folder)
            if any(folder.iterdir()):
                raise UsageError(f"{folder}: folder is not empty: choose another --capture.")
            self._entry = self._writer(folder / ENTRY_FILE)
            self._open_feeds(folder, settings)
        except OSError as error:
            for file in self._files:
                with suppress(OSError):  # a full disk fails the flush as well
                    file.close()
            raise UsageError(f"{folder}: cannot be used: {error.strerror}.") from error

    def _open_feeds(self, folder: Path, settings: ExchangeSettings) -> None:
        """Create the files of all channels, streams and feeds."""
        source = "127.0.0.1"
        for legacy, targets in ((False, settings.targets()), (True, settings.legacy_targets())):
            for (number, stream), feeds in targets.items():
                for feed, address in feeds:
                    ending = f"_{feed}" if stream is Stream.INCREMENTAL else ""
                    prefix = "Legacy_" if legacy else ""
                    path = folder / f"{number:03d}_{prefix}{_STREAMS[stream]}{ending}.pcap"
                    framer = UdpFramer(source, 20_000, address.host, address.port)
                    written = self._feeds.setdefault((number, stream, legacy), [])
                    written.append((self._writer(path), framer))

    def _writer(self, path: Path) -> PcapWriter:
        """Return a writer of a new file that only its owner can read."""
        file = os.fdopen(private_files.create(path), "wb")
        self._files.append(file)
        writer = PcapWriter(file)
        writer.name = str(path)
        return writer

    def opened(self, line: GatewayTransport) -> None:
        """Write the TCP handshake of a new connection."""
        towards, back = [1, 1], [1, 1]
        incoming = _Flow(line.peer, line.local_address, towards)
        outgoing = _Flow(line.local_address, line.peer, back)
        self._flows[line] = (incoming, outgoing)
        now = line.opened_ns
        self._write(incoming, b"", now, flags=_SYN, sequence=0, acknowledgment=0)
        self._write(outgoing, b"", now, flags=_SYN_ACK, sequence=0, acknowledgment=1)
        self._write(incoming, b"", now, flags=_ACK, sequence=1, acknowledgment=1)

    def received(self, line: GatewayTransport, data: bytes, now_ns: int) -> None:
        """Write received bytes, with the credentials of messages blanked."""
        incoming, outgoing = self._flows[line]
        frames = b""
        for item in incoming.reader.receive(data):
            if isinstance(item, BadFrame):
                incoming.broken = True
                break
            frames += blanked(item)
        self._put(incoming, outgoing, frames, now_ns)

    def sent(self, line: GatewayTransport, data: bytes, now_ns: int) -> None:
        """Write sent bytes."""
        incoming, outgoing = self._flows[line]
        self._put(outgoing, incoming, data, now_ns)

    def closed(self, line: GatewayTransport, now_ns: int) -> None:
        """Write the end of a connection on both sides, and drop its state."""
        flows = self._flows.pop(line, None)
        if flows is None or self._closed:
            return
        incoming, outgoing = flows
        theirs, ours = incoming.numbers[0], outgoing.numbers[0]
        self._write(incoming, b"", now_ns, flags=_FIN_ACK, sequence=theirs, acknowledgment=ours)
        self._write(outgoing, b"", now_ns, flags=_FIN_ACK, sequence=ours, acknowledgment=theirs + 1)
        self._write(incoming, b"", now_ns, flags=_ACK, sequence=theirs + 1, acknowledgment=ours + 1)

    @property
    def connections(self) -> int:
        """Number of connections whose sequence numbers are tracked."""
        return len(self._flows)

    def _put(self, flow: _Flow, other: _Flow, data: bytes, now_ns: int) -> None:
        for start in range(0, len(data), _MAX_SEGMENT):
            part = data[start : start + _MAX_SEGMENT]
            self._write(
                flow, part, now_ns, sequence=flow.numbers[0], acknowledgment=other.numbers[0]
            )
            flow.numbers[0] += len(part)

    def _write(
        self,
        flow: _Flow,
        data: bytes,
        now_ns: int,
        *,
        sequence: int,
        acknowledgment: int,
        flags: int = 0x18,
    ) -> None:
        frame = tcp_frame(
            *flow.source,
            *flow.target,
            data,
            sequence=sequence,
            acknowledgment=acknowledgment,
            flags=flags,
        )
        self._entry.write(now_ns, frame)

    def published(self, datagrams: Sequence[OutgoingPacket]) -> None:
        """Write datagrams sent on the feed."""
        for datagram in datagrams:
            key = (datagram.channel, datagram.stream, datagram.legacy)
            for writer, framer in self._feeds.get(key, ()):
                writer.write(datagram.time_ns, framer.frame(datagram.payload))

    def close(self) -> None:
        """Close all files."""
        self._closed = True
        self._entry.close()
        for feeds in self._feeds.values():
            for writer, _ in feeds:
                writer.close()
        for file in self._files:
            file.close()
