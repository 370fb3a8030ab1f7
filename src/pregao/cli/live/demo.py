"""``pregao live --demo``: simulate a market, send it over loopback and follow it."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import tempfile
from multiprocessing.context import SpawnProcess
from multiprocessing.synchronize import Event
from pathlib import Path

from pregao.clock import MINUTE
from pregao.exchange.publisher.channels import ChannelEndpoints
from pregao.exchange.simulation.network_faults import fault_rates, parse_rates
from pregao.exchange.simulation.settings import SimulationSettings, parse_moment
from pregao.exchange.simulation.simulation import Simulation
from pregao.feed.channel.settings import ChannelSettings
from pregao.live.config import STREAMS, Line, LiveConfig
from pregao.live.replayer import Replayer, ReplaySpeed
from pregao.net.addresses import Address, find_interface
from pregao.umdf.survey.lines import Destination

INSTRUMENTS = 16
DURATION_NS = 5 * MINUTE
FROM = "0.3"
"""Point of the day at which the feed is joined: late, so that books must synchronize."""
LOSS = "0.02"
"""Share of packets that each feed loses, so that the demo shows recovery."""
_INTERFACE = "lo"
_STEP_S = 0.2
_MAX_WAIT_S = 60.0


class LiveDemo:
    """A simulated day in a temporary folder, and the process that replays it."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="pregao-live-"))
        self._sending: SpawnProcess | None = None
        self._go: Event | None = None
        try:
            lost, none = parse_rates("--loss", LOSS), parse_rates("--reorder", None)
            settings = SimulationSettings(
                "equities",
                self._folder,
                force=True,
                instruments=INSTRUMENTS,
                duration_ns=DURATION_NS,
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
        """Assign channels to multicast groups that no other demo on this machine uses."""
        process = os.getpid()
        lines = []
        index = 0
        for number in numbers:
            channel = ChannelEndpoints.numbered(number)
            for stream in STREAMS:
                for feed, endpoint in channel.endpoints(stream):
                    index += 1
                    host = f"239.{192 + process % 32}.{process // 32 % 256}.{index}"
                    address = Address(host, endpoint.port)
                    self._targets[Destination(endpoint.address, endpoint.port)] = address
                    lines.append(Line(number, stream, feed.value, address, _INTERFACE))
        channels = tuple(ChannelSettings(number) for number in numbers)
        return LiveConfig(channels, tuple(lines), name="the demonstration")

    def prepare(self, speed: ReplaySpeed) -> None:
        """Start the sending process, so that `start` takes effect immediately."""
        captures = [str(path) for path in sorted(self._folder.glob("*.pcap"))]
        context = multiprocessing.get_context("spawn")
        ready, self._go = context.Event(), context.Event()
        given = (captures, self._targets, speed, ready, self._go)
        self._sending = context.Process(target=send, args=given, name="pregao-replay", daemon=True)
        self._sending.start()
        while self.running and not ready.wait(_STEP_S):
            pass

    def start(self) -> None:
        """Start sending."""
        if self._go is not None:
            self._go.set()

    @property
    def running(self) -> bool:
        """Whether the sending process is still running."""
        return self._sending is not None and self._sending.is_alive()

    def close(self) -> None:
        """Stop sending and remove the simulated captures."""
        if self._sending is not None:
            self._sending.kill()
            self._sending.join()
        shutil.rmtree(self._folder, ignore_errors=True)


def send(
    captures: list[str],
    targets: dict[Destination, Address],
    speed: ReplaySpeed,
    ready: Event,
    go: Event,
) -> None:
    """Send the captures once `go` is set."""
    # Ctrl-C is handled by the following process, which ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    replayer = Replayer(
        captures,
        targets,
        speed=speed,
        interface=find_interface(_INTERFACE),
        rewrite_times=True,
    )
    ready.set()
    if go.wait(_MAX_WAIT_S):
        replayer.run()
