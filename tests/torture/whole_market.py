"""The whole market of a seed: traders, gateways, engine, journal, feeds and live handlers.

Everything runs in this process and in virtual time. Faults are injected by number while traders
trade; then they stop, and all components must agree.
"""

from __future__ import annotations

import hashlib
import heapq
import random
import shutil
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pregao.clock import MILLISECOND, SECOND
from pregao.entrypoint.framing import frame_of
from pregao.entrypoint.session_settings import ClientSettings, GatewaySettings
from pregao.errors import PregaoError, UsageError
from pregao.exchange.engine.model.instrument_loader import bundled_catalogue
from pregao.exchange.host.host import ExchangeHost
from pregao.exchange.host.journal.journal import Journal
from pregao.exchange.host.settings import ExchangeSettings
from pregao.exchange.publisher.channels import OutgoingPacket
from pregao.exchange.publisher.loops import LoopPace
from pregao.exchange.simulation.settings import LegacyDepth
from pregao.feed.channel.channel import Channel
from pregao.umdf.packets import decode_header
from pregao.umdf.sequencing import PacketKey
from pregao.umdf.streams import Stream
from tests.entrypoint.raw_peer import KEY, SESSION, START
from tests.exchange.host_desk import whole_state
from tests.torture.disk import Disk, KilledError
from tests.torture.exchange_process import (
    RESTART_NS,
    ExchangeProcess,
    damage,
    journal_bytes,
    opening,
)
from tests.torture.faults import Fault, FaultyLine
from tests.torture.followers import (
    BinaryFollower,
    LegacyFollower,
    OtherSite,
    Truth,
    binary_settings,
    legacy_point,
    legacy_settings,
    other_key,
)
from tests.torture.traders import Trader

DAY = date(2026, 5, 28)
SYMBOLS = ("PETR4", "VALE3", "ITUB4")
TRADERS = 3
STEPS = 120
CALM_STEPS = 600
CALM_STEP_NS = 100 * MILLISECOND
SCHEMA_VERSIONS = (17, 16, 15, 10)
_STREAM_LINES = {Stream.SNAPSHOT: "snapshot", Stream.DEFINITION: "definition"}


@dataclass
class Outcome:
    """The run of a seed."""

    seed: int
    injected: Counter[str] = field(default_factory=Counter)
    """Faults that were in effect, by kind."""
    compared: Counter[str] = field(default_factory=Counter)
    requests: int = 0
    reports: int = 0
    trades: int = 0
    packets: int = 0
    virtual_s: float = 0.0
    digest: str = ""
    captured: list[tuple[int, str, bytes]] = field(default_factory=list, repr=False)
    """Arrivals: time, line and payload."""
    published_trades: list[Any] = field(default_factory=list, repr=False)
    truth: Any = field(default=None, repr=False)
    folder: Any = field(default=None, repr=False)


