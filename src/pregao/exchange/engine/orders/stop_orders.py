"""Stop orders: a trade at the stop price converts them to limit orders, which enter the book.

Orders triggered by one event enter the book after it; those of the same instrument and side share
one event. If the instrument accepts no orders at that moment, they keep waiting.
"""

from __future__ import annotations

from pregao.exchange.engine.book.listing import Listing
from pregao.exchange.engine.book.market import Market
from pregao.exchange.engine.book.order_book import EngineOrder
from pregao.exchange.engine.matching.matching import Execution
from pregao.exchange.engine.matching.price_bands import hard_limits
from pregao.exchange.engine.model.events import MarketItem
from pregao.exchange.engine.orders.order_entry import cancel, execute, publish
from pregao.exchange.engine.orders.validation import FOK, IOC, LIMIT, STOP, check_state
from pregao.exchange.engine.phases.auction import publish_theoretical
from pregao.exchange.engine.phases.trading_phases import OPEN


def enter_triggered(market: Market, now_ns: int) -> None:
    """Enter the first of the triggered stop orders into its book, as one event.

    All of the same instrument and side enter with it; the others follow when the consequences of
    this event are settled.
    """
    first = market.triggered[0]
    security_id, side = first.security_id, first.side
    batch: list[EngineOrder] = []
    others: list[EngineOrder] = []
    for order in market.triggered:
        same = order.security_id == security_id and order.side == side
        (batch if same else others).append(order)
    market.triggered = others
    listing = market.listings[security_id]
    if security_id in market.implied_of:
        market.touched.add(security_id)
    if check_state(listing.status) is None:
        _enter(market, listing, batch, now_ns)
        return
    for order in batch:
        listing.waiting.add(order)


def _enter(market: Market, listing: Listing, batch: list[EngineOrder], now_ns: int) -> None:
    """Enter orders of one side into the book as one event, which ends if one calls an auction."""
    execution = Execution()
    for index, order in enumerate(batch):
        if listing.status != OPEN:
            _gather(market, listing, batch[index:], now_ns)
            return
        activate(market, listing, order, now_ns)
        execute(market, listing, order, execution, now_ns, order.min_qty)
        if execution.blocked or order is batch[-1]:
            publish(market, listing, order, execution, now_ns, now_ns)


def _gather(market: Market, listing: Listing, batch: list[EngineOrder], now_ns: int) -> None:
    """Add orders to an auction, or cancel those that cannot rest in it."""
    items: list[MarketItem] = []
    for order in batch:
        activate(market, listing, order, now_ns)
        if order.time_in_force in (IOC, FOK):
            cancel(market, order, now_ns)
        else:
            items.append(market.add_to_book(listing, order, now_ns))
    publish_theoretical(market, listing, items, now_ns)
    market.publish(items)


def activate(market: Market, listing: Listing, order: EngineOrder, now_ns: int) -> None:
    """Convert a stop order to a limit order with new priority, and report it to its owner.

    Its price was set when it was entered: it is moved to the nearest price within the hard limits.
    """
    listing.waiting.activate(order)
    price = order.protection_price if order.ord_type == STOP else order.price
    assert price is not None
    order.price = within_hard_limits(listing, price)
    order.ord_type = LIMIT
    order.stop_px = None
    market.new_secondary_id(order)
    order.insert_time_ns = now_ns
    order.show()
    market.report_accepted(order, now_ns)


def within_hard_limits(listing: Listing, price: int) -> int:
    """Return the price, or the nearest tick within the hard limits."""
    low, high = hard_limits(listing)
    tick = listing.tick
    if price > high:
        return high // tick * tick
    if price < low:
        return -(-low // tick) * tick
    return price
