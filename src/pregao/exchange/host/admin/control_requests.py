"""Control requests of market operations: one frozen record class per command.

A request is a JSON object with ``command`` and the fields of that command. It is parsed and checked
completely before it reaches the journal or the engine.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from typing import Any, Final

from pregao.clock import SECOND
from pregao.errors import UsageError
from pregao.exchange.engine.model.auction_rules import AuctionRules
from pregao.exchange.engine.model.enums import (
    OpenCloseSettlFlag,
    OrderSide,
    PriceBandMidpoint,
    PriceBandType,
    PriceLimitType,
    PriceType,
    ProtectionScope,
    SettlPriceType,
    TradingSession,
    TrdSubType,
)
from pregao.exchange.engine.model.schedule import PHASE_NAMES
from pregao.exchange.host.admin import request_fields as rule
from pregao.exchange.host.gateway.order_requests import MAX_QUANTITY
from pregao.units import midnight_ns

PHASES: Final = {
    name: PHASE_NAMES[name]
    for name in ("PRE_OPEN", "OPEN", "PAUSE", "PRE_CLOSE", "CLOSE", "FINAL_CLOSING_CALL")
}
ALL_GROUPS: Final = "all"
FIRST_DAY: Final = datetime.date(1990, 1, 1)
LAST_DAY: Final = datetime.date(2100, 12, 31)
"""Days up to this one, and dates derived from them, fit the 16 bits of a date on the wire."""
MAX_TIME_NS: Final = midnight_ns(LAST_DAY)
MAX_HEADLINE_BYTES: Final = 512
"""The headline is repeated in every part of a news item, each in a packet of 1,400 bytes."""
MAX_TEXT_BYTES: Final = 65_536
MAX_CATALOGUE_BYTES: Final = 900_000
MAX_NUMBER: Final = 2**32 - 2
"""Firms, accounts, trades and sessions have 32 bits on the wire."""
MAX_ORDER_ID: Final = 2**63 - 1
_MAX_SYMBOL: Final = 64
_MAX_DAYS: Final = 999
"""Days to the settlement of a forward (003 §15.3.7)."""
_DEFAULT_BAND: Final = PriceBandType.REJECTION_BAND.name
_SCOPES: Final = ("INSTRUMENT", "OPTIONS", "BOTH")
"""Names of `ProtectionScope` that a reference can count or cancel."""
_MAX_WATCHED: Final = 1_000
_MAX_SPAN_NS: Final = 86_400 * SECOND


@dataclass(frozen=True, slots=True)
class AuctionTable:
    """Auction rules, with the fields of `AuctionRules`."""

    duration_ns: int | None = rule.whole(1, _MAX_SPAN_NS, default=None)
    extension_ns: int = rule.whole(0, _MAX_SPAN_NS, default=0)
    window_ns: int = rule.whole(0, _MAX_SPAN_NS, default=0)
    extensions: int = rule.whole(0, 1_000, default=0)
    random_ns: int = rule.whole(0, _MAX_SPAN_NS, default=0)
    protection: int | None = rule.whole(1, 10_000_000, default=None)
    binding: bool = rule.flag()
    self_trade: bool = rule.flag()

    def rules(self) -> AuctionRules:
        """Return the engine's auction rules."""
        return AuctionRules(
            self.duration_ns,
            self.extension_ns,
            self.window_ns,
            self.extensions,
            self.random_ns,
            self.protection,
            self.binding,
            self.self_trade,
        )


@dataclass(frozen=True, slots=True)
class PhaseRequest:
    """Move a group of instruments, or all, to a phase."""

    phase: str = rule.choice(PHASES)
    group: str = rule.text(_MAX_SYMBOL, default=ALL_GROUPS)
    session: str | None = rule.choice(TradingSession.__members__, default=None)
    new_session: bool = rule.flag()
    open_time_ns: int | None = rule.whole(0, MAX_TIME_NS, default=None)
    auction: AuctionTable | None = rule.record(AuctionTable)  # noqa: RUF009


@dataclass(frozen=True, slots=True)
class HaltRequest:
    """Halt an instrument."""

    symbol: str = rule.text(_MAX_SYMBOL)


@dataclass(frozen=True, slots=True)
class ForbidRequest:
    """Make an instrument unavailable for trading until it is resumed."""

    symbol: str = rule.text(_MAX_SYMBOL)


@dataclass(frozen=True, slots=True)
class AuctionRequest:
    """Put an instrument into an auction; without an end time it lasts until it is resumed."""

    symbol: str = rule.text(_MAX_SYMBOL)
    until_ns: int | None = rule.whole(0, MAX_TIME_NS, default=None)


