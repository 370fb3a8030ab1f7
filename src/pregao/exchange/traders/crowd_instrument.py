"""State of one instrument's traders: its book, a fair value, and the orders they sent."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

from pregao.exchange.engine.book.listing import Listing
from pregao.exchange.engine.book.order_book import UNPRICED_KEY
from pregao.exchange.engine.model.enums import PRICE8_PER_PRICE
from pregao.exchange.traders.profiles import Profile

TABLE = 4096
"""Number of entries of each table."""
_MAX_RANGE = 0.06
"""Maximum distance of the fair value from its anchor, as a share of the price."""
_LEVELS = 17
"""Number of levels of each component of volatility; the middle one is the profile's."""
_CALM, _WILD = 16, 256
"""Decisions between two steps of the fast and of the slow component of volatility."""
_JUMPS = 0.01
_JUMP = 4.0
"""Share of the changes of the fair value that are jumps, and their size."""
_FULL_STEP_TICKS = 500
"""Number of ticks below which prices move less."""
_INERTIA = 0.75
"""Minimum distance in ticks from the fair value at which makers follow it."""
_FOLLOW = 0.2
"""That distance as a share of the half spread, in instruments with a wide one."""
_MEMORY = 0.2
"""Weight of an aggression in the expectation of the next one's sign."""
_TOUCH = 5.0
"""Mean distance of orders near the touch, relative to that of market makers' quotes."""
_FAR_POWER = 0.6
"""Inverse of the exponent of the power law of far distances."""
_TAKEN = 0.2
"""Square root of the size whose impact is that of the orders it takes, not of the makers."""
_MAX_SIZE = 16.0
"""Maximum size of an aggression, relative to the mean, that moves the fair value."""
_DEEPEST = 0.08
"""Maximum distance of orders from the fair value, as a share of the price."""
_NO_CLOSE_TICKS = 1000


class RandomTables:
    """Tables of random numbers: picking one costs less than drawing it."""

    def __init__(self, rng: Random, profile: Profile) -> None:
        prices, takers = profile.prices, profile.takers
        # Few orders are at the touch: the number per price first grows with the distance.
        self.near = [
            int(rng.expovariate(2 / prices.near) + rng.expovariate(2 / prices.near))
            for _ in range(TABLE)
        ]
        self.touch = [int(rng.expovariate(_TOUCH / prices.near)) for _ in range(TABLE)]
        """Distances of market makers' quotes."""
        self.far = [
            int(prices.near + prices.far * ((1.0 - rng.random()) ** -_FAR_POWER - 1.0))
            for _ in range(TABLE)
        ]
        self.around = [round(rng.gauss(0, prices.auction_reach / 2)) for _ in range(TABLE)]
        self.lots = rng.choices(
            profile.quantities.lots, weights=profile.quantities.weights, k=TABLE
        )
        self.mean_lots = sum(self.lots) / TABLE
        self.steps = [
            _portable(rng.gauss(0, _JUMP if rng.random() < _JUMPS else 1.0)) for _ in range(TABLE)
        ]
        """Changes of the fair value, in units of the volatility."""
        self.volatilities = [
            _portable(
                profile.fair_value.volatility
                * profile.fair_value.clustering ** (level - _LEVELS + 1)
            )
            for level in range(2 * _LEVELS)
        ]
        """Volatilities by the sum of the levels of the fast and the slow component."""
        self.parents = [
            min(int((1.0 - rng.random()) ** (-1 / takers.exponent)), takers.longest)
            for _ in range(TABLE)
        ]
        """Lengths of parent orders, in children: a power law."""


