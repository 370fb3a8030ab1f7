"""Auctions: the theoretical price after every change, the uncrossing, and the end of an auction.

The price is the one at which the most can trade; then the one that leaves the least imbalance; then
the one nearest to the reference. Candidates are the prices between the lowest and the highest limit
in the book; without any limit order, the reference itself.

The levels that would trade are summed only once: each side tracks its quantity down to its last
level that trades, and after a change only levels around that one are visited. Once the two marginal
levels are known, the other criteria need only the next level of each side.

A change of the theoretical price or quantity shortly before the end extends the auction, once for
each scheduled end. An end at which the theoretical price is outside the protection band is extended
too. With a random end, the auction continues after its scheduled end for a random time, drawn from
the engine's seed, the instrument and the end: replaying a journal draws the same.
"""

from __future__ import annotations

from bisect import bisect_left
from hashlib import blake2b
from typing import NamedTuple

from pregao.exchange.engine.book.listing import NO_LIMIT, Listing, TheoreticalUncrossing
from pregao.exchange.engine.book.market import Market
from pregao.exchange.engine.book.order_book import BUY, UNPRICED_KEY, BookSide, EngineOrder
from pregao.exchange.engine.matching import price_bands
from pregao.exchange.engine.matching.matching import consume
from pregao.exchange.engine.matching.statistics import (
    execution_statistics,
    matched,
    opening_and_range,
)
from pregao.exchange.engine.model.auction_rules import AuctionRules
from pregao.exchange.engine.model.enums import ImbalanceCondition, NewsSource
from pregao.exchange.engine.model.events import (
    AuctionImbalance,
    MarketItem,
    News,
    TheoreticalOpeningPrice,
)
from pregao.exchange.engine.model.reject_codes import BOUND_IN_AUCTION, Reject
from pregao.units import PRICE_SCALE

_Plateau = tuple[int, int, int]
"""Lowest and highest price of a range, and its imbalance (positive: buyers)."""

# Reasons of announcements.
EXTENSION = "extension"
PROTECTION = "protection band"
RANDOM_END = "random end"
OSCILLATION = "oscillation"
SYNCHRONIZATION = "synchronization"
SELF_TRADE = "self-trading"
_HUNDRED_PERCENT = 100 * PRICE_SCALE


# --- Theoretical price ---


class _Crossing(NamedTuple):
    """Quantity that trades, and the last level of each side that takes part.

    For each side: the index of that level, and the quantity down to it.
    """

    quantity: int
    bid_index: int
    bid_total: int
    offer_index: int
    offer_total: int


def theoretical(listing: Listing) -> TheoreticalUncrossing | None:
    """Return the current theoretical result of the auction, or None if nothing would trade."""
    bids, offers = listing.bids, listing.offers
    crossing = _find_crossing(bids, offers)
    if crossing is None:
        return None
    quantity = crossing.quantity
    reference = listing.reference_price()
    span = _span(bids, offers, crossing)
    if span is None:
        if reference is None:
            return None
        imbalance = crossing.bid_total - crossing.offer_total
        return TheoreticalUncrossing(_on_tick(reference, listing.tick), quantity, imbalance)
    plateaus = _min_imbalance(bids, offers, span, listing.tick, crossing)
    if reference is None:
        low, _, imbalance = plateaus[0]
        return TheoreticalUncrossing(low, quantity, imbalance)
    target = _on_tick(reference, listing.tick)
    best: TheoreticalUncrossing | None = None
    for low, high, imbalance in plateaus:
        price = min(max(target, low), high)
        if best is None or abs(price - target) < abs(best.price - target):
            best = TheoreticalUncrossing(price, quantity, imbalance)
    return best


