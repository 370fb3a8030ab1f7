"""A whole market on a virtual clock: traders, engine and publisher, written as captures."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from heapq import heappop, heappush

from pregao.clock import MILLISECOND, MINUTE, VirtualClock
from pregao.errors import UsageError
from pregao.exchange.engine.commands import (
    AdvanceTime,
    Command,
    ResetChannel,
    ResetStream,
    StartDay,
)
from pregao.exchange.engine.engine import Engine
from pregao.exchange.engine.events import SecurityDefinition
from pregao.exchange.engine.instruments import SecurityType
from pregao.exchange.engine.schedule import default_schedule, load_schedule
from pregao.exchange.publisher.channels import Channel, Datagram
from pregao.exchange.publisher.encoding.orders import tells_places
from pregao.exchange.publisher.loops import LoopPace
from pregao.exchange.publisher.publisher import ChannelPublisher, Publisher
from pregao.exchange.simulation.captures import ChannelCaptures, prepare_folder
from pregao.exchange.simulation.day import plan_day, shortened
from pregao.exchange.simulation.instruments import choose_instruments
from pregao.exchange.simulation.settings import MOST_RATE, Moment, ResetKind, Settings, moment_ns
from pregao.exchange.simulation.summary import Summary, describe, faults_of
from pregao.exchange.simulation.truth import TruthWriter
from pregao.exchange.traders.crowd import Crowd
from pregao.exchange.traders.draws import Draws
from pregao.exchange.traders.operations import Operations
from pregao.exchange.traders.pace import Pace, curve_seconds, day_curve
from pregao.exchange.traders.profiles import load_profile

DEFAULT_INSTRUMENTS = 40
_TICKS = 200
"""So many times in a run its progress is told and its pace is set."""
_SNAPSHOT_LOOPS = 40
"""About so many times in a run each snapshot and definition loop begins."""
_LOOP_PACKETS_PER_SECOND = 1000
_SHORTEST_PAUSE_NS = 20 * MILLISECOND
_LONGEST_PAUSE_NS = MINUTE
_BURSTS_PER_RUN = 100
"""A burst takes at most so small a part of a run in the mean."""
_TRADE_MEMORY = 10_000
"""Only recent trades are busted or amended: the others need not be remembered."""
_MARGIN = 1.01
"""A run that is to have so many messages aims a little above, so that it gets there."""
_WARM_UP_ORDERS = 500
_LEAST_DELAY_NS, _DELAY_NS = 6_000, 6_000
"""What has happened (T5) is sent (T10) at least so much later, and so much more in the mean."""
_DELAYS = 4096

Progress = Callable[[float, int], None]
"""Told now and then: how much of the run is over (0 to 1), and the messages so far."""


@contextmanager
def _no_cycle_collection() -> Iterator[None]:
    """Keep the collector of cycles from walking all resting orders again and again.

    Orders and events make no cycles: memory stays flat without it, and a run is a tenth faster.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            # Else all that came meanwhile would be taken for new, and walked at once.
            gc.freeze()
            gc.enable()
            gc.unfreeze()


