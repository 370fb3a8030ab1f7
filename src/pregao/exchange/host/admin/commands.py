"""Conversion of control requests of market operations to engine commands."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import cache
from typing import Any

from pregao.clock import MILLISECOND
from pregao.errors import EncodeError, UsageError
from pregao.exchange.engine.engine import MatchingEngine
from pregao.exchange.engine.model.commands import Command
from pregao.exchange.engine.model.enums import (
    OpenCloseSettlFlag,
    OrderSide,
    PriceBandMidpoint,
    PriceBandType,
    PriceLimitType,
    PriceType,
    ProtectionScope,
    SecurityUpdateAction,
    SettlPriceType,
    TradingSession,
    TradingStatus,
    TrdSubType,
)
from pregao.exchange.engine.model.instrument_loader import parse_catalogue
from pregao.exchange.engine.model.instruments import Instrument
from pregao.exchange.engine.model.operations_commands import (
    AddInstrument,
    AmendTrade,
    AnswerGiveUp,
    BustTrade,
    ChangeInstrument,
    DeleteSide,
    EndDay,
    EnterTrade,
    ExpelOrder,
    LinkAccounts,
    PairAuctions,
    ProtectionReference,
    PublishNews,
    RejoinGroup,
    RemoveInstrument,
    RemoveProtection,
    ResetBook,
    ResetChannel,
    ResetStream,
    SetBlacklisted,
    SetClosingPrice,
    SetDelta,
    SetGroupPhase,
    SetOpenInterest,
    SetPosition,
    SetPriceBand,
    SetProtection,
    SetQuantityBand,
    SetSecurityStatus,
    SetSettlementPrice,
    StartDay,
)
from pregao.exchange.host.admin import control_requests as requests
from pregao.exchange.host.admin.control_requests import ALL_GROUPS, PHASES, ControlRequest
from pregao.exchange.publisher.encoding.definitions import DefinitionEncoder
from pregao.exchange.publisher.encoding.encoder import FeedEncoder
from pregao.name_matching import folded, similar
from pregao.safe_io.documents import DocumentError, parse_json, parse_toml


def engine_commands(name: str, request: ControlRequest, engine: MatchingEngine) -> list[Command]:
    """Return the engine commands of a request."""
    match request:
        case requests.PhaseRequest():
            return _phase(request, engine)
        case requests.HaltRequest():
            return [SetSecurityStatus(_id(engine, request.symbol), TradingStatus.PAUSE)]
        case requests.ForbidRequest():
            return [SetSecurityStatus(_id(engine, request.symbol), TradingStatus.FORBIDDEN)]
        case requests.AuctionRequest():
            security_id, end = _id(engine, request.symbol), request.until_ns
            return [SetSecurityStatus(security_id, TradingStatus.RESERVED, end)]
        case requests.ResumeRequest():
            return [RejoinGroup(_id(engine, request.symbol))]
        case requests.BustRequest():
            return [BustTrade(_id(engine, request.symbol), request.trade)]
        case requests.EnterTradeRequest() | requests.AmendTradeRequest():
            return [_trade(request, engine)]
        case requests.CancelRequest():
            return [ExpelOrder(request.order)]
        case requests.DeleteSideRequest():
            return [DeleteSide(_id(engine, request.symbol), OrderSide[request.side])]
        case requests.NewsRequest():
            about = _id(engine, request.symbol) if request.symbol else None
            headline = request.headline.strip()
            return [PublishNews(headline, request.text or headline, security_id=about)]
        case requests.CatalogueRequest():
            return _listed(name, request, engine)
        case requests.RemoveRequest():
            return [RemoveInstrument(_id(engine, request.symbol))]
        case _:
            return _figures(request, engine) or _other_commands(request, engine)


def _figures(request: ControlRequest, engine: MatchingEngine) -> list[Command]:
    """Return the commands about bands and published figures; empty for other requests."""
    match request:
        case requests.PriceLimitsRequest():
            band = PriceBandType[request.kind]
            unit = PriceLimitType[request.limits]
            midpoint = None if request.midpoint is None else PriceBandMidpoint[request.midpoint]
            limits = (request.low, request.high)
            return [SetPriceBand(_id(engine, request.symbol), band, unit, midpoint, *limits)]
        case requests.ReferencePriceRequest():
            return [SetPriceBand(_id(engine, request.symbol), reference8=request.price)]
        case requests.QuantityBandRequest():
            security_id = _id(engine, request.symbol)
            return [SetQuantityBand(security_id, request.maximum, request.average)]
        case requests.SettlementPriceRequest():
            return [_settlement(request, engine)]
        case requests.ClosingPriceRequest():
            flag = OpenCloseSettlFlag.DAILY
            if request.previous:
                flag = OpenCloseSettlFlag.ENTRY_FROM_PREVIOUS_BUSINESS_DAY
            security_id = _id(engine, request.symbol)
            return [SetClosingPrice(security_id, request.price, flag, request.last_trade)]
        case requests.OpenInterestRequest():
            return [SetOpenInterest(_id(engine, request.symbol), request.quantity)]
        case _:
            return []


def _other_commands(request: ControlRequest, engine: MatchingEngine) -> list[Command]:
    """Return the commands about accounts, channels and days."""
    match request:
        case requests.ProtectRequest():
            return [_protection(request, engine)]
        case requests.UnprotectRequest():
            return [RemoveProtection(request.id)]
        case requests.DeltaRequest():
            return [SetDelta(_id(engine, request.symbol), request.delta)]
        case requests.BlacklistRequest():
            return [SetBlacklisted(_id(engine, request.symbol), not request.remove)]
        case requests.PairRequest():
            return [PairAuctions(_id(engine, request.symbol), _id(engine, request.other))]
        case requests.AccountPositionRequest():
            security_id = _id(engine, request.symbol)
            quantities = (request.long, request.short)
            return [SetPosition(request.firm, request.account, security_id, *quantities)]
        case requests.GiveUpRequest():
            target = (request.to_firm, request.to_account)
            return [LinkAccounts(request.firm, request.account, *target)]
        case requests.TakeUpRequest():
            return [AnswerGiveUp(request.id, not request.refuse)]
        case requests.ResetRequest():
            return [ResetChannel(request.channel)]
        case requests.BookResetRequest():
            return [ResetBook(_id(engine, request.symbol))]
        case requests.StreamResetRequest():
            return [ResetStream(request.channel)]
        case requests.EndDayRequest():
            return [EndDay()]
        case requests.DayRequest():
            return [StartDay(request.date)]
        case _:
            raise UsageError(f"{type(request).__name__} is not an engine command")


def find_instrument(engine: MatchingEngine, name: str) -> Instrument:
    """Return an instrument by symbol or security ID."""
    for each in engine.instruments:
        if folded(name) in (folded(each.symbol), str(each.security_id)):
            return each
    near = similar(name, [each.symbol for each in engine.instruments])
    hint = f"; did you mean {', '.join(near)}?" if near else ""
    raise UsageError(f"unknown instrument {name!r}{hint}")


def _id(engine: MatchingEngine, symbol: str) -> int:
    return find_instrument(engine, symbol).security_id


def _phase(request: requests.PhaseRequest, engine: MatchingEngine) -> list[Command]:
    known = list(engine.market.groups)
    group = request.group
    if group != ALL_GROUPS and group not in known:
        raise UsageError(
            f"unknown security group {group!r}: use {ALL_GROUPS} or one of {', '.join(known)}"
        )
    session = None if request.session is None else TradingSession[request.session]
    rules = None if request.auction is None else request.auction.rules()
    return [
        SetGroupPhase(
            each, PHASES[request.phase], session, request.new_session, request.open_time_ns, rules
        )
        for each in (known if group == ALL_GROUPS else [group])
    ]


def _trade(
    request: requests.EnterTradeRequest | requests.AmendTradeRequest, engine: MatchingEngine
) -> EnterTrade | AmendTrade:
    security_id = _id(engine, request.symbol)
    if isinstance(request, requests.AmendTradeRequest):
        changes = (request.price, request.quantity, request.buyer, request.seller, request.time_ns)
        if all(each is None for each in changes):
            raise UsageError(
                "amend-trade: nothing to change; it requires price, quantity, buyer, seller or "
                "time_ns"
            )
        return AmendTrade(security_id, request.trade, *changes)
    return EnterTrade(
        security_id,
        request.price,
        request.quantity,
        request.buyer,
        request.seller,
        None if request.kind is None else TrdSubType[request.kind],
        request.crossed,
        request.out_of_sequence,
        transact_time_ns=request.time_ns,
        seller_days=request.days,
        interest_rate=request.rate,
    )


def _settlement(
    request: requests.SettlementPriceRequest, engine: MatchingEngine
) -> SetSettlementPrice:
    return SetSettlementPrice(
        _id(engine, request.symbol),
        request.price,
        OpenCloseSettlFlag[request.flag],
        SettlPriceType[request.kind],
        None if request.price_type is None else PriceType[request.price_type],
        request.date,
    )


def _protection(request: requests.ProtectRequest, engine: MatchingEngine) -> SetProtection:
    if not request.watch and not request.references:
        raise UsageError("protect: watch and references are missing; name an instrument or asset")
    return SetProtection(
        request.id,
        request.firm,
        request.account,
        (
            *(_reference(engine, name) for name in request.watch),
            *(
                replace(
                    _reference(engine, each.watch),
                    counts=ProtectionScope[each.counts],
                    cancels=ProtectionScope[each.cancels],
                )
                for each in request.references
            ),
        ),
        request.interval_ms * MILLISECOND,
        request.new_order_fills,
        request.executions,
        request.traded_quantity,
        request.net_quantity,
        request.delta,
        request.cancels_good_till,
        request.cancels_stops,
        request.cancels_at_close,
    )


def _reference(engine: MatchingEngine, name: str) -> ProtectionReference:
    """Return what a protection watches: an asset of derivatives if it exists, or an instrument."""
    if any(each.asset == name and each.symbol != name for each in engine.instruments):
        return ProtectionReference(asset=name)
    return ProtectionReference(find_instrument(engine, name).security_id)


def _listed(name: str, request: requests.CatalogueRequest, engine: MatchingEngine) -> list[Command]:
    found = _instruments(request)
    if name == "change":
        return [ChangeInstrument(each) for each in found]
    channels = {each.channel for each in engine.instruments}
    for each in found:
        if each.channel not in channels:
            raise UsageError(
                f"{each.symbol}: channel {each.channel} is not published; published channels: "
                f"{', '.join(map(str, sorted(channels)))}"
            )
    return [AddInstrument(each) for each in found]


def _instruments(request: requests.CatalogueRequest) -> list[Instrument]:
    """Read the instruments of a catalog; the definition of each must be encodable on the feed."""
    try:
        if request.form == "JSON":
            document = parse_json(request.text, decimals=True)
        else:
            document = parse_toml(request.text, decimals=True)
    except DocumentError as error:
        raise UsageError(f"the instruments cannot be read: {error}") from None
    if not isinstance(document, dict):
        raise UsageError("the instruments must be a table")
    found = parse_catalogue(document, request.source)
    for each in found:
        try:
            _definitions().message(each, SecurityUpdateAction.ADD, 1, last_fragment=True)
        except EncodeError as error:
            raise UsageError(str(error)) from None
    return found


@cache
def _definitions() -> DefinitionEncoder:
    return FeedEncoder().definitions


def phase_request(command: SetGroupPhase) -> dict[str, Any]:
    """Return the control request of a scheduled change of phase."""
    names = {phase: name for name, phase in PHASES.items()}
    return {
        "command": "phase",
        "group": command.group,
        "phase": names[command.phase],
        "session": None if command.session is None else command.session.name,
        "new_session": command.new_session,
        "open_time_ns": command.open_time_ns,
        "auction": None if command.auction is None else asdict(command.auction),
    }
