"""User-defined spreads: a member combines listed instruments into one that trades immediately.

A proposal of an existing strategy returns the existing instrument; the opposite of one is refused,
since selling the existing one is equivalent. After seven days without activity the instrument is
delisted.

The strategy types of a spread's legs are those of the EntryPoint guidelines' appendix B. Strikes
and expiries are ranked among the legs: the lowest strike is 1, the nearest expiry is 1. A pattern
is the set of its legs as (side, ratio, kind, strike, expiry), written "B1C11".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date, timedelta
from itertools import pairwise
from math import gcd
from typing import NamedTuple

from pregao.exchange.engine.book.market import Market
from pregao.exchange.engine.model.commands import DefineSpread
from pregao.exchange.engine.model.enums import RATIO_SCALE, OrderSide, SecurityResponseType
from pregao.exchange.engine.model.instruments import (
    Instrument,
    Leg,
    MultiLegModel,
    MultiLegPriceMethod,
    Product,
    PutOrCall,
    SecurityType,
)
from pregao.exchange.engine.model.operations_commands import (
    AddInstrument,
    RemoveInstrument,
    SetBlacklisted,
)
from pregao.exchange.engine.model.reports import SpreadDefined
from pregao.exchange.engine.products.implied_spreads import register
from pregao.exchange.engine.products.instrument_changes import add_instrument, remove_instrument

MAX_LEGS = 40

_CASH = (SecurityType.CS, SecurityType.PS, SecurityType.ETF)

_EVEN_STRIKES = ("BO", "XT", "CO")

_PATTERNS_BY_TYPE = {
    "ST": ("B1C11 B1P11",),
    "SG": ("B1P11 B1C21",),
    "GT": ("B1C11 B1P21",),
    "RR": ("B1C21 S1P11", "B1P11 S1C21"),
    "VT": ("B1C11 S1C21", "B1P21 S1P11"),
    "DB": ("B1C11 B1C21", "B1P21 B1P11"),
    "HO": ("B1C12 S1C11", "B1P12 S1P11"),
    "DG": ("B1C12 S1C21", "B1C22 S1C11", "B1P12 S1P21", "B1P22 S1P11"),
    "12": ("B1C11 S2C21", "B1P21 S2P11"),
    "13": ("B1C11 S3C21", "B1P21 S3P11"),
    "23": ("B2C11 S3C21", "B2P21 S3P11"),
    "3W": ("B1C21 S1C31 S1P11", "B1P21 S1P11 S1C31"),
    "3C": ("B1C11 B1P11 S1C21", "B1C21 B1P21 S1C11"),
    "3P": ("B1C11 B1P11 S1P21", "B1C21 B1P21 S1P11"),
    "BX": ("B1C11 S1P11 B1P21 S1C21",),
    "BO": ("B1C11 S2C21 B1C31", "B1P31 S2P21 B1P11"),
    "XT": ("B1C11 S1C21 S1C31", "B1P31 S1P21 S1P11"),
    "CO": ("B1C11 S1C21 S1C31 B1C41", "B1P41 S1P31 S1P21 B1P11"),
    "IB": ("S1P11 B1P21 B1C21 S1C31",),
    "IC": ("S1P11 B1P21 B1C31 S1C41",),
    "HS": (
        "B1C12 B1P12 S1C11 S1P11",
        "B1C22 B1P22 S1C11 S1P11",
        "B1C12 B1P12 S1C21 S1P21",
    ),
    "JR": (
        "S1C11 B1P11 B1C12 S1P12",
        "S1C11 B1P11 B1C22 S1P22",
        "S1C21 B1P21 B1C12 S1P12",
    ),
    "SR": ("B1C11 B1C12 B1C13 B1C14", "B1P11 B1P12 B1P13 B1P14"),
}

TYPES = (*_PATTERNS_BY_TYPE, "SS", "CC", "VV", "VO", "FO", "FF", "FV", "GN")
"""All codes of the appendix."""

IDLE = timedelta(days=7)
_STRATEGY_SUB_TYPE = 90
_AS_IS = SecurityResponseType.ACCEPT_SECURITY_PROPOSAL_AS_IS
_REVISED = SecurityResponseType.ACCEPT_SECURITY_AS_PROPOSAL_WITH_REVISIONS
_REJECTED = SecurityResponseType.REJECT_SECURITY_PROPOSAL


# --- Strategy types ---


class StrategyLeg(NamedTuple):
    """A leg as a user proposes it; the ratio is an integer."""

    instrument: Instrument
    side: OrderSide
    ratio: int


def reduced(legs: Sequence[StrategyLeg]) -> list[StrategyLeg]:
    """Return the legs with the smallest integer ratios."""
    divisor = gcd(*(leg.ratio for leg in legs))
    return [leg._replace(ratio=leg.ratio // divisor) for leg in legs]


def strategy_type(legs: Sequence[StrategyLeg]) -> str:
    """Return the code of the legs' strategy, GN if there is none."""
    legs = reduced(legs)
    if all(leg.instrument.put_or_call is not None for leg in legs):
        return _of_options(legs) or "GN"
    return _of_mixed(legs) or "GN"