class Simulation:
    """One run: settings in, captures and the truth about them in a folder."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        profile = self.profile = load_profile(settings.profile)
        self.instruments = choose_instruments(
            profile, settings.instruments, settings.instruments_file, DEFAULT_INSTRUMENTS
        )
        schedule = (
            default_schedule(self.instruments)
            if settings.schedule_file is None
            else load_schedule(settings.schedule_file)
        )
        day = self.day = plan_day(
            schedule, self.instruments, settings.trade_date, settings.duration_ns
        )
        self.capture_from_ns = day.start_ns
        if settings.late_join is not None:
            self.capture_from_ns = self._moment_ns("--late-join", settings.late_join)
        self.clock = VirtualClock(day.start_ns)
        self.engine = Engine(
            self.instruments,
            settings.trade_date,
            reports=False,
            auction_duration_ns=day.auction_duration_ns,
            trade_memory=_TRADE_MEMORY,
            seed=settings.seed,
            auction_rules=shortened(profile.auction_ends, day),
            keeps_numbers=tells_places(settings.schema_version),
        )
        market = self._market = self.engine.market
        pause = settings.duration_ns // _SNAPSHOT_LOOPS
        loops = LoopPace(
            _LOOP_PACKETS_PER_SECOND, min(max(pause, _SHORTEST_PAUSE_NS), _LONGEST_PAUSE_NS)
        )
        numbers = sorted({instrument.channel for instrument in self.instruments})
        self.publisher = Publisher(
            [Channel.numbered(number) for number in numbers],
            self.instruments,
            day.start_ns,
            schema_version=settings.schema_version,
            snapshot_pace=loops,
            definition_pace=loops,
            legacy=settings.legacy is not None,
            legacy_depth=None if settings.legacy is None else settings.legacy.market_depth,
        )
        curve = day_curve(day.phases, profile.activity.day, profile.activity.auction)
        # In a run of seconds a burst of ordinary length would be all there is.
        longest_ms = settings.duration_ns / MILLISECOND / _BURSTS_PER_RUN
        bursts = replace(profile.bursts, length_ms=min(profile.bursts.length_ms, longest_ms))
        traded = [
            market.listings[instrument.security_id]
            for instrument in self.instruments
            if instrument.security_type != SecurityType.INDEX
        ]
        mean = self._mean(seconds := curve_seconds(curve, day.start_ns))
        self.crowd = Crowd(market, traded, profile, settings.seed, mean * seconds)
        spontaneous = self.crowd.agenda.spontaneous
        self.pace = Pace(Draws(settings.seed, "pace"), bursts, curve, mean, spontaneous)
        self.operations = Operations(
            market, self.crowd, self.pace, profile, settings.seed, *day.tradable_ns
        )
        self.orders = 0
        """Requests that members sent: orders, changes, cancels, crosses."""
        draws = self._delay_draws = Draws(settings.seed, "publishing")
        self._delays = [
            _LEAST_DELAY_NS + int(draws.expovariate(1 / _DELAY_NS)) for _ in range(_DELAYS)
        ]
        self._sent_ns = day.start_ns
        self._timeline: list[tuple[int, int, Callable[[], None]]] = []
        self._check_in = 0
        self._done = False
        self._plan()

    def _moment_ns(self, option: str, moment: Moment) -> int:
        day = self.day
        return moment_ns(option, moment, day.midnight_ns, day.start_ns, day.end_ns)

    def _mean(self, seconds: float) -> float:
        """Orders a second that give the wanted rate, or in so many seconds the wanted messages."""
        settings = self.settings
        if settings.rate is not None:
            return settings.rate
        if settings.messages is None:
            return self.profile.rate
        mean = settings.messages * _MARGIN / self.profile.messages_per_order / seconds
        if mean > MOST_RATE:
            raise UsageError(
                f"--messages: {settings.messages} messages do not fit into so short a run: "
                "give a longer --duration"
            )
        return mean

    # What happens when

    def _plan(self) -> None:
        """Put all that is known beforehand on the timeline."""
        day, settings = self.day, self.settings
        numbered = 0

        def plan(when_ns: int, act: Callable[[], None]) -> None:
            nonlocal numbered
            heappush(self._timeline, (when_ns, numbered, act))
            numbered += 1

        for when, command in day.commands:
            plan(when, partial(self._apply, command))
        for reset in settings.resets:
            kind = ResetChannel if reset.kind == ResetKind.CHANNEL else ResetStream
            when = self._moment_ns("--reset-at", reset.moment)
            for number in self.publisher.channels:
                plan(when, partial(self._apply, kind(number)))
        # What the day comes to is known after the close, when no orders can come any more.
        plan(day.tradable_ns[1] + 1, self._close)
        for number in range(1, settings.books):
            plan(
                day.start_ns + settings.duration_ns * number // settings.books,
                partial(self._write_books, final=False),
            )
        for number in range(1, _TICKS):
            plan(day.start_ns + settings.duration_ns * number // _TICKS, self._tick)

    def _limit(self) -> int:
        """Until when nothing but orders happens."""
        limit = self.day.end_ns
        if self._timeline:
            limit = min(limit, self._timeline[0][0])
        planned = self.operations.next_ns
        return limit if planned is None else min(limit, planned)

    # The run

    def run(self, progress: Progress | None = None) -> Summary:
        """Simulate the day and write everything down."""
        try:
            return self._run(progress)
        except OSError as error:
            where = error.filename or self.settings.out
            raise UsageError(f"{where}: cannot be written: {error.strerror}") from error

    def _run(self, progress: Progress | None) -> Summary:
        settings, day = self.settings, self.day
        self._progress = progress
        folder = prepare_folder(settings.out, settings.force)
        with ExitStack() as opened:
            self._captures: dict[int, ChannelCaptures] = {}
            for number, channel in self.publisher.channels.items():
                self._captures[number] = opened.enter_context(
                    ChannelCaptures(
                        settings.out,
                        channel.channel,
                        settings.compression.ending,
                        settings.faults,
                        settings.seed,
                        self.capture_from_ns,
                        legacy=settings.legacy is not None,
                    )
                )
            truth = self._truth = TruthWriter(folder)
            opened.callback(truth.close)
            self._routes: dict[int, tuple[ChannelPublisher, ChannelCaptures]] = {}
            for instrument in self.instruments:
                truth.know(instrument)
                self._routes[instrument.security_id] = (
                    self.publisher.channels[instrument.channel],
                    self._captures[instrument.channel],
                )
            opened.enter_context(_no_cycle_collection())
            self._begin()
            while not self._done and self.clock.now_ns < day.end_ns:
                self._trade_until(self._limit())
                self._keep_house()
            self._send(self.publisher.advance(max(self._sent_ns, self.clock.now_ns)))
            self._write_books(final=True)
        summary = describe(self, truth, self._captures)
        truth.finish(faults_of(settings, self._captures), summary.data)
        if progress is not None:
            progress(1.0, self.publisher.messages)
        return summary

    def _begin(self) -> None:
        """Start the system and the day."""
        self._send(self.publisher.initialize(self.clock.now_ns))
        self._apply(StartDay(self.settings.trade_date))
        for command in self.operations.opening():
            self._apply(command)

    def _trade_until(self, limit_ns: int) -> None:
        """Let members trade until a time, or until there are messages enough."""
        now = self.clock.now_ns
        market, engine, truth, pace = self._market, self.engine, self._truth, self.pace
        apply, next_ns, next_command, routes = (
            engine.apply,
            pace.next_ns,
            self.crowd.next,
            self._routes,
        )
        delays, drawn = self._delays, self._delay_draws.random
        agenda = self.crowd.agenda
        orders, last_sent = 0, self._sent_ns
        own, changes = next_ns(now), pace.changes
        while True:
            # Times that were drawn hold until they have come, or the rate is changed.
            if own is not None and (own <= now or changes != pace.changes):
                own, changes = next_ns(now), pace.changes
            when, planned = own, agenda.due_ns
            if planned is not None and (when is None or planned < when):
                when = planned if planned > now else now
            due = market.next_due_ns
            if due is not None and due < limit_ns and (when is None or due <= when):
                # An auction that a band called ends by itself.
                now = self.clock.advance_to(due)
                self._sent_ns = last_sent
                self._apply(AdvanceTime())
                last_sent = self._sent_ns
                own = next_ns(now)
                continue
            if when is None or when >= limit_ns:
                self.clock.advance_to(limit_ns)
                break
            now = when
            command = next_command(now, pace.burst)
            if command is None:
                continue
            orders += 1
            units = apply(command, now).market
            if not units:
                continue
            sent = now + delays[int(drawn() * _DELAYS)]
            if sent < last_sent:
                sent = last_sent
            last_sent = sent
            security_id = command.security_id
            if security_id is None:
                self._send(self.publisher.publish(units, sent))
            else:
                channel, captures = routes[security_id]
                packets = channel.packets(units, sent)
                if packets is None:
                    captures.send(channel.publish(units, sent))
                else:
                    captures.send_incremental(sent, packets)
            if len(units) > 1 or len(units[0].items) > 1:
                truth.publish(units)
            self._check_in -= 1
            if self._check_in < 0 and self._has_enough():
                self.clock.advance_to(now)
                break
        self._sent_ns = last_sent
        self.orders += orders

    def _has_enough(self) -> bool:
        """Are there as many messages as were wanted? It is asked again as soon as they may be."""
        wanted = self.settings.messages
        if wanted is None:
            self._check_in = 1 << 30
            return False
        left = wanted - self.publisher.messages
        self._check_in = left // 32
        self._done = left <= 0
        return self._done

    def _keep_house(self) -> None:
        """Do what is due now besides trading."""
        now = self.clock.now_ns
        if self._done:
            return
        while self._timeline and self._timeline[0][0] <= now:
            heappop(self._timeline)[2]()
        for command in self.operations.due(now):
            self._apply(command)

    def _apply(self, command: Command) -> None:
        """Carry out a command of the exchange itself, which may concern any channel."""
        now = self.clock.now_ns
        units = self.engine.apply(command, now).market
        for unit in units:
            for item in unit.items:
                if isinstance(item, SecurityDefinition):
                    self._truth.know(item.instrument)
        self._sent_ns = max(self._sent_ns, now)
        self._send(self.publisher.publish(units, self._sent_ns))
        self._truth.publish(units)

    def _send(self, datagrams: Iterable[Datagram]) -> None:
        for datagram in datagrams:
            self._captures[datagram.channel].send((datagram,))

    def _close(self) -> None:
        """Publish what is known after the close."""
        for command in self.operations.closing():
            self._apply(command)

    def _tick(self) -> None:
        """Tell how far the run is, and keep it on course for the number of messages wanted."""
        settings, now = self.settings, self.clock.now_ns
        messages = self.publisher.messages
        done = (now - self.day.start_ns) / settings.duration_ns
        if settings.messages is not None:
            done = max(done, min(messages / settings.messages, 1.0))
            if settings.rate is None and self.orders >= _WARM_UP_ORDERS:
                left = settings.messages * _MARGIN - messages
                seconds = self.pace.remaining(now)
                if left > 0 and seconds > 0:
                    mean = left * self.orders / messages / seconds
                    self.pace.set_mean(min(mean, MOST_RATE))
        if self._progress is not None:
            self._progress(done, messages)

    def _write_books(self, final: bool) -> None:
        """Write down how every instrument is now."""
        now = self.clock.now_ns
        for listing in self._market.listings.values():
            channel = self.publisher.channels[listing.instrument.channel]
            self._truth.book(
                listing,
                sequence_version=channel.incremental.sequence_version,
                sequence_number=channel.incremental.last_number,
                rpt_seq=channel.state.instruments[listing.security_id].rpt_seq,
                time_ns=now,
                final=final,
            )
