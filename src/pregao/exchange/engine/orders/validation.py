"""Checks of orders on entry: state of the instrument, type and validity, price, quantity."""

from __future__ import annotations

from datetime import date

from pregao.exchange.engine.book.listing import Listing
from pregao.exchange.engine.book.order_book import BUY, key_of
from pregao.exchange.engine.matching.matching import tradable_within
from pregao.exchange.engine.matching.price_bands import refusal
from pregao.exchange.engine.model.enums import (
    OrderSide,
    OrdType,
    RoutingInstruction,
    TimeInForce,
    TradingStatus,
)
from pregao.exchange.engine.model.reject_codes import (
    AUCTION_SYNCHRONISM,
    DISCLOSED_INVALID,
    DISCLOSED_TOO_LARGE,
    EXPIRE_DATE_INVALID,
    EXPIRE_DATE_NOT_ACCEPTED,
    LEG_NOT_OPEN,
    MARKET_CLOSED,
    MARKET_FORBIDDEN,
    MARKET_PAUSED,
    MINIMUM_INVALID,
    NO_OPPOSITE_SIDE,
    NO_REFERENCE_PRICE,
    NOT_TRADED_IN_BOOK,
    ONLY_IN_AUCTION,
    PRICE_NOT_ACCEPTED,
    PRICE_NOT_POSITIVE,
    PRICE_OFF_TICK,
    PRICE_OUTSIDE_LIMITS,
    PRICE_REQUIRED,
    QUANTITY_ABOVE_BAND,
    QUANTITY_OFF_LOT,
    QUANTITY_OUTSIDE_RANGE,
    ROUTING_INVALID,
    STOP_NOT_ACCEPTED,
    STOP_REQUIRED,
    TYPE_NOT_IN_AUCTION,
    TYPE_NOT_SUPPORTED,
    VALIDITY_INVALID,
    VALIDITY_NOT_SUPPORTED,
    Reject,
)
from pregao.exchange.engine.phases.trading_phases import AUCTIONS, CLOSE, FORBIDDEN, OPEN, PAUSE

LIMIT = OrdType.LIMIT
MARKET = OrdType.MARKET
MARKET_TO_LIMIT = OrdType.MARKET_WITH_LEFTOVER_AS_LIMIT
STOP = OrdType.STOP_LOSS
STOP_LIMIT = OrdType.STOP_LIMIT
# Tuples, not sets: hashing an enumeration member costs more than a few comparisons.
PRICED = (LIMIT, STOP_LIMIT)
"""Types with a limit price."""
STOPS = (STOP, STOP_LIMIT)
PROTECTED = (MARKET, MARKET_TO_LIMIT, STOP)
"""Types that get a protection price."""
RLP = OrdType.RLP
PEGGED = OrdType.PEGGED_MIDPOINT
HIDDEN = (RLP, PEGGED)
"""Types that are never in the book."""
RETAIL = RoutingInstruction.RETAIL_LIQUIDITY_TAKER
BROKER_ONLY = RoutingInstruction.BROKER_ONLY
BROKER_ONLY_REMOVAL = RoutingInstruction.BROKER_ONLY_REMOVAL
_RETAIL_TYPES = (LIMIT, STOP, STOP_LIMIT, MARKET_TO_LIMIT)
DAY = TimeInForce.DAY
GTC = TimeInForce.GOOD_TILL_CANCEL
GTD = TimeInForce.GOOD_TILL_DATE
IOC = TimeInForce.IMMEDIATE_OR_CANCEL
FOK = TimeInForce.FILL_OR_KILL
MOC = TimeInForce.AT_THE_CLOSE
MOA = TimeInForce.GOOD_FOR_AUCTION

_RETAIL_VALIDITIES = (DAY, IOC, FOK)

_CLOSED = {CLOSE: MARKET_CLOSED, FORBIDDEN: MARKET_FORBIDDEN, PAUSE: MARKET_PAUSED}


def check_state(status: TradingStatus) -> Reject | None:
    """Return the reject if orders cannot be entered or modified in this state, or None."""
    if status == OPEN or status in AUCTIONS:
        return None
    return _CLOSED.get(status, MARKET_CLOSED)


def check_auction_end(listing: Listing) -> Reject | None:
    """Return the reject while the instrument waits for its pair to end its auction, or None."""
    if listing.window_ns is None:
        return None
    symbol = listing.instrument.symbol
    return Reject(
        AUCTION_SYNCHRONISM.code,
        f"{AUCTION_SYNCHRONISM.text} 'Instrument {symbol} in Simultaneous Auction closing.'",
    )


def check_cancel_state(status: TradingStatus) -> Reject | None:
    """Return the reject if orders cannot be canceled in this state, or None.

    A halt prevents only entry and matching.
    """
    return None if status == PAUSE else check_state(status)


