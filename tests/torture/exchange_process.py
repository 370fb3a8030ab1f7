"""A process of the exchange in virtual time: starts from its journal, serves, publishes, and dies.

It does what `pregao.exchange.host.server` does with sockets and a clock.
"""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from pregao.clock import MILLISECOND
from pregao.exchange.engine.model.events import ForwardTrade, Trade, TradeBust
from pregao.exchange.host.host import ExchangeHost
from pregao.exchange.host.journal.journal import Journal
from pregao.exchange.host.market_data import MarketData
from pregao.exchange.host.settings import ExchangeSettings
from pregao.exchange.publisher.channels import OutgoingPacket
from pregao.exchange.publisher.legacy.channel_publisher import LegacyChannelPublisher
from pregao.legacy.streams import LegacyStream
from pregao.umdf.streams import Stream

MAX_UNREAD = 20_000
ROLL_BYTES = 30_000


_STREAMS = {
    LegacyStream.INCREMENTAL: Stream.INCREMENTAL,
    LegacyStream.MARKET_RECOVERY: Stream.SNAPSHOT,
    LegacyStream.INSTRUMENT_DEFINITION: Stream.DEFINITION,
}


class SecondSite:
    """A legacy publisher with a second site, which can restart its numbers alone."""

    def __init__(self, first: Any, second: LegacyChannelPublisher) -> None:
        self._first, self._second = first, second
        self._of_second: list[tuple[Stream, bytes]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._first, name)

    def _note(self, sent: Any) -> None:
        self._of_second += [(_STREAMS[stream], data) for stream, _, data in sent]

    def advance(self, now_ns: int) -> Any:
        """Return the datagrams of the first site."""
        self._note(self._second.advance(now_ns))
        return self._first.advance(now_ns)

    def publish(self, units: Any, now_ns: int) -> Any:
        """Return the datagrams of the first site."""
        self._note(self._second.publish(units, now_ns))
        return self._first.publish(units, now_ns)

    def initialize(self, now_ns: int) -> Any:
        """Return the datagrams of the first site."""
        self._note(self._second.initialize(now_ns))
        return self._first.initialize(now_ns)

    def restart_alone(self, now_ns: int) -> None:
        """Restart the numbers of the second site."""
        self._of_second.clear()
        self._note(self._second.initialize(now_ns))

    def take(self) -> list[tuple[Stream, bytes]]:
        """Return and clear what the second site sent."""
        found, self._of_second = self._of_second, []
        return found


@dataclass(eq=False)
class Wire:
    """A TCP connection: bytes on their way in both directions, and whether it is still up."""

    gateway: int
    connection: Any = None
    """The gateway's side."""
    to_gateway: deque[bytes] = field(default_factory=deque)
    to_client: deque[bytes] = field(default_factory=deque)
    up: bool = True
    heard: bool = True
    """Whether the client does not know of the end yet."""
    cut_after: dict[str, int] = field(default_factory=dict)
    """By direction: after how many more bytes the connection is cut."""
    unread: int = 0

    def deliver(self, towards: str) -> bytes:
        """Return the bytes that arrive now; a cut loses the rest."""
        queue = self.to_gateway if towards == "gateway" else self.to_client
        if not queue:
            return b""
        data = queue.popleft()
        left = self.cut_after.get(towards)
        if left is not None:
            self.cut_after[towards] = left - len(data)
            if left < len(data):
                data, self.up = data[:left], False
                queue.clear()
        return data


