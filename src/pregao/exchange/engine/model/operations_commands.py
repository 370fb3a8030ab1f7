"""Commands of market operations: phases, days, protections, corrections, statistics.

Prices are integers of 1e-4, those named ``…8`` integers of 1e-8, quantities plain integers.
"""

from __future__ import annotations

from datetime import date

from pregao.exchange.engine.model.auction_rules import AuctionRules
from pregao.exchange.engine.model.enums import (
    ExecRestatementReason,
    NewsSource,
    OpenCloseSettlFlag,
    OrderSide,
    PriceBandMidpoint,
    PriceBandType,
    PriceLimitType,
    PriceType,
    ProtectionScope,
    SettlPriceType,
    TradingSession,
    TradingStatus,
    TrdSubType,
)
from pregao.exchange.engine.model.instruments import Instrument
from pregao.records import record

MARKET_OPERATIONS = 0
"""Session ID of the exchange itself."""


@record
class ProtectionReference:
    """Scope of a market protection: an instrument with its options, or an asset."""

    security_id: int = 0
    asset: str = ""
    counts: ProtectionScope = ProtectionScope.BOTH
    cancels: ProtectionScope = ProtectionScope.BOTH


@record
class SetProtection:
    """Protect an account of a firm; replaces the configuration with the same ID.

    A limit of None is off. ``net_quantity`` is the buy/sell protection; ``delta`` is an integer of
    1e-4. Good-till, stop and at-the-close orders are canceled only with their
    ``cancels_…`` flag.
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
    """Remove a market protection."""

    protection_id: int


@record
class SetDelta:
    """Set the delta of an instrument (1e-4, negative for puts); the default is 1.0."""

    security_id: int
    delta: int


@record
class SetBlacklisted:
    """Put an instrument on the blacklist of user-defined spreads, or take it off."""

    security_id: int
    blacklisted: bool = True


@record
class SetPosition:
    """Set an account's position in an option at the start of the day."""

    firm: int
    account: int
    security_id: int
    long_qty: int
    short_qty: int


@record
class LinkAccounts:
    """Give up the trades of an account to another firm; firm 0 removes the link."""

    firm: int
    account: int
    to_firm: int
    to_account: int


@record
class AnswerGiveUp:
    """Record a firm's answer to a trade that was given up to it: accepted or refused."""

    give_up_id: int
    accepted: bool


@record
class SetGroupPhase:
    """Move a group to a phase; its instruments follow unless they have their own state.

    ``open_time_ns`` is the estimated end of the auction that starts. ``new_session`` marks a change
    of trading session, which resets the statistics of the group's instruments. ``auction`` has the
    rules by which the phase's auctions end.
    """

    group: str
    phase: TradingStatus
    session: TradingSession | None = None
    new_session: bool = False
    open_time_ns: int | None = None
    auction: AuctionRules | None = None


@record
class SetSecurityStatus:
    """Set an instrument's own state, independent of its group."""

    security_id: int
    status: TradingStatus
    open_time_ns: int | None = None
    new_session: bool = False


@record
class RejoinGroup:
    """Make an instrument follow its group again."""

    security_id: int


@record
class PairAuctions:
    """Make the auctions of two instruments start and end together."""

    first: int
    second: int


@record
class AdvanceTime:
    """Advance the time, which closes auctions whose end has come."""


@record
class EndDay:
    """End the trading day: day orders and orders whose expiry date is reached expire."""


@record
class StartDay:
    """Start a trading day, ending the previous one; trade IDs and statistics restart."""

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
    """Delist an instrument and cancel its orders."""

    security_id: int


@record
class BustTrade:
    """Cancel a trade."""

    security_id: int
    trade_id: int


@record
class EnterTrade:
    """Enter a trade by market operations.

    ``interest_rate`` (1e-4, a fraction: 1 % is 100) and ``seller_days`` apply to forwards.
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
    """Correct a trade and publish it again under its trade ID; None keeps a value."""

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
    """Cancel all orders on one side of a book in one event."""

    security_id: int
    side: OrderSide


@record
class EnterImplied:
    """Enter a synthetic order manually into the book of an implied-eligible instrument."""

    security_id: int
    side: OrderSide
    price: int
    quantity: int


@record
class PublishNews:
    """Publish news on an instrument or on the market."""

    headline: str
    text: str
    url: str = ""
    source: NewsSource = NewsSource.MARKET_SURVEILLANCE
    security_id: int | None = None
    language: str | None = None
    news_id: int | None = None


@record
class ResetBook:
    """Republish an instrument's book: EmptyBook, then its orders as recovery."""

    security_id: int


@record
class ResetChannel:
    """Republish all books of a channel after a ChannelReset."""

    channel: int


@record
class ResetStream:
    """Restart a channel's incremental stream: SequenceReset, then all its books."""

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
    """Publish a settlement price of any kind.

    Without ``settl_date`` it is of the trading day, unless the flag names the previous one.
    """

    security_id: int
    price: int
    flag: OpenCloseSettlFlag = OpenCloseSettlFlag.DAILY
    settl_price_type: SettlPriceType = SettlPriceType.FINAL
    price_type: PriceType | None = None
    settl_date: date | None = None


@record
class SetOpenInterest:
    """Publish the number of open contracts."""

    security_id: int
    quantity: int


@record
class SetPriceBand:
    """Set one of an instrument's price bands, or its reference price if ``band_type`` is None.

    A band requires both limits. Rejection and auction bands can have them in percent: then they are
    percentages times 1e4, relative to the midpoint, which they require (5 % below is -50000).
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
