"""Crowd of simulated traders on a running exchange: driven by the clock, without sessions."""

from __future__ import annotations

from typing import Final

from pregao.clock import DAY, Clock, system_clock
from pregao.exchange.engine.model.instruments import SecurityType
from pregao.exchange.host.server import ExchangeServer
from pregao.exchange.traders.arrivals import ActivitySpan, ArrivalProcess, SeededRandom
from pregao.exchange.traders.crowd import Crowd
from pregao.exchange.traders.profiles import Profile

_STEP_S: Final = 0.01
_MAX_BATCH: Final = 200
"""Maximum requests per step: a delayed process does not catch up completely."""
_LONG_NS: Final = 1000 * DAY


class CrowdRunner:
    """Runs a crowd that keeps the market moving while the exchange runs."""

    def __init__(
        self,
        server: ExchangeServer,
        profile: Profile,
        rate: float,
        *,
        seed: int = 1,
        fill: int = 2_000,
        clock: Clock = system_clock,
    ) -> None:
        """Create a crowd that sends ``fill`` requests at the start, then ``rate`` per second."""
        market = server.host.engine.market
        listings = [
            market.listings[instrument.security_id]
            for instrument in server.settings.instruments
            if instrument.security_type != SecurityType.INDEX
        ]
        self._server = server
        self._clock = clock
        self._fill = fill
        self._crowd = Crowd(market, listings, profile, seed, 10.0 * fill)
        now = clock()
        self._pace = ArrivalProcess(
            SeededRandom(seed, "pace"),
            profile.bursts,
            [ActivitySpan(now, now + _LONG_NS, 1.0)],
            rate,
            self._crowd.agenda.spontaneous,
        )
        self._own_ns: int | None = None
        self.requests = 0
        """Number of requests sent."""

    def begin(self) -> None:
        """Fill the books and start the timer; call it in the event loop of the exchange."""
        for _ in range(self._fill):
            self._act(self._clock())
        self._own_ns = self._pace.next_ns(self._clock())
        self._step()

    def _step(self) -> None:
        """Send the requests that have become due since the last step."""
        if self._server.stopped:
            return
        now = self._clock()
        for _ in range(_MAX_BATCH):
            planned = self._crowd.agenda.due_ns
            if self._own_ns is not None and self._own_ns <= now:
                self._own_ns = self._pace.next_ns(self._own_ns)
            elif planned is None or planned > now:
                break
            self._act(now)
        else:
            self._own_ns = self._pace.next_ns(now)
        self._server.later(_STEP_S, self._step)

    def _act(self, now_ns: int) -> None:
        command = self._crowd.next(now_ns, self._pace.burst)
        if command is not None:
            self.requests += 1
            self._server.enter(command)
