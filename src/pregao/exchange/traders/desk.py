"""What the traders of one instrument know: its book, a fair value, and the orders they sent."""

from __future__ import annotations

import math
from random import Random

from pregao.exchange.engine.listing import Listing
from pregao.exchange.engine.orders import UNPRICED_KEY
from pregao.exchange.engine.terms import PRICE8_PER_PRICE
from pregao.exchange.traders.profiles import Profile

TABLE = 4096
"""So many numbers are in each table."""
_MOST_RANGE = 0.03
"""How far from its anchor a fair value drifts, as a share of the price."""
_DEEPEST = 0.08
"""How far from the fair value orders are placed, as a share of the price."""
_NO_CLOSE_TICKS = 1000


class Tables:
    """Random numbers drawn beforehand: choosing one costs less than drawing it."""

    def __init__(self, rng: Random, profile: Profile) -> None:
        prices = profile.prices
        self.near = [int(rng.expovariate(1 / prices.near)) for _ in range(TABLE)]
        self.far = [int(prices.near + rng.expovariate(1 / prices.far)) for _ in range(TABLE)]
        self.around = [round(rng.gauss(0, prices.auction_reach / 2)) for _ in range(TABLE)]
        self.lots = rng.choices(
            profile.quantities.lots, weights=profile.quantities.weights, k=TABLE
        )


class Desk:
    """The traders of one instrument. Prices here are whole price steps."""

    __slots__ = (
        "anchor",
        "bid_gap",
        "deepest",
        "fair",
        "least",
        "listing",
        "live",
        "lot",
        "most_lots",
        "offer_gap",
        "reach",
        "security_id",
        "target",
        "tick",
        "unpriced",
    )

    def __init__(self, listing: Listing, target: int, half_spread: float) -> None:
        instrument = listing.instrument
        self.listing = listing
        self.security_id = listing.security_id
        self.tick = listing.tick
        self.lot = listing.lot
        self.target = 2 * target
        """Orders that rest when the book is as full as it is meant to be, both sides."""
        # Half a step to each side is a bid at the fair value and an offer one step above.
        self.bid_gap = math.floor(half_spread)
        self.offer_gap = math.ceil(half_spread)
        self.live: list[int] = []
        """The numbers of orders sent, oldest first; some of them are gone."""
        close8 = instrument.previous_close
        if close8 is None:
            self.anchor = 0 if instrument.allows_any_sign else _NO_CLOSE_TICKS
        else:
            self.anchor = close8 // PRICE8_PER_PRICE // self.tick
        self.least = -(1 << 40) if instrument.allows_any_sign else 1
        self.anchor = max(self.anchor, self.least)
        self.fair = self.anchor
        self.unpriced = not listing.derivative
        """May orders without a price be sent?"""
        # Of an order, not of a book: large sizes are left to a few.
        self.most_lots = max(1, min(listing.max_qty // self.lot, 1_000_000))
        self._measure()

    def _measure(self) -> None:
        size = abs(self.anchor)
        self.reach = max(3, int(size * _MOST_RANGE))
        self.deepest = max(4, int(size * _DEEPEST))

    def drift(self, draw: float) -> None:
        """Move the fair value by a step, more likely towards the anchor."""
        pull = 0.5 - 0.5 * (self.fair - self.anchor) / self.reach
        self.fair = max(self.least, self.fair + (1 if draw < pull else -1))

    def shock(self, percent: float) -> None:
        """Move the fair value and its anchor at once."""
        size = max(abs(self.fair), 10)
        self.anchor = max(self.least, self.fair + round(size * percent / 100))
        self.fair = self.anchor
        self._measure()

    def resting(self) -> int:
        """How many orders rest in the book."""
        return self.listing.bids.count + self.listing.offers.count

    def best_bid(self) -> int | None:
        """The best bid in price steps, orders without a price left aside."""
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
        """The best offer in price steps, orders without a price left aside."""
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
        """A price at some distance behind the touch that does not trade, if there is one."""
        if distance > self.deepest:
            distance = distance % self.deepest
        listing = self.listing
        if buy:
            steps = self.fair - self.bid_gap - distance
            offer = self.best_offer()
            if offer is not None and steps >= offer:
                steps = offer - 1
        else:
            steps = self.fair + self.offer_gap + distance
            bid = self.best_bid()
            if bid is not None and steps <= bid:
                steps = bid + 1
        if steps < self.least:
            steps = self.least
            offer = self.best_offer()
            if not buy or (offer is not None and steps >= offer):
                return None
        price = steps * self.tick
        if listing.reject_low <= price <= listing.reject_high:
            return price
        return None

    def ahead(self, buy: bool) -> int | None:
        """A price one step better than the best of a side, if it does not trade."""
        bid, offer = self.best_bid(), self.best_offer()
        if bid is None or offer is None or offer - bid < 2:
            return None
        price = (bid + 1 if buy else offer - 1) * self.tick
        return price if self.listing.reject_low <= price <= self.listing.reject_high else None

    def crossing(self, offset: int) -> int | None:
        """A price around the fair value, as people send to an auction."""
        steps = max(self.least, self.fair + offset)
        price = steps * self.tick
        listing = self.listing
        return price if listing.reject_low <= price <= listing.reject_high else None

    def quantity(self, lots: int) -> int:
        """A quantity that the instrument takes."""
        listing = self.listing
        most = self.most_lots
        quantity = (lots if lots < most else most) * self.lot
        if quantity < listing.min_qty:
            quantity = -(-listing.min_qty // self.lot) * self.lot
        limit = listing.volume_limit
        if limit is not None and quantity > limit:
            quantity = max(self.lot, limit // self.lot * self.lot)
        return quantity
