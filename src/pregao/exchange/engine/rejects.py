"""Why a request is refused: the exchange's numeric codes, each with a sentence.

The documents print two codes (2600 market protection, 7153 auction synchronism) and refer to a
list for the others; the numbers here follow the matching platform's family of codes.
"""

from __future__ import annotations

from typing import NamedTuple


class Reject(NamedTuple):
    """A refusal: its code and its text."""

    code: int
    text: str

    def because(self, detail: str) -> Reject:
        """The same refusal with what was wrong in this request."""
        return Reject(self.code, f"{self.text}: {detail}")


MARKET_CLOSED = Reject(1003, "The instrument is closed and takes no requests")
MARKET_PAUSED = Reject(1003, "The instrument is halted and takes no orders")
MARKET_FORBIDDEN = Reject(7029, "The instrument is not available for trading")
TYPE_NOT_IN_AUCTION = Reject(7027, "The order type or validity is not taken during an auction")
BOUND_IN_AUCTION = Reject(
    7027, "An order in the theoretical price is not cancelled or made worse in this auction"
)
ONLY_IN_AUCTION = Reject(7027, "The validity is taken only during an auction")
AUCTION_SYNCHRONISM = Reject(7153, "Instrument has an auction synchronism in progress")
PRICE_REQUIRED = Reject(1012, "The order type needs a price")
PRICE_NOT_TAKEN = Reject(1012, "The order type takes no price")
PRICE_NOT_POSITIVE = Reject(1012, "The price must be greater than zero")
PRICE_OFF_TICK = Reject(2014, "The price is not a multiple of the tick size")
PRICE_OUTSIDE_LIMITS = Reject(2137, "The price is outside the instrument's limits")
PRICE_OUTSIDE_BAND = Reject(2179, "The price is outside the rejection band")
STOP_REQUIRED = Reject(2032, "A stop order needs a stop price")
STOP_NOT_TAKEN = Reject(2032, "The order type takes no stop price")
NO_REFERENCE_PRICE = Reject(2013, "There is no reference price to protect a market order with")
NO_OPPOSITE_SIDE = Reject(2013, "There is no order on the opposite side to trade with")
QUANTITY_OUTSIDE_RANGE = Reject(2115, "The quantity is outside the allowed range")
QUANTITY_OFF_LOT = Reject(5006, "The quantity is not a multiple of the lot")
QUANTITY_ABOVE_BAND = Reject(2115, "The quantity is above the instrument's quantity limit")
DISCLOSED_TOO_LARGE = Reject(2046, "The disclosed quantity is greater than the order's quantity")
DISCLOSED_INVALID = Reject(2046, "The disclosed quantity is not valid for this instrument")
MINIMUM_INVALID = Reject(1013, "The minimum quantity is not valid for this order")
UNKNOWN_INSTRUMENT = Reject(2047, "The instrument is unknown")
NOT_TRADED_IN_BOOK = Reject(2047, "The instrument is not traded in an order book")
TYPE_NOT_SUPPORTED = Reject(2311, "The order type is not permitted for this instrument")
TYPE_CHANGE_NOT_TAKEN = Reject(2311, "An order of this type keeps its type")
VALIDITY_NOT_SUPPORTED = Reject(7018, "The validity is not permitted for this instrument")
VALIDITY_INVALID = Reject(7047, "The order type and the validity do not go together")
EXPIRE_DATE_INVALID = Reject(2019, "The expiry date is missing or already past")
INVESTOR_INVALID = Reject(2016, "The investor is not identified by a valid number")
ROUTING_INVALID = Reject(2061, "The routing instruction does not go with the order")
PROTECTION_IN_EFFECT = Reject(2600, "Market Protection in effect")
DUPLICATE_ORDER = Reject(6, "A standing order of this session has the same ClOrdID")
UNKNOWN_ORDER = Reject(5, "The order is unknown or no longer standing")
NOT_A_FORWARD = Reject(2047, "The instrument is not a forward")
FORWARD_NOT_OPEN = Reject(1003, "Forwards are declared and accepted only while they are open")
FORWARD_NOT_PRIVATE = Reject(2061, "A forward is declared to one counterparty: it must be private")
DAYS_INVALID = Reject(2115, "The days to settlement are outside of what the contract allows")
RATE_INVALID = Reject(2013, "The interest rate of a forward is not negative")
NO_UNDERLYING = Reject(2047, "The forward has no listed underlying to trade in cash")
CASH_TRADE_INVALID = Reject(5, "There is no cash trade of that number and quantity today")
DMA_CANNOT_ACCEPT = Reject(2311, "Forwards are not accepted by direct market access")
UNKNOWN_QUOTE = Reject(5, "The declaration is unknown or no longer pending")
CROSS_NOT_ELIGIBLE = Reject(2311, "Cross orders are not permitted for this instrument")
CROSS_TOO_SMALL = Reject(2501, "The quantity is below the instrument's minimum for crosses")
CROSS_TYPE_NOT_TAKEN = Reject(2311, "The kind of cross is not taken")
CROSS_WITHOUT_PRIORITY = Reject(2311, "A sweep and cross says which side goes to the book")
SWEEP_INVALID = Reject(2115, "The quantity to sweep is not within the quantity of the cross")
CROSS_NOT_OPEN = Reject(1003, "Cross orders are taken only during continuous trading")
CROSS_THROUGH_BOOK = Reject(2137, "The book holds a better price than the cross")
NOT_AN_OPTION = Reject(2047, "The instrument is not an option")
DUPLICATE_POSITION_REQUEST = Reject(6, "The session has used the number of the request before")
CLEARING_DATE_INVALID = Reject(2019, "The date is not the current trading day")
POSITION_TOO_SMALL = Reject(2115, "The account does not hold that many")
EXERCISE_TOO_EARLY = Reject(2311, "A European option is exercised on its last day only")
NOT_IN_THE_MONEY = Reject(2013, "The option is not in the money, and that was not waived")
NOBODY_TO_ASSIGN = Reject(2046, "There are not enough writers that can be assigned")
UNKNOWN_POSITION_REQUEST = Reject(5, "The request is unknown or no longer pending")
EXERCISE_DONE = Reject(7018, "The request is done, or was taken back before")
UNKNOWN_TRADE = Reject(5, "The firm has no purchase of that number today")
TRADE_HAS_ACCOUNT = Reject(7031, "The trade already has an account")
ALLOCATION_INVALID = Reject(2115, "The quantities do not fit what the trade has left")
NOTHING_TO_BLOCK = Reject(2046, "The account has not written that many")
DUPLICATE_ALLOCATION = Reject(6, "The firm has used the number of the allocation before")
UNKNOWN_ALLOCATION = Reject(2047, "The firm has no allocation of that number today")
ACCOUNT_KEPT = Reject(7031, "The account of the order cannot be removed")