def _find_crossing(bids: BookSide, offers: BookSide) -> _Crossing | None:
    """Find the marginal levels of the two sides, starting from the previous ones.

    Each side watches its last level that trades, the marginal one. Changes since may have made it
    too deep, or let more levels trade: first both sides step back as far as possible without
    trading less, then they advance as long as the next levels cross.
    """
    if not bids.keys or not offers.keys or bids.keys[-1] + offers.keys[-1] < 0:
        bids.unwatch()
        offers.unwatch()
        return None
    bid_index, offer_index = _marginal_index(bids), _marginal_index(offers)
    # A bid key and an offer key cross if bid >= offer: their sum is not negative.
    if bids.keys[bid_index] + offers.keys[offer_index] < 0:
        bid_index, offer_index = _watch_best(bids), _watch_best(offers)
    quantity = min(bids.watched, offers.watched)
    bid_index = _step_back(bids, bid_index, quantity)
    offer_index = _step_back(offers, offer_index, quantity)
    bid_total, offer_total = bids.watched, offers.watched
    while True:
        next_bid = bid_index - 1 if bid_total <= offer_total else bid_index
        next_offer = offer_index - 1 if offer_total <= bid_total else offer_index
        if next_bid < 0 or next_offer < 0:
            break
        if bids.keys[next_bid] + offers.keys[next_offer] < 0:
            break
        if next_bid != bid_index:
            bid_total += bids.levels[bids.keys[next_bid]].quantity
        if next_offer != offer_index:
            offer_total += offers.levels[offers.keys[next_offer]].quantity
        bid_index, offer_index = next_bid, next_offer
    bids.watch_key, bids.watched = bids.keys[bid_index], bid_total
    offers.watch_key, offers.watched = offers.keys[offer_index], offer_total
    return _Crossing(min(bid_total, offer_total), bid_index, bid_total, offer_index, offer_total)


def _marginal_index(side: BookSide) -> int:
    """Return the index of the watched level, or of the next better one if it is gone.

    If there is none either, watch the best level and return its index.
    """
    index = bisect_left(side.keys, side.watch_key)
    return index if index < len(side.keys) else _watch_best(side)


def _watch_best(side: BookSide) -> int:
    """Watch the best level only, and return its index."""
    index = len(side.keys) - 1
    side.watch_key = side.keys[index]
    side.watched = side.levels[side.watch_key].quantity
    return index


def _step_back(side: BookSide, index: int, quantity: int) -> int:
    """Drop levels from the worst while the remaining ones have the quantity."""
    last = len(side.keys) - 1
    while index < last:
        less = side.watched - side.levels[side.keys[index]].quantity
        if less < quantity:
            break
        side.watched = less
        index += 1
    return index


def _span(bids: BookSide, offers: BookSide, crossing: _Crossing) -> tuple[int, int] | None:
    """Return the lowest and highest price at which the quantity trades, None without limits."""
    lowest, highest = -offers.keys[crossing.offer_index], bids.keys[crossing.bid_index]
    if lowest != -UNPRICED_KEY and highest != UNPRICED_KEY:
        return lowest, highest
    bounds = _bounds(bids, offers)
    if bounds is None:
        return None
    return (
        bounds[0] if lowest == -UNPRICED_KEY else lowest,
        bounds[1] if highest == UNPRICED_KEY else highest,
    )


def _bounds(bids: BookSide, offers: BookSide) -> tuple[int, int] | None:
    """Return the lowest and highest limit price in the book, or None."""
    prices: list[int] = []
    if bids.keys:
        prices.extend(key for key in (bids.keys[0], _best_priced_key(bids)) if key != UNPRICED_KEY)
    if offers.keys:
        prices.extend(
            -key for key in (offers.keys[0], _best_priced_key(offers)) if key != UNPRICED_KEY
        )
    return (min(prices), max(prices)) if prices else None


def _best_priced_key(side: BookSide) -> int:
    """Return the key of the best priced level, or of the unpriced one if it is the only level."""
    keys = side.keys
    return keys[-2] if keys[-1] == UNPRICED_KEY and len(keys) > 1 else keys[-1]


