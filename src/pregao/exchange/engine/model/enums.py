"""Enumerations and price scales of the market, with the names and codes of the specifications."""

from __future__ import annotations

from enum import IntEnum, IntFlag, StrEnum

from pregao.units import PRICE_SCALE

PRICE8_DECIMALS = 8
PRICE8_SCALE: int = 10**PRICE8_DECIMALS
"""Closing prices, reference prices, tick sizes and net changes are integers of 1e-8."""
PRICE8_PER_PRICE = PRICE8_SCALE // PRICE_SCALE
"""Factor from a price (1e-4) to the same price in units of 1e-8."""
RATIO_SCALE = 10_000_000
"""Leg ratios are integers of 1e-7."""


class OrderSide(IntEnum):
    """Side of an order (tag 54); the feed calls them bid and offer."""

    BUY = 1
    SELL = 2


class AggressorSide(IntEnum):
    """Side that took liquidity in an execution (tag 2446)."""

    NO_AGGRESSOR = 0
    BUY = 1
    SELL = 2


class OrdType(StrEnum):
    """Order type (tag 40)."""

    MARKET = "1"
    LIMIT = "2"
    STOP_LOSS = "3"
    STOP_LIMIT = "4"
    MARKET_WITH_LEFTOVER_AS_LIMIT = "K"
    RLP = "W"
    PEGGED_MIDPOINT = "P"


class TimeInForce(StrEnum):
    """Order validity (tag 59)."""

    DAY = "0"
    GOOD_TILL_CANCEL = "1"
    IMMEDIATE_OR_CANCEL = "3"
    FILL_OR_KILL = "4"
    GOOD_TILL_DATE = "6"
    AT_THE_CLOSE = "7"
    GOOD_FOR_AUCTION = "A"


class TradingStatus(IntEnum):
    """State of an instrument (tag 326) or phase of a group (tag 625)."""

    PAUSE = 2
    CLOSE = 4
    OPEN = 17
    FORBIDDEN = 18
    """For a group this value is the PRE-CLOSE phase."""
    UNKNOWN_OR_INVALID = 20
    RESERVED = 21
    FINAL_CLOSING_CALL = 101


class TradingSession(IntEnum):
    """Trading session (tag 336)."""

    REGULAR = 1
    NON_REGULAR = 6


class TradeCondition(IntFlag):
    """Conditions of a trade (tag 277), as bits."""

    OPENING_PRICE = 1 << 0
    CROSSED = 1 << 1
    LAST_TRADE_AT_THE_SAME_PRICE = 1 << 2
    OUT_OF_SEQUENCE = 1 << 3
    TRADE_ON_BEHALF = 1 << 6
    REGULAR_TRADE = 1 << 13
    BLOCK_TRADE = 1 << 14


class TrdSubType(IntEnum):
    """Sub type of a trade (tag 829)."""

    MULTI_ASSET_TRADE = 101
    LEG_TRADE = 102
    MIDPOINT_TRADE = 103
    BLOCK_BOOK_TRADE = 104
    RFQ_TRADE = 105
    RF_TRADE = 105
    RLP_TRADE = 106
    TAC_TRADE = 107
    TAA_TRADE = 108
    SWEEP_TRADE = 109


class ImbalanceCondition(IntFlag):
    """Side that an auction leans to (tag 37277), as bits; no bit means balanced."""

    BALANCED = 0
    MORE_BUYERS = 1 << 8
    MORE_SELLERS = 1 << 9


class OpenCloseSettlFlag(IntEnum):
    """Day of an opening, closing or settlement price (tag 286)."""

    DAILY = 0
    SESSION = 1
    EXPECTED_ENTRY = 3
    ENTRY_FROM_PREVIOUS_BUSINESS_DAY = 4
    THEORETICAL_PRICE = 5


class SettlPriceType(IntEnum):
    """Kind of settlement price (tag 731)."""

    FINAL = 1
    THEORETICAL = 2
    UPDATED = 3


class PriceType(IntEnum):
    """Unit of a price (tag 423)."""

    PERCENTAGE = 1
    PU = 2
    FIXED_AMOUNT = 3


