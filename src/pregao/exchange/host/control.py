"""Commands of market operations: what a request of the control endpoint asks of the engine.

A request is a table of JSON with ``do`` and what that needs; it is kept in the journal as it came.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from pregao.clock import MILLISECOND
from pregao.errors import UsageError
from pregao.exchange.engine import AuctionRules, Engine
from pregao.exchange.engine.catalogue import parse_catalogue
from pregao.exchange.engine.commands import (
    AddInstrument,
    AnswerGiveUp,
    BustTrade,
    ChangeInstrument,
    Command,
    EndDay,
    ExpelOrder,
    LinkAccounts,
    PairAuctions,
    ProtectionReference,
    PublishNews,
    RejoinGroup,
    RemoveInstrument,
    RemoveProtection,
    ResetChannel,
    SetGroupPhase,
    SetPosition,
    SetPriceBand,
    SetProtection,
    SetSecurityStatus,
    StartDay,
)
from pregao.exchange.engine.instruments import Instrument
from pregao.exchange.engine.terms import (
    PRICE_SCALE,
    PriceBandType,
    TradingSession,
    TradingStatus,
)
from pregao.names import folded, similar

Request = Mapping[str, Any]
PHASES: Final = {
    "PRE_OPEN": TradingStatus.RESERVED,
    "OPEN": TradingStatus.OPEN,
    "PAUSE": TradingStatus.PAUSE,
    "PRE_CLOSE": TradingStatus.FORBIDDEN,
    "CLOSE": TradingStatus.CLOSE,
    "FINAL_CLOSING_CALL": TradingStatus.FINAL_CLOSING_CALL,
}
ALL_GROUPS: Final = "all"


def engine_commands(request: Request, engine: Engine) -> list[Command]:
    """What a request asks of the engine."""
    name = request.get("do")
    make = _MAKE.get(name) if isinstance(name, str) else None
    if make is None:
        raise UsageError(f"there is no command {name!r}; there are {', '.join(sorted(_MAKE))}")
    return make(request, engine)


def find_instrument(engine: Engine, name: str) -> Instrument:
    """The instrument of a symbol or number."""
    for each in engine.instruments:
        if folded(name) in (folded(each.symbol), str(each.security_id)):
            return each
    near = similar(name, [each.symbol for each in engine.instruments])
    hint = f"; did you mean {', '.join(near)}?" if near else ""
    raise UsageError(f"there is no instrument {name!r}{hint}")


def _phase(request: Request, engine: Engine) -> list[Command]:
    wanted = str(request.get("phase", "")).upper().replace("-", "_")
    phase = PHASES.get(wanted)
    if phase is None:
        raise UsageError(f"{wanted or 'nothing'!r} is no phase; there are {', '.join(PHASES)}")
    known = list(engine.market.groups)
    group = str(request.get("group", ALL_GROUPS))
    if group != ALL_GROUPS and group not in known:
        raise UsageError(f"there is no group {group!r}; there are {', '.join(known)}")
    session, rules = request.get("session"), request.get("auction")
    return [
        SetGroupPhase(
            each,
            phase,
            None if session is None else TradingSession[str(session)],
            bool(request.get("new_session", False)),
            request.get("open_time_ns"),
            None if rules is None else AuctionRules(**rules),
        )
        for each in (known if group == ALL_GROUPS else [group])
    ]


def _halt(request: Request, engine: Engine) -> list[Command]:
    return [SetSecurityStatus(_security_id(request, engine), TradingStatus.PAUSE)]


def _auction(request: Request, engine: Engine) -> list[Command]:
    end = request.get("until_ns")
    return [SetSecurityStatus(_security_id(request, engine), TradingStatus.RESERVED, end)]


def _resume(request: Request, engine: Engine) -> list[Command]:
    return [RejoinGroup(_security_id(request, engine))]


def _bust(request: Request, engine: Engine) -> list[Command]:
    return [BustTrade(_security_id(request, engine), _whole(request, "trade"))]


def _cancel(request: Request, _engine: Engine) -> list[Command]:
    return [ExpelOrder(_whole(request, "order"))]


def _news(request: Request, engine: Engine) -> list[Command]:
    headline = str(request.get("headline", "")).strip()
    if not headline:
        raise UsageError("news needs a headline")
    about = _security_id(request, engine) if request.get("symbol") else None
    text = str(request.get("text", "") or headline)
    return [PublishNews(headline, text, security_id=about)]


def _add(request: Request, engine: Engine) -> list[Command]:
    found = _instruments(request)
    channels = {each.channel for each in engine.instruments}
    for each in found:
        if each.channel not in channels:
            raise UsageError(
                f"{each.symbol} is on channel {each.channel}, which is not published; published "
                f"are {', '.join(map(str, sorted(channels)))}"
            )
    return [AddInstrument(each) for each in found]


def _change(request: Request, _engine: Engine) -> list[Command]:
    return [ChangeInstrument(each) for each in _instruments(request)]


def _remove(request: Request, engine: Engine) -> list[Command]:
    return [RemoveInstrument(_security_id(request, engine))]


def _band(request: Request, engine: Engine) -> list[Command]:
    kind = str(request.get("kind", PriceBandType.REJECTION_BAND.name))
    if kind not in PriceBandType.__members__:
        known = ", ".join(PriceBandType.__members__)
        raise UsageError(f"{kind!r} is no price band; there are {known}")
    low, high = _price(request, "low"), _price(request, "high")
    security_id = _security_id(request, engine)
    return [SetPriceBand(security_id, PriceBandType[kind], low=low, high=high)]


def _protect(request: Request, engine: Engine) -> list[Command]:
    watched = request.get("watch")
    if not isinstance(watched, list):
        raise UsageError("watch takes a list of instruments and assets")
    return [
        SetProtection(
            _whole(request, "id"),
            _whole(request, "firm"),
            _whole(request, "account"),
            tuple(_reference(engine, str(name)) for name in watched),
            _whole(request, "interval_ms") * MILLISECOND,
            _limit(request, "new_order_fills"),
            _limit(request, "executions"),
            _limit(request, "traded_quantity"),
            _limit(request, "net_quantity"),
            _limit(request, "delta"),
            bool(request.get("cancels_good_till")),
            bool(request.get("cancels_stops")),
            bool(request.get("cancels_at_close")),
        )
    ]


def _limit(request: Request, name: str) -> int | None:
    return None if request.get(name) is None else _whole(request, name)


def _reference(engine: Engine, name: str) -> ProtectionReference:
    """What a protection watches: an asset of derivatives by its name, else an instrument."""
    if any(each.asset == name and each.symbol != name for each in engine.instruments):
        return ProtectionReference(asset=name)
    return ProtectionReference(find_instrument(engine, name).security_id)


def _position(request: Request, engine: Engine) -> list[Command]:
    return [
        SetPosition(
            _whole(request, "firm"),
            _whole(request, "account"),
            _security_id(request, engine),
            _limit(request, "long") or 0,
            _limit(request, "short") or 0,
        )
    ]


def _give_up(request: Request, _engine: Engine) -> list[Command]:
    numbers = (_whole(request, name) for name in ("firm", "account", "to_firm", "to_account"))
    return [LinkAccounts(*numbers)]


def _take_up(request: Request, _engine: Engine) -> list[Command]:
    return [AnswerGiveUp(_whole(request, "id"), not request.get("refuse"))]


def _unprotect(request: Request, _engine: Engine) -> list[Command]:
    return [RemoveProtection(_whole(request, "id"))]


def _pair(request: Request, engine: Engine) -> list[Command]:
    names = (str(request.get("symbol", "")), str(request.get("other", "")))
    first, second = (find_instrument(engine, name).security_id for name in names)
    return [PairAuctions(first, second)]


def _reset(request: Request, _engine: Engine) -> list[Command]:
    return [ResetChannel(_whole(request, "channel"))]


def _end_day(_request: Request, _engine: Engine) -> list[Command]:
    return [EndDay()]


def _day(request: Request, _engine: Engine) -> list[Command]:
    try:
        day = date.fromisoformat(str(request.get("date")))
    except ValueError:
        raise UsageError(f"{request.get('date')!r} is not a date, such as 2026-05-21") from None
    return [StartDay(day)]


_MAKE: Final[dict[str, Callable[[Request, Engine], list[Command]]]] = {
    "phase": _phase,
    "halt": _halt,
    "auction": _auction,
    "resume": _resume,
    "bust": _bust,
    "cancel": _cancel,
    "news": _news,
    "add": _add,
    "change": _change,
    "remove": _remove,
    "band": _band,
    "protect": _protect,
    "unprotect": _unprotect,
    "pair": _pair,
    "position": _position,
    "give-up": _give_up,
    "take-up": _take_up,
    "reset": _reset,
    "end-day": _end_day,
    "day": _day,
}


def _security_id(request: Request, engine: Engine) -> int:
    return find_instrument(engine, str(request.get("symbol", ""))).security_id


def _whole(request: Request, name: str) -> int:
    value = request.get(name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise UsageError(f"{name} takes a whole number, not {value!r}")
    return value


def _price(request: Request, name: str) -> int | None:
    value = request.get(name)
    if value is None:
        return None
    try:
        scaled = Decimal(str(value)) * PRICE_SCALE
    except InvalidOperation:
        raise UsageError(f"{name} takes a price, not {value!r}") from None
    if not scaled.is_finite() or scaled != int(scaled):
        raise UsageError(f"{name}: {value} has more than four decimals")
    return int(scaled)


def _instruments(request: Request) -> list[Instrument]:
    """Instruments given as the text of a catalogue."""
    text = str(request.get("text", ""))
    try:
        if request.get("form") == "json":
            document = json.loads(text, parse_float=Decimal)
        else:
            document = tomllib.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the instruments cannot be read: {error}") from None
    if not isinstance(document, dict):
        raise UsageError("the instruments are not a table")
    return parse_catalogue(document, str(request.get("source", "the instruments")))


def phase_request(command: SetGroupPhase) -> dict[str, Any]:
    """A planned change of phase as a request."""
    names = {phase: name for name, phase in PHASES.items()}
    return {
        "do": "phase",
        "group": command.group,
        "phase": names[command.phase],
        "session": None if command.session is None else command.session.name,
        "new_session": command.new_session,
        "open_time_ns": command.open_time_ns,
        "auction": None if command.auction is None else asdict(command.auction),
    }
