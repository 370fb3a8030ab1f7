"""Strategy type of a spread's legs: the types of the EntryPoint guidelines' appendix B.

Strikes and expiries are ranked among the legs: the lowest strike is 1, the nearest expiry is 1. A
pattern is the set of its legs as (side, ratio, kind, strike, expiry), written "B1C11".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from itertools import pairwise
from math import gcd
from typing import NamedTuple

from pregao.exchange.engine.instruments import Instrument, Product, PutOrCall, SecurityType
from pregao.exchange.engine.terms import OrderSide

MAX_LEGS = 40

_CASH = (SecurityType.CS, SecurityType.PS, SecurityType.ETF)


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


_EVEN_STRIKES = ("BO", "XT", "CO")

_BY_TYPE = {
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


def _patterns() -> Iterator[tuple[frozenset[str], str]]:
    for name, shapes in _BY_TYPE.items():
        for shape in shapes:
            yield frozenset(shape.split()), name


_PATTERNS = dict(_patterns())

TYPES = (*_BY_TYPE, "SS", "CC", "VV", "VO", "FO", "FF", "FV", "GN")
"""All codes of the appendix."""