class PriceBandType(IntEnum):
    """Kind of price band (tag 6939)."""

    HARD_LIMIT = 1
    AUCTION_LIMITS = 2
    REJECTION_BAND = 3
    STATIC_LIMITS = 4


class PriceLimitType(IntEnum):
    """Unit of a band's limits (tag 1306)."""

    PRICE_UNIT = 0
    TICKS = 1
    PERCENTAGE = 2


class PriceBandMidpoint(IntEnum):
    """Reference of a percentage band (tag 37008)."""

    LAST_TRADED_PRICE = 0
    COMPLEMENTARY_LAST_PRICE = 1
    THEORETICAL_PRICE = 2


class SecurityUpdateAction(StrEnum):
    """Action of a definition message (tag 980)."""

    ADD = "A"
    DELETE = "D"
    MODIFY = "M"


class NewsSource(IntEnum):
    """Source of news (tag 6940)."""

    OTHER = 0
    DCM = 1
    BBMNET = 2
    MARKET_SURVEILLANCE = 3
    INTERNET = 4
    DPR_VE = 5
    OVER_THE_COUNTER_NEWS_AGENCY = 11
    ELECTRONIC_PURCHASE_EXCHANGE = 13
    CBLC_NEWS_AGENCY = 14
    BOVESPA_INDEX_AGENCY = 15
    BOVESPA_INSTITUTIONAL_AGENCY = 16
    MKT_OPS_EQUITIES_AGENCY = 17
    BOVESPA_COMPANIES_AGENCY = 18
    MKT_OPS_FX_AGENCY = 19
    MKT_OPS_DERIVATIVES_AGENCY = 20


class OrdStatus(StrEnum):
    """Status of an order in a report (tag 39)."""

    NEW = "0"
    PARTIALLY_FILLED = "1"
    FILLED = "2"
    CANCELED = "4"
    REPLACED = "5"
    REJECTED = "8"
    EXPIRED = "C"
    RESTATED = "R"
    PREVIOUS_FINAL_STATE = "Z"


class CxlRejResponseTo(IntEnum):
    """Kind of the rejected request (tag 434)."""

    NEW = 0
    CANCEL = 1
    REPLACE = 2


class SelfTradePreventionInstruction(IntEnum):
    """Order that is canceled to prevent a trade of one investor with itself (tag 35539)."""

    NONE = 0
    """No instruction: the aggressor is canceled."""
    CANCEL_AGGRESSOR_ORDER = 1
    CANCEL_RESTING_ORDER = 2
    CANCEL_BOTH_ORDERS = 3


class ProtectionScope(IntFlag):
    """Instruments of a reference that a market protection counts or cancels."""

    NOTHING = 0
    INSTRUMENT = 1
    """The instrument itself, or an asset's instruments other than options."""
    OPTIONS = 2
    """Options on the instrument, or of the asset."""
    BOTH = 3


class RoutingInstruction(IntEnum):
    """Routing instruction of an order (tag 35487)."""

    NONE = 0
    RETAIL_LIQUIDITY_TAKER = 1
    """A retail customer's order, which may trade with its firm's liquidity provider."""
    WAIVED_PRIORITY = 2
    """Gives its firm's liquidity provider priority over itself."""
    BROKER_ONLY = 3
    BROKER_ONLY_REMOVAL = 4


class MassActionType(IntEnum):
    """Type of a mass action (tag 1373)."""

    RELEASE_ORDERS_FROM_SUSPENSION = 2
    CANCEL_ORDERS = 3
    CANCEL_AND_SUSPEND_ORDERS = 4


class MassActionRejectReason(IntEnum):
    """Reason for rejecting a mass action (tag 1376)."""

    MASS_ACTION_NOT_SUPPORTED = 0
    INVALID_OR_UNKNOWN_MARKET_SEGMENT = 8
    OTHER = 99


class CrossType(IntEnum):
    """Kind of cross order (tag 549)."""

    ALL_OR_NONE_CROSS = 1
    CROSS_EXECUTED_AGAINST_BOOK_FROM_CLIENT = 4
    """Sweep and cross: first against the book, the rest between the two sides."""
    VWAP_CROSS = 7
    CLOSING_PRICE_CROSS = 8