class ExchangeProcess:
    """One process: a host, its journal and its publisher."""

    def __init__(
        self,
        settings: ExchangeSettings,
        folder: Path,
        now_ns: int,
        day: Any,
        *,
        sites: bool = False,
    ) -> None:
        self.settings, self.folder = settings, folder
        self._sites = sites
        self.second_site: SecondSite | None = None
        self.wires: dict[Any, Wire] = {}
        self.trades: list[tuple[int, int, int | None, int | None]] = []
        """Published trades: security, number, size and price; None for a bust."""
        self._staged: list[tuple[int, int, int | None, int | None]] = []
        self.publisher_restarts = 0
        self.journal = Journal(folder, roll_bytes=ROLL_BYTES)
        try:
            self.host = ExchangeHost(settings, self.journal)
            self.records = self.host.replay()
            self.host.begin(now_ns)
            if self.host.starts == 1:
                day_text = day.isoformat()
                self.host.control({"command": "day", "date": day_text, "week": True}, now_ns)
                self.host.control(opening(), now_ns)
            self.host.take_units()
            self.host.commit()
            self.begun: list[OutgoingPacket] = []
            self._begin_feed(self.host.now_ns)
        except BaseException:
            self.kill()
            raise

    def _begin_feed(self, now_ns: int) -> None:
        self.data = MarketData(self.settings, self.host.engine, self.host.starts, now_ns)
        if self._sites:
            (channel,) = self.data.publisher.channels.values()
            second = LegacyChannelPublisher(
                channel.channel.number, self.settings.instruments, now_ns, pace=self.settings.pace
            )
            self.second_site = channel.legacy = SecondSite(channel.legacy, second)
        self.begun = self.data.begin(now_ns)
        self.host.publish = self._stage

    def _stage(self, units: Any, now_ns: int) -> None:
        for unit in units:
            for item in unit.items:
                if isinstance(item, Trade | ForwardTrade):
                    self._staged.append((item.security_id, item.trade_id, item.size, item.price))
                elif isinstance(item, TradeBust):
                    self._staged.append((item.security_id, item.trade_id, None, None))
        self.data.stage(units, now_ns)

    def restart_feed(self, now_ns: int) -> None:
        """Restart the publisher, as after its failure."""
        self.host.publish = None
        self.host.begin_again(now_ns)
        self.host.commit()
        self.publisher_restarts += 1
        self._begin_feed(self.host.now_ns)

    def kill(self) -> None:
        """End the process: nothing is written any more, and all files are closed."""
        self.journal._pending.clear()
        if self.journal._file >= 0:
            os.close(self.journal._file)
            self.journal._file = -1
        os.close(self.journal._lock)

    # Turns of the loop

    def connect(self, gateway: int, now_ns: int) -> Wire:
        """Accept a connection."""
        wire = Wire(gateway)
        wire.connection = self.host.connect(gateway, now_ns, "192.0.2.1")
        self.wires[wire.connection] = wire
        return wire

    def receive(self, now_ns: int) -> None:
        """Process what arrived, what was lost, and what is due."""
        host = self.host
        for connection, wire in list(self.wires.items()):
            while wire.to_gateway and not connection.closing:
                host.receive(connection, wire.deliver("gateway"), now_ns)
            due = connection.next_due_ns
            if due is not None and due <= now_ns:
                host.wake(connection, now_ns)
        due = host.next_due_ns
        if due is not None and due <= now_ns:
            host.advance(now_ns)

    def turn(self, now_ns: int) -> list[OutgoingPacket]:
        """Commit, then send what depends on it; return the packets of the feed."""
        host = self.host
        host.commit()
        talking, host.talking = host.talking, set()
        for connection in [each for each in self.wires if each in talking]:
            self._flush(connection, now_ns)
        dropped, host.dropped = host.dropped, []
        for connection in dropped:
            if connection in self.wires:
                self.wires[connection].up = False
        lost = [each for each, wire in self.wires.items() if not wire.up]
        for connection in lost:
            del self.wires[connection]
            host.lost(connection, now_ns)
        if lost:
            host.commit()
        host.take_units()
        data = self.data
        sent, self.begun = self.begun, []
        if data.failed:
            raise AssertionError(f"the publisher failed: {host.faults.notes}")
        if data.staged:
            sent += data.flush(host.now_ns)
            self.trades += self._staged
            self._staged = []
        sent += data.advance(max(now_ns, host.now_ns))
        return sent

    def _flush(self, connection: Any, now_ns: int) -> None:
        """Send the output of a connection, and the rest of a retransmission."""
        wire = self.wires[connection]
        while True:
            output = connection.take_output()
            if output:
                wire.to_client.append(output)
            unread = sum(map(len, wire.to_client)) + connection.waiting_bytes
            if unread > MAX_UNREAD or connection.closing:
                wire.up = False
            elif connection.unfinished:
                connection.continue_retransmission(now_ns)
                continue
            return


def opening() -> dict[str, Any]:
    """The command that opens all groups for a new session."""
    return {"command": "phase", "group": "all", "phase": "OPEN", "session": "REGULAR",
            "new_session": True}  # fmt: skip


def journal_bytes(folder: Path) -> bytes:
    """All files of a journal, as one."""
    return b"".join(path.read_bytes() for path in sorted(folder.glob("journal-??????")))


def damage(folder: Path, kind: str, part: float) -> bool:
    """Damage the files of a stopped exchange's journal; return whether there was a file to."""
    files = sorted(folder.glob("journal-??????"))
    if kind == "journal missing":
        # The last file may be missing without a trace if the exchange ended when it began it.
        candidates = files[:-1]
        if candidates:
            candidates[int(part * len(candidates))].unlink()
        return bool(candidates)
    sizes = [path.stat().st_size for path in files]
    at = int(part * sum(sizes))
    for path, (first, end) in zip(files, pairwise(_sums(sizes)), strict=True):
        if first <= at < end:
            data = bytearray(path.read_bytes())
            if kind == "journal byte":
                data[at - first] ^= 1 << (at % 8)
            elif path != files[-1]:
                del data[at - first :]
            else:
                return False  # a truncated end is a torn write, which is another fault
            path.write_bytes(bytes(data))
            return True
    return False


def _sums(sizes: list[int]) -> list[int]:
    found = [0]
    for size in sizes:
        found.append(found[-1] + size)
    return found


RESTART_NS = 80 * MILLISECOND
"""How long the exchange is away after its end."""
