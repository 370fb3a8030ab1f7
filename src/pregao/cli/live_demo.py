"""``pregao live --demo``: a market simulated, sent over loopback and followed."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from pathlib import Path

from pregao.clock import MINUTE
from pregao.errors import PregaoError
from pregao.exchange.publisher import Channel
from pregao.exchange.simulation import Settings, Simulation, fault_rates, parse_moment, parse_rates
from pregao.feed.channel_settings import ChannelSettings
from pregao.live import Line, LiveConfig, Replayer, Speed
from pregao.live.config import STREAMS
from pregao.net import Address, find_interface
from pregao.umdf.survey import Destination

INSTRUMENTS = 16
DURATION_NS = 5 * MINUTE
FROM = "0.3"
"""Where the day is joined: then it must be synchronized, and trading is going on."""
LOSS = "0.02"
"""The share of packets that each feed loses, so that there is something to heal."""
_INTERFACE = "lo"


class Demo:
    """A simulated day in a temporary folder, and the replay that sends it."""

    def __init__(self, duration_ns: int = DURATION_NS, instruments: int = INSTRUMENTS) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="pregao-live-"))
        self._replayer: Replayer | None = None
        self._thread: threading.Thread | None = None
        self.failure: PregaoError | None = None
        try:
            lost, none = parse_rates("--loss", LOSS), parse_rates("--reorder", None)
            settings = Settings(
                "equities",
                self._folder,
                force=True,
                instruments=instruments,
                duration_ns=duration_ns,
                late_join=parse_moment("--late-join", FROM),
                faults=fault_rates(lost, none, none),
            )
            simulation = Simulation(settings)
            self.summary = simulation.run()
            numbers = sorted(int(number) for number in self.summary.data["channels"])
            self._targets: dict[Destination, Address] = {}
            self.config = self._follow(numbers)
        except BaseException:
            self.close()
            raise

    def _follow(self, numbers: list[int]) -> LiveConfig:
        """The channels, at groups that no other demonstration on this machine uses."""
        process = os.getpid()
        lines = []
        place = 0
        for number in numbers:
            channel = Channel.numbered(number)
            for stream in STREAMS:
                for feed, endpoint in channel.endpoints(stream):
                    place += 1
                    host = f"239.{192 + process % 32}.{process // 32 % 256}.{place}"
                    address = Address(host, endpoint.port)
                    self._targets[Destination(endpoint.address, endpoint.port)] = address
                    lines.append(Line(number, stream, feed.value, address, _INTERFACE))
        channels = tuple(ChannelSettings(number) for number in numbers)
        return LiveConfig(channels, tuple(lines), name="the demonstration")

    @property
    def running(self) -> bool:
        """Is there still something to be sent?"""
        return self._thread is not None and self._thread.is_alive()

    def start(self, speed: Speed) -> None:
        """Begin to send, in a thread."""
        captures = sorted(self._folder.glob("*.pcap"))
        self._replayer = Replayer(
            captures,
            self._targets,
            speed=speed,
            interface=find_interface(_INTERFACE),
            current_times=True,
        )
        self._thread = threading.Thread(target=self._send, name="pregao-replay", daemon=True)
        self._thread.start()

    def _send(self) -> None:
        assert self._replayer is not None
        try:
            self._replayer.run()
        except PregaoError as error:
            self.failure = error

    def close(self) -> None:
        """Stop sending, and remove what was simulated."""
        if self._replayer is not None and self._thread is not None:
            self._replayer.stop()
            self._thread.join()
        shutil.rmtree(self._folder, ignore_errors=True)
