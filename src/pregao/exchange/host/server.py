"""Network server of an exchange: gateways, feed, control and metrics around a `ExchangeHost`."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import date
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from pregao.clock import MILLISECOND, SECOND, Clock, system_clock
from pregao.entrypoint.gateway_connection import GatewayConnection
from pregao.errors import PregaoError, UsageError
from pregao.exchange.engine.model.commands import Command
from pregao.exchange.engine.model.operations_commands import SetGroupPhase
from pregao.exchange.host.admin.commands import find_instrument, phase_request
from pregao.exchange.host.admin.control_server import ControlServer, cannot_listen
from pregao.exchange.host.admin.metrics import ServerCounters, pages
from pregao.exchange.host.gateway.tcp import GatewayListener, GatewayTransport, TrafficTap
from pregao.exchange.host.host import BACKUP, PRIMARY, ExchangeHost
from pregao.exchange.host.journal.journal import Journal
from pregao.exchange.host.market_data import FeedOutput, MarketData
from pregao.exchange.host.settings import ExchangeSettings
from pregao.exchange.publisher.channels import OutgoingPacket
from pregao.legacy.recovery import MessageStore
from pregao.net.addresses import Address
from pregao.net.http import HttpServer

_MAX_PAUSE_NS: Final = 50 * MILLISECOND

_log = logging.getLogger(__name__)


class ExchangeServer:
    """Runs an exchange in an event loop until it is stopped."""

    def __init__(
        self,
        settings: ExchangeSettings,
        *,
        journal: Path | None = None,
        capture: Callable[[ExchangeSettings], TrafficTap] | None = None,
        clock: Clock = system_clock,
    ) -> None:
        self.settings = settings
        self._clock = clock
        self._journal = None if journal is None else Journal(journal)
        self.host = ExchangeHost(settings, self._journal)
        self.counts = ServerCounters()
        self._lines: dict[GatewayConnection, GatewayTransport] = {}
        self._planned = False
        self._servers: list[asyncio.Server] = []
        self._plan: list[tuple[int, Mapping[str, Any]]] = []
        """Control requests of the schedule that are still to come, with their times."""
        self._tick: asyncio.TimerHandle | None = None
        self._tap = None if capture is None else capture(settings)
        self._http: HttpServer | None = None
        self._control: ControlServer | None = None
        self._output: FeedOutput | None = None
        self._market_data: MarketData | None = None
        self.addresses: dict[int, Address] = {}
        """Addresses of the gateways by number."""
        self.replayed = (0, 0.0)
        """Number of journal records replayed, and the seconds it took."""

    @property
    def legacy_store(self) -> MessageStore | None:
        """Messages of the legacy feed for TCP recovery; None before the start or without a feed."""
        return None if self._market_data is None else self._market_data.store

    # Start and stop

    async def start(self) -> None:
        """Replay the journal, then start serving."""
        self._loop = asyncio.get_running_loop()
        self._stopped: asyncio.Future[None] = self._loop.create_future()
        self._recover()
        now = self._clock()
        last = self.host.now_ns
        self.host.begin(now)
        self._begin_day(last, now)
        self.host.take_units()  # the feed starts with the full state
        self.host.commit()
        settings = self.settings
        if settings.feed != "none":
            self._output = FeedOutput(settings)
            self._begin_feed(now)
        await self._listen(PRIMARY, settings.primary)
        if settings.backup is not None:
            await self._listen(BACKUP, settings.backup)
        self._control = ControlServer(self, settings.control_token)
        await self._control.start(settings.control_port)
        if settings.metrics_port is not None:
            self._http = HttpServer(settings.metrics_port, pages(self))
        self._on_tick()

    def _begin_feed(self, now_ns: int) -> None:
        """Publish the full state in a new sequence version."""
        host = self.host
        self._market_data = MarketData(self.settings, host.engine, host.starts, now_ns)
        self._send(self._market_data.begin(now_ns))
        host.publish = self._market_data.stage

    def _restart_feed(self, now_ns: int) -> None:
        """Restart the feed after a failure of the publisher, as a new process would."""
        host = self.host
        host.publish = None
        self._market_data = None
        host.begin_again(now_ns)
        host.commit()
        try:
            self._begin_feed(now_ns)
        except Exception as error:
            host.faults.note("start of the feed", error)
            self._market_data = None

    def _recover(self) -> None:
        """Replay the journal, with the cyclic garbage collector disabled."""
        began = time.perf_counter()
        enabled = gc.isenabled()
        gc.disable()
        try:
            records = self.host.replay()
        finally:
            if enabled:
                gc.enable()
        self.replayed = (records, time.perf_counter() - began)
        if self._journal is not None and self._journal.torn:
            _log.warning(
                "set aside %s bytes of an incomplete write at the end of the journal; nothing that "
                "resulted from them was sent",
                self._journal.torn,
            )

    def _begin_day(self, last_ns: int, now_ns: int) -> None:
        """Start the trading day if it is later than that of the journal."""
        host, settings = self.host, self.settings
        today = settings.first_date
        last_date: date | None = host.engine.trade_date if host.starts > 1 else None
        if last_date is None or last_date < today:
            week = last_date is None or last_date.isocalendar()[:2] != today.isocalendar()[:2]
            host.control({"command": "day", "date": today.isoformat(), "week": week}, now_ns)
            last_ns = 0
            if settings.schedule is None:
                opening = {
                    "command": "phase",
                    "group": "all",
                    "phase": "OPEN",
                    "session": "REGULAR",
                }
                host.control({**opening, "new_session": True}, now_ns)
        if settings.schedule is not None:
            groups = list(host.engine.market.groups)
            planned = settings.schedule.commands(groups, host.engine.trade_date)
            latest: dict[str, SetGroupPhase] = {}
            for when, command in planned:
                if last_ns < when <= now_ns:
                    latest[command.group] = command
            for command in latest.values():
                host.control(phase_request(command), now_ns)
            operations = settings.schedule.requests(host.engine.trade_date)
            for when, request in operations:
                if last_ns < when <= now_ns:
                    self._planned_request(request, now_ns)
            timed = [(when, phase_request(command)) for when, command in planned]
            # At one time, a group changes its phase before operations take place.
            self._plan = sorted(
                (each for each in (*timed, *operations) if each[0] > now_ns), key=itemgetter(0)
            )

    async def _listen(self, gateway: int, address: Address) -> None:
        gate = GatewayListener(
            self.host,
            gateway,
            self._clock,
            self._lines,
            self.touch,
            self.fail,
            self.settings.max_unread_bytes,
            self._tap,
        )
        try:
            server = await self._loop.create_server(
                lambda: GatewayTransport(gate), address.host, address.port, backlog=1024
            )
        except OSError as error:
            raise cannot_listen(address, error) from error
        self._servers.append(server)
        self.addresses[gateway] = Address(*server.sockets[0].getsockname()[:2])

    async def serve(self) -> None:
        """Serve until `stop`; raise the error that stopped the exchange, if any."""
        await self._stopped

    def stop(self, error: Exception | None = None) -> None:
        """Make `serve` return, or raise the error."""
        if not self._stopped.done():
            if error is None:
                self._stopped.set_result(None)
            else:
                self._stopped.set_exception(error)

    async def close(self) -> None:
        """Terminate the client sessions, and release all resources."""
        for server in self._servers:
            server.close()
        if self._tick is not None:
            self._tick.cancel()
        failed = self._stopped.done() and self._stopped.exception() is not None
        now = self._clock()
        if not failed:
            for connection in list(self._lines):
                connection.terminate("UNSPECIFIED", now, "the exchange stops")
                self.host.talking.add(connection)
            self._turn()
            await asyncio.sleep(0)
        for line in list(self._lines.values()):
            line.drop()
        await asyncio.sleep(0)
        if self._control is not None:
            await self._control.close()
        if self._http is not None:
            self._http.close()
        if self._output is not None:
            self._output.close()
        if self._tap is not None:
            self._tap.close()
        if self._journal is not None:
            with suppress(UsageError):
                self._journal.close()

    # Loop iterations

    @property
    def stopped(self) -> bool:
        """Whether the exchange has been stopped."""
        return self._stopped.done()

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        """Call a function in the event loop of the exchange after a delay."""
        self._loop.call_later(seconds, act)

    def touch(self) -> None:
        """Schedule a commit and the sending of output at the end of this loop iteration."""
        if not self._planned:
            self._planned = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        """Commit the inputs of this iteration, then send the output."""
        self._planned = False
        if self._stopped.done() and self._stopped.exception() is not None:
            return
        try:
            self._commit_and_publish()
        except Exception as error:
            self.fail(error)

    def _commit_and_publish(self) -> None:
        host = self.host
        host.commit()
        self.counts.turns += 1
        talking, host.talking = host.talking, set()
        for connection in talking:
            line = self._lines.get(connection)
            if line is not None:
                try:
                    line.flush()
                except Exception as error:
                    host.faults.note("output to a client", error)
                    line.drop()
                self.counts.slow_readers += line.too_slow
        dropped, host.dropped = host.dropped, []
        for connection in dropped:
            line = self._lines.get(connection)
            if line is not None:
                line.drop()
        host.take_units()  # discards the events of an exchange without a feed
        data = self._market_data
        if data is not None and data.failed:
            self._restart_feed(host.now_ns)
        elif data is not None and data.staged:
            self._send(data.flush(host.now_ns))
        if host.holding:
            self._hurry()

    def _hurry(self) -> None:
        """Move the timer forward if a request leaves the risk engine earlier."""
        due = self.host.next_due_ns
        if due is None or self._tick is None:
            return
        delay = max(0.0, (due - self._clock()) / SECOND)
        if self._loop.time() + delay < self._tick.when():
            self._tick.cancel()
            self._tick = self._loop.call_later(delay, self._on_tick)

    def fail(self, error: Exception) -> None:
        """Stop: an exchange that cannot write its journal or is inconsistent must not continue."""
        if not isinstance(error, PregaoError):
            _log.error("exchange stops after a failure: %s: %s", type(error).__name__, error)
        self.stop(error)

    def _send(self, datagrams: list[Any]) -> None:
        if self._output is not None:
            self._output.send(datagrams)
        if self._tap is not None:
            self._tap.published(datagrams)

    def _on_tick(self) -> None:
        """Run everything that is due, and set the timer for the next deadline."""
        if self._stopped.done():
            return
        now = self._clock()
        host, data = self.host, self._market_data
        try:
            while self._plan and self._plan[0][0] <= now:
                self._planned_request(self._plan.pop(0)[1], now)
                self.touch()
            due = host.next_due_ns
            if due is not None and due <= now:
                host.advance(now)
                self.touch()
            following = now + _MAX_PAUSE_NS
            if data is not None:
                self._send(self._due(data, max(now, host.now_ns)))
                following = min(following, data.next_due_ns)
        except Exception as error:
            self.fail(error)
            return
        due = host.next_due_ns
        if due is not None:
            following = min(following, due)
        delay = max(0.001, (following - self._clock()) / SECOND)
        self._tick = self._loop.call_later(delay, self._on_tick)

    def _planned_request(self, request: Mapping[str, Any], now_ns: int) -> None:
        """Apply a scheduled change of phase or operation."""
        try:
            self.host.control(request, now_ns)
        except UsageError as error:
            what = request.get("phase") or request.get("symbol") or ""
            self.host.faults.note(f"scheduled {request['command']} {what}".rstrip(), error)

    def _due(self, data: MarketData, now_ns: int) -> list[OutgoingPacket]:
        """Return the packets that are due; a feed that fails restarts in the next iteration."""
        try:
            return data.advance(now_ns)
        except Exception as error:
            self.host.faults.note("advance of the feed", error)
            self.touch()
            return []

    # Control and metrics

    def control(self, request: dict[str, Any]) -> dict[str, Any]:
        """Apply a request of market operations, and commit it before it is answered."""
        if request == {"command": "status"}:
            return self.status()
        self.host.control(request, self._clock())
        answer = {"done": request.get("command")}
        if answer["done"] == "trade":
            # The ID by which it can be amended or busted; the next turn may make other trades.
            security_id = find_instrument(self.host.engine, request["symbol"]).security_id
            answer["trade"] = self.host.engine.market.listing(security_id).trade_id
        self._turn()
        if self._stopped.done() and (error := self._stopped.exception()) is not None:
            raise UsageError(f"the command was not journaled and has no effect: {error}")
        return answer

    def enter(self, command: Command) -> None:
        """Apply a command of a trader without a session; not possible with a journal."""
        if self._journal is not None:
            raise UsageError("An exchange with a journal accepts orders only from its sessions.")
        self.host.enter(command, self._clock())
        self.touch()

    def status(self) -> dict[str, Any]:
        """Return the status of the exchange."""
        host = self.host
        sessions = [
            {
                "session": session.session_id,
                "firm": session.account.firm,
                "connected": session.connection is not None,
                "next_incoming": session.state.next_incoming,
                "next_outgoing": session.state.next_outgoing,
            }
            for session in host.gateways[host.active]
        ]
        phases = {each.group: each.phase.name for each in host.engine.group_phases()}
        return {
            "trade_date": host.engine.trade_date.isoformat(),
            "gateway": "primary" if host.active == PRIMARY else "backup",
            "starts": host.starts,
            "requests": host.requests,
            "orders": len(host.engine.market.orders),
            "connections": len(self._lines),
            "phases": phases,
            "blacklist": sorted(
                host.engine.market.listings[each].instrument.symbol
                for each in host.engine.market.no_legs & host.engine.market.listings.keys()
            ),
            "give_ups": [
                {"id": number, **each._asdict()}
                for number, each in host.engine.market.give_ups.items()
            ],
            "sessions": sessions,
            "failures": host.faults.count,
            "set_aside": [each._asdict() for each in host.faults.skipped_records.values()],
        }

    @property
    def control_port(self) -> int:
        """Port of the control endpoint."""
        assert self._control is not None
        return self._control.port

    @property
    def metrics_port(self) -> int | None:
        """Port of the metrics, or None."""
        return None if self._http is None else self._http.port

    @property
    def journal(self) -> Journal | None:
        """The journal, or None."""
        return self._journal

    @property
    def output(self) -> FeedOutput | None:
        """Sender of the feed, or None."""
        return self._output

    @property
    def connections(self) -> int:
        """Number of connected clients."""
        return len(self._lines)