@dataclass(frozen=True, slots=True)
class ResumeRequest:
    """Return an instrument to the phase of its group."""

    symbol: str = rule.text(_MAX_SYMBOL)


@dataclass(frozen=True, slots=True)
class BustRequest:
    """Cancel a trade."""

    symbol: str = rule.text(_MAX_SYMBOL)
    trade: int = rule.whole(1, MAX_NUMBER)


@dataclass(frozen=True, slots=True)
class EnterTradeRequest:
    """Enter a trade that was made outside the book."""

    symbol: str = rule.text(_MAX_SYMBOL)
    price: int = rule.price(default=MISSING)
    quantity: int = rule.whole(1, MAX_QUANTITY)
    buyer: int | None = rule.whole(1, MAX_NUMBER, default=None)
    seller: int | None = rule.whole(1, MAX_NUMBER, default=None)
    kind: str | None = rule.choice(TrdSubType.__members__, default=None)
    crossed: bool = rule.flag()
    out_of_sequence: bool = rule.flag()
    time_ns: int | None = rule.whole(0, MAX_TIME_NS, default=None)
    days: int | None = rule.whole(1, _MAX_DAYS, default=None)
    rate: int | None = rule.decimal(0, 100, 4, "a fraction", default=None)


@dataclass(frozen=True, slots=True)
class AmendTradeRequest:
    """Correct a trade; a missing field keeps its value."""

    symbol: str = rule.text(_MAX_SYMBOL)
    trade: int = rule.whole(1, MAX_NUMBER)
    price: int | None = rule.price()
    quantity: int | None = rule.whole(1, MAX_QUANTITY, default=None)
    buyer: int | None = rule.whole(1, MAX_NUMBER, default=None)
    seller: int | None = rule.whole(1, MAX_NUMBER, default=None)
    time_ns: int | None = rule.whole(0, MAX_TIME_NS, default=None)


@dataclass(frozen=True, slots=True)
class CancelRequest:
    """Cancel any order."""

    order: int = rule.whole(1, MAX_ORDER_ID)


@dataclass(frozen=True, slots=True)
class DeleteSideRequest:
    """Cancel all orders of one side of a book."""

    symbol: str = rule.text(_MAX_SYMBOL)
    side: str = rule.choice(OrderSide.__members__)


@dataclass(frozen=True, slots=True)
class NewsRequest:
    """Publish a piece of news."""

    headline: str = rule.text(MAX_HEADLINE_BYTES)
    text: str = rule.text(MAX_TEXT_BYTES, empty=True, default="")
    symbol: str = rule.text(_MAX_SYMBOL, empty=True, default="")


@dataclass(frozen=True, slots=True)
class CatalogueRequest:
    """Instruments to list, or their new definitions."""

    text: str = rule.text(MAX_CATALOGUE_BYTES)
    form: str = rule.choice(("TOML", "JSON"), default="TOML")
    source: str = rule.text(4_096, default="the instruments")


@dataclass(frozen=True, slots=True)
class RemoveRequest:
    """Delist an instrument."""

    symbol: str = rule.text(_MAX_SYMBOL)


@dataclass(frozen=True, slots=True)
class PriceLimitsRequest:
    """Set a price band; the engine requires both limits.

    They are prices, or numbers of percent from the midpoint (5 % below is -5).
    """

    symbol: str = rule.text(_MAX_SYMBOL)
    kind: str = rule.choice(PriceBandType.__members__, default=_DEFAULT_BAND)
    low: int | None = rule.price()
    high: int | None = rule.price()
    limits: str = rule.choice(PriceLimitType.__members__, default=PriceLimitType.PRICE_UNIT.name)
    midpoint: str | None = rule.choice(PriceBandMidpoint.__members__, default=None)


@dataclass(frozen=True, slots=True)
class ReferencePriceRequest:
    """Set the reference price, which economic indicators publish."""

    symbol: str = rule.text(_MAX_SYMBOL)
    price: int = rule.price(decimals=8, default=MISSING)


@dataclass(frozen=True, slots=True)
class QuantityBandRequest:
    """Set the maximum quantity of an order; without one there is no limit."""

    symbol: str = rule.text(_MAX_SYMBOL)
    maximum: int | None = rule.whole(0, MAX_QUANTITY, default=None)
    average: int | None = rule.whole(0, MAX_QUANTITY, default=None)


