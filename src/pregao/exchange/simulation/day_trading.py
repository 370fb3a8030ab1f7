"""Trading of a simulated day: traders, engine and market operations on a virtual clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from heapq import heappop, heappush
from typing import NamedTuple, Protocol

from pregao.clock import MILLISECOND, VirtualClock
from pregao.errors import UsageError
from pregao.exchange.engine.engine import MatchingEngine
from pregao.exchange.engine.model.commands import Command
from pregao.exchange.engine.model.events import MarketEvent
from pregao.exchange.engine.model.instruments import Instrument, SecurityType
from pregao.exchange.engine.model.operations_commands import (
    AdvanceTime,
    ResetChannel,
    ResetStream,
    StartDay,
)
from pregao.exchange.publisher.encoding.orders import has_positions
from pregao.exchange.simulation.settings import MAX_RATE, ResetKind, SimulationSettings, moment_ns
from pregao.exchange.simulation.timetable import Timetable, shortened
from pregao.exchange.simulation.truth import TruthBook, truth_book
from pregao.exchange.traders.arrivals import ArrivalProcess, SeededRandom, curve_seconds, day_curve
from pregao.exchange.traders.crowd import Crowd
from pregao.exchange.traders.market_operations import MarketOperations
from pregao.exchange.traders.profiles import Profile

_TICKS = 200
"""Number of times in a run that its progress is reported and its pace adjusted."""
_BURSTS_PER_RUN = 100
"""The mean burst lasts at most this fraction (1/100) of a run."""
_TRADE_MEMORY = 10_000
"""Number of recent trades the engine remembers: only these are busted or amended."""
_MARGIN = 1.01
"""Factor by which a run aims above its number of messages, so that it reaches it."""
_WARM_UP_ORDERS = 500
_MAX_GAIN = 4.0
"""Maximum factor by which the pace exceeds its mean to catch up."""
_MIN_DELAY_NS, _DELAY_NS = 6_000, 6_000
"""Delay from an event (T5) to its sending (T10): the minimum, and the mean on top of it."""
_DELAYS = 4096


class TradingListener(Protocol):
    """Listener that receives the events of the market in order of time."""

    def begin(self, now_ns: int) -> None:
        """Handle the start of the system."""

    def publish(
        self, units: Sequence[MarketEvent], now_ns: int, security_id: int | None = None
    ) -> None:
        """Publish the events of one command.

        With a `security_id` they result from a request about that instrument, and concern only
        the instrument's channel.
        """

    def book(self, book: TruthBook) -> None:
        """Handle the state of a book after all events published so far."""

    def progress(self, done: float) -> None:
        """Handle the completed share of the run (0 to 1)."""

    def messages(self) -> int:
        """Return the number of incremental messages published so far."""

    def end(self, now_ns: int) -> None:
        """Handle the end of the run: no further events follow."""


class TradingTotals(NamedTuple):
    """Totals of a day's trading."""

    end_ns: int
    orders: int
    """Requests sent by members: new orders, modifications, cancels, crosses."""
    bursts: int


