"""What market operations ask of the market: phases, days, protections, corrections, statistics.

Prices are integers of 1e-4, those named ``…8`` integers of 1e-8, quantities plain integers.
"""

from __future__ import annotations

from datetime import date

from pregao.exchange.engine.auction_rules import AuctionRules
from pregao.exchange.engine.instruments import Instrument
from pregao.exchange.engine.records import record
from pregao.exchange.engine.terms import (
    ExecRestatementReason,
    NewsSource,
    OpenCloseSettlFlag,
    PriceBandMidpoint,
    PriceBandType,
    PriceLimitType,
    PriceType,
    ProtectionScope,
    SettlPriceType,
    Side,
    TradingSession,
    TradingStatus,
    TrdSubType,
)

MARKET_OPERATIONS = 0
"""The session number of the exchange itself."""


@record
class ProtectionReference:
    """What a market protection watches: an instrument with its options, or an asset."""

    security_id: int = 0
    asset: str = ""
    counts: ProtectionScope = ProtectionScope.BOTH
    cancels: ProtectionScope = ProtectionScope.BOTH


@record
class SetProtection:
    """Protect an account of a firm; a configuration of the same number is replaced.

    A limit of None is off. ``net_quantity`` is the buy/sell protection; ``delta`` is an integer of
    1e-4. Of other orders than limit orders only those are cancelled that are chosen here.
    """

    protection_id: int
    firm: int
    account: int
    references: tuple[ProtectionReference, ...]
    interval_ns: int
    new_order_fills: int | None = None
    executions: int | None = None
    traded_quantity: int | None = None
    net_quantity: int | None = None
    delta: int | None = None
    cancels_good_till: bool = False
    cancels_stops: bool = False
    cancels_at_close: bool = False


@record
class RemoveProtection:
    """Take a market protection away."""

    protection_id: int


@record
class SetDelta:
    """Set the delta of an instrument (1e-4, negative for puts); without one it is 1.0."""

    security_id: int
    delta: int


@record
class SetPosition:
    """Let an account have this much of an option at the beginning of the day."""

    firm: int
    account: int
    security_id: int
    long_qty: int
    short_qty: int


@record
class LinkAccounts:
    """Let trades of an account be given up to another firm; to firm 0: no more."""

    firm: int
    account: int
    to_firm: int
    to_account: int


@record
class AnswerGiveUp:
    """A firm accepts to carry a trade that was given up to it, or refuses."""

    give_up_id: int
    accepted: bool


@record
class SetGroupPhase:
    """Move a group to a phase; its instruments follow unless they have a state of their own.

    ``open_time_ns`` is the estimated end of the auction that begins. ``new_session`` marks a
    change of trading session: the statistics of the group's instruments start afresh. ``auction``
    says how the auctions of the phase end.
    """

    group: str
    phase: TradingStatus
    session: TradingSession | None = None
    new_session: bool = False
    open_time_ns: int | None = None
    auction: AuctionRules | None = None


@record
class SetSecurityStatus:
    """Give an instrument a state of its own, apart from its group."""

    security_id: int
    status: TradingStatus
    open_time_ns: int | None = None
    new_session: bool = False


@record
class RejoinGroup:
    """Let an instrument follow its group again."""

    security_id: int


@record
class PairAuctions:
    """Let the auctions of two instruments begin and end together."""

    first: int
    second: int


@record
class AdvanceTime:
    """Nothing but the passing of time: auctions whose end has come are closed."""


@record
class EndDay:
    """End the trading day: orders valid for the day, or for a date reached, expire."""


@record
class StartDay:
    """Begin a trading day, ending the one before: trade numbers and statistics start afresh."""

    trade_date: date


@record
class AddInstrument:
    """List an instrument during the day."""

    instrument: Instrument


@record
class ChangeInstrument:
    """Replace the definition of a listed instrument."""

    instrument: Instrument


@record
class RemoveInstrument:
    """Take an instrument off the list; its orders are cancelled."""

    security_id: int


@record
class BustTrade:
    """Cancel a trade."""

    security_id: int
    trade_id: int


@record
class EnterTrade:
    """Enter a trade by market operations.

    ``interest_rate`` (1e-4, a fraction: 1 % is 100) and ``seller_days`` belong to forwards.
    """

    security_id: int
    price: int
    quantity: int
    buyer: int | None = None
    seller: int | None = None
    trd_sub_type: TrdSubType | None = None
    crossed: bool = False
    out_of_sequence: bool = False
    on_behalf: bool = True
    transact_time_ns: int | None = None
    seller_days: int | None = None
    interest_rate: int | None = None


@record
class AmendTrade:
    """Correct a trade: it is published again under its number; None keeps what it had."""

    security_id: int
    trade_id: int
    price: int | None = None
    quantity: int | None = None
    buyer: int | None = None
    seller: int | None = None
    transact_time_ns: int | None = None


@record
class ExpelOrder:
    """Cancel any order by market operations."""

    order_id: int
    reason: ExecRestatementReason = ExecRestatementReason.MARKET_OPTION


@record
class DeleteSide:
    """Cancel every order on one side of a book at once."""

    security_id: int
    side: Side


@record
class EnterImplied:
    """Put a synthetic order into the book of an implied-eligible instrument by hand."""

    security_id: int
    side: Side
    price: int
    quantity: int


@record
class PublishNews:
    """Publish a piece of news, on an instrument or on the market."""

    headline: str
    text: str
    url: str = ""
    source: NewsSource = NewsSource.MARKET_SURVEILLANCE
    security_id: int | None = None
    language: str | None = None
    news_id: int | None = None


@record
class ResetBook:
    """Send an instrument's book anew: EmptyBook, then its orders as recovery."""

    security_id: int


@record
class ResetChannel:
    """Send all books of a channel anew, after a ChannelReset."""

    channel: int


@record
class ResetStream:
    """Restart a channel's incremental stream: SequenceReset, then all its books anew."""

    channel: int


@record
class SetClosingPrice:
    """Publish a closing price."""

    security_id: int
    price8: int
    flag: OpenCloseSettlFlag = OpenCloseSettlFlag.DAILY
    last_trade_date: date | None = None


@record
class SetSettlementPrice:
    """Publish a settlement price of any kind."""

    security_id: int
    price: int
    flag: OpenCloseSettlFlag = OpenCloseSettlFlag.DAILY
    settl_price_type: SettlPriceType = SettlPriceType.FINAL
    price_type: PriceType | None = None


@record
class SetOpenInterest:
    """Publish how many contracts are open."""

    security_id: int
    quantity: int


@record
class SetPriceBand:
    """Set one of an instrument's price bands, or without a type its reference price.

    With limits in percent, ``low`` and ``high`` are percentages times 1e4 away from the
    midpoint (5 % below is -50000). None opens a side.
    """

    security_id: int
    band_type: PriceBandType | None = None
    limit_type: PriceLimitType | None = PriceLimitType.PRICE_UNIT
    midpoint: PriceBandMidpoint | None = None
    low: int | None = None
    high: int | None = None
    reference8: int | None = None


@record
class SetQuantityBand:
    """Set an instrument's quantity limit."""

    security_id: int
    max_trade_vol: int | None
    avg_daily_traded_qty: int | None = None


@record
class AdjustLastTrade:
    """Correct the last trade price after a failure."""

    security_id: int
    price: int
    quantity: int
