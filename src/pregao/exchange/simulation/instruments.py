"""Selection of the simulated instruments, from a catalog and generated ones if it has too few."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from string import ascii_uppercase

from pregao.errors import UsageError
from pregao.exchange.engine.model.instrument_loader import (
    bundled_catalogue,
    isin_check_digit,
    load_catalogue,
)
from pregao.exchange.engine.model.instruments import Instrument, SecurityType
from pregao.exchange.traders.profiles import Profile

_SECURITY_ID_STEP = 7
_PATTERNS = frozenset(
    {SecurityType.CS, SecurityType.PS, SecurityType.ETF, SecurityType.CASH, SecurityType.FUT}
)
"""Types that can serve as a pattern: instruments without legs and underlyings."""


def choose_instruments(
    profile: Profile, wanted: int | None, path: Path | None, default: int
) -> list[Instrument]:
    """Return the instruments of a run, the most active first.

    Without a path, the instruments come from the bundled catalog: the first ``wanted`` (or
    ``default``) of the profile's security types; if there are too few, similar ones are
    generated. With a path, all instruments of that file are used, or the first ``wanted``.
    """
    if path is not None:
        catalogue = load_catalogue(path)
        if wanted is not None and wanted > len(catalogue):
            raise UsageError(
                f"--instruments must be at most {len(catalogue)}, the number of instruments in "
                f"{path}, was {wanted}"
            )
        return _with_needed(catalogue, catalogue, len(catalogue) if wanted is None else wanted)
    catalogue = bundled_catalogue()
    count = default if wanted is None else wanted
    fitting = [each for each in catalogue if each.security_type in profile.security_types]
    chosen = _with_needed(fitting, catalogue, count)
    missing = count - len(chosen)
    if missing > 0:
        chosen.extend(_generated(fitting, catalogue, missing, profile))
    return chosen


def _with_needed(
    fitting: Sequence[Instrument], catalogue: Sequence[Instrument], count: int
) -> list[Instrument]:
    """Return up to `count` instruments, each with its legs and underlyings.

    An instrument that does not fit together with those it needs is skipped.
    """
    by_id = {instrument.security_id: instrument for instrument in catalogue}
    chosen: dict[int, Instrument] = {}
    for instrument in fitting:
        new = [
            each
            for each in (*_needed(instrument, by_id), instrument)
            if each.security_id not in chosen
        ]
        if len(chosen) + len(new) <= count:
            chosen.update((each.security_id, each) for each in new)
    return list(chosen.values())


def _needed(instrument: Instrument, by_id: Mapping[int, Instrument]) -> list[Instrument]:
    """Return the legs and underlyings of an instrument, recursively."""
    numbers = [leg.security_id for leg in instrument.legs]
    numbers += [underlying.security_id for underlying in instrument.underlyings]
    needed = []
    for number in numbers:
        needed.extend(_needed(by_id[number], by_id))
        needed.append(by_id[number])
    return needed


def _generated(
    fitting: Sequence[Instrument], catalogue: Sequence[Instrument], count: int, profile: Profile
) -> list[Instrument]:
    """Generate instruments that copy existing ones under other names and numbers."""
    patterns = [
        each for each in fitting if each.security_type in _PATTERNS and not each.underlyings
    ]
    if not patterns:
        raise UsageError(
            f"profile {profile.name}: the catalog has only {len(fitting)} instruments of its "
            "security_types, and none of a type that others can be generated from: lower "
            "--instruments"
        )
    symbols = {each.symbol for each in catalogue}
    security_id = max(each.security_id for each in catalogue)
    generated: list[Instrument] = []
    codes = _codes()
    while len(generated) < count:
        pattern = patterns[len(generated) % len(patterns)]
        code = next(codes)
        symbol = code + pattern.symbol[4:] if pattern.symbol[4:] else code
        if symbol in symbols:
            continue
        symbols.add(symbol)
        security_id += _SECURITY_ID_STEP
        generated.append(
            replace(
                pattern,
                security_id=security_id,
                symbol=symbol,
                asset=code,
                isin_number=_isin(pattern, code),
                security_desc=f"Made up, like {pattern.symbol}",
            )
        )
    return generated


def _codes() -> Iterator[str]:
    """Yield codes of companies that do not exist: XAAA, XAAB and so on."""
    for first in "XYZWKQ":
        for letters in product(ascii_uppercase, repeat=3):
            yield first + "".join(letters)


def _isin(pattern: Instrument, code: str) -> str | None:
    if pattern.isin_number is None:
        return None
    stem = pattern.isin_number[:2] + code + pattern.isin_number[6:11]
    return stem + str(isin_check_digit(stem))
