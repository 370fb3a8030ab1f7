"""Reject codes of the exchange, each with its text.

The documents print two codes (2600 market protection, 7153 auction synchronism) and refer to a list
for the others; the other numbers follow the matching platform's family of codes. `docs/orders.md`
has all of them.
"""

from __future__ import annotations

from typing import NamedTuple


class Reject(NamedTuple):
    """A reject: its code and its text."""

    code: int
    text: str

    def because(self, detail: str) -> Reject:
        """Return the reject with the detail of this request in its text."""
        return Reject(self.code, f"{self.text}: {detail}")


MARKET_CLOSED = Reject(1003, "The instrument is closed and accepts no requests")
MARKET_PAUSED = Reject(1003, "The instrument is halted and accepts no orders")
LEG_NOT_OPEN = Reject(1003, "A leg of the user-defined spread is not open")
MARKET_FORBIDDEN = Reject(7029, "The instrument is not available for trading")
TYPE_NOT_IN_AUCTION = Reject(7027, "The order type or validity is not accepted during an auction")
BOUND_IN_AUCTION = Reject(
    7027, "An order in the theoretical price cannot be canceled or worsened in this auction"
)
ONLY_IN_AUCTION = Reject(7027, "The validity is accepted only during an auction")
AUCTION_SYNCHRONISM = Reject(7153, "Instrument has an auction synchronism in progress")
PRICE_REQUIRED = Reject(1012, "The order type requires a price")
PRICE_NOT_ACCEPTED = Reject(1012, "The order type does not allow a price")
PRICE_NOT_POSITIVE = Reject(1012, "The price must be greater than zero")
PRICE_OFF_TICK = Reject(2014, "The price is not a multiple of the tick size")
PRICE_OUTSIDE_LIMITS = Reject(2137, "The price is outside the instrument's limits")
PRICE_OUTSIDE_BAND = Reject(2179, "The price is outside the rejection band")
STOP_REQUIRED = Reject(2032, "A stop order requires a stop price")
STOP_NOT_ACCEPTED = Reject(2032, "The order type does not allow a stop price")
NO_REFERENCE_PRICE = Reject(2013, "No reference price to protect a market order with")
NO_OPPOSITE_SIDE = Reject(2013, "No order on the opposite side to trade with")
QUANTITY_OUTSIDE_RANGE = Reject(2115, "The quantity is outside the allowed range")
QUANTITY_OFF_LOT = Reject(5006, "The quantity is not a multiple of the lot size")
QUANTITY_ABOVE_BAND = Reject(2115, "The quantity is above the instrument's quantity limit")
DISCLOSED_TOO_LARGE = Reject(2046, "The disclosed quantity is greater than the order's quantity")
DISCLOSED_INVALID = Reject(2046, "The disclosed quantity is not valid for this instrument")
MINIMUM_INVALID = Reject(1013, "The minimum quantity is not valid for this order")
MINIMUM_KEPT = Reject(1013, "The minimum quantity of an order can be added, but not changed")
UNKNOWN_INSTRUMENT = Reject(2047, "The instrument is unknown")
NOT_TRADED_IN_BOOK = Reject(2047, "The instrument is not traded in an order book")
TYPE_NOT_SUPPORTED = Reject(2311, "The order type is not permitted for this instrument")
TYPE_CHANGE_NOT_ACCEPTED = Reject(2311, "The type of an order of this type cannot be changed")
VALIDITY_NOT_SUPPORTED = Reject(7018, "The validity is not permitted for this instrument")
VALIDITY_INVALID = Reject(7047, "The order type cannot have this validity")
EXPIRE_DATE_INVALID = Reject(2019, "The expiry date is missing or already past")
EXPIRE_DATE_NOT_ACCEPTED = Reject(2019, "Only a good-till-date order has an expiry date")
INVESTOR_INVALID = Reject(2016, "The investor is not identified by a valid number")
ROUTING_INVALID = Reject(2061, "The routing instruction is not valid for this order")
PROTECTION_IN_EFFECT = Reject(2600, "Market Protection in effect")
DUPLICATE_ORDER = Reject(6, "An active order of this session has the same ClOrdID")
UNKNOWN_ORDER = Reject(5, "The order is unknown or no longer active")
NOT_A_FORWARD = Reject(2047, "The instrument is not a forward")
FORWARD_NOT_OPEN = Reject(1003, "Forwards can be declared and accepted only while they are open")
FORWARD_NOT_PRIVATE = Reject(2061, "A forward is declared to one counterparty: it must be private")
DAYS_INVALID = Reject(2115, "The days to settlement are outside the range that the contract allows")
RATE_INVALID = Reject(2013, "The interest rate of a forward must not be negative")
NO_UNDERLYING = Reject(2047, "The forward has no listed underlying to trade in cash")
CASH_TRADE_INVALID = Reject(5, "No cash trade of today has that ID and quantity")
DMA_CANNOT_ACCEPT = Reject(2311, "Forwards cannot be accepted by direct market access")
UNKNOWN_QUOTE = Reject(5, "The declaration is unknown or no longer pending")
CROSS_NOT_ELIGIBLE = Reject(2311, "Cross orders are not permitted for this instrument")
CROSS_TOO_SMALL = Reject(2501, "The quantity is below the instrument's minimum for crosses")
CROSS_TYPE_NOT_ACCEPTED = Reject(2311, "The cross type is not supported")
CROSS_WITHOUT_PRIORITY = Reject(
    2311, "A sweep and cross requires the side that goes to the book first"
)
SWEEP_INVALID = Reject(2115, "The quantity to sweep is not within the quantity of the cross")
CROSS_NOT_OPEN = Reject(1003, "Cross orders are accepted only during continuous trading")
CROSS_THROUGH_BOOK = Reject(2137, "The book has a better price than the cross")
NOT_AN_OPTION = Reject(2047, "The instrument is not an option")
DUPLICATE_POSITION_REQUEST = Reject(6, "The session has used this request ID before")
CLEARING_DATE_INVALID = Reject(2019, "The date is not the current trading day")
POSITION_TOO_SMALL = Reject(2115, "The account's position is too small")
EXERCISE_TOO_EARLY = Reject(2311, "A European option can be exercised on its last day only")
NOT_IN_THE_MONEY = Reject(
    2013, "The option is not in the money and there is no contrary instruction"
)
NOBODY_TO_ASSIGN = Reject(2046, "Not enough writers can be assigned")
UNKNOWN_POSITION_REQUEST = Reject(5, "The request is unknown or no longer pending")
EXERCISE_DONE = Reject(7018, "The request is completed or was canceled before")
UNKNOWN_TRADE = Reject(5, "The firm has no purchase with that trade ID today")
TRADE_HAS_ACCOUNT = Reject(7031, "The trade already has an account")
ALLOCATION_INVALID = Reject(2115, "The quantities exceed the trade's unallocated quantity")
NOTHING_TO_BLOCK = Reject(2046, "The account has not written enough options")
DUPLICATE_ALLOCATION = Reject(6, "The firm has used this allocation ID before")
UNKNOWN_ALLOCATION = Reject(2047, "The firm has no allocation with that ID today")
ACCOUNT_KEPT = Reject(7031, "The account of the order cannot be removed")