@dataclass(frozen=True, slots=True)
class SettlementPriceRequest:
    """Publish a settlement price."""

    symbol: str = rule.text(_MAX_SYMBOL)
    price: int = rule.price(default=MISSING)
    flag: str = rule.choice(OpenCloseSettlFlag.__members__, default=OpenCloseSettlFlag.DAILY.name)
    kind: str = rule.choice(SettlPriceType.__members__, default=SettlPriceType.FINAL.name)
    price_type: str | None = rule.choice(PriceType.__members__, default=None)
    date: datetime.date | None = rule.day(FIRST_DAY, LAST_DAY, default=None)  # noqa: RUF009


@dataclass(frozen=True, slots=True)
class ClosingPriceRequest:
    """Publish the closing price of the day, or of the previous day."""

    symbol: str = rule.text(_MAX_SYMBOL)
    price: int = rule.price(decimals=8, default=MISSING)
    previous: bool = rule.flag()
    last_trade: datetime.date | None = rule.day(  # noqa: RUF009
        FIRST_DAY, LAST_DAY, default=None
    )


@dataclass(frozen=True, slots=True)
class OpenInterestRequest:
    """Publish the number of open contracts."""

    symbol: str = rule.text(_MAX_SYMBOL)
    quantity: int = rule.whole(0, MAX_QUANTITY)


