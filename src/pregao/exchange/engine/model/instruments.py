"""Instruments: every field of a security definition, with the feed's names."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from enum import IntEnum

from pregao.exchange.engine.model.auction_rules import AuctionRules
from pregao.exchange.engine.model.enums import PRICE8_PER_PRICE, OrderSide, PriceType


class SecurityType(IntEnum):
    """Type of security (tag 167)."""

    CASH = 1
    CORP = 2
    CS = 3
    DTERM = 4
    ETF = 5
    FOPT = 6
    FORWARD = 7
    FUT = 8
    INDEX = 9
    INDEXOPT = 10
    MLEG = 11
    OPT = 12
    OPTEXER = 13
    PS = 14
    SECLOAN = 15
    SOPT = 16
    SPOT = 17


class Product(IntEnum):
    """Type of product (tag 460)."""

    COMMODITY = 2
    CORPORATE = 3
    CURRENCY = 4
    EQUITY = 5
    GOVERNMENT = 6
    INDEX = 7
    ECONOMIC_INDICATOR = 15
    MULTILEG = 16


class LotType(IntEnum):
    """Type of lot of a cash instrument (tag 1093)."""

    ODD_LOT = 1
    ROUND_LOT = 2
    BLOCK_LOT = 3


class PutOrCall(IntEnum):
    """Kind of option (tag 201)."""

    PUT = 0
    CALL = 1


class ExerciseStyle(IntEnum):
    """Times at which an option can be exercised (tag 1194)."""

    EUROPEAN = 0
    AMERICAN = 1


class OptPayoutType(IntEnum):
    """Payout of an option in the money (tag 1482)."""

    VANILLA = 1
    CAPPED = 2
    VANILLA_CASH_SETTLEMENT = 2
    """Name of the same value from schema version 17 on."""
    BINARY = 3


class GovernanceIndicator(IntEnum):
    """Level of corporate governance (tag 37011)."""

    NO = 0
    N1 = 1
    N2 = 2
    NM = 4
    MA = 5
    MB = 6
    M2 = 7


class MultiLegModel(IntEnum):
    """Origin of a multileg instrument (tag 1377)."""

    PREDEFINED = 0
    USER_DEFINED = 1


class MultiLegPriceMethod(IntEnum):
    """Relation of a multileg instrument's price to those of its legs (tag 1378)."""

    NET_PRICE = 0
    REVERSED_NET_PRICE = 1
    YIELD_DIFFERENCE = 2
    INDIVIDUAL = 3
    CONTRACT_WEIGHTED_AVERAGE_PRICE = 4
    MULTIPLIED_PRICE = 5


class InstrAttribType(IntEnum):
    """Kind of an instrument attribute (tag 871)."""

    TRADE_TYPE_ELIGIBILITY = 24
    GTD_GTC_ELIGIBILITY = 34
    TEST_INSTRUMENT = 35
    """Only on the binary feed, from schema version 17 on."""


class InstrAttribValue(IntEnum):
    """Value of an instrument attribute (tag 872)."""

    ELECTRONIC_MATCH_OR_GTD_GTC_ELIGIBLE = 1
    ORDER_CROSS_ELIGIBLE = 2
    BLOCK_TRADE_ELIGIBLE = 3
    FLAG_RFQ_FOR_CROSS_ELIGIBLE = 14
    NEGOTIATED_QUOTE_ELIGIBLE = 17


@dataclass(frozen=True, slots=True)
class MaturityMonthYear:
    """A maturity by year and month, and by day or week where needed."""

    year: int
    month: int
    day: int | None = None
    week: int | None = None


@dataclass(frozen=True, slots=True)
class Underlying:
    """The underlying of an option or a forward."""

    security_id: int
    symbol: str


@dataclass(frozen=True, slots=True)
class Leg:
    """One leg of a multileg instrument; the ratio is an integer of 1e-7."""

    security_id: int
    symbol: str
    ratio_qty: int
    security_type: SecurityType
    side: OrderSide


@dataclass(frozen=True, slots=True)
class InstrAttrib:
    """One attribute of an instrument."""

    type: InstrAttribType
    value: InstrAttribValue


