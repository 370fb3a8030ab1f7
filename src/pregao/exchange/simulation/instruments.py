"""Which instruments are simulated: some of a catalogue, and more of the same kind if need be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from string import ascii_uppercase

from pregao.errors import UsageError
from pregao.exchange.engine.catalogue import bundled_catalogue, isin_check_digit, load_catalogue
from pregao.exchange.engine.instruments import Instrument, SecurityType
from pregao.exchange.traders.profiles import Profile

_SECURITY_ID_STEP = 7
_PATTERNS = frozenset(
    {SecurityType.CS, SecurityType.PS, SecurityType.ETF, SecurityType.CASH, SecurityType.FUT}
)
"""What more of can be made: instruments without legs and underlyings."""


def choose_instruments(
    profile: Profile, wanted: int | None, path: Path | None, default: int
) -> list[Instrument]:
    """The instruments of a run, the most active first.

    From the bundled catalogue those of the profile's types are taken, ``default`` of them if no
    number is wanted; when there are fewer, others like them are made up. From a file of the
    user's all are taken, or as many as are wanted.
    """
    if path is not None:
        catalogue = load_catalogue(path)
        if wanted is not None and wanted > len(catalogue):
            raise UsageError(
                f"--instruments: {wanted} are wanted, but {path} has only {len(catalogue)}"
            )
        return _with_needed(catalogue, catalogue, len(catalogue) if wanted is None else wanted)
    catalogue = bundled_catalogue()
    count = default if wanted is None else wanted
    fitting = [each for each in catalogue if each.security_type in profile.security_types]
    chosen = _with_needed(fitting, catalogue, count)
    missing = count - len(chosen)
    if missing > 0:
        chosen.extend(_made_up(fitting, catalogue, missing, profile))
    return chosen


def _with_needed(
    fitting: Sequence[Instrument], catalogue: Sequence[Instrument], count: int
) -> list[Instrument]:
    """The first instruments, each with its legs and underlyings, as far as they fit."""
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
    """Legs and underlyings, and those of these."""
    numbers = [leg.security_id for leg in instrument.legs]
    numbers += [underlying.security_id for underlying in instrument.underlyings]
    needed = []
    for number in numbers:
        needed.extend(_needed(by_id[number], by_id))
        needed.append(by_id[number])
    return needed


def _made_up(
    fitting: Sequence[Instrument], catalogue: Sequence[Instrument], count: int, profile: Profile
) -> list[Instrument]:
    """More instruments after the pattern of those that there are."""
    patterns = [
        each for each in fitting if each.security_type in _PATTERNS and not each.underlyings
    ]
    if not patterns:
        raise UsageError(
            f"profile {profile.name}: the catalogue has only {len(fitting)} instruments of its "
            "security_types, and none of a kind that more of could be made up"
        )
    symbols = {each.symbol for each in catalogue}
    security_id = max(each.security_id for each in catalogue)
    made: list[Instrument] = []
    codes = _codes()
    while len(made) < count:
        pattern = patterns[len(made) % len(patterns)]
        code = next(codes)
        symbol = code + pattern.symbol[4:] if pattern.symbol[4:] else code
        if symbol in symbols:
            continue
        symbols.add(symbol)
        security_id += _SECURITY_ID_STEP
        made.append(
            replace(
                pattern,
                security_id=security_id,
                symbol=symbol,
                asset=code,
                isin_number=_isin(pattern, code),
                security_desc=f"Made up, like {pattern.symbol}",
            )
        )
    return made


def _codes() -> Iterator[str]:
    """Names of companies that do not exist: XAAA, XAAB and so on."""
    for first in "XYZWKQ":
        for letters in product(ascii_uppercase, repeat=3):
            yield first + "".join(letters)


def _isin(pattern: Instrument, code: str) -> str | None:
    if pattern.isin_number is None:
        return None
    stem = pattern.isin_number[:2] + code + pattern.isin_number[6:11]
    return stem + str(isin_check_digit(stem))