def _of_options(legs: Sequence[StrategyLeg]) -> str | None:
    """Return the strategy of legs that are all options."""
    if len({leg.instrument.asset for leg in legs}) > 1:
        return _conditional_curve(legs)
    strikes = sorted({leg.instrument.strike_price or 0 for leg in legs})
    expiries = sorted({_expiry(leg) for leg in legs})
    if _is_straddle_strip(legs):
        return "SS"
    shape = frozenset(
        _code(
            leg.side,
            leg.ratio,
            leg.instrument.put_or_call == PutOrCall.CALL,
            strikes.index(leg.instrument.strike_price or 0) + 1,
            expiries.index(_expiry(leg)) + 1,
        )
        for leg in legs
    )
    found = _PATTERNS.get(shape)
    if found in _EVEN_STRIKES and not _is_even(strikes):
        return None
    if found == "SR" and not _is_even([_months(expiry) for expiry in expiries]):
        return None
    return found


def _conditional_curve(legs: Sequence[StrategyLeg]) -> str | None:
    """Return CC for one option bought and one sold that differ only in the contract."""
    if len(legs) != 2 or {leg.ratio for leg in legs} != {1}:
        return None
    kinds = {leg.instrument.put_or_call for leg in legs}
    sides = {leg.side for leg in legs}
    same = len(kinds) == 1 and len({_expiry(leg) for leg in legs}) == 1
    return "CC" if same and len(sides) == 2 else None


def _is_straddle_strip(legs: Sequence[StrategyLeg]) -> bool:
    """Whether the legs are straddles bought in two or more expiries.

    The document's sentence on them is truncated: this follows what is left of it.
    """
    by_expiry: dict[date, list[StrategyLeg]] = {}
    for leg in legs:
        if leg.side != OrderSide.BUY or leg.ratio != 1:
            return False
        by_expiry.setdefault(_expiry(leg), []).append(leg)
    return len(by_expiry) > 1 and all(
        len(found) == 2
        and len({leg.instrument.put_or_call for leg in found}) == 2
        and len({leg.instrument.strike_price for leg in found}) == 1
        for found in by_expiry.values()
    )


def _of_mixed(legs: Sequence[StrategyLeg]) -> str | None:
    """Return the strategy of legs with cash instruments or single stock futures."""
    cash = [leg for leg in legs if leg.instrument.security_type in _CASH]
    futures = [leg for leg in legs if _is_stock_future(leg.instrument)]
    options = [leg for leg in legs if leg.instrument.put_or_call is not None]
    if len(cash) + len(futures) + len(options) < len(legs):
        return None
    opposed = len(legs) == 2 and legs[0].side != legs[1].side
    if options:
        if cash and futures:
            return None
        return "VO" if cash else "FO"
    if not opposed:
        return None
    if cash and futures:
        return "FV"
    return "VV" if cash else "FF"


def _is_stock_future(instrument: Instrument) -> bool:
    return instrument.security_type == SecurityType.FUT and instrument.product == Product.EQUITY


def _expiry(leg: StrategyLeg) -> date:
    return leg.instrument.maturity_date or date.max


def _months(day: date) -> int:
    return 12 * day.year + day.month


def _is_even(numbers: Iterable[int]) -> bool:
    """Whether sorted numbers are evenly spaced."""
    return len({after - before for before, after in pairwise(numbers)}) <= 1


def _code(side: OrderSide, ratio: int, call: bool, strike: int, expiry: int) -> str:
    return f"{'B' if side == OrderSide.BUY else 'S'}{ratio}{'C' if call else 'P'}{strike}{expiry}"


def _patterns() -> Iterator[tuple[frozenset[str], str]]:
    for name, shapes in _PATTERNS_BY_TYPE.items():
        for shape in shapes:
            yield frozenset(shape.split()), name


_PATTERNS = dict(_patterns())


# --- Definition and removal ---


def define_spread(market: Market, command: DefineSpread, now_ns: int) -> None:
    """List a spread that a member proposes, or report why it is refused."""
    found = _legs(market, command)
    if isinstance(found, str):
        _answer(market, command, _REJECTED, None, now_ns, found)
        return
    legs = reduced(found)
    response = _AS_IS if legs == found else _REVISED
    existing = _listed(market, legs)
    if existing is not None:
        _answer(market, command, response, existing, now_ns)
        return
    opposite = [leg._replace(side=OrderSide(3 - leg.side)) for leg in legs]
    if (other := _listed(market, opposite)) is not None:
        text = f"Opposite of a listed strategy: sell {other.symbol} instead"
        _answer(market, command, _REJECTED, None, now_ns, text)
        return
    instrument = _instrument(market, legs)
    add_instrument(market, AddInstrument(instrument), now_ns)
    register(market, market.listings[instrument.security_id])
    market.user_spreads[instrument.security_id] = market.trade_date
    _answer(market, command, response, instrument, now_ns)