def check_order(
    listing: Listing,
    quantity: int,
    price: int | None,
    ord_type: OrdType,
    time_in_force: TimeInForce,
    max_floor: int,
    min_qty: int,
    expire_date: date | None,
    trade_date: date,
    stop_px: int | None = None,
    routing: int = 0,
    kept_min_qty: int = 0,
) -> Reject | None:
    """Return the reason to reject an order, or None.

    ``kept_min_qty`` is a minimum quantity from an earlier request, which this one does not name.
    """
    status = listing.status
    if status != OPEN and (reject := check_auction_end(listing) or check_state(status)) is not None:
        return reject
    if not listing.takes_orders:
        return NOT_TRADED_IN_BOOK.because(listing.instrument.symbol)
    if listing.strategy is not None and (reject := check_legs(listing, price)) is not None:
        return reject
    if (reject := check_quantity(listing, quantity)) is not None:
        return reject
    plain = ord_type is LIMIT
    if (
        not (plain and time_in_force is DAY and expire_date is None)
        and (
            reject := _check_kind(listing, status, ord_type, time_in_force, expire_date, trade_date)
        )
        is not None
    ):
        return reject
    if (stop_px is not None or (not plain and ord_type in STOPS)) and (
        reject := _check_stop(listing, ord_type, stop_px)
    ) is not None:
        return reject
    if plain or ord_type in PRICED:
        if price is None:
            return PRICE_REQUIRED
        if (reject := check_price(listing, price)) is not None:
            return reject
    elif price is not None:
        if ord_type != PEGGED:
            return PRICE_NOT_ACCEPTED
        if (reject := check_price(listing, price)) is not None:
            return reject
    if (routing or (not plain and ord_type in HIDDEN)) and (
        reject := _check_routing(
            ord_type, time_in_force, max_floor, min_qty or kept_min_qty, routing
        )
    ) is not None:
        return reject
    if max_floor or min_qty:
        return _check_parts(listing, quantity, max_floor, min_qty, time_in_force, status)
    return None


def check_legs(listing: Listing, price: int | None) -> Reject | None:
    """Return the reject if the legs of a user-defined spread could not trade with it, or None.

    In an auction orders are collected whatever the states of the legs; it ends when they are open.
    """
    strategy = listing.strategy
    if strategy is None:
        return None
    if listing.status == OPEN and (closed := strategy.closed_leg) is not None:
        return LEG_NOT_OPEN.because(f"{closed.instrument.symbol} is {closed.status.name}")
    if price is not None and not price % listing.tick and strategy.leg_prices(price) is None:
        return PRICE_OUTSIDE_LIMITS.because(
            "no prices of its legs within their limits add up to it"
        )
    return None


def check_quantity(listing: Listing, quantity: int) -> Reject | None:
    """Return the reason to reject a quantity of an order or a cross, or None."""
    if not listing.min_qty <= quantity <= listing.max_qty:
        return _quantity_range(listing, quantity)
    if quantity % listing.lot:
        return QUANTITY_OFF_LOT.because(f"{quantity} is not a multiple of {listing.lot}")
    limit = listing.volume_limit
    if limit is not None and quantity > limit:
        return QUANTITY_ABOVE_BAND.because(f"{quantity} is above {limit}")
    return None


def check_price(listing: Listing, price: int) -> Reject | None:
    """Return the reason to reject a limit price, or None."""
    if price <= 0 and not listing.instrument.allows_any_sign:
        return PRICE_NOT_POSITIVE
    if price % listing.tick:
        return PRICE_OFF_TICK
    if not listing.reject_low <= price <= listing.reject_high:
        return refusal(listing, price)
    return None


def _check_routing(
    ord_type: OrdType, time_in_force: TimeInForce, max_floor: int, min_qty: int, routing: int
) -> Reject | None:
    """Return the reason to reject a routing instruction, or an RLP or pegged order, or None."""
    if ord_type == PEGGED:
        if routing in (0, BROKER_ONLY, BROKER_ONLY_REMOVAL) and not max_floor:
            return None
        return ROUTING_INVALID.because("a pegged order is hidden and either public or broker-only")
    if routing in (BROKER_ONLY, BROKER_ONLY_REMOVAL):
        return ROUTING_INVALID.because("only a pegged order can be broker-only")
    retail = routing == RETAIL
    if (retail or ord_type == RLP) and (max_floor or min_qty):
        return ROUTING_INVALID.because("disclosed and minimum quantity are not allowed")
    if ord_type == RLP:
        return ROUTING_INVALID.because("an RLP order cannot have one") if routing else None
    if retail and ord_type not in _RETAIL_TYPES:
        return ROUTING_INVALID.because(f"a retail order cannot be of type {ord_type.name}")
    if retail and time_in_force not in _RETAIL_VALIDITIES:
        return ROUTING_INVALID.because(f"a retail order cannot have validity {time_in_force.name}")
    return None