def _min_imbalance(
    bids: BookSide,
    offers: BookSide,
    span: tuple[int, int],
    tick: int,
    crossing: _Crossing,
) -> list[_Plateau]:
    """Return the price ranges at which the quantity trades with the least left over.

    Between the two marginal prices either demand or supply equals the quantity: the imbalance there
    changes only at levels beyond the marginal ones, away from zero.
    """
    lowest, highest = span
    if crossing.offer_total > crossing.quantity:
        return [_sellers_left(offers, crossing, lowest, highest, tick)]
    if crossing.bid_total > crossing.quantity:
        return [_buyers_left(bids, crossing, lowest, highest, tick)]
    next_bid = _bid_below(bids, crossing.bid_index)
    next_offer = _offer_above(offers, crossing.offer_index)
    low = max(lowest, next_bid + tick)
    high = min(highest, next_offer - tick)
    if low <= high:
        return [(low, high, 0)]
    # No price is balanced: at the next bid buyers are left, at the next offer sellers.
    plateaus: list[_Plateau] = []
    if next_bid >= lowest:
        plateaus.append(_buyers_left(bids, crossing, lowest, min(highest, next_bid), tick))
    if next_offer <= highest:
        plateaus.append(_sellers_left(offers, crossing, max(lowest, next_offer), highest, tick))
    smallest = min(abs(imbalance) for _, _, imbalance in plateaus)
    return [plateau for plateau in plateaus if abs(plateau[2]) == smallest]


def _sellers_left(
    offers: BookSide, crossing: _Crossing, lowest: int, highest: int, tick: int
) -> _Plateau:
    """Return the best range if sellers are left over: from ``lowest`` up to the next offer."""
    index, total = crossing.offer_index, crossing.offer_total
    while (above := _offer_above(offers, index)) <= lowest:
        index -= 1
        total += offers.levels[offers.keys[index]].quantity
    return lowest, min(highest, above - tick), crossing.quantity - total


def _buyers_left(
    bids: BookSide, crossing: _Crossing, lowest: int, highest: int, tick: int
) -> _Plateau:
    """Return the best range if buyers are left over: from ``highest`` down to the next bid."""
    index, total = crossing.bid_index, crossing.bid_total
    while (below := _bid_below(bids, index)) >= highest:
        index -= 1
        total += bids.levels[bids.keys[index]].quantity
    return max(lowest, below + tick), highest, total - crossing.quantity


def _bid_below(bids: BookSide, index: int) -> int:
    """Return the price of the next bid level, or -``NO_LIMIT``."""
    return bids.keys[index - 1] if index > 0 else -NO_LIMIT


def _offer_above(offers: BookSide, index: int) -> int:
    """Return the price of the next offer level, or ``NO_LIMIT``."""
    return -offers.keys[index - 1] if index > 0 else NO_LIMIT