class DayTrading:
    """A market and its traders, for one day."""

    def __init__(
        self,
        settings: SimulationSettings,
        profile: Profile,
        instruments: Sequence[Instrument],
        day: Timetable,
    ) -> None:
        self.settings = settings
        self.profile = profile
        self.day = day
        self.clock = VirtualClock(day.start_ns)
        self.engine = MatchingEngine(
            instruments,
            settings.trade_date,
            reports=False,
            auction_duration_ns=day.auction_duration_ns,
            trade_memory=_TRADE_MEMORY,
            seed=settings.seed,
            auction_rules=shortened(profile.auction_ends, day),
            keeps_numbers=has_positions(settings.schema_version),
            implied_orders=True,
        )
        market = self._market = self.engine.market
        self._routed = all(
            leg.listing.instrument.channel == spread.listing.instrument.channel
            for spread in market.spreads.values()
            for leg in spread.legs
        )
        """Whether the events of a request concern only the channel of its instrument."""
        curve = day_curve(day.phases, profile.activity.day, profile.activity.auction)
        # In a run of seconds, a burst of ordinary length would fill the run.
        longest_ms = settings.duration_ns / MILLISECOND / _BURSTS_PER_RUN
        bursts = replace(profile.bursts, length_ms=min(profile.bursts.length_ms, longest_ms))
        traded = [
            market.listings[instrument.security_id]
            for instrument in instruments
            if instrument.security_type != SecurityType.INDEX
        ]
        mean = self._mean(seconds := curve_seconds(curve, day.start_ns))
        self._seconds = seconds
        self.expected_orders = mean * seconds
        self.crowd = Crowd(market, traded, profile, settings.seed, self.expected_orders)
        spontaneous = self.crowd.agenda.spontaneous
        self.pace = ArrivalProcess(
            SeededRandom(settings.seed, "pace"), bursts, curve, mean, spontaneous
        )
        self.operations = MarketOperations(
            market, self.crowd, self.pace, profile, settings.seed, *day.tradable_ns
        )
        self._orders = 0
        self._wanted = 0.0
        """Orders that the pace was set for so far."""
        self._left_s = seconds
        """Rest of the day's curve at the last look, in seconds at the mean rate."""
        draws = self._delay_draws = SeededRandom(settings.seed, "publishing")
        self._delays = [
            _MIN_DELAY_NS + int(draws.expovariate(1 / _DELAY_NS)) for _ in range(_DELAYS)
        ]
        self._sent_ns = day.start_ns
        self._timeline: list[tuple[int, int, Callable[[], None]]] = []
        self._check_in = 0
        self._done = False
        self._listener: TradingListener
        self._plan(sorted({instrument.channel for instrument in instruments}))

    def _mean(self, seconds: float) -> float:
        """Return the mean orders per second: the given rate, or what `messages` requires."""
        settings = self.settings
        if settings.rate is not None:
            return settings.rate
        if settings.messages is None:
            return self.profile.rate
        mean = settings.messages * _MARGIN / self.profile.messages_per_order / seconds
        if mean > MAX_RATE:
            raise UsageError(
                f"--messages: {settings.messages} messages need more than {MAX_RATE:g} orders "
                "per second in this run: choose a longer --duration or fewer messages"
            )
        return mean

    # Timeline

    def _plan(self, channels: Sequence[int]) -> None:
        """Put everything known in advance on the timeline."""
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
            when = moment_ns("--reset-at", reset.moment, day.midnight_ns, day.start_ns, day.end_ns)
            for number in channels:
                plan(when, partial(self._apply, kind(number)))
        # The day's closing data is final only when no orders can arrive.
        plan(day.tradable_ns[1] + 1, self._close)
        for number in range(1, settings.truth_books):
            plan(
                day.start_ns + settings.duration_ns * number // settings.truth_books,
                partial(self._report_books, final=False),
            )
        for number in range(1, _TICKS):
            plan(day.start_ns + settings.duration_ns * number // _TICKS, self._tick)

    def _limit(self) -> int:
        """Return the time until which only orders happen."""
        limit = self.day.end_ns
        if self._timeline:
            limit = min(limit, self._timeline[0][0])
        planned = self.operations.next_ns
        return limit if planned is None else min(limit, planned)

    # The run

    def run(self, audience: TradingListener) -> TradingTotals:
        """Run the day and pass its events to the audience."""
        self._listener = audience
        audience.begin(self.clock.now_ns)
        self._apply(StartDay(self.settings.trade_date))
        for command in self.operations.opening():
            self._apply(command)
        while not self._done and self.clock.now_ns < self.day.end_ns:
            self._trade_until(self._limit())
            self._keep_house()
        audience.end(max(self._sent_ns, self.clock.now_ns))
        self._report_books(final=True)
        return TradingTotals(self.clock.now_ns, self._orders, self.pace.bursts)

    def _trade_until(self, limit_ns: int) -> None:
        """Process members' requests until a time, or until there are enough messages."""
        now = self.clock.now_ns
        market, engine, pace = self._market, self.engine, self.pace
        apply, next_ns, next_command, publish = (
            engine.apply,
            pace.next_ns,
            self.crowd.next,
            self._listener.publish,
        )
        routed = self._routed
        delays, drawn = self._delays, self._delay_draws.random
        agenda = self.crowd.agenda
        orders, last_sent = 0, self._sent_ns
        spontaneous_ns, changes = next_ns(now), pace.changes
        while True:
            # A drawn time is valid until it is reached or the rate changes.
            if spontaneous_ns is not None and (spontaneous_ns <= now or changes != pace.changes):
                spontaneous_ns, changes = next_ns(now), pace.changes
            when, planned = spontaneous_ns, agenda.due_ns
            if planned is not None and (when is None or planned < when):
                when = planned if planned > now else now
            due = market.next_due_ns
            if due is not None and due < limit_ns and (when is None or due <= when):
                # An auction triggered by a price band ends on a timer.
                now = self.clock.advance_to(due)
                self._sent_ns = last_sent
                self._apply(AdvanceTime())
                last_sent = self._sent_ns
                spontaneous_ns = next_ns(now)
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
            publish(units, sent, command.security_id if routed else None)
            self._check_in -= 1
            if self._check_in < 0 and self._has_enough():
                self.clock.advance_to(now)
                break
        self._sent_ns = last_sent
        self._orders += orders

    def _has_enough(self) -> bool:
        """Whether the run has its number of messages; also schedules the next check."""
        wanted = self.settings.messages
        if wanted is None:
            self._check_in = 1 << 30
            return False
        left = wanted - self._listener.messages()
        self._check_in = left // 32
        self._done = left <= 0
        return self._done

    def _keep_house(self) -> None:
        """Run the timeline entries and market operations that are due now."""
        now = self.clock.now_ns
        if self._done:
            return
        while self._timeline and self._timeline[0][0] <= now:
            heappop(self._timeline)[2]()
        for command in self.operations.due(now):
            self._apply(command)

    def _apply(self, command: Command) -> None:
        """Apply a command of the exchange itself, which may concern any channel."""
        now = self.clock.now_ns
        units = self.engine.apply(command, now).market
        self._sent_ns = max(self._sent_ns, now)
        self._listener.publish(units, self._sent_ns)

    def _close(self) -> None:
        """Publish the data that follows the close."""
        for command in self.operations.closing():
            self._apply(command)

    def _tick(self) -> None:
        """Report progress, and adjust the pace to reach the requested number of messages."""
        settings, now = self.settings, self.clock.now_ns
        done = (now - self.day.start_ns) / settings.duration_ns
        if settings.messages is not None:
            messages = self._listener.messages()
            done = max(done, min(messages / settings.messages, 1.0))
        seconds = self.pace.remaining(now)
        self._wanted += self.pace.mean * (self._left_s - seconds)
        self._left_s = seconds
        if self._orders >= _WARM_UP_ORDERS and seconds > 0:
            left = self.expected_orders - self._orders
            if settings.messages is not None and settings.rate is None:
                left = (settings.messages * _MARGIN - messages) * self._orders / messages
            # Reactions and quotes that follow the price make more or fewer orders than expected.
            gain = self._orders / max(self._wanted, 1.0)
            highest = _MAX_GAIN * self.expected_orders / self._seconds
            mean = min(left / seconds / gain, highest, MAX_RATE)
            if mean > 0:
                self.pace.set_mean(mean)
        self._listener.progress(done)

    def _report_books(self, final: bool) -> None:
        """Report the state of every instrument to the audience."""
        now = self.clock.now_ns
        for listing in self._market.listings.values():
            self._listener.book(truth_book(listing, now, final))