def _check_stop(listing: Listing, ord_type: OrdType, stop_px: int | None) -> Reject | None:
    """Return the reason to reject a stop price, or None; bands apply to limit prices only."""
    if ord_type not in STOPS:
        return STOP_NOT_ACCEPTED
    if stop_px is None:
        return STOP_REQUIRED
    if stop_px <= 0 and not listing.instrument.allows_any_sign:
        return PRICE_NOT_POSITIVE
    return PRICE_OFF_TICK if stop_px % listing.tick else None


def _quantity_range(listing: Listing, quantity: int) -> Reject:
    """Return the reject for a quantity outside the allowed range."""
    maximum = listing.instrument.max_order_qty
    above = "" if maximum is None else f" to {maximum}"
    return QUANTITY_OUTSIDE_RANGE.because(f"{quantity} is not in {listing.min_qty}{above}")


def _check_kind(
    listing: Listing,
    status: TradingStatus,
    ord_type: OrdType,
    time_in_force: TimeInForce,
    expire_date: date | None,
    trade_date: date,
) -> Reject | None:
    """Check an order type and validity against the instrument, its state and each other."""
    auction = status in AUCTIONS
    if expire_date is not None and time_in_force != GTD:
        return EXPIRE_DATE_NOT_ACCEPTED
    if time_in_force in (GTC, GTD):
        if not listing.instrument.allows_good_till:
            return VALIDITY_NOT_SUPPORTED
        if time_in_force == GTD and (expire_date is None or expire_date < trade_date):
            return EXPIRE_DATE_INVALID
    elif time_in_force in (MOA, MOC):
        if listing.derivative:
            return VALIDITY_NOT_SUPPORTED
        if time_in_force == MOA and not auction:
            return ONLY_IN_AUCTION
        return None if ord_type in (LIMIT, MARKET) else VALIDITY_INVALID
    elif time_in_force in (IOC, FOK) and auction:
        return TYPE_NOT_IN_AUCTION
    if ord_type in PRICED or (ord_type == STOP and not listing.derivative):
        return None
    if ord_type == PEGGED and not (listing.fixed_income or listing.derivative):
        return None if time_in_force in _RETAIL_VALIDITIES else VALIDITY_INVALID
    if ord_type == RLP and not listing.fixed_income:
        return None if time_in_force == DAY else VALIDITY_INVALID
    if (ord_type == MARKET_TO_LIMIT and not listing.fixed_income) or (
        ord_type == MARKET and not listing.derivative
    ):
        return TYPE_NOT_IN_AUCTION if auction else None
    return TYPE_NOT_SUPPORTED.because(ord_type.name)


def _check_parts(
    listing: Listing,
    quantity: int,
    max_floor: int,
    min_qty: int,
    time_in_force: TimeInForce,
    status: TradingStatus,
) -> Reject | None:
    """Check the disclosed and the minimum quantity."""
    if max_floor:
        if max_floor > quantity:
            return DISCLOSED_TOO_LARGE
        if max_floor < 0 or max_floor % listing.lot or time_in_force in (IOC, FOK):
            return DISCLOSED_INVALID
    if min_qty:
        if not 0 < min_qty <= quantity or min_qty % listing.lot:
            return MINIMUM_INVALID
        if status in AUCTIONS or time_in_force in (MOA, MOC):
            return MINIMUM_INVALID
    return None


def protection_price(listing: Listing, side: OrderSide, stop_px: int | None = None) -> int | None:
    """Return the worst price at which a market order may trade, on a tick and within the bands.

    It is measured from the last price, or from the stop price of a stop order; None if there is no
    reference.
    """
    reference = listing.reference_price() if stop_px is None else stop_px
    if reference is None:
        return None
    tick = listing.tick
    offset = listing.instrument.protection_offset
    if offset is None:
        offset = max(abs(reference) // 20, tick)
    if side == BUY:
        worst = min(reference + offset, listing.reject_high)
        return worst // tick * tick
    worst = max(reference - offset, listing.reject_low)
    if not listing.instrument.allows_any_sign:
        worst = max(worst, tick)
    return -(-worst // tick) * tick


def check_protection_price(
    listing: Listing,
    side: OrderSide,
    ord_type: OrdType,
    time_in_force: TimeInForce,
    protection: int | None,
) -> Reject | None:
    """Return the reason to reject an order that has this protection price, or None.

    An immediate order without a counterparty is accepted and then canceled (003 §7.1.10, §7.1.11).
    """
    immediate = time_in_force in (IOC, FOK)
    if protection is None:
        if immediate and not listing.opposite(side).count:
            return None
        return NO_REFERENCE_PRICE
    if (
        ord_type == MARKET_TO_LIMIT
        and not immediate
        and not tradable_within(listing, side, -key_of(side, protection), 1)
    ):
        return NO_OPPOSITE_SIDE
    return None