def _on_tick(price: int, tick: int) -> int:
    """Return a price rounded to the nearest tick."""
    return (price + tick // 2) // tick * tick


# --- Publication ---


def publish_theoretical(
    market: Market, listing: Listing, items: list[MarketItem], now_ns: int
) -> None:
    """Recompute the theoretical price and append messages for its changes."""
    before = listing.theoretical
    after = theoretical(listing)
    if after == before:
        return
    listing.theoretical = after
    if listing.bands_float:
        price_bands.refresh(listing)
    shown = listing.shown
    security_id = listing.security_id
    if after is None:
        assert before is not None
        _schedule_extension(market, listing, now_ns)
        clear_theoretical(listing)
        items += theoretical_deletions(market, security_id, now_ns)
        return
    if before is None or (before.price, before.quantity) != (after.price, after.quantity):
        _schedule_extension(market, listing, now_ns)
        price = TheoreticalOpeningPrice(
            security_id, after.price, after.quantity, market.trade_day, now_ns
        )
        shown[TheoreticalOpeningPrice] = price
        items.append(price)
    if before is None or before.imbalance != after.imbalance:
        condition = ImbalanceCondition.BALANCED
        if after.imbalance > 0:
            condition = ImbalanceCondition.MORE_BUYERS
        elif after.imbalance < 0:
            condition = ImbalanceCondition.MORE_SELLERS
        imbalance = AuctionImbalance(security_id, condition, abs(after.imbalance), now_ns)
        shown[AuctionImbalance] = imbalance
        items.append(imbalance)


def _schedule_extension(market: Market, listing: Listing, now_ns: int) -> None:
    """Schedule an extension if the theoretical price or quantity changed late in the auction."""
    if listing.watch_ns is not None and now_ns >= listing.watch_ns:
        market.extending.append(listing)
        market.follows = True


def theoretical_deletions(market: Market, security_id: int, now_ns: int) -> tuple[MarketItem, ...]:
    """Return the messages that withdraw the theoretical price."""
    return (
        TheoreticalOpeningPrice(security_id, None, None, market.trade_day, now_ns, deleted=True),
        AuctionImbalance(security_id, ImbalanceCondition.BALANCED, None, now_ns, deleted=True),
    )


def clear_theoretical(listing: Listing) -> None:
    """Clear the theoretical price; `theoretical_deletions` are the messages about it."""
    listing.theoretical = None
    listing.bids.unwatch()
    listing.offers.unwatch()
    listing.shown.pop(TheoreticalOpeningPrice, None)
    listing.shown.pop(AuctionImbalance, None)


# --- Uncrossing ---


def participates(listing: Listing, order: EngineOrder) -> bool:
    """Whether the order would trade at the theoretical price, or rest at it."""
    uncrossing = listing.theoretical
    if uncrossing is None:
        return False
    if order.price is None:
        return True
    price = uncrossing.price
    return order.price >= price if order.side == BUY else order.price <= price


def uncross(
    market: Market, listing: Listing, items: list[MarketItem], now_ns: int
) -> list[MarketItem]:
    """End an auction: trade all that can be traded at the one price, by priority.

    Such trades have no execution summary. Returns the messages that close the event: the withdrawn
    theoretical price, and the statistics.
    """
    result = theoretical(listing)
    clear_theoretical(listing)
    if result is None:
        return []
    opening = listing.statistics.opening is None
    updates: list[MarketItem] = []
    price, remaining = result.price, result.quantity
    bids, offers = listing.bids, listing.offers
    bid_taken = offer_taken = 0
    while remaining:
        bid = _first_order(bids)
        offer = _first_order(offers)
        quantity = min(remaining, bid.visible - bid_taken, offer.visible - offer_taken)
        remaining -= quantity
        for side, order in ((bids, bid), (offers, offer)):
            order.leaves -= quantity
            order.cum += quantity
            side.levels[order.key].quantity -= quantity
        items.append(
            matched(market, listing, bid, offer, quantity, price, opening, now_ns, aggressor=False)
        )
        # One book update per displayed order, for all its trades.
        bid_taken += quantity
        offer_taken += quantity
        if bid_taken == bid.visible or not remaining:
            consume(market, bids, bid, bid_taken, now_ns, updates)
            bid_taken = 0
        if offer_taken == offer.visible or not remaining:
            consume(market, offers, offer, offer_taken, now_ns, updates)
            offer_taken = 0
    opening_and_range(market, listing, items, now_ns)
    items.extend(updates)
    return [
        *theoretical_deletions(market, listing.security_id, now_ns),
        execution_statistics(market, listing, now_ns),
    ]


def _first_order(side: BookSide) -> EngineOrder:
    """Return the order with the highest priority of a side that is not empty."""
    order = side.levels[side.keys[-1]].head
    assert order is not None
    return order


# --- End of an auction ---


def rules_of(
    market: Market, listing: Listing, of_phase: AuctionRules | None
) -> AuctionRules | None:
    """Return the rules of an auction: the instrument's, else the phase's, else the market's."""
    return listing.instrument.auction or of_phase or market.auction_rules


def watch_for_extension(
    listing: Listing, rules: AuctionRules | None, end_ns: int | None, now_ns: int, extended: int = 0
) -> None:
    """Set the rules of an auction and the time from which a change extends it.

    Called when the auction starts and after its end moved.
    """
    listing.auction = rules
    listing.extended = extended
    listing.closes_ns = None
    listing.watch_ns = None
    if rules is not None and end_ns is not None and extended < rules.extensions and rules.window_ns:
        # The change that opened the auction, or extended it before, does not count.
        listing.watch_ns = max(end_ns - rules.window_ns, now_ns + 1)


def outside_protection(listing: Listing, rules: AuctionRules) -> bool:
    """Whether the auction would end at a price outside the protection band."""
    uncrossing, reference = listing.theoretical, listing.reference_price()
    if rules.protection is None or uncrossing is None or reference is None:
        return False
    return abs(uncrossing.price - reference) * _HUNDRED_PERCENT > abs(reference) * rules.protection


def random_extension_ns(market: Market, listing: Listing, rules: AuctionRules, end_ns: int) -> int:
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
    if leaves >= order.leaves and not _is_worse(order, price):
        return None
    return BOUND_IN_AUCTION


def _is_worse(order: EngineOrder, price: int | None) -> bool:
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