class CrowdInstrument:
    """Traders of one instrument. Prices are in ticks."""

    __slots__ = (
        "anchor",
        "bid_gap",
        "deepest",
        "expected",
        "fair",
        "fast",
        "follows",
        "impact",
        "inertia",
        "least",
        "listing",
        "live",
        "lot",
        "max_lots",
        "offer_gap",
        "parents",
        "provider",
        "quoted",
        "reach",
        "repricing",
        "scale",
        "security_id",
        "slow",
        "target",
        "tick",
        "unpriced",
        "value",
        "visits",
        "volatility",
        "waiting",
    )

    def __init__(self, listing: Listing, target: int, half_spread: float) -> None:
        instrument = listing.instrument
        self.listing = listing
        self.security_id = listing.security_id
        self.tick = listing.tick
        self.lot = listing.lot
        self.target = 2 * target
        """Target number of resting orders, both sides together."""
        # Half a tick to each side is a bid at the fair value and an offer one tick above.
        self.bid_gap = math.floor(half_spread)
        self.offer_gap = math.ceil(half_spread)
        self.live: list[int] = []
        """ClOrdIDs of orders sent, oldest first; some of the orders have ended."""
        self.waiting: list[int] = []
        """ClOrdIDs of stop and hidden orders, oldest first; some of them have ended."""
        self.provider = -1
        """Session that last provided liquidity to retail customers, or -1."""
        close8 = instrument.previous_close
        if close8 is None:
            self.anchor = 0 if instrument.allows_any_sign else _NO_CLOSE_TICKS
        else:
            self.anchor = close8 // PRICE8_PER_PRICE // self.tick
        self.least = -(1 << 40) if instrument.allows_any_sign else 1
        self.anchor = max(self.anchor, self.least)
        self.fair = self.anchor
        """Price that traders quote around."""
        self.value = float(self.anchor)
        """Latent fair value."""
        self.impact = 0.0
        """Part of the fair value that aggressions left, which relaxes."""
        self.expected = 0.0
        """Expected sign of the next aggression."""
        self.inertia = max(_INERTIA, _FOLLOW * half_spread)
        self.fast = self.slow = _LEVELS // 2
        self.visits = 0
        self.volatility = 0.0
        self.parents: list[int] = []
        """Children left of each parent order; negative of those that sell."""
        self.quoted: int | None = None
        """Fair value that all quotes follow; None if unknown."""
        self.repricing = False
        """Whether a reaction of the makers to a change of the fair value is planned."""
        self.follows: tuple[tuple[CrowdInstrument, int, float], ...] = ()
        """Instruments whose fair values give this one's: each with the value at this one's anchor,
        and the factor in its ticks."""
        self.unpriced = not listing.derivative
        """Whether orders without a price may be sent."""
        # Limits single orders, not the book: few orders have large sizes.
        self.max_lots = max(1, min(listing.max_qty // self.lot, 1_000_000))
        self._measure()

    def _measure(self) -> None:
        size = abs(self.anchor)
        self.reach = max(3, int(size * _MAX_RANGE))
        self.scale = min(1.0, size / _FULL_STEP_TICKS) if self.least > 0 else 1.0
        self.deepest = max(4, int(size * _DEEPEST))

    def move(self, tables: RandomTables, random: Callable[[], float], keep: float) -> None:
        """Move the fair value by the share of one decision; the quotes follow later.

        Volatility has a fast and a slow component. ``keep`` is the share of past impact that
        remains.
        """
        if self.follows:
            self._follow()
            return
        visits = self.visits
        self.visits = visits + 1
        if not visits % _CALM:
            self.fast = _walk(self.fast, random())
            if not visits % _WILD:
                self.slow = _walk(self.slow, random())
            self.volatility = self.scale * tables.volatilities[self.fast + self.slow]
        self.impact *= keep
        value = self.value + self.volatility * tables.steps[int(random() * TABLE)]
        away = value - self.anchor
        if abs(away) > self.reach:
            value = self.anchor + (self.reach if away > 0 else -self.reach)
        self.value = value
        self._round()

    def press(self, buy: bool, size: float, impact: float, permanent: float) -> None:
        """Move the fair value after an aggression, by the square root of its size.

        ``size`` is relative to the mean. Only the unexpected part of the sign moves it: the
        children of a long parent order are expected.
        """
        sign = 1.0 if buy else -1.0
        surprise = sign - self.expected
        self.expected += _MEMORY * surprise
        if self.follows:
            return
        size = max(math.sqrt(min(size, _MAX_SIZE)) - _TAKEN, 0.0)
        moved = impact * self.scale * surprise * size
        self.value += permanent * moved
        self.impact += (1.0 - permanent) * moved
        self._round()

    def _follow(self) -> None:
        """Set the fair value from those of the followed instruments."""
        value = float(self.anchor)
        for instrument, base, factor in self.follows:
            value += factor * (instrument.fair - base)
        self.value = value
        self._round()

    def _round(self) -> None:
        value = self.value + self.impact
        if abs(value - self.fair) > self.inertia:
            self.fair = max(self.least, round(value))

    def shock(self, percent: float) -> None:
        """Move the fair value and its anchor by a percentage."""
        if self.follows:
            self.follows[0][0].shock(percent)
            return
        size = max(abs(self.fair), 10)
        self.anchor = max(self.least, self.fair + round(size * percent / 100))
        self.fair = self.anchor
        self.value, self.impact = float(self.anchor), 0.0
        self._measure()

    def parent(self, tables: RandomTables, random: Callable[[], float], count: int) -> bool:
        """Return whether the next child buys: one of a random one of ``count`` parent orders."""
        parents = self.parents
        if not parents:
            parents += [0] * count
        index = int(random() * count)
        left = parents[index]
        if not left:
            left = tables.parents[int(random() * TABLE)]
            if random() < 0.5:
                left = -left
        parents[index] = left - 1 if left > 0 else left + 1
        return left > 0

    def resting(self) -> int:
        """Return the number of resting orders."""
        return self.listing.bids.count + self.listing.offers.count

    def best_bid(self) -> int | None:
        """Return the best bid in ticks, ignoring orders without a price."""
        keys = self.listing.bids.keys
        if not keys:
            return None
        key = keys[-1]
        if key == UNPRICED_KEY:
            if len(keys) == 1:
                return None
            key = keys[-2]
        return key // self.tick

    def best_offer(self) -> int | None:
        """Return the best offer in ticks, ignoring orders without a price."""
        keys = self.listing.offers.keys
        if not keys:
            return None
        key = keys[-1]
        if key == UNPRICED_KEY:
            if len(keys) == 1:
                return None
            key = keys[-2]
        return -key // self.tick

    def passive(self, buy: bool, distance: int) -> int | None:
        """Return a price at a distance behind the touch that does not trade, or None."""
        if distance > self.deepest:
            distance = distance % self.deepest
        listing = self.listing
        if buy:
            ticks = self.fair - self.bid_gap - distance
            offer = self.best_offer()
            if offer is not None and ticks >= offer:
                ticks = offer - 1
        else:
            ticks = self.fair + self.offer_gap + distance
            bid = self.best_bid()
            if bid is not None and ticks <= bid:
                ticks = bid + 1
        if ticks < self.least:
            ticks = self.least
            offer = self.best_offer()
            if not buy or (offer is not None and ticks >= offer):
                return None
        price = ticks * self.tick
        if listing.reject_low <= price <= listing.reject_high:
            return price
        return None

    def ahead(self, buy: bool) -> int | None:
        """Return a price one tick better than the best of a side that does not trade, or None."""
        bid, offer = self.best_bid(), self.best_offer()
        if bid is None or offer is None or offer - bid < 2:
            return None
        price = (bid + 1 if buy else offer - 1) * self.tick
        return price if self.listing.reject_low <= price <= self.listing.reject_high else None

    def crossing(self, offset: int) -> int | None:
        """Return a price around the fair value for an auction, or None."""
        ticks = max(self.least, self.fair + offset)
        price = ticks * self.tick
        listing = self.listing
        return price if listing.reject_low <= price <= listing.reject_high else None

    def quantity(self, lots: int) -> int:
        """Return a valid quantity of the instrument for a number of lots."""
        listing = self.listing
        max_lots = self.max_lots
        quantity = (lots if lots < max_lots else max_lots) * self.lot
        if quantity < listing.min_qty:
            quantity = -(-listing.min_qty // self.lot) * self.lot
        limit = listing.volume_limit
        if limit is not None and quantity > limit:
            quantity = max(self.lot, limit // self.lot * self.lot)
        return quantity


def _walk(level: int, draw: float) -> int:
    """Move a level of volatility by one step, more likely towards the middle."""
    return level + 1 if draw * (_LEVELS - 1) >= level else level - 1


def _portable(value: float) -> float:
    """Round away the digits in which mathematical libraries differ."""
    return round(value * 65536) / 65536
