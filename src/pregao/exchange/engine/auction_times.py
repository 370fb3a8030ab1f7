"""End times of auctions: extensions, random ends, and the news about them.

A change of the theoretical price or quantity shortly before the end extends the auction, once for
each scheduled end. An end at which the theoretical price is outside the protection band is extended
too. With a random end, the auction continues after its scheduled end for a random time, drawn from
the engine's seed, the instrument and the end: replaying a journal draws the same.
"""

from __future__ import annotations

from hashlib import blake2b

from pregao.exchange.engine.auction import participates
from pregao.exchange.engine.auction_rules import AuctionRules
from pregao.exchange.engine.events import News
from pregao.exchange.engine.listing import Listing
from pregao.exchange.engine.market import Market
from pregao.exchange.engine.orders import BUY, EngineOrder
from pregao.exchange.engine.rejects import BOUND_IN_AUCTION, Reject
from pregao.exchange.engine.terms import PRICE_SCALE, NewsSource

EXTENSION = "extension"
PROTECTION = "protection band"
RANDOM_END = "random end"
OSCILLATION = "oscillation"
SYNCHRONIZATION = "synchronization"
_HUNDRED_PERCENT = 100 * PRICE_SCALE


def rules_of(
    market: Market, listing: Listing, of_phase: AuctionRules | None
) -> AuctionRules | None:
    """Return the rules of an auction: the instrument's, else the phase's, else the market's."""
    return listing.instrument.auction or of_phase or market.auction_rules


def watch(
    listing: Listing, rules: AuctionRules | None, end_ns: int | None, now_ns: int, extended: int = 0
) -> None:
    """Set what can extend an auction next, when it starts or after its end moved."""
    listing.auction = rules
    listing.extended = extended
    listing.closes_ns = None
    listing.watch_ns = None
    if rules is not None and end_ns is not None and extended < rules.extensions and rules.window_ns:
        # The change that opened the auction, or extended it before, does not count.
        listing.watch_ns = max(end_ns - rules.window_ns, now_ns + 1)


def outside_protection(listing: Listing, rules: AuctionRules) -> bool:
    """Whether the auction would end at a price outside the protection band."""
    now, reference = listing.theoretical, listing.reference_price()
    if rules.protection is None or now is None or reference is None:
        return False
    return abs(now.price - reference) * _HUNDRED_PERCENT > abs(reference) * rules.protection


def random_part(market: Market, listing: Listing, rules: AuctionRules, end_ns: int) -> int:
    """Return how long an auction continues after its scheduled end: 1 ns to ``random_ns``."""
    drawn = blake2b(f"{market.seed} {listing.security_id} {end_ns}".encode(), digest_size=8)
    return int.from_bytes(drawn.digest(), "little") % rules.random_ns + 1


def check_bound(
    listing: Listing, order: EngineOrder, price: int | None, leaves: int
) -> Reject | None:
    """Return the reject if a change would worsen an order that the auction binds, or None.

    ``leaves`` of 0 means that the order is canceled.
    """
    rules = listing.auction
    if (
        rules is None
        or not rules.binding
        or order.level is None
        or not participates(listing, order)
    ):
        return None
    if leaves >= order.leaves and not _worse(order, price):
        return None
    return BOUND_IN_AUCTION


def _worse(order: EngineOrder, price: int | None) -> bool:
    """Whether a price is worse for the other side than the order's; no price is the best."""
    if price is None or price == order.price:
        return False
    if order.price is None:
        return True
    return price < order.price if order.side == BUY else price > order.price


def announcement(listing: Listing, reason: str, now_ns: int) -> News:
    """Return the news about an auction, in the wording of 000 §15.3."""
    symbol = listing.instrument.symbol
    return News(
        listing.security_id,
        NewsSource.MARKET_SURVEILLANCE,
        None,
        None,
        now_ns,
        f"Auction for instrument {symbol} - {reason}",
        f"Call for instrument {symbol} -Reason: {reason}",
        "",
    )