class Market:
    """The market of a seed."""

    def __init__(self, seed: int, faults: list[Fault], folder: Path, days: int = 1) -> None:
        self.seed, self.faults, self.folder, self.days = seed, faults, folder, days
        self.draw = random.Random(f"market of {seed}")
        self.now = START
        self.clock_ns = 0
        """Error of the exchange's clock."""
        self.step = 0
        self.outcome = Outcome(seed, folder=folder)
        self.disk = Disk()
        instruments = tuple(each for each in bundled_catalogue() if each.symbol in SYMBOLS)
        self.securities = [each.security_id for each in instruments]
        self.settings = replace(
            ExchangeSettings(),
            instruments=instruments,
            first_date=DAY,
            seed=seed,
            schema_version=self.draw.choice(SCHEMA_VERSIONS),
            legacy=LegacyDepth.ORDERS,
            rules=GatewaySettings(clock_tolerance_ns=100 * 3600 * SECOND),
            pace=LoopPace(200, self.draw.choice((200, 500, 1500)) * MILLISECOND),
        )
        self.truth = Truth(self.securities)
        self.lines = {
            name: FaultyLine(name, seed, faults)
            for name in ("A", "B", "C", "snapshot", "definition", "legacy A", "legacy B",
                         "legacy loops")
        }  # fmt: skip
        self.journal = folder / "journal"
        self.process: ExchangeProcess | None = None
        self.down_until = 0
        self.after_end: list[Fault] = []
        """What happens to the journal while the exchange is down."""
        self.traders = [self._trader(number) for number in range(TRADERS)]
        self.other_site = OtherSite() if self._any("site failover") else None
        self._arriving: list[tuple[int, int, str, Stream, str, bytes]] = []
        self._sent = 0
        self._legacy_ns = 0
        """Sending time of the last message on the legacy feed."""
        self.reference = Channel(binary_settings())
        self.binary = self._binary(0)
        self.legacy = LegacyFollower(self.truth, legacy_settings(sites=self._any("site reset")))
        self.reference.start(self.now)
        self.reference.take_actions()
        self.reference.enable_events(enabled=False)
        self.binary.start(self.now)
        self.legacy.start(self.now)
        self._digest = hashlib.sha256()

    def _any(self, kind: str) -> bool:
        return any(each.kind == kind for each in self.faults)

    def _trader(self, number: int) -> Trader:
        own = ClientSettings(
            SESSION + number,
            (85, 85, 127)[number],
            KEY,
            version=self.draw.choice((2, 5, 6)),
            keep_alive_ms=1000,
            cancel_on_disconnect=self.draw.choice(
                ("DO_NOT_CANCEL_ON_DISCONNECT_OR_TERMINATE", "CANCEL_ON_DISCONNECT_ONLY",
                 "CANCEL_ON_DISCONNECT_OR_TERMINATE")
            ),
            window_ms=self.draw.choice((0, 300)),
            keep_reports=True,
        )  # fmt: skip
        return Trader(own, self.folder / f"session-{number}", self.disk, self.seed)

    def _binary(self, number: int) -> BinaryFollower:
        draw = random.Random(f"handler {number} of {self.seed}")
        settings = binary_settings(
            reorder_packets=draw.choice((1, 4, 16)),
            max_held_packets=draw.choice((8, 65_536)),
            max_queued_messages=draw.choice((20, 10_000)),
            backup=("C",) if self.other_site is not None else (),
        )
        return BinaryFollower(settings, self.truth, f"{number} of {self.seed}")

    # Steps

    def run(self) -> Outcome:
        """Run the seed; raise AssertionError where anything is wrong."""
        seeded = random.Random(f"journal of {self.seed}")
        with self.disk.mounted(), patch("secrets.randbits", seeded.getrandbits):
            idle = self.draw.randrange(STEPS * 4)  # once in four seeds the market is idle for long
            for step in range(STEPS * self.days):
                self.step = step
                if step and step % STEPS == 0:
                    self._next_day()
                self.now += self.draw.randint(1, 25) * MILLISECOND
                self._faults_of_step()
                self._turn(acting=True)
                if self.step == idle:
                    for _ in range(self.draw.randint(10, 80)):
                        self.now += 500 * MILLISECOND
                        self._turn(acting=False)
            self._calm()
            self._check()
            self._note_followers()
            assert self.process is not None
            self._note_end(self.process)
        return self.outcome

    def _next_day(self) -> None:
        """Wait until all components agree, check them, and start a trading day."""
        step, idle = self.step, 10**9
        self.step = idle
        self._calm()
        self._check()
        self.step = step
        process = self.process
        assert process is not None
        self.now += self.draw.randrange(1, 20) * SECOND  # nights are short
        day = process.host.engine.trade_date + timedelta(1)
        now = max(self.now + self.clock_ns, process.host.now_ns + SECOND)
        process.host.control({"command": "end-day"}, now)
        process.host.control({"command": "day", "date": day.isoformat()}, now)
        process.host.control(opening(), now)
        for trader in self.traders:
            trader.next_day(self.now)

    def _calm(self) -> None:
        """Stop all faults, and wait until all components agree."""
        self.disk.armed = ""
        self.step = 10**9
        for _ in range(CALM_STEPS):
            self.now += CALM_STEP_NS
            self._turn(acting=False)
            if self._converged():
                break
        for _ in range(15):  # the last packets reach every handler
            self.now += CALM_STEP_NS
            self._turn(acting=False)

    def _converged(self) -> bool:
        return (
            self.process is not None
            and all(each.established and not each.tracker.unanswered for each in self.traders)
            and self.binary.converged(self.reference)
            and self.legacy.converged(self._legacy_ns)
        )

    def _turn(self, *, acting: bool) -> None:
        now = self.now
        if self.process is None and now >= self.down_until:
            self._start()
        try:
            for each in self.traders:
                if self.process is not None:
                    each.connect(self.process, now)
                if acting and self.draw.random() < 0.8:
                    for _ in range(self.draw.choice((1, 1, 1, 2, 5))):
                        each.act(self.securities, now)
            for _ in range(4):
                if self.process is not None:
                    self.process.receive(now + self.clock_ns)
                    self._publish(self.process.turn(now + self.clock_ns))
                for each in self.traders:
                    each.receive(self.step, now)
        except KilledError as end:
            self._end(str(end))
        except UsageError as error:
            assert "cannot be written" in str(error), error  # noqa: PT017
            self._end("disk full")
        self._arrive(now)

    # The exchange

    def _start(self) -> None:
        """Start the exchange from its journal, after what happened to that while it was down."""
        self.now += MILLISECOND
        for fault in self.after_end:
            self._damaged(fault)
        self.after_end = []
        try:
            self.process = ExchangeProcess(
                self.settings, self.journal, self.now + self.clock_ns, DAY,
                sites=self._any("site reset"),
            )  # fmt: skip
        except UsageError as error:  # a disk that cannot be read, or is full: try again
            reasons = ("Input/output error", "No space left")
            assert any(each in str(error) for each in reasons), error  # noqa: PT017
            self.down_until = self.now + RESTART_NS
        except KilledError as end:
            self.outcome.injected[str(end)] += 0
            self.down_until = self.now + RESTART_NS
        else:
            assert self.process.host.faults.count == 0, self.process.host.faults.notes
            self.truth.restarted_ms.add(self.process.host.now_ns // MILLISECOND)

    def _damaged(self, fault: Fault) -> None:
        """Damage the journal: the exchange refuses it, or is what it was; then restore it."""
        if fault.kind == "power loss":
            self.disk.lose_power(self.journal, fault.values["part"])
            return
        copy = self.folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.journal, copy)
        if damage(self.journal, fault.kind, fault.values.get("part", 0.5)):
            before = self._state_of(copy)
            self.outcome.injected[fault.kind] += 1
            try:
                found = self._state_of(self.journal)
            except UsageError:
                pass
            else:
                assert found == before, "a damaged journal started another exchange"
        shutil.rmtree(self.journal)
        copy.rename(self.journal)

    def _state_of(self, folder: Path) -> Any:
        """The state of an exchange that starts from a copy of a journal."""
        trial = self.folder / "trial"
        shutil.rmtree(trial, ignore_errors=True)
        shutil.copytree(folder, trial)
        now = self.now + self.clock_ns
        process = ExchangeProcess(self.settings, trial, now, DAY)
        state = whole_state(process.host)
        process.kill()
        return state

    def _end(self, kind: str) -> None:
        """End the process of the exchange; its connections are lost."""
        assert self.process is not None
        self.outcome.published_trades += self.process.trades
        for wire in self.process.wires.values():
            wire.up = False
            wire.to_client.clear()
        self.process.kill()
        self.process = None
        self.down_until = self.now + RESTART_NS

    def _faults_of_step(self) -> None:
        for fault in self.faults:
            if fault.step == self.step:
                self._inject(fault)

    def _inject(self, fault: Fault) -> None:
        """Inject a fault that is not of a line."""
        count, process, values = self.outcome.injected, self.process, fault.values
        trader = self.traders[values["trader"]] if "trader" in values else self.traders[0]
        match fault.kind:
            case "cut" if trader.wire is not None:
                trader.wire.cut_after[values["towards"]] = values["bytes"]
                count[fault.kind] += 1
            case "slow reader":
                trader.slow_until = self.step + values["steps"]
                count[fault.kind] += 1
            case "stopped reader":
                trader.deaf_until = self.step + values["steps"]
                count[fault.kind] += 1
            case "wrong frame" | "torn frame":
                trader.wrong_next = fault.kind
            case "client kill":
                trader.kill()
            case "session disk full":
                self.disk.arm(fault.kind, trader.path)
            case "kill" if process is not None:
                count[fault.kind] += 1
                self._end(fault.kind)
            case "kill in write" | "kill before sync" | "power loss" | "disk full":
                self.disk.arm(fault.kind, self.journal, values.get("bytes", 0))
                if fault.kind == "power loss":
                    self.after_end.append(fault)
            case "journal byte" | "journal truncated" | "journal missing" if process is not None:
                self.after_end.append(fault)
                self._end(fault.kind)
            case "read error" if process is not None:
                self._end(fault.kind)
                self.disk.arm(fault.kind, self.journal)
            case "publisher restart" if process is not None:
                process.restart_feed(self.now + self.clock_ns)
                self.truth.restarted_ms.add(process.host.now_ns // MILLISECOND)
                count[fault.kind] += 1
            case "gateway failover" if process is not None:
                process.host.control({"command": "failover"}, self.now + self.clock_ns)
                count[fault.kind] += 1
            case "clock step":
                self.clock_ns += values["ms"] * MILLISECOND
                count[fault.kind] += 1
            case "handler restart":
                self._restart_handlers(fault.number + 1)
                count[fault.kind] += 1
            case "site reset" if process is not None:
                assert process.second_site is not None
                now = max(self.now + self.clock_ns, process.host.now_ns)
                process.second_site.restart_alone(now)
                count[fault.kind] += 1

    def _restart_handlers(self, number: int) -> None:
        self._note_followers()
        self.binary = self._binary(number)
        self.legacy = LegacyFollower(self.truth, legacy_settings(sites=self._any("site reset")))
        self.binary.start(self.now)
        self.legacy.start(self.now)

    # Feeds

    def _publish(self, packets: list[OutgoingPacket]) -> None:
        """Send packets over all lines, and record the truth at the last of each feed."""
        process = self.process
        assert process is not None
        if not packets:
            return
        points: list[Any] = []
        for packet in packets:
            self.outcome.packets += 1
            if packet.legacy:
                self._send_legacy(packet)
                continue
            self._reference(packet)
            if packet.stream is Stream.INCREMENTAL:
                header = decode_header(packet.payload)
                if header.sequenced:
                    key = PacketKey(header.sequence_version, header.sequence_number)
                    points = [key, other_key(key)]
                for line in "AB":
                    self._send(line, packet.stream, self.now, packet.payload)
            else:
                line = _STREAM_LINES[packet.stream]
                self._send(line, packet.stream, self.now, packet.payload)
            if self.other_site is not None:
                payload = self.other_site.packet(packet.stream, packet.payload)
                self._send("C", packet.stream, self.now, payload)
        if process.second_site is not None:
            for stream, payload in process.second_site.take():
                line = "legacy B" if stream is Stream.INCREMENTAL else "legacy loops"
                self._send(line, stream, self.now, payload, "B")
        legacy = process.data.publisher.channels[51].legacy
        assert legacy is not None
        messages = [
            each.time_ns for each in packets if each.legacy and each.stream is Stream.INCREMENTAL
        ]
        if messages:
            points.append(legacy_point(legacy.writer.last_number, messages[-1]))
        self.truth.record(process.host.engine, points, max(each.time_ns for each in packets))

    def _reference(self, packet: OutgoingPacket) -> None:
        """Pass a packet to the handler that loses nothing."""
        reference = self.reference
        while (deadline := reference.deadline()) is not None and deadline <= self.now:
            reference.tick(deadline)
        reference.receive(packet.stream, "A", packet.payload, self.now)
        reference.take_actions()

    def _send_legacy(self, packet: OutgoingPacket) -> None:
        if packet.stream is not Stream.INCREMENTAL:
            self._send("legacy loops", packet.stream, self.now, packet.payload)
            return
        self._legacy_ns = packet.time_ns
        self._send("legacy A", packet.stream, self.now, packet.payload)
        if not self._any("site reset"):
            self._send("legacy B", packet.stream, self.now, packet.payload)

    def _send(self, line: str, stream: Stream, now_ns: int, payload: bytes, feed: str = "") -> None:
        if not feed:
            feed = "A" if line in ("snapshot", "definition", "legacy loops") else line[-1]
        injected = self.outcome.injected

        def count(kind: str) -> None:
            injected[kind] += 1

        for when, arrived in self.lines[line].arrivals(self.step, now_ns, payload, count):
            self._sent += 1
            heapq.heappush(self._arriving, (when, self._sent, line, stream, feed, arrived))

    def _arrive(self, now_ns: int) -> None:
        """Pass on what has arrived by now."""
        while self._arriving and self._arriving[0][0] <= now_ns:
            when, _, line, stream, feed, payload = heapq.heappop(self._arriving)
            self._digest.update(f"{when} {line} {len(payload)} ".encode() + payload)
            self.outcome.captured.append((when, f"{line} {stream.value}", payload))
            follower: Any = self.legacy if line.startswith("legacy") else self.binary
            follower.receive(when, stream, feed, payload)
        self.binary.advance(now_ns)
        self.legacy.advance(now_ns)

    # The end

    def _check(self) -> None:
        """All components agree."""
        process = self.process
        assert process is not None
        self.truth.record(process.host.engine, [], self.now)
        for trader in self.traders:
            self._check_trader(trader, process)
        for security_id in self.securities:
            book = self.reference.book(security_id)
            assert book.trusted, (security_id, book.state)
        self.binary.check_end(self.reference)
        self.legacy.check_end(self.reference)
        self._check_states(process)
        assert process.host.faults.count == 0, process.host.faults.notes
        self._check_journal(process)

    def _check_trader(self, trader: Trader, process: ExchangeProcess) -> None:
        """Every acknowledged order is in the engine once, and every report arrived in order."""
        session_id = trader.settings.session_id
        assert trader.established, session_id
        assert not trader.tracker.unanswered, (session_id, trader.tracker.unanswered)
        state = process.host.gateways[process.host.active][session_id].state
        assert len(trader.received) == state.next_outgoing - 1, session_id
        for number, name, data in trader.received:
            sent = state.sent[number]
            ours, theirs = (_values(trader.codec, each) for each in (data, sent))
            assert ours == theirs, (session_id, number, name)
        standing = {
            each.order_id: (each.security_id, each.leaves)
            for each in process.host.engine.market.orders.values()
            if each.session == session_id
        }
        working = {
            each.order_id: (each.security_id, each.leaves) for each in trader.tracker.working()
        }
        assert working == standing, session_id

    def _check_states(self, process: ExchangeProcess) -> None:
        """States of the feed equal the engine's."""
        phases = {each.group: each.phase.name for each in process.host.engine.group_phases()}
        for instrument in self.settings.instruments:
            own = process.host.engine.book(instrument.security_id).security_status.status
            expected = phases[instrument.security_group] if own is None else own.name
            assert self.reference.phases.status(instrument.security_id).name == expected

    def _check_journal(self, process: ExchangeProcess) -> None:
        """The journal makes the same exchange."""
        process.host.commit()
        state = whole_state(process.host)
        trial = self.folder / "trial"
        shutil.rmtree(trial, ignore_errors=True)
        shutil.copytree(self.journal, trial)
        journal = Journal(trial)
        host = ExchangeHost(self.settings, journal)
        host.replay()
        journal.close()
        assert whole_state(host) == state
        self._digest.update(journal_bytes(self.journal))

    def _note_followers(self) -> None:
        for follower in (self.binary, self.legacy):
            self.outcome.compared += follower.compared
        for line in self.legacy.log:
            self._digest.update(line.encode())

    def _note_end(self, process: ExchangeProcess) -> None:
        outcome = self.outcome
        outcome.published_trades += process.trades
        self.disk.injected.pop("session disk full", None)
        outcome.injected += self.disk.injected
        for trader in self.traders:
            outcome.requests += trader.requests
            outcome.reports += trader.days_reports + len(trader.received)
            for kind in ("wrong frame", "torn frame", "client kill", "session disk full"):
                outcome.injected[kind] += trader.counts[kind]
            trader.store.close()
        process.kill()
        outcome.injected = +outcome.injected
        outcome.trades = len(outcome.published_trades)
        outcome.virtual_s = (self.now - START) / SECOND
        outcome.truth = self.truth
        outcome.digest = self._digest.hexdigest()


def _values(codec: Any, data: bytes) -> Any:
    """The values of a message, without the mark of a retransmission."""
    frame = frame_of(data)
    values = dict(codec.decode(frame).values)
    header = {k: v for k, v in values["businessHeader"].items() if k != "eventIndicator"}
    return codec.name(frame), values | {"businessHeader": header}


def run_seed(seed: int, faults: list[Fault], folder: Path, days: int = 1) -> Outcome:
    """Run the market of a seed with these faults."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return Market(seed, faults, folder, days).run()
    except (AssertionError, PregaoError, ArithmeticError, LookupError, TypeError, ValueError,
            AttributeError, OSError, RuntimeError) as error:  # fmt: skip
        error.add_note(f"seed {seed}, {len(faults)} faults")
        raise