class CrossPrioritization(IntEnum):
    """Side of a cross that trades with the book first (tag 550)."""

    NONE = 0
    BUY_SIDE_IS_PRIORITIZED = 1
    SELL_SIDE_IS_PRIORITIZED = 2


class SecurityResponseType(IntEnum):
    """Response to a proposal for a new instrument (tag 323)."""

    ACCEPT_SECURITY_PROPOSAL_AS_IS = 1
    ACCEPT_SECURITY_AS_PROPOSAL_WITH_REVISIONS = 2
    REJECT_SECURITY_PROPOSAL = 5


class QuoteStatus(IntEnum):
    """State of a forward declaration (tag 297)."""

    ACCEPTED = 0
    REJECTED = 5
    EXPIRED = 7
    QUOTE_NOT_FOUND = 9
    PENDING = 10
    PASS = 11
    CANCELED = 17


class QuoteStatusResponseTo(StrEnum):
    """Kind of request that a report on a forward answers (tag 35005)."""

    QUOTE = "0"
    QUOTE_REQUEST = "1"
    QUOTE_CANCEL = "2"
    QUOTE_REQUEST_REJECT = "3"


class SettlType(StrEnum):
    """Party that may settle a forward early (tag 63)."""

    BUYERS_DISCRETION = "0"
    SELLERS_DISCRETION = "8"
    MUTUAL = "X"


class ExecRestatementReason(IntEnum):
    """Reason for an unsolicited cancel or restatement (tag 378)."""

    GT_RESTATEMENT = 1
    MARKET_OPTION = 8
    CANCEL_ON_HARD_DISCONNECTION = 100
    CANCEL_ON_TERMINATE = 101
    CANCEL_ON_DISCONNECT_AND_TERMINATE = 102
    SELF_TRADING_PREVENTION = 103
    CANCEL_FROM_FIRMSOFT = 105
    CANCEL_RESTING_ORDER_ON_SELF_TRADE = 107
    MARKET_MAKER_PROTECTION = 200
    RISK_MANAGEMENT_CANCELLATION = 201
    ORDER_MASS_ACTION_FROM_CLIENT_REQUEST = 202
    CANCEL_ORDER_DUE_TO_OPERATIONAL_ERROR = 203
    """In a request; the report has 204."""
    ORDER_CANCELLED_DUE_TO_OPERATIONAL_ERROR = 204
    CANCEL_ORDER_FIRMSOFT_DUE_TO_OPERATIONAL_ERROR = 205
    ORDER_CANCELLED_FIRMSOFT_DUE_TO_OPERATIONAL_ERROR = 206
    MASS_CANCEL_ORDER_DUE_TO_OPERATIONAL_ERROR_REQUEST = 207
    """In a request; the report has 208."""
    MASS_CANCEL_ORDER_DUE_TO_OPERATIONAL_ERROR_EFFECTIVE = 208
    CANCEL_MINIMUM_QTY_BLOCK = 209
    CANCEL_REMAINING_FROM_SWEEP_CROSS = 210
    MASS_CANCEL_ON_BEHALF = 211
    MASS_CANCEL_ON_BEHALF_DUE_TO_OPERATIONAL_ERROR_EFFECTIVE = 212
    CANCEL_ON_MIDPOINT_BROKER_ONLY_REMOVAL = 213


class PosType(StrEnum):
    """Kind of a position quantity (tag 703)."""

    TRANSACTION_QUANTITY = "T"
    START_OF_DAY_QTY = "S"
    OPTION_EXERCISE_QTY = "E"
    BLOCKED_QTY = "B"
    UNCOVERED_QTY = "U"
    COVERED_QTY = "C"


class PosTransType(IntEnum):
    """Type of a position request (tag 709)."""

    EXERCISE = 1
    AUTOMATIC_EXERCISE = 105
    EXERCISE_NOT_AUTOMATIC = 106


class PosMaintAction(IntEnum):
    """Action of a position request: a new one, or the cancellation of one (tag 712)."""

    NEW = 1
    CANCEL = 3


class PosMaintStatus(IntEnum):
    """Status of a position request (tag 722)."""

    ACCEPTED = 0
    REJECTED = 2
    COMPLETED = 3
    NOT_EXECUTED = 9