@dataclass(frozen=True, slots=True)
class Instrument:
    """A listed instrument.

    Prices (strike) are integers of 1e-4; tick, multiplier and divisor are integers of 1e-8; a field
    that does not apply is None. The fields after ``security_desc`` are rules of this market that no
    definition message carries.
    """

    security_id: int
    symbol: str
    security_group: str
    security_type: SecurityType
    security_sub_type: int
    product: Product
    asset: str
    cfi_code: str
    min_price_increment: int
    security_exchange: str = "BVMF"
    security_id_source: str = "8"
    currency: str = "BRL"
    strike_currency: str | None = None
    settl_currency: str | None = None
    strike_price: int | None = None
    contract_multiplier: int | None = None
    price_divisor: int | None = None
    security_validity_s: int = 253_402_300_799
    """Seconds since 1970 after which the instrument can no longer be traded."""
    no_shares_issued: int | None = None
    clearing_house_id: int | None = None
    min_order_qty: int | None = None
    max_order_qty: int | None = None
    min_lot_size: int | None = None
    min_trade_vol: int | None = None
    min_cross_qty: int | None = None
    corporate_action_event_id: int | None = None
    issue_date: date = date(2000, 1, 3)
    maturity_date: date | None = None
    country_of_issue: str | None = "BR"
    start_date: date | None = None
    end_date: date | None = None
    settl_type: int | None = None
    settl_date: date | None = None
    dated_date: date | None = None
    isin_number: str | None = None
    maturity_month_year: MaturityMonthYear | None = None
    contract_settl_month: MaturityMonthYear | None = None
    security_strategy_type: str | None = None
    lot_type: LotType | None = None
    tick_size_denominator: int | None = None
    exercise_style: ExerciseStyle | None = None
    put_or_call: PutOrCall | None = None
    opt_payout_type: OptPayoutType | None = None
    price_type: PriceType | None = None
    market_segment_id: int | None = None
    governance_indicator: GovernanceIndicator | None = None
    security_match_type: int | None = None
    multi_leg_model: MultiLegModel | None = None
    multi_leg_price_method: MultiLegPriceMethod | None = None
    implied_market_indicator: bool = False
    underlyings: tuple[Underlying, ...] = ()
    legs: tuple[Leg, ...] = ()
    attributes: tuple[InstrAttrib, ...] = ()
    security_desc: str = ""

    channel: int = 0
    """Market data channel of the instrument."""
    previous_close: int | None = None
    """Closing price of the previous day, as an integer of 1e-8."""
    protection_offset: int | None = None
    """Maximum distance from the last trade at which a market order may trade (1e-4)."""

    rlp_improvement: int | None = None
    """Price improvement of a retail liquidity provider over the best price (1e-4)."""

    auction: AuctionRules | None = None
    """Rules by which its auctions end; None: those of the phase or the market."""

    @property
    def tick(self) -> int:
        """Minimum price increment as a price (1e-4)."""
        return self.min_price_increment // PRICE8_PER_PRICE

    @property
    def lot(self) -> int:
        """Lot size, of which every order's quantity is a multiple."""
        return self.min_lot_size or 1

    @property
    def allows_any_sign(self) -> bool:
        """Whether prices may be zero or negative, as those of spreads between legs."""
        return bool(self.legs)

    @property
    def is_forward(self) -> bool:
        """Whether it is a forward ("termo"): agreed between two firms, never matched in a book."""
        return self.security_type in (SecurityType.FORWARD, SecurityType.DTERM)

    def allows(self, value: InstrAttribValue) -> bool:
        """Whether the instrument is eligible for this type of trade."""
        return InstrAttrib(InstrAttribType.TRADE_TYPE_ELIGIBILITY, value) in self.attributes

    @property
    def allows_good_till(self) -> bool:
        """Whether orders may outlive the day (GTC, GTD)."""
        return (
            InstrAttrib(
                InstrAttribType.GTD_GTC_ELIGIBILITY,
                InstrAttribValue.ELECTRONIC_MATCH_OR_GTD_GTC_ELIGIBLE,
            )
            in self.attributes
        )
