"""Captures of a simulation: one file per channel, stream and feed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from ipaddress import IPv4Address
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pregao.capture.writer import PcapWriter, UdpRecords
from pregao.errors import UsageError
from pregao.exchange.publisher.channels import ChannelEndpoints, Endpoint, OutgoingPacket
from pregao.exchange.simulation import truth as truth_files
from pregao.exchange.simulation.network_faults import FaultCounts, FaultRates, FaultyFeed
from pregao.exchange.traders.arrivals import SeededRandom
from pregao.umdf.packets import decode_header
from pregao.umdf.streams import Stream

_NAMES = {
    "A": "Incremental_A",
    "B": "Incremental_B",
    "snapshot": "Snapshot",
    "definition": "InstrumentDefinition",
}
_SOURCES = {
    "A": "192.0.2.11",
    "B": "198.51.100.12",
    "snapshot": "192.0.2.13",
    "definition": "192.0.2.14",
}
LEGACY = "Legacy_"
"""Prefix in the file names of captures of the legacy feed."""
_SOURCE_PORT = 20_000
_LATENCY_NS = {"A": 9_000, "B": 12_500, "snapshot": 9_500, "definition": 9_500}
"""Minimum network latency of a packet."""
_JITTER_NS = 1_500
_JITTERS = 4096
_AT_ONCE = 4096
"""Number of packets whose records are built together."""
_ADJACENT_NS = 700
"""Minimum time between two packets of a file, as on a real line."""


def file_names(channel: int, ending: str, mark: str = "") -> dict[str, str]:
    """Return the file names of a channel's captures by feed or stream."""
    return {feed: f"{channel:03d}_{mark}{name}.pcap{ending}" for feed, name in _NAMES.items()}


def prepare_folder(out: Path, force: bool) -> Path:
    """Create the folder of a run and the folder of its truth; return the latter.

    A folder that is not empty is used only with ``force``; files of an earlier run are removed.
    """
    truth = out / truth_files.FOLDER
    try:
        if out.is_dir():
            if any(out.iterdir()) and not force:
                raise UsageError(
                    f"{out}: folder is not empty: choose another --output, or use --force to "
                    "overwrite the files of an earlier run"
                )
            for old in sorted(out.iterdir()):
                if old.is_file() and is_capture_name(old.name):
                    old.unlink()
            for name in truth_files.FILES:
                (truth / name).unlink(missing_ok=True)
        truth.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{error.filename or out}: cannot be used: {error.strerror}") from error
    return truth


def is_capture_name(name: str) -> bool:
    """Whether a file name is one that a simulation writes."""
    number, _, rest = name.partition("_")
    stem = rest.removesuffix(".gz").removesuffix(".zst")
    stems = {f"{mark}{name_stem}.pcap" for mark in ("", LEGACY) for name_stem in _NAMES.values()}
    return len(number) == 3 and number.isdigit() and stem in stems


class SentPackets(NamedTuple):
    """Sending times of packets, and their payloads concatenated in one buffer."""

    times: NDArray[np.int64]
    buffer: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    lengths: NDArray[np.int32]

    @classmethod
    def from_payloads(cls, times: Sequence[int], payloads: Sequence[bytes]) -> SentPackets:
        """Build packets from their times and payloads."""
        lengths = np.fromiter(map(len, payloads), np.int32, len(payloads))
        offsets = np.zeros(len(payloads), np.int64)
        np.cumsum(lengths[:-1], out=offsets[1:])
        buffer = np.frombuffer(b"".join(payloads), np.uint8)
        return cls(np.array(times, np.int64), buffer, offsets, lengths)


class CaptureFile:
    """Capture of one flow of packets, as a receiver records it."""

    def __init__(
        self,
        path: Path,
        feed: str,
        endpoint: Endpoint,
        rates: FaultRates,
        draws: SeededRandom,
        *,
        legacy: bool = False,
    ) -> None:
        self._legacy = legacy
        self.path = path
        self.endpoint = endpoint
        self.packets = 0
        self.bytes = 0
        self._addresses = (
            _address(_SOURCES[feed], _SOURCE_PORT),
            _address(endpoint.address, endpoint.port),
        )
        self._records = UdpRecords()
        self._writer = PcapWriter(path)
        self._times: list[int] = []
        self._payloads: list[bytes] = []
        self._faulty: FaultyFeed[bytes] | None = FaultyFeed(rates, draws) if rates.any else None
        min_delay = _LATENCY_NS[feed]
        self._delays = np.array(
            [min_delay + int(draws.expovariate(1 / _JITTER_NS)) for _ in range(_JITTERS)]
        )
        self._last_ns = 0

    @property
    def faults(self) -> FaultCounts:
        """Counts of the faults injected into this file."""
        return FaultCounts() if self._faulty is None else self._faulty.counts

    @property
    def lost_last(self) -> bool:
        """Whether the last packet was lost."""
        return self._faulty is not None and self._faulty.lost

    def send(self, time_ns: int, payload: bytes) -> None:
        """Record a packet sent at `time_ns`. Heartbeats of the binary feed have no faults."""
        faulty = self._faulty
        if faulty is None:
            self.write(time_ns, payload)
        elif not self._legacy and not decode_header(payload).sequenced:
            faulty.lost = False
            self.write(time_ns, payload)
        else:
            for arrived in faulty.send(payload):
                self.write(time_ns, arrived)

    def write(self, time_ns: int, payload: bytes) -> None:
        """Queue a packet that was sent at `time_ns` and has arrived, to be written."""
        self._times.append(time_ns)
        self._payloads.append(payload)
        if len(self._times) == _AT_ONCE:
            self._write_waiting()

    def _write_waiting(self) -> None:
        """Write the queued packets."""
        if self._times:
            self.write_packets(SentPackets.from_payloads(self._times, self._payloads))
            self._times.clear()
            self._payloads.clear()

    def write_packets(self, packets: SentPackets) -> None:
        """Write packets with their arrival times."""
        count = len(packets.times)
        indices = np.arange(count)
        arrived = packets.times + self._delays[(self.packets + indices) % _JITTERS]
        arrived[0] = max(arrived[0], self._last_ns + _ADJACENT_NS)
        # Each arrives at least `_ADJACENT_NS` after the one before: a running maximum of the
        # times less those steps.
        steps = indices * _ADJACENT_NS
        arrived = np.maximum.accumulate(arrived - steps) + steps
        records = self._records.build(
            packets.buffer,
            packets.offsets,
            packets.lengths,
            arrived,
            *(np.full(count, address) for address in self._addresses),
        )
        self._writer.write_records(records.tobytes())
        self._last_ns = int(arrived[-1])
        self.packets += count
        self.bytes += len(packets.buffer)

    def close(self) -> None:
        """Write the queued and held-back packets, and close the file."""
        self._write_waiting()
        if self._faulty is not None:
            for payload in self._faulty.finish():
                self.write(self._last_ns, payload)
            self._write_waiting()
        self._writer.close()


