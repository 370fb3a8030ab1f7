"""Price and quantity bands: which prices they reject, and where they call an auction."""

from __future__ import annotations

from pregao.exchange.engine.book.listing import NO_LIMIT, Band, Listing
from pregao.exchange.engine.model.enums import PriceBandMidpoint, PriceBandType, PriceLimitType
from pregao.exchange.engine.model.reject_codes import (
    PRICE_OUTSIDE_BAND,
    PRICE_OUTSIDE_LIMITS,
    Reject,
)
from pregao.units import PRICE_SCALE, price_text

_REFUSING = (
    PriceBandType.HARD_LIMIT,
    PriceBandType.STATIC_LIMITS,
    PriceBandType.REJECTION_BAND,
)
_HUNDRED_PERCENT = 100 * PRICE_SCALE


def _midpoint(listing: Listing, band: Band) -> int | None:
    """Return the price that a relative band is measured from now.

    The documents do not define the complementary last price: it is treated as the last price.
    """
    if band.midpoint == PriceBandMidpoint.THEORETICAL_PRICE and listing.theoretical is not None:
        return listing.theoretical.price
    return listing.reference_price()


def limits(listing: Listing, band: Band) -> tuple[int, int]:
    """Return the lowest and highest price that a band allows now."""
    low, high = band.low, band.high
    if band.limit_type == PriceLimitType.PRICE_UNIT:
        return low, high
    middle = _midpoint(listing, band)
    if middle is None:
        return (-NO_LIMIT, NO_LIMIT)
    step = abs(middle)
    # Rounded inwards: a price a fraction outside is outside.
    return middle - (-low * step) // _HUNDRED_PERCENT, middle + (high * step) // _HUNDRED_PERCENT


def hard_limits(listing: Listing) -> tuple[int, int]:
    """Return the lowest and highest price that the hard limits allow now."""
    band = listing.bands.get(PriceBandType.HARD_LIMIT)
    return (-NO_LIMIT, NO_LIMIT) if band is None else limits(listing, band)


def refresh(listing: Listing) -> None:
    """Recompute the limits after a band was set or its reference moved."""
    reject_low = -NO_LIMIT
    reject_high = NO_LIMIT
    for kind in _REFUSING:
        band = listing.bands.get(kind)
        if band is not None:
            low, high = limits(listing, band)
            reject_low = max(reject_low, low)
            reject_high = min(reject_high, high)
    listing.reject_low, listing.reject_high = reject_low, reject_high
    auction = listing.bands.get(PriceBandType.AUCTION_LIMITS)
    if auction is None:
        listing.auction_low, listing.auction_high = -NO_LIMIT, NO_LIMIT
    else:
        listing.auction_low, listing.auction_high = limits(listing, auction)
    listing.bands_float = any(
        band.limit_type != PriceLimitType.PRICE_UNIT for band in listing.bands.values()
    )


def refusal(listing: Listing, price: int) -> Reject:
    """Return the reject of the first band that a price violates."""
    for kind in _REFUSING:
        band = listing.bands.get(kind)
        if band is None:
            continue
        low, high = limits(listing, band)
        if not low <= price <= high:
            reject = PRICE_OUTSIDE_LIMITS
            if kind == PriceBandType.REJECTION_BAND:
                reject = PRICE_OUTSIDE_BAND
            return reject.because(
                f"{price_text(price)} is outside {price_text(low)} to {price_text(high)}"
            )
    return PRICE_OUTSIDE_LIMITS
