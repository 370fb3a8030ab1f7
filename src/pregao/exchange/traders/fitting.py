"""A profile fitted to the order flow of a real day: a first guess, then step by step.

Each step compares what a run with the profile gave with what was wanted, and turns the numbers
that have the most to do with each difference. Some numbers depend on others only through the
market itself, so there is no formula to solve.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pregao.exchange.traders.profiles import FLOW_NUMBERS, bundled_data

BASE = "thin-derivatives"
"""The bundled profile that a fit begins with."""
_LEAST, _MOST = 0.25, 4.0
"""No number changes by more than this in one step."""
_LEAST_CALM, _MOST_CALM = 0.03, 1.0


@dataclass(frozen=True, slots=True)
class Flow:
    """What is known of a flow of orders."""

    events_per_second: float
    numbers: Mapping[str, float]
    """By the names of `FLOW_NUMBERS`."""


@dataclass(frozen=True, slots=True)
class RealFlow(Flow):
    """What is known of a real flow besides."""

    instruments: int
    security_types: Sequence[str]
    replaced: float
    """Share of the cancelled orders that were replaced."""
    firmless: float
    """Share of the orders without a firm."""
    resting: float
    """Orders on a side of an instrument in the mean."""
    lots: Sequence[tuple[int, float]]
    """Sizes of orders in lots, with their shares."""


def first_guess(real: RealFlow) -> dict[str, Any]:
    """A profile, as data, that takes over what can be taken over."""
    data = copy.deepcopy(bundled_data(BASE))
    wanted = real.numbers
    if real.security_types:
        data["security_types"] = list(real.security_types)
    data["rate"] = _shown(real.events_per_second)
    lots = [(lots, share) for lots, share in real.lots if lots >= 1]
    if lots:
        data["quantities"] = {
            "lots": [size for size, _ in lots],
            "weights": [_shown(100 * share) for _, share in lots],
        }
    median, tenth = wanted["lifetime_median_ms"], wanted["lifetime_p10_ms"]
    data["makers"]["life_ms"] = _shown(max(median, 1e-3))
    data["makers"]["life_spread"] = _shown(_spread(median, tenth))
    data["makers"]["replace"] = _shown(min(real.replaced, 0.9))
    data["members"]["shown"] = _shown(1 - real.firmless)
    data["book"]["orders"] = max(2, round(2 * real.resting))
    data["book"]["least"] = max(1, min(round(real.resting / 2), data["book"]["orders"]))
    data["activity"]["exponent"] = _shown(exponent_for(wanted["busiest"], real.instruments))
    data["excitation"]["branching"] = _shown(1 - _calm(1.5 / wanted["interval_cv"] ** 2))
    data["calibrated"] = {name: _shown(wanted[name]) for name in FLOW_NUMBERS}
    return data


def next_guess(data: Mapping[str, Any], real: Flow, given: Flow) -> dict[str, Any]:
    """The profile turned towards what is wanted, after a run that gave something else."""
    after = copy.deepcopy(dict(data))
    ratio = {
        name: _bounded(real.numbers[name] / given.numbers[name] if given.numbers[name] else _MOST)
        for name in FLOW_NUMBERS
    }
    after["rate"] = _shown(
        data["rate"] * _bounded(real.events_per_second / given.events_per_second)
    )
    makers, excitation = after["makers"], after["excitation"]
    makers["life_ms"] = _shown(makers["life_ms"] * ratio["lifetime_median_ms"])
    wide = _spread(real.numbers["lifetime_median_ms"], real.numbers["lifetime_p10_ms"])
    was = _spread(given.numbers["lifetime_median_ms"], given.numbers["lifetime_p10_ms"])
    makers["life_spread"] = _shown(min(makers["life_spread"] * _bounded(wide / was), 4.0))
    makers["improve"] = _shown(min(max(makers["improve"], 0.01) * ratio["improving"], 1.0))
    mix = after["open"]
    mix["take"] = _shown(mix["take"] / ratio["cancels_per_trade"])
    mix["reduce"] = _shown(max(mix["reduce"], 0.01) * ratio["amended"])
    # The mean size of clusters shows in the times between events, the spread of their sizes in
    # the Fano factor.
    calm = _calm((1 - excitation["branching"]) / ratio["interval_cv"])
    excitation["branching"] = _shown(1 - calm)
    together = excitation["together"] * ratio["fano"] / ratio["interval_cv"]
    excitation["together"] = _shown(min(max(together, 1.0), 100.0))
    excitation["near"] = _shown(min(max(excitation["near"], 0.01) * ratio["close"], 0.95))
    activity = after["activity"]
    activity["exponent"] = _shown(min(max(activity["exponent"] * ratio["busiest"], 0.0), 5.0))
    return after


def distance(real: Flow, given: Flow) -> float:
    """How far a flow is from the real one: the largest factor between two numbers."""
    factors = [given.events_per_second / real.events_per_second]
    for name in FLOW_NUMBERS:
        wanted, was = real.numbers[name], given.numbers[name]
        if wanted or was:
            factors.append(was / wanted if wanted and was else _MOST)
    return max(max(factor, 1 / factor) if factor else math.inf for factor in factors)


def profile_text(data: Mapping[str, Any]) -> str:
    """A profile as TOML, as `load_profile` reads it."""
    lines = [f"{key} = {_toml(value)}" for key, value in data.items() if not _is_table(key, value)]
    for key, value in data.items():
        if _is_table(key, value):
            lines += ["", f"[{key}]", *(f"{name} = {_toml(each)}" for name, each in value.items())]
    return "\n".join(lines) + "\n"


def exponent_for(busiest: float, instruments: int) -> float:
    """The exponent of the power law that gives the busiest of so many this share."""
    low, high = 0.0, 5.0
    for _ in range(40):
        middle = (low + high) / 2
        total = sum(rank**-middle for rank in range(1, max(instruments, 1) + 1))
        low, high = (middle, high) if 1 / total < busiest else (low, middle)
    return low


def _is_table(key: str, value: Any) -> bool:
    return isinstance(value, dict) and key != "weights"


def _toml(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name} = {_toml(each)}' for name, each in value.items())}}}"
    return repr(value)


def _spread(median: float, tenth: float) -> float:
    """The deviation of the logarithm of a time with this median and this tenth percentile."""
    return min(max(math.log(median / tenth) / 1.2816, 0.1), 4.0) if tenth > 0 else 4.0


def _calm(share: float) -> float:
    return min(max(share, _LEAST_CALM), _MOST_CALM)


def _bounded(factor: float) -> float:
    return min(max(factor, _LEAST), _MOST)


def _shown(value: float) -> float:
    """A number with as many digits as anybody reads."""
    return float(f"{value:.4g}")