@dataclass(frozen=True, slots=True)
class WatchTable:
    """An instrument or asset that a protection watches, and what of it counts and is canceled."""

    watch: str = rule.text(_MAX_SYMBOL)
    counts: str = rule.choice(_SCOPES, default=ProtectionScope.BOTH.name)
    cancels: str = rule.choice(_SCOPES, default=ProtectionScope.BOTH.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectRequest:
    """Set the protection limits of an account.

    ``watch`` names instruments and assets with all their options, ``references`` those with scopes.
    ``delta`` is an integer of 1e-4.
    """

    id: int = rule.whole(1, MAX_NUMBER)
    firm: int = rule.whole(1, MAX_NUMBER)
    account: int = rule.whole(0, MAX_NUMBER)
    watch: tuple[str, ...] = rule.texts(_MAX_WATCHED, _MAX_SYMBOL, default=())
    references: tuple[WatchTable, ...] = rule.records(WatchTable, _MAX_WATCHED)
    interval_ms: int = rule.whole(1, 86_400_000)
    new_order_fills: int | None = rule.whole(1, MAX_QUANTITY, default=None)
    executions: int | None = rule.whole(1, MAX_QUANTITY, default=None)
    traded_quantity: int | None = rule.whole(1, MAX_QUANTITY, default=None)
    net_quantity: int | None = rule.whole(1, MAX_QUANTITY, default=None)
    delta: int | None = rule.whole(1, MAX_QUANTITY, default=None)
    cancels_good_till: bool = rule.flag()
    cancels_stops: bool = rule.flag()
    cancels_at_close: bool = rule.flag()


@dataclass(frozen=True, slots=True)
class UnprotectRequest:
    """Remove the protection of an account."""

    id: int = rule.whole(1, MAX_NUMBER)


@dataclass(frozen=True, slots=True)
class DeltaRequest:
    """Set the delta of an instrument, with which protections count it; 1 if it was never set.

    It is a fraction, or percent: the unit of the limits of the protections.
    """

    symbol: str = rule.text(_MAX_SYMBOL)
    delta: int = rule.decimal(-100, 100, 4, "a number")


@dataclass(frozen=True, slots=True)
class BlacklistRequest:
    """Forbid an instrument as a leg of new user-defined spreads, or allow it again."""

    symbol: str = rule.text(_MAX_SYMBOL)
    remove: bool = rule.flag()


@dataclass(frozen=True, slots=True)
class PairRequest:
    """Pair two instruments: their auctions begin and end together."""

    symbol: str = rule.text(_MAX_SYMBOL)
    other: str = rule.text(_MAX_SYMBOL)


@dataclass(frozen=True, slots=True)
class AccountPositionRequest:
    """Set the position of an account in an option."""

    firm: int = rule.whole(1, MAX_NUMBER)
    account: int = rule.whole(0, MAX_NUMBER)
    symbol: str = rule.text(_MAX_SYMBOL)
    long: int = rule.whole(0, MAX_QUANTITY, default=0)
    short: int = rule.whole(0, MAX_QUANTITY, default=0)


@dataclass(frozen=True, slots=True)
class GiveUpRequest:
    """Link an account to another firm that takes up its trades; firm 0 ends the give-up."""

    firm: int = rule.whole(1, MAX_NUMBER)
    account: int = rule.whole(1, MAX_NUMBER)
    to_firm: int = rule.whole(0, MAX_NUMBER)
    to_account: int = rule.whole(0, MAX_NUMBER)


@dataclass(frozen=True, slots=True)
class TakeUpRequest:
    """Accept or refuse a given-up trade."""

    id: int = rule.whole(1, MAX_NUMBER)
    refuse: bool = rule.flag()


@dataclass(frozen=True, slots=True)
class ResetRequest:
    """Send all books of a channel again, after a ChannelReset."""

    channel: int = rule.whole(0, 255)


@dataclass(frozen=True, slots=True)
class BookResetRequest:
    """Send the book of an instrument again, after an EmptyBook."""

    symbol: str = rule.text(_MAX_SYMBOL)


@dataclass(frozen=True, slots=True)
class StreamResetRequest:
    """Restart the incremental stream of a channel, then send its books again."""

    channel: int = rule.whole(0, 255)


@dataclass(frozen=True, slots=True)
class EndDayRequest:
    """End the trading day."""


@dataclass(frozen=True, slots=True)
class DayRequest:
    """Start a trading day."""

    date: datetime.date = rule.day(FIRST_DAY, LAST_DAY)  # noqa: RUF009
    week: bool = rule.flag()


@dataclass(frozen=True, slots=True)
class DisconnectRequest:
    """End the connection of a session."""

    session: int = rule.whole(1, MAX_NUMBER)


@dataclass(frozen=True, slots=True)
class FailoverRequest:
    """Fail the active gateway: the backup takes over its sessions."""


ControlRequest = (
    PhaseRequest
    | HaltRequest
    | ForbidRequest
    | AuctionRequest
    | ResumeRequest
    | BustRequest
    | EnterTradeRequest
    | AmendTradeRequest
    | CancelRequest
    | DeleteSideRequest
    | NewsRequest
    | CatalogueRequest
    | RemoveRequest
    | PriceLimitsRequest
    | ReferencePriceRequest
    | QuantityBandRequest
    | SettlementPriceRequest
    | ClosingPriceRequest
    | OpenInterestRequest
    | ProtectRequest
    | UnprotectRequest
    | DeltaRequest
    | BlacklistRequest
    | PairRequest
    | AccountPositionRequest
    | GiveUpRequest
    | TakeUpRequest
    | ResetRequest
    | BookResetRequest
    | StreamResetRequest
    | EndDayRequest
    | DayRequest
    | DisconnectRequest
    | FailoverRequest
)

REQUESTS: Final[dict[str, type]] = {
    "phase": PhaseRequest,
    "halt": HaltRequest,
    "forbid": ForbidRequest,
    "auction": AuctionRequest,
    "resume": ResumeRequest,
    "bust": BustRequest,
    "trade": EnterTradeRequest,
    "amend-trade": AmendTradeRequest,
    "cancel": CancelRequest,
    "delete-side": DeleteSideRequest,
    "news": NewsRequest,
    "add": CatalogueRequest,
    "change": CatalogueRequest,
    "remove": RemoveRequest,
    "band": PriceLimitsRequest,
    "reference": ReferencePriceRequest,
    "quantity-band": QuantityBandRequest,
    "settlement": SettlementPriceRequest,
    "closing": ClosingPriceRequest,
    "open-interest": OpenInterestRequest,
    "protect": ProtectRequest,
    "unprotect": UnprotectRequest,
    "delta": DeltaRequest,
    "blacklist": BlacklistRequest,
    "pair": PairRequest,
    "position": AccountPositionRequest,
    "give-up": GiveUpRequest,
    "take-up": TakeUpRequest,
    "reset": ResetRequest,
    "reset-book": BookResetRequest,
    "reset-stream": StreamResetRequest,
    "end-day": EndDayRequest,
    "day": DayRequest,
    "disconnect": DisconnectRequest,
    "failover": FailoverRequest,
}


def journaled_request(record: Any) -> Any:
    """Return the request of a journal record; version 0.1 wrote the command's name as ``do``."""
    if isinstance(record, dict) and "do" in record and "command" not in record:
        return {"command" if field == "do" else field: record[field] for field in record}
    return record


def parse_request(request: Mapping[str, Any]) -> tuple[str, ControlRequest]:
    """Return the command name and record of a request; raise UsageError if it is invalid."""
    name = request.get("command")
    kind = REQUESTS.get(name) if isinstance(name, str) else None
    if kind is None or not isinstance(name, str):
        shown = f"{name!r:.80}"
        raise UsageError(f"unknown command {shown}: use one of {', '.join(sorted(REQUESTS))}")
    values = {field: value for field, value in request.items() if field != "command"}
    parsed: ControlRequest = rule.read_record(name, kind, values)
    return name, parsed