def _address(host: str, port: int) -> int:
    """Return an address and a port as one integer, the form that `UdpRecords` expects."""
    return int(IPv4Address(host)) << 16 | port


def _endpoints(channel: ChannelEndpoints) -> dict[str, Endpoint]:
    return {
        "A": channel.incremental_a,
        "B": channel.incremental_b,
        "snapshot": channel.snapshot,
        "definition": channel.definition,
    }


_INCREMENTAL, _SNAPSHOT = Stream.INCREMENTAL, Stream.SNAPSHOT
_FEEDS = {
    _INCREMENTAL: ("A", "B"),
    _SNAPSHOT: ("snapshot",),
    Stream.DEFINITION: ("definition",),
}


class ChannelCaptures:
    """The four captures of a channel, and the four of its legacy feed if it has one.

    Packets sent before `from_ns` are not captured.
    """

    def __init__(
        self,
        folder: Path,
        channel: ChannelEndpoints,
        ending: str,
        faults: dict[str, FaultRates],
        seed: int,
        from_ns: int,
        *,
        legacy: bool = False,
    ) -> None:
        self.lost_on_both = 0
        """Packets that neither feed delivered."""
        self._from_ns = from_ns
        self.files: dict[str, CaptureFile] = {}
        with ExitStack() as opened:
            for feed, name in file_names(channel.number, ending).items():
                draws = SeededRandom(seed, f"captures/{channel.number}/{feed}")
                self.files[feed] = CaptureFile(
                    folder / name, feed, _endpoints(channel)[feed], faults[feed], draws
                )
                opened.callback(self.files[feed].close)
            if legacy:
                other = _endpoints(ChannelEndpoints.numbered(channel.number, legacy=True))
                for feed, name in file_names(channel.number, ending, LEGACY).items():
                    key = f"legacy {feed}"
                    draws = SeededRandom(seed, f"captures/{channel.number}/{key}")
                    self.files[key] = CaptureFile(
                        folder / name, feed, other[feed], faults[feed], draws, legacy=True
                    )
                    opened.callback(self.files[key].close)
            opened.pop_all()
        # Without faults both feeds carry the same packets, so each batch is built once.
        self._alike = not (faults["A"].any or faults["B"].any)
        self._times: list[int] = []
        self._payloads: list[bytes] = []
        self._can_lose_both = bool(faults["A"].loss and faults["B"].loss)

    def send(self, datagrams: Iterable[OutgoingPacket]) -> None:
        """Record packets on their streams."""
        for _channel, stream, time_ns, payload, legacy in datagrams:
            if time_ns < self._from_ns:
                continue
            if legacy:
                for feed in _FEEDS[stream]:
                    self.files[f"legacy {feed}"].send(time_ns, payload)
            elif stream is _INCREMENTAL:
                self.send_incremental(time_ns, (payload,))
            elif stream is _SNAPSHOT:
                self.files["snapshot"].send(time_ns, payload)
            else:
                self.files["definition"].send(time_ns, payload)

    def send_incremental(self, time_ns: int, payloads: Sequence[bytes]) -> None:
        """Record packets on both feeds of the incremental stream."""
        if time_ns < self._from_ns:
            return
        for payload in payloads:
            if self._alike:
                times = self._times
                times.append(time_ns)
                self._payloads.append(payload)
                if len(times) == _AT_ONCE:
                    self._write_waiting()
                continue
            for feed in _FEEDS[_INCREMENTAL]:
                self.files[feed].send(time_ns, payload)
            if self._can_lose_both:
                self.lost_on_both += all(self.files[feed].lost_last for feed in "AB")

    def _write_waiting(self) -> None:
        """Write the queued packets to both feeds."""
        if self._times:
            packets = SentPackets.from_payloads(self._times, self._payloads)
            for feed in _FEEDS[_INCREMENTAL]:
                self.files[feed].write_packets(packets)
            self._times.clear()
            self._payloads.clear()

    def close(self) -> None:
        """Close all files."""
        self._write_waiting()
        with ExitStack() as closing:
            for file in self.files.values():
                closing.callback(file.close)

    def __enter__(self) -> ChannelCaptures:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