def _answer(
    market: Market,
    command: DefineSpread,
    response: SecurityResponseType,
    instrument: Instrument | None,
    now_ns: int,
    text: str = "",
) -> None:
    market.exec_id += 1
    market.reports.append(
        SpreadDefined(
            market.exec_id,
            command.session,
            command.request_id,
            response,
            0 if instrument is None else instrument.security_id,
            "" if instrument is None else instrument.symbol,
            None if instrument is None else instrument.security_strategy_type,
            text,
            now_ns,
        )
    )


def _legs(market: Market, command: DefineSpread) -> list[StrategyLeg] | str:
    """Return the proposed legs, or the text that explains why they are refused."""
    by_symbol = {x.instrument.symbol: x for x in market.listings.values()}
    legs: list[StrategyLeg] = []
    for proposed in command.legs:
        listing = by_symbol.get(proposed.symbol)
        if listing is None:
            return f"The instrument {proposed.symbol} is unknown"
        instrument = listing.instrument
        if not listing.takes_orders or instrument.legs:
            return f"{instrument.symbol} cannot be a leg: it is not an outright instrument"
        if listing.security_id in market.no_legs:
            return f"{instrument.symbol} cannot be a leg: it is on the blacklist"
        if listing.reference_price() is None:
            return f"{instrument.symbol} cannot be a leg: it has no reference price"
        if proposed.ratio_qty <= 0 or proposed.ratio_qty % RATIO_SCALE:
            return f"The ratio of {instrument.symbol} must be an integer greater than zero"
        legs.append(StrategyLeg(instrument, proposed.side, proposed.ratio_qty // RATIO_SCALE))
    if not 2 <= len(legs) <= MAX_LEGS:
        return f"A strategy must have 2 to {MAX_LEGS} legs"
    if len({leg.instrument.security_id for leg in legs}) < len(legs):
        return "The same instrument is in two legs"
    first = legs[0].instrument
    for leg in legs:
        if leg.instrument.channel != first.channel:
            return f"{leg.instrument.symbol} is not on the same engine as {first.symbol}"
        if leg.instrument.min_price_increment != first.min_price_increment:
            return f"{leg.instrument.symbol} has a different tick size than {first.symbol}"
    ratios = sorted(leg.ratio for leg in reduced(legs))
    if all(gcd(ratios[0], ratio) > 1 for ratio in ratios[1:]):
        return "With these ratios the leg prices cannot add up to every spread price"
    return legs


def _listed(market: Market, legs: list[StrategyLeg]) -> Instrument | None:
    """Return the listed spread with these legs, if any."""
    proposed = {(leg.instrument.security_id, leg.side, leg.ratio * RATIO_SCALE) for leg in legs}
    for listing in market.listings.values():
        existing = listing.instrument.legs
        if len(existing) == len(proposed) and (
            {(leg.security_id, leg.side, leg.ratio_qty) for leg in existing} == proposed
        ):
            return listing.instrument
    return None


def _instrument(market: Market, legs: list[StrategyLeg]) -> Instrument:
    """Return the definition of a new spread, based on its first leg."""
    first = legs[0].instrument
    kind = strategy_type(legs)
    security_id = max(market.listings) + 1
    lot = max(leg.instrument.lot for leg in legs)
    return Instrument(
        security_id=security_id,
        symbol=f"{first.asset[:6]}{kind}{security_id % 1_000_000:06d}",
        security_group=first.security_group,
        security_type=SecurityType.MLEG,
        security_sub_type=_STRATEGY_SUB_TYPE,
        product=Product.MULTILEG,
        asset=first.asset,
        cfi_code="KXXXXX",
        min_price_increment=first.min_price_increment,
        currency=first.currency,
        settl_currency=first.settl_currency,
        min_order_qty=lot,
        min_lot_size=lot,
        issue_date=market.trade_date,
        security_strategy_type=kind,
        price_type=first.price_type,
        market_segment_id=first.market_segment_id,
        multi_leg_model=MultiLegModel.USER_DEFINED,
        multi_leg_price_method=MultiLegPriceMethod.NET_PRICE,
        legs=tuple(
            Leg(
                leg.instrument.security_id,
                leg.instrument.symbol,
                leg.ratio * RATIO_SCALE,
                leg.instrument.security_type,
                leg.side,
            )
            for leg in legs
        ),
        security_desc=" / ".join(leg.instrument.symbol for leg in legs)[:100],
        channel=first.channel,
    )


def set_blacklisted(market: Market, command: SetBlacklisted, _now_ns: int) -> None:
    """Allow or forbid an instrument as a leg of new spreads; those that exist stay."""
    security_id = market.listing(command.security_id).security_id
    if command.blacklisted:
        market.no_legs |= {security_id}
    else:
        market.no_legs -= {security_id}


def note_activity(market: Market) -> None:
    """Record, before a day ends, which spreads traded or have orders."""
    for security_id in market.user_spreads:
        listing = market.listings[security_id]
        if listing.trades or listing.bids.count or listing.offers.count:
            market.user_spreads[security_id] = market.trade_date


def remove_idle(market: Market, now_ns: int) -> None:
    """Delist spreads that have been unused for more than seven days."""
    for security_id, last in list(market.user_spreads.items()):
        if market.trade_date - last > IDLE:
            remove_instrument(market, RemoveInstrument(security_id), now_ns)
