"""State of one instrument's traders: its book, a fair value, and the orders they sent."""

from __future__ import annotations

import math
from random import Random

from pregao.exchange.engine.book.listing import Listing
from pregao.exchange.engine.book.order_book import UNPRICED_KEY
from pregao.exchange.engine.model.enums import PRICE8_PER_PRICE
from pregao.exchange.traders.profiles import Profile

TABLE = 4096
"""Number of entries of each table."""
_MAX_RANGE = 0.03
"""Maximum distance of the fair value from its anchor, as a share of the price."""
_DEEPEST = 0.08
"""Maximum distance of orders from the fair value, as a share of the price."""
_NO_CLOSE_TICKS = 1000


class RandomTables:
    """Tables of random numbers: picking one costs less than drawing it."""

    def __init__(self, rng: Random, profile: Profile) -> None:
        prices = profile.prices
        self.near = [int(rng.expovariate(1 / prices.near)) for _ in range(TABLE)]
        self.far = [int(prices.near + rng.expovariate(1 / prices.far)) for _ in range(TABLE)]
        self.around = [round(rng.gauss(0, prices.auction_reach / 2)) for _ in range(TABLE)]
        self.lots = rng.choices(
            profile.quantities.lots, weights=profile.quantities.weights, k=TABLE
        )


class CrowdInstrument:
    """Traders of one instrument. Prices are in ticks."""

    __slots__ = (
        "anchor",
        "bid_gap",
        "deepest",
        "fair",
        "least",
        "listing",
        "live",
        "lot",
        "max_lots",
        "offer_gap",
        "provider",
        "reach",
        "security_id",
        "target",
        "tick",
        "unpriced",
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
        self.unpriced = not listing.derivative
        """Whether orders without a price may be sent."""
        # Limits single orders, not the book: few orders have large sizes.
        self.max_lots = max(1, min(listing.max_qty // self.lot, 1_000_000))
        self._measure()

    def _measure(self) -> None:
        size = abs(self.anchor)
        self.reach = max(3, int(size * _MAX_RANGE))
        self.deepest = max(4, int(size * _DEEPEST))

    def drift(self, draw: float) -> None:
        """Move the fair value by one tick, more likely towards the anchor."""
        pull = 0.5 - 0.5 * (self.fair - self.anchor) / self.reach
        self.fair = max(self.least, self.fair + (1 if draw < pull else -1))

    def shock(self, percent: float) -> None:
        """Move the fair value and its anchor by a percentage."""
        size = max(abs(self.fair), 10)
        self.anchor = max(self.least, self.fair + round(size * percent / 100))
        self.fair = self.anchor
        self._measure()

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
